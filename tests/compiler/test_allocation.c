/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the front end when memory runs out: the first allocation fails, then the second, and so on
 * until everything succeeds. Each time the error is "out of memory", every block is freed, and no
 * output is half written. The test is linked with --wrap for malloc, calloc, realloc, strdup and
 * free. This affects our calls but not the calls inside shared libraries.
 */
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include "compiler/driver.h"
#include "tests/compiler/toy.h"
#include "tests/unit_test.h"

/* The state of the failing allocator, in memory that the test shares with the processes that
 * compile. Only one of them runs at a time. NULL: no allocation fails. */
static struct {
    long until_failure; /* allocations that succeed before all others fail; -1: none fails */
    bool failed;
} *memory;

static bool fails(void)
{
    if (!memory)
        return false;
    memory->failed = memory->failed || memory->until_failure == 0;
    if (memory->until_failure > 0)
        memory->until_failure--;
    return memory->until_failure == 0 && memory->failed;
}

/* The blocks that this process has allocated since n_live was last 0 and not freed. */
static void *live[4096];
static size_t n_live;

/* Adds a new block to live[] and returns it. NULL: no block. */
static void *add_live(void *block)
{
    if (block && n_live < sizeof(live) / sizeof(live[0]))
        live[n_live++] = block;
    return block;
}

/* Removes a block from live[], if it is there: the newest first, since it lives the shortest. */
static void remove_live(const void *block)
{
    for (size_t i = n_live; i-- > 0;) {
        if (live[i] == block) {
            live[i] = live[--n_live];
            return;
        }
    }
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *s);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *s);
void __wrap_free(void *block);

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

char *__wrap_strdup(const char *s) { return fails() ? NULL : add_live(__real_strdup(s)); }

void __wrap_free(void *block)
{
    remove_live(block);
    __real_free(block);
}

/* Makes the n-th and all later allocations fail. */
static void fail_from(long n)
{
    memory->until_failure = n;
    memory->failed = false;
}

static void fail_never(void) { memory->until_failure = -1; }

/* Anchors, merges, a hook, a quoted string, and enough variants to make every array grow. */
static const char good[] = "targets: [gfx942, gfx950]\n"
                           "defaults: &d { dtype: [bf16, \"fp16\"] }\n"
                           "kernels:\n"
                           "  - <<: *d\n"
                           "    op: toy\n"
                           "    head_dim: [16, 32, 48, 64, 80, 96, 112, 128]\n"
                           "    gqa: [1, 2, 4, 8, 16]\n"
                           "    logits: [null, hooks/alibi.c]\n";
static const char bad[] = "targets: [gfx94]\nkernels:\n  - { op: toy, head_dim: 7, gqa: x }\n";

static bool read(const char *text, struct attnc_description *desc, struct attnc_diag *d)
{
    *desc = (struct attnc_description){0};
    *d = (struct attnc_diag){.file = "test.yaml"};
    return attnc_read_description_bytes(text, strlen(text), TEST_GOLDEN,
                                        &(struct attnc_read_options){.templates = toy_templates},
                                        desc, d);
}

static long count_failures(const char *text, bool expected)
{
    for (long n = 0;; n++) {
        struct attnc_description desc;
        struct attnc_diag d;
        n_live = 0;
        fail_from(n);
        bool result = read(text, &desc, &d);
        bool ran_out = memory->failed;
        fail_never();
        assert_true(d.no_memory == ran_out);
        assert_true(result == (expected && !ran_out));
        assert_true(result == (desc.count > 0));
        attnc_diag_clear(&d);
        attnc_description_free(&desc);
        if (n_live)
            fail_msg("%zu blocks leak if allocation %ld fails", n_live, n);
        if (!ran_out)
            return n;
        assert_true(n < 1000);
    }
}

TEST(reading_a_good_description) { assert_true(count_failures(good, true) > 10); }

TEST(reading_a_bad_description) { assert_true(count_failures(bad, false) > 5); }

static bool compile_nothing(const struct att_variant *v, const struct tgt_blob *hooks,
                            const struct attnc_compile_options *o, FILE *log,
                            struct attnc_kernel *out, char why[ATTNC_WHY])
{
    (void)hooks, (void)o, (void)log;
    uint8_t *data = malloc(1);
    if (!data) {
        snprintf(why, ATTNC_WHY, "out of memory");
        return false;
    }
    *out = (struct attnc_kernel){.code = {data, 1}};
    att_variant_name(v, out->name);
    return true;
}

TEST(building)
{
    static const char text[] = "targets: gfx942\nkernels: [{ op: toy, head_dim: [64, 128] }]\n";
    for (long n = 0;; n++) {
        struct attnc_description desc;
        struct attnc_diag d;
        struct attnc_build_result result;
        const struct attnc_build_options options = {
            .compile_one = compile_nothing, .jobs = 1, .compile.stage = ATTNC_STAGE_LINKED};
        assert_true(read(text, &desc, &d));
        n_live = 0;
        fail_from(n);
        bool good_result = attnc_build(&desc, &options, &result, &d);
        bool ran_out = memory->failed;
        fail_never();
        assert_true(good_result == !ran_out);
        assert_true(good_result || d.no_memory || d.errors);
        attnc_build_result_free(&result);
        if (n_live)
            fail_msg("%zu blocks leak if allocation %ld fails", n_live, n);
        attnc_diag_clear(&d);
        attnc_description_free(&desc);
        if (!ran_out) {
            assert_true(n > 3);
            return;
        }
    }
}

int main(void)
{
    void *shared =
        mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    memory = shared;
    fail_never();
    return run_unit_tests();
}
