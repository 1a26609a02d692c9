/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of matrix instructions as the kernels read them. Compiled once per instruction set. */
#ifndef HIPSIM_MFMA_DECODE_H
#define HIPSIM_MFMA_DECODE_H

#include "mfma.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define LINE 32 /* rows of A, columns of B in a line of operands */
#define MAX_K 128

/*
 * A and B of one block, decoded: line k has A[0 ..][k], or B[k][0 ..]. Exponents are floor(log2)
 * of normal numbers and the least normal exponent of subnormal ones. A has each exponent four times
 * in a dword, which broadcasts into a vector of bytes.
 */
struct operands {
    _Alignas(64) float a[MAX_K][LINE];
    _Alignas(64) float b[MAX_K][LINE];
    _Alignas(64) uint32_t ea[MAX_K][LINE];
    _Alignas(64) int8_t eb[MAX_K][LINE]; /* of 16 columns twice: all lines are whole ones */
    bool special;                        /* an infinity or NaN is among them; it has no exponent */
    bool wide;                           /* formats with binary32's exponents: BF16, XF32 */
};

/** Decodes A and B of `block`, in any float format but f64. */
void JOIN(mfma_decode, ISA)(struct operands *o, const struct mfma_job *job, unsigned block);

/** B as BLGP rearranges its lanes, which take up to 8 rows. */
void JOIN(mfma_move_lanes, ISA)(const struct mfma_job *job, uint32_t (*moved)[MFMA_LANES]);

#endif
