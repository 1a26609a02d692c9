/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the hazard check on kernels with one wait state less than LLVM inserts, and on the same
 * kernels with that wait state. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

static enum fault_kind run(enum gfx_target target, const char *first, int states,
                           const char *second, uint32_t checks)
{
    char text[512], nops[256] = "";
    for (int left = states, n = 0; left > 0; left -= 8)
        n += snprintf(nops + n, sizeof(nops) - (size_t)n, "s_nop %d\n", left < 8 ? left - 1 : 7);
    snprintf(text, sizeof(text), "%s\n%s%s\ns_nop 7\ns_nop 7\ns_nop 7", first, nops, second);
    struct program p = program_new(target);
    p.checks = checks;
    void *memory = device_alloc(4096, NULL);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)memory);
    program_try(&p, text);
    hipsim_mem_free(memory);
    return p.fault.kind;
}

static void expect_kind(enum fault_kind kind, enum gfx_target target, const char *first, int need,
                        const char *second)
{
    const uint32_t check = UINT32_C(1) << kind, both = CHECK_HAZARD | CHECK_STRICT;
    if (need > 0) {
        if (run(target, first, need - 1, second, check) != kind)
            fail_msg("%d wait states pass: %s, %s", need - 1, first, second);
        assert_int_equal(run(target, first, need - 1, second, both & ~check), FAULT_NONE);
    }
    if (run(target, first, need, second, both) != FAULT_NONE)
        fail_msg("%d wait states are too few: %s, %s", need, first, second);
}

static void expect(enum gfx_target target, const char *first, int need, const char *second)
{
    expect_kind(FAULT_HAZARD, target, first, need, second);
}

TEST(matrix_results)
{
    const char *small = "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]";
    const char *large = "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[16:31]";
    expect_kind(FAULT_STRICT, GFX942, small, 7, "v_mov_b32 v40, v1");
    expect_kind(FAULT_STRICT, GFX950, small, 8, "v_mov_b32 v40, v1");
    expect_kind(FAULT_STRICT, GFX942, large, 11, "v_mov_b32 v40, v1");
    expect_kind(FAULT_STRICT, GFX942, small, 7, "v_pk_mul_f32 v[40:41], v[2:3], v[2:3]");
    expect(GFX942, small, 7, "ds_write_b32 v40, v1");
    expect(GFX942, large, 11, "v_mov_b32 v1, v40");
    expect(GFX950, large, 12, "global_store_dword v40, v1, s[2:3]");
    expect_kind(FAULT_STRICT, GFX942, "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, v[16:31]", 18,
                "v_mov_b32 v40, v1");
    expect(GFX942, small, 7, "v_mfma_f32_16x16x16_f16 v[40:43], v[0:1], v[34:35], v[36:39]");
    expect(GFX942, small, 0, "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[0:3]");
    expect(GFX942, small, 5, "v_mfma_f32_16x16x16_f16 v[40:43], v[32:33], v[34:35], v[2:5]");
    expect(GFX950, small, 6, "v_mfma_f32_16x16x16_f16 v[40:43], v[32:33], v[34:35], v[2:5]");
}

/* A matrix instruction has to wait for a vector result that it reads, but not for other results or
 * for one that it overwrites: CDNA3 ISA, 7.6. */
TEST(operands_of_matrix_instructions)
{
    const char *matrix = "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]";
    expect(GFX942, "v_mov_b32 v33, v1", 2, matrix);
    expect(GFX942, "v_mov_b32 v35, v1", 2, matrix);
    expect(GFX942, "v_mov_b32 v39, v1", 2, matrix);
    expect(GFX942, "v_mov_b32 v40, v1", 0, matrix);
    expect(GFX942, "v_mov_b32 v3, v1", 0, matrix);
}

TEST(vector_results)
{
    expect(GFX942, "v_mov_b32 v32, v40", 2,
           "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]");
    expect(GFX942, "v_mov_b32 v1, v2", 2, "v_mov_b32_dpp v3, v1 row_shr:1");
    expect(GFX942, "v_cmpx_eq_u32 v1, v1", 5, "v_mov_b32_dpp v3, v4 row_shr:1");
    expect(GFX942, "v_exp_f32 v1, v2", 1, "v_add_f32 v3, v1, v4");
    expect(GFX942, "v_exp_f32 v1, v2", 0, "v_exp_f32 v3, v1");
    expect(GFX942, "v_mov_b32 v1, v2", 1, "v_readfirstlane_b32 s8, v1");
    expect(GFX942, "v_mov_b32 v1, v2", 0, "v_add_u32 v3, v1, v1");
}

TEST(scalar_results)
{
    expect(GFX942, "v_readfirstlane_b32 s8, v1", 4, "v_readlane_b32 s9, v2, s8");
    expect(GFX942, "v_cmp_eq_u32 vcc, v1, v2", 4, "v_div_fmas_f32 v3, v4, v5, v6");
    expect_kind(FAULT_STRICT, GFX942, "v_cmp_eq_u32 vcc, v1, v2", 2,
                "v_cndmask_b32 v3, v4, v5, vcc");
    expect_kind(FAULT_STRICT, GFX942, "v_add_co_u32 v1, vcc, v1, v2", 2,
                "v_addc_co_u32 v3, vcc, v4, v5, vcc");
    expect(GFX942, "v_mov_b32 v9, s3\ns_nop 4\nv_readfirstlane_b32 s3, v9", 5,
           "global_store_dword v40, v4, s[2:3]");
    /* A carry is the second result. No lanes are active, so the mask is not used as an address. */
    expect(GFX942, "s_mov_b64 exec, 0\nv_add_co_u32 v8, s[4:5], v8, v8", 5,
           "global_store_dword v40, v4, s[4:5]");
}

/* Implicit reads, and reads of registers by special names, also need wait states: CDNA4 ISA, 4.5,
 * table 11. */
TEST(implicit_reads)
{
    expect(GFX942, "v_cmp_eq_u32 vcc, v1, v2", 5, "v_mov_b32 v3, src_vccz");
    expect(GFX942, "v_cmp_eq_u32 vcc, v1, v2", 0, "v_mov_b32 v3, src_execz");
    expect(GFX942, "v_cmpx_eq_u32 vcc, v1, v1", 5, "v_mov_b32 v3, src_execz");
    expect(GFX942, "v_cmp_eq_u32 s[8:9], v1, v2", 0, "v_mov_b32 v3, src_vccz");
    expect(GFX942, "v_cmpx_eq_u32 s[8:9], v1, v1", 4, "v_readfirstlane_b32 s10, v4");
    expect(GFX942, "v_cmpx_eq_u32 s[8:9], v1, v1", 4, "v_writelane_b32 v4, s10, 3");
    expect(GFX950, "v_cmpx_eq_u32 s[8:9], v1, v1", 4, "v_permlane32_swap_b32 v4, v5");
    expect_kind(FAULT_STRICT, GFX942, "v_cmpx_eq_u32 s[8:9], v1, v1", 2, "v_mov_b32 v3, exec_lo");
    expect(GFX942, "v_cmpx_eq_u32 s[8:9], v1, v1", 0, "v_mov_b32 v3, v4");
}

/* Results: v[0:7]; of the 4x4x4 instruction v[2:3]. */
#define F64 "v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[16:23]"
#define F64_SMALL "v_mfma_f64_4x4x4_4b_f64 v[2:3], v[32:33], v[34:35], v[16:17]"

TEST(matrices_of_doubles)
{
    expect(GFX942, F64, 11, "v_mov_b32 v40, v1");
    expect(GFX950, F64, 19, "v_mov_b32 v40, v1");
    expect(GFX950, F64, 11, "v_mov_b32 v1, v40");
    expect(GFX942, F64, 18, "global_store_dword v40, v1, s[2:3]");
    expect(GFX942, F64, 11, "v_mfma_f64_16x16x4_f64 v[48:55], v[2:3], v[34:35], v[56:63]");
    expect(GFX950, F64, 19, "v_mfma_f64_16x16x4_f64 v[48:55], v[2:3], v[34:35], v[56:63]");
    expect(GFX942, F64, 9, "v_mfma_f64_16x16x4_f64 v[48:55], v[32:33], v[34:35], v[2:9]");
    expect(GFX950, F64, 17, "v_mfma_f64_16x16x4_f64 v[48:55], v[32:33], v[34:35], v[2:9]");
    expect(GFX942, F64, 0, "v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[0:7]");
    expect(GFX942, F64, 0, "v_mfma_f32_16x16x16_f16 v[40:43], v[32:33], v[34:35], v[2:5]");
    expect(GFX942, F64, 2, "v_fma_f64 v[40:41], v[42:43], v[42:43], v[42:43]");
    expect(GFX942, F64_SMALL, 6, "v_mov_b32 v40, v3");
    expect(GFX942, F64_SMALL, 9, "global_store_dword v40, v3, s[2:3]");
    expect(GFX942, F64_SMALL, 9, "ds_bpermute_b32 v40, v3, v41");
    expect(GFX942, F64, 18, "ds_bpermute_b32 v40, v41, v1");
    expect(GFX942, F64_SMALL, 6, "v_mov_b32 v3, v40");
    expect(GFX942, F64_SMALL, 2, "v_fma_f64 v[40:41], v[42:43], v[42:43], v[42:43]");
    expect(GFX942, F64_SMALL, 4, "v_mfma_f64_4x4x4_4b_f64 v[2:3], v[32:33], v[34:35], v[2:3]");
    expect(GFX942, F64_SMALL, 6, "v_mfma_f64_4x4x4_4b_f64 v[40:41], v[2:3], v[34:35], v[42:43]");
    expect(GFX942, "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]", 5,
           "v_mfma_f64_16x16x4_f64 v[48:55], v[32:33], v[34:35], v[2:9]");
}

TEST(addends_are_read_late)
{
    const char *small = "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]";
    expect(GFX942, small, 3, "v_mov_b32 v37, v40");
    expect(GFX942, small, 3, "global_load_dword v37, v40, s[2:3]");
    expect(GFX942, small, 0, "v_mov_b32 v32, v40");
    expect(GFX950, "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[16:31]", 7,
           "v_mov_b32 v17, v40");
    expect(GFX942, "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[32:33], v[34:35], v[36:39]", 1,
           "v_mov_b32 v37, v40");
    expect(GFX950, "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[32:39], v[40:47], v[16:31]", 15,
           "v_mov_b32 v17, v48");
    expect(GFX942, "v_mfma_f32_16x16x4_f32 v[0:3], v32, v33, v[36:39]", 0, "v_mov_b32 v37, v40");
}

TEST(dot_products)
{
    const char *dot = "v_dot4_i32_i8 v1, v4, v5, v6";
    expect(GFX942, dot, 3, "v_mov_b32 v40, v1");
    expect(GFX942, dot, 3, "v_mov_b32 v1, v40");
    expect(GFX942, dot, 3, "global_store_dword v40, v1, s[2:3]");
    expect(GFX942, dot, 3, "v_dot4_i32_i8 v9, v1, v5, v6");
    expect(GFX942, dot, 0, "v_dot4_i32_i8 v9, v4, v5, v1");
    expect(GFX942, dot, 3, "v_dot8_i32_i4 v9, v4, v5, v1");
    expect(GFX942, "v_dot4_i32_i8 v32, v4, v5, v6", 0,
           "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]");
}

TEST(masks_of_lanes)
{
    const char *compare = "v_cmpx_eq_u32 v11, v11";
    expect(GFX942, compare, 4, "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]");
    expect(GFX942, compare, 4, "v_readlane_b32 s9, v2, 3");
    expect(GFX942, compare, 4, "v_readfirstlane_b32 s9, v2");
    expect(GFX942, compare, 4, "v_writelane_b32 v2, s9, 3");
    /* CDNA4 ISA, 4.5, table 11 has no row with EXEC before VMEM. Composable Kernel's
     * amd_buffer_addressing.hpp has s_nop 4 before both instructions, for the resource, and no
     * s_nop between them. */
    expect_kind(FAULT_STRICT, GFX942, compare, 5, "buffer_load_dword v40, v1, s[4:7], 0 offen");
    expect_kind(FAULT_STRICT, GFX950, compare, 5, "global_store_dword v40, v1, s[2:3]");
    expect(GFX942, compare, 0, "v_mov_b32 v2, v3");
    expect(GFX942, "s_mov_b64 exec, -1", 0, "v_mov_b32_dpp v3, v4 row_shr:1");
}

TEST(parts_of_registers)
{
    expect(GFX942,
           "v_add_u16_sdwa v1, v5, v6 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE "
           "src0_sel:DWORD src1_sel:DWORD",
           1, "v_mov_b32 v40, v1");
    expect(GFX942,
           "v_add_u16_sdwa v1, v5, v6 dst_sel:DWORD dst_unused:UNUSED_PAD "
           "src0_sel:WORD_1 src1_sel:DWORD",
           0, "v_mov_b32 v40, v1");
    expect(GFX942, "v_mad_u16 v1, v5, v6, v7 op_sel:[0,0,0,1]", 1, "v_mov_b32 v40, v1");
    expect(GFX942, "v_mad_u16 v1, v5, v6, v7 op_sel:[0,0,0,1]", 1, "v_mov_b32 v1, v40");
    expect(GFX942, "v_mad_u16 v1, v5, v6, v7 op_sel:[1,0,0,0]", 0, "v_mov_b32 v40, v1");
    expect(GFX942, "v_cvt_pk_fp8_f32 v1, v5, v6 op_sel:[0,0,1]", 1, "v_mov_b32 v40, v1");
    expect(GFX942, "v_cvt_pk_fp8_f32 v1, v5, v6", 0, "v_mov_b32 v40, v1");
    expect(GFX942, "v_cvt_sr_fp8_f32 v1, v5, v6 op_sel:[0,0,1,0]", 1, "v_mov_b32 v40, v1");
    expect(GFX942, "v_mad_u16 v1, v5, v6, v7 op_sel:[0,0,0,1]", 0,
           "global_store_dword v40, v1, s[2:3]");
}

TEST(swaps)
{
    expect(GFX950, "v_mov_b32 v1, v2", 2, "v_permlane32_swap_b32 v1, v5");
    expect(GFX950, "v_mov_b32 v1, v2", 2, "v_permlane16_swap_b32 v5, v1");
    expect(GFX950, "v_permlane32_swap_b32 v1, v5", 2, "v_permlane32_swap_b32 v5, v6");
    expect(GFX950, "v_cmpx_eq_u32 v11, v11", 4, "v_permlane32_swap_b32 v1, v5");
    expect(GFX950, "v_permlane32_swap_b32 v1, v5", 0, "v_mov_b32 v40, v1");
    expect(GFX950, "v_mov_b32 v1, v2", 0, "v_permlane32_swap_b32 v5, v6");
}

TEST(mode_and_m0)
{
    const char *set = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0";
    expect(GFX942, set, 2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15");
    expect(GFX942, set, 2, "s_getreg_b32 s9, hwreg(HW_REG_MODE)");
    expect(GFX942, set, 0, "s_getreg_b32 s9, hwreg(HW_REG_TRAPSTS)");
    expect(GFX942, set, 0, "v_add_f32 v1, v2, v3");
    expect(GFX942, "s_mov_b32 m0, 0", 1, "s_sendmsg sendmsg(MSG_INTERRUPT)");
    expect(GFX942, "s_mov_b32 m0, 0", 1, "s_movrels_b32 s9, s8");
    expect(GFX942, "s_mov_b32 s9, 0", 0, "s_sendmsg sendmsg(MSG_INTERRUPT)");
    expect_kind(FAULT_STRICT, GFX942, "s_mov_b32 m0, 0", 1, "global_load_lds_dword v40, s[2:3]");
}

/* No wait states are required across a call: compilers insert none. */
TEST(calls_take_longer_than_hazards)
{
    expect(GFX942,
           "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\ns_call_b64 s[30:31], next\nnext:", 0,
           "s_getreg_b32 s9, hwreg(HW_REG_MODE)");
}

TEST(wide_stores)
{
    expect(GFX942, "global_store_dwordx4 v40, v[4:7], s[2:3]", 2, "v_mov_b32 v6, 0");
    expect(GFX942, "global_store_dwordx4 v40, v[4:7], s[2:3]", 0, "v_mov_b32 v8, 0");
    expect(GFX942, "global_store_dwordx2 v40, v[4:5], s[2:3]", 0, "v_mov_b32 v5, 0");
    expect(GFX942, "global_store_dwordx3 v40, v[4:6], s[2:3]", 2,
           "v_mfma_f32_16x16x16_f16 v[4:7], v[32:33], v[34:35], v[36:39]");
    const char *buffer = "s_mov_b32 s4, s2\ns_and_b32 s5, s3, 0xffff\ns_mov_b32 s6, 0x1000\n"
                         "s_mov_b32 s7, 0x20000\ns_mov_b32 s8, 0\n";
    char text[512];
    snprintf(text, sizeof(text), "%sbuffer_store_dwordx4 v[4:7], v40, s[4:7], s8 offen", buffer);
    expect(GFX950, text, 1, "v_pk_mul_f32 v[4:5], v[4:5], v[4:5]");
    snprintf(text, sizeof(text), "%sbuffer_store_dwordx4 v[4:7], v40, s[4:7], 0 offen", buffer);
    expect(GFX950, text, 2, "v_pk_mul_f32 v[4:5], v[4:5], v[4:5]");
}

/* A matrix instruction of P passes keeps the matrix core busy for P wait states (CDNA3 ISA, 7.6);
 * v_mfma_f32_16x16x16_f16 has 4 passes. The second one therefore counts as 4 of the 7 wait states
 * after the first one. */
TEST(a_busy_matrix_core_takes_time)
{
    expect_kind(FAULT_STRICT, GFX942,
                "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]\n"
                "v_mfma_f32_16x16x16_f16 v[44:47], v[32:33], v[34:35], v[36:39]",
                3, "v_mov_b32 v40, v1");
    expect_kind(FAULT_STRICT, GFX942,
                "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]\ns_nop 5\n"
                "v_mfma_f32_16x16x16_f16 v[44:47], v[32:33], v[34:35], v[36:39]",
                0, "v_mov_b32 v40, v1");
}

TEST(taken_branches_take_time)
{
    expect_kind(FAULT_STRICT, GFX942,
                "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[16:31]\n"
                "s_branch over\nv_mov_b32 v41, 0\nover:",
                3, "v_mov_b32 v40, v1");
}

/* The loop's first round passes no matrix instruction, so the check remembers that the loop has no
 * hazard. The second round passes one, and must be checked again. */
TEST(a_loop_is_checked_again_after_a_matrix_instruction)
{
#define ONCE(matrix) \
    "s_mov_b32 s10, 0\nloop:\ns_cmp_eq_u32 s10, 0\ns_cbranch_scc1 over\n" matrix "\nover:"
#define AGAIN                                                         \
    "v_mov_b32 v60, 0\nds_write_b32 v50, v1\ns_add_u32 s10, s10, 1\n" \
    "s_cmp_lt_u32 s10, 2\ns_cbranch_scc1 loop"
    expect(GFX942, ONCE("v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[16:31]"), 10, AGAIN);
    expect(GFX950, ONCE("v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[32:47]"), 19,
           AGAIN);
}

int main(void) { return run_unit_tests(); }
