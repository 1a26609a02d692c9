/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the comparison of fp8 rows in pages of an indexer's cache. A page has its
 * rows, and then a float32 scale for each row. The scale of a row y is max(largest |y|, 1e-4) / the
 * largest number of fp8.
 */
#ifndef TOOLS_VERIFY_SCALED_ROW_H
#define TOOLS_VERIFY_SCALED_ROW_H

#include "tools/verify/call.h"

/** True if `got` may be the scale of a row whose largest magnitude, `absmax`, has an error of at
 * most `error`. With `powers` scales are rounded up to a power of two. If the exact number is
 * within the error of a power of two, that power and the next are both right. `largest`: the
 * largest number of fp8. */
bool scaled_row_has(double got, double absmax, double error, double largest, bool powers);

/** Returns a bound of the error of an fp8 element y under a correct scale. Before y / scale becomes
 * fp8 it has an error of 3 units of float32: two roundings and the reciprocal's. `error` is a bound
 * of the error of y itself. */
double scaled_row_bound(const struct precision *fp8, double y, double error, double scale);

/** Returns the float32 at byte `at` of `o` after the launch, and allows the kernel to write its
 * bytes. */
float scaled_row_read(struct operand *o, int64_t at);

/** Returns the offset in its page of byte `e` of row number `inside`, in bytes. `bytes` is a
 * row's length. With `shuffle` 16 rows are stored together, 16 bytes of each in turn. */
int64_t scaled_row_byte(int64_t inside, int e, int bytes, bool shuffle);

#endif
