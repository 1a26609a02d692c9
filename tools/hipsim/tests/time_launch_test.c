/* SPDX-License-Identifier: Apache-2.0 */
/* Tests timed launches: memory is the same as of untimed launches, every workgroup executes once,
 * dispatch, occupancy. */
#include "tools/hipsim/tests/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit_test.h"
#include "tools/hipsim/core/isa.h"
#include "tools/hipsim/core/memory.h"
#include "tools/hipsim/time/time_dispatch.h"
#include "tools/hipsim/time/time_launch.h"
#include "tools/hipsim/time/time_whole.h"

#define GROUPS 100
#define WORDS (GROUPS * 64)

/* Workgroup n executes n + 1 iterations and adds n to its lanes' words. */
static const char *const kernel = "v_lshlrev_b32 v1, 2, v0\n"
                                  "s_lshl_b32 s3, s2, 8\n"
                                  "v_add_u32 v1, s3, v1\n"
                                  "global_load_dword v2, v1, s[0:1]\n"
                                  "s_add_u32 s4, s2, 1\n"
                                  "1: v_mov_b32 v3, v0\n"
                                  "s_sub_u32 s4, s4, 1\n"
                                  "s_cmp_lg_u32 s4, 0\n"
                                  "s_cbranch_scc1 1b\n"
                                  "s_waitcnt vmcnt(0)\n"
                                  "v_add_u32 v2, s2, v2\n"
                                  "global_store_dword v1, v2, s[0:1]\n"
                                  "s_endpgm\n";

struct fixture {
    struct code *code;
    void *machine;
    uint32_t *words;
    struct launch launch;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    size_t bytes;
    f->machine = assemble(GFX942, kernel, &bytes);
    f->code = code_create(GFX942, f->machine, bytes, (uint64_t)(uintptr_t)f->machine);
    assert_non_null(f->code);
    struct hipsim_mem_request request = {.size = WORDS * 4, .kind = HIPSIM_MEM_DEVICE};
    f->words = hipsim_mem_alloc(&request);
    assert_non_null(f->words);
    f->launch = (struct launch){
        .code = f->code,
        .kernel = "sums",
        .entry_pc = code_address(f->code),
        .grid = {GROUPS * 64, 1, 1},
        .block = {64, 1, 1},
        .nvgpr = 8,
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {true, false, false},
    };
    memcpy(f->launch.user_sgpr, &f->words, sizeof(f->words));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    hipsim_mem_free(f->words);
    code_destroy(f->code);
    free(f->machine);
    free(f);
    return 0;
}

static struct time_config configuration(void)
{
    return (struct time_config){.params = time_params_default(GFX942)};
}

static void clear_words(struct fixture *f)
{
    for (unsigned i = 0; i < WORDS; i++)
        f->words[i] = 7;
}

static struct hipsim_time_report timed(struct fixture *f, const struct time_config *config)
{
    struct hipsim_time_report report;
    clear_words(f);
    if (time_launch_run(&f->launch, config, &report) != 0)
        fail_msg("%s", f->launch.fault.text);
    return report;
}

/* Checks that each word has its workgroup's number added exactly once. */
TEST(memory_is_that_of_untimed_launches)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    struct hipsim_time_report r = timed(f, &config);
    uint32_t *copy = malloc(WORDS * 4);
    assert_non_null(copy);
    memcpy(copy, f->words, WORDS * 4);
    struct counters counters = f->launch.counters;
    assert_int_equal(counters.workgroups, GROUPS);
    assert_true(r.complete && r.sampled > 1 && r.sampled < GROUPS);
    clear_words(f);
    static const struct observer nothing = {0}; /* bytes are counted only with an observer */
    f->launch.observer = &nothing;
    assert_int_equal(engine_run(&f->launch), 0);
    f->launch.observer = NULL;
    assert_memory_equal(copy, f->words, WORDS * 4);
    assert_true(r.store_bytes == (double)counters.store_bytes);
    assert_memory_equal(&counters, &f->launch.counters, sizeof(counters));
    for (unsigned i = 0; i < WORDS; i++)
        assert_int_equal(copy[i], 7 + i / 64);
    free(copy);
}

/* Each workgroup loads the same number of bytes, regardless of its iterations. */
TEST(bytes_beyond_the_l2_follow_from_bytes)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    const struct hipsim_time_report r = timed(f, &config);
    assert_true(r.complete && r.sampled < GROUPS);
    assert_true(r.load_bytes == WORDS * 4.0);
    /* Stored lines are in the L2, because they were loaded before. */
    assert_true(fabs(r.memory_bytes / r.load_bytes - 1) < 0.01);
}

TEST(reports_are_repeatable)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    struct hipsim_time_report a = timed(f, &config), b = timed(f, &config);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_true(a.cycles > a.workgroup_cycles && a.us_at_power >= a.us_at_max);
}

/* Workgroup n loads 64 KB. Pairs of workgroups on an XCD load the same data, and so do n and n +
 * 256. */
static const char *const pairs = "s_bfe_u32 s3, s2, 0x40004\n"
                                 "s_lshl_b32 s3, s3, 3\n"
                                 "s_and_b32 s4, s2, 7\n"
                                 "s_or_b32 s3, s3, s4\n"
                                 "s_lshl_b32 s3, s3, 16\n"
                                 "v_lshlrev_b32 v1, 7, v0\n"
                                 "v_add_u32 v1, s3, v1\n"
                                 "s_movk_i32 s4, 8\n"
                                 "1: global_load_dword v2, v1, s[0:1]\n"
                                 "v_add_u32 v1, 0x2000, v1\n"
                                 "s_sub_u32 s4, s4, 1\n"
                                 "s_cmp_lg_u32 s4, 0\n"
                                 "s_cbranch_scc1 1b\n"
                                 "s_waitcnt vmcnt(0)\n"
                                 "s_endpgm\n";

/* Times `groups` workgroups of one wave. s[0:1] is the address of `bytes` bytes. Returns the
 * report. */
static struct hipsim_time_report timed_text(const char *text, const char *name, unsigned groups,
                                            size_t bytes, const struct time_config *config)
{
    size_t length;
    void *const machine = assemble(GFX942, text, &length);
    struct code *const code = code_create(GFX942, machine, length, (uint64_t)(uintptr_t)machine);
    const struct hipsim_mem_request request = {.size = bytes, .kind = HIPSIM_MEM_DEVICE};
    void *const rows = hipsim_mem_alloc(&request);
    struct launch launch = {
        .code = code,
        .kernel = name,
        .entry_pc = code_address(code),
        .grid = {groups * 64, 1, 1},
        .block = {64, 1, 1},
        .nvgpr = 8,
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {true, false, false},
    };
    memcpy(launch.user_sgpr, &rows, sizeof(rows));
    struct hipsim_time_report report;
    assert_int_equal(time_launch_run(&launch, config, &report), 0);
    hipsim_mem_free(rows);
    code_destroy(code);
    free(machine);
    return report;
}

/* Returns the modelled number of workgroups that share a line, in a launch of `groups`
 * workgroups. */
static double sharers_of_pairs(unsigned groups)
{
    const struct time_config config = configuration();
    return timed_text(pairs, "pairs", groups, 128 << 16, &config).l2_sharers;
}

/* Two workgroups that load the same data at the same time are found as two sharers. If others load
 * them later, eight neighbours are not enough, and the growth is extrapolated as a power. */
TEST(pairs_of_sharers_are_found)
{
    assert_true(fabs(sharers_of_pairs(256) - 2) < 0.1);
    assert_true(sharers_of_pairs(16384) > 4);
    /* The last eight workgroups of an XCD load four sets, hence the power 2/3: its 16 workgroups
     * load 16^(2/3) sets, and 16^(1/3) of them share a line. */
    assert_true(fabs(sharers_of_pairs(128) - pow(16, 1.0 / 3)) < 0.1);
}

/* Workgroup n loads 64 KB. Eight neighbours, on different XCDs, load the same data. */
static const char *const eights = "s_lshr_b32 s2, s2, 3\n"
                                  "s_lshl_b32 s2, s2, 16\n"
                                  "v_lshlrev_b32 v1, 7, v0\n"
                                  "v_add_u32 v1, s2, v1\n"
                                  "s_movk_i32 s4, 8\n"
                                  "1: global_load_dword v2, v1, s[0:1]\n"
                                  "v_add_u32 v1, 0x2000, v1\n"
                                  "s_sub_u32 s4, s4, 1\n"
                                  "s_cmp_lg_u32 s4, 0\n"
                                  "s_cbranch_scc1 1b\n"
                                  "s_waitcnt vmcnt(0)\n"
                                  "s_endpgm\n";

/* Returns the cycles of `groups` workgroups of `eights`, with few of them timed. */
static double cycles_of_eights(unsigned groups, const struct time_params *params)
{
    const struct time_config config = {.params = *params, .samples = 2};
    const size_t bytes = (size_t)(groups / 8 + 1) << 16;
    const struct hipsim_time_report report = timed_text(eights, "eights", groups, bytes, &config);
    assert_false(report.together);
    return report.cycles;
}

/* Lines that several XCDs load come from HBM once. Later loads come from the MALL if it holds all
 * lines. */
TEST(lines_that_exceed_the_mall_come_from_hbm)
{
    struct time_params p = time_params_default(GFX942);
    p.hbm_gb_per_s = 200;
    p.mall_bytes = 1 << 30;
    const double fits = cycles_of_eights(512, &p);
    p.mall_bytes = 1 << 20; /* 1 MiB, a quarter of the data */
    const double does_not = cycles_of_eights(512, &p);
    assert_true(does_not > 2 * fits);
}

/* Compute units without a workgroup take no part of the HBM bandwidth. */
TEST(few_workgroups_get_all_of_hbm)
{
    struct time_params p = time_params_default(GFX942);
    p.hbm_gb_per_s = 100; /* 0.16 B per clock for each of 304 compute units */
    const double few = cycles_of_eights(8, &p);
    const double share = p.hbm_gb_per_s * 1e3 / p.max_mhz / p.cus;
    assert_true(few < 0.2 * 65536 / share);
}

/* Workgroup n loads its own 64 KB, 8 KB at a time. */
static const char *const streams = "s_lshl_b32 s3, s2, 16\n"
                                   "v_lshlrev_b32 v1, 7, v0\n"
                                   "v_add_u32 v1, s3, v1\n"
                                   "s_movk_i32 s4, 8\n"
                                   "1: global_load_dword v2, v1, s[0:1]\n"
                                   "v_add_u32 v1, 0x2000, v1\n"
                                   "s_waitcnt vmcnt(0)\n"
                                   "s_sub_u32 s4, s4, 1\n"
                                   "s_cmp_lg_u32 s4, 0\n"
                                   "s_cbranch_scc1 1b\n"
                                   "s_endpgm\n";

/* Times a launch of `groups` equal workgroups on 16 compute units that hold one workgroup each.
 * Stores two results in cycles: *sampled with four workgroups timed, *together with all timed. The
 * test fails if a launch with `samples_only` differs from *sampled by 10 % or more. */
static void cycles_of_rounds(const char *text, unsigned groups, double *sampled, double *together)
{
    struct time_config config = configuration();
    config.params.cus = 16;
    config.params.hbm_gb_per_s = 400;
    config.params.wave_slots = 1;
    config.params.workgroup_cycles = 0;
    const size_t bytes = (size_t)groups << 16;
    for (unsigned i = 0; i < 2; i++) {
        config.samples = i ? 2 * groups : 4;
        const struct hipsim_time_report r = timed_text(text, "rounds", groups, bytes, &config);
        assert_true(r.together == (i == 1));
        *(i ? together : sampled) = r.cycles;
    }
    config.samples = 4;
    config.samples_only = true;
    const struct hipsim_time_report r = timed_text(text, "rounds", groups, bytes, &config);
    assert_false(r.together || r.complete);
    assert_true(fabs(r.cycles / *sampled - 1) < 0.1);
}

/* Workgroups of later rounds get more bandwidth if others wait or have ended. The sampled time
 * includes that. */
TEST(later_rounds_share_the_idle_bandwidth)
{
    static const unsigned groups[] = {4 * 16, 4 * 16 + 8, 4 * 16 + 1};
    for (unsigned i = 0; i < 3; i++) {
        double sampled, together;
        cycles_of_rounds(streams, groups[i], &sampled, &together);
        print_message("%u workgroups: %.0f sampled, %.0f in time\n", groups[i], sampled, together);
        assert_true(sampled < 1.1 * together && sampled > 0.9 * together);
    }
}

/* Rounds that are not memory bound take the same time. */
TEST(compute_bound_rounds_are_equal)
{
    static const char *const text = "s_movk_i32 s4, 2000\n"
                                    "1: v_add_u32 v1, v1, v0\n"
                                    "s_sub_u32 s4, s4, 1\n"
                                    "s_cmp_lg_u32 s4, 0\n"
                                    "s_cbranch_scc1 1b\n"
                                    "s_endpgm\n";
    double two, three, together;
    cycles_of_rounds(text, 2 * 64, &two, &together);
    assert_true(fabs(two / together - 1) < 0.02);
    cycles_of_rounds(text, 3 * 64, &three, &together);
    assert_true(fabs(three / two - 1.5) < 0.02);
}

/* Later workgroups take longer. Samples at the ends and in the middle show it, and so do
 * instruction counts of untimed workgroups. All workgroups load and store the same bytes. */
TEST(positions_in_the_grid_matter)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    const struct hipsim_time_report all = timed(f, &config);
    config.samples_only = true;
    const struct hipsim_time_report ends = timed(f, &config);
    config.samples = 2;
    assert_true(timed(f, &config).sampled < ends.sampled); /* without the middle */
    config.samples = 1;
    const struct hipsim_time_report one = timed(f, &config);
    assert_true(all.cycles > one.cycles + 50 * 20 && ends.cycles > one.cycles + 50 * 20);
    assert_true(all.cycles < 1.05 * ends.cycles && ends.cycles < 1.05 * all.cycles);
    assert_true(fabs(ends.load_bytes / all.load_bytes - 1) < 1e-9);
    assert_true(fabs(ends.store_bytes / all.store_bytes - 1) < 1e-9);
}

/* The hottest loop is bound by its vector instructions: packed ones of f32 have a term of their
 * own. */
TEST(the_bound_of_a_loop_counts_each_kind)
{
    static const struct {
        unsigned packed, plain;
    } loops[] = {{5, 0}, {0, 7}, {9, 3}};
    const struct time_config config = configuration();
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        char text[400];
        snprintf(text, sizeof(text),
                 "s_movk_i32 s4, 100\n1:\n.rept %u\nv_pk_add_f32 v[2:3], v[4:5], v[6:7]\n.endr\n"
                 ".rept %u\nv_mov_b32 v1, v0\n.endr\ns_sub_u32 s4, s4, 1\n"
                 "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 1b\ns_endpgm\n",
                 loops[i].packed, loops[i].plain);
        const struct hipsim_time_report r = timed_text(text, "loop", 1, 4096, &config);
        const struct time_mix mix = {
            .valu = loops[i].plain * (unsigned)config.params.valu_cycles,
            .packed_f32 = loops[i].packed,
        };
        assert_true(r.loop_bound == time_loop_bound(&config.params, &mix, 1));
        assert_true(r.loop_bound > 0 && r.loop_cycles >= r.loop_bound);
    }
}

/* Returns figures that are linear on both sides of the middle of each dimension. */
static struct time_figures bent_figures(const uint64_t at[3], const uint64_t groups[3])
{
    double x = 100;
    for (unsigned d = 0; d < 3; d++) {
        const double half = (double)(groups[d] / 2), here = (double)at[d];
        x += (d + 1) * (here <= half ? 7 * here : 7 * half - 2 * (here - half));
    }
    return (struct time_figures){x, 2 * x, 3 * x, 5 * x, 1};
}

/* The samples at the ends and middles differ, and their mean is not the mean of the grid. */
TEST(figures_of_a_grid_follow_the_position)
{
    const uint64_t groups[3] = {9, 1, 6};
    struct time_whole w = {.first = bent_figures((uint64_t[3]){0, 0, 0}, groups)};
    for (unsigned d = 0; d < 3; d += 2) {
        uint64_t at[3] = {0, 0, 0};
        at[d] = groups[d] - 1;
        w.last[d] = (struct time_position){true, bent_figures(at, groups)};
        at[d] = groups[d] / 2;
        w.middle[d] = (struct time_position){true, bent_figures(at, groups)};
    }
    double sum = 0;
    for (uint64_t x = 0; x < groups[0]; x++) {
        for (uint64_t z = 0; z < groups[2]; z++) {
            const struct time_figures f = bent_figures((uint64_t[3]){x, 0, z}, groups);
            assert_true(fabs(f.clocks - w.first.clocks - time_whole_added(&w, 0, x, groups[0]) -
                             time_whole_added(&w, 2, z, groups[2])) < 1e-9);
            sum += f.clocks;
        }
    }
    const struct time_figures all = time_whole_sum(&w, groups);
    assert_true(fabs(all.clocks - sum) < 1e-6 && fabs(all.matrix_clocks - 2 * sum) < 1e-6);
    assert_true(fabs(all.far_bytes - 3 * sum) < 1e-6 && fabs(all.load_bytes - 5 * sum) < 1e-6);
    assert_true(fabs(all.store_bytes - 54) < 1e-9);
    w.middle[0].sampled = w.middle[2].sampled = false;
    w.last[0].figures.clocks = w.last[2].figures.clocks = -1e6;
    assert_true(time_whole_sum(&w, groups).clocks == 0);
}

/* Returns the reduction of a clock of 1,000 MHz by the power law, at 1 MHz per percent. Each
 * compute unit has four waves with 32 iterations of 64 times `text`. */
static double lowered_by(const struct time_params *p, const char *text)
{
    size_t bytes;
    char all[600];
    snprintf(all, sizeof(all),
             "s_movk_i32 s4, 32\n1:\n.rept 64\n%s\n.endr\ns_sub_u32 s4, s4, 1\n"
             "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 1b\ns_endpgm\n",
             text);
    void *const machine = assemble(GFX942, all, &bytes);
    struct code *const code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    struct launch launch = {
        .code = code,
        .kernel = "busy",
        .entry_pc = code_address(code),
        .grid = {(unsigned)p->cus * 256, 1, 1},
        .block = {256, 1, 1},
        .nvgpr = 128,
    };
    struct time_config config = {.params = *p, .samples_only = true};
    config.params.law_mhz = 1000, config.params.law_slope = 1, config.params.min_mhz = 0;
    struct hipsim_time_report r;
    assert_int_equal(time_launch_run(&launch, &config, &r), 0);
    assert_true(r.us_at_power == p->launch_us + r.cycles / r.power_mhz);
    code_destroy(code);
    free(machine);
    return (1000 - r.power_mhz) / (1 - r.tail);
}

/* Tests the power law of tools/hipsim/docs/timing.md. Matrix units count with their busy time,
 * weighted by operand width, and the VALU with its part. */
TEST(the_clock_falls_with_activity)
{
    const char bf16[] = "v_mfma_f32_32x32x8_bf16 v[16:31], v[0:1], v[2:3], v[16:31]";
    const char fp8[] = "v_mfma_f32_32x32x16_fp8_fp8 v[16:31], v[0:1], v[2:3], v[16:31]";
    const char vector[] = "v_mov_b32 v0, v1", nothing[] = "s_nop 7";
    struct time_params p = time_params_default(GFX942);
    p.power_vector = 0.5, p.power_memory = 0, p.power_matrix_8 = 0.25;
    assert_true(lowered_by(&p, nothing) < 1);
    assert_in_range((int)lowered_by(&p, vector), 45, 50);
    const double wide = lowered_by(&p, bf16), narrow = lowered_by(&p, fp8);
    assert_true(wide > 99 && wide < 100.1);
    assert_true(fabs(narrow - wide / 4) < 0.01);
}

TEST(samples_alone_say_that_results_are_missing)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    config.samples_only = true;
    struct hipsim_time_report r = timed(f, &config);
    assert_false(r.complete);
    unsigned untouched = 0;
    for (unsigned g = 1; g < GROUPS; g++)
        untouched += f->words[g * 64] == 7;
    assert_true(untouched > GROUPS / 2);
    assert_int_equal(f->words[64], 7);
    config.params.cus = 16; /* several rounds: a neighbour of workgroup 0 tells their bandwidth */
    config.params.wave_slots = 1;
    timed(f, &config);
    assert_int_equal(f->words[64], 7 + 1);
    char text[4096];
    hipsim_time_format(&r, text, sizeof(text));
    assert_non_null(strstr(text, "NOT executed"));
    assert_non_null(strstr(text, "modelled, not measured"));
    r.l2_sharers = 2.5;
    r.together = false;
    hipsim_time_format(&r, text, sizeof(text));
    assert_non_null(strstr(text, "; L2 lines shared by 2.5 workgroups\n"));
    r.together = true;
    hipsim_time_format(&r, text, sizeof(text));
    assert_null(strstr(text, "L2 lines"));
}

/* Fractions are printed in percent, bytes in MB, stalls as parts of the waves' time. Stalls of less
 * than 0.1 % are left out. */
TEST(a_report_is_printed_with_its_units)
{
    const struct hipsim_time_report r = {
        .size = sizeof(r),
        .kernel = "k",
        .target = "gfx942",
        .workgroups = 12,
        .sampled = 5,
        .workgroups_per_cu = 3,
        .waves_per_simd = 2,
        .cycles = 4200,
        .launch_us = 1.5,
        .max_mhz = 2100,
        .us_at_max = 2,
        .power_mhz = 1400,
        .us_at_power = 3,
        .matrix_duty = 0.75,
        .matrix_fraction = 0.5,
        .memory_fraction = 0.25,
        .memory_bytes = 1234567,
        .l2_sharers = 1.5,
        .tail = 0.125,
        .loop_bound = 90,
        .loop_cycles = 120,
        .issue_cycles = 4991,
        .stall_cycles = {[HIPSIM_STALL_VALU] = 3000,
                         [HIPSIM_STALL_WAIT_LDS] = 2000,
                         [HIPSIM_STALL_SLEEP] = 9},
    };
    static const char expected[] =
        "k on gfx942, modelled, not measured\n"
        "  4200 cycles: 2.00 us at 2100 MHz (maximum clock), 3.00 us at 1400 MHz (power-limited "
        "clock), 1.5 us of them launch\n"
        "  50.0 % of the matrix roofline (75.0 % in the hottest loop), 25.0 % of the peak memory "
        "bandwidth, 1.235 MB beyond L2\n"
        "  12 workgroups, 3 per compute unit, 2 waves per SIMD, idle 12.5 %; L2 lines shared by "
        "1.5 workgroups\n"
        "  5 workgroups timed, the others follow from them; those not timed were NOT executed, "
        "their results are missing\n"
        "  hottest loop: 120 cycles per iteration, lower bound 90 (75.0 %)\n"
        "  wave time: issue 49.9 %, VALU busy 30.0 %, lgkm wait 20.0 %\n";
    char text[4096];
    assert_int_equal(hipsim_time_format(&r, text, sizeof(text)), sizeof(expected) - 1);
    assert_string_equal(text, expected);
}

TEST(traces_and_listings_are_written)
{
    struct fixture *f = *state;
    struct time_config config = configuration();
    char trace[] = "/tmp/hipsim-trace-XXXXXX", listing[] = "/tmp/hipsim-listing-XXXXXX";
    close(mkstemp(trace));
    close(mkstemp(listing));
    config.trace_path = trace;
    config.annotate_path = listing;
    timed(f, &config);
    char text[65536];
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(text[0], '{');
    assert_non_null(strstr(text, "\"traceEvents\""));
    assert_non_null(strstr(text, "global_load_dword"));
    assert_non_null(strstr(text, "\"vmem wait\""));
    assert_non_null(strstr(text, "VALU %"));
    assert_non_null(strstr(text, "XCD 7 %"));
    file = fopen(listing, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "s_waitcnt vmcnt(0)"));
    unlink(trace);
    unlink(listing);
    config.trace_path = "/nonexistent/trace.json";
    struct hipsim_time_report report;
    assert_int_equal(time_launch_run(&f->launch, &config, &report), -1);
}

static double constant(const void *ctx, uint64_t index)
{
    (void)index;
    return *(const double *)ctx;
}

TEST(workgroups_are_dispatched_round_robin)
{
    struct time_params p = time_params_default(GFX942);
    p.dispatch_cycles = 0;
    const double d = 1000;
    static struct time_busy busy;
    assert_true(time_dispatch(&p, 1, 1, constant, &d, &busy).clocks == 1000);
    assert_true(time_dispatch(&p, 304, 1, constant, &d, &busy).clocks == 1000);
    assert_true(time_dispatch(&p, 305, 1, constant, &d, &busy).clocks == 2000);
    assert_true(time_dispatch(&p, 305, 2, constant, &d, &busy).clocks == 1000);
    struct time_dispatch half = time_dispatch(&p, 152, 1, constant, &d, &busy);
    assert_true(half.busy > 0.499 && half.busy < 0.501);
    struct time_dispatch many = time_dispatch(&p, UINT64_C(1) << 40, 1, constant, &d, &busy);
    assert_true(many.clocks > 0x1p40 / 304 * 999 && many.clocks < 0x1p40 / 304 * 1001);
}

/* 40 workgroups of 1,000 clocks on the 38 compute units of an XCD: all units are in use, then
 * two. */
TEST(occupancy_over_time_is_reported)
{
    struct time_params p = time_params_default(GFX942);
    p.dispatch_cycles = 0;
    const double d = 1000;
    struct time_busy busy = {0};
    float parts[HIPSIM_TIME_PARTS];
    const struct time_dispatch all =
        time_dispatch(&p, 40 * (uint64_t)p.xcds, 1, constant, &d, &busy);
    for (unsigned x = 0; x < HIPSIM_TIME_XCDS; x++) {
        time_busy_parts(&busy, x, 38, all.clocks, parts);
        for (unsigned i = 0; i < HIPSIM_TIME_PARTS; i++) {
            const float want = i < HIPSIM_TIME_PARTS / 2 ? 1 : 2.0f / 38;
            assert_true(fabsf(parts[i] - want) < 0.1f); /* a window may be in two parts */
        }
    }
    /* The sum stays the same when the windows are doubled often. */
    busy = (struct time_busy){0};
    time_busy_add(&busy, 1, 100, 1e6 + 100);
    time_busy_parts(&busy, 1, 2, 2e6, parts);
    float sum = 0;
    for (unsigned i = 0; i < HIPSIM_TIME_PARTS; i++)
        sum += parts[i] / HIPSIM_TIME_PARTS;
    assert_true(fabsf(sum - 0.25f) < 1e-4f);
    time_busy_parts(&busy, 0, 2, 2e6, parts);
    assert_true(parts[0] == 0);
}

/* Only the windows and the parts change, for the first and the last XCD. */
TEST(occupancy_stays_within_its_arrays)
{
    static struct {
        struct time_busy busy;
        double after[2 * TIME_BUSY_WINDOWS];
    } guarded;
    float parts[HIPSIM_TIME_PARTS + 1];
    for (unsigned i = 0; i < 2 * TIME_BUSY_WINDOWS; i++)
        guarded.after[i] = 1 + i;
    time_busy_add(&guarded.busy, HIPSIM_TIME_XCDS - 1, 0, TIME_BUSY_WINDOWS);
    assert_int_equal(guarded.busy.window, 1); /* the last window ends at this clock */
    time_busy_add(&guarded.busy, HIPSIM_TIME_XCDS - 1, 0, 8 * TIME_BUSY_WINDOWS);
    assert_int_equal(guarded.busy.window, 8);
    time_busy_add(&guarded.busy, HIPSIM_TIME_XCDS, 0, 100);
    for (unsigned i = 0; i < 2 * TIME_BUSY_WINDOWS; i++)
        assert_true(guarded.after[i] == 1 + i);
    parts[HIPSIM_TIME_PARTS] = -1;
    time_busy_parts(&guarded.busy, HIPSIM_TIME_XCDS - 1, 1, 8 * TIME_BUSY_WINDOWS, parts);
    assert_true(parts[HIPSIM_TIME_PARTS] == -1);
    assert_true(parts[0] == 1 && parts[HIPSIM_TIME_PARTS - 1] == 1);
}

TEST(registers_and_lds_limit_occupancy)
{
    struct time_params p = time_params_default(GFX942), p950 = time_params_default(GFX950);
    struct launch l = {.block = {256, 1, 1}, .nvgpr = 64};
    assert_int_equal(time_occupancy(&p, isa_of(GFX942), &l).workgroups_per_cu, 8);
    l.nvgpr = 65;
    assert_int_equal(time_occupancy(&p, isa_of(GFX942), &l).workgroups_per_cu, 7);
    l.nvgpr = 128;
    l.nagpr = 128;
    assert_int_equal(time_occupancy(&p, isa_of(GFX942), &l).workgroups_per_cu, 2);
    l.lds_bytes = 40000;
    assert_int_equal(time_occupancy(&p, isa_of(GFX942), &l).workgroups_per_cu, 1);
    assert_int_equal(time_occupancy(&p950, isa_of(GFX950), &l).workgroups_per_cu, 2);
    l.block[0] = 512;
    assert_int_equal(time_occupancy(&p950, isa_of(GFX950), &l).waves_per_simd, 2);
    const struct time_params p1250 = time_params_default(GFX1250);
    l = (struct launch){.block = {128, 1, 1}, .nvgpr = 257}; /* a workgroup of 4 waves */
    assert_int_equal(time_occupancy(&p1250, isa_of(GFX1250), &l).workgroups_per_cu, 3);
    assert_int_equal(time_occupancy(&p1250, isa_of(GFX1250), &l).waves_per_simd, 3);
    l.lds_bytes = 163841;
    assert_int_equal(time_occupancy(&p1250, isa_of(GFX1250), &l).workgroups_per_cu, 1);
}

int main(void) { return run_unit_tests_between(setup, teardown); }
