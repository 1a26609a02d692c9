/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares functions that read and compare rows which a kernel stored as bytes, with
 * scales at the end of a row.
 */
#ifndef VERIFY_POOLED_ROW_H
#define VERIFY_POOLED_ROW_H

#include "tools/reference/cache.h"
#include "tools/verify/call.h"

/** A row that a kernel has written to a tensor of bytes. */
struct pooled_row {
    /* layout of elements and scales in the row; NULL: the row has another layout */
    const struct ref_pooled_row *format;
    struct operand *tensor;          /* tensor of bytes that contains the row */
    int64_t at[ATTN_DIMENSIONS_MAX]; /* indices of the row's first byte */
    /* number of the index in `at` that counts the row's bytes */
    int axis;
};

/** Returns the format of rows of 512 elements that end with their scales; NULL for other rows. */
const struct ref_pooled_row *paged_row(enum attn_kv_layout layout);

/** Returns element d of the row times its scale. `fp8` is the GPU's fp8. `of` reads a byte of the
 * tensor: operand_bits() before the launch, operand_result_bits() after it. */
double pooled_row_value(const struct pooled_row *r, int d, const struct precision *fp8,
                        uint32_t (*of)(const struct operand *, const int64_t *));

/** Converts the row to fp8 with scales of e8m0 and writes it as row `to` of `rows`, [rows, 528]
 * bytes. The row's scales must be powers of two, so that its numbers stay exact. */
void pooled_row_convert(const struct pooled_row *r, const struct precision *fp8,
                        struct operand *rows, int64_t to);

/** Compares the row's 512 elements and its scales with x. `error` has a bound for each element of
 * the kernel's error before it rounds the element to its type. */
void pooled_row_compare(struct call *c, const struct pooled_row *r, const double *x,
                        const double *error);

/** Copies the row, of a cache [pages, tokens, 1, bytes], to row `to` of `rows`, [rows, bytes]. */
void pooled_row_copy(const struct pooled_row *r, struct operand *rows, int64_t to);

/** Copies a row of 584 bytes with its scales from slot `from` of `cache` to slot `to` of `other`.
 * Both have pages of `page` rows. */
void mixed_row_copy(const struct operand *cache, struct operand *other, int page, int from, int to);

/** Copies a row of layout PLANES from slot `from` of a cache, whose pages have `page` rows, to row
 * `to` of `rows`. The operand after each of them has the last 64 elements of its rows. */
void plane_row_copy(const struct operand *planes, struct operand *rows, int page, int from, int to);

#endif
