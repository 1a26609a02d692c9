/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the race check of LDS. Each kernel with a race has a similar kernel without, which only
 * contains the fix. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

/* v1 is the byte offset of a lane's own dword, v2 the offset of the same lane in the other wave. */
#define OFFSETS                       \
    "v_mbcnt_lo_u32_b32 v0, -1, 0\n"  \
    "v_mbcnt_hi_u32_b32 v0, -1, v0\n" \
    "v_lshlrev_b32 v0, 2, v0\n"       \
    "s_lshl_b32 s0, s100, 8\n"        \
    "s_xor_b32 s1, s0, 0x100\n"       \
    "v_add_u32 v1, s0, v0\n"          \
    "v_add_u32 v2, s1, v0\n"
#define WAIT "s_waitcnt lgkmcnt(0)\n"
#define BARRIER "s_barrier\n"

static struct fault run(const char *text, uint32_t checks, uint64_t seed)
{
    struct program p = program_new(GFX942);
    p.block = 128;
    p.lds_bytes = 1024;
    p.checks = checks;
    p.order = seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
    p.seed = seed;
    program_try(&p, text);
    return p.fault;
}

/* Expects that `bad` has a race in every order of the waves, that `bad` passes with the check off,
 * and that `good` has no race. */
static void expect(const char *bad, const char *good)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        const struct fault race = run(bad, CHECK_ALL, seed), none = run(good, CHECK_ALL, seed);
        check_pair(FAULT_RACE, &race, bad, &none, good);
    }
    struct fault f = run(bad, CHECK_ALL & ~(uint32_t)CHECK_RACE, 0);
    assert_int_equal(f.kind, FAULT_NONE);
}

TEST(a_load_needs_a_barrier)
{
    expect(OFFSETS "ds_write_b32 v1, v1\nds_write_b32 v1, v1 offset:512\n" WAIT BARRIER
                   "ds_write_b32 v1, v0\n" WAIT "ds_read_b32 v3, v2\n" WAIT,
           OFFSETS "ds_write_b32 v1, v1\nds_write_b32 v1, v1 offset:512\n" WAIT BARRIER
                   "ds_write_b32 v1, v0\n" WAIT BARRIER "ds_read_b32 v3, v2\n" WAIT);
}

/* If a wave reads the data that it stored, the store is still recorded for other waves. */
TEST(a_load_of_the_own_store_does_not_hide_it)
{
#define OWN "ds_write_b32 v1, v0\nds_read_b32 v4, v1\n" WAIT
    expect(OFFSETS "ds_write_b32 v1, v1\nds_write_b32 v1, v1 offset:512\n" WAIT BARRIER OWN
                   "ds_read_b32 v3, v2\n" WAIT,
           OFFSETS "ds_write_b32 v1, v1\nds_write_b32 v1, v1 offset:512\n" WAIT BARRIER OWN BARRIER
                   "ds_read_b32 v3, v2\n" WAIT);
}

TEST(a_store_must_not_overtake_a_load)
{
    expect(OFFSETS "ds_write_b32 v1, v1\n" WAIT BARRIER "ds_read_b32 v3, v2\n" WAIT
                   "ds_write_b32 v1, v0 offset:4\n" WAIT,
           OFFSETS "ds_write_b32 v1, v1\n" WAIT BARRIER "ds_read_b32 v3, v2\n" WAIT BARRIER
                   "ds_write_b32 v1, v0 offset:4\n" WAIT);
}

TEST(equal_stores_are_harmless)
{
    expect(OFFSETS "v_mov_b32 v4, s100\nds_write_b32 v0, v4\n" WAIT,
           OFFSETS "v_mov_b32 v4, 7\nds_write_b32 v0, v4\n" WAIT "ds_read_b32 v3, v0\n" WAIT);
}

TEST(bytes_of_a_dword_are_checked_separately)
{
    expect(OFFSETS "s_lshl_b32 s2, s100, 0\nv_add_u32 v5, s2, v0\nv_mov_b32 v4, s2\n"
                   "v_add_u32 v4, 5, v4\nds_write_b16 v5, v4\n" WAIT,
           OFFSETS "s_lshl_b32 s2, s100, 1\nv_add_u32 v5, s2, v0\nv_mov_b32 v4, s2\n"
                   "v_add_u32 v4, 5, v4\nds_write_b16 v5, v4\nds_write_b16 v5, v0\n" WAIT);
}

TEST(a_load_of_half_a_dword_counts)
{
    expect(OFFSETS "v_add_u32 v4, 5, v1\nds_write_b32 v1, v1\n" WAIT BARRIER
                   "ds_read_u16 v3, v2\n" WAIT "ds_write_b16 v1, v4\n" WAIT,
           OFFSETS "v_add_u32 v4, 5, v1\nds_write_b32 v1, v1\n" WAIT BARRIER
                   "ds_read_u16 v3, v2\n" WAIT "ds_write_b16 v1, v4 offset:2\n" WAIT);
}

/* A load to LDS is a store of the loading wave. Other waves must have read the old data before
 * it. */
TEST(copies_to_lds_must_not_overtake_loads)
{
    static const char *const text =
        OFFSETS "v_mov_b32 v5, v0\nds_write_b32 v1, v1\n" WAIT BARRIER
                "s_cmp_lg_u32 s100, 0\ns_cbranch_scc1 1f\nds_read_b32 v3, v2\n" WAIT "1:\n%s"
                "s_cmp_eq_u32 s100, 0\ns_cbranch_scc1 2f\ns_mov_b32 m0, 0x100\ns_nop 0\n"
                "buffer_load_dword v5, s[8:11], 0 offen lds\ns_waitcnt vmcnt(0)\n2:\n" BARRIER;
    static const uint32_t zeros[64];
    void *const rows = device_alloc(sizeof(zeros), zeros);
    for (unsigned i = 0; i < 2; i++) {
        char whole[800];
        struct program p = program_new(GFX942);
        p.block = 128;
        p.lds_bytes = 1024;
        p.checks = CHECK_ALL;
        program_resource(&p, 8, rows, 0, 256);
        snprintf(whole, sizeof(whole), text, i ? BARRIER : "");
        program_try(&p, whole);
        assert_int_equal(p.fault.kind, i ? FAULT_NONE : FAULT_RACE);
    }
    hipsim_mem_free(rows);
}

/* Both waves store to one dword. Every workgroup starts without recorded accesses. */
TEST(workgroups_start_without_history)
{
    struct program p = program_new(GFX942);
    p.block = 128;
    p.groups = 16;
    p.lds_bytes = 1024;
    p.checks = CHECK_ALL;
    program_try(&p, "v_mov_b32 v0, 64\nv_mov_b32 v1, s100\ns_cmp_eq_u32 s100, 0\n"
                    "s_cbranch_scc1 1f\nds_write_b32 v0, v1\n1:\n" WAIT BARRIER
                    "s_cmp_eq_u32 s100, 0\ns_cbranch_scc0 2f\nds_write_b32 v0, v1\n2:\n" WAIT);
    assert_int_equal(p.fault.kind, FAULT_NONE);
}

/* Even workgroups store before the barrier, odd workgroups after it. The check keeps phases of
 * workgroups apart. */
TEST(phases_of_workgroups_are_separate)
{
    struct program p = program_new(GFX942);
    p.block = 128;
    p.groups = 64;
    p.lds_bytes = 1024;
    p.checks = CHECK_ALL;
    program_try(&p, "s_and_b32 s0, s101, 1\nv_mov_b32 v0, 64\nv_mov_b32 v1, s101\n"
                    "s_xor_b32 s1, s0, s100\ns_lshl_b32 s2, s0, 1\ns_or_b32 s1, s1, s2\n"
                    "s_cmp_lg_u32 s1, 0\ns_cbranch_scc1 1f\nds_write_b32 v0, v1\n1:\n" WAIT BARRIER
                    "s_and_b32 s1, s0, s100\ns_cmp_eq_u32 s1, 0\ns_cbranch_scc1 2f\n"
                    "ds_write_b32 v0, v1\n2:\n" WAIT BARRIER);
    if (p.fault.kind != FAULT_NONE)
        fail_msg("%s", p.fault.text);
}

TEST(atomics_do_not_race_with_each_other)
{
    expect(OFFSETS "ds_write_b32 v0, v0\n" WAIT BARRIER "ds_add_u32 v0, v1\n" WAIT
                   "ds_read_b32 v3, v0\n" WAIT,
           OFFSETS "ds_write_b32 v0, v0\n" WAIT BARRIER "ds_add_u32 v0, v1\n" WAIT BARRIER
                   "ds_read_b32 v3, v0\n" WAIT);
    expect(OFFSETS "ds_write_b32 v0, v0\nds_add_u32 v0, v1\n" WAIT,
           OFFSETS "ds_write_b32 v0, v0\n" WAIT BARRIER "ds_add_u32 v0, v1\n" WAIT);
}

/* Tests Clang's code for an atomic that the hardware lacks: a load, and swaps until one
 * succeeds. */
TEST(the_load_of_a_compare_and_swap_is_no_race)
{
    expect(OFFSETS "ds_write_b32 v0, v0\n" WAIT BARRIER "ds_read_b32 v3, v0\n" WAIT
                   "ds_add_u32 v0, v3\n" WAIT,
           OFFSETS "ds_write_b32 v0, v0\n" WAIT BARRIER "ds_read_b32 v3, v0\n" WAIT
                   "v_add_u32 v4, v3, v3\n"
                   "ds_cmpst_rtn_b32 v5, v0, v3, v4\n" WAIT);
}

TEST(stores_are_waited_for_before_the_barrier)
{
    expect(OFFSETS "ds_write_b32 v1, v0\n" BARRIER "ds_read_b32 v3, v2\n" WAIT BARRIER,
           OFFSETS "ds_write_b32 v1, v0\n" WAIT BARRIER "ds_read_b32 v3, v2\n" WAIT BARRIER);
    /* The second store may be outstanding if no wave reads its data. */
    expect(OFFSETS
           "ds_write_b32 v1, v0\nds_write_b32 v1, v0 offset:512\ns_waitcnt lgkmcnt(1)\n" BARRIER
           "ds_read_b32 v3, v2 offset:512\n" WAIT BARRIER,
           OFFSETS
           "ds_write_b32 v1, v0\nds_write_b32 v1, v0 offset:512\ns_waitcnt lgkmcnt(1)\n" BARRIER
           "ds_read_b32 v3, v2\n" WAIT BARRIER);
    /* A later store to other bytes does not hide the outstanding store, nor the wait for it. */
#define OTHER BARRIER "ds_write_b32 v1, v0 offset:512\nds_read_b32 v3, v2\n" WAIT BARRIER
    expect(OFFSETS "ds_read_b32 v3, v1\n" WAIT "ds_write_b32 v1, v0\n" OTHER,
           OFFSETS "ds_read_b32 v3, v1\n" WAIT "ds_write_b32 v1, v0\n" WAIT OTHER);
}

/* The same code writes one buffer while the other buffer is read. */
TEST(double_buffers)
{
    assert_int_equal(run(OFFSETS "s_mov_b32 s4, 6\nloop:\nds_write_b32 v1, v0\n" WAIT BARRIER
                                 "ds_read_b32 v3, v2\n" WAIT
                                 "v_xor_b32 v1, 0x200, v1\nv_xor_b32 v2, 0x200, v2\n"
                                 "s_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 loop",
                         CHECK_ALL, 0)
                         .kind,
                     FAULT_NONE);
}

/* The first wave releases the data that it has stored, the second wave acquires them. LDS offsets
 * 512 and 516 (v5) hold 0 and 1. */
#define HANDOVER(give, take)                                                         \
    OFFSETS "v_mov_b32 v5, 0x200\nv_mov_b32 v6, 0\nv_mov_b32 v7, 1\n"                \
            "ds_write_b32 v1, v1\nds_write2_b32 v5, v6, v7 offset1:1\n" WAIT BARRIER \
            "s_cmp_lg_u32 s100, 0\ns_cbranch_scc1 second\n" give "s_endpgm\nsecond:\n" take
#define STORE "ds_write_b32 v1, v7\n" WAIT
#define LOAD "ds_read_b32 v3, v2\n" WAIT
#define POLL(offset) \
    "poll:\nds_read_b32 v4, v5" offset "\n" WAIT "v_cmp_eq_u32 vcc, 0, v4\ns_cbranch_vccnz poll\n"

TEST(an_atomic_orders_waves)
{
#define COUNT "ds_add_u32 v5, v7\n" WAIT
    expect(HANDOVER(STORE COUNT, POLL(" offset:4") LOAD), HANDOVER(STORE COUNT, POLL("") LOAD));
    expect(HANDOVER(COUNT STORE, POLL("") LOAD), HANDOVER(STORE COUNT, POLL("") LOAD));
    /* The release does not order a load after it before the stores of the acquiring wave. */
#define READ_OWN "ds_read_b32 v3, v1\n" WAIT
    expect(HANDOVER(COUNT READ_OWN, POLL("") "ds_write_b32 v2, v7\n" WAIT),
           HANDOVER(READ_OWN COUNT, POLL("") "ds_write_b32 v2, v7\n" WAIT));
    /* The first iteration is peeled off the polling loop, which computes the address again. */
#define PEELED(offset)                                                                       \
    "ds_read_b32 v4, v5" offset "\n" WAIT                                                    \
    "v_cmp_ne_u32 vcc, 0, v4\ns_cbranch_vccnz done\npoll:\ns_sleep 1\nv_or_b32 v8, v5, v6\n" \
    "ds_read_b32 v4, v8" offset "\n" WAIT "v_cmp_eq_u32 vcc, 0, v4\ns_cbranch_vccnz poll\ndone:\n"
    expect(HANDOVER(STORE COUNT, PEELED(" offset:4") LOAD), HANDOVER(STORE COUNT, PEELED("") LOAD));
    /* An atomic that returns nothing does not acquire. */
    expect(HANDOVER(STORE COUNT, POLL(" offset:4") "ds_add_u32 v5, v6\n" WAIT LOAD),
           HANDOVER(STORE COUNT, "poll:\nds_add_rtn_u32 v4, v5, v6\n" WAIT
                                 "v_cmp_eq_u32 vcc, 0, v4\ns_cbranch_vccnz poll\n" LOAD));
}

TEST(a_flag_orders_waves)
{
#define RAISE "ds_write_b32 v5, v7\n" WAIT
    expect(HANDOVER(STORE RAISE, POLL(" offset:4") LOAD), HANDOVER(STORE RAISE, POLL("") LOAD));
    /* A loop that counts its iterations is no polling loop. */
    expect(HANDOVER(STORE RAISE, "s_mov_b32 s4, 3\nloop:\nds_read_b32 v4, v5\n" WAIT
                                 "s_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\n"
                                 "s_cbranch_scc1 loop\n"),
           HANDOVER(STORE RAISE, POLL("") LOAD));
    expect(HANDOVER(STORE RAISE, "v_mov_b32 v9, 3\nloop:\nds_read_b32 v4, v5\n" WAIT
                                 "v_sub_u32 v9, v9, v7\nv_cmp_ne_u32 vcc, 0, v9\n"
                                 "s_cbranch_vccnz loop\n"),
           HANDOVER(STORE RAISE, POLL("") LOAD));
    expect(HANDOVER(STORE RAISE, "v_accvgpr_write_b32 a4, 3\nloop:\nds_read_b32 v4, v5\n" WAIT
                                 "v_accvgpr_read_b32 v9, a4\ns_nop 1\nv_sub_u32 v9, v9, v7\n"
                                 "v_accvgpr_write_b32 a4, v9\nv_cmp_ne_u32 vcc, 0, v9\n"
                                 "s_cbranch_vccnz loop\n"),
           HANDOVER(STORE RAISE, POLL("") LOAD));
    /* A loop whose scalar counts two iterations is no polling loop. A loop whose scalars are masks
     * of waiting lanes is one. */
    expect(HANDOVER(STORE RAISE, "s_mov_b32 s4, 0\nloop:\nds_read_b32 v4, v5\n" WAIT
                                 "s_xor_b32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\n"
                                 "s_cbranch_scc1 loop\n"),
           HANDOVER(STORE RAISE, "s_mov_b64 s[4:5], 0\npoll:\nds_read_b32 v4, v5\n" WAIT
                                 "v_cmp_ne_u32 vcc, 0, v4\ns_or_b64 s[4:5], vcc, s[4:5]\n"
                                 "s_andn2_b64 exec, exec, s[4:5]\ns_cbranch_execnz poll\n"
                                 "s_mov_b64 exec, -1\n" LOAD));
    /* The check treats a load 64 bytes of code after a polling load separately. */
    const struct fault f = run(HANDOVER("s_sleep 20\n" RAISE "s_sleep 20\n" STORE,
                                        ".p2align 6\n" POLL("") ".p2align 6\n" LOAD),
                               CHECK_ALL, 0);
    assert_int_equal(f.kind, FAULT_RACE);
}

TEST(a_lock_orders_waves)
{
#define LOCK                                        \
    "lock:\nds_cmpst_rtn_b32 v4, v5, v6, v7\n" WAIT \
    "v_cmp_ne_u32 vcc, 0, v4\ns_cbranch_vccnz lock\n"
#define ADD "ds_read_b32 v3, v8\n" WAIT "v_add_u32 v3, v3, v7\nds_write_b32 v8, v3\n" WAIT
#define UNLOCK "ds_write_b32 v5, v6\n" WAIT
#define ALONE(text)                                                                        \
    OFFSETS "v_mov_b32 v5, 0x200\nv_mov_b32 v6, 0\nv_mov_b32 v7, 1\nv_mov_b32 v8, 0x204\n" \
            "s_mov_b64 exec, 1\nds_write_b64 v5, v[10:11]\n" WAIT BARRIER text
    static const char zero[] = "v_mov_b32 v10, 0\nv_mov_b32 v11, 0\n";
    char bad[1024], good[1024];
    snprintf(bad, sizeof(bad), "%s" ALONE(LOCK UNLOCK ADD), zero);
    snprintf(good, sizeof(good), "%s" ALONE(LOCK ADD UNLOCK), zero);
    expect(bad, good);
    snprintf(bad, sizeof(bad), "%s" ALONE(ADD), zero);
    snprintf(good, sizeof(good), "%s" ALONE(LOCK ADD "ds_wrxchg_rtn_b32 v4, v5, v6\n" WAIT), zero);
    expect(bad, good);
}

TEST(a_report_names_both_accesses)
{
    struct fault f =
        run(OFFSETS "ds_write_b32 v1, v0\n" WAIT "ds_read_b32 v3, v2\n" WAIT, CHECK_RACE, 0);
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, "data race: load at LDS offset 0x"));
    assert_non_null(strstr(f.text, "writes at entry+"));
    assert_non_null(strstr(f.text, "ds_write_b32"));
    assert_non_null(strstr(f.text, "ds_read_b32"));
    assert_non_null(strstr(f.text, "relies on the order of its waves"));
    assert_non_null(strstr(f.text, "kernel program, workgroup (0, 0, 0), wave "));
    assert_null(strstr(f.text, "of workgroup")); /* both waves are in one */
    f = run(OFFSETS "s_mov_b64 exec, 0x20\nds_write_b32 v1, v0\n" WAIT "ds_read_b32 v3, v2\n" WAIT,
            CHECK_RACE, 0);
    assert_non_null(strstr(f.text, "with no barrier in between"));
    assert_non_null(strstr(f.text, "lanes 0x0000000000000020"));
    f = run(OFFSETS "ds_write_b32 v1, v0\n" BARRIER "ds_read_b32 v3, v2\n" WAIT BARRIER, CHECK_RACE,
            0);
    assert_non_null(strstr(f.text, "without having waited for it before s_barrier"));
}

int main(void) { return run_unit_tests(); }
