/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests `attnc trace`: its report; the JSON trace, whose slices do not overlap within a wave; the
 * annotated disassembly; messages for bad shapes. Arguments: attnc, a pack of one prefill kernel, a
 * directory to write to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <libfyaml.h>

#include "tests/unit_test.h"

static const char *attnc, *pack, *directory;
static char output[1 << 14];

static const char kernel[] = "prefill_bf16_d128_gfx942";

/* Runs trace with these options and stores its output in `output`. Returns the exit code. */
static int trace(const char *options)
{
    char command[4096];
    snprintf(command, sizeof(command), "%s trace %s %s %s 2>&1", attnc, pack, kernel, options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const size_t length = fread(output, 1, sizeof(output) - 1, f);
    output[length] = '\0';
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect(const char *text)
{
    if (!strstr(output, text))
        fail_msg("trace does not print \"%s\":\n%s", text, output);
}

static long integer(struct fy_node *map, const char *key)
{
    struct fy_node *n = fy_node_mapping_lookup_by_string(map, key, FY_NT);
    if (!n)
        fail_msg("an event has no %s", key);
    return strtol(fy_node_get_scalar0(n), NULL, 10);
}

static bool is(struct fy_node *map, const char *key, const char *value)
{
    struct fy_node *n = fy_node_mapping_lookup_by_string(map, key, FY_NT);
    return n && !strcmp(fy_node_get_scalar0(n), value);
}

enum { TRACKS = 64 };

TEST(test_events)
{
    char options[1024], path[512];
    snprintf(path, sizeof(path), "%s/trace.json", directory);
    snprintf(options, sizeof(options), "--shape q=70,k=90,heads=2,kv_heads=1 -o %s", path);
    assert_int_equal(trace(options), 0);
    expect("modelled, not measured");

    const struct fy_parse_cfg config = {.flags = FYPCF_JSON_FORCE};
    struct fy_document *document = fy_document_build_from_file(&config, path);
    assert_non_null(document);
    struct fy_node *events =
        fy_node_by_path(fy_document_root(document), "/traceEvents", FY_NT, FYNWF_DONT_FOLLOW);
    assert_non_null(events);

    long end[TRACKS] = {0}, slices = 0, matrix = 0, counters = 0;
    void *at = NULL;
    for (struct fy_node *e; (e = fy_node_sequence_iterate(events, &at));) {
        counters += is(e, "ph", "C");
        if (!is(e, "ph", "X"))
            continue;
        const long track = integer(e, "tid"), start = integer(e, "ts");
        assert_in_range(track, 0, TRACKS - 1);
        assert_true(start >= end[track]);
        end[track] = start + integer(e, "dur");
        slices++;
        matrix += is(e, "cat", "MFMA");
    }
    fy_document_destroy(document);
    assert_true(slices > 1000);
    assert_true(matrix > 16);
    assert_true(counters > 0);
}

/* The report has the least number of bytes: 70 queries of 2 heads are loaded once, and their
 * output is stored once. */
TEST(test_bytes)
{
    assert_int_equal(trace("--shape q=70,k=90,heads=2,kv_heads=1"), 0);
    char stored[64];
    snprintf(stored, sizeof(stored), "%.3f MB stored", 70 * 2 * 128 * 2 / 1e6);
    expect(stored);
}

TEST(test_listing)
{
    char options[1024], path[512], line[512];
    snprintf(path, sizeof(path), "%s/trace.txt", directory);
    snprintf(options, sizeof(options), "--shape q=70,heads=1,kv_heads=1 --annotate %s", path);
    assert_int_equal(trace(options), 0);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    double share = 0;
    int mfma = 0, products = 0;
    while (fgets(line, sizeof(line), f)) {
        mfma += strstr(line, "v_mfma_f32_32x32x8_bf16") != NULL;
        products += strstr(line, "v_mfma_f32_32x32x8_bf16") && strstr(line, " = mma %");
        share += strchr(line, '%') ? strtod(line, NULL) : 0;
    }
    fclose(f);
    assert_true(mfma >= 64);
    assert_int_equal(products, mfma); /* the pack is built with -g */
    assert_true(share > 99 && share < 101);
}

TEST(test_deterministic)
{
    char first[sizeof(output)];
    assert_int_equal(trace("--shape q=40,heads=2,kv_heads=2"), 0);
    strcpy(first, output);
    assert_int_equal(trace("--shape q=40,heads=2,kv_heads=2"), 0);
    assert_string_equal(first, output);
}

TEST(test_bad_shapes)
{
    assert_int_equal(trace("--shape rows=4"), 1);
    expect("prefill has no 'rows'");
    assert_int_equal(trace("--shape q"), 1);
    expect("'q' is not NAME=NUMBER");
    assert_int_equal(trace("--shape q=0"), 1);
    expect("q is 1 to");
    assert_int_equal(trace("--shape heads=3,kv_heads=2"), 1);
    expect("is not the kernel's ratio");
    assert_int_equal(trace("--parameters no_such=3"), 1);
    expect("no_such");
}

/* MI308X has the same instructions as MI300X, and fewer compute units. */
TEST(test_parts)
{
    assert_int_equal(trace("--shape q=40,heads=1,kv_heads=1 --part mi308x"), 0);
    expect("on mi308x, modelled");
    assert_int_equal(trace("--part mi355x"), 1);
    expect("--part: mi355x is not a GPU of gfx942");
    assert_int_equal(trace("--part mi309x"), 1);
    expect("\"mi309x\"");
}

/* 12 workgroups are more than the default number of samples. */
TEST(test_samples)
{
    static const char together[] = "12 workgroups timed, all of them, on all compute units at once";
    assert_int_equal(trace("--shape q=600,heads=4,kv_heads=2"), 0);
    if (strstr(output, together))
        fail_msg("all workgroups run in time without --samples:\n%s", output);
    assert_int_equal(trace("--shape q=600,heads=4,kv_heads=2 --samples 12"), 0);
    expect(together);
    assert_int_equal(trace("--samples 0"), 1);
    expect("expected --samples to be 1 to");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    attnc = argv[1];
    pack = argv[2];
    directory = argv[3];
    return run_unit_tests();
}
