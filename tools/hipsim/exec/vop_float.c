/* SPDX-License-Identifier: Apache-2.0 */
/* f32 and f64 arithmetic; vop_float.def has the operations. */
#include "lanes.h"

/* Rounds to an integer, ties to even, in any rounding mode of the host. */
static inline float rint_even32(float a)
{
    /* Adding and subtracting 2^23 rounds to an integer; numbers above it are integers already. */
    float magic = copysignf(0x1p23f, a);
    float sum = a + magic;
    float r = copysignf(sum - magic, a);
    return fabsf(a) < 0x1p23f ? r : a;
}

/* Like rint_even32(), for f64. */
static inline double rint_even64(double a)
{
    double magic = copysign(0x1p52, a);
    double sum = a + magic;
    double r = copysign(sum - magic, a);
    return fabs(a) < 0x1p52 ? r : a;
}

/* Returns S0 - floor(S0), kept below 1: the sum of a tiny negative number and 1 rounds to 1. */
static inline float fract32(float a)
{
    float r = a - floorf(a);
    r = r == 0 ? 0.0f : r; /* +0 in any rounding mode */
    return r >= 1.0f ? 0x1.fffffep-1f : r;
}

/* Like fract32(), for f64. */
static inline double fract64(double a)
{
    double r = a - floor(a);
    r = r == 0 ? 0.0 : r;
    return r >= 1.0 ? 0x1.fffffffffffffp-1 : r;
}

/*
 * V_MED3_F32: returns the median, which is the larger of the two sources that are not the maximum.
 * With a NaN it returns the minimum, as V_MIN3 does.
 */
static inline uint32_t med32(uint32_t a, uint32_t b, uint32_t c, bool ieee)
{
    uint32_t min3 = minmax32(minmax32(a, b, false, ieee), c, false, ieee);
    float max3 = as_f32(minmax32(minmax32(a, b, true, ieee), c, true, ieee));
    uint32_t r = minmax32(a, b, true, ieee);
    r = max3 == as_f32(b) ? minmax32(a, c, true, ieee) : r;
    r = max3 == as_f32(a) ? minmax32(b, c, true, ieee) : r;
    return nan32(a) | nan32(b) | nan32(c) ? min3 : r;
}

/* IEEE 754-2019 minimum, with `max` maximum: a NaN wins and becomes quiet. */
static inline uint32_t minimum32(uint32_t a, uint32_t b, bool max)
{
    uint32_t r = (order32(a) < order32(b)) != max ? a : b;
    r = nan32(b) ? b | QUIET32 : r;
    return nan32(a) ? a | QUIET32 : r;
}

/* Returns the mantissa, in [0.5, 1), of an f32 with bits u; zero and infinities are unchanged. */
static inline uint32_t frexp_mant32(uint32_t u)
{
    uint32_t mag = u & 0x7fffffff, sign = u & 0x80000000;
    if (mag == 0 || mag >= 0x7f800000)
        return nan32(u) ? u | QUIET32 : u;
    if (mag < 0x800000) /* subnormal: moved to the position of a normal number's mantissa */
        mag <<= __builtin_clz(mag) - 8;
    return sign | 0x3f000000 | (mag & 0x7fffff);
}

/* Returns the exponent of an f32 whose mantissa is in [0.5, 1); 0 for zero, infinities, NaNs. */
static inline uint32_t frexp_exp32(uint32_t u)
{
    uint32_t mag = u & 0x7fffffff;
    if (mag == 0 || mag >= 0x7f800000)
        return 0;
    int e = (int)(mag >> 23);
    return (uint32_t)(e ? e - 126 : -125 - (__builtin_clz(mag) - 8));
}

/* Like frexp_mant32(), for f64. */
static inline uint64_t frexp_mant64(uint64_t u)
{
    uint64_t mag = u & INT64_MAX, sign = u & ~(uint64_t)INT64_MAX;
    if (mag == 0 || mag >= UINT64_C(0x7ff0000000000000))
        return nan64(u) ? u | QUIET64 : u;
    if (mag >> 52 == 0)
        mag <<= __builtin_clzll(mag) - 11;
    return sign | UINT64_C(0x3fe0000000000000) | (mag & ((UINT64_C(1) << 52) - 1));
}

/* Like frexp_exp32(), for f64. */
static inline uint32_t frexp_exp64(uint64_t u)
{
    uint64_t mag = u & INT64_MAX;
    if (mag == 0 || mag >= UINT64_C(0x7ff0000000000000))
        return 0;
    int e = (int)(mag >> 52);
    return (uint32_t)(e ? e - 1022 : -1021 - (__builtin_clzll(mag) - 11));
}

/* Returns e limited to [-limit, limit], beyond which scaling by 2^e overflows or underflows
 * anyway. */
static inline int clamp_exponent(int32_t e, int limit)
{
    return e < -limit ? -limit : e > limit ? limit : e;
}

/* Returns S0 * 2^S1: exact in double, then rounded by the host's rounding mode. */
static inline uint32_t ldexp32(uint32_t u, int32_t e)
{
    const int c = clamp_exponent(e, 600);
    const double wide = (double)as_f32(u) * as_f64((uint64_t)(uint32_t)(1023 + c) << 52);
    return nan32(u) ? u | QUIET32 : f32_bits((float)wide);
}

/* Returns S0 * 2^S1 for f64, rounded by the host's rounding mode. */
static inline uint64_t ldexp64(const struct wave *w, uint64_t u, int32_t e)
{
    (void)w;
    if (nan64(u))
        return u | QUIET64;
    /* libm rounds by the host's rounding mode */
    return f64_bits(ldexp(as_f64(u), clamp_exponent(e, 4200)));
}

/* Returns the exponent field of an f32. */
static inline int exponent32(uint32_t u)
{
    return (int)(u >> 23 & 0xff);
}

/* Returns the exponent field of an f64. */
static inline int exponent64(uint64_t u)
{
    return (int)(u >> 52 & 0x7ff);
}

/*
 * V_DIV_FIXUP: a is the quotient, b the denominator, c the numerator. A quotient of two numbers
 * that is NaN comes from an intermediate overflow: tools/hipsim/docs/hipsim.md, "Division".
 */
static inline uint32_t div_fixup32(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t sign = (b ^ c) & 0x80000000, mb = b & 0x7fffffff, mc = c & 0x7fffffff;
    const uint32_t inf = 0x7f800000;
    uint32_t r = sign | (nan32(a) ? inf : a & 0x7fffffff);
    r = exponent32(b) == 255 ? sign | inf : r; /* the quotient overflows */
    r = exponent32(c) - exponent32(b) < -150 ? sign : r; /* the quotient underflows */
    r = mb == inf || mc == 0 ? sign : r;
    r = mb == 0 || mc == inf ? sign | inf : r;
    r = (mb == inf && mc == inf) || (mb == 0 && mc == 0) ? 0xffc00000 : r;
    r = nan32(b) ? b | QUIET32 : r;
    return nan32(c) ? c | QUIET32 : r;
}

/* Like div_fixup32(), for f64. */
static inline uint64_t div_fixup64(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t sign = (b ^ c) & ~(uint64_t)INT64_MAX, mb = b & INT64_MAX, mc = c & INT64_MAX;
    const uint64_t inf = UINT64_C(0x7ff0000000000000);
    uint64_t r = sign | (nan64(a) ? inf : a & INT64_MAX);
    r = exponent64(b) == 2047 ? sign | inf : r;
    r = exponent64(c) - exponent64(b) < -1075 ? sign : r;
    r = mb == inf || mc == 0 ? sign : r;
    r = mb == 0 || mc == inf ? sign | inf : r;
    r = (mb == inf && mc == inf) || (mb == 0 && mc == 0) ? UINT64_C(0xfff8000000000000) : r;
    r = nan64(b) ? b | QUIET64 : r;
    return nan64(c) ? c | QUIET64 : r;
}

/* True if z selects the face of a cube map: z wins ties with y, and y wins ties with x. */
static inline bool z_major(float x, float y, float z)
{
    return fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y);
}

/* Returns V_CUBEID's face of a cube map, 0 to 5: +x, -x, +y, -y, +z, -z. */
static inline float cube_id(float x, float y, float z)
{
    if (z_major(x, y, z))
        return z < 0 ? 5.0f : 4.0f;
    if (fabsf(y) >= fabsf(x))
        return y < 0 ? 3.0f : 2.0f;
    return x < 0 ? 1.0f : 0.0f;
}

/* Returns V_CUBESC's s coordinate on the face. */
static inline float cube_sc(float x, float y, float z)
{
    if (z_major(x, y, z))
        return z < 0 ? -x : x;
    if (fabsf(y) >= fabsf(x))
        return x;
    return x < 0 ? z : -z;
}

/* Returns V_CUBETC's t coordinate on the face. */
static inline float cube_tc(float x, float y, float z)
{
    if (!z_major(x, y, z) && fabsf(y) >= fabsf(x))
        return y < 0 ? -z : z;
    return -y;
}

/* Returns V_CUBEMA's major axis: twice the coordinate that selects the face. */
static inline float cube_ma(float x, float y, float z)
{
    if (z_major(x, y, z))
        return z * 2.0f;
    return fabsf(y) >= fabsf(x) ? y * 2.0f : x * 2.0f;
}

/* 1201 bits of 2/pi after the point, most significant first; the last dword's low bits are
 * unused. */
static const uint32_t two_over_pi[38] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab,
};

/* V_TRIG_PREOP_F64: returns 53 bits of 2/pi from bit `shift` on, scaled to their position. */
static inline uint64_t trig_preop(uint64_t a, uint32_t b)
{
    int e = exponent64(a);
    int shift = (int)(b & 31) * 53 + (e > 1077 ? e - 1077 : 0);
    uint64_t m = 0;
    for (int k = 0; k < 53; k++) {
        int at = shift + k;
        uint64_t bit = at < 1201 ? two_over_pi[at / 32] >> (31 - at % 32) & 1 : 0;
        m = m << 1 | bit;
    }
    int scale = -53 - shift + (e >= 1968 ? 128 : 0);
    return f64_bits(ldexp((double)m, scale));
}

#define HEAD(op) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        (void)s0, (void)s1, (void)s2;

/* Defines an f32 kernel. NaN results are rare; fix_nan32() then selects the operand whose NaN is
 * the result. */
#define F32_KERNEL(op, n, load, expr) \
    HEAD(op) \
        uint32_t nan = 0; \
        EACH_LANE { \
            load \
            float r = expr; \
            d[i] = f32_bits(r); \
            nan |= r != r ? 1 : 0; \
        } \
        if (nan) \
            LOCAL(fix_nan32)(x, n); \
    }
#define F64_KERNEL(op, n, load, expr) \
    HEAD(op) \
        uint64_t nan = 0; \
        EACH_LANE { \
            load \
            double r = expr; \
            set_row64(d, i, f64_bits(r)); \
            nan |= r != r ? 1 : 0; \
        } \
        if (nan) \
            LOCAL(fix_nan64)(x, n); \
    }
#define BIT_KERNEL(op, load, store) \
    HEAD(op) \
        const bool ieee = ieee_mode(x); \
        (void)ieee; \
        EACH_LANE { \
            load \
            store; \
        } \
    }

#define LOAD_F(name, k) float name = as_f32(s##k[i]);
#define LOAD_D(name, k) double name = as_f64(row64(s##k, i));
#define LOAD_B(name, k) uint32_t name = s##k[i];
#define LOAD_E(name, k) uint64_t name = row64(s##k, i);

/* Returns the lesser of two integers, with `max` the greater. */
static inline int32_t pick(int32_t a, int32_t b, bool max)
{
    return (a < b) != max ? a : b;
}

/* Defines a minimum or maximum. If no source is NaN, as usual, an integer comparison suffices. */
#define ORDER_KERNEL(op, max, load, any, ordered, general) \
    HEAD(op) \
        const bool ieee = ieee_mode(x); \
        uint32_t nan = 0; \
        EACH_LANE { \
            load \
            nan |= any; \
        } \
        if (!nan) { \
            EACH_LANE { \
                load \
                d[i] = (uint32_t)order32((uint32_t)(ordered)); \
            } \
            return; \
        } \
        EACH_LANE { \
            load \
            d[i] = general; \
        } \
    }
#define O2(op, max) \
    ORDER_KERNEL(op, max, LOAD_B(a, 0) LOAD_B(b, 1), nan32(a) | nan32(b), \
                 pick(order32(a), order32(b), max), minmax32(a, b, max, ieee))
#define O3(op, max) \
    ORDER_KERNEL(op, max, LOAD_B(a, 0) LOAD_B(b, 1) LOAD_B(c, 2), \
                 nan32(a) | nan32(b) | nan32(c), \
                 pick(pick(order32(a), order32(b), max), order32(c), max), \
                 minmax32(minmax32(a, b, max, ieee), c, max, ieee))
#define F1(op, fl, e) F32_KERNEL(op, 1, LOAD_F(a, 0), e)
#define F2(op, fl, e) F32_KERNEL(op, 2, LOAD_F(a, 0) LOAD_F(b, 1), e)
#define F3(op, fl, e) F32_KERNEL(op, 3, LOAD_F(a, 0) LOAD_F(b, 1) LOAD_F(c, 2), e)
#define FK(op, at, e) F3(op, 0, e)
#define D1(op, fl, e) F64_KERNEL(op, 1, LOAD_D(a, 0), e)
#define D2(op, fl, e) F64_KERNEL(op, 2, LOAD_D(a, 0) LOAD_D(b, 1), e)
#define D3(op, fl, e) F64_KERNEL(op, 3, LOAD_D(a, 0) LOAD_D(b, 1) LOAD_D(c, 2), e)
#define B1(op, fl, e) BIT_KERNEL(op, LOAD_B(a, 0), d[i] = e)
#define B2(op, fl, e) BIT_KERNEL(op, LOAD_B(a, 0) LOAD_B(b, 1), d[i] = e)
#define B3(op, fl, e) BIT_KERNEL(op, LOAD_B(a, 0) LOAD_B(b, 1) LOAD_B(c, 2), d[i] = e)
#define E1(op, t, e) BIT_KERNEL(op, LOAD_E(a, 0), set_row64(d, i, e))
#define E1X(op, e) BIT_KERNEL(op, LOAD_E(a, 0), d[i] = e)
#define E2(op, fl, e) BIT_KERNEL(op, LOAD_E(a, 0) LOAD_E(b, 1), set_row64(d, i, e))
#define E3(op, fl, e) BIT_KERNEL(op, LOAD_E(a, 0) LOAD_E(b, 1) LOAD_E(c, 2), set_row64(d, i, e))
#define L2(op, t, t0, t1, e) BIT_KERNEL(op, LOAD_B(a, 0) LOAD_B(b, 1), d[i] = e)
#define L64(op, t, t0, t1, e) BIT_KERNEL(op, LOAD_E(a, 0) LOAD_B(b, 1), set_row64(d, i, e))
#include "vop_float.def"
#undef F1
#undef F2
#undef F3
#undef FK
#undef D1
#undef D2
#undef D3
#undef O2
#undef O3
#undef B1
#undef B2
#undef B3
#undef E1
#undef E1X
#undef E2
#undef E3
#undef L2
#undef L64

#define F1(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F32, T_F32)
#define F2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F32, T_F32, T_F32)
#define F3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F32, T_F32, T_F32, T_F32)
#define FK(op, at, e) \
    {.name = #op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##op, .arg = at, \
     .flags = ROW_VALU | ROW_ROUNDS | ROW_LITERAL_K, .dst = T_F32, .src = {T_F32, T_F32, T_F32}},
#define D1(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F64, T_F64)
#define D2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F64, T_F64, T_F64)
#define D3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F64, T_F64, T_F64, T_F64)
#define O2(op, max) ROW_ENTRY(op, k_##op, 0, T_F32, T_F32, T_F32)
#define O3(op, max) ROW_ENTRY(op, k_##op, 0, T_F32, T_F32, T_F32, T_F32)
#define B1(op, fl, e) \
    ROW_ENTRY(op, k_##op, fl, (fl) & ROW_NO_FLUSH ? T_I32 : T_F32, T_F32)
#define B2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F32, T_F32, T_F32)
#define B3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F32, T_F32, T_F32, T_F32)
#define E1(op, t, e) ROW_ENTRY(op, k_##op, 0, t, T_F64)
#define E1X(op, e) ROW_ENTRY(op, k_##op, ROW_NO_FLUSH, T_I32, T_F64)
#define E2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F64, T_F64, T_F64)
#define E3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F64, T_F64, T_F64, T_F64)
#define L2(op, t, t0, t1, e) ROW_ENTRY(op, k_##op, ROW_ROUNDS, t, t0, t1)
#define L64(op, t, t0, t1, e) ROW_ENTRY(op, k_##op, ROW_ROUNDS, t, t0, t1)
/* Row of gfx1250's v_fma_f64 with a literal of 64 bits as source `at`. */
#define FUSED64(n, at) \
    {.name = n, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_v_fma_f64, .arg = at, \
     .flags = ROW_VALU | ROW_ROUNDS | ROW_LITERAL_K, .dst = T_F64, .src = {T_F64, T_F64, T_F64}, \
     .targets = GFX1250},
const struct op_row LOCAL(vop_float_rows)[] = {
#include "vop_float.def"
    FUSED64("v_fmamk_f64", 1)
    FUSED64("v_fmaak_f64", 2)
    {.name = NULL},
};
