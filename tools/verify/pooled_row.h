/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the comparison of stored rows that end with their scales.
 */
#ifndef VERIFY_POOLED_ROW_H
#define VERIFY_POOLED_ROW_H

#include "tools/reference/cache.h"
#include "tools/verify/call.h"

/** A row that a kernel has written to a tensor of bytes. */
struct pooled_row {
    const struct ref_pooled_row *format; /* layout of elements and scales; NULL: another layout */
    struct operand *tensor;              /* tensor of bytes that contains the row */
    int64_t at[ATTN_DIMENSIONS_MAX];     /* indices of the row's first byte */
    int axis;                            /* which index of `at` counts the row's bytes */
};

/** Returns the format of rows of 512 elements that end with their scales; NULL for other rows. */
const struct ref_pooled_row *paged_row(enum attn_kv_layout layout);

/** Returns element d of the row times its scale. `fp8` is the GPU's fp8, and `of` reads a byte
 * of the tensor, before or after the launch. */
double pooled_row_value(const struct pooled_row *r, int d, const struct precision *fp8,
                        uint32_t (*of)(const struct operand *, const int64_t *));

/** Writes the row as row `to` of `rows`, [rows, 528] bytes: fp8 with scales of e8m0. The row's
 * scales are powers of two, so that its numbers stay exact. */
void pooled_row_convert(const struct pooled_row *r, const struct precision *fp8,
                        struct operand *rows, int64_t to);

/** Compares the row's 512 elements and its scales with x. `error` has bounds of x's errors
 * before elements are rounded to their type. */
void pooled_row_compare(struct call *c, const struct pooled_row *r, const double *x,
                        const double *error);

#endif
