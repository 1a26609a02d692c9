/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests LDS barriers of gfx1250 (CDNA5 ISA, 11.2.2): arrivals of lanes, after asynchronous loads,
 * and of the tensor data mover. The count has 29 bits.
 */
#include <stdio.h>
#include <string.h>

#include "tools/hipsim/tests/device.h"

/* v0: byte offset of a lane's own dword; s4: number of the wave, 0 or 1. v[2:3] is the first state
 * of a barrier at LDS address 0 that 64 lanes complete. */
#define BEGIN                                                                            \
    "v_mbcnt_lo_u32_b32 v0, -1, 0\nv_lshlrev_b32 v0, 2, v0\n"                            \
    "s_mov_b32 s4, s100\ns_lshl_b32 s5, s4, 7\nv_add_nc_u32 v0, s5, v0\n"                \
    "v_mov_b32 v1, 0\nv_mov_b32 v2, 63\nv_mov_b32 v3, 63\n"                              \
    "v_mov_b32 v4, 1\nv_mov_b32 v5, 0\nv_xor_b32 v6, 128, v0\n"                          \
    "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 made\n"                                          \
    "v_cmp_eq_u32 vcc_lo, 0, v0\ns_mov_b32 s6, exec_lo\ns_and_b32 exec_lo, s6, vcc_lo\n" \
    "ds_store_b64 v1, v[2:3]\ns_wait_dscnt 0\ns_mov_b32 exec_lo, s6\n"                   \
    "made:\ns_barrier_signal -1\ns_barrier_wait -1\n"
#define ARRIVE "ds_atomic_barrier_arrive_rtn_b64 v[8:9], v1, v[4:5]\ns_wait_dscnt 0\n"
#define ARRIVE_ASYNC "ds_atomic_async_barrier_arrive_b64 v1\n"
/* Waits until the phase, which is 0 at first, is odd. */
#define WAIT                                                  \
    "again:\ns_sleep 1\nds_load_b32 v7, v1\ns_wait_dscnt 0\n" \
    "v_readfirstlane_b32 s7, v7\ns_bitcmp1_b32 s7, 29\ns_cbranch_scc0 again\n"
#define OWN_STORE "ds_store_b32 v0, v0 offset:256\ns_wait_dscnt 0\n"
#define LOAD_ASYNC "global_load_async_to_lds_b32 v10, v0, s[2:3] offset:256\n"
#define READ_OTHER "ds_load_b32 v11, v6 offset:256\ns_wait_dscnt 0\n"

static struct program two_waves(const void *data)
{
    struct program p = program_new(GFX1250);
    p.block = 64;
    p.lds_bytes = 1024;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    return p;
}

/* Expects that `text` runs without a fault in several orders of the waves. The last wave's lanes
 * have then read what the other wave has stored. */
static void expect_right(const char *text, const void *data)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct program p = two_waves(data);
        p.order = seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
        p.seed = seed;
        program_run(&p, text);
        for (unsigned l = 0; l < 32; l++)
            assert_int_equal(p.v[11][l], (p.v[6][l]));
    }
}

/* Expects that hipsim reports a race or a missing wait in `text`. */
static void expect_unordered(const char *text, const void *data)
{
    struct program p = two_waves(data);
    program_try(&p, text);
    assert_true(p.fault.kind == FAULT_RACE || p.fault.kind == FAULT_WAIT);
}

/* Each lane's arrival returns the state before it. The last one decrements the phase and sets the
 * count again. */
TEST(lanes_arrive_one_by_one)
{
    struct program p = two_waves(NULL);
    p.block = 32;
    p.lds_bytes = 64;
    program_fill(&p, 1, 0);
    program_fill(&p, 2, 31);
    program_fill(&p, 3, 29);
    program_fill(&p, 4, 1);
    program_fill(&p, 5, 0);
    program_run(&p,
                "ds_store_b64 v1, v[2:3]\n" ARRIVE "ds_load_b64 v[10:11], v1\ns_wait_dscnt 0\n");
    for (unsigned l = 0; l < 32; l++) {
        assert_int_equal(p.v[8][l], 31 - l);
        assert_int_equal(p.v[9][l], 29);
    }
    assert_int_equal(p.v[10][0], 7u << 29 | 29);
    assert_int_equal(p.v[11][0], 29);
}

/* Stores before an arrival are visible after the wait for the phase, and not without it. */
TEST(arrivals_order_stores)
{
    expect_right(BEGIN OWN_STORE ARRIVE WAIT READ_OTHER, NULL);
    expect_unordered(BEGIN OWN_STORE ARRIVE READ_OTHER, NULL);
}

/* An arrival after asynchronous loads needs no wait for ASYNCcnt. */
TEST(arrivals_follow_asynchronous_loads)
{
    uint32_t data[256];
    for (unsigned i = 0; i < 256; i++)
        data[i] = 4 * i - 256;
    void *const memory = device_alloc(sizeof(data), data);
#define ADDRESS "v_add_nc_u32 v10, 0, v0\n"
    expect_right(BEGIN ADDRESS LOAD_ASYNC ARRIVE_ASYNC WAIT READ_OTHER, memory);
    expect_unordered(BEGIN ADDRESS LOAD_ASYNC ARRIVE_ASYNC READ_OTHER, memory);
    expect_unordered(BEGIN ADDRESS LOAD_ASYNC ARRIVE WAIT READ_OTHER, memory);
    hipsim_mem_free(memory);
}

/* Without a read of the barrier the wave cannot know that its own loads have arrived. A read of
 * another phase ends the flight of the loads before the arrival, and of no later ones. A count of 2
 * lanes is not complete after one arrival. */
TEST(a_wave_sees_arrivals_in_the_phase)
{
#define MAKE "ds_store_b64 v1, v[2:3]\ns_wait_dscnt 0\n"
#define FIRST_LANE "s_mov_b32 exec_lo, 1\n" ARRIVE_ASYNC "s_mov_b32 exec_lo, -1\n"
#define TWO_BARRIERS                                                                  \
    "v_lshlrev_b32 v12, 1, v0\nds_store_b64 v12, v[2:3] offset:768\ns_wait_dscnt 0\n" \
    "s_mov_b32 exec_lo, 3\nds_atomic_async_barrier_arrive_b64 v12 offset:768\n"       \
    "s_mov_b32 exec_lo, -1\n"
#define READ_PHASE "ds_load_b32 v7, v1\ns_wait_dscnt 0\n"
#define READ_OWN "ds_load_b32 v11, v0 offset:256\ns_wait_dscnt 0\n"
#define LOAD_MORE "global_load_async_to_lds_b32 v10, v0, s[2:3] offset:512\n"
    static const struct {
        const char *text;
        unsigned count; /* arrivals that complete the phase */
        bool good;
        uint32_t left; /* arrivals that are neither seen nor waited for at the end */
    } cases[] = {
        {MAKE LOAD_ASYNC FIRST_LANE READ_OWN, 1, false, 0},
        {MAKE LOAD_ASYNC FIRST_LANE FIRST_LANE READ_PHASE, 3, true, 2},
        {MAKE LOAD_ASYNC FIRST_LANE READ_PHASE READ_OWN, 1, true, 0},
        {MAKE LOAD_ASYNC FIRST_LANE READ_PHASE READ_OWN, 2, false, 0},
        {MAKE LOAD_ASYNC READ_PHASE FIRST_LANE READ_OWN, 1, false, 0},
        {MAKE LOAD_ASYNC FIRST_LANE "s_wait_asynccnt 0\n" READ_OWN, 2, true, 0},
        {MAKE FIRST_LANE LOAD_ASYNC READ_PHASE READ_OWN, 1, false, 0},
        {MAKE LOAD_ASYNC TWO_BARRIERS READ_OWN, 1, true, 0},
        {MAKE LOAD_MORE LOAD_ASYNC FIRST_LANE LOAD_MORE READ_PHASE READ_OWN, 1, true, 0},
    };
    uint32_t data[256] = {0};
    void *const memory = device_alloc(sizeof(data), data);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program p = two_waves(memory);
        p.block = 32;
        program_lanes(&p, 0, 4);
        program_fill(&p, 1, 0);
        program_fill(&p, 2, cases[i].count - 1);
        program_fill(&p, 3, cases[i].count - 1);
        program_lanes(&p, 10, 4);
        program_try(&p, cases[i].text);
        if (p.fault.kind != (cases[i].good ? FAULT_NONE : FAULT_WAIT))
            fail_msg("case %zu: %s", i, p.fault.text);
        if (cases[i].good)
            assert_int_equal(p.lds_arrivals, cases[i].left);
    }
    hipsim_mem_free(memory);
}

/* A tensor copy whose descriptor names a barrier arrives once. */
TEST(tensor_copies_arrive)
{
    uint32_t data[32];
    for (unsigned i = 0; i < 32; i++)
        data[i] = 100 + i;
    void *const memory = device_alloc(sizeof(data), data);
    for (unsigned made = 0; made < 2; made++) {
        struct program p = two_waves(memory);
        p.block = 32;
        p.s[8] = 1;   /* valid */
        p.s[9] = 256; /* LDS address */
        p.s[10] = (uint32_t)(uintptr_t)memory;
        p.s[11] = (uint32_t)((uint64_t)(uintptr_t)memory >> 32) | 2u << 30;
        p.s[12] = 2u << 16 | 1u << 18;  /* dwords; with a barrier */
        p.s[13] = 32u << 16 | 64u >> 3; /* tensor_dim0; the barrier's address */
        p.s[14] = 1u << 16;             /* tensor_dim1 */
        p.s[15] = 32u << 16;            /* tile_dim0 */
        p.s[16] = 1;                    /* tile_dim1 */
        p.s[17] = 32;
        p.s[18] = p.s[19] = 0;
        program_fill(&p, 1, 0);
        program_fill(&p, 2, 0);
        program_fill(&p, 3, 0);
        program_lanes(&p, 0, 4);
        const char *const make = made ? "ds_store_b64 v1, v[2:3] offset:64\ns_wait_dscnt 0\n" : "";
        char text[512];
        snprintf(text, sizeof(text),
                 "%stensor_load_to_lds s[8:11], s[12:19]\nds_load_b32 v7, v1 offset:64\n"
                 "ds_load_b32 v11, v0 offset:256\ns_wait_dscnt 0\n",
                 make);
        program_try(&p, text);
        assert_int_equal(p.fault.kind, made ? FAULT_NONE : FAULT_UNINIT);
        for (unsigned l = 0; made && l < 32; l++)
            assert_int_equal(p.v[11][l], 100 + l);
        if (made)
            assert_int_equal(p.v[7][0], 7u << 29);
    }
    hipsim_mem_free(memory);
}

int main(void) { return run_unit_tests(); }
