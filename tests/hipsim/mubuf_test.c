/* SPDX-License-Identifier: Apache-2.0 */
/* Buffer instructions: expectations from section 9.1 of the CDNA3 ISA manual. */
#include <stdio.h>

#include "tests/hipsim/device.h"

static uint32_t *numbers(unsigned count)
{
    static uint32_t init[1024];

    for (unsigned i = 0; i < count; i++)
        init[i] = 1000 + i;
    return device_alloc(count * 4, init);
}

static void addresses_add_up(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(1024);
    program_resource(&p, 4, data, 0, 4096);
    program_resource(&p, 8, data, 16, 256); /* 256 records of 16 bytes */
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

static void out_of_range_reads_zero_dword_by_dword(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 64 * 4 - 6); /* cuts through the last but one dword */
    program_lanes(&p, 0, 4);
    p.v[0][63] = 0xfffffffc;                      /* -4: unsigned, all of it is out */
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

static void out_of_range_writes_are_dropped(void **state)
{
    (void)state;
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
    assert_int_equal(data[16], 14); /* the atomic of lane 0 */
    assert_int_equal(data[32], 14); /* the low half of lane 16, and the atomic of lane 8 */
    assert_int_equal(data[33], 1033);
    data[16] = 1;
    program_run(&p, "buffer_store_dword v3, v1, s[8:11], 0 idxen\n"
                    "buffer_load_dword v12, v1, s[8:11], 0 idxen\ns_waitcnt vmcnt(0)");
    assert_int_equal(data[12], 8);
    assert_int_equal(data[16], 1); /* index 4 of 4 */
    assert_int_equal(p.v[12][3], 8);
    assert_int_equal(p.v[12][4], 0);
}

static void range_of_the_resource_is_not_range_of_memory(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(32);
    program_resource(&p, 4, data, 0, 0xffffffff);
    program_lanes(&p, 0, 4);
    program_try(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    assert_int_equal(p.fault.lanes, 0xffffffff00000000);
    p.exec = UINT64_MAX;
    p.s[5] |= 0x80000000;
    program_try(&p, "buffer_load_dword v10, v0, s[4:7], 0 offen\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_TRAP); /* swizzled */
}

static void add_tid_indexes_by_lane(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(256);
    program_resource(&p, 4, data, 8, 64);
    p.s[7] = 1 << 23; /* add_tid; data format bits are stride bits then */
    program_run(&p, "buffer_load_dword v10, off, s[4:7], 0 offset:4\ns_waitcnt vmcnt(0)");
    for (unsigned l = 0; l < 64; l++)
        assert_int_equal(p.v[10][l], 1000 + 2 * l + 1);
}

static void loads_to_lds(void **state)
{
    (void)state;
    struct program p = program_new(GFX950);
    uint32_t *data = numbers(256);
    p.lds_bytes = 4096;
    p.s[SGPR_M0] = 1024;
    program_resource(&p, 4, data, 0, 60 * 16);
    program_lanes(&p, 0, 16);
    program_lanes(&p, 2, 16);
    p.exec = ~UINT64_C(0x100);
    program_run(&p, "buffer_load_dwordx4 v0, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)\n"
                    "ds_read_b128 v[8:11], v2 offset:1024\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[11][7], 1000 + 31);
    assert_int_equal(p.v[9][59], 1000 + 59 * 4 + 1);
    assert_int_equal(p.v[9][60], 0); /* out of range: zero arrives */
}

static void formats_of_whole_dwords(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(256);
    program_resource(&p, 4, data, 8, 128);
    /* data format 32_32, number format float, x y 0 1 */
    p.s[7] = 4 | 5 << 3 | 0 << 6 | 1 << 9 | 7 << 12 | 11 << 15;
    program_lanes(&p, 0, 1);
    program_run(&p, "buffer_load_format_xyzw v[8:11], v0, s[4:7], 0 idxen\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.v[8][3], 1006);
    assert_int_equal(p.v[9][3], 1007);
    assert_int_equal(p.v[10][3], 0);
    assert_int_equal(p.v[11][3], 0x3f800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_add_up),
        cmocka_unit_test(out_of_range_reads_zero_dword_by_dword),
        cmocka_unit_test(out_of_range_writes_are_dropped),
        cmocka_unit_test(range_of_the_resource_is_not_range_of_memory),
        cmocka_unit_test(add_tid_indexes_by_lane),
        cmocka_unit_test(loads_to_lds),
        cmocka_unit_test(formats_of_whole_dwords),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
