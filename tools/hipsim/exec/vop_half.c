/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16 arithmetic in single precision; vop_half.def has the operations. Products of halves are exact
 * in single precision, and sums are rounded to odd. Only the final rounding, in any mode, therefore
 * changes a result.
 */
#include "lanes.h"

/* Kernels and rows have one line each. */
/* clang-format off */

/* True if the low half is a NaN, quiet or signalling. */
static inline bool nan16(uint32_t h)
{
    return (h & 0x7fff) > 0x7c00;
}

/* True if the low half is a signalling NaN. */
static inline bool snan16(uint32_t h)
{
    return nan16(h) & !(h & 0x200);
}

/* Maps f16 bits to an integer that orders numbers by value, -0 below +0. */
static inline int32_t order16(uint32_t h)
{
    int32_t v = (int16_t)h;
    return v ^ (v >> 31 & 0x7fff);
}

/* Like minmax32() of lanes.h, for f16. */
static inline uint32_t minmax16(uint32_t a, uint32_t b, bool max, bool ieee)
{
    uint32_t r = (order16(a) < order16(b)) != max ? a : b;
    r = nan16(b) ? a : r;
    r = nan16(a) ? b : r;
    r = ieee & snan16(b) ? b | 0x200 : r;
    r = ieee & snan16(a) ? a | 0x200 : r;
    return r;
}

/* IEEE 754-2019 minimum of f16, with `max` maximum: a NaN wins and becomes quiet. */
static inline uint32_t minimum16(uint32_t a, uint32_t b, bool max)
{
    uint32_t r = (order16(a) < order16(b)) != max ? a : b;
    r = nan16(b) ? b | 0x200 : r;
    return nan16(a) ? a | 0x200 : r;
}

/* True if two f16 are equal bit by bit, or are both zeros. */
static inline bool same16(uint32_t a, uint32_t b)
{
    return (a == b) | (((a | b) & 0x7fff) == 0);
}

/* V_MED3_F16: returns the median; with a NaN the minimum. */
static inline uint32_t med16(uint32_t a, uint32_t b, uint32_t c, bool ieee)
{
    uint32_t min3 = minmax16(minmax16(a, b, false, ieee), c, false, ieee);
    uint32_t max3 = minmax16(minmax16(a, b, true, ieee), c, true, ieee);
    uint32_t r = minmax16(a, b, true, ieee);
    r = same16(max3, b) ? minmax16(a, c, true, ieee) : r;
    r = same16(max3, a) ? minmax16(b, c, true, ieee) : r;
    return nan16(a) | nan16(b) | nan16(c) ? min3 : r;
}

/* V_DIV_FIXUP_F16: a is the quotient, b the denominator, c the numerator. */
static inline uint32_t div_fixup16(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t sign = (b ^ c) & 0x8000, mb = b & 0x7fff, mc = c & 0x7fff;
    uint32_t r = sign | (a & 0x7fff);
    r = mb == 0x7c00 || mc == 0 ? sign : r;
    r = mb == 0 || mc == 0x7c00 ? sign | 0x7c00 : r;
    r = (mb == 0x7c00 && mc == 0x7c00) || (mb == 0 && mc == 0) ? 0xfe00 : r;
    r = nan16(b) ? b | 0x200 : r;
    return nan16(c) ? c | 0x200 : r;
}

/* Returns the mantissa, in [0.5, 1), of an f16. Zero, infinities and NaNs are kept. */
static inline uint32_t frexp_mant16(uint32_t h)
{
    uint32_t mag = h & 0x7fff;
    if (mag == 0 || mag >= 0x7c00)
        return nan16(h) ? h | 0x200 : h;
    if (mag < 0x400)
        mag <<= __builtin_clz(mag) - 21;
    return (h & 0x8000) | 0x3800 | (mag & 0x3ff);
}

/* Returns the exponent that belongs to frexp_mant16(); 0 for zero, infinities and NaNs. */
static inline uint32_t frexp_exp16(uint32_t h)
{
    uint32_t mag = h & 0x7fff;
    if (mag == 0 || mag >= 0x7c00)
        return 0;
    int e = (int)(mag >> 10);
    return (uint32_t)(e ? e - 14 : -13 - (__builtin_clz(mag) - 21)) & 0xffff;
}

/* Returns a rounded to f16 and back. */
static inline float through_f16(float a, enum rounding mode)
{
    return f16_to_f32(f32_to_f16(a, mode));
}

/* Returns `sum` with the sign of a zero corrected: addends a and b of unlike signs give -0 if the
 * mode rounds down (IEEE 754, 6.3). */
static inline float signed_zero(float sum, float a, float b, enum rounding mode)
{
    return mode == ROUND_DOWN && sum == 0 && signbit(a) != signbit(b) ? -0.0f : sum;
}

/* Returns a + b for halves. For rounding to nearest, 24 bits suffice to make the second rounding
 * right. */
static inline float sum16(float a, float b, enum rounding mode)
{
    return signed_zero(mode == ROUND_NEAREST ? a + b : add_to_odd32(a, b), a, b, mode);
}

/* Returns product + c, rounded to odd, with the sign of zero that `mode` requires. */
static inline float fused(float product, float c, enum rounding mode)
{
    return signed_zero(add_to_odd32(product, c), product, c, mode);
}

/* Returns a, or a zero of its sign if a is a denormal f16. */
static inline float flushed16(float a)
{
    return fabsf(a) < 0x1p-14f ? copysignf(0.0f, a) : a;
}

/* Returns a * b + c with two roundings, for V_MAD_F16 and related instructions. These always flush
 * denormals (LLVM, SITargetLowering::isFMADLegal()). */
static inline float unfused(float a, float b, float c, enum rounding mode)
{
    float product = flushed16(through_f16(flushed16(a) * flushed16(b), mode));
    return flushed16(through_f16(sum16(product, flushed16(c), mode), mode));
}

/* Rounds to an integer, ties to even. */
static inline float nearest_even(float a)
{
    float r = copysignf((fabsf(a) + 0x1p23f) - 0x1p23f, a);
    return fabsf(a) < 0x1p23f ? r : a;
}

/* Returns a - floor(a), less than 1 also after rounding to f16. */
static inline float fract16(float a)
{
    float r = a - floorf(a);
    r = r == 0 ? 0.0f : r;
    return r > 0x1.ffcp-1f ? 0x1.ffcp-1f : r; /* less than 1 also after rounding */
}

/* Returns a * 2^e, exactly: the least half is 2^-24. */
static inline float scale_f16(float a, int e)
{
    e = e < -100 ? -100 : e > 100 ? 100 : e;
    return a * as_f32((uint32_t)(127 + e) << 23);
}

/* Returns r, or if it is NaN the NaN of a half operation by the rules of fix_nan32(). `product` is
 * a * b; `quiet` has the bit that makes a NaN quiet. */
static inline uint32_t pick_nan16(uint32_t r, uint32_t a, uint32_t b, uint32_t c, float product,
                                  uint32_t quiet)
{
    uint32_t n = nan16(c) & (product == product) ? c | quiet : DEFAULT_NAN16;
    n = nan16(b) ? b | quiet : n;
    n = nan16(a) ? a | quiet : n;
    return nan16(r) ? n : r;
}

/* Replaces the NaN results in both halves of a row, as fix_nan32() does. */
static __attribute__((noinline)) void fix_nan16(struct lanes *x, unsigned nsrc)
{
    const uint32_t quiet = quiet16(x);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t r = 0;
        for (unsigned shift = 0; shift < 32; shift += 16) {
            const uint32_t a = x->s[0][i] >> shift & 0xffff;
            const uint32_t b = nsrc > 1 ? x->s[1][i] >> shift & 0xffff : 0;
            const uint32_t c = nsrc > 2 ? x->s[2][i] >> shift & 0xffff : 0;
            const float product = f16_to_f32(a) * f16_to_f32(b);
            r |= pick_nan16(x->d[i] >> shift & 0xffff, a, b, c, product, quiet) << shift;
        }
        x->d[i] = r;
    }
}

#define HEAD(op) \
    ROUNDING_KERNEL(op) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool ieee = ieee_mode(x); \
        const uint32_t quiet = quiet16(x); \
        (void)s0, (void)s1, (void)s2, (void)mode, (void)ieee, (void)quiet;

/* Declares a half of source k, from bit `sh` on, as bits and as float. */
#define HALF(name, k, sh) \
    uint32_t name##_bits = s##k[i] >> (sh) & 0xffff; \
    float name = f16_to_f32(name##_bits);
#define RAW(name, k, sh) uint32_t name = s##k[i] >> (sh) & 0xffff;

/* Defines a kernel that applies expression e to both halves of the rows; `keep` is the mask of
 * result bits. */
#define FLOAT_KERNEL(op, n, keep, e) \
    HEAD(op) \
        alignas(64) float f[3][ROW_HALVES], r[ROW_HALVES]; \
        uint32_t nan = 0; \
        for (unsigned k = 0; k < n; k++) \
            widen_halves(x->s[k], f[k]); \
        for (unsigned i = 0; i < ROW_HALVES; i++) { \
            const float a = f[0][i], b = n > 1 ? f[1][i] : 0, c = n > 2 ? f[2][i] : 0; \
            (void)b, (void)c; \
            r[i] = e; \
            nan |= r[i] != r[i] ? 1 : 0; \
        } \
        narrow_halves(r, d, mode); \
        if (nan) \
            fix_nan16(x, n); \
        if (keep != UINT32_MAX) \
            EACH_LANE d[i] &= keep; \
    }
#define H1(op, fl, e) FLOAT_KERNEL(op, 1, 0xffff, e)
#define H2(op, fl, e) FLOAT_KERNEL(op, 2, 0xffff, e)
#define H3(op, fl, e) FLOAT_KERNEL(op, 3, 0xffff, e)
#define PH2(op, fl, e) FLOAT_KERNEL(op, 2, UINT32_MAX, e)
#define PH3(op, fl, e) FLOAT_KERNEL(op, 3, UINT32_MAX, e)
#define HK(op, at, e) H3(op, 0, e)
#define HX(op, t, t0, t1, e) \
    HEAD(op) \
    EACH_LANE { HALF(a, 0, 0) RAW(b, 1, 0) d[i] = pick_nan16(e, a_bits, 0, 0, 0.0f, quiet); } }
#define G1(op, t, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) d[i] = e; } }
#define G2(op, fl, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) RAW(b, 1, 0) d[i] = e; } }
#define G3(op, fl, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) RAW(b, 1, 0) RAW(c, 2, 0) d[i] = e; } }
#define PG2(op, fl, e) \
    HEAD(op) \
    EACH_LANE { \
        uint32_t low, high; \
        { RAW(a, 0, 0) RAW(b, 1, 0) low = e; } \
        { RAW(a, 0, 16) RAW(b, 1, 16) high = e; } \
        d[i] = low | high << 16; \
    } }
#define PG3(op, fl, e) \
    HEAD(op) \
    EACH_LANE { \
        uint32_t low, high; \
        { RAW(a, 0, 0) RAW(b, 1, 0) RAW(c, 2, 0) low = e; } \
        { RAW(a, 0, 16) RAW(b, 1, 16) RAW(c, 2, 16) high = e; } \
        d[i] = low | high << 16; \
    } }
#include "vop_half.def"
#undef H1
#undef H2
#undef H3
#undef HK
#undef HX
#undef G1
#undef G2
#undef G3
#undef PH2
#undef PH3
#undef PG2
#undef PG3

#define H1(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F16, T_F16)
#define H2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F16, T_F16, T_F16)
#define H3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F16, T_F16, T_F16, T_F16)
#define HK(op, at, e) \
    {.name = #op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##op, .arg = at, \
     .flags = ROW_VALU | ROW_LITERAL_K, .dst = T_F16, .src = {T_F16, T_F16, T_F16}},
#define HX(op, t, t0, t1, e) ROW_ENTRY(op, k_##op, 0, t, t0, t1)
#define G1(op, t, e) ROW_ENTRY(op, k_##op, 0, t, T_F16)
#define G2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F16, T_F16, T_F16)
#define G3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_F16, T_F16, T_F16, T_F16)
#define PH2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_PKF16, T_PKF16, T_PKF16)
#define PH3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_PKF16, T_PKF16, T_PKF16, T_PKF16)
#define PG2(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_PKF16, T_PKF16, T_PKF16)
#define PG3(op, fl, e) ROW_ENTRY(op, k_##op, fl, T_PKF16, T_PKF16, T_PKF16, T_PKF16)
/* Row of gfx1250's v_fma_f16 with a literal as source `at`. */
#define FUSED(n, fl, at) \
    {.name = n, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_v_fma_f16, .arg = at, \
     .flags = ROW_VALU | (fl), .dst = T_F16, .src = {T_F16, T_F16, T_F16}, .targets = GFX1250},
const struct op_row LOCAL(vop_half_rows)[] = {
#include "vop_half.def"
    FUSED("v_fmac_f16", ROW_DST_IS_SRC, 0)
    FUSED("v_fmamk_f16", ROW_LITERAL_K, 1)
    FUSED("v_fmaak_f16", ROW_LITERAL_K, 2)
    {.name = NULL},
};
