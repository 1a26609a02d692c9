/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lane kernels: one function per vector operation, a loop over 64 lanes that the compiler
 * vectorises. Files that include this header are compiled once per host instruction set, with
 * -DISA=<name>; LOCAL() adds that suffix to global names. All variants compute the same bits:
 * contraction is off, fused operations are explicit, and fix_nan() selects NaN results.
 *
 * The .def files have one line per operation. They are included twice, for the kernels and for the
 * op rows. In an expression a, b and c are the sources of one lane.
 */
#ifndef HIPSIM_LANES_H
#define HIPSIM_LANES_H

#include <math.h>
#include <string.h>

#if defined(__F16C__)
#    include <immintrin.h>
#endif

#include "row.h"

#define ISA_JOIN2(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN2(name, isa)
#define LOCAL(name) ISA_JOIN(name, ISA)

/* A vector operation whose sources have all modifiers, selects and permutations applied. */
struct lanes {
    uint32_t *d;  /* rows of the result; float operations need rows that are no source */
    uint32_t *d2; /* row of the second result: 0 or ~0 in each lane */
    /* rows of the sources; a source of type T_MASK has 0 or ~0 in each lane */
    const uint32_t *s[4];
    struct wave *w;
    const struct inst *in;
    uint64_t exec; /* mask of the lanes that execute */
};

typedef void (*lane_fn)(struct lanes *x);

#define EACH_LANE _Pragma("GCC ivdep") for (unsigned i = 0; i < WAVE_LANES; i++)

/*
 * Head of a kernel that rounds halves as MODE says. Its body is compiled twice: for rounding to
 * nearest, which vectorises, and for the other modes.
 */
#define ROUNDING_KERNEL(op)                                                                \
    static inline __attribute__((always_inline)) void body_##op(struct lanes *x,           \
                                                                const enum rounding mode); \
    static void k_##op(struct lanes *x)                                                    \
    {                                                                                      \
        if (round_f16_mode(x->w) == ROUND_NEAREST)                                         \
            body_##op(x, ROUND_NEAREST);                                                   \
        else                                                                               \
            body_##op(x, round_f16_mode(x->w));                                            \
    }                                                                                      \
    static inline __attribute__((always_inline)) void body_##op(struct lanes *x,           \
                                                                const enum rounding mode)

/*
 * Moves source 0 of a DPP instruction between lanes, from registers `from` to `to` (one or two
 * rows). With bound_ctrl, lanes without a source get zero. Removes from *lanes the lanes that
 * row_mask, bank_mask or a missing source exclude. Permutes *valid, the mask of defined lanes, as
 * the values.
 */
const uint32_t *LOCAL(dpp_permute)(const struct wave *w, const struct inst *in,
                                   const uint32_t *from, uint32_t *to, uint64_t *lanes,
                                   uint64_t *valid);

/* Executes an instruction whose kernel is a lane_fn; see exec_valu.c. */
void LOCAL(exec_lanes)(struct wave *w, const struct inst *in);

/* Executes `n` instructions of straight-line code; implements parts.straight(). */
void LOCAL(exec_straight)(struct wave *w, const struct inst *const *in, unsigned n);

static inline float as_f32(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = u};
    return x.f;
}

static inline uint32_t f32_bits(float f)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    return x.u;
}

static inline double as_f64(uint64_t u)
{
    union {
        uint64_t u;
        double f;
    } x = {.u = u};
    return x.f;
}

static inline uint64_t f64_bits(double f)
{
    union {
        double f;
        uint64_t u;
    } x = {.f = f};
    return x.u;
}

/* Returns element i of a 64-bit operand: a row of low dwords, then a row of high dwords. */
static inline uint64_t row64(const uint32_t *rows, unsigned i)
{
    return rows[i] | (uint64_t)rows[WAVE_LANES + i] << 32;
}

/* Sets element i of a 64-bit operand, which is a row of low dwords and a row of high dwords. */
static inline void set_row64(uint32_t *rows, unsigned i, uint64_t value)
{
    rows[i] = (uint32_t)value;
    rows[WAVE_LANES + i] = (uint32_t)(value >> 32);
}

/* True if the bits of an f32 are a NaN, quiet or signalling. */
static inline bool nan32(uint32_t u) { return (u & 0x7fffffff) > 0x7f800000; }

/* True if the bits of an f32 are a signalling NaN. */
static inline bool snan32(uint32_t u) { return nan32(u) & !(u & 0x400000); }

/* True if the bits of an f64 are a NaN, quiet or signalling. */
static inline bool nan64(uint64_t u) { return (u & INT64_MAX) > UINT64_C(0x7ff0000000000000); }

/* True if the bits of an f64 are a signalling NaN. */
static inline bool snan64(uint64_t u) { return nan64(u) & !(u >> 51 & 1); }

#define QUIET32 0x400000u
#define QUIET64 (UINT64_C(1) << 51)
#define QUIET_NAN32 0x7fc00000u
/* NaN results of operations without a NaN among their sources, as in the manual's examples:
 * V_LOG_F32(0xbf800000) => 0xffc00000. */
#define DEFAULT_NAN16 0xfe00u
#define DEFAULT_NAN32 0xffc00000u
#define DEFAULT_NAN64 UINT64_C(0xfff8000000000000)

/*
 * Converts f16 bits to double, exactly. Subnormals become normal numbers; a NaN keeps its payload
 * in the top bits.
 */
static inline double f16_to_f64(uint32_t h)
{
    uint32_t em = h & 0x7fff;
    /* 2^112 is the difference of the exponents' biases; the product is exact for subnormals too. */
    float f = as_f32(em << 13) * 0x1p112f;
    uint32_t u = em >= 0x7c00 ? 0x7f800000 | em << 13 : f32_bits(f);
    return (double)as_f32(u | (h & 0x8000) << 16);
}

/* Converts f16 bits to float, exactly. A NaN keeps its payload in the top bits. */
static inline float f16_to_f32(uint32_t h)
{
    uint32_t em = h & 0x7fff;
    float f = as_f32(em << 13) * 0x1p112f;
    uint32_t u = em >= 0x7c00 ? 0x7f800000 | em << 13 : f32_bits(f);
    return as_f32(u | (h & 0x8000) << 16);
}

static inline float bf16_to_f32(uint32_t h) { return as_f32(h << 16); }

/* Rounding as MODE encodes it. ROUND_SATURATES is bit 2 of the f16 modes, FP16_OVFL: an overflow
 * gives the largest finite number. */
enum rounding { ROUND_NEAREST, ROUND_UP, ROUND_DOWN, ROUND_ZERO, ROUND_SATURATES };

/* Returns the rounding of f32 results that MODE selects. */
static inline enum rounding round_f32_mode(const struct wave *w)
{
    return (enum rounding)(w->mode & MODE_ROUND_F32);
}

/* Returns the rounding of f16 and f64 results that MODE selects, with ROUND_SATURATES if FP16_OVFL
 * is set. */
static inline enum rounding round_f16_mode(const struct wave *w)
{
    return (enum rounding)((w->mode >> 2 & 3) | (w->mode & MODE_FP16_OVFL ? ROUND_SATURATES : 0u));
}

/* True if an overflow gives infinity rather than the largest finite number. `negative` is the sign
 * of the result. */
static inline bool overflow_is_inf(enum rounding mode, bool negative)
{
    return mode == ROUND_NEAREST || mode == (negative ? ROUND_DOWN : ROUND_UP);
}

/*
 * Rounds x to f16, to nearest even, by an addition in double, which vectorises better than 64-bit
 * integers. `magic` aligns the last bit of x + magic with the last bit of the result.
 */
static inline uint32_t f64_to_f16_nearest(double x)
{
    const uint64_t u = f64_bits(x);
    double m = fabs(x);
    const uint32_t nan = 0x7e00 | (uint32_t)(u >> 42 & 0x1ff);
    const bool is_nan = m != m;
    m = m < 0x1p16 ? m : 0x1p16; /* 65520 and above become infinity */
    const double top = as_f64(f64_bits(m < 0x1p-14 ? 0x1p-14 : m) & UINT64_C(0x7ff0000000000000));
    const double magic = top * 0x1.8p42;
    const uint32_t r = f32_bits((float)((m + magic) - magic) * 0x1p-112f) >> 13;
    return (uint32_t)(u >> 48 & 0x8000) | (is_nan ? nan : r);
}

/* Returns the f16 bits of m >= 0, rounded to nearest even. */
static inline uint32_t f16_magnitude_nearest(float m)
{
    const float top = as_f32(f32_bits(m < 0x1p-14f ? 0x1p-14f : m) & 0x7f800000);
    const float magic = top * 0x1.8p13f;
    return f32_bits(((m + magic) - magic) * 0x1p-112f) >> 13;
}

/* Returns the f16 bits of m >= 0, truncated, or with `away` rounded away from zero. */
static inline uint32_t f16_magnitude_directed(float m, bool away)
{
    const uint32_t normal = (f32_bits(m) - (112u << 23)) >> 13;
    /* subnormals: in units of their last bit */
    const float in_units = m < 0x1p-14f ? m * 0x1p24f : 0.0f;
    const uint32_t r = m < 0x1p-14f ? (uint32_t)(int32_t)in_units : normal;
    return r + (away & (f16_to_f32(r) < m));
}

/* Returns the f16 bits of x, rounded by `mode`. A NaN keeps its sign and top payload bits, and
 * becomes quiet. */
static inline uint32_t f32_to_f16(float x, enum rounding mode)
{
    const uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000;
    const unsigned way = mode & 3;
    float m = fabsf(x);
    m = m < 0x1p16f ? m : 0x1p16f; /* 2^16 becomes infinity; NaNs are replaced at the end */
    uint32_t r = way == ROUND_NEAREST
                     ? f16_magnitude_nearest(m)
                     : f16_magnitude_directed(m, way == (sign ? ROUND_DOWN : ROUND_UP));
    const uint32_t positive = overflow_is_inf(mode, false) ? 0x7c00 : 0x7bff;
    const uint32_t negative = overflow_is_inf(mode, true) ? 0x7c00 : 0x7bff;
    const uint32_t most = sign ? negative : positive;
    r = r >= 0x7c00 ? most : r;
    r = (u & 0x7fffffff) == 0x7f800000 ? 0x7c00 : r;
    return sign | (nan32(u) ? 0x7e00 | (u >> 13 & 0x1ff) : r);
}

#define ROW_HALVES (2 * WAVE_LANES)

/* Converts the f16 halves of 64 dwords to 128 floats: f[2 i] is the low half of row[i], f[2 i + 1]
 * the high half. A NaN may become quiet. */
static inline void widen_halves(const uint32_t *row, float *f)
{
#if defined(__AVX512F__)
    for (unsigned i = 0; i < ROW_HALVES; i += 16)
        _mm512_storeu_ps(f + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(row + i / 2))));
#elif defined(__F16C__)
    for (unsigned i = 0; i < ROW_HALVES; i += 8)
        _mm256_storeu_ps(f + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(row + i / 2))));
#else
    EACH_LANE
    {
        f[2 * i] = f16_to_f32(row[i] & 0xffff);
        f[2 * i + 1] = f16_to_f32(row[i] >> 16);
    }
#endif
}

/* Converts 128 floats to the f16 halves of 64 dwords, in the order of widen_halves(). Rounds like
 * f32_to_f16(). `mode` is a constant at each call. */
static inline __attribute__((always_inline)) void narrow_halves(const float *f, uint32_t *row,
                                                                const enum rounding mode)
{
#if defined(__F16C__)
#    define HOST_NARROW(mode, way)                                                     \
        if (__builtin_constant_p(mode) && (mode) == ROUND_##way) {                     \
            for (unsigned i = 0; i < ROW_HALVES; i += 8)                               \
                _mm_storeu_si128((void *)(row + i / 2),                                \
                                 _mm256_cvtps_ph(_mm256_loadu_ps(f + i), HOST_##way)); \
            return;                                                                    \
        }
    enum { HOST_NEAREST = _MM_FROUND_TO_NEAREST_INT, HOST_ZERO = _MM_FROUND_TO_ZERO };
    HOST_NARROW(mode, NEAREST)
    HOST_NARROW(mode, ZERO)
#    undef HOST_NARROW
#endif
    EACH_LANE row[i] = f32_to_f16(f[2 * i], mode) | f32_to_f16(f[2 * i + 1], mode) << 16;
}

/* Returns the bf16 bits of x, rounded to nearest even. A NaN becomes quiet. */
static inline uint32_t f32_to_bf16(float x)
{
    uint32_t u = f32_bits(x);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return nan32(u) ? u >> 16 | 0x40 : r;
}

/* Returns a + b in double, rounded to odd: a second rounding to a narrower format then gives the
 * exact sum's rounding. */
static inline double add_to_odd(double a, double b)
{
    double s = a + b;
    double bb = s - a;
    double error = (a - (s - bb)) + (b - bb);
    uint64_t u = f64_bits(s);
    /* inexact and even: one step towards the exact value */
    bool step = error != 0 && !(u & 1) && !isinf(s);
    bool away = (error > 0) == (s > 0);
    u += step ? (away ? 1 : UINT64_MAX) : 0;
    return as_f64(u);
}

/* Returns a + b in single precision, rounded to odd. Uses integers where comparisons would prevent
 * vectorisation. */
static inline float add_to_odd32(float a, float b)
{
    float s = a + b;
    float bb = s - a;
    float error = (a - (s - bb)) + (b - bb);
    uint32_t u = f32_bits(s), against = (f32_bits(error) ^ u) >> 31;
    uint32_t step = error != 0 ? ~u & 1 : 0;
    step = fabsf(s) < INFINITY ? step : 0;
    return as_f32(u + step - 2 * (step & against));
}

/* Maps the bits of a float to an integer that orders floats by value, -0 below +0. Apart from NaNs
 * the function is its own inverse. */
static inline int32_t order32(uint32_t u)
{
    return (int32_t)(u ^ (uint32_t)((int32_t)u >> 31 & 0x7fffffff));
}

/* Like order32(), for the bits of an f64. */
static inline int64_t order64(uint64_t u)
{
    return (int64_t)(u ^ (uint64_t)((int64_t)u >> 63 & INT64_MAX));
}

/*
 * V_MIN_F32, with `max` V_MAX_F32: a number wins over a NaN. In IEEE mode a signalling NaN wins and
 * becomes quiet. -0 is less than +0.
 */
static inline uint32_t minmax32(uint32_t a, uint32_t b, bool max, bool ieee)
{
    uint32_t r = (order32(a) < order32(b)) != max ? a : b;
    r = nan32(b) ? a : r;
    r = nan32(a) ? b : r;
    r = ieee & snan32(b) ? b | QUIET32 : r;
    r = ieee & snan32(a) ? a | QUIET32 : r;
    return r;
}

/* Like minmax32(), for the bits of an f64. */
static inline uint64_t minmax64(uint64_t a, uint64_t b, bool max, bool ieee)
{
    uint64_t r = (order64(a) < order64(b)) != max ? a : b;
    r = nan64(b) ? a : r;
    r = nan64(a) ? b : r;
    r = ieee & snan64(b) ? b | QUIET64 : r;
    r = ieee & snan64(a) ? a | QUIET64 : r;
    return r;
}

/* True if MODE.IEEE is set, so that signalling NaNs become quiet. */
static inline bool ieee_mode(const struct lanes *x) { return x->w->mode & MODE_IEEE; }

/* Returns the bits that a propagated NaN gets: MODE.IEEE makes it quiet. */
static inline uint32_t quiet32(const struct lanes *x) { return ieee_mode(x) ? QUIET32 : 0; }

/* Like quiet32(), for an f64. */
static inline uint64_t quiet64(const struct lanes *x) { return ieee_mode(x) ? QUIET64 : 0; }

/* Like quiet32(), for an f16. */
static inline uint32_t quiet16(const struct lanes *x) { return ieee_mode(x) ? 0x200 : 0; }

/*
 * Replaces the NaNs among the f32 results, since host instruction sets differ in the NaN that they
 * deliver. The result is the first NaN among the `nsrc` sources, or else the default NaN. With
 * three sources, a product of infinity and zero is a NaN before the addend.
 */
void LOCAL(fix_nan32)(struct lanes *x, unsigned nsrc);
void LOCAL(fix_nan64)(struct lanes *x, unsigned nsrc);

#define ROW_ENTRY(op, fn, fl, t, ...) \
    {.name = #op,                     \
     .exec = LOCAL(exec_lanes),       \
     .kernel = (void (*)(void))fn,    \
     .flags = ROW_VALU | (fl),        \
     .dst = t,                        \
     .src = {__VA_ARGS__}},

#endif
