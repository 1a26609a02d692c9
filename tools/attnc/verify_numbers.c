/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/verify_numbers.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/*
 * unit: half the distance of neighbours, relative to the smaller: 2^-p for p significant bits, the
 * hidden one included. tiny: half the smallest step. No number here was fitted to a result.
 */
static const struct precision precisions[] = {
    { ATTN_BF16, "bf16", 0x1p-8, 0x1p-134, 0x7fc5 },
    { ATTN_FP16, "fp16", 0x1p-11, 0x1p-25, 0x7e05 },
};

const struct precision *find_precision(const char *name)
{
    for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++) {
        if (!strcmp(precisions[i].name, name))
            return &precisions[i];
    }
    return NULL;
}

static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static double decode_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value;
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -value : value;
}

double decode_element(const struct precision *p, uint16_t bits)
{
    return p->dtype == ATTN_BF16 ? bits_to_float((uint32_t)bits << 16) : decode_half(bits);
}

uint16_t encode_element(const struct precision *p, double value)
{
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
    return ldexp(significand, -7 - (int)(bits >> 60 & 3));
}
