/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debugger: breakpoints, watched bytes and single steps of one launch at a time. Its commands
 * come from standard input or from a client of GDB's protocol. It observes the engine, so a wave
 * stops after an instruction and the prompt shows the next one.
 */
#ifndef HIPSIM_DEBUG_H
#define HIPSIM_DEBUG_H

#include <stdio.h>

#include "wave.h"

/* Functions that find source lines of the kernel's code object. */
struct debug_lines {
    const void *ctx;
    /* Writes "FILE:LINE in FUNCTION" for a code address to `text`, of `size` bytes; an empty text
     * if the line is unknown. */
    void (*describe)(const void *ctx, uint64_t address, char *text, size_t size);
    /* Stores the addresses at which code of source line `line` begins, at most `most`. Returns
     * their number. */
    unsigned (*find)(const void *ctx, unsigned line, uint64_t *addresses, unsigned most);
};

/** Creates the debugger of the process with a first breakpoint at `place`: "KERNEL", "KERNEL:LINE"
 * or "KERNEL+BYTES". It reads commands from `in` and writes to `out`. NULL if the text is no place,
 * or without memory. */
struct debugger *debug_create(const char *place, FILE *in, FILE *out);
void debug_destroy(struct debugger *d);

/** Listens for a client of GDB's protocol at `address` (see gdb_listen()). The client then replaces
 * `in` and `out`. On failure false, with a sentence in `why`. */
bool debug_listen(struct debugger *d, const char *address, char *why, size_t why_size);
/** Sends the client the program's exit status `status`, and closes the connection. */
void debug_hang_up(struct debugger *d, int status);

/** Makes the debugger observe a launch, on one host thread. Copies *lines, whose `ctx` must exist
 * during the launch. False if another thread's launch is being debugged. */
bool debug_begin(struct debugger *d, struct launch *launch, const struct debug_lines *lines);
/** Ends the observation that debug_begin() began. */
void debug_end(struct debugger *d);

#endif
