/* SPDX-License-Identifier: Apache-2.0 */
/* Tests barriers that some waves do not reach. Each kernel that fails the check has a similar
 * kernel that passes. */
#include "tools/hipsim/tests/device.h"

/* Runs `text` with four waves. s100 is the wave number, v10 an LDS address per lane. */
static struct fault run(const char *text)
{
    struct program p = program_new(GFX942);
    p.block = 256;
    p.lds_bytes = 1024;
    p.budget = 100000;
    program_lanes(&p, 10, 4);
    program_try(&p, text);
    return p.fault;
}

static void expect(enum fault_kind kind, const char *bad, const char *good)
{
    const struct fault tripped = run(bad), none = run(good);
    check_pair(kind, &tripped, bad, &none, good);
}

#define FIRST_WAVE "s_cmp_eq_u32 s100, 0\n"
#define STORE "ds_write_b32 v10, v10\ns_waitcnt lgkmcnt(0)\n"

TEST(waves_pass_equally_many_barriers)
{
    expect(FAULT_BARRIER, FIRST_WAVE "s_cbranch_scc1 out\ns_barrier\nout:",
           FIRST_WAVE "s_cbranch_scc1 out\nout: s_barrier\n");
    expect(FAULT_BARRIER,
           "s_add_u32 s0, s100, 1\nl: s_barrier\ns_sub_u32 s0, s0, 1\n"
           "s_cmp_lg_u32 s0, 0\ns_cbranch_scc1 l",
           "s_mov_b32 s0, 4\nl: s_barrier\ns_sub_u32 s0, s0, 1\ns_cmp_lg_u32 s0, 0\n"
           "s_cbranch_scc1 l");
    /* The hardware does not distinguish barriers: each wave only has to execute the same number. */
    expect(FAULT_BARRIER,
           FIRST_WAVE "s_cbranch_scc1 other\ns_barrier\ns_barrier\ns_endpgm\n"
                      "other: s_barrier",
           FIRST_WAVE "s_cbranch_scc1 other\ns_barrier\ns_endpgm\nother: s_barrier");
}

/* Work-items that return before any other operation do not have to reach a barrier. */
TEST(waves_return_early)
{
#define LEAVE FIRST_WAVE "s_cselect_b64 exec, 0, exec\ns_cbranch_execz out\n"
    expect(FAULT_BARRIER, STORE LEAVE "s_barrier\nout:", LEAVE STORE "s_barrier\nout:");
#define REST "s_barrier\nout: s_mov_b64 exec, 1\n"
    expect(FAULT_BARRIER, LEAVE REST "ds_write_b32 v10, v10", LEAVE REST "ds_read_b32 v4, v10");
}

TEST(lanes_do_not_skip_a_barrier)
{
    expect(FAULT_DIVERGE,
           "s_mov_b64 s[0:1], exec\ns_mov_b32 exec_hi, 0\ns_barrier\n"
           "s_mov_b64 exec, s[0:1]\ns_barrier",
           "s_mov_b32 exec_hi, 0\ns_barrier\ns_barrier");
}

/* Lanes that skipped the barrier may access memory, but not in one instruction with lanes
 * that passed it. */
TEST(lanes_do_not_overtake)
{
#define HALF "s_mov_b64 s[0:1], exec\ns_mov_b32 exec_hi, 0\ns_barrier\n"
    expect(FAULT_DIVERGE, HALF "s_mov_b64 exec, s[0:1]\n" STORE,
           HALF "s_not_b64 exec, exec\n" STORE);
    expect(FAULT_DIVERGE, HALF "s_mov_b64 exec, s[0:1]\nds_read_b32 v4, v10",
           HALF "ds_read_b32 v4, v10");
}

/* A barrier has one report with its position, even if lanes of both kinds execute several
 * instructions together after it. */
TEST(a_report_names_the_barrier)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 1024;
    p.keep_going = CHECK_ALL;
    program_lanes(&p, 10, 4);
    program_try(&p, HALF "s_mov_b64 exec, s[0:1]\n" STORE STORE);
    assert_int_equal(p.findings, 1);
    assert_int_equal(p.found[0].kind, FAULT_DIVERGE);
    assert_non_null(strstr(p.found[0].text, "inactive at the wave's barrier at entry+8, which"));
    assert_non_null(strstr(p.found[0].text, "lanes 0xffffffff00000000"));
}

TEST(waves_that_never_arrive)
{
    expect(FAULT_DEADLOCK, FIRST_WAVE "s_cbranch_scc0 on\ns_sethalt 1\non: s_barrier",
           FIRST_WAVE "s_cbranch_scc0 on\ns_sethalt 0\non: s_barrier");
    expect(FAULT_BUDGET, FIRST_WAVE "s_cbranch_scc0 on\nl: s_sleep 1\ns_branch l\non: s_barrier",
           FIRST_WAVE "s_cbranch_scc0 on\ns_sleep 1\non: s_barrier");
}

int main(void) { return run_unit_tests(); }
