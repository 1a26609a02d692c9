/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the sum of a work tile's partials in prefill's own launch.
 */
#ifndef TEMPLATES_PREFILL_ITEM_PARTS_H
#define TEMPLATES_PREFILL_ITEM_PARTS_H

#include "templates/prefill/prefill.h"

/** A written item; members are i32 unless stated. */
struct prefill_part {
    struct tir_value row; /* of partial_out for its first token; -1: the item is no partial */
    struct tir_value first_token, end_token; /* rows of q */
    struct tir_value first_head;             /* first query head of its KV head */
    struct tir_value
        last; /* i1: the workgroup has no item after it, and may wait for other partials */
};

/** Counts the item if it is a partial. If all partials of its tile are written, or are soon, adds
 * them up together with the workgroups that wrote them. */
void prefill_share_part(struct prefill *p, const struct prefill_part *part);

#endif
