/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles candidates, the tiles that a key's kernel may have. Candidates that spill registers are
 * dropped before anything is timed.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tools/attnc/cli/progress.h"
#include "tools/attnc/tune/tune.h"

/* Sets the hashes of a candidate's code: `source`, which includes the timing model, and `code`,
 * which does not. A measurement holds while they stay the same. */
static void hash_source(const struct tune_sweep *sweep, struct tune_candidate *c)
{
    struct attnc_kernel plain = *c->kernel;
    plain.code.data = NULL;
    memset(plain.name, 0, sizeof(plain.name));
    const XXH64_hash_t code = XXH3_64bits(c->kernel->code.data, c->kernel->code.size);
    const XXH64_hash_t record = XXH3_64bits_withSeed(&plain, sizeof(plain), sweep->model);
    const XXH64_hash_t plainly = XXH3_64bits(&plain, sizeof(plain));
    snprintf(c->source, sizeof(c->source), "%016llx%016llx", (unsigned long long)code,
             (unsigned long long)record);
    snprintf(c->code, sizeof(c->code), "%016llx%016llx", (unsigned long long)code,
             (unsigned long long)plainly);
}

/* Moves the kernel `k` of a build's result to the candidate. Returns false if memory is
 * exhausted. */
static bool take(struct tune_candidate *c, struct attnc_kernel *k)
{
    c->kernel = malloc(sizeof(*c->kernel));
    if (!c->kernel)
        return false;
    *c->kernel = *k;
    *k = (struct attnc_kernel){0};
    return true;
}

/* Takes over a candidate's compiled kernel `k`, or drops the candidate. `own` is true for a plain
 * build's kernel, which may spill registers. Returns false if memory is exhausted. */
static bool judge(struct tune_sweep *sweep, struct tune_candidate *c, bool own,
                  struct attnc_kernel *k)
{
    c->tried = true;
    if (!k->code.size) {
        c->dropped = "does not compile";
    } else if (!take(c, k)) {
        return false;
    } else {
        hash_source(sweep, c);
        if (!own && (c->kernel->facts.vgpr_spills || c->kernel->facts.scratch_bytes))
            c->dropped = "spills registers";
    }
    sweep->pruned += c->dropped != NULL;
    return true;
}

/* Shows on the progress bar which kernel is compiled. `user` is the struct tune_sweep. */
static void tell(void *user, const struct attnc_progress *p)
{
    const struct tune_sweep *sweep = user;
    char step[ATT_NAME_MAX + 64];
    snprintf(step, sizeof(step), "key %zu of %zu: compile %s", sweep->place, sweep->key_count,
             p->name);
    show_progress(p->done, p->total, step);
}

/* Compiles the `count` candidates with these numbers. Returns false if memory is exhausted. */
static bool compile(struct tune_sweep *sweep, struct tune_key *key, const size_t *numbers,
                    size_t count)
{
    struct attnc_build_options options = *sweep->build;
    struct attnc_description desc = {.variants = calloc(count, sizeof(*desc.variants))};
    struct attnc_build_result built = {0};
    struct attnc_diag d = {.file = "candidates"};
    bool good = desc.variants != NULL;
    options.progress = tell;
    options.user = sweep;
    for (size_t i = 0; good && i < count; i++)
        desc.variants[desc.count++] = key->candidates[numbers[i]].variant;
    if (good)
        attnc_build(&desc, &options, &built, &d);
    /* A kernel that fails to compile has no code, and judge() drops it. */
    good = good && !d.no_memory;
    for (size_t i = 0; good && i < count; i++)
        good = judge(sweep, &key->candidates[numbers[i]], numbers[i] < key->own_count,
                     &built.kernels[i]);
    clear_progress();
    attnc_diag_clear(&d);
    attnc_build_result_free(&built);
    free(desc.variants);
    return good;
}

bool tune_compile(struct tune_sweep *sweep, struct tune_key *key, size_t first, size_t end)
{
    size_t *const numbers = calloc(end - first + 1, sizeof(*numbers));
    size_t count = 0;
    bool good = numbers != NULL;
    for (size_t i = 0; good && i < key->candidate_count; i++) {
        struct tune_candidate *c = &key->candidates[i];
        if (!c->times)
            c->times = calloc(key->shape_count + 1, sizeof(*c->times));
        good = c->times != NULL;
    }
    for (size_t i = first; good && i < end; i++) {
        if (!key->candidates[i].tried)
            numbers[count++] = i;
    }
    good = good && (!count || compile(sweep, key, numbers, count));
    free(numbers);
    return good;
}
