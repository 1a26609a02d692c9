/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes the coefficients N, M and P of a chunk (chunk.h has the formulas): each wave
 * computes the rows of its 16 tokens. Products are transposed: N[i][j] is in row j and column i. So
 * a lane stores four neighbours of a row to LDS at once.
 *
 * With a decay per channel the decays are inside of the products, and both factors are decayed. The
 * later token is decayed from a token between the two on, and the earlier token up to it. For two
 * tokens of one block, take the smallest aligned group of 2, 4, 8 or 16 tokens with both. The token
 * between is the last one of the group's first half. For tokens of two blocks it is the last one of
 * the earlier block.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/triangle.h"

#include <float.h>

/* Factors for this wave's 16 tokens, f32, 1 x 16. r: inverse lengths of keys; s: inverse lengths of
 * queries times the scale. */
struct lengths {
    struct tir_value r, s;
};

/* Returns the bytes of a strip in LDS: 16 rows of head_dim elements. */
static int strip_bytes(const struct delta *d) { return DELTA_BLOCK * d->v->head_dim * DELTA_ELEM; }

void delta_store_strip(struct delta *d, struct tir_value at, struct tir_value strip)
{
    tir_tile_lds_store(&d->b, at, strip, &d->map.strip);
}

/* ---- Products of strips ---- */

/* Loads a strip, 16 x head_dim, from LDS address `at` (i32) as a right operand of products over
 * head_dim. */
static struct tir_value load_right(struct delta *d, struct tir_value at)
{
    return tir_tile_lds_load(&d->b, at, d->t.right, &d->map.strip);
}

/* Returns the product a b^T, f32, 16 x 16, of two strips that are right operands of products over
 * head_dim. */
static struct tir_value multiply(struct delta *d, struct tir_value a, struct tir_value b)
{
    struct tir_builder *at = &d->b;
    const struct tir_value left = tir_relayout(at, a, tir_layout_of(at->f, d->t.left));
    const struct tir_value zero = tir_splat(at, tir_f32(at, 0), d->t.block);
    return tir_mma(at, d->over_keys, left, tir_transpose(at, b), zero);
}

/* ---- Lengths ---- */

/* Returns 1 / sqrt(x + eps) for each x on the diagonal of `squares`, as a tile of 1 x 16. `squares`
 * is f32, 16 x 16. A diagonal element 0, of a row of zeros, gives 0, so that no later product
 * overflows. */
static struct tir_value inverse_lengths(struct delta *d, struct tir_value squares)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = d->t.block;
    const struct tir_value diagonal = tir_cmp_eq(b, tir_row_index(b, t), tir_col_index(b, t));
    const struct tir_value zero = tir_float_like(b, squares, 0);
    const struct tir_value sum = tir_col_sum(b, tir_select(b, diagonal, squares, zero));
    const struct tir_value eps = tir_splat(b, tir_arg(b, ARG_L2_EPS, TIR_F32), d->t.cols);
    const struct tir_value least = tir_float_like(b, sum, FLT_MIN);
    const struct tir_value inverse = tir_rsq(b, tir_max(b, tir_add(b, sum, eps), least));
    const struct tir_value none = tir_float_like(b, sum, 0);
    return tir_select(b, tir_cmp_gt(b, sum, none), inverse, none);
}

/* Returns the factors of the wave's strips k (keys) and q (queries): inverse lengths r of keys, and
 * s of queries times the scale. Stores both to d->lds.scales. Without l2_norm r is 1 and s is the
 * scale. */
static struct lengths find_lengths(struct delta *d, struct tir_value k, struct tir_value q)
{
    struct tir_builder *b = &d->b;
    const struct tir_value scale = tir_splat(b, tir_arg(b, ARG_SCALE, TIR_F32), d->t.cols);
    struct lengths l = {tir_splat(b, tir_f32(b, 1), d->t.cols), scale};
    if (d->v->l2_norm) {
        l.r = inverse_lengths(d, multiply(d, k, k));
        l.s = tir_mul(b, scale, inverse_lengths(d, multiply(d, q, q)));
    }
    const struct tir_value at = delta_own(d, d->lds.scales, DELTA_ROWS_BYTES);
    tir_tile_lds_store(b, at, l.r, &d->map.cols);
    tir_tile_lds_store(b, att_plus(b, at, DELTA_LINE_BYTES), l.s, &d->map.cols);
    return l;
}

/* ---- Blocks ---- */

/* Returns the index (i32) of block [wave][j] among the blocks up to the diagonal, row by row. `j`
 * is i32. */
static struct tir_value block_index(struct delta *d, struct tir_value j)
{
    struct tir_builder *b = &d->b;
    const struct tir_value twice = tir_mul(b, d->wave, att_plus(b, d->wave, 1));
    return tir_add(b, tir_shr(b, twice, tir_i32(b, 1)), j);
}

/* Stores block [wave][j] of `part`, DELTA_N or DELTA_P, in 16 bits: to LDS, or to the chunk's
 * record in a call of several launches. `transpose` (f32, 16 x 16) is the transposed block. `j` is
 * i32. */
static void store_block(struct delta *d, enum delta_part part, struct tir_value j,
                        struct tir_value transpose)
{
    struct tir_builder *b = &d->b;
    const struct tir_value a = tir_transpose(b, tir_convert_ties_any(b, transpose, d->dtype));
    const struct tir_value index = block_index(d, j);
    if (delta_in_stages(d)) {
        delta_store_block(d, part, index, a);
        return;
    }
    const struct tir_value region = part == DELTA_N ? d->lds.n : d->lds.p;
    tir_tile_lds_store(b, tir_add(b, region, att_times(b, index, DELTA_BLOCK_BYTES)), a,
                       &d->map.block);
}

/* Returns tile `a`, 16 x 16, with each column multiplied by its number in `cols`, 1 x 16. */
static struct tir_value times_columns(struct delta *d, struct tir_value a, struct tir_value cols)
{
    return tir_mul(&d->b, a, tir_broadcast(&d->b, cols, d->t.block));
}

/* Stores the wave's blocks of coefficients, -N and P, in block column `j` (i32: index), left of the
 * diagonal. k and q (f32, 16 x 16) are products of block j's keys with the wave's keys and queries.
 * Their rows are the tokens of block j. N is negated since the scan subtracts its products. */
static void store_before(struct delta *d, const struct lengths *l, struct tir_value j,
                         struct tir_value k, struct tir_value q)
{
    const struct tir_value n = times_columns(d, k, tir_neg(&d->b, l->r));
    store_block(d, DELTA_N, j, n);
    store_block(d, DELTA_P, j, times_columns(d, q, l->s));
}

/* Stores the wave's diagonal blocks of coefficients: M, the inverse for keys, and P for queries. k
 * and q (f32, 16 x 16) are the products of the block's keys with its keys and queries, with a row
 * for each key. Elements of k on and below its diagonal are ignored. */
static void store_diagonal(struct delta *d, const struct lengths *l, struct tir_value k,
                           struct tir_value q)
{
    struct tir_builder *b = &d->b;
    const struct tir_value betas =
        delta_own(d, att_plus(b, d->lds.sums, DELTA_BETA * DELTA_LINE_BYTES), DELTA_ROWS_BYTES);
    const struct tir_value lengths = delta_own(d, d->lds.scales, DELTA_ROWS_BYTES);
    const struct tir_value beta = tir_tile_lds_load(b, betas, d->t.cols, &d->map.cols);
    const struct tir_value a = times_columns(d, k, tir_mul(b, beta, tir_mul(b, l->r, l->r)));
    const struct tir_value inverse = att_triangle_inverse(b, a);
    tir_wait(b, TIR_LDS_ORDER, 0);
    const struct tir_value of_rows =
        tir_mul(b, tir_tile_lds_load(b, betas, d->t.rows, &d->map.rows),
                tir_tile_lds_load(b, lengths, d->t.rows, &d->map.rows));
    const struct tir_value m = tir_mul(b, inverse, tir_broadcast(b, of_rows, d->t.block));
    store_block(d, DELTA_N, d->wave, m);

    const struct tir_type t = d->t.block;
    const struct tir_value seen = tir_cmp_le(b, tir_row_index(b, t), tir_col_index(b, t));
    const struct tir_value p =
        tir_select(b, seen, times_columns(d, q, l->s), tir_float_like(b, q, 0));
    store_block(d, DELTA_P, d->wave, p);
}

/* ---- A decay for the head ---- */

/* Returns the decays (f32, 16 x 16) from the tokens of block `j` (i32), the rows, to the wave's
 * tokens, the columns. An element is 1 if the row's token is the later one. */
static struct tir_value decays(struct delta *d, struct tir_value j)
{
    struct tir_builder *b = &d->b;
    const struct tir_value sums = att_plus(b, d->lds.sums, DELTA_SUM * DELTA_LINE_BYTES);
    const struct tir_value from = tir_add(b, sums, att_times(b, j, DELTA_ROWS_BYTES));
    const struct tir_value early = tir_tile_lds_load(b, from, d->t.rows, &d->map.rows);
    const struct tir_value late =
        tir_tile_lds_load(b, delta_own(d, sums, DELTA_ROWS_BYTES), d->t.cols, &d->map.cols);
    const struct tir_value x =
        tir_sub(b, tir_broadcast(b, late, d->t.block), tir_broadcast(b, early, d->t.block));
    return tir_exp2(b, tir_min(b, x, tir_float_like(b, x, 0)));
}

/* Loads strip `i` (i32) of keys, or with `queries` of queries, as a right operand. In a call of
 * several launches, loads from memory, since a barrier for a single chunk would take longer. In a
 * call of one launch, loads from LDS, where all waves have stored their strips. */
static struct tir_value load_shared(struct delta *d, bool queries, struct tir_value i)
{
    struct tir_builder *b = &d->b;
    if (delta_in_stages(d)) {
        const struct tir_view view =
            delta_rows_of_head(d, queries ? ATT_HEADS(Q) : ATT_HEADS(K_IN));
        return tir_tile_load(b, view, att_times(b, i, DELTA_BLOCK), d->t.right);
    }
    const struct tir_value region = queries ? d->lds.q : d->lds.k;
    return load_right(d, tir_add(b, region, att_times(b, i, strip_bytes(d))));
}

/* Computes and stores the wave's coefficients M, N and P, for variants in which all channels of a
 * head share a decay. */
static void coefficients_of_head(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value k = load_shared(d, false, d->wave);
    const struct tir_value q = load_shared(d, true, d->wave);
    const struct lengths l = find_lengths(d, k, q);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), d->wave, tir_i32(b, 1), NULL, 0);
    const struct tir_value early = load_shared(d, false, loop.index);
    const struct tir_value decay = decays(d, loop.index);
    store_before(d, &l, loop.index, tir_mul(b, multiply(d, early, k), decay),
                 tir_mul(b, multiply(d, early, q), decay));
    tir_end_for(b, &loop, NULL, 0);
    const struct tir_value own = decays(d, d->wave);
    store_diagonal(d, &l, tir_mul(b, multiply(d, k, k), own), tir_mul(b, multiply(d, k, q), own));
}

/* ---- A decay for each channel ---- */

/* Keys and queries of the wave's 16 tokens as right operands of products over head_dim. */
struct pair {
    struct tir_value k, q;
};

/* Returns `strip` as a right operand of products over head_dim. Stores it to the wave's scratch in
 * LDS and loads it again. */
static struct tir_value through_scratch(struct delta *d, struct tir_value strip)
{
    struct tir_builder *b = &d->b;
    delta_store_strip(d, d->lds.scratch, strip);
    tir_wait(b, TIR_LDS_ORDER, 0);
    const struct tir_value right = load_right(d, d->lds.scratch);
    tir_wait(b, TIR_LDS_ORDER, 0);
    return right;
}

/* Returns the strips k and q as right operands of products over head_dim, which each pass through
 * the wave's scratch in LDS. */
static struct pair operands(struct delta *d, struct tir_value k, struct tir_value q)
{
    struct pair p;
    p.k = through_scratch(d, k);
    p.q = through_scratch(d, q);
    return p;
}

/* Returns the wave's keys and queries of `rows` times 2^exponent, as right operands of products
 * over head_dim. `exponent` is f32, 16 x head_dim. */
static struct pair decayed(struct delta *d, const struct delta_rows *rows,
                           struct tir_value exponent)
{
    const struct tir_value k = delta_decayed(d, rows->k, exponent);
    return operands(d, k, delta_decayed(d, rows->q, exponent));
}

/* Returns log2 of the decay between each row of `sums` and the last row of the first half of the
 * row's group. A group is `rows` adjacent rows. Row i of `sums` is log2 of the decay from the
 * tile's start up to row i. */
static struct tir_value to_middle(struct delta *d, struct tir_value sums, unsigned rows)
{
    struct tir_builder *b = &d->b;
    const struct tir_value upper = tir_half(b, sums, 0), lower = tir_half(b, sums, 1);
    if (tir_typeof(b->f, sums).rows > rows) {
        const struct tir_value first = to_middle(d, upper, rows);
        return tir_stack(b, first, to_middle(d, lower, rows));
    }
    struct tir_value middle = delta_last_row(d, upper);
    if (rows > 2)
        middle = tir_broadcast(b, middle, tir_typeof(b->f, upper));
    return tir_stack(b, tir_sub(b, middle, upper), tir_sub(b, lower, middle));
}

/* Computes and stores the wave's blocks of the coefficients N and P left of the diagonal, beginning
 * next to the diagonal. For variants with a decay per channel. */
static void coefficients_before(struct delta *d, const struct delta_rows *rows,
                                const struct lengths *l)
{
    struct tir_builder *b = &d->b;
    const int keys_bytes = d->v->head_dim * DELTA_FLOAT;
    struct tir_value between = tir_splat(b, tir_f32(b, 0), d->t.keys);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), d->wave, tir_i32(b, 1), &between, 1);
    const struct tir_value j = tir_sub(b, att_plus(b, d->wave, -1), loop.index);
    const struct pair late = decayed(d, rows, tir_add(b, d->local, delta_spread(d, between)));
    const struct tir_value at = tir_add(b, d->lds.k, att_times(b, j, strip_bytes(d)));
    const struct tir_value early = load_right(d, at);
    store_before(d, l, j, multiply(d, early, late.k), multiply(d, early, late.q));
    const struct tir_value total = tir_add(b, d->lds.totals, att_times(b, j, keys_bytes));
    between = tir_add(b, between, tir_tile_lds_load(b, total, d->t.keys, &d->map.keys));
    tir_end_for(b, &loop, &between, 1);
}

/* Computes and stores the wave's coefficients M, N and P, for variants with a decay per channel. */
static void coefficients_of_channels(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const struct pair raw = operands(d, rows->k, rows->q);
    const struct lengths l = find_lengths(d, raw.k, raw.q);
    const struct tir_type t = d->t.block;
    const struct tir_value diagonal = tir_cmp_eq(b, tir_row_index(b, t), tir_col_index(b, t));
    const struct tir_value own = multiply(d, raw.k, raw.q);
    struct tir_value n = tir_float_like(b, own, 0), p = tir_select(b, diagonal, own, n);
    for (int h = 1; h < DELTA_BLOCK; h *= 2) {
        const struct pair at = decayed(d, rows, to_middle(d, d->local, 2 * (unsigned)h));
        n = tir_add(b, n, att_triangle_beside(b, multiply(d, at.k, at.k), h));
        p = tir_add(b, p, att_triangle_beside(b, multiply(d, at.k, at.q), h));
        tir_anchor(b, n); /* keeps one pair of strips in registers at a time */
        tir_anchor(b, p);
    }
    coefficients_before(d, rows, &l);
    store_diagonal(d, &l, n, p);
}

void delta_coefficients(struct delta *d, const struct delta_rows *rows)
{
    if (delta_by_channel(d))
        coefficients_of_channels(d, rows);
    else
        coefficients_of_head(d);
}
