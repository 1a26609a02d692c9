/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter runs a function on the host, at either level, so that a wrong result can be
 * placed: template, pass, or what comes after ir/.
 *
 * All waves of a workgroup run in lockstep and asynchronous copies complete at once; barriers,
 * waits and priorities do nothing. So it tells what a program computes, not whether it waits
 * enough.
 */
#ifndef IR_INTERP_H
#define IR_INTERP_H

#include "ir/ir.h"

enum { TIR_WHY = 256 };

/**
 * Runs all workgroups of a grid. `kernarg` is laid out by f->args; pointers in it are host
 * addresses, and the function may read and write what it addresses. f must be verified.
 *
 * Floats are IEEE (fma and mfma in float, in the order of k); conversions round to nearest even;
 * what is beyond a buffer resource reads as 0. False, with the op and a sentence in `why`, when the
 * function reads LDS that nobody wrote, goes beyond its LDS, divides by zero, shifts by the width
 * or more, or calls a hook.
 */
bool tir_interpret(const struct tir_func *f, const void *kernarg, size_t kernarg_size,
                   const unsigned grid[3], char why[TIR_WHY]);

#endif
