/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how the rows of an item come from Q and go to O.
 */
#ifndef TEMPLATES_PREFILL_ITEM_ROWS_H
#define TEMPLATES_PREFILL_ITEM_ROWS_H

#include "templates/prefill/prefill.h"

/** For a vector of rows of the workgroup, of any shape. */
struct prefill_rows {
    struct tir_value token; /* i32: from the item's first one on */
    struct tir_value head;  /* i32 */
    struct tir_value
        valid; /* i1: the tile has the row; others get query and head of its last row */
};

/** Finds query and head of the rows `index` (i32), which count from the workgroup's first one. */
struct prefill_rows prefill_find_rows(struct prefill *p, struct tir_value index);

/** Sets item_bytes, the LDS through which rows go, with `room` bytes free; and stages_q if Q goes
 * through LDS too. */
void prefill_plan_item_rows(struct prefill *p, unsigned room);

/** Loads the workgroup's rows of Q by whole rows, for prefill_place_q_rows(). */
void prefill_ask_q_rows(struct prefill *p);

/** Moves them to LDS, from where prefill_load_q() takes them. */
void prefill_place_q_rows(struct prefill *p);

/** Waits until no wave reads Q where V comes to be. */
void prefill_leave_q_rows(struct prefill *p);

#endif
