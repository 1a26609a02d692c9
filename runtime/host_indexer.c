/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the scores of indexer_logits among workgroups. */
#include "runtime/host.h"

/* Sets in `v` the number of columns of scores that a workgroup computes, a power of two from 1024
 * to 8192. Also sets the number of such groups of columns in a row of scores. A workgroup reads q
 * once, so it gets as many columns as leave work for 256 compute units. In the timing model no
 * other power of two is faster on gfx942 or gfx950. */
int attn_indexer_logits_fill(const struct attn_indexer_logits_desc *d,
                             const struct attn_indexer_logits_args *a, union attn_value *v)
{
    enum { UNIT_BITS = 8, LEAST_BITS = 10, MOST_BITS = 13 };
    (void)d;
    const int64_t share = (int64_t)a->rows * a->columns >> UNIT_BITS;
    int bits = LEAST_BITS;
    while (bits < MOST_BITS && share >> (bits + 1))
        bits++;
    v[ATTN_ARG_PART_COLUMNS].i64 = (int64_t)1 << bits;
    v[ATTN_ARG_COLUMN_PARTS].i64 = (a->columns + ((int64_t)1 << bits) - 1) >> bits;
    return ATTN_OK;
}
