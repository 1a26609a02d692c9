/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of decode, rope_decode and mla_decode kernels: the shapes and the inputs. mla_decode
 * is decode with one KV head, whose values are the first elements of its keys. compare.c derives
 * the bounds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/verify/compare.h"
#include "tools/verify/decode.h"
#include "tools/verify/hook.h"
#include "tools/verify/pooled_row.h"

/* Largest number of sequences in a shape's list; numbers of head ratios and page sizes to try. */
enum { SEQUENCES_MAX = 6, RATIO_STEPS = 16, PAGE_STEPS = 4 };

/* Flags of a shape. */
enum {
    HUGE_LOGIT = 1 << 0, /* the last query points in the direction of the sequence's first key */
    FAR = 1 << 1,        /* pages are spread over more than 4 GiB */
    PADDED = 1 << 2,     /* q and out have rows after the last sequence */
    LONG = 1 << 3,       /* only kernels without special features run the shape */
    UNEVEN = 1 << 4,     /* qo_indptr: some sequences have fewer than q_len queries, or none */
    SPLIT = 1 << 5,      /* keys are split by work lists, and partial results are compared */
    OWN_SCALE = 1 << 6,  /* scale differs from 1 / sqrt(head_dim) */
    TREE = 1 << 7,       /* for custom masks: the queries are a binary tree of draft tokens */
    IN_ORDER = 1 << 8,   /* pages are consecutive */
    LATE = 1 << 9,       /* a late key of each head has 2^40 times the weight of each other key */
    UNSEEN = 1 << 10,    /* some parts of the plan have no key that a query sees */
    /* The first key has about 2^12 times the weight of each other key. Only kernels that round
     * weights to fp8 run the shape. */
    SLIGHT = 1 << 11,
    MODEL = VERIFY_CHOSEN, /* a model's heads, for the kernel that the pack's table selects */
};

/*
 * The matrix of shapes: keys of each sequence, the whole list `repeat` times, and page size and
 * heads for kernels that take any. Pages are in random order, with poison between and after them.
 * The last rows have heads of models on one of eight ranks (GLM-4.5: of four), and contexts of 1 to
 * 16k keys (Kimi-K3: 68k). Each is for kernels of its head_dim and ratio.
 */
#define CONTEXTS 1, 5, {16384, 1, 777, 33, 129}
static const struct shape {
    struct verify_shape is;
    /* Tokens of a page; query heads of a KV head; KV heads. */
    int page_size, ratio, kv_heads;
    /* Times that the call repeats the list `kv`; sequences in the list; keys of each. */
    int repeat, count;
    int kv[SEQUENCES_MAX];
    int head_dim; /* of a model; only kernels with this head_dim run the row; 0: all kernels */
    /* Sizes of traces and numbers of their plan. Rows of `shapes` have a plan if it is not the
     * usual one; `unit` is for lists of rows of 16 bits. */
    struct {
        int q, heads, lists, window, item_cost, merge_rate, unit;
    } trace;
} shapes[] = {
    {{"late maximum", LATE}, 16, 8, 1, 1, 3, {100, 300, 31}, 0, {0}},
    {{"slight weights", SLIGHT}, 16, 8, 1, 1, 2, {600, 90}, 0, {0}},
    {{"ragged", UNEVEN}, 16, 8, 1, 1, 6, {63, 1, 64, 130, 17, 2}, 0, {0}},
    {{"items", SPLIT | UNEVEN}, 16, 8, 1, 2, 6, {150, 90, 0, 300, 430, 200}, 0, {0}},
    {{"one", 0}, 16, 1, 2, 1, 1, {1}, 0, {0}},
    {{"page edges", 0}, 32, 4, 2, 1, 4, {31, 32, 33, 65}, 0, {0}},
    {{"single slots", UNEVEN}, 1, 16, 1, 1, 3, {5, 16, 70}, 0, {0}},
    {{"large pages", 0}, 1024, 5, 1, 1, 3, {200, 1024, 63}, 0, {0}},
    {{"empty", PADDED | UNEVEN}, 64, 12, 1, 1, 6, {0, 3, 0, 40, 1, 0}, 0, {0}},
    {{"huge logit", HUGE_LOGIT}, 16, 2, 1, 1, 2, {70, 150}, 0, {0}},
    {{"views", VERIFY_VIEWS | PADDED}, 64, 6, 2, 1, 2, {90, 20}, 0, {0}},
    {{"beyond 4 GiB", FAR}, 16, 3, 1, 1, 2, {40, 100}, 0, {0}},
    {{"split", SPLIT | UNEVEN | PADDED}, 16, 4, 1, 1, 5, {700, 9, 0, 333, 64}, 0, {0}},
    {{"split heads", SPLIT}, 128, 2, 2, 1, 2, {600, 50}, 0, {0}},
    {{"many parts", SPLIT | LATE},
     16,
     8,
     1,
     1,
     2,
     {9344, 40},
     0,
     {.lists = 150, .item_cost = 1, .merge_rate = 256}},
    {{"parts unseen", SPLIT | UNSEEN},
     16,
     8,
     1,
     1,
     3,
     {700, 0, 300},
     0,
     {.lists = 300, .item_cost = 1, .merge_rate = 256}},
    {{"long", LONG}, 128, 8, 1, 1, 1, {16385}, 0, {0}},
    {{"own scale", OWN_SCALE}, 16, 10, 1, 1, 2, {40, 77}, 0, {0}},
    {{"few keys", 0}, 16, 7, 2, 1, 5, {1, 2, 3, 4, 7}, 0, {0}},
    {{"many heads", UNEVEN}, 64, 40, 1, 1, 3, {48, 5, 1030}, 0, {0}},
    {{"crowded", UNEVEN}, 16, 2, 8, 13, 5, {130, 1, 0, 70, 300}, 0, {0}},
    {{"draft tree", TREE}, 16, 8, 1, 1, 3, {100, 1030, 8}, 0, {0}},
    {{"gpt-oss", MODEL | SPLIT}, 16, 8, 1, CONTEXTS, 64, {0}},
    {{"Llama 8B", MODEL}, 16, 4, 1, CONTEXTS, 128, {0}},
    {{"Llama 70B", MODEL | SPLIT}, 16, 8, 1, CONTEXTS, 128, {0}},
    {{"Llama 405B", MODEL}, 16, 16, 1, CONTEXTS, 128, {0}},
    {{"Qwen3 1.7B", MODEL}, 64, 2, 1, CONTEXTS, 128, {0}},
    {{"Qwen3 14B", MODEL | SPLIT}, 1024, 5, 1, CONTEXTS, 128, {0}},
    {{"GLM-4.5", MODEL | SPLIT}, 16, 12, 2, CONTEXTS, 128, {0}},
    {{"MiniMax-M2", MODEL}, 16, 6, 1, CONTEXTS, 128, {0}},
    {{"Qwen3-Next", MODEL | SPLIT}, 1, 8, 1, CONTEXTS, 256, {0}},
    {{"Qwen3.5", MODEL}, 16, 16, 1, CONTEXTS, 256, {0}},
    {{"Kimi-K2, GLM-5", MODEL | SPLIT}, 64, 8, 1, CONTEXTS, 576, {0}},
    {{"DeepSeek-V3", MODEL}, 1, 16, 1, CONTEXTS, 576, {0}},
    {{"DeepSeek-V4", MODEL | SPLIT}, 64, 16, 1, 1, 5, {8320, 1152, 0, 640, 1}, 512, {.unit = 32}},
    {{"Kimi-K3", MODEL | SPLIT}, 64, 12, 1, 1, 4, {69632, 1, 777, 129}, 512, {0}},
};

/* Numbers of rows of the pool and of the window in a trace with two sources. */
enum { TRACED_POOL = 8192, TRACED_WINDOW = 127 };

/* The trace's shape: a batch that fills a GPU. complete() sets the heads. */
static const struct shape traced = {{"trace", IN_ORDER}, 16, 0, 0, 64, 1, {1024}, 0, {.q = 1}};

/* Windows, keys before and after a query's own, which calls use in turn; the first is a model's. */
static const struct {
    int left, right;
} windows[] = {{127, 0}, {16, 16}, {0, 0}, {-1, 0}, {5, -1}, {-1, -1}, {64, 32}};

/* True if each query attends to a list of chosen keys. */
static bool is_sparse(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.sparse != ATTN_SPARSE_NONE;
}

/* True if entries of the sparse lists name blocks of keys. */
static bool has_blocks(const struct call *c)
{
    return is_sparse(c) && c->desc.mla_decode.sparse == ATTN_SPARSE_BLOCKS;
}

/* True if the second source has pages like the cache's, with rows of 584 bytes. */
static bool second_is_paged(const struct call *c)
{
    return c->desc.mla_decode.cache.layout == ATTN_KV_SCALES_LAST;
}

/* True if the sparse lists name rows of a second source too. */
static bool has_second(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.two_sources;
}

const struct page_lists *decode_lists(const struct call *c)
{
    const struct own *own = c->own;
    return is_sparse(c) ? &own->slots : &own->pages;
}

/* The functions from here on choose the sizes of a call. */

/* Chooses the page size and the head ratio: the kernel's, or at each step others. Several are tried
 * since lookup may select a more specific kernel for some of them. */
static void size_heads(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_cache_desc *cache = &DESC(c, cache);
    const int steps = cache->page_size ? 1 : PAGE_STEPS, ratio = call_ratio(c);
    int kv = s->kv_heads, heads = s->trace.heads;
    if (!c->traced) {
        kv = is_latent(c) ? 1 : call_has(c, MODEL) || !ratio ? kv : ratio <= 4 ? 2 : 1;
        heads = kv * (call_has(c, MODEL) ? s->ratio : ratio ? ratio : s->ratio + c->step / steps);
    }
    cache->page_size = paged_size(cache, s->page_size, c->step % steps);
    DESC(c, heads) = heads;
    if (!is_latent(c))
        PLAIN_DESC(c, kv_heads) = kv;
}

/* Returns the number of query tokens of sequence `s`. */
static int count_queries(const struct call *c, int s)
{
    const int q_len = DESC(c, q_len);
    if (c->traced)
        return ((const struct shape *)c->shape)->trace.q;
    return !call_has(c, UNEVEN) ? q_len : s == 1 ? 0 : 1 + (q_len - 1 + s) % q_len;
}

/* Sets the numbers of cached tokens and of keys. Sparse lists without lengths are equally long. */
static void set_lengths(struct call *c)
{
    const struct shape *shape = c->shape;
    struct own *own = c->own;
    const int batch = shape->count * shape->repeat;
    int longest = 0;
    own->qo = call_allocate(c, (size_t)batch + 1, sizeof(*own->qo));
    own->cached = call_allocate(c, (size_t)batch + 1, sizeof(*own->cached));
    own->kv_lens = call_allocate(c, (size_t)batch + 1, sizeof(*own->kv_lens));
    own->mask_indptr = call_allocate(c, (size_t)batch + 1, sizeof(*own->mask_indptr));
    for (int s = 0; s < shape->count; s++)
        longest = shape->kv[s] > longest ? shape->kv[s] : longest;
    for (int s = 0; s < batch; s++) {
        const int queries = count_queries(c, s);
        own->cached[s] = own->kv_lens[s] = shape->kv[s % shape->count];
        if (has_second(c) && c->traced)
            own->cached[s] = TRACED_POOL / batch + 1;
        if (is_sparse(c) && call_has(c, PADDED))
            own->kv_lens[s] =
                has_blocks(c) ? (longest + 2 + LIST_BLOCK) / LIST_BLOCK * LIST_BLOCK : longest + 3;
        own->qo[s + 1] = own->qo[s] + queries;
        own->mask_indptr[s + 1] = own->mask_indptr[s] + (int64_t)queries * own->kv_lens[s];
    }
    ARG(c, batch) = batch;
    ARG(c, q_len) = shape->trace.q;
    ARG(c, tokens) = own->qo[batch] + (call_has(c, PADDED) ? 3 : 0);
}

/* Sets the page lists of the sequences, and of the sparse queries. */
static void size_lists(struct call *c)
{
    struct own *own = c->own;
    own->pages = (struct page_lists){
        .count = ARG(c, batch),
        .lens = own->cached,
        .page_size = DESC(c, cache).page_size,
        .far = call_has(c, FAR),
        .in_order = call_has(c, IN_ORDER),
        .spare_first = is_sparse(c),
    };
    own->slots = (struct page_lists){
        .count = ARG(c, batch),
        .lens = own->kv_lens,
        .page_size = 1,
        .in_order = call_has(c, IN_ORDER),
        .exact = call_has(c, PADDED),
    };
    own->blocks = own->slots;
    own->blocks.page_size = LIST_BLOCK;
    page_lists_make(c, &own->pages, DESC(c, page_table), &ARG(c, cache), &ARG(c, pages));
    if (is_sparse(c))
        page_lists_make(c, &own->slots, DESC(c, page_table), NULL, &ARG(c, pages));
    if (has_blocks(c))
        page_lists_make(c, &own->blocks, DESC(c, page_table), NULL, &ARG(c, pages));
    if (has_second(c)) {
        c->args.mla_decode.second_first = ARG(c, cache).page_count * DESC(c, cache).page_size;
        const int rows = c->traced ? ARG(c, batch) : own->slots.first[own->slots.count] + 1;
        const int page = second_is_paged(c) ? DESC(c, cache).page_size : 1;
        c->args.mla_decode.second_rows = (rows + page - 1) / page;
    }
}

/* Allocates `count` integers, and one more. */
static int32_t *allocate_words(struct call *c, int32_t count)
{
    return call_allocate(c, (size_t)count + 1, sizeof(int32_t));
}

/* Returns the window in keys that the plan may assume; 0: all keys. */
static int32_t plan_window(const struct call *c)
{
    if (call_has(c, UNSEEN))
        return 0;
    return DESC(c, mask) == ATTN_MASK_WINDOW  ? PLAIN_ARG(c, window_left) + 1
           : DESC(c, mask) == ATTN_MASK_CHUNK ? PLAIN_ARG(c, chunk)
                                              : 0;
}

/* True if the plan of a call may have units of fewer keys than 64. */
static bool takes_units(const struct call *c)
{
    return is_sparse(c) && !has_blocks(c) && DESC(c, cache).dtype != ATTN_FP8;
}

/* Sets sizes of work lists as for a GPU with few compute units: short sequences are split too. */
static void size_work(struct call *c)
{
    struct own *own = c->own;
    const struct shape *s = c->shape;
    const int lists = call_has(c, SPLIT) && !s->trace.lists ? 5 * kv_heads(c) + 1 : s->trace.lists;
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = ARG(c, batch),
        .q_len = c->traced ? ARG(c, q_len) : DESC(c, q_len),
        .heads = DESC(c, heads),
        .kv_heads = kv_heads(c),
        .lists = lists,
        .window = plan_window(c),
        .item_cost = s->trace.item_cost,
        .merge_rate = s->trace.merge_rate,
        .unit_keys = takes_units(c) ? s->trace.unit : 0,
    };
    const struct attn_decode_plan_lengths lengths = {
        .kv_lens = own->kv_lens,
        .qo_indptr = call_has(c, UNEVEN) ? own->qo : NULL,
    };
    if (!lists)
        return;
    attn_decode_plan_sizes(&shape, &own->sizes);
    own->plan = (struct attn_decode_plan){
        .work_indptr = allocate_words(c, lists),
        .work_info = allocate_words(c, INFO * own->sizes.work_items),
        .reduce_indptr = allocate_words(c, shape.batch),
        .reduce_final_map = allocate_words(c, 2 * shape.batch),
        .reduce_partial_map = allocate_words(c, own->sizes.partials),
    };
    attn_decode_plan(&shape, &lengths, &own->plan);
    own->items = own->plan.work_indptr[lists];
    ARG(c, work_lists) = lists;
    ARG(c, partial_rows) = own->sizes.partial_rows;
}

/* Returns the scale of the logits, 1 / sqrt of the head size. Latent attention uses DeepSeek-V3's
 * head size before absorption, 128 + 64, and multiplies by the square of YaRN's mscale. */
static float model_scale(const struct call *c)
{
    const float mscale = 0.1f * logf(40) + 1;
    return is_latent(c) ? mscale * mscale / sqrtf(192) : 1 / sqrtf((float)DESC(c, head_dim));
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    const size_t turn = call_has(c, MODEL)    ? 0
                        : call_has(c, UNSEEN) ? 1
                                              : c->number % COUNT(windows);
    size_heads(c);
    set_lengths(c);
    ARG(c, scale) = call_has(c, OWN_SCALE) ? 0.3f : model_scale(c);
    if (!is_latent(c)) {
        PLAIN_ARG(c, soft_cap) = call_soft_cap(c, HUGE_LOGIT, OWN_SCALE);
        PLAIN_ARG(c, window_left) = c->traced ? s->trace.window - 1 : windows[turn].left;
        PLAIN_ARG(c, window_right) = !c->traced ? windows[turn].right : s->trace.window ? 0 : -1;
        PLAIN_ARG(c, chunk) = c->traced ? 8192 : 16 << c->number % 5;
    }
    if (is_sharded(c)) {
        c->args.mla_decode.shards = c->traced ? 1 : 2 + (int32_t)c->number % 7;
        c->args.mla_decode.shard = (int32_t)c->number / 2 % c->args.mla_decode.shards;
    }
    size_lists(c);
    size_work(c);
    if (is_step(c))
        rope_decode_size(c);
}

/* Sets the sizes of work items, partial results and reduction lists, and leaves out the tensors
 * that the kernel does not take. */
static void place_work(struct call *c)
{
    const struct own *own = c->own;
    const bool once = is_split(c) && at_once(c);
    operand_resize(OPERAND(c, WORK_INFO), 0, own->items);
    operand_resize(OPERAND(c, PARTIAL_OUT), 0, own->sizes.partial_rows);
    operand_resize(OPERAND(c, PARTIAL_LSE), 0, own->sizes.partial_rows);
    if (!is_split(c)) {
        operand_leave_out(OPERAND(c, WORK_INDPTR));
        operand_leave_out(OPERAND(c, WORK_INFO));
        operand_leave_out(OPERAND(c, PARTIAL_OUT));
        operand_leave_out(OPERAND(c, PARTIAL_LSE));
    }
    operand_resize(OPERAND(c, REDUCE_PARTIAL_MAP), 0, own->sizes.partials);
    if (once)
        return;
    operand_leave_out(OPERAND(c, REDUCE_INDPTR));
    operand_leave_out(OPERAND(c, REDUCE_PARTIAL_MAP));
    operand_leave_out(OPERAND(c, TICKETS));
}

/* Returns the number of the cache's first operand. */
static unsigned cache_operand(const struct call *c)
{
    return is_latent(c) ? MLA_DECODE_K_CACHE : is_step(c) ? ROPE_DECODE_K_CACHE : DECODE_K_CACHE;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    if (call_has(c, FAR))
        paged_spread(c, cache_operand(c), PAGES_FAR_STRIDE);
    if (call_has(c, OWN_SCALE))
        paged_share_scales(c, cache_operand(c), &DESC(c, cache));
    if (!call_has(c, UNEVEN))
        operand_leave_out(OPERAND(c, QO_INDPTR));
    if (is_sparse(c) && call_has(c, PADDED))
        operand_leave_out(OPERAND(c, KV_LENS));
    if (is_step(c))
        call_operand(c, ROPE_DECODE_COS_SIN)->align = 16;
    else
        operand_resize(SEPARATE_OPERAND(c, CUSTOM_MASK), 0, own->mask_indptr[ARG(c, batch)]);
    value_product_place(c);
    place_work(c);
}

/* The functions from here on fill the inputs of a call. */

/* True if draft token t sees `node` of the drafts: itself or an ancestor. */
static bool descends(int t, int node)
{
    while (t > node)
        t = (t - 1) / 2;
    return t == node;
}

/* Fills the custom mask: it shows random keys, two of three, or with TREE each draft's
 * ancestors. */
static void fill_mask(struct call *c)
{
    const struct own *own = c->own;
    if (!has_masks(c))
        return;
    struct operand *mask = SEPARATE_OPERAND(c, CUSTOM_MASK);
    for (int s = 0; s <= ARG(c, batch); s++)
        operand_set_int(SEPARATE_OPERAND(c, MASK_INDPTR), AT(s), own->mask_indptr[s]);
    for (int s = 0; s < ARG(c, batch); s++) {
        const int queries = own->qo[s + 1] - own->qo[s], keys = own->kv_lens[s];
        for (int64_t i = 0; i < (int64_t)queries * keys; i++) {
            const int t = (int)(i / keys), node = (int)(i % keys) - (keys - queries);
            const bool tree = node < 0 || (node <= t && descends(t, node));
            const bool sees = call_has(c, TREE) ? tree : random_bits(&c->random) % 3 != 0;
            operand_set_int(mask, AT(own->mask_indptr[s] + i), sees);
        }
    }
}

/* Makes lists name no real page for pages that no query sees. */
static void hide_pages(struct call *c)
{
    struct own *own = c->own;
    if (is_latent(c) || is_sparse(c))
        return;
    if (DESC(c, mask) == ATTN_MASK_WINDOW && PLAIN_ARG(c, window_left) >= 0)
        page_lists_hide(c, &own->pages, own->qo, PLAIN_ARG(c, window_left), 0);
    if (DESC(c, mask) == ATTN_MASK_CHUNK)
        page_lists_hide(c, &own->pages, own->qo, 0, PLAIN_ARG(c, chunk));
}

/* Fills the tokens of the cache. For rope_decode the new tokens are left out. */
static void fill_tokens(struct call *c)
{
    struct own *own = c->own;
    for (int s = 0; is_step(c) && s < ARG(c, batch); s++)
        own->cached[s] -= rope_decode_cached(c, s);
    page_lists_fill_tokens(c, &own->pages, &own->cache);
    for (int s = 0; is_step(c) && s < ARG(c, batch); s++)
        own->cached[s] += rope_decode_cached(c, s);
}

/* Makes the lists of a trace as in DeepSeek-V4's prompts: random rows of the pool, and then the
 * window. The window's rows are the query's own and the rows before it in the second source. */
static void trace_second(struct call *c)
{
    struct own *own = c->own;
    struct page_lists *l = &own->slots;
    struct operand *const second = call_operand(c, MLA_DECODE_SECOND);
    const int32_t first = c->args.mla_decode.second_first, rows = ARG(c, batch);
    /* number of slots of the cache from which rows are chosen */
    const int32_t pool = first < TRACED_POOL ? first : TRACED_POOL;
    l->pages = call_allocate(c, (size_t)l->first[l->count] + 1, sizeof(*l->pages));
    for (int s = 0; s < l->count; s++) {
        const int from = l->lens[s] > TRACED_WINDOW ? l->lens[s] - TRACED_WINDOW : 0;
        for (int i = 0; i < l->lens[s]; i++)
            l->pages[l->first[s] + i] = i < from
                                            ? (int32_t)(random_bits(&c->random) % (unsigned)pool)
                                            : first + (s + i - from) % rows;
    }
    page_lists_set(c, l, MLA_DECODE_KV_LENS);
    operand_set_table(second, 1, &c->random);
    if (DESC(c, cache).layout == ATTN_KV_PLANES)
        operand_set_table(call_operand(c, MLA_DECODE_SECOND_ROTATED), 1, &c->random);
}

/* Copies two of three rows that the lists name to the second source, and changes the lists to name
 * the copies. Each list entry has its own row there, whose number is above the cache's last
 * slot. */
static void fill_second(struct call *c)
{
    struct own *own = c->own;
    const struct attn_mla_decode_args *a = &c->args.mla_decode;
    const struct page_lists *l = &own->slots;
    struct operand *const second = call_operand(c, MLA_DECODE_SECOND);
    const int dim = DESC(c, head_dim), page = DESC(c, cache).page_size;
    const struct ref_cache rows = paged_reference(&own->cache, CACHE_K, dim);
    for (int s = 0; s < l->count; s++) {
        for (int32_t at = l->first[s]; at < l->first[s + 1]; at++) {
            const int32_t slot = l->pages[at];
            if (slot < 0 || at % 3 == 1)
                continue;
            const bool planes = DESC(c, cache).layout == ATTN_KV_PLANES;
            const struct pooled_row from = {.format = paged_row(DESC(c, cache).layout),
                                            .tensor = call_operand(c, cache_operand(c)),
                                            .at = {slot / page, slot % page},
                                            .axis = 3};
            if (c->desc.mla_decode.same_rows)
                pooled_row_copy(&from, second, at);
            else if (from.format)
                pooled_row_convert(&from, own->cache.precision, second, at);
            if (second_is_paged(c))
                mixed_row_copy(call_operand(c, cache_operand(c)), second, page, slot, at);
            if (planes)
                plane_row_copy(call_operand(c, cache_operand(c)), second, page, slot, at);
            for (int d = 0; d < dim && !second_is_paged(c) && second->size > 1; d++)
                operand_set(second, AT(at, d),
                            ref_cache_value(&rows, slot / page, slot % page, 0, d));
            slot_lists_set(c, l, s, at - l->first[s], a->second_first + at, MLA_DECODE_KV_LENS);
        }
    }
}

/* Fills the cache and the page lists. */
static void fill_keys(struct call *c)
{
    struct own *own = c->own;
    const unsigned first = cache_operand(c);
    const unsigned lists = is_latent(c) ? MLA_DECODE_KV_LENS
                           : is_step(c) ? ROPE_DECODE_KV_LENS
                                        : DECODE_KV_LENS;
    own->cache = paged_of(c, first, &DESC(c, cache), is_latent(c));
    own->cache.powers = has_second(c) && !c->desc.mla_decode.same_rows;
    hide_pages(c);
    fill_tokens(c);
    if (has_blocks(c))
        own->there =
            block_lists_fill(c, &own->blocks, &own->slots, &own->pages, &own->cache, lists);
    else if (has_second(c) && c->traced)
        trace_second(c);
    else if (is_sparse(c))
        own->there = slot_lists_fill(c, &own->slots, &own->pages, lists);
    else
        page_lists_set(c, &own->pages, lists);
    if (has_second(c) && !c->traced)
        fill_second(c);
}

/* Fills the lists of work, as the plan has made them. */
static void fill_work(struct call *c)
{
    const struct own *own = c->own;
    const int32_t batch = ARG(c, batch);
    operand_set_ints(OPERAND(c, WORK_INDPTR), own->plan.work_indptr, ARG(c, work_lists) + 1);
    operand_set_ints(OPERAND(c, WORK_INFO), own->plan.work_info, (int64_t)INFO * own->items);
    operand_set_ints(OPERAND(c, REDUCE_INDPTR), own->plan.reduce_indptr, batch + 1);
    operand_set_ints(OPERAND(c, REDUCE_PARTIAL_MAP), own->plan.reduce_partial_map,
                     own->sizes.partials);
    operand_clear(OPERAND(c, TICKETS));
}

double decode_q_scale(struct call *c, int64_t token, int64_t head)
{
    const struct own *own = c->own;
    if (!has_q_scales(c))
        return 1;
    const struct operand *scales = SEPARATE_OPERAND(c, Q_SCALE);
    if (c->desc.decode.q_scale == ATTN_Q_SCALE_TOKEN)
        return operand_value(scales, AT(token, head));
    int64_t s = 0;
    while (token >= own->qo[s + 1])
        s++;
    return operand_value(scales, AT(s, head * kv_heads(c) / DESC(c, heads)));
}

/* Fills the scales of the queries. */
static void fill_q_scales(struct call *c)
{
    if (is_step(c))
        return;
    struct operand *scale = SEPARATE_OPERAND(c, Q_SCALE);
    if (scale->given && !has_q_scales(c))
        /* a power of two, which late_query() needs */
        operand_set(scale, AT(0), is_latent(c) ? 0.0625 : 0.5);
    if (!scale->given || !has_q_scales(c))
        return;
    for (int64_t i = 0; i < operand_count(scale); i++) {
        const int64_t heads = scale->dims[1];
        operand_set(scale, AT(i / heads, i % heads), 0.375 + 0.0625 * (double)(i % 7));
    }
}

struct ref_attention decode_attention(struct call *c)
{
    const struct operand *scale = is_step(c) ? NULL : SEPARATE_OPERAND(c, Q_SCALE);
    struct ref_attention a = {
        .dim = DESC(c, head_dim),
        .dim_v = DESC(c, head_dim_v),
        .scale = ARG(c, scale),
        .logits = c->hook ? hook_function(c->hook) : NULL,
        .logits_arg = c->hook_arg,
    };
    if (scale && scale->given && !has_q_scales(c))
        a.scale *= operand_value(scale, AT(0));
    if (!is_latent(c) && PLAIN_DESC(c, soft_cap))
        a.soft_cap = PLAIN_ARG(c, soft_cap);
    return a;
}

/* Returns the magnitude of each element of the query of `token` and `h` with the signs of `key`. */
static double pointing_size(struct call *c, const double *key, int64_t token, int h)
{
    const int dim = DESC(c, head_dim);
    const double scale = decode_attention(c).scale * decode_q_scale(c, token, h);
    if (call_has(c, SLIGHT))
        return slight_query(key, dim, scale);
    return call_has(c, LATE) ? late_query(key, dim, scale) : 16;
}

/* Gives the last query of each sequence the signs of the first key, or with LATE of a late key. So
 * the key has nearly all weight, or with SLIGHT much more than each other key. */
static void point_the_same_way(struct call *c)
{
    const struct own *own = c->own;
    const int dim = DESC(c, head_dim), group = DESC(c, heads) / kv_heads(c);
    struct ref_cache k = paged_reference(&own->cache, CACHE_K, dim);
    double *key = call_allocate(c, (size_t)dim, sizeof(*key));
    for (int s = 0; s < ARG(c, batch); s++) {
        k.sequence = s;
        for (int h = 0; h < DESC(c, heads); h++) {
            const int late = own->cached[s] - 1 - 37 * (h % 5);
            const int at = call_has(c, LATE) && late > 0 ? late : 0;
            const struct slot slot = page_lists_slot(&own->pages, s, at, h / group);
            for (int d = 0; d < dim; d++)
                key[d] = ref_cache_value(&k, slot.page, slot.token, slot.head, d);
            const int64_t token = own->qo[s + 1] - 1;
            const double size = pointing_size(c, key, token, h);
            for (int d = 0; d < dim; d++)
                operand_set(OPERAND(c, Q), AT(token, h, d), key[d] < 0 ? -size : size);
        }
    }
}

/* Sets the length of each sequence's whole context, so that the shard has the sequence's keys, and
 * the custom mask that causality implies. */
static void fill_shard(struct call *c)
{
    struct own *own = c->own;
    const struct attn_mla_decode_args *a = &c->args.mla_decode;
    if (!is_sharded(c))
        return;
    own->seen = call_allocate(c, (size_t)own->mask_indptr[a->batch] + 1, 1);
    for (int s = 0; s < a->batch; s++) {
        const int queries = own->qo[s + 1] - own->qo[s], keys = own->kv_lens[s];
        int context = (keys - 1) * a->shards + a->shard + 1 + s % a->shards;
        context = context < 0 ? 0 : context;
        operand_set_int(call_operand(c, MLA_DECODE_CONTEXT_LENS), AT(s), context);
        for (int64_t i = 0; i < (int64_t)queries * keys; i++) {
            const int64_t token = i % keys * a->shards + a->shard;
            own->seen[own->mask_indptr[s] + i] = token <= context - queries + i / keys;
        }
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct own *own = c->own;
    operand_set_random(OPERAND(c, Q), &c->random);
    operand_set_ints(OPERAND(c, QO_INDPTR), own->qo, ARG(c, batch) + 1);
    fill_mask(c);
    fill_shard(c);
    fill_keys(c);
    fill_work(c);
    fill_q_scales(c);
    if (call_has(c, HUGE_LOGIT | LATE | SLIGHT))
        point_the_same_way(c);
    call_fill_sinks(c, OPERAND(c, SINKS));
    value_product_fill(c);
    if (is_step(c))
        rope_decode_fill(c);
    else if (!is_latent(c))
        c->args.decode.hook_arg = call_fill_hook(c);
}

/* Returns why the reference does not cover the kernel, or NULL if it does. */
static const char *covers(const struct call *c)
{
    return DESC(c, head_dim_v) > REF_DIM_MAX ? "the reference does not cover head_dim_v" : NULL;
}

/* True if the kernel is verified on the shape. Rows with a model's heads are for kernels with its
 * ratio. Only kernels without special features run long shapes. */
static bool takes(const struct call *c)
{
    const struct shape *s = c->shape;
    const int ratio = call_ratio(c);
    const bool hook = !is_latent(c) && !is_step(c) && c->desc.decode.logits;
    const bool extras = DESC(c, sinks) || hook || (!is_latent(c) && PLAIN_DESC(c, soft_cap));
    if (call_has(c, MODEL))
        return s->head_dim == DESC(c, head_dim) && (!ratio || ratio == s->ratio);
    if (call_has(c, UNSEEN))
        return !is_latent(c) &&
               (DESC(c, mask) == ATTN_MASK_WINDOW || DESC(c, mask) == ATTN_MASK_CHUNK);
    if (call_has(c, SLIGHT) && !has_weights_fp8(c))
        return false;
    if (is_step(c) && call_has(c, HUGE_LOGIT | LATE))
        return false; /* rope_decode's q is changed before scores, so its signs cannot be chosen */
    return !(call_has(c, LONG) && (extras || DESC(c, lse))) && (!s->trace.lists || at_once(c)) &&
           !(call_has(c, TREE) && DESC(c, mask) != ATTN_MASK_CUSTOM);
}

/* The functions from here on serve traces of a call. */

/* Sets the heads that the user of trace left out, from the kernel's ratio: struct
 * verify_op.complete. */
static const char *complete(const struct call *c, void *shape)
{
    static char why[100];
    struct shape *s = shape;
    if (!s->kv_heads && is_latent(c))
        s->kv_heads = 1;
    if (DESC(c, cache).page_size)
        s->page_size = DESC(c, cache).page_size;
    if (s->trace.window && DESC(c, mask) != ATTN_MASK_WINDOW)
        return "this kernel has no window";
    snprintf(why, sizeof(why), "q is at most %d with this kernel", DESC(c, q_len));
    return s->trace.q > DESC(c, q_len) ? why
                                       : call_complete_heads(c, &s->trace.heads, &s->kv_heads, 1);
}

/* Returns the bytes of visible keys with their scales, q, out, lists and work items, each counted
 * once. */
static double least_bytes(const struct call *c)
{
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    const struct attn_cache_desc *cache = &DESC(c, cache);
    const int dim = DESC(c, head_dim), dim_v = DESC(c, head_dim_v), batch = ARG(c, batch);
    const double rows = (double)ARG(c, tokens) * DESC(c, heads);
    const enum attn_dtype q_dtype = is_latent(c) ? c->desc.mla_decode.q_dtype
                                    : is_step(c) ? c->desc.rope_decode.dtype
                                                 : c->desc.decode.q_dtype;
    const int q_size = attn_dtype_size(q_dtype);
    const int seen = s->trace.window && s->trace.window + s->trace.q <= s->kv[0]
                         ? s->trace.window + s->trace.q - 1
                         : s->kv[0];
    const double scales = cache->scale == ATTN_KV_SCALE_TOKEN   ? 8
                          : cache->scale == ATTN_KV_SCALE_BLOCK ? 8.0 / cache->page_size
                                                                : 0;
    const int key = cache->layout == ATTN_KV_PACKED ? REF_PACKED_ROW
                    : paged_row(cache->layout)      ? paged_row(cache->layout)->bytes
                    : cache->layout == ATTN_KV_SCALES_LAST || cache->layout == ATTN_KV_PLANES
                        ? REF_MIXED_ROW + REF_MIXED_SCALES
                        : (is_latent(c) ? dim : dim + dim_v) * attn_dtype_size(cache->dtype);
    const bool by_token = has_q_scales(c) && c->desc.decode.q_scale == ATTN_Q_SCALE_TOKEN;
    const double q_scales = by_token ? rows : has_q_scales(c) ? (double)batch * kv_heads(c) : 0;
    double bytes = (double)batch * seen * kv_heads(c) * (key + scales) +
                   rows * (dim * q_size + dim_v * 2 + (DESC(c, lse) ? 4 : 0)) + 4.0 * q_scales +
                   4.0 * (decode_lists(c)->first[batch] + batch);
    bytes += value_product_bytes(c);
    if (is_split(c))
        bytes += 4.0 * (INFO * own->items + s->trace.lists + 1) +
                 4.0 * own->plan.reduce_indptr[batch] * s->trace.q * DESC(c, heads) * (dim_v + 1);
    return bytes;
}

/* Initialises the struct verify_op of an op `name`. The other arguments are the shapes that
 * `attnc tune` measures. */
#define VERIFY_OP(name, ...)                                                         \
    {                                                                                \
        .op = name,                                                                  \
        VERIFY_SHAPES(shapes),                                                       \
        .trace = &traced,                                                            \
        .tuned = {__VA_ARGS__},                                                      \
        .dimensions =                                                                \
            {                                                                        \
                {"batch", offsetof(struct shape, repeat), 4096, "sequences"},        \
                {"k", offsetof(struct shape, kv[0]), 1 << 20, "key tokens of each"}, \
                {"q", offsetof(struct shape, trace.q), 64, "query tokens of each"},  \
                {"heads", offsetof(struct shape, trace.heads), 1024,                 \
                 "query heads; left out: by the kernel's ratio"},                    \
                {"kv_heads", offsetof(struct shape, kv_heads), 1024,                 \
                 "key/value heads; left out: by the kernel's ratio"},                \
                {"page_size", offsetof(struct shape, page_size), 65536,              \
                 "for a kernel that takes any"},                                     \
                {"lists", offsetof(struct shape, trace.lists), 1 << 20,              \
                 "work lists; left out: a workgroup per sequence and KV head"},      \
                {"window", offsetof(struct shape, trace.window), 1 << 20,            \
                 "keys that a query sees; left out: all"},                           \
                {"item_cost", offsetof(struct shape, trace.item_cost), 256,          \
                 "of the plan; left out: 2"},                                        \
                {"merge_rate", offsetof(struct shape, trace.merge_rate), 256,        \
                 "of the plan; left out: 4"},                                        \
                {"unit_keys", offsetof(struct shape, trace.unit), 64,                \
                 "of the plan; left out: 64"},                                       \
            },                                                                       \
        .complete = complete,                                                        \
        .own_size = sizeof(struct own),                                              \
        .covers = covers,                                                            \
        .takes = takes,                                                              \
        .size = size,                                                                \
        .steps = PAGE_STEPS * RATIO_STEPS,                                           \
        .place = place,                                                              \
        .fill = fill,                                                                \
        .compare = decode_compare,                                                   \
        .least_bytes = least_bytes,                                                  \
    }

const struct verify_op verify_decode =
    VERIFY_OP("decode", "batch=1,k=1024", "batch=8,k=1024", "batch=64,k=1024", "batch=256,k=512",
              "batch=1,k=16384,lists=128", "batch=8,k=4096,lists=256");
const struct verify_op verify_rope_decode =
    VERIFY_OP("rope_decode", "batch=1,k=1024", "batch=8,k=1024", "batch=64,k=1024",
              "batch=1,k=16384,lists=128", "batch=8,k=4096,lists=256");
const struct verify_op verify_mla_decode =
    VERIFY_OP("mla_decode", "batch=1,k=1024", "batch=64,k=1024", "batch=8,k=4096,lists=128");
