/* SPDX-License-Identifier: Apache-2.0
 *
 * This file converts between float formats and computes the elementwise ops on floats. Narrow
 * formats compute in float and round once. That is exact for one add, mul or fma of operands of 16
 * bits or less, apart from double rounding of fma.
 */
#include "ir/arith.h"

#include <math.h>
#include <string.h>

/* Returns the f32 whose bits are `bits`. */
static float float_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Returns the 32 bits of an f32. */
static uint32_t bits_of_float(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

/* The parameters of a binary float format of 16 bits or less: sign, exponent, mantissa. */
struct format {
    /* Bits of the stored mantissa, bits of the exponent, and the exponent's bias. */
    int mantissa, exponent_bits, bias;
    bool infinity; /* the top exponent holds infinity and NaN, as in IEEE */
    bool fnuz;     /* the only NaN is -0; there is no infinity and no -0 */
};

/* Returns the fields of a 16-bit or 8-bit float type; `fnuz` selects the fp8 variant without
 * negative zero. */
static struct format format_of(unsigned dtype, bool fnuz)
{
    if (dtype == TIR_F16)
        return (struct format){10, 5, 15, true, false};
    if (dtype == TIR_BF16)
        return (struct format){7, 8, 127, true, false};
    return (struct format){3, 4, fnuz ? 8 : 7, false, fnuz};
}

/* Returns the mask of the sign bit of format `f`. */
static uint32_t sign_of(struct format f) { return 1u << (f.mantissa + f.exponent_bits); }

/* Returns the bits of the quiet NaN of format `f`; fnuz formats use the bits of negative zero. */
static uint32_t nan_of(struct format f)
{
    if (f.fnuz)
        return sign_of(f);
    const uint32_t all = sign_of(f) - 1;
    return f.infinity ? all & ~((1u << (f.mantissa - 1)) - 1) : all;
}

/* Returns the bits of the largest finite magnitude of format `f`. */
static uint32_t largest(struct format f)
{
    const uint32_t all = sign_of(f) - 1;
    if (f.infinity)
        return all - (1u << f.mantissa);
    return f.fnuz ? all : all - 1;
}

float tir_to_float(unsigned dtype, int64_t bits, bool fnuz)
{
    if (dtype == TIR_F32)
        return float_of_bits((uint32_t)bits);
    if (dtype == TIR_BF16)
        return float_of_bits((uint32_t)bits << 16);
    const struct format f = format_of(dtype, fnuz);
    const uint32_t magnitude = (uint32_t)bits & (sign_of(f) - 1);
    const bool negative = (uint32_t)bits & sign_of(f);
    if (f.fnuz ? (uint32_t)bits == sign_of(f) : !f.infinity && magnitude == nan_of(f))
        return NAN;
    const int exponent = (int)(magnitude >> f.mantissa);
    const uint32_t fraction = magnitude & ((1u << f.mantissa) - 1);
    float v;
    if (f.infinity && exponent == (1 << f.exponent_bits) - 1)
        v = fraction ? NAN : INFINITY;
    else if (!exponent)
        v = ldexpf((float)fraction, 1 - f.bias - f.mantissa);
    else
        v = ldexpf((float)(fraction | 1u << f.mantissa), exponent - f.bias - f.mantissa);
    return negative ? -v : v;
}

/* Rounds the magnitude of a finite v with `round`. The result may exceed the largest finite
   number. */
static uint32_t round_magnitude(struct format f, float v, float (*round)(float))
{
    int exponent;
    if (v == 0)
        return 0;
    frexpf(v, &exponent); /* v = m * 2^exponent, m in [0.5, 1) */
    int biased = exponent - 1 + f.bias;
    if (biased < 1)
        biased = 1;
    const float units = round(ldexpf(v, f.bias + f.mantissa - biased)); /* in ULPs */
    const uint32_t n = (uint32_t)units;
    return n < 1u << f.mantissa ? n : ((uint32_t)(biased - 1) << f.mantissa) + n;
}

int64_t tir_from_float(unsigned dtype, float v, bool fnuz)
{
    if (dtype == TIR_F32)
        return bits_of_float(v);
    const struct format f = format_of(dtype, fnuz);
    if (isnan(v))
        return nan_of(f);
    const uint32_t sign = signbit(v) ? sign_of(f) : 0;
    /* nearbyint rounds to nearest even, the default mode. */
    uint32_t magnitude = isinf(v) ? sign_of(f) : round_magnitude(f, fabsf(v), nearbyintf);
    if (magnitude > largest(f))
        magnitude = f.infinity ? largest(f) + 1 : largest(f);
    return f.fnuz && !magnitude ? 0 : sign | magnitude;
}

int64_t tir_cut_float(unsigned dtype, float v)
{
    const struct format f = format_of(dtype, false);
    if (isnan(v) || isinf(v))
        return tir_from_float(dtype, v, false);
    const uint32_t magnitude = round_magnitude(f, fabsf(v), truncf);
    return (signbit(v) ? sign_of(f) : 0) | (magnitude > largest(f) ? largest(f) : magnitude);
}

/* Returns the larger number (IEEE 754-2008 maxNum): if one operand is NaN, the result is the other
 * one. */
static float max_of(float a, float b) { return fmaxf(a, b); }

/* Returns f16 i of a pair as a double; a subnormal number becomes 0. */
static double half_of(int64_t pair, int i)
{
    const int64_t bits = pair >> 16 * i & 0xffff;
    return tir_to_float(TIR_F16, bits & 0x7c00 ? bits : 0, false);
}

int64_t tir_eval_dot2(int64_t a, int64_t b, int64_t c)
{
    double sum = tir_to_float(TIR_F32, c, false);
    for (int i = 0; i < 2; i++)
        sum += half_of(a, i) * half_of(b, i);
    return bits_of_float((float)sum);
}

/* Returns two f16 in 32 bits (`a` in the low half), each clamped to 0..1. */
static int64_t unit_pair(float a, float b)
{
    const int64_t low = tir_from_float(TIR_F16, fminf(max_of(a, 0), 1), false);
    return (int32_t)(low | tir_from_float(TIR_F16, fminf(max_of(b, 0), 1), false) << 16);
}

bool tir_eval_float(unsigned opcode, unsigned dtype, bool fnuz, const int64_t operands[3],
                    int64_t *d)
{
    const float a = tir_to_float(dtype, operands[0], fnuz);
    const float b = tir_to_float(dtype, operands[1], fnuz);
    const float c = tir_to_float(dtype, operands[2], fnuz);
    float r;
    switch (opcode) {
    case TIR_add: r = a + b; break;
    case TIR_sub: r = a - b; break;
    case TIR_mul: r = a * b; break;
    case TIR_div: r = a / b; break;
    case TIR_fma: r = fmaf(a, b, c); break;
    case TIR_min: r = fminf(a, b); break;
    case TIR_max: r = max_of(a, b); break;
    case TIR_max3: r = max_of(a, max_of(b, c)); break;
    case TIR_neg: r = -a; break;
    case TIR_abs: r = fabsf(a); break;
    case TIR_exp2: r = exp2f(a); break;
    case TIR_log2: r = log2f(a); break;
    case TIR_rcp: r = 1 / a; break;
    case TIR_rsq: r = 1 / sqrtf(a); break;
    case TIR_ceil: r = ceilf(a); break;
    case TIR_unit_pair: *d = unit_pair(a, b); return true;
    case TIR_cmp_eq: *d = a == b; return true;
    case TIR_cmp_ne: *d = a != b; return true;
    case TIR_cmp_lt: *d = a < b; return true;
    case TIR_cmp_le: *d = a <= b; return true;
    case TIR_cmp_gt: *d = a > b; return true;
    case TIR_cmp_ge: *d = a >= b; return true;
    default: return false;
    }
    *d = tir_from_float(dtype, r, fnuz);
    return true;
}

double tir_mx_value(unsigned format, int64_t element, unsigned which, unsigned scale)
{
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    enum { BIAS = 127, NAN_SCALE = 255 };
    if (scale == NAN_SCALE)
        return NAN;
    if (format != TIR_MX_E2M1)
        return ldexp(tir_to_float(TIR_FP8, element, false), (int)scale - BIAS);
    const unsigned half = (unsigned)element >> (4 * which) & 15;
    return ldexp(half & 8 ? -e2m1[half & 7] : e2m1[half], (int)scale - BIAS);
}
