/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests descriptions that are too large, too deep or not text: a clear error or success, in bounded
 * memory. Ordinary descriptions are tested by golden/.
 */
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>
#include <unistd.h>

#include "compiler/description.h"
#include "compiler/yaml.h"
#include "tests/compiler/toy.h"
#include "tests/unit_test.h"

/* A text in memory that a test appends to by writing to `out`. */
struct text {
    char *bytes;
    size_t size;
    FILE *out;
};

static void start_text(struct text *t)
{
    *t = (struct text){0};
    t->out = open_memstream(&t->bytes, &t->size);
    assert_non_null(t->out);
}

struct reading {
    struct attnc_description desc;
    struct attnc_diag d;
    bool good;
};

static struct reading read_bytes(const char *bytes, size_t size)
{
    struct reading r = {.d = {.file = "test.yaml"}};
    r.good = attnc_read_description_bytes(
        bytes, size, ".", &(struct attnc_read_options){.templates = toy_templates}, &r.desc, &r.d);
    assert_true(r.good == (r.d.errors == 0));
    assert_true(r.good || r.desc.count == 0);
    return r;
}

static void end_reading(struct reading *r)
{
    attnc_diag_clear(&r->d);
    attnc_description_free(&r->desc);
}

/* Reads a description, expects an error with these words, prints and frees it. */
static void expect_error(const char *bytes, size_t size, const char *words)
{
    struct reading r = read_bytes(bytes, size);
    struct text t;
    start_text(&t);
    attnc_diag_print(&r.d, t.out);
    fclose(t.out);
    assert_false(r.good);
    if (!strstr(t.bytes, words))
        fail_msg("expected '%s' in:\n%.2000s", words, t.bytes);
    free(t.bytes);
    end_reading(&r);
}

static void expect_text_error(struct text *t, const char *words)
{
    fclose(t->out);
    expect_error(t->bytes, t->size, words);
    free(t->bytes);
}

static void expect_ten_thousand(struct text *t)
{
    fclose(t->out);
    struct reading r = read_bytes(t->bytes, t->size);
    assert_true(r.good);
    assert_int_equal(r.desc.count, 10000);
    end_reading(&r);
    free(t->bytes);
}

TEST(ten_thousand_kernels_one_by_one)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels:\n", t.out);
    for (int i = 0; i < 10000; i++)
        fprintf(t.out, "  - { op: toy, head_dim: %d, gqa: %d, mask: %s, lse: %s }\n",
                16 * (i % 10 + 1), i / 10 % 250 + 1, i / 2500 % 2 ? "causal" : "none",
                i < 5000 ? "true" : "false");
    expect_ten_thousand(&t);
}

TEST(ten_thousand_kernels_by_product)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942, gfx950]\nkernels:\n  - op: toy\n    lse: [true, false]\n"
          "    head_dim: [16, 32, 48, 64, 80, 96, 112, 128, 144, 160]\n    gqa: [",
          t.out);
    for (int i = 1; i <= 250; i++)
        fprintf(t.out, "%s%d", i > 1 ? "," : "", i);
    fputs("]\n", t.out);
    expect_ten_thousand(&t);
}

/* Equal variants become one. The same product is listed twice, and one of its variants a third
 * time. */
TEST(equal_variants_merge_in_the_order_of_their_first)
{
    static const char bytes[] = "targets: [gfx950, gfx942, gfx950]\n"
                                "kernels:\n"
                                "  - { op: toy, head_dim: [64, 64, 128], mask: causal }\n"
                                "  - { op: toy, head_dim: [128, 64], gqa: [any, any] }\n"
                                "  - { op: toy, head_dim: 64, head_dim_v: 64, targets: gfx942 }\n";
    static const struct {
        const char *target;
        int head_dim;
    } expected[] = {{"gfx950", 64}, {"gfx950", 128}, {"gfx942", 64}, {"gfx942", 128}};
    struct reading r = read_bytes(bytes, sizeof(bytes) - 1);
    assert_true(r.good);
    assert_int_equal(r.desc.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(r.desc.variants[i].target, expected[i].target);
        assert_int_equal(r.desc.variants[i].head_dim, expected[i].head_dim);
    }
    end_reading(&r);
}

TEST(a_product_past_the_limit_is_an_error)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels:\n  - op: toy\n    head_dim: &n [", t.out);
    for (int i = 1; i <= 250; i++)
        fprintf(t.out, "%s%d", i > 1 ? "," : "", i);
    fputs("]\n    head_dim_v: *n\n    gqa: *n\n    lse: [true, false]\n", t.out);
    expect_text_error(&t, "more than 65536 kernels");
}

TEST(an_alias_bomb_is_an_error)
{
    struct text t;
    start_text(&t);
    fputs("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", t.out);
    for (int i = 1; i < 60; i++) {
        fprintf(t.out, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            fprintf(t.out, "%s*a%d", k ? ", " : "", i - 1);
        fputs("]\n", t.out);
    }
    fputs("targets: *a59\nkernels: *a59\n", t.out);
    expect_text_error(&t, "unknown key 'a0'");
}

TEST(a_merge_bomb_is_an_error)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels:\n  - &m0 { op: toy, head_dim: 64 }\n", t.out);
    for (int i = 1; i <= 8; i++) {
        fprintf(t.out, "  - &m%d\n    <<: [", i);
        for (int k = 0; k < 20; k++)
            fprintf(t.out, "%s*m%d", k ? ", " : "", i - 1);
        fputs("]\n", t.out);
    }
    expect_text_error(&t, "come to more than");
}

/* Many kernels refer to one anchor, and each adds a product of its own. The number of all variants
 * has a limit. */
TEST(repeated_products_are_bounded)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels:\n  - &k\n    op: toy\n    head_dim: [", t.out);
    for (int i = 1; i <= 200; i++)
        fprintf(t.out, "%s16", i > 1 ? "," : "");
    fputs("]\n    gqa: [", t.out);
    for (int i = 1; i <= 200; i++)
        fprintf(t.out, "%s%d", i > 1 ? "," : "", i);
    fputs("]\n", t.out);
    for (int i = 0; i < 1000; i++)
        fputs("  - *k\n", t.out);
    expect_text_error(&t, "come to more than");
}

TEST(deep_nesting_is_an_error)
{
    for (int depth = 20; depth <= 200000; depth *= 100) {
        struct text t;
        start_text(&t);
        fputs("targets: ", t.out);
        for (int i = 0; i < depth; i++)
            fputc('[', t.out);
        for (int i = 0; i < depth; i++)
            fputc(']', t.out);
        expect_text_error(&t, depth > ATTNC_MAX_DEPTH ? "nested deeper than 32 levels"
                                                      : "expected the name of a target");
    }
    struct text t;
    start_text(&t);
    for (int i = 0; i < 20000; i++)
        fprintf(t.out, "%*s- a:\n", i % 1000, "");
    expect_text_error(&t, "");
}

TEST(a_large_file_is_an_error)
{
    size_t size = 64 << 20;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, '#', size);
    expect_error(bytes, size, "larger than 16 MiB");

    /* The largest allowed comment, word, list and line. */
    static const char words[] = "no value ends in the 1048576 bytes from here on";
    memcpy(bytes, "kernels: [] ", 12);
    expect_error(bytes, ATTNC_MAX_BYTES, words);
    memset(bytes, 'x', ATTNC_MAX_BYTES);
    expect_error(bytes, ATTNC_MAX_BYTES, words);
    memset(bytes, '[', ATTNC_MAX_BYTES);
    expect_error(bytes, ATTNC_MAX_BYTES, words);
    memset(bytes, '%', ATTNC_MAX_BYTES);
    expect_error(bytes, ATTNC_MAX_BYTES, "a directive longer than 128 bytes");
    for (size_t i = 0; i < ATTNC_MAX_BYTES; i += 4)
        memcpy(bytes + i, "- a\n", 4);
    expect_error(bytes, ATTNC_MAX_BYTES, "more than 1048576 values");
    free(bytes);
}

TEST(a_large_file_on_disk_is_not_read_whole)
{
    char path[] = "/tmp/attnc-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)64 << 20), 0);
    close(fd);
    struct attnc_description desc;
    struct attnc_diag d;
    assert_false(attnc_read_description(path, &(struct attnc_read_options){0}, &desc, &d));
    assert_int_equal(d.errors, 1);
    assert_string_equal(d.messages[0].text, "larger than 16 MiB");
    assert_true(desc.size < (size_t)34 << 20);
    attnc_diag_clear(&d);
    attnc_description_free(&desc);
    unlink(path);
}

TEST(what_cannot_be_read_is_an_error)
{
    static const char *const paths[] = {"/nonexistent/x.yaml", "/", "/proc/self/mem"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct attnc_description desc;
        struct attnc_diag d;
        assert_false(attnc_read_description(paths[i], &(struct attnc_read_options){0}, &desc, &d));
        assert_int_equal(d.errors, 1);
        attnc_diag_clear(&d);
        attnc_description_free(&desc);
    }
}

/* With more errors than are kept, the first hundred are printed and the others counted. */
TEST(many_errors_are_counted)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels:\n", t.out);
    for (int i = 0; i < 5000; i++)
        fprintf(t.out, "  - { op: toy, head_dim: x%d }\n", i);
    expect_text_error(&t, "test.yaml: 4900 more errors\n");
}

TEST(a_long_line_is_cut_around_the_caret)
{
    struct text t;
    start_text(&t);
    fputs("targets: [gfx942]\nkernels: [", t.out);
    for (int i = 0; i < 10000; i++)
        fputs("{ op: toy, head_dim: 64 }, ", t.out);
    fputs("{ op: toy, head_dim: oops }]\n", t.out);
    fclose(t.out);
    struct reading r = read_bytes(t.bytes, t.size);
    struct text printed;
    start_text(&printed);
    attnc_diag_print(&r.d, printed.out);
    fclose(printed.out);
    assert_true(printed.size < 600);
    char *line = strstr(printed.bytes, "oops }");
    char *caret = strchr(printed.bytes, '^');
    assert_non_null(line);
    assert_non_null(caret);
    char *line_start = line, *caret_start = caret;
    while (line_start[-1] != '\n')
        line_start--;
    while (caret_start[-1] != '\n')
        caret_start--;
    assert_int_equal(line - line_start, caret - caret_start);
    free(printed.bytes);
    end_reading(&r);
    free(t.bytes);
}

/* Reads every prefix of a valid file, and the file with every byte replaced by special
 * characters. */
TEST(damaged_files_never_crash)
{
    static const char good[] = "targets: [gfx942, &t gfx950]\n"
                               "defaults: { dtype: [bf16, 'fp16'], head_dim: 128 }\n"
                               "kernels:\n"
                               "  - &k { op: toy, mask: causal, \"lse\": true }\n"
                               "  - <<: *k\n"
                               "    sinks: [true, false] # all\n"
                               "    targets: *t\n";
    static const char bytes[] = "\0\t\n\r \"'#&*,-:<?[]{|}~\x7f\x80\xc3\xff%@!`";
    char copy[sizeof(good)];
    for (size_t size = 0; size < sizeof(good); size++) {
        struct reading r = read_bytes(good, size);
        end_reading(&r);
    }
    for (size_t i = 0; i + 1 < sizeof(good); i++) {
        for (size_t k = 0; k + 1 < sizeof(bytes); k++) {
            memcpy(copy, good, sizeof(good));
            copy[i] = bytes[k];
            struct reading r = read_bytes(copy, sizeof(good) - 1);
            end_reading(&r);
        }
    }
}

/* Checks the most memory that the tests before used, so it must run last. */
TEST(memory_stays_bounded)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    /* The limit is 64 MiB. With a sanitizer it is larger, for shadow memory and freed blocks. */
    long limit_kib = 512 << 10;
#ifdef __SANITIZE_ADDRESS__
    limit_kib *= 4;
#endif
    assert_true(usage.ru_maxrss < limit_kib);
}

int main(void) { return run_unit_tests(); }
