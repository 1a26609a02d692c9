/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar memory: expectations from chapter 8 of the CDNA3 ISA manual. */
#include <stdio.h>

#include "tests/hipsim/device.h"

static uint32_t *numbers(unsigned count)
{
    static uint32_t init[256];

    for (unsigned i = 0; i < count; i++)
        init[i] = 1000 + i;
    return device_alloc(count * 4, init);
}

static void loads_of_every_width_and_offset(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)(data + 16));
    p.s[4] = 32;
    program_run(&p, "s_load_dword s8, s[2:3], 0x4\ns_load_dwordx2 s[10:11], s[2:3], -8\n"
                    "s_load_dwordx4 s[12:15], s[2:3], s4\n"
                    "s_load_dwordx8 s[16:23], s[2:3], s4 offset:0x10\n"
                    "s_load_dwordx16 s[32:47], s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.s[8], 1017);
    assert_int_equal(p.s[11], 1015);
    assert_int_equal(p.s[15], 1027);
    assert_int_equal(p.s[16], 1028);
    assert_int_equal(p.s[47], 1031);
}

static void buffer_loads_are_clamped_to_their_range(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 44);
    program_run(&p, "s_buffer_load_dwordx4 s[8:11], s[4:7], 0x20\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.s[8], 1008);
    assert_int_equal(p.s[10], 1010);
    assert_int_equal(p.s[11], 0);
}

static void errors_are_found(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(16);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_try(&p, "s_load_dwordx4 s[8:11], s[2:3], 0x38\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    program_try(&p, "s_load_dword s8, s[2:3], 0x2\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_ALIGN);
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\ns_add_u32 s9, s8, 1\ns_waitcnt lgkmcnt(0)\n"
                    "s_cmp_eq_u32 s9, 0\ns_cbranch_scc1 0");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    /* Scalar loads return out of order: a count above zero waits for none in particular. */
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\ns_load_dword s9, s[2:3], 0x4\n"
                    "s_waitcnt lgkmcnt(1)\ns_add_u32 s10, s8, 1\ns_waitcnt lgkmcnt(0)\n"
                    "s_cmp_eq_u32 s10, 0\ns_cbranch_scc1 0");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    p.s_valid[3] = 0;
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

static void stores_and_atomics(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(16);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    p.s[8] = 5;
    p.s[9] = 6;
    p.s[12] = 77; /* the new value, if memory has the next */
    p.s[13] = 1003;
    program_run(&p, "s_store_dwordx2 s[8:9], s[2:3], 0x0\ns_atomic_add s8, s[2:3], 0x8 glc\n"
                    "s_atomic_cmpswap s[12:13], s[2:3], 0xc\ns_waitcnt lgkmcnt(0)\ns_dcache_wb");
    assert_int_equal(data[0], 5);
    assert_int_equal(data[1], 6);
    assert_int_equal(data[2], 1007);
    assert_int_equal(p.s[8], 1002);
    assert_int_equal(data[3], 77);
    assert_int_equal(p.s[12], 77); /* no glc: nothing is returned */
}

/* LDS returns in order among itself (CDNA3 ISA, "Manually Inserted Wait States"): of three reads
 * two have returned when one operation is left, though scalar loads count as well. */
static void lds_is_in_order_beside_scalar_loads(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)numbers(16));
    p.lds_bytes = 256;
    program_lanes(&p, 0, 4);
    program_fill(&p, 1, 5);
    program_run(&p, "ds_write_b32 v0, v1\ns_load_dword s8, s[2:3], 0x0\nds_read_b32 v3, v0\n"
                    "ds_read_b32 v4, v0\nds_read_b32 v5, v0\ns_waitcnt lgkmcnt(1)\n"
                    "v_add_u32 v6, v3, v4\nds_write_b32 v6, v4\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[6][3], 10);
    program_try(&p, "ds_write_b32 v0, v1\ns_load_dword s8, s[2:3], 0x0\nds_read_b32 v3, v0\n"
                    "ds_read_b32 v4, v0\ns_waitcnt lgkmcnt(1)\nds_write_b32 v0, v4");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\nds_read_b32 v3, v0\ns_waitcnt lgkmcnt(1)\n"
                    "s_cmp_eq_u32 s8, 0\ns_cbranch_scc1 0");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
}

static void many_loads_may_be_under_way(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    char text[4096] = "";
    size_t used = 0;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)numbers(96));
    for (unsigned i = 0; i < 80; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "s_load_dword s%u, s[2:3], 0x%x\n", 8 + i, 4 * i);
    snprintf(text + used, sizeof(text) - used, "s_waitcnt lgkmcnt(0)");
    program_run(&p, text);
    assert_int_equal(p.s[8], 1000);
    assert_int_equal(p.s[87], 1079);
}

/* S_MEMTIME has no address operand, so it waits for nothing that s0 is due to receive. */
static void clocks_advance(void **state)
{
    (void)state;
    struct program p = program_new(GFX942);
    program_run(&p, "s_memtime s[0:1]\ns_memtime s[2:3]\ns_memrealtime s[4:5]\n"
                    "s_waitcnt lgkmcnt(0)\ns_sub_u32 s6, s2, s0\ns_subb_u32 s7, s3, s1");
    assert_int_equal(p.s[6], 4 + 128);
    assert_int_equal(p.s[7], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_of_every_width_and_offset),
        cmocka_unit_test(buffer_loads_are_clamped_to_their_range),
        cmocka_unit_test(errors_are_found),
        cmocka_unit_test(stores_and_atomics),
        cmocka_unit_test(lds_is_in_order_beside_scalar_loads),
        cmocka_unit_test(many_loads_may_be_under_way),
        cmocka_unit_test(clocks_advance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
