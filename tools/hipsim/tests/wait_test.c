/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests when data arrive. The registers of a load keep their old values until then. s_waitcnt waits
 * for the arrival (CDNA3 ISA, 4.4 "Manually inserted wait states" and S_WAITCNT). Texts that read
 * without a wait have a margin of at least 64 clocks: LDS takes 64 clocks. `EARLY` reads at once,
 * `LATE` 128 clocks later.
 */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

#define EARLY "\n"
#define LATE "\ns_nop 15\ns_nop 15\n"
#define MEMORY_LATE "\ns_sleep 16\n"
#define WAIT "\ns_waitcnt lgkmcnt(0) vmcnt(0)\n"
/* Uses v2 in a branch. An early read of v2 is therefore reported. */
#define USE "\nv_cmp_eq_u32 vcc, 7, v2\ns_cbranch_vccz over\ns_nop 0\nover:\n"

/* Returns a program whose LDS dword n is 100 + n and whose global dword n is 1000 + n. v0 is 4 *
 * lane, v1 and v2 are 7. */
static struct program loads(uint32_t checks, const void *buffer)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 4096;
    p.checks = checks;
    p.keep_going = checks;
    program_lanes(&p, 0, 4);
    program_lanes(&p, 8, 1);
    program_fill(&p, 1, 7);
    program_fill(&p, 2, 7);
    program_fill(&p, 9, 9);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)buffer);
    program_resource(&p, 4, buffer, 0, 4096);
    return p;
}

static const uint32_t *memory(void)
{
    static uint32_t *buffer;
    uint32_t init[1024];
    if (buffer)
        return buffer;
    for (unsigned i = 0; i < 1024; i++)
        init[i] = 1000 + i;
    return buffer = device_alloc(sizeof(init), init);
}

#define FILL                                                                \
    "v_add_u32 v5, 0x64, v8\nds_write_b32 v0, v5\nv_add_u32 v6, 0x40, v5\n" \
    "ds_write_b32 v0, v6 offset:256\ns_waitcnt lgkmcnt(0)\n"

/* Sets LDS and runs `text`, with and without checks. Both results must be equal. */
static struct program run(const char *text)
{
    char whole[1024];
    struct program p[2];
    snprintf(whole, sizeof(whole), FILL "%s", text);
    for (unsigned i = 0; i < 2; i++) {
        p[i] = loads(i ? 0 : CHECK_WAIT | CHECK_UNINIT, memory());
        program_try(&p[i], whole);
        if (p[i].fault.kind != FAULT_NONE)
            fail_msg("%s", p[i].fault.text);
    }
    assert_memory_equal(p[0].v, p[1].v, sizeof(p[0].v));
    assert_memory_equal(p[0].a, p[1].a, sizeof(p[0].a));
    assert_memory_equal(p[0].s, p[1].s, sizeof(p[0].s));
    return p[0];
}

static void expect_finding(const struct program *p, const char *word)
{
    assert_int_equal(p->places, 1);
    assert_int_equal(p->found[0].kind, FAULT_WAIT);
    assert_non_null(strstr(p->found[0].text, word));
}

TEST(early_readers_see_old_values)
{
    struct program p =
        run("ds_read_b32 v1, v0" EARLY "v_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1" USE);
    assert_int_equal(p.v[2][9], 7);
    assert_int_equal(p.v[3][9], 109);
    expect_finding(&p, "before the s_waitcnt for the load at");
}

TEST(late_readers_see_the_data_without_a_wait)
{
    struct program p =
        run("ds_read_b32 v1, v0" LATE "v_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1" USE);
    assert_int_equal(p.v[2][9], 109);
    assert_int_equal(p.v[3][9], 109);
    expect_finding(&p, "before the s_waitcnt for the load at");
}

TEST(a_wait_takes_until_the_data_are_there)
{
    /* The wait for global data takes so long that the LDS data have arrived, too. The wait for LDS
     * data leaves the global load outstanding. */
    struct program p = run("global_load_dword v1, v0, s[2:3]\nds_read_b32 v2, v0\n"
                           "s_waitcnt vmcnt(0)\nv_mov_b32 v3, v2" WAIT);
    assert_int_equal(p.v[1][9], 1009);
    assert_int_equal(p.v[3][9], 109);
    p = run("ds_read_b32 v2, v0\nglobal_load_dword v1, v0, s[2:3]\n"
            "s_waitcnt lgkmcnt(0)\nv_mov_b32 v3, v1" WAIT);
    assert_int_equal(p.v[3][9], 7);
    assert_int_equal(p.v[1][9], 1009);
    assert_int_equal(p.places, 0);
}

/* Tests margins between a use and the arrival of LDS data, before and after it, and the instruction
 * that uses them. A kernel with a margin of few clocks depends on the assumed latency. Data of one
 * dword arrive 50 clocks and 2 phases after the read on gfx942. An instruction takes 4 clocks. */
TEST(margins_of_unwaited_uses)
{
    struct program p = loads(0, memory());
    program_run(&p, "ds_read_b32 v2, v0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v3, v2");
    assert_int_equal(p.margins[MARGIN_LDS].before, UINT64_MAX);
    assert_int_equal(p.margins[MARGIN_LDS].after, UINT64_MAX);
    program_run(&p, "ds_read_b32 v2, v0\nv_mov_b32 v3, v2\nv_mov_b32 v3, v2");
    assert_int_equal(p.margins[MARGIN_LDS].before >> MARGIN_OFFSET_BITS, 52 - 4 - 4);
    assert_int_equal(p.margins[MARGIN_LDS].before & 0xffff, 12);
    assert_int_equal(p.margins[MARGIN_LDS].after, UINT64_MAX);
    program_run(&p, "ds_read_b32 v2, v0\ns_nop 15\ns_nop 15\nv_mov_b32 v3, v2\n");
    assert_int_equal(p.margins[MARGIN_LDS].before, UINT64_MAX);
    assert_int_equal(p.margins[MARGIN_LDS].after >> MARGIN_OFFSET_BITS, 4 + 2 * 64 - 52);
    /* Vector memory has its own margins. One dword arrives after 500 clocks and 4. */
    program_run(&p, "global_load_dword v2, v0, s[2:3]\nv_mov_b32 v3, v2\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.margins[MARGIN_VECTOR].before >> MARGIN_OFFSET_BITS, 504 - 4);
    assert_int_equal(p.margins[MARGIN_VECTOR].after, UINT64_MAX);
    assert_int_equal(p.margins[MARGIN_LDS].before, UINT64_MAX);
    /* A later read of LDS overwrites an earlier one in order, regardless of the latency. */
    program_run(&p, "ds_read_b32 v2, v0\nds_read_b32 v2, v0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.margins[MARGIN_LDS].before, UINT64_MAX);
}

TEST(matrix_registers_arrive_like_others)
{
    struct program p = run("v_accvgpr_write_b32 a1, v9\nds_read_b32 a1, v0\n"
                           "v_accvgpr_read_b32 v2, a1" WAIT "v_accvgpr_read_b32 v3, a1" USE);
    assert_int_equal(p.v[2][9], 9);
    assert_int_equal(p.v[3][9], 109);
    expect_finding(&p, "a1 was touched");
    /* v65 is a1, since the harness allocates 64 VGPRs. */
    p = run("v_accvgpr_write_b32 a1, v9\nds_read_b32 a1, v0\n"
            "v_mov_b32 v2, v65" WAIT "v_accvgpr_read_b32 v3, a1");
    assert_int_equal(p.v[2][9], 9);
    assert_int_equal(p.v[3][9], 109);
}

TEST(a_load_overwrites_intermediate_writes)
{
    struct program p =
        run("ds_read_b32 v1, v0" EARLY "v_mov_b32 v1, 5\nv_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 5);
    assert_int_equal(p.v[3][9], 109);
    expect_finding(&p, "v1 is overwritten while a load is outstanding");
    p = run("ds_read_b32 v1, v0" LATE "v_mov_b32 v1, 5\nv_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 5);
    assert_int_equal(p.v[3][9], 5);
    expect_finding(&p, "v1 is overwritten while a load is outstanding");
}

TEST(lanes_are_those_of_the_issue)
{
    struct program p = run("s_mov_b32 exec_hi, 0\nds_read_b32 v1, v0\ns_mov_b32 exec_hi, -1\n"
                           "v_mov_b32 v2, v1\nv_mov_b32 v1, 5\n"
                           "s_mov_b32 exec_lo, 0" WAIT "s_mov_b32 exec_lo, -1\nv_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 7);
    assert_int_equal(p.v[3][9], 109);
    assert_int_equal(p.v[3][40], 5);
}

/* A load of a half replaces what was written to the other half before it returns, unless the target
 * keeps that half, as gfx1201 does. */
TEST(half_loads_meet_intermediate_writes)
{
    struct program p =
        run("ds_read_u16_d16 v1, v0\nv_mov_b32 v1, 0x12345678" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[3][9], 109);
    p = run("ds_read_u16_d16_hi v1, v0\nv_mov_b32 v1, 0x12345678" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[3][9], 109 << 16);
    /* Two loads to the halves of a register return in order. */
    p = run("ds_read_u16_d16 v1, v0\nds_read_u16_d16_hi v1, v0 offset:4" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[3][9], 110 << 16);
    assert_int_equal(p.places, 0);
    p = loads(CHECK_WAIT, memory());
    p.target = GFX1201;
    p.block = 32;
    program_try(&p, "ds_store_b32 v0, v0\ns_wait_dscnt 0\n"
                    "ds_load_u16_d16 v1, v0\nv_mov_b32 v1, 0x12345678\n"
                    "ds_load_u16_d16_hi v4, v0\nv_mov_b32 v4, 0x12345678\n"
                    "s_wait_dscnt 0\nv_mov_b32 v3, v1\n");
    assert_int_equal(p.v[3][9], 0x12340000 + 36);
    assert_int_equal(p.v[4][9], (36 << 16) + 0x5678);
}

TEST(loads_to_one_register_arrive_one_after_the_other)
{
    struct program p = run("ds_read_b32 v1, v0\ns_nop 9\nds_read_b32 v1, v0 offset:256\n"
                           "v_mov_b32 v2, v1\ns_nop 7\nv_mov_b32 v3, v1\ns_nop 15\n"
                           "v_mov_b32 v4, v1" WAIT "v_mov_b32 v5, v1");
    assert_int_equal(p.v[2][9], 7);
    assert_int_equal(p.v[3][9], 109);
    assert_int_equal(p.v[4][9], 173);
    assert_int_equal(p.v[5][9], 173);
    /* The later load arrives first, because LDS is faster. */
    p = run("global_load_dword v1, v0, s[2:3]\nds_read_b32 v1, v0" LATE "v_mov_b32 v2, v1"
            "\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v3, v1" WAIT "v_mov_b32 v4, v1");
    assert_int_equal(p.v[2][9], 109);
    assert_int_equal(p.v[3][9], 109);
    assert_int_equal(p.v[4][9], 1009);
}

TEST(every_part_of_a_wide_load_is_late)
{
    struct program p =
        run("v_mov_b32 v15, 3\nglobal_load_dwordx4 v[12:15], v0, s[2:3]\n"
            "v_mov_b32 v2, v15" MEMORY_LATE "v_mov_b32 v3, v15" WAIT "v_mov_b32 v4, v14");
    assert_int_equal(p.v[2][9], 3);
    assert_int_equal(p.v[3][9], 1012);
    assert_int_equal(p.v[4][9], 1011);
}

TEST(scalar_loads_arrive_late_too)
{
    struct program p =
        run("s_mov_b32 s8, 6\ns_load_dword s8, s[2:3], 0x8\ns_mov_b32 s9, s8"
            "\ns_sleep 8\ns_mov_b32 s10, s8\ns_mov_b32 s8, 4" WAIT "s_mov_b32 s11, s8");
    assert_int_equal(p.s[9], 6);
    assert_int_equal(p.s[10], 1002);
    assert_int_equal(p.s[11], 4);
    p = run("s_load_dwordx2 s[8:9], s[2:3], 0x8\ns_mov_b32 s9, 4" WAIT "s_mov_b32 s11, s9");
    assert_int_equal(p.s[8], 1002);
    assert_int_equal(p.s[11], 1003);
}

/* A branch reads VCC implicitly (CDNA3 ISA, S_CBRANCH_VCCZ). */
TEST(branches_wait_for_vcc)
{
    struct program p = run("s_load_dwordx2 vcc, s[2:3], 0x8\ns_cbranch_vccz over\nover:" WAIT);
    expect_finding(&p, "s106 is used while a load is outstanding");
    p = run("s_load_dwordx2 vcc, s[2:3], 0x8" WAIT "s_cbranch_vccz over\nv_mov_b32 v3, 1\nover:");
    assert_int_equal(p.places, 0);
    assert_int_equal(p.v[3][9], 1);
}

/* V_CNDMASK_B32, V_ADDC_CO_U32 and V_DIV_FMAS_F32 in their short forms also read VCC (CDNA3 ISA,
 * VOP2). */
TEST(vector_instructions_wait_for_vcc)
{
    static const char *const texts[] = {
        "v_cndmask_b32_e32 v2, v1, v9, vcc",
        "v_cndmask_b32_dpp v2, v1, v9, vcc quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
        "v_cndmask_b32_sdwa v2, v1, v9, vcc src0_sel:DWORD src1_sel:DWORD",
        "v_div_fmas_f32 v2, v1, v9, v9",
    };
    char text[256];
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        snprintf(text, sizeof(text), "s_load_dwordx2 vcc, s[2:3], 0x8\n%s" WAIT USE, texts[i]);
        struct program p = run(text);
        expect_finding(&p, "s106 was touched");
    }
    struct program p =
        run("s_load_dwordx2 vcc, s[2:3], 0x8\nv_addc_co_u32_e32 v2, vcc, v1, v9, vcc" WAIT);
    expect_finding(&p, "s106 is overwritten while a load is outstanding");
}

/* An atomic changes memory when it is issued. Only its result arrives late. */
TEST(atomics_return_late)
{
    struct program p = run("ds_add_rtn_u32 v1, v0, v9\nv_mov_b32 v2, v1\nds_read_b32 v3, v0" WAIT
                           "v_mov_b32 v4, v1");
    assert_int_equal(p.v[2][9], 7);
    assert_int_equal(p.v[3][9], 118);
    assert_int_equal(p.v[4][9], 109);
}

/* A load reads memory when it is issued. */
TEST(later_stores_do_not_reach_a_load)
{
    struct program p =
        run("ds_read_b32 v1, v0\nds_write_b32 v0, v9\nv_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 7);
    assert_int_equal(p.v[3][9], 109);
}

/*
 * Clocks per LDS read, by target and number of dwords: the phases that SHARK's empirical-lds
 * measured (tools/hipsim/docs/hipsim.md, "When data arrive"). 14 reads outlast the latency, so the
 * last read's data arrive 13 times the phases after the first read's. s_nop N takes N + 1 wait
 * states.
 */
static const struct {
    enum gfx_target target;
    const char *read;
    /* numbers of s_nop 0 after which a use reads the old value, the new value */
    unsigned before, after;
} lds_rates[] = {
    {GFX942, "ds_read_b32 v20", 11, 12},       {GFX950, "ds_read_b32 v20", 11, 12},
    {GFX942, "ds_read_b64 v[20:21]", 12, 13},  {GFX950, "ds_read_b64 v[20:21]", 11, 12},
    {GFX942, "ds_read_b96 v[20:22]", 19, 20},  {GFX950, "ds_read_b96 v[20:22]", 26, 27},
    {GFX942, "ds_read_b128 v[20:23]", 26, 27}, {GFX950, "ds_read_b128 v[20:23]", 12, 13},
    {GFX942, "ds_read2_b64 v[20:23]", 26, 27}, {GFX950, "ds_read2_b64 v[20:23]", 12, 13},
};

TEST(lds_reads_take_the_phases_of_their_target)
{
    for (size_t i = 0; i < sizeof(lds_rates) / sizeof(*lds_rates); i++) {
        for (unsigned late = 0; late < 2; late++) {
            char text[512];
            snprintf(text, sizeof(text),
                     FILL "v_mov_b32 v20, 7\n.rept 13\n%s, v8\n.endr\n%s, v0\n"
                          ".rept %u\ns_nop 0\n.endr\nv_mov_b32 v2, v20" WAIT,
                     lds_rates[i].read, lds_rates[i].read,
                     late ? lds_rates[i].after : lds_rates[i].before);
            struct program p = loads(0, memory());
            p.target = lds_rates[i].target;
            program_try(&p, text);
            assert_int_equal(p.fault.kind, FAULT_NONE);
            if ((p.v[2][9] == 109) != (late != 0))
                fail_msg("gfx9%s %s, %s: %u", p.target == GFX950 ? "50" : "42", lds_rates[i].read,
                         late ? "late" : "early", p.v[2][9]);
        }
    }
}

/*
 * A full counter stalls the next operation of its kind until an operation has returned (CDNA3 ISA,
 * S_WAITCNT: vmcnt has 6 bits, lgkmcnt 4). Its data are delivered before the next operation starts.
 * The 64th load writes one half of a register and clears the other, which the first load wrote.
 */
TEST(a_full_counter_delivers_before_the_next_load_starts)
{
    struct program p = run("global_load_short_d16 v1, v0, s[2:3]\n"
                           ".rept 62\nglobal_load_dword v20, v0, s[2:3]\n.endr\n"
                           "global_load_short_d16_hi v1, v0, s[2:3] offset:4\nv_mov_b32 v2, v1" WAIT
                           "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 1009);
    assert_int_equal(p.v[3][9], 1010 << 16);
    p = run("ds_read_u16_d16 v1, v0\n.rept 14\nds_read_b32 v20, v0\n.endr\n"
            "ds_read_u16_d16_hi v1, v0 offset:4\nv_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 109);
    assert_int_equal(p.v[3][9], 110 << 16);
}

/* The low halves of 32 registers are loaded again just when the loads of their high halves return.
 * The last load of a register decides about all of it. */
TEST(loads_of_halves_replace_registers)
{
    const struct program p = run(".set n, 0\n.rept 32\n"
                                 "global_load_short_d16 v[20 + n], v0, s[2:3] offset:4 * n\n"
                                 "global_load_short_d16_hi v[20 + n], v0, s[2:3] offset:4 * n + 4\n"
                                 ".set n, n + 1\n.endr\n"
                                 ".set n, 0\n.rept 32\n"
                                 "global_load_short_d16 v[20 + n], v0, s[2:3] offset:4 * n + 8\n"
                                 "global_load_dword v3, v0, s[2:3]\n"
                                 "v_mov_b32 v2, v[20 + n]\n"
                                 ".set n, n + 1\n.endr" WAIT);
    for (unsigned r = 0; r < 32; r++)
        assert_int_equal(p.v[20 + r][9], 1011 + r);
    assert_int_equal(p.places, 0);
}

/* A FLAT load counts in both counters, and stalls if either is full. */
TEST(flat_loads_stall_for_both_counters)
{
    const struct program p =
        run("v_mov_b32 v10, s2\nv_mov_b32 v11, s3\nv_add_co_u32 v10, vcc, v10, v0\n"
            "v_addc_co_u32 v11, vcc, 0, v11, vcc\n"
            "ds_read_u16_d16 v1, v0\n.rept 14\nds_read_b32 v20, v0\n.endr\n"
            "flat_load_short_d16_hi v1, v[10:11]\nv_mov_b32 v2, v1" WAIT "v_mov_b32 v3, v1");
    assert_int_equal(p.v[2][9], 109);
    assert_int_equal(p.v[3][9], 1009 << 16);
    assert_int_equal(p.places, 0);
}

/* Reads the counters in hwreg 7: vmcnt in bits 3:0, lgkmcnt in 11:8. */
TEST(counters_count_what_has_not_returned)
{
    struct program p = run("global_load_dword v1, v0, s[2:3]\nds_read_b32 v2, v0\n"
                           "s_getreg_b32 s8, hwreg(7)" LATE "s_getreg_b32 s9, hwreg(7)" MEMORY_LATE
                           "s_getreg_b32 s10, hwreg(7)" WAIT);
    assert_int_equal(p.s[8], 0x101);
    assert_int_equal(p.s[9], 0x001);
    assert_int_equal(p.s[10], 0);
}

/* Until a load arrives, its destination is as defined as the old value. An early read of an
 * undefined register is a finding, a read after the arrival is not. */
TEST(definedness_arrives_with_the_data)
{
    for (unsigned late = 0; late < 2; late++) {
        struct program p = loads(CHECK_UNINIT, memory());
        p.v_valid[1] = 0;
        program_try(&p, late ? "global_load_dword v1, v0, s[2:3]" MEMORY_LATE "v_mov_b32 v2, v1" USE
                             : "global_load_dword v1, v0, s[2:3]\nv_mov_b32 v2, v1" USE WAIT);
        assert_int_equal(p.fault.kind, FAULT_NONE);
        assert_int_equal(p.findings, !late);
        assert_int_equal(p.v_valid[1], UINT64_MAX);
    }
}

/* The functions from here on test loads to LDS: lane l's dword goes to M0 + 4 * l. */

#define TO_LDS "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v0, s[4:7], 0 offen lds\n"

TEST(lds_has_its_old_bytes_until_a_load_arrives)
{
    struct program p = run(TO_LDS "ds_read_b32 v2, v0" MEMORY_LATE "ds_read_b32 v3, v0" WAIT
                                  "ds_read_b32 v4, v0" WAIT);
    assert_int_equal(p.v[2][9], 109);
    assert_int_equal(p.v[3][9], 1009);
    assert_int_equal(p.v[4][9], 1009);
    assert_int_equal(p.places, 2);
    assert_non_null(strstr(p.found[0].text, "while a load to LDS that writes it is outstanding "
                                            "(entry+"));
    assert_non_null(strstr(p.found[0].text, ", wave 0)"));
}

TEST(a_load_to_lds_overwrites_intermediate_stores)
{
    struct program p =
        run("s_mov_b32 exec_hi, 0\n" TO_LDS "s_mov_b32 exec_hi, -1\n"
            "ds_write_b32 v0, v9\nds_read_b32 v2, v0" WAIT "ds_read_b32 v3, v0" WAIT);
    assert_int_equal(p.v[2][9], 9);
    assert_int_equal(p.v[3][9], 1009);
    assert_int_equal(p.v[3][40], 9);
    p = run(TO_LDS MEMORY_LATE "ds_write_b32 v0, v9" WAIT "ds_read_b32 v3, v0" WAIT);
    assert_int_equal(p.v[3][9], 9);
}

TEST(loads_to_the_same_lds_arrive_one_after_the_other)
{
    struct program p = run(
        TO_LDS "v_add_u32 v7, 0x200, v0\ns_sleep 4\n"
               "buffer_load_dword v7, s[4:7], 0 offen lds\nds_read_b32 v1, v0\ns_sleep 5\n"
               "ds_read_b32 v2, v0\ns_sleep 8\nds_read_b32 v3, v0" WAIT "ds_read_b32 v4, v0" WAIT);
    assert_int_equal(p.v[1][9], 109);
    assert_int_equal(p.v[2][9], 1009);
    assert_int_equal(p.v[3][9], 1009 + 128);
    assert_int_equal(p.v[4][9], 1009 + 128);
}

/* The first of 64 loads has returned when the last load starts, which overwrites its data. */
TEST(a_full_counter_delivers_to_lds_before_the_next_load_starts)
{
    const struct program p =
        run(TO_LDS "ds_read_b32 v1, v0\nv_add_u32 v7, 0x100, v0\n"
                   "s_mov_b32 m0, 0x200\ns_nop 0\n"
                   ".rept 62\nbuffer_load_dword v0, s[4:7], 0 offen lds\n.endr\n"
                   "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v7, s[4:7], 0 offen lds\n"
                   "ds_read_b32 v2, v0\ns_waitcnt lgkmcnt(0)" WAIT
                   "ds_read_b32 v3, v0\nds_read_b32 v5, v0 offset:512" WAIT);
    assert_int_equal(p.v[1][9], 109);
    assert_int_equal(p.v[2][9], 1009);
    assert_int_equal(p.v[3][9], 1009 + 64);
    assert_int_equal(p.v[5][9], 1009);
}

TEST(undefined_lds_stays_so_until_a_load_arrives)
{
    for (unsigned late = 0; late < 2; late++) {
        struct program p = loads(CHECK_UNINIT, memory());
        program_try(&p, late ? TO_LDS MEMORY_LATE "ds_read_b32 v2, v0" WAIT USE
                             : TO_LDS "ds_read_b32 v2, v0" WAIT USE);
        assert_int_equal(p.findings, !late);
    }
}

/* Wave 1 loads to LDS, wave 0 reads LDS. Neither the order of the waves nor the wait of the loading
 * wave matters. */
static struct program run_pair(const char *load, const char *look, uint64_t seed)
{
    char whole[1024];
    struct program p = loads(CHECK_ALL & ~(uint32_t)CHECK_HAZARD, memory());
    p.block = 128;
    p.order = seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
    p.seed = seed;
    snprintf(whole, sizeof(whole),
             FILL "s_barrier\ns_cmp_eq_u32 s100, 0\ns_cbranch_scc1 look\n" TO_LDS
                  "%s\ns_branch over\nlook:\n%s\nover:\ns_barrier\nds_read_b32 v4, v0" WAIT,
             load, look);
    program_try(&p, whole);
    if (p.fault.kind != FAULT_NONE)
        fail_msg("%s", p.fault.text);
    return p;
}

TEST(other_waves_find_a_load_to_lds_when_it_has_arrived)
{
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct program p = run_pair("s_waitcnt vmcnt(0)",
                                    "s_nop 15\nds_read_b32 v2, v0\n"
                                    "s_sleep 16\nds_read_b32 v3, v0" WAIT,
                                    seed);
        assert_int_equal(p.v[2][9], 109);
        assert_int_equal(p.v[4][9], 1009);
        if (seed) /* wave 0 may read before wave 1 has loaded */
            continue;
        assert_int_equal(p.v[3][9], 1009);
        assert_in_range(p.margins[MARGIN_VECTOR].before >> MARGIN_OFFSET_BITS, 1, 504);
        assert_int_equal(p.found[0].kind, FAULT_RACE);
    }
}

TEST(a_barrier_does_not_wait_for_loads)
{
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct program p = run_pair("s_barrier",
                                    "s_barrier\nds_read_b32 v2, v0\ns_sleep 16\n"
                                    "ds_read_b32 v3, v0" WAIT,
                                    seed);
        assert_int_equal(p.v[2][9], 109);
        assert_int_equal(p.v[3][9], 1009);
        assert_int_equal(p.v[4][9], 1009);
        assert_int_equal(p.found[0].kind, FAULT_WAIT);
    }
}

/* Wave 1 stores v3 to LDS, and wave 0 branches on the value. */
static struct program hand_over(const char *make)
{
    char whole[1024];
    struct program p = loads(CHECK_ALL & ~(uint32_t)CHECK_HAZARD, memory());
    p.block = 128;
    p.keep_going = CHECK_ALL & ~(uint32_t)CHECK_HALTS;
    p.v_valid[20] = 0;
    snprintf(whole, sizeof(whole),
             FILL "s_barrier\ns_cmp_eq_u32 s100, 0\ns_cbranch_scc1 take\n%s\n"
                  "ds_write_b32 v0, v3 offset:1024" WAIT "v_mov_b32 v7, v3\ntake:\ns_barrier\n"
                  "s_cbranch_scc0 end\nds_read_b32 v2, v0 offset:1024" WAIT USE "end:\n",
             make);
    program_try(&p, whole);
    return p;
}

/* If other waves use the result of an early register read, the report still names the early
 * read. */
TEST(blame_passes_through_lds)
{
    struct program p = hand_over("ds_read_b32 v1, v0\nv_add_u32 v3, 1, v1");
    assert_int_equal(p.fault.kind, FAULT_NONE);
    expect_finding(&p, "v1 was touched");
    assert_int_equal(p.found[0].wave, 0);
    assert_int_equal(p.v[2][9], 8);

    /* v20 was never set. An early read whose result is stored elsewhere is not blamed. */
    p = hand_over("v_mov_b32 v3, v20");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    p = hand_over("ds_write_b32 v0, v20 offset:1024" WAIT "ds_read_b32 v1, v0\n"
                  "v_add_u32 v3, 1, v1\nv_add_u32 v0, 0x400, v0");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

/* Ordinary double buffering has no findings in many iterations. */
TEST(double_buffers_have_no_findings)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct program p = loads(CHECK_ALL & ~(uint32_t)CHECK_HAZARD, memory());
        p.block = 256;
        p.order = seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
        p.seed = seed;
        program_try(&p, "s_lshl_b32 s8, s100, 8\nv_xor_b32 v7, 0x100, v0\nv_add_u32 v7, s8, v7\n"
                        "s_mov_b32 s9, 40\nv_mov_b32 v2, 0\nloop:\n"
                        "s_mov_b32 m0, s8\ns_nop 0\nbuffer_load_dword v0, s[4:7], s8 offen lds\n"
                        "s_waitcnt vmcnt(0)\ns_barrier\n"
                        "ds_read_b32 v3, v7\ns_waitcnt lgkmcnt(0)\n"
                        "v_add_u32 v2, v2, v3\ns_barrier\n"
                        "s_sub_u32 s9, s9, 1\ns_cmp_lg_u32 s9, 0\ns_cbranch_scc1 loop");
        assert_int_equal(p.fault.kind, FAULT_NONE);
        assert_int_equal(p.findings, 0);
        assert_int_equal(p.v[2][9], 40 * (1000 + 64 + 9));
    }
}

/* KMcnt counts a barrier operation that sets SCC, until SCC can be read (CDNA5 ISA, S_BARRIER_LEAVE
 * and table 22). */
TEST(scc_of_a_barrier_arrives_with_kmcnt)
{
    static const char *const operations[] = {"s_barrier_signal_isfirst -1\n",
                                             "s_barrier_join 1\ns_barrier_leave\n"};
    static const char *const uses[] = {"s_cbranch_scc1 over\ns_nop 0\nover:\n",
                                       "s_cbranch_scc0 over\ns_nop 0\nover:\n",
                                       "s_cselect_b32 s4, 1, 2\n",
                                       "s_cmov_b32 s4, 1\n",
                                       "s_cmovk_i32 s4, 1\n",
                                       "s_mov_b32 s4, src_scc\n",
                                       "v_mov_b32 v4, src_scc\n",
                                       "s_getreg_b32 s4, hwreg(HW_REG_WAVE_STATE_PRIV, 9, 1)\n",
                                       "s_add_co_ci_u32 s4, s4, 1\n"};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(uses) / sizeof(*uses); i++) {
        const char *use = uses[i / 2];
        for (unsigned waits = 0; waits < 2; waits++) {
            char text[256];
            struct program p = program_new(GFX1250);
            p.block = 64;
            p.named_barriers = 4;
            p.checks = p.keep_going = CHECK_WAIT;
            snprintf(text, sizeof(text), "%s%s%s", operations[i % 2],
                     waits ? "s_wait_kmcnt 0\n" : "s_cmp_eq_u32 s5, s6\n", use);
            program_try(&p, text);
            assert_int_equal(p.fault.kind, FAULT_NONE);
            assert_int_equal(p.places, waits ? 0 : 1);
            if (!waits)
                expect_finding(&p, "SCC is used while the barrier operation");
        }
    }
}

/* KMcnt has 5 bits. The next operation stalls while the counter is full. */
TEST(many_barrier_operations_fit_in_kmcnt)
{
    struct program p = program_new(GFX1250);
    (void)state;
    p.block = 64;
    p.named_barriers = 4;
    program_run(&p, ".rept 100\ns_barrier_join 1\ns_barrier_leave\n.endr\ns_wait_kmcnt 0\n");
}

int main(void) { return run_unit_tests(); }
