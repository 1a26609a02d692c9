/* SPDX-License-Identifier: Apache-2.0 */
/* Tests scalar and packed f16 arithmetic, and VOP3P: CDNA3 and CDNA4 ISA, VOP2, VOP3, VOP3P
 * sections. */
#include "tools/hipsim/tests/program.h"

TEST(halves)
{
    static const struct op_case cases[] = {
        /* VOP2 forms clear the high half. Forms with op_sel keep it. */
        {"v_add_f16 v0, 1.0, v2", 0xabcd4000, 0, 0, 0x4200},
        {"v_sub_f16 v0, v2, v4", 0x4000, 0x3c00, 0, 0x3c00},
        {"v_mul_f16 v0, v2, v4", 0x4200, 0x4200, 0, 0x4880},
        {"v_mul_f16 v0, v2, v4", 0x7bff, 0x4000, 0, 0x7c00},
        {"v_add_f16 v0, v2, v4", 0x0001, 0x0001, 0, 0x0002},
        {"v_add_f16_e64 v0, -v2, |v4|", 0x3c00, 0xc000, 0, 0x3c00},
        {"v_fma_f16 v0, v2, v4, v6", 0x3c01, 0x3c01, 0xbc02, 0xdead0010},
        {"v_fma_f16 v0, v2, v4, v6 op_sel:[1,0,0,1]", 0x40000000, 0x3c00, 0x3c00, 0x4200beef},
        /* The sum is rounded once: 0x3c01^2 + 2^-24 is just above a tie, which a plain f32 would
         * lose. */
        {"v_fma_f16 v0, v2, v4, v6", 0x3c00, 0x6800, 0x0001, 0xdead6800},
        {"v_mad_f16 v0, v2, v4, v6", 0x3c01, 0x3c01, 0xbc02, 0xdead0000},
        /* Sources, product and sum are flushed regardless of MODE. */
        {"v_mad_f16 v0, v2, v4, v6", 0x03ff, 0x4400, 0x83ff, 0xdead0000},
        {"v_mad_legacy_f16 v0, v2, v4, v6", 0x0400, 0x3800, 0x0400, 0x0400},
        {"v_madak_f16 v0, v2, v4, 0x8400", 0x0500, 0x3c00, 0, 0},
        {"v_floor_f16 v0, v2", 0xbe00, 0, 0, 0xc000},
        {"v_rndne_f16 v0, v2", 0x4100, 0, 0, 0x4000},
        {"v_fract_f16 v0, v2", 0xb400, 0, 0, 0x3a00},
        {"v_ldexp_f16 v0, v2, v4", 0x3c00, 0xfff0, 0, 0x0100},
        {"v_max_f16 v0, v2, v4", 0x7e00, 0xc000, 0, 0xc000},
        {"v_min_f16 v0, v2, v4", 0x0000, 0x8000, 0, 0x8000},
        {"v_med3_f16 v0, v2, v4, v6", 0x3c00, 0x4000, 0x4200, 0xdead4000},
        {"v_frexp_mant_f16 v0, v2", 0x4a00, 0, 0, 0x3a00},
        {"v_frexp_exp_i16_f16 v0, v2", 0x4a00, 0, 0, 4},
        {"v_frexp_exp_i16_f16 v0, v2", 0x0001, 0, 0, 0xffe9},
        {"v_rcp_f16 v0, v2", 0x4400, 0, 0, 0x3400},
        {"v_exp_f16 v0, v2", 0x4200, 0, 0, 0x4800},
        {"v_log_f16 v0, v2", 0x4800, 0, 0, 0x4200},
        {"v_sqrt_f16 v0, v2", 0x4080, 0, 0, 0x3e00},
        {"v_rsq_f16 v0, v2", 0x4400, 0, 0, 0x3800},
        {"v_sin_f16 v0, v2", 0x3400, 0, 0, 0x3c00},
        {"v_cos_f16 v0, v2", 0x3800, 0, 0, 0xbc00},
        {"v_div_fixup_f16 v0, v2, v4, v6", 0x3c00, 0, 0, 0xdeadfe00},
        {"v_madak_f16 v0, v2, v4, 0x4000", 0x4200, 0x3c00, 0, 0x4500},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(rounded_halves)
{
    static const struct op_case up[] = {
        {"v_add_f16 v0, v2, v4", 0x7800, 0x0001, 0, 0x7801}, /* 2^-24 determines the rounding */
        {"v_mul_f16 v0, v2, v4", 0xfbff, 0x4000, 0, 0xfbff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1 << 2, up);
    /* IEEE 754, 6.3: x - x is -0 if the mode rounds down. */
    static const struct op_case down[] = {
        {"v_add_f16 v0, v2, v4", 0x3c00, 0xbc00, 0, 0x8000},
        {"v_add_f16 v0, v2, v4", 0, 0, 0, 0},
        {"v_subrev_f16 v0, v2, v4", 0, 0, 0, 0x8000},
        {"v_fma_f16 v0, v2, v4, v6", 0x8000, 0x3c00, 0, 0xdead8000},
        {"v_mad_legacy_f16 v0, v2, v4, v6", 0x3c00, 0x3c00, 0xbc00, 0x8000},
        {"v_pk_add_f16 v0, v2, v4", 0x3c000000, 0xbc000000, 0, 0x80000000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 2 << 2, down);
    /* Transcendentals round to nearest in each mode, as rocjitsu measured (transcendental.h). */
    static const struct op_case nearest[] = {
        {"v_cos_f16 v0, v2", 0, 0, 0, 0x3c00},
        {"v_cos_f16 v0, v2", 0x6153, 0, 0, 0xbc00}, /* 681.5 turns */
        {"v_sin_f16 v0, v2", 0xb400, 0, 0, 0xbc00},
        {"v_exp_f16 v0, v2", 0x7c00, 0, 0, 0x7c00},
        {"v_exp_f16 v0, v2", 0x4d00, 0, 0, 0x7c00},
        {"v_rcp_f16 v0, v2", 0x4200, 0, 0, 0x3555},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 3 << 2, nearest);
    static const struct op_case saturated[] = {
        {"v_mul_f16 v0, v2, v4", 0x7bff, 0x4000, 0, 0x7bff},
        {"v_mul_f16 v0, v2, v4", 0x7c00, 0x4000, 0, 0x7c00},
        {"v_rcp_f16 v0, v2", 0x8000, 0, 0, 0xfbff}, /* measured by rocjitsu */
        {"v_rcp_f16 v0, v2", 0x7c00, 0, 0, 0},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | MODE_FP16_OVFL, saturated);
}

TEST(packed_halves)
{
    static const struct op_case cases[] = {
        {"v_pk_add_f16 v0, v2, v4", 0x40003c00, 0x3c003c00, 0, 0x42004000},
        /* op_sel selects the source halves of the low result, op_sel_hi the halves of the high
         * result. */
        {"v_pk_add_f16 v0, v2, v4 op_sel:[1,0] op_sel_hi:[0,1]", 0x40003c00, 0x3c003c00, 0,
         0x40004200},
        {"v_pk_mul_f16 v0, v2, v4 neg_lo:[1,0] neg_hi:[0,1]", 0x40003c00, 0x40004000, 0,
         0xc400c000},
        {"v_pk_fma_f16 v0, v2, v4, v6", 0x40003c00, 0x40004000, 0x3c003c00, 0x45004200},
        {"v_pk_add_f16 v0, v2, 1.0", 0x40003c00, 0, 0, 0x40004000}, /* the constant is in the low
                                                                       half */
        {"v_pk_add_f16 v0, v2, 1.0 op_sel_hi:[1,0]", 0x40003c00, 0, 0, 0x42004000},
        {"v_pk_max_f16 v0, v2, v4", 0xc0003c00, 0x3c007e00, 0, 0x3c003c00},
        {"v_pk_min_f16 v0, v2, v4 clamp", 0xc0004000, 0x3c004400, 0, 0x00003c00},
        {"v_pk_add_u16 v0, v2, v4", 0xffff0001, 0x00020003, 0, 0x00010004},
        {"v_pk_add_u16 v0, v2, v4 clamp", 0xffff0001, 0x00020003, 0, 0xffff0004},
        {"v_pk_sub_i16 v0, v2, v4 clamp", 0x80000001, 0x00010003, 0, 0x8000fffe},
        {"v_pk_mad_i16 v0, v2, v4, v6", 0xffff0002, 0x00030004, 0x00010001, 0xfffe0009},
        {"v_pk_mad_u16 v0, v2, v4, v6 clamp", 0x10000002, 0x10000004, 0x00010001, 0xffff0009},
        {"v_pk_mul_lo_u16 v0, v2, v4", 0x10010002, 0x10010004, 0, 0x20010008},
        {"v_pk_lshlrev_b16 v0, v2, v4", 0x00040008, 0x0fff00ff, 0, 0xfff0ff00},
        {"v_pk_lshrrev_b16 v0, v2, v4", 0x00040008, 0x8000ff00, 0, 0x080000ff},
        {"v_pk_ashrrev_i16 v0, v2, v4", 0x00040008, 0x8000ff00, 0, 0xf800ffff},
        {"v_pk_max_i16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0x00000002},
        {"v_pk_min_u16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0x00000001},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case propagating[] = {
        {"v_pk_minimum3_f16 v0, v2, v4, v6", 0x3c003c00, 0x7e004000, 0x40003800, 0x7e003800},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, propagating);
}

TEST(packed_singles)
{
    static const struct op_case cases[] = {
        {"v_pk_add_f32 v[0:1], v[2:3], v[4:5]", UINT64_C(0x400000003f800000),
         UINT64_C(0x3f8000003f800000), 0, UINT64_C(0x4040000040000000)},
        {"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1]",
         UINT64_C(0x400000003f800000), UINT64_C(0x4080000041000000), 0,
         UINT64_C(0x4080000041800000)},
        {"v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] neg_lo:[1,0,0]", UINT64_C(0x400000003f800000),
         UINT64_C(0x4080000041000000), UINT64_C(0x3f8000003f800000), UINT64_C(0x41100000c0e00000)},
        {"v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", UINT64_C(0x1111111122222222),
         UINT64_C(0x3333333344444444), 0, UINT64_C(0x4444444411111111)},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(mixed_precision)
{
    static const struct op_case cases[] = {
        {"v_fma_mix_f32 v0, v2, v4, v6", 0x40000000, 0x40400000, 0x3f800000, 0x40e00000},
        {"v_fma_mix_f32 v0, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,1,0]", 0x40000000, 0x4200,
         0x3f800000, 0x40e00000},
        {"v_fma_mix_f32 v0, -v2, |v4|, v6", 0x40000000, 0xc0400000, 0x3f800000, 0xc0a00000},
        {"v_fma_mixlo_f16 v0, v2, v4, v6", 0x40000000, 0x40400000, 0x3f800000, 0xdead4700},
        {"v_fma_mixhi_f16 v0, v2, v4, v6", 0x40000000, 0x40400000, 0x3f800000, 0x4700beef},
        {"v_fma_mixlo_f16 v0, v2, v4, v6 clamp", 0x40000000, 0x40400000, 0x3f800000, 0xdead3c00},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

/* MODE.FP_ROUND of f32 applies to the fma, MODE.FP_ROUND of f16 to its conversion. MODE also
 * determines what both flush. */
TEST(mixed_precision_modes)
{
    static const struct op_case up[] = {
        /* 1 + 2^-24, then rounded to f16 by nearest. */
        {"v_fma_mix_f32 v0, v2, v4, v6", 0x3f800000, 0x3f800000, 0x33800000, 0x3f800001},
        {"v_fma_mixlo_f16 v0, v2, v4, v6", 0x3f801000, 0x3f800000, 0x2f800000, 0xdead3c01},
        {"v_fma_mixhi_f16 v0, v2, v4, v6", 0x7f7fffff, 0x40000000, 0xff7fffff, 0x7c00beef},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1, up);
    static const struct op_case down[] = {
        {"v_fma_mixlo_f16 v0, v2, v4, v6", 0x3f800000, 0x3f800000, 0xbf800000, 0xdead8000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 2, down);
    static const struct op_case flushed[] = {
        {"v_fma_mix_f32 v0, v2, v4, v6", 0x80800000, 0x3f000000, 0x80000000, 0x80000000},
        {"v_fma_mixlo_f16 v0, v2, v4, v6", 0xb8000000, 0x3f800000, 0x80000000, 0xdead8000},
    };
    CHECK_CASES(GFX942, MODE_IEEE | MODE_DX10_CLAMP, flushed);
}

/* Float dot products flush denormals and round to nearest regardless of MODE: CDNA4 ISA, 6.4, and
 * for f32 LLVM, SITargetLowering::performFMACombine(). */
TEST(dot2_ignores_mode)
{
    static const struct op_case cases[] = {
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0, 0x3c00, 0x80123456, 0},
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0x80008000, 0x3c003c00, 0x80123456, 0x80000000},
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0x0001, 0x3c00, 0x00123456, 0},
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0x0400, 0x0400, 0x00123456, 0x31800000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16 v0, v2, v4", 0, 0x3c00, 0x00123456, 0},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case up[] = {
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0x3c00, 0x3c00, 0x33000000, 0x3f800000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT | 1, up);
    static const struct op_case bf16[] = {
        {"v_dot2_f32_bf16 v0, v2, v4, v6", 0x00010001, 0x7f003f80, 0x00123456, 0},
        {"v_dot2_f32_bf16 v0, v2, v4, v6", 0x0080, 0x3f00, 0, 0},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_bf16 v0, v2, v4", 0x0001, 0x7f00, 0x00123456, 0},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, bf16);
}

/* ABS and NEG apply to an input operand (CDNA4 ISA, 6.2.1, and DPP's fields, 13.3), so to both of
 * its numbers. ABS comes first. */
TEST(packed_operands_of_vop2_have_two_signs)
{
    static const struct op_case cases[] = {
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16_e64 v0, |v2|, v4", 0xc000bc00, 0x42003c00, 0x3f800000,
         0x41000000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16_e64 v0, -v2, v4", 0x40003c00, 0x42003c00, 0x3f800000,
         0xc0c00000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16_e64 v0, v2, -|v4|", 0x40003c00, 0xc2003c00, 0x3f800000,
         0xc0c00000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16_dpp v0, -v2, |v4| quad_perm:[0,1,2,3] row_mask:0xf "
         "bank_mask:0xf",
         0x40003c00, 0x4200bc00, 0x3f800000, 0xc0c00000},
        {"v_mov_b32 v0, v6\nv_pk_fmac_f16_e64 v0, -v2, |v4|", 0x40003c00, 0xc000c000, 0x3c003c00,
         0xc200bc00},
        {"v_mov_b32 v0, v6\nv_pk_fmac_f16_dpp v0, |v2|, -v4 quad_perm:[0,1,2,3] row_mask:0xf "
         "bank_mask:0xf",
         0xc000bc00, 0x40004000, 0x3c003c00, 0xc200bc00},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case bf16[] = {
        {"v_mov_b32 v0, v6\nv_dot2c_f32_bf16_e64 v0, |v2|, v4", 0xc000bf80, 0x40403f80, 0x3f800000,
         0x41000000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_bf16_dpp v0, v2, -v4 quad_perm:[0,1,2,3] row_mask:0xf "
         "bank_mask:0xf",
         0x40003f80, 0x40403f80, 0x3f800000, 0xc0c00000},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, bf16);
}

TEST(dot_products)
{
    static const struct op_case cases[] = {
        {"v_dot2_f32_f16 v0, v2, v4, v6", 0x40003c00, 0x42003c00, 0x3f800000, 0x41000000},
        {"v_dot2_f32_f16 v0, v2, v4, v6 neg_lo:[1,0,0]", 0x40003c00, 0x42003c00, 0x3f800000,
         0x40c00000},
        {"v_dot2_f32_f16 v0, v2, v4, v6 neg_lo:[0,0,1]", 0x40003c00, 0x42003c00, 0x3f800000,
         0x40c00000},
        /* as LLVM encodes -S1 and -S2 */
        {"v_dot2_f32_f16 v0, v2, v4, v6 neg_lo:[0,1,1] neg_hi:[0,1,1]", 0x40003c00, 0x42003c00,
         0x3f800000, 0xc1000000},
        {"v_dot2_i32_i16 v0, v2, v4, v6", 0xffff0002, 0x00030004, 10, 15},
        {"v_dot2_u32_u16 v0, v2, v4, v6", 0xffff0002, 0x00030004, 10, 0x3000f},
        {"v_dot4_i32_i8 v0, v2, v4, v6", 0xff020304, 0x01020304, 100, 128},
        {"v_dot4_u32_u8 v0, v2, v4, v6", 0xff020304, 0x01020304, 100, 384},
        {"v_dot4_i32_i8 v0, v2, v4, v6 clamp", 0x7f7f7f7f, 0x7f7f7f7f, 0x7fffffff, 0x7fffffff},
        {"v_dot8_i32_i4 v0, v2, v4, v6", 0xf0000001, 0x10000001, 5, 5},
        {"v_dot8_u32_u4 v0, v2, v4, v6", 0xf0000001, 0x10000001, 5, 21},
        {"v_mov_b32 v0, v6\nv_dot4c_i32_i8 v0, v2, v4", 0xff020304, 0x01020304, 100, 128},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_f16 v0, v2, v4", 0x40003c00, 0x42003c00, 0x3f800000,
         0x41000000},
        {"v_mov_b32 v0, v6\nv_pk_fmac_f16 v0, v2, v4", 0x40003c00, 0x40004000, 0x3c003c00,
         0x45004200},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case bf16[] = {
        {"v_dot2_f32_bf16 v0, v2, v4, v6", 0x40003f80, 0x40403f80, 0x3f800000, 0x41000000},
        {"v_mov_b32 v0, v6\nv_dot2c_f32_bf16 v0, v2, v4", 0x40003f80, 0x40403f80, 0x3f800000,
         0x41000000},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, bf16);
}

int main(void) { return run_unit_tests(); }
