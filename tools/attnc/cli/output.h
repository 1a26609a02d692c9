/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command writes. An output appears whole or not at all, and never takes the place
 * of a file that the same run reads.
 */
#ifndef TOOLS_ATTNC_OUTPUT_H
#define TOOLS_ATTNC_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

/**
 * Records that this run reads `path` ("-": standard input), so that no output replaces it. Files
 * are compared by device and inode: another spelling, a symbolic or a hard link is the same file. A
 * path that does not exist is ignored.
 */
void note_input(const char *path);

/**
 * Checks, before work starts, that `path` can become an output: it is none of the inputs and no
 * output that was checked before, and its directory exists and can be written. NULL and "-"
 * (standard output) always can. Returns an exit_code after a message.
 */
int check_output(const char *path);

/** Writes a file in one step: a temporary beside it, renamed when complete, so that a failure
 * leaves what was there. A file that already has these bytes is not written, so that build systems
 * see no new time of change. "-" is standard output; a device or pipe is written directly. An input
 * of this run is refused. Returns an exit_code after a message. */
int write_output(const char *path, const void *bytes, size_t size);

/** An output that is printed to memory first. begin_output() opens `out`; end_output() closes it
 * and writes the file, unless `code` says that something has failed. Both return an exit_code after
 * a message. */
struct output {
    char *bytes;
    size_t size;
    FILE *out;
};
int begin_output(struct output *o);
int end_output(struct output *o, const char *path, int code);

#endif
