/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds another tile for a variant whose kernel spills registers with the tile that a build would
 * choose.
 */
#include "compiler/pipeline.h"

#include <string.h>

enum { SPARE_TILES = 8 }; /* most tiles that are tried besides the first */

struct spare {
    const struct att_variant *v;
    const struct tgt_blob *hooks;
    const struct attnc_compile_options *options;
    struct att_tile tried[SPARE_TILES + 1];
    unsigned n_tried;
    int best;           /* number of the best candidate tile so far; 0: the first row that fits */
    uint64_t best_cost; /* spill_cost() of the best tile; 0: it does not spill */
};

/* Returns a number that orders kernels by their spills; 0: none. Vector registers and scratch
 * memory weigh more than scalar registers, which spill to lanes of a vector register. */
static uint64_t spill_cost(const struct tgt_kernel_facts *f)
{
    return ((uint64_t)(f->vgpr_spills + f->scratch_bytes) << 32) + f->sgpr_spills;
}

/* Adds the tile of `v` to the tiles tried. Returns false if the variant has no such tile, or if an
 * equal one was tried. */
static bool add_tile(struct spare *s, const struct att_variant *v)
{
    struct att_tile *const tile = &s->tried[s->n_tried];
    char text[ATT_TILE_TEXT_MAX], other[ATT_TILE_TEXT_MAX];
    if (!att_find_tile(v, &tgt_find(v->target)->machine, tile, NULL))
        return false;
    att_tile_text(v->op, tile, text);
    for (unsigned i = 0; i < s->n_tried; i++) {
        att_tile_text(v->op, &s->tried[i], other);
        if (!strcmp(text, other))
            return false;
    }
    s->n_tried++;
    return true;
}

/* Compiles the variant with candidate tile `n`, and records the tile if it spills least so far. 0
 * is the first row that fits. */
static void try_tile(struct spare *s, int n)
{
    const struct attnc_compile_options plain = {.stage = ATTNC_STAGE_LINKED,
                                                .disable = s->options->disable};
    struct att_variant v = *s->v;
    struct attnc_kernel k;
    char why[ATTNC_WHY];
    v.spare_tile = n;
    if (!add_tile(s, &v) || !attnc_compile(&v, s->hooks, &plain, NULL, &k, why))
        return;
    const uint64_t cost = spill_cost(&k.facts);
    if (cost < s->best_cost) {
        s->best_cost = cost;
        s->best = n;
    }
    attnc_kernel_free(&k);
}

/* Tries the candidate tiles that differ in `changed` knobs from a row of the table, until one does
 * not spill or SPARE_TILES are tried. */
static void try_candidates(struct spare *s, unsigned changed)
{
    const unsigned count = att_count_tiles(s->v->op);
    for (unsigned n = 1; n <= count && s->best_cost && s->n_tried <= SPARE_TILES; n++)
        if (att_count_changed(s->v->op, n) == changed)
            try_tile(s, (int)n);
}

bool attnc_compile_unspilled(const struct att_variant *v, const struct tgt_blob *hooks,
                             const struct attnc_compile_options *o, FILE *log,
                             struct attnc_kernel *out, char why[ATTNC_WHY])
{
    struct spare s = {.v = v, .hooks = hooks, .options = o, .best_cost = UINT64_MAX};
    const bool linked = o->stage == ATTNC_STAGE_LINKED && !o->print;
    if (v->tile || !att_count_tiles(v->op) || !tgt_find(v->target))
        return attnc_compile(v, hooks, o, log, out, why);
    if (linked) {
        if (!attnc_compile(v, hooks, o, log, out, why))
            return false;
        s.best_cost = spill_cost(&out->facts);
        add_tile(&s, v);
        if (!s.best_cost)
            return true;
    } else {
        try_tile(&s, 0);
    }
    try_candidates(&s, 0);
    try_candidates(&s, 1);
    if (linked && !s.best)
        return true;
    if (linked)
        attnc_kernel_free(out);
    struct att_variant best = *v;
    best.spare_tile = s.best;
    return attnc_compile(&best, hooks, o, log, out, why);
}
