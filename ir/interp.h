/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter runs a function on the host, at tile or register level. So a wrong result can be
 * attributed to the template, to a pass, or to what follows ir/.
 *
 * All waves of a workgroup run in lockstep and asynchronous copies complete at once. Barriers,
 * waits and priorities do nothing. So the interpreter shows what a program computes, not whether it
 * waits enough.
 */
#ifndef IR_INTERP_H
#define IR_INTERP_H

#include "ir/ir.h"

enum { TIR_WHY = 256 };

/**
 * Runs all workgroups of a grid. `kernarg` is laid out by f->args, and its pointers are host
 * addresses that the function reads and writes. f must be verified.
 * Floats follow IEEE (fma and mfma in float, in the order of k). Conversions round to nearest even.
 * Reads beyond a buffer resource return 0.
 * Returns false, with the op and a sentence in `why`, for an undefined action: a read of unwritten
 * LDS, an access beyond LDS, a division by zero, an oversized shift, or a hook call.
 */
bool tir_interpret(const struct tir_func *f, const void *kernarg, size_t kernarg_size,
                   const unsigned grid[3], char why[TIR_WHY]);

#endif
