/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transcendental operations. The manual guarantees 1 ulp and does not specify the bits. Here they
 * are computed in double with an error of about 2^-48 and rounded once to nearest. Results are
 * correctly rounded except for about 1 in 10^6, and the same on every host. As the manual says, the
 * f32 forms except V_SIN and V_COS flush denormal sources and results in any MODE.
 */
#include "lanes.h"
#include "trans.h"

/* Returns u, or a zero of its sign if u is a denormal f32. */
static inline uint32_t flush32(uint32_t u)
{
    return u & 0x7f800000 ? u : u & 0x80000000;
}

/* Returns u unchanged, for operations that do not flush. */
static inline uint32_t keep32(uint32_t u)
{
    return u;
}

/* Returns r, or for a NaN the NaN of an operation with one source. `quiet` has the bit that makes a
 * NaN quiet. */
static inline uint32_t nan_of(uint32_t source, uint32_t r, uint32_t quiet)
{
    r = nan32(r) ? DEFAULT_NAN32 : r;
    return nan32(source) ? source | quiet : r;
}

/* Computes exp2_wide() in single precision, where it is exact, apart from the polynomial. Subnormal
 * results are flushed, so the mantissa can be rounded before it is scaled. */
static inline uint32_t exp_f32(uint32_t u)
{
    const float x = as_f32(u), magic = 0x1.8p23f;
    float c = x > 200.0f ? 200.0f : x;
    c = c < -200.0f ? -200.0f : c;
    c = c == c ? c : 0.0f;
    const float n = (c + magic) - magic;
    const float mantissa = (float)exp2_fraction((double)(c - n));
    uint32_t r = f32_bits(mantissa) + (f32_bits(n + magic) << 23);
    r = x >= 128.0f ? 0x7f800000 : r;
    return x < -126.0f ? 0 : r;
}

/* Returns log2 of an f32. */
static inline uint32_t log_f32(uint32_t u)
{
    return f32_bits((float)log2_wide((double)as_f32(u)));
}

static inline uint32_t rcp_f32(uint32_t u)
{
    return f32_bits(1.0f / as_f32(u));
}

static inline uint32_t sqrt_f32(uint32_t u)
{
    return f32_bits(sqrtf(as_f32(u)));
}

static inline uint32_t rsq_f32(uint32_t u)
{
    return f32_bits((float)(1.0 / sqrt((double)as_f32(u))));
}

static inline uint32_t sin_f32(uint32_t u)
{
    return f32_bits((float)sin_turns((double)as_f32(u)));
}

static inline uint32_t cos_f32(uint32_t u)
{
    return f32_bits((float)cos_turns((double)as_f32(u)));
}

/*
 * Computes exp_f32() with shorter polynomials, accurate to 2^-43. The rounded result is the same
 * unless it is near the middle of two numbers. Sets *doubt then, about once in 2^16, so that the
 * row is computed again. Subnormal sources count as zero.
 */
static inline uint32_t short_exp_f32(uint32_t u, uint32_t *doubt)
{
    const float x = as_f32(u), magic = 0x1.8p23f;
    float c = x < 200.0f ? x : 200.0f;
    c = c > -200.0f ? c : -200.0f;
    const float shifted = c + magic;
    const double y = short_exp2_fraction((double)(c - (shifted - magic)));
    *doubt |= next_to_middle(y);
    uint32_t r = f32_bits((float)y) + (f32_bits(shifted) << 23);
    r = x >= 128.0f ? 0x7f800000 : r;
    return x < -126.0f ? 0 : r;
}

/* Computes log2 with a shorter polynomial. Sets *doubt as short_exp_f32() does. */
static inline uint32_t short_log_f32(uint32_t u, uint32_t *doubt)
{
    const uint32_t shifted = u - 0x3f3504f3; /* sqrt(1/2) */
    const int32_t e = (int32_t)shifted >> 23;
    const double y = short_log2((double)as_f32(u - ((uint32_t)e << 23)), (float)e);
    *doubt |= next_to_middle(y);
    uint32_t r = f32_bits((float)y);
    r = u == 0x7f800000 ? u : r;
    r = (int32_t)u < 0 ? DEFAULT_NAN32 : r;
    return (int32_t)(u & 0x7fffffff) < 0x00800000 ? 0xff800000 : r;
}

/* Returns the sine of u revolutions from a shorter polynomial. Sets *doubt to nonzero if the
 * rounding to binary32 may be wrong or the result may be subnormal; the caller then computes the
 * row exactly. */
static inline uint32_t short_sin_f32(uint32_t u, uint32_t *doubt)
{
    const double y = short_sin_quarter(fold_turns((double)as_f32(u)));
    const uint32_t r = f32_bits((float)y), m = u & 0x7fffffff;
    *doubt |= next_to_middle(y) | ((int32_t)m < 0x01000000 ? m : 0);
    return (int32_t)m < 0x7f800000 ? r : DEFAULT_NAN32;
}

/* Returns the cosine of u revolutions. Sets *doubt as short_sin_f32() does. */
static inline uint32_t short_cos_f32(uint32_t u, uint32_t *doubt)
{
    const double x = (double)as_f32(u);
    const double y = short_sin_quarter(fold_turns(fabs(x - nearest(x)) + 0.25));
    *doubt |= next_to_middle(y);
    return (int32_t)(u & 0x7fffffff) < 0x7f800000 ? f32_bits((float)y) : DEFAULT_NAN32;
}

#define TRANS_(name, op, flush) \
    static void name(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], quiet = quiet32(x); \
        EACH_LANE { \
            uint32_t u = flush(s0[i]); \
            d[i] = nan_of(u, flush(op(u)), quiet); \
        } \
    }
#define TRANS(op, flush) TRANS_(k_##op, op, flush)
#define SHORT_TRANS(op, flush) \
    __attribute__((noinline)) TRANS_(exactly_##op, op, flush) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], quiet = quiet32(x); \
        uint32_t doubt = 0; \
        EACH_LANE { \
            const uint32_t u = s0[i], r = short_##op(u, &doubt); \
            d[i] = as_f32(u) == as_f32(u) ? r : u | quiet; \
        } \
        if (__builtin_expect(doubt != 0, 0)) \
            exactly_##op(x); \
    }
SHORT_TRANS(exp_f32, flush32)
SHORT_TRANS(log_f32, flush32)
TRANS(rcp_f32, flush32)
TRANS(sqrt_f32, flush32)
TRANS(rsq_f32, flush32)
SHORT_TRANS(sin_f32, keep32)
SHORT_TRANS(cos_f32, keep32)

#define TRANS64(op, expr) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0]; \
        EACH_LANE { \
            double a = as_f64(row64(s0, i)); \
            set_row64(d, i, f64_bits(expr)); \
        } \
        LOCAL(fix_nan64)(x, 1); \
    }
TRANS64(rcp_f64, 1.0 / a)
TRANS64(sqrt_f64, sqrt(a))
TRANS64(rsq_f64, 1.0 / sqrt(a))

/* Defines an f16 operation: the double result is rounded once, to nearest. rocjitsu has measured
 * that MODE's rounding has no effect and that FP16_OVFL applies to the reciprocal of zero. */
#define TRANS16(op, expr) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], quiet = quiet16(x); \
        const uint32_t inf = x->w->mode & MODE_FP16_OVFL ? 0x7bff : 0x7c00; \
        EACH_LANE { \
            uint32_t u = s0[i] & 0xffff, from = u & 0x7fff; \
            double a = f16_to_f64(u); \
            uint32_t r = f64_to_f16_nearest(expr), to = r & 0x7fff; \
            r = to == 0x7c00 && from < 0x7c00 ? (r & 0x8000) | inf : r; \
            r = to > 0x7c00 ? DEFAULT_NAN16 : r; \
            d[i] = from > 0x7c00 ? u | quiet : r; \
        } \
    }
TRANS16(exp_f16, exp2_wide(a))
TRANS16(log_f16, log2_wide(a))
TRANS16(rcp_f16, 1.0 / a)
TRANS16(sqrt_f16, sqrt(a))
TRANS16(rsq_f16, 1.0 / sqrt(a))
TRANS16(sin_f16, sin_turns(a))
TRANS16(cos_f16, cos_turns(a))

/* The functions from here on execute V_S_* of gfx1250, with a scalar source and result (CDNA5
 * ISA). */

/* Returns source 0 with abs and neg applied. `sign` is the sign bit of its type. */
static uint32_t scalar_source(const struct wave *w, const struct inst *in, uint32_t sign)
{
    uint32_t u = (uint32_t)src_scalar(w, &in->src[0]) & (sign | (sign - 1));
    u &= in->src[0].abs ? ~sign : UINT32_MAX;
    return in->src[0].neg ? u ^ sign : u;
}

/* Writes the scalar result `r`. It is defined if the source is. */
static void write_scalar(struct wave *w, const struct inst *in, uint32_t r)
{
    if (in->clamp || in->omod)
        wave_fault(w, in, FAULT_TRAP, 0, "clamp and omod of V_S_* are not simulated");
    w->sgpr[in->dst.reg] = r;
    w->s_valid[in->dst.reg] = src_scalar_valid(w, &in->src[0]) ? UINT32_MAX : 0;
}

#define SCALAR32(op) \
    static void s_##op(struct wave *w, const struct inst *in) \
    { \
        const uint32_t u = scalar_source(w, in, UINT32_C(1) << 31); \
        write_scalar(w, in, nan_of(u, op(flush32(u)), QUIET32)); \
    }
SCALAR32(exp_f32)
SCALAR32(log_f32)
SCALAR32(rcp_f32)
SCALAR32(sqrt_f32)
SCALAR32(rsq_f32)

#define SCALAR16(op, expr) \
    static void s_##op(struct wave *w, const struct inst *in) \
    { \
        const uint32_t u = scalar_source(w, in, UINT32_C(1) << 15); \
        const double a = f16_to_f64(u); \
        const uint32_t r = f64_to_f16_nearest(expr), nan = (r & 0x7fff) > 0x7c00; \
        write_scalar(w, in, (u & 0x7fff) > 0x7c00 ? u | 0x200 : nan ? DEFAULT_NAN16 : r); \
    }
SCALAR16(exp_f16, exp2_wide(a))
SCALAR16(log_f16, log2_wide(a))
SCALAR16(rcp_f16, 1.0 / a)
SCALAR16(sqrt_f16, sqrt(a))
SCALAR16(rsq_f16, 1.0 / sqrt(a))

#define SROW(op, t) \
    {.name = "v_s_" #op, \
     .exec = s_##op, \
     .dst = t, \
     .src = {t}, \
     .flags = ROW_VALU | ROW_TRANS | ROW_SGPR_DST | ROW_NO_EXEC, \
     .targets = GFX1250},
#define TROW(op, fn, t, fl) ROW_ENTRY(op, k_##fn, ROW_TRANS | (fl), t, t)
const struct op_row LOCAL(vop_trans_rows)[] = {
    TROW(v_exp_f32, exp_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_exp_legacy_f32, exp_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_log_f32, log_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_log_legacy_f32, log_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_rcp_f32, rcp_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_rcp_iflag_f32, rcp_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_rsq_f32, rsq_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_sqrt_f32, sqrt_f32, T_F32, ROW_NO_FLUSH)
    TROW(v_sin_f32, sin_f32, T_F32, 0)
    TROW(v_cos_f32, cos_f32, T_F32, 0)
    SROW(exp_f32, T_F32)
    SROW(log_f32, T_F32)
    SROW(rcp_f32, T_F32)
    SROW(sqrt_f32, T_F32)
    SROW(rsq_f32, T_F32)
    SROW(exp_f16, T_F16)
    SROW(log_f16, T_F16)
    SROW(rcp_f16, T_F16)
    SROW(sqrt_f16, T_F16)
    SROW(rsq_f16, T_F16)
    TROW(v_rcp_f64, rcp_f64, T_F64, 0)
    TROW(v_rsq_f64, rsq_f64, T_F64, 0)
    TROW(v_sqrt_f64, sqrt_f64, T_F64, 0)
    TROW(v_exp_f16, exp_f16, T_F16, 0)
    TROW(v_log_f16, log_f16, T_F16, 0)
    TROW(v_rcp_f16, rcp_f16, T_F16, 0)
    TROW(v_rsq_f16, rsq_f16, T_F16, 0)
    TROW(v_sqrt_f16, sqrt_f16, T_F16, 0)
    TROW(v_sin_f16, sin_f16, T_F16, 0)
    TROW(v_cos_f16, cos_f16, T_F16, 0)
    {.name = NULL},
};
