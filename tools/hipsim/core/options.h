/* SPDX-License-Identifier: Apache-2.0 */
/* What a user may choose; see options.def for meanings. */
#ifndef HIPSIM_OPTIONS_H
#define HIPSIM_OPTIONS_H

#include "wave.h"

struct options {
    uint64_t targets; /* see options_target() */
    uint64_t devices;
    uint64_t memory_gib; /* 0: as the real part */
    uint64_t checks;     /* enum check_bits */
    uint64_t seed;
    uint64_t threads;
    uint64_t budget;
    uint64_t halt; /* enum check_bits */
    uint64_t hip;
    uint64_t fail_call;
    uint64_t fail_error;
    uint64_t stats;
    uint64_t time;
};

/** What GPU `ordinal` is: of the targets that were listed the one of that number, else the last. */
enum gfx_target options_target(const struct options *options, unsigned ordinal);

/** The defaults. */
struct options options_default(void);

/** Applies "key=value,key=value" to `options`. With `frozen`, keys that need a fresh process are
 *  refused. On failure nothing is changed and `why` holds a sentence. */
bool options_parse(struct options *options, const char *text, bool frozen, char *why,
                   size_t why_size);

#endif
