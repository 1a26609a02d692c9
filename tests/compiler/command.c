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

enum { MAX_ARGS = 128 };

char *command_path;

struct run run(const char *args)
{
    char copy[4096];
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

int setup(void **state)
{
    char *dir = strdup("/tmp/attnc-test-XXXXXX");
    *state = dir;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
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
