/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has helpers for powers of two: sizes of tiles are powers of two, and layouts use their
 * exponents.
 */
#ifndef IR_BITS_H
#define IR_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* True if `x` is a positive power of two. */
static inline bool tir_is_power(int64_t x) { return x > 0 && !(x & (x - 1)); }

/** Returns log2 of x, a power of two. */
static inline unsigned tir_bits(unsigned x)
{
    assert(tir_is_power(x));
    return (unsigned)__builtin_ctz(x);
}

/** Returns log2 of x, rounded down. x is at least 1. */
static inline unsigned tir_bits_floor(unsigned x)
{
    assert(x);
    return 31 - (unsigned)__builtin_clz(x);
}

#endif
