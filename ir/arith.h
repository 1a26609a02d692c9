/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the arithmetic of single elements, which the folder and the interpreter share.
 */
#ifndef IR_ARITH_H
#define IR_ARITH_H

#include "ir/ir.h"

/** True if `dtype` is an integer type; i1 is one. */
bool tir_is_int(unsigned dtype);
/** True if `dtype` is a float type, fp8 included. */
bool tir_is_float(unsigned dtype);

/** True if a op b equals b op a for integers and for floats. */
bool tir_commutes(unsigned opcode);

/** Wraps v to an integer dtype: sign-extended, i1 as 0 or 1. */
int64_t tir_wrap(unsigned dtype, int64_t v);
/** Returns v zero-extended from the dtype. */
uint64_t tir_unsigned(unsigned dtype, int64_t v);

/**
 * Computes an elementwise op on wrapped integers of `dtype`; the result is wrapped too. Returns
 * false if the result is undefined (division by zero, a shift by the width or more) or integers
 * lack the op.
 */
bool tir_eval_int(unsigned opcode, unsigned dtype, const int64_t operands[3], int64_t *d);

/** Returns a0 b0 + a1 b1 + c, rounded once, as the bits of an f32. a and b hold two f16 each;
 * subnormal f16 count as 0. c is the bits of an f32. */
int64_t tir_eval_dot2(int64_t a, int64_t b, int64_t c);

/** Converts the bits of a float element of type `dtype` to float. With fnuz, fp8 is e4m3fnuz;
 * otherwise it is OCP e4m3fn. */
float tir_to_float(unsigned dtype, int64_t bits, bool fnuz);
/** Returns the bits of v, rounded to nearest even. An fp8 result saturates at the largest finite
 * number. */
int64_t tir_from_float(unsigned dtype, float v, bool fnuz);
/** Returns the bits of v rounded toward zero in a 16-bit dtype. A finite v stays finite. */
int64_t tir_cut_float(unsigned dtype, float v);
/** Computes an elementwise op on floats of `dtype`, which are given as bits. Comparisons return 0
 * or 1 in `d`. Returns false if floats lack the op. */
bool tir_eval_float(unsigned opcode, unsigned dtype, bool fnuz, const int64_t operands[3],
                    int64_t *d);

/** Returns the value of an element of a scaled product's operand, multiplied by 2^(scale - 127).
 * `format` is an enum tir_mx. `which`, 0 or 1, selects the low or high e2m1 number of a byte. The
 * result is exact. */
double tir_mx_value(unsigned format, int64_t element, unsigned which, unsigned scale);

#endif
