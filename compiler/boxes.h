/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of calls of an op, as boxes. A box is a list of ranges of launch arguments; it contains the
 * calls whose arguments are in all of its ranges.
 */
#ifndef COMPILER_BOXES_H
#define COMPILER_BOXES_H

#include <stdbool.h>
#include <stddef.h>

#include "templates/variant.h"

/** A growing list of `count` boxes. It starts zeroed; its owner frees `rows`. */
struct attnc_boxes {
    struct att_box *rows;
    size_t count;
};

/** Appends a copy of `box`. Returns false if memory is exhausted. */
bool attnc_boxes_add(struct attnc_boxes *list, const struct att_box *box);

/** True if the boxes intersect: a call can be in both. */
bool attnc_boxes_meet(const struct att_box *a, const struct att_box *b);

/** Subtracts the calls in `hole` from each box of the list from index `first` on. The remainder of
 * a box becomes disjoint boxes. Returns false if memory is exhausted, or if a box would need more
 * than ATT_WHEN_MAX ranges. */
bool attnc_boxes_cut(struct attnc_boxes *list, size_t first, const struct att_box *hole);

#endif
