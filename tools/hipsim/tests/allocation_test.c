/* SPDX-License-Identifier: Apache-2.0 */
/* Tests launches when memory runs out: the first allocation fails, then the second, and so on until
 * none does. A launch then ends, it says why if it fails, and every block is freed. --wrap replaces
 * the functions that allocate in hipsim, but in no shared library. */
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/core/isa.h"
#include "tools/hipsim/core/memory.h"
#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/time/time_launch.h"

enum { LANES = 64, WAVES = 2, GROUPS = 6 };

/* The blocks that were allocated since `counting` was set and not freed since. */
static void *live[1024];
static size_t n_live;
static bool counting;

/* Allocations that succeed before all others fail, and whether one has failed. */
static long until_failure;
static bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);

/* True if this allocation fails. */
static bool fails(void)
{
    if (!counting || until_failure-- > 0)
        return false;
    until_failure = 0;
    return failed = true;
}

/* Adds a new block to live[] and returns it. NULL: no block. */
static void *add_live(void *block)
{
    if (counting && block && n_live < sizeof(live) / sizeof(live[0]))
        live[n_live++] = block;
    return block;
}

/* Removes a block from live[], if it is there. */
static void remove_live(const void *block)
{
    for (size_t i = n_live; i-- > 0;) {
        if (live[i] == block) {
            live[i] = live[--n_live];
            return;
        }
    }
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : add_live(__real_malloc(size)); }

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : add_live(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    void *const block = fails() ? NULL : __real_realloc(old, size);
    if (block)
        remove_live(old);
    return add_live(block);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : add_live(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *block)
{
    remove_live(block);
    __real_free(block);
}

/* Each lane stores its number to LDS, loads its neighbour's, and stores that to memory. */
static const char *const text = "v_lshlrev_b32 v1, 2, v0\n"
                                "v_xor_b32 v2, 4, v1\n"
                                "s_lshl_b32 s3, s2, 9\n"
                                "v_add_u32 v3, s3, v1\n"
                                "ds_write_b32 v1, v0\n"
                                "s_waitcnt lgkmcnt(0)\n"
                                "s_barrier\n"
                                "ds_read_b32 v4, v2\n"
                                "s_waitcnt lgkmcnt(0)\n"
                                "global_store_dword v3, v4, s[0:1]\n"
                                "s_endpgm\n";

/* Runs the launch with the model of time or without it. Returns 0, or -1 after a fault. */
static int run(struct launch *launch, bool timed)
{
    const struct time_config config = {.params = time_params_default(GFX942), .samples = 2};
    struct hipsim_time_report report;
    return timed ? time_launch_run(launch, &config, &report) : engine_run(launch);
}

/* Returns the number of allocations of a launch, after all of them have failed in turn. */
static long fail_each(const struct launch *first, bool timed)
{
    for (long n = 0;; n++) {
        struct launch launch = *first;
        until_failure = n;
        failed = false;
        counting = true;
        const int result = run(&launch, timed);
        counting = false;
        if (n_live)
            fail_msg("%zu blocks leak if allocation %ld fails", n_live, n);
        if (result && !strstr(launch.fault.text, "memory"))
            fail_msg("allocation %ld fails: \"%s\"", n, launch.fault.text);
        if (!failed) {
            assert_int_equal(result, 0);
            return n;
        }
        assert_true(n < 1000);
    }
}

TEST(launches_end_without_memory)
{
    size_t bytes;
    void *const machine = assemble(GFX942, text, &bytes);
    struct code *const code = code_create(GFX942, machine, bytes, (uint64_t)(uintptr_t)machine);
    struct hipsim_mem_request request = {.size = 4 * LANES * WAVES * GROUPS,
                                         .kind = HIPSIM_MEM_DEVICE};
    void *const words = hipsim_mem_alloc(&request);
    assert_true(code && words);
    struct launch launch = {
        .code = code,
        .kernel = "neighbours",
        .entry_pc = code_address(code),
        .grid = {LANES * WAVES * GROUPS, 1, 1},
        .block = {LANES * WAVES, 1, 1},
        .nvgpr = 8,
        .nuser_sgpr = 2,
        .sgpr_workgroup_id = {true, false, false},
        .lds_bytes = 4 * LANES * WAVES,
        .threads = 1,
        .checks = CHECK_ALL,
    };
    memcpy(launch.user_sgpr, &words, sizeof(words));
    static const struct {
        bool timed;
        uint32_t sample;
    } kinds[] = {{false, 0}, {true, 0}, {false, 2}};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        launch.sample = kinds[i].sample;
        struct launch once = launch; /* fills caches that outlive a launch */
        if (run(&once, kinds[i].timed) != 0)
            fail_msg("%s", once.fault.text);
        assert_true(fail_each(&launch, kinds[i].timed) > 5);
    }
    hipsim_mem_free(words);
    code_destroy(code);
    free(machine);
}

/* Clusters have barriers of their own. */
TEST(launches_of_clusters_end_without_memory)
{
    size_t bytes;
    void *const machine = assemble(GFX1250, "s_endpgm\n", &bytes);
    struct code *const code = code_create(GFX1250, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    const struct launch launch = {
        .code = code,
        .kernel = "nothing",
        .entry_pc = code_address(code),
        .grid = {32 * GROUPS, 1, 1},
        .block = {32, 1, 1},
        .cluster = {1, 1, 1},
        .nvgpr = 8,
        .threads = 1,
    };
    struct launch once = launch;
    if (run(&once, false) != 0)
        fail_msg("%s", once.fault.text);
    assert_true(fail_each(&launch, false) > 3);
    code_destroy(code);
    free(machine);
}

int main(void) { return run_unit_tests(); }
