/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/process.h"
#include "compiler/yaml.h"

enum { MAX_ARGS = 512, MAX_TEXT = 1 << 14 };

char *command_path;

struct run run(const char *args)
{
    char copy[MAX_TEXT];
    const char *argv[MAX_ARGS + 2] = {command_path};
    size_t count = 1;
    assert_true(snprintf(copy, sizeof(copy), "%s", args) < (int)sizeof(copy));
    for (char *state, *word = strtok_r(copy, " ", &state); word;
         word = strtok_r(NULL, " ", &state)) {
        assert_true(count <= MAX_ARGS);
        argv[count++] = word;
    }
    struct run r;
    assert_true(attnc_run_process(argv, &r.out, &r.err, &r.status));
    return r;
}

void end_run(struct run *r)
{
    tgt_blob_free(&r->out);
    tgt_blob_free(&r->err);
}

void expect(const char *args, int status, const char *out, const char *err)
{
    struct run r = run(args);
    if (r.status != status || !strstr((char *)r.out.data, out) || !strstr((char *)r.err.data, err))
        fail_msg("attnc %s: expected %d, '%s', '%s'; saw %d\n--- out\n%.2000s\n--- err\n%.2000s",
                 args, status, out, err, r.status, (char *)r.out.data, (char *)r.err.data);
    end_run(&r);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static char kernels[] = "/tmp/attnc-kernels-XXXXXX"; /* folder that `cache` links to */
static bool has_kernels;

/* Removes the folder of kernels when the program ends. */
static void remove_kernels(void) { nftw(kernels, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

int setup(void **state)
{
    char *dir = strdup("/tmp/attnc-test-XXXXXX");
    *state = dir;
    if (!has_kernels) {
        has_kernels = mkdtemp(kernels) != NULL;
        if (!has_kernels || atexit(remove_kernels) != 0)
            return -1;
    }
    return mkdtemp(dir) && chdir(dir) == 0 && symlink(kernels, "cache") == 0 ? 0 : -1;
}

int teardown(void **state)
{
    int failed = chdir("/") != 0 || nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0;
    free(*state);
    return failed;
}

void write_file(const char *name, const char *text)
{
    FILE *out = fopen(name, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

char *read_file(const char *name, size_t *size)
{
    FILE *in = fopen(name, "rb");
    if (!in)
        return NULL;
    char *bytes = NULL;
    FILE *copy = open_memstream(&bytes, size);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, copy);
    fclose(in);
    fclose(copy);
    return bytes;
}

void expect_file(const char *name, const char *text)
{
    size_t size;
    char *bytes = read_file(name, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

bool exists(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0;
}

void expect_same(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *bytes_a = read_file(a, &size_a), *bytes_b = read_file(b, &size_b);
    assert_non_null(bytes_a);
    assert_non_null(bytes_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    free(bytes_a);
    free(bytes_b);
}

char *page_data(const char *path)
{
    static const char start[] = "<!doctype html>";
    size_t size;
    char *const page = read_file(path, &size);
    assert_non_null(page);
    assert_memory_equal(page, start, sizeof(start) - 1);
    assert_null(strstr(page, "http://"));
    assert_null(strstr(page, "https://"));
    assert_null(strstr(page, "@DATA@"));
    assert_null(strstr(page, "@STYLE@"));
    char *data = strstr(page, "id=\"data\">"), *end = data ? strstr(data, "</script>") : NULL;
    assert_non_null(end);
    data += strlen("id=\"data\">");
    *end = '\0';
    struct attnc_yaml y;
    struct attnc_diag d = {.file = path, .text = data, .size = (size_t)(end - data)};
    assert_true(attnc_yaml_parse(&y, data, d.size, &d));
    attnc_yaml_free(&y);
    memmove(page, data, d.size + 1);
    return page;
}

void save_csv(const char *db, const char *path)
{
    char line[128];
    snprintf(line, sizeof(line), "tune --csv --db %s", db);
    struct run r = run(line);
    assert_int_equal(r.status, 0);
    write_file(path, (const char *)r.out.data);
    end_run(&r);
}
