/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V_CVT_SCALEF32_*: conversions between f32, f16 or bf16 and the narrow formats with a block scale
 * (CDNA4 ISA, VOP3 section). The scale is the exponent field of an f32 operand, an E8M0 number.
 * Narrowing divides by it, widening multiplies. A scale of 255 is NaN.
 *
 * op_row.lanes is a struct scale_op; there is one kernel per shape of operands.
 */
#include <float.h>

#include "lanes.h"
#include "narrow.h"

/* Types of the wide elements of a conversion. */
enum wide_type { WIDE_F32, WIDE_F16, WIDE_BF16 };

/* The two types of a conversion. `stochastic`: narrowing rounds stochastically. */
struct scale_op {
    const struct narrow *format;
    enum wide_type wide;
    bool stochastic;
};

/* Returns the exact value of element `e` of lane `i` in an operand of packed elements of type t. */
static inline float wide_get(const uint32_t *rows, unsigned i, unsigned e, enum wide_type t)
{
    if (t == WIDE_F32)
        return as_f32(rows[e * WAVE_LANES + i]);
    uint32_t h = rows[e / 2 * WAVE_LANES + i] >> (e & 1 ? 16 : 0) & 0xffff;
    return t == WIDE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* Stores v as element `e` of lane `i` in an operand of packed elements of type t. */
static inline void wide_put(uint32_t *rows, unsigned i, unsigned e, enum wide_type t, float v)
{
    if (t == WIDE_F32) {
        rows[e * WAVE_LANES + i] = f32_bits(v);
        return;
    }
    uint32_t h = t == WIDE_F16 ? f32_to_f16(v, ROUND_NEAREST) : f32_to_bf16(v);
    uint32_t *row = &rows[e / 2 * WAVE_LANES + i];
    *row = e & 1 ? (*row & 0xffff) | h << 16 : (*row & 0xffff0000) | h;
}

/*
 * Returns v * 2^(scale - 127) or, with `divide`, v / 2^(scale - 127), in f32. Rounds only if the
 * result exceeds f32's range. A quotient that exceeds it stays finite and overflows in the narrow
 * format.
 */
static inline float scaled(float v, uint32_t scale, bool divide)
{
    int e = (int)(scale >> 23 & 0xff);
    if (e == 255)
        return as_f32(QUIET_NAN32 | (f32_bits(v) & 0x80000000));
    double factor = as_f64((uint64_t)(1023 + (divide ? 127 - e : e - 127)) << 52);
    float r = (float)((double)v * factor);
    return divide && isinf(r) && !isinf(v) ? copysignf(FLT_MAX, v) : r;
}

/* Returns the code of v / 2^(scale - 127) in the narrow format. `saturate`: an overflow gives the
 * largest number. */
static inline uint32_t to_narrow(const struct scale_op *op, float v, uint32_t scale,
                                 uint32_t random, bool saturate)
{
    float s = scaled(v, scale, true);
    static const unsigned mantissa[] = {[WIDE_F32] = 23, [WIDE_F16] = 10, [WIDE_BF16] = 7};
    if (op->stochastic)
        return narrow_stochastic(op->format, s, mantissa[op->wide], random, saturate);
    return narrow_encode(op->format, s, saturate);
}

/* Returns the value of a narrow code, multiplied by 2^(scale - 127). */
static inline float to_wide(const struct scale_op *op, uint32_t code, uint32_t scale)
{
    return scaled(narrow_decode(op->format, code), scale, false);
}

/* Replaces `width` bits of *d from bit `at` on by `value`. */
static void put_bits(uint32_t *d, unsigned at, unsigned width, uint32_t value)
{
    uint32_t mask = ((1u << width) - 1) << at;
    *d = (*d & ~mask) | (value << at & mask);
}

/*
 * Converts two elements to the word (fp8) or byte (fp4) that op_sel selects. Sources of f32 are S0
 * and S1, or in the stochastic form the register pair S0. Sources of 16 bits are the halves of S0.
 * x->s[3] is the old destination.
 */
static void k_narrow_pair(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    bool saturate = x->w->mode & MODE_FP16_OVFL;
    bool two = op->wide == WIDE_F32 && !op->stochastic;
    const uint32_t *scales = x->s[two || op->stochastic ? 2 : 1];
    unsigned width = op->format->bits;
    unsigned at = width == 8 ? 16u * (x->in->op_sel >> 3 & 1) : 8u * (x->in->op_sel >> 2 & 3);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        float a = wide_get(x->s[0], i, 0, op->wide);
        float b = two ? as_f32(x->s[1][i]) : wide_get(x->s[0], i, 1, op->wide);
        uint32_t random = op->stochastic ? x->s[1][i] : 0;
        uint32_t r = x->s[3][i], scale = scales[i];
        put_bits(&r, at, width, to_narrow(op, a, scale, random, saturate));
        put_bits(&r, at + width, width, to_narrow(op, b, scale, next_prng(random), saturate));
        x->d[i] = r;
    }
}

/* Converts one element to the byte that op_sel[3:2] selects. S1 has the random bits, S2 the
 * scale. */
static void k_narrow_one(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    bool saturate = x->w->mode & MODE_FP16_OVFL;
    unsigned at = 8u * (x->in->op_sel >> 2 & 3);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t r = x->s[3][i];
        float v = wide_get(x->s[0], i, 0, op->wide);
        put_bits(&r, at, 8, to_narrow(op, v, x->s[2][i], x->s[1][i], saturate));
        x->d[i] = r;
    }
}

/* Converts two elements from the word (fp8, op_sel[0]) or byte (fp4, op_sel[1:0]) of S0. */
static void k_widen_pair(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    unsigned width = op->format->bits;
    unsigned at = width == 8 ? 16u * (x->in->op_sel & 1) : 8u * (x->in->op_sel & 3);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t u = x->s[0][i] >> at, scale = x->s[1][i], mask = (1u << width) - 1;
        wide_put(x->d, i, 0, op->wide, to_wide(op, u & mask, scale));
        wide_put(x->d, i, 1, op->wide, to_wide(op, u >> width & mask, scale));
    }
}

/* Converts one element from the byte that op_sel[1:0] selects; a result of 16 bits is in half
 * op_sel[3]. */
static void k_widen_one(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    unsigned at = 8u * (x->in->op_sel & 3);
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        float v = to_wide(op, x->s[0][i] >> at & 0xff, x->s[1][i]);
        if (op->wide == WIDE_F32) {
            x->d[i] = f32_bits(v);
            continue;
        }
        uint32_t r = x->s[3][i];
        put_bits(&r, x->in->op_sel & 8 ? 16 : 0, 16, f32_to_f16(v, ROUND_NEAREST));
        x->d[i] = r;
    }
}

/* Returns 6-bit element `e` of six dwords. */
static uint32_t six_get(const uint32_t *words, unsigned e)
{
    unsigned bit = 6 * e, word = bit / 32, at = bit % 32;
    uint64_t v = words[word];
    if (at > 26)
        v |= (uint64_t)words[word + 1] << 32;
    return (uint32_t)(v >> at) & 63;
}

/* Sets 6-bit element `e` of six dwords that are zero there. */
static void six_put(uint32_t *words, unsigned e, uint32_t code)
{
    unsigned bit = 6 * e, word = bit / 32, at = bit % 32;
    words[word] |= code << at;
    if (at > 26)
        words[word + 1] |= code >> (32 - at);
}

/* Converts 32 elements to 6 bits each. The 2xpk16 forms take elements from S0 and S1
 * alternately. */
static void k_narrow_32(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    bool interleave = op->wide == WIDE_F32 && !op->stochastic;
    const uint32_t *scales = x->s[interleave || op->stochastic ? 2 : 1];
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t words[6] = {0}, random = op->stochastic ? x->s[1][i] : 0;
        for (unsigned e = 0; e < 32; e++) {
            float v = interleave ? wide_get(x->s[e & 1], i, e / 2, WIDE_F32)
                : wide_get(x->s[0], i, e, op->wide);
            six_put(words, e, to_narrow(op, v, scales[i], random, true));
            random = next_prng(random);
        }
        for (unsigned r = 0; r < 6; r++)
            x->d[r * WAVE_LANES + i] = words[r];
    }
}

/* Converts 32 elements of 6 bits. Reads the whole source before it writes a result, since they may
 * overlap. */
static void k_widen_32(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        uint32_t words[6], scale = x->s[1][i];
        for (unsigned r = 0; r < 6; r++)
            words[r] = x->s[0][r * WAVE_LANES + i];
        for (unsigned e = 0; e < 32; e++)
            wide_put(x->d, i, e, op->wide, to_wide(op, six_get(words, e), scale));
    }
}

/*
 * gfx1250's V_CVT_SCALE_PK* convert 8 elements in each lane, or 16 of 6 bits (CDNA5 ISA, 7.6.3).
 * Lanes n and n + 16 have elements of one row of a matrix. Each lane of the scale's register has
 * four E8M0 numbers for one row. op_sel selects the lane, n or n + 16, and the number (tables 36
 * and 37).
 */

/* Returns the number of elements that a lane converts. */
static unsigned elements(const struct scale_op *op) { return op->format->bits == 6 ? 16 : 8; }

/* Sets *from to the lane of the scale's register that has the scale of `lane`, and *at to the
 * scale's first bit. With elements of 4 and 6 bits, lanes 16 to 31 have the next block of 32
 * elements, with its own scale. */
static void find_scale(unsigned op_sel, unsigned bits, unsigned lane, unsigned *from, unsigned *at)
{
    *from = lane % 16 + 16 * (op_sel & 1);
    *at = bits == 8 ? 8 * ((op_sel >> 2 & 1) + 2 * (op_sel >> 1 & 1))
                    : 8 * (lane / 16 % 2 + 2 * (op_sel >> 1 & 1));
}

/* Converts a lane's narrow elements to f32, f16 or bf16 and multiplies them by the scale. */
static void k_widen_many(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    const unsigned bits = op->format->bits, n = elements(op);
    for (unsigned i = 0; i < 32; i++) {
        uint32_t words[4] = {0};
        unsigned from, at;
        for (unsigned r = 0; r < (n * bits + 31) / 32; r++)
            words[r] = x->s[0][r * WAVE_LANES + i];
        find_scale(x->in->op_sel, bits, i, &from, &at);
        const uint32_t scale = (x->s[1][from] >> at & 0xff) << 23;
        for (unsigned e = 0; e < n; e++) {
            const uint32_t code = bits == 6 ? six_get(words, e)
                                : words[bits * e / 32] >> bits * e % 32 & ((1u << bits) - 1);
            wide_put(x->d, i, e, op->wide, to_wide(op, code, scale));
        }
    }
}

/* Converts a lane's wide elements to narrow ones; the scale is an f32. Where overflow saturates, an
 * infinity becomes NaN (CDNA5 ISA, 7.6.2). The stochastic forms use 16 random bits per element: the
 * halves of S1, and then of the numbers that follow it in V_PRNG_B32's sequence. */
static void k_narrow_many(struct lanes *x)
{
    const struct scale_op *op = x->in->row->lanes;
    const unsigned bits = op->format->bits, n = elements(op);
    const bool saturate = bits < 8 || x->w->mode & MODE_FP16_OVFL;
    const uint32_t *scales = x->s[op->stochastic ? 2 : 1];
    for (unsigned i = 0; i < 32; i++) {
        uint32_t words[4] = {0}, random = op->stochastic ? x->s[1][i] : 0;
        for (unsigned e = 0; e < n; e++) {
            float v = wide_get(x->s[0], i, e, op->wide);
            if (isinf(v) && bits == 8 && saturate)
                v = as_f32(QUIET_NAN32);
            const uint32_t half = e % 2 ? random & 0xffff0000 : random << 16;
            const uint32_t code = to_narrow(op, v, scales[i], half, saturate);
            random = e % 2 ? next_prng(random) : random;
            if (bits == 6)
                six_put(words, e, code);
            else
                words[bits * e / 32] |= code << bits * e % 32;
        }
        for (unsigned r = 0; r < (n * bits + 31) / 32; r++)
            x->d[r * WAVE_LANES + i] = words[r];
    }
}

#define OP(name, f, t, sr) static const struct scale_op op_##name = {f, t, sr};
#define FORMAT_OPS(n, f) \
    OP(n##_f32, f, WIDE_F32, false) OP(n##_f16, f, WIDE_F16, false) \
    OP(n##_bf16, f, WIDE_BF16, false) OP(sr_##n##_f32, f, WIDE_F32, true) \
    OP(sr_##n##_f16, f, WIDE_F16, true) OP(sr_##n##_bf16, f, WIDE_BF16, true)
FORMAT_OPS(fp8, &fp8_ocp)
FORMAT_OPS(bf8, &bf8_ocp)
FORMAT_OPS(fp4, &fp4_mx)
FORMAT_OPS(fp6, &fp6_mx)
FORMAT_OPS(bf6, &bf6_mx)

#define ROW(op, fn, rec, fl, t, ...) \
    {.name = "v_cvt_scalef32_" #op, .exec = LOCAL(exec_lanes), .dst = t, .src = {__VA_ARGS__}, \
     .kernel = (void (*)(void))k_##fn, .lanes = &op_##rec, .targets = GFX950, \
     .flags = ROW_VALU | ROW_NO_FLUSH | ROW_OP_SEL | (fl)},
#define KEEP ROW_DST_IS_SRC
/* Rows with the types of their operands: sources before the scale, the scale, the old
 * destination. */
#define PAIR_ROWS(n) \
    ROW(pk_##n##_f32, narrow_pair, n##_f32, KEEP, T_B32, T_F32, T_F32, T_F32, T_B32) \
    ROW(pk_##n##_f16, narrow_pair, n##_f16, KEEP, T_B32, T_PKF16, T_F32, 0, T_B32) \
    ROW(pk_##n##_bf16, narrow_pair, n##_bf16, KEEP, T_B32, T_PKBF16, T_F32, 0, T_B32) \
    ROW(pk_f32_##n, widen_pair, n##_f32, 0, T_PKF32, T_B32, T_F32) \
    ROW(pk_f16_##n, widen_pair, n##_f16, 0, T_PKF16, T_B32, T_F32) \
    ROW(pk_bf16_##n, widen_pair, n##_bf16, 0, T_PKBF16, T_B32, T_F32)
#define FP8_ROWS(n) \
    PAIR_ROWS(n) \
    ROW(f32_##n, widen_one, n##_f32, 0, T_F32, T_B32, T_F32) \
    ROW(f16_##n, widen_one, n##_f16, KEEP, T_B32, T_B32, T_F32, 0, T_B32) \
    ROW(sr_##n##_f32, narrow_one, sr_##n##_f32, KEEP, T_B32, T_F32, T_B32, T_F32, T_B32) \
    ROW(sr_##n##_f16, narrow_one, sr_##n##_f16, KEEP, T_B32, T_F16, T_B32, T_F32, T_B32) \
    ROW(sr_##n##_bf16, narrow_one, sr_##n##_bf16, KEEP, T_B32, T_BF16, T_B32, T_F32, T_B32)
#define SIX_ROWS(n) \
    ROW(2xpk16_##n##_f32, narrow_32, n##_f32, 0, T_B192, T_B512, T_B512, T_F32) \
    ROW(pk32_##n##_f16, narrow_32, n##_f16, 0, T_B192, T_B512, T_F32) \
    ROW(pk32_##n##_bf16, narrow_32, n##_bf16, 0, T_B192, T_B512, T_F32) \
    ROW(sr_pk32_##n##_f32, narrow_32, sr_##n##_f32, 0, T_B192, T_B1024, T_B32, T_F32) \
    ROW(sr_pk32_##n##_f16, narrow_32, sr_##n##_f16, 0, T_B192, T_B512, T_B32, T_F32) \
    ROW(sr_pk32_##n##_bf16, narrow_32, sr_##n##_bf16, 0, T_B192, T_B512, T_B32, T_F32) \
    ROW(pk32_f32_##n, widen_32, n##_f32, 0, T_B1024, T_B192, T_F32) \
    ROW(pk32_f16_##n, widen_32, n##_f16, 0, T_B512, T_B192, T_F32) \
    ROW(pk32_bf16_##n, widen_32, n##_bf16, 0, T_B512, T_B192, T_F32)
/* Rows of gfx1250. Suffix b is the narrow elements' type, f is f32, h is 16-bit elements. */
#define MANY(op, fn, rec, t, ...) \
    {.name = "v_cvt_scale" op, .exec = LOCAL(exec_lanes), .dst = t, .src = {__VA_ARGS__, T_B32}, \
     .kernel = (void (*)(void))k_##fn, .lanes = &op_##rec, .targets = GFX1250, \
     .flags = ROW_VALU | ROW_NO_FLUSH | ROW_OP_SEL | ROW_PACKS},
#define MANY_ROWS(n, pk, b, f, h) \
    MANY("_" pk "_f32_" #n, widen_many, n##_f32, f, b) \
    MANY("_" pk "_f16_" #n, widen_many, n##_f16, h, b) \
    MANY("_" pk "_bf16_" #n, widen_many, n##_bf16, h, b) \
    MANY("f32_" pk "_" #n "_f32", narrow_many, n##_f32, b, f) \
    MANY("f32_" pk "_" #n "_f16", narrow_many, n##_f16, b, h) \
    MANY("f32_" pk "_" #n "_bf16", narrow_many, n##_bf16, b, h) \
    MANY("f32_sr_" pk "_" #n "_f32", narrow_many, sr_##n##_f32, b, f, T_B32) \
    MANY("f32_sr_" pk "_" #n "_f16", narrow_many, sr_##n##_f16, b, h, T_B32) \
    MANY("f32_sr_" pk "_" #n "_bf16", narrow_many, sr_##n##_bf16, b, h, T_B32)
const struct op_row LOCAL(vop_scale_rows)[] = {
    MANY_ROWS(fp8, "pk8", T_B64, T_B256, T_B128)
    MANY_ROWS(bf8, "pk8", T_B64, T_B256, T_B128)
    MANY_ROWS(fp4, "pk8", T_B32, T_B256, T_B128)
    MANY_ROWS(fp6, "pk16", T_B96, T_B512, T_B256)
    MANY_ROWS(bf6, "pk16", T_B96, T_B512, T_B256)
    FP8_ROWS(fp8)
    FP8_ROWS(bf8)
    PAIR_ROWS(fp4)
    ROW(sr_pk_fp4_f32, narrow_pair, sr_fp4_f32, KEEP, T_B32, T_PKF32, T_B32, T_F32, T_B32)
    ROW(sr_pk_fp4_f16, narrow_pair, sr_fp4_f16, KEEP, T_B32, T_PKF16, T_B32, T_F32, T_B32)
    ROW(sr_pk_fp4_bf16, narrow_pair, sr_fp4_bf16, KEEP, T_B32, T_PKBF16, T_B32, T_F32, T_B32)
    SIX_ROWS(fp6)
    SIX_ROWS(bf6)
    {.name = NULL},
};
