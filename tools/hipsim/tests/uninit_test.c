/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which undefined values a program may use, copy and store to global memory. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/hipsim/tests/device.h"

/* Runs `text`. s[2:3] is the address of zeros, whose second half was never written. v10 is 8 times
 * the lane. LDS and scratch were never written, and v1 is undefined. */
static struct fault run_on(enum gfx_target target, const char *text)
{
    static const uint32_t zeros[512];
    uint8_t *buffer = device_alloc(2 * sizeof(zeros), NULL);
    hipsim_mem_mark((uintptr_t)buffer, sizeof(zeros));
    memset(buffer, 0, sizeof(zeros));
    struct program p = program_new(target);
    p.block = target == GFX1250 || target == GFX1201 ? 32 : p.block;
    p.checks = CHECK_DEFAULT & ~(uint32_t)CHECK_HAZARD; /* short texts have no s_nop */
    p.lds_bytes = 2048;
    p.private_bytes = 64;
    p.v_valid[1] = 0;
    program_s64_set(&p, 2, (uintptr_t)buffer);
    program_lanes(&p, 10, 8);
    program_try(&p, text);
    hipsim_mem_free(buffer);
    return p.fault;
}

static struct fault run(const char *text) { return run_on(GFX942, text); }

static void expect_on(enum gfx_target target, const char *bad, const char *good)
{
    const struct fault tripped = run_on(target, bad), none = run_on(target, good);
    check_pair(FAULT_UNINIT, &tripped, bad, &none, good);
}

static void expect(const char *bad, const char *good) { expect_on(GFX942, bad, good); }

#define WAIT "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
#define STORE2 "global_store_dwordx2 v10, v[4:5], s[2:3]\n" WAIT
#define STORE1(v) "global_store_dword v10, " v ", s[2:3]\n" WAIT
/* v[4:5]: a pair from memory whose second dword is padding. */
#define PAIR                                                   \
    "v_mov_b32 v8, 7\nscratch_store_dword off, v8, off\n" WAIT \
    "scratch_load_dwordx2 v[4:5], off, off\n" WAIT

TEST(a_defined_zero_decides_a_product)
{
    expect("v_mul_lo_u32 v4, v1, 1\n" STORE1("v4"), "v_mul_lo_u32 v4, v1, 0\n" STORE1("v4"));
    expect("v_mul_u32_u24 v4, v10, v1\ns_nop 0\nv_readlane_b32 s4, v4, 1\ns_cmp_eq_u32 s4, 0\n"
           "s_cbranch_scc1 out\nout:",
           "v_mul_u32_u24 v4, v10, v1\ns_nop 0\nv_readlane_b32 s4, v4, 0\ns_cmp_eq_u32 s4, 0\n"
           "s_cbranch_scc1 out\nout:");
    expect("v_mad_u32_u24 v4, v1, 0, v1\n" STORE1("v4"),
           "v_mad_u32_u24 v4, v1, 0, v10\n" STORE1("v4"));
    expect("v_mov_b32 v5, 0\nv_mad_u64_u32 v[4:5], vcc, v1, 1, v[10:11]\n" STORE1("v4"),
           "v_mov_b32 v11, 0\nv_mad_u64_u32 v[4:5], vcc, v1, 0, v[10:11]\n" STORE2);
    expect("v_readfirstlane_b32 s4, v1\ns_mul_i32 s4, s4, 1\nv_mov_b32 v4, s4\n" STORE1("v4"),
           "v_readfirstlane_b32 s4, v1\ns_mul_i32 s4, s4, 0\nv_mov_b32 v4, s4\n" STORE1("v4"));
    /* For floats a zero does not suffice: 0 * NaN is NaN. */
    expect("v_mul_f32 v4, 0, v1\n" STORE1("v4"), "v_mul_f32 v4, 0, v10\n" STORE1("v4"));
}

/* Compilers keep a value in the low half of a register or pair, and leave the high half
 * undefined. */
TEST(the_low_half_of_a_scalar_suffices)
{
    expect("v_readfirstlane_b32 s5, v1\ns_mov_b32 s4, 7\ns_bfe_i64 s[6:7], s[4:5], 0x300000\n"
           "v_mov_b32 v4, s7\n" STORE1("v4"),
           "v_readfirstlane_b32 s5, v1\ns_mov_b32 s4, 7\ns_bfe_i64 s[6:7], s[4:5], 0x100000\n"
           "v_mov_b32 v4, s7\n" STORE1("v4"));
    expect("v_readfirstlane_b32 s4, v1\ns_pack_ll_b32_b16 s4, 3, s4\ns_add_i32 s4, s4, 5\n"
           "v_mov_b32 v4, s4\ns_lshr_b32 s5, s4, 8\ns_cmp_eq_u32 s5, 0\ns_cbranch_scc1 out\nout:",
           "v_readfirstlane_b32 s4, v1\ns_pack_ll_b32_b16 s4, 3, s4\ns_add_i32 s4, s4, 5\n"
           "s_mul_i32 s4, s4, 3\ns_sext_i32_i16 s5, s4\ns_cmp_eq_u32 s5, 24\ns_cbranch_scc1 "
           "out\nout:");
}

/* s4 is undefined, s5 is `high`. */
#define S45(high) "v_readfirstlane_b32 s4, v1\ns_mov_b32 s5, " #high "\n"
#define EXEC_S45 "s_mov_b64 exec, s[4:5]\n"
#define ALL "s_mov_b64 exec, -1\n"

/* Tests instructions that read EXEC, VCC or M0 implicitly. tools/hipsim/docs/hipsim-checks.md lists
 * them all. */
TEST(implicit_operands_are_read)
{
    /* EXEC determines what is stored, and which lanes of a register keep their values. */
    expect(S45(0) EXEC_S45 STORE1("v10"), S45(0) "s_mov_b32 s4, 1\n" EXEC_S45 STORE1("v10"));
    expect(S45(0) EXEC_S45 "v_mov_b32 v4, v10\n" ALL STORE1("v4"),
           S45(0) "s_mov_b64 vcc, s[4:5]\nv_mov_b32 v4, v10\n" STORE1("v4"));
    expect(S45(0) "s_and_saveexec_b64 s[6:7], s[4:5]\n" STORE1("v10"),
           S45(0) "s_or_saveexec_b64 s[6:7], s[4:5]\n" STORE1("v10"));
    expect(S45(0) EXEC_S45 "s_and_saveexec_b64 s[6:7], 0\n" ALL "v_mov_b32 v4, s6\n" STORE1("v4"),
           S45(0) EXEC_S45 "s_and_saveexec_b64 s[6:7], 0\n" ALL "v_mov_b32 v4, s7\n" STORE1("v4"));
    expect(S45(0) EXEC_S45 "v_readfirstlane_b32 s6, v10\n" ALL "v_mov_b32 v4, s6\n" STORE1("v4"),
           S45(0) "s_or_b32 s4, s4, 1\n" EXEC_S45 "v_readfirstlane_b32 s6, v10\n" ALL
                  "v_mov_b32 v4, s6\n" STORE1("v4"));
    expect(S45(0) EXEC_S45 "s_cbranch_execz out\nout:",
           S45(1) EXEC_S45 "s_cbranch_execz out\nout:");
    expect(S45(0) EXEC_S45 "s_mov_b32 s6, src_execz\n" ALL "v_mov_b32 v4, s6\n" STORE1("v4"),
           S45(1) EXEC_S45 "s_mov_b32 s6, src_execz\n" ALL "v_mov_b32 v4, s6\n" STORE1("v4"));
    /* Instructions that read VCC. */
    expect(S45(0) "s_mov_b64 vcc, s[4:5]\ns_cbranch_vccnz out\nout:",
           S45(1) "s_mov_b64 vcc, s[4:5]\ns_cbranch_vccnz out\nout:");
    expect(S45(0) "s_mov_b64 vcc, s[4:5]\nv_mov_b32 v4, src_vccz\n" STORE1("v4"),
           S45(1) "s_mov_b64 vcc, s[4:5]\nv_mov_b32 v4, src_vccz\n" STORE1("v4"));
    expect(S45(0) "s_mov_b64 vcc, s[4:5]\nv_div_fmas_f32 v4, v10, v10, v10\n" STORE1("v4"),
           S45(0) "s_mov_b64 vcc, 0\nv_div_fmas_f32 v4, v10, v10, v10\n" STORE1("v4"));
    expect(S45(0) "s_mov_b64 vcc, s[4:5]\nv_addc_co_u32 v4, vcc, v10, v10, vcc\n" STORE1("v4"),
           S45(0) "s_mov_b64 vcc, 1\nv_addc_co_u32 v4, vcc, v10, v10, vcc\n" STORE1("v4"));
    expect(S45(0) "s_mov_b64 vcc, s[4:5]\nv_cndmask_b32 v4, v10, 7, vcc\n" STORE1("v4"),
           S45(0) "s_mov_b64 vcc, 3\nv_cndmask_b32 v4, v10, 7, vcc\n" STORE1("v4"));
    /* Instructions that read M0. */
    expect(S45(0) "s_mov_b32 m0, s4\ns_nop 0\ns_movrels_b32 s6, s5",
           S45(0) "s_mov_b32 m0, 0\ns_nop 0\ns_movrels_b32 s6, s5");
    expect(S45(0) "s_mov_b32 m0, s4\ns_nop 0\ns_movreld_b32 s6, s5",
           S45(0) "s_mov_b32 m0, 0\ns_nop 0\ns_movreld_b32 s6, s5");
    expect(S45(0) "s_set_gpr_idx_on s4, 1\nv_mov_b32 v4, v10\ns_set_gpr_idx_off",
           S45(0) "s_set_gpr_idx_on s5, 1\nv_mov_b32 v4, v10\ns_set_gpr_idx_off");
    expect(S45(0) "s_mov_b32 m0, s4\ns_nop 0\nds_write_addtid_b32 v10\n" WAIT,
           S45(0) "s_mov_b32 m0, 0\ns_nop 0\nds_write_addtid_b32 v10\n" WAIT);
    expect(S45(0) "s_mov_b32 m0, s4\ns_nop 0\nglobal_load_lds_dword v10, s[2:3]\n" WAIT,
           S45(0) "s_mov_b32 m0, 0\ns_nop 0\nglobal_load_lds_dword v10, s[2:3]\n" WAIT);
    expect(S45(0) "s_mov_b32 m0, s4\ns_nop 0\nds_gws_init v10 gds\n" WAIT,
           S45(0) "s_mov_b32 m0, 0\ns_nop 0\nds_gws_init v10 gds\n" WAIT);
    /* LDS instructions ignore M0 on these targets. */
    expect(S45(0) "s_mov_b32 m0, s4\nds_write_b32 v1, v10\n" WAIT,
           S45(0) "s_mov_b32 m0, s4\nds_write_b32 v10, v10\n" WAIT);
}

/* Vectorized code that only needs one half: the halves are independent. */
TEST(halves_of_packed_floats_are_tracked_separately)
{
#define ADD "v_mov_b32 v0, 0\nv_mov_b32 v11, 0\nv_pk_add_f32 v[4:5], v[0:1], v[10:11]"
    expect(ADD "\n" STORE1("v5"), ADD "\n" STORE1("v4"));
    expect(ADD " op_sel:[1,0] op_sel_hi:[0,1]\n" STORE1("v4"),
           ADD " op_sel:[1,0] op_sel_hi:[0,1]\n" STORE1("v5"));
    expect(ADD " op_sel:[1,0]\n" STORE1("v4"), ADD " op_sel_hi:[0,1]\n" STORE2);
    expect("v_mov_b32 v0, 0\nv_mov_b32 v11, 0\n"
           "v_pk_fma_f32 v[0:1], v[0:1], v[10:11], v[10:11]\n" STORE1("v1"),
           "v_mov_b32 v0, 0\nv_mov_b32 v11, 0\n"
           "v_pk_fma_f32 v[0:1], v[0:1], v[10:11], v[10:11]\n" STORE1("v0"));
}

TEST(registers_and_memory)
{
    expect(STORE1("v1"), "v_mov_b32 v1, 0\n" STORE1("v1"));
    expect("v_add_u32 v4, v1, v10\n" STORE1("v4"), "v_mul_u32_u24 v4, 0, v10\n" STORE1("v4"));
    expect("ds_read_b32 v4, v10\n" WAIT STORE1("v4"),
           "ds_write_b32 v10, v10\n" WAIT "ds_read_b32 v4, v10\n" WAIT STORE1("v4"));
    expect(
        "scratch_load_dword v4, off, off\n" WAIT STORE1("v4"),
        "scratch_store_dword off, v10, off\nscratch_load_dword v4, off, off\n" WAIT STORE1("v4"));
    expect("global_load_dword v4, v10, s[2:3] offset:2048\n" WAIT STORE1("v4"),
           "global_load_dword v4, v10, s[2:3]\n" WAIT STORE1("v4"));
    expect("ds_read_b64 v[4:5], v10\n" WAIT STORE2,
           "ds_write_b32 v10, v10\n" WAIT "ds_read_b64 v[4:5], v10\n" WAIT STORE2);
    expect("global_load_dword v4, v1, s[2:3]\n", "global_load_dword v4, v10, s[2:3]\n");
    expect("v_cmp_eq_u32 vcc, 0, v1\ns_cbranch_vccz out\nout:",
           "v_cmp_eq_u32 vcc, 0, v10\ns_cbranch_vccz out\nout:");
    expect("s_load_dword s4, s[2:3], 0x800\n" WAIT "s_cmp_eq_u32 s4, 0\ns_cbranch_scc1 out\nout:",
           "s_load_dword s4, s[2:3], 0x10\n" WAIT "s_cmp_eq_u32 s4, 0\ns_cbranch_scc1 out\nout:");
}

/* Padding may be copied with its structure, if no other instruction uses it. */
TEST(padding_is_copied)
{
    expect("v_mov_b32 v4, 7\nv_mov_b32 v5, v1\n" STORE2, PAIR STORE2);
    expect(PAIR "v_add_u32 v5, 1, v5\n" STORE2,
           PAIR "v_mov_b32 v6, v5\nv_accvgpr_write_b32 a1, v6\ns_nop 1\n"
                "v_accvgpr_read_b32 v5, a1\n" STORE2);
    expect(PAIR STORE1("v5"), PAIR STORE1("v4"));
    /* The register first held padding, and now holds another undefined value. */
    expect(PAIR "v_mul_lo_u32 v5, v1, v4\n" STORE2, PAIR "v_mul_lo_u32 v5, v4, v4\n" STORE2);
    /* The copy goes through scalar registers. 0x7fc is the offset of the last dword that was
     * written. */
    expect("s_load_dwordx2 s[4:5], s[2:3], 0x7fc\n" WAIT
           "s_add_u32 s5, s5, 1\nv_mov_b32 v4, s4\nv_mov_b32 v5, s5\n" STORE2,
           "s_load_dwordx2 s[4:5], s[2:3], 0x7fc\n" WAIT
           "s_mov_b32 s6, s5\nv_mov_b32 v4, s4\nv_mov_b32 v5, s6\n" STORE2);
}

/* A copy of padding is undefined, even if the destination was defined before. */
TEST(copies_of_padding_stay_undefined)
{
#define USE(offset)                                              \
    "global_load_dword v6, v10, s[2:3] offset:" offset "\n" WAIT \
    "v_cmp_eq_u32 vcc, 0, v6\ns_cbranch_vccz out\nout:"
    expect(PAIR STORE2 USE("4"), PAIR STORE2 USE("0"));
    expect(PAIR STORE2 "global_load_dwordx2 v[4:5], v10, s[2:3]\n" WAIT STORE1("v5"),
           PAIR STORE2 "global_load_dwordx2 v[4:5], v10, s[2:3]\n" WAIT STORE2);
    expect(PAIR STORE2 USE("4"),
           PAIR STORE2 "global_store_dword v10, v10, s[2:3] offset:4\n" WAIT USE("4"));
}

/* s4 is 0xffff. The first line leaves half of a register undefined, the second line completes
 * it. */
TEST(halves_combine_to_a_defined_register)
{
    static const char *const pairs[][2] = {
        {"v_bfi_b32 v4, s4, v10, v1\n", "v_lshlrev_b32 v5, 16, v10\nv_bfi_b32 v4, s4, v4, v5\n"},
        {"v_bfi_b32 v4, s4, v1, v10\n", "v_bfi_b32 v4, s4, v10, v4\n"},
        {"v_lshl_or_b32 v4, v1, 16, v10\n",
         "v_and_b32 v4, 0xffff, v4\nv_lshl_or_b32 v4, v10, 16, v4\n"},
        {"v_alignbit_b32 v4, v10, v1, 16\n",
         "v_lshrrev_b32 v4, 16, v4\nv_alignbit_b32 v4, v4, v10, 16\n"},
        {"v_alignbyte_b32 v4, v10, v1, 1\n", "v_and_or_b32 v4, v4, s5, v10\n"},
        {"v_perm_b32 v4, v1, v10, s6\n", "v_perm_b32 v4, v10, v4, s6\n"},
        {"v_and_or_b32 v4, v1, s5, v11\n", "v_bfi_b32 v4, s5, v10, v4\n"},
        {"v_pack_b32_f16 v4, v1, v10\n", "v_bfi_b32 v4, s4, v10, v4\n"},
        {"v_or3_b32 v4, v1, v10, v10\n", "v_and_b32 v4, 0, v4\n"},
        {"v_mov_b32_sdwa v1, v10 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0\n"
         "v_mov_b32 v4, v1\n",
         "v_mov_b32_sdwa v4, v10 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char bad[512], good[512];
        const char *masks = "s_mov_b32 s4, 0xffff\ns_mov_b32 s5, 0xff000000\n"
                            "s_mov_b32 s6, 0x07060100\nv_and_b32 v11, 0xffffff, v10\n";
        snprintf(bad, sizeof(bad), "%s%s" STORE1("v4"), masks, pairs[i][0]);
        snprintf(good, sizeof(good), "%s%s%s" STORE1("v4"), masks, pairs[i][0], pairs[i][1]);
        expect(bad, good);
    }
}

#define BRANCH_ON(v) "v_cmp_eq_u32 vcc, 0, " v "\ns_cbranch_vccz out\nout:"

/* Undefined bits that no instruction uses are no finding. The zeros of a mask are no data. */
TEST(only_used_bits_count)
{
#define FLAGS "v_and_b32 v4, 0xff00, v1\nv_or_b32 v4, 1, v4\n"
    expect(FLAGS "v_and_b32 v4, 0x101, v4\n" BRANCH_ON("v4"),
           FLAGS "v_and_b32 v4, 0x81, v4\n" BRANCH_ON("v4"));
    expect(FLAGS "v_bfe_u32 v4, v4, 8, 1\n" BRANCH_ON("v4"),
           FLAGS "v_bfe_u32 v4, v4, 0, 1\n" BRANCH_ON("v4"));
    expect("v_and_b32 v4, 0xff, v1\n" STORE1("v4"), "v_and_b32 v4, 0xff, v10\n" STORE1("v4"));
    expect("v_and_b32 v4, 63, v1\nv_lshlrev_b32 v4, 2, v4\nglobal_load_dword v5, v4, s[2:3]\n",
           "v_and_b32 v4, 0, v1\nv_lshlrev_b32 v4, 2, v4\nglobal_load_dword v5, v4, s[2:3]\n");
    expect("v_or_b32 v4, v1, v10\n" STORE1("v4"), "v_or_b32 v4, -1, v1\n" STORE1("v4"));
    expect("v_lshlrev_b32 v4, v1, v10\n" STORE1("v4"), "v_lshlrev_b32 v4, 31, v10\n" STORE1("v4"));
    expect("v_lshrrev_b32 v4, 8, v1\nglobal_store_byte v10, v4, s[2:3]\n" WAIT,
           "v_bfe_u32 v4, v1, 8, 0\nglobal_store_byte v10, v4, s[2:3]\n" WAIT);
    expect("s_mov_b64 vcc, 0\nv_cndmask_b32 v4, v1, v10, vcc\n" STORE1("v4"),
           "s_mov_b64 vcc, -1\nv_cndmask_b32 v4, v1, v10, vcc\n" STORE1("v4"));
}

/* PARTS sets the lower half of v3 and the lowest byte of v9 to defined bits. */
#define PARTS                                                               \
    "s_mov_b32 s4, 0xffff\ns_movk_i32 s5, 0xff\ns_mov_b32 s6, 0x03020100\n" \
    "s_mov_b32 s7, -1\nv_mov_b32 v2, v10\n"                                 \
    "v_bfi_b32 v3, s4, v10, v1\nv_bfi_b32 v9, s5, v10, v1\n"

/* Each operation has a result bit that depends on a defined bit and one that depends on an
 * undefined bit. */
TEST(every_operation_tracks_bits)
{
    static const struct {
        const char *text;
        unsigned defined, undefined;
        const char *result;
    } cases[] = {
        {"v_mov_b32 v4, v3", 0, 16, "v4"},
        {"v_mov_b64 v[4:5], v[2:3]", 15, 16, "v5"},
        {"v_accvgpr_write_b32 a1, v3\ns_nop 1\nv_accvgpr_mov_b32 a2, a1\ns_nop 1\n"
         "v_accvgpr_read_b32 v4, a2",
         0, 16, "v4"},
        {"v_not_b32 v4, v3", 15, 16, "v4"},
        {"v_and_b32 v4, v3, s7", 15, 16, "v4"},
        {"v_or_b32 v4, v3, v10", 15, 16, "v4"},
        {"v_xor_b32 v4, v3, v10", 15, 16, "v4"},
        {"v_xor_b32 v4, v10, v3", 15, 16, "v4"},
        {"v_xnor_b32 v4, v3, v10", 15, 16, "v4"},
        {"v_or3_b32 v4, v3, v10, v10", 15, 16, "v4"},
        {"v_and_or_b32 v4, v3, -1, v10", 15, 16, "v4"},
        {"v_bfi_b32 v4, v3, 0, -1", 15, 16, "v4"},
        {"v_bfrev_b32 v4, v3", 16, 15, "v4"},
        {"v_pack_b32_f16 v4, v10, v1", 15, 16, "v4"},
        {"v_lshlrev_b32 v4, 8, v3", 23, 24, "v4"},
        {"v_lshrrev_b32 v4, 8, v3", 7, 8, "v4"},
        {"v_ashrrev_i32 v4, 8, v3", 7, 31, "v4"},
        {"v_lshlrev_b16 v4, 4, v9", 11, 12, "v4"},
        {"v_lshrrev_b16 v4, 4, v9", 3, 4, "v4"},
        {"v_ashrrev_i16 v4, 4, v9", 3, 15, "v4"},
        {"v_lshlrev_b64 v[4:5], 8, v[2:3]", 23, 24, "v5"},
        {"v_lshrrev_b64 v[4:5], 8, v[2:3]", 7, 8, "v5"},
        {"v_ashrrev_i64 v[4:5], 8, v[2:3]", 7, 24, "v5"},
        {"v_ashrrev_i64 v[4:5], 32, v[2:3]", 15, 16, "v4"},
        {"v_lshl_or_b32 v4, v3, 8, v10", 23, 24, "v4"},
        {"v_alignbit_b32 v4, v10, v3, 8", 24, 23, "v4"},
        {"v_alignbyte_b32 v4, v10, v3, 1", 24, 23, "v4"},
        {"v_perm_b32 v4, v10, v3, s6", 15, 16, "v4"},
        {"s_mov_b64 vcc, 0\nv_cndmask_b32 v4, v3, v10, vcc", 15, 16, "v4"},
        {"v_bfe_u32 v4, v3, 8, 16", 7, 8, "v4"},
        {"v_bfe_i32 v4, v3, 8, 16", 7, 31, "v4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const char *const text = PARTS "%s\nv_bfe_u32 v6, %s, %u, 1\n" BRANCH_ON("v6");
        char bad[768], good[768];
        snprintf(bad, sizeof(bad), text, cases[i].text, cases[i].result, cases[i].undefined);
        snprintf(good, sizeof(good), text, cases[i].text, cases[i].result, cases[i].defined);
        expect(bad, good);
    }
    /* A half-defined register becomes defined. Its neighbour does not. */
#define WHOLE_V5                                                      \
    PARTS "v_mov_b32 v5, v3\nv_mov_b32 v12, v3\nv_mov_b32 v13, v10\n" \
          "v_mov_b64 v[4:5], v[12:13]\n"
    expect(WHOLE_V5 "v_bfe_u32 v6, v4, 16, 1\n" BRANCH_ON("v6"),
           WHOLE_V5 "v_bfe_u32 v6, v5, 16, 1\n" BRANCH_ON("v6"));
}

/* Equal results for equal undefined sources say nothing, since the sources may differ. */
TEST(undefined_sources_may_differ)
{
    expect("v_mov_b32 v5, v1\nv_xor_b32 v4, v1, v5\n" STORE1("v4"),
           "v_mov_b32 v5, v10\nv_xor_b32 v4, v10, v5\n" STORE1("v4"));
    expect("v_mov_b32 v5, v1\nv_sub_u32 v4, v1, v5\n" STORE1("v4"),
           "v_mov_b32 v5, v10\nv_sub_u32 v4, v10, v5\n" STORE1("v4"));
}

/* Tests gfx950. v4 is an undefined byte above a defined byte. */
TEST(logic_of_three_sources_tracks_bits)
{
#define BYTES "v_lshlrev_b16 v5, 8, v1\nv_bitop3_b16 v4, v10, v5, 0 bitop3:0xfc\n"
#define DWORDS PARTS "v_bitop3_b32 v4, v3, v10, 0 bitop3:0xfc\n"
    expect_on(GFX950, BYTES "v_bfe_u32 v6, v4, 15, 1\n" BRANCH_ON("v6"),
              BYTES "v_bfe_u32 v6, v4, 7, 1\n" BRANCH_ON("v6"));
    expect_on(GFX950, BYTES "v_lshrrev_b16 v6, 8, v4\nv_cvt_f32_fp8 v6, v6\n" STORE1("v6"),
              BYTES "v_and_b32 v6, 0xff, v4\nv_cvt_f32_fp8 v6, v6\n" STORE1("v6"));
    expect_on(GFX950, DWORDS "v_bfe_u32 v6, v4, 16, 1\n" BRANCH_ON("v6"),
              DWORDS "v_bfe_u32 v6, v4, 15, 1\n" BRANCH_ON("v6"));
}

/* Tests gfx1250. Triton converts single elements with instructions for vectors, whose other
 * registers are undefined. */
TEST(conversions_of_a_vector_need_one_element)
{
#define NARROW "v_cvt_scalef32_pk8_fp8_f32 v[30:31], v[20:27], 1.0\n"
#define WIDEN "v_cvt_scale_pk8_f16_fp8 v[30:33], v[20:21], 0x7f\n"
#define UNKNOWN(r) "v_mov_b32 v" r ", v1\n"
#define UNKNOWN8  \
    UNKNOWN("20") \
    UNKNOWN("21") \
    UNKNOWN("22") UNKNOWN("23") UNKNOWN("24") UNKNOWN("25") UNKNOWN("26") UNKNOWN("27")
#define USE_V30 "v_cmp_eq_u32 vcc_lo, 0, v30\ns_cbranch_vccz out\nout:"
    expect_on(GFX1250, UNKNOWN8 NARROW USE_V30, UNKNOWN8 "v_mov_b32 v20, 0\n" NARROW USE_V30);
    expect_on(GFX1250, UNKNOWN8 WIDEN USE_V30, UNKNOWN8 "v_mov_b32 v20, 0\n" WIDEN USE_V30);
    /* Each register of the result has its own elements. The last result overlaps its source. */
#define FIRST UNKNOWN8 "v_mov_b32 v20, 0\n"
#define WIDEN_F32 "v_cvt_scale_pk8_f32_fp8 v[30:37], v[20:21], 0x7f\n"
#define WIDEN_OVER "v_cvt_scale_pk8_f32_fp8 v[14:21], v[20:21], 0x7f\n"
#define BRANCH_ZERO(v) "v_cmp_eq_u32 vcc_lo, 0, " v "\ns_cbranch_vccz out\nout:"
    expect_on(GFX1250, FIRST WIDEN_F32 BRANCH_ZERO("v34"), FIRST WIDEN_F32 BRANCH_ZERO("v33"));
    expect_on(GFX1250, FIRST WIDEN_F32 BRANCH_ZERO("v37"), FIRST WIDEN_F32 BRANCH_ZERO("v30"));
    expect_on(GFX1250, FIRST WIDEN_OVER BRANCH_ZERO("v21"), FIRST WIDEN_OVER BRANCH_ZERO("v17"));
    expect_on(GFX1250, FIRST NARROW BRANCH_ZERO("v31"),
              UNKNOWN8 "v_mov_b32 v27, 0\n" NARROW BRANCH_ZERO("v31"));
    expect_on(GFX1250, UNKNOWN8 "v_mov_b32 v24, 0\n" NARROW BRANCH_ZERO("v30"),
              UNKNOWN8 "v_mov_b32 v23, 0\n" NARROW BRANCH_ZERO("v30"));
}

/* Tests gfx1250. The lowest byte of v9 is defined, and so is the lowest byte of each result. */
TEST(operations_of_halves_track_bits)
{
    static const char *const cases[] = {
        ".long 0x7e083909", /* v_mov_b16 v4.l, v9.l, which LLVM 22 only accepts with real-true16 */
        "v_not_b16 v4, v9",
        "v_and_b16 v4, v9, v8",
        "v_or_b16 v4, v9, v10",
        "v_xor_b16 v4, v9, v10",
        "v_bitop3_b16 v4, v9, v10, 0 bitop3:0xfc",
        "v_cndmask_b16 v4, v9, v10, vcc_lo",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const char *const text =
            "s_movk_i32 s5, 0xff\nv_mov_b32 v8, -1\ns_mov_b32 vcc_lo, 0\n"
            "v_bfi_b32 v9, s5, v10, v1\n%s\nv_bfe_u32 v6, v4, %u, 1\n"
            "v_cmp_eq_u32 vcc_lo, 0, v6\ns_cbranch_vccz out\nout:";
        char bad[512], good[512];
        snprintf(bad, sizeof(bad), text, cases[i], 8);
        snprintf(good, sizeof(good), text, cases[i], 7);
        expect_on(GFX1250, bad, good);
    }
}

/* For arithmetic a register with one defined bit is defined, unless that bit is only a zero of a
 * mask. */
TEST(a_defined_bit_suffices_for_arithmetic)
{
#define USED(text) PARTS "v_lshlrev_b32 v11, 16, v1\n" text "v_add_u32 v5, v4, v10\n" STORE1("v5")
    expect(USED("v_or_b32 v4, 0, v11\n"), USED("v_or_b32 v4, v10, v11\n"));
    expect(USED("v_or_b32 v4, v11, v11\n"), USED("v_or_b32 v4, v11, v10\n"));
    expect(USED("v_or3_b32 v4, v11, 0, v11\n"), USED("v_or3_b32 v4, v11, 0, v10\n"));
    expect(USED("v_mov_b32 v4, v1\n"), USED("v_mov_b32 v4, v3\n"));
    /* Only lane 0 has defined bits. */
    expect(USED("s_mov_b64 exec, 1\nv_or_b32 v4, v1, v11\n"),
           USED("s_mov_b64 exec, 1\nv_mov_b32 v1, v10\nv_or_b32 v4, v1, v11\n"));
}

/* One byte of a dword is defined. Compilers load the dword and use only that byte. */
TEST(bytes_of_a_dword)
{
#define LOAD_BYTES                                          \
    "global_store_byte v10, v10, s[2:3] offset:2049\n" WAIT \
    "global_load_dword v4, v10, s[2:3] offset:2048\n" WAIT
    expect(LOAD_BYTES "v_bfe_u32 v4, v4, 16, 8\n" BRANCH_ON("v4"),
           LOAD_BYTES "v_bfe_u32 v4, v4, 8, 8\n" BRANCH_ON("v4"));
    expect(LOAD_BYTES "v_cvt_f32_ubyte0 v4, v4\n" STORE1("v4"),
           LOAD_BYTES "v_cvt_f32_ubyte1 v4, v4\n" STORE1("v4"));
    expect(LOAD_BYTES "global_store_byte v10, v4, s[2:3]\n" WAIT,
           LOAD_BYTES "v_lshrrev_b32 v4, 8, v4\nglobal_store_byte v10, v4, s[2:3]\n" WAIT);
    expect(LOAD_BYTES "v_mov_b32_sdwa v4, v4 src0_sel:BYTE_3\n" STORE1("v4"),
           LOAD_BYTES "v_mov_b32_sdwa v4, v4 src0_sel:BYTE_1\n" STORE1("v4"));
    /* The bits above a byte that a load extends are zeros, which are not data. */
#define EXTENDED "global_load_ubyte v4, v10, s[2:3] offset:2048\n" WAIT
    expect(EXTENDED "v_bfe_u32 v4, v4, 7, 1\n" BRANCH_ON("v4"),
           EXTENDED "v_bfe_u32 v4, v4, 8, 1\n" BRANCH_ON("v4"));
    expect(EXTENDED "v_lshl_or_b32 v4, v4, 8, v10\nv_cvt_f32_ubyte1 v4, v4\n" STORE1("v4"),
           EXTENDED "v_lshl_or_b32 v4, v10, 8, v4\nv_cvt_f32_ubyte1 v4, v4\n" STORE1("v4"));
    expect(EXTENDED "v_add_u32 v4, v4, v10\n" STORE1("v4"),
           LOAD_BYTES "v_add_u32 v4, v4, v10\n" STORE1("v4"));
    expect("global_load_sbyte v4, v10, s[2:3] offset:2048\n" WAIT
           "v_bfe_u32 v4, v4, 31, 1\n" BRANCH_ON("v4"),
           "global_load_ushort v4, v10, s[2:3] offset:2048\n" WAIT
           "v_bfe_u32 v4, v4, 31, 1\n" BRANCH_ON("v4"));
    /* The bytes are copied through LDS and through memory. */
#define TO_LDS LOAD_BYTES "ds_write_b32 v10, v4\n" WAIT
    expect(TO_LDS "ds_read_u8 v5, v10 offset:2\n" WAIT STORE1("v5"),
           TO_LDS "ds_read_u8 v5, v10 offset:1\n" WAIT STORE1("v5"));
#define COPY LOAD_BYTES STORE1("v4")
    expect(COPY "global_load_ubyte v5, v10, s[2:3]\n" WAIT STORE1("v5"),
           COPY "global_load_ubyte v5, v10, s[2:3] offset:1\n" WAIT STORE1("v5"));
}

/* Loads of a half clear the other one on gfx942 and keep it on gfx1201, defined or not. */
TEST(loads_of_halves)
{
#define HALF "global_load_short_d16 v1, v10, s[2:3] offset:2048\n" WAIT
    expect(HALF "v_bfe_u32 v4, v1, 15, 1\n" BRANCH_ON("v4"),
           HALF "v_bfe_u32 v4, v1, 16, 1\n" BRANCH_ON("v4"));
#define HALF_BYTE "global_load_ubyte_d16_hi v1, v10, s[2:3] offset:2048\n" WAIT
    expect(HALF_BYTE "v_bfe_u32 v4, v1, 23, 1\n" BRANCH_ON("v4"),
           HALF_BYTE "v_bfe_u32 v4, v1, 24, 1\n" BRANCH_ON("v4"));
#define LOAD12(load, v, at) load " " v ", v10, s[2:3] offset:" at "\ns_wait_loadcnt 0\n"
#define BRANCH12(bit)                                                                \
    "v_bfe_u32 v4, v4, " bit ", 1\nv_readfirstlane_b32 s4, v4\ns_cmp_eq_u32 s4, 0\n" \
    "s_cbranch_scc1 out\nout:"
    /* Half of v4 is loaded from undefined memory; the other is kept from v10. */
#define LOST "v_mov_b32 v4, v10\n" LOAD12("global_load_d16_hi_b16", "v4", "2048")
    expect_on(GFX1201, LOST BRANCH12("16"), LOST BRANCH12("15"));
    /* Half of v4 is loaded from defined memory; the other is kept from undefined memory. */
#define WON                                 \
    LOAD12("global_load_u16", "v4", "2048") \
    LOAD12("global_load_d16_hi_b16", "v4", "0")
    expect_on(GFX1201, WON BRANCH12("15"), WON BRANCH12("16"));
    expect_on(GFX1250, LOST BRANCH12("16"), WON BRANCH12("15"));
}

/* A selection by a defined scalar keeps the state of bits that come from memory. */
TEST(scalars_select_bits)
{
    expect(LOAD_BYTES S45(0) "v_and_b32 v4, s4, v4\n" STORE1("v4"),
           LOAD_BYTES S45(-1) "v_and_b32 v4, s5, v4\n" STORE1("v4"));
}

/* A 16-byte store without defined bytes may be padding if it is next to other stores of the same
 * structure. */
TEST(a_store_may_be_padding_only)
{
#define BLOCK                                                                            \
    "v_mov_b32 v8, 7\nscratch_store_dword off, v8, off\nv_lshlrev_b32 v9, 2, v10\n" WAIT \
    "scratch_load_dwordx4 v[4:7], off, off\n"                                            \
    "scratch_load_dwordx4 v[12:15], off, off offset:16\n" WAIT
#define STORE4(v, at) "global_store_dwordx4 v9, " v ", s[2:3] offset:" at "\n" WAIT
    expect(BLOCK STORE4("v[12:15]", "16"), BLOCK STORE4("v[4:7]", "0") STORE4("v[12:15]", "16"));
    expect(BLOCK STORE4("v[12:15]", "16") STORE4("v[12:15]", "32"),
           BLOCK STORE4("v[12:15]", "16") STORE4("v[4:7]", "0"));
    expect(BLOCK STORE4("v[4:7]", "0") "v_add_u32 v12, v1, v12\n" STORE4("v[12:15]", "16"),
           BLOCK STORE4("v[4:7]", "0") "v_mov_b32 v12, v13\n" STORE4("v[12:15]", "16"));
}

/* The report names the load of the undefined value, even after moves, arithmetic and a
 * comparison. */
TEST(the_load_of_an_undefined_value_is_named)
{
    static const struct {
        const char *text, *load;
    } cases[] = {
        {"global_load_dword v4, v10, s[2:3] offset:2048\n" WAIT STORE1("v4"), "entry+0: global_l"},
        {"s_nop 0\nscratch_load_dword v4, off, off\n" WAIT "v_mov_b32 v5, v4\n"
         "v_add_f32 v6, v5, v5\n" STORE1("v6"),
         "entry+4: scratch_load_dword"},
        {"global_load_dword v4, v10, s[2:3]\nglobal_load_dword v5, v10, s[2:3] offset:2048\n" WAIT
         "v_add_u32 v6, v4, v5\nv_mov_b32 v5, 0\nv_cmp_eq_u32 vcc, 0, v6\n"
         "s_cbranch_vccz out\nout:",
         "entry+8: global_load_dword v5"},
        {"s_load_dword s4, s[2:3], 0x800\n" WAIT "s_cmp_eq_u32 s4, 0\ns_cbranch_scc1 out\nout:",
         "entry+0: s_load_dword s4"},
        {"global_load_dword v4, v10, s[2:3] offset:2048\n" WAIT
         "v_add_co_u32 v6, vcc, v4, v10\nv_mov_b32 v4, 0\ns_cbranch_vccz out\nout:",
         "entry+0: global_load_dword v4"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char wanted[100];
        const struct fault fault = run(cases[i].text);
        snprintf(wanted, sizeof(wanted), "the value comes from the load at %s", cases[i].load);
        if (fault.kind != FAULT_UNINIT || !strstr(fault.text, wanted))
            fail_msg("%s\n%s", cases[i].text, fault.text);
    }
    const struct fault none = run(STORE1("v1"));
    assert_int_equal(none.kind, FAULT_UNINIT);
    assert_null(strstr(none.text, "comes from"));
}

/* Returns the kind of the fault of waves that branch on the bits `mask` of SGPR `reg`, and trap if
 * these bits are `never`. The launch has two waves, two user SGPRs, the workgroup's number in y
 * and, if they are enabled, two other system SGPRs. */
static enum fault_kind branch_on(unsigned reg, uint32_t mask, uint32_t never, bool info,
                                 bool offset)
{
    char text[160];
    size_t bytes;
    snprintf(text, sizeof(text),
             "s_and_b32 s20, s%u, 0x%x\ns_cmp_lg_u32 s20, 0x%x\ns_cbranch_scc1 1f\ns_trap 2\n"
             "1: s_endpgm\n",
             reg, mask, never);
    void *const machine = assemble(GFX942, text, &bytes);
    struct code *const code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    struct launch launch = {
        .code = code,
        .kernel = "branch",
        .entry_pc = code_address(code),
        .grid = {128, 1, 1},
        .block = {128, 1, 1},
        .nvgpr = 8,
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {false, true, false},
        .sgpr_workgroup_info = info,
        .sgpr_private_offset = offset,
        .checks = CHECK_UNINIT,
    };
    engine_run(&launch);
    code_destroy(code);
    free(machine);
    return launch.fault.kind;
}

/* User SGPRs come first, then the enabled system SGPRs, then undefined ones (AMDGPUUsage, "SGPR
 * Register Set Up Order"). */
TEST(a_wave_begins_with_the_sgprs_of_its_launch)
{
    for (unsigned enabled = 0; enabled < 4; enabled++) {
        const bool info = enabled & 1, offset = enabled & 2;
        const unsigned first = 3u + info + offset;
        for (unsigned reg = 0; reg < 8; reg++)
            assert_int_equal(branch_on(reg, 63, 1, info, offset),
                             reg < first ? FAULT_NONE : FAULT_UNINIT);
    }
}

/* The SGPR of workgroup information has the number of waves in bits 5:0, and 1 in bit 31 of the
 * first wave. The term of ordered appends, bits 16:6, is undefined; the others are zeros. */
TEST(an_sgpr_has_information_on_the_workgroup)
{
    assert_int_equal(branch_on(3, 0x7ffe003f, 2, true, false), FAULT_TRAP);
    assert_int_equal(branch_on(3, 0x80000000, 0, true, false), FAULT_TRAP);
    assert_int_equal(branch_on(3, 0x80000000, 0x80000000, true, false), FAULT_TRAP);
    for (unsigned bit = 0; bit < 32; bit++)
        assert_int_equal(branch_on(3, 1u << bit, 0, true, false) == FAULT_UNINIT,
                         bit >= 6 && bit < 17);
}

int main(void) { return run_unit_tests(); }
