/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune --device hip: the candidates that are fastest by the model race on the GPU. All
 * candidates of a key and shape race in one child process, with launches that alternate. A
 * candidate that faults, kills the process or hangs is removed, and the others race again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/trace/events.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/tune/race.h"
#include "tools/attnc/tune/tune.h"

/* A race on one shape. The runners are candidates of one dispatch key. */
struct heat {
    struct tune_sweep *sweep;
    struct tune_key *key;
    size_t shape;
    /* Receives the time if only one candidate is timed; NULL: times go to
     * tune_candidate.measured. */
    struct tune_value *alone;
    /* Indexes of the racing candidates. The first is the plain build's kernel, unless it cannot
     * run. */
    size_t candidates[RACE_RUNNERS];
    size_t count;
    /* Index of the runner that the child is timing; in memory that the child shares. */
    volatile size_t *running;
};

/* The child's side of a race. */
struct lane {
    /* Shared events, and a session for each runner. */
    struct events events;
    struct trace_session sessions[RACE_RUNNERS];
    /* The index of the runner that is being timed, for the parent. */
    volatile size_t *running;
    char why[160];
};

/* The child's answer. */
struct answer {
    struct race_result result;
    /* True: a launch failed, of runner `culprit`, for the reason in `fault`. */
    bool faulted;
    /* The first runner that failed. Later failures of others may be its fault. */
    size_t culprit;
    char fault[160];
};

/* In the child process of a race: its answer to the parent, in which sample() stores the first
 * fault. NULL: no race was begun. */
static struct answer *shared_answer;

/* Launches runner `which` once on the GPU and sets *us to its time in us. Stores the first fault in
 * shared_answer. Returns false if the launch failed. */
static bool sample(void *context, size_t which, double *us)
{
    struct lane *l = context;
    *l->running = which;
    if (events_time(&l->events, &l->sessions[which], us, l->why, sizeof(l->why)))
        return true;
    if (!shared_answer->faulted) {
        shared_answer->faulted = true;
        shared_answer->culprit = which;
        snprintf(shared_answer->fault, sizeof(shared_answer->fault), "%s", l->why);
    }
    return false;
}

/* Races the candidates of a heat, in a child process. `context` is a struct heat; fills the struct
 * answer `out`. Returns an exit_code. */
static int call_race(void *context, void *out)
{
    const struct heat *h = context;
    struct answer *a = shared_answer = out;
    struct lane *l = calloc(1, sizeof(*l));
    if (!l)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    l->running = h->running;
    for (size_t i = 0; i < h->count; i++) {
        struct attn_pack *pack = tune_open_candidate(h->key, h->candidates[i]);
        *l->running = i;
        const int code = trace_open(&l->sessions[i], pack, 0, h->key->shapes[h->shape].text,
                                    &(struct trace_gpu){.real = true});
        if (code != EXIT_GOOD)
            return code;
    }
    if (!events_open(&l->events, &l->sessions[0], h->sweep->flush, l->why, sizeof(l->why)))
        return complain(EXIT_ENVIRONMENT, "%s", l->why);
    const struct race_options o = {.warm_up = 3,
                                   .least = 15,
                                   .most = RACE_ROUNDS,
                                   .precision = 0.005,
                                   .seconds = h->sweep->race_seconds};
    race_run(&o, h->count, sample, l, &a->result);
    return EXIT_GOOD;
}

/* Stores the time of runner `i` in the heat and the database. The time is `base`, the first
 * runner's in us, times the ratio in `f`. If `fault` is not empty, it is stored in place of a time.
 * Returns false if the database cannot be written. */
static bool keep(const struct heat *h, size_t i, const struct race_figure *f, double base,
                 const char *fault)
{
    struct tune_candidate *c = &h->key->candidates[h->candidates[i]];
    struct tune_value v = {.runs = f->runs ? f->runs : 1};
    const struct tune_id id = {h->key->text, h->sweep->gpu, h->key->shapes[h->shape].text, c->tile,
                               c->code};
    if (fault[0]) {
        snprintf(v.fault, sizeof(v.fault), "%s", fault);
    } else {
        v.us = base * f->ratio;
        v.us_low = i ? base * f->ratio_low : f->low; /* its ratio to itself is 1 */
        v.us_high = i ? base * f->ratio_high : f->high;
    }
    *(h->alone ? h->alone : &c->measured[h->shape]) = v;
    h->sweep->measured++;
    if (fault[0] && !h->sweep->failed++)
        complain(EXIT_USER, "warning: a launch failed: %s, %s, on %s: %s", h->key->text, c->tile,
                 id.shape, fault);
    return tune_db_put(h->sweep->db, &id, &v);
}

/* Removes runner `i` from the heat. */
static void drop(struct heat *h, size_t i)
{
    h->count--;
    memmove(&h->candidates[i], &h->candidates[i + 1], (h->count - i) * sizeof(h->candidates[0]));
}

/* Runs one race in a child process and stores the times. Returns true if no runner failed.
 * Otherwise *culprit is the index of the runner that failed, and `fault` says why. *good is false
 * if memory is exhausted or the database cannot be written. */
static bool race_once(struct heat *h, size_t *culprit, char fault[200], bool *good)
{
    struct answer *a = calloc(1, sizeof(*a));
    const double seconds = h->sweep->patience + 4 * h->sweep->race_seconds;
    *good = a != NULL;
    *h->running = 0;
    const bool ended = a && child_call(call_race, h, a, sizeof(*a), seconds, fault);
    const bool sound = ended && !a->faulted;
    *culprit = *h->running < h->count ? *h->running : 0;
    if (ended && a->faulted) {
        *culprit = a->culprit;
        snprintf(fault, 200, "%s", a->fault);
    }
    for (size_t i = 0; sound && *good && i < h->count; i++)
        *good = keep(h, i, &a->result.figures[i], a->result.figures[0].us, "");
    free(a);
    return sound;
}

/* Races until no runner fails; each that fails is removed. Returns false if memory is exhausted or
 * the database cannot be written. */
static bool race(struct heat *h)
{
    static const struct race_figure none;
    bool good = true;
    char fault[200];
    size_t culprit;
    while (h->count && good && !race_once(h, &culprit, fault, &good)) {
        good = good && keep(h, culprit, &none, 0, fault);
        drop(h, culprit);
    }
    return good;
}

/* Selects the runners: the plain build's kernel, and up to `finalists` candidates that are fastest
 * by the model. */
static void choose_finalists(struct heat *h)
{
    const struct tune_key *key = h->key;
    const size_t none = key->candidate_count;
    h->count = 0;
    h->candidates[h->count++] = tune_own_candidate(key, &key->shapes[h->shape]);
    while (h->count <= h->sweep->finalists && h->count < RACE_RUNNERS) {
        size_t best = none;
        for (size_t c = 0; c < key->candidate_count; c++) {
            const struct tune_value *v = &key->candidates[c].times[h->shape];
            bool in = false;
            for (size_t i = 0; i < h->count; i++)
                in = in || h->candidates[i] == c;
            if (!in && !key->candidates[c].dropped && v->runs && !v->fault[0] &&
                (best == none || v->us < key->candidates[best].times[h->shape].us))
                best = c;
        }
        if (best == none)
            return;
        h->candidates[h->count++] = best;
    }
}

/* Reads the times of all runners from the database. If this machine has no GPU, times of any GPU
 * will do. True if none is missing. */
static bool recall(struct heat *h)
{
    size_t known = 0;
    for (size_t i = 0; i < h->count; i++) {
        struct tune_candidate *c = &h->key->candidates[h->candidates[i]];
        const struct tune_id id = {h->key->text, h->sweep->gpu, h->key->shapes[h->shape].text,
                                   c->tile, c->code};
        struct tune_value *v = h->alone ? h->alone : &c->measured[h->shape];
        known += h->sweep->gpu[0] ? tune_db_find(h->sweep->db, &id, v)
                                  : tune_db_find_measured(h->sweep->db, &id, v);
    }
    if (known == h->count)
        h->sweep->known += known;
    return known == h->count;
}

/* The arguments of call_name(). */
struct name_call {
    struct attn_pack *pack;
    const char *target;
};

/* Opens the GPU and writes its name to `answer`, in a child process. `context` is a struct
 * name_call. Returns an exit_code. */
static int call_name(void *context, void *answer)
{
    const struct name_call *c = context;
    struct gpu gpu;
    char why[600];
    struct attn_device_info info = {.size = sizeof(info)};
    if (!gpu_open(&gpu, &(struct gpu_choice){.target = c->target}, c->pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    attn_device_describe(gpu.device, &info);
    snprintf(answer, 160, "%.150s", info.name);
    return EXIT_GOOD;
}

/* Sets sweep->gpu to the name of the GPU, by which measurements are known; "" after a message if
 * there is none for the key's target. */
static void find_gpu(struct tune_sweep *sweep, const struct tune_key *key)
{
    char why[200];
    struct name_call call = {tune_open_candidate(key, 0), key->variant.target};
    sweep->gpu[0] = '\0';
    const bool found =
        call.pack && child_call(call_name, &call, sweep->gpu, sizeof(sweep->gpu), 120, why);
    if (!found)
        complain(EXIT_ENVIRONMENT, "no GPU for %s: %s; what the database has of one decides",
                 key->variant.target, call.pack ? why : "no pack");
}

/* Races candidates of h->key on each of its shapes. Returns false if memory is exhausted or the
 * database cannot be written. */
static bool measure_key(struct heat *h)
{
    struct tune_key *key = h->key;
    for (size_t c = 0; c < key->candidate_count; c++) {
        free(key->candidates[c].measured);
        key->candidates[c].measured = calloc(key->shape_count + 1, sizeof(struct tune_value));
        if (!key->candidates[c].measured)
            return false;
    }
    for (h->shape = 0; h->shape < key->shape_count; h->shape++) {
        if (tune_is_late(h->sweep)) {
            key->left++;
            continue;
        }
        if (!tune_is_ours(h->sweep, key, h->shape))
            continue;
        choose_finalists(h);
        show_progress(h->shape, key->shape_count, key->shapes[h->shape].text);
        if (!recall(h) && h->sweep->gpu[0] && !race(h))
            return false;
        key->on_gpu = key->on_gpu || key->candidates[h->candidates[0]].measured[h->shape].runs;
    }
    key->whole = key->whole && !key->left;
    clear_progress();
    return true;
}

/* Allocates the memory that the heat shares with its child processes. Returns false if it is
 * exhausted. */
static bool open_heat(struct heat *h)
{
    h->running =
        mmap(NULL, sizeof(*h->running), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return h->running != MAP_FAILED;
}

/* Frees the memory that the heat shared with its child processes. */
static void close_heat(struct heat *h) { munmap((void *)h->running, sizeof(*h->running)); }

bool tune_time_gpu(struct tune_sweep *sweep, struct tune_key *key, size_t candidate, size_t shape,
                   struct tune_value *value)
{
    struct heat h = {.sweep = sweep, .key = key, .shape = shape, .alone = value, .count = 1};
    h.candidates[0] = candidate;
    if (!open_heat(&h))
        return false;
    const bool good = recall(&h) || !sweep->gpu[0] || race(&h);
    close_heat(&h);
    return good;
}

bool tune_measure_gpu(struct tune_sweep *sweep, struct tune_key *key)
{
    const char *const target = key->variant.target;
    struct heat h = {.sweep = sweep, .key = key};
    if (!key->candidates[0].kernel)
        return true;
    if (!open_heat(&h))
        return false;
    if (!sweep->gpu_target || strcmp(sweep->gpu_target, target)) {
        sweep->gpu_target = target;
        find_gpu(sweep, key);
    }
    const bool good = measure_key(&h);
    close_heat(&h);
    return good;
}
