/* SPDX-License-Identifier: Apache-2.0
 *
 * The space of a sweep: keys, and the tiles that each may have. Tiles that do not fit, spill or
 * cannot reach what the first candidate has shown are out before anything is timed.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "targets/tgt.h"
#include "tools/attnc/tune/tune.h"

static bool same_tile(const struct tune_key *key, const char *tile)
{
    for (size_t i = 0; i < key->candidate_count; i++) {
        if (!strcmp(key->candidates[i].tile, tile))
            return true;
    }
    return false;
}

/* Adds a tile that fits and that no candidate has yet. False: out of memory. */
static bool add_candidate(struct tune_key *key, int number)
{
    const struct tgt *target = tgt_find(key->variant.target);
    struct tune_candidate c = {.variant = key->variant};
    struct att_tile tile;
    c.variant.tile = number;
    if (!att_find_tile(&c.variant, &target->machine, &tile, NULL))
        return true;
    att_tile_text(key->variant.op, &tile, c.tile);
    if (same_tile(key, c.tile))
        return true;
    struct tune_candidate *grown =
        realloc(key->candidates, (key->candidate_count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    key->candidates = grown;
    grown[key->candidate_count++] = c;
    return true;
}

static bool is_new(const struct tune_sweep *sweep, const char *text)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (!strcmp(sweep->keys[i].text, text))
            return false;
    }
    return true;
}

/* A candidate's place in the list of all. */
struct place {
    unsigned number, knobs; /* knobs that differ from its row of the table */
    bool other_row;         /* than the one that a build takes */
};

static int by_distance(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->knobs != y->knobs)
        return x->knobs < y->knobs ? -1 : 1;
    if (x->other_row != y->other_row)
        return x->other_row ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

/* The row that a build takes by itself; 0 where none fits. */
static unsigned find_own_row(const struct att_variant *v)
{
    const struct tgt *target = tgt_find(v->target);
    struct att_variant row = *v;
    struct att_tile tile;
    char own[ATT_TILE_TEXT_MAX], text[ATT_TILE_TEXT_MAX];
    if (!att_find_tile(v, &target->machine, &tile, NULL))
        return 0;
    att_tile_text(v->op, &tile, own);
    for (row.tile = 1; (unsigned)row.tile <= v->op->n_tiles; row.tile++) {
        if (!att_find_tile(&row, &target->machine, &tile, NULL))
            continue;
        att_tile_text(v->op, &tile, text);
        if (!strcmp(text, own))
            return (unsigned)row.tile - 1;
    }
    return 0;
}

/* The row that a build takes, the other rows, then what differs from these in one knob, in two, and
 * so on: the first are the likeliest to win, and a small number of them is a sample of all. */
static bool add_candidates(struct tune_key *key, size_t most)
{
    const struct att_template *op = key->variant.op;
    const unsigned count = att_count_tiles(op), own = find_own_row(&key->variant);
    struct place *places = calloc(count, sizeof(*places));
    bool good = places && add_candidate(key, 0);
    for (unsigned n = 0; good && n < count; n++)
        places[n] = (struct place){n + 1, att_count_turned(op, n + 1), n % op->n_tiles != own};
    if (good)
        qsort(places, count, sizeof(*places), by_distance);
    for (unsigned n = 0; good && n < count && key->candidate_count < most; n++)
        good = add_candidate(key, (int)places[n].number);
    free(places);
    return good;
}

bool tune_add_key(struct tune_sweep *sweep, const struct att_variant *v)
{
    struct tune_key key = {.variant = *v};
    attnc_key_text(v, key.text);
    if (v->tile || !att_count_tiles(v->op) || !is_new(sweep, key.text))
        return true;
    const bool good = add_candidates(&key, sweep->max_tiles);
    struct tune_key *grown =
        good ? realloc(sweep->keys, (sweep->key_count + 1) * sizeof(*grown)) : NULL;
    if (!grown) {
        free(key.candidates);
        return false;
    }
    sweep->keys = grown;
    grown[sweep->key_count++] = key;
    return true;
}

bool tune_add_keys(struct tune_sweep *sweep, const struct attnc_description *desc)
{
    for (size_t i = 0; i < desc->count; i++) {
        if (!tune_add_key(sweep, &desc->variants[i]))
            return false;
    }
    return true;
}

/* A measurement holds for this code, on this model. */
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

static void judge(struct tune_sweep *sweep, struct tune_key *key, size_t i)
{
    struct tune_candidate *c = &key->candidates[i];
    const struct attnc_kernel *k = &key->built.kernels[i];
    if (!k->code.size) {
        c->dropped = "does not compile";
        return;
    }
    c->kernel = k;
    hash_source(sweep, c);
    if (i && (k->facts.vgpr_spills || k->facts.scratch_bytes))
        c->dropped = "spills registers";
}

static bool compile_key(struct tune_sweep *sweep, struct tune_key *key,
                        const struct attnc_build_options *options)
{
    struct attnc_diag d = {.file = "candidates"};
    key->desc.variants = calloc(key->candidate_count, sizeof(*key->desc.variants));
    key->desc.count = key->desc.variants ? key->candidate_count : 0;
    for (size_t i = 0; i < key->desc.count; i++) {
        struct tune_candidate *c = &key->candidates[i];
        key->desc.variants[i] = c->variant;
        c->times = calloc(key->shape_count + 1, sizeof(*c->times));
        if (!c->times)
            return false;
    }
    attnc_build(&key->desc, options, &key->built, &d); /* what fails is dropped */
    const bool good = key->desc.count && !d.no_memory;
    attnc_diag_clear(&d);
    for (size_t i = 0; good && i < key->desc.count; i++) {
        judge(sweep, key, i);
        sweep->pruned += key->candidates[i].dropped != NULL;
    }
    return good;
}

bool tune_compile(struct tune_sweep *sweep, const struct attnc_build_options *options)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (sweep->keys[i].shape_count && !compile_key(sweep, &sweep->keys[i], options))
            return false;
    }
    return true;
}

void tune_sweep_free(struct tune_sweep *sweep)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        struct tune_key *key = &sweep->keys[i];
        for (size_t c = 0; c < key->candidate_count; c++) {
            free(key->candidates[c].times);
            free(key->candidates[c].measured);
        }
        attnc_build_result_free(&key->built);
        free(key->desc.variants);
        free(key->candidates);
        free(key->shapes);
    }
    free(sweep->keys);
    tune_db_close(sweep->db);
    sweep->keys = NULL;
}
