/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations with 64-bit operands, lane masks as sources or second results, and the division steps
 * (CDNA3 ISA, VOP2 and VOP3 sections).
 */
#include <fenv.h>
#include <float.h>

#include "lanes.h"
#include "saturate.h"

/* Kernels and rows have one line each. */
/* clang-format off */

#define WIDE(op, ...) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d, *d2 = x->d2; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool clamp = x->in->clamp; \
        (void)s0, (void)s1, (void)s2, (void)d2, (void)clamp; \
        EACH_LANE { \
            __VA_ARGS__; \
        } \
    }

WIDE(mov_b64, set_row64(d, i, row64(s0, i)))
WIDE(lshlrev_b64, set_row64(d, i, row64(s1, i) << (s0[i] & 63)))
WIDE(lshrrev_b64, set_row64(d, i, row64(s1, i) >> (s0[i] & 63)))
WIDE(ashrrev_i64, set_row64(d, i, (uint64_t)((int64_t)row64(s1, i) >> (s0[i] & 63))))
/* "The design treats unsupported shift counts as a shift of zero": 5, 6 and 7. */
WIDE(lshl_add_u64, uint32_t by = s1[i] & 7;
     set_row64(d, i, (row64(s0, i) << (by > 4 ? 0 : by)) + row64(s2, i)))

/* Returns S1 in lanes whose mask bit (S2) is set, otherwise S0. */
WIDE(cndmask, d[i] = s2[i] ? s1[i] : s0[i])

/* Additions with a lane mask as carry out (second result), some with a carry in. */
WIDE(add_co, uint32_t a = s0[i]; uint32_t r = a + s1[i]; uint32_t c = r < a ? ~0u : 0;
     d2[i] = c; d[i] = clamp && c ? ~0u : r)
WIDE(sub_co, uint32_t a = s0[i]; uint32_t b = s1[i]; uint32_t c = b > a ? ~0u : 0;
     d2[i] = c; d[i] = clamp && c ? 0 : a - b)
WIDE(subrev_co, uint32_t a = s1[i]; uint32_t b = s0[i]; uint32_t c = b > a ? ~0u : 0;
     d2[i] = c; d[i] = clamp && c ? 0 : a - b)
WIDE(addc_co, uint64_t r = (uint64_t)s0[i] + s1[i] + (s2[i] & 1); uint32_t c = r >> 32 ? ~0u : 0;
     d2[i] = c; d[i] = clamp && c ? ~0u : (uint32_t)r)
WIDE(subb_co, uint64_t a = s0[i]; uint64_t b = (uint64_t)s1[i] + (s2[i] & 1);
     uint32_t c = b > a ? ~0u : 0; d2[i] = c; d[i] = clamp && c ? 0 : (uint32_t)(a - b))
WIDE(subbrev_co, uint64_t a = s1[i]; uint64_t b = (uint64_t)s0[i] + (s2[i] & 1);
     uint32_t c = b > a ? ~0u : 0; d2[i] = c; d[i] = clamp && c ? 0 : (uint32_t)(a - b))

/* { D1, D0 } = S0 * S1 + S2, with bit 64 of the sum as second result. */
WIDE(mad_u64_u32, uint64_t c = row64(s2, i); uint64_t r = (uint64_t)s0[i] * s1[i] + c;
     d2[i] = r < c ? ~0u : 0; set_row64(d, i, clamp && r < c ? UINT64_MAX : r))
WIDE(mad_i64_i32, int64_t c = (int64_t)row64(s2, i);
     int64_t p = (int64_t)(int32_t)s0[i] * (int32_t)s1[i];
     uint64_t r = (uint64_t)p + (uint64_t)c;
     bool over = (p < 0) == (c < 0) && ((int64_t)r < 0) != (p < 0);
     bool sign = over ? p < 0 : (int64_t)r < 0; /* sign of the exact sum, which has 65 bits */
     d2[i] = sign ? ~0u : 0;
     set_row64(d, i, clamp && over ? (p < 0 ? (uint64_t)INT64_MIN : (uint64_t)INT64_MAX) : r))

/* V_QSAD_PK_U16_U8, with `masked` V_MQSAD: adds to 16-bit field k of c the sad_u8() of b and the
 * four bytes of a from byte k on. */
static inline uint64_t qsad(uint64_t a, uint32_t b, uint64_t c, bool masked, bool clamp)
{
    uint64_t r = 0;
    for (unsigned k = 0; k < 4; k++) {
        uint32_t sum = sad_u8((uint32_t)(a >> 8 * k), b, masked) + (uint32_t)(c >> 16 * k & 0xffff);
        r |= (uint64_t)(sat_u16(sum, clamp) & 0xffff) << 16 * k;
    }
    return r;
}

WIDE(qsad_pk_u16_u8, set_row64(d, i, qsad(row64(s0, i), s1[i], row64(s2, i), false, clamp)))
WIDE(mqsad_pk_u16_u8, set_row64(d, i, qsad(row64(s0, i), s1[i], row64(s2, i), true, clamp)))

/* V_MQSAD_U32_U8: like qsad() with four results of 32 bits. */
static void k_mqsad_u32_u8(struct lanes *x)
{
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint64_t a = row64(x->s[0], i);
        uint32_t b = x->s[1][i], sums[4];
        for (unsigned k = 0; k < 4; k++) {
            uint64_t sum = (uint64_t)sad_u8((uint32_t)(a >> 8 * k), b, true)
                + x->s[2][k * WAVE_LANES + i];
            sums[k] = sat_u32(sum, x->in->clamp);
        }
        for (unsigned k = 0; k < 4; k++)
            x->d[k * WAVE_LANES + i] = sums[k];
    }
}

/*
 * V_DIV_SCALE: a is the operand to scale (numerator or denominator), b the denominator, c the
 * numerator. If only one of them is scaled, VCC makes V_DIV_FMAS scale the quotient back. Where the
 * manual has "== DENORM" of a quotient, exponents are compared: tools/hipsim/docs/hipsim.md,
 * "Division".
 */

/* Returns the exponent field of an f32. */
static inline int exp32(float f)
{
    return (int)(f32_bits(f) >> 23 & 0xff);
}

/* Returns the exponent field of an f64. */
static inline int exp64(double f)
{
    return (int)(f64_bits(f) >> 52 & 0x7ff);
}

/* Constants of V_DIV_SCALE for a float type. */
struct div_limits {
    /* least difference of exponents, in either direction, with which the quotient needs scaling */
    int far;
    int bias;
    int numerator; /* largest exponent of a numerator that counts as tiny */
};

/* Returns how S0 is scaled: 1 up, -1 down, 0 not. Sets *flag if the quotient must be scaled back.
 * `eb` and `ec` are the exponents of denominator and numerator; `is_b`: S0 is the denominator. */
static inline int div_scale(const struct div_limits *l, int eb, int ec, bool is_b, uint32_t *flag)
{
    const bool tiny = ec - eb <= -l->far;
    *flag = 0;
    if (ec - eb >= l->far) {
        *flag = ~0u;
        return is_b;
    }
    if (eb == 0)
        return 1;
    *flag = tiny ? ~0u : 0;
    if (eb >= 2 * l->bias - 1) /* the manual's scaling by 2^64 would overflow such a denominator */
        return tiny && !is_b ? 0 : -1;
    return tiny ? !is_b : ec <= l->numerator;
}

/* Returns S0 scaled as V_DIV_SCALE_F32 does. Sets *flag to all ones if the quotient must be scaled
 * back. */
static uint32_t div_scale32(float a, float b, float c, uint32_t *flag)
{
    static const struct div_limits limits = {96, 127, 24};
    const uint32_t u = f32_bits(a);
    int way = div_scale(&limits, exp32(b), exp32(c), u == f32_bits(b), flag);
    if (b == 0 || c == 0)
        return DEFAULT_NAN32;
    if (nan32(u))
        return u | QUIET32;
    return f32_bits(way > 0 ? a * 0x1p64f : way < 0 ? a * 0x1p-64f : a);
}

/* Returns S0 scaled as V_DIV_SCALE_F64 does. Sets *flag to all ones if the quotient must be scaled
 * back. */
static uint64_t div_scale64(double a, double b, double c, uint32_t *flag)
{
    static const struct div_limits limits = {768, 1023, 53};
    const uint64_t u = f64_bits(a);
    int way = div_scale(&limits, exp64(b), exp64(c), u == f64_bits(b), flag);
    if (b == 0 || c == 0)
        return DEFAULT_NAN64;
    if (nan64(u))
        return u | QUIET64;
    return f64_bits(way > 0 ? a * 0x1p128 : way < 0 ? a * 0x1p-128 : a);
}

static void k_div_scale_f32(struct lanes *x)
{
    for (unsigned i = 0; i < WAVE_LANES; i++)
        x->d[i] = div_scale32(as_f32(x->s[0][i]), as_f32(x->s[1][i]), as_f32(x->s[2][i]),
                              &x->d2[i]);
}

static void k_div_scale_f64(struct lanes *x)
{
    for (unsigned i = 0; i < WAVE_LANES; i++)
        set_row64(x->d, i, div_scale64(as_f64(row64(x->s[0], i)), as_f64(row64(x->s[1], i)),
                                       as_f64(row64(x->s[2], i)), &x->d2[i]));
}

/*
 * True if V_DIV_SCALE has scaled any lane's quotient, which V_DIV_FMAS undoes. The factor is 2^64
 * (2^128 in double), not the manual's 2^32. It scales up if S2, the scaled quotient, is at least 2,
 * otherwise down. The result is rounded once; otherwise subnormal quotients would not be the
 * nearest numbers. Subnormal sources count in any MODE, so the types are plain bits.
 */
static bool any_scaled(const struct lanes *x)
{
    uint32_t any = 0;
    EACH_LANE any |= x->s[3][i];
    return any;
}

/* Sets wide[] to a * b + c of each lane with the scaling undone, rounded to odd in double. */
static void fused_wide_f32(const struct lanes *x, double *wide)
{
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        float c = as_f32(x->s[2][i]);
        double product = (double)as_f32(x->s[0][i]) * (double)as_f32(x->s[1][i]);
        wide[i] = add_to_odd(product, (double)c) * (exp32(c) > 127 ? 0x1p64 : 0x1p-64);
    }
}

static void k_div_fmas_f32(struct lanes *x)
{
    double wide[WAVE_LANES] = {0};
    if (any_scaled(x)) {
        const int mode = fegetround();
        fesetround(FE_TONEAREST); /* rounding to odd requires this mode */
        fused_wide_f32(x, wide);
        fesetround(mode);
    }
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        float r = fmaf(as_f32(x->s[0][i]), as_f32(x->s[1][i]), as_f32(x->s[2][i]));
        x->d[i] = f32_bits(x->s[3][i] && wide[i] != 0 ? (float)wide[i] : r);
    }
    LOCAL(fix_nan32)(x, 3);
}

/* Returns a * b + c rounded to odd, if long double is wider than double. */
static long double fused_to_odd(double a, double b, double c)
{
    double product = a * b, rest = fma(a, b, -product);
    long double sum = (long double)c + (long double)product, back = sum - (long double)c;
    long double error = ((long double)c - (sum - back)) + ((long double)product - back);
    int e;
    error += (long double)rest;
    if (!isfinite(sum) || error == 0
        || fmodl(ldexpl(frexpl(sum, &e), LDBL_MANT_DIG), 2.0L) != 0)
        return sum;
    return nextafterl(sum, error > 0 ? (long double)INFINITY : -(long double)INFINITY);
}

/* Like fused_wide_f32(), for f64: sets the scaled sums, rounded to odd. */
static void fused_wide_f64(const struct lanes *x, long double *wide)
{
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        double c = as_f64(row64(x->s[2], i));
        wide[i] = fused_to_odd(as_f64(row64(x->s[0], i)), as_f64(row64(x->s[1], i)), c)
            * (exp64(c) > 1023 ? 0x1p128L : 0x1p-128L);
    }
}

static void k_div_fmas_f64(struct lanes *x)
{
    long double wide[WAVE_LANES] = {0};
    if (any_scaled(x)) {
        const int mode = fegetround();
        fesetround(FE_TONEAREST);
        fused_wide_f64(x, wide);
        fesetround(mode);
    }
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        double r = fma(as_f64(row64(x->s[0], i)), as_f64(row64(x->s[1], i)),
                       as_f64(row64(x->s[2], i)));
        set_row64(x->d, i, f64_bits(x->s[3][i] && wide[i] != 0 ? (double)wide[i] : r));
    }
    LOCAL(fix_nan64)(x, 3);
}

#define WROW(op, fn, fl, t, t2, ...) \
    {.name = op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##fn, .dst = t, \
     .dst2 = t2, .src = {__VA_ARGS__}, .flags = ROW_VALU | (fl)},
#define CARRY(op, fn) WROW(op, fn, ROW_INT_CLAMP, T_U32, T_MASK, T_U32, T_U32)
#define CARRY_IN(op, fn) WROW(op, fn, ROW_INT_CLAMP, T_U32, T_MASK, T_U32, T_U32, T_MASK)
const struct op_row LOCAL(vop_wide_rows)[] = {
    WROW("v_mov_b64", mov_b64, ROW_LOW_ALONE, T_B64, 0, T_B64)
    WROW("v_lshlrev_b64", lshlrev_b64, ROW_LOW_ALONE, T_B64, 0, T_U32, T_B64)
    WROW("v_lshrrev_b64", lshrrev_b64, 0, T_B64, 0, T_U32, T_B64)
    WROW("v_ashrrev_i64", ashrrev_i64, 0, T_I64, 0, T_U32, T_I64)
    WROW("v_lshl_add_u64", lshl_add_u64, ROW_LOW_ALONE, T_U64, 0, T_U64, T_U32, T_U64)
    WROW("v_cndmask_b32", cndmask, ROW_NO_FLUSH | ROW_SELECTS, T_B32, 0, T_F32, T_F32, T_MASK)
    CARRY("v_add_co_u32", add_co)
    CARRY("v_sub_co_u32", sub_co)
    CARRY("v_subrev_co_u32", subrev_co)
    CARRY_IN("v_addc_co_u32", addc_co)
    CARRY_IN("v_subb_co_u32", subb_co)
    CARRY_IN("v_subbrev_co_u32", subbrev_co)
    WROW("v_mad_u64_u32", mad_u64_u32, ROW_INT_CLAMP | ROW_LOW_ALONE | ROW_ZERO_WINS,
         T_U64, T_MASK, T_U32, T_U32, T_U64)
    WROW("v_mad_i64_i32", mad_i64_i32, ROW_INT_CLAMP | ROW_LOW_ALONE | ROW_ZERO_WINS,
         T_I64, T_MASK, T_I32, T_I32, T_I64)
    WROW("v_qsad_pk_u16_u8", qsad_pk_u16_u8, ROW_INT_CLAMP, T_B64, 0, T_B64, T_B32, T_B64)
    WROW("v_mqsad_pk_u16_u8", mqsad_pk_u16_u8, ROW_INT_CLAMP, T_B64, 0, T_B64, T_B32, T_B64)
    WROW("v_mqsad_u32_u8", mqsad_u32_u8, ROW_INT_CLAMP, T_B128, 0, T_B64, T_B32, T_B128)
    WROW("v_div_scale_f32", div_scale_f32, ROW_ROUNDS, T_F32, T_MASK, T_F32, T_F32, T_F32)
    WROW("v_div_scale_f64", div_scale_f64, ROW_ROUNDS, T_F64, T_MASK, T_F64, T_F64, T_F64)
    WROW("v_div_fmas_f32", div_fmas_f32, ROW_ROUNDS, T_F32, 0, T_B32, T_B32, T_B32, T_MASK)
    WROW("v_div_fmas_f64", div_fmas_f64, ROW_ROUNDS, T_F64, 0, T_B64, T_B64, T_B64, T_MASK)
    {.name = NULL},
};
