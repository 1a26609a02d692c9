/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debugger: breakpoints, watched bytes and single steps of one launch at a time, with commands
 * from standard input or from a client of GDB's protocol. It observes the engine, so that a wave
 * stops after an instruction and the prompt shows the next one.
 */
#ifndef HIPSIM_DEBUG_H
#define HIPSIM_DEBUG_H

#include <stdio.h>

#include "wave.h"

/* Source lines of the kernel's code object. */
struct debug_lines {
    const void *ctx;
    /* Writes "FILE:LINE in FUNCTION" for a code address, or an empty text. */
    void (*describe)(const void *ctx, uint64_t address, char *text, size_t size);
    /* Stores the addresses at which code of a source line begins, at most `most`. Returns their
     * number. */
    unsigned (*find)(const void *ctx, unsigned line, uint64_t *addresses, unsigned most);
};

/** Creates the debugger of the process with a first breakpoint at `place`: "KERNEL", "KERNEL:LINE"
 *  or "KERNEL+BYTES". It reads commands from `in` and writes to `out`. NULL
 *  if the text is no place or memory is exhausted. */
struct debugger *debug_create(const char *place, FILE *in, FILE *out);
void debug_destroy(struct debugger *d);

/** Listens for a client of GDB's protocol, which then converses in place of `in` and `out` (see
 *  gdb_listen()). False with a sentence in `why`. */
bool debug_listen(struct debugger *d, const char *address, char *why, size_t why_size);
/** Reports to the client that the program has ended with `status`, and closes the connection. */
void debug_hang_up(struct debugger *d, int status);

/** Makes the debugger observe a launch, on one host thread. Copies `lines`, whose `ctx` must
 *  outlive the launch. False if another thread's launch is debugged now. */
bool debug_begin(struct debugger *d, struct launch *launch, const struct debug_lines *lines);
/** Ends the observation after the launch. */
void debug_end(struct debugger *d);

#endif
