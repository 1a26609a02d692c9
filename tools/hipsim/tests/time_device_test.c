/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests timed launches whose workgroups wait for each other or claim work, and grids in which few
 * workgroups do all the work. In these grids the modelled time has to equal the time with every
 * workgroup timed.
 */
#include "tools/hipsim/tests/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/core/memory.h"
#include "tools/hipsim/time/time_device.h"
#include "tools/hipsim/time/time_launch.h"

#define WORDS 16384

struct run {
    struct hipsim_time_report report;
    uint32_t *words;
    struct counters counters;
    struct fault fault;
    bool communicates;
    int error;
};

/* Clocks to start a workgroup that has all registers of a compute unit; 0: the target's. */
static double start_clocks;

/* HBM bandwidth in GB/s. 0: the table's value. */
static double hbm_gb_per_s;

/* Clocks between two starts of workgroups on an XCD. 0: the table's value. */
static double dispatch_clocks;

/* True: the device has one compute unit in each of 8 XCDs, with slots for four workgroups. */
static bool small;

/* Runs workgroups of one wave. s[0:1] is the address of WORDS words of zeros, s2 the workgroup's
 * number. */
static struct run run(const char *text, uint32_t groups, bool cooperative, uint32_t samples)
{
    struct run r = {.words = calloc(WORDS, sizeof(uint32_t))};
    size_t bytes;
    void *machine = assemble(GFX942, text, &bytes);
    struct code *code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    struct hipsim_mem_request request = {.size = WORDS * 4, .kind = HIPSIM_MEM_DEVICE};
    uint32_t *words = hipsim_mem_alloc(&request);
    assert_true(r.words && code && words);
    memset(words, 0, WORDS * 4);
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code),
        .grid = {groups * 64, 1, 1},
        .block = {64, 1, 1},
        .nvgpr = 16,
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {true, false, false},
        .budget = 10000000,
        .cooperative = cooperative,
    };
    memcpy(launch.user_sgpr, &words, sizeof(words));
    struct time_config config = {.params = time_params_default(GFX942), .samples = samples};
    if (start_clocks)
        config.params.workgroup_cycles = start_clocks;
    if (hbm_gb_per_s > 0)
        config.params.hbm_gb_per_s = hbm_gb_per_s;
    if (dispatch_clocks > 0)
        config.params.dispatch_cycles = dispatch_clocks;
    if (small) {
        config.params.cus = 8;
        config.params.wave_slots = 1;
    }
    r.communicates = time_code_communicates(code, 0);
    r.error = time_launch_run(&launch, &config, &r.report);
    memcpy(r.words, words, WORDS * 4);
    r.counters = launch.counters;
    r.fault = launch.fault;
    launch_forget_findings(&launch);
    hipsim_mem_free(words);
    code_destroy(code);
    free(machine);
    return r;
}

/* Runs workgroups of one wave on gfx1250 in modelled time. A cluster has `cluster` workgroups, and
 * its barrier takes `barrier` clocks. */
static struct run run_clusters(const char *text, uint32_t groups, uint32_t cluster, double barrier)
{
    struct run r = {.words = calloc(WORDS, sizeof(uint32_t))};
    size_t bytes;
    void *machine = assemble(GFX1250, text, &bytes);
    struct code *code = code_create(GFX1250, machine, bytes, (uint64_t)(uintptr_t)machine);
    struct hipsim_mem_request request = {.size = WORDS * 4, .kind = HIPSIM_MEM_DEVICE};
    uint32_t *words = hipsim_mem_alloc(&request);
    assert_true(r.words && code && words);
    memset(words, 0, WORDS * 4);
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code),
        .grid = {groups * 32, 1, 1},
        .block = {32, 1, 1},
        .cluster = {cluster, 1, 1},
        .lds_bytes = 4096,
        .nvgpr = 16,
        .nuser_sgpr = 2,
        .budget = 10000000,
    };
    memcpy(launch.user_sgpr, &words, sizeof(words));
    struct time_config config = {.params = time_params_default(GFX1250), .samples = 1};
    config.params.cluster_barrier_cycles = barrier;
    r.error = time_launch_run(&launch, &config, &r.report);
    memcpy(r.words, words, WORDS * 4);
    r.counters = launch.counters;
    r.fault = launch.fault;
    launch_forget_findings(&launch);
    hipsim_mem_free(words);
    code_destroy(code);
    free(machine);
    return r;
}

static void fine(const struct run *r)
{
    if (r->error)
        fail_msg("%s", r->fault.text);
}

#define ZERO "v_mov_b32 v1, 0\nv_mov_b32 v2, 1\n"

/* All workgroups but the last poll a flag. The last one counts to 500 and sets it. */
static const char *const flag = ZERO "s_cmp_eq_u32 s2, 29\n"
                                     "s_cbranch_scc1 2f\n"
                                     "1: s_sleep 1\n"
                                     "global_load_dword v3, v1, s[0:1] sc1\n"
                                     "s_waitcnt vmcnt(0)\n"
                                     "v_readfirstlane_b32 s4, v3\n"
                                     "s_cmp_eq_u32 s4, 0\n"
                                     "s_cbranch_scc1 1b\n"
                                     "s_endpgm\n"
                                     "2: s_movk_i32 s4, 500\n"
                                     "3: s_sub_u32 s4, s4, 1\n"
                                     "s_cmp_lg_u32 s4, 0\n"
                                     "s_cbranch_scc1 3b\n"
                                     "global_store_dword v1, v2, s[0:1] sc1\n"
                                     "s_endpgm\n";

TEST(waiting_for_a_flag_takes_time)
{
    struct run a = run(flag, 30, false, 0), b = run(flag, 30, false, 0);
    fine(&a);
    assert_true(a.communicates && a.report.together && a.report.complete);
    assert_int_equal(a.words[0], 1);
    assert_int_equal(a.counters.workgroups, 30);
    /* 500 rounds of 4 + 4 + 16 clocks, then a few polls after the store. */
    assert_true(a.report.cycles > 500 * 24 && a.report.cycles < 500 * 24 + 4000);
    assert_true(a.report.stall_cycles[HIPSIM_STALL_SLEEP] > 0 &&
                a.report.stall_cycles[HIPSIM_STALL_WAIT_VMEM] > 0);
    assert_memory_equal(&a.report, &b.report, sizeof(a.report));
    free(a.words);
    free(b.words);
}

/* Tests the same flag with scalar loads that bypass the scalar cache, as in split-K products. */
TEST(scalar_loads_may_wait_for_a_flag)
{
    static const char *const text = ZERO "s_cmp_eq_u32 s2, 29\n"
                                         "s_cbranch_scc1 2f\n"
                                         "1: s_sleep 1\n"
                                         "s_load_dword s4, s[0:1], 0x0 glc\n"
                                         "s_waitcnt lgkmcnt(0)\n"
                                         "s_cmp_eq_u32 s4, 0\n"
                                         "s_cbranch_scc1 1b\n"
                                         "s_endpgm\n"
                                         "2: s_sleep 100\n"
                                         "global_store_dword v1, v2, s[0:1] sc1\n"
                                         "s_endpgm\n";
    struct run a = run(text, 30, false, 0);
    fine(&a);
    assert_true(a.communicates && a.report.together && a.report.complete);
    assert_int_equal(a.words[0], 1);
    free(a.words);
}

/* Only loops count as waits for other workgroups. A load before a loop is an ordinary load. */
TEST(communication_is_in_loops)
{
#define BEGIN                                     \
    ZERO "global_load_dword v3, v1, s[0:1] sc1\n" \
         "global_load_dword v4, v1, s[0:1] sc1\n" \
         "s_movk_i32 s4, 3\n"                     \
         "1: s_sub_u32 s4, s4, 1\n"
#define END                \
    "s_waitcnt vmcnt(0)\n" \
    "s_cmp_lg_u32 s4, 0\n" \
    "s_cbranch_scc1 1b\n"  \
    "s_endpgm\n"
    (void)state;
    struct run once = run(BEGIN END, 2, false, 0);
    struct run polls = run(BEGIN "global_load_dword v5, v1, s[0:1] sc1\n" END, 2, false, 0);
    fine(&once);
    fine(&polls);
    assert_false(once.communicates);
    assert_true(polls.communicates);
    free(once.words);
    free(polls.words);
#undef BEGIN
#undef END
}

/* The write-back of stored data comes after the start-up time. */
TEST(stores_drain_after_the_start)
{
    static const char *const store = "v_lshlrev_b32 v1, 2, v0\n"
                                     "s_lshl_b32 s4, s2, 8\n"
                                     "v_add_u32 v1, s4, v1\n"
                                     "global_store_dword v1, v1, s[0:1]\n"
                                     "s_endpgm\n";
    double cycles[2];
    (void)state;
    hbm_gb_per_s = 1; /* more than 4,000 clocks for the 2 KB of 8 workgroups */
    for (unsigned i = 0; i < 2; i++) {
        start_clocks = i ? 128001 : 1; /* workgroups have 1 / 128 of the registers: 1,000 clocks */
        struct run r = run(store, 8, false, 0);
        fine(&r);
        assert_true(r.report.together);
        cycles[i] = r.report.cycles;
        free(r.words);
    }
    start_clocks = hbm_gb_per_s = 0;
    assert_true(cycles[0] > 4000 && cycles[0] < 6000);
    assert_float_equal(cycles[1] - cycles[0], 1000, 1);
}

/* Workgroup n counts to 10 n, all workgroups synchronise, then each counts to 100. */
static const char *const meeting = "v_mov_b32 v2, 39\n"
                                   "s_mov_b32 m0, 0\n"
                                   "s_mul_i32 s4, s2, 10\n"
                                   "s_add_u32 s4, s4, 1\n"
                                   "1: s_sub_u32 s4, s4, 1\n"
                                   "s_cmp_lg_u32 s4, 0\n"
                                   "s_cbranch_scc1 1b\n"
                                   "ds_gws_barrier v2 gds\n"
                                   "s_waitcnt lgkmcnt(0)\n"
                                   "s_movk_i32 s4, 100\n"
                                   "2: s_sub_u32 s4, s4, 1\n"
                                   "s_cmp_lg_u32 s4, 0\n"
                                   "s_cbranch_scc1 2b\n"
                                   "s_endpgm\n";

TEST(barriers_of_the_grid_take_time)
{
    const struct time_params p = time_params_default(GFX942);
    struct run r = run(meeting, 40, true, 0);
    fine(&r);
    assert_true(r.report.together);
    const double least = (390 + 100) * 24 + p.grid_barrier_cycles;
    assert_true(r.report.cycles > least && r.report.cycles < least + 1500);
    /* On average, the others wait for half of the last workgroup's time. */
    assert_true(r.report.stall_cycles[HIPSIM_STALL_BARRIER] > 39 * 195 * 24);
    free(r.words);
}

TEST(barriers_that_cannot_open_are_reported)
{
    char text[2048];
    snprintf(text, sizeof(text), "s_cmp_eq_u32 s2, 3\ns_cbranch_scc1 9f\n%s9: s_endpgm\n", meeting);
    struct run r = run(text, 40, true, 0);
    assert_int_equal(r.error, -1);
    assert_int_equal(r.fault.kind, FAULT_DEADLOCK);
    assert_non_null(strstr(r.fault.text, "barrier of the grid"));
    free(r.words);
}

/* Workgroups take tickets until 2,000 are taken. For ticket n, a workgroup counts to 50 and records
 * its number. */
static const char *const tickets = ZERO "s_movk_i32 s5, 2000\n"
                                        "s_mov_b64 s[6:7], exec\n"
                                        "1: s_mov_b64 exec, 1\n"
                                        "global_atomic_add v3, v1, v2, s[0:1] sc0\n"
                                        "s_waitcnt vmcnt(0)\n"
                                        "v_readfirstlane_b32 s4, v3\n"
                                        "s_cmp_ge_u32 s4, s5\n"
                                        "s_cbranch_scc1 3f\n"
                                        "s_movk_i32 s8, 50\n"
                                        "2: s_sub_u32 s8, s8, 1\n"
                                        "s_cmp_lg_u32 s8, 0\n"
                                        "s_cbranch_scc1 2b\n"
                                        "s_add_u32 s4, s4, 1\n"
                                        "s_lshl_b32 s4, s4, 2\n"
                                        "v_mov_b32 v4, s4\n"
                                        "s_add_u32 s9, s2, 1\n"
                                        "v_mov_b32 v5, s9\n"
                                        "global_store_dword v4, v5, s[0:1]\n"
                                        "s_branch 1b\n"
                                        "3: s_endpgm\n";

TEST(claimed_work_is_shared_evenly)
{
    struct run r = run(tickets, 100, false, 0);
    uint32_t done[100] = {0}, most = 0;
    fine(&r);
    assert_true(r.report.together);
    for (uint32_t i = 1; i <= 2000; i++) {
        assert_true(r.words[i] >= 1 && r.words[i] <= 100);
        done[r.words[i] - 1]++;
    }
    for (uint32_t i = 0; i < 100; i++)
        most = done[i] > most ? done[i] : most;
    assert_true(most <= 22); /* 20 for each if evenly distributed */
    assert_true(r.report.cycles > 20 * 50 * 24);
    free(r.words);
}

/* Counts s4 down to 0, then stores the workgroup's number. */
#define COUNT_AND_STORE                   \
    "2: s_sub_u32 s4, s4, 1\n"            \
    "s_cmp_lg_u32 s4, 0\n"                \
    "s_cbranch_scc1 2b\n"                 \
    "s_lshl_b32 s4, s2, 2\n"              \
    "v_mov_b32 v4, s4\n"                  \
    "global_store_dword v4, v2, s[0:1]\n" \
    "3: s_endpgm\n"

/* Workgroups with numbers below s5 count to 300 and store. The others end at once. */
static const char *const few = ZERO "s_movk_i32 s5, 100\n"
                                    "s_cmp_ge_u32 s2, s5\n"
                                    "s_cbranch_scc1 3f\n"
                                    "s_movk_i32 s4, 300\n" COUNT_AND_STORE;

/* The last workgroups take longest, and the first 900 do nothing. */
static const char *const tail = ZERO "s_movk_i32 s5, 900\n"
                                     "s_cmp_lt_u32 s2, s5\n"
                                     "s_cbranch_scc1 3f\n"
                                     "s_sub_u32 s4, s2, s5\n"
                                     "s_add_u32 s4, s4, 20\n" COUNT_AND_STORE;

TEST(grids_of_mostly_idle_workgroups_are_timed_right)
{
    const char *const programs[] = {few, tail};
    for (unsigned i = 0; i < 2; i++) {
        struct run some = run(programs[i], 1000, false, 0);
        struct run all = run(programs[i], 1000, false, 1000);
        fine(&some);
        fine(&all);
        assert_true(!some.communicates && !some.report.together && some.report.sampled < 500);
        assert_true(all.report.together && all.report.sampled == 1000);
        const double error = some.report.cycles / all.report.cycles - 1;
        print_message("%.0f cycles from samples, %.0f from all\n", some.report.cycles,
                      all.report.cycles);
        assert_true(error > -0.2 && error < 0.2);
        assert_memory_equal(some.words, all.words, WORDS * 4);
        assert_int_equal(some.counters.instructions, all.counters.instructions);
        free(some.words);
        free(all.words);
    }
}

/* The start-up of a workgroup that stores nothing takes a small part of another's. */
TEST(idle_workgroups_start_for_less)
{
    start_clocks = 1e6; /* workgroups have 16 of 512 registers of one of 4 SIMDs: 7,812 clocks */
    for (unsigned together = 0; together < 2; together++) {
        const uint32_t groups = together ? 4 : 64, samples = together ? 8 : 2;
        struct run idle = run("v_mov_b32 v1, 0\ns_endpgm\n", groups, false, samples);
        struct run busy = run("v_mov_b32 v1, 0\nglobal_store_dword v1, v1, s[0:1]\ns_endpgm\n",
                              groups, false, samples);
        fine(&idle);
        fine(&busy);
        assert_true(idle.report.together == together && busy.report.together == together);
        if (idle.report.cycles < 200 || idle.report.cycles > 2000)
            fail_msg("%f %d", idle.report.cycles, together);
        assert_true(busy.report.cycles > 7812);
        free(idle.words);
        free(busy.words);
    }
    start_clocks = 0;
}

/* 64 workgroups on 8 XCDs: an XCD's last workgroup begins after its seven others were
 * dispatched. */
TEST(workgroups_of_an_xcd_are_dispatched_one_by_one)
{
    for (unsigned together = 0; together < 2; together++) {
        double cycles[2];
        for (unsigned i = 0; i < 2; i++) {
            dispatch_clocks = i ? 5001 : 1;
            struct run r = run("v_mov_b32 v1, 0\nglobal_store_dword v1, v1, s[0:1]\ns_endpgm\n", 64,
                               false, together ? 64 : 2);
            fine(&r);
            assert_true(r.report.together == together);
            cycles[i] = r.report.cycles;
            free(r.words);
        }
        dispatch_clocks = 0;
        assert_float_equal(cycles[1] - cycles[0], 7 * 5000, 500);
    }
}

/* A workgroup starts when its slot's previous workgroup has ended, including all costs: 500 rounds
 * of 24 clocks and 1,000 more. */
TEST(a_slot_is_free_when_its_workgroup_has_ended)
{
    static const char *const count = ZERO "s_movk_i32 s4, 500\n" COUNT_AND_STORE;
    double cycles[3], tail[3];
    (void)state;
    small = true;
    start_clocks = 128000; /* workgroups have 1 / 128 of the registers: 1,000 clocks */
    for (uint32_t i = 0; i < 3; i++) {
        struct run r = run(count, 32 * (i + 1), false, 32 * (i + 1));
        fine(&r);
        assert_true(r.report.together);
        cycles[i] = r.report.cycles;
        tail[i] = r.report.tail;
        free(r.words);
    }
    small = false;
    start_clocks = 0;
    for (unsigned i = 0; i < 3; i++) /* all slots are in use all the time */
        assert_true(tail[i] >= 0 && tail[i] < 0.05);
    assert_true(cycles[0] > 500 * 24 + 1000);
    for (unsigned i = 1; i < 3; i++)
        assert_true(cycles[i] - cycles[i - 1] > 500 * 24 + 1000 &&
                    cycles[i] - cycles[i - 1] < 500 * 24 + 3000);
}

/* Workgroup n of a cluster executes 500 n iterations of a loop. n counts from 0. */
#define COUNT                     \
    "s_and_b32 s4, ttmp6, 15\n"   \
    "s_mul_i32 s5, s4, 500\n"     \
    "1: s_sub_co_i32 s5, s5, 1\n" \
    "s_cmp_gt_i32 s5, 0\n"        \
    "s_cbranch_scc1 1b\n"

TEST(clusters_wait_for_their_last_workgroup)
{
    struct run alone = run_clusters(COUNT "s_endpgm\n", 4, 4, 0);
    struct run with[2];
    for (unsigned i = 0; i < 2; i++) {
        with[i] = run_clusters(COUNT "s_barrier_signal -3\ns_barrier_wait -3\ns_endpgm\n", 4, 4,
                               100 + 500 * i);
        fine(&with[i]);
    }
    fine(&alone);
    assert_true(alone.report.together);
    assert_true(alone.report.workgroup_cycles < 200); /* cycles of the first workgroup */
    assert_true(with[0].report.workgroup_cycles > 3 * 500 * 10);
    assert_true(with[0].report.cycles > alone.report.cycles);
    assert_true(with[1].report.cycles - with[0].report.cycles == 500);
    for (unsigned i = 0; i < 2; i++)
        free(with[i].words);
    free(alone.words);
}

/* A wave passes a cluster barrier at once if it opened long before. The cost counts from its
 * opening. */
TEST(an_open_cluster_barrier_is_passed)
{
    struct run r[2];
    for (unsigned i = 0; i < 2; i++) {
        r[i] = run_clusters("s_barrier_signal -3\ns_sleep 100\ns_barrier_wait -3\ns_endpgm\n", 4, 4,
                            100 + 500 * i);
        fine(&r[i]);
    }
    assert_true(r[0].report.cycles == r[1].report.cycles); /* the sleep takes 6,400 clocks */
    free(r[0].words);
    free(r[1].words);
}

/* Copies 4 KB to LDS for the workgroups of a mask. `flags` is the descriptor's dword with the mask,
 * the early timeout and the size of elements. */
#define COPY(flags)                                                                       \
    "s_mov_b32 s8, 1\ns_mov_b32 s9, 0\ns_mov_b32 s10, s0\ns_or_b32 s11, s1, 0x80000000\n" \
    "s_mov_b32 s12, " flags "\ns_mov_b32 s13, 0x200000\ns_mov_b32 s14, 0x200000\n"        \
    "s_mov_b32 s15, 0x200000\ns_mov_b32 s16, 32\ns_mov_b32 s17, 32\ns_mov_b32 s18, 0\n"   \
    "s_mov_b32 s19, 0\ntensor_load_to_lds s[8:11], s[12:19]\ns_wait_tensorcnt 0\ns_endpgm\n"

/* A load for four workgroups is fetched once, and arrives when all have requested it. With the
 * early timeout it arrives for the workgroups that have requested it by then. The others fetch it
 * again later (CDNA5 ISA, 10.7). */
TEST(multicast_loads_are_fetched_once)
{
    struct run own = run_clusters(COUNT COPY("0x20000"), 4, 4, 0);
    struct run all = run_clusters(COUNT COPY("0x2000f"), 4, 4, 0);
    struct run early = run_clusters(COUNT COPY("0x22000f"), 4, 4, 0);
    struct run even = run_clusters(COPY("0x2000f"), 4, 4, 0);
    fine(&own);
    fine(&all);
    fine(&early);
    fine(&even);
    const double late = 3 * 500 * 10; /* minimum time that the last workgroup counts */
    assert_true(fabs(own.report.l2_hit - 0.75) < 0.01);
    assert_true(fabs(even.report.l2_hit) < 0.01);
    assert_true(own.report.workgroup_cycles < late);
    assert_true(early.report.workgroup_cycles < late);
    /* The standard timeout ends before the last workgroup's request. */
    const double wait = time_params_default(GFX1250).multicast_wait_cycles;
    assert_true(all.report.workgroup_cycles > wait && all.report.workgroup_cycles < late);
    assert_true(even.report.workgroup_cycles < own.report.workgroup_cycles * 1.2);
    free(own.words);
    free(all.words);
    free(early.words);
    free(even.words);
}

/* The first workgroup waits for the last workgroup's request, which comes before the timeout. */
TEST(multicast_loads_wait_for_all)
{
    struct run r = run_clusters(
        "s_and_b32 s4, ttmp6, 15\ns_mul_i32 s5, s4, 20\n"
        "1: s_sub_co_i32 s5, s5, 1\ns_cmp_gt_i32 s5, 0\ns_cbranch_scc1 1b\n" COPY("0x2000f"),
        4, 4, 0);
    struct run own = run_clusters(
        "s_and_b32 s4, ttmp6, 15\ns_mul_i32 s5, s4, 20\n"
        "1: s_sub_co_i32 s5, s5, 1\ns_cmp_gt_i32 s5, 0\ns_cbranch_scc1 1b\n" COPY("0x20000"),
        4, 4, 0);
    fine(&r);
    fine(&own);
    const struct time_params p = time_params_default(GFX1250);
    const double last = 3 * 20 * 10 + p.l2_latency; /* its request, with the latency of the L2 */
    assert_true(r.report.workgroup_cycles > last);
    assert_true(r.report.workgroup_cycles < p.multicast_wait_cycles);
    assert_true(own.report.workgroup_cycles < r.report.workgroup_cycles);
    free(r.words);
    free(own.words);
}

/* Clusters are placed on the compute units with the fewest workgroups. Five clusters of 12
 * workgroups take 60 of the 64 slots of an XCD, two on each unit. All therefore run at once, as
 * four clusters do. */
TEST(clusters_spread_over_compute_units)
{
    enum { CLUSTER = 12 };
    const char *const text = "s_movk_i32 s4, 300\n1: s_sub_co_i32 s4, s4, 1\n"
                             "s_cmp_gt_i32 s4, 0\ns_cbranch_scc1 1b\ns_endpgm\n";
    const struct time_params p = time_params_default(GFX1250);
    const unsigned xcds = (unsigned)p.xcds;
    struct run four = run_clusters(text, 4 * xcds * CLUSTER, CLUSTER, 0);
    struct run five = run_clusters(text, 5 * xcds * CLUSTER, CLUSTER, 0);
    fine(&four);
    fine(&five);
    assert_int_equal(p.cus / p.xcds, 32);
    assert_true(five.report.cycles < 1.2 * four.report.cycles);
    free(four.words);
    free(five.words);
}

/* After a branch through a register any code may run, so communication further on counts. Without
 * one, code after s_endpgm does not. */
TEST(branches_through_registers_may_lead_to_communication)
{
    static const char *const texts[] = {"s_setpc_b64 s[2:3]\n", "s_nop 0\n"};
    for (unsigned i = 0; i < 2; i++) {
        char text[200];
        snprintf(
            text, sizeof(text),
            "%ss_endpgm\n1: global_load_dword v3, v1, s[0:1] sc1\ns_cbranch_scc1 1b\ns_endpgm\n",
            texts[i]);
        size_t bytes;
        void *const machine = assemble(GFX942, text, &bytes);
        struct code *const code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
        assert_int_equal(time_code_communicates(code, 0), i == 0);
        code_destroy(code);
        free(machine);
    }
}

/* More clusters than fit at once all run. The workgroups of a cluster run at the same time, since
 * they meet at barriers. */
TEST(clusters_start_together)
{
    enum { GROUPS = 1536, CLUSTER = 12 };
    struct run r = run_clusters("v_mov_b32 v1, 0\nv_mov_b32 v2, 1\nv_cmp_eq_u32 vcc_lo, 0, v0\n"
                                "s_and_b32 exec_lo, exec_lo, vcc_lo\n"
                                "global_atomic_add_u32 v1, v2, s[0:1]\n"
                                "s_barrier_signal -3\ns_barrier_wait -3\n"
                                "s_barrier_signal -3\ns_barrier_wait -3\ns_endpgm\n",
                                GROUPS, CLUSTER, 100);
    fine(&r);
    assert_int_equal(r.words[0], GROUPS);
    assert_int_equal(r.counters.workgroups, GROUPS);
    free(r.words);
}

int main(void) { return run_unit_tests(); }
