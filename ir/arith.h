/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the arithmetic of single elements, which the folder and the interpreter share.
 */
#ifndef IR_ARITH_H
#define IR_ARITH_H

#include "ir/ir.h"

/** i1 counts as an integer. */
bool tir_is_int(unsigned dtype);
bool tir_is_float(unsigned dtype);

/** a op b = b op a, of integers and of floats. */
bool tir_commutes(unsigned opcode);

/** v as an integer dtype holds it: sign-extended, i1 as 0 or 1. */
int64_t tir_wrap(unsigned dtype, int64_t v);
/** v zero-extended from the dtype. */
uint64_t tir_unsigned(unsigned dtype, int64_t v);

/**
 * An elementwise op on integers of `dtype` (wrapped, as is the result). False when the op has no
 * value there: a division by zero, a shift by the width or more, an op that integers lack.
 */
bool tir_eval_int(unsigned opcode, unsigned dtype, const int64_t operands[3], int64_t *d);

/** a0 b0 + a1 b1 + c, rounded once. a and b hold two f16 each, whose subnormals count as 0; c and
 * the result are bits of an f32. */
int64_t tir_eval_dot2(int64_t a, int64_t b, int64_t c);

/** Value of a float element (its bits, in `dtype`). fnuz: fp8 is e4m3fnuz, otherwise OCP e4m3fn. */
float tir_to_float(unsigned dtype, int64_t bits, bool fnuz);
/** Bits of v rounded to nearest even. fp8: beyond the largest finite number it saturates to it. */
int64_t tir_from_float(unsigned dtype, float v, bool fnuz);
/** Bits of v rounded toward zero, in a 16-bit dtype: a finite number stays finite. */
int64_t tir_cut_float(unsigned dtype, float v);
/** An elementwise op on floats of `dtype`, given as bits; comparisons give 0 or 1. */
bool tir_eval_float(unsigned opcode, unsigned dtype, bool fnuz, const int64_t operands[3],
                    int64_t *d);

/** An element of an operand of a scaled product (enum tir_mx) times its e8m0 scale; `which` of a
 * pair. Every one but NaN is exact. */
double tir_mx_value(unsigned format, int64_t element, unsigned which, unsigned scale);

#endif
