/* SPDX-License-Identifier: Apache-2.0 */
/* Fused steps of narrow formats in fixed point. This header and its implementation are compiled
 * once per host instruction set. */
#ifndef HIPSIM_MFMA_FIXED_H
#define HIPSIM_MFMA_FIXED_H

#include "mfma_decode.h"

#define FIXED_STEP 16 /* number of lines of a two-stage step */

/* A and B of one block as codes of their formats: line k has A[0 ..][k] or B[k][0 ..], a dword
 * each. Bits above the code are undefined. */
struct codes {
    _Alignas(64) uint32_t a[MAX_K][LINE], b[MAX_K][LINE];
    uint8_t a_format, b_format; /* enum mfma_format */
};

/** Copies the operands of block `block` to *o. They have formats of at most 8 bits. False if one is
 * an infinity or NaN. */
bool JOIN(mfma_codes, ISA)(struct codes *o, const struct mfma_job *job, unsigned block);

/**
 * Computes a two-stage step, of the lines from line `k` on, in the rows and columns that fixed
 * point represents. from[i] and to[i] are row i of C and of D, from column 0 on. pending[j / 16] is
 * a mask of rows, for the 16 columns from j on: the rows whose results are stored are removed. The
 * others need the general step. No operand has a scale.
 */
void JOIN(mfma_fixed_step, ISA)(const struct codes *o, const uint32_t *const *from,
                                uint32_t *const *to, unsigned rows, unsigned columns, unsigned k,
                                uint32_t pending[static 2]);

#endif
