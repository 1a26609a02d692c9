/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions (CDNA3 and CDNA4 ISA, VOP1, VOP2 and VOP3 sections). Float to integer truncates,
 * saturates, and converts NaN to zero.
 */
#include "lanes.h"
#include "narrow.h"

#define CVT(op, ...) \
    ROUNDING_KERNEL(op) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool saturate = mode & ROUND_SATURATES; \
        (void)s0, (void)s1, (void)s2, (void)saturate, (void)mode; \
        EACH_LANE { \
            __VA_ARGS__; \
        } \
    }

/* Converts to a signed 32-bit integer: truncates and saturates; a NaN becomes 0. */
static inline uint32_t to_i32(double a)
{
    double c = a == a ? a : 0.0;
    c = c < -0x1p31 ? -0x1p31 : c > 0x7fffffff ? (double)0x7fffffff : c;
    return (uint32_t)(int32_t)c;
}

/* Converts to an unsigned 32-bit integer: truncates and saturates; a NaN becomes 0. */
static inline uint32_t to_u32(double a)
{
    double c = a > 0.0 ? a : 0.0;
    c = c > 0xffffffffu ? (double)0xffffffffu : c;
    return (uint32_t)(int64_t)c;
}

/* Converts to an integer in [low, high]: truncates and saturates. */
static inline uint32_t to_range(double a, int low, int high)
{
    double c = a == a ? a : 0.0;
    c = c < low ? low : c > high ? high : c;
    return (uint32_t)(int32_t)c;
}


/* Converts to 0 .. 255, rounded by the host's rounding mode and saturated. */
static inline uint32_t rounded_u8(double a)
{
    double c = a > 0.0 ? a : 0.0;
    c = c > 255.0 ? 255.0 : c;
    return (uint32_t)(int32_t)((c + 0x1.8p52) - 0x1.8p52);
}

/* Converts a number from -1 to 1 to a signed 16-bit integer, 32767 for 1, rounded to nearest even.
 * Other numbers are clamped first. */
static inline uint32_t to_snorm(double a)
{
    double c = a == a ? a : 0.0;
    c = c < -1.0 ? -1.0 : c > 1.0 ? 1.0 : c;
    return (uint32_t)(int32_t)((c * 32767.0 + 0x1.8p52) - 0x1.8p52) & 0xffff;
}

/* Converts a number from 0 to 1 to 16 bits, 65535 for 1. Other numbers are clamped first. */
static inline uint32_t to_unorm(double a)
{
    double c = a > 0.0 ? a : 0.0;
    c = c > 1.0 ? 1.0 : c;
    return (uint32_t)(int32_t)((c * 65535.0 + 0x1.8p52) - 0x1.8p52) & 0xffff;
}

/* Converts f16 to f32 bits; `quiet` has the bit that a NaN gets. */
static inline uint32_t f16_widened(uint32_t h, uint32_t quiet)
{
    uint32_t u = f32_bits(f16_to_f32(h));
    return nan32(u) ? u | quiet : u;
}

/* Returns the low half of lane i, an f16. */
static inline double half(const uint32_t *s, unsigned i)
{
    return f16_to_f64(s[i] & 0xffff);
}

#define A32 as_f32(s0[i])
#define B32 as_f32(s1[i])
#define A64 as_f64(row64(s0, i))

CVT(i32_f64, d[i] = to_i32(A64))
CVT(u32_f64, d[i] = to_u32(A64))
CVT(i32_f32, d[i] = to_i32((double)A32))
CVT(u32_f32, d[i] = to_u32((double)A32))
CVT(f64_i32, set_row64(d, i, f64_bits((double)(int32_t)s0[i])))
CVT(f64_u32, set_row64(d, i, f64_bits((double)s0[i])))
CVT(f32_i32, d[i] = f32_bits((float)(int32_t)s0[i]))
/* Two halves that are exact: only their addition rounds. */
CVT(f32_u32, d[i] = f32_bits((float)(int32_t)(s0[i] >> 16) * 65536.0f
                             + (float)(int32_t)(s0[i] & 0xffff)))
CVT(f32_f64, d[i] = f32_bits((float)A64))
CVT(f64_f32, uint32_t u = s0[i]; uint64_t q = f64_bits((double)as_f32(u));
    set_row64(d, i, nan32(u) ? q | QUIET64 : q))
CVT(f16_f32, d[i] = f32_to_f16(A32, mode))
CVT(f32_f16, d[i] = f16_widened(s0[i] & 0xffff, quiet32(x)))
/* The sum is exact; MODE's rounding has no effect (CDNA4 ISA, V_CVT_RPI_I32_F32). */
CVT(rpi, d[i] = to_i32(floor((double)A32 + 0.5)))
CVT(flr, d[i] = to_i32((double)floorf(A32)))
/* Multiples of 1/16: codes 0 .. 7 are 0 .. 0.4375, codes 8 .. 15 are -0.5 .. -0.0625. */
CVT(off_f32_i4, d[i] = f32_bits((float)((int32_t)(s0[i] << 28) >> 28) * 0.0625f))
CVT(ubyte0, d[i] = f32_bits((float)(int32_t)(s0[i] & 0xff)))
CVT(ubyte1, d[i] = f32_bits((float)(int32_t)(s0[i] >> 8 & 0xff)))
CVT(ubyte2, d[i] = f32_bits((float)(int32_t)(s0[i] >> 16 & 0xff)))
CVT(ubyte3, d[i] = f32_bits((float)(int32_t)(s0[i] >> 24)))
CVT(f16_u16, d[i] = f32_to_f16((float)(int32_t)(s0[i] & 0xffff), mode))
CVT(f16_i16, d[i] = f32_to_f16((float)(int16_t)s0[i], mode))
CVT(u16_f16, d[i] = to_range(half(s0, i), 0, 65535))
CVT(i16_f16, d[i] = to_range(half(s0, i), -32768, 32767) & 0xffff)
CVT(norm_i16_f16, d[i] = to_snorm(half(s0, i)))
CVT(norm_u16_f16, d[i] = to_unorm(half(s0, i)))
CVT(pknorm_i16_f32, d[i] = to_snorm((double)A32) | to_snorm((double)B32) << 16)
CVT(pknorm_u16_f32, d[i] = to_unorm((double)A32) | to_unorm((double)B32) << 16)
CVT(pknorm_i16_f16, d[i] = to_snorm(half(s0, i)) | to_snorm(half(s1, i)) << 16)
CVT(pknorm_u16_f16, d[i] = to_unorm(half(s0, i)) | to_unorm(half(s1, i)) << 16)

/* V_CVT_PKRTZ_F16_F32: rounds two f32 toward zero and packs them. */
static void k_pkrtz(struct lanes *x)
{
    const uint32_t *s0 = x->s[0], *s1 = x->s[1];
    alignas(64) float both[ROW_HALVES];
    EACH_LANE {
        both[2 * i] = A32;
        both[2 * i + 1] = B32;
    }
    narrow_halves(both, x->d, ROUND_ZERO);
}

CVT(pk_f16, const enum rounding nearest = saturate ? ROUND_SATURATES : ROUND_NEAREST;
    d[i] = f32_to_f16(A32, nearest) | f32_to_f16(B32, nearest) << 16)
CVT(pk_u8, uint32_t at = 8 * (s1[i] & 3);
    d[i] = (s2[i] & ~(0xffu << at)) | rounded_u8((double)A32) << at)
CVT(pk_bf16, d[i] = f32_to_bf16(A32) | f32_to_bf16(B32) << 16)
CVT(f32_bf16, d[i] = s0[i] << 16)

/* Rounds f32 bits `u` stochastically to 16 bits, with `mbits` bits of mantissa and exponent bias
 * `bias`. An infinity becomes `inf`, and an overflow `over`. */
static inline uint32_t stochastic16(uint32_t u, uint32_t random, unsigned mbits, int bias,
                                    uint32_t inf, uint32_t over)
{
    uint32_t r = stochastic_bits(as_f32(u), 23, mbits, bias, random);
    r = r >= inf ? over : r;
    r = (u & 0x7fffffff) == 0x7f800000 ? inf : r;
    r = nan32(u) ? inf | 1u << (mbits - 1) | (u >> (23 - mbits) & ((1u << (mbits - 1)) - 1)) : r;
    return r | (u >> 16 & 0x8000);
}
CVT(sr_f16, d[i] = stochastic16(s0[i], s1[i], 10, 15, 0x7c00, saturate ? 0x7bff : 0x7c00))
CVT(sr_bf16, d[i] = stochastic16(s0[i], s1[i], 7, 127, 0x7f80, 0x7f80))

/* gfx1250: the halves of S2 are the random bits. The pseudo-code adds all of them, also for f16, of
 * whose least bit they are a multiple; here their top 13 bits count. */
CVT(sr_pk_f16, const uint32_t over = saturate ? 0x7bff : 0x7c00;
    d[i] = stochastic16(s0[i], s2[i] << 16, 10, 15, 0x7c00, over)
         | stochastic16(s1[i], s2[i] & 0xffff0000, 10, 15, 0x7c00, over) << 16)
CVT(sr_pk_bf16, d[i] = stochastic16(s0[i], s2[i] << 16, 7, 127, 0x7f80, 0x7f80)
                     | stochastic16(s1[i], s2[i] & 0xffff0000, 7, 127, 0x7f80, 0x7f80) << 16)

/* Kernels of fp8 and bf8, whose formats are FNUZ on gfx942 and OCP on gfx950. */
#define FP8_KERNELS(suffix, fp8, bf8) \
    CVT(f32_fp8_##suffix, d[i] = f32_bits(narrow_decode(&fp8, s0[i] & 0xff))) \
    CVT(f32_bf8_##suffix, d[i] = f32_bits(narrow_decode(&bf8, s0[i] & 0xff))) \
    CVT(pk_f32_fp8_##suffix, uint32_t u = s0[i]; \
        d[i] = f32_bits(narrow_decode(&fp8, u & 0xff)); \
        d[WAVE_LANES + i] = f32_bits(narrow_decode(&fp8, u >> 8 & 0xff))) \
    CVT(pk_f32_bf8_##suffix, uint32_t u = s0[i]; \
        d[i] = f32_bits(narrow_decode(&bf8, u & 0xff)); \
        d[WAVE_LANES + i] = f32_bits(narrow_decode(&bf8, u >> 8 & 0xff))) \
    CVT(pk_fp8_##suffix, d[i] = narrow_encode(&fp8, A32, saturate) \
        | narrow_encode(&fp8, B32, saturate) << 8) \
    CVT(pk_bf8_##suffix, d[i] = narrow_encode(&bf8, A32, saturate) \
        | narrow_encode(&bf8, B32, saturate) << 8) \
    CVT(sr_fp8_##suffix, unsigned at = 8 * (x->in->op_sel >> 2); \
        uint32_t r = narrow_stochastic(&fp8, A32, 23, s1[i], saturate); \
        d[i] = (x->s[3][i] & ~(0xffu << at)) | r << at) \
    CVT(sr_bf8_##suffix, unsigned at = 8 * (x->in->op_sel >> 2); \
        uint32_t r = narrow_stochastic(&bf8, A32, 23, s1[i], saturate); \
        d[i] = (x->s[3][i] & ~(0xffu << at)) | r << at)
FP8_KERNELS(fnuz, fp8_fnuz, bf8_fnuz)
FP8_KERNELS(ocp, fp8_ocp, bf8_ocp)

#define ROW(op, fn, fl, gfx, t, ...) \
    {.name = "v_cvt_" #op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##fn, .dst = t, \
     .src = {__VA_ARGS__}, .flags = ROW_VALU | (fl), .targets = gfx},
#define BYTE_MERGE (ROW_NO_FLUSH | ROW_OP_SEL | ROW_DST_IS_SRC)
#define FP8_ROWS(suffix, gfx) \
    ROW(f32_fp8, f32_fp8_##suffix, ROW_NO_FLUSH, gfx, T_F32, T_B32) \
    ROW(f32_bf8, f32_bf8_##suffix, ROW_NO_FLUSH, gfx, T_F32, T_B32) \
    ROW(pk_f32_fp8, pk_f32_fp8_##suffix, ROW_NO_FLUSH, gfx, T_PKF32, T_B32) \
    ROW(pk_f32_bf8, pk_f32_bf8_##suffix, ROW_NO_FLUSH, gfx, T_PKF32, T_B32) \
    ROW(pk_fp8_f32, pk_fp8_##suffix, ROW_NO_FLUSH | ROW_PARTIAL, gfx, T_B32, T_F32, T_F32) \
    ROW(pk_bf8_f32, pk_bf8_##suffix, ROW_NO_FLUSH | ROW_PARTIAL, gfx, T_B32, T_F32, T_F32) \
    ROW(sr_fp8_f32, sr_fp8_##suffix, BYTE_MERGE, gfx, T_B32, T_F32, T_B32, 0, T_B32) \
    ROW(sr_bf8_f32, sr_bf8_##suffix, BYTE_MERGE, gfx, T_B32, T_F32, T_B32, 0, T_B32)
const struct op_row LOCAL(vop_cvt_rows)[] = {
    ROW(i32_f64, i32_f64, 0, 0, T_I32, T_F64)
    ROW(u32_f64, u32_f64, 0, 0, T_U32, T_F64)
    ROW(i32_f32, i32_f32, 0, 0, T_I32, T_F32)
    ROW(u32_f32, u32_f32, 0, 0, T_U32, T_F32)
    ROW(f64_i32, f64_i32, 0, 0, T_F64, T_I32)
    ROW(f64_u32, f64_u32, 0, 0, T_F64, T_U32)
    ROW(f32_i32, f32_i32, ROW_ROUNDS, 0, T_F32, T_I32)
    ROW(f32_u32, f32_u32, ROW_ROUNDS, 0, T_F32, T_U32)
    ROW(f32_f64, f32_f64, ROW_ROUNDS, 0, T_F32, T_F64)
    ROW(f64_f32, f64_f32, 0, 0, T_F64, T_F32)
    ROW(f16_f32, f16_f32, 0, 0, T_F16, T_F32)
    ROW(f32_f16, f32_f16, 0, 0, T_F32, T_F16)
    ROW(rpi_i32_f32, rpi, 0, 0, T_I32, T_F32)
    ROW(flr_i32_f32, flr, 0, 0, T_I32, T_F32)
    ROW(off_f32_i4, off_f32_i4, 0, 0, T_F32, T_B32)
    ROW(f32_ubyte0, ubyte0, 0, 0, T_F32, T_U32)
    ROW(f32_ubyte1, ubyte1, 0, 0, T_F32, T_U32)
    ROW(f32_ubyte2, ubyte2, 0, 0, T_F32, T_U32)
    ROW(f32_ubyte3, ubyte3, 0, 0, T_F32, T_U32)
    ROW(f16_u16, f16_u16, 0, 0, T_F16, T_B16)
    ROW(f16_i16, f16_i16, 0, 0, T_F16, T_B16)
    ROW(u16_f16, u16_f16, 0, 0, T_B16, T_F16)
    ROW(i16_f16, i16_f16, 0, 0, T_B16, T_F16)
    ROW(norm_i16_f16, norm_i16_f16, 0, 0, T_B16, T_F16)
    ROW(norm_u16_f16, norm_u16_f16, 0, 0, T_B16, T_F16)
    ROW(pknorm_i16_f32, pknorm_i16_f32, 0, 0, T_B32, T_F32, T_F32)
    ROW(pknorm_u16_f32, pknorm_u16_f32, 0, 0, T_B32, T_F32, T_F32)
    ROW(pknorm_i16_f16, pknorm_i16_f16, 0, 0, T_B32, T_F16, T_F16)
    ROW(pknorm_u16_f16, pknorm_u16_f16, 0, 0, T_B32, T_F16, T_F16)
    ROW(pkrtz_f16_f32, pkrtz, 0, 0, T_PKF16, T_F32, T_F32)
    ROW(pk_u8_f32, pk_u8, ROW_ROUNDS, 0, T_B32, T_F32, T_U32, T_U32)
    ROW(pkaccum_u8_f32, pk_u8, ROW_ROUNDS | ROW_DST_IS_SRC, 0, T_B32, T_F32, T_U32, T_U32)
    ROW(pk_f16_f32, pk_f16, 0, GFX950, T_PKF16, T_F32, T_F32)
    ROW(pk_bf16_f32, pk_bf16, 0, GFX950, T_B32, T_F32, T_F32)
    ROW(f32_bf16, f32_bf16, ROW_NO_FLUSH, GFX950, T_F32, T_BF16)
    ROW(sr_pk_f16_f32, sr_pk_f16, 0, GFX1250, T_PKF16, T_F32, T_F32, T_B32)
    ROW(sr_pk_bf16_f32, sr_pk_bf16, 0, GFX1250, T_PKBF16, T_F32, T_F32, T_B32)
    ROW(sr_f16_f32, sr_f16, ROW_PARTIAL, GFX950, T_F16, T_F32, T_B32)
    ROW(sr_bf16_f32, sr_bf16, ROW_PARTIAL, GFX950, T_BF16, T_F32, T_B32)
    FP8_ROWS(fnuz, GFX942)
    FP8_ROWS(ocp, GFX950)
    {.name = NULL},
};
