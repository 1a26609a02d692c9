/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs attnc in a test as a user does: with arguments, in a directory of the test's own.
 */
#ifndef TESTS_COMPILER_COMMAND_H
#define TESTS_COMPILER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "targets/codegen.h"

/** The path of attnc. A test's main() sets it before the first run. */
extern char *command_path;

/** The output of a finished run of attnc. */
struct run {
    struct tgt_blob out, err;
    int status; /* exit code */
};

/** Runs attnc with `args`, words separated by single spaces. Free the result with end_run(). */
struct run run(const char *args);

/** Frees the output of a run. */
void end_run(struct run *r);

/** Runs attnc with `args`. Checks its exit code, and that its standard output contains `out` and
 * its standard error `err`. */
void expect(const char *args, int status, const char *out, const char *err);

/** Creates a fresh directory and enters it; teardown() removes it. Its `cache` is a link to a
 * folder of kernels that all tests of the program share. Both are cmocka's fixtures. */
int setup(void **state);
int teardown(void **state);

/** Writes `text` to the file `name`, which is replaced. */
void write_file(const char *name, const char *text);

/** Reads a file, followed by a NUL; the caller frees it. NULL: no such file. */
char *read_file(const char *name, size_t *size);

/** Fails unless `name` contains exactly `text`. */
void expect_file(const char *name, const char *text);

/** Fails unless both files have the same bytes. */
void expect_same(const char *a, const char *b);

/** Returns the JSON in a self-contained HTML page; fails without it. The caller frees it. */
char *page_data(const char *path);

/** Writes the CSV of an `attnc tune` database to a file, for comparisons. */
void save_csv(const char *db, const char *path);

/** True if there is a file of this name. */
bool exists(const char *name);

#endif
