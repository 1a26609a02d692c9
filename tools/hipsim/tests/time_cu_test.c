/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the timing model's compute unit on small programs whose time is published or calculated by
 * hand. */
#include "tools/hipsim/tests/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/core/decode.h"
#include "tools/hipsim/core/isa.h"
#include "tools/hipsim/time/time_cu.h"
#include "tools/hipsim/time/time_launch.h"

#define MAX_WAVES 16

/* Clocks at which each wave began and at which it reached s_endpgm, and the program's hottest
 * loop. */
struct marks {
    uint64_t first[MAX_WAVES], last[MAX_WAVES];
    uint64_t events;
    struct time_loop loop; /* all zeros: there is no loop */
};

static void mark(void *ctx, const struct time_event *e)
{
    struct marks *m = ctx;
    unsigned w = e->wave->id % MAX_WAVES;
    if (e->wave->executed == 1)
        m->first[w] = e->issued;
    m->last[w] = e->issued;
    m->events++;
}

/* True: models the cost of fetch windows, which depends on code positions. Off in most tests. */
static bool fetch_windows;

/* A parameter and the value that replaces the target's value. NULL: no parameter is changed. */
static struct {
    const char *name;
    double value;
} changed;

/* Runs `text` with all lanes active. v0 is the lane, from which programs compute addresses. */
static struct time_cu_result run(enum gfx_target target, const char *text, unsigned waves,
                                 struct marks *marks)
{
    size_t bytes = 0;
    char *whole = malloc(strlen(text) + 32);
    assert_non_null(whole);
    strcat(strcpy(whole, text), "\ns_endpgm\n");
    void *machine = assemble(target, whole, &bytes);
    free(whole);
    struct code *code = code_create(target, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    struct launch launch = {
        .code = code,
        .kernel = "program",
        .entry_pc = code_address(code),
        .grid = {waves * code_isa(code)->lanes, 1, 1},
        .block = {waves * code_isa(code)->lanes, 1, 1},
        .nvgpr = 256,
        .lds_bytes = target == GFX1250 ? 131072 : 65536,
        .budget = 1000000,
    };
    struct time_params p = time_params_default(target);
    p.fetch_bytes = fetch_windows ? p.fetch_bytes : 0;
    assert_true(!changed.name || time_params_set(&p, changed.name, changed.value));
    struct time_code *tc = time_code_create(code, &p);
    assert_non_null(tc);
    struct time_cu_result result;
    uint64_t first = 0;
    memset(marks, 0, sizeof(*marks));
    struct time_sink sink = {.ctx = marks, .event = mark};
    struct time_cu_setup setup = {
        .share = {.cus_active = 1, .sharers = 1},
        .mhz = p.max_mhz,
        .warm_code = true,
        .sink = &sink,
    };
    if (!time_cu_run(&launch, tc, &setup, &first, 1, &result))
        fail_msg("%s\n%s", text, launch.fault.text);
    time_hottest_loop(tc, result.waves, &marks->loop);
    time_code_destroy(tc);
    code_destroy(code);
    free(machine);
    return result;
}

/* Returns the clocks from the first instruction to s_endpgm, averaged over the waves. */
static double clocks(enum gfx_target target, const char *text, unsigned waves)
{
    struct marks m;
    run(target, text, waves, &m);
    double sum = 0;
    for (unsigned i = 0; i < waves; i++)
        sum += (double)(m.last[i] - m.first[i]);
    return sum / waves;
}

/* Returns the clock at which the last wave has executed `text` `times` times. */
static double repeated(enum gfx_target target, const char *text, unsigned times, unsigned waves)
{
    size_t size = strlen(text) + 64;
    char *all = malloc(size);
    assert_non_null(all);
    snprintf(all, size, ".rept %u\n%s\n.endr", times, text);
    struct marks m;
    run(target, all, waves, &m);
    free(all);
    uint64_t last = 0;
    for (unsigned i = 0; i < waves; i++)
        last = m.last[i] > last ? m.last[i] : last;
    return (double)last;
}

/* Returns the clocks of one more repetition of `text`. */
static double each(enum gfx_target target, const char *text, unsigned waves)
{
    return (repeated(target, text, 48, waves) - repeated(target, text, 16, waves)) / 32;
}

#define MFMA942 "v_mfma_f32_32x32x8_bf16 v[16:31], v[0:1], v[2:3], v[16:31]\n"
#define MFMA950 "v_mfma_f32_32x32x16_bf16 v[16:31], v[0:3], v[4:7], v[16:31]\n"
#define ADD "v_add_f32 v100, v101, v102\n"
#define ADDS(n) ".rept " #n "\n" ADD ".endr\n"

TEST(vector_instructions_take_one_slot)
{
    assert_true(each(GFX942, ADD, 1) == 4);
    assert_true(each(GFX942, ADD, 4) == 4); /* one wave per SIMD */
    assert_true(each(GFX942, ADD, 8) == 8); /* two waves per SIMD */
    assert_true(each(GFX942, "v_exp_f32 v100, v101", 1) == 16);
    assert_true(each(GFX950, "v_exp_f32 v100, v101", 1) == 8);
    assert_true(each(GFX950, "v_permlane32_swap_b32 v100, v101", 1) == 20);
    assert_true(each(GFX942, "s_nop 3", 1) == 16);
    assert_true(each(GFX942, "s_sleep 2", 1) == 132);
}

/* Data sheets: f64 has 81.7 and 78.6 TFLOP/s, 128 operations per clock of a compute unit. f32 has
 * 163.4 and 157.3 TFLOP/s, 256 operations. v_fma_f64 and v_pk_fma_f32 therefore take 4 clocks. */
TEST(rates_are_those_of_the_data_sheet)
{
    for (unsigned t = 0; t < 2; t++) {
        const enum gfx_target g = t ? GFX950 : GFX942;
        assert_true(each(g, "v_fma_f64 v[100:101], v[100:101], v[102:103], v[104:105]", 4) == 4);
        assert_true(each(g, "v_pk_fma_f32 v[100:101], v[100:101], v[102:103], v[104:105]", 4) == 4);
        assert_true(each(g, "v_pk_fma_f16 v100, v100, v102, v103", 4) == 4);
    }
}

/* A chain of matrix instructions on the same registers issues back to back, also of SMFMAC, whose
 * SrcC is the destination. A result may be overwritten at once, since the unit works in order. */
TEST(chains_of_matrix_instructions_issue_back_to_back)
{
    for (unsigned t = 0; t < 2; t++) {
        const enum gfx_target g = t ? GFX950 : GFX942;
        assert_true(each(g, "v_mfma_f32_16x16x16_f16 v[0:3], v[20:21], v[22:23], v[0:3]", 1) == 16);
        assert_true(each(g, "v_mfma_f32_16x16x16_f16 v[0:3], v[20:21], v[22:23], v[4:7]", 1) == 16);
        assert_true(each(g, "v_smfmac_f32_16x16x32_f16 v[0:3], v[20:21], v[22:25], v30", 1) == 16);
        /* SrcA is the previous result: 4 passes, then 7 or 8 wait states (Clang 22). */
        assert_true(each(g, "v_mfma_f32_16x16x16_f16 v[0:3], v[0:1], v[22:23], v[4:7]", 1) ==
                    (t ? 36 : 32));
    }
}

/* The clocks of a matrix instruction in which the SIMD can issue others hold 7 vector instructions
 * on gfx942, 6 on gfx950. */
TEST(vector_instructions_fit_into_the_shadow)
{
    assert_true(each(GFX942, MFMA942, 1) == 32);
    assert_true(each(GFX942, MFMA942 ADDS(7), 1) == 32);
    assert_true(each(GFX942, MFMA942 ADDS(8), 1) == 36);
    assert_true(each(GFX950, MFMA950, 1) == 32);
    assert_true(each(GFX950, MFMA950 ADDS(6), 1) == 32);
    assert_true(each(GFX950, MFMA950 ADDS(7), 1) == 36);
    assert_true(each(GFX950,
                     MFMA950 "v_exp_f32 v100, v101\nv_exp_f32 v100, v101\n"
                             "v_exp_f32 v100, v101",
                     1) == 32);
    /* Two waves of a SIMD share the matrix unit and its shadow. */
    double two = each(GFX950, MFMA950 ADDS(6), 8);
    assert_true(two > 60 && two <= 64);
}

TEST(packed_f32_does_not_overlap)
{
    const char *packed = MFMA950 "v_pk_mul_f32 v[100:101], v[102:103], v[104:105]\n"
                                 "v_pk_mul_f32 v[100:101], v[102:103], v[104:105]";
    assert_true(each(GFX950, packed, 1) == 32 + 12 + 2 * 4);
}

/* Clang 22 inserts 12 wait states between a matrix instruction of 8 passes and a reader on gfx950,
 * 11 on gfx942. After 2 passes it inserts 5. */
TEST(readers_wait_for_matrix_results)
{
    assert_true(clocks(GFX950, MFMA950 "v_add_f32 v100, v16, v16", 1) == (12 + 1) * 4 + 4);
    assert_true(clocks(GFX942, MFMA942 "v_add_f32 v100, v16, v16", 1) == (11 + 1) * 4 + 4);
    assert_true(clocks(GFX950, MFMA950 "v_add_f32 v100, v101, v102", 1) == 8 + 4);
    const char *small = "v_mfma_f32_4x4x4_16b_f16 v[16:19], v[0:1], v[2:3], v[16:19]\n"
                        "v_add_f32 v100, v16, v16";
    assert_true(clocks(GFX950, small, 1) == (2 + 3 + 1) * 4 + 4);
}

static double lds_block(enum gfx_target target, const char *read, unsigned stride)
{
    char text[512];
    snprintf(text, sizeof(text),
             "v_and_b32 v0, 0x3f, v0\nv_mul_u32_u24 v0, %u, v0\ns_nop 4\n.rept 64\n%s, v0\n.endr\n"
             "s_waitcnt lgkmcnt(0)",
             stride, read);
    return clocks(target, text, 4) - 2 * 4 - 5 * 4;
}

/* Tests row A8 of tools/hipsim/docs/timing.md: SHARK's 64 reads by 4 waves. The bound of each row
 * is the model's known error. */
TEST(blocks_of_lds_reads)
{
    static const struct {
        enum gfx_target target;
        const char *read;
        unsigned stride;
        double published, error;
    } rows[] = {
        {GFX942, "ds_read_b32 v100", 4, 501, 0.16},
        {GFX942, "ds_read_b64 v[100:101]", 8, 852, 0.10},
        {GFX942, "ds_read_b128 v[100:103]", 16, 1384, 0.20},
        {GFX942, "ds_read_b32 v100", 128, 6810, 0.10},
        {GFX942, "ds_read_b64 v[100:101]", 128, 7158, 0.10},
        {GFX942, "ds_read_b128 v[100:103]", 128, 7615, 0.10},
        {GFX950, "ds_read_b64 v[100:101]", 8, 583, 0.20},
        {GFX950, "ds_read_b64 v[100:101]", 256, 10025, 0.30},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double t = lds_block(rows[i].target, rows[i].read, rows[i].stride);
        double error = t / rows[i].published - 1;
        print_message("%-24s stride %3u: %6.0f, published %6.0f, %+5.1f %%\n", rows[i].read,
                      rows[i].stride, t, rows[i].published, 100 * error);
        assert_true(error < rows[i].error && error > -rows[i].error);
    }
}

/* In the steady state gfx950 reads b128 every 16 clocks per SIMD, or every 8 clocks if only one
 * SIMD reads. */
TEST(lds_reads_in_steady_state)
{
    const char *read = ".rept 200\nds_read_b128 v[100:103], v0\n.endr";
    char text[128];
    snprintf(text, sizeof(text), "v_lshlrev_b32 v0, 4, v0\ns_nop 4\n%s", read);
    double all = clocks(GFX950, text, 4) / 200, one = clocks(GFX950, text, 1) / 200;
    assert_true(one > 7.5 && one < 8.5);
    assert_true(all > 11 && all < 16.5);
}

/* A pair of accesses moves twice the data: read2_b32 takes the time of read_b64, read2_b64 of
 * b128. */
TEST(pairs_of_accesses_cost_both)
{
    static const char *const names[] = {
        "ds_read_b64 v[100:101], v0",
        "ds_read2_b32 v[100:101], v0 offset1:1",
        "ds_read_b128 v[100:103], v0",
        "ds_read2st64_b64 v[100:103], v0 offset1:1",
    };
    double took[4];
    for (unsigned i = 0; i < 4; i++) {
        char text[160];
        snprintf(text, sizeof(text),
                 "v_and_b32 v0, 0x3f, v0\nv_lshlrev_b32 v0, %u, v0\ns_nop 4\n"
                 ".rept 200\n%s\n.endr",
                 i == 2   ? 4
                 : i == 1 ? 2
                          : 3,
                 names[i]);
        took[i] = clocks(GFX942, text, 4) / 200;
    }
    assert_true(took[1] > 0.95 * took[0] && took[1] < 1.05 * took[0]);
    assert_true(took[3] > 0.95 * took[2] && took[3] < 1.05 * took[2]);
}

/* Two addresses are two accesses, each with its phases. An atomic is a read and a write. */
TEST(conflicts_are_clocks_beyond_the_phases)
{
    static const char *const names[] = {"ds_read_b32 v100, v0", "ds_add_u32 v0, v4",
                                        "ds_read2_b32 v[100:101], v0 offset1:64"};
    for (unsigned i = 0; i < 6; i++) {
        char text[160];
        struct marks m;
        snprintf(text, sizeof(text), "v_lshlrev_b32 v0, %u, v0\ns_nop 4\n%s\ns_waitcnt lgkmcnt(0)",
                 i < 3 ? 2 : 8, names[i % 3]);
        const struct time_cu_result r = run(GFX950, text, 1, &m);
        assert_true(r.lds_clocks > 0);
        assert_int_equal(r.lds_conflicts > 0, i >= 3);
    }
}

#define NO_LANE "s_mov_b32 exec_lo, 0\n"
#define LOAD "global_load_b32 v100, v10, s[4:5]"
#define OWN_WMMA "v_wmma_f32_16x16x32_bf16 v[16:23], v[40:47], v[48:55], v[16:23]\n"

/* Sets one parameter of each rule of the model to `value`. A repetition of the instructions then
 * takes `later` more clocks, and would take none more without the rule. */
TEST(every_rule_delays_its_instructions)
{
    static const struct {
        enum gfx_target target;
        const char *parameter;
        double value, later;
        unsigned waves;
        const char *text;
    } rows[] = {
        {GFX942, "valu_cycles", 8, 4, 1, ADD},
        {GFX942, "valu_f64_cycles", 8, 4, 1, "v_add_f64 v[100:101], v[102:103], v[104:105]"},
        {GFX942, "valu_mul32_cycles", 12, 8, 1, "v_mul_lo_u32 v100, v101, v102"},
        {GFX942, "trans_cycles", 32, 16, 1, "v_exp_f32 v100, v101"},
        {GFX950, "lane_swap_cycles", 24, 4, 1, "v_permlane16_swap_b32 v100, v101"},
        {GFX942, "scalar_cycles", 8, 4, 1, "s_mov_b32 s4, s5"},
        {GFX942, "nop_cycles", 8, 16, 1, "s_nop 3"},
        {GFX942, "sleep_cycles", 128, 128, 1, "s_sleep 2"},
        {GFX1250, "sleep_cycles", 128, 128, 1, "s_sleep_var 2"},
        {GFX1250, "sleep_cycles", 128, 192, 1, "s_movk_i32 s4, 0x183\ns_sleep_var s4"},
        {GFX942, "wait_cycles", 8, 4, 1, "s_waitcnt lgkmcnt(0)"},
        {GFX942, "branch_taken_cycles", 26, 10, 1, "s_branch 1f\ns_nop 0\n1:"},
        {GFX942, "branch_fall_cycles", 18, 10, 1, "s_cbranch_scc1 1f\n1:"},
        {GFX942, "branch_taken_cycles", 26, 0, 1, "s_cbranch_scc1 1f\n1:"},
        {GFX942, "barrier_cycles", 26, 10, 4, "s_barrier"},
        {GFX942, "lds_latency", 74, 10, 1, "ds_read_b32 v100, v0\ns_waitcnt lgkmcnt(0)"},
        {GFX942, "lds_pair_bytes", 16, 12, 1, "ds_read_b32 v100, v0"},
        {GFX942, "lds_pair_bytes", 16, 12, 1, "ds_bpermute_b32 v100, v0, v101"},
        {GFX942, "lds_pair_bytes", 16, 27.5, 1, "ds_read_b64 v[100:101], v0"},
        {GFX942, "lds_write_b128_issue", 30, 10, 1, "ds_write_b128 v0, v[4:7]\n" ADDS(20)},
        {GFX942, "scalar_latency", 60, 10, 1, "s_memtime s[4:5]\ns_waitcnt lgkmcnt(0)"},
        {GFX942, "matrix_closed", 12, 8, 1, MFMA942 ADDS(7)},
        {GFX942, "matrix_result_states", 5, 8, 1, MFMA942 "v_add_f32 v100, v16, v16"},
        {GFX942, "packed_f32_hazard", 20, 8, 1,
         MFMA942 "v_pk_add_f32 v[100:101], v[102:103], v[104:105]"},
        {GFX1250, "valu_latency", 9, 4, 1, "v_add_f32 v100, v100, v101"},
        {GFX1250, "trans_latency", 12, 4, 1, "v_exp_f32 v100, v100"},
        {GFX1250, "salu_latency", 6, 4, 1, "s_add_co_u32 s4, s4, s5"},
        {GFX1250, "salu_valu_latency", 14, 4, 1, "s_mov_b32 s4, s5\nv_add_f32 v100, s4, v101"},
        {GFX1250, "salu_branch_latency", 13, 4, 1, "s_cmp_eq_u32 s4, s4\ns_cbranch_scc0 1f\n1:"},
        {GFX1250, "valu_memory_latency", 36, 4, 1, NO_LANE "v_mov_b32 v10, v0\n" LOAD},
        {GFX1250, "salu_memory_latency", 12, 4, 1, NO_LANE "s_mov_b32 s5, s6\n" LOAD},
        {GFX1250, "matrix_lds_cycles", 33, 4, 1, OWN_WMMA "ds_load_b32 v100, v0"},
        {GFX1250, "msb_scalar_cycles", 13, 4, 1, "s_mov_b32 s4, s5\ns_set_vgpr_msb 0"},
        {GFX1250, "msb_memory_cycles", 7, 4, 1, "ds_load_b32 v100, v0\ns_set_vgpr_msb 0"},
        {GFX1250, "msb_memory_cycles", 7, 4, 1, NO_LANE LOAD "\ns_set_vgpr_msb 0"},
        {GFX1250, "barrier_cycles", 21, 10, 4, "s_barrier_signal -1\ns_barrier_wait -1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double before = each(rows[i].target, rows[i].text, rows[i].waves);
        changed.name = rows[i].parameter, changed.value = rows[i].value;
        const double after = each(rows[i].target, rows[i].text, rows[i].waves);
        changed.name = NULL;
        if (fabs(after - before - rows[i].later) > 0.4) /* tolerance: a few of the 32 repetitions
                                                           differ */
            fail_msg("%s %g: %g -> %g clocks for %s", rows[i].parameter, rows[i].value, before,
                     after, rows[i].text);
    }
}

/* Exchanges of registers use the LDS crossbar but no bank, so indices cause no conflict. They take
 * 256 bytes on the bus of the SIMD pair. */
TEST(exchanges_of_lanes_meet_no_bank)
{
    static const char *const texts[] = {"ds_bpermute_b32 v100, v0, v101",
                                        "ds_swizzle_b32 v100, v101 offset:0x1f"};
    for (unsigned i = 0; i < 2; i++) {
        struct marks m;
        const struct time_cu_result r = run(GFX942, texts[i], 1, &m);
        assert_int_equal(r.lds_clocks, 2);
        assert_int_equal(r.lds_conflicts, 0);
    }
}

/* A wave that stores 16 bytes per lane to LDS sends the data for 20 clocks and issues nothing
 * meanwhile. A store of 4 bytes takes one issue slot. */
TEST(wide_stores_hold_their_wave)
{
    const char *wide = "ds_write_b128 v0, v[4:7]\n" ADDS(20),
               *narrow = "ds_write_b32 v0, v4\n" ADDS(20);
    assert_true(each(GFX942, wide, 1) == 20 + 20 * 4);
    assert_true(each(GFX942, narrow, 1) == 4 + 20 * 4);
}

/* vmcnt counts down in order. A fast load after a slow load completes after it. */
TEST(counters_go_down_in_order)
{
    const char *slow = "s_mov_b64 s[0:1], 0\ns_mov_b64 s[2:3], 0\nv_mov_b32 v2, 0\n"
                       "s_mov_b32 s4, 0x10000\nscratch_load_dword v1, off, off\n";
    const char *fast = "buffer_load_dword v3, off, s[0:3], 0\n"; /* out of range, since the buffer
                                                                    has 0 records */
    char text[3][400];
    snprintf(text[0], sizeof(text[0]), "%ss_nop 0\ns_waitcnt vmcnt(0)", slow);
    snprintf(text[1], sizeof(text[1]), "%s%ss_waitcnt vmcnt(0)", slow, fast);
    snprintf(text[2], sizeof(text[2]), "%s%ss_waitcnt vmcnt(1)", slow, fast);
    const double one = clocks(GFX942, text[0], 1);
    assert_true(one > 400);
    assert_true(clocks(GFX942, text[1], 1) >= one);
    assert_true(clocks(GFX942, text[2], 1) == one);
}

/* The second load of a line comes from the L1. A store to that line goes to the L2. */
TEST(lines_loaded_again_come_from_the_l1)
{
#define LOAD_LINE "scratch_load_dword v1, off, off\ns_waitcnt vmcnt(0)\n"
#define STORE_LINE "scratch_store_dword off, v1, off\ns_waitcnt vmcnt(0)\n"
    const double l2 = time_params_default(GFX942).l2_latency;
    const double load = clocks(GFX942, LOAD_LINE, 1);
    assert_true(load > l2);
    assert_true(clocks(GFX942, LOAD_LINE LOAD_LINE, 1) - load < l2);
    assert_true(clocks(GFX942, LOAD_LINE STORE_LINE, 1) - load >= l2);
}

/* A release of device scope walks the tags of the L2. An acquire delays later loads, but no counter
 * counts it. */
TEST(fences_wait_for_their_caches)
{
    const struct time_params p = time_params_default(GFX942);
    const double none = clocks(GFX942, "s_waitcnt vmcnt(0)", 1);
    const double release = clocks(GFX942, "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", 1) - none;
    const double group = clocks(GFX942, "buffer_wbl2 sc0\ns_waitcnt vmcnt(0)", 1) - none;
    const double acquire = clocks(GFX942, "buffer_inv sc1\ns_waitcnt vmcnt(0)", 1) - none;
    assert_true(release >= p.l2_writeback_cycles + p.l2_latency);
    assert_true(release < p.l2_writeback_cycles + p.l2_latency + 16);
    assert_true(group < p.l2_latency);
    assert_true(acquire == 4);
}

TEST(a_launch_counts_its_matrix_clocks)
{
    struct marks m;
    const struct time_cu_result r = run(GFX942, ".rept 3\n" MFMA942 ".endr", 5, &m);
    assert_int_equal(r.waves, 5);
    assert_int_equal(r.matrix_clocks, 5 * 3 * 32);
    uint64_t classes = 0;
    for (unsigned i = 0; i < MATRIX_CLASSES; i++)
        classes += r.matrix_by[i];
    assert_int_equal(classes, r.matrix_clocks);
    assert_int_equal(r.instructions, 5 * 4);
}

/* Each SIMD has two waves. One of them ends after 20 iterations of eight slots, and the other
 * executes 200 more. The bound counts the waves that are left. */
TEST(the_bound_of_a_loop_counts_waves_that_run)
{
    struct marks m;
    run(GFX942,
        "v_readfirstlane_b32 s4, v0\ns_lshr_b32 s4, s4, 8\ns_mul_i32 s4, s4, 200\n"
        "s_add_u32 s4, s4, 20\n1:\n" ADDS(8) "s_sub_u32 s4, s4, 1\ns_cmp_lg_u32 s4, 0\n"
                                             "s_cbranch_scc1 1b\n",
        8, &m);
    assert_true(m.loop.waves > 1 && m.loop.waves <= (2 * 40 + 200) / 240.0);
    assert_true(m.loop.bound == m.loop.waves * 8 * 4 && m.loop.bound <= m.loop.clocks);
    assert_true(m.loop.bound > 0.6 * m.loop.clocks);
}

TEST(barriers_hold_the_workgroup)
{
    /* Wave 0 takes 40 more issue slots than the others. All waves leave the barrier together. */
    const char *text = "v_readfirstlane_b32 s0, v0\ns_cmp_lg_u32 s0, 0\ns_cbranch_scc1 1f\n"
                       ".rept 40\nv_mov_b32 v1, v2\n.endr\n1:\ns_barrier\nv_mov_b32 v1, v2";
    struct marks m;
    run(GFX942, text, 4, &m);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(m.last[i], m.last[0]);
    assert_true(m.last[1] >= 160);
}

TEST(priority_wins_a_tie)
{
    /* Waves 0 and 4 share SIMD 0; wave 4 raises its priority. */
    const char *text = "v_readfirstlane_b32 s0, v0\ns_cmp_lg_u32 s0, 0x100\ns_cbranch_scc1 1f\n"
                       "s_setprio 3\n1:\n.rept 100\nv_mov_b32 v1, v2\n.endr";
    struct marks m;
    run(GFX942, text, 8, &m);
    assert_true(m.last[4] < m.last[0]);
}

/* The cache holds executed code at any address, up to 64 KB. */
TEST(code_of_earlier_launches_is_cached)
{
    struct marks m;
    const char far[] = "s_branch far\n.fill 30000, 4, 0xbf800000\nfar:\n" ADDS(500);
    const struct time_cu_result jumped = run(GFX950, far, 1, &m);
    const struct time_cu_result fits = run(GFX950, ADDS(16000), 1, &m);
    const struct time_cu_result longer = run(GFX950, ADDS(17000), 1, &m);
    assert_true(jumped.stall[HIPSIM_STALL_FETCH] < 100);
    assert_true(fits.stall[HIPSIM_STALL_FETCH] < 100);
    assert_in_range(longer.stall[HIPSIM_STALL_FETCH], 2000, 20000);
}

/* The functions from here on compare gfx1250 with microbenchmarks of an MI455X. */

#define WMMA(d) "v_wmma_f32_16x16x32_bf16 v[" d "], v[0:7], v[8:15], v[" d "]\n"
#define WMMAS WMMA("16:23") WMMA("24:31") WMMA("32:39") WMMA("40:47")

/* Returns the clocks of a tensor copy of `rows` rows of 128 bytes, including the wait for it. */
static double tensor_clocks(unsigned rows)
{
    enum { BYTES = 256 * 128 };
    static uint8_t zeros[BYTES];
    void *const memory = device_alloc(BYTES, zeros);
    const uint64_t at = (uint64_t)(uintptr_t)memory;
    char text[600];
    snprintf(text, sizeof(text),
             "s_mov_b32 s0, 1\ns_mov_b32 s1, 0\ns_mov_b32 s2, 0x%x\ns_mov_b32 s3, 0x%x\n"
             "s_mov_b32 s4, 0x20000\ns_mov_b32 s5, 0x200000\ns_mov_b32 s6, 0x%x\n"
             "s_mov_b32 s7, 0x200000\ns_mov_b32 s8, 0x%x\ns_mov_b32 s9, 32\ns_mov_b32 s10, 0\n"
             "s_mov_b32 s11, 0\ntensor_load_to_lds s[0:3], s[4:11]\ns_wait_tensorcnt 0",
             (unsigned)at, (unsigned)(at >> 32) | 2u << 30, rows << 16, rows);
    const double took = clocks(GFX1250, text, 1);
    hipsim_mem_free(memory);
    return took;
}

/* A copy by the tensor data mover requests all its lines. The L1 takes one line per clock. */
TEST(tensor_copies_take_the_time_of_their_lines)
{
    const double few = tensor_clocks(8), many = tensor_clocks(256);
    assert_true(many - few >= 248 && many - few < 2 * 248);
}

/* Measured: a product takes 8.0 to 8.25 clocks. A product that adds to the previous one takes 16.0
 * with one wave on the SIMD. It takes 9.0 with two waves and 8.0 with four. */
TEST(products_of_gfx1250_take_8_clocks)
{
    assert_true(each(GFX1250, WMMAS, 1) == 4 * 8);
    assert_true(each(GFX1250, WMMA("16:23"), 1) == 16);
    assert_true(each(GFX1250, WMMA("16:23"), 8) == 2 * 8);
    assert_true(each(GFX1250, WMMA("16:23"), 16) == 4 * 8);
    assert_true(clocks(GFX1250, WMMA("16:23") "v_add_f32 v100, v16, v16", 1) == 16 + 1);
}

/* Measured: 4 vector instructions or 2 v_exp_f32 are free in a product's 8 clocks. Each further one
 * takes 0.8 to 1 clocks, or 1.6. Packed instructions take about twice as long there. */
TEST(the_shadow_of_gfx1250_has_4_slots)
{
#define NOTHING(n) ".rept " #n "\nv_add_f32 v100, v101, v102\n.endr\n"
#define EXP "v_exp_f32 v100, v101\n"
#define PACKED "v_pk_fma_f32 v[100:101], v[102:103], v[104:105], v[106:107]\n"
    assert_true(each(GFX1250, NOTHING(1), 1) == 1);
    assert_true(each(GFX1250, EXP, 1) == 2);
    assert_true(each(GFX1250, PACKED, 1) == 1);
    assert_true(each(GFX1250, WMMA("16:23") NOTHING(4) WMMA("24:31") NOTHING(4), 1) == 16);
    assert_true(each(GFX1250, WMMA("16:23") NOTHING(6) WMMA("24:31") NOTHING(6), 1) == 20);
    assert_true(each(GFX1250, WMMA("16:23") EXP EXP WMMA("24:31") EXP EXP, 1) == 16);
    assert_true(each(GFX1250, WMMA("16:23") PACKED PACKED WMMA("24:31") PACKED PACKED, 1) == 16);
    assert_true(each(GFX1250, WMMA("16:23") PACKED PACKED PACKED WMMA("24:31"), 1) == 17);
}

/* Measured: n products and m LDS instructions of a wave take 8 n + 29 + m clocks, within 10 %. A
 * second wave hides the 29. */
TEST(products_and_lds_of_gfx1250_keep_apart)
{
#define READS(n) ".rept " #n "\nds_load_b32 v100, v99\n.endr\n"
    const char *begin = "v_lshlrev_b32 v99, 2, v0\n";
    char text[1024];
    snprintf(text, sizeof(text), "%s.rept 20\n" WMMAS READS(12) ".endr", begin);
    const double one = clocks(GFX1250, text, 1) / 20, want = 4 * 8 + 29 + 12;
    assert_true(one > 0.9 * want && one < 1.1 * want);
    assert_true(clocks(GFX1250, text, 5) / 20 < 1.1 * one); /* two waves on a SIMD */
}

/* Returns the bytes per clock that 8 waves read. One segment: all read segment 0. Two: each pair of
 * SIMDs reads its own. */
static double lds_rate(unsigned segments)
{
    char text[512];
    snprintf(text, sizeof(text),
             "s_bfe_u32 s0, ttmp8, 0x5001a\ns_and_b32 s0, s0, %u\ns_lshl_b32 s0, s0, 16\n"
             "v_lshlrev_b32 v99, 4, v0\nv_add_nc_u32 v99, s0, v99\n"
             ".rept 200\nds_load_b128 v[100:103], v99\n.endr\ns_wait_dscnt 0",
             segments - 1);
    struct marks m;
    run(GFX1250, text, 8, &m);
    uint64_t end = 0;
    for (unsigned i = 0; i < 8; i++)
        end = m.last[i] > end ? m.last[i] : end;
    return 200.0 * 8 * 512 / (double)end;
}

/* Measured: 255.9 bytes per clock from one segment of 64 KB, 511 if two pairs of SIMDs read two
 * segments. */
TEST(lds_of_gfx1250_has_segments)
{
    assert_true(lds_rate(1) > 240 && lds_rate(1) < 256);
    assert_true(lds_rate(2) > 470 && lds_rate(2) < 512);
}

/* The result of a vector instruction is available after 5 clocks. The result of a scalar
 * instruction is available after 2 clocks, to a vector instruction after 10. */
TEST(results_of_gfx1250_have_a_latency)
{
    assert_true(each(GFX1250, "v_add_f32 v100, v100, v101", 1) == 5);
    assert_true(each(GFX1250, "v_exp_f32 v100, v100", 1) == 8);
    assert_true(each(GFX1250, "s_add_co_u32 s0, s0, s1", 1) == 2);
    assert_true(clocks(GFX1250, "s_add_co_u32 s0, s1, s2\nv_add_nc_u32 v1, s0, v0", 1) == 11);
    assert_true(clocks(GFX1250, "v_cmp_lt_u32 s0, 3, v0\nv_add_nc_u32 v1, s0, v0", 1) == 6);
    assert_true(clocks(GFX1250, "v_add_f32 v100, v101, v102\ns_set_vgpr_msb 0", 1) == 2);
    assert_true(clocks(GFX1250, "s_add_co_u32 s0, s1, s2\ns_set_vgpr_msb 0", 1) == 11);
}

/* Waves pass 11 clocks after the last signal, regardless of how long they have waited. */
TEST(split_barriers_hold_the_workgroup)
{
    static const char *const text =
        "v_readfirstlane_b32 s0, v0\ns_cmp_lg_u32 s0, 0\n"
        "s_cbranch_scc1 1f\n" NOTHING(200) "1:\n"
                                           "s_barrier_signal -1\ns_barrier_wait -1";
    struct marks m;
    run(GFX1250, text, 4, &m);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(m.last[i], m.last[0]);
    assert_true(m.last[0] > 200 + 11 && m.last[0] < 200 + 11 + 40);
}

/* Most stalled clocks of each program have one cause. */
TEST(delays_have_their_cause)
{
    static const struct {
        const char *text;
        unsigned waves;
        enum hipsim_stall cause;
    } programs[] = {
        {".rept 30\ns_nop 7\n.endr", 1, HIPSIM_STALL_DEPENDENCY},
        {".rept 30\ns_sleep 3\n.endr", 1, HIPSIM_STALL_SLEEP},
        {".rept 30\ns_branch 1f\ns_nop 0\n1:\n.endr", 1, HIPSIM_STALL_FETCH},
        {ADDS(200), 8, HIPSIM_STALL_VALU},
        {".rept 20\n" MFMA942 ".endr", 1, HIPSIM_STALL_MATRIX},
        {".rept 20\n" MFMA942 "v_mov_b32 v1, v16\n.endr", 1, HIPSIM_STALL_RESULT},
        {".rept 200\ns_mov_b32 s0, s1\n.endr", 8, HIPSIM_STALL_SCALAR},
        {"v_lshlrev_b32 v0, 4, v0\n.rept 100\nds_read_b128 v[100:103], v0\n.endr", 4,
         HIPSIM_STALL_LDS_QUEUE},
        {"v_lshlrev_b32 v0, 2, v0\n.rept 20\nds_read_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n.endr", 1,
         HIPSIM_STALL_WAIT_LDS},
        {"v_readfirstlane_b32 s0, v0\ns_cmp_lg_u32 s0, 0\ns_cbranch_scc1 1f\n" ADDS(
             200) "1:\ns_barrier",
         4, HIPSIM_STALL_BARRIER},
    };
    for (unsigned i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct marks m;
        const struct time_cu_result r = run(GFX942, programs[i].text, programs[i].waves, &m);
        uint64_t sum = 0;
        for (unsigned k = 0; k < HIPSIM_STALL_COUNT; k++)
            sum += r.stall[k];
        if (r.stall[programs[i].cause] * 10 < sum * 9 || !sum)
            fail_msg("%s: %llu of %llu clocks have the cause %s", programs[i].text,
                     (unsigned long long)r.stall[programs[i].cause], (unsigned long long)sum,
                     hipsim_stall_name(programs[i].cause));
    }
}

TEST(runs_are_repeatable)
{
    const char *text = "v_lshlrev_b32 v0, 4, v0\n.rept 20\n" MFMA942 ADDS(
        5) "ds_read_b128 v[100:103], v0\ns_waitcnt lgkmcnt(0)\ns_barrier\n.endr";
    struct marks a, b;
    struct time_cu_result x = run(GFX942, text, 8, &a), y = run(GFX942, text, 8, &b);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_memory_equal(&x, &y, sizeof(x));
    assert_true(x.clocks > 0 && x.instructions == a.events);
    uint64_t waves = 0;
    for (unsigned i = 0; i < 8; i++)
        waves += a.last[i] + 4;
    uint64_t sum = x.issue;
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        sum += x.stall[i];
    assert_int_equal(sum, waves); /* every clock of every wave has a cause */
    assert_int_equal(x.stall[HIPSIM_STALL_NONE], 0);
}

/* Instructions of 8 bytes are either inside one window, or start at 4 mod 8. In the second case
 * every fourth one crosses two windows and takes one more slot (llvm-project PR 203934). The target
 * of a branch takes more. */
TEST(instructions_in_two_windows_come_later)
{
#define EIGHTS ".rept 32\nv_add3_u32 v1, v2, v3, v4\n.endr"
    fetch_windows = true;
    for (unsigned t = 0; t < 2; t++) {
        const enum gfx_target g = t ? GFX950 : GFX942;
        const double straight = clocks(g, "s_nop 0\ns_nop 0\n" EIGHTS, 1);
        assert_true(straight == 34 * 4);
        assert_true(clocks(g, "s_nop 0\n" EIGHTS, 1) == 33 * 4 + 8 * 4);
        const double near = clocks(g, "s_branch to\n.p2align 5\nto:\n" EIGHTS, 1);
        const double far =
            clocks(g, "s_branch to\n.p2align 5\n.fill 7, 4, 0xbf800000\nto:\n" EIGHTS, 1);
        assert_true(far == near + 8 + 7 * 4);
    }
    fetch_windows = false;
}

int main(void) { return run_unit_tests(); }
