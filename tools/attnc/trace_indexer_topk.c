/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for indexer_topk kernels: rows of one sequence each, or of one for all, with as many
 * keys each.
 */
#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { ROWS, KEYS, SPLITS, SHARED, PAGE };

enum { DIM = 128, TOKEN_BYTES = DIM + 4 };

static void set_keys(struct trace_run *run, const struct attn_indexer_topk_desc *desc,
                     struct attn_indexer_topk_args *a)
{
    const int *s = run->shape;
    const size_t sequences = s[SHARED] ? 1 : (size_t)s[ROWS];
    const int pages = (s[KEYS] + s[PAGE] - 1) / s[PAGE];
    if (!desc->paged) {
        a->keys = trace_random(run, "fp8", (size_t)s[KEYS] * DIM);
        a->key_scales = trace_random(run, "f32", (size_t)s[KEYS]);
        return;
    }
    /* Bytes below 64 are small numbers in fp8, and four of them in single precision. */
    a->keys =
        trace_random(run, "fp8", sequences * (size_t)pages * ((size_t)s[PAGE] + 1) * TOKEN_BYTES);
    a->page_size = s[PAGE];
    a->page_stride = ((int64_t)s[PAGE] * TOKEN_BYTES + 15) / 16 * 16;
    a->block_table = trace_steps(run, sequences * (size_t)pages, 0, 1);
    a->block_table_stride = pages;
    a->row_sequences = trace_steps(run, (size_t)s[ROWS], 0, !s[SHARED]);
}

/* A page that the kernel does not take becomes the smallest usual one that it does. */
static void choose_page(int *page, bool small_pages)
{
    const bool small = *page < 32 || *page & (*page - 1);
    if (small != small_pages)
        *page = small_pages ? 16 : 64;
}

static int prepare(struct trace_run *run)
{
    int *s = run->shape;
    const struct attn_indexer_topk_desc desc = verify_indexer_topk_desc(run->pack, run->n);
    const size_t rows = (size_t)s[ROWS], lists = rows * (size_t)s[SPLITS];
    const double keys = (s[SHARED] || !desc.paged ? 1.0 : s[ROWS]) * s[KEYS];
    const int fault = trace_check_elements(keys * TOKEN_BYTES);
    if (fault)
        return fault;
    choose_page(&s[PAGE], desc.small_pages);
    struct attn_indexer_topk_args *a = run->args;
    *a = (struct attn_indexer_topk_args){
        .size = sizeof(*a),
        .rows = s[ROWS],
        .splits = s[SPLITS],
        .q = trace_random(run, "fp8", rows * (size_t)desc.heads * DIM),
        .q_head_stride = DIM,
        .q_token_stride = (int64_t)desc.heads * DIM,
        .weights = trace_random(run, "f32", rows * (size_t)desc.heads),
        .weights_token_stride = desc.heads,
        .row_ends = trace_steps(run, rows, s[KEYS], 0),
        .indices = trace_room(run, lists * (size_t)desc.top_k, sizeof(int32_t)),
        .values = s[SPLITS] > 1 ? trace_room(run, lists * (size_t)desc.top_k, sizeof(float)) : NULL,
    };
    set_keys(run, &desc, a);
    run->least_bytes = keys * TOKEN_BYTES + (double)rows * desc.heads * (DIM + 4) +
                       (double)lists * desc.top_k * (s[SPLITS] > 1 ? 8 : 4);
    return trace_lookup(run, &desc);
}

const struct trace_family trace_indexer_topk = {
    .op = "indexer_topk",
    .args_size = sizeof(struct attn_indexer_topk_args),
    .dimensions =
        {
            [ROWS] = {"rows", 304, 1 << 16, "queries"},
            [KEYS] = {"keys", 65536, 1 << 20, "of each"},
            [SPLITS] = {"splits", 1, 65535, "parts that they are cut into"},
            [SHARED] = {"shared", 0, 1, "1: all rows are of one sequence"},
            [PAGE] = {"page", 64, 65536, "tokens in a page"},
        },
    .prepare = prepare,
};
