/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for decode and mla_decode kernels: sequences of one length over contiguous pages,
 * with or without a work list.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"
#include "tools/verify/cache.h"
#include "tools/verify/latent.h"

enum { INFO = 8 }; /* integers of a work item: struct attn_decode_plan */

enum dimension { BATCH, K, Q, HEADS, KV_HEADS, PAGE_SIZE, LISTS, WINDOW };

/* Fills in what the user left out, for the kernel's ratio of heads. */
static int complete_shape(int *s, const struct attn_decode_desc *desc)
{
    const int ratio = desc->heads ? desc->heads / desc->kv_heads : 0;
    if (!s[KV_HEADS])
        s[KV_HEADS] = s[HEADS] && ratio ? s[HEADS] / ratio : 1;
    if (!s[HEADS])
        s[HEADS] = s[KV_HEADS] * (ratio ? ratio : 1);
    if (s[HEADS] % s[KV_HEADS] || (ratio && s[HEADS] / s[KV_HEADS] != ratio))
        return complain(EXIT_USER, "--shape: %d heads over %d KV heads is not the kernel's ratio",
                        s[HEADS], s[KV_HEADS]);
    if (s[WINDOW] && desc->mask != ATTN_MASK_WINDOW)
        return complain(EXIT_USER, "--shape: this kernel has no window");
    if (s[Q] > desc->q_len)
        return complain(EXIT_USER, "--shape: q is at most %d with this kernel", desc->q_len);
    return trace_check_elements((double)s[BATCH] * (s[K] + s[PAGE_SIZE]) * s[KV_HEADS] *
                                fmax(desc->head_dim, desc->head_dim_v));
}

/* Random rows of 656 bytes, small numbers, with scales of 1: what is behind these is small too. */
static void packed_cache(struct trace_run *run, size_t rows, struct attn_cache *cache)
{
    uint64_t random = 1;
    const float one = 1;
    uint8_t *bytes = malloc(rows * REF_PACKED_ROW);
    for (size_t i = 0; i < rows * REF_PACKED_ROW; i++)
        bytes[i] = (uint8_t)(random_bits(&random) & 0x3f);
    for (size_t i = 0; i < rows; i++)
        for (int d = 0; d < REF_PACKED_LATENT; d += REF_PACKED_RUN)
            memcpy(bytes + i * REF_PACKED_ROW + ref_packed_scale(d), &one, sizeof(one));
    cache->k = device_copy(&run->memory, bytes, rows * REF_PACKED_ROW);
    free(bytes);
}

static void make_cache(struct trace_run *run, const struct attn_decode_desc *desc, size_t tokens,
                       struct attn_cache *cache)
{
    if (desc->cache.layout == ATTN_KV_PACKED)
        packed_cache(run, tokens, cache);
    else
        trace_cache(run, &desc->cache, tokens * desc->kv_heads, desc->head_dim, desc->head_dim_v,
                    cache);
}

/* The pages of a sequence lie one after the other. */
static void upload_pages(struct trace_run *run, const struct attn_decode_desc *desc,
                         struct attn_decode_args *a)
{
    const int keys = run->shape[K], size = desc->cache.page_size, pages = (keys + size - 1) / size;
    const size_t all = (size_t)a->batch * pages;
    make_cache(run, desc, all * size, &a->cache);
    a->pages.entries = desc->page_table == ATTN_PAGES_BLOCKS ? pages : (int32_t)all;
    a->pages.kv_lens = trace_steps(run, (size_t)a->batch, keys, 0);
    a->pages.kv_indptr = trace_steps(run, (size_t)a->batch + 1, 0, pages);
    a->pages.block_table = a->pages.kv_indices = trace_steps(run, all, 0, 1);
    run->least_bytes += 4.0 * (all + (size_t)a->batch);
}

/* A list for each sequence, of as many slots as it has keys: no two name the same one. */
static void upload_slots(struct trace_run *run, const struct attn_decode_desc *desc,
                         struct attn_decode_args *a)
{
    const int keys = run->shape[K];
    const size_t all = (size_t)a->batch * keys;
    const size_t pages = all / desc->cache.page_size + 1;
    uint64_t random = 1;
    int32_t *slots = shuffled_pages((int)all, &random);
    make_cache(run, desc, pages * desc->cache.page_size, &a->cache);
    a->pages.entries = desc->page_table == ATTN_PAGES_BLOCKS ? keys : (int32_t)all;
    a->pages.kv_lens = trace_steps(run, (size_t)a->batch, keys, 0);
    a->pages.kv_indptr = trace_steps(run, (size_t)a->batch + 1, 0, keys);
    a->pages.block_table = a->pages.kv_indices =
        device_copy(&run->memory, slots, all * sizeof(*slots));
    run->least_bytes += 4.0 * (all + (size_t)a->batch);
    free(slots);
}

/* Every byte of K, V, their scales, q and out once; of lse, where it is written. */
static double count_bytes(const struct attn_decode_desc *desc, bool latent, const int *s)
{
    const struct precision *precision = find_cache_precision(desc->cache.dtype, "");
    const double rows = (double)s[BATCH] * s[Q] * s[HEADS];
    const int seen = s[WINDOW] ? s[WINDOW] + s[Q] - 1 : s[K]; /* of a sequence */
    const double keys = (double)s[BATCH] * (seen < s[K] ? seen : s[K]) * s[KV_HEADS];
    const double scales = desc->cache.scale == ATTN_KV_SCALE_TOKEN   ? 8
                          : desc->cache.scale == ATTN_KV_SCALE_BLOCK ? 8.0 / desc->cache.page_size
                                                                     : 0;
    const int dims = desc->head_dim + desc->head_dim_v;
    const bool packed = desc->cache.layout == ATTN_KV_PACKED;
    const int cached = packed ? REF_PACKED_ROW : latent ? desc->head_dim : dims;
    return keys * (cached * precision->size + scales) + rows * (dims * 2 + (desc->lse ? 4 : 0));
}

static int32_t *allocate_words(size_t count) { return calloc(count + 1, sizeof(int32_t)); }

/* A plan as an engine would make it; its items are what a launch reads of it. */
static void upload_work(struct trace_run *run, const struct attn_decode_desc *desc, bool sparse,
                        struct attn_decode_args *a)
{
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = a->batch,
        .q_len = a->q_len,
        .page_size = sparse ? 1 : desc->cache.page_size,
        .heads = desc->heads,
        .kv_heads = desc->kv_heads,
        .lists = run->shape[LISTS],
        .window = run->shape[WINDOW],
    };
    struct attn_decode_plan_sizes sizes;
    attn_decode_plan_sizes(&shape, &sizes);
    const struct attn_decode_plan plan = {
        .work_indptr = allocate_words((size_t)shape.lists),
        .work_info = allocate_words((size_t)INFO * sizes.work_items),
        .reduce_indptr = allocate_words((size_t)shape.batch),
        .reduce_final_map = allocate_words(2 * (size_t)shape.batch),
        .reduce_partial_map = allocate_words((size_t)sizes.partials),
    };
    int32_t *kv_lens = allocate_words((size_t)a->batch), *indptr = allocate_words(a->batch + 1u);
    for (int b = 0; b < a->batch; b++) {
        kv_lens[b] = run->shape[K];
        indptr[b + 1] = indptr[b] + (kv_lens[b] - 1) / shape.page_size + 1;
    }
    const struct attn_decode_plan_lengths lengths = {
        .kv_lens = kv_lens,
        .kv_indptr = desc->page_table == ATTN_PAGES_INDICES ? indptr : NULL,
    };
    attn_decode_plan(&shape, &lengths, &plan);
    const size_t items = (size_t)plan.work_indptr[shape.lists];
    const size_t rows = (size_t)sizes.partial_rows * desc->heads;
    a->work_indptr = device_copy(&run->memory, plan.work_indptr, 4 * (shape.lists + 1u));
    a->work_info = device_copy(&run->memory, plan.work_info, 4 * INFO * items);
    a->work_lists = shape.lists;
    a->partial_rows = sizes.partial_rows;
    a->partial_out = trace_room(run, rows * desc->head_dim_v, sizeof(float));
    a->partial_lse = trace_room(run, rows, sizeof(float));
    if (desc->one_launch) {
        a->reduce_indptr = device_copy(&run->memory, plan.reduce_indptr, 4 * (a->batch + 1u));
        a->reduce_partial_map =
            device_copy(&run->memory, plan.reduce_partial_map, 4 * (size_t)sizes.partials);
        a->tickets = trace_steps(run, (size_t)a->batch * desc->kv_heads, 0, 0);
    }
    run->least_bytes +=
        4.0 * (INFO * items + shape.lists + 1) +
        4.0 * plan.reduce_indptr[shape.batch] * shape.q_len * desc->heads * (desc->head_dim_v + 1);
    free(plan.work_indptr);
    free(plan.work_info);
    free(plan.reduce_indptr);
    free(plan.reduce_final_map);
    free(plan.reduce_partial_map);
    free(kv_lens);
    free(indptr);
}

static bool is_latent(const struct trace_run *run) { return !strcmp(run->info->op, "mla_decode"); }

static int look_up_latent(struct trace_run *run, const struct attn_decode_desc *desc,
                          const struct attn_decode_args *a)
{
    const float q_scale = 0.1f;
    const struct latent_kind kind = latent_kind(run->pack, run->n);
    const struct attn_mla_decode_desc d = latent_desc(desc, &kind);
    *(struct attn_mla_decode_args *)run->args =
        latent_args(a, kind.q_dtype ? device_copy(&run->memory, &q_scale, sizeof(q_scale)) : NULL);
    return trace_lookup(run, &d);
}

static int prepare(struct trace_run *run)
{
    int *s = run->shape;
    const bool latent = is_latent(run);
    const struct latent_kind kind = latent_kind(run->pack, run->n);
    const bool sparse = kind.sparse != ATTN_SPARSE_NONE, q_fp8 = kind.q_dtype == ATTN_FP8;
    struct attn_decode_desc desc = verify_decode_desc(run->pack, run->n);
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    if (desc.mask == ATTN_MASK_CUSTOM)
        return complain(EXIT_USER, "%s: trace has no inputs for a custom mask", run->info->name);
    if (desc.cache.page_size == 0)
        desc.cache.page_size = s[PAGE_SIZE];
    s[PAGE_SIZE] = desc.cache.page_size;
    const int code = complete_shape(s, &desc);
    if (code != EXIT_GOOD)
        return code;
    desc.heads = s[HEADS];
    desc.kv_heads = s[KV_HEADS];
    struct attn_decode_args plain, *const a = latent ? &plain : run->args;
    const size_t rows = (size_t)s[BATCH] * s[Q] * s[HEADS];
    *a = (struct attn_decode_args){
        .size = sizeof(*a),
        .batch = s[BATCH],
        .q_len = s[Q],
        .total_q = s[BATCH] * s[Q],
        .scale = 1 / sqrtf((float)desc.head_dim),
        .soft_cap = 50,
        .window_left = s[WINDOW] - 1,
        .window_right = s[WINDOW] ? 0 : -1,
        .q = trace_random(run, q_fp8 ? "fp8" : dtype, rows * desc.head_dim),
        .out = trace_room(run, rows * desc.head_dim_v, 2),
        .lse = desc.lse ? trace_room(run, rows, sizeof(float)) : NULL,
        .sinks = desc.sinks ? trace_random(run, "f32", (size_t)s[HEADS]) : NULL,
        .hook_arg = desc.logits ? trace_random(run, "f32", TRACE_HOOK_FLOATS) : NULL,
    };
    run->least_bytes = count_bytes(&desc, latent, s) - (q_fp8 ? 1.0 : 0.0) * rows * desc.head_dim;
    if (sparse)
        upload_slots(run, &desc, a);
    else
        upload_pages(run, &desc, a);
    if (s[LISTS])
        upload_work(run, &desc, sparse, a);
    return latent ? look_up_latent(run, &desc, a) : trace_lookup(run, &desc);
}

#define DIMENSIONS                                                                               \
    {                                                                                            \
        [BATCH] = {"batch", 16, 4096, "sequences"},                                              \
        [K] = {"k", 1024, 1 << 20, "key tokens of each"},                                        \
        [Q] = {"q", 1, 64, "query tokens of each"},                                              \
        [HEADS] = {"heads", 0, 1024, "query heads; what the kernel's ratio asks for"},           \
        [KV_HEADS] = {"kv_heads", 0, 1024, "key/value heads; what the kernel's ratio asks for"}, \
        [PAGE_SIZE] = {"page_size", 16, 65536, "for a kernel that takes any"},                   \
        [LISTS] = {"lists", 0, 1 << 20,                                                          \
                   "work lists; left out: a workgroup per sequence and KV head"},                \
        [WINDOW] = {"window", 0, 1 << 20, "keys that a query sees; left out: all"},              \
    }

const struct trace_family trace_decode = {
    .op = "decode",
    .args_size = sizeof(struct attn_decode_args),
    .dimensions = DIMENSIONS,
    .prepare = prepare,
};

const struct trace_family trace_mla_decode = {
    .op = "mla_decode",
    .args_size = sizeof(struct attn_mla_decode_args),
    .dimensions = DIMENSIONS,
    .prepare = prepare,
};
