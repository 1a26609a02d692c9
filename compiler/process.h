/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs another program and collects its output.
 */
#ifndef COMPILER_PROCESS_H
#define COMPILER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "targets/codegen.h"

/**
 * Runs argv[0] (a path, no search) with empty standard input. On success `out` and `err` hold its
 * output, each followed by a NUL. *status is its exit code, or 128 + the signal that ended it.
 * False with errno: it could not be run. Any thread.
 */
bool attnc_run_process(const char *const argv[], struct tgt_blob *out, struct tgt_blob *err,
                       int *status);

/**
 * Makes the calling child die with the thread that forked it: by SIGKILL if its process `parent` is
 * killed. Ends the child at once if the parent is already gone.
 */
void attnc_die_with(pid_t parent);

#endif
