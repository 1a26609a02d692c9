/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector operations that only gfx1250 has (CDNA5 ISA, VOP1, VOP2, VOP3 and VOP3P sections).
 * Operations "minimum_num" and "maximum_num" prefer a number to any NaN; "minimum" and "maximum"
 * prefer a NaN. bf16 arithmetic keeps denormals and rounds to nearest in any MODE.
 */
#include <float.h>

#include "lanes.h"
#include "narrow.h"
#include "trans.h"

#define KERNEL(op, ...)                                                              \
    static void k_##op(struct lanes *x)                                              \
    {                                                                                \
        uint32_t *d = x->d;                                                          \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2];                  \
        const bool clamp = x->in->clamp;                                             \
        (void)s0, (void)s1, (void)s2, (void)clamp;                                   \
        EACH_LANE                                                                    \
        {                                                                            \
            __VA_ARGS__;                                                             \
        }                                                                            \
    }

/* The functions from here on convert fp8 and bf8. */

/* Returns the number of the byte that OP_SEL selects: bit 0 selects the high half, bit 1 the high
 * byte of a half. */
static inline unsigned selected_byte(const struct lanes *x)
{
    return (x->in->op_sel & 1) * 2 + (x->in->op_sel >> 1 & 1);
}

#define FROM_BYTE(op, format) \
    KERNEL(op, d[i] = f32_bits(narrow_decode(&format, s0[i] >> 8 * selected_byte(x) & 0xff)))
FROM_BYTE(cvt_f32_fp8, fp8_ocp)
FROM_BYTE(cvt_f32_bf8, bf8_ocp)

#define FROM_HALF(op, format)                                       \
    KERNEL(op, const uint32_t u = s0[i];                          \
           d[i] = f32_bits(narrow_decode(&format, u & 0xff));       \
           d[WAVE_LANES + i] = f32_bits(narrow_decode(&format, u >> 8 & 0xff)))
FROM_HALF(cvt_pk_f32_fp8, fp8_ocp)
FROM_HALF(cvt_pk_f32_bf8, bf8_ocp)

#define TO_F16(op, format) \
    KERNEL(op, const uint32_t code = s0[i] >> 8 * selected_byte(x) & 0xff; \
           d[i] = f32_to_f16(narrow_decode(&format, code), ROUND_NEAREST))
TO_F16(cvt_f16_fp8, fp8_ocp)
TO_F16(cvt_f16_bf8, bf8_ocp)

#define TO_PK_F16(op, format) \
    KERNEL(op, const float low = narrow_decode(&format, s0[i] & 0xff); \
           const float high = narrow_decode(&format, s0[i] >> 8 & 0xff); \
           d[i] = f32_to_f16(low, ROUND_NEAREST) | f32_to_f16(high, ROUND_NEAREST) << 16)
TO_PK_F16(cvt_pk_f16_fp8, fp8_ocp)
TO_PK_F16(cvt_pk_f16_bf8, bf8_ocp)

/* Sources of 16 bits are the halves of S0. */
#define FROM_F16(format) \
    KERNEL(cvt_pk_##format##_f16, const bool saturate = x->w->mode & MODE_FP16_OVFL; \
           d[i] = narrow_encode(&format##_ocp, f16_to_f32(s0[i] & 0xffff), saturate) \
                | narrow_encode(&format##_ocp, f16_to_f32(s0[i] >> 16), saturate) << 8) \
    KERNEL(cvt_sr_##format##_f16, const bool saturate = x->w->mode & MODE_FP16_OVFL; \
           const float a = f16_to_f32(s0[i] >> 16 * (x->in->op_sel & 1) & 0xffff); \
           const unsigned at = 8 * (x->in->op_sel >> 2); \
           const uint32_t r = narrow_stochastic(&format##_ocp, a, 10, s1[i], saturate); \
           d[i] = (x->s[3][i] & ~(0xffu << at)) | r << at)
FROM_F16(fp8)
FROM_F16(bf8)

/* The functions from here on select elements of tables. */

/* Returns `width` bits of the dwords of lane i, from bit `at` on. They are in two dwords at most.
 * `rows` has the dwords' rows in order, and one more. */
static inline uint32_t bits_at(const uint32_t *const *rows, unsigned i, unsigned at, unsigned width)
{
    const uint64_t both = rows[at / 32][i] | (uint64_t)rows[at / 32 + 1][i] << 32;
    return (uint32_t)(both >> at % 32) & ((1u << width) - 1);
}

/* V_PERM_PK16: writes 16 elements of `width` bits. The table's rows are `table`, and the indices of
 * 4 bits are in source 2. */
static inline void permute_16(struct lanes *x, const uint32_t *const *table, unsigned width)
{
    const uint32_t *const index[3] = {x->s[2], x->s[2] + WAVE_LANES, x->s[2] + WAVE_LANES};
    EACH_LANE
    {
        uint32_t out[5] = {0};
        for (unsigned e = 0; e < 16; e++) {
            const uint32_t v = bits_at(table, i, bits_at(index, i, 4 * e, 4) * width, width);
            const uint64_t placed = (uint64_t)v << width * e % 32;
            out[width * e / 32] |= (uint32_t)placed;
            out[width * e / 32 + 1] |= (uint32_t)(placed >> 32);
        }
        for (unsigned r = 0; r < width / 2; r++)
            x->d[r * WAVE_LANES + i] = out[r];
    }
}

/* Kernels of V_PERM_PK16_B*_U4. The table is {S0, S1}, of 64, 96 or 128 bits. */
static void k_perm_pk16_b4_u4(struct lanes *x)
{
    permute_16(x, (const uint32_t *const[]){x->s[1], x->s[0], x->s[0]}, 4);
}

static void k_perm_pk16_b6_u4(struct lanes *x)
{
    const uint32_t *s1 = x->s[1], *s0 = x->s[0];
    permute_16(x, (const uint32_t *const[]){s1, s1 + WAVE_LANES, s0, s0}, 6);
}

static void k_perm_pk16_b8_u4(struct lanes *x)
{
    const uint32_t *s1 = x->s[1], *s0 = x->s[0];
    permute_16(x, (const uint32_t *const[]){s1, s1 + WAVE_LANES, s0, s0 + WAVE_LANES, s0}, 8);
}

/* Returns the signed byte `n` of u, limited to 4 bits. */
static inline uint32_t sat4(uint32_t u, unsigned n)
{
    const int32_t v = (int8_t)(u >> 8 * n);
    return (uint32_t)(v < -8 ? -8 : v > 7 ? 7 : v) & 15;
}

/* Returns the unsigned byte `n` of u, limited to 4 bits. */
static inline uint32_t satu4(uint32_t u, unsigned n)
{
    const uint32_t v = u >> 8 * n & 0xff;
    return v > 15 ? 15 : v;
}
KERNEL(sat_pk4_i4_i8, d[i] = sat4(s0[i], 0) | sat4(s0[i], 1) << 4 | sat4(s0[i], 2) << 8
                           | sat4(s0[i], 3) << 12)
KERNEL(sat_pk4_u4_u8, d[i] = satu4(s0[i], 0) | satu4(s0[i], 1) << 4 | satu4(s0[i], 2) << 8
                           | satu4(s0[i], 3) << 12)
KERNEL(permlane_idx_gen_b32, const uint32_t mask = s1[i] - 1;
       d[i] = ((s0[i] & 63 & mask) + ((uint32_t)i & ~mask)) << 2)

/* The functions from here on compute minima and maxima. */

/* Returns the lesser of two f32, with `max` the greater. NaNs are ordered by their bits. */
static inline uint32_t least32(uint32_t a, uint32_t b, bool max)
{
    return (order32(a) < order32(b)) != max ? a : b;
}

/* Returns minimum_num, with `max` maximum_num, of two f32: a number wins over a NaN. */
static inline uint32_t num32(uint32_t a, uint32_t b, bool max)
{
    uint32_t r = least32(a, b, max);
    r = nan32(b) ? a : r;
    r = nan32(a) ? b : r;
    return nan32(a) & nan32(b) ? a | QUIET32 : r;
}

/* Returns minimum, with `max` maximum, of two f32: a NaN wins and becomes quiet, a signalling one
 * first. */
static inline uint32_t ieee32(uint32_t a, uint32_t b, bool max)
{
    uint32_t r = least32(a, b, max);
    r = nan32(b) ? b | QUIET32 : r;
    r = nan32(a) & !snan32(b) ? a | QUIET32 : r;
    return snan32(a) ? a | QUIET32 : r;
}

/* V_MED3_NUM: returns the larger of the two sources that are not the maximum; with a NaN the
 * minimum. */
static inline uint32_t med32(uint32_t a, uint32_t b, uint32_t c)
{
    const float max = as_f32(num32(num32(a, b, true), c, true));
    uint32_t r = num32(a, b, true);
    r = max == as_f32(b) ? num32(a, c, true) : r;
    r = max == as_f32(a) ? num32(b, c, true) : r;
    return nan32(a) | nan32(b) | nan32(c) ? num32(num32(a, b, false), c, false) : r;
}

/* Like least32(), for f64. */
static inline uint64_t least64(uint64_t a, uint64_t b, bool max)
{
    return (order64(a) < order64(b)) != max ? a : b;
}

/* Like num32(), for f64. */
static inline uint64_t num64(uint64_t a, uint64_t b, bool max)
{
    uint64_t r = least64(a, b, max);
    r = nan64(b) ? a : r;
    r = nan64(a) ? b : r;
    return nan64(a) & nan64(b) ? a | QUIET64 : r;
}

/* Like ieee32(), for f64. */
static inline uint64_t ieee64(uint64_t a, uint64_t b, bool max)
{
    uint64_t r = least64(a, b, max);
    r = nan64(b) ? b | QUIET64 : r;
    r = nan64(a) & !snan64(b) ? a | QUIET64 : r;
    return snan64(a) ? a | QUIET64 : r;
}

/* Returns the minimum_num, with `max` maximum_num, of two 16-bit floats whose format has infinity
 * `inf`. In the upper half of a dword they have the order of f32. */
static inline uint32_t num16(uint32_t a, uint32_t b, bool max, uint32_t inf)
{
    const bool na = (a & 0x7fff) > inf, nb = (b & 0x7fff) > inf;
    uint32_t r = least32(a << 16, b << 16, max) >> 16;
    r = nb ? a : r;
    r = na ? b : r;
    return na & nb ? a | (inf == 0x7c00 ? 0x200u : 0x40u) : r;
}

/* Like ieee32(), for f16. */
static inline uint32_t ieee16(uint32_t a, uint32_t b, bool max)
{
    const bool na = (a & 0x7fff) > 0x7c00, nb = (b & 0x7fff) > 0x7c00;
    uint32_t r = least32(a << 16, b << 16, max) >> 16;
    r = nb ? b | 0x200 : r;
    r = na & !(nb & !(b & 0x200)) ? a | 0x200 : r;
    return na & !(a & 0x200) ? a | 0x200 : r;
}

/* V_MED3_NUM_F16: like med32(), for f16. */
static inline uint32_t med16(uint32_t a, uint32_t b, uint32_t c)
{
    const float max = f16_to_f32(num16(num16(a, b, true, 0x7c00), c, true, 0x7c00));
    const bool nan = (a & 0x7fff) > 0x7c00 || (b & 0x7fff) > 0x7c00 || (c & 0x7fff) > 0x7c00;
    uint32_t r = num16(a, b, true, 0x7c00);
    r = max == f16_to_f32(b) ? num16(a, c, true, 0x7c00) : r;
    r = max == f16_to_f32(a) ? num16(b, c, true, 0x7c00) : r;
    return nan ? num16(num16(a, b, false, 0x7c00), c, false, 0x7c00) : r;
}

/* Returns the first NaN of three f32, made quiet; the default NaN if there is none. */
static inline uint32_t first_nan(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t last = nan32(c) ? c | QUIET32 : DEFAULT_NAN32;
    return nan32(a) ? a | QUIET32 : nan32(b) ? b | QUIET32 : last;
}

#define A s0[i]
#define B s1[i]
#define C s2[i]
#define HA (s0[i] & 0xffff)
#define HB (s1[i] & 0xffff)
#define HC (s2[i] & 0xffff)
#define A64 row64(s0, i)
#define B64 row64(s1, i)
#define C64 row64(s2, i)
#define N16(a, b, max) num16(a, b, max, 0x7c00)

KERNEL(mov_b32, d[i] = A)
/* -FLT_MAX represents minus infinity (CDNA5 ISA, V_MULLIT_F32). */
KERNEL(mullit_f32, const float a = as_f32(A), b = as_f32(B), c = as_f32(C);
       const uint32_t product = nan32(A) ? A | QUIET32 : f32_bits(a * b);
       d[i] = b > -FLT_MAX && c > 0.0f ? (a == 0.0f || b == 0.0f ? 0 : product)
                                       : f32_bits(-FLT_MAX))
KERNEL(fma_dx9_zero_f32, const float a = as_f32(A), b = as_f32(B);
       const float r = fmaf(a, b, as_f32(C));
       const uint32_t sum = r == r ? f32_bits(r) : first_nan(A, B, C);
       d[i] = a == 0.0f || b == 0.0f ? C : sum)
KERNEL(min_num_f32, d[i] = num32(A, B, false))
KERNEL(max_num_f32, d[i] = num32(A, B, true))
KERNEL(min3_num_f32, d[i] = num32(num32(A, B, false), C, false))
KERNEL(max3_num_f32, d[i] = num32(num32(A, B, true), C, true))
KERNEL(med3_num_f32, d[i] = med32(A, B, C))
KERNEL(maxmin_num_f32, d[i] = num32(num32(A, B, true), C, false))
KERNEL(minmax_num_f32, d[i] = num32(num32(A, B, false), C, true))
KERNEL(minimum_f32, d[i] = ieee32(A, B, false))
KERNEL(maximum_f32, d[i] = ieee32(A, B, true))
KERNEL(maximumminimum_f32, d[i] = ieee32(ieee32(A, B, true), C, false))
KERNEL(minimummaximum_f32, d[i] = ieee32(ieee32(A, B, false), C, true))
KERNEL(min_num_f64, set_row64(d, i, num64(A64, B64, false)))
KERNEL(max_num_f64, set_row64(d, i, num64(A64, B64, true)))
KERNEL(minimum_f64, set_row64(d, i, ieee64(A64, B64, false)))
KERNEL(maximum_f64, set_row64(d, i, ieee64(A64, B64, true)))
KERNEL(min_num_f16, d[i] = N16(HA, HB, false))
KERNEL(max_num_f16, d[i] = N16(HA, HB, true))
KERNEL(min3_num_f16, d[i] = N16(N16(HA, HB, false), HC, false))
KERNEL(max3_num_f16, d[i] = N16(N16(HA, HB, true), HC, true))
KERNEL(med3_num_f16, d[i] = med16(HA, HB, HC))
KERNEL(maxmin_num_f16, d[i] = N16(N16(HA, HB, true), HC, false))
KERNEL(minmax_num_f16, d[i] = N16(N16(HA, HB, false), HC, true))
KERNEL(minimum_f16, d[i] = ieee16(HA, HB, false))
KERNEL(maximum_f16, d[i] = ieee16(HA, HB, true))
KERNEL(minimum3_f16, d[i] = ieee16(ieee16(HA, HB, false), HC, false))
KERNEL(maximum3_f16, d[i] = ieee16(ieee16(HA, HB, true), HC, true))
KERNEL(maximumminimum_f16, d[i] = ieee16(ieee16(HA, HB, true), HC, false))
KERNEL(minimummaximum_f16, d[i] = ieee16(ieee16(HA, HB, false), HC, true))

/* The functions from here on execute packed operations. */

/* Defines a packed operation: applies expression e, of 16 bits, to the low and the high halves a,
 * b, c. */
#define PACKED(op, t, e)                                                                      \
    KERNEL(                                                                                   \
        op, uint32_t half[2]; const uint32_t *third = s2 ? s2 : s1;                           \
        for (unsigned h = 0; h < 2; h++) {                                                    \
            const t a = (t)(s0[i] >> 16 * h), b = (t)(s1[i] >> 16 * h),                       \
                    c = (t)(third[i] >> 16 * h);                                              \
            (void)c;                                                                          \
            half[h] = (uint32_t)(e) & 0xffff;                                                 \
        } d[i] = half[0] | half[1] << 16)

static inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* Returns v limited to [low, high]. */
static inline int32_t clamped(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Returns v, or 0 if `clamp` and v is negative. */
static inline int32_t relu(int32_t v, bool clamp) { return clamp && v < 0 ? 0 : v; }

/* Returns r as bf16 bits, rounded to nearest. r is exact, or has an odd last bit if it is
 * inexact. */
static inline uint32_t f64_to_bf16(double r)
{
    float f = (float)r;
    uint32_t u = f32_bits(f);
    if ((double)f != r && f == f) { /* as f32 with an odd last bit, which the next rounding needs */
        u -= fabs((double)f) > fabs(r) ? 1 : 0;
        u |= 1;
    }
    return f32_to_bf16(as_f32(u));
}

/* Returns the low half, a bf16, as a double. */
static inline double bf16_double(uint32_t h) { return (double)bf16_to_f32(h & 0xffff); }

/* Returns a + b, with an odd last bit if the sum is inexact. */
static inline double odd_sum(double a, double b)
{
    return isfinite(a) & isfinite(b) ? add_to_odd(a, b) : a + b;
}

PACKED(pk_min_num_f16, uint16_t, N16(a, b, false))
PACKED(pk_max_num_f16, uint16_t, N16(a, b, true))
PACKED(pk_min3_num_f16, uint16_t, N16(N16(a, b, false), c, false))
PACKED(pk_max3_num_f16, uint16_t, N16(N16(a, b, true), c, true))
PACKED(pk_minimum_f16, uint16_t, ieee16(a, b, false))
PACKED(pk_maximum_f16, uint16_t, ieee16(a, b, true))
PACKED(pk_min_num_bf16, uint16_t, num16(a, b, false, 0x7f80))
PACKED(pk_max_num_bf16, uint16_t, num16(a, b, true, 0x7f80))
PACKED(pk_add_bf16, uint16_t, f64_to_bf16(odd_sum(bf16_double(a), bf16_double(b))))
PACKED(pk_mul_bf16, uint16_t, f64_to_bf16(bf16_double(a) * bf16_double(b)))
PACKED(pk_fma_bf16, uint16_t,
       f64_to_bf16(odd_sum(bf16_double(a) * bf16_double(b), bf16_double(c))))
PACKED(pk_min3_i16, int16_t, relu(smaller(smaller(a, b), c), clamp))
PACKED(pk_max3_i16, int16_t, relu(larger(larger(a, b), c), clamp))
PACKED(pk_min3_u16, uint16_t, smaller(smaller(a, b), c))
PACKED(pk_max3_u16, uint16_t, larger(larger(a, b), c))
PACKED(pk_add_min_i16, int16_t, relu(smaller(clamped(a + b, INT16_MIN, INT16_MAX), c), clamp))
PACKED(pk_add_max_i16, int16_t, relu(larger(clamped(a + b, INT16_MIN, INT16_MAX), c), clamp))
PACKED(pk_add_min_u16, uint16_t, smaller(clamped(a + b, 0, UINT16_MAX), c))
PACKED(pk_add_max_u16, uint16_t, larger(clamped(a + b, 0, UINT16_MAX), c))

/* V_DOT2_BF16_BF16: returns c + a.lo * b.lo + a.hi * b.hi. The manual has no rule for the rounding
 * of its two additions; each one is fused here and rounds to nearest even (RDNA4 ISA, VOP3). Triton
 * multiplies bf16 with it, a high half and c being 0. */
static inline uint32_t dot2_bf16(uint32_t a, uint32_t b, uint32_t c)
{
    const double low = bf16_double(a & 0xffff) * bf16_double(b & 0xffff);
    const uint32_t sum = f64_to_bf16(odd_sum(low, bf16_double(c)));
    return f64_to_bf16(odd_sum(bf16_double(a >> 16) * bf16_double(b >> 16), bf16_double(sum)));
}

KERNEL(dot2_bf16_bf16, d[i] = dot2_bf16(A, B, HC))

/* V_DOT4_I32_IU8, V_DOT8_I32_IU4: returns the dot product of elements of `width` bits. Bits of
 * `is_signed` (NEG) say which source is signed. */
static inline int64_t dot_iu(uint32_t a, uint32_t b, unsigned width, unsigned is_signed)
{
    int64_t sum = 0;
    for (unsigned at = 0; at < 32; at += width) {
        const unsigned down = 32 - width;
        const uint32_t ua = a << (down - at), ub = b << (down - at);
        const int64_t fa = is_signed & 1 ? (int32_t)ua >> down : (int64_t)(ua >> down);
        const int64_t fb = is_signed & 2 ? (int32_t)ub >> down : (int64_t)(ub >> down);
        sum += fa * fb;
    }
    return sum;
}

/* Returns the low 32 bits of v, or with `clamp` v limited to a signed 32-bit integer. */
static inline uint32_t saturated(int64_t v, bool clamp)
{
    const int64_t c = v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v;
    return (uint32_t)(clamp ? c : v);
}

KERNEL(dot4_iu8, d[i] = saturated(dot_iu(A, B, 8, x->in->neg_lo) + (int32_t)C, clamp))
KERNEL(dot8_iu4, d[i] = saturated(dot_iu(A, B, 4, x->in->neg_lo) + (int32_t)C, clamp))

/* V_DOT4_F32_*: returns the f32 `bits` plus the products of the four bytes of a and b, added one by
 * one. A product of two such formats is exact in binary32. NEG negates the f32. NEG_HI takes its
 * magnitude, as LLVM encodes them. */
static inline uint32_t dot4(const struct inst *in, const struct narrow *fa, uint32_t a,
                            const struct narrow *fb, uint32_t b, uint32_t bits)
{
    bits &= in->neg_hi & 4 ? INT32_MAX : UINT32_MAX;
    float c = as_f32(bits ^ (uint32_t)(in->neg_lo & 4) << 29);
    for (unsigned at = 0; at < 32; at += 8)
        c += narrow_decode(fa, a >> at & 0xff) * narrow_decode(fb, b >> at & 0xff);
    return c == c ? f32_bits(c) : QUIET_NAN32;
}

/* gfx1201 (RDNA4 ISA, V_DOT4_F32_FP8_BF8 and the three opcodes after it). */
KERNEL(dot4_fp8_fp8, d[i] = dot4(x->in, &fp8_ocp, A, &fp8_ocp, B, C))
KERNEL(dot4_fp8_bf8, d[i] = dot4(x->in, &fp8_ocp, A, &bf8_ocp, B, C))
KERNEL(dot4_bf8_fp8, d[i] = dot4(x->in, &bf8_ocp, A, &fp8_ocp, B, C))
KERNEL(dot4_bf8_bf8, d[i] = dot4(x->in, &bf8_ocp, A, &bf8_ocp, B, C))

/* The functions from here on execute operations on integers. */

/* Returns a + b as signed integers, saturated. */
static inline uint32_t add_i32(uint32_t a, uint32_t b)
{
    return saturated((int64_t)(int32_t)a + (int32_t)b, true);
}

/* Returns a + b as unsigned integers, saturated. */
static inline uint32_t add_u32(uint32_t a, uint32_t b) { return a + b < a ? UINT32_MAX : a + b; }

static inline uint32_t min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }

static inline uint32_t max_u(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline uint32_t min_i(uint32_t a, uint32_t b)
{
    return (uint32_t)smaller((int32_t)a, (int32_t)b);
}

static inline uint32_t max_i(uint32_t a, uint32_t b)
{
    return (uint32_t)larger((int32_t)a, (int32_t)b);
}

KERNEL(add_min_i32, d[i] = (uint32_t)relu((int32_t)min_i(add_i32(A, B), C), clamp))
KERNEL(add_max_i32, d[i] = (uint32_t)relu((int32_t)max_i(add_i32(A, B), C), clamp))
KERNEL(add_min_u32, d[i] = min_u(add_u32(A, B), C))
KERNEL(add_max_u32, d[i] = max_u(add_u32(A, B), C))
KERNEL(maxmin_i32, d[i] = min_i(max_i(A, B), C))
KERNEL(minmax_i32, d[i] = max_i(min_i(A, B), C))
KERNEL(maxmin_u32, d[i] = min_u(max_u(A, B), C))
KERNEL(minmax_u32, d[i] = max_u(min_u(A, B), C))
KERNEL(xor3_b32, d[i] = A ^ B ^ C)
KERNEL(mad_u32, d[i] = A * B + C)
KERNEL(add_nc_u64, set_row64(d, i, A64 + B64))
KERNEL(sub_nc_u64, set_row64(d, i, A64 - B64))
KERNEL(mul_u64, set_row64(d, i, A64 * B64))
KERNEL(min_u64, const uint64_t a = A64; const uint64_t b = B64; set_row64(d, i, a < b ? a : b))
KERNEL(max_u64, const uint64_t a = A64; const uint64_t b = B64; set_row64(d, i, a >= b ? a : b))
KERNEL(min_i64, const uint64_t a = A64; const uint64_t b = B64;
       set_row64(d, i, (int64_t)a < (int64_t)b ? a : b))
KERNEL(max_i64, const uint64_t a = A64; const uint64_t b = B64;
       set_row64(d, i, (int64_t)a >= (int64_t)b ? a : b))
KERNEL(mad_nc_u64_u32, set_row64(d, i, (uint64_t)A * B + C64))
KERNEL(mad_nc_i64_i32, set_row64(d, i, (uint64_t)((int64_t)(int32_t)A * (int32_t)B) + C64))
KERNEL(and_b16, d[i] = HA & HB)
KERNEL(or_b16, d[i] = HA | HB)
KERNEL(xor_b16, d[i] = HA ^ HB)
KERNEL(not_b16, d[i] = ~HA & 0xffff)
KERNEL(mov_b16, d[i] = HA)
KERNEL(cndmask_b16, d[i] = (C ? B : A) & 0xffff)
KERNEL(cvt_i32_i16, d[i] = (uint32_t)(int32_t)(int16_t)A)
KERNEL(cvt_u32_u16, d[i] = HA)
KERNEL(cvt_pk_i16_f32, const float a = as_f32(A), b = as_f32(B);
       d[i] = (uint32_t)(a != a ? 0 : (int32_t)fminf(fmaxf(a, -32768.0f), 32767.0f)) & 0xffff;
       d[i] |= (uint32_t)(b != b ? 0 : (int32_t)fminf(fmaxf(b, -32768.0f), 32767.0f)) << 16)
KERNEL(cvt_pk_u16_f32, const float a = as_f32(A), b = as_f32(B);
       d[i] = (uint32_t)(a > 0 ? fminf(a, 65535.0f) : 0.0f);
       d[i] |= (uint32_t)(b > 0 ? fminf(b, 65535.0f) : 0.0f) << 16)
/* V_BITOP2, which occurs only in VOPD: V_BITOP3 with a third source of zero. */
KERNEL(bitop2_b32, const uint32_t t = x->in->bitop3; const uint32_t a = A; const uint32_t b = B;
       d[i] = (t & 1 ? ~a & ~b : 0) | (t & 4 ? ~a & b : 0) | (t & 16 ? a & ~b : 0) |
              (t & 64 ? a & b : 0))

/* The functions from here on compute transcendentals. */

/* Returns tanh x with an error of about 2^-40; below 2^-10 it is x (CDNA5 ISA, V_TANH_F32). */
static inline double tanh_of(double x)
{
    const double m = fabs(x), t = exp2_wide(m * 0x1.71547652b82fep+1); /* 2 log2 e */
    const double r = m < 0x1p-10 ? m : t < INFINITY ? (t - 1.0) / (t + 1.0) : 1.0;
    return x == x ? copysign(r, x) : x;
}

KERNEL(tanh_f32, const uint32_t u = A;
       d[i] = nan32(u) ? u | QUIET32 : f32_bits((float)tanh_of((double)as_f32(u))))
KERNEL(tanh_f16, const uint32_t u = HA;
       d[i] = (u & 0x7fff) > 0x7c00 ? u | 0x200 : f64_to_f16_nearest(tanh_of(f16_to_f64(u))))

#define TRANS_BF16(op, e)                                                                  \
    KERNEL(op##_bf16, const uint32_t u = HA; const double a = bf16_double(u);              \
           const double r = (e);                                                           \
           d[i] = (u & 0x7fff) > 0x7f80 ? u | 0x40 : r == r ? f32_to_bf16((float)r) : 0xffc0)
TRANS_BF16(exp, exp2_wide(a))
TRANS_BF16(log, log2_wide(a))
TRANS_BF16(rcp, 1.0 / a)
TRANS_BF16(rsq, 1.0 / sqrt(a))
TRANS_BF16(sqrt, sqrt(a))
TRANS_BF16(sin, sin_turns(a))
TRANS_BF16(cos, cos_turns(a))
TRANS_BF16(tanh, tanh_of(a))

/* The table of the operations' rows follows. */

#define ROW(op, fl, t, ...)               \
    {.name = "v_" #op,                    \
     .exec = LOCAL(exec_lanes),           \
     .kernel = (void (*)(void))k_##op,    \
     .dst = t,                            \
     .src = {__VA_ARGS__},                \
     .flags = ROW_VALU | (fl),            \
     .targets = GFX1250},
#define F2(op) ROW(op, 0, T_F32, T_F32, T_F32)
#define F3(op) ROW(op, 0, T_F32, T_F32, T_F32, T_F32)
#define H2(op) ROW(op, 0, T_F16, T_F16, T_F16)
#define H3(op) ROW(op, 0, T_F16, T_F16, T_F16, T_F16)
#define D2(op) ROW(op, 0, T_F64, T_F64, T_F64)
#define U3(op) ROW(op, 0, T_B32, T_B32, T_B32, T_B32)
#define PKH2(op) ROW(op, 0, T_PKF16, T_PKF16, T_PKF16)
#define PKH3(op) ROW(op, 0, T_PKF16, T_PKF16, T_PKF16, T_PKF16)
#define PKB2(op) ROW(op, 0, T_PKBF16, T_PKBF16, T_PKBF16)
#define PKI3(op) ROW(op, ROW_INT_CLAMP, T_PKB16, T_PKB16, T_PKB16, T_PKB16)
#define NAMED(n, fn, fl, t, ...)          \
    {.name = n,                           \
     .exec = LOCAL(exec_lanes),           \
     .kernel = (void (*)(void))k_##fn,    \
     .dst = t,                            \
     .src = {__VA_ARGS__},                \
     .flags = ROW_VALU | (fl),            \
     .targets = GFX1250},
#define DOT4(formats)                               \
    {.name = "v_dot4_f32_" #formats,                \
     .exec = LOCAL(exec_lanes),                     \
     .kernel = (void (*)(void))k_dot4_##formats,    \
     .dst = T_F32,                                  \
     .src = {T_B32, T_B32, T_F32},                  \
     .flags = ROW_VALU | ROW_NO_FLUSH,              \
     .targets = GFX1201},
#define BYTE_MERGE (ROW_NO_FLUSH | ROW_OP_SEL | ROW_DST_IS_SRC)
#define MOVREL(n, which)                       \
    {.name = n,                                \
     .exec = LOCAL(exec_lanes),                \
     .kernel = (void (*)(void))k_mov_b32,      \
     .dst = T_B32,                             \
     .src = {T_B32},                           \
     .flags = ROW_VALU | (uint32_t)ROW_RELATIVE, \
     .arg = which,                             \
     .targets = GFX1250},
const struct op_row LOCAL(vop_gfx1250_rows)[] = {
    MOVREL("v_movrels_b32", RELATIVE_SRC)
    MOVREL("v_movreld_b32", RELATIVE_DST)
    MOVREL("v_movrelsd_b32", RELATIVE_SRC | RELATIVE_DST)
    MOVREL("v_movrelsd_2_b32", RELATIVE_SRC | RELATIVE_DST | RELATIVE_FIELDS)
    F2(min_num_f32)
    F2(max_num_f32)
    F3(min3_num_f32)
    F3(max3_num_f32)
    F3(med3_num_f32)
    F3(maxmin_num_f32)
    F3(minmax_num_f32)
    F2(minimum_f32)
    F2(maximum_f32)
    F3(maximumminimum_f32)
    F3(minimummaximum_f32)
    D2(min_num_f64)
    D2(max_num_f64)
    D2(minimum_f64)
    D2(maximum_f64)
    H2(min_num_f16)
    H2(max_num_f16)
    H3(min3_num_f16)
    H3(max3_num_f16)
    H3(med3_num_f16)
    H3(maxmin_num_f16)
    H3(minmax_num_f16)
    H2(minimum_f16)
    H2(maximum_f16)
    H3(minimum3_f16)
    H3(maximum3_f16)
    H3(maximumminimum_f16)
    H3(minimummaximum_f16)
    PKH2(pk_min_num_f16)
    PKH2(pk_max_num_f16)
    PKH3(pk_min3_num_f16)
    PKH3(pk_max3_num_f16)
    PKH2(pk_minimum_f16)
    PKH2(pk_maximum_f16)
    PKB2(pk_min_num_bf16)
    PKB2(pk_max_num_bf16)
    PKB2(pk_add_bf16)
    PKB2(pk_mul_bf16)
    ROW(pk_fma_bf16, 0, T_PKBF16, T_PKBF16, T_PKBF16, T_PKBF16)
    PKI3(pk_min3_i16)
    PKI3(pk_max3_i16)
    PKI3(pk_min3_u16)
    PKI3(pk_max3_u16)
    PKI3(pk_add_min_i16)
    PKI3(pk_add_max_i16)
    PKI3(pk_add_min_u16)
    PKI3(pk_add_max_u16)
    NAMED("v_dot4_i32_iu8", dot4_iu8, ROW_INT_CLAMP, T_I32, T_B32, T_B32, T_I32)
    NAMED("v_dot8_i32_iu4", dot8_iu4, ROW_INT_CLAMP, T_I32, T_B32, T_B32, T_I32)
    {.name = "v_dot2_bf16_bf16",
     .exec = LOCAL(exec_lanes),
     .kernel = (void (*)(void))k_dot2_bf16_bf16,
     .dst = T_BF16,
     .src = {T_PKBF16, T_PKBF16, T_BF16},
     .flags = ROW_VALU | ROW_NO_FLUSH,
     .targets = GFX1201},
    DOT4(fp8_fp8)
    DOT4(fp8_bf8)
    DOT4(bf8_fp8)
    DOT4(bf8_bf8)
    ROW(add_min_i32, ROW_INT_CLAMP, T_B32, T_B32, T_B32, T_B32)
    ROW(add_max_i32, ROW_INT_CLAMP, T_B32, T_B32, T_B32, T_B32)
    U3(add_min_u32)
    U3(add_max_u32)
    U3(maxmin_i32)
    U3(minmax_i32)
    U3(maxmin_u32)
    U3(minmax_u32)
    U3(xor3_b32)
    U3(mad_u32)
    ROW(add_nc_u64, ROW_LOW_ALONE, T_U64, T_U64, T_U64)
    ROW(sub_nc_u64, ROW_LOW_ALONE, T_U64, T_U64, T_U64)
    ROW(mul_u64, ROW_LOW_ALONE, T_U64, T_U64, T_U64)
    ROW(min_u64, 0, T_U64, T_U64, T_U64)
    ROW(max_u64, 0, T_U64, T_U64, T_U64)
    ROW(min_i64, 0, T_I64, T_I64, T_I64)
    ROW(max_i64, 0, T_I64, T_I64, T_I64)
    ROW(mad_nc_u64_u32, ROW_LOW_ALONE, T_U64, T_U32, T_U32, T_U64)
    ROW(mad_nc_i64_i32, ROW_LOW_ALONE, T_I64, T_I32, T_I32, T_I64)
    ROW(and_b16, 0, T_B16, T_B16, T_B16)
    ROW(or_b16, 0, T_B16, T_B16, T_B16)
    ROW(xor_b16, 0, T_B16, T_B16, T_B16)
    ROW(not_b16, 0, T_B16, T_B16)
    ROW(mov_b16, 0, T_B16, T_B16)
    ROW(cndmask_b16, ROW_SELECTS, T_B16, T_B16, T_B16, T_MASK)
    ROW(cvt_i32_i16, 0, T_I32, T_B16)
    ROW(cvt_u32_u16, 0, T_U32, T_B16)
    ROW(cvt_pk_i16_f32, 0, T_B32, T_F32, T_F32)
    ROW(cvt_pk_u16_f32, 0, T_B32, T_F32, T_F32)
    ROW(cvt_f32_fp8, ROW_OP_SEL, T_F32, T_B32)
    ROW(cvt_f32_bf8, ROW_OP_SEL, T_F32, T_B32)
    ROW(cvt_pk_f32_fp8, 0, T_PKF32, T_B16)
    ROW(cvt_pk_f32_bf8, 0, T_PKF32, T_B16)
    ROW(cvt_f16_fp8, ROW_NO_FLUSH, T_F16, T_B32)
    ROW(cvt_f16_bf8, ROW_NO_FLUSH, T_F16, T_B32)
    ROW(cvt_pk_f16_fp8, ROW_NO_FLUSH, T_PKF16, T_B16)
    ROW(cvt_pk_f16_bf8, ROW_NO_FLUSH, T_PKF16, T_B16)
    ROW(cvt_pk_fp8_f16, ROW_NO_FLUSH | ROW_PARTIAL, T_B32, T_PKF16)
    ROW(cvt_pk_bf8_f16, ROW_NO_FLUSH | ROW_PARTIAL, T_B32, T_PKF16)
    ROW(cvt_sr_fp8_f16, BYTE_MERGE, T_B32, T_PKF16, T_B32, 0, T_B32)
    ROW(cvt_sr_bf8_f16, BYTE_MERGE, T_B32, T_PKF16, T_B32, 0, T_B32)
    ROW(perm_pk16_b4_u4, 0, T_B64, T_B32, T_B32, T_B64)
    ROW(perm_pk16_b6_u4, 0, T_B96, T_B32, T_B64, T_B64)
    ROW(perm_pk16_b8_u4, 0, T_B128, T_B64, T_B64, T_B64)
    ROW(sat_pk4_i4_i8, 0, T_B16, T_B32)
    ROW(sat_pk4_u4_u8, 0, T_B16, T_B32)
    ROW(permlane_idx_gen_b32, 0, T_B32, T_B32, T_B32)
    ROW(mullit_f32, ROW_ROUNDS, T_F32, T_F32, T_F32, T_F32)
    ROW(fma_dx9_zero_f32, ROW_ROUNDS, T_F32, T_F32, T_F32, T_F32)
    ROW(bitop2_b32, ROW_BITOP3, T_B32, T_B32, T_B32)
    ROW(tanh_f32, ROW_TRANS, T_F32, T_F32)
    ROW(tanh_f16, ROW_TRANS, T_F16, T_F16)
    ROW(exp_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(log_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(rcp_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(rsq_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(sqrt_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(sin_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(cos_bf16, ROW_TRANS, T_BF16, T_BF16)
    ROW(tanh_bf16, ROW_TRANS, T_BF16, T_BF16)
    {.name = NULL},
};
