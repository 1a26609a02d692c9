/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for kernels that move caches: one sequence into pages that lie one after the other,
 * and out of them; pages into others of the same cache.
 */
#include <stdlib.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"
#include "tools/verify/cache.h"

enum dimension { TOKENS, KV_HEADS, PAGE_SIZE };

/* What the kernel's key says of its cache and its heads. */
struct kind {
    const char *dtype;
    const struct precision *precision;
    struct attn_cache_desc cache;
    int head_dim, head_dim_v;
    size_t pages;
};

static struct kind kind_of(const struct trace_run *run)
{
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    const struct precision *precision = find_precision(dtype);
    struct kind k = {
        .dtype = dtype,
        .precision = precision,
        .cache = verify_cache_desc(run->pack, run->n),
        .head_dim = atoi(verify_field(run->pack, run->n, "head_dim")),
        .head_dim_v = atoi(verify_field(run->pack, run->n, "head_dim_v")),
    };
    if (!k.cache.page_size)
        k.cache.page_size = run->shape[PAGE_SIZE];
    k.pages = ((size_t)run->shape[TOKENS] + k.cache.page_size - 1) / k.cache.page_size;
    return k;
}

static int check_shape(const struct trace_run *run, const struct kind *k)
{
    const int dim = k->head_dim > k->head_dim_v ? k->head_dim : k->head_dim_v;
    return trace_check_elements((double)k->pages * k->cache.page_size * run->shape[KV_HEADS] * dim);
}

/* Every element once in either form, and its scale. */
static double count_bytes(const struct trace_run *run, const struct kind *k)
{
    const double rows = (double)run->shape[TOKENS] * run->shape[KV_HEADS];
    const int size = find_cache_precision(k->cache.dtype, "")->size;
    const double scales = k->cache.scale == ATTN_KV_SCALE_TOKEN ? 2 * sizeof(float)
                          : k->cache.scale == ATTN_KV_SCALE_BLOCK
                              ? 2.0 * sizeof(float) / k->cache.page_size
                              : 0;
    return rows * ((k->head_dim + k->head_dim_v) * (2 + size) + scales);
}

static void make_cache(struct trace_run *run, const struct kind *k, struct attn_cache *cache)
{
    trace_cache(run, &k->cache, k->pages * k->cache.page_size * run->shape[KV_HEADS], k->head_dim,
                k->head_dim_v, cache);
}

static int prepare_write(struct trace_run *run)
{
    const struct kind k = kind_of(run);
    const int code = check_shape(run, &k), tokens = run->shape[TOKENS];
    struct attn_cache_write_args *a = run->args;
    int64_t *slots = code == EXIT_GOOD ? malloc((size_t)tokens * sizeof(*slots)) : NULL;
    if (!slots)
        return code != EXIT_GOOD ? code : complain(EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < tokens; i++)
        slots[i] = i;
    const size_t rows = (size_t)tokens * run->shape[KV_HEADS];
    const struct attn_cache_write_desc desc = {
        .size = sizeof(desc),
        .dtype = k.precision->dtype,
        .head_dim = k.head_dim,
        .head_dim_v = k.head_dim_v,
        .kv_heads = run->shape[KV_HEADS],
        .cache = k.cache,
    };
    *a = (struct attn_cache_write_args){
        .size = sizeof(*a),
        .tokens = tokens,
        .k_in = trace_random(run, k.dtype, rows * k.head_dim),
        .v_in = trace_random(run, k.dtype, rows * k.head_dim_v),
        .slot_mapping = device_copy(&run->memory, slots, (size_t)tokens * sizeof(*slots)),
    };
    free(slots);
    make_cache(run, &k, &a->cache);
    run->least_bytes = count_bytes(run, &k) + tokens * 8.0;
    return trace_lookup(run, &desc);
}

static int prepare_gather(struct trace_run *run)
{
    const struct kind k = kind_of(run);
    const int code = check_shape(run, &k), tokens = run->shape[TOKENS];
    struct attn_cache_gather_args *a = run->args;
    if (code != EXIT_GOOD)
        return code;
    const size_t rows = (size_t)tokens * run->shape[KV_HEADS];
    const struct attn_cache_gather_desc desc = {
        .size = sizeof(desc),
        .dtype = k.precision->dtype,
        .head_dim = k.head_dim,
        .head_dim_v = k.head_dim_v,
        .kv_heads = run->shape[KV_HEADS],
        .cache = k.cache,
        .page_table = VERIFY_NUMBER_OF(run->pack, run->n, "page_table", "blocks", "indices"),
    };
    *a = (struct attn_cache_gather_args){
        .size = sizeof(*a),
        .batch = 1,
        .total_k = tokens,
        .max_seqlen_k = tokens,
        .k_out = trace_room(run, rows * k.head_dim, 2),
        .v_out = trace_room(run, rows * k.head_dim_v, 2),
        .cu_seqlens_k = trace_steps(run, 2, 0, tokens),
    };
    make_cache(run, &k, &a->cache);
    a->pages.entries = (int32_t)k.pages;
    a->pages.kv_indptr = trace_steps(run, 2, 0, (int32_t)k.pages);
    a->pages.block_table = a->pages.kv_indices = trace_steps(run, k.pages, 0, 1);
    run->least_bytes = count_bytes(run, &k) + 4.0 * k.pages;
    return trace_lookup(run, &desc);
}

static int prepare_copy(struct trace_run *run)
{
    enum { PAIRS, HEADS, DIM, PAGE };
    const int *s = run->shape, pairs = s[PAIRS];
    const struct attn_cache_copy_desc desc = {
        .size = sizeof(desc),
        .head_dim = s[DIM],
        .kv_heads = s[HEADS],
        .cache = {.dtype = ATTN_BF16, .page_size = s[PAGE]},
    };
    struct attn_cache_copy_args *a = run->args;
    const double elements = 2.0 * pairs * s[PAGE] * s[HEADS] * s[DIM];
    const int code = trace_check_elements(elements);
    int64_t (*numbers)[2] = code == EXIT_GOOD ? malloc(pairs * sizeof(*numbers)) : NULL;
    if (!numbers)
        return code != EXIT_GOOD ? code : complain(EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < pairs; i++) {
        numbers[i][0] = i;
        numbers[i][1] = pairs + i;
    }
    *a = (struct attn_cache_copy_args){
        .size = sizeof(*a),
        .pairs = pairs,
        .page_pairs = device_copy(&run->memory, numbers, pairs * sizeof(*numbers)),
    };
    free(numbers);
    trace_cache(run, &desc.cache, 2 * (size_t)pairs * s[PAGE] * s[HEADS], s[DIM], s[DIM], &a->to);
    run->least_bytes = 2 * 2 * elements + pairs * 16.0; /* read, written; 2 bytes */
    return trace_lookup(run, &desc);
}

#define DIMENSIONS                                                             \
    {                                                                          \
        [TOKENS] = {"tokens", 1024, 1 << 20, "of one sequence"},               \
        [KV_HEADS] = {"kv_heads", 8, 1024, "key/value heads"},                 \
        [PAGE_SIZE] = {"page_size", 16, 65536, "for a kernel that takes any"}, \
    }

const struct trace_family trace_cache_write = {
    .op = "cache_write",
    .args_size = sizeof(struct attn_cache_write_args),
    .dimensions = DIMENSIONS,
    .prepare = prepare_write,
};

const struct trace_family trace_cache_gather = {
    .op = "cache_gather",
    .args_size = sizeof(struct attn_cache_gather_args),
    .dimensions = DIMENSIONS,
    .prepare = prepare_gather,
};

const struct trace_family trace_cache_copy = {
    .op = "cache_copy",
    .args_size = sizeof(struct attn_cache_copy_args),
    .dimensions =
        {
            {"pairs", 256, 1 << 16, "pages that are copied"},
            {"kv_heads", 8, 1024, "key/value heads"},
            {"head_dim", 128, 1024, "elements of each, of 2 bytes"},
            {"page_size", 16, 65536, "tokens in a page"},
        },
    .prepare = prepare_copy,
};
