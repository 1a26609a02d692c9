/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp2, log2, sin and cos in double, with a relative error below 2^-48. They have no branches, so
 * that lane loops vectorise, and no fused operations, so that every host computes the same bits.
 */
#ifndef HIPSIM_TRANS_H
#define HIPSIM_TRANS_H

#include "lanes.h"

/* Returns a rounded to the nearest integer, ties to even. |a| >= 2^51 is returned unchanged: a is a
 * widened binary32 value, thus already an integer. */
static inline double nearest(double a)
{
    const double magic = 0x1.8p52, r = (a + magic) - magic;
    return fabs(a) < 0x1p51 ? r : a;
}

/* Returns 2^f for |f| <= 0.5. */
static inline double exp2_fraction(double f)
{
    double t = f * 0x1.62e42fefa39efp-1; /* ln 2 */
    double p = 1.0 / 39916800;
    p = p * t + 1.0 / 3628800;
    p = p * t + 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    return p * t + 1.0;
}

/* Returns 2^x. Overflow gives infinity; far below f32's least subnormal the result is zero. */
static inline double exp2_wide(double x)
{
    double c = x > 1000.0 ? 1000.0 : x;
    c = c < -1000.0 ? -1000.0 : c;
    c = c == c ? c : 0.0;
    double n = nearest(c);
    double p = exp2_fraction(c - n);
    /* The low mantissa bits of n + magic are n. */
    uint64_t exponent = (f64_bits(n + 0x1.8p52) & 0xfff) << 52;
    double r = as_f64(f64_bits(p) + exponent);
    return x < INFINITY ? r : x; /* NaN or infinity, which no mode changes to the largest f16 */
}

/* Returns log2 x, where x is a widened f32 or f16. Zero gives -inf, negative numbers NaN. */
static inline double log2_wide(double x)
{
    uint64_t u = f64_bits(x);
    /* The exponent is chosen so that the mantissa is in [sqrt(1/2), sqrt(2)). */
    uint64_t shifted = u - UINT64_C(0x3fe6a09e667f3bcd);
    int64_t e = (int64_t)shifted >> 52;
    double m = as_f64(u - ((uint64_t)e << 52));
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z * s + s;
    double r = (double)(int32_t)e + p * 0x1.71547652b82fep+1; /* 2 / ln 2 */
    r = x == 0 ? -INFINITY : r;
    r = x == INFINITY ? x : r;
    return x < 0 || x != x ? NAN : r;
}

/* Returns sin(2 pi r) for |r| <= 0.25. Exact at +-0.25, for halves that MODE rounds toward zero. */
static inline double sin_quarter(double r)
{
    double t = r * 0x1.921fb54442d18p+2; /* 2 pi */
    double z = t * t;
    double p = -1.0 / 121645100408832000.0;
    p = p * z + 1.0 / 355687428096000.0;
    p = p * z - 1.0 / 1307674368000.0;
    p = p * z + 1.0 / 6227020800.0;
    p = p * z - 1.0 / 39916800.0;
    p = p * z + 1.0 / 362880.0;
    p = p * z - 1.0 / 5040.0;
    p = p * z + 1.0 / 120.0;
    p = p * z - 1.0 / 6.0;
    return fabs(r) == 0.25 ? copysign(1.0, r) : p * z * t + t;
}

/* Returns an r with |r| <= 0.25 and sin(2 pi r) = sin(2 pi x). */
static inline double fold_turns(double x)
{
    double r = x - nearest(x);
    double folded = copysign(0.5, r) - r;
    return fabs(r) > 0.25 ? folded : r;
}

/*
 * Return sin(2 pi x) and cos(2 pi x), for V_SIN and V_COS. x may have any magnitude; infinities
 * yield NaN (CDNA4 ISA, V_SIN_F32).
 */
static inline double sin_turns(double x)
{
    double r = sin_quarter(fold_turns(x));
    r = x == 0 ? x : r;
    return fabs(x) < INFINITY ? r : NAN;
}

static inline double cos_turns(double x)
{
    double r = sin_quarter(fold_turns(fabs(x - nearest(x)) + 0.25));
    return fabs(x) < INFINITY ? r : NAN;
}

/*
 * Shorter polynomials, for results that are rounded to binary32. Their relative errors are below
 * 2^-43, whether the host fuses multiplications and additions or not. The polynomials interpolate
 * at Chebyshev points.
 */
#ifdef __FMA__
#    define FUSED(a, b, c) fma(a, b, c)
#else
#    define FUSED(a, b, c) ((a) * (b) + (c))
#endif

/* Nonzero if rounding y to binary32 may be wrong: y is within 2^12 units of its last place of the
 * middle of two neighbours. Not for subnormal results. */
static inline uint32_t next_to_middle(double y)
{
    const uint32_t middle = 1u << 28, near = 1u << 12;
    const uint32_t off = (uint32_t)f64_bits(y) + (near - middle);
    return (off & (2 * middle - 2 * near)) == 0 ? ~0u : 0;
}

/* Returns 2^f for |f| <= 0.5. */
static inline double short_exp2_fraction(double f)
{
    double p = 0x1.b6571de2f2351p-24;
    p = FUSED(p, f, 0x1.63ef969a64d3cp-20);
    p = FUSED(p, f, 0x1.ffcb76789860fp-17);
    p = FUSED(p, f, 0x1.43088e257f341p-13);
    p = FUSED(p, f, 0x1.5d87fe908f88ap-10);
    p = FUSED(p, f, 0x1.3b2ab72b175eep-7);
    p = FUSED(p, f, 0x1.c6b08d7044119p-5);
    p = FUSED(p, f, 0x1.ebfbdff8149f2p-3);
    p = FUSED(p, f, 0x1.62e42fefa39f7p-1);
    return FUSED(p, f, 1.0);
}

/* Returns log2 (m * 2^e) for m in [sqrt(1/2), sqrt(2)). */
static inline double short_log2(double m, float e)
{
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0x1.21ad23db025b1p-2;
    p = FUSED(p, z, 0x1.47959d3c06f22p-2);
    p = FUSED(p, z, 0x1.a61a2cf64013dp-2);
    p = FUSED(p, z, 0x1.2776c295b26e6p-1);
    p = FUSED(p, z, 0x1.ec709dc53a191p-1);
    p = FUSED(p, z, 0x1.71547652b8252p+1);
    return FUSED(p, s, (double)e);
}

/* Returns sin(2 pi r) for |r| <= 0.25. */
static inline double short_sin_quarter(double r)
{
    const double z = r * r;
    double p = 0x1.d53abdeb199c1p+1;
    p = FUSED(p, z, -0x1.e29b82ab98ea9p+3);
    p = FUSED(p, z, 0x1.50770f6a5a66bp+5);
    p = FUSED(p, z, -0x1.32d2c9b2d1df5p+6);
    p = FUSED(p, z, 0x1.466bc66ed3d1cp+6);
    p = FUSED(p, z, -0x1.4abbce624ad99p+5);
    p = FUSED(p, z, 0x1.921fb54442bb4p+2);
    return p * r;
}

#endif
