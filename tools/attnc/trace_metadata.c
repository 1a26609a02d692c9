/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for metadata kernels: sequences of one length, from a block table.
 */
#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { BATCH, KEYS, PAGE };

static int prepare(struct trace_run *run)
{
    const int *s = run->shape;
    const struct attn_metadata_desc desc = verify_metadata_desc(run->pack, run->n);
    const int pages = (s[KEYS] + s[PAGE] - 1) / s[PAGE];
    const size_t batch = (size_t)s[BATCH], entries = batch * pages;
    if (s[PAGE] & (s[PAGE] - 1))
        return complain(EXIT_USER, "--shape: page %d is not a power of two", s[PAGE]);
    struct attn_metadata_args *a = run->args;
    *a = (struct attn_metadata_args){
        .size = sizeof(*a),
        .batch = s[BATCH],
        .page_size = s[PAGE],
        .entries = pages,
        .block_table_stride = pages,
        .advance = 0,
        .kv_lens = trace_steps(run, batch, s[KEYS], 0),
        .block_table = trace_steps(run, entries, 0, 1),
        .kv_indptr = trace_steps(run, batch + 1, 0, pages),
        .kv_indices = trace_room(run, entries, sizeof(int32_t)),
        .page_table = trace_room(run, entries, sizeof(int32_t)),
        .last_page_lens = trace_room(run, batch, sizeof(int32_t)),
        .slot_mapping = trace_room(run, batch, sizeof(int64_t)),
    };
    const double each = 4.0 * batch, all = 4.0 * entries;
    const double least[] = {
        [ATTN_METADATA_INDPTR] = 2 * each + 4,
        [ATTN_METADATA_KV_INDICES] = each + 4 + 2 * all,
        [ATTN_METADATA_PAGE_TABLE] = each + 2 * all,
        [ATTN_METADATA_LAST_PAGE_LEN] = 2 * each,
        [ATTN_METADATA_DRAFT_SLOTS] = 5 * each,
    };
    run->least_bytes = least[desc.kind];
    return trace_lookup(run, &desc);
}

const struct trace_family trace_metadata = {
    .op = "metadata",
    .args_size = sizeof(struct attn_metadata_args),
    .dimensions =
        {
            [BATCH] = {"batch", 64, 1 << 14, "sequences"},
            [KEYS] = {"keys", 4096, 1 << 20, "of each"},
            [PAGE] = {"page", 16, 65536, "tokens in a page"},
        },
    .prepare = prepare,
};
