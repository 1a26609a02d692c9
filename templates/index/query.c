/* SPDX-License-Identifier: Apache-2.0 */
/* This file loads q and weights of a row of scores, and splits tiles of products. */
#include "templates/index/query.h"

#include "op_names.h"
#include "templates/workgroup/scalar.h"

enum {
    DIM = ATT_INDEX_DIM,
    ROWS = 32, /* number of query heads of a block */
    VECTOR = ATT_INDEX_VECTOR,
    FOURTHS = ATT_INDEX_FOURTHS,
    PARTS = ATT_INDEX_PARTS_MAX,
    ONE = 127,      /* biased exponent of 1 as f32, and e8m0 byte of scale 1 */
    KEY_MAX = 448,  /* the largest fp8 number */
    SHIFT_MAX = 25, /* log2 of a bound of |q . k| in fp8: 448 * 448 * 128 is less than 2^25 */
    /* log2 of the lower limit of a row's largest weight as f16, which is below 2^15 */
    WEIGHT_TOP = 14,
    EXPONENT = 23,      /* position of the lowest exponent bit of an f32 */
    EXPONENT_MAX = 254, /* biased exponent of the largest finite f32 */
    F16_BITS = 16,      /* bits of an f16 */
};

struct tir_value att_index_slice_of(const struct att_index *x, const struct tir_value *chunks,
                                    unsigned s, unsigned rows)
{
    struct tir_builder *b = x->b;
    const unsigned n = DIM / x->vector / 2; /* number of chunks of a key in a lane */
    if (x->slices == n)
        return tir_join_blocks(b, chunks[s], rows);
    if (x->slices < n) {
        const struct tir_value low = tir_transpose(b, chunks[2 * s]);
        const struct tir_value two = tir_stack(b, low, tir_transpose(b, chunks[2 * s + 1]));
        return tir_join_blocks(b, tir_transpose(b, two), rows);
    }
    const struct tir_value whole = tir_transpose(b, chunks[s / 2]);
    return tir_join_blocks(b, tir_transpose(b, tir_half(b, whole, s % 2)), rows);
}

void att_index_cut(const struct att_index *x, struct tir_value a, struct tir_value out[FOURTHS])
{
    struct tir_builder *b = x->b;
    for (int i = 0; i < 2; i++) {
        const struct tir_value half = tir_half(b, a, i);
        out[2 * i] = tir_half(b, half, 0);
        out[2 * i + 1] = tir_half(b, half, 1);
    }
}

void att_index_cut_rows(const struct att_index *x, struct tir_value fourth,
                        struct tir_value out[FOURTHS])
{
    att_index_cut(x, tir_join_blocks(x->b, fourth, FOURTHS), out);
}

/* Returns two f32 tiles rounded to nearest even as f16 and packed in an i32: `low` in its low half,
 * `high` in its high half. */
static struct tir_value pair_of(const struct att_index *x, struct tir_value low,
                                struct tir_value high)
{
    struct tir_builder *b = x->b;
    struct tir_value both[2] = {low, high};
    for (int i = 0; i < 2; i++) {
        const struct tir_type bits = tir_with_dtype(tir_typeof(b->f, both[i]), TIR_I16);
        both[i] = tir_zext(b, tir_bitcast(b, tir_convert(b, both[i], TIR_F16), bits), TIR_I32);
    }
    return tir_or(b, both[0], tir_shl(b, both[1], tir_int_like(b, both[1], F16_BITS)));
}

/* Returns the biased exponent (i32 scalar) of `a`, an f32 that is the same in every lane, limited
 * to the range `least` to `most`. */
static struct tir_value exponent_of(const struct att_index *x, struct tir_value a, int least,
                                    int most)
{
    struct tir_builder *b = x->b;
    const struct tir_value word = tir_bitcast(b, tir_first_lane(b, a), tir_scalar(TIR_I32));
    const struct tir_value exponent = tir_shr(b, word, tir_i32(b, EXPONENT));
    return tir_min(b, tir_max(b, exponent, tir_i32(b, least)), tir_i32(b, most));
}

/* Returns n (i32) such that no |q . k| of the row `own` reaches 2^n. The bound is the largest sum
 * of |q| over a head's elements, times the largest element of a key. */
static struct tir_value product_bits(const struct att_index *x, const struct att_index_query *own)
{
    struct tir_builder *b = x->b;
    struct tir_value most = {0};
    for (unsigned i = 0; i < x->blocks; i++) {
        struct tir_value sum = {0};
        for (unsigned s = 0; s < x->slices; s++) {
            const struct tir_value size = tir_abs(b, tir_convert(b, own->q[i][s], TIR_F32));
            sum = sum.id ? tir_add(b, sum, size) : size;
        }
        const struct tir_value heads = tir_row_sum(b, sum);
        most = most.id ? tir_max(b, most, heads) : heads;
    }
    most = tir_mul(b, most, tir_float_like(b, most, KEY_MAX));
    return att_plus(b, exponent_of(x, tir_col_max(b, most), ONE, ONE + SHIFT_MAX - 1), 1 - ONE);
}

/* Implements the declaration in query.h. Products are scaled by a power of two, so that none
 * exceeds 1; products below 2^-14 then count as 0. Weights become pairs of f16. A power of two
 * brings the row's largest weight near the largest f16. Weights from 2^116 on become infinities. */
void att_index_scale_pairs(const struct att_index *x, struct att_index_query *own)
{
    struct tir_builder *b = x->b;
    const struct tir_type f32 = tir_scalar(TIR_F32);
    const struct tir_value bits = tir_i32(b, EXPONENT);
    struct tir_value most = tir_col_max(b, tir_abs(b, own->weights[0]));
    for (unsigned i = 1; i < x->blocks; i++)
        most = tir_max(b, most, tir_col_max(b, tir_abs(b, own->weights[i])));
    const struct tir_value exponent =
        exponent_of(x, most, WEIGHT_TOP, EXPONENT_MAX - SHIFT_MAX + WEIGHT_TOP);
    const struct tir_value shift = product_bits(x, own);
    own->scale = tir_sub(b, tir_i32(b, ONE), shift);
    const struct tir_value up = tir_sub(b, tir_i32(b, WEIGHT_TOP + 2 * ONE), exponent);
    const struct tir_value down = tir_add(b, exponent, att_plus(b, shift, -WEIGHT_TOP));
    const struct tir_value scale = tir_bitcast(b, tir_shl(b, up, bits), f32);
    own->unscale = tir_bitcast(b, tir_shl(b, down, bits), f32);
    for (unsigned i = 0; i < x->blocks; i++) {
        struct tir_value fourths[FOURTHS], w[FOURTHS];
        att_index_cut(x, tir_mul(b, own->weights[i], tir_splat(b, scale, x->products)), fourths);
        for (int j = 0; j < FOURTHS; j++) {
            att_index_cut_rows(x, fourths[j], w);
            own->weight_pairs[i][2 * j] = tir_named(b, "w", pair_of(x, w[0], w[1]));
            own->weight_pairs[i][2 * j + 1] = tir_named(b, "w", pair_of(x, w[2], w[3]));
        }
    }
}

/* Issues the loads of q for slice `s` (index) of a product with mxfp4 keys: the elements of each
 * head that a lane multiplies by its two mxfp4 blocks of a key. These are the 32 elements from 32 s
 * on, and the 32 from 64 + 32 s on. `first` (i32) is the first head, `part` the type of one
 * half. */
static struct tir_value query_of_blocks(struct att_index *x, struct tir_view q,
                                        struct tir_value first, unsigned s, struct tir_type part)
{
    struct tir_builder *b = x->b;
    struct tir_value halves[2];
    for (int i = 0; i < 2; i++) {
        q.byte = tir_i32(b, i * DIM / 2 + (int)s * 2 * VECTOR);
        halves[i] = tir_transpose(b, tir_tile_load(b, q, first, part));
    }
    return tir_transpose(b, tir_stack(b, halves[0], halves[1]));
}

/* Returns a view of the heads of row `row` (i32) in tensor argument `arg`, each of `bytes` bytes.
 * `row_stride` (i64) and `head_stride` (i32) are the distances of two rows and of two heads in
 * bytes. */
static struct tir_view heads_of(const struct att_index *x, struct tir_value row, const char *arg,
                                struct tir_value row_stride, struct tir_value head_stride,
                                int bytes)
{
    struct tir_builder *b = x->b;
    const struct tir_value at = tir_mul(b, att_wide(b, row), row_stride);
    return att_view(b, att_at(b, arg, at), tir_i32(b, (int)x->heads), head_stride, bytes, 0);
}

/* Returns `slice`, a slice of q, with its registers in the order of the matrix instruction. If a
 * block of heads takes several instructions, the registers of each instruction are adjacent. */
static struct tir_value in_order(const struct att_index *x, struct tir_value slice)
{
    const struct tir_mma *const mma = &x->b->f->machine->mma[x->mma];
    const struct tir_contraction k = tir_contract_rows(mma, mma->k, mma->k / 2u);
    const struct tir_layout operand = tir_mma_left(mma, ROWS, &k, (struct tir_waves){0});
    const struct tir_layout left = tir_layout_permute_rows(&operand, x->order);
    return tir_relayout(x->b, slice, &left);
}

/* Implements the declaration in query.h. Rows of a product after the last head are 0 and add
 * nothing to a score. */
void att_index_load_query(struct att_index *x, struct att_index_query *own)
{
    struct tir_builder *b = x->b;
    const struct tir_machine *const m = b->f->machine;
    const struct tir_mma *const mma = &m->mma[x->mma];
    const struct tir_contraction k = tir_contract_rows(mma, 2 * x->vector, x->vector);
    const struct tir_layout operand = tir_mma_left(mma, ROWS, &k, (struct tir_waves){0});
    const struct tir_layout left = tir_layout_permute_rows(&operand, x->order);
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, x->products), 1);
    const struct tir_type part = tir_tile(b->f, x->element, ROWS, 2 * x->vector, &left);
    const struct tir_type weight = tir_tile(b->f, TIR_F32, ROWS, 1, &rows);
    const int size = VECTOR / (int)x->vector; /* bytes of an element of q */
    const struct tir_value head_stride = att_stride32(b, ARG_Q_HEAD_STRIDE, size);
    struct tir_view q = heads_of(x, own->row, ARG_Q, att_stride(b, ARG_Q_TOKEN_STRIDE, size),
                                 head_stride, DIM * size);
    const struct tir_view weights = heads_of(
        x, own->row, ARG_WEIGHTS, att_stride(b, ARG_WEIGHTS_TOKEN_STRIDE, 4), tir_i32(b, 4), 4);
    for (unsigned i = 0; i < x->blocks; i++) {
        const struct tir_value first = tir_i32(b, (int)(i * ROWS));
        struct tir_value chunks[PARTS];
        for (unsigned g = 0; g < x->parts && !x->mxfp4; g++) {
            q.byte = tir_i32(b, (int)g * 2 * VECTOR);
            chunks[g] = tir_split_blocks(b, tir_tile_load(b, q, first, part), x->vector);
        }
        for (unsigned s = 0; s < x->slices; s++)
            own->q[i][s] =
                tir_named(b, "q",
                          x->mxfp4 ? query_of_blocks(x, q, first, s, part)
                                   : in_order(x, att_index_slice_of(x, chunks, s, ROWS)));
        const struct tir_value w = tir_tile_load(b, weights, first, weight);
        own->weights[i] = tir_named(b, "w", tir_broadcast(b, w, x->products));
    }
}
