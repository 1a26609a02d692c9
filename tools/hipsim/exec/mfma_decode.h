/* SPDX-License-Identifier: Apache-2.0 */
/* Decoded operands of matrix instructions for the kernels. Compiled once per instruction set. */
#ifndef HIPSIM_MFMA_DECODE_H
#define HIPSIM_MFMA_DECODE_H

#include "mfma.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define LINE 32 /* rows of A, or columns of B, per line of operands */
#define MAX_K 128

/*
 * A and B of one block, decoded: line k holds A[0 ..][k] or B[k][0 ..]. Exponents are floor(log2)
 * of normal numbers and the minimum normal exponent for subnormal ones. A stores each exponent four
 * times in a dword, to broadcast it into a vector of bytes.
 */
struct operands {
    _Alignas(64) float a[MAX_K][LINE];
    _Alignas(64) float b[MAX_K][LINE];
    _Alignas(64) uint32_t ea[MAX_K][LINE];
    _Alignas(64) int8_t eb[MAX_K][LINE]; /* 16 columns are stored twice, so that all lines are
                                          * full */
    bool special;                        /* some operand is an infinity or NaN, which has no
                                          * exponent */
    bool wide;                           /* formats with binary32's exponent range: BF16, XF32 */
};

/** Decodes A and B of `block`, in any float format except f64. */
void JOIN(mfma_decode, ISA)(struct operands *o, const struct mfma_job *job, unsigned block);

/** Copies B, up to 8 rows, to `moved`. Lane l gets lane mfma_blgp_lane(l, job->blgp). */
void JOIN(mfma_move_lanes, ISA)(const struct mfma_job *job, uint32_t (*moved)[MFMA_LANES]);

/** Runs a job of INT8 operands. */
void JOIN(mfma_run_i8, ISA)(const struct mfma_job *job);

/** Sets lines[k] to the line of B that the k-th stored element of row i of a sparse A
 * multiplies. */
static inline void mfma_select_lines(const struct mfma_job *job, unsigned i, uint8_t *lines)
{
    for (unsigned k = 0; k < job->shape.k / 2u; k++)
        lines[k] = (uint8_t)mfma_sparse_k(job, i, k);
}

#endif
