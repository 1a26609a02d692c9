/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes the keys of a sweep, and the candidates of each key: the tiles that its kernel
 * may have. The first candidates are the kernels that a plain build makes.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/second.h"
#include "targets/tgt.h"
#include "tools/attnc/tune/tune.h"

/* True if a candidate of the key has the tile. If a plain build makes several kernels, the first
 * does not count, since a row of a tuning file cannot name it. */
static bool same_tile(const struct tune_key *key, const char *tile)
{
    for (size_t i = key->own_count > 1; i < key->candidate_count; i++) {
        if (!strcmp(key->candidates[i].tile, tile))
            return true;
    }
    return false;
}

/* Appends a copy of `c` to a key's candidates. Returns false if memory is exhausted. */
static bool append(struct tune_key *key, const struct tune_candidate *c)
{
    struct tune_candidate *grown =
        realloc(key->candidates, (key->candidate_count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    key->candidates = grown;
    grown[key->candidate_count++] = *c;
    return true;
}

/* Writes the text of the tile that a variant gets. Returns false if no tile fits. */
static bool write_tile(const struct att_variant *v, char text[ATT_TILE_TEXT_MAX])
{
    struct att_tile tile;
    if (!att_find_tile(v, &tgt_find(v->target)->machine, &tile, NULL))
        return false;
    att_tile_text(v->op, &tile, text);
    return true;
}

/* Adds tile number `number` as a candidate, if it fits and no candidate has it yet. Returns false
 * if memory is exhausted. */
static bool add_candidate(struct tune_key *key, int number)
{
    struct tune_candidate c = {.variant = key->variant};
    c.variant.tile = number;
    return !write_tile(&c.variant, c.tile) || same_tile(key, c.tile) || append(key, &c);
}

/* Adds the kernels that a plain build makes of the key as candidates, and counts them in own_count.
 * Adds none if one cannot be built. Returns false if memory is exhausted. */
static bool add_own(struct tune_key *key)
{
    struct attnc_tuning none = {0};
    if (!tune_describe(key, &none, &key->own))
        return false;
    for (size_t i = 0; i < key->own.count; i++) {
        struct tune_candidate c = {.variant = key->own.variants[i]};
        c.variant.choice = NULL;
        if (!write_tile(&c.variant, c.tile))
            return true;
        if (!append(key, &c))
            return false;
    }
    key->own_count = key->candidate_count;
    return true;
}

/* True if no key of the sweep has the text `text`. */
static bool is_new(const struct tune_sweep *sweep, const char *text)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        if (!strcmp(sweep->keys[i].text, text))
            return false;
    }
    return true;
}

/* A tile number, and how far that tile is from the one of a plain build, for sorting. */
struct place {
    /* The tile's number, counted from 1, and the number of knobs in which the tile differs from its
     * row of the tile table. */
    unsigned number, knobs;
    bool other_row; /* true: the tile's row is not the one that a plain build takes */
};

/* Compares two struct place: fewer changed knobs first, then the plain build's row, then the
 * number; for qsort(). */
static int by_distance(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->knobs != y->knobs)
        return x->knobs < y->knobs ? -1 : 1;
    if (x->other_row != y->other_row)
        return x->other_row ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

/* Returns the index of the row of the tile table that a plain build takes; 0 also if none fits. */
static unsigned find_own_row(const struct att_variant *v)
{
    struct att_variant row = *v;
    char own[ATT_TILE_TEXT_MAX], text[ATT_TILE_TEXT_MAX];
    if (!write_tile(v, own))
        return 0;
    for (row.tile = 1; (unsigned)row.tile <= v->op->n_tiles; row.tile++) {
        if (write_tile(&row, text) && !strcmp(text, own))
            return (unsigned)row.tile - 1;
    }
    return 0;
}

/* Adds up to `most` candidates to the key: a plain build's kernels, then rows of the tile table
 * (the plain build's row first), then rows with one changed knob, with two, and so on. So a small
 * `most` still has the nearest neighbours of the plain build's tile. Returns false if memory is
 * exhausted. */
static bool add_candidates(struct tune_key *key, size_t most)
{
    const struct att_template *op = key->variant.op;
    const unsigned count = att_count_tiles(op), own = find_own_row(&key->variant);
    struct place *places = calloc(count, sizeof(*places));
    bool good = places && add_own(key);
    for (unsigned n = 0; good && n < count; n++)
        places[n] = (struct place){n + 1, att_count_changed(op, n + 1), n % op->n_tiles != own};
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
    const bool possible = key.own_count > 0; /* if false, attnc build reports why */
    struct tune_key *grown =
        good && possible ? realloc(sweep->keys, (sweep->key_count + 1) * sizeof(*grown)) : NULL;
    if (!grown) {
        attnc_description_free(&key.own);
        free(key.candidates);
        return good && !possible;
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

void tune_sweep_free(struct tune_sweep *sweep)
{
    for (size_t i = 0; i < sweep->key_count; i++) {
        struct tune_key *key = &sweep->keys[i];
        for (size_t c = 0; c < key->candidate_count; c++) {
            free(key->candidates[c].times);
            free(key->candidates[c].measured);
            if (key->candidates[c].kernel)
                attnc_kernel_free(key->candidates[c].kernel);
            free(key->candidates[c].kernel);
        }
        attnc_description_free(&key->own);
        free(key->candidates);
        free(key->shapes);
    }
    free(sweep->keys);
    tune_db_close(sweep->db);
    sweep->keys = NULL;
}
