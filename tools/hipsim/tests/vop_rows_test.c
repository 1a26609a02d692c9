/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests vector operations, compares and output modifiers that the other tests of VOP1 to VOP3P do
 * not cover. Expectations are from the pseudo-code of the CDNA3 and CDNA4 ISA.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"

#define ONE 0x3f800000
#define INF 0x7f800000
#define MINUS_INF 0xff800000
#define NANS 0x7f800001
#define ONE64 UINT64_C(0x3ff0000000000000)
#define INF64 UINT64_C(0x7ff0000000000000)
#define NANS64 UINT64_C(0x7ff0000000000001)
#define TOP64 UINT64_C(0x8000000000000000)

TEST(integers)
{
    static const struct op_case cases[] = {
        {"v_mul_lo_i32 v0, v2, v4", 0xffffffff, 5, 0, 0xfffffffb},
        {"v_mul_hi_i32 v0, v2, v4", 0x80000000, 2, 0, 0xffffffff},
        {"v_mul_hi_i32_i24 v0, v2, v4", 0x12ffffff, 0x34000001, 0, 0xffffffff},
        {"v_max_u32 v0, v2, v4", 0xffffffff, 1, 0, 0xffffffff},
        {"v_max3_i32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 5},
        {"v_min3_u32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 3},
        /* Shifts and widths have five bits, byte selects two. */
        {"v_bfe_u32 v0, v2, v4, v6", 0x12345678, 8 + 32, 24 + 32, 0x123456},
        {"v_bfe_u32 v0, v2, v4, v6", 0x12345678, 8, 32, 0},
        {"v_bfe_i32 v0, v2, v4, v6", 0x92345678, 8 + 32, 24 + 32, 0xff923456},
        {"v_alignbit_b32 v0, v2, v4, v6", 0x12345678, 0x9abcdef0, 20 + 32, 0x456789ab},
        {"v_alignbit_b32 v0, v2, v4, v6", 0x12345678, 0x9abcdef0, 32, 0x9abcdef0},
        {"v_alignbyte_b32 v0, v2, v4, v6", 0x12345678, 0x9abcdef0, 7, 0x3456789a},
        {"v_lshl_add_u32 v0, v2, v4, v6", 3, 36, 1, 49},
        {"v_add_lshl_u32 v0, v2, v4, v6", 3, 4, 33, 14},
        {"v_lshl_or_b32 v0, v2, v4, v6", 3, 36, 1, 49},
        {"v_bfm_b32 v0, v2, v4", 40, 36, 0, 0xff0},
        {"v_subrev_u32_e64 v0, v2, v4 clamp", 3, 2, 0, 0},
        {"v_mad_u32_u24 v0, v2, v4, v6 clamp", 0xffffff, 0xffffff, 0, 0xffffffff},
        {"v_mad_i32_i24 v0, v2, v4, v6 clamp", 0x7fffff, 0x7fffff, 0, 0x7fffffff},
        {"v_mad_i32_i24 v0, v2, v4, v6 clamp", 0x800000, 0x7fffff, 0, 0x80000000},
        {"v_sad_u8 v0, v2, v4, v6 clamp", 3, 1, 0xffffffff, 0xffffffff},
        {"v_sad_u8 v0, v2, v4, v6", 3, 1, 0xffffffff, 1},
        {"v_sad_hi_u8 v0, v2, v4, v6 clamp", 3, 1, 0xffffffff, 0xffffffff},
        {"v_sad_u16 v0, v2, v4, v6 clamp", 3, 1, 0xffffffff, 0xffffffff},
        {"v_sad_u32 v0, v2, v4, v6 clamp", 3, 1, 0xffffffff, 0xffffffff},
        {"v_msad_u8 v0, v2, v4, v6 clamp", 3, 1, 0xffffffff, 0xffffffff},
        {"v_mad_u32_u16 v0, v2, v4, v6 clamp", 0xffff, 0xffff, 0xffffffff, 0xffffffff},
        {"v_mad_i32_i16 v0, v2, v4, v6 clamp", 0x8000, 0x8000, 0x7fffffff, 0x7fffffff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(short_integers)
{
    static const struct op_case cases[] = {
        {"v_sub_u16_e64 v0, v2, v4 clamp", 1, 2, 0, 0},
        {"v_subrev_u16_e64 v0, v2, v4 clamp", 2, 1, 0, 0},
        {"v_add_i16 v0, v2, v4", 0x7fff, 1, 0, 0xdead8000},
        {"v_sub_i16 v0, v2, v4", 5, 7, 0, 0xdeadfffe},
        {"v_sub_i16 v0, v2, v4 clamp", 0x8000, 1, 0, 0xdead8000},
        {"v_mad_u16 v0, v2, v4, v6 clamp", 0x1000, 0x1000, 1, 0xdeadffff},
        {"v_mad_i16 v0, v2, v4, v6", 0xfffe, 3, 1, 0xdeadfffb},
        {"v_mad_i16 v0, v2, v4, v6 clamp", 0x7fff, 0x7fff, 0, 0xdead7fff},
        {"v_mad_legacy_u16 v0, v2, v4, v6", 3, 4, 5, 0x11}, /* the high half is cleared */
        {"v_mad_legacy_u16 v0, v2, v4, v6 clamp", 0x1000, 0x1000, 1, 0xffff},
        {"v_mad_legacy_i16 v0, v2, v4, v6", 0xfffe, 3, 1, 0xfffb},
        {"v_mad_legacy_i16 v0, v2, v4, v6 clamp", 0x8000, 0x7fff, 0, 0x8000},
        {"v_lshrrev_b16 v0, v2, v4", 20, 0xabcd8000, 0, 0x0800},
        {"v_max_u16 v0, v2, v4", 0xffff, 1, 0, 0xffff},
        {"v_min_i16 v0, v2, v4", 0xffff, 1, 0, 0xffff},
        {"v_max3_i16 v0, v2, v4, v6", 5, 0xfffe, 3, 0xdead0005},
        {"v_min3_i16 v0, v2, v4, v6", 5, 0xfffe, 3, 0xdeadfffe},
        {"v_min3_u16 v0, v2, v4, v6", 5, 0xfffe, 3, 0xdead0003},
        {"v_pk_add_i16 v0, v2, v4", 0x7fff0001, 0x0001ffff, 0, 0x80000000},
        {"v_pk_add_i16 v0, v2, v4 clamp", 0x7fff0001, 0x0001ffff, 0, 0x7fff0000},
        {"v_pk_sub_u16 v0, v2, v4", 0x00010005, 0x00020003, 0, 0xffff0002},
        {"v_pk_sub_u16 v0, v2, v4 clamp", 0x00010005, 0x00020003, 0, 0x00000002},
        {"v_pk_max_u16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0xffff0002},
        {"v_pk_min_i16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0xffff0001},
        {"v_pk_mad_i16 v0, v2, v4, v6 clamp", 0x7fff8000, 0x7fff7fff, 0, 0x7fff8000},
        {"v_pk_lshlrev_b16 v0, v2, v4", 0x00140018, 0x0fff00ff, 0, 0xfff0ff00},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case gfx950[] = {
        {"v_ashr_pk_i8_i32 v0, v2, v4, v6", 0xffff0000, 0x1000, 36, 0xdead7f80},
        {"v_ashr_pk_u8_i32 v0, v2, v4, v6", 0xffff0000, 0x1000, 36, 0xdeadff00},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, gfx950);
}

#define CARRY_OUT "\nv_cndmask_b32_e64 v0, 0, 1, vcc"

/* VCC has the carry or borrow of each lane, in and out. For V_MAD_I64_I32 it is bit 64. */
TEST(carries)
{
    static const struct op_case cases[] = {
        {"v_subrev_co_u32 v0, vcc, v2, v4", 2, 5, 0, 3},
        {"v_subrev_co_u32 v7, vcc, v2, v4" CARRY_OUT, 5, 2, 0, 1},
        {"v_subrev_co_u32 v7, vcc, v2, v4" CARRY_OUT, 5, 5, 0, 0},
        {"s_mov_b64 vcc, -1\nv_subbrev_co_u32 v0, vcc, v2, v4, vcc", 2, 5, 0, 2},
        {"s_mov_b64 vcc, -1\nv_subbrev_co_u32 v7, vcc, v2, v4, vcc" CARRY_OUT, 5, 5, 0, 1},
        {"s_mov_b64 vcc, 0\nv_subbrev_co_u32 v7, vcc, v2, v4, vcc" CARRY_OUT, 5, 5, 0, 0},
        {"s_mov_b64 vcc, -1\nv_subb_co_u32 v0, vcc, v2, v4, vcc", 0, 0xffffffff, 0, 0},
        {"s_mov_b64 vcc, -1\nv_subb_co_u32 v7, vcc, v2, v4, vcc" CARRY_OUT, 0, 0xffffffff, 0, 1},
        {"s_mov_b64 vcc, -1\nv_addc_co_u32 v7, vcc, v2, v4, vcc" CARRY_OUT, 0xffffffff, 0, 0, 1},
        {"s_mov_b64 vcc, 0\nv_addc_co_u32 v7, vcc, v2, v4, vcc" CARRY_OUT, 0xffffffff, 0, 0, 0},
        {"v_add_co_u32_e64 v0, vcc, v2, v4 clamp", 0xffffffff, 2, 0, 0xffffffff},
        {"v_sub_co_u32_e64 v0, vcc, v2, v4 clamp", 1, 2, 0, 0},
        {"v_mad_u64_u32 v[8:9], vcc, v2, v4, v[6:7]" CARRY_OUT, 0xffffffff, 0xffffffff, UINT64_MAX,
         1},
        {"v_mad_u64_u32 v[8:9], vcc, v2, v4, v[6:7]" CARRY_OUT, 0xffffffff, 0xffffffff, 2, 0},
        {"v_mad_u64_u32 v[0:1], vcc, v2, v4, v[6:7] clamp", 0xffffffff, 0xffffffff, UINT64_MAX,
         UINT64_MAX},
        {"v_mad_i64_i32 v[8:9], vcc, v2, v4, v[6:7]" CARRY_OUT, 1, 1, INT64_MAX, 0},
        {"v_mad_i64_i32 v[8:9], vcc, v2, v4, v[6:7]" CARRY_OUT, 0xffffffff, 1, TOP64, 1},
        {"v_mad_i64_i32 v[0:1], vcc, v2, v4, v[6:7] clamp", 1, 1, INT64_MAX, INT64_MAX},
        {"v_mad_i64_i32 v[0:1], vcc, v2, v4, v[6:7] clamp", 0xffffffff, 1, TOP64, TOP64},
        /* Compares bytes 1 1 1 1 0 0 0 0, from byte k on, with 0 0 2 0. Zeros are ignored. */
        {"v_mqsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7]", 0x01010101, 0x00020000,
         UINT64_C(0x0001000100010001), UINT64_C(0x0003000300020002)},
        {"v_mqsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7] clamp", 0x01010101, 0x00020000,
         UINT64_C(0xffff0001ffff0001), UINT64_C(0xffff0003ffff0002)},
        {"v_mqsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7]", 0x01010101, 0x00020000,
         UINT64_C(0xffff0001ffff0001), UINT64_C(0x0001000300000002)},
        {"v_mov_b32 v15, v6\nv_mqsad_u32_u8 v[8:11], v[2:3], v4, v[12:15]\nv_mov_b32 v0, v11",
         0x01010101, 0x00020000, 5, 7},
        {"v_mov_b32 v12, v6\nv_mqsad_u32_u8 v[8:11], v[2:3], v4, v[12:15]\nv_mov_b32 v0, v8",
         0x01010101, 0x00020000, 5, 6},
        {"v_mov_b32 v12, v6\nv_mqsad_u32_u8 v[8:11], v[2:3], v4, v[12:15] clamp\nv_mov_b32 v0, v8",
         0x01010101, 0x00020000, 0xffffffff, 0xffffffff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(halves)
{
    static const struct op_case cases[] = {
        {"v_ceil_f16 v0, v2", 0x3e00, 0, 0, 0x4000},
        {"v_ceil_f16 v0, v2", 0xb800, 0, 0, 0x8000},
        {"v_trunc_f16 v0, v2", 0xbe00, 0, 0, 0xbc00},
        {"v_fma_legacy_f16 v0, v2, v4, v6", 0x3c01, 0x3c01, 0xbc02, 0x0010},
        {"v_mov_b32 v0, v6\nv_mac_f16 v0, v2, v4", 0x4000, 0x4200, 0x3c00, 0x4700},
        {"v_madmk_f16 v0, v2, 0x4200, v4", 0x4000, 0x3c00, 0, 0x4700},
        {"v_max3_f16 v0, v2, v4, v6", 0x3c00, 0xc000, 0x4200, 0xdead4200},
        {"v_min3_f16 v0, v2, v4, v6", 0x3c00, 0xc000, 0x4200, 0xdeadc000},
        {"v_max_f16 v0, v2, v4", 0x7c01, 0x3c00, 0, 0x7e01}, /* IEEE mode makes the NaN quiet */
        {"v_min_f16 v0, v2, v4", 0x3c00, 0x7e00, 0, 0x3c00},
        {"v_div_fixup_legacy_f16 v0, v2, v4, v6", 0x3c00, 0, 0, 0xfe00},
        {"v_div_fixup_f16 v0, v2, v4, v6", 0x3c00, 0x8000, 0x3c00, 0xdeadfc00},
        {"v_div_fixup_f16 v0, v2, v4, v6", 0x3c00, 0x7c00, 0xbc00, 0xdead8000},
        {"v_frexp_mant_f16 v0, v2", 0x8001, 0, 0, 0xb800},
        {"v_mov_b32 v0, v6\nv_dot2c_i32_i16 v0, v2, v4", 0xffff0002, 0x00030004, 10, 15},
        {"v_mov_b32 v0, v6\nv_dot8c_i32_i4 v0, v2, v4", 0xf0000001, 0x10000001, 5, 5},
        {"v_dot2_i32_i16 v0, v2, v4, v6 clamp", 0x80008000, 0x80008000, 0x7fffffff, 0x7fffffff},
        {"v_dot2_u32_u16 v0, v2, v4, v6 clamp", 0xffffffff, 0xffffffff, 0, 0xffffffff},
        {"v_dot4_u32_u8 v0, v2, v4, v6 clamp", 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {"v_dot4_i32_i8 v0, v2, v4, v6 clamp", 0x80808080, 0x7f7f7f7f, 0x80000000, 0x80000000},
        {"v_dot8_i32_i4 v0, v2, v4, v6 clamp", 0x77777777, 0x77777777, 0x7fffffff, 0x7fffffff},
        {"v_dot8_u32_u4 v0, v2, v4, v6 clamp", 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case gfx950[] = {
        {"v_pk_maximum3_f16 v0, v2, v4, v6", 0x3c003c00, 0x7e004000, 0x40003800, 0x7e004000},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, gfx950);
}

TEST(floats)
{
    static const struct op_case cases[] = {
        {"v_ceil_f64 v[0:1], v[2:3]", UINT64_C(0xbfe0000000000000), 0, 0, TOP64},
        {"v_trunc_f64 v[0:1], v[2:3]", UINT64_C(0xbff8000000000000), 0, 0,
         UINT64_C(0xbff0000000000000)},
        {"v_mov_b64 v[0:1], v[6:7]\nv_fmac_f64 v[0:1], v[2:3], v[4:5]",
         UINT64_C(0x4000000000000000), UINT64_C(0x4008000000000000), ONE64,
         UINT64_C(0x401c000000000000)},
        {"v_exp_legacy_f32 v0, v2", 0x40400000, 0, 0, 0x41000000},
        {"v_log_legacy_f32 v0, v2", 0x41000000, 0, 0, 0x40400000},
        {"v_cvt_pkaccum_u8_f32 v0, v2, v4", 0x43160000, 2, 0, 0xde96beef},
        /* Operands are x, y, z. The largest magnitude selects the face. */
        {"v_cubesc_f32 v0, v2, v4, v6", ONE, 0x40000000, 0x40400000, ONE},
        {"v_cubesc_f32 v0, v2, v4, v6", ONE, 0x40000000, 0xc0400000, 0xbf800000},
        {"v_cubesc_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x3f000000, ONE},
        {"v_cubesc_f32 v0, v2, v4, v6", 0xc0400000, ONE, 0x40000000, 0x40000000},
        {"v_cubesc_f32 v0, v2, v4, v6", 0x40400000, ONE, 0x40000000, 0xc0000000},
        {"v_cubetc_f32 v0, v2, v4, v6", ONE, 0x40000000, 0xc0400000, 0xc0000000},
        {"v_cubetc_f32 v0, v2, v4, v6", ONE, 0xc0000000, 0x3f000000, 0xbf000000},
        {"v_cubetc_f32 v0, v2, v4, v6", ONE, 0x40000000, 0x3f000000, 0x3f000000},
        {"v_cubetc_f32 v0, v2, v4, v6", 0x40400000, ONE, 0x40000000, 0xbf800000},
        {"v_cubeid_f32 v0, v2, v4, v6", ONE, 0x40000000, 0xc0400000, 0x40a00000},
        {"v_cubeid_f32 v0, v2, v4, v6", ONE, ONE, ONE, 0x40800000},
        {"v_cubeid_f32 v0, v2, v4, v6", 0xc0400000, ONE, 0x40000000, ONE},
        {"v_cubema_f32 v0, v2, v4, v6", 0x40400000, ONE, 0x40000000, 0x40c00000},
        {"v_cubema_f32 v0, v2, v4, v6", ONE, ONE, 0xc0400000, 0xc0c00000},
        {"v_add_f64 v[0:1], v[2:3], v[4:5]", NANS64, ONE64, 0, NANS64 | UINT64_C(1) << 51},
        {"v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", 0, INF64, NANS64,
         UINT64_C(0xfff8000000000000)},
        {"v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", ONE64, ONE64, NANS64,
         NANS64 | UINT64_C(1) << 51},
        {"v_max_f64 v[0:1], v[2:3], v[4:5]", NANS64, ONE64, 0, NANS64 | UINT64_C(1) << 51},
        {"v_min_f64 v[0:1], v[2:3], v[4:5]", ONE64, UINT64_C(0x7ff8000000000000), 0, ONE64},
        {"v_div_fixup_f64 v[0:1], v[2:3], v[4:5], v[6:7]", ONE64, TOP64, ONE64,
         UINT64_C(0xfff0000000000000)},
        {"v_div_fixup_f64 v[0:1], v[2:3], v[4:5], v[6:7]", ONE64, INF64, ONE64 | TOP64, TOP64},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    /* The result overlaps the source. It is the source's NaN, not the host's. */
    static const struct op_case signaling[] = {
        {"v_mov_b32 v0, v2\nv_add_f32 v0, v0, v4", NANS, ONE, 0, NANS},
        {"v_mov_b32 v0, v2\nv_add_f32_e64 v0, v0, v4 mul:2", NANS, ONE, 0, NANS},
        {"v_max_f64 v[0:1], v[2:3], v[4:5]", NANS64, ONE64, 0, ONE64},
    };
    CHECK_CASES(GFX942, 0, signaling);
}

/* MODE.FP_DENORM: bit 0 of a field keeps subnormal sources, bit 1 subnormal results. Signs are
 * kept. */
TEST(flushed_halves_and_doubles)
{
    static const struct op_case cases[] = {
        {"v_add_f16 v0, v2, v4", 0x0001, 0x0001, 0, 0},
        {"v_max_f16 v0, v2, v4", 0x8001, 0x8001, 0, 0x8000},
        {"v_mul_f16 v0, v2, v4", 0x8400, 0x3800, 0, 0x8000},
        {"v_add_f64 v[0:1], v[2:3], v[4:5]", 1, 1, 0, 0},
        {"v_max_f64 v[0:1], v[2:3], v[4:5]", TOP64 | 1, TOP64 | 1, 0, TOP64},
        {"v_mul_f64 v[0:1], v[2:3], 0.5", UINT64_C(0x8010000000000000), 0, 0, TOP64},
        {"v_pk_max_f16 v0, v2, v4", 0x80018001, 0x80018001, 0, 0x80008000},
        {"v_pk_mul_f16 v0, v2, v4", 0x84000400, 0x38003800, 0, 0x80000000},
        {"v_add_f32 v0, v2, v4", 1, 1, 0, 2}, /* the other field applies */
    };
    CHECK_CASES(GFX942, MODE_DENORM_F32, cases);
    static const struct op_case singles[] = {
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", UINT64_C(0x8080000000800000),
         UINT64_C(0x3f0000003f000000), 0, TOP64},
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", UINT64_C(0x0000000100800000),
         UINT64_C(0x7f0000003f800000), 0, UINT64_C(0x0000000000800000)},
    };
    CHECK_CASES(GFX942, MODE_DENORM_F16_F64, singles);
}

TEST(clamped)
{
    static const struct op_case cases[] = {
        {"v_add_f16_e64 v0, v2, v4 clamp", 0x3c00, 0x3c00, 0, 0x3c00},
        {"v_add_f16_e64 v0, v2, v4 clamp", 0xc000, 0x3c00, 0, 0},
        {"v_add_f16_e64 v0, v2, v4 clamp", 0x7c00, 0xfc00, 0, 0},
        {"v_add_f64 v[0:1], v[2:3], v[4:5] clamp", ONE64, ONE64, 0, ONE64},
        {"v_add_f64 v[0:1], v[2:3], -v[4:5] clamp", 0, ONE64, 0, 0},
        {"v_add_f64 v[0:1], v[2:3], -v[4:5] clamp", INF64, INF64, 0, 0},
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] clamp", UINT64_C(0x400000003f000000),
         UINT64_C(0x400000003f000000), 0, UINT64_C(0x3f8000003e800000)},
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] clamp", UINT64_C(0xc000000040000000),
         UINT64_C(0x4000000040000000), 0, ONE},
        {"v_pk_add_f16 v0, v2, v4 clamp", 0x40003800, 0x40003400, 0, 0x3c003a00},
        {"v_pk_add_f16 v0, v2, v4 clamp", 0x7c00c000, 0xfc003c00, 0, 0},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    /* Without DX10_CLAMP a NaN is kept. */
    static const struct op_case kept[] = {
        {"v_add_f32_e64 v0, v2, v4 clamp", INF, MINUS_INF, 0, 0xffc00000},
        {"v_add_f16_e64 v0, v2, v4 clamp", 0x7c00, 0xfc00, 0, 0xfe00},
        {"v_add_f64 v[0:1], v[2:3], -v[4:5] clamp", INF64, INF64, 0, UINT64_C(0xfff8000000000000)},
        {"v_pk_add_f16 v0, v2, v4 clamp", 0x7c00c000, 0xfc003c00, 0, 0xfe000000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT & ~(uint32_t)MODE_DX10_CLAMP, kept);
}

/* Manual, "Output modifiers": omod has no effect in IEEE mode, nor if output denormals are kept. */
TEST(multiplied)
{
    static const struct op_case plain[] = {
        {"v_add_f32_e64 v0, v2, v4 mul:2", ONE, ONE, 0, 0x40000000},
        {"v_add_f16_e64 v0, v2, v4 mul:2", 0x3c00, 0x3c00, 0, 0x4000},
        {"v_add_f64 v[0:1], v[2:3], v[4:5] mul:2", ONE64, ONE64, 0, UINT64_C(0x4000000000000000)},
    };
    CHECK_CASES(GFX942, MODE_IEEE, plain);
    CHECK_CASES(GFX942, MODE_DENORM_F32 | MODE_DENORM_F16_F64, plain);
    static const struct op_case scaled[] = {
        {"v_add_f16_e64 v0, v2, v4 mul:2", 0x3c00, 0x3c00, 0, 0x4400},
        {"v_mul_f16_e64 v0, v2, v4 mul:2", 0x8000, 0x3c00, 0, 0},
        {"v_add_f16_e64 v0, v2, v4 div:2", 0x3c00, 0x3c00, 0, 0x3c00},
        {"v_add_f64 v[0:1], v[2:3], v[4:5] mul:4", ONE64, ONE64, 0, UINT64_C(0x4020000000000000)},
        {"v_mul_f64 v[0:1], v[2:3], v[4:5] mul:2", TOP64, ONE64, 0, 0},
        {"v_mul_f64 v[0:1], v[2:3], v[4:5] div:2", ONE64, ONE64, 0, UINT64_C(0x3fe0000000000000)},
    };
    CHECK_CASES(GFX942, 0, scaled);
}

/* The functions from here on test conversions with a scale. */

#define SCALE_4 0x40800000

TEST(scaled_conversions)
{
    static const struct op_case cases[] = {
        {"v_cvt_scalef32_f16_bf8 v0, v2, v4 op_sel:[0,0,1]", 0x3c, SCALE_4, 0, 0x4400beef},
        {"v_cvt_scalef32_pk_bf16_bf8 v0, v2, v4", 0x403c, SCALE_4, 0, 0x41004080},
        {"v_cvt_scalef32_pk_bf16_fp8 v0, v2, v4", 0x4038, SCALE_4, 0, 0x41004080},
        {"v_cvt_scalef32_pk_f16_fp8 v0, v2, v4 op_sel:[1,0,0]", 0x40380000, SCALE_4, 0, 0x48004400},
        {"v_cvt_scalef32_pk_f32_bf8 v[0:1], v2, v4", 0x403c, SCALE_4, 0,
         UINT64_C(0x4100000040800000)},
        {"v_cvt_scalef32_pk_f16_fp4 v0, v2, v4", 0x62, SCALE_4, 0, 0x4c004400},
        {"v_cvt_scalef32_pk_bf8_bf16 v0, v2, v4 op_sel:[0,0,1]", 0x41004080, SCALE_4, 0,
         0x403cbeef},
        {"v_cvt_scalef32_pk_bf8_f16 v0, v2, v4", 0x48004400, SCALE_4, 0, 0xdead403c},
        {"v_cvt_scalef32_pk_fp8_f16 v0, v2, v4", 0x48004400, SCALE_4, 0, 0xdead4038},
        {"v_cvt_scalef32_pk_fp4_bf16 v0, v2, v4", 0x41804080, SCALE_4, 0, 0xdeadbe62},
        /* Half a step: the highest random bit determines the rounding. */
        {"v_cvt_scalef32_sr_bf8_f16 v0, v2, v4, v6", 0x3c80, 0x80000000, ONE, 0xdeadbe3d},
        {"v_cvt_scalef32_sr_bf8_f16 v0, v2, v4, v6", 0x3c80, 0x7fffffff, ONE, 0xdeadbe3c},
        {"v_cvt_scalef32_sr_bf8_f32 v0, v2, v4, v6", 0x3f900000, 0x80000000, ONE, 0xdeadbe3d},
        {"v_cvt_scalef32_sr_bf8_f32 v0, v2, v4, v6", 0x3f900000, 0x7fffffff, ONE, 0xdeadbe3c},
        {"v_cvt_scalef32_sr_fp8_bf16 v0, v2, v4, v6", 0x3f88, 0x80000000, ONE, 0xdeadbe39},
        {"v_cvt_scalef32_sr_fp8_bf16 v0, v2, v4, v6", 0x3f88, 0x7fffffff, ONE, 0xdeadbe38},
        {"v_mov_b32 v3, v2\nv_cvt_scalef32_sr_pk_fp4_f32 v0, v[2:3], v4, v6", 0x3fa00000,
         0xffffffff, ONE, 0xdeadbe33},
        {"v_mov_b32 v3, v2\nv_cvt_scalef32_sr_pk_fp4_f32 v0, v[2:3], v4, v6", 0x3fa00000, 0, ONE,
         0xdeadbe22},
        {"v_cvt_scalef32_sr_pk_fp4_f16 v0, v2, v4, v6", 0x3d003d00, 0xffffffff, ONE, 0xdeadbe33},
        {"v_cvt_scalef32_sr_pk_fp4_f16 v0, v2, v4, v6", 0x3d003d00, 0, ONE, 0xdeadbe22},
        {"v_cvt_scalef32_sr_pk_fp4_bf16 v0, v2, v4, v6", 0x3fa03fa0, 0xffffffff, ONE, 0xdeadbe33},
        {"v_cvt_scalef32_sr_pk_fp4_bf16 v0, v2, v4, v6", 0x3fa03fa0, 0, ONE, 0xdeadbe22},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
}

static void put_code(uint32_t *words, unsigned e, uint32_t code)
{
    for (unsigned b = 0; b < 6; b++)
        words[(6 * e + b) / 32] |= (code >> b & 1) << (6 * e + b) % 32;
}

static uint32_t get_code(const struct program *p, unsigned reg, unsigned lane, unsigned e)
{
    uint32_t code = 0;
    for (unsigned b = 0; b < 6; b++)
        code |= (p->v[reg + (6 * e + b) / 32][lane] >> (6 * e + b) % 32 & 1) << b;
    return code;
}

/* Converts thirty-two 6-bit numbers through each wide type. Each code is preserved, also with
 * stochastic rounding, since no number needs rounding. The scale is 4 in both directions. */
TEST(six_bits_by_every_type)
{
    static const char *const types[] = {"f32", "f16", "bf16"}, *const narrow[] = {"fp6", "bf6"};
    for (unsigned k = 0; k < 12; k++) {
        const char *wide = types[k % 3], *six = narrow[k / 3 % 2];
        const bool single = k % 3 == 0, random = k >= 6;
        char text[256];
        struct program p = program_new(GFX950);
        int n = snprintf(text, sizeof(text), "v_cvt_scalef32_pk32_%s_%s v[16:%u], v[0:5], v6\n",
                         wide, six, single ? 47 : 31);
        if (single && !random)
            snprintf(text + n, sizeof(text) - (size_t)n,
                     "v_cvt_scalef32_2xpk16_%s_f32 v[8:13], v[16:31], v[32:47], v6", six);
        else
            snprintf(text + n, sizeof(text) - (size_t)n,
                     "v_cvt_scalef32_%spk32_%s_%s v[8:13], v[16:%u]%s, v6", random ? "sr_" : "",
                     six, wide, single ? 47 : 31, random ? ", v7" : "");
        program_fill(&p, 6, SCALE_4);
        program_fill(&p, 7, 0xffffffff);
        for (unsigned l = 0; l < 64; l++) {
            uint32_t words[6] = {0};
            for (unsigned e = 0; e < 32; e++)
                put_code(words, e, (7 * e + l) & 63);
            for (unsigned r = 0; r < 6; r++)
                p.v[r][l] = words[r];
        }
        program_run(&p, text);
        for (unsigned l = 0; l < 64; l++)
            for (unsigned e = 0; e < 32; e++) {
                /* 2xpk16 interleaves its two sources. */
                const unsigned from = single && !random ? e % 2 * 16 + e / 2 : e;
                if (get_code(&p, 8, l, e) != ((7 * from + l) & 63))
                    fail_msg("%s: element %u of lane %u", text, e, l);
            }
    }
}

/* The functions from here on test compares. */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static const struct relation {
    const char *name;
    unsigned holds;
} integer_relations[] =
    {{"f", 0},        {"lt", LESS},           {"eq", EQUAL},           {"le", LESS | EQUAL},
     {"gt", GREATER}, {"ne", LESS | GREATER}, {"ge", EQUAL | GREATER}, {"t", 7}},
  float_relations[] = {{"f", 0},    {"lt", 1},   {"eq", 2},   {"le", 3},  {"gt", 4},   {"lg", 5},
                       {"ge", 6},   {"o", 7},    {"u", 8},    {"nge", 9}, {"nlg", 10}, {"ngt", 11},
                       {"nle", 12}, {"neq", 13}, {"nlt", 14}, {"tru", 15}};

#define PAIRS 8

/* Runs V_CMP and V_CMPX with each relation. `order` gives the pair of each lane. */
static void check_compares(const char *type, unsigned dwords, const struct relation *relations,
                           unsigned count, const uint64_t (*pairs)[2], const unsigned *order)
{
    char text[4096], *at = text;
    const char *operands = dwords == 2 ? "v[2:3], v[4:5]" : "v2, v4";
    struct program p = program_new(GFX942);
    for (unsigned l = 0; l < PAIRS; l++)
        for (unsigned k = 0; k < 2; k++) {
            p.v[2 + 2 * k][l] = (uint32_t)pairs[l][k];
            p.v[3 + 2 * k][l] = (uint32_t)(pairs[l][k] >> 32);
        }
    p.exec = (1 << PAIRS) - 1;
    for (unsigned r = 0; r < count; r++)
        at += sprintf(at,
                      "v_cmp_%s_%s_e64 s[%u:%u], %s\nv_cmpx_%s_%s_e64 s[%u:%u], %s\n"
                      "s_mov_b64 s[%u:%u], exec\ns_mov_b64 exec, 0xff\n",
                      relations[r].name, type, 6 * r, 6 * r + 1, operands, relations[r].name, type,
                      6 * r + 2, 6 * r + 3, operands, 6 * r + 4, 6 * r + 5);
    program_run(&p, text);
    for (unsigned r = 0; r < count; r++) {
        uint64_t want = 0;
        for (unsigned l = 0; l < PAIRS; l++)
            want |= (uint64_t)((relations[r].holds & order[l]) != 0) << l;
        for (unsigned k = 0; k < 3; k++)
            if (program_s64(&p, 6 * r + 2 * k) != want)
                fail_msg("%s_%s: %llx, not %llx", relations[r].name, type,
                         (unsigned long long)program_s64(&p, 6 * r + 2 * k),
                         (unsigned long long)want);
    }
}

TEST(compares_of_integers)
{
    static const struct {
        const char *type;
        unsigned bits;
        bool is_signed;
    } types[] = {{"i16", 16, true},  {"u16", 16, false}, {"i32", 32, true},
                 {"u32", 32, false}, {"i64", 64, true},  {"u64", 64, false}};
    for (unsigned t = 0; t < 6; t++) {
        const unsigned bits = types[t].bits;
        const uint64_t top = UINT64_C(1) << (bits - 1), all = top | (top - 1);
        /* Bits above the lower 16 are ignored. */
        const uint64_t above = bits == 16 ? 0xabcd0000 : 0;
        const uint64_t pairs[PAIRS][2] = {{1, 2},     {2 | above, 2},   {2, 1 | above},
                                          {all, 1},   {1 | above, all}, {top, top - 1},
                                          {all, all}, {top, all}};
        unsigned order[PAIRS];
        for (unsigned l = 0; l < PAIRS; l++) {
            const uint64_t a = pairs[l][0] & all, b = pairs[l][1] & all;
            const uint64_t flip = types[t].is_signed ? top : 0; /* signed order as unsigned order */
            order[l] = (a ^ flip) < (b ^ flip) ? LESS : a == b ? EQUAL : GREATER;
        }
        check_compares(types[t].type, bits == 64 ? 2 : 1, integer_relations, 8, pairs, order);
    }
}

TEST(compares_of_floats)
{
    static const unsigned order[PAIRS] = {LESS,      EQUAL, GREATER, UNORDERED,
                                          UNORDERED, EQUAL, LESS,    EQUAL};
    /* Pairs: 1 2, 2 2, 2 1, NaN 1, 1 NaN, -0 0, -2 1, inf inf. */
    static const uint64_t half[PAIRS][2] = {{0x3c00, 0x4000}, {0x4000, 0x4000}, {0x4000, 0x3c00},
                                            {0x7e00, 0x3c00}, {0x3c00, 0xfe00}, {0x8000, 0},
                                            {0xc000, 0x3c00}, {0x7c00, 0x7c00}};
    static const uint64_t single[PAIRS][2] = {
        {ONE, 0x40000000}, {0x40000000, 0x40000000}, {0x40000000, ONE}, {0x7fc00000, ONE},
        {ONE, 0xffc00000}, {0x80000000, 0},          {0xc0000000, ONE}, {INF, INF}};
    uint64_t wide[PAIRS][2];
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        wide[i / 2][i % 2] = bits_of64((double)float_of((uint32_t)single[i / 2][i % 2]));
    check_compares("f16", 1, float_relations, 16, half, order);
    check_compares("f32", 1, float_relations, 16, single, order);
    check_compares("f64", 2, float_relations, 16, (const uint64_t (*)[2])wide, order);
}

#define CLASSES 10

/* Each bit of the mask is a class: signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0,
 * +subnormal, +normal, +inf. */
TEST(classes_of_floats)
{
    static const uint64_t values[3][CLASSES] = {
        {0x7c01, 0x7e01, 0xfc00, 0x8400, 0x83ff, 0x8000, 0, 0x03ff, 0x0400, 0x7c00},
        {NANS, 0x7fc00001, MINUS_INF, 0x80800000, 0x807fffff, 0x80000000, 0, 0x007fffff, 0x00800000,
         INF},
        {NANS64, UINT64_C(0x7ff8000000000001), INF64 | TOP64, UINT64_C(0x8010000000000000),
         UINT64_C(0x800fffffffffffff), TOP64, 0, UINT64_C(0x000fffffffffffff),
         UINT64_C(0x0010000000000000), INF64},
    };
    static const char *const types[] = {"f16", "f32", "f64"};
    for (unsigned t = 0; t < 3; t++) {
        char text[2048], *at = text;
        struct program p = program_new(GFX942);
        for (unsigned l = 0; l < CLASSES; l++) {
            p.v[2][l] = (uint32_t)values[t][l], p.v[3][l] = (uint32_t)(values[t][l] >> 32);
            program_fill(&p, 10 + l, 1u << l);
        }
        p.exec = (1 << CLASSES) - 1;
        const char *value = t == 2 ? "v[2:3]" : "v2";
        for (unsigned c = 0; c < CLASSES; c++)
            at += sprintf(at,
                          "v_cmp_class_%s s[%u:%u], %s, v%u\nv_cmpx_class_%s s[%u:%u], %s, v%u\n"
                          "s_mov_b64 exec, 0x3ff\n",
                          types[t], 4 * c, 4 * c + 1, value, 10 + c, types[t], 4 * c + 2, 4 * c + 3,
                          value, 10 + c);
        program_run(&p, text);
        for (unsigned c = 0; c < 2 * CLASSES; c++)
            if (program_s64(&p, 2 * c) != UINT64_C(1) << c / 2)
                fail_msg("%s, bit %u: %llx", types[t], c / 2,
                         (unsigned long long)program_s64(&p, 2 * c));
    }
}

int main(void) { return run_unit_tests(); }
