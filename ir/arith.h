/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops mean for single elements: the folder and the interpreter share it.
 */
#ifndef IR_ARITH_H
#define IR_ARITH_H

#include "ir/ir.h"

bool tir_is_int(unsigned dtype);
bool tir_is_float(unsigned dtype);

/** v as an integer dtype holds it: sign-extended, i1 as 0 or 1. */
int64_t tir_wrap(unsigned dtype, int64_t v);
/** v zero-extended from the dtype. */
uint64_t tir_unsigned(unsigned dtype, int64_t v);

/**
 * An elementwise op on integers of `dtype` (wrapped, as is the result). False when the op has no
 * value there: a division by zero, a shift by the width or more, an op that integers lack.
 */
bool tir_eval_int(unsigned opcode, unsigned dtype, const int64_t operands[3], int64_t *d);

#endif
