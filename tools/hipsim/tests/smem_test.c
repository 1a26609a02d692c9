/* SPDX-License-Identifier: Apache-2.0 */
/* Tests scalar memory. Expectations come from chapter 8 of the CDNA3 ISA manual. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

static uint32_t *numbers(unsigned count)
{
    static uint32_t init[256];

    for (unsigned i = 0; i < count; i++)
        init[i] = 1000 + i;
    return device_alloc(count * 4, init);
}

TEST(loads_of_every_width_and_offset)
{
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

TEST(buffer_loads_are_clamped_to_their_range)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0, 44);
    program_run(&p, "s_buffer_load_dwordx4 s[8:11], s[4:7], 0x20\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.s[8], 1008);
    assert_int_equal(p.s[10], 1010);
    assert_int_equal(p.s[11], 0);
}

TEST(errors_are_found)
{
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
    /* Scalar loads return in any order. A wait for a count above zero therefore guarantees none of
     * them. */
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\ns_load_dword s9, s[2:3], 0x4\n"
                    "s_waitcnt lgkmcnt(1)\ns_add_u32 s10, s8, 1\ns_waitcnt lgkmcnt(0)\n"
                    "s_cmp_eq_u32 s10, 0\ns_cbranch_scc1 0");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    p.s_valid[3] = 0;
    program_try(&p, "s_load_dword s8, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

TEST(stores_and_atomics)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(16);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    p.s[8] = 5;
    p.s[9] = 6;
    p.s[12] = 77; /* new value, stored if memory equals s13 */
    p.s[13] = 1003;
    program_run(&p, "s_store_dwordx2 s[8:9], s[2:3], 0x0\ns_atomic_add s8, s[2:3], 0x8 glc\n"
                    "s_atomic_cmpswap s[12:13], s[2:3], 0xc\ns_waitcnt lgkmcnt(0)\ns_dcache_wb");
    assert_int_equal(data[0], 5);
    assert_int_equal(data[1], 6);
    assert_int_equal(data[2], 1007);
    assert_int_equal(p.s[8], 1002);
    assert_int_equal(data[3], 77);
    assert_int_equal(p.s[12], 77); /* no glc: the atomic returns nothing */
}

/* A buffer's range is num_records, times the stride unless it is 0. Dwords out of range give zero
 * and are not stored (CDNA3 ISA, 8.2.1.1). The base has 48 bits. */
TEST(buffers_of_every_width)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_resource(&p, 4, data, 0x2004, 3); /* 24588 bytes, larger than the allocation */
    program_resource(&p, 80, data, 0, 30);
    program_resource(&p, 84, data, 16, 4);
    program_run(&p, "s_buffer_load_dword s8, s[4:7], 0x4\n"
                    "s_buffer_load_dwordx2 s[10:11], s[4:7], 0x8\n"
                    "s_buffer_load_dwordx8 s[12:19], s[4:7], 0x10\n"
                    "s_buffer_load_dwordx16 s[20:35], s[4:7], 0x40\n"
                    "s_buffer_load_dwordx4 s[36:39], s[80:83], 0x10\n"
                    "s_buffer_load_dword s40, s[80:83], 0x1e\n"
                    "s_buffer_load_dword s41, s[80:83], 0x20\n"
                    "s_buffer_load_dwordx2 s[42:43], s[4:7], 0xe8\n"
                    "s_buffer_load_dwordx2 s[44:45], s[84:87], 0x3c\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.s[8], 1001);
    assert_int_equal(p.s[11], 1003);
    assert_int_equal(p.s[19], 1011);
    assert_int_equal(p.s[35], 1031);
    assert_int_equal(p.s[38], 1006);
    assert_int_equal(p.s[39], 0); /* only two of its bytes are in range */
    assert_int_equal(p.s[40] | p.s[41], 0);
    assert_int_equal(p.s[43], 1059);
    assert_int_equal(p.s[44], 1015);
    assert_int_equal(p.s[45], 0);
}

TEST(stores_of_every_width)
{
    struct program p = program_new(GFX942);
    uint32_t *data = numbers(64);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_resource(&p, 4, data, 0, 120);
    for (unsigned i = 0; i < 4; i++)
        p.s[8 + i] = 50 + i;
    p.s[12] = 1; /* offset; S_SCRATCH multiplies it by 64 */
    program_run(&p, "s_store_dword s8, s[2:3], 0x0\ns_store_dwordx4 s[8:11], s[2:3], 0x10\n"
                    "s_buffer_store_dword s8, s[4:7], 0x24\n"
                    "s_buffer_store_dwordx2 s[8:9], s[4:7], 0x28\n"
                    "s_buffer_store_dwordx4 s[8:11], s[4:7], 0x70\n" /* two dwords are in range */
                    "s_scratch_store_dword s9, s[2:3], s12 offset:0x40\n"
                    "s_scratch_store_dwordx2 s[10:11], s[2:3], s12 offset:0x48\n"
                    "s_scratch_store_dwordx4 s[8:11], s[2:3], s12 offset:0x50\n"
                    "s_waitcnt lgkmcnt(0)\n"
                    "s_scratch_load_dword s20, s[2:3], s12 offset:0x10\n"
                    "s_scratch_load_dwordx2 s[22:23], s[2:3], s12 offset:0x18\n"
                    "s_scratch_load_dwordx4 s[24:27], s[2:3], s12 offset:0x20\n"
                    "s_waitcnt lgkmcnt(0)");
    static const struct {
        unsigned at;
        uint32_t value;
    } want[] = {{0, 50},  {1, 1001}, {4, 50},  {7, 53},    {9, 50},   {10, 50},
                {11, 51}, {28, 50},  {29, 51}, {30, 1030}, {32, 51},  {33, 1033},
                {34, 52}, {35, 53},  {36, 50}, {39, 53},   {40, 1040}};
    for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_int_equal(data[want[i].at], want[i].value);
    assert_int_equal(p.s[20], 1020);
    assert_int_equal(p.s[23], 1023);
    assert_int_equal(p.s[27], 1027);
}

/* Tests all operations. tmp is the memory, src the operand (CDNA3 ISA, S_ATOMIC_* and
 * S_BUFFER_ATOMIC_*). */
TEST(atomics_of_every_operation)
{
    static const struct {
        const char *name;
        uint64_t memory, data, want[2]; /* want: results of the 32-bit and 64-bit form */
    } cases[] = {
        {"swap", 5, 7, {7, 7}},
        {"add", 0xffffffff, 2, {1, UINT64_C(0x100000001)}},
        {"sub", 1, 2, {0xffffffff, UINT64_MAX}},
        {"smin", 0xffffffff, 7, {0xffffffff, 7}},
        {"umin", 0xffffffff, 7, {7, 7}},
        {"smax", 0xffffffff, 7, {7, 0xffffffff}},
        {"umax", 0xffffffff, 7, {0xffffffff, 0xffffffff}},
        {"and", 12, 10, {8, 8}},
        {"or", 12, 10, {14, 14}},
        {"xor", 12, 10, {6, 6}},
        {"inc", 7, 7, {0, 0}},
        {"dec", 0, UINT64_C(0x200000009), {9, UINT64_C(0x200000009)}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program p = program_new(GFX942);
        uint64_t memory[4] = {cases[i].memory, cases[i].memory, cases[i].memory, cases[i].memory};
        uint64_t *data = device_alloc(sizeof(memory), memory);
        char text[400];
        program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
        program_resource(&p, 4, data, 0, 31);
        for (unsigned r = 8; r < 18; r += 2)
            program_s64_set(&p, r, cases[i].data);
        snprintf(text, sizeof(text),
                 "s_atomic_%s s8, s[2:3], 0x0 glc\ns_atomic_%s_x2 s[10:11], s[2:3], 0x8 glc\n"
                 "s_buffer_atomic_%s s12, s[4:7], 0x10 glc\n"
                 "s_buffer_atomic_%s_x2 s[14:15], s[4:7], 0x18 glc\ns_waitcnt lgkmcnt(0)",
                 cases[i].name, cases[i].name, cases[i].name, cases[i].name);
        program_run(&p, text);
        assert_int_equal((uint32_t)data[0], (uint32_t)cases[i].want[0]);
        assert_int_equal(data[1], cases[i].want[1]);
        assert_int_equal((uint32_t)data[2], (uint32_t)cases[i].want[0]);
        assert_int_equal(data[3], cases[i].memory); /* unchanged: out of range by 1 byte */
        assert_int_equal(p.s[8], (uint32_t)cases[i].memory);
        assert_int_equal(program_s64(&p, 10), cases[i].memory);
        assert_int_equal(p.s[12], (uint32_t)cases[i].memory);
        assert_int_equal(program_s64(&p, 14), 0);
    }
    struct program p = program_new(GFX942);
    uint64_t memory[2] = {UINT64_C(0x500000003), UINT64_C(0x500000003)};
    uint64_t *data = device_alloc(sizeof(memory), memory);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_s64_set(&p, 8, UINT64_C(0x700000006)); /* new value; the expected one is in s[10:11] */
    program_s64_set(&p, 10, memory[0]);
    program_s64_set(&p, 12, UINT64_C(0x700000006));
    program_s64_set(&p, 14, UINT64_C(0x500000007));
    program_run(&p, "s_atomic_cmpswap_x2 s[8:11], s[2:3], 0x0 glc\n"
                    "s_atomic_cmpswap_x2 s[12:15], s[2:3], 0x8 glc\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(data[0], UINT64_C(0x700000006));
    assert_int_equal(data[1], memory[1]);
    assert_int_equal(program_s64(&p, 8), memory[0]);
    p.s_valid[11] = 0; /* half of the expected value */
    program_try(&p, "s_atomic_cmpswap_x2 s[8:11], s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

TEST(undefined_scalars_are_followed)
{
    struct program p = program_new(GFX942);
    uint32_t *data = device_alloc(64, NULL);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_run(&p, "s_store_dwordx2 s[8:9], s[2:3], 0x0\ns_waitcnt lgkmcnt(0)\n"
                    "s_load_dwordx4 s[12:15], s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.s_valid[12] & p.s_valid[13], UINT32_MAX);
    assert_int_equal(p.s_valid[14] | p.s_valid[15], 0);
    p.s_valid[9] = 0;
    program_try(&p, "s_store_dwordx2 s[8:9], s[2:3], 0x0\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    p.s_valid[4] = 0; /* offset */
    program_try(&p, "s_load_dword s8, s[2:3], s4\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
}

/* LDS operations return in order (CDNA3 ISA, "Manually Inserted Wait States"). When one operation
 * is outstanding, two of three reads have returned, even with scalar loads in the counter. */
TEST(lds_is_in_order_beside_scalar_loads)
{
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

TEST(many_loads_may_be_outstanding)
{
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

/* S_MEMTIME has no address operand, so it does not wait for a load to s0. */
TEST(clocks_advance)
{
    struct program p = program_new(GFX942);
    program_run(&p, "s_memtime s[0:1]\ns_memtime s[2:3]\ns_memrealtime s[4:5]\n"
                    "s_waitcnt lgkmcnt(0)\ns_sub_u32 s6, s2, s0\ns_subb_u32 s7, s3, s1");
    assert_int_equal(p.s[6], 4 + 128);
    assert_int_equal(p.s[7], 0);
    /* S_MEMREALTIME counts at 100 MHz. The cores run at 2100 MHz and 2400 MHz (targets/facts). */
    for (enum gfx_target t = GFX942; t <= GFX950; t++) {
        p = program_new(t);
        program_run(&p,
                    ".irp r, 10, 12, 14, 16, 18, 20, 22, 24, 26, 0\ns_memtime s[\\r:\\r+1]\n.endr\n"
                    "s_memrealtime s[4:5]\ns_waitcnt lgkmcnt(0)");
        assert_int_equal(p.s[4], (p.s[0] + 4 + 128) / (t == GFX942 ? 21 : 24));
    }
}

int main(void) { return run_unit_tests(); }
