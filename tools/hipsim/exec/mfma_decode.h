/* SPDX-License-Identifier: Apache-2.0 */
/* Decoded operands of matrix instructions. This header and its implementation are compiled once per
 * host instruction set. */
#ifndef HIPSIM_MFMA_DECODE_H
#define HIPSIM_MFMA_DECODE_H

#include "mfma.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define LINE 32 /* elements of a line of operands: rows of A, or columns of B */
#define MAX_K 128

/*
 * Decoded A and B of one block: line k holds A[0 ..][k] or B[k][0 ..]. Exponents are floor(log2) of
 * normal numbers, and the format's least normal exponent for subnormal ones. A has each exponent
 * four times in a dword, to broadcast it into a vector of bytes.
 */
struct operands {
    _Alignas(64) float a[MAX_K][LINE];
    _Alignas(64) float b[MAX_K][LINE];
    _Alignas(64) uint32_t ea[MAX_K][LINE];
    /* exponents of B; 16 columns are stored twice to fill a line */
    _Alignas(64) int8_t eb[MAX_K][LINE];
    /* true: an operand is an infinity or NaN, which has no exponent */
    bool special;
    /* true: a format has binary32's range of exponents (BF16, XF32) */
    bool wide;
};

/** Decodes A and B of block `block` to *o, in any float format except f64. */
void JOIN(mfma_decode, ISA)(struct operands *o, const struct mfma_job *job, unsigned block);

/** Copies the registers of B, at most 8, to `moved`. Lane l gets lane mfma_blgp_lane(l,
 * job->blgp). */
void JOIN(mfma_move_lanes, ISA)(const struct mfma_job *job, uint32_t (*moved)[MFMA_LANES]);

/** Computes a job with INT8 operands. */
void JOIN(mfma_run_i8, ISA)(const struct mfma_job *job);

/** Sets lines[k], for each stored element k of row i of a sparse A, to the line of B that it
 * multiplies. */
static inline void mfma_select_lines(const struct mfma_job *job, unsigned i, uint8_t *lines)
{
    for (unsigned k = 0; k < job->shape.k / 2u; k++)
        lines[k] = (uint8_t)mfma_sparse_k(job, i, k);
}

#endif
