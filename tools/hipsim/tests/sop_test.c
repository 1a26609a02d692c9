/* SPDX-License-Identifier: Apache-2.0 */
/* Tests scalar ALU instructions. Expectations come from the pseudo-code of the CDNA3 ISA manual,
 * SOP sections. */
#include "tools/hipsim/tests/program.h"

TEST(add_u32_carries_out_in_scc)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0xffffffff;
    p.s[2] = 2;
    /* tmp = S0 + S1; SCC = tmp >= 0x100000000; s_addc adds SCC */
    program_run(&p, "s_add_u32 s0, s1, s2\ns_addc_u32 s3, 5, 6");
    assert_int_equal(p.s[0], 1);
    assert_int_equal(p.s[3], 12);
    assert_int_equal(p.scc, 0);
}

TEST(add_i32_sets_scc_on_signed_overflow)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0x7fffffff;
    program_run(&p, "s_add_i32 s0, s1, 1\ns_cselect_b32 s2, 7, 9\ns_sub_i32 s3, 3, 5\n"
                    "s_cselect_b32 s4, 7, 9");
    assert_int_equal(p.s[0], 0x80000000);
    assert_int_equal(p.s[2], 7);
    assert_int_equal(p.s[3], 0xfffffffe);
    assert_int_equal(p.s[4], 9);
}

TEST(subb_borrows)
{
    struct program p = program_new(GFX942);
    p.s[1] = 1;
    program_run(&p, "s_sub_u32 s0, s1, 2\ns_subb_u32 s3, 0, 0\ns_cselect_b32 s4, 1, 0");
    assert_int_equal(p.s[0], 0xffffffff);
    assert_int_equal(p.s[3], 0xffffffff);
    assert_int_equal(p.s[4], 1);
}

TEST(bit_fields_extend_and_clamp_their_width)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0x12345f80;
    p.s[2] = 4 | 12 << 16; /* offset 4, width 12 */
    p.s[3] = 7 | 0 << 16;  /* width 0 */
    p.s[4] = 8 | 40 << 16; /* offset 8, width 40: wider than the register */
    p.s[6] = 0;
    p.s[7] = 0x80000000;
    p.s[8] = 60 | 4 << 16;
    program_run(&p, "s_bfe_u32 s10, s1, s2\ns_bfe_i32 s11, s1, s2\ns_bfe_i32 s12, s1, s3\n"
                    "s_bfe_u32 s13, s1, s4\ns_bfe_i64 s[14:15], s[6:7], s8\n"
                    "s_bfe_u64 s[16:17], s[6:7], s8");
    assert_int_equal(p.s[10], 0x5f8);
    assert_int_equal(p.s[11], 0x5f8);
    assert_int_equal(p.s[12], 0);
    assert_int_equal(p.s[13], 0x12345f);
    assert_int_equal(program_s64(&p, 14), 0xfffffffffffffff8);
    assert_int_equal(program_s64(&p, 16), 8);
}

TEST(signed_bit_field_takes_its_sign_from_the_top)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0x0000ff00;
    p.s[2] = 8 | 8 << 16;
    program_run(&p, "s_bfe_i32 s0, s1, s2");
    assert_int_equal(p.s[0], 0xffffffff);
}

TEST(find_and_count_bits)
{
    struct program p = program_new(GFX942);
    p.s[2] = 0x00f00010;
    p.s[4] = 0;
    p.s[5] = 0x100;
    program_run(&p, "s_ff1_i32_b32 s10, s2\ns_ff0_i32_b32 s11, -1\ns_flbit_i32_b32 s12, s2\n"
                    "s_flbit_i32 s13, -1\ns_ff1_i32_b64 s14, s[4:5]\ns_flbit_i32_b64 s15, s[4:5]\n"
                    "s_bcnt1_i32_b32 s16, s2\ns_bcnt0_i32_b64 s17, s[4:5]\ns_brev_b32 s18, s2\n"
                    "s_flbit_i32_i64 s19, s[4:5]");
    assert_int_equal(p.s[10], 4);
    assert_int_equal(p.s[11], UINT32_MAX);
    assert_int_equal(p.s[12], 8);
    assert_int_equal(p.s[13], UINT32_MAX);
    assert_int_equal(p.s[14], 40);
    assert_int_equal(p.s[15], 23);
    assert_int_equal(p.s[16], 5);
    assert_int_equal(p.s[17], 63);
    assert_int_equal(p.s[18], 0x08000f00);
    assert_int_equal(p.s[19], 23);
}

TEST(quads)
{
    struct program p = program_new(GFX942);
    p.s[2] = 0x10020400;
    program_run(&p, "s_wqm_b32 s10, s2\ns_quadmask_b32 s11, s2\n"
                    "s_bitreplicate_b64_b32 s[12:13], 5");
    assert_int_equal(p.s[10], 0xf00f0f00);
    assert_int_equal(p.s[11], 0x94);
    assert_int_equal(program_s64(&p, 12), 0x33);
}

TEST(shifts_use_the_low_bits_of_their_amount)
{
    struct program p = program_new(GFX942);
    p.s[2] = 0x80000001;
    p.s[3] = 36;
    p.s[4] = 0x80000000;
    p.s[5] = 0xffff0000;
    program_run(&p, "s_lshl_b32 s10, s2, s3\ns_ashr_i32 s11, s2, s3\ns_lshr_b32 s12, s2, s3\n"
                    "s_lshl_b64 s[14:15], s[2:3], s3\ns_ashr_i64 s[16:17], s[4:5], 20\n"
                    "s_bfm_b32 s18, 4, 8\ns_bfm_b64 s[20:21], 8, 40");
    assert_int_equal(p.s[10], 0x10);
    assert_int_equal(p.s[11], 0xf8000000);
    assert_int_equal(p.s[12], 0x08000000);
    assert_int_equal(program_s64(&p, 14), UINT64_C(0x2480000001) << 36);
    assert_int_equal(program_s64(&p, 16), 0xfffffffff0000800);
    assert_int_equal(p.s[18], 0xf00);
    assert_int_equal(program_s64(&p, 20), UINT64_C(0xff) << 40);
}

TEST(saveexec_family)
{
    struct program p = program_new(GFX942);
    p.exec = 0xff00;
    p.s[2] = 0x0ff0;
    p.s[3] = 0;
    program_run(&p, "s_and_saveexec_b64 s[4:5], s[2:3]\ns_or_saveexec_b64 s[6:7], s[2:3]\n"
                    "s_andn2_saveexec_b64 s[8:9], s[2:3]\ns_mov_b64 s[10:11], exec\n"
                    "s_mov_b64 exec, 0xff00\ns_andn2_wrexec_b64 s[12:13], s[2:3]");
    assert_int_equal(program_s64(&p, 4), 0xff00);
    assert_int_equal(program_s64(&p, 6), 0x0f00);
    assert_int_equal(program_s64(&p, 8), 0x0ff0);
    assert_int_equal(program_s64(&p, 10), 0);
    assert_int_equal(program_s64(&p, 12), 0x00f0);
    assert_int_equal(p.exec, 0x00f0);
    assert_int_equal(p.scc, 1);
}

TEST(sopk_immediates_are_signed_except_in_unsigned_compares)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0xffff8000;
    p.s[2] = 0x8000;
    p.s[3] = 0x7fffffff;
    p.s[6] = 3;
    program_run(&p, "s_movk_i32 s0, 0x8000\ns_cmpk_eq_i32 s1, 0x8000\ns_cselect_b32 s10, 1, 0\n"
                    "s_cmpk_eq_u32 s2, 0x8000\ns_cselect_b32 s11, 1, 0\ns_addk_i32 s3, 1\n"
                    "s_cselect_b32 s12, 1, 0\ns_mulk_i32 s6, 0xfffe\n");
    assert_int_equal(p.s[0], 0xffff8000);
    assert_int_equal(p.s[10], 1);
    assert_int_equal(p.s[11], 1);
    assert_int_equal(p.s[12], 1);
    assert_int_equal(p.s[6], (uint32_t)-6);
}

TEST(packs_multiplies_and_differences)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0x11112222;
    p.s[2] = 0x33334444;
    p.s[3] = 0x80000000;
    program_run(&p, "s_pack_ll_b32_b16 s10, s1, s2\ns_pack_lh_b32_b16 s11, s1, s2\n"
                    "s_pack_hh_b32_b16 s12, s1, s2\ns_mul_i32 s13, s1, s2\n"
                    "s_mul_hi_u32 s14, s3, s2\ns_mul_hi_i32 s15, s3, s2\n"
                    "s_absdiff_i32 s16, s1, s2\ns_lshl3_add_u32 s17, s1, s2\ns_abs_i32 s18, -5");
    assert_int_equal(p.s[10], 0x44442222);
    assert_int_equal(p.s[11], 0x33332222);
    assert_int_equal(p.s[12], 0x33331111);
    assert_int_equal(p.s[13], 0x11112222u * 0x33334444u);
    assert_int_equal(p.s[14], 0x1999a222);
    assert_int_equal(p.s[15], 0xe6665dde);
    assert_int_equal(p.s[16], 0x22222222);
    assert_int_equal(p.s[17], 0x11112222u * 8 + 0x33334444u);
    assert_int_equal(p.s[18], 5);
}

TEST(bit_compares_and_sets)
{
    struct program p = program_new(GFX942);
    p.s[1] = 0x10;
    p.s[4] = 0;
    p.s[5] = 1;
    program_run(&p, "s_bitcmp1_b32 s1, 4\ns_cselect_b32 s10, 1, 0\ns_bitcmp0_b64 s[4:5], 32\n"
                    "s_cselect_b32 s11, 1, 0\ns_bitset0_b32 s1, 4\ns_bitset1_b64 s[4:5], 63");
    assert_int_equal(p.s[10], 1);
    assert_int_equal(p.s[11], 0);
    assert_int_equal(p.s[1], 0);
    assert_int_equal(program_s64(&p, 4), UINT64_C(0x8000000100000000));
}

TEST(literals_and_inline_constants_of_64_bits)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_mov_b64 s[0:1], -16\ns_mov_b64 s[2:3], 1.0\ns_mov_b64 s[4:5], 0x12345678\n"
                    "s_mov_b32 s6, 0.15915494\ns_mov_b32 s7, 64");
    assert_int_equal(program_s64(&p, 0), (uint64_t)-16);
    assert_int_equal(program_s64(&p, 2), bits_of64(1.0));
    assert_int_equal(program_s64(&p, 4), 0x12345678);
    assert_int_equal(p.s[6], 0x3e22f983);
    assert_int_equal(p.s[7], 64);
}

TEST(relative_moves_add_m0)
{
    struct program p = program_new(GFX942);
    p.s[12] = 77;
    p.s[SGPR_M0] = 2;
    program_run(&p, "s_movrels_b32 s0, s10\ns_movreld_b32 s20, s12");
    assert_int_equal(p.s[0], 77);
    assert_int_equal(p.s[22], 77);
}

TEST(lane_masks_are_defined_bit_by_bit)
{
    struct program p = program_new(GFX942);
    p.s[0] = 0xffff0000;
    p.s_valid[2] = 0x0000ffff;
    p.s[2] = 0x00001234;
    /* A defined 0 determines an AND, a defined 1 determines an OR. */
    program_run(&p, "s_and_b32 s4, s0, s2\ns_or_b32 s5, s0, s2\ns_add_u32 s6, s0, s2\n"
                    "s_lshl_b32 s7, s2, 4");
    assert_int_equal(p.s_valid[4], 0x0000ffff);
    assert_int_equal(p.s_valid[5], 0xffffffff);
    assert_int_equal(p.s_valid[6], 0x0000ffff); /* carries only affect higher bits */
    assert_int_equal(p.s_valid[7], 0x000fffff);
}

int main(void) { return run_unit_tests(); }
