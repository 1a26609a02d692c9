/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of GDB's remote serial protocol: one client at a time reads a stopped wave, sets places
 * to stop at, and resumes. The packets are in the GDB manual, appendix "GDB Remote Serial
 * Protocol". Threads of the protocol are the waves of the stopped wave's workgroup. Registers and
 * memory are read only.
 */
#ifndef HIPSIM_GDB_H
#define HIPSIM_GDB_H

#include <stdio.h>

#include "wave.h"

struct gdb;

/* The calls of the debugger that the server makes. */
struct gdb_ops {
    void *ctx;
    /* Adds or removes a place to stop at. False: there is no room, or no such place. */
    bool (*place)(void *ctx, uint64_t address, bool add);
    /* The same for bytes whose stores stop a wave. `address` is an offset if `lds` is set. */
    bool (*watch)(void *ctx, uint64_t address, uint64_t bytes, bool lds, bool add);
    /* Executes a command of the prompt, and prints to `out`. */
    void (*command)(void *ctx, const struct wave *w, const char *text, FILE *out);
};

/* Why a wave has stopped: interrupted, after a store, at a place or at the end of a step. */
struct gdb_stop {
    bool interrupted; /* by the client */
    bool stored;      /* to watched bytes at `address` */
    uint64_t address; /* flat; 0 without a store */
};

/* The client's request that ends a stop. */
struct gdb_wish {
    enum { GDB_CONTINUE, GDB_STEP, GDB_DETACH, GDB_KILL } action;
    const struct wave *wave; /* GDB_STEP: the wave that executes an instruction; else NULL */
};

/** Listens at a port of the loopback interface (digits, 0: any free one) or at a new socket in the
 *  file system (a path with '/'), and prints the address to `log`. Replaces the socket of a server
 *  that was killed. Returns NULL with a sentence in `why` if it cannot listen. */
struct gdb *gdb_listen(const char *address, FILE *log, char *why, size_t why_size);

/** Waits for the client at the first call, reports that `w` has stopped, and answers requests until
 *  one resumes the program. Returns that request; GDB_DETACH if the connection is lost. */
struct gdb_wish gdb_converse(struct gdb *g, const struct wave *w, const struct gdb_stop *stop,
                             const struct gdb_ops *ops);

/** True if the running client has sent an interrupt, or has closed the connection. */
bool gdb_interrupted(const struct gdb *g);

/** Reports to the client that the program has ended with `status` (-1: reports nothing). Closes the
 *  connection and the socket. */
void gdb_close(struct gdb *g, int status);

#endif
