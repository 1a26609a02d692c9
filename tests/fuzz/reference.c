/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum encoding { SOP1, SOP2, SOPC, VOP1, VOP2, VOPC, VOP3 };

enum flags {
    NONZERO = 1 << 0, /* SCC is 1 if the result is not 0 */
    TO_SCC = 1 << 1,  /* SCC becomes the operation's flag */
    REAL = 1 << 2,    /* operands are f32: |x|, -x and the mode of denormals apply */
    CARRIES = 1 << 3, /* each lane's flag is written to VCC, or to the SGPRs that VOP3 names */
    MASKED = 1 << 4,  /* each lane's flag is read from VCC, or from source 2 */
    ADDS = 1 << 5,    /* the old value of the destination is an operand */
};

/* The operands of one lane, or of a scalar instruction. `old` is the destination before. `flag` is
 * SCC, a carry or a lane's bit of a mask, before and after the operation. */
struct lane {
    uint64_t a, b, c, old;
    bool flag;
};

#define VCC 106
#define EXEC 126

static float real(uint64_t u)
{
    float f;
    const uint32_t bits = (uint32_t)u;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static bool is_nan(uint32_t u) { return (u & 0x7fffffff) > 0x7f800000; }
static bool is_signalling(uint32_t u) { return is_nan(u) && !(u & 0x400000); }

/* Returns the result r of an operation in "IEEE mode". If r is a NaN, the result is the first NaN
 * operand, made quiet, else the default NaN. */
static uint32_t chosen(float r, uint32_t a, uint32_t b, uint32_t c)
{
    if (r == r)
        return bits_of(r);
    if (is_nan(a))
        return a | 0x400000;
    return is_nan(b) ? b | 0x400000 : is_nan(c) ? c | 0x400000 : 0xffc00000;
}

static uint32_t fused(uint32_t a, uint32_t b, uint32_t c)
{
    const bool invalid = real(a) * real(b) != real(a) * real(b) && !is_nan(a) && !is_nan(b);
    return invalid ? 0xffc00000 : chosen(fmaf(real(a), real(b), real(c)), a, b, c);
}

static uint32_t extreme(uint32_t a, uint32_t b, bool least)
{
    if (is_signalling(a) || is_signalling(b))
        return (is_signalling(a) ? a : b) | 0x400000;
    if (is_nan(a) || is_nan(b))
        return is_nan(a) ? b : a;
    const bool below = real(a) < real(b) || (real(a) == real(b) && a >> 31 && !(b >> 31));
    return below == least ? a : b;
}

static uint32_t reversed(uint32_t u)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (u >> i & 1) << (31 - i);
    return r;
}

static uint32_t count(uint32_t u)
{
    uint32_t n = 0;
    for (; u; u >>= 1)
        n += u & 1;
    return n;
}

static uint32_t first_one(uint32_t u)
{
    for (uint32_t i = 0; i < 32; i++)
        if (u >> i & 1)
            return i;
    return UINT32_MAX;
}

static uint32_t extract(uint32_t u, uint32_t at, uint32_t width, bool is_signed)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < width; i++)
        r |= (at + i < 32 ? u >> (at + i) & 1 : is_signed ? u >> 31 : 0) << i;
    for (uint32_t i = width; is_signed && width && i < 32; i++)
        r |= (r >> (width - 1) & 1) << i;
    return r;
}

/* Computes V_PERM_B32: each byte is a byte of {S0, S1}, the sign of a half of them, 0 or 255. */
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t select)
{
    const uint64_t both = (uint64_t)a << 32 | b;
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t s = select >> 8 * i & 255;
        uint32_t byte = s < 8 ? (uint32_t)(both >> 8 * s & 255) : s == 12 ? 0 : 255;
        if (s >= 8 && s < 12)
            byte = both >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

#define A32 ((uint32_t)x->a)
#define B32 ((uint32_t)x->b)
#define C32 ((uint32_t)x->c)
#define S(u) ((int64_t)(int32_t)(u))

/* Columns: encoding, opcode, mnemonic, dwords of D, S0, S1, S2, flags, result; x->flag is SCC, a
 * carry or a mask's lane. */
#define OPERATIONS(OP)                                                                             \
    OP(SOP2, 0, s_add_u32, 1, 1, 1, 0, TO_SCC, x->flag = (x->a + x->b) >> 32; r = x->a + x->b)     \
    OP(SOP2, 1, s_sub_u32, 1, 1, 1, 0, TO_SCC, x->flag = A32 < B32; r = x->a - x->b)               \
    OP(SOP2, 2, s_add_i32, 1, 1, 1, 0, TO_SCC, r = (uint32_t)(A32 + B32);                          \
       x->flag = S(A32) + S(B32) != S(r))                                                          \
    OP(SOP2, 3, s_sub_i32, 1, 1, 1, 0, TO_SCC, r = (uint32_t)(A32 - B32);                          \
       x->flag = S(A32) - S(B32) != S(r))                                                          \
    OP(SOP2, 4, s_addc_u32, 1, 1, 1, 0, TO_SCC, r = x->a + x->b + x->flag; x->flag = r >> 32)      \
    OP(SOP2, 5, s_subb_u32, 1, 1, 1, 0, TO_SCC, r = x->a - x->b - x->flag;                         \
       x->flag = x->a < x->b + x->flag)                                                            \
    OP(SOP2, 6, s_min_i32, 1, 1, 1, 0, TO_SCC, x->flag = S(A32) < S(B32); r = x->flag ? A32 : B32) \
    OP(SOP2, 7, s_min_u32, 1, 1, 1, 0, TO_SCC, x->flag = A32 < B32; r = x->flag ? A32 : B32)       \
    OP(SOP2, 10, s_cselect_b32, 1, 1, 1, 0, 0, r = x->flag ? A32 : B32)                            \
    OP(SOP2, 11, s_cselect_b64, 2, 2, 2, 0, 0, r = x->flag ? x->a : x->b)                          \
    OP(SOP2, 12, s_and_b32, 1, 1, 1, 0, NONZERO, r = x->a & x->b)                                  \
    OP(SOP2, 13, s_and_b64, 2, 2, 2, 0, NONZERO, r = x->a & x->b)                                  \
    OP(SOP2, 14, s_or_b32, 1, 1, 1, 0, NONZERO, r = x->a | x->b)                                   \
    OP(SOP2, 15, s_or_b64, 2, 2, 2, 0, NONZERO, r = x->a | x->b)                                   \
    OP(SOP2, 16, s_xor_b32, 1, 1, 1, 0, NONZERO, r = x->a ^ x->b)                                  \
    OP(SOP2, 17, s_xor_b64, 2, 2, 2, 0, NONZERO, r = x->a ^ x->b)                                  \
    OP(SOP2, 19, s_andn2_b64, 2, 2, 2, 0, NONZERO, r = x->a & ~x->b)                               \
    OP(SOP2, 28, s_lshl_b32, 1, 1, 1, 0, NONZERO, r = A32 << (B32 & 31))                           \
    OP(SOP2, 29, s_lshl_b64, 2, 2, 1, 0, NONZERO, r = x->a << (B32 & 63))                          \
    OP(SOP2, 30, s_lshr_b32, 1, 1, 1, 0, NONZERO, r = A32 >> (B32 & 31))                           \
    OP(SOP2, 31, s_lshr_b64, 2, 2, 1, 0, NONZERO, r = x->a >> (B32 & 63))                          \
    OP(SOP2, 32, s_ashr_i32, 1, 1, 1, 0, NONZERO, r = (uint64_t)(S(A32) >> (B32 & 31)))            \
    OP(SOP2, 36, s_mul_i32, 1, 1, 1, 0, 0, r = A32 * B32)                                          \
    OP(SOP2, 37, s_bfe_u32, 1, 1, 1, 0, NONZERO, const uint32_t w = B32 >> 16 & 127;               \
       r = extract(A32, B32 & 31, w > 32 ? 32 : w, false))                                         \
    OP(SOP2, 44, s_mul_hi_u32, 1, 1, 1, 0, 0, r = x->a * x->b >> 32)                               \
    OP(SOP1, 0, s_mov_b32, 1, 1, 0, 0, 0, r = x->a)                                                \
    OP(SOP1, 1, s_mov_b64, 2, 2, 0, 0, 0, r = x->a)                                                \
    OP(SOP1, 4, s_not_b32, 1, 1, 0, 0, NONZERO, r = ~x->a)                                         \
    OP(SOP1, 5, s_not_b64, 2, 2, 0, 0, NONZERO, r = ~x->a)                                         \
    OP(SOP1, 8, s_brev_b32, 1, 1, 0, 0, 0, r = reversed(A32))                                      \
    OP(SOP1, 16, s_ff1_i32_b32, 1, 1, 0, 0, 0, r = first_one(A32))                                 \
    OP(SOPC, 0, s_cmp_eq_i32, 0, 1, 1, 0, TO_SCC, x->flag = A32 == B32)                            \
    OP(SOPC, 1, s_cmp_lg_i32, 0, 1, 1, 0, TO_SCC, x->flag = A32 != B32)                            \
    OP(SOPC, 2, s_cmp_gt_i32, 0, 1, 1, 0, TO_SCC, x->flag = S(A32) > S(B32))                       \
    OP(SOPC, 4, s_cmp_lt_i32, 0, 1, 1, 0, TO_SCC, x->flag = S(A32) < S(B32))                       \
    OP(SOPC, 6, s_cmp_eq_u32, 0, 1, 1, 0, TO_SCC, x->flag = A32 == B32)                            \
    OP(SOPC, 8, s_cmp_gt_u32, 0, 1, 1, 0, TO_SCC, x->flag = A32 > B32)                             \
    OP(SOPC, 10, s_cmp_lt_u32, 0, 1, 1, 0, TO_SCC, x->flag = A32 < B32)                            \
    OP(VOP1, 1, v_mov_b32, 1, 1, 0, 0, 0, r = x->a)                                                \
    OP(VOP1, 5, v_cvt_f32_i32, 1, 1, 0, 0, 0, r = bits_of((float)(int32_t)A32))                    \
    OP(VOP1, 6, v_cvt_f32_u32, 1, 1, 0, 0, 0, r = bits_of((float)A32))                             \
    OP(VOP1, 17, v_cvt_f32_ubyte0, 1, 1, 0, 0, 0, r = bits_of((float)(A32 & 255)))                 \
    OP(VOP1, 20, v_cvt_f32_ubyte3, 1, 1, 0, 0, 0, r = bits_of((float)(A32 >> 24)))                 \
    OP(VOP1, 43, v_not_b32, 1, 1, 0, 0, 0, r = ~x->a)                                              \
    OP(VOP1, 44, v_bfrev_b32, 1, 1, 0, 0, 0, r = reversed(A32))                                    \
    OP(VOP1, 45, v_ffbh_u32, 1, 1, 0, 0, 0, r = first_one(reversed(A32)))                          \
    OP(VOP1, 46, v_ffbl_b32, 1, 1, 0, 0, 0, r = first_one(A32))                                    \
    OP(VOP2, 0, v_cndmask_b32, 1, 1, 1, 0, MASKED, r = x->flag ? x->b : x->a)                      \
    OP(VOP2, 1, v_add_f32, 1, 1, 1, 0, REAL, r = chosen(real(A32) + real(B32), A32, B32, 0))       \
    OP(VOP2, 2, v_sub_f32, 1, 1, 1, 0, REAL, r = chosen(real(A32) - real(B32), A32, B32, 0))       \
    OP(VOP2, 3, v_subrev_f32, 1, 1, 1, 0, REAL, r = chosen(real(B32) - real(A32), A32, B32, 0))    \
    OP(VOP2, 5, v_mul_f32, 1, 1, 1, 0, REAL, r = chosen(real(A32) * real(B32), A32, B32, 0))       \
    OP(VOP2, 6, v_mul_i32_i24, 1, 1, 1, 0, 0,                                                      \
       r = (uint64_t)(S(A32 << 8) / 256 * (S(B32 << 8) / 256)))                                    \
    OP(VOP2, 8, v_mul_u32_u24, 1, 1, 1, 0, 0, r = (x->a & 0xffffff) * (x->b & 0xffffff))           \
    OP(VOP2, 10, v_min_f32, 1, 1, 1, 0, REAL, r = extreme(A32, B32, true))                         \
    OP(VOP2, 11, v_max_f32, 1, 1, 1, 0, REAL, r = extreme(A32, B32, false))                        \
    OP(VOP2, 12, v_min_i32, 1, 1, 1, 0, 0, r = S(A32) < S(B32) ? A32 : B32)                        \
    OP(VOP2, 13, v_max_i32, 1, 1, 1, 0, 0, r = S(A32) > S(B32) ? A32 : B32)                        \
    OP(VOP2, 14, v_min_u32, 1, 1, 1, 0, 0, r = A32 < B32 ? A32 : B32)                              \
    OP(VOP2, 15, v_max_u32, 1, 1, 1, 0, 0, r = A32 > B32 ? A32 : B32)                              \
    OP(VOP2, 16, v_lshrrev_b32, 1, 1, 1, 0, 0, r = B32 >> (A32 & 31))                              \
    OP(VOP2, 17, v_ashrrev_i32, 1, 1, 1, 0, 0, r = (uint64_t)(S(B32) >> (A32 & 31)))               \
    OP(VOP2, 18, v_lshlrev_b32, 1, 1, 1, 0, 0, r = B32 << (A32 & 31))                              \
    OP(VOP2, 19, v_and_b32, 1, 1, 1, 0, 0, r = x->a & x->b)                                        \
    OP(VOP2, 20, v_or_b32, 1, 1, 1, 0, 0, r = x->a | x->b)                                         \
    OP(VOP2, 21, v_xor_b32, 1, 1, 1, 0, 0, r = x->a ^ x->b)                                        \
    OP(VOP2, 25, v_add_co_u32, 1, 1, 1, 0, CARRIES, r = x->a + x->b; x->flag = r >> 32)            \
    OP(VOP2, 26, v_sub_co_u32, 1, 1, 1, 0, CARRIES, r = x->a - x->b; x->flag = A32 < B32)          \
    OP(VOP2, 27, v_subrev_co_u32, 1, 1, 1, 0, CARRIES, r = x->b - x->a; x->flag = B32 < A32)       \
    OP(VOP2, 28, v_addc_co_u32, 1, 1, 1, 0, CARRIES | MASKED, r = x->a + x->b + x->flag;           \
       x->flag = r >> 32)                                                                          \
    OP(VOP2, 29, v_subb_co_u32, 1, 1, 1, 0, CARRIES | MASKED, r = x->a - x->b - x->flag;           \
       x->flag = x->a < x->b + x->flag)                                                            \
    OP(VOP2, 52, v_add_u32, 1, 1, 1, 0, 0, r = x->a + x->b)                                        \
    OP(VOP2, 53, v_sub_u32, 1, 1, 1, 0, 0, r = x->a - x->b)                                        \
    OP(VOP2, 54, v_subrev_u32, 1, 1, 1, 0, 0, r = x->b - x->a)                                     \
    OP(VOP2, 59, v_fmac_f32, 1, 1, 1, 0, REAL | ADDS, r = fused(A32, B32, (uint32_t)x->old))       \
    OP(VOP2, 61, v_xnor_b32, 1, 1, 1, 0, 0, r = ~(x->a ^ x->b))                                    \
    OP(VOPC, 0x41, v_cmp_lt_f32, 0, 1, 1, 0, REAL | CARRIES, x->flag = real(A32) < real(B32))      \
    OP(VOPC, 0x44, v_cmp_gt_f32, 0, 1, 1, 0, REAL | CARRIES, x->flag = real(A32) > real(B32))      \
    OP(VOPC, 0xc1, v_cmp_lt_i32, 0, 1, 1, 0, CARRIES, x->flag = S(A32) < S(B32))                   \
    OP(VOPC, 0xc2, v_cmp_eq_i32, 0, 1, 1, 0, CARRIES, x->flag = A32 == B32)                        \
    OP(VOPC, 0xc4, v_cmp_gt_i32, 0, 1, 1, 0, CARRIES, x->flag = S(A32) > S(B32))                   \
    OP(VOPC, 0xc9, v_cmp_lt_u32, 0, 1, 1, 0, CARRIES, x->flag = A32 < B32)                         \
    OP(VOPC, 0xca, v_cmp_eq_u32, 0, 1, 1, 0, CARRIES, x->flag = A32 == B32)                        \
    OP(VOPC, 0xcc, v_cmp_gt_u32, 0, 1, 1, 0, CARRIES, x->flag = A32 > B32)                         \
    OP(VOPC, 0xcd, v_cmp_ne_u32, 0, 1, 1, 0, CARRIES, x->flag = A32 != B32)                        \
    OP(VOP3, 0x1c2, v_mad_i32_i24, 1, 1, 1, 1, 0,                                                  \
       r = (uint64_t)(S(A32 << 8) / 256 * (S(B32 << 8) / 256)) + x->c)                             \
    OP(VOP3, 0x1c3, v_mad_u32_u24, 1, 1, 1, 1, 0,                                                  \
       r = (x->a & 0xffffff) * (x->b & 0xffffff) + x->c)                                           \
    OP(VOP3, 0x1c8, v_bfe_u32, 1, 1, 1, 1, 0, r = extract(A32, B32 & 31, C32 & 31, false))         \
    OP(VOP3, 0x1c9, v_bfe_i32, 1, 1, 1, 1, 0, r = extract(A32, B32 & 31, C32 & 31, true))          \
    OP(VOP3, 0x1ca, v_bfi_b32, 1, 1, 1, 1, 0, r = (x->a & x->b) | (~x->a & x->c))                  \
    OP(VOP3, 0x1cb, v_fma_f32, 1, 1, 1, 1, REAL, r = fused(A32, B32, C32))                         \
    OP(VOP3, 0x1ce, v_alignbit_b32, 1, 1, 1, 1, 0, r = (x->a << 32 | B32) >> (C32 & 31))           \
    OP(VOP3, 0x1ed, v_perm_b32, 1, 1, 1, 1, 0, r = permuted(A32, B32, C32))                        \
    OP(VOP3, 0x1fd, v_lshl_add_u32, 1, 1, 1, 1, 0, r = (A32 << (B32 & 31)) + x->c)                 \
    OP(VOP3, 0x1fe, v_add_lshl_u32, 1, 1, 1, 1, 0, r = (A32 + B32) << (C32 & 31))                  \
    OP(VOP3, 0x1ff, v_add3_u32, 1, 1, 1, 1, 0, r = x->a + x->b + x->c)                             \
    OP(VOP3, 0x200, v_lshl_or_b32, 1, 1, 1, 1, 0, r = A32 << (B32 & 31) | x->c)                    \
    OP(VOP3, 0x201, v_and_or_b32, 1, 1, 1, 1, 0, r = (x->a & x->b) | x->c)                         \
    OP(VOP3, 0x202, v_or3_b32, 1, 1, 1, 1, 0, r = x->a | x->b | x->c)                              \
    OP(VOP3, 0x285, v_mul_lo_u32, 1, 1, 1, 0, 0, r = A32 * B32)                                    \
    OP(VOP3, 0x286, v_mul_hi_u32, 1, 1, 1, 0, 0, r = x->a * x->b >> 32)                            \
    OP(VOP3, 0x287, v_mul_hi_i32, 1, 1, 1, 0, 0, r = (uint64_t)(S(A32) * S(B32) >> 32))            \
    OP(VOP3, 0x28b, v_bcnt_u32_b32, 1, 1, 1, 0, 0, r = count(A32) + x->b)                          \
    OP(VOP3, 0x293, v_bfm_b32, 1, 1, 1, 0, 0, r = ((1u << (A32 & 31)) - 1) << (B32 & 31))

#define FUNCTION(enc, code, name, d, s0, s1, s2, flags, ...) \
    static uint64_t do_##name(struct lane *x)                \
    {                                                        \
        uint64_t r = 0;                                      \
        __VA_ARGS__;                                         \
        return r;                                            \
    }
OPERATIONS(FUNCTION)

struct operation {
    enum encoding encoding;
    unsigned code;
    const char *name;
    unsigned d, s[3];
    unsigned flags;
    uint64_t (*result)(struct lane *x);
};

#define ROW(enc, code, name, d, s0, s1, s2, flags, ...) \
    {enc, code, #name, d, {s0, s1, s2}, flags, do_##name},
static const struct operation operations[] = {OPERATIONS(ROW)};

/* The functions from here on decode the microcode formats. */

/* The fields of an instruction. Sources are as encoded in nine bits. */
struct decoded {
    const struct operation *op;
    unsigned d, s[3], carry, mask; /* carry, mask: SGPR pairs written and read */
    uint32_t literal, extra;       /* extra: the second word, of DPP or SDWA */
    unsigned words, abs, neg;
    bool dpp, sdwa;
};

static unsigned bits(uint32_t w, unsigned high, unsigned low)
{
    return w >> low & ((2u << (high - low)) - 1);
}

static const struct operation *find(enum encoding encoding, unsigned code)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (operations[i].encoding == encoding && operations[i].code == code)
            return &operations[i];
    return NULL;
}

static bool good_scalar(unsigned code, unsigned dwords)
{
    const bool even = dwords < 2 || code % 2 == 0;
    return even && (code + dwords <= 102 || code == 106 || code == 107 || code == 126 ||
                    (code == 124 && dwords < 2) || (code == 127 && dwords < 2));
}

static bool good_source(unsigned code, unsigned dwords)
{
    if (!dwords)
        return true;
    if (code < 128)
        return good_scalar(code, dwords);
    return code <= 208 || (code >= 240 && code <= 248 && dwords == 1) || code == 255 ||
           (code >= 256 && dwords == 1);
}

static bool good_control(unsigned c)
{
    return c < 0x100 || (c > 0x100 && c < 0x130 && c % 16) || c == 0x130 || c == 0x134 ||
           c == 0x138 || c == 0x13c || (c >= 0x140 && c < 0x144) || (c >= 0x150 && c < 0x160);
}

/* True if the reference knows this word of DPP or SDWA. It knows no carries and masks with them,
 * and no SGPRs or modifiers of SDWA. */
static bool good_extra(const struct decoded *x)
{
    const uint32_t w = x->extra;
    if (x->op->flags & (CARRIES | MASKED))
        return false;
    if (x->dpp)
        return good_control(bits(w, 16, 8)) && !bits(w, 18, 17) &&
               (x->op->flags & REAL || !bits(w, 23, 20));
    return !(x->op->flags & REAL) && bits(w, 10, 8) < 7 && bits(w, 12, 11) < 3 &&
           !bits(w, 15, 13) && bits(w, 18, 16) < 7 && bits(w, 26, 24) < 7 && !bits(w, 23, 20) &&
           !bits(w, 31, 28);
}

static bool decode_scalar(struct decoded *x, uint32_t w)
{
    if (w >> 23 == 0x17d)
        x->op = find(SOP1, bits(w, 15, 8));
    else if (w >> 23 == 0x17e)
        x->op = find(SOPC, bits(w, 22, 16));
    else if (w >> 23 < 0x17d)
        x->op = find(SOP2, bits(w, 29, 23));
    x->d = bits(w, 22, 16);
    x->s[0] = bits(w, 7, 0);
    x->s[1] = bits(w, 15, 8);
    return x->op && (!x->op->d || good_scalar(x->d, x->op->d));
}

static bool decode_short(struct decoded *x, const uint32_t *words)
{
    const uint32_t w = words[0];
    const unsigned top = w >> 25;
    x->op = top == 0x3f   ? find(VOP1, bits(w, 16, 9))
            : top == 0x3e ? find(VOPC, bits(w, 24, 17))
                          : find(VOP2, bits(w, 30, 25));
    x->d = bits(w, 24, 17);
    x->s[0] = bits(w, 8, 0);
    x->s[1] = 256 + bits(w, 16, 9);
    x->carry = x->mask = VCC;
    x->dpp = x->s[0] == 250;
    x->sdwa = x->s[0] == 249;
    if (!x->op || (!x->dpp && !x->sdwa))
        return x->op;
    x->extra = words[1];
    x->words = 2;
    x->s[0] = 256 + bits(x->extra, 7, 0);
    if (x->dpp) {
        x->neg = bits(x->extra, 20, 20) | bits(x->extra, 22, 22) << 1;
        x->abs = bits(x->extra, 21, 21) | bits(x->extra, 23, 23) << 1;
    }
    return good_extra(x);
}

static bool decode_long(struct decoded *x, const uint32_t *words)
{
    const uint32_t w = words[0], w1 = words[1];
    const unsigned code = bits(w, 25, 16);
    x->op = code < 0x100   ? find(VOPC, code)
            : code < 0x140 ? find(VOP2, code - 0x100)
            : code < 0x1c0 ? find(VOP1, code - 0x140)
                           : find(VOP3, code);
    x->words = 2;
    if (!x->op)
        return false;
    for (unsigned k = 0; k < 3; k++)
        x->s[k] = bits(w1, 9 * k + 8, 9 * k);
    x->d = bits(w, 7, 0);
    x->neg = bits(w1, 31, 29);
    x->mask = x->s[2];
    const bool second = x->op->flags & CARRIES && x->op->d;
    x->carry = second ? bits(w, 14, 8) : x->d;
    x->abs = second ? 0 : bits(w, 10, 8);
    const unsigned used = (1u << (x->op->s[2] ? 3 : x->op->s[1] ? 2 : 1)) - 1;
    if (bits(w1, 28, 27) || bits(w, 15, 15) || (!second && bits(w, 14, 11)) ||
        (x->op->flags & REAL ? (x->neg | x->abs) & ~used : x->neg | x->abs))
        return false;
    if (x->op->flags & CARRIES && !(good_scalar(x->carry, 2) && x->carry < 107))
        return false;
    return !(x->op->flags & MASKED) || (x->mask < 128 && good_scalar(x->mask, 2));
}

static bool decode(struct decoded *x, const uint32_t *words)
{
    const uint32_t w = words[0];
    *x = (struct decoded){.words = 1};
    const bool vop3 = w >> 26 == 0x34 && w >> 23 != 0x1a7;
    const bool ok = w >> 30 == 2   ? decode_scalar(x, w)
                    : w >> 31 == 0 ? decode_short(x, words)
                                   : vop3 && decode_long(x, words);
    if (!ok)
        return false;
    for (unsigned k = 0; k < 3; k++) {
        if (!good_source(x->s[k], x->op->s[k]) || (vop3 && x->op->s[k] && x->s[k] == 255))
            return false;
        if (x->op->s[k] == 2 && x->s[k] == 255)
            return false;
        if (x->op->s[k] && x->s[k] == 255) {
            x->literal = words[1];
            x->words = 2;
        }
    }
    return true;
}

size_t reference_words(const uint32_t *words)
{
    struct decoded x;
    return decode(&x, words) ? x.words : 0;
}

const char *reference_name(const uint32_t *words)
{
    struct decoded x;
    return decode(&x, words) ? x.op->name : "unknown";
}

/* The functions from here on execute instructions. */

static uint64_t pair(const struct reference_state *s, unsigned reg)
{
    return s->sgpr[reg] | (uint64_t)s->sgpr[reg + 1] << 32;
}

static void set_pair(struct reference_state *s, unsigned reg, uint64_t value)
{
    s->sgpr[reg] = (uint32_t)value;
    s->sgpr[reg + 1] = (uint32_t)(value >> 32);
}

static uint64_t source(const struct reference_state *s, const struct decoded *x, unsigned k,
                       unsigned lane)
{
    static const float constants[] = {0.5f, -0.5f, 1, -1, 2, -2, 4, -4};
    const unsigned code = x->s[k];
    if (code >= 256)
        return s->v[code - 256][lane];
    if (code < 128)
        return x->op->s[k] == 2 ? pair(s, code) : s->sgpr[code];
    if (code == 255)
        return x->literal;
    if (code >= 240)
        return code == 248 ? 0x3e22f983 : bits_of(constants[code - 240]);
    const int64_t value = code <= 192 ? (int64_t)code - 128 : 192 - (int64_t)code;
    return x->op->s[k] == 2 ? (uint64_t)value : (uint32_t)value;
}

static void execute_scalar(struct reference_state *s, const struct decoded *x)
{
    struct lane l = {.a = source(s, x, 0, 0), .flag = s->scc};
    if (x->op->s[1])
        l.b = source(s, x, 1, 0);
    uint64_t r = x->op->result(&l);
    if (x->op->d == 1)
        r = (uint32_t)r;
    if (x->op->flags & NONZERO)
        s->scc = r != 0;
    if (x->op->flags & TO_SCC)
        s->scc = l.flag;
    if (x->op->d == 2)
        set_pair(s, x->d, r);
    else if (x->op->d)
        s->sgpr[x->d] = (uint32_t)r;
}

/* Returns the lane that DPP reads for `lane`; -1: none. */
static int other_lane(unsigned control, int lane)
{
    const int n = control & 15, row = lane / 16 * 16, at = lane % 16;
    if (control < 0x100)
        return lane / 4 * 4 + (int)(control >> 2 * (lane % 4) & 3);
    switch (control & 0x1f0) {
    case 0x100: return at + n > 15 ? -1 : lane + n;
    case 0x110: return at - n < 0 ? -1 : lane - n;
    case 0x120: return row + (at - n + 16) % 16;
    case 0x150: return row + n;
    default: break;
    }
    switch (control) {
    case 0x130: return lane == 63 ? -1 : lane + 1;
    case 0x134: return (lane + 1) % 64;
    case 0x138: return lane - 1;
    case 0x13c: return (lane + 63) % 64;
    case 0x140: return row + 15 - at;
    case 0x141: return lane / 8 * 8 + 7 - lane % 8;
    case 0x142: return row - 1;
    default: return lane < 32 ? -1 : 31;
    }
}

static uint32_t selected(uint32_t u, unsigned field)
{
    const unsigned select = field & 7;
    const unsigned width = select < 4 ? 8 : select < 6 ? 16 : 32;
    const unsigned at = select < 4 ? 8 * select : select == 5 ? 16 : 0;
    return width == 32 ? u : extract(u, at, width, field >> 3 & 1);
}

/* Returns the word that SDWA writes: the selected bits from r, the others 0, the sign, or old. */
static uint32_t placed(uint32_t r, uint32_t old, uint32_t extra)
{
    const unsigned select = bits(extra, 10, 8), unused = bits(extra, 12, 11);
    const unsigned width = select < 4 ? 8 : select < 6 ? 16 : 32;
    const unsigned at = select < 4 ? 8 * select : select == 5 ? 16 : 0;
    if (width == 32)
        return r;
    uint32_t out = 0;
    for (unsigned i = 0; i < 32; i++) {
        uint32_t bit = unused == 2                      ? old >> i
                       : unused == 1 && i >= at + width ? r >> (width - 1)
                                                        : 0;
        if (i >= at && i < at + width)
            bit = r >> (i - at);
        out |= (bit & 1) << i;
    }
    return out;
}

static uint32_t flushed(const struct reference_state *s, const struct decoded *x, uint32_t u,
                        unsigned mode_bit)
{
    const bool flush = x->op->flags & REAL && !(s->mode >> mode_bit & 1);
    return flush && !(u & 0x7f800000) ? u & 0x80000000 : u;
}

/* Returns source k after SDWA's selection, |x|, -x and the flush of denormals. */
static uint32_t prepared(const struct reference_state *s, const struct decoded *x, unsigned k,
                         uint32_t u)
{
    if (x->sdwa)
        u = selected(u, bits(x->extra, k ? 27 : 19, k ? 24 : 16));
    u &= x->abs >> k & 1 ? 0x7fffffff : UINT32_MAX;
    u ^= x->neg >> k & 1 ? 0x80000000 : 0;
    return flushed(s, x, u, 4);
}

/* Stores a lane's source 0 in *u, with DPP from another lane. False: DPP leaves the lane's
 * destination unchanged. */
static bool first_source(const struct reference_state *s, const struct decoded *x, unsigned lane,
                         uint64_t exec, uint32_t *u)
{
    *u = 0;
    if (!x->dpp) {
        *u = (uint32_t)source(s, x, 0, lane);
        return true;
    }
    const int from = other_lane(bits(x->extra, 16, 8), (int)lane);
    const bool there = from >= 0 && exec >> from & 1;
    if (there)
        *u = s->v[x->s[0] - 256][from];
    return bits(x->extra, 31, 28) >> lane / 16 & bits(x->extra, 27, 24) >> lane / 4 % 4 & 1 &&
           (there || bits(x->extra, 19, 19));
}

static void execute_vector(struct reference_state *s, const struct decoded *x)
{
    static uint32_t out[64];
    const uint64_t exec = pair(s, EXEC);
    const uint64_t mask = x->op->flags & MASKED ? pair(s, x->mask) : 0;
    uint64_t flags = 0;
    memcpy(out, s->v[x->d], sizeof(out));
    for (unsigned lane = 0; lane < 64; lane++) {
        uint32_t u;
        if (!(exec >> lane & 1) || !first_source(s, x, lane, exec, &u))
            continue;
        struct lane l = {.a = prepared(s, x, 0, u), .flag = mask >> lane & 1};
        l.b = x->op->s[1] ? prepared(s, x, 1, (uint32_t)source(s, x, 1, lane)) : 0;
        l.c = x->op->s[2] ? prepared(s, x, 2, (uint32_t)source(s, x, 2, lane)) : 0;
        l.old = flushed(s, x, s->v[x->d][lane], 4);
        const uint32_t r = flushed(s, x, (uint32_t)x->op->result(&l), 5);
        out[lane] = x->sdwa ? placed(r, s->v[x->d][lane], x->extra) : r;
        flags |= (uint64_t)l.flag << lane;
    }
    if (x->op->d)
        memcpy(s->v[x->d], out, sizeof(out));
    if (x->op->flags & CARRIES)
        set_pair(s, x->carry, flags);
}

void reference_execute(struct reference_state *s, const uint32_t *words)
{
    struct decoded x;
    if (!decode(&x, words))
        return;
    if (x.op->encoding <= SOPC)
        execute_scalar(s, &x);
    else
        execute_vector(s, &x);
}

static uint32_t other_operation(const struct operation *op, uint32_t word)
{
    switch (op->encoding) {
    case SOP1: return (word & 0x7f00ff) | 0xbe800000 | op->code << 8;
    case SOP2: return (word & 0x7fffff) | 0x80000000 | op->code << 23;
    case SOPC: return (word & 0xffff) | 0xbf000000 | op->code << 16;
    case VOP1: return (word & 0x1fe01ff) | 0x7e000000 | op->code << 9;
    case VOP2: return (word & 0x1ffffff) | op->code << 25;
    case VOPC: return (word & 0x1ffff) | 0x7c000000 | op->code << 17;
    default: return (word & 0xff) | 0xd0000000 | op->code << 16;
    }
}

/* Makes a random word of DPP: a control of any kind, and masks that mostly enable all rows and
 * banks. */
static uint32_t dpp_word(uint32_t extra)
{
    static const uint16_t controls[] = {0x101, 0x111, 0x121, 0x130, 0x134, 0x138,
                                        0x13c, 0x140, 0x150, 0x0b1, 0x01b, 0x142};
    uint32_t control = controls[(extra >> 8 & 255) % 12];
    if (control < 0x130 || control == 0x150)
        control += extra >> 12 & 13;
    return (extra & 0x000800ff) | control << 8 |
           (extra >> 20 & 1 ? 0xff000000 : extra & 0xff000000);
}

void reference_mutate(uint32_t *words, uint32_t seed, uint32_t extra)
{
    const size_t n = sizeof(operations) / sizeof(operations[0]);
    const struct operation *op = &operations[seed / 8 % n];
    switch (seed % 8) {
    case 0: words[0] ^= 1u << extra % 32; return;
    case 1: words[0] = (words[0] & ~0xffu) | (extra & 255); return;
    case 2: words[1] ^= 1u << extra % 32; return;
    default: words[0] = other_operation(op, words[0]); break;
    }
    if (op->encoding != VOP1 && op->encoding != VOP2)
        return;
    if (seed % 8 == 3 || seed % 8 == 4) {
        words[0] = (words[0] & ~0x1ffu) | 250;
        words[1] = dpp_word(extra);
    } else if (seed % 8 == 5) {
        words[0] = (words[0] & ~0x1ffu) | 249;
        words[1] = (extra & 0x060600ff) | (extra >> 8 & 7) << 8 | (extra >> 4 & 1) << 11 |
                   (extra >> 27 & 1) << 12 | (extra >> 16 & 15) << 16 | (extra & 0x08000000);
    }
}
