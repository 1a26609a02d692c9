/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the inverse of unit triangular matrices of 16 x 16 f32, by matrix instructions
 * with f32 operands.
 */
#ifndef TEMPLATES_LINEAR_TRIANGLE_H
#define TEMPLATES_LINEAR_TRIANGLE_H

#include "ir/builder.h"

enum { ATT_TRIANGLE = 16 /* number of rows, and of columns, of the matrices */ };

/** Returns the index in tir_machine.mma of the instruction that att_triangle_inverse() uses, or -1
 * if the machine has none. */
int att_triangle_instr(const struct tir_machine *m);

/**
 * Returns the transpose of (I + A)^-1; `a` is the transpose of a strictly lower triangular matrix
 * A. Both are 16 x 16 f32 in the layout of the instruction's result. Elements of `a` on and below
 * its diagonal are not read.
 *
 * Blocks of 1, 2, 4 and 8 rows are inverted and merged, so that no power of A is formed. Powers
 * reach thousands if rows of A are alike, while the inverse stays small.
 */
struct tir_value att_triangle_inverse(struct tir_builder *b, struct tir_value a);

/** Returns `a`, 16 x 16, with 0 for all elements but some above the diagonal. For these, row and
 * column are in different halves of one diagonal block of 2 h rows. With h of 1, 2, 4 and 8 each
 * element above the diagonal is kept once. */
struct tir_value att_triangle_beside(struct tir_builder *b, struct tir_value a, int h);

#endif
