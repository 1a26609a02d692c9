/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command writes. An output appears whole or not at all, and never replaces a file
 * that the same run reads.
 */
#ifndef TOOLS_ATTNC_OUTPUT_H
#define TOOLS_ATTNC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/**
 * Records that this run reads `path` ("-": standard input), so that no output replaces it. Files
 * are compared by device and inode: another spelling, a symbolic or a hard link is the same file. A
 * path that does not exist is ignored.
 */
void note_input(const char *path);

/** Checks, before work starts, that `path` can become an output. It must be no input, no output
 * that was checked before, and its directory must be writable. NULL and "-" (standard output)
 * always pass. Returns an exit_code after a message. */
int check_output(const char *path);

/** True if the file `path` has exactly these bytes. */
bool file_holds(const char *path, const void *bytes, size_t size);

/** Writes a file: a temporary file beside it is renamed when complete, so that a failure leaves the
 * old file.
 * A file that already has these bytes is not touched, so that build systems see no change. "-" is
 * standard output; a device or pipe is written directly. An input of this run is refused. Returns
 * an exit_code after a message. */
int write_output(const char *path, const void *bytes, size_t size);

/** An output that is collected in memory until it is complete. */
struct output {
    /* The collected bytes; valid after `out` is closed or flushed. */
    char *bytes;
    size_t size;
    /* Stream that the command prints to. */
    FILE *out;
};
/** Opens o->out. Returns an exit_code after a message. Call end_output() afterwards. */
int begin_output(struct output *o);
/** Closes o->out, writes the file `path` if `code` is EXIT_GOOD, and frees the bytes. Returns
 * `code`, or the exit_code of a failed write after a message. */
int end_output(struct output *o, const char *path, int code);

#endif
