/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for prefill kernels: sequences of one length.
 */
#include <math.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { BATCH, Q, K, HEADS, KV_HEADS, PAGE_SIZE };

/* Fills in what the user left out, for the kernel's ratio of heads. */
static int complete_shape(int *s, const struct attn_prefill_desc *desc)
{
    const int ratio = desc->heads ? desc->heads / desc->kv_heads : 0;
    s[K] = s[K] ? s[K] : s[Q];
    if (!s[KV_HEADS])
        s[KV_HEADS] = s[HEADS] && ratio ? s[HEADS] / ratio : 1;
    if (!s[HEADS])
        s[HEADS] = s[KV_HEADS] * (ratio ? ratio : 1);
    if (!s[KV_HEADS] || s[HEADS] % s[KV_HEADS] || (ratio && s[HEADS] / s[KV_HEADS] != ratio))
        return complain(EXIT_USER, "--shape: %d heads over %d KV heads is not the kernel's ratio",
                        s[HEADS], s[KV_HEADS]);
    return trace_check_elements(fmax((double)s[Q] * s[HEADS], (double)s[K] * s[KV_HEADS]) *
                                s[BATCH] * fmax(desc->head_dim, desc->head_dim_v));
}

static void upload_keys(struct trace_run *run, const struct attn_prefill_desc *desc, size_t k,
                        struct attn_prefill_args *a)
{
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    a->k = trace_random(run, dtype, k * desc->head_dim);
    a->v = trace_random(run, dtype, k * desc->head_dim_v);
    a->cu_seqlens_k = trace_steps(run, (size_t)a->batch + 1, 0, a->max_seqlen_k);
}

/* The pages of a sequence lie one after the other. */
static void upload_pages(struct trace_run *run, const struct attn_prefill_desc *desc,
                         struct attn_prefill_args *a)
{
    const int size = desc->cache.page_size, pages = (a->max_seqlen_k + size - 1) / size;
    const size_t all = (size_t)a->batch * pages;
    trace_cache(run, &desc->cache, all * size * desc->kv_heads, desc->head_dim, desc->head_dim_v,
                &a->cache);
    a->pages.entries = desc->page_table == ATTN_PAGES_BLOCKS ? pages : (int32_t)all;
    a->pages.kv_lens = trace_steps(run, (size_t)a->batch, a->max_seqlen_k, 0);
    a->pages.kv_indptr = trace_steps(run, (size_t)a->batch + 1, 0, pages);
    a->pages.block_table = a->pages.kv_indices = trace_steps(run, all, 0, 1);
}

static int prepare(struct trace_run *run)
{
    int *s = run->shape;
    struct attn_prefill_desc desc = verify_prefill_desc(run->pack, run->n);
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    if (desc.logits)
        return complain(EXIT_USER, "%s: trace has no inputs for a logits function",
                        run->info->name);
    if (desc.mask == ATTN_MASK_CUSTOM)
        return complain(EXIT_USER, "%s: trace has no inputs for a custom mask", run->info->name);
    const int code = complete_shape(s, &desc);
    if (code != EXIT_GOOD)
        return code;
    desc.heads = s[HEADS];
    desc.kv_heads = s[KV_HEADS];
    if (desc.paged && desc.cache.page_size == 0)
        desc.cache.page_size = s[PAGE_SIZE];
    struct attn_prefill_args *a = run->args;
    const size_t q = (size_t)s[BATCH] * s[Q] * s[HEADS];
    *a = (struct attn_prefill_args){
        .size = sizeof(*a),
        .batch = s[BATCH],
        .max_seqlen_q = s[Q],
        .max_seqlen_k = s[K],
        .total_q = s[BATCH] * s[Q],
        .total_k = s[BATCH] * s[K],
        .scale = 1 / sqrtf((float)desc.head_dim),
        .soft_cap = 50,
        .window_left = -1,
        .window_right = -1,
        .q = trace_random(run, dtype, q * desc.head_dim),
        .out = trace_room(run, q * desc.head_dim_v, 2),
        .lse = desc.lse ? trace_room(run, q, sizeof(float)) : NULL,
        .sinks = desc.sinks ? trace_random(run, "f32", (size_t)s[HEADS]) : NULL,
        .hook_arg = desc.logits ? trace_random(run, "f32", TRACE_HOOK_FLOATS) : NULL,
        .cu_seqlens_q = trace_steps(run, (size_t)s[BATCH] + 1, 0, s[Q]),
    };
    if (desc.paged)
        upload_pages(run, &desc, a);
    else
        upload_keys(run, &desc, (size_t)s[BATCH] * s[K] * s[KV_HEADS], a);
    return trace_lookup(run, &desc);
}

const struct trace_family trace_prefill = {
    .op = "prefill",
    .args_size = sizeof(struct attn_prefill_args),
    .dimensions =
        {
            [BATCH] = {"batch", 1, 4096, "sequences"},
            [Q] = {"q", 512, 1 << 20, "query tokens of each"},
            [K] = {"k", 0, 1 << 20, "key tokens of each; q where left out"},
            [HEADS] = {"heads", 0, 1024, "query heads; what the kernel's ratio asks for"},
            [KV_HEADS] = {"kv_heads", 0, 1024, "key/value heads; what the kernel's ratio asks for"},
            [PAGE_SIZE] = {"page_size", 16, 65536, "of a cache, for a kernel that takes any"},
        },
    .prepare = prepare,
};
