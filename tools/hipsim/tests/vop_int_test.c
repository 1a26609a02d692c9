/* SPDX-License-Identifier: Apache-2.0 */
/* Tests vector integer operations. Expectations come from the pseudo-code of the CDNA3 ISA, VOP1 to
 * VOP3. */
#include "tools/hipsim/tests/program.h"

TEST(one_and_two_operands)
{
    static const struct op_case cases[] = {
        {"v_not_b32 v0, v2", 0x0f0f0f0f, 0, 0, 0xf0f0f0f0},
        {"v_bfrev_b32 v0, v2", 0x00000015, 0, 0, 0xa8000000},
        {"v_ffbh_u32 v0, v2", 0x00800000, 0, 0, 8},
        {"v_ffbh_u32 v0, v2", 0, 0, 0, 0xffffffff},
        {"v_ffbl_b32 v0, v2", 0x00800000, 0, 0, 23},
        {"v_ffbh_i32 v0, v2", 0xff800000, 0, 0, 9},
        {"v_ffbh_i32 v0, v2", 0xffffffff, 0, 0, 0xffffffff},
        {"v_ffbh_i32 v0, v2", 0x00ffffff, 0, 0, 8},
        {"v_sat_pk_u8_i16 v0, v2", 0x0123fffe, 0, 0, 0xff00},
        {"v_and_b32 v0, 0xff00, v2", 0x12345678, 0, 0, 0x5600},
        {"v_xnor_b32 v0, v2, v4", 0xff00ff00, 0x0ff00ff0, 0, 0x0f0f0f0f},
        {"v_add_u32 v0, v2, v4", 0xffffffff, 3, 0, 2},
        {"v_add_u32_e64 v0, v2, v4 clamp", 0xffffffff, 3, 0, 0xffffffff},
        {"v_sub_u32_e64 v0, v2, v4 clamp", 2, 3, 0, 0},
        {"v_subrev_u32 v0, v2, v4", 2, 3, 0, 1},
        {"v_add_i32 v0, v2, v4 clamp", 0x7fffffff, 1, 0, 0x7fffffff},
        {"v_sub_i32 v0, v2, v4 clamp", 0x80000000, 1, 0, 0x80000000},
        {"v_mul_lo_u32 v0, v2, v4", 0x10001, 0x10001, 0, 0x20001},
        {"v_mul_hi_u32 v0, v2, v4", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
        {"v_mul_hi_i32 v0, v2, v4", 0xffffffff, 0xffffffff, 0, 0},
        {"v_mul_i32_i24 v0, v2, v4", 0xff800000, 2, 0, 0xff000000},
        {"v_mul_hi_i32_i24 v0, v2, v4", 0x800000, 0x800000, 0, 0x4000},
        {"v_mul_u32_u24 v0, v2, v4", 0xff000003, 5, 0, 15},
        {"v_mul_hi_u32_u24 v0, v2, v4", 0xffffff, 0xffffff, 0, 0xffff},
        {"v_min_i32 v0, v2, v4", 0xffffffff, 1, 0, 0xffffffff},
        {"v_max_i32 v0, v2, v4", 0xffffffff, 1, 0, 1},
        {"v_min_u32 v0, v2, v4", 0xffffffff, 1, 0, 1},
        {"v_lshrrev_b32 v0, v2, v4", 36, 0x100, 0, 0x10},
        {"v_ashrrev_i32 v0, v2, v4", 4, 0x80000000, 0, 0xf8000000},
        {"v_lshlrev_b32 v0, v2, v4", 33, 0x100, 0, 0x200},
        {"v_bfm_b32 v0, v2, v4", 8, 4, 0, 0xff0},
        {"v_bcnt_u32_b32 v0, v2, v4", 0xf0f0, 100, 0, 108},
        {"v_cvt_pk_u16_u32 v0, v2, v4", 0x12345, 7, 0, 0x0007ffff},
        {"v_cvt_pk_i16_i32 v0, v2, v4", 0xffff0000, 0x9000, 0, 0x7fff8000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(three_operands)
{
    static const struct op_case cases[] = {
        {"v_add3_u32 v0, v2, v4, v6", 1, 2, 3, 6},
        {"v_lshl_add_u32 v0, v2, v4, v6", 3, 4, 1, 49},
        {"v_add_lshl_u32 v0, v2, v4, v6", 3, 4, 1, 14},
        {"v_lshl_or_b32 v0, v2, v4, v6", 3, 4, 1, 49},
        {"v_and_or_b32 v0, v2, v4, v6", 0xff, 0x0f, 0xf00, 0xf0f},
        {"v_or3_b32 v0, v2, v4, v6", 1, 2, 4, 7},
        {"v_xad_u32 v0, v2, v4, v6", 5, 3, 10, 16},
        {"v_bfi_b32 v0, v2, v4, v6", 0x0000ffff, 0x12345678, 0x9abcdef0, 0x9abc5678},
        {"v_bfe_u32 v0, v2, v4, v6", 0x12345678, 8, 12, 0x456},
        {"v_bfe_i32 v0, v2, v4, v6", 0x0000f000, 12, 4, 0xffffffff},
        {"v_bfe_i32 v0, v2, v4, v6", 0x0000f000, 12, 0, 0},
        {"v_alignbit_b32 v0, v2, v4, v6", 0x12345678, 0x9abcdef0, 8, 0x789abcde},
        {"v_alignbyte_b32 v0, v2, v4, v6", 0x12345678, 0x9abcdef0, 3, 0x3456789a},
        /* The data are { S0, S1 }: selectors 0 to 3 select bytes of S1, 4 to 7 bytes of S0. */
        {"v_perm_b32 v0, v2, v4, v6", 0x11223344, 0x55667788, 0x07030c00, 0x11550088},
        {"v_perm_b32 v0, v2, v4, v6", 0x80000000, 0x80007f00, 0x0b0a090d, 0xff00ffff},
        {"v_min3_i32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 0xfffffffe},
        {"v_max3_u32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 0xfffffffe},
        {"v_med3_i32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 3},
        {"v_med3_u32 v0, v2, v4, v6", 5, 0xfffffffe, 3, 5},
        {"v_mad_i32_i24 v0, v2, v4, v6", 0xffffff, 5, 7, 2},
        {"v_mad_u32_u24 v0, v2, v4, v6", 0xffffff, 2, 7, 0x2000005},
        {"v_sad_u8 v0, v2, v4, v6", 0x01020304, 0x04030201, 10, 18},
        {"v_sad_hi_u8 v0, v2, v4, v6", 0x01020304, 0x04030201, 10, 0x8000a},
        {"v_sad_u16 v0, v2, v4, v6", 0x00050001, 0x00010005, 1, 9},
        {"v_sad_u32 v0, v2, v4, v6", 3, 10, 1, 8},
        {"v_msad_u8 v0, v2, v4, v6", 0x01020304, 0x00030001, 10, 14},
        {"v_lerp_u8 v0, v2, v4, v6", 0xff010203, 0x01020304, 0x01000100, 0x80010303},
        {"v_mad_u32_u16 v0, v2, v4, v6", 0xabcdffff, 0x1234ffff, 1, 0xfffe0002},
        {"v_mad_i32_i16 v0, v2, v4, v6", 0xabcdffff, 3, 1, 0xfffffffe},
        {"v_mad_u32_u16 v0, v2, v4, v6 op_sel:[1,0,0,0]", 0x00030000, 5, 1, 16},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(sixteen_bits)
{
    static const struct op_case cases[] = {
        /* VOP2 clears the high half. */
        {"v_add_u16 v0, v2, v4", 0xabcdffff, 2, 0, 1},
        {"v_add_u16_e64 v0, v2, v4 clamp", 0xffff, 2, 0, 0xffff},
        {"v_sub_u16 v0, v2, v4", 1, 2, 0, 0xffff},
        {"v_subrev_u16 v0, v2, v4", 1, 2, 0, 1},
        {"v_mul_lo_u16 v0, v2, v4", 0x1001, 0x1001, 0, 0x2001},
        {"v_lshlrev_b16 v0, v2, v4", 20, 0xffff, 0, 0xfff0},
        {"v_ashrrev_i16 v0, v2, v4", 4, 0x8000, 0, 0xf800},
        {"v_max_i16 v0, v2, v4", 0xffff, 1, 0, 1},
        {"v_min_u16 v0, v2, v4", 0xffff, 1, 0, 1},
        /* VOP3 with op_sel keeps the other half. */
        {"v_mad_u16 v0, v2, v4, v6", 3, 4, 5, 0xdead0011},
        {"v_mad_u16 v0, v2, v4, v6 op_sel:[0,0,0,1]", 3, 4, 5, 0x0011beef},
        {"v_add_i16 v0, v2, v4 clamp", 0x7fff, 1, 0, 0xdead7fff},
        {"v_med3_i16 v0, v2, v4, v6", 5, 0xfffe, 3, 0xdead0003},
        {"v_max3_u16 v0, v2, v4, v6 op_sel:[1,0,0,0]", 0x00090000, 2, 3, 0xdead0009},
        {"v_pack_b32_f16 v0, v2, v4 op_sel:[1,0,0]", 0x12345678, 0x9abcdef0, 0, 0xdef01234},
        {"v_pack_b32_f16 v0, -v2, |v4|", 0x7c01, 0xfd00, 0, 0x7f00fe01}, /* NaNs become quiet */
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

/*
 * Float inline constants of 16-bit integers have the bits of the f32: LLVM's
 * getInlineEncodingV216(), and isInlinableImm() of its assembler.
 */
TEST(float_constants_of_halves)
{
    static const struct op_case cases[] = {
        {"v_add_u16 v0, 1.0, v2", 7, 0, 0, 7},
        {"v_add_u16 v0, 0.15915494, v2", 1, 0, 0, 0xf984},
        {"v_med3_u16 v0, 4.0, v2, v4", 9, 12, 0, 0xdead0009},
        {"v_pk_add_u16 v0, 1.0, v2", 0x00050007, 0, 0, 0x3f850007},
        {"v_cvt_f16_u16 v0, 2.0", 0, 0, 0, 0},
        {"v_add_f16 v0, 1.0, v2", 0x3c00, 0, 0, 0x4000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    static const struct op_case table[] = {
        {"v_bitop3_b16 v0, v2, v4, 0.15915494 bitop3:0xaa", 0, 0, 0, 0xdeadf983},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, table);
}

/* op_sel[3] selects the half of a 16-bit result. These instructions write all of D0 by their
 * pseudo-code, and ignore it. */
TEST(whole_results_ignore_the_high_select)
{
    static const struct op_case cases[] = {
        {"v_mad_u32_u16 v0, v2, v4, v6 op_sel:[1,0,0,1]", 0x00030000, 5, 1, 16},
        {"v_mad_i32_i16 v0, v2, v4, v6 op_sel:[0,0,0,1] clamp", 0xfffe, 3, 1, 0xfffffffb},
        {"v_pack_b32_f16 v0, v2, v4 op_sel:[1,0,1]", 0x12345678, 0x9abcdef0, 0, 0xdef01234},
        {"v_cvt_pknorm_i16_f16 v0, v2, v4 op_sel:[1,0,1]", 0x3c000000, 0xbc00, 0, 0x80017fff},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(sixty_four_bits)
{
    static const struct op_case cases[] = {
        {"v_mov_b64 v[0:1], v[2:3]", UINT64_C(0x123456789abcdef0), 0, 0,
         UINT64_C(0x123456789abcdef0)},
        {"v_lshlrev_b64 v[0:1], v2, v[4:5]", 40, 3, 0, UINT64_C(3) << 40},
        {"v_lshrrev_b64 v[0:1], v2, v[4:5]", 68, 0x100, 0, 0x10},
        {"v_ashrrev_i64 v[0:1], v2, v[4:5]", 60, UINT64_C(1) << 63, 0,
         UINT64_C(0xfffffffffffffff8)},
        {"v_lshl_add_u64 v[0:1], v[2:3], v4, v[6:7]", UINT64_C(0x1ffffffff), 4, 1,
         UINT64_C(0x1ffffffff1)},
        /* Manual: "The design treats unsupported shift counts as a shift of zero". */
        {"v_lshl_add_u64 v[0:1], v[2:3], v4, v[6:7]", 0x100, 5, 1, 0x101},
        {"v_mad_u64_u32 v[0:1], s[0:1], v2, v4, v[6:7]", 0xffffffff, 0xffffffff, 2,
         UINT64_C(0xfffffffe00000003)},
        {"v_mad_i64_i32 v[0:1], s[0:1], v2, v4, v[6:7]", 0xffffffff, 3, 1, UINT64_C(-2)},
        {"v_qsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7]", 0x0000000001010101, 0, 0,
         UINT64_C(0x0001000200030004)},
        /* The result overlaps a source. */
        {"v_mov_b32 v0, v2\nv_mov_b32 v1, v3\nv_lshlrev_b64 v[0:1], 4, v[0:1]",
         UINT64_C(0xf00000000), 0, 0, UINT64_C(0xf000000000)},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
}

TEST(gfx950_adds_bit_operations)
{
    static const struct op_case cases[] = {
        {"v_bitop3_b32 v0, v2, v4, v6 bitop3:0x96", 0xff00ff00, 0xf0f0f0f0, 0xcccccccc, 0xc33cc33c},
        {"v_bitop3_b32 v0, v2, v4, v6 bitop3:0x80", 0xff, 0x3c, 0x18, 0x18},
        {"v_bitop3_b16 v0, v2, v4, v6 bitop3:0xfe", 1, 2, 4, 0xdead0007},
        {"v_ashr_pk_i8_i32 v0, v2, v4, v6", 0x1000, 0xffff0000, 4, 0xdead807f},
        {"v_ashr_pk_u8_i32 v0, v2, v4, v6", 0x1000, 0xffff0000, 4, 0xdead00ff},
        {"v_prng_b32 v0, v2", 0x80000001, 0, 0, 2 ^ 197},
        {"v_prng_b32 v0, v2", 0x40000001, 0, 0, 0x80000002},
    };
    CHECK_CASES(GFX950, MODE_DEFAULT, cases);
}

TEST(carries_go_through_lane_masks)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 2, 0xffffffff);
    for (unsigned i = 0; i < 64; i += 2)
        p.v[2][i] = 5;
    program_fill(&p, 3, 1);
    /* D = S0 + S1. VCC is the carry out of the first instruction and the carry in of the second. */
    program_run(&p, "v_add_co_u32 v0, vcc, v2, v3\nv_addc_co_u32 v1, vcc, v3, v3, vcc\n"
                    "v_sub_co_u32 v4, s[4:5], v3, v2\nv_cndmask_b32 v5, v2, v3, s[4:5]\n"
                    "v_subb_co_u32 v6, vcc, v3, v3, s[4:5]");
    assert_int_equal(p.v[0][0], 6);
    assert_int_equal(p.v[0][1], 0);
    assert_int_equal(p.v[1][0], 2);
    assert_int_equal(p.v[1][1], 3);
    assert_int_equal(program_s64(&p, 4), UINT64_MAX);
    assert_int_equal(p.v[5][0], 1);
    assert_int_equal(p.v[6][7], 0xffffffff);
    assert_int_equal(program_s64(&p, SGPR_VCC), UINT64_MAX);
}

TEST(inactive_lanes_keep_their_value)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 0, 77);
    program_fill(&p, 1, 1);
    p.exec = UINT64_C(0x8000000000000005);
    program_run(&p, "v_add_u32 v0, v1, v1\nv_cmp_eq_u32 vcc, v1, v1");
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(p.v[0][i], p.exec >> i & 1 ? 2 : 77);
    assert_int_equal(program_s64(&p, SGPR_VCC), p.exec);
}

TEST(mbcnt_counts_lanes_below)
{
    struct program p = program_new(GFX942);
    program_run(&p, "v_mbcnt_lo_u32_b32 v0, -1, 0\nv_mbcnt_hi_u32_b32 v0, -1, v0");
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(p.v[0][i], i);
}

TEST(validity_follows_the_data)
{
    struct program p = program_new(GFX942);
    p.v_valid[1] = 0xff;
    p.s_valid[5] = 0;
    program_run(&p, "v_add_u32 v2, v1, v3\nv_mov_b32 v4, s5\nv_cmp_eq_u32 vcc, v1, v3\n"
                    "v_mov_b32 v6, 1");
    assert_int_equal(p.v_valid[2], 0xff);
    assert_int_equal(p.v_valid[4], 0);
    assert_int_equal(p.s_valid[SGPR_VCC], 0xff);
    assert_int_equal(p.s_valid[SGPR_VCC + 1], 0);
    assert_int_equal(p.v_valid[6], UINT64_MAX);
}

/* A result is defined if the deciding source is. V_CNDMASK_B32 only reads one source per lane; x &
 * 0 = 0 and x | ~0 = ~0 (CDNA3 ISA, VOP2). */
TEST(a_deciding_source_defines_the_result)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 1, 0);
    program_fill(&p, 2, 0);
    program_fill(&p, 3, ~0u);
    for (unsigned i = 0; i < 8; i++)
        p.v[2][i] = ~0u, p.v[3][i] = 1;
    p.v_valid[1] = 0;
    p.s[4] = 0xffff;
    p.s[5] = 0;
    p.s_valid[5] = 0;
    program_run(&p, "v_cndmask_b32 v4, v1, v2, s[4:5]\nv_cndmask_b32 v5, v2, v1, s[4:5]\n"
                    "v_and_b32 v6, v1, v2\nv_or_b32 v7, v3, v1\nv_and_b32 v8, v1, v3\n"
                    "v_xor_b32 v9, v1, v2");
    assert_int_equal(p.v_valid[4], 0xffff);
    assert_int_equal(p.v_valid[5], 0xffff0000);
    assert_int_equal(p.v_valid[6], ~UINT64_C(0xff));
    assert_int_equal(p.v_valid[7], ~UINT64_C(0xff));
    assert_int_equal(p.v_valid[8], 0);
    assert_int_equal(p.v_valid[9], 0);
}

/* V_MOV_B64 moves two dwords. LLVM combines two moves into it, and an unused half may be any
 * register. */
TEST(halves_of_a_wide_move_are_defined_separately)
{
    struct program p = program_new(GFX942);
    p.s_valid[5] = 0;
    p.v_valid[2] = 0xff;
    program_run(&p, "v_mov_b64 v[6:7], s[4:5]\nv_mov_b64 v[8:9], v[2:3]\nv_mov_b64 v[10:11], 1\n"
                    "v_mov_b64 v[12:13], v[6:7]");
    const uint64_t all = UINT64_MAX, expected[] = {all, 0, 0xff, all, all, all, all, 0};
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(p.v_valid[6 + i], expected[i]);
}

/* The disassembler may decode the mask of v_cndmask_b32_e64 as an inline constant. */
TEST(a_constant_mask_is_a_number)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 2, 11);
    p.s[3] = 22;
    program_run(&p, ".long 0xd1000000, 0x02140702"); /* v_cndmask_b32_e64 v0, v2, s3, 5 */
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(p.v[0][i], i == 0 || i == 2 ? 22 : 11);
}

/* VOP3P, packed f32: op_sel and op_sel_hi select the dwords that the instruction reads (CDNA3 ISA,
 * 6.7). */
TEST(packed_f32_needs_selected_dwords_only)
{
    struct program p = program_new(GFX942);
    p.s[4] = bits_of(2.0f);
    p.v[5][7] = bits_of(3.0f);
    p.s_valid[5] = 0;
    p.v_valid[4] = 0;
    program_run(&p, "v_pk_mul_f32 v[2:3], v[0:1], s[4:5] op_sel_hi:[1,0]\n"
                    "v_pk_add_f32 v[6:7], v[4:5], s[4:5] op_sel:[1,0] op_sel_hi:[1,0]\n"
                    "v_pk_mov_b32 v[8:9], v[4:5], v[4:5] op_sel:[1,1]\n"
                    "v_pk_add_f32 v[10:11], v[4:5], v[4:5]");
    for (unsigned r = 2; r < 10; r++)
        assert_int_equal(p.v_valid[r], r == 4 ? 0 : UINT64_MAX);
    assert_int_equal(p.v[6][7], bits_of(5.0f));
    assert_int_equal(p.v[7][7], bits_of(5.0f));
    assert_int_equal(p.v[8][7], bits_of(3.0f));
    assert_int_equal(p.v[9][7], bits_of(3.0f));
    assert_int_equal(p.v_valid[10], 0);
}

TEST(low_half_of_a_sum_needs_low_halves_only)
{
    struct program p = program_new(GFX942);
    p.v_valid[3] = 0;
    program_run(&p, "v_mad_u64_u32 v[4:5], s[0:1], v0, v1, v[2:3]");
    assert_int_equal(p.v_valid[4], UINT64_MAX);
    assert_int_equal(p.v_valid[5], 0);
}

/* Sets an element of an empty vector. A register of two halves is defined if the element is. */
TEST(packed_pieces_define_a_register)
{
    struct program p = program_new(GFX942);
    p.v_valid[1] = 0;
    p.s[4] = 0x05040100;
    program_run(&p, "v_perm_b32 v3, v1, v2, s4\nv_perm_b32 v4, v2, v1, s4\n"
                    "v_perm_b32 v5, v1, v1, s4\nv_perm_b32 v6, v2, v2, v1\n"
                    "v_pack_b32_f16 v7, v1, v2\nv_pack_b32_f16 v8, v1, v1");
    const bool want[] = {true, true, false, false, true, false};
    for (unsigned i = 0; i < sizeof(want); i++)
        assert_int_equal(p.v_valid[3 + i], want[i] ? UINT64_MAX : 0);
}

int main(void) { return run_unit_tests(); }
