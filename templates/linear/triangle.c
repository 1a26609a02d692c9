/* SPDX-License-Identifier: Apache-2.0
 *
 * This file inverts I + A by merging blocks on its diagonal. X is the inverse of the blocks of h
 * rows. N is the rest of A in blocks of 2 h rows. The inverse of the blocks of 2 h rows is X - X N
 * X. The registers of a product's result are, as a left operand, the result's transpose. So X is
 * kept together with its transpose.
 */
#include "templates/linear/triangle.h"

enum { STEP = 4 /* elements of k that an instruction takes */ };

int att_triangle_instr(const struct tir_machine *m)
{
    return tir_find_mma(m, ATT_TRIANGLE, ATT_TRIANGLE, STEP, TIR_F32);
}

/* Returns f32 zeros in the type of `like`. */
static struct tir_value zeros(struct tir_builder *b, struct tir_value like)
{
    return tir_float_like(b, like, 0);
}

/* Returns the product of two 16 x 16 matrices (f32). `left_transpose`: transpose of the left
 * matrix. */
static struct tir_value product(struct tir_builder *b, struct tir_value left_transpose,
                                struct tir_value right)
{
    return tir_mma(b, att_triangle_instr(b->f->machine), tir_transpose(b, left_transpose), right,
                   zeros(b, right));
}

struct tir_value att_triangle_beside(struct tir_builder *b, struct tir_value a, int h)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_value row = tir_row_index(b, t), col = tir_col_index(b, t);
    const struct tir_value apart = tir_and(b, tir_xor(b, row, col), tir_int_like(b, row, -h));
    const struct tir_value is =
        tir_and(b, tir_cmp_eq(b, apart, tir_int_like(b, row, h)), tir_cmp_gt(b, col, row));
    return tir_select(b, is, a, zeros(b, a));
}

struct tir_value att_triangle_inverse(struct tir_builder *b, struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_value diagonal = tir_cmp_eq(b, tir_row_index(b, t), tir_col_index(b, t));
    const struct tir_value one = tir_select(b, diagonal, tir_float_like(b, a, 1), zeros(b, a));
    struct tir_value n = att_triangle_beside(b, a, 1);
    struct tir_value x = tir_sub(b, one, product(b, n, one)), inverse = tir_sub(b, one, n);
    for (int h = 2; h < ATT_TRIANGLE; h *= 2) {
        n = att_triangle_beside(b, a, h);
        const struct tir_value right = product(b, n, x);
        const struct tir_value less = product(b, inverse, right);
        inverse = tir_sub(b, inverse, product(b, right, inverse));
        x = tir_sub(b, x, less);
    }
    return inverse;
}
