/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of GDB's remote serial protocol. One client at a time reads the state of a stopped wave,
 * sets places to stop at, and resumes the program. The packets are in the GDB manual, appendix "GDB
 * Remote Serial Protocol". Threads of the protocol are the waves of the stopped wave's workgroup.
 * Registers and memory are read-only.
 */
#ifndef HIPSIM_GDB_H
#define HIPSIM_GDB_H

#include <stdio.h>

#include "wave.h"

struct gdb;

/* Functions of the debugger that the server calls. */
struct gdb_ops {
    void *ctx;
    /* Adds or removes a place to stop at. False if there is no room, or no such place. */
    bool (*place)(void *ctx, uint64_t address, bool add);
    /* Adds or removes `bytes` bytes whose stores stop a wave. `address` is a byte offset in LDS if
     * `lds` is set. False as for place(). */
    bool (*watch)(void *ctx, uint64_t address, uint64_t bytes, bool lds, bool add);
    /* Executes the command `text` of the prompt, and prints to `out`. */
    void (*command)(void *ctx, const struct wave *w, const char *text, FILE *out);
};

/* The reason for which a wave has stopped. If no member is set, the wave is at a place to stop at,
 * or at the end of a step. */
struct gdb_stop {
    bool interrupted; /* true: the client has interrupted the program */
    bool stored;      /* true: the wave has stored to watched bytes at `address` */
    uint64_t address; /* flat address of the store; 0: none */
};

/* The client's request that ends a stop. */
struct gdb_wish {
    enum { GDB_CONTINUE, GDB_STEP, GDB_DETACH, GDB_KILL } action;
    const struct wave *wave; /* wave that executes one instruction; GDB_STEP only, otherwise NULL */
};

/** Listens for a client and prints the address to `log`. `address` is a port of the loopback
 * interface (digits; 0: any free one) or a path of a new socket (with '/'). Replaces the socket of
 * a server that was killed. On failure NULL, with a sentence in `why`. */
struct gdb *gdb_listen(const char *address, FILE *log, char *why, size_t why_size);

/** Waits for the client at the first call, sends it that `w` has stopped, and answers requests
 * until one resumes the program. Returns that request; GDB_DETACH if the connection is lost. */
struct gdb_wish gdb_converse(struct gdb *g, const struct wave *w, const struct gdb_stop *stop,
                             const struct gdb_ops *ops);

/** True if the client has sent an interrupt, or has closed the connection, while the program
 * runs. */
bool gdb_interrupted(const struct gdb *g);

/** Sends the client the program's exit status `status` (-1: sends nothing). Closes the connection
 * and the socket. */
void gdb_close(struct gdb *g, int status);

#endif
