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
    struct attnc_compile_options options; /* for each candidate; stage ATTNC_STAGE_LINKED */
    struct att_tile tried[SPARE_TILES + 1];
    unsigned n_tried;
    int best;           /* number of the best candidate tile so far; 0: first row that fits */
    uint64_t best_cost; /* spill_cost() of the best tile; 0: it does not spill */
    struct attnc_kernel kernel; /* kernel of the best tile; zero until a tile compiles */
};

/* Returns a number that orders kernels by their spills; 0: none. Vector registers and scratch
 * memory weigh more than scalar registers, which spill to lanes of a vector register. */
static uint64_t spill_cost(const struct tgt_kernel_facts *f)
{
    return ((uint64_t)(f->vgpr_spills + f->scratch_bytes) << 32) + f->sgpr_spills;
}

/* Adds the tile of `v` to the tiles tried. Returns false if no tile fits, if an equal one was
 * tried, or if v->spare_tile names a tile that takes all vector registers. */
static bool add_tile(struct spare *s, const struct att_variant *v)
{
    struct att_tile *const tile = &s->tried[s->n_tried];
    char text[ATT_TILE_TEXT_MAX], other[ATT_TILE_TEXT_MAX];
    const struct tir_machine *const m = &tgt_find(v->target)->machine;
    if (!att_find_tile(v, m, tile, NULL) || (v->spare_tile && att_fills(v, tile, m)))
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

/* Compiles the variant with candidate tile `n`, and keeps the kernel if it spills least so far. n
 * is 0 for the first row that fits. Returns false with a message in `why` if the tile does not
 * compile. */
static bool try_tile(struct spare *s, int n, char why[ATTNC_WHY])
{
    struct att_variant v = *s->v;
    struct attnc_kernel k;
    v.spare_tile = n;
    if (!attnc_compile(&v, s->hooks, &s->options, NULL, &k, why))
        return false;
    const uint64_t cost = spill_cost(&k.facts);
    if (cost < s->best_cost) {
        attnc_kernel_free(&s->kernel);
        s->kernel = k;
        s->best_cost = cost;
        s->best = n;
    } else {
        attnc_kernel_free(&k);
    }
    return true;
}

/* Tries the candidate tiles that differ in `changed` knobs from a row of the table, until one does
 * not spill or SPARE_TILES are tried. */
static void try_candidates(struct spare *s, unsigned changed)
{
    const unsigned count = att_count_tiles(s->v->op);
    struct att_variant v = *s->v;
    char why[ATTNC_WHY];
    for (unsigned n = 1; n <= count && s->best_cost && s->n_tried <= SPARE_TILES; n++) {
        v.spare_tile = (int)n;
        if (att_count_changed(s->v->op, n) == changed && add_tile(s, &v))
            try_tile(s, (int)n, why);
    }
}

bool attnc_compile_unspilled(const struct att_variant *v, const struct tgt_blob *hooks,
                             const struct attnc_compile_options *o, FILE *log,
                             struct attnc_kernel *out, char why[ATTNC_WHY])
{
    struct spare s = {.v = v, .hooks = hooks, .options = *o, .best_cost = UINT64_MAX};
    const bool linked = o->stage == ATTNC_STAGE_LINKED && !o->print;
    if (v->tile || !att_count_tiles(v->op) || !tgt_find(v->target))
        return attnc_compile(v, hooks, o, log, out, why);
    if (!linked)
        s.options =
            (struct attnc_compile_options){.stage = ATTNC_STAGE_LINKED, .disable = o->disable};
    if (!try_tile(&s, 0, why) && linked)
        return false;
    add_tile(&s, v);
    try_candidates(&s, 0);
    try_candidates(&s, 1);
    if (linked) {
        *out = s.kernel;
        return true;
    }
    attnc_kernel_free(&s.kernel);
    struct att_variant best = *v;
    best.spare_tile = s.best;
    return attnc_compile(&best, hooks, o, log, out, why);
}
