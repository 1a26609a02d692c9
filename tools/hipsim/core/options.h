/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the simulator; options.def describes each. */
#ifndef HIPSIM_OPTIONS_H
#define HIPSIM_OPTIONS_H

#include "gfx_part.h"

#define OPTION_TEXT 256 /* buffer size of a text option in bytes */

struct options {
    uint64_t targets; /* 1 + PART_* of each GPU, 4 bits each; see options_part() */
    uint64_t devices;
    uint64_t memory_gib; /* 0: as the real GPU */
    uint64_t checks;     /* enum check_bits */
    uint64_t seed;
    uint64_t streams;
    uint64_t threads;
    uint64_t budget;
    uint64_t halt; /* enum check_bits */
    uint64_t hip;
    uint64_t fail_call;
    uint64_t fail_error;
    uint64_t stats;
    uint64_t time;
    uint64_t sample;  /* workgroups; 0: all */
    uint64_t latency; /* factor, see options.def */
    uint64_t hints;
    uint64_t summary;
    uint64_t exitcode;
    char break_at[OPTION_TEXT]; /* place to stop at; empty: none */
    char gdb[OPTION_TEXT];      /* port or path where a GDB client connects; empty: no server */
    char patch[OPTION_TEXT];    /* a changed dword of code; empty: none */
    char suppress[OPTION_TEXT]; /* paths; empty: none */
    char write_suppress[OPTION_TEXT];
    char json[OPTION_TEXT];
    char counters[OPTION_TEXT];
};

/** Returns the part that GPU `ordinal` simulates: the listed part of that number, or the last
 *  one. */
const struct gfx_part *options_part(const struct options *options, unsigned ordinal);

/** Returns the default options. */
struct options options_default(void);

/** Applies "key=value,key=value" to `options`. With `frozen`, refuses keys that can only be set
 *  before a device exists. On failure nothing changes and `why` holds a sentence. */
bool options_parse(struct options *options, const char *text, bool frozen, char *why,
                   size_t why_size);

#endif
