/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that the fill functions, generated from ops/, share. */
#ifndef ATTN_FILL_H
#define ATTN_FILL_H

#include <stdint.h>

#include "runtime/attn.h"

/* Returns the stride `given`, or `dense` if `given` is 0 or `count`, the size of its dimension, is
 * 1. */
static inline int64_t attn_stride(int64_t given, int64_t count, int64_t dense)
{
    return given && count != 1 ? given : dense;
}

/* Returns count * stride, a default stride. The product may wrap: `stride` itself is then out of
 * range and refused. */
static inline int64_t attn_times(int64_t count, int64_t stride)
{
    return (int64_t)((uint64_t)count * (uint64_t)stride);
}

/* Returns 1 if a stride is below `least` or above `most` (least <= most), else 0, in one
 * comparison. The result is an int: fill functions combine such results by | without branches, and
 * compilers warn about | of bools. */
static inline int attn_out_of_range(int64_t stride, int64_t least, int64_t most)
{
    return (uint64_t)stride - (uint64_t)least > (uint64_t)most - (uint64_t)least;
}

/* Moves a pointer by `bytes`; NULL stays NULL. */
static inline void attn_advance(const void **p, int64_t bytes)
{
    if (*p)
        *p = (const char *)*p + bytes;
}

/* Returns 1 if p is not aligned to `bytes`, a power of two, else 0. */
static inline int attn_misaligned(const void *p, uintptr_t bytes)
{
    return ((uintptr_t)p & (bytes - 1)) != 0;
}

/* Returns a window's distance in keys as kernels see it. Negative or too large ones become 2^30,
 * unlimited, so that a sum of two fits 32 bits. */
static inline int64_t attn_window(int32_t distance)
{
    const int64_t unlimited = 1 << 30;
    return distance < 0 || distance > unlimited ? unlimited : distance;
}

/* Returns a b c, at most INT32_MAX. No factor may be negative. */
static inline int64_t attn_product(int64_t a, int64_t b, int64_t c)
{
    const int64_t both = a * b; /* below 2^62 */
    return both > INT32_MAX || both * c > INT32_MAX ? INT32_MAX : both * c;
}

/* Returns ceil(count / size). */
static inline int64_t attn_parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

/* Returns log2 of an element's bytes, 1 or 0: launches shift by it instead of dividing. */
static inline int attn_size_bits(enum attn_dtype dtype) { return dtype <= ATTN_FP16; }

/* Returns the bytes of one element of `dtype`. */
static inline int attn_element_size(enum attn_dtype dtype) { return 1 << attn_size_bits(dtype); }

#endif
