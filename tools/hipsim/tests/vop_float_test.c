/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests f32, f64 and transcendental operations. Expectations come from the pseudo-code of the CDNA3
 * ISA, VOP1 to VOP3, and its sections on NaNs, IEEE mode, denormals, clamp and omod.
 */
#include <math.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"

#define NANQ 0x7fc00000
#define NANS 0x7f800001
#define INF 0x7f800000
#define NEG 0x80000000
#define ONE 0x3f800000
#define TINY 0x00000001

TEST(arithmetic)
{
    static const struct op_case cases[] = {
        {"v_add_f32 v0, 1.0, v2", 0x40000000, 0, 0, 0x40400000},
        {"v_sub_f32 v0, v2, v4", 0x40000000, ONE, 0, ONE},
        {"v_subrev_f32 v0, v2, v4", 0x40000000, ONE, 0, 0xbf800000},
        {"v_mul_f32 v0, v2, v4", 0x40400000, 0x40400000, 0, 0x41100000},
        {"v_fma_f32 v0, v2, v4, v6", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
        {"v_fmac_f32 v0, v2, v4", 0x40000000, 0x40400000, 0, 0xdeadbeef}, /* -6e18 + 6 */
        {"v_fmamk_f32 v0, v2, 0x40000000, v4", 0x40400000, ONE, 0, 0x40e00000},
        {"v_fmaak_f32 v0, v2, v4, 0x40000000", 0x40400000, ONE, 0, 0x40a00000},
        {"v_mul_legacy_f32 v0, v2, v4", 0, INF, 0, 0},
        /* The modifiers abs and neg of a source. */
        {"v_add_f32_e64 v0, -|v2|, v4", 0xc0000000, ONE, 0, 0xbf800000},
        {"v_add_f32_e64 v0, -v2, |v4|", 0xc0000000, 0xbf800000, 0, 0x40400000},
        {"v_floor_f32 v0, v2", 0xbfc00000, 0, 0, 0xc0000000},
        {"v_ceil_f32 v0, v2", 0xbf000000, 0, 0, NEG},
        {"v_trunc_f32 v0, v2", 0xbfc00000, 0, 0, 0xbf800000},
        {"v_rndne_f32 v0, v2", 0x40200000, 0, 0, 0x40000000},
        {"v_rndne_f32 v0, v2", 0xbe800000, 0, 0, NEG},
        {"v_fract_f32 v0, v2", 0xbe800000, 0, 0, 0x3f400000},
        {"v_fract_f32 v0, v2", 0xb1000000, 0, 0, 0x3f7fffff}, /* the result stays below 1 */
        {"v_ldexp_f32 v0, v2, v4", 0x3fc00000, 3, 0, 0x41400000},
        {"v_ldexp_f32 v0, v2, v4", 0x3fc00000, -149, 0, 2},
        {"v_ldexp_f32 v0, v2, v4", 0x3fc00000, 200, 0, INF},
        {"v_frexp_mant_f32 v0, v2", 0x41400000, 0, 0, 0x3f400000},
        {"v_frexp_exp_i32_f32 v0, v2", 0x41400000, 0, 0, 4},
        {"v_frexp_exp_i32_f32 v0, v2", TINY, 0, 0, (uint32_t)-148},
        {"v_frexp_mant_f32 v0, v2", 3, 0, 0, 0x3f400000},
        {"v_frexp_exp_i32_f32 v0, v2", INF, 0, 0, 0},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

/*
 * The result is the first NaN source, which IEEE mode makes quiet (CDNA4 ISA, 3.5). Without a NaN
 * source it is the NaN of the manual's V_LOG_F32(0xbf800000) => 0xffc00000. A product of infinity
 * and zero has priority over a NaN addend.
 */
TEST(not_a_number)
{
    static const struct op_case cases[] = {
        {"v_add_f32 v0, v2, v4", NANS, ONE, 0, NANS | 0x400000},
        {"v_add_f32 v0, v2, v4", 0xffc12345, 0x7fc00001, 0, 0xffc12345},
        {"v_add_f32 v0, v2, v4", INF, INF | NEG, 0, NANQ | NEG},
        {"v_fma_f32 v0, v2, v4, v6", 0, INF, 0x7fc00007, NANQ | NEG},
        {"v_fma_f32 v0, v2, v4, v6", INF, ONE, 0x7fc00007, 0x7fc00007},
        {"v_add_f64 v[0:1], v[2:3], v[4:5]", UINT64_C(0x7ff0000000000000),
         UINT64_C(0xfff0000000000000), 0, UINT64_C(0xfff8000000000000)},
        {"v_mul_f16 v0, v2, v4", 0x7c00, 0, 0, 0xfe00},
        {"v_fma_f16 v0, v2, v4, v6", 0, 0x7c00, 0x7e07, 0xdeadfe00},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case signaling[] = {
        {"v_add_f32 v0, v2, v4", NANS, ONE, 0, NANS},
        {"v_floor_f32 v0, v2", NANS, 0, 0, NANS},
        {"v_exp_f32 v0, v2", NANS, 0, 0, NANS},
        {"v_add_f16 v0, v2, v4", 0x7c01, 0x3c00, 0, 0x7c01},
        {"v_cvt_f32_f16 v0, v2", 0x7c01, 0, 0, 0x7f802000},
        {"v_mul_f64 v[0:1], v[2:3], 1.0", UINT64_C(0x7ff0000000000001), 0, 0,
         UINT64_C(0x7ff0000000000001)},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT & ~(uint32_t)MODE_IEEE, signaling);
}

TEST(minimum_and_maximum)
{
    static const struct op_case cases[] = {
        {"v_min_f32 v0, v2, v4", 0, NEG, 0, NEG},
        {"v_max_f32 v0, v2, v4", NEG, 0, 0, 0},
        {"v_max_f32 v0, v2, v4", NANQ, ONE, 0, ONE},
        {"v_min_f32 v0, v2, v4", ONE, NANQ, 0, ONE},
        {"v_max_f32 v0, v2, v4", NANS, ONE, 0, NANS | 0x400000}, /* IEEE mode makes the NaN quiet */
        {"v_max3_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x40400000, 0x40400000},
        {"v_min3_f32 v0, v2, v4, v6", ONE, 0xc0000000, NANQ, 0xc0000000},
        {"v_med3_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x40400000, ONE},
        {"v_med3_f32 v0, v2, v4, v6", ONE, NANQ, 0xc0000000, 0xc0000000}, /* result of v_min3 */
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case quiet[] = {
        {"v_max_f32 v0, v2, v4", NANS, ONE, 0, ONE},
        {"v_min_f32 v0, v2, v4", ONE, NANS, 0, ONE},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT & ~(uint32_t)MODE_IEEE, quiet);
    static const struct op_case propagating[] = {
        {"v_minimum3_f32 v0, v2, v4, v6", ONE, NANQ, 0xc0000000, NANQ},
        {"v_maximum3_f32 v0, v2, v4, v6", ONE, 0x40400000, 0xc0000000, 0x40400000},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, propagating);
}

TEST(denormals_follow_mode)
{
    static const struct op_case kept[] = {
        {"v_add_f32 v0, v2, v4", TINY, TINY, 0, 2},
        {"v_mul_f32 v0, v2, 0.5", 0x00800000, 0, 0, 0x00400000},
        {"v_max_f32 v0, v2, v4", TINY, 0, 0, TINY},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, kept);
    static const struct op_case flushed[] = {
        {"v_add_f32 v0, v2, v4", TINY, TINY, 0, 0},
        {"v_mul_f32 v0, v2, 0.5", 0x80800000, 0, 0, NEG},
        {"v_max_f32 v0, v2, v2", TINY | NEG, 0, 0, NEG},
        {"v_mov_b32 v0, v2", TINY, 0, 0, TINY},
        {"v_cndmask_b32_e64 v0, v2, v4, s[0:1]", TINY, 0, 0, TINY},
        {"v_add_f64 v[0:1], v[2:3], v[4:5]", 1, 1, 0, 2}, /* MODE's field for f16 and f64 applies */
        {"v_pk_add_f32 v[0:1], v[2:3], v[4:5]", UINT64_C(0x0000000180000001), 0, 0, 0},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT & ~(uint32_t)MODE_DENORM_F32, flushed);
    /* V_SIN, V_COS: "Denormals are supported". V_DIV_FMAS: "Input denormals are not flushed". */
    static const struct op_case sine[] = {{"v_sin_f32 v0, v2", 0x00100000, 0, 0, 0x006487ed}};
    CHECK_CASES(GFX942, MODE_DEFAULT, sine);
    static const struct op_case steps[] = {
        {"v_sin_f32 v0, v2", 0x00400000, 0, 0, 0},
        {"s_mov_b64 vcc, 0\nv_div_fmas_f32 v0, v2, v4, v6", 0x00400000, 0x40000000, 0, 0x00800000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT & ~(uint32_t)MODE_DENORM_F32, steps);
}

TEST(clamp_and_omod)
{
    static const struct op_case clamps[] = {
        {"v_add_f32_e64 v0, v2, v4 clamp", ONE, ONE, 0, ONE},
        {"v_add_f32_e64 v0, v2, v4 clamp", 0xc0000000, ONE, 0, 0},
        {"v_add_f32_e64 v0, v2, v4 clamp", INF, INF | NEG, 0, 0}, /* DX10_CLAMP: a NaN becomes 0 */
        /* IEEE mode ignores omod. */
        {"v_add_f32_e64 v0, v2, v4 mul:2", ONE, ONE, 0, 0x40000000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, clamps);
    static const struct op_case omods[] = {
        {"v_add_f32_e64 v0, v2, v4 mul:2", ONE, ONE, 0, 0x40800000},
        {"v_add_f32_e64 v0, v2, v4 mul:4", ONE, ONE, 0, 0x41000000},
        {"v_add_f32_e64 v0, v2, v4 div:2", ONE, ONE, 0, ONE},
        {"v_mul_f32_e64 v0, v2, v4 mul:2", NEG, ONE, 0, 0}, /* -0 becomes +0 */
        {"v_add_f32_e64 v0, v2, v4 clamp div:2", 0x40400000, 0x40400000, 0, ONE},
    };
    CHECK_CASES(GFX942, MODE_DENORM_F16_F64 | MODE_DX10_CLAMP, omods);
    /* A flushed source is zero before it is scaled. A result that omod makes subnormal keeps its
     * sign. */
    static const struct op_case flushed[] = {
        {"v_mul_f32_e64 v0, v2, v4 mul:4", 0x80800000, 0x3f000000, 0, 0},
        {"v_mul_f32_e64 v0, v2, v4 div:2", 0x80800000, ONE, 0, 0x80000000},
        {"v_cvt_f16_f32_e64 v0, v2 mul:4", 0xb8000000, 0, 0, 0},
    };
    CHECK_CASES(GFX942, MODE_DX10_CLAMP, flushed);
    static const struct op_case overflows[] = {
        /* Rounding to zero gives the largest number instead of an infinity. */
        {"v_max_f32_e64 v0, v2, v4 mul:2", 0x7f000000, 0, 0, 0x7f7fffff},
        {"v_max_f32_e64 v0, v2, v4 mul:2", 0x7f800000, 0, 0, 0x7f800000},
        {"v_max_f16_e64 v0, v2, v4 mul:4", 0x7800, 0, 0, 0x7bff},
        {"v_max_f64 v[0:1], v[2:3], v[4:5] mul:2", UINT64_C(0xffe0000000000000),
         UINT64_C(0xffe0000000000000), 0, UINT64_C(0xffefffffffffffff)},
    };
    CHECK_CASES(GFX942, MODE_ROUND_F32 | MODE_ROUND_F16_F64, overflows);
}

TEST(doubles)
{
    const uint64_t one = bits_of64(1.0), half = bits_of64(0.5);
    const struct op_case cases[] = {
        {"v_add_f64 v[0:1], 1.0, v[2:3]", half, 0, 0, bits_of64(1.5)},
        {"v_mul_f64 v[0:1], v[2:3], -v[4:5]", half, half, 0, bits_of64(-0.25)},
        {"v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", one + 1, one + 1, bits_of64(-1.0) + 2,
         bits_of64(0x1p-104)},
        {"v_max_f64 v[0:1], v[2:3], v[4:5]", one, bits_of64(2.0), 0, bits_of64(2.0)},
        {"v_min_f64 v[0:1], v[2:3], v[4:5]", 0, UINT64_C(1) << 63, 0, UINT64_C(1) << 63},
        {"v_floor_f64 v[0:1], v[2:3]", bits_of64(-1.5), 0, 0, bits_of64(-2.0)},
        {"v_rndne_f64 v[0:1], v[2:3]", bits_of64(2.5), 0, 0, bits_of64(2.0)},
        {"v_fract_f64 v[0:1], v[2:3]", bits_of64(-0.25), 0, 0, bits_of64(0.75)},
        {"v_ldexp_f64 v[0:1], v[2:3], v4", one, (uint32_t)-1074, 0, 1},
        {"v_frexp_mant_f64 v[0:1], v[2:3]", bits_of64(12.0), 0, 0, bits_of64(0.75)},
        {"v_frexp_exp_i32_f64 v0, v[2:3]", bits_of64(12.0), 0, 0, 4},
        {"v_rcp_f64 v[0:1], v[2:3]", bits_of64(4.0), 0, 0, bits_of64(0.25)},
        {"v_rsq_f64 v[0:1], v[2:3]", bits_of64(4.0), 0, 0, half},
        {"v_sqrt_f64 v[0:1], v[2:3]", bits_of64(2.25), 0, 0, bits_of64(1.5)},
        /* The result has the first 53 bits of 2/pi. */
        {"v_trig_preop_f64 v[0:1], v[2:3], 0", one, 0, 0, UINT64_C(0x3fe45f306dc9c882)},
        {"v_rcp_f64 v[0:1], 0x3ff80000", half, 0, 0, bits_of64(1 / 1.5)}, /* the constant is the
                                                                             high half */
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

/* Tests sources with exact results, and special values. The next test allows 1 ulp. */
TEST(transcendentals_of_exact_cases)
{
    static const struct op_case cases[] = {
        {"v_exp_f32 v0, v2", 0x40400000, 0, 0, 0x41000000},
        {"v_exp_f32 v0, v2", 0xff800000, 0, 0, 0},
        {"v_exp_f32 v0, v2", 0x43800000, 0, 0, INF},
        {"v_exp_f32 v0, v2", 0xc3010000, 0, 0, 0}, /* 2^-129 is subnormal and flushed */
        {"v_exp_f32 v0, v2", NANS, 0, 0, NANS | 0x400000},
        {"v_log_f32 v0, v2", 0x41000000, 0, 0, 0x40400000},
        {"v_log_f32 v0, v2", 0, 0, 0, 0xff800000},
        {"v_log_f32 v0, v2", 0xbf800000, 0, 0, NANQ | NEG},
        {"v_log_f32 v0, v2", ONE, 0, 0, 0},
        {"v_rcp_f32 v0, v2", 0x40800000, 0, 0, 0x3e800000},
        {"v_rcp_f32 v0, v2", NEG, 0, 0, 0xff800000},
        {"v_rcp_f32 v0, v2", TINY, 0, 0, INF},
        {"v_rcp_iflag_f32 v0, v2", 0xff800000, 0, 0, NEG},
        {"v_rsq_f32 v0, v2", 0x40800000, 0, 0, 0x3f000000},
        {"v_rsq_f32 v0, v2", 0xbf800000, 0, 0, NANQ | NEG},
        {"v_sqrt_f32 v0, v2", 0x40100000, 0, 0, 0x3fc00000},
        {"v_sin_f32 v0, v2", 0x3e800000, 0, 0, ONE}, /* a quarter of a turn */
        {"v_sin_f32 v0, v2", 0x43c00000, 0, 0, 0},
        {"v_sin_f32 v0, v2", 0x43c02000, 0, 0, ONE}, /* 384.25 turns */
        {"v_sin_f32 v0, v2", 0xff7fffff, 0, 0, 0},   /* examples of the manual */
        {"v_cos_f32 v0, v2", 0xff7fffff, 0, 0, ONE},
        {"v_sin_f32 v0, v2", 0x74800000, 0, 0, 0}, /* 2^106, limit of an addition */
        {"v_cos_f32 v0, v2", 0xf4800000, 0, 0, ONE},
        {"v_cos_f32 v0, v2", 0x3f000000, 0, 0, 0xbf800000},
        {"v_cos_f32 v0, v2", 0x43c00000, 0, 0, ONE},
        {"v_cos_f32 v0, v2", INF, 0, 0, NANQ | NEG},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case down[] = {{"v_fract_f32 v0, v2", 0x40400000, 0, 0, 0}};
    CHECK_CASES(GFX942, MODE_DEFAULT | 2, down);
}

static double turns_sin(double x) { return sin(6.283185307179586476925 * x); }

static double turns_cos(double x) { return cos(6.283185307179586476925 * x); }

TEST(transcendentals_are_within_one_ulp)
{
    static const struct {
        const char *text;
        double (*f)(double);
        float low, high;
    } ops[] = {
        {"v_exp_f32 v0, v1", exp2, -120, 120},  {"v_log_f32 v0, v1", log2, 0x1p-100f, 0x1p100f},
        {"v_log_f32 v0, v1", log2, 0.9f, 1.1f}, {"v_sin_f32 v0, v1", turns_sin, -3, 3},
        {"v_cos_f32 v0, v1", turns_cos, -3, 3},
    };
    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
        struct program p = program_new(GFX942);
        for (unsigned i = 0; i < 64; i++)
            p.v[1][i] =
                bits_of(ops[k].low + (ops[k].high - ops[k].low) * (float)(i * 37 % 64) / 63);
        struct program before = p;
        program_run(&p, ops[k].text);
        for (unsigned i = 0; i < 64; i++) {
            double want = ops[k].f((double)float_of(before.v[1][i]));
            double got = (double)float_of(p.v[0][i]);
            double ulp = fabs(want) < 0x1p-20 ? 0x1p-44 : ldexp(1, ilogb(want) - 23);
            if (!(fabs(got - want) <= ulp))
                fail_msg("%s of %a: %a, not %a", ops[k].text, (double)float_of(before.v[1][i]), got,
                         want);
        }
    }
}

/* LLVM's sequence for f32 division gives the correctly rounded quotient. */
TEST(division_steps_divide)
{
    static const float pairs[][2] = {
        {1, 3},
        {-7, 5},
        {0x1p127f, 0x1p-20f},
        {0x1p-140f, 3},
        {0x1p-126f, 0x1.8p20f},
        {0x1.fffffep127f, 0x1.8p126f},
        {3, 0x1.4p127f},
        {0x1p-149f, 0x1p-149f},
        {5, 0x1p-140f},
        {0x1.8385e8p-127f, -0x1.a3p0f},
        {0x1.2345p-130f, 3}, /* wrong by one if it is rounded twice */
    };
    for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
        struct program p = program_new(GFX942);
        program_fill(&p, 1, bits_of(pairs[k][0]));
        program_fill(&p, 2, bits_of(pairs[k][1]));
        program_run(&p, "v_div_scale_f32 v3, s[2:3], v2, v2, v1\n"
                        "v_div_scale_f32 v4, vcc, v1, v2, v1\nv_rcp_f32 v5, v3\n"
                        "v_fma_f32 v6, -v3, v5, 1.0\nv_fma_f32 v5, v6, v5, v5\n"
                        "v_mul_f32 v6, v4, v5\nv_fma_f32 v7, -v3, v6, v4\n"
                        "v_fma_f32 v6, v7, v5, v6\nv_fma_f32 v3, -v3, v6, v4\n"
                        "v_div_fmas_f32 v3, v3, v5, v6\nv_div_fixup_f32 v0, v3, v2, v1");
        if (p.v[0][0] != bits_of(pairs[k][0] / pairs[k][1]))
            fail_msg("%a / %a is %a, not %a", (double)pairs[k][0], (double)pairs[k][1],
                     (double)float_of(p.v[0][0]), (double)(pairs[k][0] / pairs[k][1]));
    }
}

/* LLVM's sequence for f64 division gives the correctly rounded quotient. The quotient of the first
 * pair is subnormal and near a tie of its last place. */
TEST(division_steps_divide_doubles)
{
    static const double pairs[][2] = {
        {0x1.8385e80000001p-1023, -0x1.a3p0},
        {1, 3},
        {0x1p-1074, 3},
        {0x1.123456789abcdp-1030, 7},
        {0x1.fffffffffffffp1023, 0x1.8p1022},
        {0x1.fedcba987p-1000, 0x1.8f3p30},
    };
    for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
        struct program p = program_new(GFX942);
        uint64_t n, d, want;
        const double quotient = pairs[k][0] / pairs[k][1];
        memcpy(&n, &pairs[k][0], sizeof(n));
        memcpy(&d, &pairs[k][1], sizeof(d));
        memcpy(&want, &quotient, sizeof(want));
        program_fill(&p, 2, (uint32_t)n), program_fill(&p, 3, (uint32_t)(n >> 32));
        program_fill(&p, 4, (uint32_t)d), program_fill(&p, 5, (uint32_t)(d >> 32));
        program_run(&p, "v_div_scale_f64 v[6:7], s[2:3], v[4:5], v[4:5], v[2:3]\n"
                        "v_rcp_f64 v[8:9], v[6:7]\nv_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0\n"
                        "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\n"
                        "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0\n"
                        "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\n"
                        "v_div_scale_f64 v[10:11], vcc, v[2:3], v[4:5], v[2:3]\n"
                        "v_mul_f64 v[12:13], v[10:11], v[8:9]\n"
                        "v_fma_f64 v[6:7], -v[6:7], v[12:13], v[10:11]\n"
                        "v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[12:13]\n"
                        "v_div_fixup_f64 v[0:1], v[6:7], v[4:5], v[2:3]");
        uint64_t got = p.v[0][0] | (uint64_t)p.v[1][0] << 32;
        if (got != want)
            fail_msg("%a / %a is 0x%llx, not 0x%llx", pairs[k][0], pairs[k][1],
                     (unsigned long long)got, (unsigned long long)want);
    }
}

/* Tests limits and special values as rocjitsu measured them (division.h). */
TEST(division_scales)
{
    static const struct op_case cases[] = {
        /* b is 1, c is 2^96: the quotient is large, so b is scaled. */
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, ONE, 0x6f800000, 0x5f800000},
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, ONE, 0x6f000000, ONE},
        {"v_div_scale_f32 v0, vcc, v6, v4, v6", 0, ONE, 0x6f800000, 0x6f800000},
        {"v_div_scale_f32 v7, vcc, v4, v4, v6\nv_cndmask_b32_e64 v0, 0, 1, vcc", 0, ONE, 0x6f800000,
         1},
        {"v_div_scale_f32 v7, vcc, v4, v4, v6\nv_cndmask_b32_e64 v0, 0, 1, vcc", 0, ONE, 0x6f000000,
         0},
        /* b is 2^96, c is 1: the quotient is small, so c is scaled. */
        {"v_div_scale_f32 v0, vcc, v6, v4, v6", 0, 0x6f800000, ONE, 0x5f800000},
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, 0x6f800000, ONE, 0x6f800000},
        {"v_div_scale_f32 v0, vcc, v6, v4, v6", 0, 0x6f000000, ONE, ONE},
        /* c has exponent 24, so its residual is subnormal and both are scaled. */
        {"v_div_scale_f32 v0, vcc, v6, v4, v6", 0, 0x0c000000, 0x0c400000, 0x2c400000},
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, 0x0c800000, 0x0c800000, 0x0c800000},
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, 0, ONE, NANQ | NEG},
        {"v_div_scale_f32 v0, vcc, v4, v4, v6", 0, ONE, 0, NANQ | NEG},
        {"v_div_scale_f32 v0, vcc, v6, v4, v6", 0, ONE, NANS, NANS | 0x400000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(division_special_cases)
{
    static const struct op_case cases[] = {
        {"v_div_fixup_f32 v0, v2, v4, v6", ONE, 0, 0, 0xffc00000},
        {"v_div_fixup_f32 v0, v2, v4, v6", ONE, INF, 0xff800000, 0xffc00000},
        {"v_div_fixup_f32 v0, v2, v4, v6", ONE, NEG, ONE, 0xff800000},
        {"v_div_fixup_f32 v0, v2, v4, v6", ONE, 0xff800000, ONE, NEG},
        {"v_div_fixup_f32 v0, v2, v4, v6", ONE, 0xc0000000, ONE, 0xbf800000},
        {"v_cubeid_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x3f000000, 0x40400000},
        {"v_cubema_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x3f000000, 0xc0800000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

int main(void) { return run_unit_tests(); }
