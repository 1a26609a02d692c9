/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs another program and collects its output; finds the path of the running program.
 */
#ifndef COMPILER_PROCESS_H
#define COMPILER_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "targets/codegen.h"

/**
 * Runs the program argv[0], a path, with empty standard input. `out` and `err` receive its standard
 * output and error, each followed by a NUL; the caller frees both. *status receives its exit code,
 * or 128 + the signal that ended it. Returns false with errno if the program could not be run. May
 * run on any thread.
 */
bool attnc_run_process(const char *const argv[], struct tgt_blob *out, struct tgt_blob *err,
                       int *status);

/** Writes the path of the running program to `path`, with a final NUL. Returns false, with an empty
 * path, if it is not known. */
bool attnc_program_path(char path[PATH_MAX]);

/**
 * Binds the life of the calling process to the thread that forked it: Linux sends SIGKILL to the
 * process when that thread ends. If `parent`, the process of that thread, has already ended, the
 * calling process ends at once.
 */
void attnc_die_with(pid_t parent);

#endif
