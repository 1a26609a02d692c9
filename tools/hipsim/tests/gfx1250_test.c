/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gfx1250: waves of 32 lanes, pairs of instructions, 1,024 VGPRs, split barriers and counters,
 * matrix instructions, and loads that transpose. tensor_test.c has the tensor data mover.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

static struct program wave32(void)
{
    struct program p = program_new(GFX1250);
    p.block = 32;
    return p;
}

/* The functions from here on test lanes and masks. */

TEST(masks_have_32_lanes)
{
    struct program p = wave32();
    program_lanes(&p, 1, 1);
    p.s[SGPR_VCC + 1] = 7; /* VCC_HI is an ordinary register */
    p.s[2] = 5;
    p.s[3] = 0x77777777;
    program_run(&p, "v_cmp_gt_u32_e32 vcc_lo, 8, v1\n"
                    "v_cmp_lt_u32_e64 s2, 3, v1\n"
                    "v_cndmask_b32_e64 v2, 1, 2, s2\n"
                    "s_and_saveexec_b32 s4, vcc_lo\n"
                    "v_mov_b32 v3, 9\n"
                    "s_mov_b32 exec_lo, s4\n"
                    "s_mov_b32 exec_hi, -1\n"
                    "s_mov_b64 s[6:7], exec\n");
    assert_int_equal(p.s[SGPR_VCC], 0xff);
    assert_int_equal(p.s[SGPR_VCC + 1], 7);
    assert_int_equal(p.s[2], 0xfffffff0);
    assert_int_equal(p.s[3], 0x77777777);
    assert_int_equal(p.s[4], UINT32_MAX);
    assert_int_equal(p.s[6], UINT32_MAX);
    assert_int_equal(p.s[7], 0); /* no upper lanes */
    assert_int_equal(p.v[2][3], 1);
    assert_int_equal(p.v[2][4], 2);
    assert_int_equal(p.v[3][7], 9);
    assert_int_equal(p.v[3][8], 0);
}

TEST(vccz_looks_at_32_lanes)
{
    struct program p = wave32();
    p.s[SGPR_VCC + 1] = 1;
    program_run(&p, "s_mov_b32 s0, 1\n"
                    "s_mov_b32 vcc_lo, 0\n"
                    "s_cbranch_vccz skip\n"
                    "s_mov_b32 s0, 2\n"
                    "skip:\n");
    assert_int_equal(p.s[0], 1);
}

TEST(null_swallows_writes)
{
    struct program p = wave32();
    p.s[1] = 3;
    p.s[SGPR_M0] = 11;
    program_run(&p, "s_add_co_u32 null, s1, -1\n"
                    "s_mov_b64 null, -1\n"
                    "s_mov_b32 s2, null\n"
                    "s_mov_b32 s3, m0\n"
                    "s_mov_b32 m0, 12\n");
    assert_int_equal(p.scc, 1);
    assert_int_equal(p.s[2], 0);
    assert_int_equal(p.s[3], 11);
    assert_int_equal(p.s[SGPR_M0], 12);
    assert_int_equal(p.exec, UINT32_MAX);
}

TEST(dpp_reaches_inactive_lanes)
{
    struct program p = wave32();
    program_lanes(&p, 1, 1);
    program_run(&p, "s_mov_b32 exec_lo, 0xfffffffe\n"
                    "v_mov_b32_dpp v2, v1 row_share:0 row_mask:0xf bank_mask:0xf bound_ctrl:1\n"
                    "v_mov_b32_dpp v3, v1 row_share:0 row_mask:0xf bank_mask:0xf fi:1\n"
                    "s_mov_b32 exec_lo, -1\n"
                    "v_mov_b32_dpp v4, v1 dpp8:[7,6,5,4,3,2,1,0]\n"
                    "v_mov_b32_dpp v5, v1 row_xmask:3 row_mask:0xf bank_mask:0xf\n");
    for (unsigned l = 1; l < 32; l++) {
        assert_int_equal(p.v[2][l], l / 16 * 16);
        assert_int_equal(p.v[3][l], l / 16 * 16);
        assert_int_equal(p.v[4][l], l ^ 7);
        assert_int_equal(p.v[5][l], l ^ 3);
    }
}

/* The functions from here on test registers. */

TEST(moves_of_16_bits_keep_the_other_half)
{
    struct program p = wave32();
    program_fill(&p, 2, 0x12345678);
    program_fill(&p, 3, 0x12345678);
    program_run(&p, ".long 0x7e043880, 0x7f063880\n"); /* v_mov_b16 v2.l, 0 and v3.h, 0 */
    assert_int_equal(p.v[2][5], 0x12340000);
    assert_int_equal(p.v[3][5], 0x5678);
}

TEST(a_pair_reads_before_it_writes)
{
    struct program p = wave32();
    program_fill(&p, 0, 10);
    program_fill(&p, 1, 20);
    program_fill(&p, 2, bits_of(3));
    program_fill(&p, 3, bits_of(5));
    program_run(&p, "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0\n"
                    "v_dual_fmaak_f32 v4, v2, v3, 0x40000000 :: v_dual_add_f32 v5, v3, v2\n"
                    "v_dual_fma_f32 v6, v2, v3, -v2 :: v_dual_bitop2_b32 v7, v0, v1 bitop3:0x54\n");
    assert_int_equal(p.v[0][31], 20);
    assert_int_equal(p.v[1][31], 10);
    assert_true(float_of(p.v[4][9]) == 17);
    assert_true(float_of(p.v[5][9]) == 8);
    assert_true(float_of(p.v[6][9]) == 12);
    assert_int_equal(p.v[7][9], 10 | 20);
}

TEST(msb_state_selects_registers)
{
    struct program p = wave32();
    p.vgprs = 1024;
    program_fill(&p, 1, 41);
    /* two bits each for dst, src2, src1, src0 */
    program_run(&p, "s_set_vgpr_msb 0xc0\n"
                    "v_add_nc_u32 v0 /*v768*/, 1, v1\n"
                    "s_set_vgpr_msb 0x43\n"
                    "v_mov_b32 v255 /*v511*/, v0 /*v768*/\n"
                    "s_set_vgpr_msb 0x01\n"
                    "v_mov_b32 v2, v255 /*v511*/\n"
                    "s_set_vgpr_msb 0\n"
                    "s_mov_b32 s0, 3\n"
                    "loop:\n"
                    "v_add_nc_u32 v2, 1, v2\n"
                    "s_sub_co_u32 s0, s0, 1\n"
                    "s_cbranch_scc0 loop\n");
    assert_int_equal(p.v[2][17], 46);
    assert_int_equal(p.v[0][17], 0);
}

TEST(registers_end_at_the_allocation)
{
    struct program p = wave32();
    p.vgprs = 512;
    program_try(&p, "s_set_vgpr_msb 0xc0\nv_mov_b32 v0 /*v768*/, 1");
    assert_int_equal(p.fault.kind, FAULT_REGISTER);
}

/* The functions from here on test counters and barriers. */

TEST(each_counter_is_waited_for_alone)
{
    uint32_t data[64];
    for (unsigned i = 0; i < 64; i++)
        data[i] = i;
    void *memory = device_alloc(sizeof(data), data);
    static const struct {
        const char *bad, *good;
    } pairs[] = {
        {"global_load_b32 v4, v1, s[2:3]\ns_wait_dscnt 0\nv_mov_b32 v5, v4\n"
         "global_store_b32 v1, v5, s[2:3]\n",
         "global_load_b32 v4, v1, s[2:3]\ns_wait_loadcnt 0\nv_mov_b32 v5, v4\n"
         "global_store_b32 v1, v5, s[2:3]\n"},
        {"s_load_b32 s4, s[2:3], 0\ns_wait_loadcnt 0\nv_mov_b32 v5, s4\n"
         "global_store_b32 v1, v5, s[2:3]\n",
         "s_load_b32 s4, s[2:3], 0\ns_wait_kmcnt 0\nv_mov_b32 v5, s4\n"
         "global_store_b32 v1, v5, s[2:3]\n"},
        {"ds_store_b32 v1, v1\nds_load_b32 v4, v1\ns_wait_kmcnt 0\n"
         "global_store_b32 v1, v4, s[2:3]\n",
         "ds_store_b32 v1, v1\nds_load_b32 v4, v1\ns_wait_loadcnt_dscnt 0x3f00\n"
         "global_store_b32 v1, v4, s[2:3]\n"},
        {"global_load_async_to_lds_b32 v1, v1, s[2:3]\ns_wait_loadcnt 0\nds_load_b32 v4, v1\n",
         "global_load_async_to_lds_b32 v1, v1, s[2:3]\ns_wait_asynccnt 0\nds_load_b32 v4, v1\n"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct program bad = wave32(), good;
        program_lanes(&bad, 1, 4);
        program_s64_set(&bad, 2, (uint64_t)(uintptr_t)memory);
        bad.lds_bytes = 128;
        good = bad;
        program_try(&bad, pairs[i].bad);
        program_try(&good, pairs[i].good);
        check_pair(FAULT_WAIT, &bad.fault, pairs[i].bad, &good.fault, pairs[i].good);
    }
    hipsim_mem_free(memory);
}

/* Loads to LDS of a byte write a dword, with zeros beside the byte (CDNA5 ISA, 13.1.4). Two lanes
 * that write the same dword leave it undefined. */
TEST(a_byte_to_lds_writes_a_dword)
{
    uint8_t data[64];
    for (unsigned i = 0; i < 64; i++)
        data[i] = (uint8_t)(100 + i);
    void *memory = device_alloc(sizeof(data), data);
    static const char load[] = "v_mov_b32 v3, -1\n"
                               "ds_store_b32 v1, v3\n"
                               "s_wait_dscnt 0\n"
                               "global_load_async_to_lds_b8 v4, v2, s[2:3]\n"
                               "s_wait_asynccnt 0\n"
                               "ds_load_b32 v5, v1\n"
                               "s_wait_dscnt 0\n"
                               "global_store_b32 v1, v5, s[4:5]\n";
    uint32_t out[32];
    void *result = device_alloc(sizeof(out), NULL);
    struct program p = wave32();
    p.lds_bytes = 128;
    program_lanes(&p, 1, 4); /* a dword of each lane */
    program_lanes(&p, 2, 1); /* a byte of each lane */
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)memory);
    program_s64_set(&p, 4, (uint64_t)(uintptr_t)result);
    for (unsigned l = 0; l < 32; l++)
        p.v[4][l] = 4 * l + l % 4; /* each byte of a dword */
    struct program shared = p;
    program_run(&p, load);
    for (unsigned l = 0; l < 32; l++)
        assert_int_equal(p.v[5][l], (100 + l) << 8 * (l % 4));
    shared.v[4][6] = 4 * 5 + 3; /* in the dword of lane 5 */
    program_try(&shared, load);
    assert_int_equal(shared.fault.kind, FAULT_UNINIT);
    hipsim_mem_free(memory);
    hipsim_mem_free(result);
}

/* An asynchronous load drops lanes whose LDS address no workgroup can have (CDNA5 ISA, 3.3.3).
 * Their global address is not read. An address between the kernel's LDS and that limit is
 * reported. */
TEST(async_loads_drop_lanes_beyond_lds)
{
    static const char load[] = "ds_store_b32 v1, v1\n"
                               "s_wait_dscnt 0\n"
                               "global_load_async_to_lds_b32 v4, v[6:7], off\n"
                               "s_wait_asynccnt 0\n"
                               "ds_load_b32 v5, v1\n"
                               "s_wait_dscnt 0\n";
    uint32_t data[32];
    for (unsigned i = 0; i < 32; i++)
        data[i] = 1000 + i;
    void *memory = device_alloc(sizeof(data), data);
    struct program p = wave32();
    p.lds_bytes = 128;
    program_lanes(&p, 1, 4);
    for (unsigned l = 0; l < 32; l++) {
        const uint64_t from = l % 3 ? (uint64_t)(uintptr_t)memory + 4 * l : 64;
        p.v[4][l] = l % 3 ? 4 * l : 0x7fffffff;
        p.v[6][l] = (uint32_t)from;
        p.v[7][l] = (uint32_t)(from >> 32);
    }
    struct program outside = p;
    program_run(&p, load);
    for (unsigned l = 0; l < 32; l++)
        assert_int_equal(p.v[5][l], l % 3 ? 1000 + l : 4 * l);
    outside.v[4][7] = 128;
    program_try(&outside, load);
    assert_int_equal(outside.fault.kind, FAULT_MEMORY);
    hipsim_mem_free(memory);
}

/* Every wave stores its number and reads its neighbour's number. */
#define EXCHANGE(barrier)                                \
    "v_lshlrev_b32 v2, 2, v1\n"                          \
    "s_lshl_b32 s4, s100, 7\n"                           \
    "v_add_nc_u32 v3, s4, v2\n"                          \
    "v_mov_b32 v4, s100\n"                               \
    "ds_store_b32 v3, v4\n"                              \
    "s_wait_dscnt 0\n" barrier "s_xor_b32 s5, s4, 128\n" \
    "v_add_nc_u32 v3, s5, v2\n"                          \
    "ds_load_b32 v5, v3\n"                               \
    "s_wait_dscnt 0\n"

TEST(a_barrier_has_two_halves)
{
    static const char with[] =
        EXCHANGE("s_barrier_signal -1\nv_add_nc_u32 v6, 1, v1\ns_barrier_wait -1\n");
    static const char without[] = EXCHANGE("s_nop 0\n");
    struct program p = wave32(), q;
    p.block = 64;
    p.lds_bytes = 256;
    program_lanes(&p, 1, 1);
    q = p;
    program_try(&p, with);
    program_try(&q, without);
    check_pair(FAULT_RACE, &q.fault, without, &p.fault, with);
    assert_int_equal(p.v[5][3], 1);
    program_try(&q, "s_barrier_wait -1\n");
    assert_int_equal(q.fault.kind, FAULT_BARRIER);
}

/* Starts two waves per workgroup with a buffer in s[2:3]. v1 is the offset of the lane's dword, v2
 * of the same lane's dword in the other wave. s[6:7] is the address of a flag. */
#define GLOBAL                                                  \
    "v_mbcnt_lo_u32_b32 v1, -1, 0\nv_lshlrev_b32 v1, 2, v1\n"   \
    "s_lshl_b32 s4, s100, 7\nv_add_nc_u32 v1, s4, v1\n"         \
    "v_xor_b32 v2, 128, v1\nv_mov_b32 v4, 1\nv_mov_b32 v6, 0\n" \
    "s_add_nc_u64 s[6:7], s[2:3], 512\n"
#define PUT "global_store_b32 v1, v4, s[2:3]\n"
#define STORED "s_wait_storecnt 0\n"
#define MEET "s_barrier_signal -1\ns_barrier_wait -1\n"
#define GET(v) "global_load_b32 v5, " v ", s[2:3]\ns_wait_loadcnt 0\n"

static struct program run_global(const char *text, uint32_t groups)
{
    static const uint32_t zeros[256];
    void *memory = device_alloc(sizeof(zeros), zeros);
    struct program p = wave32();
    p.block = 64;
    p.groups = groups;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)memory);
    program_try(&p, text);
    hipsim_mem_free(memory);
    return p;
}

static void expect_race(const char *bad, const char *good, uint32_t groups)
{
    const struct program p = run_global(bad, groups), q = run_global(good, groups);
    check_pair(FAULT_RACE, &p.fault, bad, &q.fault, good);
}

TEST(stores_are_waited_for_before_a_barrier)
{
    expect_race(GLOBAL PUT MEET GET("v2"), GLOBAL PUT STORED MEET GET("v2"), 1);
    /* The outstanding store is to other bytes, or the wave reads its own store. */
#define PUT_AWAY "global_store_b32 v1, v4, s[2:3] offset:256\n"
    expect_race(GLOBAL PUT PUT_AWAY "s_wait_storecnt 1\n" MEET "global_load_b32 v5, v2, s[2:3] "
                                    "offset:256\ns_wait_loadcnt 0\n",
                GLOBAL PUT PUT_AWAY "s_wait_storecnt 1\n" MEET GET("v2"), 1);
    expect_race(GLOBAL PUT MEET GET("v2"), GLOBAL PUT MEET GET("v1"), 1);
}

/* Each wave has 60 outstanding stores, to its own bytes. The check records all of 16 waves. */
TEST(the_check_records_all_stores_in_flight)
{
    void *memory = device_alloc(512 * 4, NULL);
    struct program p = wave32();
    p.block = 32 * 16;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)memory);
    program_try(&p, GLOBAL ".rept 60\n" PUT ".endr\n" STORED);
    assert_int_equal(p.fault.kind, FAULT_NONE);
    assert_false(p.race_incomplete);
    hipsim_mem_free(memory);
    /* A wait for one of them leaves the others in flight. */
    expect_race(GLOBAL ".rept 60\n" PUT ".endr\ns_wait_storecnt 59\n" MEET GET("v2"),
                GLOBAL ".rept 60\n" PUT ".endr\n" STORED MEET GET("v2"), 1);
}

/* Wave 0 counts its workgroup after the barrier. The second workgroup reads the data that wave 1 of
 * the first workgroup stored. */
TEST(a_release_covers_stores_that_were_waited_for)
{
#define IF_FIRST_GROUP "s_cmp_lg_u32 s101, 0\ns_cbranch_scc1 second\n"
#define FIRST_WAVE_COUNTS                                                              \
    "s_cmp_lg_u32 s100, 0\ns_cbranch_scc1 done\nglobal_wb scope:SCOPE_DEV\n"           \
    "s_wait_storecnt 0\nglobal_atomic_add_u32 v6, v4, s[6:7] scope:SCOPE_DEV\n" STORED \
    "done:\ns_endpgm\n"
#define POLL_AND_GET                                                       \
    "second:\npoll:\nglobal_load_b32 v5, v6, s[6:7] scope:SCOPE_DEV\n"     \
    "s_wait_loadcnt 0\nv_cmp_eq_u32 vcc_lo, 0, v5\ns_cbranch_vccnz poll\n" \
    "global_inv scope:SCOPE_DEV\ns_wait_loadcnt 0\n" GET("v1")
    expect_race(GLOBAL IF_FIRST_GROUP PUT MEET FIRST_WAVE_COUNTS POLL_AND_GET,
                GLOBAL IF_FIRST_GROUP PUT STORED MEET FIRST_WAVE_COUNTS POLL_AND_GET, 2);
}

/* The wave that signals last opens the barrier. Both waves then load, long before one of them
 * stores. */
TEST(waves_leave_a_barrier_together)
{
    struct program p = wave32();
    p.block = 64;
    p.lds_bytes = 256;
    p.checks = CHECK_ALL & ~CHECK_RACE;
    program_lanes(&p, 1, 4);
    program_run(&p, "v_mov_b32 v2, 7\n"
                    "ds_store_b32 v1, v2\n"
                    "s_wait_dscnt 0\n"
                    "s_cmp_eq_u32 s100, 0\n"
                    "s_cbranch_scc1 first\n"
                    ".rept 40\nv_mov_b32 v4, 1\n.endr\n"
                    "first:\n"
                    "s_barrier_signal -1\ns_barrier_wait -1\n"
                    "ds_load_b32 v3, v1\n"
                    "s_wait_dscnt 0\n"
                    ".rept 20\nv_mov_b32 v4, 1\n.endr\n"
                    "v_mov_b32 v2, 8\n"
                    "ds_store_b32 v1, v2\n"
                    "s_barrier_signal -1\ns_barrier_wait -1\n"
                    "v_readlane_b32 s1, v3, 5\n"
                    "s_sub_co_u32 s1, s1, 7\n"
                    "s_cmp_eq_u32 s1, 0\n"
                    "s_cbranch_scc1 right\n"
                    "s_trap 2\n"
                    "right:\n");
}

/* Two of four waves exchange their numbers at a named barrier (CDNA5 ISA, 5.6.2). */
TEST(named_barriers_join_some_waves)
{
    struct program p = wave32();
    p.block = 128;
    p.lds_bytes = 256;
    p.named_barriers = 4;
    program_lanes(&p, 1, 1);
    program_run(&p, "s_mov_b32 m0, 0x20001\n" /* two members, barrier 1 */
                    "s_barrier_init m0\n"
                    "s_barrier_signal -1\ns_barrier_wait -1\n"
                    "s_get_barrier_state s7, 1\n"
                    "s_wait_kmcnt 0\n"
                    "s_cmp_gt_u32 s100, 1\n"
                    "s_cbranch_scc1 end\n"
                    "s_barrier_join 1\n" EXCHANGE(
                        "s_barrier_signal 1\ns_barrier_wait 1\n") "v_readlane_b32 s6, v5, 3\n"
                                                                  "s_xor_b32 s6, s6, 1\n"
                                                                  "s_cmp_eq_u32 s6, s100\n"
                                                                  "s_cbranch_scc1 end\n"
                                                                  "s_trap 2\n"
                                                                  "end:\n");
    assert_int_equal(p.s[7] & 0xfffff0, 2 << 4); /* two members, no signals */
    assert_int_equal(p.s[7] >> 24, 1);
    struct program stuck = p;
    program_try(&stuck, "s_barrier_join 1\ns_barrier_wait 1\n");
    assert_int_equal(stuck.fault.kind, FAULT_DEADLOCK);
    program_run(&p, "s_barrier_join 1\ns_barrier_leave\n" /* four waves, no members */
                    "s_barrier_signal -1\ns_barrier_wait -1\n"
                    "s_get_barrier_state s7, 1\ns_wait_kmcnt 0\n");
    assert_int_equal(p.s[7] & 0xfffff0, (128 - 4) << 4); /* counts have 7 bits */
    struct program none = p; /* without the barrier its instructions do nothing */
    none.named_barriers = 0;
    program_run(&none, "s_barrier_join 1\ns_barrier_signal 1\ns_barrier_wait 1\n");
}

/* The second wave signals 100 clocks later. In no order of execution does the first wave pass the
 * barrier earlier. */
TEST(a_named_barrier_advances_the_clock)
{
    for (uint64_t seed = 1; seed < 9; seed++) {
        struct program p = wave32();
        p.block = 64;
        p.named_barriers = 4;
        p.order = ORDER_SEEDED;
        p.seed = seed;
        program_run(&p, "s_barrier_join 1\ns_barrier_signal -1\ns_barrier_wait -1\n"
                        "s_mov_b32 m0, 0x20001\n" /* two members, barrier 1 */
                        "s_cmp_eq_u32 s100, 0\ns_cbranch_scc1 first\n"
                        ".rept 100\nv_mov_b32 v4, 1\n.endr\nfirst:\n"
                        "s_barrier_signal m0\ns_barrier_wait 1\n"
                        "s_get_shader_cycles_u64 s[2:3]\ns_wait_kmcnt 0\n"
                        "s_cmp_gt_u32 s2, 100\ns_cbranch_scc1 right\ns_trap 2\nright:\n");
    }
}

/* Each workgroup stores its number plus 5, and loads the number of the cluster's other
 * workgroup. */
#define IN_CLUSTER(barrier)                                                                    \
    "s_bfe_u32 s8, ttmp6, 0x40000\ns_lshl_b32 s9, ttmp9, 1\ns_add_co_u32 s8, s8, s9\n"         \
    "s_mov_b32 exec_lo, 1\ns_lshl_b32 s9, s8, 2\nv_mov_b32 v1, s9\n"                           \
    "s_add_co_u32 s9, s8, 5\nv_mov_b32 v2, s9\nglobal_store_b32 v1, v2, s[12:13] scope:3\n"    \
    "s_wait_storecnt 0\n" barrier "v_xor_b32 v1, 4, v1\n"                                      \
    "global_load_b32 v3, v1, s[12:13] scope:3\ns_wait_loadcnt 0\nv_readfirstlane_b32 s9, v3\n" \
    "s_sub_co_u32 s9, s9, 5\ns_xor_b32 s9, s9, 1\ns_cmp_eq_u32 s9, s8\n"                       \
    "s_cbranch_scc1 right\ns_trap 2\nright:\n"

TEST(workgroups_of_a_cluster_wait_for_each_other)
{
    uint32_t data[4] = {0};
    void *memory = device_alloc(sizeof(data), data);
    struct program p = wave32(), q;
    p.groups = 4;
    p.cluster = 2;
    program_s64_set(&p, 12, (uint64_t)(uintptr_t)memory);
    q = p;
    static const char with[] = IN_CLUSTER("s_barrier_signal -3\ns_barrier_wait -3\n");
    static const char without[] = IN_CLUSTER("s_nop 0\n");
    program_try(&q, without);
    program_try(&p, with);
    check_pair(FAULT_TRAP, &q.fault, without, &p.fault, with);
    program_run(&p, "s_getreg_b32 s7, hwreg(HW_REG_IB_STS2)\ns_mov_b32 s8, ttmp6\n");
    assert_int_equal(p.s[7], 2 << 6 | 1 << 21);      /* second cluster, its second workgroup */
    assert_int_equal(p.s[8], 1 | 1 << 12 | 1 << 24); /* x 1, of 2 x 1 x 1; 2 workgroups */
    p.groups = 3;
    program_try(&p, "s_nop 0\n");
    assert_int_equal(p.fault.kind, FAULT_TRAP); /* clusters do not divide the grid */
    hipsim_mem_free(memory);
}

/* The functions from here on test products of matrices. */

static uint16_t bf16_of(float f) { return (uint16_t)(bits_of(f) >> 16); }

/* Returns k of a lane's element `e` of 16 or 8 bits (layouts of the CDNA5 ISA manual, 7.12.2). */
static unsigned k_of(unsigned lane, unsigned e) { return e / 8 * 16 + lane / 16 * 8 + e % 8; }

TEST(bf16_products_follow_the_layout)
{
    struct program p = wave32();
    float a[16][32], b[32][16], c[16][16];
    uint32_t seed = 1;
    for (unsigned i = 0; i < 512; i++) {
        a[i / 32][i % 32] = (float)(next_random(&seed) % 17) - 8;
        b[i / 16][i % 16] = (float)(next_random(&seed) % 17) - 8;
    }
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned e = 0; e < 16; e++) {
            p.v[8 + e / 2][l] |= (uint32_t)bf16_of(a[l % 16][k_of(l, e)]) << 16 * (e % 2);
            p.v[16 + e / 2][l] |= (uint32_t)bf16_of(b[k_of(l, e)][l % 16]) << 16 * (e % 2);
        }
        for (unsigned v = 0; v < 8; v++) {
            c[l / 16 * 8 + v][l % 16] = (float)(next_random(&seed) % 100);
            p.v[v][l] = bits_of(c[l / 16 * 8 + v][l % 16]);
        }
    }
    program_run(&p, "v_wmma_f32_16x16x32_bf16 v[24:31], v[8:15], v[16:23], v[0:7]\n"
                    "v_wmma_f32_16x16x32_bf16 v[32:39], v[8:15], v[16:23], v[0:7] neg_lo:[0,0,1]\n"
                    "v_wmma_bf16f32_16x16x32_bf16 v[40:43], v[8:15], v[16:23], v[0:7]\n");
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            double want = 0;
            for (unsigned k = 0; k < 32; k++)
                want += (double)a[m][k] * (double)b[k][n];
            const unsigned lane = m / 8 * 16 + n;
            assert_true((double)float_of(p.v[24 + m % 8][lane]) == want + (double)c[m][n]);
            assert_true((double)float_of(p.v[32 + m % 8][lane]) == want - (double)c[m][n]);
            const uint32_t half = p.v[40 + m % 8 / 2][lane] >> 16 * (m % 2) & 0xffff;
            assert_true(fabs((double)float_of(half << 16) - want - (double)c[m][n]) <=
                        ldexp(fabs(want + (double)c[m][n]), -8));
        }
    }
}

/* Returns the fp8 code (e4m3, bias 7) of a small integer. */
static uint8_t fp8_of(int i)
{
    if (!i)
        return 0;
    const unsigned m = (unsigned)abs(i), e = 31 - (unsigned)__builtin_clz(m);
    return (uint8_t)((i < 0 ? 0x80 : 0) | (e + 7) << 3 | ((m << 3 >> e) & 7));
}

TEST(fp8_products_follow_the_layout)
{
    struct program p = wave32();
    int a[16][128], b[128][16];
    uint32_t seed = 7;
    for (unsigned i = 0; i < 2048; i++) {
        a[i / 128][i % 128] = (int)(next_random(&seed) % 17) - 8;
        b[i / 16][i % 16] = (int)(next_random(&seed) % 17) - 8;
    }
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned e = 0; e < 64; e++) {
            p.v[8 + e / 4][l] |= (uint32_t)fp8_of(a[l % 16][k_of(l, e)]) << 8 * (e % 4);
            p.v[24 + e / 4][l] |= (uint32_t)fp8_of(b[k_of(l, e)][l % 16]) << 8 * (e % 4);
        }
    }
    program_run(&p, "v_wmma_f32_16x16x128_fp8_fp8 v[40:47], v[8:23], v[24:39], 1.0\n"
                    "v_wmma_f32_16x16x64_fp8_fp8 v[48:55], v[8:15], v[24:31], 0\n");
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            int want = 0, first = 0;
            for (unsigned k = 0; k < 128; k++) {
                want += a[m][k] * b[k][n];
                first += k < 64 ? a[m][k] * b[k][n] : 0;
            }
            const unsigned lane = m / 8 * 16 + n;
            assert_true(float_of(p.v[40 + m % 8][lane]) == (float)(want + 1));
            assert_true(float_of(p.v[48 + m % 8][lane]) == (float)first);
        }
    }
}

/* Tests distances in independent vector instructions after WMMA and transcendentals (CDNA5 ISA,
 * 7.12.1 and 5.7.2). */
TEST(products_need_distance)
{
#define BF16 "v_wmma_f32_16x16x32_bf16 v[0:7], v[8:15], v[16:23], v[0:7]\n"
#define FP8 "v_wmma_f32_16x16x64_fp8_fp8 v[0:7], v[8:15], v[16:23], v[0:7]\n"
#define FP8_128 "v_wmma_f32_16x16x128_fp8_fp8 v[0:7], v[8:23], v[32:47], v[0:7]\n"
#define IU8 "v_wmma_i32_16x16x64_iu8 v[0:7], v[8:15], v[16:23], v[0:7]\n"
#define OTHER "v_wmma_f32_16x16x32_bf16 v[24:31], v[8:15], v[16:23], v[24:31]\n"
#define NOPS(n) ".rept " #n "\nv_nop\n.endr\n"
#define SPARSE(sum, index) "v_swmmac_f32_16x16x64_bf16 v" sum ", v[8:15], v[40:55], " index "\n"
    static const struct {
        const char *good, *bad;
        enum fault_kind kind;
    } cases[] = {
        {BF16 NOPS(4) "v_mov_b32 v30, v3\n", BF16 NOPS(3) "v_mov_b32 v30, v3\n", FAULT_HAZARD},
        {BF16 NOPS(4) "v_mov_b32 v3, 0\n", BF16 NOPS(3) "v_mov_b32 v3, 0\n", FAULT_HAZARD},
        {FP8 NOPS(2) "v_mov_b32 v30, v3\n", FP8 NOPS(1) "v_mov_b32 v30, v3\n", FAULT_HAZARD},
        {FP8_128 NOPS(3) "v_mov_b32 v30, v3\n", FP8_128 NOPS(2) "v_mov_b32 v30, v3\n",
         FAULT_HAZARD},
        {IU8 NOPS(8) "v_mov_b32 v30, v3\n", IU8 NOPS(7) "v_mov_b32 v30, v3\n", FAULT_HAZARD},
        {IU8 NOPS(9) "v_wmma_i32_16x16x64_iu8 v[24:31], v[0:7], v[16:23], 0\n",
         IU8 NOPS(8) "v_wmma_i32_16x16x64_iu8 v[24:31], v[0:7], v[16:23], 0\n", FAULT_HAZARD},
        {BF16 OTHER NOPS(3) "v_mov_b32 v48, v3\n", BF16 OTHER NOPS(2) "v_mov_b32 v48, v3\n",
         FAULT_HAZARD},
        {BF16 "s_nop 3\nv_mov_b32 v30, v3\n", BF16 "s_nop 2\nv_mov_b32 v30, v3\n", FAULT_HAZARD},
        {BF16 "s_wait_alu depctr_va_vdst(0)\nv_mov_b32 v30, v3\n",
         BF16 "s_wait_alu depctr_va_vdst(1)\nv_mov_b32 v30, v3\n", FAULT_HAZARD},
        {BF16 NOPS(5) "v_wmma_f32_16x16x32_bf16 v[24:31], v[0:7], v[16:23], 0\n",
         BF16 NOPS(4) "v_wmma_f32_16x16x32_bf16 v[24:31], v[0:7], v[16:23], 0\n", FAULT_HAZARD},
        {BF16 BF16, BF16 "v_wmma_f32_16x16x32_bf16 v[24:31], v[8:15], v[0:7], 0\n", FAULT_HAZARD},
        /* the index of a sparse A; its sum, which the product adds to, needs no wait */
        {BF16 NOPS(5) SPARSE("[24:31]", "v3"), BF16 NOPS(4) SPARSE("[24:31]", "v3"), FAULT_HAZARD},
        {BF16 SPARSE("[0:7]", "v32"), BF16 SPARSE("[0:7]", "v7"), FAULT_HAZARD},
        {BF16 NOPS(4) "v_mov_b32 v9, 0\n", BF16 NOPS(3) "v_mov_b32 v9, 0\n", FAULT_STRICT},
        {"v_exp_f32 v1, v2\nv_nop\nv_add_f32 v3, v1, v4\n",
         "v_exp_f32 v1, v2\nv_add_f32 v3, v1, v4\n", FAULT_STRICT},
        {"v_exp_f32 v1, v2\nv_rcp_f32 v3, v1\n", "v_exp_f32 v1, v2\nv_mov_b32 v2, v5\n",
         FAULT_STRICT},
        /* after a product, which keeps the check on for longer than an exponential needs */
        {BF16 "v_exp_f32 v30, v31\nv_nop\nv_add_f32 v32, v30, v33\n",
         BF16 "v_exp_f32 v30, v31\nv_add_f32 v32, v30, v33\n", FAULT_STRICT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program good = wave32(), bad = good;
        good.checks = bad.checks =
            cases[i].kind == FAULT_STRICT ? CHECK_ALL : CHECK_ALL & ~CHECK_STRICT;
        program_try(&good, cases[i].good);
        program_try(&bad, cases[i].bad);
        check_pair(cases[i].kind, &bad.fault, cases[i].bad, &good.fault, cases[i].good);
    }
}

/* A scale is for a block of 32. Lane r has the bytes of row r; f8f6f4 has its own layout. */
TEST(scales_multiply_blocks)
{
    struct program p = wave32();
    int a[16][128], b[128][16];
    uint32_t seed = 3;
    for (unsigned i = 0; i < 2048; i++) {
        a[i / 128][i % 128] = (int)(next_random(&seed) % 9) - 4;
        b[i / 16][i % 16] = (int)(next_random(&seed) % 9) - 4;
    }
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned e = 0; e < 64; e++) {
            const unsigned k = e / 16 * 32 + l / 16 * 16 + e % 16;
            p.v[8 + e / 4][l] |= (uint32_t)fp8_of(a[l % 16][k]) << 8 * (e % 4);
            p.v[24 + e / 4][l] |= (uint32_t)fp8_of(b[k][l % 16]) << 8 * (e % 4);
        }
        for (unsigned block = 0; block < 4; block++) {
            p.v[40][l] |= (127 + (l + block) % 3) << 8 * block;
            p.v[41][l] |= (127 - (l * 2 + block) % 2) << 8 * block;
        }
    }
    struct program other = p, later = p;
    program_run(&p, "v_wmma_scale_f32_16x16x128_f8f6f4 v[48:55], v[8:23], v[24:39], 0, v40, v41\n");
    /* The prefix has an unused third source: the code 0 in the output of AMD's assembler, the
     * constant 0 (code 128) in the output of LLVM after version 22. */
    program_run(&other, ".long 0xcc350000, 0x00025328, 0xcc330030, 0x02023108\n");
    assert_memory_equal(other.v[48], p.v[48], 8 * sizeof(p.v[0]));
    program_run(&later, ".long 0xcc350000, 0x02025328, 0xcc330030, 0x02023108\n");
    assert_memory_equal(later.v[48], p.v[48], 8 * sizeof(p.v[0]));
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            double want = 0;
            for (unsigned k = 0; k < 128; k++) {
                const unsigned block = k / 32;
                const int power = (int)((m + block) % 3) - (int)((n * 2 + block) % 2);
                want += ldexp(a[m][k] * b[k][n], power);
            }
            assert_true((double)float_of(p.v[48 + m % 8][m / 8 * 16 + n]) == want);
        }
    }
}

/* Returns the fp8 code of 2^power, down to the smallest denormal. */
static uint8_t fp8_of_power(int power)
{
    if (power < -9) /* 2^-10 is a tie between 0 and 2^-9 */
        return 0;
    return power < -6 ? (uint8_t)(1 << (power + 9)) : (uint8_t)((power + 7) << 3);
}

/* E8M0 scales of four blocks in each lane (CDNA5 ISA, table 37): SCALE_SEL names lane % 16 or 16
 * more, and the byte. Elements of 4 bits have the next byte in lanes 16 to 31 (table 36). */
TEST(conversions_choose_a_scale)
{
    struct program p = wave32();
    for (unsigned l = 0; l < 32; l++) {
        p.v[2][l] = p.v[3][l] = 0x38383838; /* 1 in fp8 */
        p.v[5][l] = 0x22222222;             /* 1 in fp4 */
        for (unsigned b = 0; b < 4; b++)
            p.v[4][l] |= (110 + l + 32 * (b % 2) + 16 * (b / 2)) << 8 * b;
    }
    program_run(&p, "v_cvt_scale_pk8_f32_fp8 v[8:15], v[2:3], v4\n"
                    "v_cvt_scale_pk8_f32_fp8 v[16:23], v[2:3], v4 scale_sel:1\n"
                    "v_cvt_scale_pk8_f32_fp8 v[24:31], v[2:3], v4 scale_sel:2\n"
                    "v_cvt_scale_pk8_f32_fp8 v[32:39], v[2:3], v4 scale_sel:4\n"
                    "v_cvt_scale_pk8_f32_fp4 v[40:47], v5, v4\n"
                    "v_mov_b32 v6, 2.0\n"
                    "v_cvt_scalef32_pk8_fp8_f32 v[48:49], v[8:15], v6\n");
    for (unsigned l = 0; l < 32; l++) {
        const unsigned low = 110 + l % 16;
        const unsigned want[5] = {low, low + 16, low + 16, low + 32, low + l / 16 * 32};
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(p.v[8 + 8 * i + l % 8][l], want[i] << 23); /* 2^(code - 127) */
        assert_int_equal(p.v[48][l] & 0xff, fp8_of_power((int)low - 128));
    }
}

/* The functions from here on test loads that transpose, and copies to LDS. */

/* A tile of 16 x 16 halves in LDS, row k, column m: lanes get columns (CDNA5 ISA, 10.9.2). */
TEST(loads_transpose)
{
    struct program p = wave32();
    p.lds_bytes = 512;
    for (unsigned l = 0; l < 32; l++) {
        const unsigned k = l / 16 * 8 + l % 8, m = l / 8 % 2 * 8;
        p.v[1][l] = k * 32 + m * 2;
        for (unsigned e = 0; e < 8; e++)
            p.v[4 + e / 2][l] |= (k << 8 | (m + e)) << 16 * (e % 2);
    }
    program_run(&p, "ds_store_b128 v1, v[4:7]\n"
                    "s_wait_dscnt 0\n"
                    "ds_load_tr16_b128 v[8:11], v1\n"
                    "s_wait_dscnt 0\n");
    for (unsigned l = 0; l < 32; l++)
        for (unsigned e = 0; e < 8; e++)
            assert_int_equal(p.v[8 + e / 2][l] >> 16 * (e % 2) & 0xffff,
                             (l / 16 * 8 + e) << 8 | l % 16);
}

/* Tests a buffer of two records of four bytes (CDNA5 ISA, 8.1.2). */
TEST(scalar_loads_count_records)
{
    const uint32_t data[4] = {11, 12, 13, 14};
    void *memory = device_alloc(sizeof(data), data);
    struct program p = wave32();
    p.s[0] = (uint32_t)(uintptr_t)memory;
    p.s[1] = (uint32_t)((uint64_t)(uintptr_t)memory >> 32) | 2u << 25;
    p.s[3] = 4u << 12;
    program_run(&p, "s_buffer_load_b32 s8, s[0:3], 4\n"
                    "s_buffer_load_b32 s9, s[0:3], 8\n"
                    "s_wait_kmcnt 0\n");
    assert_int_equal(p.s[8], 12);
    assert_int_equal(p.s[9], 0);
    hipsim_mem_free(memory);
}

/* Triton masks lanes of LDS accesses by 0x7fffffff in their address register: they store nothing
 * and load zero (CDNA5 ISA, 3.3.4.1). Other addresses beyond LDS are reported, also those before
 * its start. */
TEST(lds_accesses_have_masked_lanes)
{
    for (unsigned wild = 0; wild < 4; wild++) {
        static const uint32_t outside[] = {0x7fffffff, 0xfffffffc, 512, 0x80000000};
        struct program p = wave32();
        p.lds_bytes = 512;
        program_lanes(&p, 0, 1);
        program_lanes(&p, 1, 16);
        p.v[1][7] = outside[wild];
        program_fill(&p, 2, 5);
        program_try(&p, "v_mov_b32 v3, v2\nv_mov_b32 v4, v2\nv_mov_b32 v5, v2\n"
                        "ds_store_b128 v1, v[2:5]\nds_load_b32 v6, v1 offset:8\n"
                        "v_cmp_eq_u32 vcc_lo, 7, v0\ns_mov_b32 exec_lo, vcc_lo\n"
                        "ds_load_2addr_stride64_b64 v[8:11], v1 offset0:128 offset1:255\n"
                        "s_mov_b32 exec_lo, -1\ns_wait_dscnt 0\n");
        assert_int_equal(p.fault.kind, wild ? FAULT_MEMORY : FAULT_NONE);
        for (unsigned l = 0; !wild && l < 32; l++)
            assert_int_equal(p.v[6][l], l == 7 ? 0 : 5);
    }
}

/* LLVM's names that have a row execute. A few without a row are refused when a wave reaches
 * them. */
TEST(other_instructions_are_refused)
{
    struct program p = wave32();
    program_try(&p, "s_movrelsd_2_b32 s0, s1\n");
    assert_int_equal(p.fault.kind, FAULT_DECODE);
}

int main(void) { return run_unit_tests(); }
