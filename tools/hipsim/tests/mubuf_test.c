/* SPDX-License-Identifier: Apache-2.0 */
/* Tests buffer instructions. Expectations come from section 9.1 of the CDNA3 ISA manual. */
#include <stdio.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

static uint32_t *numbers(unsigned count)
{
    static uint32_t init[1024];

    for (unsigned i = 0; i < count; i++)
        init[i] = 1000 + i;
    return device_alloc(count * 4, init);
}

TEST(addresses_add_up)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(1024);
    program_resource(&p, 4, data, 0, 4096);
    program_resource(&p, 8, data, 16, 256); /* resource of 256 records of 16 bytes */
    program_lanes(&p, 0, 4);
    program_lanes(&p, 2, 1);
    program_fill(&p, 3, 8);
    p.s[20] = 64;
    program_run(&p, "buffer_load_dword v10, v0, s[4:7], s20 offen offset:12\n"
                    "buffer_load_dword v11, off, s[4:7], 16\n"
                    "buffer_load_dword v12, v2, s[8:11], 0 idxen offset:4\n"
                    "buffer_load_dword v13, v[2:3], s[8:11], 0 idxen offen offset:4\n"
                    "buffer_load_ushort v14, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[10][l], 1000 + l + 19);
        assert_int_equal(p.v[11][l], 1004);
        assert_int_equal(p.v[12][l], 1000 + 4 * l + 1);
        assert_int_equal(p.v[13][l], 1000 + 4 * l + 3);
        assert_int_equal(p.v[14][l], 1000 + l);
    }
}

TEST(out_of_range_reads_zero_dword_by_dword)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 64 * 4 - 6); /* ends inside of the last but one dword */
    program_lanes(&p, 0, 4);
    p.v[0][63] = 0xfffffffc; /* -4 is a large unsigned offset: out of range completely */
    p.s[20] = 240;
    for (unsigned r = 8; r < 12; r++)
        program_fill(&p, r, 0x55);
    program_run(&p, "buffer_load_dwordx4 v[8:11], v0, s[4:7], 0 offen\n"
                    "buffer_load_dword v12, off, s[4:7], s20 offset:8\n"
                    "buffer_load_ubyte v13, off, s[4:7], s20 offset:9\n"
                    "buffer_load_ubyte v14, off, s[4:7], s20 offset:10\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.v[11][58], 1061);
    assert_int_equal(p.v[10][59], 1061);
    assert_int_equal(p.v[11][59], 0);
    assert_int_equal(p.v[8][61], 1061);
    assert_int_equal(p.v[9][61], 0);
    assert_int_equal(p.v[8][62], 0);
    for (unsigned r = 8; r < 12; r++)
        assert_int_equal(p.v[r][63], 0);
    assert_int_equal(p.v[12][0], 0); /* num_records - sgpr_offset = 10, 8 + 4 > 10 */
    assert_int_equal(p.v[13][0], 1062 >> 8 & 255);
    assert_int_equal(p.v[14][0], 0);
}

TEST(out_of_range_writes_are_dropped)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 132);
    program_resource(&p, 8, data, 16, 4);
    program_lanes(&p, 0, 8);
    program_lanes(&p, 1, 1);
    program_fill(&p, 2, 7);
    program_fill(&p, 3, 8);
    program_run(&p, "buffer_store_dwordx2 v[2:3], v0, s[4:7], 0 offen\n"
                    "buffer_atomic_add v2, v0, s[4:7], 0 offen offset:64\ns_waitcnt vmcnt(0)");
    assert_int_equal(data[1], 8);
    assert_int_equal(data[14], 7);
    assert_int_equal(data[16], 14); /* result of lane 0's atomic */
    assert_int_equal(data[32], 14); /* low half: stored by lane 16; then lane 8's atomic */
    assert_int_equal(data[33], 1033);
    data[16] = 1;
    program_run(&p, "buffer_store_dword v3, v1, s[8:11], 0 idxen\n"
                    "buffer_load_dword v12, v1, s[8:11], 0 idxen\ns_waitcnt vmcnt(0)");
    assert_int_equal(data[12], 8);
    assert_int_equal(data[16], 1); /* index 4 is out of range */
    assert_int_equal(p.v[12][3], 8);
    assert_int_equal(p.v[12][4], 0);
}

TEST(range_of_the_resource_is_not_range_of_memory)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(32);
    program_resource(&p, 4, data, 0, 0xffffffff);
    program_lanes(&p, 0, 4);
    program_try(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    assert_int_equal(p.fault.lanes, 0xffffffff00000000);
}

/* CDNA3 ISA, 9.1.8: "A resource set to all zeros acts as an unbound texture or buffer". The
 * hardware then ignores the other fields and the address. */
TEST(unbound_resources_load_zero_and_drop_stores)
{
    for (unsigned bound = 0; bound < 2; bound++) {
        struct program p = program_new(GFX942);
        uint32_t *data = numbers(64);
        program_resource(&p, 4, data, 0, 256);
        program_lanes(&p, 0, 4);
        program_fill(&p, 1, 77);
        p.s[7] = bound ? 0x00020000 : 0;
        program_run(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)\n"
                        "buffer_store_dword v1, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
        assert_int_equal(p.v[10][5], bound ? 1005 : 0);
        assert_int_equal(data[5], bound ? 77 : 1005);
        p.checks |= CHECK_UNINIT;
        p.v_valid[0] = 0;
        p.s_valid[4] = 0;
        program_try(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
        assert_int_equal(p.fault.kind, bound ? FAULT_UNINIT : FAULT_NONE);
    }
}

/* CDNA3 ISA, 9.1.5: buffer_offset = (index / n * stride + offset / 4 * 4) * n + index % n * 4 +
 * offset % 4, with n = 8 << index_stride. It requires add_tid, see the next test. */
TEST(swizzled_buffers_interleave_records)
{
    for (unsigned field = 0; field < 4; field++) {
        struct program p = program_new(GFX942);
        uint32_t *data = numbers(1024);
        unsigned n = 8u << field;
        /* records of three dwords; lanes 62 and 63 are out of range */
        program_resource(&p, 4, data, 12, 62);
        p.s[5] |= 0x80000000;
        p.s[7] = 1 << 23 | field << 21;
        program_fill(&p, 0, 0);
        p.v[0][62] = p.v[0][63] = 62;
        program_fill(&p, 1, 1);
        program_run(&p, "buffer_load_dwordx3 v[8:10], v0, s[4:7], 0 idxen\n"
                        "buffer_load_ubyte v11, v[0:1], s[4:7], 0 idxen offen offset:4\n"
                        "buffer_load_dwordx2 v[12:13], v0, s[4:7], 0 idxen offset:8\n"
                        "s_waitcnt vmcnt(0)");
        for (unsigned l = 0; l < 62; l++) {
            unsigned first = 1000 + l / n * n * 3 + l % n;
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(p.v[8 + i][l], first + i * n);
            assert_int_equal(p.v[11][l], (first + n) >> 8);
            assert_int_equal(p.v[12][l], first + 2 * n);
            /* only the record's number is checked against the range */
            assert_int_equal(p.v[13][l], first + 3 * n);
        }
        for (unsigned l = 62; l < 64; l++)
            assert_int_equal(p.v[8][l] | p.v[11][l], 0);
        program_fill(&p, 2, 5);
        program_run(&p, "buffer_store_dword v2, v0, s[4:7], 0 idxen offset:4\n"
                        "buffer_atomic_add v2, v0, s[4:7], 0 idxen offset:4\ns_waitcnt vmcnt(0)");
        assert_int_equal(data[3 * n * (61 / n) + n + 61 % n], 10);
        assert_int_equal(data[3 * n * (62 / n) + n + 62 % n], 1000 + 3 * n * (62 / n) + n + 62 % n);
    }
}

/* rocjitsu, addr_calc_buffer.h: the swizzle bit "selects the swizzled scratch layout only together
 * with ADD_TID_ENABLE". HipKittens' make_srsrc() sets the bit for rows in linear order. */
TEST(swizzling_needs_add_tid)
{
    for (enum gfx_target target = GFX942; target <= GFX950; target++) {
        struct program p = program_new(target);
        uint32_t *data = numbers(256);
        program_resource(&p, 4, data, 16, 1024);
        p.s[5] |= 0xc0000000; /* sets the cache swizzle bit, too */
        p.s[7] = 0x110000;
        program_lanes(&p, 0, 16);
        program_lanes(&p, 1, 1);
        program_run(&p, "buffer_load_dwordx4 v[8:11], v0, s[4:7], 0 offen\n"
                        "buffer_load_dwordx2 v[12:13], v1, s[4:7], 0 idxen offset:4\n"
                        "s_waitcnt vmcnt(0)");
        for (unsigned l = 0; l < 64; l++) {
            assert_int_equal(p.v[8][l], 1000 + 4 * l);
            assert_int_equal(p.v[11][l], 1003 + 4 * l);
            assert_int_equal(p.v[12][l], 1001 + 4 * l);
            assert_int_equal(p.v[13][l], 1002 + 4 * l);
        }
    }
}

/* A private segment buffer has no stride. Its index is the lane, and a row of dwords has 64 lanes.
 * The range is not checked: CDNA4 ISA, 9.1.5.1. */
TEST(private_buffers_are_not_checked)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(256);
    program_resource(&p, 4, data, 0, 4);
    p.s[5] |= 0x80000000;
    p.s[7] = 1 << 23 | 3 << 21;
    program_run(&p, "buffer_load_dwordx3 v[8:10], off, s[4:7], 0\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[8][l], 1000 + l);
        assert_int_equal(p.v[9][l], 1064 + l);
        assert_int_equal(p.v[10][l], 1128 + l);
    }
}

TEST(add_tid_indexes_by_lane)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(256);
    program_resource(&p, 4, data, 8, 64);
    p.s[7] = 1 << 23; /* add_tid: the data format bits are bits of the stride */
    program_lanes(&p, 0, 1);
    program_run(&p, "buffer_load_dword v10, off, s[4:7], 0 offset:4\n"
                    "buffer_load_dword v11, v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[10][l], 1000 + 2 * l + 1);
        assert_int_equal(p.v[11][l], 1000 + 2 * l); /* gfx950: rocjitsu, addr_calc_buffer.h */
    }
}

/* A buffer without a stride is raw: its range is in bytes, and the index is not used. */
TEST(an_index_without_a_stride_adds_nothing)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 8);
    program_lanes(&p, 0, 1);
    program_run(&p, "buffer_load_dword v10, v0, s[4:7], 0 idxen offset:4\n"
                    "buffer_load_dword v11, v0, s[4:7], 0 idxen offset:8\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[10][l], 1001);
        assert_int_equal(p.v[11][l], 0);
    }
}

/* With add_tid, the data format field holds bits 17:14 of the stride. */
TEST(strides_have_all_their_bits)
{
    struct program p = program_new(GFX942);
    enum { STRIDE = 0x5004 };
    uint8_t *data = device_alloc(64 * STRIDE, NULL);
    memset(data, 1, 64 * STRIDE);
    hipsim_mem_mark((uint64_t)(uintptr_t)data, 64 * STRIDE);
    program_resource(&p, 4, data, STRIDE & 0x3fff, 4096);
    p.s[7] = 1 << 23 | STRIDE >> 14 << 15;
    program_resource(&p, 8, data, 0x3ffc, 64);
    program_lanes(&p, 0, 1);
    for (unsigned l = 0; l < 64; l++)
        memcpy(data + l * STRIDE, &l, 4);
    program_run(&p, "buffer_load_dword v10, off, s[4:7], 0\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++)
        assert_int_equal(p.v[10][l], l);
    for (unsigned l = 0; l < 64; l++)
        memcpy(data + l * 0x3ffc, &l, 4);
    program_run(&p, "buffer_load_dword v11, v0, s[8:11], 0 idxen\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++)
        assert_int_equal(p.v[11][l], l);
}

TEST(undefined_operands_are_found)
{
    uint32_t *data = numbers(64);
    for (unsigned reg = 3; reg < 8; reg++) {
        struct program p = program_new(GFX942);
        program_resource(&p, 4, data, 0, 256);
        p.s[3] = 0;
        p.s_valid[reg] = 0;
        program_try(&p, "buffer_load_dword v10, off, s[4:7], s3\ns_waitcnt vmcnt(0)");
        assert_int_equal(p.fault.kind, FAULT_UNINIT);
    }
    /* If the last dword is undefined, the check does not know whether the resource is unbound. */
    struct program p = program_new(GFX942);
    program_resource(&p, 4, data, 0, 256);
    p.s[7] = 0;
    p.s_valid[7] = 0;
    program_try(&p, "buffer_load_dword v10, off, s[4:7], 0\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

/* BUFFER_WBL2 counts in vmcnt, BUFFER_INV does not (LLVM, SIMemoryLegalizer). */
TEST(a_write_back_is_waited_for)
{
    struct program p = program_new(GFX942);
    program_run(&p, "buffer_wbl2 sc1\ns_getreg_b32 s0, hwreg(HW_REG_IB_STS, 0, 4)\n"
                    "s_waitcnt vmcnt(0)\nbuffer_inv sc1\n"
                    "s_getreg_b32 s1, hwreg(HW_REG_IB_STS, 0, 4)");
    assert_int_equal(p.s[0], 1);
    assert_int_equal(p.s[1], 0);
}

/* Measured by rocjitsu: the sum of VGPR offset and instruction offset wraps at 32 bits. The sum
 * with the SGPR offset does not. */
TEST(offsets_wrap)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 256);
    program_fill(&p, 0, 0xfffffffc);
    p.s[20] = 8;
    program_run(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen offset:8\n"
                    "buffer_load_dword v11, v0, s[4:7], s20 offen\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.v[10][0], 1001);
    assert_int_equal(p.v[11][0], 0);
}

/* The check `strict` reports a register offset that the instruction's offset wraps into range. */
TEST(offsets_that_wrap_into_range_are_found)
{
    static const struct {
        uint32_t offset;
        const char *text;
        bool found;
    } rows[] = {
        {0xfffffffc, "buffer_load_dword v10, v0, s[4:7], 0 offen offset:8", true},
        {0xfffffffc, "buffer_store_dword v1, v0, s[4:7], 0 offen offset:4", true},
        {0xfffffffc, "buffer_load_dword v10, v0, s[4:7], 0 offen", false},
        {0xfffffff8, "buffer_load_dword v10, v0, s[4:7], 0 offen offset:4", false},
        {0xfffffffc, "buffer_load_dword v10, v0, s[4:7], 0 offen offset:260", false},
        {4, "buffer_load_dword v10, v0, s[4:7], 0 offen offset:8", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int strict = 0; strict < 2; strict++) {
            struct program p = program_new(GFX942);
            char text[200];
            p.checks = CHECK_ALL & ~(uint32_t)(CHECK_HAZARD | (strict ? 0 : CHECK_STRICT));
            program_resource(&p, 4, numbers(64), 0, 256);
            program_fill(&p, 0, rows[i].offset);
            program_fill(&p, 1, 0);
            snprintf(text, sizeof(text), "s_nop 4\n%s\ns_waitcnt vmcnt(0)", rows[i].text);
            program_try(&p, text);
            const bool found = p.fault.kind == FAULT_STRICT;
            if (found != (strict && rows[i].found))
                fail_msg("%s: \"%s\"", rows[i].text, p.fault.text);
            if (found)
                assert_non_null(strstr(p.fault.text, "of lane 0 is 0xfffffffc"));
        }
    }
}

TEST(loads_to_lds)
{
    struct program p = program_new(GFX950);
    uint32_t *data = numbers(256);
    p.lds_bytes = 4096;
    p.s[SGPR_M0] = 1024;
    program_resource(&p, 4, data, 0, 60 * 16 + 8); /* ends in the middle of lane 60 */
    program_lanes(&p, 0, 16);
    program_lanes(&p, 2, 16);
    p.exec = ~UINT64_C(0x100);
    program_run(&p, "buffer_load_dwordx4 v0, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)\n"
                    "ds_read_b128 v[8:11], v2 offset:1024\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[11][7], 1000 + 31);
    assert_int_equal(p.v[9][59], 1000 + 59 * 4 + 1);
    assert_int_equal(p.v[9][60], 1000 + 60 * 4 + 1);
    assert_int_equal(p.v[10][60], 0); /* out of range: the load gives zero */
    assert_int_equal(p.v[8][61], 0);
}

/* M0 has an LDS address of 16 bits, 18 bits on CDNA4. The two lowest bits are ignored. */
TEST(m0_has_as_many_bits_as_lds_needs)
{
    for (enum gfx_target t = GFX942; t <= GFX950; t++) {
        struct program p = program_new(t);
        uint32_t *data = numbers(64);
        p.lds_bytes = t == GFX950 ? 0x10400 : 0x400;
        p.s[SGPR_M0] = 0x10103;
        program_resource(&p, 4, data, 0, 256);
        program_lanes(&p, 0, 4);
        program_lanes(&p, 2, 4);
        for (unsigned l = 0; l < 64 && t == GFX950; l++)
            p.v[2][l] += 0x10000;
        program_run(&p, "buffer_load_dword v0, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)\n"
                        "ds_read_b32 v8, v2 offset:256\ns_waitcnt lgkmcnt(0)");
        for (unsigned l = 0; l < 64; l++)
            assert_int_equal(p.v[8][l], 1000 + l);
    }
}

/* M0 = 0x7fffffff disables a wave's loads to LDS, from any address. Data of other waves stay. */
TEST(m0_disables_loads_to_lds)
{
    struct program p = program_new(GFX950);
    uint32_t *data = numbers(64);
    p.lds_bytes = 4096;
    p.s[SGPR_M0] = 0;
    p.s[20] = INT32_MAX;
    program_resource(&p, 4, data, 0, 0x7ffffffe);
    program_lanes(&p, 0, 4);
    program_lanes(&p, 1, 1 << 20);
    program_run(&p, "buffer_load_dword v0, s[4:7], 0 offen lds\ns_mov_b32 m0, s20\n"
                    "buffer_load_dword v1, s[4:7], 0 offen lds\n"
                    "buffer_load_dwordx4 v1, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)\n"
                    "ds_read_b32 v8, v0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[8][0], 1000);
    assert_int_equal(p.v[8][63], 1063);
    /* The LDS address is out of range by mistake. */
    p.s[SGPR_M0] = 0x28000;
    program_try(&p, "buffer_load_dword v0, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    /* Global loads to LDS are not dropped. */
    program_fill64(&p, 2, (uintptr_t)data);
    p.s[SGPR_M0] = 0;
    program_run(&p, "global_load_lds_dword v[2:3], off\ns_waitcnt vmcnt(0)");
    p.s[SGPR_M0] = INT32_MAX;
    program_try(&p, "global_load_lds_dword v[2:3], off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
}

int main(void) { return run_unit_tests(); }
