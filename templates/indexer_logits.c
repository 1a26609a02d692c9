/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the sparse indexer's scores (logits) and stores all of them. A workgroup has one row, a
 * query, and a block of the row's columns, which are keys. Each of its waves has some of these
 * keys. index/score.h computes the scores. The host chooses the size of a block: few large blocks
 * read q less often, and many small blocks occupy more compute units.
 */
#include "op_names.h"
#include "ir/builder.h"
#include "templates/index/score.h"
#include "templates/workgroup/scalar.h"

#include <math.h>
#include <stdio.h>

enum {
    EACH = 2 /* number of scores that a lane computes at once */
};

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 2, .why = "two workgroups fit a compute unit"},
};

static const struct att_knob knobs[] = {
    {"waves", 3, {2, 8, 16}},
    {"waves_per_simd", 3, {1, 3, 4}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct logits {
    struct tir_builder b;
    int lanes;                  /* number of lanes of a wave */
    int round;                  /* number of columns that a workgroup computes at once */
    struct att_index index;     /* computes the scores */
    struct tir_type score;      /* type of a set of scores: f32, lanes x 1 */
    struct tir_value row, wave; /* i32, indices: the workgroup's row of scores, and the wave */
    /* i32: the workgroup's first column, and the column after its last one */
    struct tir_value first, end;
    /* i32: the first column with a score; number of columns with a score */
    struct tir_value scored, n;
};

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    return att_index_check(v, m, why) && att_find_tile(v, m, &tile, why);
}

/* Sets the workgroup's row and range of columns, and the range of columns that have a score by
 * arguments row_starts and row_ends. */
static void find_columns(struct logits *x)
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0), columns = tir_arg(b, ARG_COLUMNS, TIR_I32);
    const struct tir_value block = tir_arg(b, ARG_PART_COLUMNS, TIR_I32);
    x->row = tir_block_id(b, 0);
    x->wave = tir_wave_id(b);
    x->first = tir_mul(b, tir_block_id(b, 1), block);
    x->end = tir_min(b, tir_add(b, x->first, block), columns);
    x->scored = tir_max(b, att_entry_or(b, ARG_ROW_STARTS, x->row, zero), x->first);
    x->scored = tir_min(b, x->scored, x->end);
    x->n = tir_sub(b, tir_min(b, att_entry_or(b, ARG_ROW_ENDS, x->row, zero), x->end), x->scored);
    x->n = tir_max(b, x->n, zero);
}

/* Returns a view of `n` scores (i32) of the workgroup's row in argument logits, from column `first`
 * (i32) on. A row of the view is one score. */
static struct tir_view columns_of(struct logits *x, struct tir_value first, struct tir_value n)
{
    struct tir_builder *b = &x->b;
    const struct tir_value row = att_offset(b, x->row, ARG_LOGITS_ROW_STRIDE, 4);
    const struct tir_value at = tir_add(b, row, att_wide_times(b, first, 4));
    const struct tir_value base = att_at(b, ARG_LOGITS, at);
    return att_view(b, base, n, tir_i32(b, 4), 4, 0);
}

/* Stores -infinity in `n` columns (i32) from column `first` (i32) on. */
static void clear_columns(struct logits *x, struct tir_value first, struct tir_value n)
{
    struct tir_builder *b = &x->b;
    const struct tir_view out = columns_of(x, first, n);
    struct tir_loop loop =
        tir_begin_for(b, att_times(b, x->wave, x->lanes), n, tir_i32(b, x->round / EACH), NULL, 0);
    tir_tile_store(b, out, loop.index, tir_splat(b, tir_f32(b, -INFINITY), x->score));
    tir_end_for(b, &loop, NULL, 0);
}

/* Stores -infinity in the workgroup's columns without a score, if argument ARG_CLEAR demands it. */
static void clear_others(struct logits *x)
{
    struct tir_builder *b = &x->b;
    const struct tir_value clears = tir_cmp_ne(b, tir_arg(b, ARG_CLEAR, TIR_I32), tir_i32(b, 0));
    const struct tir_value scored_end = tir_add(b, x->scored, x->n);
    struct tir_if clean = att_begin_if(b, clears);
    clear_columns(x, x->first, tir_sub(b, x->scored, x->first));
    clear_columns(x, scored_end, tir_sub(b, x->end, scored_end));
    tir_end_if(b, &clean, NULL);
}

/* The place to which a wave stores the scores of a round: the context of store(). */
struct stored {
    struct logits *x;
    /* View of the workgroup's scores, from the first column with a score on. */
    struct tir_view out;
    /* i32: the wave's first column of the round in the view; below 0: before the first scored
     * one */
    struct tir_value first;
};

/* Stores set `j` of a round's scores: the consumer att_index_user.take. A column below 0 is outside
 * of the view, since its offset is very large as an unsigned number. Each set has a scalar offset
 * of its own. LLVM treats the sum of a negative offset and the instruction's constant offset as out
 * of range, while gfx950 adds the two in 32 bits. */
static void store(void *context, unsigned row, unsigned j, struct tir_value scores)
{
    (void)row;
    struct stored *s = context;
    struct tir_builder *const b = &s->x->b;
    struct tir_value at = att_plus(b, s->first, (int)j * s->x->lanes);
    if (j || s->x->index.paged)
        at = tir_materialize(b, at);
    tir_tile_store(b, s->out, at, scores);
}

/* Implements att_index_user.prepare without effect, since stores of set `j` of row `row` need no
 * preparation. */
static void prepare(void *context, unsigned row, unsigned j) { (void)context, (void)row, (void)j; }

/* Computes and stores the scores of the workgroup's columns. */
static void score_columns(struct logits *x)
{
    struct tir_builder *b = &x->b;
    struct tir_value carried[ATT_INDEX_CARRIED_MAX];
    const struct tir_value begin = tir_and(b, x->scored, tir_i32(b, -(int)x->index.group));
    const struct tir_value skip = tir_sub(b, x->scored, begin);
    const struct tir_value place = att_times(b, x->wave, EACH * x->lanes);
    const struct tir_value own = tir_add(b, begin, place);
    struct stored s = {.x = x, .out = columns_of(x, x->scored, x->n)};
    struct att_index_walk walk = {own, x->round, EACH * x->index.lanes / x->index.group};
    att_index_rows(&x->index, &x->row, 1, x->scored, tir_add(b, x->scored, x->n));
    const unsigned n = att_index_carried(&x->index);
    att_index_send(&x->index, &walk, carried);
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), tir_add(b, x->n, skip), tir_i32(b, x->round), carried, n);
    walk.own = tir_add(b, own, loop.index);
    /* Columns below 0 are outside of the view, so store() drops them. */
    s.first = tir_add(b, tir_sub(b, loop.index, skip), place);
    att_index_score(&x->index, &walk, carried, &(struct att_index_user){prepare, store, &s});
    tir_end_for(b, &loop, carried, n);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    const int lanes = (int)tir_lanes(m);
    struct logits x = {
        .b = tir_at_end(f, f->body), .lanes = lanes, .round = tile.waves * EACH * lanes};
    struct tir_builder *b = &x.b;
    x.index = att_index_begin(b, v, false);
    x.score = x.index.lane;
    x.score.dtype = TIR_F32;
    find_columns(&x);
    struct tir_if some = att_begin_if(b, tir_cmp_gt(b, x.n, tir_i32(b, 0)));
    score_columns(&x);
    tir_end_if(b, &some, NULL);
    clear_others(&x);
    tir_return(b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_ROWS, 1, 1}, {ARG_COLUMN_PARTS, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d", tile.waves);
}

const struct att_template att_template_indexer_logits = {
    .name = "indexer_logits",
    .description = "the sparse indexer's scores of keys against each query, kept",
    .takes = OP_TAKES_INDEXER_LOGITS | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = att_fits_waves,
    .check = check,
    .build = build,
};
