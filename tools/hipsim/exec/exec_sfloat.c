/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point of gfx1250's scalar ALU (CDNA5 ISA, 6.8). f32 rounds and flushes as MODE says. f16
 * always rounds to nearest: a kernel that sets another mode faults. Results are defined if all
 * sources are.
 */
#include <fenv.h>
#include <math.h>

#include "exec_salu.h"
#include "lanes.h"
#include "tables.h"

/* Sources of a scalar float operation, as doubles. */
struct sfloat {
    double a, b, c;
    uint32_t u; /* bits of source 0 */
    uint32_t v; /* bits of source 1 */
};

typedef double (*sfloat_fn)(const struct sfloat *s);
typedef bool (*sfloat_test)(const struct sfloat *s);
typedef uint32_t (*sfloat_bits)(const struct sfloat *s);

enum { F16 = 1 << 8 }; /* in op_row.arg: the operands are f16 */

/* True if all sources of the instruction are defined. */
static bool all_valid(const struct wave *w, const struct inst *in)
{
    bool valid = true;
    for (unsigned k = 0; k < in->nsrc; k++)
        valid &= src_scalar_valid(w, &in->src[k]);
    return valid;
}

/* Returns f32 bits `u`, with a denormal replaced by a zero of its sign if MODE flushes them: of
 * sources (`bit` 0) or of results (1). */
static uint32_t flushed(const struct wave *w, uint32_t u, unsigned bit)
{
    return !(w->mode >> (4 + bit) & 1) && !(u & 0x7f800000) ? u & 0x80000000 : u;
}

/* Returns source k, f32 or f16, as a double. Denormal f32 are flushed as MODE says. */
static double widened(const struct wave *w, const struct inst *in, unsigned k)
{
    const uint32_t u = (uint32_t)src_scalar(w, &in->src[k]);
    return in->row->arg & F16 ? f16_to_f64(u & 0xffff) : (double)as_f32(flushed(w, u, 0));
}

/* Reads the sources of the instruction, as doubles and as bits. */
static struct sfloat sources(const struct wave *w, const struct inst *in)
{
    return (struct sfloat){
        .a = widened(w, in, 0),
        .b = widened(w, in, 1),
        .c = widened(w, in, 2),
        .u = (uint32_t)src_scalar(w, &in->src[0]),
        .v = (uint32_t)src_scalar(w, &in->src[1]),
    };
}

/* Returns the bits of the first source that is a NaN, made quiet, or of the default NaN if there is
 * none. */
static uint32_t quiet_nan(const struct wave *w, const struct inst *in)
{
    const bool half = in->row->arg & F16;
    for (unsigned k = 0; k < in->nsrc; k++) {
        const uint32_t u = (uint32_t)src_scalar(w, &in->src[k]);
        if (half ? (u & 0x7fff) > 0x7c00 : nan32(u))
            return half ? (u & 0xffff) | 0x200 : u | QUIET32;
    }
    return half ? DEFAULT_NAN16 : DEFAULT_NAN32;
}

/* Rounds `r`, which is exact or rounded to odd, to the result's type. Returns its bits. */
static uint32_t rounded(const struct wave *w, const struct inst *in, double r)
{
    if (isnan(r))
        return quiet_nan(w, in);
    if (in->row->arg & F16)
        return f64_to_f16_nearest(r);
    static const int modes[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    fesetround(modes[w->mode & MODE_ROUND_F32]);
    volatile float f = (float)r;
    fesetround(FE_TONEAREST);
    return flushed(w, f32_bits(f), 1);
}

/* True unless a f16 operation has another rounding mode than to nearest, which is reported as a
 * fault. */
static bool rounds_to_nearest(struct wave *w, const struct inst *in)
{
    if (!(in->row->arg & F16) || !(w->mode & MODE_ROUND_F16_F64))
        return true;
    wave_fault(w, in, FAULT_TRAP, 0, "scalar f16 is only simulated for rounding to nearest");
    return false;
}

/* Executes an operation whose kernel returns a double: rounds the double to the result's type. */
static void exec_sfloat(struct wave *w, const struct inst *in)
{
    const struct sfloat s = sources(w, in);
    if (rounds_to_nearest(w, in))
        salu_write(w, &in->dst, rounded(w, in, ((sfloat_fn)in->row->kernel)(&s)),
                   all_valid(w, in) ? UINT32_MAX : 0);
}

/* Executes a comparison: sets SCC to its outcome. */
static void exec_sfloat_test(struct wave *w, const struct inst *in)
{
    const struct sfloat s = sources(w, in);
    w->scc = ((sfloat_test)in->row->kernel)(&s);
    w->scc_valid = all_valid(w, in);
}

/* Executes an operation whose kernel returns the bits of the result. */
static void exec_sfloat_bits(struct wave *w, const struct inst *in)
{
    const struct sfloat s = sources(w, in);
    salu_write(w, &in->dst, ((sfloat_bits)in->row->kernel)(&s), all_valid(w, in) ? UINT32_MAX : 0);
}

/* Returns a + b, with an odd last bit if the sum is inexact: a later rounding to f32 or f16 is then
 * right. */
static double sum(double a, double b) { return isfinite(a + b) ? add_to_odd(a, b) : a + b; }

/* Returns IEEE minimumNumber: a number wins over a NaN, and -0 is less than +0. */
static double least(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

/* Returns IEEE minimum: a NaN wins. */
static double lower(double a, double b) { return isnan(a) || isnan(b) ? a + b : least(a, b); }

#define FN(name, e) \
    static double f_##name(const struct sfloat *s) { return e; }
FN(add, sum(s->a, s->b))
FN(sub, sum(s->a, -s->b))
FN(mul, s->a * s->b) /* exact: 48 bits */
FN(fma, sum(s->a * s->b, s->c))
FN(min, least(s->a, s->b))
FN(max, -least(-s->a, -s->b))
FN(minimum, lower(s->a, s->b))
FN(maximum, -lower(-s->a, -s->b))
FN(ceil, ceil(s->a))
FN(floor, floor(s->a))
FN(trunc, trunc(s->a))
FN(rndne, nearbyint(s->a))
FN(from_i32, (double)(int32_t)s->u)
FN(from_u32, (double)s->u)

#define TEST(name, e) \
    static bool t_##name(const struct sfloat *s) { return e; }
TEST(lt, s->a < s->b)
TEST(eq, s->a == s->b)
TEST(le, s->a <= s->b)
TEST(gt, s->a > s->b)
TEST(lg, s->a<s->b || s->a> s->b)
TEST(ge, s->a >= s->b)
TEST(o, !isnan(s->a) && !isnan(s->b))
TEST(u, isnan(s->a) || isnan(s->b))
TEST(nge, !(s->a >= s->b))
TEST(nlg, !(s->a < s->b || s->a > s->b))
TEST(ngt, !(s->a > s->b))
TEST(nle, !(s->a <= s->b))
TEST(neq, !(s->a == s->b))
TEST(nlt, !(s->a < s->b))

/* Converts to a signed integer: truncates and saturates; a NaN becomes 0. */
static uint32_t to_i32(const struct sfloat *s)
{
    const double a = isnan(s->a) ? 0 : s->a;
    return (uint32_t)(a <= -0x1p31 ? INT32_MIN : a >= 0x1p31 ? INT32_MAX : (int32_t)a);
}

/* Converts to an unsigned integer: truncates and saturates; a NaN becomes 0. */
static uint32_t to_u32(const struct sfloat *s)
{
    return !(s->a > 0) ? 0 : s->a >= 0x1p32 ? UINT32_MAX : (uint32_t)s->a;
}

/* Converts f16 to f32 bits. A NaN keeps its sign and payload, and becomes quiet. */
static uint32_t from_f16(uint32_t half)
{
    const uint32_t bits = f32_bits(f16_to_f32(half));
    return nan32(bits) ? bits | QUIET32 : bits;
}

/* Converts the lower half of source 0 from f16. */
static uint32_t from_f16_low(const struct sfloat *s) { return from_f16(s->u & 0xffff); }

/* Converts the upper half of source 0 from f16. */
static uint32_t from_f16_high(const struct sfloat *s) { return from_f16(s->u >> 16); }

/* Converts f32 to f16 bits, rounded to nearest. A NaN keeps its sign and top payload bits and
 * becomes quiet. */
static uint32_t to_f16(const struct sfloat *s)
{
    return nan32(s->u) ? (s->u >> 16 & 0x8000) | 0x7e00 | (s->u >> 13 & 0x1ff)
                       : f64_to_f16_nearest(s->a);
}

/* Converts sources 0 and 1 to f16, rounded toward zero, and packs them: source 0 in the low
 * half. */
static uint32_t to_f16_pair(const struct sfloat *s)
{
    return f32_to_f16(as_f32(s->u), ROUND_ZERO) | f32_to_f16(as_f32(s->v), ROUND_ZERO) << 16;
}

#define ROW(op, run, fn, how, d, ...) \
    {.name = op,                      \
     .exec = run,                     \
     .kernel = (void (*)(void))fn,    \
     .arg = how,                      \
     .dst = d,                        \
     .src = {__VA_ARGS__},            \
     .flags = ROW_SALU,               \
     .targets = GFX1250}
#define BOTH1(n, fn)                                      \
    ROW("s_" n "_f32", exec_sfloat, fn, 0, T_F32, T_F32), \
        ROW("s_" n "_f16", exec_sfloat, fn, F16, T_F16, T_F16)
#define BOTH2(n, fn)                                             \
    ROW("s_" n "_f32", exec_sfloat, fn, 0, T_F32, T_F32, T_F32), \
        ROW("s_" n "_f16", exec_sfloat, fn, F16, T_F16, T_F16, T_F16)
#define FMAC(n, t, how)                  \
    {.name = n,                          \
     .exec = exec_sfloat,                \
     .kernel = (void (*)(void))f_fma,    \
     .arg = how,                         \
     .dst = t,                           \
     .src = {t, t, t},                   \
     .flags = ROW_SALU | ROW_DST_IS_SRC, \
     .targets = GFX1250}
/* Row of a fused multiply-add with a literal constant as source `at`. */
#define FMAK(n, at)                     \
    {.name = n,                         \
     .exec = exec_sfloat,               \
     .kernel = (void (*)(void))f_fma,   \
     .arg = at,                         \
     .dst = T_F32,                      \
     .src = {T_F32, T_F32, T_F32},      \
     .flags = ROW_SALU | ROW_LITERAL_K, \
     .targets = GFX1250}
#define COMPARE(n)                                                             \
    ROW("s_cmp_" #n "_f32", exec_sfloat_test, t_##n, 0, T_NONE, T_F32, T_F32), \
        ROW("s_cmp_" #n "_f16", exec_sfloat_test, t_##n, F16, T_NONE, T_F16, T_F16)

const struct op_row exec_sfloat_rows[] = {
    BOTH2("add", f_add),
    BOTH2("sub", f_sub),
    BOTH2("mul", f_mul),
    BOTH2("min_num", f_min),
    BOTH2("max_num", f_max),
    BOTH2("minimum", f_minimum),
    BOTH2("maximum", f_maximum),
    BOTH1("ceil", f_ceil),
    BOTH1("floor", f_floor),
    BOTH1("trunc", f_trunc),
    BOTH1("rndne", f_rndne),
    FMAC("s_fmac_f32", T_F32, 0),
    FMAC("s_fmac_f16", T_F16, F16),
    FMAK("s_fmamk_f32", 1),
    FMAK("s_fmaak_f32", 2),
    ROW("s_cvt_f32_i32", exec_sfloat, f_from_i32, 0, T_F32, T_I32),
    ROW("s_cvt_f32_u32", exec_sfloat, f_from_u32, 0, T_F32, T_U32),
    ROW("s_cvt_f32_f16", exec_sfloat_bits, from_f16_low, 0, T_F32, T_F16),
    ROW("s_cvt_hi_f32_f16", exec_sfloat_bits, from_f16_high, 0, T_F32, T_B32),
    ROW("s_cvt_i32_f32", exec_sfloat_bits, to_i32, 0, T_I32, T_F32),
    ROW("s_cvt_u32_f32", exec_sfloat_bits, to_u32, 0, T_U32, T_F32),
    ROW("s_cvt_f16_f32", exec_sfloat_bits, to_f16, 0, T_F16, T_F32),
    ROW("s_cvt_pk_rtz_f16_f32", exec_sfloat_bits, to_f16_pair, 0, T_PKF16, T_F32, T_F32),
    COMPARE(lt),
    COMPARE(eq),
    COMPARE(le),
    COMPARE(gt),
    COMPARE(lg),
    COMPARE(ge),
    COMPARE(o),
    COMPARE(u),
    COMPARE(nge),
    COMPARE(nlg),
    COMPARE(ngt),
    COMPARE(nle),
    COMPARE(neq),
    COMPARE(nlt),
    {.name = NULL},
};
