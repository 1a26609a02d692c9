/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the build driver with a trivial compile function: order, failures, cache and hooks.
 */
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "compiler/driver.h"
#include "tests/compiler/toy.h"
#include "tests/unit_test.h"

/* Number of variants that were compiled, in memory that the test shares with the processes that
 * compile. */
static atomic_uint *compiled;

/* "Compiles" to the variant's text and its hook's size. gqa 13 fails, gqa 11 and 12 kill the
 * process. */
static bool compile_text(const struct att_variant *v, const struct tgt_blob *hooks,
                         const struct attnc_compile_options *o, FILE *log, struct attnc_kernel *out,
                         char why[ATTNC_WHY])
{
    char text[ATT_TEXT_MAX + 32], line[ATT_TEXT_MAX];
    ++*compiled;
    if (v->gqa == 11)
        raise(SIGKILL);
    if (v->gqa == 12)
        _exit(1);
    att_variant_text(v, line);
    if (o->print)
        fprintf(log, "log of %s\n", line);
    if (v->gqa == 13) {
        snprintf(why, ATTNC_WHY, "thirteen");
        return false;
    }
    int n = snprintf(text, sizeof(text), "%s hook %zu", line, hooks->size);
    memset(out, 0, sizeof(*out));
    att_variant_name(v, out->name);
    out->facts.vgprs = (unsigned)v->head_dim;
    out->facts.vgpr_spills = v->gqa == 10 ? 513 : v->gqa == 9 ? 7 : 0;
    out->facts.sgpr_spills = v->gqa == 9 ? 3 : 0;
    out->facts.scratch_bytes = v->gqa == 9 ? 28 : 0;
    out->code.size = (size_t)n;
    out->code.data = (uint8_t *)strdup(text);
    return true;
}

/* A directory that is removed with its contents. */
struct fixture {
    char dir[64], cache[96];
    struct attnc_description desc;
    struct attnc_diag d;
    struct attnc_build_options o;
    struct attnc_build_result result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    strcpy(f->dir, "/tmp/attnc-test-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->cache, sizeof(f->cache), "%s/not/there/yet", f->dir);
    f->o = (struct attnc_build_options){
        .compile.stage = ATTNC_STAGE_LINKED,
        .compile_one = compile_text,
        .jobs = 2,
        .cache_dir = f->cache,
        .identity = 1,
    };
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int failed = nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return failed;
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* Builds the description `text`. Checks how many variants were compiled and not found in the cache.
 * The caller frees the result with end_build(). */
static bool start_build(struct fixture *f, const char *text, unsigned expected)
{
    f->desc = (struct attnc_description){0};
    f->d = (struct attnc_diag){.file = "test.yaml"};
    assert_true(attnc_read_description_bytes(
        text, strlen(text), f->dir, &(struct attnc_read_options){.templates = toy_templates},
        &f->desc, &f->d));
    *compiled = 0;
    bool good = attnc_build(&f->desc, &f->o, &f->result, &f->d);
    assert_int_equal(*compiled, expected);
    assert_int_equal(f->result.count, f->desc.count);
    return good;
}

static void end_build(struct fixture *f)
{
    attnc_build_result_free(&f->result);
    attnc_diag_clear(&f->d);
    attnc_description_free(&f->desc);
}

/* Checks that every kernel belongs to its variant. */
static void check_order(const struct fixture *f)
{
    for (size_t i = 0; i < f->desc.count; i++) {
        const struct attnc_kernel *k = &f->result.kernels[i];
        char text[ATT_TEXT_MAX];
        att_variant_text(&f->desc.variants[i], text);
        assert_int_equal(k->facts.vgprs, f->desc.variants[i].head_dim);
        assert_memory_equal(k->code.data, text, strlen(text));
    }
}

static const char many[] = "targets: [gfx942, gfx950]\n"
                           "kernels:\n"
                           "  - op: toy\n"
                           "    head_dim: [16, 32, 48, 64, 80, 96, 112, 128]\n"
                           "    gqa: [1, 2, 4, 8, 16, 32, 64, 128]\n";

TEST(kernels_come_in_the_order_of_variants)
{
    struct fixture *f = *state;
    for (unsigned jobs = 1; jobs <= 8; jobs *= 2) {
        f->o.jobs = jobs;
        f->o.cache_dir = NULL;
        assert_true(start_build(f, many, 128));
        check_order(f);
        end_build(f);
    }
}

TEST(the_second_build_compiles_nothing)
{
    struct fixture *f = *state;
    assert_true(start_build(f, many, 128));
    assert_int_equal(f->result.cached, 0);
    end_build(f);
    assert_true(start_build(f, many, 0));
    assert_int_equal(f->result.cached, 128);
    check_order(f);
    end_build(f);
    assert_true(start_build(f, "targets: gfx942\nkernels: [{ op: toy, head_dim: [16, 144] }]\n",
                            2)); /* gqa any is another variant */
    end_build(f);
}

TEST(another_compiler_compiles_again)
{
    struct fixture *f = *state;
    assert_true(start_build(f, many, 128));
    end_build(f);
    f->o.identity = 2;
    assert_true(start_build(f, many, 128));
    end_build(f);
    f->o.identity = 1;
    assert_true(start_build(f, many, 0));
    end_build(f);
}

TEST(the_identity_is_stable)
{
    assert_true(attnc_compiler_identity() != 0);
    assert_true(attnc_compiler_identity() == attnc_compiler_identity());
}

TEST(only_whole_kernels_are_kept)
{
    struct fixture *f = *state;
    static const char one[] = "targets: gfx942\nkernels: [{ op: toy, head_dim: 64 }]\n";
    f->o.compile.stage = ATTNC_STAGE_ASM;
    for (int i = 0; i < 2; i++) {
        assert_true(start_build(f, one, 1));
        end_build(f);
    }
    f->o.compile.stage = ATTNC_STAGE_LINKED;
    f->o.compile.disable = "opt_schedule";
    for (int i = 0; i < 2; i++) {
        assert_true(start_build(f, one, 1));
        end_build(f);
    }
}

static char entry[PATH_MAX];

static int find_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)where;
    if (kind == FTW_F)
        snprintf(entry, sizeof(entry), "%s", path);
    return 0;
}

/* Flips each byte of an entry of the cache, and truncates it at each length. The variant is
 * compiled each time, and the entry is written anew. */
TEST(a_damaged_entry_is_rebuilt)
{
    struct fixture *f = *state;
    static const char one[] = "targets: gfx942\nkernels: [{ op: toy, head_dim: 64 }]\n";
    assert_true(start_build(f, one, 1));
    end_build(f);
    assert_int_equal(nftw(f->cache, find_entry, 8, FTW_PHYS), 0);
    struct stat st;
    assert_int_equal(stat(entry, &st), 0);
    for (off_t at = 0; at < st.st_size; at += 7) {
        int fd = open(entry, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        assert_true(start_build(f, one, 1));
        end_build(f);
        assert_true(start_build(f, one, 0));
        end_build(f);
    }
    for (off_t size = 0; size < st.st_size; size += 97) {
        assert_int_equal(truncate(entry, size), 0);
        assert_true(start_build(f, one, 1));
        end_build(f);
    }
}

TEST(a_cache_that_cannot_be_written_costs_only_time)
{
    struct fixture *f = *state;
    write_file(f, "not", "a file where a directory should be");
    assert_true(start_build(f, many, 128));
    assert_int_equal(f->result.cache_error, ENOTDIR);
    check_order(f);
    end_build(f);
}

TEST(failures_are_reported_and_the_others_built)
{
    struct fixture *f = *state;
    static const char text[] = "targets: gfx942\n"
                               "kernels:\n"
                               "  - { op: toy, head_dim: 64, gqa: [1, 13] }\n"
                               "  - { op: toy, head_dim: [32, 48], gqa: 13 }\n";
    assert_false(start_build(f, text, 4));
    assert_int_equal(f->result.failed, 3);
    assert_non_null(f->result.kernels[0].code.data);
    assert_null(f->result.kernels[1].code.data);
    assert_int_equal(f->d.errors, 3);
    assert_int_equal(f->d.messages[0].at.line, 3);
    assert_string_equal(f->d.messages[0].text, "toy_bf16_d64_g13_gfx942: thirteen");
    assert_int_equal(f->d.messages[2].at.line, 4);
    end_build(f);
}

TEST(a_compile_that_dies_is_named_and_the_others_built)
{
    struct fixture *f = *state;
    static const char text[] = "targets: gfx942\n"
                               "kernels:\n"
                               "  - { op: toy, head_dim: 64, gqa: [11, 1, 2] }\n"
                               "  - { op: toy, head_dim: [32, 48], gqa: [4, 12] }\n";
    for (unsigned jobs = 1; jobs <= 4; jobs *= 2) {
        f->o.jobs = jobs;
        assert_false(start_build(f, text, jobs == 1 ? 7 : 3)); /* the cache has 4 the second time */
        assert_int_equal(f->result.failed, 3);
        assert_int_equal(f->d.errors, 3);
        assert_int_equal(f->d.messages[0].at.line, 3);
        assert_non_null(strstr(f->d.messages[0].text, "toy_bf16_d64_g11_gfx942: "));
        assert_non_null(strstr(f->d.messages[0].text, "died of signal 9"));
        assert_non_null(strstr(f->d.messages[2].text, "ended with status 1"));
        for (size_t i = 0; i < f->desc.count; i++)
            assert_true((f->desc.variants[i].gqa > 10) == !f->result.kernels[i].code.data);
        end_build(f);
    }
}

TEST(spills_are_said_with_numbers)
{
    struct fixture *f = *state;
    static const char text[] = "targets: gfx942\n"
                               "kernels: [{ op: toy, head_dim: 64, gqa: [1, 9] }]\n";
    static const char says[] = "toy_bf16_d64_g9_gfx942 spills 7 vector and 3 scalar registers and "
                               "takes 28 bytes of scratch memory a lane";
    for (int i = 0; i < 2; i++) { /* the second build finds every kernel in the cache */
        assert_true(start_build(f, text, i ? 0 : 2));
        assert_int_equal(f->d.count, 1);
        assert_false(f->d.messages[0].error);
        assert_string_equal(f->d.messages[0].text, says);
        end_build(f);
    }
    f->o.spills_are_errors = true;
    assert_false(start_build(f, text, 0));
    assert_true(f->d.messages[0].error);
    end_build(f);
}

TEST(hopeless_spills_are_errors)
{
    struct fixture *f = *state;
    assert_false(
        start_build(f, "targets: gfx942\nkernels: [{ op: toy, head_dim: 64, gqa: 10 }]\n", 1));
    assert_int_equal(f->d.errors, 1);
    assert_non_null(strstr(f->d.messages[0].text, "spills 513 vector"));
    assert_non_null(strstr(f->d.messages[0].text, "on gfx942 at most 512 may spill"));
    end_build(f);
    assert_false(
        start_build(f, "targets: gfx1201\nkernels: [{ op: toy, head_dim: 64, gqa: 9 }]\n", 1));
    assert_int_equal(f->d.errors, 1);
    assert_non_null(strstr(f->d.messages[0].text, "spills 7 vector"));
    assert_non_null(strstr(f->d.messages[0].text, "on gfx1201 at most 0 may spill"));
    end_build(f);
}

TEST(logs_come_in_order)
{
    struct fixture *f = *state;
    char *log = NULL, *expected = NULL;
    size_t size, expected_size;
    f->o.log = open_memstream(&log, &size);
    f->o.compile.print = "all";
    f->o.jobs = 4;
    assert_true(start_build(f, many, 128));
    fclose(f->o.log);
    FILE *out = open_memstream(&expected, &expected_size);
    for (size_t i = 0; i < f->desc.count; i++) {
        char text[ATT_TEXT_MAX];
        att_variant_text(&f->desc.variants[i], text);
        fprintf(out, "log of %s\n", text);
    }
    fclose(out);
    assert_string_equal(log, expected);
    free(log);
    free(expected);
    end_build(f);
}

static const char hooked[] = "targets: [gfx942, gfx950]\n"
                             "kernels: [{ op: toy, head_dim: 64, gqa: [1, 2], logits: hook.c }]\n";
#define HOOK(body)                                                                          \
    "#include <attn_hook.h>\n"                                                              \
    "#include \"shift.h\"\n"                                                                \
    "float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len,\n" \
    "                  const ATTN_DEVICE void *arg)\n"                                      \
    "{\n    " body "\n}\n"

TEST(a_hook_is_part_of_what_is_cached)
{
    struct fixture *f = *state;
    write_file(f, "shift.h", "#define SHIFT 1\n");
    write_file(f, "hook.c", HOOK("return logit - SHIFT * (query - key);"));
    assert_true(start_build(f, hooked, 4));
    assert_non_null(strstr((char *)f->result.kernels[0].code.data, "logits=hook hook "));
    assert_null(strstr((char *)f->result.kernels[0].code.data, "hook 0"));
    end_build(f);
    assert_true(start_build(f, hooked, 0));
    end_build(f);
    write_file(f, "shift.h", "#define SHIFT 2\n"); /* the hook includes this file */
    assert_true(start_build(f, hooked, 4));
    end_build(f);
}

TEST(a_hook_that_does_not_compile_shows_what_clang_says)
{
    struct fixture *f = *state;
    write_file(f, "shift.h", "");
    write_file(f, "hook.c", HOOK("return logit + kye;"));
    assert_false(start_build(f, hooked, 0));
    assert_int_equal(f->result.failed, 4);
    assert_int_equal(f->d.errors, 2); /* one per target */
    assert_int_equal(f->d.messages[0].at.line, 2);
    assert_non_null(strstr(f->d.messages[0].text, "hook.c does not compile for gfx942"));
    assert_non_null(strstr(f->d.messages[0].attached, "'kye'"));
    end_build(f);
}

TEST(a_hook_with_another_signature_does_not_compile)
{
    struct fixture *f = *state;
    write_file(f, "hook.c",
               "#include <attn_hook.h>\n"
               "float attn_logits(float logit) { return logit; }\n");
    assert_false(start_build(f, hooked, 0));
    assert_non_null(strstr(f->d.messages[0].attached, "conflicting types for 'attn_logits'"));
    end_build(f);
}

TEST(a_hook_that_keeps_a_value_is_refused_with_its_line)
{
    struct fixture *f = *state;
    write_file(f, "shift.h", "");
    write_file(f, "hook.c", HOOK("static int seen;\n    return logit + seen++;"));
    assert_false(start_build(f, hooked, 0));
    assert_int_equal(f->d.errors, 2); /* one per target */
    assert_non_null(strstr(f->d.messages[0].attached, "hook.c:6: error: 'seen' keeps its value"));
    end_build(f);
    write_file(f, "hook.c",
               HOOK("static const float steps[] = {0, 1, 3};\n    return logit + steps[key % 3];"));
    assert_true(start_build(f, hooked, 4));
    end_build(f);
}

TEST(the_example_hook_compiles_without_a_word)
{
    struct fixture *f = *state;
    char text[512];
    snprintf(text, sizeof(text),
             "targets: [gfx942, gfx950]\n"
             "kernels: [{ op: toy, head_dim: 64, logits: %s/alibi.c }]\n",
             TEST_HOOKS);
    assert_true(start_build(f, text, 2));
    assert_int_equal(f->d.count, 0);
    end_build(f);
}

int main(void)
{
    compiled =
        mmap(NULL, sizeof(*compiled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (compiled == MAP_FAILED)
        return 1;
    return run_unit_tests_between(setup, teardown);
}
