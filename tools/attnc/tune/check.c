/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the tuned kernels of a key against a plain build. They are built as `attnc build --tuning`
 * would, and libattn dispatches each shape. It must choose the kernel whose time has decided, and
 * that must be no slower than the kernel of a build without tuning.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/pack_writer.h"
#include "compiler/package.h"
#include "compiler/workers.h"
#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/trace/trace.h"
#include "tools/attnc/tune/tune.h"

/* The check of one key: its pack, and the outcome so far. */
struct check {
    struct tune_sweep *sweep;
    struct tune_key *key;
    struct attnc_tuning *tuning;
    /* The pack, `size` bytes, owned. */
    void *bytes;
    size_t size;
    /* Hexadecimal hash of the pack, the shapes and the simulator. */
    char hash[TUNE_SOURCE];
    size_t number; /* index of the shape that a child dispatches */
    size_t done, wrong;
    /* True: the budget is spent; in tune_find_own(): the database cannot be written. */
    bool late;
    char why[400]; /* message about the first wrong shape */
};

/* The answer of a child process: the symbol of the kernel that libattn chooses, or why there is
 * none. */
struct dispatch {
    bool known;
    char kernel[ATT_NAME_MAX], fault[200];
};

/* Sets c->hash to a hash of the pack, the shapes and the simulator. A verdict in the database holds
 * for these. */
static void hash_check(struct check *c)
{
    XXH64_hash_t shapes = c->sweep->model;
    for (size_t s = 0; s < c->key->shape_count; s++)
        shapes =
            XXH3_64bits_withSeed(c->key->shapes[s].text, strlen(c->key->shapes[s].text), shapes);
    snprintf(c->hash, sizeof(c->hash), "%016llx%016llx",
             (unsigned long long)XXH3_64bits(c->bytes, c->size), (unsigned long long)shapes);
}

/* Builds a pack with the kernels of c->key under c->tuning, and hashes it. Returns false after a
 * message if it cannot be built. */
static bool build(struct check *c)
{
    struct attnc_description desc;
    struct attnc_build_result built = {0};
    struct attnc_diag d = {.file = "tuning"};
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    const bool good = w && tune_describe(c->key, c->tuning, &desc) &&
                      attnc_build(&desc, c->sweep->build, &built, &d) &&
                      attnc_package(w, &desc, &built) &&
                      attnc_pack_writer_finish(w, &c->bytes, &c->size);
    if (good)
        hash_check(c);
    attnc_diag_print(&d, stderr);
    attnc_diag_clear(&d);
    attnc_pack_writer_destroy(w);
    attnc_build_result_free(&built);
    if (w)
        attnc_description_free(&desc);
    return good;
}

/* Dispatches shape number c->number by libattn, in a child process. `context` is a struct check;
 * writes the kernel's symbol to `answer`. Returns an exit_code. */
static int call_dispatch(void *context, void *answer)
{
    const struct check *c = context;
    struct attn_pack *pack;
    struct trace_session t;
    if (attn_pack_open_memory(c->bytes, c->size, &pack))
        return complain(EXIT_ENVIRONMENT, "%s", attn_last_error());
    const int code = trace_open_any(&t, pack, c->key->shapes[c->number].text, NULL);
    if (code == EXIT_GOOD)
        snprintf(answer, ATT_NAME_MAX, "%s", t.info.symbol);
    return code;
}

/* Dispatches shape `i` in a child process of a worker, and writes a struct dispatch to `out`;
 * nothing if the budget is spent. `context` is a struct check. */
static void dispatch(void *context, size_t i, FILE *out)
{
    struct check c = *(struct check *)context;
    struct dispatch d = {0};
    c.number = i;
    if (tune_is_late(c.sweep))
        return;
    d.known = child_call(call_dispatch, &c, d.kernel, sizeof(d.kernel),
                         tune_launch_patience(c.sweep), d.fault);
    fwrite(&d, sizeof(d), 1, out);
}

/* Dispatches shape `i`, as dispatch() does, if a build's own kernel has a time on it. */
static void work(void *context, size_t i, FILE *out)
{
    const struct check *c = context;
    if (tune_own_time(c->key, i) > 0)
        dispatch(context, i, out);
}

/* Writes the name of the kernel that libattn must choose for a shape under c->tuning. */
static void name_kernel(const struct check *c, const struct tune_shape *s, char name[ATT_NAME_MAX])
{
    const struct tune_key *const key = c->key;
    const struct attnc_tuned *const row = tune_find_row(key, c->tuning, s);
    struct att_variant v = key->variant;
    if (!row || !strcmp(row->tile, ATTNC_AUTO))
        v = key->own.variants[tune_own_candidate(key, s)];
    else
        v.tile = attnc_find_candidate(&v, row->tile);
    att_variant_name(&v, name);
}

/* Counts a shape that fails the check. The message of the first one is kept: `what`, followed by
 * `kernel`. */
static void note(struct check *c, size_t shape, const char *what, const char *kernel)
{
    if (!c->wrong++)
        snprintf(c->why, sizeof(c->why), "%s: %s%s", c->key->shapes[shape].text, what, kernel);
}

/* Compares, in the parent, the kernel that libattn chose for shape `i` with the expected one.
 * `result` is a struct dispatch; its size is 0 if the worker left the shape out. */
static void done(void *context, size_t i, const uint8_t *result, size_t size, int status)
{
    struct check *c = context;
    struct dispatch d = {.fault = "the worker ended"};
    char expected[ATT_NAME_MAX];
    (void)status;
    c->done++;
    if (result && !size) {
        c->late = c->late || tune_is_late(c->sweep);
        return;
    }
    if (result && size == sizeof(d))
        memcpy(&d, result, sizeof(d));
    name_kernel(c, &c->key->shapes[i], expected);
    if (!d.known)
        note(c, i, d.fault, "");
    else if (strcmp(d.kernel, expected))
        note(c, i, "libattn takes ", d.kernel);
    show_progress(c->done, c->key->shape_count, "check what libattn takes");
}

/* True if the database says that this pack has passed with these shapes. Sets *id to the id of that
 * verdict. */
static bool recall(const struct check *c, struct tune_id *id, struct tune_verdict *v)
{
    *id = (struct tune_id){c->key->text, "dispatch", "", c->hash, c->hash};
    return tune_db_find_verdict(c->sweep->db, id, v) && !v->fault[0] &&
           (size_t)v->shapes == c->key->shape_count;
}

/* Dispatches all shapes by libattn and compares its choices, unless the database has the verdict.
 * Returns false if the verdict cannot be written. */
static bool look(struct check *c)
{
    struct tune_id id;
    struct tune_verdict v = {0};
    if (recall(c, &id, &v))
        return true;
    const size_t count = c->key->shape_count;
    attnc_run_workers(c->sweep->jobs < count ? c->sweep->jobs : (unsigned)count, count,
                      &(struct attnc_workers){.context = c, .work = work, .done = done});
    clear_progress();
    v = (struct tune_verdict){.shapes = (int64_t)count};
    return c->wrong || c->late || tune_db_put_verdict(c->sweep->db, &id, &v);
}

/* True if a row of the tuning gives calls of the key to a tile, not all to the plain build. */
static bool is_tuned(const struct tune_key *key, const struct attnc_tuning *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!strcmp(t->rows[i].key, key->text) && strcmp(t->rows[i].tile, ATTNC_AUTO))
            return true;
    }
    return false;
}

/* Returns the database id under which the kernel that a plain build's pack gives to a shape is
 * stored. `device` is memory for one of its texts. */
static struct tune_id own_id(const struct check *c, size_t shape, char device[160])
{
    snprintf(device, 160, "own %.150s", c->key->shapes[shape].text);
    return (struct tune_id){c->key->text, device, "", c->hash, c->hash};
}

/* Stores, in the parent, which candidate libattn chose for shape `i` from a plain build's pack: in
 * the shape and in the database. `result` is a struct dispatch. */
static void own_done(void *context, size_t i, const uint8_t *result, size_t size, int status)
{
    struct check *c = context;
    struct dispatch d = {0};
    char device[160];
    const struct tune_id id = own_id(c, i, device);
    (void)status;
    if (result && size == sizeof(d))
        memcpy(&d, result, sizeof(d));
    for (size_t k = 0; d.known && k < c->key->own_count; k++) {
        const struct tune_verdict v = {.shapes = (int64_t)k + 1};
        if (strcmp(c->key->candidates[k].kernel->name, d.kernel))
            continue;
        c->key->shapes[i].own = (unsigned)k + 1;
        c->late = !tune_db_put_verdict(c->sweep->db, &id, &v) || c->late;
    }
}

/* Sets `own` of each shape from the database; 0 where it does not say which candidate libattn
 * chooses. True if it does for all shapes. */
static bool recall_own(struct check *c)
{
    bool all = true;
    for (size_t s = 0; s < c->key->shape_count; s++) {
        char device[160];
        struct tune_verdict v = {0};
        const struct tune_id id = own_id(c, s, device);
        const bool known = tune_db_find_verdict(c->sweep->db, &id, &v) && v.shapes > 0 &&
                           (size_t)v.shapes <= c->key->own_count;
        c->key->shapes[s].own = known ? (unsigned)v.shapes : 0;
        all = all && known;
    }
    return all;
}

bool tune_find_own(struct tune_sweep *sweep, struct tune_key *key)
{
    struct attnc_tuning none = {0};
    struct check c = {.sweep = sweep, .key = key, .tuning = &none};
    const size_t count = key->shape_count;
    for (size_t i = 0; i < key->own_count; i++) {
        if (!key->candidates[i].kernel)
            return true; /* a kernel does not compile, so that there is no pack */
    }
    if (key->own_count < 2 || !build(&c))
        return true;
    if (!recall_own(&c))
        attnc_run_workers(
            sweep->jobs < count ? sweep->jobs : (unsigned)count, count,
            &(struct attnc_workers){.context = &c, .work = dispatch, .done = own_done});
    free(c.bytes);
    return !c.late;
}

/* Reports shapes on which the chosen kernel has no time, or is slower than a plain build's
 * kernel. */
static void compare(struct check *c)
{
    for (size_t s = 0; s < c->key->shape_count; s++) {
        const double own = tune_own_time(c->key, s), us = tune_chosen_time(c->key, c->tuning, s);
        if (own > 0 && (us <= 0 || us > own))
            note(c, s, us > 0 ? "slower than a build" : "not timed", "");
    }
}

bool tune_check(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *tuning)
{
    struct check c = {.sweep = sweep, .key = key, .tuning = tuning};
    if (!is_tuned(key, tuning))
        return true;
    compare(&c);
    if (!build(&c))
        snprintf(c.why, sizeof(c.why), "it cannot be built");
    const bool good = !c.bytes || look(&c);
    free(c.bytes);
    if (!c.why[0] && !c.late)
        return good;
    attnc_tuning_remove(tuning, key->text);
    if (c.late) {
        key->left++;
        key->whole = false;
    } else {
        sweep->refused++;
        complain(EXIT_USER, "warning: %s is left to the build: %s", key->text, c.why);
    }
    return good && attnc_tuning_add(tuning, key->text, ATTNC_AUTO);
}
