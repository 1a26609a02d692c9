/* SPDX-License-Identifier: Apache-2.0 */
/* Tests kernels that wait for each other. Endless waiting ends with a deadlock fault, other kernels
 * complete. */
#include <pthread.h>
#include <time.h>

#include "tools/hipsim/tests/device.h"

/* Budget of instructions per wave. It exceeds a time slice (1 million), and all kernels here that
 * end. */
#define BUDGET 4000000

/* Runs `text`. s100 is the wave's number, s101 the workgroup's. s[2:3] and s[4:5] are the addresses
 * of two flags that are 0. */
static struct program run(const char *text, uint32_t waves, uint32_t groups, uint32_t *flags)
{
    struct program p = program_new(GFX942);
    p.block = 64 * waves;
    p.groups = groups;
    p.lds_bytes = 64;
    p.budget = BUDGET;
    p.checks = CHECK_MEMORY;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)flags);
    program_s64_set(&p, 4, (uint64_t)(uintptr_t)(flags + 16));
    program_try(&p, text);
    return p;
}

static void expect(enum fault_kind kind, const char *text, uint32_t waves, uint32_t groups)
{
    static const uint32_t zeros[64];
    void *flags = device_alloc(sizeof(zeros), zeros);
    const struct program p = run(text, waves, groups, flags);
    hipsim_mem_free(flags);
    if (p.fault.kind != kind)
        fail_msg("%s, not %s: %s\n%s", fault_name(p.fault.kind), fault_name(kind), p.fault.text,
                 text);
}

/* A loop of 1.2 million instructions that only change a counter. */
#define WORK                                                                  \
    "s_mov_b32 s20, 0x60000\nw: s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\n" \
    "s_cbranch_scc1 w\n"
#define ZERO "v_mov_b32 v0, 0\nv_mov_b32 v1, 1\ns_mov_b64 exec, 1\n"
#define POLL(flag)                                                               \
    "p: s_sleep 1\nglobal_load_dword v2, v0, " flag " sc1\ns_waitcnt vmcnt(0)\n" \
    "v_readfirstlane_b32 s6, v2\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc1 p\n"
#define SET(flag) "global_store_dword v0, v1, " flag " sc1\ns_waitcnt vmcnt(0)\n"

TEST(a_flag_that_nobody_sets)
{
    expect(FAULT_DEADLOCK, "forever: s_branch forever", 1, 1);
    expect(FAULT_DEADLOCK, ZERO POLL("s[2:3]"), 1, 1);
    expect(FAULT_DEADLOCK, ZERO POLL("s[2:3]"), 4, 3);
}

TEST(the_report_names_the_loop)
{
    static const uint32_t zeros[64];
    void *flags = device_alloc(sizeof(zeros), zeros);
    const struct program p = run(ZERO POLL("s[2:3]"), 1, 1, flags);
    hipsim_mem_free(flags);
    assert_non_null(strstr(p.fault.text, "wave 0 goes round a loop of 6 instructions at entry+12"));
}

/* A loop that stores the same value is waiting, a loop that counts in memory is not. */
TEST(polling_by_writes)
{
    expect(FAULT_DEADLOCK,
           ZERO "p: global_atomic_or v2, v0, v0, s[2:3] sc0\ns_waitcnt vmcnt(0)\n"
                "v_readfirstlane_b32 s6, v2\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc1 p\n",
           1, 1);
    expect(FAULT_DEADLOCK,
           ZERO "p: global_store_dword v0, v0, s[2:3]\ns_waitcnt vmcnt(0)\ns_branch p", 1, 1);
    expect(FAULT_NONE,
           ZERO "v_mov_b32 v3, 0x90000\np: global_atomic_add v2, v0, v1, s[2:3] sc0\n"
                "s_waitcnt vmcnt(0)\nv_cmp_lt_u32 vcc, v2, v3\ns_cbranch_vccnz p\n",
           1, 1);
    expect(FAULT_NONE,
           ZERO "v_mov_b32 v3, 0x90000\np: ds_add_rtn_u32 v2, v0, v1\n"
                "s_waitcnt lgkmcnt(0)\nv_cmp_lt_u32 vcc, v2, v3\ns_cbranch_vccnz p\n",
           1, 1);
}

/* Four waves of the second workgroup work for longer than a time slice in total before the flag is
 * set. The first workgroup's wave waits without using up its budget. */
TEST(a_flag_that_is_set_late)
{
    expect(FAULT_NONE,
           ZERO "s_cmp_eq_u32 s101, 1\ns_cbranch_scc0 other\n" WORK
                "s_barrier\n" SET("s[2:3]") "s_endpgm\nother: s_cmp_eq_u32 s100, 0\ns_cbranch_scc0 "
                                            "out\n" POLL("s[2:3]") "out: s_nop 0\n",
           4, 2);
}

TEST(waves_that_wait_for_each_other)
{
    expect(FAULT_DEADLOCK,
           ZERO "s_cmp_eq_u32 s101, 0\ns_cbranch_scc0 other\n" POLL("s[2:3]")
               SET("s[4:5]") "s_endpgm\nother: q: s_sleep 1\nglobal_load_dword v2, v0, s[4:5] sc1\n"
                             "s_waitcnt vmcnt(0)\nv_readfirstlane_b32 s6, v2\ns_cmp_eq_u32 s6, 0\n"
                             "s_cbranch_scc1 q\n" SET("s[2:3]"),
           1, 2);
    expect(FAULT_DEADLOCK,
           ZERO "s_cmp_eq_u32 s100, 0\ns_cbranch_scc1 b\n" POLL("s[2:3]") "b: s_barrier", 2, 1);
}

/* A clock changes even if memory does not, so a loop on a clock is no endless wait. */
TEST(waiting_for_a_time)
{
    expect(FAULT_NONE,
           "s_memtime s[10:11]\ns_waitcnt lgkmcnt(0)\ns_add_u32 s12, s10, 0x4000000\n"
           "p: s_memtime s[10:11]\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_u32 s10, s12\ns_cbranch_scc1 p\n",
           1, 1);
}

static void *set_later(void *flag)
{
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The simulator waits for stores of other threads of the process. */
TEST(a_flag_that_the_host_sets)
{
    static const uint32_t zeros[64];
    uint32_t *flags = device_alloc(sizeof(zeros), zeros);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, set_later, flags), 0);
    const struct program p = run(ZERO POLL("s[2:3]"), 1, 2, flags);
    pthread_join(thread, NULL);
    hipsim_mem_free(flags);
    assert_int_equal(p.fault.kind, FAULT_NONE);
}

int main(void) { return run_unit_tests(); }
