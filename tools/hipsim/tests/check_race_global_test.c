/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the race check of global memory. Each kernel with a race has a similar kernel without,
 * which only contains the fix. */
#include <stdio.h>

#include "tools/hipsim/check/check_race_shadow.h"
#include "tools/hipsim/tests/device.h"

/*
 * v1 is the byte offset in s[2:3] of a lane's own dword. v2 is the offset of the same lane in the
 * next wave, v3 in the next workgroup. s4 is the wave's number, s5 the workgroup's. s[8:9] is the
 * address of zeros for atomics.
 */
#define BEGIN                                      \
    "v_mbcnt_lo_u32_b32 v0, -1, 0\n"               \
    "v_mbcnt_hi_u32_b32 v0, -1, v0\n"              \
    "v_lshlrev_b32 v0, 2, v0\n"                    \
    "s_mov_b32 s4, s100\ns_mov_b32 s5, s101\n"     \
    "s_lshl_b32 s6, s4, 8\ns_lshl_b32 s7, s5, 9\n" \
    "s_add_u32 s0, s6, s7\n"                       \
    "v_add_u32 v1, s0, v0\n"                       \
    "v_xor_b32 v2, 0x100, v1\n"                    \
    "v_xor_b32 v3, 0x200, v1\n"                    \
    "v_mov_b32 v10, 0\nv_mov_b32 v11, 1\nv_mov_b32 v12, s0\n"
#define STORE(v) "global_store_dword " v ", v12, s[2:3]\ns_waitcnt vmcnt(0)\n"
#define LOAD(v) "global_load_dword v4, " v ", s[2:3]\ns_waitcnt vmcnt(0)\n"
#define BARRIER "s_barrier\n"
/* One lane of each wave adds 1 and receives the old value in v5. */
#define COUNT                                       \
    "s_mov_b64 s[12:13], exec\ns_mov_b64 exec, 1\n" \
    "global_atomic_add v5, v10, v11, s[8:9] sc0\ns_waitcnt vmcnt(0)\ns_mov_b64 exec, s[12:13]\n"
#define IF_FIRST_WAVE "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 second\n"
#define IF_FIRST_GROUP "s_cmp_lg_u32 s5, 0\ns_cbranch_scc1 second\n"
#define ELSE "s_endpgm\nsecond:\n"

static struct program run(const char *text, uint32_t waves, uint32_t groups, uint32_t checks)
{
    static const uint32_t zeros[16384];
    void *data = device_alloc(sizeof(zeros), zeros), *locations = device_alloc(1024, zeros);
    struct program p = program_new(GFX942);
    p.block = 64 * waves;
    p.groups = groups;
    p.lds_bytes = 1024;
    p.checks = checks;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_s64_set(&p, 8, (uint64_t)(uintptr_t)locations);
    program_try(&p, text);
    hipsim_mem_free(data);
    hipsim_mem_free(locations);
    return p;
}

static void expect(uint32_t waves, uint32_t groups, const char *bad, const char *good)
{
    const uint32_t checks = CHECK_ALL & ~(uint32_t)(CHECK_HAZARD | CHECK_STRICT | CHECK_FENCE);
    struct program p = run(bad, waves, groups, checks);
    if (p.fault.kind != FAULT_RACE)
        fail_msg("no race but \"%s\" in\n%s", p.fault.text, bad);
    p = run(bad, waves, groups, CHECK_MEMORY);
    assert_int_equal(p.fault.kind, FAULT_NONE);
    p = run(good, waves, groups, checks);
    if (p.fault.kind != FAULT_NONE)
        fail_msg("%s\n%s", p.fault.text, good);
}

TEST(waves_of_a_workgroup)
{
    expect(2, 1, BEGIN STORE("v1") LOAD("v2"), BEGIN STORE("v1") BARRIER LOAD("v2"));
    expect(2, 1, BEGIN LOAD("v2") STORE("v1"), BEGIN LOAD("v2") BARRIER STORE("v1"));
    expect(2, 1, BEGIN STORE("v0"), BEGIN STORE("v1"));
    expect(2, 1, BEGIN STORE("v1") BARRIER STORE("v2") LOAD("v1"),
           BEGIN STORE("v1") BARRIER STORE("v2") BARRIER LOAD("v1"));
}

/* Both waves load a dword that only the first wave changes. The loads are harmless while the second
 * wave stores nothing that depends on its load. */
TEST(redundant_waves_may_load)
{
#define FIRST_ADDS                               \
    LOAD("v0")                                   \
    "v_add_u32 v12, 1, v4\ns_cmp_lg_u32 s4, 0\n" \
    "s_cbranch_scc1 spare\n" STORE("v0") "spare:\n"
#define OTHER_LATE "s_cmp_eq_u32 s4, 0\ns_cbranch_scc1 now\ns_sleep 100\nnow:\n"
#define ELSEWHERE "v_add_u32 v5, 0x800, v1\n" STORE("v5")
    expect(2, 1, BEGIN FIRST_ADDS ELSEWHERE, BEGIN FIRST_ADDS);
    expect(2, 1, BEGIN OTHER_LATE FIRST_ADDS ELSEWHERE, BEGIN OTHER_LATE FIRST_ADDS);
    /* The second wave has stored what it loaded before the first wave changes the dword. */
#define FIRST_LATE "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 now\ns_sleep 100\nnow:\n"
    expect(2, 1, BEGIN FIRST_LATE FIRST_ADDS ELSEWHERE, BEGIN FIRST_LATE FIRST_ADDS);
#define TO_LDS(v) "ds_write_b32 v1, " v "\ns_waitcnt lgkmcnt(0)\n"
#define TWICE "s_mov_b32 s14, 2\nagain:\n"
#define AGAIN "s_sub_u32 s14, s14, 1\ns_cmp_lg_u32 s14, 0\ns_cbranch_scc1 again\n"
    expect(2, 1, BEGIN TWICE ELSEWHERE FIRST_ADDS AGAIN, BEGIN ELSEWHERE FIRST_ADDS);
    expect(2, 1, BEGIN TWICE ELSEWHERE OTHER_LATE FIRST_ADDS AGAIN,
           BEGIN ELSEWHERE OTHER_LATE FIRST_ADDS);
    expect(2, 1, BEGIN FIRST_ADDS TO_LDS("v4"), BEGIN FIRST_ADDS TO_LDS("v1"));
}

/* A redundant wave stores a value that depends on its load, or one that does not. */
TEST(redundant_waves_may_store)
{
#define MIX(dst, a, b) "v_mad_u32_u24 " dst ", " a ", " b ", v1\n"
    expect(2, 1, BEGIN FIRST_ADDS MIX("v6", "v4", "v0") MIX("v7", "v0", "v6") TO_LDS("v7"),
           BEGIN FIRST_ADDS MIX("v6", "v4", "v0") MIX("v7", "v0", "v0") TO_LDS("v7"));
    expect(2, 1, BEGIN FIRST_ADDS "v_add_u32 v4, 1, v4\n" TO_LDS("v4"),
           BEGIN FIRST_ADDS "v_mov_b32 v4, 1\n" TO_LDS("v4"));
    expect(2, 1, BEGIN FIRST_ADDS "v_mov_b32_sdwa v4, v0 dst_sel:BYTE_0\n" TO_LDS("v4"),
           BEGIN FIRST_ADDS "v_mov_b32 v4, 1\n" TO_LDS("v4"));
    /* The value is used as a selector or an address, or passes through a scalar register. */
    expect(2, 1,
           BEGIN FIRST_ADDS
           "v_cmp_gt_u32 vcc, v4, v0\nv_cndmask_b32 v6, v0, v1, vcc\n" TO_LDS("v6"),
           BEGIN FIRST_ADDS "v_cmp_gt_u32 vcc, v4, v0\n" TO_LDS("v6"));
    expect(2, 1, BEGIN FIRST_ADDS "v_and_b32 v6, 0, v4\nds_write_b32 v6, v0\n", BEGIN FIRST_ADDS);
    expect(2, 1, BEGIN FIRST_ADDS "v_readfirstlane_b32 s14, v4\nv_mov_b32 v6, s14\n" TO_LDS("v6"),
           BEGIN FIRST_ADDS "v_readfirstlane_b32 s14, v0\nv_mov_b32 v6, s14\n" TO_LDS("v6"));
    /* The value decides whether there is a store, or which lanes store. */
    expect(2, 1,
           BEGIN FIRST_ADDS "v_cmp_gt_u32 vcc, 1, v4\ns_cbranch_vccz off\n" TO_LDS("v1") "off:\n",
           BEGIN FIRST_ADDS "v_cmp_gt_u32 vcc, 1, v0\ns_cbranch_vccz off\n" TO_LDS("v1") "off:\n");
    expect(2, 1,
           BEGIN FIRST_ADDS
           "v_cmp_le_u32 vcc, 0, v4\ns_and_saveexec_b64 s[12:13], vcc\n" TO_LDS("v1"),
           BEGIN FIRST_ADDS
           "v_cmp_le_u32 vcc, 0, v0\ns_and_saveexec_b64 s[12:13], vcc\n" TO_LDS("v1"));
    /* Inactive lanes keep the value while other lanes overwrite it. So do waves that branch over
     * the instruction. */
#define OVERWRITE "v_mov_b32 v4, 1\n"
    expect(2, 1,
           BEGIN FIRST_ADDS "v_cmp_gt_u32 vcc, 8, v0\ns_and_saveexec_b64 s[12:13], vcc\n" OVERWRITE
                            "s_or_b64 exec, exec, s[12:13]\n" TO_LDS("v4"),
           BEGIN FIRST_ADDS "v_cmp_gt_u32 vcc, 8, v0\ns_and_saveexec_b64 s[12:13], vcc\n"
                            "s_or_b64 exec, exec, s[12:13]\n" OVERWRITE TO_LDS("v4"));
    /* M0 selects the register that has the value. */
#define INDEXED                                              \
    "s_mov_b32 s14, 2\ns_set_gpr_idx_on s14, gpr_idx(DST)\n" \
    "v_mov_b32 v6, v4\ns_set_gpr_idx_off\n" TO_LDS("v8")
    expect(2, 1, BEGIN FIRST_ADDS INDEXED, BEGIN FIRST_ADDS OVERWRITE "v_mov_b32 v12, 1\n" INDEXED);
    /* The mode from before the load holds after it: OVERWRITE names v4 and writes v6. */
#define REGION_ADDS(after)                                                             \
    "s_mov_b32 s14, 2\ns_set_gpr_idx_on s14, gpr_idx(DST)\n" LOAD("v0") after          \
        "s_set_gpr_idx_off\nv_add_u32 v12, 1, v4\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 " \
        "spare\n" STORE("v0") "spare:\n"
    expect(2, 1, BEGIN REGION_ADDS(OVERWRITE) TO_LDS("v4"),
           BEGIN REGION_ADDS("") OVERWRITE TO_LDS("v4"));
    expect(2, 1, BEGIN FIRST_ADDS "s_cbranch_scc1 on\n" OVERWRITE "on:\n" TO_LDS("v4"),
           BEGIN FIRST_ADDS "s_cbranch_scc1 on\non:\n" OVERWRITE TO_LDS("v4"));
    /* A loop accumulates loaded values, and stores the sum after it or in the next iteration. */
#define SUM "v_mov_b32 v7, 0\n" TWICE
#define ADDS(v) "v_add_u32 v7, v7, " v "\n"
    expect(2, 1, BEGIN SUM FIRST_ADDS ADDS("v4") AGAIN TO_LDS("v7"),
           BEGIN SUM FIRST_ADDS ADDS("v0") AGAIN TO_LDS("v7"));
    expect(2, 1, BEGIN SUM TO_LDS("v7") FIRST_ADDS ADDS("v4") AGAIN,
           BEGIN SUM TO_LDS("v7") FIRST_ADDS ADDS("v0") AGAIN);
}

/* The check still detects a race on the first dword after thousands of others. */
TEST(old_accesses_are_remembered)
{
#define MANY                                                                           \
    "s_mov_b32 s14, 48\nv_mov_b32 v6, v1\nmore:\nglobal_store_dword v6, v12, s[2:3]\n" \
    "v_add_u32 v6, 0x400, v6\ns_sub_u32 s14, s14, 1\ns_cmp_lg_u32 s14, 0\n"            \
    "s_cbranch_scc1 more\ns_waitcnt vmcnt(0)\n"
    expect(2, 1, BEGIN MANY LOAD("v2"), BEGIN MANY BARRIER LOAD("v2"));
}

TEST(workgroups)
{
    expect(1, 2, BEGIN STORE("v0"), BEGIN STORE("v1"));
    expect(1, 2, BEGIN STORE("v1") LOAD("v3"), BEGIN STORE("v1") LOAD("v1"));
    expect(1, 2, BEGIN LOAD("v3") STORE("v1"), BEGIN LOAD("v1") STORE("v1"));
    /* A barrier orders nothing between workgroups. */
    expect(2, 2, BEGIN STORE("v1") BARRIER LOAD("v3"), BEGIN STORE("v1") BARRIER LOAD("v2"));
    /* Stores of equal values are harmless. */
    expect(2, 3, BEGIN "v_mov_b32 v12, s5\n" STORE("v0"), BEGIN "v_mov_b32 v12, v0\n" STORE("v0"));
    /* Stores of the value that was loaded are harmless, and so are loads of it. */
    expect(1, 2, BEGIN LOAD("v0") "v_add_u32 v12, 1, v4\n" STORE("v0"),
           BEGIN LOAD("v0") "v_mov_b32 v12, v4\n" STORE("v0"));
    expect(1, 2,
           BEGIN LOAD("v0") "v_mov_b32 v12, v4\n" STORE("v0") "v_mov_b32 v12, 1\n" STORE("v3"),
           BEGIN LOAD("v0") "v_mov_b32 v12, v4\n" STORE("v0") STORE("v0"));
    /* The check remembers that a workgroup has read data of another workgroup, even if the storing
     * wave itself reads the data later. */
    expect(1, 3, BEGIN LOAD("v0") "s_cmp_lg_u32 s5, 2\ns_cbranch_scc1 out\n" STORE("v0") "out:\n",
           BEGIN LOAD("v0") "s_cmp_lg_u32 s5, 2\ns_cbranch_scc1 out\n" STORE("v1") "out:\n");
}

TEST(atomics_race_with_plain_accesses)
{
#define ADD "global_atomic_add v0, v11, s[2:3]\ns_waitcnt vmcnt(0)\n"
    expect(1, 2, BEGIN IF_FIRST_GROUP ADD ELSE STORE("v0"), BEGIN IF_FIRST_GROUP ADD ELSE ADD);
    expect(1, 2, BEGIN IF_FIRST_GROUP ADD ELSE LOAD("v0"), BEGIN IF_FIRST_GROUP ADD ELSE ADD);
    expect(2, 1, BEGIN ADD LOAD("v0"), BEGIN ADD BARRIER LOAD("v0"));
    /* Code of Clang for an atomic that the hardware lacks. */
#define SWAP(compare) \
    BEGIN LOAD("v0") "v_mov_b32 v7, v4\nv_add_u32 v6, 1, v4\n" compare "s_waitcnt vmcnt(0)"
    expect(1, 2, SWAP("global_atomic_add v0, v6, s[2:3]\n"),
           SWAP("global_atomic_cmpswap v5, v0, v[6:7], s[2:3] sc0\n"));
}

/* The workgroup that counts last reads the data that the others stored before they counted. */
TEST(the_last_workgroup_is_ordered)
{
#define LAST "v_readfirstlane_b32 s6, v5\ns_cmp_lg_u32 s6, 2\ns_cbranch_scc1 out\n"
    expect(1, 3, BEGIN COUNT STORE("v1") LAST LOAD("v0") "out:\n",
           BEGIN STORE("v1") COUNT LAST LOAD("v0") "out:\n");
    /* All waves must store before one of them counts, and all must wait for the count before they
     * load. */
#define FIRST_WAVE "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 over\n"
#define FIRST_COUNTS FIRST_WAVE COUNT "over:\n"
#define LOAD_OTHER "v_xor_b32 v3, 0x600, v1\n" LOAD("v3")
#define LAST_GROUP(load) "s_cmp_lg_u32 s5, 2\ns_cbranch_scc1 out\n" load "out:\n"
    expect(2, 3, BEGIN STORE("v1") FIRST_COUNTS BARRIER LAST_GROUP(LOAD_OTHER),
           BEGIN STORE("v1") BARRIER FIRST_COUNTS BARRIER LAST_GROUP(LOAD_OTHER));
    expect(2, 3, BEGIN STORE("v1") BARRIER FIRST_COUNTS LAST_GROUP(LOAD_OTHER),
           BEGIN STORE("v1") BARRIER FIRST_COUNTS BARRIER LAST_GROUP(LOAD_OTHER));
}

/* An atomic orders only what was released before it, even if its own release includes nothing. */
TEST(later_releases_are_not_ordered)
{
#define FIRST_STORES IF_FIRST_WAVE "s_sleep 50\n" STORE("v1") COUNT ELSE
    expect(2, 1, BEGIN FIRST_STORES COUNT "s_sleep 127\n" LOAD("v2"),
           BEGIN FIRST_STORES COUNT "s_sleep 127\n" COUNT LOAD("v2"));
}

/* Tests a flag that is stored and polled with agent scope. A plain flag is itself a race. */
TEST(flags)
{
#define RAISE(scope) \
    STORE("v1") "global_store_dword v10, v11, s[8:9]" scope "\ns_waitcnt vmcnt(0)\n"
#define AWAIT(scope) "global_load_dword v5, v10, s[8:9]" scope "\ns_waitcnt vmcnt(0)\n" LOAD("v3")
    expect(1, 2, BEGIN IF_FIRST_GROUP RAISE("") ELSE AWAIT(""),
           BEGIN IF_FIRST_GROUP RAISE(" sc1") ELSE AWAIT(" sc1"));
    /* The flag only orders accesses of its wave that come before it. */
    expect(1, 2, BEGIN IF_FIRST_GROUP RAISE(" sc1") STORE("v0") ELSE AWAIT(" sc1") STORE("v0"),
           BEGIN IF_FIRST_GROUP STORE("v0") RAISE(" sc1") ELSE AWAIT(" sc1") STORE("v0"));
}

/* Within a workgroup, an LDS atomic or a flag of workgroup scope (sc0) suffices. */
TEST(lds_atomics_and_flags_order_waves)
{
#define AWAIT_LDS                                                \
    "poll:\nds_add_rtn_u32 v5, v10, v10\ns_waitcnt lgkmcnt(0)\n" \
    "v_cmp_eq_u32 vcc, 0, v5\ns_cbranch_vccnz poll\n"
#define COUNT_LDS "ds_add_u32 v10, v11\ns_waitcnt lgkmcnt(0)\n"
#define BEGIN_LDS BEGIN "ds_write_b32 v10, v10\ns_waitcnt lgkmcnt(0)\n" BARRIER IF_FIRST_WAVE
    expect(2, 1, BEGIN_LDS COUNT_LDS STORE("v1") ELSE AWAIT_LDS LOAD("v2"),
           BEGIN_LDS STORE("v1") COUNT_LDS ELSE AWAIT_LDS LOAD("v2"));
    /* A flag does not order loads after it. */
    expect(2, 1, BEGIN_LDS COUNT_LDS LOAD("v1") ELSE AWAIT_LDS STORE("v2"),
           BEGIN_LDS LOAD("v1") COUNT_LDS ELSE AWAIT_LDS STORE("v2"));
#define AWAIT_FLAG(scope)                            \
    "poll:\nglobal_load_dword v5, v10, s[8:9]" scope \
    "\ns_waitcnt vmcnt(0)\nv_cmp_eq_u32 vcc, 0, v5\ns_cbranch_vccnz poll\n"
    expect(2, 1, BEGIN IF_FIRST_WAVE RAISE("") ELSE AWAIT_FLAG("") LOAD("v2"),
           BEGIN IF_FIRST_WAVE RAISE(" sc0") ELSE AWAIT_FLAG(" sc0") LOAD("v2"));
    /* Between workgroups, workgroup scope does not suffice. */
    expect(1, 2, BEGIN IF_FIRST_GROUP RAISE(" sc0") ELSE AWAIT(" sc0"),
           BEGIN IF_FIRST_GROUP RAISE(" sc1") ELSE AWAIT(" sc1"));
}

TEST(bytes_of_a_dword_are_checked_separately)
{
#define BYTE(shift)                                                                      \
    BEGIN "s_lshl_b32 s6, s5, " shift "\nv_add_u32 v6, s6, v0\n"                         \
          "v_add_u32 v7, 1, v12\nglobal_store_byte v6, v7, s[2:3]\ns_waitcnt vmcnt(0)\n" \
          "global_load_ubyte v4, v6, s[2:3]\ns_waitcnt vmcnt(0)\n"
    expect(1, 2,
           BEGIN "s_lshr_b32 s6, s5, 1\nv_add_u32 v6, s6, v0\nv_add_u32 v7, s5, v11\n"
                 "global_store_byte v6, v7, s[2:3]\ns_waitcnt vmcnt(0)\n",
           BYTE("0"));
    /* Two workgroups that access parts of a granule have no race. A third workgroup that accesses
     * both parts has one. */
    expect(1, 3,
           BEGIN "s_cmp_eq_u32 s5, 2\ns_cbranch_scc1 all\ns_lshl_b32 s6, s5, 1\n"
                 "v_add_u32 v6, s6, v0\nglobal_store_short v6, v11, s[2:3]\ns_endpgm\n"
                 "all:\n" LOAD("v0"),
           BEGIN "s_cmp_eq_u32 s5, 2\ns_cbranch_scc1 all\ns_lshl_b32 s6, s5, 1\n"
                 "v_add_u32 v6, s6, v0\nglobal_store_short v6, v11, s[2:3]\ns_endpgm\n"
                 "all:\n" LOAD("v1"));
}

/* Two waves load the first dword of 16 bytes. One wave also loads the second dword, and no other
 * wave stores to that dword. The other wave stores elsewhere, so that its loads count. */
TEST(a_wave_may_store_to_a_dword_that_only_it_loads)
{
#define ONE_LATE                                                                               \
    BEGIN "s_mov_b64 exec, 1\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 late\n" LOAD("v10") ELSEWHERE \
        "s_endpgm\nlate:\ns_sleep 100\n"
#define SECOND(op) "global_" op ", s[2:3] offset:4\ns_waitcnt vmcnt(0)\n"
    expect(2, 1, ONE_LATE STORE("v10"),
           ONE_LATE LOAD("v10") SECOND("load_dword v4, v10") SECOND("store_dword v10, v12"));
}

TEST(scalar_loads_are_loads)
{
    expect(1, 2, BEGIN IF_FIRST_GROUP STORE("v1") ELSE "s_load_dword s6, s[2:3], 0x10\n",
           BEGIN IF_FIRST_GROUP STORE("v1") ELSE "s_load_dword s6, s[2:3], 0x210\n");
}

TEST(a_report_names_both_accesses)
{
    struct program p = run(BEGIN IF_FIRST_GROUP STORE("v1") ELSE LOAD("v3"), 1, 2, CHECK_RACE);
    assert_int_equal(p.fault.kind, FAULT_RACE);
    assert_non_null(strstr(p.fault.text, "data race: load at address 0x"));
    assert_non_null(strstr(p.fault.text, "which wave 0 of workgroup (0, 0, 0) writes at entry+"));
    assert_non_null(strstr(p.fault.text, "global_store_dword"));
    assert_non_null(strstr(p.fault.text, "relies on the order of its workgroups"));
    assert_non_null(strstr(p.fault.text, "0 bytes into the 65536 B allocation #"));
    assert_non_null(strstr(p.fault.text, "kernel program, workgroup (1, 0, 0), wave 0"));
    p = run(BEGIN IF_FIRST_GROUP STORE("v1") ELSE "s_mov_b64 exec, 0x30\n" LOAD("v3"), 1, 2,
            CHECK_RACE);
    assert_non_null(strstr(p.fault.text, "16 bytes into the 65536 B allocation #"));
    assert_non_null(strstr(p.fault.text, "lanes 0x0000000000000010"));
    p = run(BEGIN "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 second\n" STORE("v1") ELSE LOAD("v2"), 2, 1,
            CHECK_RACE);
    assert_null(strstr(p.fault.text, "of workgroup")); /* both waves are in one */
}

/* A wave loads twice and later stores the sum. The report of each load is about that load and names
 * the storing wave. */
TEST(reports_of_redundant_loads_name_both_accesses)
{
    struct program p = program_new(GFX942);
    void *data = device_alloc(16384, NULL);
    p.block = 128;
    p.checks = CHECK_RACE;
    p.keep_going = CHECK_RACE;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_try(
        &p, BEGIN LOAD("v0") "global_load_ushort v6, v0, s[2:3] offset:1024\n"
                             "s_waitcnt vmcnt(0)\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 spare\n"
                             "v_mov_b32 v12, 7\nglobal_store_dword v0, v12, s[2:3]\n"
                             "global_store_short v0, v12, s[2:3] offset:1024\ns_waitcnt vmcnt(0)\n"
                             "s_endpgm\nspare:\ns_sleep 100\nv_add_u32 v12, v4, v6\n" ELSEWHERE);
    hipsim_mem_free(data);
    assert_int_equal(p.places, 2);
    for (unsigned i = 0; i < p.places; i++) {
        const bool first = strstr(p.found[i].text, "global_store_dword") != NULL;
        assert_int_equal(p.found[i].kind, FAULT_RACE);
        assert_non_null(strstr(p.found[i].text, "data race: load at address 0x"));
        assert_non_null(strstr(p.found[i].text, ", which wave 0 writes at entry+"));
        assert_non_null(
            strstr(p.found[i].text, first ? "global_load_dword" : "global_load_ushort"));
        assert_non_null(strstr(p.found[i].text, "workgroup (0, 0, 0), wave 1"));
    }
    assert_string_not_equal(p.found[0].text, p.found[1].text);
}

/* Three workgroups share 16 bytes. The report names the first byte that another workgroup wrote. */
TEST(a_report_names_who_wrote_the_byte)
{
    struct program p = run(BEGIN "s_cmp_eq_u32 s5, 2\ns_cbranch_scc1 all\ns_lshl_b32 s6, s5, 2\n"
                                 "s_add_u32 s6, s6, 4\nv_mov_b32 v6, s6\nv_mov_b32 v7, s6\n"
                                 "global_store_dword v6, v7, s[2:3]\ns_endpgm\n"
                                 "all:\nv_lshlrev_b32 v6, 2, v0\n"
                                 "global_load_dwordx4 v[12:15], v6, s[2:3]",
                           1, 3, CHECK_RACE);
    assert_int_equal(p.fault.kind, FAULT_RACE);
    assert_non_null(strstr(p.fault.text, "which wave 0 of workgroup (0, 0, 0) writes"));
    assert_non_null(strstr(p.fault.text, "4 bytes into the 65536 B allocation #"));
}

/* Two lanes of the last workgroup store to 16 bytes each: the first the value that is there, the
 * second another one. The report names who wrote the bytes of the second. */
TEST(a_report_names_the_writer_of_its_lane)
{
    struct program p = run(BEGIN "s_lshl_b32 s6, s5, 4\nv_mov_b32 v6, s6\nv_mov_b32 v7, s6\n"
                                 "s_mov_b64 exec, 1\ns_cmp_lg_u32 s5, 2\ns_cbranch_scc1 one\n"
                                 "s_mov_b64 exec, 3\nv_lshlrev_b32 v6, 2, v0\nv_mov_b32 v7, 0\n"
                                 "one:\nglobal_store_dword v6, v7, s[2:3]\n",
                           1, 3, CHECK_RACE);
    assert_int_equal(p.fault.kind, FAULT_RACE);
    assert_non_null(strstr(p.fault.text, "which wave 0 of workgroup (1, 0, 0) writes"));
    assert_non_null(strstr(p.fault.text, "16 bytes into the 65536 B allocation #"));
}

static void *pages_alloc(int pages) { return device_alloc(((size_t)pages + 64) * 4096, NULL); }

/* Stores one dword to each of `pages` pages, a multiple of 64. True if some of the pages were not
 * tracked. */
static bool store_pages(void *data, int pages)
{
    char text[1000];
    struct program p = program_new(GFX942);
    p.block = 128;
    p.checks = CHECK_RACE;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    snprintf(text, sizeof(text),
             BEGIN "v_lshlrev_b32 v6, 10, v0\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 out\n"
                   "s_movk_i32 s14, %d\nmore:\nglobal_store_dword v6, v12, s[2:3]\n"
                   "v_add_u32 v6, 0x40000, v6\ns_sub_u32 s14, s14, 1\ns_cmp_lg_u32 s14, 0\n"
                   "s_cbranch_scc1 more\ns_waitcnt vmcnt(0)\nout:\n",
             pages / 64);
    program_try(&p, text);
    assert_int_equal(p.fault.kind, FAULT_NONE);
    return p.race_incomplete;
}

/* 70,000 pages exceed the limit, and a report states that. A later launch is checked normally. */
TEST(pages_beyond_the_limit_are_not_checked)
{
    enum { PAGES = 70016 };
    void *data = pages_alloc(PAGES);
    assert_true(store_pages(data, PAGES));
    hipsim_mem_free(data);
    const struct program p = run(BEGIN STORE("v0"), 1, 2, CHECK_RACE);
    assert_int_equal(p.fault.kind, FAULT_RACE);
    assert_false(p.race_incomplete);
}

/* A launch that accesses 192 MiB is tracked completely, regardless of the pages of the launch
 * before. */
TEST(earlier_launches_take_no_room)
{
    static const int before[] = {16320, 20032};
    enum { PAGES = 49152 - 64 };
    void *data = pages_alloc(PAGES);
    for (int i = 0; i < 2; i++) {
        void *elsewhere = pages_alloc(before[i]);
        assert_false(store_pages(elsewhere, before[i]));
        assert_false(store_pages(data, PAGES));
        hipsim_mem_free(elsewhere);
    }
    hipsim_mem_free(data);
}

/* Copies a page of the record to *ctx. */
static void keep_page(void *ctx, const struct race_page *page) { *(struct race_page *)ctx = *page; }

/* The record has no cells left for a split. It is incomplete, but has the bytes from before it. */
TEST(a_cell_whose_split_fails_keeps_its_bytes)
{
    struct race_page page = {0};
    struct race_shadow *const s = race_shadow_begin();
    assert_non_null(s);
    struct cell *const c = race_shadow_cells(s, race_shadow_page(s, 7));
    c->writer = c->reader = 1;
    c->written = 0xff, c->read = 0xf000;
    s->splits_used = SPLITS_MAX;
    assert_false(race_shadow_split(s, c, RACE_GRANULE));
    race_shadow_walk(s, keep_page, &page);
    assert_int_equal(page.address, 7 * RACE_PAGE);
    assert_int_equal(page.written[0], 0xff);
    assert_int_equal(page.read[0], 0xf000);
    assert_true(race_shadow_end(s));
}

int main(void) { return run_unit_tests(); }
