/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what the two files of rope_qk_norm_cache's verification share. */
#ifndef TOOLS_VERIFY_ROPE_H
#define TOOLS_VERIFY_ROPE_H

#include "tools/verify/paged.h"

enum {
    ROPE_PACKED = 1 << 0,    /* q, key and value are parts of one tensor */
    ROPE_IN_PLACE = 1 << 1,  /* and the results go back there */
    ROPE_SKIPS = 1 << 2,     /* some slots are negative */
    ROPE_NO_CACHE = 1 << 3,  /* no slots, no values */
    ROPE_FAR_TABLE = 1 << 4, /* positions up to 131071 */
    ROPE_FAR_CACHE = 1 << 5, /* pages lie 1 GiB apart */
    ROPE_IN_ORDER = 1 << 6,  /* slots of consecutive tokens are neighbours, as in a prefill */
    ROPE_COUNT_UP = 1 << 7,  /* positions too, from 0 on */
};

static inline bool rope_is(const struct call *c, unsigned flags) { return c->flags & flags; }

/** The cache of the call; not with ROPE_NO_CACHE. */
struct paged rope_cache(struct call *c);

/** The number, of three, of the position that rotates pair i. */
int rope_stream(const struct call *c, int i);

/** Is q written over itself? */
bool rope_q_in_place(const struct call *c);

/** Compares every result with the reference. */
void rope_compare(struct call *c);

#endif
