/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how the parts of a tile of queries are added up in prefill's own launch.
 */
#ifndef TEMPLATES_PREFILL_ITEM_PARTS_H
#define TEMPLATES_PREFILL_ITEM_PARTS_H

#include "templates/prefill/prefill.h"

/** An item that was written, all i32 but for `last`. */
struct prefill_part {
    struct tir_value row;                    /* of partial_out for its first token, or -1: none */
    struct tir_value first_token, end_token; /* rows of q */
    struct tir_value first_head;
    struct tir_value
        last; /* i1: the workgroup has no item after it, and may wait for other parts */
};

/** Counts the item if it is a part. If all parts of its tile are there, or come soon, the workgroup
 * adds them up together with those that wrote them. */
void prefill_share_part(struct prefill *p, const struct prefill_part *part);

#endif
