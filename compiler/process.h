/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs another program and collects what it writes.
 */
#ifndef COMPILER_PROCESS_H
#define COMPILER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "targets/codegen.h"

/**
 * Runs argv[0] (a path, not searched for) with standard input empty. On success `out` and `err`
 * hold what it wrote, both with a NUL behind their last byte, and *status is its exit code, or 128
 * + the signal that ended it. False with errno when it could not be run. Any thread.
 */
bool attnc_run_process(const char *const argv[], struct tgt_blob *out, struct tgt_blob *err,
                       int *status);

/**
 * Makes the calling child process end with the thread that forked it, by SIGKILL where `parent`,
 * its process, is killed. Ends the child at once where the parent has gone already.
 */
void attnc_die_with(pid_t parent);

#endif
