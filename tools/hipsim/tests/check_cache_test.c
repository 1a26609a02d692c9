/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the checks of caches: stale scalar loads (CDNA3 ISA, chapter 8: S_DCACHE_INV), and fences
 * between workgroups (LLVM, memory model gfx942: buffer_wbl2 and buffer_inv of agent scope). Each
 * kernel with a finding has similar kernels without, which only contain the fix.
 */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

#define CHECKS (CHECK_ALL & ~(uint32_t)(CHECK_HAZARD | CHECK_STRICT))

/* Runs `text`. s[2:3] is the address of data, s[8:9] of zeros for atomics. s4 is the wave's number,
 * s5 the workgroup's. */
static struct fault run(const char *text, uint32_t waves, uint32_t groups, uint32_t checks)
{
    static const uint32_t zeros[4096];
    void *data = device_alloc(sizeof(zeros), zeros), *locations = device_alloc(1024, zeros);
    struct program p = program_new(GFX942);
    p.block = 64 * waves;
    p.groups = groups;
    p.together = true;
    p.checks = checks;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_s64_set(&p, 8, (uint64_t)(uintptr_t)locations);
    program_try(&p, text);
    hipsim_mem_free(data);
    hipsim_mem_free(locations);
    return p.fault;
}

#define BEGIN                                  \
    "s_mov_b32 s4, s100\ns_mov_b32 s5, s101\n" \
    "v_mov_b32 v0, 0\nv_mov_b32 v1, 7\nv_mov_b32 v2, 0\nv_mov_b32 v3, 1\n"
#define SCALAR(at, mods) "s_load_dword s12, s[2:3], " at mods "\ns_waitcnt lgkmcnt(0)\n"
#define VECTOR(at) "global_store_dword v0, v1, s[2:3] offset:" at "\ns_waitcnt vmcnt(0)\n"
#define EMPTY "s_dcache_inv\ns_waitcnt lgkmcnt(0)\n"

static void expect_stale(bool stale, const char *text)
{
    const struct fault f = run(text, 1, 1, CHECKS), off = run(text, 1, 1, CHECK_MEMORY);
    if ((f.kind == FAULT_STALE) != stale || (!stale && f.kind != FAULT_NONE))
        fail_msg("\"%s\" in\n%s", f.text, text);
    assert_int_equal(off.kind, FAULT_NONE);
}

TEST(scalar_loads_after_vector_stores)
{
    expect_stale(true, BEGIN SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", ""));
    expect_stale(false, BEGIN SCALAR("0x0", "") VECTOR("0") EMPTY SCALAR("0x0", ""));
    expect_stale(false, BEGIN SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", " glc"));
    /* The line's first load finds the stored value in L2. */
    expect_stale(false, BEGIN VECTOR("0") SCALAR("0x0", ""));
    expect_stale(false, BEGIN SCALAR("0x40", "") VECTOR("0") SCALAR("0x0", ""));
    /* Emptying the cache before the first load does not help. */
    expect_stale(true, BEGIN EMPTY SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", ""));
    /* The second of the two stores stores the same values. */
    expect_stale(false, BEGIN VECTOR("0") SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", ""));
    expect_stale(false, BEGIN SCALAR("0x0", "") VECTOR("4") SCALAR("0x0", ""));
}

TEST(wide_scalar_loads)
{
#define WIDE(at) "s_load_dwordx4 s[12:15], s[2:3], " at "\ns_waitcnt lgkmcnt(0)\n"
    /* The load crosses the end of a 64-byte line. One dword of each line is checked. */
    expect_stale(true, BEGIN WIDE("0x38") VECTOR("56") SCALAR("0x38", ""));
    expect_stale(true, BEGIN WIDE("0x38") VECTOR("68") SCALAR("0x44", ""));
    expect_stale(true, BEGIN SCALAR("0x40", "") VECTOR("64") WIDE("0x38"));
    expect_stale(false, BEGIN WIDE("0x38") VECTOR("72") WIDE("0x38"));
    /* A report updates the copy, so the same value has no second finding. */
    struct program p = program_new(GFX942);
    void *data = device_alloc(256, NULL);
    p.checks = CHECK_STALE;
    p.keep_going = CHECK_STALE;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)data);
    program_try(&p, BEGIN SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", "") SCALAR("0x0", ""));
    assert_int_equal(p.findings, 1);
    assert_non_null(strstr(p.found[0].text, "1 of the 4 bytes"));
    hipsim_mem_free(data);
}

/* Tests that program `text` has a stale load. Its report must have `place`, the place of the
 * earlier load of the changed bytes. */
static void expect_since(const char *text, const char *place)
{
    const struct fault f = run(text, 1, 1, CHECK_STALE);
    assert_int_equal(f.kind, FAULT_STALE);
    if (!strstr(f.text, place))
        fail_msg("no \"%s\" in \"%s\"", place, f.text);
}

TEST(a_report_names_the_last_load_of_the_line)
{
    /* BEGIN has 24 bytes, and each load has 12 with its wait. */
    expect_since(BEGIN SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", ""), "at entry+24;");
    expect_since(BEGIN SCALAR("0x0", "") SCALAR("0x0", "") VECTOR("0") SCALAR("0x0", ""),
                 "at entry+36;");
    expect_since(BEGIN SCALAR("0x0", "") SCALAR("0x40", "") VECTOR("0") SCALAR("0x0", ""),
                 "at entry+24;");
    /* The last load reads two lines, and the first one has changed. */
    expect_since(BEGIN WIDE("0x38") SCALAR("0x40", "") VECTOR("56") WIDE("0x38"), "at entry+24;");
}

/* A wave that runs the code second finds the line that the first wave loaded. */
TEST(waves_share_the_scalar_cache)
{
#define FIRST "s_cmp_lg_u32 s4, 0\ns_cbranch_scc1 second\n"
#define SECOND "s_barrier\ns_barrier\ns_endpgm\nsecond:\ns_barrier\n"
#define LAST(fence) fence SCALAR("0x0", "") "s_barrier\n"
    struct fault f =
        run(BEGIN FIRST SCALAR("0x0", "") VECTOR("0") SECOND LAST(""), 2, 1, CHECK_STALE);
    assert_int_equal(f.kind, FAULT_STALE);
    f = run(BEGIN FIRST SCALAR("0x0", "") VECTOR("0") SECOND LAST(EMPTY), 2, 1, CHECK_STALE);
    assert_int_equal(f.kind, FAULT_NONE);
    /* Another workgroup has its own cache. */
    f = run(BEGIN SCALAR("0x0", "") VECTOR("0"), 1, 4, CHECK_STALE);
    assert_int_equal(f.kind, FAULT_NONE);
}

/* Workgroup 0 stores and raises a flag. Workgroup 1 polls the flag and loads. */
#define RAISE "global_store_dword v2, v3, s[8:9] sc1\ns_waitcnt vmcnt(0)\n"
#define AWAIT "global_load_dword v5, v2, s[8:9] sc1\ns_waitcnt vmcnt(0)\n"
#define LOAD(mods) "global_load_dword v4, v0, s[2:3]" mods "\ns_waitcnt vmcnt(0)\n"
#define WRITE_BACK(scope) "buffer_wbl2" scope "\ns_waitcnt vmcnt(0)\n"
#define DISCARD(scope) "buffer_inv" scope "\n"
#define PRODUCER "s_cmp_lg_u32 s5, 0\ns_cbranch_scc1 second\n"
#define CONSUMER "s_endpgm\nsecond:\n"

static void expect_fence(const char *missing, const char *text)
{
    const struct fault f = run(text, 1, 2, CHECKS);
    if (f.kind != (missing ? FAULT_FENCE : FAULT_NONE) || (missing && !strstr(f.text, missing)))
        fail_msg("\"%s\" in\n%s", f.text, text);
    assert_int_equal(run(text, 1, 2, CHECK_RACE).kind, FAULT_NONE);
}

TEST(stores_are_written_back)
{
    expect_fence("buffer_wbl2", BEGIN PRODUCER VECTOR("0") RAISE CONSUMER AWAIT LOAD(""));
    expect_fence(NULL, BEGIN PRODUCER VECTOR("0") WRITE_BACK(" sc1") RAISE CONSUMER AWAIT LOAD(""));
    /* Neither a write-back of workgroup scope nor a write-back before the store reaches another
     * XCD. */
    expect_fence("buffer_wbl2",
                 BEGIN PRODUCER VECTOR("0") WRITE_BACK(" sc0") RAISE CONSUMER AWAIT LOAD(""));
    expect_fence("buffer_wbl2", BEGIN PRODUCER VECTOR("4") WRITE_BACK(" sc1") VECTOR("0")
                                    RAISE CONSUMER AWAIT LOAD(""));
    /* The flag may be seen before a write-back for which the wave has not waited. */
    expect_fence("wait for the buffer_wbl2",
                 BEGIN PRODUCER VECTOR("0") "buffer_wbl2 sc1\n" RAISE CONSUMER AWAIT LOAD(""));
    expect_fence("wait for the buffer_wbl2",
                 BEGIN PRODUCER VECTOR("0") "buffer_wbl2 sc1\nbuffer_wbl2 sc1\n"
                                            "s_waitcnt vmcnt(1)\n" RAISE CONSUMER AWAIT LOAD(""));
    /* A later release, after a wait, does not make up for it. */
    expect_fence(
        "wait for the buffer_wbl2",
        BEGIN PRODUCER VECTOR(
            "0") "buffer_wbl2 sc1\n" RAISE
                 "global_store_dword v2, v3, s[8:9] offset:256 sc1\ns_waitcnt vmcnt(0)\n" CONSUMER
                     AWAIT LOAD(""));
    expect_fence(NULL, BEGIN PRODUCER VECTOR("0") "buffer_wbl2 sc1\n" WRITE_BACK(" sc1")
                           RAISE CONSUMER AWAIT LOAD(""));
    /* A store with sc1 writes through to memory. */
    expect_fence(NULL, BEGIN PRODUCER
                 "global_store_dword v0, v1, s[2:3] sc1\ns_waitcnt vmcnt(0)\n" RAISE CONSUMER AWAIT
                     LOAD(""));
    /* The waves of a workgroup share L2. */
    expect_fence(NULL, BEGIN PRODUCER VECTOR("0") LOAD("") CONSUMER);
}

/* Workgroup 1 runs first. It loads the dword and raises another flag, so its cache has an old
 * line. */
TEST(loaded_lines_are_discarded)
{
#define FIRST_GROUP "s_cmp_lg_u32 s5, 1\ns_cbranch_scc1 other\n"
#define OTHER "other:\n"
#define FLAG(at) "global_atomic_add v6, v2, v3, s[8:9] offset:" at " sc0 sc1\ns_waitcnt vmcnt(0)\n"
#define WAIT_FOR(at, label)                                                             \
    label ":\nglobal_load_dword v5, v2, s[8:9] offset:" at " sc1\ns_waitcnt vmcnt(0)\n" \
          "v_readfirstlane_b32 s6, v5\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc1 " label "\n"
#define READER(fence, mods) \
    FIRST_GROUP LOAD("") FLAG("0") WAIT_FOR("64", "wait") fence LOAD(mods) "s_endpgm\n"
#define WRITER OTHER WAIT_FOR("0", "poll") VECTOR("0") WRITE_BACK(" sc1") FLAG("64")
    static const char *const missing[] = {BEGIN READER("", "") WRITER,
                                          BEGIN READER(DISCARD(" sc0"), "") WRITER};
    static const char *const good[] = {BEGIN READER(DISCARD(" sc1"), "") WRITER,
                                       BEGIN READER("", " sc1") WRITER};
    for (unsigned i = 0; i < 2; i++) {
        expect_fence("buffer_inv", missing[i]);
        expect_fence(NULL, good[i]);
    }
}

int main(void) { return run_unit_tests(); }
