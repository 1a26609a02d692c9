/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the host planner and the plan kernel's family share. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "runtime/attn.h"

/* Numbers of a plan that follow from its shape; the brackets contain their names in
 * docs/planning.md. A unit is 64 keys. */
struct attn_plan_numbers {
    int64_t queries; /* [Q] query tokens, and so rows of a partial result, of a tile or sequence */
    int64_t parts;   /* [N] parts for each KV head */
    int64_t pairs_per_list; /* [per] (KV head, part) pairs of a list, at most */
    int64_t reach;          /* [Q + W - 1] last keys that a sequence's queries can see; INT32_MAX:
                             * no window */
    int64_t item_cost;      /* [o] units that could be read while an item begins */
    int64_t least_piece;    /* [m] least units of a piece of a sequence */
    int64_t slack;          /* [x] most units by which an equal piece may be longer than payload,
                             * a part's share of the cost */
    int64_t merge_rate;     /* [r] parts that are added up while a unit is read */
};

/* Returns the numbers that follow from the shape of a plan. */
struct attn_plan_numbers attn_plan_numbers(const struct attn_decode_plan_shape *shape);

/* Returns the most tiles of queries that a batch of this shape can have; without q_tile the number
 * of sequences. */
int64_t attn_plan_tiles(const struct attn_decode_plan_shape *shape);

#endif
