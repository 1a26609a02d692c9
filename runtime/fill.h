/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the fill functions (attn_family.fill), which are generated from ops/. */
#ifndef ATTN_FILL_H
#define ATTN_FILL_H

#include <stdint.h>

#include "runtime/attn.h"

/* Returns the stride `given` of a dimension of `count` elements. Returns `dense`, the stride of a
 * contiguous tensor, if `given` is 0 or `count` is 1. */
static inline int64_t attn_stride(int64_t given, int64_t count, int64_t dense)
{
    return given && count != 1 ? given : dense;
}

/* Returns `count` * `stride`, the stride of the next outer dimension of a contiguous tensor. The
 * product may wrap: `stride` is then itself out of range, and a later check refuses it. */
static inline int64_t attn_times(int64_t count, int64_t stride)
{
    return (int64_t)((uint64_t)count * (uint64_t)stride);
}

/* Returns 1 if `stride` is below `least` or above `most` (least <= most), else 0, by one
 * comparison. The result is an int because fill functions combine such results by |, without
 * branches. */
static inline int attn_out_of_range(int64_t stride, int64_t least, int64_t most)
{
    return (uint64_t)stride - (uint64_t)least > (uint64_t)most - (uint64_t)least;
}

/* Moves the pointer *p forwards by `bytes`; NULL stays NULL. */
static inline void attn_advance(const void **p, int64_t bytes)
{
    if (*p)
        *p = (const char *)*p + bytes;
}

/* Returns 1 if `p` is not aligned to `bytes`, a power of two, else 0. */
static inline int attn_misaligned(const void *p, uintptr_t bytes)
{
    return ((uintptr_t)p & (bytes - 1)) != 0;
}

/* Returns the distance in keys of an attention window as kernels get it. Negative distances, which
 * mean unlimited, and distances above 2^30 become 2^30, so that a sum of two fits 32 bits. */
static inline int64_t attn_window(int32_t distance)
{
    const int64_t unlimited = 1 << 30;
    return distance < 0 || distance > unlimited ? unlimited : distance;
}

/* Returns a * b * c, or INT32_MAX if that is less. No factor may be negative. */
static inline int64_t attn_product(int64_t a, int64_t b, int64_t c)
{
    const int64_t both = a * b; /* no overflow: a product of two int32 factors is below 2^62 */
    return both > INT32_MAX || both * c > INT32_MAX ? INT32_MAX : both * c;
}

/* Returns the greater of two numbers. */
static inline int64_t attn_larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns `count` / `size`, rounded up. */
static inline int64_t attn_parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

/* Returns log2 of the bytes of an element of `dtype`: 1 for 16-bit types, 0 for 8-bit types.
 * Launches shift by it instead of dividing. */
static inline int attn_size_bits(enum attn_dtype dtype) { return dtype <= ATTN_FP16; }

/* Returns the bytes of one element of `dtype`. */
static inline int attn_element_size(enum attn_dtype dtype) { return 1 << attn_size_bits(dtype); }

#endif
