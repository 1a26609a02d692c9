/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/rope/rotate_rows.h"

#include "op_names.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum { FLOAT = 4 }; /* bytes of an f32 */

/* Returns the bits in `mask` of each element's index in its row: i32, columns x 1, of type `t`. */
static struct tir_value column_bits(struct tir_builder *b, struct tir_type t, int mask)
{
    const struct tir_value column = tir_row_index(b, t);
    return tir_and(b, column, tir_int_like(b, column, mask));
}

/* Loads the cosine of each element's angle, or the sine if `sine`: f32, columns x 1, in the layout
 * of `t`. Elements that do not rotate get the cosine of another element; the caller replaces these
 * cosines. */
static struct tir_value load_angles(struct tir_builder *b, const struct rope_angles *a,
                                    struct tir_type t, bool sine)
{
    const int dim = a->v->rotary_dim, half = dim / 2;
    struct tir_value pair;
    if (a->v->rope == ATT_ROPE_GPTJ) {
        pair = column_bits(b, t, dim - 1);
        pair = tir_shr(b, pair, tir_int_like(b, pair, 1));
    } else {
        pair = column_bits(b, t, half - 1);
    }
    const struct tir_value base =
        att_at(b, ARG_COS_SIN, att_wide_times(b, a->position, (int64_t)dim * FLOAT));
    const struct tir_value at =
        tir_convert(b, tir_mul(b, pair, tir_int_like(b, pair, FLOAT)), TIR_I64);
    return tir_tile_gather(b, base, at, tir_i32(b, sine ? half * FLOAT : 0),
                           tir_with_dtype(t, TIR_F32));
}

/* Returns the column x transposed to a row and repeated in every row of type `t`. */
static struct tir_value of_rows(struct tir_builder *b, struct tir_value x, struct tir_type t)
{
    const struct tir_value row = tir_transpose(b, x);
    return t.rows > 1 ? tir_broadcast(b, row, t) : row;
}

struct tir_value rope_rotate_rows(struct tir_builder *b, const struct rope_angles *a,
                                  struct tir_value z)
{
    const int dim = a->v->rotary_dim;
    const int partner = a->v->rope == ATT_ROPE_GPTJ ? 1 : dim / 2;
    const struct tir_type rows = tir_typeof(b->f, z);
    const struct tir_layout one = tir_layout_slice(tir_layout_of(b->f, rows), 0);
    const struct tir_layout column = tir_layout_transpose(&one);
    const struct tir_type t = tir_tile(b->f, TIR_I32, rows.cols, 1, &column);
    const struct tir_value block = column_bits(b, t, -dim);
    const struct tir_value rotates = tir_cmp_eq(b, block, tir_splat(b, a->first, t));
    /* A pair (a, b) becomes (a cos - b sin, b cos + a sin): the low element has the negative sine.
     * Negative angles exchange both signs. */
    struct tir_value low = tir_cmp_eq(b, column_bits(b, t, partner), tir_int_like(b, block, 0));
    if (a->backwards.id)
        low = tir_xor(b, low, att_like(b, a->backwards, low));
    struct tir_value cosine = load_angles(b, a, t, false);
    struct tir_value sine = load_angles(b, a, t, true);
    sine = tir_select(b, low, tir_neg(b, sine), sine);
    cosine = tir_select(b, rotates, cosine, tir_float_like(b, cosine, 1.0f));
    sine = tir_select(b, rotates, sine, tir_float_like(b, sine, 0.0f));
    const struct tir_value other = tir_col_flip(b, z, (unsigned)partner);
    return tir_fma(b, other, of_rows(b, sine, rows), tir_mul(b, z, of_rows(b, cosine, rows)));
}

/* Replaces, for each bit of an element's index, each pair of elements whose indices differ in this
 * bit by its sum and difference. A pair is within a tile, or in two tiles. */
void rope_hadamard(struct tir_builder *b, struct tir_value *x, unsigned n_parts)
{
    enum { ELEMENTS = 128 };
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, x[0]), TIR_I32);
    const struct tir_value column = tir_col_index(b, t), one = tir_float_like(b, x[0], 1.0f);
    assert(n_parts * t.cols == ELEMENTS);
    for (unsigned bit = 1; bit < t.cols; bit <<= 1) {
        const struct tir_value own = tir_and(b, column, tir_int_like(b, column, (int)bit));
        const struct tir_value signs =
            tir_select(b, tir_cmp_ne(b, own, tir_int_like(b, own, 0)), tir_neg(b, one), one);
        for (unsigned i = 0; i < n_parts; i++)
            x[i] = tir_fma(b, x[i], signs, tir_col_flip(b, x[i], bit));
    }
    for (unsigned apart = 1; apart < n_parts; apart *= 2)
        for (unsigned i = 0; i < n_parts; i++) {
            const struct tir_value low = x[i], high = x[i | apart];
            if (i & apart)
                continue;
            x[i] = tir_add(b, low, high);
            x[i | apart] = tir_sub(b, low, high);
        }
    for (unsigned i = 0; i < n_parts; i++)
        x[i] = tir_mul(b, x[i], tir_float_like(b, x[i], 0x1.6a09e6p-4f));
}
