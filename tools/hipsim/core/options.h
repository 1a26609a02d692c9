/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the simulator; options.def describes each of them. */
#ifndef HIPSIM_OPTIONS_H
#define HIPSIM_OPTIONS_H

#include "gfx_part.h"

#define OPTION_TEXT 256 /* bytes of a text option's buffer */

struct options {
    /* 1 + PART_* of each GPU, 4 bits each, the first in the lowest; see options_part() */
    uint64_t targets;
    uint64_t devices;
    uint64_t memory_gib; /* GiB of memory per GPU; 0: as the real GPU has */
    uint64_t checks;     /* checks that run (enum check_bits) */
    uint64_t seed;
    uint64_t streams;
    uint64_t threads;
    uint64_t budget;
    uint64_t halt; /* findings that stop a launch (enum check_bits) */
    uint64_t hip;
    uint64_t fail_call;
    uint64_t fail_error;
    uint64_t stats;
    uint64_t time;
    uint64_t sample;  /* number of workgroups that run; 0: all */
    uint64_t latency; /* factor by which the latencies of loads are multiplied, see options.def */
    uint64_t hints;
    uint64_t summary;
    uint64_t exitcode;
    char break_at[OPTION_TEXT]; /* place at which the debugger stops; empty: none */
    char gdb[OPTION_TEXT];      /* port or path at which a GDB client connects; empty: no server */
    char patch[OPTION_TEXT];    /* a dword of code to replace; empty: none */
    char suppress[OPTION_TEXT]; /* paths of files with suppressions; empty: none */
    char write_suppress[OPTION_TEXT];
    char json[OPTION_TEXT];
    char counters[OPTION_TEXT];
};

/** Returns the part that GPU `ordinal` simulates: number `ordinal` of the list, or its last part if
 * the list is shorter. */
const struct gfx_part *options_part(const struct options *options, unsigned ordinal);

/** Returns the default options. */
struct options options_default(void);

/** Applies "key=value,key=value" to `options`. With `frozen`, refuses keys that cannot change once
 * a device exists. On failure nothing changes and `why`, of `why_size` bytes, gets a sentence. */
bool options_parse(struct options *options, const char *text, bool frozen, char *why,
                   size_t why_size);

#endif
