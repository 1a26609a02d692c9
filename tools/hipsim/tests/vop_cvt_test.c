/* SPDX-License-Identifier: Apache-2.0 */
/* Tests conversions: CDNA3 and CDNA4 ISA, VOP1 and VOP3 sections; OCP FP8 and MX format tables. */
#include <math.h>

#include "tools/hipsim/tests/program.h"

TEST(integers_and_floats)
{
    static const struct op_case cases[] = {
        {"v_cvt_i32_f32 v0, v2", 0xc0200000, 0, 0, 0xfffffffe}, /* source -2.5 */
        {"v_cvt_i32_f32 v0, v2", 0x4f000000, 0, 0, 0x7fffffff},
        {"v_cvt_i32_f32 v0, v2", 0xff800000, 0, 0, 0x80000000},
        {"v_cvt_i32_f32 v0, v2", 0x7fc00000, 0, 0, 0},
        {"v_cvt_u32_f32 v0, v2", 0xbf800000, 0, 0, 0},
        {"v_cvt_u32_f32 v0, v2", 0x4f7fffff, 0, 0, 0xffffff00},
        {"v_cvt_u32_f32 v0, v2", 0x4f800000, 0, 0, 0xffffffff},
        {"v_cvt_f32_i32 v0, v2", 0xffffffff, 0, 0, 0xbf800000},
        {"v_cvt_f32_u32 v0, v2", 0xffffffff, 0, 0, 0x4f800000},
        {"v_cvt_f32_u32 v0, v2", 0x01000001, 0, 0, 0x4b800000}, /* a tie, rounded to even */
        {"v_cvt_f64_i32 v[0:1], v2", 0xfffffffe, 0, 0, UINT64_C(0xc000000000000000)},
        {"v_cvt_f64_u32 v[0:1], v2", 0xfffffffe, 0, 0, UINT64_C(0x41efffffffc00000)},
        {"v_cvt_i32_f64 v0, v[2:3]", UINT64_C(0xc1e0000000200000), 0, 0, 0x80000000},
        {"v_cvt_u32_f64 v0, v[2:3]", UINT64_C(0x41efffffffe00000), 0, 0, 0xffffffff},
        {"v_cvt_f32_f64 v0, v[2:3]", UINT64_C(0x3ff0000010000000), 0, 0, 0x3f800000},
        {"v_cvt_f64_f32 v[0:1], v2", 0x00000001, 0, 0, UINT64_C(0x36a0000000000000)},
        {"v_cvt_rpi_i32_f32 v0, v2", 0xc0200000, 0, 0, 0xfffffffe}, /* floor(-2.5 + 0.5) */
        {"v_cvt_flr_i32_f32 v0, v2", 0xc0200000, 0, 0, 0xfffffffd},
        {"v_cvt_off_f32_i4 v0, v2", 0xfffffff8, 0, 0, 0xbf000000},
        {"v_cvt_off_f32_i4 v0, v2", 7, 0, 0, 0x3ee00000},
        {"v_cvt_f32_ubyte2 v0, v2", 0x00ff0000, 0, 0, 0x437f0000},
        {"v_cvt_f32_ubyte3 v0, v2", 0x80000000, 0, 0, 0x43000000},
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x43160000, 2, 0x11223344, 0x11963344},
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0xbf800000, 0, 0x11223344, 0x11223300},
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x44800000, 3, 0x11223344, 0xff223344},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(halves_and_normalised)
{
    static const struct op_case cases[] = {
        {"v_cvt_f16_f32 v0, v2", 0x3f801000, 0, 0, 0x3c00}, /* a tie, rounded to even */
        {"v_cvt_f16_f32 v0, v2", 0x3f803000, 0, 0, 0x3c02},
        {"v_cvt_f16_f32 v0, v2", 0x33000000, 0, 0, 0}, /* half of the least subnormal */
        {"v_cvt_f16_f32 v0, v2", 0x33000001, 0, 0, 1},
        {"v_cvt_f16_f32 v0, v2", 0x477ff000, 0, 0, 0x7c00},
        {"v_cvt_f16_f32 v0, v2", 0x7f812345, 0, 0, 0x7e09},
        {"v_cvt_f32_f16 v0, v2", 0x0001, 0, 0, 0x33800000},
        {"v_cvt_f32_f16 v0, v2", 0xfc00, 0, 0, 0xff800000},
        {"v_cvt_f32_f16 v0, v2", 0x7c01, 0, 0, 0x7fc02000},
        {"v_cvt_pkrtz_f16_f32 v0, v2, v4", 0x3f803fff, 0x477fffff, 0, 0x7bff3c01},
        {"v_cvt_f16_u16 v0, v2", 0xffff, 0, 0, 0x7c00},
        {"v_cvt_f16_i16 v0, v2", 0xfffe, 0, 0, 0xc000},
        {"v_cvt_u16_f16 v0, v2", 0xc000, 0, 0, 0},
        {"v_cvt_i16_f16 v0, v2", 0xfc00, 0, 0, 0x8000},
        {"v_cvt_norm_i16_f16 v0, v2", 0xbc00, 0, 0, 0x8001},
        {"v_cvt_norm_u16_f16 v0, v2", 0x3800, 0, 0, 0x8000},
        {"v_cvt_pknorm_i16_f32 v0, v2, v4", 0xc0000000, 0x3f800000, 0, 0x7fff8001},
        {"v_cvt_pknorm_u16_f32 v0, v2, v4", 0xc0000000, 0x3f800000, 0, 0xffff0000},
        {"v_cvt_pknorm_i16_f16 v0, v2, v4", 0xbc00, 0x3c00, 0, 0x7fff8001},
        {"v_cvt_pknorm_u16_f16 v0, v2, v4", 0x7e00, 0x3c00, 0, 0xffff0000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case gfx950[] = {
        {"v_cvt_pk_bf16_f32 v0, v2, v4", 0x3f808000, 0x3f818000, 0, 0x3f823f80},
        {"v_cvt_pk_bf16_f32 v0, v2, v4", 0x7f800001, 0x7f7fffff, 0, 0x7f807fc0},
        {"v_cvt_pk_f16_f32 v0, v2, v4", 0x3f801000, 0x477ff000, 0, 0x7c003c00},
        /* clamp affects both halves. With DX10_CLAMP a NaN becomes 0 (CDNA4 ISA, "Output
         * modifiers", "Mode register"). */
        {"v_cvt_pk_f16_f32 v0, v2, v4 clamp", 0xbf800000, 0x40000000, 0, 0x3c000000},
        {"v_cvt_pk_f16_f32 v0, v2, v4 clamp", 0x3f001000, 0x33800000, 0, 0x00013800},
        {"v_cvt_pk_f16_f32 v0, v2, v4 clamp", 0x7fc00000, 0x80000000, 0, 0},
        {"v_cvt_pk_f16_f32 v0, v2, v4 clamp", 0x7f800000, 0x33000001, 0, 0x00013c00},
        {"v_cvt_f32_bf16 v0, v2", 0xabcd3f80, 0, 0, 0x3f800000},
        {"v_cvt_sr_bf16_f32 v0, v2, v4", 0x3f80c000, 0x3fff0000, 0, 0xdead3f80},
        {"v_cvt_sr_bf16_f32 v0, v2, v4 op_sel:[0,0,1]", 0x3f80c000, 0x40000000, 0, 0x3f81beef},
        {"v_cvt_sr_f16_f32 v0, v2, v4", 0x3f801000, 0x80000000, 0, 0xdead3c01},
        {"v_cvt_sr_f16_f32 v0, v2, v4", 0x3f801000, 0x7fffffff, 0, 0xdead3c00},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, gfx950);
    static const struct op_case kept[] = {
        {"v_cvt_pk_f16_f32 v0, v2, v4 clamp", 0x7fc00000, 0x40000000, 0, 0x3c007e00},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT & ~MODE_DX10_CLAMP, kept);
    /* MODE flushes f32 sources, as in other conversions. */
    static const struct op_case flushed[] = {
        {"v_cvt_pk_bf16_f32 v0, v2, v4", 0x807fffff, 0x00800000, 0, 0x00808000},
        {"v_cvt_sr_bf16_f32 v0, v2, v4", 0x807fffff, 0xffffffff, 0, 0xdead8000},
        {"v_cvt_sr_f16_f32 v0, v2, v4", 0xb8000000, 0, 0, 0xdead8000},
    };
    CHECK_CASES(GFX950, MODE_IEEE | MODE_DX10_CLAMP, flushed);
    /* FP16_OVFL: overflow gives the largest f16, infinity is kept (CDNA4 ISA, "Mode register"). */
    static const struct op_case saturated[] = {
        {"v_cvt_pk_f16_f32 v0, v2, v4", 0x7f800000, 0xc77ff000, 0, 0xfbff7c00},
        {"v_cvt_sr_f16_f32 v0, v2, v4", 0x477fffff, 0xffffffff, 0, 0xdead7bff},
        {"v_cvt_sr_f16_f32 v0, v2, v4", 0xff800000, 0xffffffff, 0, 0xdeadfc00},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT | MODE_FP16_OVFL, saturated);
}

TEST(eight_bits_fnuz_on_gfx942)
{
    static const struct op_case cases[] = {
        {"v_cvt_f32_fp8 v0, v2", 0x40, 0, 0, 0x3f800000}, /* 1: the bias is 8 */
        {"v_cvt_f32_fp8 v0, v2", 0x80, 0, 0, 0xffc00000},
        {"v_cvt_f32_fp8 v0, v2", 0x7f, 0, 0, 0x43700000}, /* 240 */
        {"v_cvt_f32_fp8 v0, v2", 0x01, 0, 0, 0x3a800000}, /* 2^-10 */
        {"v_cvt_f32_bf8 v0, v2", 0x40, 0, 0, 0x3f800000}, /* 1: the bias is 16 */
        {"v_cvt_f32_bf8 v0, v2", 0xff, 0, 0, 0xc7600000}, /* -57344 */
        {"v_cvt_f32_fp8_sdwa v0, v2 src0_sel:BYTE_2", 0x00400000, 0, 0, 0x3f800000},
        /* A word select is invalid for one value, a byte select for two values (CDNA3 ISA,
         * V_CVT_F32_FP8, V_CVT_PK_F32_FP8). They mean the lowest byte and the lower word. */
        {"v_cvt_f32_fp8_sdwa v0, v2 src0_sel:WORD_1", 0x48480040, 0, 0, 0x3f800000},
        {"v_cvt_f32_bf8_sdwa v0, v2 src0_sel:WORD_0", 0x44444440, 0, 0, 0x3f800000},
        {"v_cvt_pk_f32_fp8_sdwa v[0:1], v2 src0_sel:BYTE_1", 0x7f7f4840, 0, 0,
         UINT64_C(0x400000003f800000)},
        {"v_cvt_pk_f32_bf8_sdwa v[0:1], v2 src0_sel:BYTE_3", 0x40404440, 0, 0,
         UINT64_C(0x400000003f800000)},
        {"v_cvt_pk_f32_fp8 v[0:1], v2", 0x4840, 0, 0, UINT64_C(0x400000003f800000)},
        {"v_cvt_pk_f32_bf8_sdwa v[0:1], v2 src0_sel:WORD_1", 0x44400000, 0, 0,
         UINT64_C(0x400000003f800000)},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x3f800000, 0x40000000, 0, 0xdead4840},
        {"v_cvt_pk_fp8_f32 v0, v2, v4 op_sel:[0,0,1]", 0x3f800000, 0xc0000000, 0, 0xc840beef},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x43800000, 0x80000000, 0, 0xdead0080}, /* 0x80: NaN */
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7f800000, 0x7fc00000, 0, 0xdead8080},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x3f800000, 0x3f900000, 0, 0xdead4040}, /* a tie */
        {"v_cvt_sr_fp8_f32 v0, v2, v4 op_sel:[0,0,1,0]", 0x3f880000, 0x7fffffff, 0, 0xdead40ef},
        {"v_cvt_sr_fp8_f32 v0, v2, v4 op_sel:[0,0,1,1]", 0x3f880000, 0x80000000, 0, 0x41adbeef},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case saturated[] = {
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x43800000, 0xc7c00000, 0, 0xdeadff7f},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7f800000, 0xff800000, 0, 0xdeadff7f},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x7f800000, 0x7fc00000, 0, 0xdead807f},
        {"v_cvt_sr_fp8_f32 v0, v2, v4", 0xff800000, 0, 0, 0xdeadbeff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | MODE_FP16_OVFL, saturated);
    /* Tests NaN, infinities and overflows, with and without FP16_OVFL (CDNA4 ISA, 7.3). */
    static const struct op_case ocp[] = {
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7f800000, 0xff800000, 0, 0xdeadfe7e},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7fc00000, 0x44000000, 0, 0xdead7e7f},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x7f800000, 0xff800000, 0, 0xdeadfb7b},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x7fc00000, 0xc7800000, 0, 0xdeadfb7e},
        {"v_cvt_sr_bf8_f32 v0, v2, v4", 0xff800000, 0, 0, 0xdeadbefb},
        {"v_cvt_scalef32_pk_fp8_f32 v0, v2, v4, 1.0", 0x7f800000, 0xff800000, 0, 0xdeadfe7e},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT | MODE_FP16_OVFL, ocp);
    static const struct op_case ocp_plain[] = {
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7f800000, 0xff800000, 0, 0xdeadff7f},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x7fc00000, 0x44000000, 0, 0xdead7f7f},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x7f800000, 0xff800000, 0, 0xdeadfc7c},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x7fc00000, 0xc7800000, 0, 0xdeadfc7e},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, ocp_plain);
}

/* MODE.FP_ROUND has one field for f32 results and one for f64 and f16 results (CDNA3 ISA, "Mode
 * register"). */
TEST(results_choose_the_rounding)
{
    static const struct op_case single_up[] = {
        {"v_cvt_f32_f64 v0, v[2:3]", UINT64_C(0x3ff0000010000000), 0, 0, 0x3f800001},
        {"v_cvt_f32_f64 v0, v[2:3]", UINT64_C(0xbff0000010000000), 0, 0, 0xbf800000},
        {"v_cvt_f16_f32 v0, v2", 0x3f801000, 0, 0, 0x3c00},
        {"v_cvt_rpi_i32_f32 v0, v2", 0x4b000001, 0, 0, 0x00800001}, /* exact floor(S0 + 0.5) */
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1, single_up);
    static const struct op_case wide_up[] = {
        {"v_cvt_f32_f64 v0, v[2:3]", UINT64_C(0x3ff0000010000000), 0, 0, 0x3f800000},
        {"v_cvt_f16_f32 v0, v2", 0x3f801000, 0, 0, 0x3c01},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1 << 2, wide_up);
}

/* Tests rounding by MODE, as ROCm's rocjitsu measured it on hardware (conversion.h,
 * V_CVT_PK_U8_F32). */
TEST(bytes_round_by_mode)
{
    static const struct op_case nearest[] = {
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x3f000000, 0, 0x11223344, 0x11223300}, /* 0.5 */
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x3fc00000, 0, 0x11223344, 0x11223302}, /* 1.5 */
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x437ee666, 1, 0x11223344, 0x1122ff44}, /* 254.9 */
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x7fc00000, 1, 0x11223344, 0x11220044},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, nearest);
    static const struct op_case up[] = {
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x3e800000, 0, 0x11223344, 0x11223301},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1, up);
    static const struct op_case to_zero[] = {
        {"v_cvt_pk_u8_f32 v0, v2, v4, v6", 0x437ee666, 1, 0x11223344, 0x1122fe44},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 3, to_zero);
}

TEST(eight_bits_ocp_on_gfx950)
{
    static const struct op_case cases[] = {
        {"v_cvt_f32_fp8 v0, v2", 0x38, 0, 0, 0x3f800000},
        {"v_cvt_f32_fp8 v0, v2", 0x7e, 0, 0, 0x43e00000}, /* 448 */
        {"v_cvt_f32_fp8 v0, v2", 0x80, 0, 0, 0x80000000},
        {"v_cvt_f32_fp8 v0, v2", 0x7f, 0, 0, 0x7fc00000},
        {"v_cvt_f32_bf8 v0, v2", 0x7c, 0, 0, 0x7f800000},
        {"v_cvt_f32_bf8 v0, v2", 0x3c, 0, 0, 0x3f800000},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x3f800000, 0x40000000, 0, 0xdead4038},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0x80000000, 0x44800000, 0, 0xdead7f80},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0x47700000, 0x3f800000, 0, 0xdead3c7c},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0xff800000, 0x3f800000, 0, 0xdead3cfc},
        {"v_cvt_pk_bf8_f32 v0, v2, v4", 0xffc00000, 0x7fc00000, 0, 0xdead7efe},
        {"v_cvt_pk_fp8_f32 v0, v2, v4", 0xffc00000, 0x7fc00000, 0, 0xdead7fff},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
}

#define SCALE_4 0x40800000 /* 4, also as a scale: E8M0 is the exponent */

TEST(block_scaled)
{
    static const struct op_case cases[] = {
        /* Narrowing divides by the scale, widening multiplies. */
        {"v_cvt_scalef32_pk_fp8_f32 v0, v2, v4, v6", 0x40800000, 0x41000000, SCALE_4, 0xdead4038},
        {"v_cvt_scalef32_pk_fp8_f32 v0, v2, v4, v6 op_sel:[0,0,0,1]", 0x40800000, 0x41000000,
         SCALE_4, 0x4038beef},
        {"v_cvt_scalef32_pk_f32_fp8 v[0:1], v2, v4", 0x4038, SCALE_4, 0,
         UINT64_C(0x4100000040800000)},
        {"v_cvt_scalef32_f32_bf8 v0, v2, v4 op_sel:[0,1]", 0x003c0000, SCALE_4, 0, 0x40800000},
        {"v_cvt_scalef32_f16_fp8 v0, v2, v4 op_sel:[1,0,1]", 0x3800, SCALE_4, 0, 0x4400beef},
        /* fp4 has the values 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
        {"v_cvt_scalef32_pk_fp4_f32 v0, v2, v4, v6", 0x3f800000, 0xc1800000, 0x3f800000,
         0xdeadbef2},
        {"v_cvt_scalef32_pk_fp4_f32 v0, v2, v4, v6 op_sel:[0,0,1,1]", 0x40400000, 0x3e800000,
         0x3f800000, 0x05adbeef},
        {"v_cvt_scalef32_pk_f32_fp4 v[0:1], v2, v4 op_sel:[0,1,0]", 0x00750000, 0x3f800000, 0,
         UINT64_C(0x40c0000040400000)},
        {"v_cvt_scalef32_pk_fp4_f16 v0, v2, v4", 0x44003c00, 0x3f800000, 0, 0xdeadbe62},
        {"v_cvt_scalef32_pk_bf16_fp4 v0, v2, v4", 0x62, SCALE_4, 0, 0x41804080},
        {"v_cvt_scalef32_pk_fp8_bf16 v0, v2, v4", 0x40003f80, 0x3f800000, 0, 0xdead4038},
        {"v_cvt_scalef32_pk_f16_bf8 v0, v2, v4 op_sel:[1,0,0]", 0x403c0000, 0x3f800000, 0,
         0x40003c00},
        {"v_cvt_scalef32_sr_fp8_f32 v0, v2, v4, v6 op_sel:[0,0,0,1]", 0x3f880000, 0x80000000,
         0x3f800000, 0xde39beef},
        {"v_cvt_scalef32_f32_fp8 v0, v2, v4", 0x38, 0x7f800000, 0, 0x7fc00000}, /* NaN scale */
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
}

/*
 * Tests stochastic rounding, as in ROCm's from_float_sr() (amd_hip_ocp_host.hpp). The mantissa of a
 * subnormal result is shifted and truncated. Then the difference of the formats' mantissa widths
 * determines how many random bits are added.
 */
TEST(stochastic_subnormals)
{
    static const struct op_case cases[] = {
        /* 2^-9 - 2^-33: the truncated bit would give a carry if all random bits were 1. */
        {"v_cvt_scalef32_sr_fp8_f32 v0, v2, v4, v6", 0x3affffff, 0x00000fff, 0x3f800000,
         0xdeadbe00},
        {"v_cvt_scalef32_sr_fp8_f32 v0, v2, v4, v6", 0x3affffff, 0x00001000, 0x3f800000,
         0xdeadbe01},
        {"v_cvt_scalef32_sr_fp8_f16 v0, v2, v4, v6", 0x17ff, 0x01ffffff, 0x3f800000, 0xdeadbe00},
        {"v_cvt_scalef32_sr_fp8_f16 v0, v2, v4, v6", 0x17ff, 0x02000000, 0x3f800000, 0xdeadbe01},
        {"v_cvt_scalef32_sr_bf8_bf16 v0, v2, v4, v6", 0x3f81, 0xf8000000, 0x3f800000, 0xdeadbe3d},
        {"v_cvt_scalef32_sr_bf8_bf16 v0, v2, v4, v6", 0x3f81, 0xf0000000, 0x3f800000, 0xdeadbe3c},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
    static const struct op_case fnuz[] = {
        {"v_cvt_sr_fp8_f32 v0, v2, v4", 0x3a7fffff, 0x00000fff, 0, 0xdeadbe00},
        {"v_cvt_sr_fp8_f32 v0, v2, v4", 0x3a7fffff, 0x00001000, 0, 0xdeadbe01},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, fnuz);
}

/* A NaN scale keeps the sign. A quotient that exceeds f32 is an overflow, not an infinity. */
TEST(scales_at_the_ends)
{
    static const struct op_case cases[] = {
        {"v_cvt_scalef32_f32_fp8 v0, v2, v4", 0xb8, 0x7f800000, 0, 0xffc00000},
        {"v_cvt_scalef32_pk_fp4_f32 v0, v2, v4, v6", 0x3f800000, 0xbf800000, 0x7f800000,
         0xdeadbef7},
        {"v_cvt_scalef32_pk_bf8_f32 v0, v2, v4, v6", 0x7f000000, 0xff000000, 0x00800000,
         0xdeadfc7c},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
    static const struct op_case saturated[] = {
        {"v_cvt_scalef32_pk_bf8_f32 v0, v2, v4, v6", 0x7f000000, 0xff000000, 0x00800000,
         0xdeadfb7b},
        {"v_cvt_scalef32_pk_fp8_f32 v0, v2, v4, v6", 0x7f000000, 0xff000000, 0x00800000,
         0xdeadfe7e},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT | MODE_FP16_OVFL, saturated);
}

/* Converts thirty-two 6-bit numbers in both directions. Each code is preserved. */
TEST(six_bits_round_trip)
{
    static const char *const programs[] = {
        "v_cvt_scalef32_pk32_f32_fp6 v[16:47], v[0:5], v6\n"
        "v_cvt_scalef32_2xpk16_fp6_f32 v[8:13], v[16:31], v[32:47], v6",
        "v_cvt_scalef32_pk32_f16_bf6 v[16:31], v[0:5], v6\n"
        "v_cvt_scalef32_pk32_bf6_f16 v[8:13], v[16:31], v6",
        "v_cvt_scalef32_pk32_bf16_fp6 v[16:31], v[0:5], v6\n"
        "v_cvt_scalef32_sr_pk32_fp6_bf16 v[8:13], v[16:31], v7, v6",
    };
    for (unsigned k = 0; k < 3; k++) {
        struct program p = program_new(GFX950);
        for (unsigned i = 0; i < 64; i++) {
            uint64_t bits[4] = {0};
            for (unsigned e = 0; e < 32; e++) {
                uint64_t code = (e + i) & 63;
                bits[6 * e / 64] |= code << 6 * e % 64;
                if (6 * e % 64 > 58)
                    bits[6 * e / 64 + 1] |= code >> (64 - 6 * e % 64);
            }
            for (unsigned r = 0; r < 6; r++)
                p.v[r][i] = (uint32_t)(bits[r / 2] >> 32 * (r % 2));
            p.v[6][i] = 0x40800000;
            p.v[7][i] = 0xffffffff;
        }
        program_run(&p, programs[k]);
        for (unsigned i = 0; i < 64; i++) {
            for (unsigned e = 0; e < 32 && k > 0; e++) {
                unsigned at = 6 * e, w = at / 32, s = at % 32;
                uint64_t in = p.v[w][i] | (uint64_t)(w < 5 ? p.v[w + 1][i] : 0) << 32;
                uint64_t out = p.v[8 + w][i] | (uint64_t)(w < 5 ? p.v[9 + w][i] : 0) << 32;
                assert_int_equal(out >> s & 63, in >> s & 63);
            }
            /* The 2xpk16 form interleaves its sources: element 2n is of S0, element 2n + 1 of
             * S1. */
            for (unsigned e = 0; e < 32 && k == 0; e++) {
                unsigned from = e & 1 ? 16 + e / 2 : e / 2, at = 6 * e, in_at = 6 * from;
                uint64_t in = p.v[in_at / 32][i] |
                              (uint64_t)(in_at / 32 < 5 ? p.v[in_at / 32 + 1][i] : 0) << 32;
                uint64_t out =
                    p.v[8 + at / 32][i] | (uint64_t)(at / 32 < 5 ? p.v[9 + at / 32][i] : 0) << 32;
                assert_int_equal(out >> at % 32 & 63, in >> in_at % 32 & 63);
            }
        }
    }
}

/* fp6 e2m3 has bias 1. 1.0 is code 8, the largest number 7.5 is code 31, and a step is 1/8. */
TEST(six_bit_values)
{
    struct program p = program_new(GFX950);
    for (unsigned i = 0; i < 64; i++) {
        p.v[0][i] = i;
        p.v[6][i] = 0x3f800000;
    }
    program_run(&p, "v_cvt_scalef32_pk32_f32_fp6 v[16:47], v[0:5], v6\nv_mov_b32 v8, v16\n"
                    "v_cvt_scalef32_pk32_f32_bf6 v[16:47], v[0:5], v6");
    for (unsigned i = 0; i < 64; i++) {
        unsigned m = i & 31, e = m >> 3, f = m & 7;
        float want = e ? ldexpf(1 + (float)f / 8, (int)e - 1) : (float)f / 8;
        assert_int_equal(p.v[8][i], bits_of(i & 32 ? -want : want));
        e = m >> 2, f = m & 3;
        want = e ? ldexpf(1 + (float)f / 4, (int)e - 3) : ldexpf((float)f / 4, -2);
        assert_int_equal(p.v[16][i], bits_of(i & 32 ? -want : want));
    }
}

int main(void) { return run_unit_tests(); }
