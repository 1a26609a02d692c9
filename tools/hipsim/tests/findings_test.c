/* SPDX-License-Identifier: Apache-2.0 */
/* Tests findings that do not stop the hardware. They are counted and recorded once per place, and
 * the kernel continues. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/hipsim/tests/device.h"

/* Runs a kernel with one mistake, which sets s0 to 5 after it. */
static void expect(const char *text, enum fault_kind kind)
{
    uint32_t *buffer = device_alloc(4096, NULL);
    for (unsigned going = 0; going < 2; going++) {
        struct program p = program_new(GFX942);
        p.checks = CHECK_ALL;
        p.keep_going = going ? CHECK_ALL : 0;
        p.block = 128;
        p.lds_bytes = 1024;
        p.v_valid[1] = 0;
        p.s_valid[8] = 0;
        program_s64_set(&p, 2, (uint64_t)(uintptr_t)buffer);
        program_lanes(&p, 10, 4);
        program_try(&p, text);
        if (going ? p.fault.kind != FAULT_NONE || p.s[0] != 5 || !p.findings || p.places != 1 ||
                        p.found[0].kind != kind
                  : p.fault.kind != kind || p.findings || p.s[0] == 5)
            fail_msg("%s\n%s%s: %d findings, %u places, s0 = %u", text, p.fault.text,
                     p.found[0].text, (int)p.findings, p.places, p.s[0]);
    }
    hipsim_mem_free(buffer);
}

#define END "\ns_nop 7\ns_mov_b32 s0, 5"

TEST(launches_continue_after_every_kind)
{
    expect("global_store_dword v10, v1, s[2:3]" END, FAULT_UNINIT);
    expect("s_cmp_eq_u32 s8, 0\ns_cbranch_scc0 over\nover:" END, FAULT_UNINIT);
    expect("v_mov_b32 v1, s100\ns_nop 7\nds_write_b32 v10, v1\ns_waitcnt lgkmcnt(0)" END,
           FAULT_RACE);
    expect("v_mov_b32 v1, 1\nglobal_store_dword v10, v1, s[2:3]\ns_waitcnt vmcnt(0)\ns_barrier\n"
           "global_load_dword v1, v10, s[2:3]\nv_add_u32 v2, v1, v1\ns_waitcnt vmcnt(0)\n"
           "global_store_dword v10, v2, s[2:3] offset:1024" END,
           FAULT_WAIT);
    expect("v_exp_f32 v1, v11\nv_mov_b32 v2, v1" END, FAULT_HAZARD);
    expect("s_mov_b32 exec_hi, 0\ns_barrier\ns_mov_b32 exec_hi, exec_lo\ns_barrier" END,
           FAULT_DIVERGE);
    expect("s_cmp_eq_u32 s100, 1\ns_cbranch_scc1 out\ns_barrier" END "\nout:", FAULT_BARRIER);
}

TEST(kernels_continue_with_the_present_values)
{
    struct program p = program_new(GFX942);
    p.keep_going = CHECK_ALL;
    p.lds_bytes = 1024;
    program_lanes(&p, 10, 4);
    program_fill(&p, 11, 21);
    program_try(&p, "ds_write_b32 v10, v11\ns_waitcnt lgkmcnt(0)\nds_read_b32 v1, v10\n"
                    "s_nop 15\nv_add_u32 v2, v1, v1\nv_cmp_eq_u32 vcc, 42, v2\n"
                    "s_cbranch_vccz over\n"
                    "s_mov_b32 s0, 7\nover:");
    assert_int_equal(p.fault.kind, FAULT_NONE);
    assert_int_equal(p.v[2][9], 42);
    assert_int_equal(p.s[0], 7);
    assert_int_equal(p.places, 1);
    assert_int_equal(p.found[0].kind, FAULT_WAIT);
    assert_non_null(strstr(p.found[0].text, "before the s_waitcnt for the load at"));
}

/* A place is recorded once, regardless of how often it executes. */
TEST(places_are_recorded_once)
{
    struct program p = program_new(GFX942);
    p.keep_going = CHECK_ALL;
    p.s_valid[8] = 0;
    program_try(&p, "s_mov_b32 s0, 5\nloop:\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc0 over\nover:\n"
                    "s_sub_u32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\ns_cbranch_scc1 loop");
    assert_int_equal(p.fault.kind, FAULT_NONE);
    assert_int_equal(p.findings, 5);
    assert_int_equal(p.places, 1);
    p = program_new(GFX942);
    p.checks = CHECK_HAZARD;
    p.keep_going = CHECK_ALL;
    program_try(&p, "s_mov_b32 s0, 5\nloop:\nv_exp_f32 v1, v11\nv_mov_b32 v2, v1\n"
                    "s_sub_u32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\ns_cbranch_scc1 loop");
    assert_int_equal(p.findings, 5);
    assert_int_equal(p.places, 1);
}

/* Lanes outside of memory read zero and store nothing. The other lanes are not affected. */
TEST(accesses_outside_of_memory_read_zero)
{
    uint32_t *buffer = device_alloc(64 * 4, NULL);
    struct program p = program_new(GFX942);
    p.keep_going = CHECK_ALL;
    p.checks = CHECK_MEMORY;
    p.lds_bytes = 128;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)buffer);
    program_lanes(&p, 10, 8);
    program_fill(&p, 11, 21);
    program_try(&p, "global_store_dword v10, v11, s[2:3]\ns_waitcnt vmcnt(0)\n"
                    "global_load_dword v1, v10, s[2:3]\n"
                    "ds_write_b32 v10, v11\ns_waitcnt lgkmcnt(0)\nds_read_b32 v4, v10\n"
                    "s_load_dword s6, s[2:3], 0x1000\ns_waitcnt vmcnt(0) lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_NONE);
    assert_int_equal(p.places, 4); /* program.h keeps 4 places */
    assert_int_equal(p.findings, 5);
    for (unsigned i = 0; i < p.places; i++)
        assert_int_equal(p.found[i].kind, FAULT_MEMORY);
    assert_int_equal(buffer[62], 21);
    assert_int_equal(p.v[1][31], 21);
    assert_int_equal(p.v[1][32], 0);
    assert_int_equal(p.v[4][15], 21);
    assert_int_equal(p.v[4][16], 0);
    assert_int_equal(p.s[6], 0);
    p.keep_going = 0;
    program_try(&p, "global_store_dword v10, v11, s[2:3]");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    hipsim_mem_free(buffer);
}

TEST(wide_accesses_that_are_misaligned_are_hinted_at)
{
    uint32_t *buffer = device_alloc(4096, NULL);
    struct program p = program_new(GFX942);
    p.keep_going = CHECK_HINT;
    p.checks = CHECK_ALL;
    p.lds_bytes = 2048;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)buffer);
    program_lanes(&p, 10, 16);
    static const char text[] =
        "global_store_dwordx4 v10, v[20:23], s[2:3]\n"
        "global_store_dwordx4 v10, v[20:23], s[2:3] offset:8\n"
        "ds_write_b64 v10, v[20:21] offset:4\nglobal_store_dword v10, v20, s[2:3] offset:4\n"
        "s_waitcnt vmcnt(0) lgkmcnt(0)";
    for (unsigned i = 20; i < 24; i++)
        program_fill(&p, i, i);
    program_try(&p, text);
    assert_int_equal(p.places, 0);
    p.checks |= CHECK_HINT;
    program_try(&p, text);
    assert_int_equal(p.fault.kind, FAULT_NONE);
    assert_int_equal(p.places, 2);
    assert_int_equal(p.found[0].kind, FAULT_HINT);
    assert_non_null(strstr(p.found[0].text, "store of 16 bytes at address 0x"));
    assert_non_null(
        strstr(p.found[1].text, "store of 8 bytes at LDS offset 0x4, no multiple of 8"));
    hipsim_mem_free(buffer);
}

TEST(every_kind_has_a_name_of_its_own)
{
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        assert_non_null(fault_name(kind));
        for (unsigned other = 0; other < kind; other++)
            assert_string_not_equal(fault_name(kind), fault_name(other));
    }
}

TEST(instructions_have_the_text_of_the_assembler)
{
    static const char *const lines[] = {"s_mov_b32 s0, 0x12345678", "s_waitcnt vmcnt(0)",
                                        "v_add_u32_e32 v1, v2, v3",
                                        "global_load_dword v2, v1, s[0:1] offset:16"};
    for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[80], text[80];
        size_t bytes;
        snprintf(line, sizeof(line), "%s\n", lines[i]);
        void *const machine = assemble(GFX942, line, &bytes);
        struct code *const code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
        assert_non_null(code);
        assert_string_equal(code_text(code, 0, text, sizeof(text)), lines[i]);
        assert_string_equal(code_text(code, bytes, text, sizeof(text)), "<outside of the code>");
        code_destroy(code);
        free(machine);
    }
}

int main(void) { return run_unit_tests(); }
