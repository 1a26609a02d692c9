/* SPDX-License-Identifier: Apache-2.0 */
/* Integer and bit operations; vop_int.def has the operations. */
#include "lanes.h"
#include "saturate.h"

static inline uint32_t reverse32(uint32_t v)
{
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}

static inline uint32_t popcount32(uint32_t v)
{
    v = v - (v >> 1 & 0x55555555);
    v = (v & 0x33333333) + (v >> 2 & 0x33333333);
    v = (v + (v >> 4)) & 0x0f0f0f0f;
    return v * 0x01010101 >> 24;
}

/* V_FFBH_I32: returns the distance from the top to the first bit that differs from the sign; -1 if
 * none does. */
static inline uint32_t sign_run(uint32_t v)
{
    uint32_t u = v ^ (uint32_t)((int32_t)v >> 31);
    return u ? (uint32_t)__builtin_clz(u) : ~0u;
}

/* Returns the low 24 bits as a signed number. */
static inline int32_t sx24(uint32_t v)
{
    return (int32_t)(v << 8) >> 8;
}

/* Return v limited to the integer type in the name, as its bits. */
static inline uint32_t clamp_u8(int32_t v)
{
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static inline uint32_t clamp_i8(int32_t v)
{
    return (uint32_t)(v < -128 ? -128 : v > 127 ? 127 : v) & 0xff;
}

static inline uint32_t clamp_i16(int32_t v)
{
    return (uint32_t)(v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v) & 0xffff;
}

/* V_BFE_I32: returns the `width` bits of v from bit `offset` on, sign-extended; 0 if `width` is
 * 0. */
static inline uint32_t field_i32(uint32_t v, uint32_t offset, uint32_t width)
{
    uint32_t up = 32 - width;
    uint32_t r = (uint32_t)((int32_t)v >> offset);
    return width ? (uint32_t)((int32_t)(r << (up & 31)) >> (up & 31)) : 0;
}

/*
 * V_PERM_B32: returns four bytes of { high, low }, one for each byte of `select`. Values 0 .. 7
 * select a byte, 8 .. 11 the sign of bytes 1, 3, 5, 7, 12 zero, larger ones 0xff.
 */
static inline uint32_t permute_bytes(uint32_t high, uint32_t low, uint32_t select)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; k++) {
        uint32_t s = select >> 8 * k & 0xff;
        uint32_t byte = (s & 4 ? high : low) >> (8 * (s & 3)) & 0xff;
        uint32_t sign = (s & 2 ? high : low) >> (16 * (s & 1) + 15) & 1;
        byte = s >= 8 ? 0 - sign : byte;
        byte = s == 12 ? 0 : byte;
        byte = s > 12 ? 0xff : byte;
        r |= (byte & 0xff) << 8 * k;
    }
    return r;
}

/* Executes V_PERM_B32 if all selectors are 0 to 7, as is usual. False if others occur, or the host
 * has no AVX2. */
static inline bool permute_rows(const struct lanes *x)
{
#if defined(__AVX2__)
    const __m256i first = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                           /* number of a lane's first byte */
                                           0x08080808, 0x04040404, 0);
    __m256i any = _mm256_setzero_si256();
    for (unsigned i = 0; i < WAVE_LANES; i += 8)
        any = _mm256_or_si256(any, _mm256_loadu_si256((const void *)(x->s[2] + i)));
    if (!_mm256_testz_si256(any, _mm256_set1_epi8((char)0xf8)))
        return false;
    for (unsigned i = 0; i < WAVE_LANES; i += 8) {
        const __m256i high = _mm256_loadu_si256((const void *)(x->s[0] + i));
        const __m256i low = _mm256_loadu_si256((const void *)(x->s[1] + i));
        const __m256i select = _mm256_loadu_si256((const void *)(x->s[2] + i));
        const __m256i at = _mm256_or_si256(_mm256_and_si256(select, _mm256_set1_epi8(3)), first);
        const __m256i result =
            _mm256_blendv_epi8(_mm256_shuffle_epi8(low, at), _mm256_shuffle_epi8(high, at),
                               /* bit 2 of each byte moved to its bit 7 */
                               _mm256_slli_epi32(select, 5));
        _mm256_storeu_si256((void *)(x->d + i), result);
    }
    return true;
#else
    (void)x;
    return false;
#endif
}

static inline int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline int32_t med_i32(int32_t a, int32_t b, int32_t c)
{
    return max_i32(min_i32(a, b), min_i32(max_i32(a, b), c));
}

static inline uint32_t med_u32(uint32_t a, uint32_t b, uint32_t c)
{
    return max_u32(min_u32(a, b), min_u32(max_u32(a, b), c));
}

/* V_LERP_U8: returns the averages of four bytes, rounded up in bytes for which bit 0 of c's byte is
 * set. */
static inline uint32_t lerp_u8(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 32; k += 8)
        r |= ((a >> k & 0xff) + (b >> k & 0xff) + (c >> k & 1)) >> 1 << k;
    return r;
}

/* Returns f16 bits with a signalling NaN made quiet, as V_PACK_B32_F16 does: LLVM selects it for
 * halves that it knows to be canonical. */
static inline uint32_t quiet_f16(uint32_t h)
{
    return (h & 0x7fff) > 0x7c00 ? h | 0x200 : h;
}

/* V_BITOP3: each result bit is bit (a << 2 | b << 1 | c) of a truth table. table[k] is bit k in all
 * bits of a dword. */
static inline uint32_t truth3(uint32_t a, uint32_t b, uint32_t c, const uint32_t *table)
{
    return (~a & ~b & ~c & table[0]) | (~a & ~b & c & table[1]) | (~a & b & ~c & table[2])
        | (~a & b & c & table[3]) | (a & ~b & ~c & table[4]) | (a & ~b & c & table[5])
        | (a & b & ~c & table[6]) | (a & b & c & table[7]);
}

/* Bit k of the truth table in all bits of a dword. */
#define SPREAD(k) (0u - (x->in->bitop3 >> (k) & 1u))

#define KERNEL(op, load, expr) \
    static void k_##op(struct lanes *x) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool clamp = x->in->clamp; \
        const uint32_t table[8] = { \
            SPREAD(0), SPREAD(1), SPREAD(2), SPREAD(3), \
            SPREAD(4), SPREAD(5), SPREAD(6), SPREAD(7), \
        }; \
        (void)s0, (void)s1, (void)s2, (void)clamp, (void)table; \
        EACH_LANE { \
            load \
            d[i] = expr; \
        } \
    }

#define U1(op, fl, expr) KERNEL(op, uint32_t a = s0[i];, expr)
#define U2(op, fl, expr) KERNEL(op, uint32_t a = s0[i]; uint32_t b = s1[i];, expr)
#define U3(op, fl, expr) \
    KERNEL(op, uint32_t a = s0[i]; uint32_t b = s1[i]; uint32_t c = s2[i];, expr)
#define M3(op, fl, expr) \
    KERNEL(op, uint32_t a = s0[i] & 0xffff; uint32_t b = s1[i] & 0xffff; uint32_t c = s2[i];, expr)
#define N2(op, fl, expr) \
    KERNEL(op, uint32_t a = s0[i] & 0xffff; uint32_t b = s1[i] & 0xffff;, (expr) & 0xffff)
#define N2P(op, fl, expr) \
    KERNEL(op, uint32_t a = s0[i] & 0xffff; uint32_t b = s1[i] & 0xffff;, expr)
#define N3(op, fl, expr) \
    KERNEL(op, uint32_t a = s0[i] & 0xffff; uint32_t b = s1[i] & 0xffff; \
           uint32_t c = s2[i] & 0xffff;, (expr) & 0xffff)
#include "vop_int.def"

static void k_v_perm_b32(struct lanes *x)
{
    if (!permute_rows(x))
        EACH_LANE x->d[i] = permute_bytes(x->s[0][i], x->s[1][i], x->s[2][i]);
}

#undef U1
#undef U2
#undef U3
#undef M3
#undef N2
#undef N2P
#undef N3

#define U1(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B32, T_B32)
#define U2(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B32, T_B32, T_B32)
#define U3(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B32, T_B32, T_B32, T_B32)
#define M3(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B32, T_B16, T_B16, T_B32)
#define N2(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B16, T_B16, T_B16)
#define N2P(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B32, T_F16, T_F16)
#define N3(op, fl, expr) ROW_ENTRY(op, k_##op, fl, T_B16, T_B16, T_B16, T_B16)
const struct op_row LOCAL(vop_int_rows)[] = {
#include "vop_int.def"
    ROW_ENTRY(v_perm_b32, k_v_perm_b32, ROW_PACKS, T_B32, T_B32, T_B32, T_B32)
    {.name = NULL},
};
