/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the element types of verified tensors: their encoding, their rounding errors,
 * and random elements.
 */
#ifndef TOOLS_VERIFY_NUMBERS_H
#define TOOLS_VERIFY_NUMBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/attn.h"

/* An element type: its format and its rounding errors. */
struct precision {
    enum attn_dtype dtype;
    const char *name;   /* name in a dispatch key */
    const char *target; /* target on which the name has this format; NULL: all others */
    int size;           /* bytes of an element */
    double unit;        /* largest relative error of a rounding */
    double tiny;        /* largest absolute error of a rounding to a subnormal number */
    /* largest number, to which larger ones are rounded; infinity: roundings do not saturate */
    double limit;
    /* bits that mark memory as unwritten: a NaN that no kernel writes; int8: the lowest number */
    uint16_t poison;
};

/** Returns the 16-bit float type of this name, such as "bf16"; NULL if there is none. */
const struct precision *find_precision(const char *name);

/** Returns the element type of a cache. ATTN_FP8 means the fp8 format of `target`. */
const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target);

/* The functions that are inline here run for each of millions of elements. */

/** Returns the float32 with these bits. */
static inline float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/** Decodes a finite number of `width` bits: a sign, an exponent with bias `bias`, and `mantissa`
 * bits. The bits are moved to their positions in binary32, and the result is multiplied by 2^(127 -
 * bias). The product is exact for subnormal numbers too. */
static inline double decode_small(uint32_t bits, int width, int mantissa, int bias)
{
    const uint32_t sign = bits >> (width - 1) << 31;
    const uint32_t magnitude = (bits & ((UINT32_C(1) << (width - 1)) - 1)) << (23 - mantissa);
    return (double)bits_to_float(sign | magnitude) *
           (double)bits_to_float((uint32_t)(254 - bias) << 23);
}

/** Returns the number with the bits of an f16. */
static inline double decode_half(uint16_t bits)
{
    if ((bits & 0x7c00) == 0x7c00)
        return bits & 0x3ff ? NAN : bits >> 15 ? -INFINITY : INFINITY;
    return decode_small(bits, 16, 10, 15);
}

/**
 * Decodes fp8 with four bits of exponent and three of mantissa. OCP 8-bit Floating Point
 * Specification (OFP8), e4m3: bias 7, NaN where all bits but the sign are set. fnuz (CDNA3 ISA
 * manual): bias 8, no negative zero, whose bits are the only NaN.
 */
static inline double decode_fp8(uint16_t bits, bool fnuz)
{
    if (fnuz ? bits == 0x80 : (bits & 0x7f) == 0x7f)
        return NAN;
    return decode_small(bits, 8, 3, fnuz ? 8 : 7);
}

/** Returns the number that `bits` encode in type `p`. */
static inline double decode_element(const struct precision *p, uint16_t bits)
{
    switch (p->dtype) {
    case ATTN_BF16: return bits_to_float((uint32_t)bits << 16);
    case ATTN_FP16: return decode_half(bits);
    case ATTN_FP8: return decode_fp8(bits, p->target != NULL);
    default: return (int8_t)bits;
    }
}

/** Returns the bits of a value that fp8 (OCP or fnuz) represents exactly. */
uint16_t encode_fp8(double value, bool fnuz);

/** Returns the bits of `value` in type `p`, which must represent it exactly. A 16-bit type
 * represents each random_value() exactly. */
static inline uint16_t encode_element(const struct precision *p, double value)
{
    if (p->dtype == ATTN_FP8)
        return encode_fp8(value, p->target != NULL);
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    if (p->dtype == ATTN_BF16)
        return (uint16_t)(bits >> 16);
    if (f == 0)
        return (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t exponent = (bits >> 23 & 255) - 127 + 15; /* within fp16's normal range */
    return (uint16_t)((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 1023));
}

/** Returns 64 reproducible random bits and advances *state, by splitmix64 (Steele, Lea, Flood: Fast
 * splittable pseudorandom number generators). */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** Returns the bits, in type `p`, of a random number of magnitude `limit` at most. */
uint16_t random_element(const struct precision *p, double limit, uint64_t *state);

/** Returns a random value in (-2, 2), mostly within 1, with eight significant bits. */
static inline double random_value(uint64_t *state)
{
    const uint64_t bits = random_bits(state);
    const int significand = (int)(bits & 511) - 256; /* -256 .. 255: 8 bits and a sign */
    static const double units[] = {0x1p-7, 0x1p-8, 0x1p-9, 0x1p-10};
    return significand * units[bits >> 60 & 3];
}

/** Returns the Euclidean length of a vector of n elements. */
static inline double vector_length(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

#endif
