/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the sum of a work tile's partials in prefill's own launch.
 */
#ifndef TEMPLATES_PREFILL_ITEM_PARTS_H
#define TEMPLATES_PREFILL_ITEM_PARTS_H

#include "templates/prefill/prefill.h"

/** An item whose result or partial has been written; members are i32 unless stated. */
struct prefill_part {
    /* Row of partial_out for the item's first token; -1: the item is no partial. */
    struct tir_value row;
    /* Rows in q of the item's first token, and of the token after its last one. */
    struct tir_value first_token, end_token;
    struct tir_value first_head; /* index of the first query head of its KV head */
    /* i1: true if the workgroup has no item after this one, and may wait for partials of other
     * workgroups. */
    struct tir_value last;
};

/** Counts the item `part` in its work tile's ticket if the item is a partial. Once all partials of
 * the tile are written, the workgroups that wrote them add them up together. A workgroup leaves if
 * it has waited too long for other partials. */
void prefill_share_part(struct prefill *p, const struct prefill_part *part);

#endif
