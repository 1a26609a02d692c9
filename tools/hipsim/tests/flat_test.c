/* SPDX-License-Identifier: Apache-2.0 */
/* Tests FLAT, GLOBAL and SCRATCH. Expectations come from chapter 10 and section 12.15 of the CDNA3
 * ISA manual. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

static uint32_t *numbers(unsigned count)
{
    static uint32_t init[4096];

    for (unsigned i = 0; i < count; i++)
        init[i] = i * 0x01010101u + 0x80;
    return device_alloc(count * 4, init);
}

TEST(loads_extend_and_address)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(1024);
    program_addresses(&p, 0, data + 64, 4);
    program_lanes(&p, 2, 4);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)(data + 64));
    program_fill(&p, 20, 0xaaaabbbb);
    program_fill(&p, 21, 0xaaaabbbb);
    program_run(&p, "global_load_dword v4, v[0:1], off offset:-256\n"
                    "global_load_dword v5, v2, s[2:3] offset:8\n"
                    "global_load_ubyte v6, v[0:1], off\nglobal_load_sbyte v7, v[0:1], off\n"
                    "global_load_sshort v8, v[0:1], off offset:1\n"
                    "global_load_dwordx4 v[12:15], v[0:1], off offset:4\n"
                    "global_load_short_d16 v20, v[0:1], off\n"
                    "global_load_sbyte_d16_hi v21, v[0:1], off\nflat_load_dword v9, v[0:1]\n"
                    "s_waitcnt vmcnt(0) lgkmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        uint32_t here = data[64 + l];
        assert_int_equal(p.v[4][l], data[l]);
        assert_int_equal(p.v[5][l], data[66 + l]);
        assert_int_equal(p.v[6][l], here & 0xff);
        assert_int_equal(p.v[7][l], (uint32_t)(int8_t)here);
        /* unaligned addresses are allowed */
        assert_int_equal(p.v[8][l], (uint32_t)(int16_t)(here >> 8));
        assert_int_equal(p.v[9][l], here);
        assert_int_equal(p.v[15][l], data[68 + l]);
        assert_int_equal(p.v[20][l], here & 0xffff);
        assert_int_equal(p.v[21][l], (uint32_t)(int8_t)here << 16);
    }
}

TEST(stores_obey_exec_and_width)
{
    struct program p = program_new(GFX942);
    uint32_t *out = device_alloc(64 * 16, NULL);
    memset(out, 0x55, 64 * 16);
    program_addresses(&p, 0, out, 16);
    program_fill(&p, 4, 0x11223344);
    program_fill(&p, 5, 0x99aabbcc);
    p.exec = 0xf0;
    program_run(&p, "global_store_dwordx2 v[0:1], v[4:5], off\n"
                    "global_store_short_d16_hi v[0:1], v4, off offset:8\n"
                    "flat_store_byte v[0:1], v5 offset:10\n"
                    "global_store_byte_d16_hi v[0:1], v5, off offset:11\ns_waitcnt vmcnt(0)");
    assert_int_equal(out[3 * 4], 0x55555555);
    assert_int_equal(out[4 * 4], 0x11223344);
    assert_int_equal(out[4 * 4 + 1], 0x99aabbcc);
    assert_int_equal(out[7 * 4 + 2], 0xaacc1122);
    assert_int_equal(out[8 * 4], 0x55555555);
}

/* Data from LDS arrive with lgkmcnt, data from memory with vmcnt. */
TEST(flat_data_come_with_their_counter)
{
    static const struct {
        bool lds;
        const char *wait;
        enum fault_kind want;
    } cases[] = {
        {false, "s_waitcnt vmcnt(0)", FAULT_NONE},
        {false, "s_waitcnt vmcnt(1)", FAULT_NONE},
        {false, "s_waitcnt lgkmcnt(0)", FAULT_WAIT},
        {true, "s_waitcnt lgkmcnt(0)", FAULT_NONE},
        {true, "s_waitcnt vmcnt(0)", FAULT_WAIT},
        {true, "s_waitcnt vmcnt(1) lgkmcnt(1)", FAULT_WAIT},
    };
    uint32_t *data = numbers(128);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program p = program_new(GFX942);
        char text[300];
        p.lds_bytes = 256;
        program_addresses(&p, 0, data, 4);
        program_lanes(&p, 6, 4);
        program_run(&p, "s_mov_b64 s[0:1], src_shared_base");
        for (unsigned l = 0; l < 64 && cases[i].lds; l++) {
            p.v[0][l] = 4 * l;
            p.v[1][l] = p.s[1];
        }
        snprintf(text, sizeof(text),
                 "ds_write_b32 v6, v6\ns_waitcnt lgkmcnt(0)\n"
                 "flat_load_dword v3, v[0:1]\nflat_load_dword v4, v[0:1]\n%s\nv_mov_b32 v5, v3\n"
                 "global_store_dword v[8:9], v5, off\ns_waitcnt vmcnt(0) lgkmcnt(0)",
                 cases[i].wait);
        program_addresses(&p, 8, data + 64, 4);
        program_try(&p, text);
        if (p.fault.kind != cases[i].want)
            fail_msg("%s of %s: %s", cases[i].wait, cases[i].lds ? "LDS" : "memory", p.fault.text);
    }
}

TEST(flat_finds_its_aperture)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    p.lds_bytes = 256;
    p.private_bytes = 16;
    program_addresses(&p, 0, data, 4);
    for (unsigned l = 0; l < 64; l++) {
        uint64_t a = l % 3 == 1 ? SHARED_APERTURE + 4 * l : PRIVATE_APERTURE + 8;
        if (l % 3 == 0)
            continue;
        p.v[0][l] = (uint32_t)a;
        p.v[1][l] = (uint32_t)(a >> 32);
    }
    program_lanes(&p, 2, 1000);
    program_run(&p, "flat_store_dword v[0:1], v2\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
                    "flat_load_dword v3, v[0:1]\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
                    "scratch_load_dword v4, off, off offset:8\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++)
        assert_int_equal(p.v[3][l], 1000 * l);
    assert_int_equal(data[30], 30000);
    assert_int_equal(p.v[4][5], 5000);
}

TEST(scratch_is_private_to_the_lane)
{
    struct program p = program_new(GFX942);
    p.private_bytes = 64;
    p.s[3] = 16;
    program_lanes(&p, 1, 3);
    program_fill(&p, 2, 8);
    program_run(&p, "scratch_store_dword off, v1, s3 offset:-4\n" /* ST: saddr + offset = 12 */
                    "scratch_load_dword v4, v2, off offset:4\n"   /* SV: vaddr + offset */
                    "scratch_load_dword v5, v2, s3 offset:-12\n"  /* SVS: vaddr + saddr + offset */
                    "s_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[4][l], 3 * l);
        assert_int_equal(p.v[5][l], 3 * l);
    }
    program_try(&p, "scratch_store_dword off, v1, s3 offset:48\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
}

TEST(atomics_collide_and_return)
{
    struct program p = program_new(GFX942);
    uint32_t init[8] = {0, 0, 5, 0, 0x3f800000};
    uint32_t *word = device_alloc(sizeof(init), init);
    program_addresses(&p, 0, word, 0);
    program_fill(&p, 2, 3);
    program_fill64(&p, 4, UINT64_C(0x100000001));
    program_fill(&p, 6, 9); /* new value */
    program_fill(&p, 7, 5); /* value that is compared with memory */
    program_fill(&p, 8, 0x3f800000);
    program_fill64(&p, 12, bits_of64(1.0));
    program_run(&p, "global_atomic_add v[0:1], v2, off\n"
                    "global_atomic_add v10, v[0:1], v2, off sc0\n"
                    "flat_atomic_cmpswap v11, v[0:1], v[6:7] offset:8 sc0\n"
                    "global_atomic_add_f32 v[0:1], v8, off offset:16\n"
                    "s_waitcnt vmcnt(0) lgkmcnt(0)");
    assert_int_equal(word[0], 2 * 64 * 3);
    assert_int_equal(p.v[10][63], 64 * 3 + 63 * 3);
    assert_int_equal(word[2], 9);
    assert_int_equal(p.v[11][0], 5);
    assert_int_equal(p.v[11][1], 9);
    assert_int_equal(word[4], bits_of(65.0f));
    memset(word, 0, sizeof(init));
    program_run(&p, "global_atomic_add_x2 v[0:1], v[4:5], off\n"
                    "global_atomic_add_f64 v[0:1], v[12:13], off offset:8\n"
                    "global_atomic_max_f64 v[0:1], v[12:13], off offset:16\ns_waitcnt vmcnt(0)");
    uint64_t wide[3];
    memcpy(wide, word, sizeof(wide));
    assert_int_equal(wide[0], UINT64_C(0x4000000040));
    assert_int_equal(wide[1], bits_of64(64.0));
    assert_int_equal(wide[2], bits_of64(1.0));
}

/* Atomics in L2 ignore MODE. Only ADD_F32 flushes its inputs: CDNA4 ISA, table 53. */
TEST(atomics_in_l2_ignore_mode)
{
    for (unsigned k = 0; k < 2; k++) {
        struct program p = program_new(GFX942);
        uint32_t init[6] = {1, 0x00800001, 0x00010002, 0, 3};
        uint32_t *word = device_alloc(sizeof(init), init);
        p.mode = k ? MODE_DEFAULT : MODE_IEEE;
        p.exec = 1;
        program_addresses(&p, 0, word, 0);
        program_fill(&p, 2, 2);
        program_fill(&p, 3, 0x80800000);
        program_fill(&p, 4, 0x00020002);
        program_fill64(&p, 6, 5);
        program_run(&p, "global_atomic_add_f32 v[0:1], v2, off\n"
                        "global_atomic_add_f32 v[0:1], v3, off offset:4\n"
                        "global_atomic_pk_add_f16 v[0:1], v4, off offset:8\n"
                        "global_atomic_max_f64 v[0:1], v[6:7], off offset:16\ns_waitcnt vmcnt(0)");
        assert_int_equal(word[0], 0);
        assert_int_equal(word[1], 1); /* a sum of two normal numbers is not flushed */
        assert_int_equal(word[2], 0x00030004);
        assert_int_equal(word[4], 5);
    }
}

/* Clang implements an f16 atomic as a compare-and-swap of the dword that contains the f16. */
TEST(last_dword_of_an_odd_allocation)
{
    struct program p = program_new(GFX942);
    uint16_t init[7] = {0};
    uint16_t *data = device_alloc(sizeof(init), init);
    p.exec = 1;
    program_addresses(&p, 0, data, 0);
    program_fill(&p, 8, 1);
    program_run(&p, "global_load_dword v7, v[0:1], off offset:12\ns_waitcnt vmcnt(0)\n"
                    "v_add_u32 v6, v7, v8\n"
                    "global_atomic_cmpswap v9, v[0:1], v[6:7], off offset:12 sc0\n"
                    "s_waitcnt vmcnt(0)");
    assert_int_equal(data[6], 1);
    program_try(&p, "global_load_dword v7, v[0:1], off offset:14\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    p.exec = 1;
    program_try(&p, "global_load_dwordx2 v[4:5], v[0:1], off offset:8\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
}

TEST(errors_are_found)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(60);
    program_addresses(&p, 0, data, 4);
    program_fill(&p, 2, 1);
    /* The last four lanes are out of bounds. */
    program_try(&p, "global_load_dword v4, v[0:1], off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    assert_int_equal(p.fault.lanes, 0xf000000000000000);
    p.exec = 0x0fffffffffffffff;
    program_run(&p, "global_load_dword v4, v[0:1], off\ns_waitcnt vmcnt(0)");
    /* The atomic's address is misaligned. */
    p.exec = 1;
    program_try(&p, "global_atomic_add v[0:1], v2, off offset:2\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_ALIGN);
    /* The memory was never written. */
    p.exec = 1;
    p.v_valid[1] = ~UINT64_C(1);
    program_try(&p, "global_load_dword v4, v[0:1], off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    /* The memory was freed. */
    p.exec = 1;
    p.v_valid[1] = UINT64_MAX;
    hipsim_mem_free(data);
    program_try(&p, "global_store_dword v[0:1], v2, off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
}

/* Atomics read memory, so it must have been written. A swap need not, since it only returns the old
 * value. */
TEST(atomics_need_defined_memory_and_operands)
{
    struct program p = program_new(GFX942);
    uint32_t *const memory = device_alloc(256, NULL);
    program_addresses(&p, 0, memory, 4);
    program_lanes(&p, 4, 4); /* LDS addresses */
    p.lds_bytes = 4096;
    program_fill(&p, 2, 1);
    program_fill(&p, 3, 1);
    static const char *const reading[] = {
        "global_atomic_add v[0:1], v2, off\ns_waitcnt vmcnt(0)",
        "global_atomic_cmpswap v[0:1], v[2:3], off\ns_waitcnt vmcnt(0)",
        "ds_add_u32 v4, v2\ns_waitcnt lgkmcnt(0)",
        "ds_cmpst_b32 v4, v2, v3\ns_waitcnt lgkmcnt(0)",
    };
    static const char *const some_written[] = {
        "s_mov_b64 exec, 0xffff\nglobal_store_dword v[0:1], v2, off\ns_waitcnt vmcnt(0)",
        "s_mov_b64 exec, 0xffff\nds_write_b32 v4, v2\ns_waitcnt lgkmcnt(0)",
    };
    for (unsigned i = 0; i < 4; i++) {
        char text[300];
        snprintf(text, sizeof(text), "%s\ns_mov_b64 exec, -1\n%s", some_written[i / 2], reading[i]);
        program_try(&p, text);
        assert_int_equal(p.fault.kind, FAULT_UNINIT);
        assert_int_equal(p.fault.lanes, 0xffffffffffff0000);
    }
    program_run(&p, "global_atomic_swap v[0:1], v2, off\nds_wrxchg_rtn_b32 v5, v4, v2\n"
                    "s_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_atomic_add v[0:1], v2, off\n"
                    "ds_add_u32 v4, v2\ns_waitcnt vmcnt(0) lgkmcnt(0)");
    assert_int_equal(p.v_valid[5], 0);
    assert_int_equal(memory[63], 2);
    p.v_valid[2] = ~UINT64_C(4);
    program_try(&p, reading[0]);
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    assert_int_equal(p.fault.lanes, 4);
}

TEST(undefined_memory_stays_undefined)
{
    struct program p = program_new(GFX942);
    uint32_t *from = device_alloc(256, NULL), *to = device_alloc(256, NULL);
    program_addresses(&p, 0, from, 4);
    program_addresses(&p, 2, to, 4);
    program_fill(&p, 4, 7);
    p.exec = 0xffff;
    program_run(&p, "global_store_dword v[0:1], v4, off\ns_mov_b64 exec, -1\n"
                    "global_load_dword v5, v[0:1], off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.v_valid[5], 0xffff);
    program_try(&p, "global_load_dword v5, v[0:1], off\ns_waitcnt vmcnt(0)\n"
                    "global_store_dword v[2:3], v5, off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    assert_int_equal(p.fault.lanes, 0xffffffffffff0000);
}

TEST(loads_to_lds_take_their_place_from_m0)
{
    static const struct {
        enum gfx_target t;
        unsigned dwords;
        const char *name;
    } forms[] = {
        {GFX942, 1, "global_load_lds_dword"},
        {GFX950, 3, "global_load_lds_dwordx3"},
        {GFX950, 4, "global_load_lds_dwordx4"},
    };

    (void)state;
    for (unsigned f = 0; f < 3; f++) {
        struct program p = program_new(forms[f].t);
        unsigned dwords = forms[f].dwords;
        uint32_t *data = numbers(512);
        char text[256];
        p.lds_bytes = 2048;
        p.s[SGPR_M0] = 512;
        for (unsigned l = 0; l < 64; l++) { /* lanes have any source address; the destinations are
                                               in order of lanes */
            uint64_t a = (uint64_t)(uintptr_t)data + (63 - l) * dwords * 4;
            p.v[0][l] = (uint32_t)a;
            p.v[1][l] = (uint32_t)(a >> 32);
        }
        program_lanes(&p, 2, dwords * 4);
        snprintf(text, sizeof(text),
                 "%s v[0:1], off offset:16\ns_waitcnt vmcnt(0)\n"
                 "ds_read_b32 v3, v2 offset:528\ns_waitcnt lgkmcnt(0)",
                 forms[f].name);
        program_run(&p, text);
        for (unsigned l = 0; l < 64; l++)
            assert_int_equal(p.v[3][l], data[(63 - l) * dwords + 4]);
        snprintf(text, sizeof(text),
                 "%s v[0:1], off offset:16\nds_read_b32 v3, v2 offset:528\n"
                 "s_waitcnt lgkmcnt(0) vmcnt(0)",
                 forms[f].name);
        program_try(&p, text);
        assert_int_equal(p.fault.kind, FAULT_WAIT);
    }
}

/* A byte or half is sign- or zero-extended to a dword of LDS. */
TEST(narrow_loads_to_lds_extend)
{
    static const char *const forms[] = {"ubyte", "sbyte", "ushort", "sshort"};

    (void)state;
    for (unsigned f = 0; f < 8; f++) {
        struct program p = program_new(GFX942);
        const bool scratch = f >= 4;
        uint32_t *data = numbers(64);
        char text[300];
        p.lds_bytes = 256;
        p.private_bytes = 8;
        p.s[SGPR_M0] = 0x50000; /* only bits 15:0 count */
        program_addresses(&p, 0, data, 4);
        program_lanes(&p, 2, 4);
        memcpy(p.v[5], data, sizeof(p.v[5]));
        snprintf(text, sizeof(text),
                 "scratch_store_dword off, v5, off\ns_waitcnt vmcnt(0)\n"
                 "%s_load_lds_%s %s\ns_waitcnt vmcnt(0)\nds_read_b32 v3, v2\ns_waitcnt lgkmcnt(0)",
                 scratch ? "scratch" : "global", forms[f % 4],
                 scratch ? "off, off" : "v[0:1], off");
        program_run(&p, text);
        for (unsigned l = 0; l < 64; l++) {
            const uint32_t want = f % 4 == 0   ? data[l] & 0xff
                                  : f % 4 == 1 ? (uint32_t)(int8_t)data[l]
                                  : f % 4 == 2 ? data[l] & 0xffff
                                               : (uint32_t)(int16_t)data[l];
            if (p.v[3][l] != want)
                fail_msg("%s: %08x, not %08x", text, p.v[3][l], want);
        }
    }
}

int main(void) { return run_unit_tests(); }
