/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of prefill kernels: the shapes and the inputs. compare.c derives the bounds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/reference/prefill.h"
#include "tools/verify/compare.h"
#include "tools/verify/hook.h"
#include "tools/verify/paged.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { SEQUENCES_MAX = 12, MAX_STEPS = 16 };

enum {
    HUGE_LOGIT = 1 << 0, /* the last query points in the direction of the sequence's first key */
    PACKED = 1 << 1,     /* q, k, v are slices of one tensor */
    FAR = 1 << 2,        /* all tensors extend beyond 4 GiB, with the largest allowed token
                            stride */
    PADDED = 1 << 3,     /* rows of q and out after the last sequence */
    LONG = 1 << 4,       /* for kernels without special features only */
    OWN_SCALE = 1 << 5,  /* scale differs from 1 / sqrt(head_dim) */
    IN_ORDER = 1 << 6,   /* pages in order */
    LATE = 1 << 8,       /* the last key has 2^40 or 2^100 times the weight of the others */
    TURNS = 1 << 7,      /* for persistent kernels only: several work tiles for each workgroup, many
                            of them empty */
    NO_TURNS = 1 << 9,   /* for persistent kernels only: as many tiles as workgroups */
    PLANNED = 1 << 10,   /* for planned kernels only */
    PREFIX = 1 << 11,    /* for custom masks only: a few keys of trace.prefix are hidden too */
};

/*
 * The matrix of shapes: queries and keys of each sequence, all of them `repeat` times, and the
 * heads for kernels that take any ratio. It has every ratio of known models, MQA included.
 * Simulation time grows with heads times keys times blocks of queries, so long shapes have few
 * heads.
 */
static const struct shape {
    struct verify_shape is;
    int ratio, kv_heads;
    int repeat, count;
    struct {
        int q, k;
    } sequences[SEQUENCES_MAX];
    struct {
        int heads, page_size, growth, window;
        int chunk_q, chunk_k; /* of one more sequence; 0: there is none */
        int prefix;           /* first keys, which a custom mask shows to all queries; 0: none */
        int lists, q_tile, item_cost, merge_rate;
    } trace;
} shapes[] = {
    {{"late maximum", LATE}, 2, 1, 1, 2, {{70, 196}, {130, 130}}, {0}},
    {{"tails", PADDED}, 1, 3, 1, 3, {{129, 129}, {65, 65}, {63, 63}}, {0}},
    {{"one", 0}, 1, 2, 1, 1, {{1, 1}}, {0}},
    {{"small", PACKED}, 2, 2, 1, 3, {{7, 7}, {33, 33}, {64, 64}}, {0}},
    {{"extend", 0}, 5, 1, 1, 3, {{5, 300}, {130, 257}, {1, 513}}, {0}},
    {{"few keys", 0}, 12, 1, 1, 2, {{200, 40}, {3, 1}}, {0}},
    {{"empty", PADDED}, 4, 2, 1, 6, {{0, 0}, {0, 10}, {10, 0}, {1, 1}, {0, 0}, {2, 3}}, {0}},
    {{"huge logit", HUGE_LOGIT}, 2, 1, 1, 2, {{70, 70}, {20, 150}}, {0}},
    {{"seen prefix", PREFIX}, 4, 1, 1, 2, {{70, 300}, {33, 140}}, {.prefix = 200}},
    {{"views", VERIFY_VIEWS}, 8, 1, 1, 2, {{90, 90}, {40, 40}}, {0}},
    {{"beyond 4 GiB", FAR}, 1, 2, 1, 1, {{260, 72}}, {0}},
    {{"long", LONG}, 2, 1, 1, 1, {{260, 700}}, {0}},
    {{"turns", TURNS}, 3, 3, 7, 12, {{3, 40}, {257, 70}, {0, 5}}, {0}},
    {{"half tiles", TURNS}, 4, 2, 8, 5, {{3, 40}, {0, 5}, {70, 70}, {0, 0}, {200, 190}}, {0}},
    {{"no turns", NO_TURNS}, 3, 3, 6, 12, {{3, 40}, {257, 70}, {0, 5}}, {0}},
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
};

/* A prompt that fills a GPU; complete() sets the heads. */
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

/* 4 MiB between tokens, the limit, in elements of 2 bytes. With FAR_TOKENS tokens before them, the
 * first query and the first key are beyond 4 GiB. */
enum { FAR_STRIDE = 1 << 21, FAR_TOKENS = 1100 };

struct own {
    int32_t *cu_q, *cu_k, *kv_lens;
    int64_t *mask_indptr;
    struct page_lists lists;
    /* Dense copies for the reference, from a sequence's first query and first key on. */
    double *q, *k, *v, *sinks;
    int32_t *dense_q, *dense_k;
    struct attn_decode_plan_sizes sizes; /* of a planned call */
    struct attn_decode_plan plan;
};

static bool is(const struct call *c, unsigned flags) { return c->flags & flags; }

static struct paged cache_of(struct call *c)
{
    return paged_of(c, PREFILL_K_CACHE, &c->desc.prefill.cache, false);
}

/* Sizes. */

/* Chooses the ratio and page size. A kernel that takes any has the shape's own, or at each step the
 * next one. The pack may have a more specific kernel for a value, which lookup would select
 * instead. */
static void size_heads(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_prefill_desc *d = &c->desc.prefill;
    const int ratio = call_ratio(c);
    d->kv_heads = c->traced || !ratio ? s->kv_heads : ratio <= 4 ? 2 : 1;
    d->heads = c->traced ? s->trace.heads : (ratio ? ratio : s->ratio + c->step) * d->kv_heads;
    if (!d->paged || d->cache.page_size)
        return;
    const size_t turn = (c->number + (size_t)c->step) % COUNT(page_sizes);
    d->cache.page_size =
        paged_size(&d->cache, c->traced ? s->trace.page_size : page_sizes[turn], 0);
}

static void set_lengths(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_prefill_args *a = &c->args.prefill;
    const int repeated = s->count * s->repeat, batch = repeated + (s->trace.chunk_q > 0);
    own->cu_q = call_allocate(c, (size_t)batch + 1, sizeof(*own->cu_q));
    own->cu_k = call_allocate(c, (size_t)batch + 1, sizeof(*own->cu_k));
    own->kv_lens = call_allocate(c, (size_t)batch + 1, sizeof(*own->kv_lens));
    own->mask_indptr = call_allocate(c, (size_t)batch + 1, sizeof(*own->mask_indptr));
    own->cu_q[0] = is(c, FAR) ? FAR_TOKENS : 0;
    own->cu_k[0] = is(c, FAR) && !c->desc.prefill.paged ? FAR_TOKENS : 0;
    for (int i = 0; i < batch; i++) {
        const bool chunk = i == repeated;
        const int q = chunk ? s->trace.chunk_q : s->sequences[i % s->count].q;
        const int k = chunk ? s->trace.chunk_k : s->sequences[i % s->count].k;
        own->cu_q[i + 1] = own->cu_q[i] + q;
        own->cu_k[i + 1] = own->cu_k[i] + k;
        own->kv_lens[i] = k;
        own->mask_indptr[i + 1] = own->mask_indptr[i] + (int64_t)q * k;
        a->max_seqlen_q = a->max_seqlen_q > q ? a->max_seqlen_q : q;
        a->max_seqlen_k = a->max_seqlen_k > k ? a->max_seqlen_k : k;
    }
    a->batch = batch;
    a->total_q = own->cu_q[batch] + (is(c, PADDED) ? 5 : 0);
    if (is(c, TURNS)) /* room for all, as if each sequence had the longest's length */
        a->total_q = batch * a->max_seqlen_q;
    a->total_k = own->cu_k[batch];
}

static int32_t *allocate_words(struct call *c, int64_t count)
{
    return call_allocate(c, (size_t)count + 1, sizeof(int32_t));
}

static int32_t plan_window(const struct call *c)
{
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    return mask == ATTN_MASK_WINDOW ? a->window_left + 1 : mask == ATTN_MASK_CHUNK ? a->chunk : 0;
}

static int32_t plan_right(const struct call *c)
{
    const enum attn_mask mask = c->desc.prefill.mask;
    if (mask == ATTN_MASK_WINDOW)
        return c->args.prefill.window_right;
    return mask == ATTN_MASK_NONE || mask == ATTN_MASK_CUSTOM ? -1 : 0;
}

/* Returns the queries of a work tile: tiles of few queries, and tiles with more rows than a
   workgroup has. */
static int32_t tile_of(const struct call *c)
{
    static const int tiles[] = {32, 5, 300, 16};
    const struct shape *s = c->shape;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const int ratio = d->heads / d->kv_heads;
    if (!c->traced && call_is_tuned(c, "key_groups=")) /* its tiles have at most 128 rows */
        return ratio < 128 ? 128 / ratio : 1;
    if (s->trace.q_tile)
        return s->trace.q_tile;
    return c->traced ? (ratio < 256 ? 256 / ratio : 1)
                     : tiles[(c->number + (size_t)s->count) % COUNT(tiles)];
}

/* Sizes work lists for a GPU of a few compute units, so that short sequences are split too. */
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

static int32_t count_items(const struct call *c)
{
    const struct own *own = c->own;
    return c->desc.prefill.planned ? own->plan.work_indptr[c->args.prefill.work_lists] : 0;
}

static void size(struct call *c)
{
    const int window = ((const struct shape *)c->shape)->trace.window;
    struct own *own = c->own;
    struct attn_prefill_desc *d = &c->desc.prefill;
    struct attn_prefill_args *a = &c->args.prefill;
    size_heads(c);
    set_lengths(c);
    a->scale = is(c, OWN_SCALE) ? 0.3f : 1 / sqrtf((float)d->head_dim);
    a->soft_cap = is(c, HUGE_LOGIT) || c->traced ? 50 : 5;
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
        .far = is(c, FAR),
        .in_order = is(c, IN_ORDER),
    };
    if (d->paged)
        page_lists_make(c, &own->lists, d->page_table, &a->cache, &a->pages);
    if (d->planned)
        size_work(c);
}

/* Makes q, key and value of a token adjacent. */
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

static void place(struct call *c)
{
    static const unsigned far[] = {PREFILL_Q, PREFILL_OUT, PREFILL_K, PREFILL_V};
    const struct own *own = c->own;
    if (c->desc.prefill.paged && is(c, FAR))
        paged_spread(c, PREFILL_K_CACHE, PAGES_FAR_STRIDE);
    if (!c->desc.prefill.paged && is(c, PACKED))
        pack(c);
    for (size_t i = 0; is(c, FAR) && i < COUNT(far); i++) {
        struct operand *o = call_operand(c, far[i]);
        operand_set_stride(o, 0, FAR_STRIDE);
        o->far = true;
    }
    operand_resize(call_operand(c, PREFILL_CUSTOM_MASK), 0,
                   own->mask_indptr[c->args.prefill.batch]);
    operand_resize(call_operand(c, PREFILL_WORK_INFO), 0, count_items(c));
    operand_resize(call_operand(c, PREFILL_PARTIAL_OUT), 0, own->sizes.partial_rows);
    operand_resize(call_operand(c, PREFILL_PARTIAL_LSE), 0, own->sizes.partial_rows);
    operand_resize(call_operand(c, PREFILL_REDUCE_PARTIAL_MAP), 0, own->sizes.partials);
    operand_resize(call_operand(c, PREFILL_TICKETS), 0,
                   (int64_t)own->sizes.partials * c->desc.prefill.kv_heads);
}

/* Inputs. */

/* Fills the tokens of all sequences from token `first` on; tokens before it stay poison. */
static void fill_tokens(struct call *c, struct operand *o, int64_t first)
{
    for (int64_t t = first; t < o->dims[0]; t++)
        for (int64_t h = 0; h < o->dims[1]; h++)
            for (int64_t d = 0; d < o->dims[2]; d++)
                operand_set_bits(o, AT(t, h, d),
                                 o->size == 1
                                     ? random_element(o->precision, 16, &c->random)
                                     : encode_element(o->precision, random_value(&c->random)));
}

/* Fills the scales of q and k, different for each head. Logits are then a few units for elements up
   to 16. */
static void fill_descales(struct call *c)
{
    static const struct {
        unsigned operand;
        float least;
    } scales[] = {{PREFILL_Q_DESCALE, 0.06f}, {PREFILL_K_DESCALE, 0.4f}, {PREFILL_V_DESCALE, 0.1f}};
    for (size_t i = 0; i < COUNT(scales); i++) {
        struct operand *o = call_operand(c, scales[i].operand);
        const int64_t heads = o->schema.ndim > 1 ? o->dims[1] : 1;
        for (int64_t at = 0; o->given && at < operand_count(o); at++)
            operand_set(o, AT(at / heads, at % heads), scales[i].least * (1 + (float)(at % 5) / 8));
    }
}

/* Returns the scale of a token's head. */
static double descale_of(struct call *c, unsigned number, int64_t s, int64_t head)
{
    const struct operand *o = call_operand(c, number);
    if (!o->given)
        return 1;
    return o->schema.ndim > 1 ? operand_value(o, AT(s, head)) : operand_value(o, AT(0));
}

/* Chooses a key: of a cache the key that it holds, otherwise elements of 6 or -6 before the
   scale. */
static void choose_key(struct call *c, int s, int key, int head, double *to)
{
    const struct own *own = c->own;
    struct operand *k = call_operand(c, PREFILL_K);
    const struct paged p = k->given ? (struct paged){0} : cache_of(c);
    for (int d = 0; d < c->desc.prefill.head_dim; d++) {
        to[d] = d % 3 ? 6 : -6;
        if (k->given)
            operand_set(k, AT(own->cu_k[s] + key, head, d), to[d]);
        if (k->given)
            to[d] *= descale_of(c, PREFILL_K_DESCALE, s, head);
        else
            to[d] = paged_value(&p, CACHE_K, page_lists_slot(&own->lists, s, key, head), d);
    }
}

/* Gives the last query of a sequence the signs of its first key, or of its last. */
static void point_the_same_way(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_prefill_desc *desc = &c->desc.prefill;
    struct operand *q = call_operand(c, PREFILL_Q);
    double *key = call_allocate(c, (size_t)desc->head_dim, sizeof(*key));
    for (int s = 0; s < c->args.prefill.batch; s++) {
        for (int h = 0; h < desc->heads; h++) {
            choose_key(c, s, is(c, LATE) ? own->kv_lens[s] - 1 : 0,
                       h / (desc->heads / desc->kv_heads), key);
            const double scale = c->args.prefill.scale * descale_of(c, PREFILL_Q_DESCALE, s, h);
            double size = desc->q_dtype == ATTN_FP8 ? 64 : desc->paged ? 16 : 6;
            if (is(c, LATE)) /* logits of 71 to 141 as exponents of 2, in every other sequence */
                size = late_query(key, desc->head_dim, s % 2 ? 0.4 * scale : scale);
            if (desc->q_dtype == ATTN_FP8)
                size = fmin(size, 128); /* the largest fnuz number is 240 */
            for (int d = 0; d < desc->head_dim; d++)
                operand_set(q, AT(own->cu_q[s + 1] - 1, h, d), key[d] < 0 ? -size : size);
        }
    }
}

static void hide_pages(struct call *c)
{
    struct own *own = c->own;
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    if (mask == ATTN_MASK_WINDOW && a->window_left >= 0)
        page_lists_hide(c, &own->lists, own->cu_q, a->window_left, 0);
    if (mask == ATTN_MASK_CHUNK)
        page_lists_hide(c, &own->lists, own->cu_q, 0, a->chunk);
}

static void fill_keys(struct call *c)
{
    struct own *own = c->own;
    const int batch = c->args.prefill.batch;
    if (c->desc.prefill.paged) {
        struct paged p = cache_of(c);
        hide_pages(c);
        page_lists_fill(c, &own->lists, &p, PREFILL_KV_LENS);
        return;
    }
    fill_tokens(c, call_operand(c, PREFILL_K), own->cu_k[0]);
    fill_tokens(c, call_operand(c, PREFILL_V), own->cu_k[0]);
    operand_set_ints(call_operand(c, PREFILL_CU_SEQLENS_K), own->cu_k, batch + 1);
}

/* Makes maxima grow with every tile. Queries are all ones, and the elements of a key are equal. A
 * key has 2^growth times the weight of the key 64 tokens before. */
static void grow_keys(struct call *c)
{
    const struct attn_prefill_desc *d = &c->desc.prefill;
    struct operand *q = call_operand(c, PREFILL_Q), *k = call_operand(c, PREFILL_K);
    const double step =
        ((const struct shape *)c->shape)->trace.growth / (64 * sqrt(d->head_dim) * 1.44269504);
    const int keys = c->args.prefill.max_seqlen_k;
    for (int64_t t = 0; t < q->dims[0]; t++)
        for (int64_t h = 0; h < q->dims[1]; h++)
            for (int64_t e = 0; e < q->dims[2]; e++)
                operand_set(q, AT(t, h, e), 1);
    for (int64_t t = 0; t < k->dims[0]; t++)
        for (int64_t h = 0; h < k->dims[1]; h++)
            for (int64_t e = 0; e < k->dims[2]; e++)
                operand_set(k, AT(t, h, e), step * (double)(t % keys));
}

/* True if a custom mask shows key `k` to a query: always in the prefix, and else with a chance of
 * two thirds. With PREFIX it hides one of 4,096 in the prefix: most tiles hide one byte or none. */
static bool shows(struct call *c, int64_t k)
{
    enum { SELDOM = 4096 };
    const bool prefix = k < ((const struct shape *)c->shape)->trace.prefix;
    return prefix ? !is(c, PREFIX) || random_bits(&c->random) % SELDOM != 0
                  : random_bits(&c->random) % 3 != 0;
}

static void fill_mask(struct call *c)
{
    const struct own *own = c->own;
    struct operand *mask = call_operand(c, PREFILL_CUSTOM_MASK);
    for (int s = 0; mask->given && s <= c->args.prefill.batch; s++)
        operand_set_int(call_operand(c, PREFILL_MASK_INDPTR), AT(s), own->mask_indptr[s]);
    for (int s = 0; mask->given && s < c->args.prefill.batch; s++)
        for (int64_t i = own->mask_indptr[s]; i < own->mask_indptr[s + 1]; i++)
            operand_set_int(mask, AT(i), shows(c, (i - own->mask_indptr[s]) % own->kv_lens[s]));
}

static void fill_reduction(struct call *c)
{
    const struct own *own = c->own;
    operand_set_ints(call_operand(c, PREFILL_REDUCE_INDPTR), own->plan.reduce_indptr,
                     own->sizes.tiles + 1);
    operand_set_ints(call_operand(c, PREFILL_REDUCE_PARTIAL_MAP), own->plan.reduce_partial_map,
                     own->plan.reduce_indptr[own->sizes.tiles]);
    operand_clear(call_operand(c, PREFILL_TICKETS));
}

static void fill(struct call *c)
{
    struct own *own = c->own;
    struct operand *out = call_operand(c, PREFILL_OUT);
    fill_mask(c);
    fill_descales(c);
    fill_tokens(c, call_operand(c, PREFILL_Q), own->cu_q[0]);
    for (int64_t t = own->cu_q[0]; t < out->dims[0]; t++)
        for (int64_t h = 0; h < out->dims[1]; h++)
            operand_touch(out, AT(t, h));
    fill_keys(c);
    operand_set_ints(call_operand(c, PREFILL_CU_SEQLENS_Q), own->cu_q, c->args.prefill.batch + 1);
    if (is(c, HUGE_LOGIT | LATE))
        point_the_same_way(c);
    if (((const struct shape *)c->shape)->trace.growth)
        grow_keys(c);
    operand_set_ints(call_operand(c, PREFILL_WORK_INDPTR), own->plan.work_indptr,
                     c->args.prefill.work_lists + 1);
    operand_set_ints(call_operand(c, PREFILL_WORK_INFO), own->plan.work_info,
                     8 * (int64_t)count_items(c));
    if (c->desc.prefill.one_launch)
        fill_reduction(c);
    call_fill_sinks(c, call_operand(c, PREFILL_SINKS));
    c->args.prefill.hook_arg = call_fill_hook(c);
}

/* Comparison: a task is one head of one sequence. */

struct expectation {
    struct call *call;
    struct ref_prefill reference;
};

/* Compares an item's rows for one head: of the result, or of a partial result. */
static void compare_item(struct comparison *comparison, const int32_t *info, struct place at,
                         double *scratch)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int32_t first = ((const struct own *)c->own)->cu_q[at.s];
    const bool part = info[1] >= 0;
    struct operand *out = call_operand(c, part ? PREFILL_PARTIAL_OUT : PREFILL_OUT);
    struct operand *lse = call_operand(c, part ? PREFILL_PARTIAL_LSE : PREFILL_LSE);
    struct ref_row *r = verify_allocate(1, sizeof(*r));
    for (int32_t token = info[2]; token < info[3]; token++) {
        const int64_t row = part ? info[1] + (token - info[2]) : token;
        at.row = token - first;
        if (part)
            ref_prefill_part(&e->reference, at.s, at.head, at.row, (int64_t[]){info[4], info[5]},
                             scratch, r);
        else
            ref_prefill_row(&e->reference, at.s, at.head, at.row, scratch, r);
        compare_result(comparison, &at, out, row, lse->given ? lse : NULL,
                       part ? AT(row, at.head) : AT(at.head, row), r);
    }
    free(r);
}

static void compare_items(struct comparison *comparison, struct place at, double *scratch)
{
    struct call *c = ((const struct expectation *)comparison->problem)->call;
    const struct own *own = c->own;
    for (int32_t i = 0; i < count_items(c); i++) {
        const int32_t *info = own->plan.work_info + 8 * (size_t)i;
        const int first = info[7] & 0xffff, end = info[7] >> 16 & 0xffff;
        const bool compared = info[1] >= 0 || !c->desc.prefill.one_launch; /* else with all rows */
        if (compared && info[0] == at.s && first <= at.head && at.head < end)
            compare_item(comparison, info, at, scratch);
    }
}

static void compare_head(struct comparison *comparison, int task)
{
    const struct expectation *e = comparison->problem;
    struct call *c = e->call;
    const int32_t *cu_q = ((const struct own *)c->own)->cu_q;
    struct operand *lse = call_operand(c, PREFILL_LSE);
    struct ref_row *r = verify_allocate(1, sizeof(*r));
    double *scratch = verify_allocate((size_t)c->args.prefill.max_seqlen_k + 1, sizeof(*scratch));
    struct place at = {.s = task / c->desc.prefill.heads, .head = task % c->desc.prefill.heads};
    const bool by_items = c->desc.prefill.planned && !c->desc.prefill.one_launch;
    if (c->desc.prefill.planned)
        compare_items(comparison, at, scratch);
    for (; !by_items && at.row < cu_q[at.s + 1] - cu_q[at.s]; at.row++) {
        const int64_t token = cu_q[at.s] + at.row;
        ref_prefill_row(&e->reference, at.s, at.head, at.row, scratch, r);
        compare_result(comparison, &at, call_operand(c, PREFILL_OUT), token,
                       lse->given ? lse : NULL, AT(at.head, token), r);
    }
    free(scratch);
    free(r);
}

/* Returns a dense copy of one of the call's tensors, or of the cache's pages. */
static double *read_rows(struct call *c, unsigned number, unsigned descale, const int32_t *cu)
{
    const struct operand *o = call_operand(c, number);
    const int64_t first = cu[0], end = cu[c->args.prefill.batch];
    double *values =
        call_allocate(c, (size_t)((end - first) * o->dims[1] * o->dims[2]) + 1, sizeof(*values));
    double *to = values;
    int64_t s = 0;
    for (int64_t t = first; t < end; t++) {
        while (t >= cu[s + 1])
            s++;
        for (int64_t h = 0; h < o->dims[1]; h++) {
            const double scale = descale_of(c, descale, s, h);
            for (int64_t d = 0; d < o->dims[2]; d++)
                *to++ = scale * operand_value(o, AT(t, h, d));
        }
    }
    return values;
}

static double *read_pages(struct call *c, const struct paged *p, enum cache_part part)
{
    const struct own *own = c->own;
    const size_t tokens = (size_t)own->cu_k[c->args.prefill.batch];
    double *values =
        call_allocate(c, tokens * (size_t)p->kv_heads * (size_t)p->dim[part] + 1, sizeof(*values));
    double *to = values;
    for (int s = 0; s < c->args.prefill.batch; s++)
        for (int t = 0; t < own->kv_lens[s]; t++)
            for (int h = 0; h < p->kv_heads; h++)
                for (int d = 0; d < p->dim[part]; d++)
                    *to++ = paged_value(p, part, page_lists_slot(&own->lists, s, t, h), d);
    return values;
}

static void read_inputs(struct call *c)
{
    struct own *own = c->own;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const struct operand *sinks = call_operand(c, PREFILL_SINKS);
    const int batch = c->args.prefill.batch;
    own->q = read_rows(c, PREFILL_Q, PREFILL_Q_DESCALE, own->cu_q);
    if (d->paged) {
        const struct paged p = cache_of(c);
        own->k = read_pages(c, &p, CACHE_K);
        own->v = read_pages(c, &p, CACHE_V);
    } else {
        own->k = read_rows(c, PREFILL_K, PREFILL_K_DESCALE, own->cu_k);
        own->v = read_rows(c, PREFILL_V, PREFILL_V_DESCALE, own->cu_k);
    }
    own->sinks = d->sinks ? call_allocate(c, (size_t)d->heads, sizeof(*own->sinks)) : NULL;
    for (int h = 0; d->sinks && h < d->heads; h++)
        own->sinks[h] = operand_value(sinks, AT(h));
    own->dense_q = call_allocate(c, (size_t)batch + 1, sizeof(*own->dense_q));
    own->dense_k = call_allocate(c, (size_t)batch + 1, sizeof(*own->dense_k));
    for (int s = 0; s <= batch; s++) {
        own->dense_q[s] = own->cu_q[s] - own->cu_q[0];
        own->dense_k[s] = own->cu_k[s] - own->cu_k[0];
    }
}

static void set_window(const struct call *c, struct ref_prefill *r)
{
    if (c->desc.prefill.mask == ATTN_MASK_CHUNK)
        r->chunk = c->args.prefill.chunk;
    const struct attn_prefill_args *a = &c->args.prefill;
    const enum attn_mask mask = c->desc.prefill.mask;
    r->left = r->right = INT32_MAX;
    if (mask == ATTN_MASK_CAUSAL || mask == ATTN_MASK_CHUNK)
        r->right = 0;
    if (mask == ATTN_MASK_WINDOW && a->window_left >= 0)
        r->left = a->window_left;
    if (mask == ATTN_MASK_WINDOW && a->window_right >= 0)
        r->right = a->window_right;
}

static void compare(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_prefill_desc *d = &c->desc.prefill;
    read_inputs(c);
    struct expectation e = {
        .call = c,
        .reference =
            {
                .q = own->q,
                .k = own->k,
                .v = own->v,
                .cu_q = own->dense_q,
                .cu_k = own->dense_k,
                .batch = c->args.prefill.batch,
                .heads = d->heads,
                .kv_heads = d->kv_heads,
                .sinks = own->sinks,
                .mask = call_operand(c, PREFILL_CUSTOM_MASK)->image,
                .mask_indptr = own->mask_indptr,
                .attention =
                    {
                        .dim = d->head_dim,
                        .dim_v = d->head_dim_v,
                        .scale = c->args.prefill.scale,
                        .soft_cap = d->soft_cap ? c->args.prefill.soft_cap : 0,
                        .logits = c->hook ? hook_function(c->hook) : NULL,
                        .logits_arg = c->hook_arg,
                    },
            },
    };
    set_window(c, &e.reference);
    const struct precision *precision = call_operand(c, PREFILL_OUT)->precision;
    if (d->q_dtype == ATTN_FP8)
        comparison_weights_fp8(&e.reference.attention, c->target, false);
    else if (call_is_tuned(c, "sums=rounded"))
        comparison_weights_rounded(&e.reference.attention, precision);
    else if (call_is_tuned(c, "sums=cut"))
        comparison_weights_cut(&e.reference.attention, precision);
    struct comparison comparison = {
        .precision = precision,
        .attention = &e.reference.attention,
        .inputs = d->cache.scale > ATTN_KV_SCALE_TENSOR ? precision->unit : 0,
        .tasks = c->args.prefill.batch * d->heads,
        .task = compare_head,
        .problem = &e,
    };
    comparison_run(&comparison, c->row);
}

static const char *covers(const struct call *c)
{
    return c->desc.prefill.head_dim_v > REF_DIM_MAX ? "the reference does not cover head_dim_v"
                                                    : NULL;
}

/* True if the shape is for the kernel. Long shapes are for kernels without a feature that another
   shape tests. */
static bool takes(const struct call *c)
{
    const struct attn_prefill_desc *d = &c->desc.prefill;
    const bool plain = !d->sinks && !d->soft_cap && !d->logits && !d->lse && !d->paged;
    return (plain || !is(c, LONG)) && (d->planned || !is(c, PLANNED)) &&
           (!is(c, PREFIX) || d->mask == ATTN_MASK_CUSTOM) &&
           (!is(c, TURNS | NO_TURNS) || call_is_tuned(c, "persistent="));
}

/* Completes the shape: heads that the user left out follow from the kernel's ratio. */
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

/* Keys are read once for each block of queries, so no bytes are computed. */
static double least_bytes(const struct call *c)
{
    (void)c;
    return 0;
}

const struct verify_op verify_prefill = {
    .op = "prefill",
    .shapes = shapes,
    .shape_size = sizeof(shapes[0]),
    .shape_count = COUNT(shapes),
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
             "query and key tokens of a further sequence behind each"},
            {"chunk_q", offsetof(struct shape, trace.chunk_q), 1 << 20,
             "query tokens of one more sequence behind all"},
            {"chunk_k", offsetof(struct shape, trace.chunk_k), 1 << 20,
             "key tokens of it; chunk_q where left out"},
            {"heads", offsetof(struct shape, trace.heads), 1024,
             "query heads; what the kernel's ratio asks for"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024,
             "key/value heads; what the kernel's ratio asks for"},
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
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
