/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the loads and stores of an item's rows.
 */
#ifndef TEMPLATES_PREFILL_ITEM_ROWS_H
#define TEMPLATES_PREFILL_ITEM_ROWS_H

#include "templates/prefill/prefill.h"

/** The query and the head of each row of an item. The members are vectors or tiles of one shape. */
struct prefill_rows {
    struct tir_value token; /* i32: index of the query's token, counted from the item's first one */
    struct tir_value head;  /* i32: index of the query head */
    /* i1: true if the item has the row; any other row gets query and head of the item's last
     * row. */
    struct tir_value valid;
};

/** Returns query and head of the rows with indices `index` (i32, any shape). Index 0 is the first
 * row of an item that the workgroup works on. */
struct prefill_rows prefill_find_rows(struct prefill *p, struct tir_value index);

/** Sets the members of p->staging that say where in LDS an item's rows of Q and O pass: home,
 * item_q and item_bytes. `room`: unused bytes of LDS. `keys`: bytes of K and V in LDS. */
void prefill_plan_item_rows(struct prefill *p, unsigned room, unsigned keys);

/** Issues the loads of the workgroup's rows of Q of an item to registers, with neighbouring columns
 * in neighbouring lanes. prefill_store_q_rows() stores them in LDS. */
void prefill_issue_q_rows(struct prefill *p);

/** Stores the rows of Q from prefill_issue_q_rows() in LDS. prefill_load_q() reads operands from
 * there. */
void prefill_store_q_rows(struct prefill *p);

/** Waits until all waves have read Q from LDS, if Q is in V's buffer. */
void prefill_await_q_reads(struct prefill *p);

#endif
