/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The narrow float formats as binary32 values. Binary32 holds all of their values, so decoding
 * never rounds. Formats: IEEE 754 binary16; bfloat16; OCP 8-bit E4M3 and E5M2 and their FNUZ
 * variants (no negative zero, one NaN, bias larger by 1: CDNA3 ISA, "FP8 and BF8 data formats");
 * OCP MX E2M3, E3M2, E2M1 and the scale E8M0.
 */
#ifndef HIPSIM_SMALLFLOAT_H
#define HIPSIM_SMALLFLOAT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline uint32_t bits_from_float(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static inline float f32_from_bf16(uint16_t h) { return float_from_bits((uint32_t)h << 16); }

/** Returns f as bf16 bits, rounded to nearest even. A NaN becomes quiet. */
static inline uint16_t bf16_from_f32(float f)
{
    uint32_t u = bits_from_float(f);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;

    if (e == 31)
        return float_from_bits(sign | 0x7f800000 | m << 13);
    if (e)
        return float_from_bits(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

/** Returns f as fp16 bits, rounded to nearest even. Overflow yields infinity; a NaN becomes
 * quiet. */
static inline uint16_t f16_from_f32(float f)
{
    uint32_t u = bits_from_float(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) /* below 2^-14: adding 0.5 moves the units of 2^-24 to the low bits */
        return (uint16_t)(sign | (bits_from_float(float_from_bits(a) + 0.5f) - 0x3f000000));
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (a - 0x38000000) >> 13);
}

#endif
