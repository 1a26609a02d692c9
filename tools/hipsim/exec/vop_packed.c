/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VOP3P: packed 16-bit integers, packed f32, mixed-precision fma and dot products, and moves to and
 * from AGPRs (CDNA3 and CDNA4 ISA, VOP3P section). exec_valu.c applies op_sel and neg to packed
 * operands; the mix instructions, which encode other things in them, read them here.
 */
#include <fenv.h>

#include "lanes.h"
#include "saturate.h"

#define HEAD(op) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool clamp = x->in->clamp; \
        (void)s0, (void)s1, (void)s2, (void)clamp;

/* Declares a half of each source, from bit `sh` on, as int64_t with the value of 16-bit type t. */
#define HALVES(t, sh) \
    int64_t a = (t)(s0[i] >> (sh)); \
    int64_t b = (t)(s1[i] >> (sh)); \
    int64_t c = (t)(s2[i] >> (sh)); \
    (void)c;
#define PACK(op, t, expr) \
    HEAD(op) \
        if (!s2) \
            s2 = s1; \
        EACH_LANE { \
            uint32_t low, high; \
            { HALVES(t, 0) low = (expr) & 0xffff; } \
            { HALVES(t, 16) high = (expr) & 0xffff; } \
            d[i] = low | high << 16; \
        } \
    }
PACK(pk_mad_i16, int16_t, sat_i16(a * b + c, clamp))
PACK(pk_mad_u16, uint16_t, sat_u16(a * b + c, clamp))
PACK(pk_mul_lo_u16, uint16_t, (uint32_t)(a * b))
PACK(pk_add_i16, int16_t, sat_i16(a + b, clamp))
PACK(pk_sub_i16, int16_t, sat_i16(a - b, clamp))
PACK(pk_add_u16, uint16_t, sat_u16(a + b, clamp))
PACK(pk_sub_u16, uint16_t, sat_u16(a - b, clamp))
PACK(pk_lshlrev_b16, uint16_t, (uint32_t)b << (a & 15))
PACK(pk_lshrrev_b16, uint16_t, (uint32_t)b >> (a & 15))
PACK(pk_ashrrev_i16, int16_t, (uint32_t)((int32_t)b >> (a & 15)))
PACK(pk_max_i16, int16_t, (uint32_t)(a >= b ? a : b))
PACK(pk_min_i16, int16_t, (uint32_t)(a < b ? a : b))
PACK(pk_max_u16, uint16_t, (uint32_t)(a >= b ? a : b))
PACK(pk_min_u16, uint16_t, (uint32_t)(a < b ? a : b))

/* Defines a packed f32 operation: two rows of results, each with the scalar operation's NaN
 * selection. */
#define PK_F32(op, n, expr) \
    HEAD(op) \
        for (unsigned half = 0; half < 2; half++) { \
            uint32_t nan = 0; \
            EACH_LANE { \
                float a = as_f32(s0[i]), b = as_f32(s1[i]), c = n > 2 ? as_f32(s2[i]) : 0; \
                (void)c; \
                float r = expr; \
                d[i] = f32_bits(r); \
                nan |= r != r ? 1 : 0; \
            } \
            struct lanes y = *x; \
            y.d = d, y.s[0] = s0, y.s[1] = s1, y.s[2] = s2; \
            if (nan) \
                LOCAL(fix_nan32)(&y, n); \
            d += WAVE_LANES, s0 += WAVE_LANES, s1 += WAVE_LANES; \
            s2 = n > 2 ? s2 + WAVE_LANES : s2; \
        } \
    }
PK_F32(pk_fma_f32, 3, fmaf(a, b, c))
PK_F32(pk_mul_f32, 2, a * b)
PK_F32(pk_add_f32, 2, a + b)

/* The low result is a dword of S0, the high result a dword of S1, which op_sel selects. */
HEAD(pk_mov_b32)
    s0 += x->in->op_sel & 1 ? WAVE_LANES : 0;
    s1 += x->in->op_sel & 2 ? WAVE_LANES : 0;
    EACH_LANE {
        uint32_t low = s0[i], high = s1[i];
        d[i] = low;
        d[WAVE_LANES + i] = high;
    }
}

HEAD(mov)
    EACH_LANE d[i] = s0[i];
}

/*
 * Mixed-precision fma. A source whose op_sel_hi is set is an f16, or a bf16 if row->arg says so, in
 * the half that op_sel selects; other sources are f32. neg_hi means abs. A 16-bit result is the
 * result of the f32 fma, rounded again. bf16 keeps denormals.
 */
/* Returns the value of an f16, or with `bf16` of a bf16, as f32 bits. */
static uint32_t widened(uint32_t half, bool bf16)
{
    return bf16 ? half << 16 : f32_bits(f16_to_f32(half));
}

/* Sets row `to` to source k as f32 bits, with its half selected and its modifiers applied. */
static void mix_source(const struct lanes *x, unsigned k, uint32_t *to)
{
    const struct inst *in = x->in;
    const uint32_t *s = x->s[k];
    bool half = in->op_sel_hi >> k & 1;
    unsigned shift = in->op_sel >> k & 1 ? 16 : 0;
    uint32_t keep = in->neg_hi >> k & 1 ? 0x7fffffff : ~0u;
    uint32_t flip = in->neg_lo >> k & 1 ? 0x80000000 : 0;
    const bool bf16 = in->row->arg == T_BF16;
    bool flush32 = !(x->w->mode & 0x10), flush16 = !bf16 && !(x->w->mode & 0x40);
    EACH_LANE {
        uint32_t h = s[i] >> shift & 0xffff;
        h = flush16 && !(h & 0x7c00) ? h & 0x8000 : h;
        uint32_t f = flush32 && !(s[i] & 0x7f800000) ? s[i] & 0x80000000 : s[i];
        uint32_t u = half ? widened(h, bf16) : f;
        to[i] = (u & keep) ^ flip;
    }
}

/* Computes the mixed-precision fma as f32 bits to row d. */
static void mix(struct lanes *x, uint32_t *d)
{
    uint32_t s[3][WAVE_LANES];
    for (unsigned k = 0; k < 3; k++)
        mix_source(x, k, s[k]);
    EACH_LANE d[i] = f32_bits(fmaf(as_f32(s[0][i]), as_f32(s[1][i]), as_f32(s[2][i])));
    struct lanes y = *x;
    y.d = d, y.s[0] = s[0], y.s[1] = s[1], y.s[2] = s[2];
    LOCAL(fix_nan32)(&y, 3);
}

static void k_fma_mix_f32(struct lanes *x)
{
    mix(x, x->d);
    if (!(x->w->mode & 0x20)) /* the row is ROW_NO_FLUSH, since f16 sources have a flush bit of
                                 their own */
        EACH_LANE x->d[i] = x->d[i] & 0x7f800000 ? x->d[i] : x->d[i] & 0x80000000;
}

/* Clamps and flushes the low or `high` half of the result as f16; exec_valu.c cannot, since the row
 * is a merged register. */
static void mix_half(struct lanes *x, bool high)
{
    uint32_t r[WAVE_LANES];
    const uint32_t *old = x->s[3];
    bool clamp = x->in->clamp, zero = x->w->mode & MODE_DX10_CLAMP;
    bool flush = !(x->w->mode & 0x80);
    enum rounding mode = round_f16_mode(x->w);
    mix(x, r);
    fesetround(FE_TONEAREST); /* f32_to_f16() needs it and rounds as MODE says */
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t h = f32_to_f16(as_f32(r[i]), mode);
        bool nan = (h & 0x7fff) > 0x7c00;
        if (clamp && nan)
            h = zero ? 0 : h;
        else if (clamp)
            h = h & 0x8000 ? 0 : h > 0x3c00 ? 0x3c00 : h;
        h = flush && !(h & 0x7c00) ? h & 0x8000 : h;
        x->d[i] = high ? h << 16 | (old[i] & 0xffff) : h | (old[i] & 0xffff0000);
    }
}

/* Clamps the f32 result and rounds it to bf16, in the low or `high` half; the other half keeps its
 * value. */
static void mix_brain(struct lanes *x, bool high)
{
    uint32_t r[WAVE_LANES];
    const uint32_t *old = x->s[3];
    mix(x, r);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        const float a = as_f32(r[i]);
        const float unit = x->in->clamp ? !(a > 0) ? 0 : a > 1 ? 1 : a : a;
        const uint32_t h = f32_to_bf16(unit);
        x->d[i] = high ? h << 16 | (old[i] & 0xffff) : h | (old[i] & 0xffff0000);
    }
}

static void k_fma_mixlo_bf16(struct lanes *x)
{
    mix_brain(x, false);
}

static void k_fma_mixhi_bf16(struct lanes *x)
{
    mix_brain(x, true);
}

static void k_fma_mixlo_f16(struct lanes *x)
{
    mix_half(x, false);
}

static void k_fma_mixhi_f16(struct lanes *x)
{
    mix_half(x, true);
}

/* Dot products: products are exact in f32, and sums round in the manual's order. Float dot products
 * round to nearest and flush denormals in any MODE (CDNA4 ISA, 6.4). */

/* Returns the f16 in bits shift + 15 to shift, with a denormal flushed. */
static inline float half_at(uint32_t u, unsigned shift)
{
    uint32_t h = u >> shift & 0xffff;
    return f16_to_f32(h & 0x7c00 ? h : h & 0x8000);
}

/* Returns f, or a zero of its sign if f is a denormal f32. */
static inline float flushed(float f)
{
    uint32_t u = f32_bits(f);
    return as_f32(u & 0x7f800000 ? u : u & 0x80000000);
}

/* Returns the bf16 in bits shift + 15 to shift, with a denormal flushed. */
static inline float bhalf_at(uint32_t u, unsigned shift)
{
    return flushed(bf16_to_f32(u >> shift & 0xffff));
}

#define DOT(op, flips, expr) \
    HEAD(op) \
        const uint32_t flip = flips; \
        EACH_LANE { \
            uint32_t a = s0[i], b = s1[i], c = s2[i] ^ flip; \
            d[i] = expr; \
        } \
    }
/* NEG negates the f32 of source 2. LLVM sets NEG and NEG_HI for a negated f32, so NEG_HI has no
 * effect. */
#define DOT_F(op, expr) DOT(op, (uint32_t)(x->in->neg_lo & 4) << 29, canonical(expr))

/* Returns the bits of r, with any NaN replaced by the default NaN. */
static inline uint32_t canonical(float r)
{
    return r == r ? f32_bits(r) : DEFAULT_NAN32;
}

DOT_F(dot2_f32_f16, flushed(flushed(as_f32(c)) + half_at(a, 0) * half_at(b, 0)
                            + half_at(a, 16) * half_at(b, 16)))
DOT_F(dot2_f32_bf16, flushed(bhalf_at(a, 0) * bhalf_at(b, 0) + bhalf_at(a, 16) * bhalf_at(b, 16)
                             + flushed(as_f32(c))))
DOT_F(dot2c_f32_bf16, flushed(flushed(as_f32(c)) + bhalf_at(a, 0) * bhalf_at(b, 0)
                              + bhalf_at(a, 16) * bhalf_at(b, 16)))

/* Returns the `width` bits of v from bit `at` on, sign-extended. */
static inline int32_t field_s(uint32_t v, unsigned at, unsigned width)
{
    return (int32_t)(v << (32 - width - at)) >> (32 - width);
}

/* Returns the `width` bits of v from bit `at` on. */
static inline uint32_t field_u(uint32_t v, unsigned at, unsigned width)
{
    return v >> at & ((1u << width) - 1);
}

/* Returns the dot product of signed elements of `width` bits. */
static inline int64_t dot_s(uint32_t a, uint32_t b, unsigned width)
{
    int64_t sum = 0;
    for (unsigned at = 0; at < 32; at += width)
        sum += (int64_t)field_s(a, at, width) * field_s(b, at, width);
    return sum;
}

/* Returns the dot product of unsigned elements of `width` bits. */
static inline uint64_t dot_u(uint32_t a, uint32_t b, unsigned width)
{
    uint64_t sum = 0;
    for (unsigned at = 0; at < 32; at += width)
        sum += (uint64_t)field_u(a, at, width) * field_u(b, at, width);
    return sum;
}

#define DOT_I(op, expr) DOT(op, 0, expr)
DOT_I(dot2_i32_i16, sat_i32(dot_s(a, b, 16) + (int32_t)c, clamp))
DOT_I(dot2_u32_u16, sat_u32(dot_u(a, b, 16) + c, clamp))
DOT_I(dot4_i32_i8, sat_i32(dot_s(a, b, 8) + (int32_t)c, clamp))
DOT_I(dot4_u32_u8, sat_u32(dot_u(a, b, 8) + c, clamp))
DOT_I(dot8_i32_i4, sat_i32(dot_s(a, b, 4) + (int32_t)c, clamp))
DOT_I(dot8_u32_u4, sat_u32(dot_u(a, b, 4) + c, clamp))

#define ROW(op, fn, fl, gfx, t, ...) \
    {.name = "v_" #op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##fn, .dst = t, \
     .src = {__VA_ARGS__}, .flags = ROW_VALU | (fl), .targets = gfx},
#define PK2(op) ROW(op, op, ROW_INT_CLAMP, 0, T_PKB16, T_PKB16, T_PKB16)
#define PK3(op) ROW(op, op, ROW_INT_CLAMP, 0, T_PKB16, T_PKB16, T_PKB16, T_PKB16)
#define ACC ROW_DST_IS_SRC
#define MIX (ROW_OP_SEL | ROW_NO_FLUSH | ROW_ROUNDS)
#define MIX_HALF (MIX | ROW_INT_CLAMP | ACC)
#define MIXED(op, fn, fl, gfx, half, t, ...) \
    {.name = "v_" #op, .exec = LOCAL(exec_lanes), .kernel = (void (*)(void))k_##fn, .arg = half, \
     .dst = t, .src = {__VA_ARGS__}, .flags = ROW_VALU | (fl), .targets = gfx},
const struct op_row LOCAL(vop_packed_rows)[] = {
    PK3(pk_mad_i16)
    PK3(pk_mad_u16)
    PK2(pk_mul_lo_u16)
    PK2(pk_add_i16)
    PK2(pk_sub_i16)
    PK2(pk_add_u16)
    PK2(pk_sub_u16)
    PK2(pk_lshlrev_b16)
    PK2(pk_lshrrev_b16)
    PK2(pk_ashrrev_i16)
    PK2(pk_max_i16)
    PK2(pk_min_i16)
    PK2(pk_max_u16)
    PK2(pk_min_u16)
    ROW(pk_fma_f32, pk_fma_f32, ROW_ROUNDS, 0, T_PKF32, T_PKF32, T_PKF32, T_PKF32)
    ROW(pk_mul_f32, pk_mul_f32, ROW_ROUNDS, 0, T_PKF32, T_PKF32, T_PKF32)
    ROW(pk_add_f32, pk_add_f32, ROW_ROUNDS, 0, T_PKF32, T_PKF32, T_PKF32)
    ROW(pk_mov_b32, pk_mov_b32, ROW_OP_SEL | ROW_NO_FLUSH, 0, T_B64, T_PKF32, T_PKF32)
    MIXED(fma_mix_f32, fma_mix_f32, MIX, 0, T_F16, T_F32, T_B32, T_B32, T_B32)
    MIXED(fma_mix_f32_bf16, fma_mix_f32, MIX, GFX1250, T_BF16, T_F32, T_B32, T_B32, T_B32)
    MIXED(fma_mixlo_f16, fma_mixlo_f16, MIX_HALF, 0, T_F16, T_B32, T_B32, T_B32, T_B32, T_B32)
    MIXED(fma_mixhi_f16, fma_mixhi_f16, MIX_HALF, 0, T_F16, T_B32, T_B32, T_B32, T_B32, T_B32)
    MIXED(fma_mixlo_bf16, fma_mixlo_bf16, MIX_HALF, GFX1250, T_BF16, T_B32, T_B32, T_B32, T_B32,
        T_B32)
    MIXED(fma_mixhi_bf16, fma_mixhi_bf16, MIX_HALF, GFX1250, T_BF16, T_B32, T_B32, T_B32, T_B32,
        T_B32)
    ROW(dot2_f32_f16, dot2_f32_f16, 0, 0, T_F32, T_PKF16, T_PKF16, T_F32)
    ROW(dot2_f32_bf16, dot2_f32_bf16, 0, GFX950, T_F32, T_PKBF16, T_PKBF16, T_F32)
    ROW(dot2_i32_i16, dot2_i32_i16, ROW_INT_CLAMP, 0, T_I32, T_PKB16, T_PKB16, T_I32)
    ROW(dot2_u32_u16, dot2_u32_u16, ROW_INT_CLAMP, 0, T_U32, T_PKB16, T_PKB16, T_U32)
    ROW(dot4_i32_i8, dot4_i32_i8, ROW_INT_CLAMP, 0, T_I32, T_B32, T_B32, T_I32)
    ROW(dot4_u32_u8, dot4_u32_u8, ROW_INT_CLAMP, 0, T_U32, T_B32, T_B32, T_U32)
    ROW(dot8_i32_i4, dot8_i32_i4, ROW_INT_CLAMP, 0, T_I32, T_B32, T_B32, T_I32)
    ROW(dot8_u32_u4, dot8_u32_u4, ROW_INT_CLAMP, 0, T_U32, T_B32, T_B32, T_U32)
    ROW(dot2c_f32_f16, dot2_f32_f16, ACC, 0, T_F32, T_PKF16, T_PKF16, T_F32)
    ROW(dot2c_f32_bf16, dot2c_f32_bf16, ACC, GFX950, T_F32, T_PKBF16, T_PKBF16, T_F32)
    ROW(dot2c_i32_i16, dot2_i32_i16, ROW_INT_CLAMP | ACC, 0, T_I32, T_PKB16, T_PKB16, T_I32)
    ROW(dot4c_i32_i8, dot4_i32_i8, ROW_INT_CLAMP | ACC, 0, T_I32, T_B32, T_B32, T_I32)
    ROW(dot8c_i32_i4, dot8_i32_i4, ROW_INT_CLAMP | ACC, 0, T_I32, T_B32, T_B32, T_I32)
    ROW(accvgpr_read_b32, mov, 0, 0, T_B32, T_B32)
    ROW(accvgpr_write_b32, mov, 0, 0, T_B32, T_B32)
    {.name = NULL},
};
