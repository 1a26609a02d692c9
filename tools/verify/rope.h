/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares flags of shapes, and the comparison of rotated heads, that
 * rope_qk_norm_cache.c, rope_decode.c and rope_compare.c share. */
#ifndef TOOLS_VERIFY_ROPE_H
#define TOOLS_VERIFY_ROPE_H

#include "tools/verify/paged.h"

enum {
    /* Flags of a shape of rope_qk_norm_cache. */
    ROPE_PACKED = 1 << 0,    /* q, key and value are parts of one tensor */
    ROPE_IN_PLACE = 1 << 1,  /* the results overwrite q, key and value */
    ROPE_SKIPS = 1 << 2,     /* some slots are negative */
    ROPE_NO_CACHE = 1 << 3,  /* no cache: slots and values are absent */
    ROPE_FAR_TABLE = 1 << 4, /* positions reach 131071 */
    ROPE_FAR_CACHE = 1 << 5, /* pages lie 1 GiB apart */
    ROPE_IN_ORDER = 1 << 6,  /* slots of consecutive tokens are adjacent, as in a prefill */
    ROPE_COUNT_UP = 1 << 7,  /* positions are 0, 1, ... */
};

/** Returns the cache of the call; not for ROPE_NO_CACHE. */
struct paged rope_cache(struct call *c);

/** Returns the index, 0 to 2, of the position of a token that rotates pair i. Ops with one position
 * have index 0. */
int rope_stream(const struct call *c, int i);

/** True if the call writes its queries in place, over q. */
bool rope_q_in_place(const struct call *c);

/** The steps that a kernel applies to heads of q and k before it stores them. */
struct rope_steps {
    bool bias;
    enum attn_norm norm;
    enum attn_rope rope;
    int head_dim;
};

/** Returns a bound of the error of a head's elements after the steps, relative to the sum of the
 * magnitudes of their terms. */
double rope_arithmetic_error(const struct rope_steps *s);

/** The memory to which a head of a token is written: a tensor, or a slot of the cache. */
struct rope_target {
    struct operand *operand; /* tensor of the result; NULL: the cache */
    struct paged *cache;
    enum cache_part part;
    struct slot slot;
    const struct precision *type; /* element type of the tensor or cache */
    double scale; /* scale by which elements were divided; 0: stored without a scale */
};

struct ref_rope_head;

/** Compares a token's row of the cache, and its scale, with the expected head `r`. `arithmetic`
 * bounds the errors of elements, relative to the magnitudes of their terms. */
void rope_compare_cached(struct call *c, struct rope_target t, int token,
                         const struct ref_rope_head *r, double arithmetic);

/** Compares every result of a call with the reference. */
void rope_compare(struct call *c);

#endif
