/* SPDX-License-Identifier: Apache-2.0 */
/* This file has the arithmetic that fill functions, which are made from ops/, have in common. */
#ifndef ATTN_FILL_H
#define ATTN_FILL_H

#include <stdint.h>

#include "runtime/attn.h"

/* Elements from one of `count` to the next: `dense` where nothing is said, or nothing follows. */
static inline int64_t attn_stride(int64_t given, int64_t count, int64_t dense)
{
    return given && count != 1 ? given : dense;
}

/* The default of a stride, which may be any number: where it does not fit, `stride` is out of range
 * itself and refused. */
static inline int64_t attn_times(int64_t count, int64_t stride)
{
    return (int64_t)((uint64_t)count * (uint64_t)stride);
}

/* Is a stride below `least` or above `most`, which is not less? One comparison. An int, as the next
 * one: fill functions join them by | without a branch, which compilers question between bools. */
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

/* bytes: a power of two. */
static inline int attn_misaligned(const void *p, uintptr_t bytes)
{
    return ((uintptr_t)p & (bytes - 1)) != 0;
}

/* The distance of a window as kernels see it: a sum of two still fits 32 bits. */
static inline int64_t attn_window(int32_t distance)
{
    const int64_t unlimited = 1 << 30;
    return distance < 0 || distance > unlimited ? unlimited : distance;
}

/* a b c, at most INT32_MAX; none is negative. */
static inline int64_t attn_product(int64_t a, int64_t b, int64_t c)
{
    const int64_t both = a * b; /* below 2^62 */
    return both > INT32_MAX || both * c > INT32_MAX ? INT32_MAX : both * c;
}

/* ceil(count / size). */
static inline int64_t attn_parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

/* log2 of the bytes of an element: launches shift by it, since a division takes longer. */
static inline int attn_size_bits(enum attn_dtype dtype) { return dtype <= ATTN_FP16; }

static inline int attn_element_size(enum attn_dtype dtype) { return 1 << attn_size_bits(dtype); }

#endif
