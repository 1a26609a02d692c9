/* SPDX-License-Identifier: Apache-2.0
 *
 * This file times candidates on the simulator. Each launch is in a child process: earlier launches
 * of a simulator must not influence a time, and a launch that crashes or hangs costs only its own
 * row.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/package.h"
#include "compiler/pack_writer.h"
#include "compiler/workers.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/clock.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/trace/trace.h"
#include "tools/attnc/tune/tune.h"

enum {
    /* Most launches of a key that are all timed; with more, candidates are halved in rounds. */
    EXHAUSTIVE = 512,
    SURVIVORS = 4,       /* candidates that a round of halving keeps at least */
    CHUNK = 8,           /* candidates that are compiled and timed before the next ones */
    HANG_SECONDS = 1800, /* seconds after which a launch counts as hung */
    GRACE_SECONDS = 5,   /* seconds that a launch may still take when the budget ends */
};

/* Launches that are timed together, in several workers. */
struct batch {
    struct tune_sweep *sweep;
    struct tune_item *items;
    size_t count, done;
    double until;   /* time of steady_seconds() after which no launch starts; 0: no limit */
    size_t skipped; /* launches that did not start because of `until` */
    bool broken;    /* the database cannot be written */
};

/* True if steady_seconds() is past `end`; false if `end` is 0. */
static bool is_past(double end) { return end > 0 && steady_seconds() > end; }

bool tune_is_late(const struct tune_sweep *sweep) { return is_past(sweep->deadline); }

double tune_launch_patience(const struct tune_sweep *sweep)
{
    const double left = sweep->deadline - steady_seconds() + GRACE_SECONDS;
    return sweep->deadline <= 0 || left > HANG_SECONDS ? HANG_SECONDS : left > 1 ? left : 1;
}

void tune_name_device(const struct tune_key *key, const char *parameters, char device[160])
{
    enum { LONGEST = 120 };
    const char *const target = key->variant.target;
    if (parameters && strlen(parameters) > LONGEST)
        snprintf(device, 160, "model %s #%016llx", target,
                 (unsigned long long)XXH3_64bits(parameters, strlen(parameters)));
    else
        snprintf(device, 160, "model %s%s%s", target, parameters ? " " : "",
                 parameters ? parameters : "");
}

/* Makes a pack of the kernels in memory and opens it, until the process ends. Returns NULL if that
 * fails. */
static struct attn_pack *open_pack(const struct attnc_description *desc,
                                   const struct attnc_build_result *built)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_pack *pack = NULL;
    void *bytes;
    size_t size;
    if (w && attnc_package(w, desc, built) && attnc_pack_writer_finish(w, &bytes, &size) &&
        attn_pack_open_memory(bytes, size, &pack))
        pack = NULL;
    attnc_pack_writer_destroy(w);
    return pack; /* open until the process ends */
}

struct attn_pack *tune_open_candidate(const struct tune_key *key, size_t candidate)
{
    struct tune_candidate *const c = &key->candidates[candidate];
    const struct attnc_description desc = {.variants = &c->variant, .count = 1};
    const struct attnc_build_result built = {.kernels = c->kernel, .count = 1};
    return open_pack(&desc, &built);
}

/* Returns a pack in memory with the plain build's kernels of the key, open until the process ends.
 * Returns NULL on failure. */
static struct attn_pack *open_own_pack(const struct tune_key *key)
{
    struct attnc_build_result built = {.kernels = calloc(key->own_count, sizeof(*built.kernels)),
                                       .count = key->own_count};
    struct attn_pack *pack = NULL;
    bool good = built.kernels != NULL;
    for (size_t i = 0; good && i < key->own_count; i++) {
        good = key->candidates[i].kernel;
        if (good)
            built.kernels[i] = *key->candidates[i].kernel;
    }
    if (good)
        pack = open_pack(&key->own, &built);
    free(built.kernels);
    return pack;
}

/* Opens a session from a pack of the plain build's kernels. libattn must choose the item's
 * candidate from it. Returns an exit_code after a message. */
static int open_own(const struct tune_item *item, struct trace_session *t)
{
    const char *const name = item->key->candidates[item->candidate].kernel->name;
    struct attn_pack *const pack = open_own_pack(item->key);
    if (!pack)
        return complain(EXIT_ENVIRONMENT, "no pack: %s", attn_last_error());
    const int code = trace_open_any(t, pack, item->key->shapes[item->shape].text, NULL);
    if (code != EXIT_GOOD || !strcmp(t->info.symbol, name))
        return code;
    return complain(EXIT_ENVIRONMENT, "libattn takes %s, not %s", t->info.symbol, name);
}

/* Opens a session from a pack of the item's candidate only. Returns an exit_code after a
 * message. */
static int open_alone(const struct tune_item *item, struct trace_session *t)
{
    struct attn_pack *const pack = tune_open_candidate(item->key, item->candidate);
    if (!pack)
        return complain(EXIT_ENVIRONMENT, "no pack: %s", attn_last_error());
    return trace_open(t, pack, 0, item->key->shapes[item->shape].text, NULL);
}

/* Times a launch of the item by the model and fills *v. Runs in a child process, whose last message
 * is the fault. Returns an exit_code. */
static int time_launch(const struct tune_item *item, struct tune_value *v)
{
    const struct tune_shape *const s = &item->key->shapes[item->shape];
    struct trace_session t;
    struct hipsim_time_report r = {.size = sizeof(r)};
    const struct hipsim_time_options time = {
        .size = sizeof(time), .samples_only = true, .parameters = item->parameters};
    int code = item->candidate == tune_own_candidate(item->key, s) ? open_own(item, &t)
                                                                   : open_alone(item, &t);
    if (code == EXIT_GOOD)
        code = trace_time(&t, &time, &r);
    if (code == EXIT_GOOD)
        *v = (struct tune_value){
            .cycles = r.cycles,
            .us = r.us_at_power,
            .us_low = r.us_at_power,
            .us_high = r.us_at_power,
            .matrix_duty = r.matrix_duty,
            .memory_fraction = r.memory_fraction,
            .runs = 1,
        };
    return code; /* nothing is closed: the child process ends */
}

/* Times a launch in a child process. `context` is a struct tune_item; fills the struct tune_value
 * `answer`. Returns an exit_code. */
static int call_time(void *context, void *answer) { return time_launch(context, answer); }

/* Times item `i` in a child process of a worker, and writes a struct tune_value to `out`. Writes
 * nothing if the time is up. `context` is a struct batch. */
static void work(void *context, size_t i, FILE *out)
{
    const struct batch *b = context;
    struct tune_value v = {0};
    if (is_past(b->until))
        return; /* an empty answer means that the launch was left out */
    char fault[200];
    if (!child_call(call_time, &b->items[i], &v, sizeof(v), tune_launch_patience(b->sweep),
                    fault)) {
        if (tune_is_late(b->sweep))
            return;
        v = (struct tune_value){.runs = 1};
        memcpy(v.fault, fault, sizeof(fault));
    }
    fwrite(&v, sizeof(v), 1, out);
}

/* Returns the database id of a candidate's modelled time on a shape. `device` is the text of
 * tune_name_device(). */
static struct tune_id make_id(const struct tune_key *key, size_t candidate, size_t shape,
                              const char *device)
{
    return (struct tune_id){
        .key = key->text,
        .device = device,
        .shape = key->shapes[shape].text,
        .tile = key->candidates[candidate].tile,
        .source = key->candidates[candidate].source,
    };
}

/* Counts a failed launch. Reports only the first of a run, since others tend to fail for the same
 * reason. */
static void note_failure(struct tune_sweep *sweep, const struct tune_id *id, const char *fault)
{
    if (!sweep->failed++)
        complain(EXIT_USER, "warning: a launch failed: %s, %s, on %s: %s", id->key, id->tile,
                 id->shape, fault);
}

/* Stores, in the parent, the time of item `i`: in its value and in the database. `result` is a
 * struct tune_value; its size is 0 if the launch was left out. */
static void done(void *context, size_t i, const uint8_t *result, size_t size, int status)
{
    struct batch *b = context;
    const struct tune_item *item = &b->items[i];
    struct tune_value v = {.runs = 1};
    (void)status;
    b->done++;
    if (result && size == 0) {
        b->skipped++;
        return;
    }
    if (size == sizeof(v))
        memcpy(&v, result, sizeof(v));
    else
        snprintf(v.fault, sizeof(v.fault), "the worker ended");
    char device[160];
    tune_name_device(item->key, item->parameters, device);
    const struct tune_id id = make_id(item->key, item->candidate, item->shape, device);
    *item->value = v;
    b->sweep->measured++;
    if (v.fault[0])
        note_failure(b->sweep, &id, v.fault);
    b->broken = !tune_db_put(b->sweep->db, &id, &v) || b->broken;
    char step[ATT_TILE_TEXT_MAX + TUNE_SHAPE_TEXT];
    snprintf(step, sizeof(step), "key %zu of %zu: %s %s: %.1f us", b->sweep->place,
             b->sweep->key_count, item->key->variant.op->name, id.shape, v.us);
    show_progress(b->done, b->count, step);
}

/* True if a candidate's loop, judged by its instructions, cannot use the matrix units as much as
 * the plain build's kernel did on the shape. */
static bool is_hopeless(const struct tune_key *key, size_t candidate, size_t shape)
{
    const size_t own = tune_own_candidate(key, &key->shapes[shape]);
    const struct tune_value *first = &key->candidates[own].times[shape];
    const struct tgt_kernel_facts *f = &key->candidates[candidate].kernel->facts;
    return candidate != own && f->loop.mfma && first->runs && !first->fault[0] &&
           f->mfma_duty / 1000.0 < first->matrix_duty;
}

/* True if a key has so few candidates and shapes that all of them are timed. */
static bool is_small(const struct tune_key *key)
{
    return key->candidate_count * key->shape_count <= EXHAUSTIVE;
}

/* True if this share of --shard measures the key on the shape. Of a large key one share has all
 * launches, since halving compares candidates. */
bool tune_is_ours(const struct tune_sweep *sweep, const struct tune_key *key, size_t shape)
{
    char name[ATT_TEXT_MAX + TUNE_SHAPE_TEXT];
    snprintf(name, sizeof(name), "%s %s", key->text, is_small(key) ? key->shapes[shape].text : "");
    return in_shard(&sweep->shard, name);
}

/* Reads the item's value from the database; if it is not there, adds the item to the batch. Returns
 * false if memory is exhausted. */
static bool add(struct batch *b, const struct tune_item *item)
{
    char device[160];
    tune_name_device(item->key, item->parameters, device);
    const struct tune_id id = make_id(item->key, item->candidate, item->shape, device);
    if (tune_db_find(b->sweep->db, &id, item->value)) {
        b->sweep->known++;
        if (item->value->fault[0])
            note_failure(b->sweep, &id, item->value->fault);
        return true;
    }
    struct tune_item *grown = realloc(b->items, (b->count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    b->items = grown;
    grown[b->count++] = *item;
    return true;
}

/* Adds a launch of a candidate on a shape to the batch. Skips it if it is timed, dropped, hopeless
 * or in another share. Returns false if memory is exhausted. */
static bool add_item(struct batch *b, struct tune_key *key, size_t candidate, size_t shape)
{
    struct tune_candidate *c = &key->candidates[candidate];
    const bool own = candidate == tune_own_candidate(key, &key->shapes[shape]);
    if (!c->kernel || (c->dropped && !own) || c->times[shape].runs ||
        !tune_is_ours(b->sweep, key, shape) || is_hopeless(key, candidate, shape))
        return true;
    return add(b,
               &(struct tune_item){key, candidate, shape, b->sweep->parameters, &c->times[shape]});
}

/* Times the batch's items and frees them. Adds to *left the number of launches that `until` left
 * out. Returns false if the database cannot be written. */
static bool run_batch(struct batch *b, size_t *left)
{
    const unsigned jobs = b->count < b->sweep->jobs ? (unsigned)b->count : b->sweep->jobs;
    if (b->count)
        attnc_run_workers(jobs, b->count,
                          &(struct attnc_workers){.context = b, .work = work, .done = done});
    clear_progress();
    free(b->items);
    *left += b->skipped;
    return !b->broken;
}

bool tune_time_items(struct tune_sweep *sweep, const struct tune_item *items, size_t count)
{
    struct batch b = {.sweep = sweep, .until = sweep->deadline};
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = add(&b, &items[i]);
    return run_batch(&b, &sweep->skipped) && good;
}

/* A candidate and the sum of the logarithms of its times. */
struct rank {
    size_t candidate;
    double score;
};

/* Compares two struct rank by score, then by candidate, for qsort(). */
static int by_score(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->candidate < y->candidate ? -1 : 1;
}

/* Ranks the candidates that are not dropped by their times on the first `shapes` shapes, fastest
 * first. Returns their number. The caller frees *ranks, which is NULL if memory is exhausted. */
static size_t rank_all(const struct tune_key *key, size_t shapes, struct rank **ranks)
{
    size_t count = 0;
    *ranks = calloc(key->candidate_count + 1, sizeof(**ranks));
    for (size_t i = 0; *ranks && i < key->candidate_count; i++) {
        const struct tune_candidate *c = &key->candidates[i];
        if (c->dropped)
            continue;
        double score = 0;
        for (size_t s = 0; s < shapes; s++)
            score += c->times[s].us > 0 ? log(c->times[s].us) : INFINITY;
        (*ranks)[count++] = (struct rank){i, score};
    }
    if (*ranks)
        qsort(*ranks, count, sizeof(**ranks), by_score);
    return count;
}

/* Drops the slower half of a key's candidates, by their times on the first `shapes` shapes. Returns
 * false if memory is exhausted. */
static bool halve(struct tune_key *key, size_t shapes)
{
    struct rank *ranks;
    const size_t count = rank_all(key, shapes, &ranks);
    const size_t keep = (count + 1) / 2 > SURVIVORS ? (count + 1) / 2 : SURVIVORS;
    for (size_t i = keep; ranks && i < count; i++)
        key->candidates[ranks[i].candidate].dropped = "slower than half of the others";
    const bool good = ranks;
    free(ranks);
    return good;
}

/* Compiles and times the plain build's kernels on all shapes, as the reference for other
 * candidates. Returns false on failure. */
static bool measure_own(struct tune_sweep *sweep, struct tune_key *key, double until)
{
    struct batch b = {.sweep = sweep, .until = until};
    bool good = tune_compile(sweep, key, 0, key->own_count) && tune_find_own(sweep, key);
    for (size_t s = 0; good && s < key->shape_count; s++)
        good = add_item(&b, key, tune_own_candidate(key, &key->shapes[s]), s);
    return run_batch(&b, &key->left) && good;
}

/* Times candidates `first` to `end` - 1, if not dropped, on the first `shapes` shapes. Returns
 * false on failure. */
static bool measure_some(struct tune_sweep *sweep, struct tune_key *key, size_t first, size_t end,
                         size_t shapes, double until)
{
    struct batch b = {.sweep = sweep, .until = until};
    bool good = true;
    for (size_t s = 0; s < shapes; s++) {
        for (size_t c = first; good && c < end; c++)
            good = add_item(&b, key, c, s);
    }
    const size_t left = key->left;
    good = run_batch(&b, &key->left) && good;
    key->begun = key->begun || key->left == left;
    return good;
}

/* Compiles all candidates and times them on the first `shapes` shapes, CHUNK candidates at a time.
 * Returns false on failure. */
static bool measure_all(struct tune_sweep *sweep, struct tune_key *key, size_t shapes, double until)
{
    bool good = true;
    for (size_t c = 0; good && c < key->candidate_count; c += CHUNK) {
        const size_t end = c + CHUNK < key->candidate_count ? c + CHUNK : key->candidate_count;
        if (is_past(until)) {
            key->left += (key->candidate_count - c) * shapes;
            break;
        }
        good = tune_compile(sweep, key, c, end) && measure_some(sweep, key, c, end, shapes, until);
    }
    return good;
}

/* Halves the candidates repeatedly: drops the slower half, and times the rest on twice as many
 * shapes. Returns false on failure. */
static bool measure_halves(struct tune_sweep *sweep, struct tune_key *key, double until)
{
    bool good = true;
    for (size_t shapes = 1; good && !key->left && shapes < key->shape_count; shapes *= 2) {
        if (key->halved < shapes && tune_is_ours(sweep, key, 0))
            good = halve(key, shapes);
        key->halved = shapes > key->halved ? shapes : key->halved;
        const size_t next = 2 * shapes < key->shape_count ? 2 * shapes : key->shape_count;
        good = good && measure_some(sweep, key, 0, key->candidate_count, next, until);
    }
    return good;
}

/* Returns how many launches of a key this share still has to time. */
static size_t count_left(const struct tune_sweep *sweep, const struct tune_key *key)
{
    size_t left = 0;
    for (size_t c = 0; c < key->candidate_count; c++) {
        const struct tune_candidate *const k = &key->candidates[c];
        for (size_t s = 0; s < key->shape_count && !k->dropped; s++)
            left += !(k->times && k->times[s].runs) && tune_is_ours(sweep, key, s) &&
                    !(k->kernel && is_hopeless(key, c, s));
    }
    return left;
}

/* Times the candidates that were fastest on the first shape, at most SURVIVORS, on all shapes.
 * Replaces halving if the budget has no time for it. Returns false on failure. */
static bool measure_best(struct tune_sweep *sweep, struct tune_key *key, double until)
{
    struct batch b = {.sweep = sweep, .until = until};
    struct rank *ranks;
    const size_t count = rank_all(key, 1, &ranks);
    bool good = ranks;
    for (size_t i = 0; good && i < count && i < SURVIVORS && isfinite(ranks[i].score); i++) {
        for (size_t s = 0; good && s < key->shape_count; s++)
            good = add_item(&b, key, ranks[i].candidate, s);
    }
    free(ranks);
    return run_batch(&b, &key->left) && good;
}

/* Measures a key with many launches: all candidates on the first shape, then by halving. If the
 * first round takes more than half of the time, only the best candidates go on. Returns false on
 * failure. */
static bool measure_large(struct tune_sweep *sweep, struct tune_key *key, double until)
{
    const double now = steady_seconds();
    const double half = until > 0 && until > now ? now + (until - now) / 2 : until;
    if (!measure_all(sweep, key, 1, half))
        return false;
    return key->left ? measure_best(sweep, key, until) : measure_halves(sweep, key, until);
}

bool tune_measure(struct tune_sweep *sweep, struct tune_key *key, double until)
{
    key->left = 0;
    bool good = measure_own(sweep, key, until);
    if (good && is_small(key))
        good = measure_all(sweep, key, key->shape_count, until);
    else if (good)
        good = measure_large(sweep, key, until);
    key->whole = good && !key->left;
    key->left = key->whole ? 0 : count_left(sweep, key);
    return good;
}
