/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the host planner and the plan kernel's family share. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "runtime/attn.h"

/* Numbers that follow from the shape; the brackets contain their names in docs/planning.md. */
struct attn_plan_numbers {
    int64_t queries;        /* [Q] rows of a partial result, of a tile where there are tiles */
    int64_t parts;          /* [N] */
    int64_t pairs_per_list; /* [per] */
    int64_t reach;          /* [Q + W - 1] keys, at most INT32_MAX */
    int64_t item_cost;      /* [o] */
    int64_t least_piece;    /* [m] units of a piece that the line is cut into */
    int64_t slack;          /* [x] units by which equal pieces may exceed the payload */
    int64_t merge_rate;     /* [r] */
};

struct attn_plan_numbers attn_plan_numbers(const struct attn_decode_plan_shape *shape);

/* Returns the most tiles of queries that a batch makes; sequences, where there are none. */
int64_t attn_plan_tiles(const struct attn_decode_plan_shape *shape);

#endif
