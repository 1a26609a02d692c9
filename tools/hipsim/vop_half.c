/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16 arithmetic; the operations stand in vop_half.def. Sums and products of halves are exact in
 * double and a fused sum is kept to odd, so the one rounding at the end is the operation's own,
 * whatever MODE asks for.
 */
#include "tools/hipsim/lanes.h"

static inline bool nan16(uint32_t h)
{
    return (h & 0x7fff) > 0x7c00;
}

static inline bool snan16(uint32_t h)
{
    return nan16(h) & !(h & 0x200);
}

static inline int32_t order16(uint32_t h)
{
    int32_t v = (int16_t)h;
    return v ^ (v >> 31 & 0x7fff);
}

static inline uint32_t minmax16(uint32_t a, uint32_t b, bool max, bool ieee)
{
    uint32_t r = (order16(a) < order16(b)) != max ? a : b;
    r = nan16(b) ? a : r;
    r = nan16(a) ? b : r;
    r = ieee & snan16(b) ? b | 0x200 : r;
    r = ieee & snan16(a) ? a | 0x200 : r;
    return r;
}

static inline uint32_t minimum16(uint32_t a, uint32_t b, bool max)
{
    uint32_t r = (order16(a) < order16(b)) != max ? a : b;
    r = nan16(b) ? b | 0x200 : r;
    return nan16(a) ? a | 0x200 : r;
}

static inline bool same16(uint32_t a, uint32_t b)
{
    return (a == b) | (((a | b) & 0x7fff) == 0);
}

static inline uint32_t med16(uint32_t a, uint32_t b, uint32_t c, bool ieee)
{
    uint32_t min3 = minmax16(minmax16(a, b, false, ieee), c, false, ieee);
    uint32_t max3 = minmax16(minmax16(a, b, true, ieee), c, true, ieee);
    uint32_t r = minmax16(a, b, true, ieee);
    r = same16(max3, b) ? minmax16(a, c, true, ieee) : r;
    r = same16(max3, a) ? minmax16(b, c, true, ieee) : r;
    return nan16(a) | nan16(b) | nan16(c) ? min3 : r;
}

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

static inline uint32_t frexp_mant16(uint32_t h)
{
    uint32_t mag = h & 0x7fff;
    if (mag == 0 || mag >= 0x7c00)
        return nan16(h) ? h | 0x200 : h;
    if (mag < 0x400)
        mag <<= __builtin_clz(mag) - 21;
    return (h & 0x8000) | 0x3800 | (mag & 0x3ff);
}

static inline uint32_t frexp_exp16(uint32_t h)
{
    uint32_t mag = h & 0x7fff;
    if (mag == 0 || mag >= 0x7c00)
        return 0;
    int e = (int)(mag >> 10);
    return (uint32_t)(e ? e - 14 : -13 - (__builtin_clz(mag) - 21)) & 0xffff;
}

static inline double through_f16(double a, enum rounding mode)
{
    return f16_to_f64(f64_to_f16(a, mode));
}

/* An exact sum of zero from addends of unlike signs is -0 when rounding down (IEEE 754, 6.3). */
static inline double signed_zero(double sum, double a, double b, enum rounding mode)
{
    return mode == ROUND_DOWN && sum == 0 && signbit(a) != signbit(b) ? -0.0 : sum;
}

static inline double fused(double product, double c, enum rounding mode)
{
    return signed_zero(add_to_odd(product, c), product, c, mode);
}

static inline double unfused(double product, double c, enum rounding mode)
{
    double p = through_f16(product, mode);
    return signed_zero(p + c, p, c, mode);
}

static inline double nearest_even(double a)
{
    double r = copysign((fabs(a) + 0x1p52) - 0x1p52, a);
    return fabs(a) < 0x1p52 ? r : a;
}

static inline double fract16(double a)
{
    double r = a - floor(a);
    r = r == 0 ? 0.0 : r;
    return r > 0x1.ffcp-1 ? 0x1.ffcp-1 : r; /* stays below 1 when rounded */
}

static inline double scale_f16(double a, int e)
{
    e = e < -100 ? -100 : e > 100 ? 100 : e;
    return a * as_f64((uint64_t)(1023 + e) << 52);
}

/* The NaN that a half operation delivers, as fix_nan32() has it; `product` is that of a and b. */
static inline uint32_t pick_nan16(uint32_t r, uint32_t a, uint32_t b, uint32_t c, double product,
                                  uint32_t quiet)
{
    uint32_t n = nan16(c) & (product == product) ? c | quiet : DEFAULT_NAN16;
    n = nan16(b) ? b | quiet : n;
    n = nan16(a) ? a | quiet : n;
    return nan16(r) ? n : r;
}

#define HEAD(op) \
    ROUNDING_KERNEL(op) \
    { \
        uint32_t *d = x->d; \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1], *s2 = x->s[2]; \
        const bool ieee = ieee_mode(x); \
        const uint32_t quiet = quiet16(x); \
        (void)s0, (void)s1, (void)s2, (void)mode, (void)ieee, (void)quiet;

/* One half: `sh` is where it lies in the sources. */
#define HALF(name, k, sh) \
    uint32_t name##_bits = s##k[i] >> (sh) & 0xffff; \
    double name = f16_to_f64(name##_bits);
#define RAW(name, k, sh) uint32_t name = s##k[i] >> (sh) & 0xffff;

#define ROUNDED(e, b_bits, c_bits, product) \
    pick_nan16(f64_to_f16(e, mode), a_bits, b_bits, c_bits, product, quiet)
#define H1(op, fl, e) HEAD(op) EACH_LANE { HALF(a, 0, 0) d[i] = ROUNDED(e, 0, 0, 0.0); } }
#define H2(op, fl, e) \
    HEAD(op) EACH_LANE { HALF(a, 0, 0) HALF(b, 1, 0) d[i] = ROUNDED(e, b_bits, 0, 0.0); } }
#define H3(op, fl, e) \
    HEAD(op) \
    EACH_LANE { \
        HALF(a, 0, 0) HALF(b, 1, 0) HALF(c, 2, 0) \
        d[i] = ROUNDED(e, b_bits, c_bits, a * b); \
    } }
#define HK(op, at, e) H3(op, 0, e)
#define HX(op, t, t0, t1, e) \
    HEAD(op) \
    EACH_LANE { HALF(a, 0, 0) RAW(b, 1, 0) d[i] = pick_nan16(e, a_bits, 0, 0, 0.0, quiet); } }
#define G1(op, t, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) d[i] = e; } }
#define G2(op, fl, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) RAW(b, 1, 0) d[i] = e; } }
#define G3(op, fl, e) HEAD(op) EACH_LANE { RAW(a, 0, 0) RAW(b, 1, 0) RAW(c, 2, 0) d[i] = e; } }
#define PH2(op, fl, e) \
    HEAD(op) \
    EACH_LANE { \
        uint32_t low, high; \
        { HALF(a, 0, 0) HALF(b, 1, 0) low = ROUNDED(e, b_bits, 0, 0.0); } \
        { HALF(a, 0, 16) HALF(b, 1, 16) high = ROUNDED(e, b_bits, 0, 0.0); } \
        d[i] = low | high << 16; \
    } }
#define PH3(op, fl, e) \
    HEAD(op) \
    EACH_LANE { \
        uint32_t low, high; \
        { HALF(a, 0, 0) HALF(b, 1, 0) HALF(c, 2, 0) low = ROUNDED(e, b_bits, c_bits, a * b); } \
        { \
            HALF(a, 0, 16) HALF(b, 1, 16) HALF(c, 2, 16) \
            high = ROUNDED(e, b_bits, c_bits, a * b); \
        } \
        d[i] = low | high << 16; \
    } }
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
#include "tools/hipsim/vop_half.def"
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
const struct op_row LOCAL(vop_half_rows)[] = {
#include "tools/hipsim/vop_half.def"
    {.name = NULL},
};
