/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that the planner on the host and the host code of the op `plan` compute from the shape of
 * a plan. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "runtime/attn.h"

/* Numbers of a plan that follow from its shape. Brackets contain their names in
 * docs/planning.md. */
struct attn_plan_numbers {
    int64_t unit;           /* [unit] keys of a unit, by which sequences are cut */
    int64_t queries;        /* [Q] query tokens of a tile or sequence: rows of its partial result */
    int64_t parts;          /* [N] parts into which the keys of a KV head are divided */
    int64_t pairs_per_list; /* [per] most pairs of a KV head and a part that a work list has */
    /* [Q + W - 1] number of last keys that a sequence's queries can see; INT32_MAX: no window */
    int64_t reach;
    int64_t item_cost;   /* [o] cost of an item's beginning and end, in units */
    int64_t least_piece; /* [m] fewest units of a piece of a sequence */
    /* [x] With sequences in equal pieces: most units by which a piece may be longer than payload,
     * an equal part of the batch. */
    int64_t slack;
    int64_t merge_rate; /* [r] partial results that are added in the time of a unit */
};

/* Returns the numbers that follow from a plan's shape, which attn_plan_check() has accepted. */
struct attn_plan_numbers attn_plan_numbers(const struct attn_decode_plan_shape *shape);

/* Returns the most tiles of queries that a batch of this shape can have. If q_tile is 0, it is the
 * number of sequences. */
int64_t attn_plan_tiles(const struct attn_decode_plan_shape *shape);

#endif
