/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of prefill kernels: the shapes of calls, and the sizes of their tensors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify/compare.h"
#include "tools/verify/prefill.h"

/* Largest number of page sizes and head ratios to try. */
enum { MAX_STEPS = 16 };

/*
 * The matrix of shapes: queries and keys of each sequence, the whole list `repeat` times, and heads
 * for kernels that take any ratio. The rows have every head ratio of known models, also MQA.
 * Simulation time grows with heads times keys times blocks of queries, so long shapes have few
 * heads.
 */
static const struct shape shapes[] = {
    {{"late maximum", LATE}, 2, 1, 1, 2, {{70, 196}, {130, 130}}, {0}},
    {{"slight weights", SLIGHT}, 1, 1, 1, 2, {{70, 600}, {33, 300}}, {0}},
    {{"tails", PADDED}, 1, 3, 1, 3, {{129, 129}, {65, 65}, {63, 63}}, {0}},
    {{"one", 0}, 1, 2, 1, 1, {{1, 1}}, {0}},
    {{"small", PACKED}, 2, 2, 1, 3, {{7, 7}, {33, 33}, {64, 64}}, {0}},
    {{"extend", 0}, 5, 1, 1, 3, {{5, 300}, {130, 257}, {1, 513}}, {0}},
    {{"few keys", 0}, 12, 1, 1, 2, {{200, 40}, {3, 1}}, {0}},
    {{"empty", PADDED}, 4, 2, 1, 6, {{0, 0}, {0, 10}, {10, 0}, {1, 1}, {0, 0}, {2, 3}}, {0}},
    {{"huge logit", HUGE_LOGIT}, 2, 1, 1, 2, {{70, 70}, {20, 150}}, {0}},
    {{"seen prefix", PREFIX}, 4, 1, 1, 2, {{70, 300}, {33, 140}}, {.prefix = 200}},
    {{"views", VERIFY_VIEWS}, 8, 1, 1, 2, {{90, 90}, {40, 40}}, {0}},
    {{"beyond 4 GiB", FAR}, 1, 2, 1, 2, {{1030, 72}, {20, 40}}, {0}},
    {{"keys beyond 4 GiB", FAR_KEYS}, 1, 2, 1, 1, {{260, 72}}, {0}},
    {{"long", LONG}, 2, 1, 1, 1, {{260, 700}}, {0}},
    {{"persistent", PERSISTENT}, 3, 3, 7, 12, {{3, 40}, {257, 70}, {0, 5}}, {0}},
    {{"half tiles", PERSISTENT}, 4, 2, 8, 5, {{3, 40}, {0, 5}, {70, 70}, {0, 0}, {200, 190}}, {0}},
    {{"one tile each", SINGLE_TILES}, 3, 3, 6, 12, {{3, 40}, {257, 70}, {0, 5}}, {0}},
    {{"own scale", OWN_SCALE}, 1, 1, 1, 1, {{20, 40}}, {0}},
    {{"mixed", PLANNED | PADDED},
     4,
     1,
     2,
     5,
     {{1, 600}, {90, 700}, {0, 40}, {2, 9}, {33, 33}},
     {0}},
    {{"many parts", PLANNED | LATE},
     8,
     1,
     1,
     2,
     {{20, 2000}, {1, 1}},
     {.lists = 40, .q_tile = 32, .item_cost = 1, .merge_rate = 256}},
    {{"many tiles", PLANNED},
     1,
     1,
     24,
     3,
     {{1, 300}, {2, 260}, {1, 330}},
     {.lists = 160, .q_tile = 16, .item_cost = 1, .merge_rate = 256}},
};

/* The shape of a trace: a prompt that fills a GPU; complete() sets the heads. */
static const struct shape traced = {{"trace", IN_ORDER}, 0, 0, 1, 1, {{2048, 0}},
                                    {.page_size = 16}};

/* Windows for kernels with a run-time window, used one after the other. With the first, a wave's
 * last query begins one key after a block's first. With the second, a wave's first query ends one
 * key before a block's last, as it does for causal kernels in the first shape. */
static const struct {
    int left, right;
} windows[] = {{156, 0}, {127, 30}, {0, 0}, {-1, 0}, {5, -1}, {-1, -1}, {64, 32}};

/* Chunk lengths for kernels with chunks, used one after the other. */
static const int chunks[] = {64, 16, 256, 1, 32, 128};

/* Page sizes for kernels that take any, used one after the other. */
static const int page_sizes[] = {16, 1, 64, 4, 1024, 32, 2, 128, 8};

/* 4 MiB between tokens, the limit, in elements of 2 bytes. With FAR the first sequence's queries
 * take more than 4 GiB. With FAR_KEYS FAR_TOKENS tokens precede the first key, which is then beyond
 * 4 GiB, and so are the pages of a cache. No shape has both: small GPUs have 16 GiB. */
enum { FAR_STRIDE = 1 << 21, FAR_TOKENS = 1100 };

/* The functions from here on choose the sizes of a call. */

/* Chooses the head ratio and the page size. For a kernel that takes any, the first step has the
 * shape's own, and each further step the next ones. Several are tried since the pack may have a
 * more specific kernel for a value, which lookup selects instead. */
static void size_heads(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_prefill_desc *d = &c->desc.prefill;
    const int ratio = call_ratio(c);
    d->kv_heads = c->traced || !ratio ? s->kv_heads : ratio <= 4 ? 2 : 1;
    d->heads = c->traced ? s->trace.heads : (ratio ? ratio : s->ratio + c->step) * d->kv_heads;
    if (!d->paged || d->cache.page_size)
        return;
    const size_t i = (c->number + (size_t)c->step) % COUNT(page_sizes);
    d->cache.page_size = paged_size(&d->cache, c->traced ? s->trace.page_size : page_sizes[i], 0);
}

/* Sets the numbers of query tokens and keys of all sequences. */
static void set_lengths(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_prefill_args *a = &c->args.prefill;
    const int repeated = s->count * s->repeat, batch = repeated + (s->trace.chunk_q > 0);
    own->cu_q = call_allocate(c, (size_t)batch + 1, sizeof(*own->cu_q));
    own->cu_k = call_allocate(c, (size_t)batch + 1, sizeof(*own->cu_k));
    own->kv_lens = call_allocate(c, (size_t)batch + 1, sizeof(*own->kv_lens));
    const bool blocks = c->desc.prefill.mask == ATTN_MASK_BLOCKS;
    own->mask_indptr = call_allocate(c, (size_t)batch + 1, sizeof(*own->mask_indptr));
    own->seen_indptr = call_allocate(c, (size_t)batch + 1, sizeof(*own->seen_indptr));
    own->cu_k[0] = call_has(c, FAR_KEYS) && !c->desc.prefill.paged ? FAR_TOKENS : 0;
    for (int i = 0; i < batch; i++) {
        const bool chunk = i == repeated;
        const int q = chunk ? s->trace.chunk_q : s->sequences[i % s->count].q;
        const int k = chunk ? s->trace.chunk_k : s->sequences[i % s->count].k;
        own->cu_q[i + 1] = own->cu_q[i] + q;
        own->cu_k[i + 1] = own->cu_k[i] + k;
        own->kv_lens[i] = k;
        own->seen_indptr[i + 1] = own->seen_indptr[i] + (int64_t)q * k;
        own->mask_indptr[i + 1] = own->mask_indptr[i] + q * (blocks ? prefill_row_bytes(k) : k);
        a->max_seqlen_q = a->max_seqlen_q > q ? a->max_seqlen_q : q;
        a->max_seqlen_k = a->max_seqlen_k > k ? a->max_seqlen_k : k;
    }
    a->batch = batch;
    a->tokens = own->cu_q[batch] + (call_has(c, PADDED) ? 5 : 0);
    if (call_has(c,
                 PERSISTENT)) /* rows for all sequences, as if each were as long as the longest */
        a->tokens = batch * a->max_seqlen_q;
    a->total_k = own->cu_k[batch];
}

/* Allocates `count` integers, and one more. */
static int32_t *allocate_words(struct call *c, int64_t count)
{
    return call_allocate(c, (size_t)count + 1, sizeof(int32_t));
}

/* Returns the window, in keys before a query's own and itself, that the plan may assume; 0: all
 * keys. */
static int32_t plan_window(const struct call *c)
{
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    return mask == ATTN_MASK_WINDOW ? a->window_left + 1 : mask == ATTN_MASK_CHUNK ? a->chunk : 0;
}

/* Returns the number of keys after its own that a query sees; -1: all. */
static int32_t plan_right(const struct call *c)
{
    const enum attn_mask mask = c->desc.prefill.mask;
    if (mask == ATTN_MASK_WINDOW)
        return c->args.prefill.window_right;
    return mask == ATTN_MASK_CAUSAL || mask == ATTN_MASK_CHUNK ? 0 : -1;
}

/* Returns the number of queries of a work tile. Shapes have tiles of few queries, and tiles with
 * more rows than a workgroup has. */
static int32_t tile_of(const struct call *c)
{
    static const int tiles[] = {32, 5, 300, 16};
    const struct shape *s = c->shape;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const int ratio = d->heads / d->kv_heads;
    /* the kernel's tiles have at most 128 rows */
    if (!c->traced && call_is_tuned(c, "key_groups="))
        return ratio < 128 ? 128 / ratio : 1;
    if (s->trace.q_tile)
        return s->trace.q_tile;
    return c->traced ? (ratio < 256 ? 256 / ratio : 1)
                     : tiles[(c->number + (size_t)s->count) % COUNT(tiles)];
}

/* Sets sizes of work lists as for a GPU with few compute units, so that short sequences are split
 * too. */
static void size_work(struct call *c)
{
    struct own *own = c->own;
    const struct shape *s = c->shape;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    struct attn_prefill_args *a = &c->args.prefill;
    const int lists = s->trace.lists ? s->trace.lists : c->traced ? 256 : 5 * d->kv_heads + 1;
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = a->batch,
        .q_len = a->max_seqlen_q ? a->max_seqlen_q : 1,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .lists = lists,
        .window = plan_window(c),
        .item_cost = s->trace.item_cost,
        .merge_rate = s->trace.merge_rate,
        .q_tile = tile_of(c),
        .window_right = plan_right(c),
    };
    const struct attn_decode_plan_lengths lengths = {own->kv_lens, own->cu_q};
    if (attn_decode_plan_sizes(&shape, &own->sizes))
        verify_fail(c->row, "attn_decode_plan_sizes: %s", attn_last_error());
    own->plan = (struct attn_decode_plan){
        .work_indptr = allocate_words(c, lists),
        .work_info = allocate_words(c, 8 * (int64_t)own->sizes.work_items),
        .reduce_indptr = allocate_words(c, own->sizes.tiles),
        .reduce_final_map = allocate_words(c, 2 * (int64_t)own->sizes.tiles),
        .reduce_partial_map = allocate_words(c, own->sizes.partials),
    };
    if (attn_decode_plan(&shape, &lengths, &own->plan))
        verify_fail(c->row, "attn_decode_plan: %s", attn_last_error());
    a->work_lists = lists;
    a->q_tile = shape.q_tile;
    a->partial_rows = own->sizes.partial_rows;
    a->reduce_tiles = own->sizes.tiles;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const int window = ((const struct shape *)c->shape)->trace.window;
    struct own *own = c->own;
    struct attn_prefill_desc *d = &c->desc.prefill;
    struct attn_prefill_args *a = &c->args.prefill;
    size_heads(c);
    set_lengths(c);
    a->scale = call_has(c, OWN_SCALE) ? 0.3f : 1 / sqrtf((float)d->head_dim);
    a->soft_cap = call_soft_cap(c, HUGE_LOGIT, OWN_SCALE);
    a->window_left = windows[c->number % COUNT(windows)].left;
    a->window_right = windows[c->number % COUNT(windows)].right;
    a->chunk = chunks[c->number % COUNT(chunks)];
    if (c->traced) {
        a->window_left = window - 1;
        a->window_right = window ? 0 : -1;
        a->chunk = window ? window : 8192;
    }
    own->lists = (struct page_lists){
        .count = a->batch,
        .lens = own->kv_lens,
        .page_size = d->cache.page_size,
        .far = call_has(c, FAR_KEYS),
        .in_order = call_has(c, IN_ORDER),
    };
    if (d->paged)
        page_lists_make(c, &own->lists, d->page_table, &a->cache, &a->pages);
    if (d->planned)
        size_work(c);
}

/* Places q, k and v of a token side by side in one row. */
static void pack(struct call *c)
{
    struct operand *q = call_operand(c, PREFILL_Q);
    struct operand *k = call_operand(c, PREFILL_K), *v = call_operand(c, PREFILL_V);
    const int64_t of_q = q->dims[1] * q->dims[2], of_k = k->dims[1] * k->dims[2];
    const int64_t row = of_q + of_k + v->dims[1] * v->dims[2];
    operand_set_stride(q, 0, row);
    operand_set_stride(k, 0, row);
    operand_set_stride(v, 0, row);
    operand_place_inside(k, q, of_q);
    operand_place_inside(v, q, of_q + of_k);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    static const unsigned far[][2] = {{PREFILL_Q, PREFILL_OUT}, {PREFILL_K, PREFILL_V}};
    const struct own *own = c->own;
    const bool far_pages = c->desc.prefill.paged && call_has(c, FAR_KEYS);
    if (far_pages)
        paged_spread(c, PREFILL_K_CACHE, PAGES_FAR_STRIDE);
    if (c->desc.prefill.paged && call_has(c, OWN_SCALE))
        paged_share_scales(c, PREFILL_K_CACHE, &c->desc.prefill.cache);
    if (!c->desc.prefill.paged && call_has(c, PACKED))
        pack(c);
    for (size_t i = 0; call_has(c, FAR | FAR_KEYS) && !far_pages && i < COUNT(far[0]); i++) {
        struct operand *o = call_operand(c, far[call_has(c, FAR_KEYS)][i]);
        operand_set_stride(o, 0, FAR_STRIDE);
        o->far = true;
    }
    operand_resize(call_operand(c, PREFILL_CUSTOM_MASK), 0,
                   own->mask_indptr[c->args.prefill.batch]);
    operand_resize(call_operand(c, PREFILL_WORK_INFO), 0, prefill_items(c));
    operand_resize(call_operand(c, PREFILL_PARTIAL_OUT), 0, own->sizes.partial_rows);
    operand_resize(call_operand(c, PREFILL_PARTIAL_LSE), 0, own->sizes.partial_rows);
    operand_resize(call_operand(c, PREFILL_REDUCE_PARTIAL_MAP), 0, own->sizes.partials);
    operand_resize(call_operand(c, PREFILL_TICKETS), 0,
                   (int64_t)own->sizes.partials * c->desc.prefill.kv_heads);
}

/* Returns the reason why the reference does not cover the kernel; NULL if it does. */
static const char *covers(const struct call *c)
{
    return c->desc.prefill.head_dim_v > REF_DIM_MAX ? "the reference does not cover head_dim_v"
                                                    : NULL;
}

/* True if the kernel is verified on the shape. Only kernels without special features run long
 * shapes. */
static bool takes(const struct call *c)
{
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const bool plain = !d->sinks && !d->soft_cap && !d->logits && !d->lse && !d->paged;
    return (plain || !call_has(c, LONG)) && (d->planned || !call_has(c, PLANNED)) &&
           (!call_has(c, SLIGHT) || d->q_dtype == ATTN_FP8) &&
           (!call_has(c, PREFIX) || d->mask == ATTN_MASK_CUSTOM) &&
           (!call_has(c, PERSISTENT | SINGLE_TILES) || call_is_tuned(c, "persistent="));
}

/* Sets the heads that the user of trace left out, from the kernel's ratio: struct
 * verify_op.complete. */
static const char *complete(const struct call *c, void *shape)
{
    struct shape *s = shape;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    if (s->trace.growth && (d->paged || d->q_dtype == ATTN_FP8))
        return "growth is for tensors of bf16 and fp16";
    if (s->trace.window && d->mask != ATTN_MASK_WINDOW && d->mask != ATTN_MASK_CHUNK)
        return "this kernel has no window";
    if (!s->sequences[0].k)
        s->sequences[0].k = s->sequences[0].q;
    if (s->sequences[1].q) {
        s->sequences[1].k = s->sequences[1].q;
        s->count = 2;
    }
    if (!s->trace.chunk_k)
        s->trace.chunk_k = s->trace.chunk_q;
    if (s->trace.chunk_k && !s->trace.chunk_q)
        return "chunk_k is for chunk_q";
    return call_complete_heads(c, &s->trace.heads, &s->kv_heads, 4);
}

/* Returns 0: keys are read once for each block of queries, so the least bytes are not known. */
static double least_bytes(const struct call *c)
{
    (void)c;
    return 0;
}

const struct verify_op verify_prefill = {
    .op = "prefill",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=1,q=512", "batch=1,q=1024", "batch=1,q=2048", "batch=8,q=512",
              "batch=4,q=1024", "batch=1,q=256,k=2048"},
    .dimensions =
        {
            {"batch", offsetof(struct shape, repeat), 4096, "sequences"},
            {"q", offsetof(struct shape, sequences[0].q), 1 << 20, "query tokens of each"},
            {"k", offsetof(struct shape, sequences[0].k), 1 << 20,
             "key tokens of each; q where left out"},
            {"then_q", offsetof(struct shape, sequences[1].q), 1 << 20,
             "query and key tokens of a further sequence after each"},
            {"chunk_q", offsetof(struct shape, trace.chunk_q), 1 << 20,
             "query tokens of one more sequence after all"},
            {"chunk_k", offsetof(struct shape, trace.chunk_k), 1 << 20,
             "key tokens of it; chunk_q where left out"},
            {"heads", offsetof(struct shape, trace.heads), 1024,
             "query heads; left out: by the kernel's ratio"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024,
             "key/value heads; left out: by the kernel's ratio"},
            {"page_size", offsetof(struct shape, trace.page_size), 65536,
             "of a cache, for a kernel that takes any"},
            {"growth", offsetof(struct shape, trace.growth), 64,
             "powers of two by which scores grow over 64 keys; random data where left out"},
            {"window", offsetof(struct shape, trace.window), 1 << 20,
             "keys that a query sees, or a chunk has; left out: all, or 8192"},
            {"prefix", offsetof(struct shape, trace.prefix), 1 << 20,
             "first keys that all queries see with a custom mask; it shows two of three others"},
            {"lists", offsetof(struct shape, trace.lists), 1 << 20,
             "work lists of a planned kernel; left out: 256"},
            {"q_tile", offsetof(struct shape, trace.q_tile), 1 << 16,
             "query tokens of a tile of it; left out: those whose heads are 256 rows"},
            {"item_cost", offsetof(struct shape, trace.item_cost), 256, "of the plan; left out: 2"},
            {"merge_rate", offsetof(struct shape, trace.merge_rate), 256,
             "of the plan; left out: 4"},
        },
    .complete = complete,
    .own_size = sizeof(struct own),
    .covers = covers,
    .takes = takes,
    .size = size,
    .steps = MAX_STEPS,
    .place = place,
    .fill = prefill_fill,
    .compare = prefill_compare,
    .least_bytes = least_bytes,
};
