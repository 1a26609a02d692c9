/* SPDX-License-Identifier: Apache-2.0 */
/* This file chooses how many parts the keys of a row of the indexer are cut into. */
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/op.h"

/* The fewest keys of a part. With a row of 65,536 keys on either target, 16 parts take the least
 * modelled time together with the launch that merges them, with a top_k of 512 and of 2,048. */
enum { PART_KEYS = 4096 };

static int32_t choose_splits(const struct attn_indexer_topk_desc *d,
                             const struct attn_indexer_topk_shape *s)
{
    const int32_t keys = 2 * d->top_k > PART_KEYS ? 2 * d->top_k : PART_KEYS;
    const int32_t parts = s->max_keys / keys;
    const int32_t units = s->rows ? s->compute_units / s->rows : s->compute_units;
    const int32_t splits = parts < units ? parts : units;
    return splits < 1 ? 1 : splits;
}

/* A workgroup begins by reading q: it has as many columns as leave a workgroup for each of 256
 * compute units, within bounds. On the model no other power of two is faster, on either target. */
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

static int check(const struct attn_indexer_topk_desc *d, const struct attn_indexer_topk_shape *s)
{
    if (!d || d->size != sizeof(*d) || !s || s->size != sizeof(*s))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "indexer_topk: desc or shape is NULL, or its size is not what this "
                               "library knows");
    if (d->top_k < 1 || d->top_k > 4096 || d->top_blocks < 0 || d->top_blocks > 4096)
        return attn_fail(ATTN_BAD_ARGUMENT, "indexer_topk: top_k %d, top_blocks %d", d->top_k,
                         d->top_blocks);
    if (s->rows < 0 || s->max_keys < 0 || s->compute_units < 1 || s->compute_units > 512)
        return attn_fail(ATTN_BAD_ARGUMENT, "indexer_topk: rows %d, max_keys %d, compute_units %d",
                         s->rows, s->max_keys, s->compute_units);
    return ATTN_OK;
}

ATTN_PUBLIC int attn_indexer_topk_workspace_size(const struct attn_indexer_topk_desc *desc,
                                                 const struct attn_indexer_topk_shape *shape,
                                                 struct attn_indexer_topk_workspace *workspace)
{
    int r = check(desc, shape);
    if (r)
        return r;
    if (!workspace)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "indexer_topk: workspace is NULL");
    *workspace = (struct attn_indexer_topk_workspace){.splits = choose_splits(desc, shape)};
    if (workspace->splits == 1)
        return ATTN_OK;
    const size_t lists = (size_t)shape->rows * (size_t)workspace->splits;
    const size_t keys = (lists * (size_t)desc->top_k * 4 + 15) / 16 * 16;
    const size_t blocks = (lists * (size_t)desc->top_blocks * 4 + 15) / 16 * 16;
    workspace->values = keys;
    workspace->blocks = 2 * keys;
    workspace->block_values = 2 * keys + blocks;
    workspace->bytes = 2 * keys + 2 * blocks;
    return ATTN_OK;
}
