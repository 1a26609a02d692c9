/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which bits of a scalar result are defined if some source bits are not.
 *
 * A bit is defined if it is the same for all values of the undefined source bits. The functions are
 * exact for sums and comparisons, and never report an undefined bit as defined. Values and masks
 * have 64 bits; a bit of a mask is set if the bit of the value is defined. Sources of 32 bits are
 * extended by defined zeros.
 */
#ifndef HIPSIM_KNOWN_BITS_H
#define HIPSIM_KNOWN_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* A value and the mask of its defined bits. */
struct known {
    uint64_t value, bits;
};

/* Returns a 32-bit value and its mask, extended to 64 bits by defined zeros. */
static inline struct known known32(uint64_t value, uint64_t bits)
{
    return (struct known){(uint32_t)value, bits | ~(uint64_t)UINT32_MAX};
}

/* Returns the least value that k can have: its undefined bits are 0. */
static inline uint64_t known_least(struct known k) { return k.value & k.bits; }
/* Returns the greatest value that k can have: its undefined bits are 1. */
static inline uint64_t known_most(struct known k) { return k.value | ~k.bits; }

/* Returns a mask of the bits of a + b + carry into which the carry is defined. Bit 0 is in the mask
 * only if `carry_known`. */
static inline uint64_t known_carries(struct known a, struct known b, bool carry, bool carry_known)
{
    const uint64_t most = known_most(a) + known_most(b) + (uint64_t)(carry || !carry_known);
    const uint64_t least = known_least(a) + known_least(b) + (uint64_t)(carry && carry_known);
    const uint64_t zero = ~(most ^ known_most(a) ^ known_most(b));
    const uint64_t one = least ^ known_least(a) ^ known_least(b);
    return zero | one;
}

/* Returns a mask of the defined bits of a + b + carry. The sum has to fit in 64 bits. */
static inline uint64_t known_sum(struct known a, struct known b, bool carry, bool carry_known)
{
    return a.bits & b.bits & known_carries(a, b, carry, carry_known);
}

/* Returns the number of consecutive set bits of the mask from bit 0 on. */
static inline unsigned known_trailing(uint64_t mask)
{
    return ~mask ? (unsigned)__builtin_ctzll(~mask) : 64;
}

/* Returns how many of the lowest bits of a * b are defined, at most 64. */
static inline unsigned known_product(struct known a, struct known b)
{
    const unsigned na = known_trailing(a.bits), nb = known_trailing(b.bits);
    const unsigned za = known_trailing(~a.value & a.bits), zb = known_trailing(~b.value & b.bits);
    const unsigned n = na + zb < nb + za ? na + zb : nb + za;
    return n < 64 ? n : 64;
}

/* True if the outcome of a < b is defined. */
static inline bool known_less(struct known a, struct known b)
{
    return known_most(a) < known_least(b) || known_least(a) >= known_most(b);
}

/* True if the outcome of a == b is defined. */
static inline bool known_equal(struct known a, struct known b)
{
    return (a.bits & b.bits) == UINT64_MAX || ((a.value ^ b.value) & a.bits & b.bits) != 0;
}

/* True if the position of the lowest set bit is defined. */
static inline bool known_lowest(struct known k)
{
    const uint64_t first = known_most(k) & -known_most(k);
    return first && k.bits & first;
}

/* True if the position of the highest set bit is defined. */
static inline bool known_highest(struct known k)
{
    const uint64_t most = known_most(k);
    return most && k.bits >> (63 - __builtin_clzll(most)) & 1;
}

#endif
