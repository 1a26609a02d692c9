/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of slots for sparse attention: tokens of any sequence in any order, with gaps.
 */
#ifndef TOOLS_VERIFY_SLOTS_H
#define TOOLS_VERIFY_SLOTS_H

#include "tools/verify/pages.h"

struct slot_lists {
    int count;
    const int32_t *lens; /* [count]: entries of each list; the caller's */
    int32_t *slots;      /* of all lists, one after the other */
    int32_t *first;      /* [count + 1]: where those of each begin */
    uint8_t *there;      /* [entries]: 0 where a slot is below 0 */
};

/** Lists of lens[s] entries, of which those from p->lens[s] on are no keys. The first entry of a
 * list is the first token of sequence s; where there are several lists, the last has no keys. */
void slot_lists_make(struct slot_lists *l, const struct sequence_pages *p, const int32_t *lens,
                     uint64_t *random);

/** Uploads the lists, rows with a stride that has gaps. `counted`: with their lengths; else the
 * lengths are all the same, and the kernel has them of the rows. */
void slot_lists_upload(const struct slot_lists *l, enum attn_page_table table, bool counted,
                       struct device_memory *m, struct attn_pages *a);

void slot_lists_free(struct slot_lists *l);

#endif
