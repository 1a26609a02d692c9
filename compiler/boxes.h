/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of calls: a box is a list of ranges of launch arguments, and a call in it is in all of
 * them.
 */
#ifndef COMPILER_BOXES_H
#define COMPILER_BOXES_H

#include <stdbool.h>
#include <stddef.h>

#include "templates/variant.h"

/** A list of boxes that grows; starts zeroed, and its owner frees `rows`. */
struct attnc_boxes {
    struct att_box *rows;
    size_t count;
};

/** Appends a copy. False: out of memory. */
bool attnc_boxes_add(struct attnc_boxes *list, const struct att_box *box);

/** True if a call may lie in both. */
bool attnc_boxes_meet(const struct att_box *a, const struct att_box *b);

/** Cuts `hole` out of each box from number `first` on. What is left of a box is boxes that do not
 * meet. False: out of memory, or a box would need more than ATT_WHEN_MAX ranges. */
bool attnc_boxes_cut(struct attnc_boxes *list, size_t first, const struct att_box *hole);

#endif
