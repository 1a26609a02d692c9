/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 8-, 6- and 4-bit float formats. gfx942 has the FNUZ forms of fp8 (e4m3) and bf8 (e5m2):
 * bias 8 and 16, no infinity, no negative zero, NaN is 0x80. gfx950 has the OCP forms and the OCP
 * MX types fp6 (e2m3), bf6 (e3m2) and fp4 (e2m1), which have neither infinity nor NaN.
 */
#ifndef HIPSIM_NARROW_H
#define HIPSIM_NARROW_H

#include "lanes.h"

/* A float format of at most 8 bits. */
struct narrow {
    /* Bits of a code, and of its mantissa. */
    unsigned bits, mbits;
    int bias;
    uint32_t max; /* code of the largest finite number, without the sign */
    uint32_t inf; /* code of infinity and of an overflow, without the sign */
    uint32_t nan;
    bool fnuz;   /* true: the only NaN is the code of -0 */
    bool finite; /* true: no infinity and no NaN, so that conversions saturate */
};

static const struct narrow fp8_fnuz = {8, 3, 8, 0x7f, 0x80, 0x80, true, false};
static const struct narrow bf8_fnuz = {8, 2, 16, 0x7f, 0x80, 0x80, true, false};
static const struct narrow fp8_ocp = {8, 3, 7, 0x7e, 0x7f, 0x7f, false, false};
static const struct narrow bf8_ocp = {8, 2, 15, 0x7b, 0x7c, 0x7e, false, false};
static const struct narrow fp6_mx = {6, 3, 1, 0x1f, 0x1f, 0x1f, false, true};
static const struct narrow bf6_mx = {6, 2, 3, 0x1f, 0x1f, 0x1f, false, true};
static const struct narrow fp4_mx = {4, 1, 1, 0x7, 0x7, 0x7, false, true};

/* Returns the exact value of `code`, a number in format `f`. */
static inline float narrow_decode(const struct narrow *f, uint32_t code)
{
    uint32_t sign = code >> (f->bits - 1) & 1;
    uint32_t mag = code & ((1u << (f->bits - 1)) - 1);
    int e = (int)(mag >> f->mbits);
    uint32_t m = mag & ((1u << f->mbits) - 1);
    float unit = as_f32((uint32_t)(127 + 1 - f->bias - (int)f->mbits) << 23);
    uint32_t normal = (uint32_t)(e - f->bias + 127) << 23 | m << (23 - f->mbits);
    const uint32_t subnormal = f32_bits((float)(int)m * unit);
    uint32_t u = e ? normal : subnormal;
    if (f->fnuz) { /* as in ROCm's to_float(), the NaN is negative */
        u = (mag | (sign ^ 1)) == 0 ? QUIET_NAN32 : u;
        return as_f32(u | sign << 31);
    }
    if (!f->finite) {
        u = mag > f->max ? QUIET_NAN32 : u;
        u = mag == f->inf && f->inf != f->nan ? 0x7f800000 : u;
    }
    return as_f32(u | sign << 31);
}

/* Returns the code of x in format `f`, where `r` is the code of its rounded magnitude, possibly
 * above f->max. Adds the sign and replaces overflow, infinities and NaNs. */
static inline uint32_t narrow_finish(const struct narrow *f, float x, uint64_t r, bool saturate)
{
    uint32_t u = f32_bits(x), sign = u >> 31, mag = u & 0x7fffffff;
    uint32_t over = saturate || f->finite ? f->max : f->inf;
    uint32_t code = r > f->max ? over : (uint32_t)r;
    code = mag == 0x7f800000 ? (saturate ? f->max : f->inf) : code;
    code = mag > 0x7f800000 ? f->nan : code;
    if (f->fnuz)
        return code == 0 || code == 0x80 ? code : code | sign << 7;
    return code | sign << (f->bits - 1);
}

/*
 * Returns the code of x in format `f`, rounded to nearest even by an addition, as
 * f16_magnitude_nearest() does. `saturate` is MODE.FP16_OVFL: overflow and infinity give the
 * largest number (CDNA4 ISA, 7.3).
 */
static inline uint32_t narrow_encode(const struct narrow *f, float x, bool saturate)
{
    const float least = as_f32((uint32_t)(128 - f->bias) << 23); /* least normal number */
    const float scale = as_f32((uint32_t)f->bias << 23);         /* 2^(bias - 127) */
    float m = fabsf(x);
    /* larger than any format's range; also for NaNs, which narrow_finish() replaces */
    m = m < 0x1p20f ? m : 0x1p20f;
    const float top = as_f32(f32_bits(m < least ? least : m) & 0x7f800000);
    const float magic = top * as_f32((uint32_t)(127 + 23 - f->mbits) << 23 | 0x400000);
    const uint32_t r = f32_bits(((m + magic) - magic) * scale) >> (23 - f->mbits);
    return narrow_finish(f, x, r, saturate);
}

/*
 * Returns the code of x's magnitude with `mbits` bits of mantissa, rounded stochastically from
 * `from` bits. A subnormal result's mantissa is shifted and truncated first. Then the top bits of
 * `random`, from - mbits of them, are added, and the sum is truncated. ROCm's from_float_sr()
 * (amd_hip_ocp_host.hpp) does the same. The manual's pseudo-code lets the sum wrap within the
 * mantissa, which would change 1.99 to 1.0; here the carry reaches the exponent.
 */
static inline uint32_t stochastic_bits(float x, unsigned from, unsigned mbits, int bias,
                                       uint32_t random)
{
    uint32_t u = f32_bits(x);
    int e = (int)(u >> 23 & 0xff);
    uint32_t m = ((u & 0x7fffff) | (uint32_t)(e != 0) << 23) >> (23 - from);
    int target = (e ? e : 1) - 127 + bias;
    int below = target < 1 ? 1 - target : 0;
    unsigned drop = from - mbits;
    m = below < 32 ? m >> below : 0;
    uint32_t r = (m + (random >> (32 - drop))) >> drop;
    return r + ((uint32_t)((target < 1 ? 1 : target) - 1) << mbits);
}

/* Returns the code of x in format `f`, rounded stochastically; see stochastic_bits(). `saturate` as
 * in narrow_encode(). */
static inline uint32_t narrow_stochastic(const struct narrow *f, float x, unsigned from,
                                         uint32_t random, bool saturate)
{
    return narrow_finish(f, x, stochastic_bits(x, from, f->mbits, f->bias, random), saturate);
}

/* Returns the number after `v` in V_PRNG_B32's sequence. */
static inline uint32_t next_prng(uint32_t v) { return v << 1 ^ (v >> 31 ? 197u : 0u); }

#endif
