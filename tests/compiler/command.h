/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run attnc as its user does: in a directory of their own, by its arguments.
 */
#ifndef TESTS_COMPILER_COMMAND_H
#define TESTS_COMPILER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "targets/codegen.h"

/** The command under test; set before the first run. */
extern char *command_path;

struct run {
    struct tgt_blob out, err;
    int status;
};

/** Runs `attnc ARGS`, words separated by single spaces. End it with end_run(). */
struct run run(const char *args);
void end_run(struct run *r);

/** Runs and expects this exit code, and these words on standard output and standard error. */
void expect(const char *args, int status, const char *out, const char *err);

/** For cmocka: every test works in a fresh directory. */
int setup(void **state);
int teardown(void **state);

void write_file(const char *name, const char *text);

/** NULL where there is no such file; the caller frees it. A NUL follows the bytes. */
char *read_file(const char *name, size_t *size);

/** Fails unless `name` holds exactly `text`. */
void expect_file(const char *name, const char *text);

/** Fails unless both files hold the same bytes. */
void expect_same(const char *a, const char *b);

/** The JSON in an HTML page that takes nothing from elsewhere; fails without it. free() it. */
char *page_data(const char *path);

/** Writes the CSV of a database of `attnc tune` to a file, for comparisons. */
void save_csv(const char *db, const char *path);

bool exists(const char *name);

#endif
