/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the race check in workgroups of 32 waves, which targets with 32 lanes have. Each kernel
 * with a race has a similar kernel without, which only contains the fix. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

/* s4 is the wave's number. v1 is the byte offset of a lane's own dword. v2 is the offset of the
 * same lane in wave 17, v3 in the wave with the opposite number. */
#define OFFSETS                                                                     \
    "v_mbcnt_lo_u32_b32 v0, -1, 0\nv_lshlrev_b32 v0, 2, v0\n"                       \
    "s_mov_b32 s4, s100\ns_lshl_b32 s5, s4, 7\nv_add_nc_u32 v1, s5, v0\n"           \
    "v_add_nc_u32 v2, 17 * 128, v0\nv_xor_b32 v3, 31 * 128, v1\nv_mov_b32 v4, s4\n" \
    "v_mov_b32 v5, 4096\nv_mov_b32 v6, 0\nv_mov_b32 v7, 1\n"
#define BARRIER "s_barrier_signal -1\ns_barrier_wait -1\n"
#define IF_WAVE(number, text) \
    "s_cmp_lg_u32 s4, " #number "\ns_cbranch_scc1 skip" #number "\n" text "skip" #number ":\n"
#define LDS_STORE(v) "ds_store_b32 " v ", v4\ns_wait_dscnt 0\n"
#define LDS_LOAD(v) "ds_load_b32 v8, " v "\ns_wait_dscnt 0\n"
#define STORE(v) "global_store_b32 " v ", v4, s[2:3]\ns_wait_storecnt 0\n"
#define LOAD(v) "global_load_b32 v8, " v ", s[2:3]\ns_wait_loadcnt 0\n"

static struct fault run(enum gfx_target target, const char *text, uint64_t seed)
{
    static const uint32_t zeros[2048];
    void *const data = device_alloc(sizeof(zeros), zeros);
    struct program p = program_new(target);
    p.block = 1024;
    p.lds_bytes = 8192;
    p.checks = CHECK_ALL & ~(uint32_t)(CHECK_HAZARD | CHECK_STRICT);
    p.order = seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
    p.seed = seed;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_try(&p, text);
    hipsim_mem_free(data);
    return p.fault;
}

/* Expects on each target that `bad` has a race between waves 17 and 30, and `good` none. */
static void expect(const char *bad, const char *good)
{
    static const enum gfx_target targets[] = {GFX1250, GFX1201};
    for (unsigned i = 0; i < 2; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            const struct fault race = run(targets[i], bad, seed);
            const struct fault none = run(targets[i], good, seed);
            check_pair(FAULT_RACE, &race, bad, &none, good);
            if (!strstr(race.text, "which wave 17 ") && !strstr(race.text, "which wave 30 "))
                fail_msg("%s\n%s", race.text, bad);
        }
}

TEST(lds)
{
    expect(OFFSETS IF_WAVE(17, LDS_STORE("v1")) IF_WAVE(30, LDS_LOAD("v2")),
           OFFSETS IF_WAVE(17, LDS_STORE("v1")) BARRIER IF_WAVE(30, LDS_LOAD("v2")));
    expect(OFFSETS LDS_STORE("v1") BARRIER IF_WAVE(17, LDS_LOAD("v2")) IF_WAVE(30, LDS_STORE("v2")),
           OFFSETS LDS_STORE("v1") BARRIER IF_WAVE(17, LDS_LOAD("v2"))
               BARRIER IF_WAVE(30, LDS_STORE("v2")));
    expect(OFFSETS IF_WAVE(17, LDS_STORE("v2")) IF_WAVE(30, LDS_STORE("v2")),
           OFFSETS IF_WAVE(17, LDS_STORE("v2")) IF_WAVE(30, LDS_STORE("v1")));
    expect(OFFSETS LDS_STORE("v1") BARRIER LDS_LOAD("v3") BARRIER IF_WAVE(30, LDS_LOAD("v2"))
               IF_WAVE(17, "v_mov_b32 v4, v1\n" LDS_STORE("v1")),
           OFFSETS LDS_STORE("v1") BARRIER LDS_LOAD("v3") BARRIER LDS_STORE("v1") LDS_LOAD("v1"));
}

/* A store that wave 17 has not waited for at the barrier. */
TEST(lds_stores_are_waited_for)
{
    expect(OFFSETS IF_WAVE(17, "ds_store_b32 v1, v4\n") BARRIER IF_WAVE(30, LDS_LOAD("v2")) BARRIER,
           OFFSETS IF_WAVE(17, LDS_STORE("v1")) BARRIER IF_WAVE(30, LDS_LOAD("v2")) BARRIER);
}

/* Wave 17 stores every second dword of 256 bytes. Wave 30 loads these or the others. */
TEST(global_stores_are_waited_for)
{
#define SPARSE \
    "v_add_nc_u32 v9, v1, v1\nv_add_nc_u32 v10, v0, v0\nv_add_nc_u32 v10, 34 * 128, v10\n"
#define LATE "global_store_b32 v9, v4, s[2:3]\n"
#define LOAD_AFTER(offset) \
    BARRIER IF_WAVE(30, "global_load_b32 v8, v10, s[2:3] offset:" offset "\ns_wait_loadcnt 0\n")
    expect(OFFSETS SPARSE IF_WAVE(17, LATE) LOAD_AFTER("0") BARRIER,
           OFFSETS SPARSE IF_WAVE(17, LATE) LOAD_AFTER("4") BARRIER);
    expect(OFFSETS SPARSE IF_WAVE(17, LATE) LOAD_AFTER("0") BARRIER,
           OFFSETS SPARSE IF_WAVE(17, LATE "s_wait_storecnt 0\n") LOAD_AFTER("0") BARRIER);
}

/* Wave 17 counts after or before its store; wave 30 loads the data when it has seen the count. */
TEST(atomics_order_waves)
{
#define COUNT "ds_add_u32 v5, v7\ns_wait_dscnt 0\n"
#define POLL                                      \
    "poll:\nds_load_b32 v8, v5\ns_wait_dscnt 0\n" \
    "v_cmp_eq_u32 vcc_lo, 0, v8\ns_cbranch_vccnz poll\n"
#define FIRST IF_WAVE(0, "ds_store_b32 v5, v6\ns_wait_dscnt 0\n") BARRIER
    expect(OFFSETS FIRST IF_WAVE(17, COUNT LDS_STORE("v1")) IF_WAVE(30, POLL LDS_LOAD("v2")),
           OFFSETS FIRST IF_WAVE(17, LDS_STORE("v1") COUNT) IF_WAVE(30, POLL LDS_LOAD("v2")));
    expect(OFFSETS FIRST IF_WAVE(17, COUNT STORE("v1")) IF_WAVE(30, POLL LOAD("v2")),
           OFFSETS FIRST IF_WAVE(17, STORE("v1") COUNT) IF_WAVE(30, POLL LOAD("v2")));
}

TEST(global_memory)
{
    expect(OFFSETS IF_WAVE(17, STORE("v1")) IF_WAVE(30, LOAD("v2")),
           OFFSETS IF_WAVE(17, STORE("v1")) BARRIER IF_WAVE(30, LOAD("v2")));
    expect(OFFSETS IF_WAVE(17, LOAD("v2")) IF_WAVE(30, STORE("v2")),
           OFFSETS IF_WAVE(17, LOAD("v2")) BARRIER IF_WAVE(30, STORE("v2")));
    expect(OFFSETS STORE("v1") BARRIER "v_mov_b32 v4, v1\n" IF_WAVE(17, STORE("v1"))
               IF_WAVE(30, LOAD("v2")),
           OFFSETS STORE("v1") BARRIER LOAD("v3") BARRIER STORE("v1") LOAD("v1"));
}

/* Waves load what wave 17 changes, and store a register that V_MOVREL* has written. It depends on
 * the load unless the loaded value is gone before. */
TEST(a_relative_register_may_depend_on_a_load)
{
#define CHANGED LOAD("v0") IF_WAVE(17, "v_add_nc_u32 v4, 1, v8\n" STORE("v0"))
#define FORGET "v_mov_b32 v8, 1\nv_mov_b32 v4, 1\n"
#define RELATIVE "s_mov_b32 m0, 2\nv_movreld_b32 v10, v8\nds_store_b32 v1, v12\n"
    static const char *const bad = OFFSETS CHANGED RELATIVE;
    static const char *const good = OFFSETS CHANGED FORGET RELATIVE;
    static const enum gfx_target targets[] = {GFX1250, GFX1201};
    for (unsigned i = 0; i < 2; i++) {
        const struct fault race = run(targets[i], bad, 0), none = run(targets[i], good, 0);
        check_pair(FAULT_RACE, &race, bad, &none, good);
    }
}

int main(void) { return run_unit_tests(); }
