/* SPDX-License-Identifier: Apache-2.0
 *
 * Powers of two: sizes of tiles are, and layouts count in their exponents.
 */
#ifndef IR_BITS_H
#define IR_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool tir_is_power(int64_t x) { return x > 0 && !(x & (x - 1)); }

/** Address bits of a power of two: its exponent. */
static inline unsigned tir_bits(unsigned x)
{
    assert(tir_is_power(x));
    return (unsigned)__builtin_ctz(x);
}

/** The exponent of the largest power of two that is not above x; x is at least 1. */
static inline unsigned tir_bits_floor(unsigned x)
{
    assert(x);
    return 31 - (unsigned)__builtin_clz(x);
}

#endif
