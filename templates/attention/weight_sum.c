/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/attention/weight_sum.h"

#include <assert.h>

#include "ir/bits.h"
#include "ir/matrix.h"

enum {
    ROWS = 16 /* number of rows, and of columns, of the matrix instruction's result */,
    SUM_ROWS = ROWS / 2 /* number of rows of the result for each block of 16 queries */
};

/* Returns the index in tir_machine.mma of an fp8 matrix instruction of 16 rows and columns for `k`
 * keys. If the machine has none for `k` keys, returns one for another number of keys. */
static int find_product(const struct tir_machine *m, unsigned k)
{
    const int all = tir_find_mma(m, ROWS, ROWS, k, TIR_FP8);
    return all >= 0 ? all : tir_find_mma(m, ROWS, ROWS, 0, TIR_FP8);
}

/* Returns `l`, the layout of an operand of `keys` keys x queries, as a layout of 2 * keys x queries
 * / 2. The upper 16 of each 32 queries count as further keys. */
static struct tir_layout fold_queries(const struct tir_layout *l, unsigned keys)
{
    const struct tir_layout blocks = tir_layout_split_blocks(l, keys, ROWS);
    return tir_layout_join_blocks(&blocks, 2 * keys, ROWS);
}

/* Returns ones of type `t`, the left operand for folded queries (fold_queries()). A block has
 * `keys` keys. A query's sum is in row 0 or row 8 of the product. The other rows leave out
 * different keys, since LLVM would merge equal registers and the loop would copy them. Their sums
 * are smaller, so the largest of eight rows is the sum of row 0. */
static struct tir_value make_ones(struct tir_builder *b, struct tir_type t, unsigned keys)
{
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t), key = tir_col_index(b, t);
    const struct tir_value half = tir_shr(b, row, tir_int_like(b, row, tir_bits(SUM_ROWS)));
    const struct tir_value block = tir_shr(b, key, tir_int_like(b, key, tir_bits(keys)));
    const struct tir_value eights = tir_shr(b, key, tir_int_like(b, key, tir_bits(SUM_ROWS)));
    const struct tir_value left_out =
        tir_and(b, tir_and(b, row, eights), tir_int_like(b, row, SUM_ROWS - 1));
    const struct tir_value none = tir_or(b, tir_xor(b, half, block), left_out);
    t.dtype = TIR_F32;
    const struct tir_value one = tir_splat(b, tir_f32(b, 1), t);
    const struct tir_value chosen = tir_select(b, tir_cmp_eq(b, none, tir_int_like(b, none, 0)),
                                               one, tir_float_like(b, one, 0));
    return tir_named(b, "ones", tir_convert_in_range(b, chosen, TIR_FP8));
}

/* Returns ones of type `t` in `dtype` for products whose columns are all queries. Row 0 of the
 * product has the sums. As in make_ones(), the other rows leave out different keys. Row i leaves
 * out the keys of a register whose index has a bit in common with i; a register has neighbouring
 * keys. */
static struct tir_value make_whole_ones(struct tir_builder *b, struct tir_type t, unsigned dtype)
{
    /* Number of keys in a register of 32 bits. */
    const unsigned in_register = tir_dtype_bits(TIR_I32) / tir_dtype_bits(dtype);
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t), key = tir_col_index(b, t);
    const struct tir_value together = tir_shr(b, key, tir_int_like(b, key, tir_bits(in_register)));
    const struct tir_value left_out =
        tir_and(b, tir_and(b, row, together), tir_int_like(b, row, ROWS - 1));
    t.dtype = TIR_F32;
    const struct tir_value one = tir_splat(b, tir_f32(b, 1), t);
    const struct tir_value chosen = tir_select(
        b, tir_cmp_eq(b, left_out, tir_int_like(b, left_out, 0)), one, tir_float_like(b, one, 0));
    return tir_named(b, "ones",
                     dtype == TIR_FP8 ? tir_convert_in_range(b, chosen, dtype)
                                      : tir_convert_short(b, chosen, dtype));
}

struct att_weight_sum att_weight_sum_whole(struct tir_builder *b, struct tir_type scores,
                                           int product, unsigned dtype)
{
    const struct tir_mma *const mma = &b->f->machine->mma[product];
    const struct tir_layout *const l = tir_layout_of(b->f, scores);
    const struct tir_waves waves = {.cols = l->wave_bits};
    const struct tir_contraction k = tir_contract_acc(l, tir_bits(mma->n));
    const struct tir_layout left = tir_mma_left(mma, ROWS, &k, waves);
    const struct tir_layout result = tir_mma_result(mma, ROWS, scores.cols, waves);
    assert(mma->m == ROWS);
    return (struct att_weight_sum){
        .product = product,
        .ones = make_whole_ones(b, tir_tile(b->f, dtype, ROWS, scores.rows, &left), dtype),
        .sums = tir_tile(b->f, TIR_F32, ROWS, scores.cols, &result)};
}

struct att_weight_sum att_weight_sum_folded(struct tir_builder *b, struct tir_type scores)
{
    const unsigned keys = scores.rows;
    struct att_weight_sum s = {.keys = keys, .product = find_product(b->f->machine, 2 * keys)};
    assert(s.product >= 0);
    const struct tir_mma *const mma = &b->f->machine->mma[s.product];
    const struct tir_layout *const l = tir_layout_of(b->f, scores);
    const struct tir_layout folded = fold_queries(l, keys);
    const struct tir_contraction k = tir_contract_acc(&folded, tir_bits(ROWS));
    const struct tir_waves waves = {.cols = l->wave_bits};
    const struct tir_layout left = tir_mma_left(mma, ROWS, &k, waves);
    const struct tir_layout result = tir_mma_result(mma, ROWS, scores.cols / 2, waves);
    s.ones = make_ones(b, tir_tile(b->f, TIR_FP8, ROWS, 2 * keys, &left), keys);
    s.sums = tir_tile(b->f, TIR_F32, ROWS, scores.cols / 2, &result);
    return s;
}

struct tir_value att_weight_sum_add(struct tir_builder *b, const struct att_weight_sum *s,
                                    struct tir_value weights, struct tir_value sums)
{
    if (!s->keys)
        return tir_mma(b, s->product, s->ones, weights, sums);
    const struct tir_value blocks = tir_split_blocks(b, weights, ROWS);
    return tir_mma(b, s->product, s->ones, tir_join_blocks(b, blocks, 2 * s->keys), sums);
}

/* Returns `sums` with a column for each query. If s->keys is set, 16 rows x queries / 2 become 8
 * rows x queries. Row 0 is the sum of all weights of the query, and no other row is larger. */
static struct tir_value by_query(struct tir_builder *b, const struct att_weight_sum *s,
                                 struct tir_value sums)
{
    return s->keys ? tir_join_blocks(b, tir_split_blocks(b, sums, ROWS), SUM_ROWS) : sums;
}

struct tir_value att_weight_sum_scale(struct tir_builder *b, const struct att_weight_sum *s,
                                      struct tir_value sums, struct tir_value factor)
{
    const struct tir_value all = by_query(b, s, sums);
    const struct tir_type t = tir_typeof(b->f, all);
    const struct tir_layout vector = tir_layout_slice(tir_layout_of(b->f, t), 0);
    const struct tir_value factors = tir_broadcast(b, tir_relayout(b, factor, &vector), t);
    const struct tir_value scaled = tir_mul(b, all, factors);
    return s->keys ? tir_join_blocks(b, tir_split_blocks(b, scaled, ROWS), ROWS) : scaled;
}

struct tir_value att_weight_sum_vector(struct tir_builder *b, const struct att_weight_sum *s,
                                       struct tir_value sums, struct tir_type vector)
{
    return tir_relayout(b, tir_col_max(b, by_query(b, s, sums)), tir_layout_of(b->f, vector));
}
