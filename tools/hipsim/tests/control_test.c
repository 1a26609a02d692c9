/* SPDX-License-Identifier: Apache-2.0 */
/* Tests branches, calls, barriers, waits, MODE, indexed registers, and faulty programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

TEST(loops_and_branches)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_mov_b32 s0, 0\ns_mov_b32 s1, 0\n"
                    "loop:\ns_add_u32 s0, s0, s1\ns_add_u32 s1, s1, 1\ns_cmp_lt_u32 s1, 11\n"
                    "s_cbranch_scc1 loop\n"
                    "s_mov_b64 vcc, 0\ns_cbranch_vccz over\ns_mov_b32 s0, 0\nover:\n"
                    "s_cbranch_execz wrong\ns_branch done\nwrong:\ns_mov_b32 s0, 1\ndone:");
    assert_int_equal(p.s[0], 55);
}

/* VCCZ and EXECZ test all 64 bits. The debugger's conditions are never set. */
TEST(branches_test_whole_masks)
{
    static const struct {
        const char *branch;
        uint64_t mask; /* mask in VCC, or in EXEC */
        bool taken;
    } cases[] = {
        {"s_cbranch_vccz", 0, true},
        {"s_cbranch_vccz", UINT64_C(1) << 40, false},
        {"s_cbranch_vccnz", 0, false},
        {"s_cbranch_vccnz", UINT64_C(1) << 40, true},
        {"s_cbranch_execz", 0, true},
        {"s_cbranch_execz", UINT64_C(1) << 40, false},
        {"s_cbranch_execnz", 0, false},
        {"s_cbranch_execnz", UINT64_C(1) << 40, true},
        {"s_cbranch_scc0", 0, true},
        {"s_cbranch_cdbgsys", 0, false},
        {"s_cbranch_cdbguser", 0, false},
        {"s_cbranch_cdbgsys_or_user", 0, false},
        {"s_cbranch_cdbgsys_and_user", 0, false},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program p = program_new(GFX942);
        char text[200];
        p.s[2] = (uint32_t)cases[i].mask, p.s[3] = (uint32_t)(cases[i].mask >> 32);
        snprintf(text, sizeof(text),
                 "s_mov_b64 %s, s[2:3]\ns_mov_b32 s0, 1\n%s over\ns_mov_b32 s0, 0\nover:",
                 strstr(cases[i].branch, "exec") ? "exec" : "vcc", cases[i].branch);
        program_run(&p, text);
        if (p.s[0] != cases[i].taken)
            fail_msg("%s of %llx", cases[i].branch, (unsigned long long)cases[i].mask);
    }
}

/* Fields of S_WAITCNT's SIMM16: vmcnt 15:14 and 3:0, expcnt 6:4, lgkmcnt 11:8 (CDNA3 ISA,
 * "S_WAITCNT"). */
TEST(every_bit_of_a_wait_counts)
{
    enum { LOADS = 34, LDS = 10 };
    const uint32_t memory[64] = {0};
    const void *data = device_alloc(sizeof(memory), memory);
    char text[4096], *at;
    static const uint8_t lefts[] = {0, 1, 2, 8, 9, 15, 16, 17, 32, 33};
    for (unsigned i = 0; i < 2 * sizeof(lefts); i++) {
        const unsigned left = lefts[i / 2], operations = i % 2 ? LDS : LOADS;
        const char *load = i % 2 ? "ds_read_b32 v%u, v0\n" : "global_load_dword v%u, v0, s[2:3]\n";
        const char *counter = i % 2 ? "lgkmcnt" : "vmcnt";
        if (left >= operations)
            continue;
        at = text;
        for (unsigned k = 0; k < operations; k++)
            at += sprintf(at, load, 10 + k);
        sprintf(at,
                "s_waitcnt %s(%u)\ns_getreg_b32 s0, hwreg(HW_REG_IB_STS, 0, 24)\ns_waitcnt %s(0)",
                counter, left, counter);
        struct program p = program_new(GFX942);
        p.lds_bytes = 256;
        program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
        program_run(&p, text);
        /* More operations may have returned when the counter is read. */
        const unsigned count = i % 2 ? p.s[0] >> 8 & 15 : (p.s[0] & 15) | (p.s[0] >> 22 & 3) << 4;
        assert_in_range(count, left - (left + 3) / 4, left);
    }
}

TEST(calls_return_to_the_next_instruction)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_getpc_b64 s[2:3]\nhere:\ns_add_u32 s2, s2, callee-here\n"
                    "s_addc_u32 s3, s3, 0\ns_swappc_b64 s[30:31], s[2:3]\n"
                    "s_call_b64 s[30:31], callee\ns_branch done\n"
                    "callee:\ns_add_u32 s7, s7, 21\ns_setpc_b64 s[30:31]\ndone:");
    assert_int_equal(p.s[7], 42);
}

TEST(mode_is_a_register)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)\n"
                    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 9\ns_mov_b32 s2, 0x43\n"
                    "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s2");
    assert_int_equal(p.s[0], 15);
    /* the lower two bits of s2 */
    assert_int_equal(p.mode_after, (MODE_DEFAULT & ~(uint32_t)15) | 9);
}

/* The wave executes both sides, the side with fewer lanes first, and leaves EXEC to the program:
 * CDNA4 ISA, S_CBRANCH_G_FORK and _JOIN. */
TEST(forks_run_both_sides)
{
    static const struct {
        const char *fork;
        uint64_t mask;
        uint32_t left, right;
    } cases[] = {
        {"s_cbranch_i_fork s[20:21], right\n", 0xff, 11, 12},
        {"s_cbranch_g_fork s[20:21], s[22:23]\n", UINT64_C(0xffffffffffffff00), 12, 11},
        {"s_cbranch_i_fork s[20:21], right\n", UINT64_MAX, 11, 11},
        {"s_cbranch_i_fork s[20:21], right\n", 0, 11, 11},
    };
    for (unsigned k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct program p = program_new(GFX942);
        char text[512];
        p.s[20] = (uint32_t)cases[k].mask, p.s[21] = (uint32_t)(cases[k].mask >> 32);
        snprintf(text, sizeof(text),
                 "s_mov_b32 s24, 10\ns_mov_b32 s25, 0\ns_mov_b64 s[26:27], exec\n"
                 "s_getpc_b64 s[22:23]\nhere:\ns_add_u32 s22, s22, right-here\n"
                 "s_addc_u32 s23, s23, 0\n%s"
                 "s_add_u32 s24, s24, 1\nv_mov_b32 v1, s24\ns_branch join\n"
                 "right:\ns_add_u32 s24, s24, 1\nv_mov_b32 v2, s24\njoin:\n"
                 "s_cbranch_join s25\ns_mov_b64 exec, s[26:27]\nv_mov_b32 v3, 1",
                 cases[k].fork);
        program_run(&p, text);
        for (unsigned l = 0; l < 64; l++) {
            bool right = cases[k].mask >> l & 1;
            assert_int_equal(p.v[1][l], right ? 0 : cases[k].right);
            assert_int_equal(p.v[2][l], right ? cases[k].left : 0);
            assert_int_equal(p.v[3][l], 1);
        }
        assert_int_equal(p.mode_after >> 29, 0);
    }
}

/* Tests fields by the CDNA4 ISA's table of hardware registers and the Linux driver's trap handler
 * (cwsr_trap_handler_gfx9.asm). */
TEST(allocations_are_readable)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 4000;
    program_run(&p, "s_getreg_b32 s0, hwreg(HW_REG_LDS_ALLOC, 12, 9)\n"
                    "s_getreg_b32 s1, hwreg(HW_REG_GPR_ALLOC, 6, 6)\n"
                    "s_getreg_b32 s2, hwreg(HW_REG_GPR_ALLOC, 12, 6)\ns_setprio 2\n"
                    "s_getreg_b32 s3, hwreg(HW_REG_STATUS, 3, 2)");
    assert_int_equal(p.s[0], 16); /* 4096 bytes in units of 64 dwords */
    assert_int_equal((p.s[1] + 1) * 8, PROGRAM_VGPRS + PROGRAM_AGPRS);
    assert_int_equal((p.s[2] + 1) * 4, PROGRAM_VGPRS);
    assert_int_equal(p.s[3], 2);
}

/* Tests fields of STATUS and SH_MEM_BASES, by the CDNA4 ISA and the Linux driver's trap handler.
 * Bits of STATUS: SCC 0, EXECZ 9, VCCZ 10, IN_TG 11, VALID 16. SH_MEM_BASES: private base 15:0,
 * shared base 31:16. */
TEST(status_and_places_are_readable)
{
    static const char *const text =
        "s_mov_b64 vcc, 0\ns_cmp_eq_u32 s2, s2\ns_getreg_b32 s3, hwreg(HW_REG_STATUS)\n"
        "s_mov_b64 vcc, 4\ns_cmp_lg_u32 s2, s2\ns_getreg_b32 s4, hwreg(HW_REG_STATUS)\n"
        "s_getreg_b32 s5, hwreg(HW_REG_HW_ID, 0, 6)\ns_getreg_b32 s6, hwreg(HW_REG_XCC_ID)\n"
        "s_getreg_b32 s7, hwreg(HW_REG_SH_MEM_BASES)\ns_mov_b64 s[8:9], src_shared_base\n"
        "s_mov_b64 s[10:11], src_private_base\n"
        "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 8), 0x85\n"
        "s_getreg_b32 s12, hwreg(HW_REG_TRAPSTS, 0, 9)\ns_mov_b64 exec, 0\n"
        "s_getreg_b32 s13, hwreg(HW_REG_STATUS, 9, 1)\ns_mov_b64 exec, -1";
    struct program p = program_new(GFX942);
    program_run(&p, text);
    assert_int_equal(p.s[3], 1 | 1 << 10 | 1 << 16);
    assert_int_equal(p.s[4], 1 << 16);
    assert_int_equal(p.s[5], 0);
    assert_int_equal(p.s[7], (p.s[11] >> 16) | (p.s[9] >> 16) << 16);
    assert_int_equal(p.s[12], 0x85);
    assert_int_equal(p.s[13], 1);
    p = program_new(GFX942);
    p.block = 64 * 8;
    p.groups = 12;
    program_run(&p, "s_getreg_b32 s3, hwreg(HW_REG_STATUS, 11, 1)\n"
                    "s_getreg_b32 s6, hwreg(HW_REG_XCC_ID)\n");
    assert_int_equal(p.s[3], 1);            /* IN_TG: the workgroup has several waves */
    assert_int_equal(p.s[6], p.s[101] % 8); /* workgroups are assigned to XCDs round-robin */
}

/* Scalars that decide where a program continues have to be defined. */
TEST(scalars_of_forks_and_jumps_are_defined)
{
    static const char *const texts[] = {
        "s_getpc_b64 s[2:3]\nhere:\ns_add_u32 s2, s2, over-here\ns_addc_u32 s3, s3, s20\n"
        "s_setpc_b64 s[2:3]\nover:",
        "s_cbranch_i_fork s[20:21], over\nover:",
    };
    for (unsigned i = 0; i < 4; i++) {
        struct program p = program_new(GFX942);
        p.s_valid[20] = i < 2 ? 0 : UINT32_MAX;
        program_try(&p, texts[i % 2]);
        assert_int_equal(p.fault.kind, i < 2 ? FAULT_UNINIT : FAULT_NONE);
        p = program_new(GFX942);
        p.s_valid[20] = 0;
        p.checks &= ~(uint32_t)CHECK_UNINIT;
        program_run(&p, texts[i % 2]);
    }
    struct program p = program_new(GFX942);
    p.s_valid[4] = 0;
    p.s_valid[5] = 0;
    program_run(&p, "s_mulk_i32 s4, 3\ns_addk_i32 s5, 3\ns_bitset1_b32 s6, s5");
    assert_int_equal(p.s_valid[4] | p.s_valid[5] | p.s_valid[6], 0);
    assert_int_equal(p.scc_valid, 0);
    p = program_new(GFX942);
    p.s[SGPR_M0] = 200; /* beyond the last register */
    program_try(&p, "s_movrels_b32 s0, s4");
    assert_int_equal(p.fault.kind, FAULT_REGISTER);
}

TEST(rounding_follows_mode)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 1, bits_of(1.0f));
    program_fill(&p, 2, bits_of(0x1p-30f));
    program_run(&p, "v_add_f32 v3, v1, v2\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\n"
                    "v_add_f32 v4, v1, v2\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 2\n"
                    "v_sub_f32 v5, v1, v2\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3\n"
                    "v_sub_f32 v6, v1, v2");
    assert_int_equal(p.v[3][0], bits_of(1.0f));
    assert_int_equal(p.v[4][0], bits_of(0x1.000002p0f));
    assert_int_equal(p.v[5][0], bits_of(0x1.fffffep-1f));
    assert_int_equal(p.v[6][0], bits_of(0x1.fffffep-1f));
}

TEST(indexed_registers)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 13, 99);
    p.s[0] = 3;
    program_run(&p, "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_mov_b32 v1, v10\n"
                    "s_set_gpr_idx_mode gpr_idx(DST)\nv_mov_b32 v2, v13\ns_set_gpr_idx_off\n"
                    "v_mov_b32 v3, v10");
    assert_int_equal(p.v[1][0], 99);
    assert_int_equal(p.v[5][0], 99);
    assert_int_equal(p.v[2][0], 0);
    assert_int_equal(p.v[3][0], 0);
}

/* Accumulation registers are vector registers, too (CDNA3 ISA, "VGPR Indexing"; V_ACCVGPR_READ). */
TEST(indexed_accumulators)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 13, 99);
    p.s[0] = 3;
    program_run(&p, "v_accvgpr_write_b32 a4, v13\nv_accvgpr_write_b32 a1, 7\n"
                    "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_accvgpr_read_b32 v1, a1\n"
                    "v_mul_u32_u24 v2, 5, v1\ns_set_gpr_idx_off\nv_accvgpr_read_b32 v3, a1");
    assert_int_equal(p.v[1][0], 99);
    assert_int_equal(p.v[2][0], 495);
    assert_int_equal(p.v[3][0], 7);
}

TEST(indexed_destinations_are_read_where_they_are_written)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 1, bits_of(2.0f));
    program_fill(&p, 5, bits_of(3.0f));
    program_fill(&p, 6, 0xdeadbeef);
    p.s[0] = 3;
    program_run(&p, "s_set_gpr_idx_on s0, gpr_idx(DST)\nv_fmac_f32 v2, v1, v1\n"
                    "v_fma_mixlo_f16 v3, v1, v1, 0\ns_set_gpr_idx_off");
    assert_int_equal(p.v[5][0], bits_of(7.0f));
    assert_int_equal(p.v[6][0], 0xdead4400);
    assert_int_equal(p.v[2][0], 0);
}

/* The pseudo-code adds all 32 bits of M0 to the register's number. */
TEST(relative_scalars_wrap)
{
    struct program p = program_new(GFX942);
    p.s[4] = 44;
    program_run(&p, "s_mov_b32 m0, -2\ns_movrels_b32 s8, s6\ns_movreld_b32 s12, s8");
    assert_int_equal(p.s[8], 44);
    assert_int_equal(p.s[10], 44);
}

/* Tests S_SETVSKIP: while it is on, no VOP, buffer, flat or LDS instruction executes. */
TEST(vector_instructions_are_skipped)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 64;
    program_fill(&p, 1, 1);
    program_fill(&p, 2, 0);
    program_fill(&p, 3, 5);
    program_run(&p, "ds_write_b32 v2, v3\ns_waitcnt lgkmcnt(0)\ns_setvskip 1, 0\n"
                    "v_mov_b32 v1, 2\nds_write_b32 v2, v1\nds_read_b32 v1, v1 offset:65532\n"
                    "global_load_dword v1, v[2:3], off\n"
                    "v_mfma_f32_4x4x1_16b_f32 v[4:7], v1, v1, 0\n"
                    "s_mov_b32 s0, 7\ns_setvskip 0, 0\nds_read_b32 v8, v2\n"
                    "s_waitcnt lgkmcnt(0)\nv_mov_b32 v9, v8");
    assert_int_equal(p.v[1][0], 1);
    assert_int_equal(p.v[9][0], 5);
    assert_int_equal(p.s[0], 7);
}

TEST(barriers_hold_all_waves)
{
    struct program p = program_new(GFX942);
    p.block = 256;
    /* s100 is the wave number. The waves arrive at three barriers at different times. */
    program_run(&p, "s_mov_b32 s1, 0\nagain:\ns_mul_i32 s2, s100, 50\nwork:\n"
                    "s_sub_u32 s2, s2, 1\ns_cmp_gt_i32 s2, 0\ns_cbranch_scc1 work\ns_barrier\n"
                    "s_add_u32 s1, s1, 1\ns_cmp_lt_u32 s1, 3\ns_cbranch_scc1 again");
    assert_int_equal(p.s[1], 3);
    assert_int_equal(p.counters.waves, 4);
}

TEST(a_wave_that_ends_early_leaves_an_unequal_barrier)
{
    struct program p = program_new(GFX942);
    p.block = 128;
    const char *text = "s_cmp_eq_u32 s100, 1\ns_cbranch_scc1 out\ns_barrier\nout:";
    program_try(&p, text);
    assert_int_equal(p.fault.kind, FAULT_BARRIER);
    assert_non_null(strstr(p.fault.text, "1 of 2 waves"));
    p = program_new(GFX942);
    p.block = 128;
    p.checks = 0;
    program_run(&p, text);
}

/* Tests compiled code with a barrier in both branches of an if, and one after it. */
TEST(lanes_that_skip_a_barrier_are_found)
{
    static const char *const divergent =
        "s_mov_b32 exec_hi, 0\ns_barrier\ns_not_b64 exec, exec\ns_barrier\ns_mov_b64 exec, -1";
    static const char *const joined =
        "s_mov_b32 exec_hi, 0\ns_not_b64 exec, exec\ns_mov_b64 exec, -1\ns_barrier\ns_barrier";
    static const char *const returned_early =
        "s_mov_b32 exec_hi, 0\ns_barrier\ns_barrier\ns_mov_b64 exec, -1";
    static const char *const skipped =
        "s_mov_b32 exec_hi, 0\ns_barrier\ns_mov_b64 exec, -1\ns_barrier";
    struct program p = program_new(GFX942);
    program_try(&p, divergent);
    assert_int_equal(p.fault.kind, FAULT_DIVERGE);
    assert_int_equal(p.fault.lanes, 0xffffffff00000000);
    assert_non_null(strstr(p.fault.text, "barrier before this one, at entry+"));
    p = program_new(GFX942);
    program_try(&p, skipped);
    assert_int_equal(p.fault.kind, FAULT_DIVERGE);
    p = program_new(GFX942);
    program_run(&p, joined);
    p = program_new(GFX942);
    program_run(&p, returned_early);
    p = program_new(GFX942);
    p.checks = CHECK_ALL & ~(uint32_t)CHECK_DIVERGE;
    program_run(&p, divergent);
}

/* A second barrier is missing: lanes 32 to 63 store together with lanes that have passed the first
 * barrier. */
TEST(lanes_that_join_after_a_skipped_barrier_are_found)
{
#define HALF_AT_THE_BARRIER "s_mov_b32 exec_hi, 0\ns_barrier\n"
#define STORE \
    "v_mov_b32 v1, 1\nv_lshlrev_b32 v2, 2, v0\nds_write_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    static const char *const joined = HALF_AT_THE_BARRIER "s_mov_b64 exec, -1\n" STORE;
    static const char *const returned_early =
        HALF_AT_THE_BARRIER "s_not_b64 exec, exec\n" STORE "s_not_b64 exec, exec\n" STORE;
    struct program p = program_new(GFX942);
    p.lds_bytes = 256;
    program_try(&p, joined);
    assert_int_equal(p.fault.kind, FAULT_DIVERGE);
    assert_int_equal(p.fault.lanes, 0xffffffff00000000);
    assert_non_null(strstr(p.fault.text, "which other lanes of this access have passed"));
    p = program_new(GFX942);
    p.lds_bytes = 256;
    program_run(&p, returned_early);
#undef STORE
#undef HALF_AT_THE_BARRIER
}

TEST(a_halted_wave_is_a_deadlock)
{
    struct program p = program_new(GFX942);
    program_try(&p, "s_sethalt 1");
    assert_int_equal(p.fault.kind, FAULT_DEADLOCK);
}

TEST(runaway_kernels_stop)
{
    struct program p = program_new(GFX942);
    p.budget = 1000;
    program_try(&p, "forever:\ns_branch forever");
    assert_int_equal(p.fault.kind, FAULT_BUDGET);
}

TEST(unknown_words_fault_only_when_reached)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_branch over\n.long 0xffffffff, 0xffffffff\nover:\ns_mov_b32 s0, 5");
    assert_int_equal(p.s[0], 5);
    program_try(&p, ".long 0xffffffff");
    assert_int_equal(p.fault.kind, FAULT_DECODE);
    assert_non_null(strstr(p.fault.text, "ffffffff"));
    assert_non_null(strstr(p.fault.text, "kernel program, workgroup (0, 0, 0), wave 0"));
}

/* LLVM's disassembler crashes on these words. */
TEST(impossible_operands_do_not_decode)
{
    static const char *const words[] = {
        ".long 0x786564f9, 0x31665f70", /* v_pk_fmac_f16_sdwa with the reserved selects 7 */
        ".long 0xe0501000, 0xffc10203", /* buffer_load_dword with a literal soffset */
        ".long 0xd1ff0000, 0x040204ff", /* v_add3_u32 with a literal */
        ".long 0xd07ac9ff, 0x00880000", /* a compare with a literal as the result */
        ".long 0xd3ad020f, 0x70c0e437", /* *_f8f6f4 with a scalar A */
    };
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct program p = program_new(GFX950);
        program_try(&p, words[i]);
        assert_int_equal(p.fault.kind, FAULT_DECODE);
    }
    struct program p = program_new(GFX942);
    p.v[2][0] = 0x3c00;
    program_run(&p, "v_madak_f16 v1, v2, v3, 0x4ff");
    assert_int_equal(p.v[1][0], 0x4ff);
}

TEST(jumps_out_of_the_code_fault)
{
    struct program p = program_new(GFX942);
    program_try(&p, "s_mov_b64 s[0:1], 64\ns_setpc_b64 s[0:1]");
    assert_int_equal(p.fault.kind, FAULT_DECODE);
}

TEST(registers_beyond_the_allocation_fault)
{
    struct program p = program_new(GFX942);
    program_try(&p, "v_mov_b32 v72, 0");
    assert_int_equal(p.fault.kind, FAULT_REGISTER);
    assert_non_null(strstr(p.fault.text, "v72 is used, the kernel has 64"));
}

TEST(undefined_branch_conditions_fault)
{
    struct program p = program_new(GFX942);
    p.s_valid[3] = 0;
    const char *text = "s_cmp_eq_u32 s3, 0\ns_cbranch_scc1 over\nover:";
    program_try(&p, text);
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    p = program_new(GFX942);
    program_run(&p, text);
}

TEST(traps_abort_and_debug_traps_do_not)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_trap 3");
    program_try(&p, "s_trap 2");
    assert_int_equal(p.fault.kind, FAULT_TRAP);
}

TEST(seeded_orders_give_the_same_answer)
{
    for (uint64_t seed = 1; seed < 6; seed++) {
        struct program p = program_new(GFX942);
        p.block = 512;
        p.order = ORDER_SEEDED;
        p.seed = seed;
        program_run(&p, "s_mov_b32 s1, 7\ns_barrier\ns_add_u32 s1, s1, s100\ns_barrier");
        assert_int_equal(p.s[1], 7);
        assert_int_equal(p.counters.waves, 8);
    }
}

/* The numbers of workgroup 2's waves, in the order in which its instructions were executed. */
struct order {
    char waves[8 * 9 + 1];
    unsigned count;
};

static void note_wave(void *ctx, const struct wave *w, const struct inst *in,
                      const struct mem_access *access)
{
    struct order *o = ctx;

    (void)in;
    (void)access;
    if (w->wg->index == 2 && o->count < sizeof(o->waves) - 1)
        o->waves[o->count++] = (char)('0' + w->id);
}

static struct order seeded_order(struct code *code, uint64_t seed, uint64_t first)
{
    struct order o = {.count = 0};
    struct observer observer = {.ctx = &o, .inst = note_wave};
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code),
        .grid = {4 * 512, 1, 1},
        .block = {512, 1, 1},
        .nvgpr = 8,
        .mode = MODE_DEFAULT,
        .order = ORDER_SEEDED,
        .seed = seed,
        .threads = 1,
        .observer = &observer,
        .first_workgroup = first,
    };
    assert_int_equal(engine_run(&launch), 0);
    assert_int_equal(o.count, 8 * 9);
    return o;
}

/* The host thread of a workgroup, and the workgroups that it ran before, vary from run to run. */
TEST(a_seed_orders_a_workgroup_whatever_ran_before)
{
    size_t bytes;
    void *machine = assemble(GFX942,
                             ".rept 8\ns_sendmsg sendmsg(MSG_INTERRUPT)\n.endr\n"
                             "s_endpgm\n",
                             &bytes);
    struct code *code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    const struct order after_two = seeded_order(code, 1, 0), first = seeded_order(code, 1, 2);
    assert_string_equal(after_two.waves, first.waves);
    const struct order other = seeded_order(code, 2, 2);
    assert_string_not_equal(other.waves, first.waves);
    code_destroy(code);
    free(machine);
}

/* Waves with preloaded arguments begin after the symbol. Reports count offsets from the symbol, as
 * disassemblers do. */
TEST(reports_count_from_the_symbol)
{
    size_t bytes;
    void *machine = assemble(GFX942, "s_trap 2\ns_nop 0\ns_setpc_b64 s[0:1]\n", &bytes);
    struct code *code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code),
        .entry_skip = 4,
        .grid = {64, 1, 1},
        .block = {64, 1, 1},
        .nvgpr = 8,
        .nuser_sgpr = 2,
        .threads = 1,
        .user_sgpr = {(uint32_t)code_address(code), (uint32_t)(code_address(code) >> 32)},
    };
    assert_int_not_equal(engine_run(&launch), 0);
    assert_int_equal(launch.fault.kind, FAULT_TRAP);
    assert_non_null(strstr(launch.fault.text, "(entry+0)"));
    assert_int_equal(launch.counters.instructions, 3); /* instructions: s_nop, s_setpc, s_trap */
    code_destroy(code);
    free(machine);
}

TEST(sleeping_and_hints_do_nothing_else)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_sleep 3\ns_nop 7\ns_setprio 2\ns_icache_inv\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
                    "s_sendmsg sendmsg(MSG_INTERRUPT)\nv_nop\nv_clrexcp\ns_wakeup");
    assert_int_equal(p.counters.instructions, 10);
}

int main(void) { return run_unit_tests(); }
