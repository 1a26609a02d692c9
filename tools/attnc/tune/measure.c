/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing and verification of candidates. Each launch is a process of its own: what a simulator has
 * done before must not show in a figure, and a launch that dies or hangs costs one row.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/package.h"
#include "compiler/pack_writer.h"
#include "compiler/workers.h"
#include "tools/attnc/child_call.h"
#include "tools/attnc/clock.h"
#include "tools/attnc/command.h"
#include "tools/attnc/progress.h"
#include "tools/attnc/trace.h"
#include "tools/attnc/tune/tune.h"

enum {
    EXHAUSTIVE = 512, /* measurements of a key; where there would be more, candidates are halved */
    SURVIVORS = 4,
    HANG_SECONDS = 1800,
};

struct batch {
    struct tune_sweep *sweep;
    struct tune_item *items;
    size_t count, done;
    bool broken; /* the database cannot be written */
};

/* "model gfx950", with the parameters that were changed. */
static void name_device(const struct tune_key *key, const char *parameters, char device[160])
{
    snprintf(device, 160, "model %s%s%s", key->variant.target, parameters ? " " : "",
             parameters ? parameters : "");
}

struct attn_pack *tune_open_candidate(const struct tune_key *key, size_t candidate)
{
    struct attnc_description desc = {.variants = &key->desc.variants[candidate], .count = 1};
    const struct attnc_build_result built = {.kernels = &key->built.kernels[candidate], .count = 1};
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_pack *pack = NULL;
    void *bytes;
    size_t size;
    if (w && attnc_package(w, &desc, &built) && attnc_pack_writer_finish(w, &bytes, &size) &&
        attn_pack_open_memory(bytes, size, &pack))
        pack = NULL;
    attnc_pack_writer_destroy(w);
    return pack; /* for the rest of this process's life */
}

/* In a process of its own, whose standard error is the fault. */
static int time_launch(const struct tune_item *item, struct tune_value *v)
{
    struct attn_pack *pack = tune_open_candidate(item->key, item->candidate);
    struct trace_session t;
    struct hipsim_time_report r;
    if (!pack)
        return complain(EXIT_ENVIRONMENT, "no pack: %s", attn_last_error());
    const struct hipsim_time_options time = {.samples_only = true, .parameters = item->parameters};
    int code = trace_open(&t, pack, 0, item->key->shapes[item->shape].text, NULL);
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
    return code; /* the process ends: nothing is closed */
}

static int call_time(void *context, void *answer) { return time_launch(context, answer); }

/* In a worker. */
static void work(void *context, size_t i, FILE *out)
{
    const struct batch *b = context;
    struct tune_value v = {0};
    if (b->sweep->deadline && steady_seconds() > b->sweep->deadline)
        return; /* an empty answer: not measured */
    char fault[200];
    if (!child_call(call_time, &b->items[i], &v, sizeof(v), HANG_SECONDS, fault)) {
        v = (struct tune_value){.runs = 1};
        memcpy(v.fault, fault, sizeof(fault));
    }
    fwrite(&v, sizeof(v), 1, out);
}

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

/* In the parent: one measurement is there. */
static void done(void *context, size_t i, const uint8_t *result, size_t size, int status)
{
    struct batch *b = context;
    const struct tune_item *item = &b->items[i];
    struct tune_value v = {.runs = 1};
    (void)status;
    b->done++;
    if (result && size == 0) {
        b->sweep->skipped++;
        return;
    }
    if (size == sizeof(v))
        memcpy(&v, result, sizeof(v));
    else
        snprintf(v.fault, sizeof(v.fault), "the worker ended");
    char device[160];
    name_device(item->key, item->parameters, device);
    const struct tune_id id = make_id(item->key, item->candidate, item->shape, device);
    *item->value = v;
    b->sweep->measured++;
    b->sweep->failed += v.fault[0] != '\0';
    b->broken = !tune_db_put(b->sweep->db, &id, &v) || b->broken;
    char step[ATT_TILE_TEXT_MAX + TUNE_SHAPE_TEXT];
    snprintf(step, sizeof(step), "%s %s: %.1f us", item->key->variant.op->name, id.shape, v.us);
    show_progress(b->done, b->count, step);
}

/* A candidate whose loop, by its instructions, cannot keep the matrix units as busy as the first
 * candidate's did. */
static bool is_hopeless(const struct tune_key *key, size_t candidate, size_t shape)
{
    const struct tune_value *first = &key->candidates[0].times[shape];
    const struct tgt_kernel_facts *f = &key->candidates[candidate].kernel->facts;
    return candidate && f->loop.mfma && first->runs && !first->fault[0] &&
           f->mfma_duty / 1000.0 < first->matrix_duty;
}

static bool is_small(const struct tune_key *key)
{
    return key->candidate_count * key->shape_count <= EXHAUSTIVE;
}

/* Halving compares candidates, so that all of a key's must be measured in one place. */
bool tune_is_ours(const struct tune_sweep *sweep, const struct tune_key *key, size_t shape)
{
    char name[ATT_TEXT_MAX + TUNE_SHAPE_TEXT];
    snprintf(name, sizeof(name), "%s %s", key->text, is_small(key) ? key->shapes[shape].text : "");
    return in_shard(&sweep->shard, name);
}

/* Takes what the database has; else it is to be measured. False: out of memory. */
static bool add(struct batch *b, const struct tune_item *item)
{
    char device[160];
    name_device(item->key, item->parameters, device);
    const struct tune_id id = make_id(item->key, item->candidate, item->shape, device);
    if (tune_db_find(b->sweep->db, &id, item->value)) {
        b->sweep->known++;
        return true;
    }
    struct tune_item *grown = realloc(b->items, (b->count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    b->items = grown;
    grown[b->count++] = *item;
    return true;
}

static bool add_item(struct batch *b, struct tune_key *key, size_t candidate, size_t shape)
{
    struct tune_candidate *c = &key->candidates[candidate];
    if (c->dropped || c->times[shape].runs || !tune_is_ours(b->sweep, key, shape) ||
        is_hopeless(key, candidate, shape))
        return true;
    return add(b,
               &(struct tune_item){key, candidate, shape, b->sweep->parameters, &c->times[shape]});
}

static bool run_batch(struct batch *b)
{
    const unsigned jobs = b->count < b->sweep->jobs ? (unsigned)b->count : b->sweep->jobs;
    if (b->count)
        attnc_run_workers(jobs, b->count,
                          &(struct attnc_workers){.context = b, .work = work, .done = done});
    clear_progress();
    free(b->items);
    return !b->broken;
}

bool tune_time_items(struct tune_sweep *sweep, const struct tune_item *items, size_t count)
{
    struct batch b = {.sweep = sweep};
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = add(&b, &items[i]);
    return run_batch(&b) && good;
}

struct rank {
    size_t candidate;
    double score;
};

static int by_score(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->candidate < y->candidate ? -1 : 1;
}

/* Drops the worse half of a key's candidates by the shapes below `shapes`; the first stays. */
static bool halve(struct tune_key *key, size_t shapes)
{
    struct rank *ranks = calloc(key->candidate_count, sizeof(*ranks));
    size_t count = 0;
    if (!ranks)
        return false;
    for (size_t i = 1; i < key->candidate_count; i++) {
        struct tune_candidate *c = &key->candidates[i];
        if (c->dropped)
            continue;
        double score = 0;
        for (size_t s = 0; s < shapes; s++)
            score += c->times[s].us > 0 ? log(c->times[s].us) : INFINITY;
        ranks[count++] = (struct rank){i, score};
    }
    qsort(ranks, count, sizeof(*ranks), by_score);
    const size_t keep = (count + 1) / 2 > SURVIVORS ? (count + 1) / 2 : SURVIVORS;
    for (size_t i = keep; i < count; i++)
        key->candidates[ranks[i].candidate].dropped = "slower than half of the others";
    free(ranks);
    return true;
}

/* The first candidates alone: they are what others are compared with. */
static bool measure_first(struct tune_sweep *sweep)
{
    struct batch b = {.sweep = sweep};
    bool good = true;
    for (size_t k = 0; k < sweep->key_count; k++) {
        for (size_t s = 0; good && s < sweep->keys[k].shape_count; s++)
            good = add_item(&b, &sweep->keys[k], 0, s);
    }
    return run_batch(&b) && good;
}

/* All candidates that are left, on shapes up to where this round goes: one, two, four, ... */
static bool measure_round(struct tune_sweep *sweep, size_t round, bool *more)
{
    struct batch b = {.sweep = sweep};
    bool good = true;
    *more = false;
    for (size_t k = 0; k < sweep->key_count; k++) {
        struct tune_key *key = &sweep->keys[k];
        const size_t end = is_small(key) || round > key->shape_count ? key->shape_count : round;
        for (size_t s = 0; s < end; s++) {
            for (size_t c = 1; good && c < key->candidate_count; c++)
                good = add_item(&b, key, c, s);
        }
        *more = *more || end < key->shape_count;
    }
    good = run_batch(&b) && good;
    for (size_t k = 0; k < sweep->key_count; k++) {
        struct tune_key *key = &sweep->keys[k];
        if (!is_small(key) && round < key->shape_count && tune_is_ours(sweep, key, 0))
            good = good && halve(key, round);
    }
    return good;
}

bool tune_measure(struct tune_sweep *sweep)
{
    bool good = measure_first(sweep), more = true;
    for (size_t round = 1; good && more; round *= 2)
        good = measure_round(sweep, round, &more);
    return good;
}

/* Verification. */

struct verify_call {
    const struct tune_key *key;
    size_t candidate, shapes;
    const char *hooks;
};

static void ignore_row(const struct verify_run *run, const struct verify_row *row)
{
    (void)run;
    if (row->fault[0])
        complain(EXIT_USER, "%s: %s", row->shape, row->fault);
}

static int call_verify(void *context, void *answer)
{
    const struct verify_call *c = context;
    struct attn_pack *pack = tune_open_candidate(c->key, c->candidate);
    struct attn_kernel_info info = {.size = sizeof(info)};
    char simulator[4096], why[600];
    struct gpu gpu;
    if (!pack || attn_pack_kernel(pack, 0, &info))
        return complain(EXIT_ENVIRONMENT, "no pack: %s", attn_last_error());
    if (!gpu_find_simulator(simulator, sizeof(simulator)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    if (!gpu_open(&gpu, simulator, "on", info.target, pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    struct verify_run run = {
        .pack = pack, .gpu = &gpu, .seed = 1, .print = ignore_row, .hooks = c->hooks};
    verify_kernel(&run, 0, &info, c->shapes);
    *(struct tune_verdict *)answer =
        (struct tune_verdict){.shapes = (int64_t)run.rows, .worst = run.worst};
    return run.failures ? EXIT_USER : EXIT_GOOD;
}

bool tune_verify(struct tune_sweep *sweep, struct tune_key *key, struct tune_candidate *c)
{
    const size_t candidate = (size_t)(c - key->candidates);
    struct tune_verdict v = {0};
    char device[160];
    name_device(key, sweep->parameters, device);
    struct tune_id id = {key->text, device, "", c->tile, c->source};
    const bool known = tune_db_find_verdict(sweep->db, &id, &v) &&
                       (v.fault[0] || (size_t)v.shapes >= sweep->verify_shapes);
    if (!known) {
        struct verify_call call = {key, candidate, sweep->verify_shapes, sweep->hooks};
        char fault[200];
        char step[ATT_NAME_MAX + 16];
        snprintf(step, sizeof(step), "verify %s", c->kernel->name);
        show_progress(0, 1, step);
        if (!child_call(call_verify, &call, &v, sizeof(v), HANG_SECONDS, fault)) {
            v = (struct tune_verdict){0};
            memcpy(v.fault, fault, sizeof(fault));
        }
        clear_progress();
        if (!key->variant.logits || sweep->hooks) /* else it says nothing of the kernel */
            tune_db_put_verdict(sweep->db, &id, &v);
    }
    if (!v.fault[0])
        return true;
    c->dropped = "its results are wrong";
    sweep->wrong++;
    complain(EXIT_USER, "warning: %s is out of the race: %s", c->kernel->name, v.fault);
    return false;
}
