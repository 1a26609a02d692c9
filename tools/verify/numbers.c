/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * The element types, as struct precision has their members. `unit` is half the distance of
 * neighbours relative to the smaller one: 2^-p for p significant bits, with the hidden one. `tiny`
 * is half the smallest step. int8 has a step of 1 everywhere.
 */
static const struct precision precisions[] = {
    {ATTN_BF16, "bf16", NULL, 2, 0x1p-8, 0x1p-134, INFINITY, 0x7fc5},
    {ATTN_FP16, "fp16", NULL, 2, 0x1p-11, 0x1p-25, INFINITY, 0x7e05},
    {ATTN_FP8, "fp8", "gfx942", 1, 0x1p-4, 0x1p-11, 240, 0x80},
    {ATTN_FP8, "fp8", NULL, 1, 0x1p-4, 0x1p-10, 448, 0x7f},
    {ATTN_INT8, "int8", NULL, 1, 0, 0.5, 127, 0x80},
};

enum { COUNT = sizeof(precisions) / sizeof(precisions[0]) };

const struct precision *find_precision(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (precisions[i].size == 2 && !strcmp(precisions[i].name, name))
            return &precisions[i];
    }
    return NULL;
}

const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target)
{
    for (int i = 0; i < COUNT; i++) {
        const struct precision *p = &precisions[i];
        if (p->dtype == dtype && (!p->target || !strcmp(p->target, target)))
            return p;
    }
    return NULL;
}

/* Returns the float32 with these bits. */
static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Decodes a finite number of `width` bits: a sign, an exponent with bias `bias`, and `mantissa`
 * bits. The bits are moved to their positions in binary32, and the result is multiplied by 2^(127 -
 * bias). The product is exact for subnormal numbers too. */
static inline double decode_small(uint32_t bits, int width, int mantissa, int bias)
{
    const uint32_t sign = bits >> (width - 1) << 31;
    const uint32_t magnitude = (bits & ((UINT32_C(1) << (width - 1)) - 1)) << (23 - mantissa);
    return (double)bits_to_float(sign | magnitude) *
           (double)bits_to_float((uint32_t)(254 - bias) << 23);
}

/* Returns the number with the bits of an f16. */
static double decode_half(uint16_t bits)
{
    if ((bits & 0x7c00) == 0x7c00)
        return bits & 0x3ff ? NAN : bits >> 15 ? -INFINITY : INFINITY;
    return decode_small(bits, 16, 10, 15);
}

/*
 * Decodes fp8 with four bits of exponent and three of mantissa. OCP 8-bit Floating Point
 * Specification (OFP8), e4m3: bias 7, NaN where all bits but the sign are set. fnuz (CDNA3 ISA
 * manual): bias 8, no negative zero, whose bits are the only NaN.
 */
static double decode_fp8(uint16_t bits, bool fnuz)
{
    if (fnuz ? bits == 0x80 : (bits & 0x7f) == 0x7f)
        return NAN;
    return decode_small(bits, 8, 3, fnuz ? 8 : 7);
}

double decode_element(const struct precision *p, uint16_t bits)
{
    switch (p->dtype) {
    case ATTN_BF16: return bits_to_float((uint32_t)bits << 16);
    case ATTN_FP16: return decode_half(bits);
    case ATTN_FP8: return decode_fp8(bits, p->target != NULL);
    default: return (int8_t)bits;
    }
}

/* Returns the bits of a value that fp8 (OCP or fnuz) represents exactly. */
static uint16_t encode_fp8(double value, bool fnuz)
{
    const int bias = fnuz ? 8 : 7;
    int exponent;
    const double fraction = frexp(fabs(value), &exponent); /* 0.5 .. 1 */
    if (value == 0)
        return 0;
    const int field = exponent - 1 + bias;
    const int bits = field > 0 ? field << 3 | ((int)ldexp(fraction, 4) & 7)
                               : (int)ldexp(fabs(value), bias - 1 + 3);
    return (uint16_t)(bits | (value < 0) << 7);
}

uint16_t encode_element(const struct precision *p, double value)
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

uint16_t random_element(const struct precision *p, double limit, uint64_t *state)
{
    if (p->size == 2)
        return encode_element(p, limit / 2 * random_value(state));
    for (;;) {
        const uint16_t bits = (uint16_t)(random_bits(state) & 0xff);
        if (fabs(decode_element(p, bits)) <= limit)
            return bits;
    }
}

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double random_value(uint64_t *state)
{
    const uint64_t bits = random_bits(state);
    const int significand = (int)(bits & 511) - 256; /* -256 .. 255: 8 bits and a sign */
    static const double units[] = {0x1p-7, 0x1p-8, 0x1p-9, 0x1p-10};
    return significand * units[bits >> 60 & 3];
}
