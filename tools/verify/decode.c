/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for decode kernels and for mla_decode, whose descriptor is one of decode with a kv
 * head and a cache that has no V: the shapes and the inputs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify/call.h"
#include "tools/verify/compare.h"
#include "tools/verify/hook.h"
#include "tools/verify/latent.h"
#include "tools/verify/pages.h"
#include "tools/verify/slots.h"
#include "tools/reference/decode.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { SEQUENCES_MAX = 6, MAX_RATIO_STEPS = 16 };

enum {
    HUGE_LOGIT = 1 << 0, /* the last query and the first key of a sequence point the same way */
    VIEWS = 1 << 1,      /* strides everywhere; lse is [token, head] */
    FAR = 1 << 2,        /* pages spread over 4 GiB and more */
    PADDED = 1 << 3,     /* rows of q and out behind the last sequence */
    LONG = 1 << 4,       /* for plain kernels only */
    UNEVEN = 1 << 5,     /* qo_indptr: sequences with fewer queries than q_len, or none */
    SPLIT = 1 << 6,      /* a work list: parts of sequences, whose states are compared */
    OWN_SCALE = 1 << 7,  /* not 1 / sqrt(head_dim) */
    TREE = 1 << 8,       /* for custom masks: the queries are a binary tree of draft tokens */
    MODEL = 1 << 9,      /* for kernels of its ratio */
};

/*
 * The matrix of shapes: keys of each sequence, and the page size and heads for kernels that take
 * any. All pages are in random order, with poison between and behind them.
 */
static const struct shape {
    const char *name;
    unsigned flags;
    int page_size, ratio, kv_heads;
    int count;
    int kv[SEQUENCES_MAX];
} shapes[] = {
    {"one", 0, 16, 1, 2, 1, {1}},
    {"ragged", UNEVEN, 16, 8, 1, 6, {31, 1, 64, 130, 17, 2}},
    {"page edges", 0, 32, 4, 2, 4, {31, 32, 33, 65}},
    {"single slots", UNEVEN, 1, 16, 1, 3, {5, 16, 70}},
    {"large pages", 0, 1024, 5, 1, 3, {200, 1024, 63}},
    {"empty", PADDED | UNEVEN, 64, 12, 1, 6, {0, 3, 0, 40, 1, 0}},
    {"huge logit", HUGE_LOGIT, 16, 2, 1, 2, {70, 150}},
    {"views", VIEWS | PADDED, 64, 6, 2, 2, {90, 20}},
    {"beyond 4 GiB", FAR, 16, 3, 1, 2, {40, 100}},
    {"split", SPLIT | UNEVEN | PADDED, 16, 4, 1, 5, {700, 9, 0, 333, 64}},
    {"split heads", SPLIT, 128, 2, 2, 2, {600, 50}},
    {"long", LONG, 128, 8, 1, 1, {16385}},
    {"own scale", OWN_SCALE, 16, 10, 1, 2, {40, 77}},
    {"few keys", 0, 16, 7, 2, 5, {1, 2, 3, 4, 7}},
    {"many heads", UNEVEN, 64, 40, 1, 3, {48, 5, 1030}},
    {"draft tree", TREE, 16, 8, 1, 3, {100, 1030, 8}},
};

/*
 * Heads of models as one of eight ranks has them, of GLM-4.5 one of four, and contexts of 1 to 16k
 * keys. The models of a head_dim have different ratios.
 */
#define CONTEXTS 5, {16384, 1, 777, 33, 129}
static const struct model {
    int head_dim;
    struct shape shape;
} models[] = {
    {64, {"gpt-oss", MODEL | SPLIT, 16, 8, 1, CONTEXTS}},
    {128, {"Llama 8B", MODEL, 16, 4, 1, CONTEXTS}},
    {128, {"Llama 70B", MODEL | SPLIT, 16, 8, 1, CONTEXTS}},
    {128, {"Llama 405B", MODEL, 16, 16, 1, CONTEXTS}},
    {128, {"Qwen3 1.7B", MODEL, 64, 2, 1, CONTEXTS}},
    {128, {"Qwen3 14B", MODEL | SPLIT, 1024, 5, 1, CONTEXTS}},
    {128, {"GLM-4.5", MODEL | SPLIT, 16, 12, 2, CONTEXTS}},
    {128, {"MiniMax-M2", MODEL, 16, 6, 1, CONTEXTS}},
    {256, {"Qwen3-Next", MODEL | SPLIT, 1, 8, 1, CONTEXTS}},
    {256, {"Qwen3.5", MODEL, 16, 16, 1, CONTEXTS}},
    {576, {"Kimi-K2, GLM-5", MODEL | SPLIT, 64, 8, 1, CONTEXTS}},
    {576, {"DeepSeek-V3", MODEL, 1, 16, 1, CONTEXTS}},
    {512, {"Kimi-K3", MODEL | SPLIT, 64, 12, 1, CONTEXTS}},
};

/* For kernels with a run-time window, in turn; the first is that of models. */
static const struct {
    int left, right;
} windows[] = {{127, 0}, {0, 0}, {16, 16}, {-1, 0}, {5, -1}, {-1, -1}, {64, 32}};

/* A work list, and what its items leave for a combine. */
struct work {
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan plan;
    int32_t items;
    struct tensor out, lse; /* [partial row, head] */
    int32_t *tickets;       /* [sequence, kv head], with one_launch */
};

enum { INFO = 8 }; /* integers of an item: attn_decode_plan */

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision;
    bool latent; /* the op is mla_decode: V is the first head_dim_v elements of K */
    struct latent_kind kind;
    float q_scale;         /* of q of fp8, else 1 */
    float *device_q_scale; /* likewise, or NULL */
    struct attn_decode_desc desc;
    struct attn_decode_args args;
    int32_t qo[SEQUENCES_MAX + 1];
    int32_t cached[SEQUENCES_MAX];  /* tokens of each sequence */
    int32_t kv_lens[SEQUENCES_MAX]; /* keys: the same, or entries of sparse lists */
    struct tensor q, out, lse;
    struct sequence_pages pages;
    struct slot_lists lists; /* of sparse attention */
    double *sinks;           /* [head] */
    float *hook_arg;         /* [HOOK_FLOATS] */
    struct hook *hook;       /* or NULL */
    uint8_t *mask;           /* of all sequences */
    int64_t mask_indptr[SEQUENCES_MAX + 1];
    struct work work;
    struct device_memory memory;
    struct verify_row *row;
};

/* Comparison: a task is one kv head of one sequence. */

struct expectation {
    const struct problem *p;
    struct ref_decode reference;
};

/* A part of a sequence that the kernel worked through on its own; -1: the whole. */
struct piece {
    int s, kv_head;
    int partial_row;
    struct ref_part part;
};

static void compare_piece(struct comparison *c, const struct piece *piece, double *scratch)
{
    const struct expectation *e = c->problem;
    const struct problem *p = e->p;
    const int s = piece->s, group = p->desc.heads / p->desc.kv_heads;
    const bool partial = piece->part.partial;
    const struct tensor *out = partial ? &p->work.out : &p->out;
    const struct tensor *lse = partial ? &p->work.lse : p->desc.lse ? &p->lse : NULL;
    const int64_t first = partial ? piece->partial_row : p->qo[s];
    struct ref_row *r = malloc(sizeof(*r));
    for (int h = piece->kv_head * group; h < (piece->kv_head + 1) * group; h++) {
        struct place at = {.s = s, .head = h};
        for (; at.row < p->qo[s + 1] - p->qo[s]; at.row++) {
            ref_decode_row(&e->reference, s, h, at.row, &piece->part, scratch, r);
            compare_row(c, &at, out, lse, first + at.row, r);
        }
    }
    free(r);
}

static bool is_sparse(const struct problem *p) { return p->kind.sparse != ATTN_SPARSE_NONE; }

/* Keys of an entry of a page list, and where the entries of each sequence begin. */
static int entry_keys(const struct problem *p)
{
    return is_sparse(p) ? 1 : p->desc.cache.page_size;
}

static const int32_t *list_indptr(const struct problem *p)
{
    return is_sparse(p) ? p->lists.first : p->pages.first;
}

/* The pieces that the work list makes of a sequence, for one kv head. */
static void compare_items(struct comparison *c, struct piece *piece, double *scratch)
{
    const struct problem *p = ((const struct expectation *)c->problem)->p;
    const int group = p->desc.heads / p->desc.kv_heads, page = entry_keys(p);
    const int base = p->desc.page_table == ATTN_PAGES_INDICES ? list_indptr(p)[piece->s] : 0;
    const int64_t keys = piece->part.end;
    for (int32_t i = 0; i < p->work.items; i++) {
        const int32_t *info = p->work.plan.work_info + INFO * i;
        if (info[0] != piece->s || (info[7] & 0xffff) != piece->kv_head * group)
            continue;
        const int64_t end = (int64_t)(info[5] - base) * page;
        const bool partial = info[1] >= 0; /* else it stands for all keys that are seen */
        piece->partial_row = info[1];
        piece->part.partial = partial;
        piece->part.first = partial ? (int64_t)(info[4] - base) * page : 0;
        piece->part.end = partial && end < keys ? end : keys;
        compare_piece(c, piece, scratch);
    }
}

static void compare_kv_head(struct comparison *c, int task)
{
    const struct expectation *e = c->problem;
    const struct problem *p = e->p;
    const int s = task / p->desc.kv_heads, kv_head = task % p->desc.kv_heads;
    const size_t keys = (size_t)p->kv_lens[s] + 1;
    double *k = malloc(keys * p->desc.head_dim * sizeof(*k));
    double *v = malloc(keys * p->desc.head_dim_v * sizeof(*v));
    double *scratch = malloc(keys * sizeof(*scratch));
    ref_decode_gather(&e->reference, s, kv_head, k, v);
    struct piece piece = {
        .s = s,
        .kv_head = kv_head,
        .part = {.k = k, .v = v, .end = p->kv_lens[s]},
    };
    const bool split = p->shape->flags & SPLIT;
    if (split)
        compare_items(c, &piece, scratch);
    if (!split || p->desc.one_launch) {
        piece.part.first = 0;
        piece.part.end = p->kv_lens[s];
        piece.part.partial = false;
        compare_piece(c, &piece, scratch);
    }
    free(scratch);
    free(v);
    free(k);
}

static void set_window(const struct problem *p, struct ref_decode *r)
{
    r->left = r->right = INT32_MAX;
    if (p->desc.mask == ATTN_MASK_CAUSAL)
        r->right = 0;
    if (p->desc.mask == ATTN_MASK_WINDOW && p->args.window_left >= 0)
        r->left = p->args.window_left;
    if (p->desc.mask == ATTN_MASK_WINDOW && p->args.window_right >= 0)
        r->right = p->args.window_right;
}

static void compare(struct problem *p)
{
    struct expectation e = {
        .p = p,
        .reference =
            {
                .q = p->q.values,
                .qo_indptr = p->qo,
                .kv_lens = p->kv_lens,
                .pages = is_sparse(p) ? p->lists.slots : p->pages.pages,
                .first_page = list_indptr(p),
                .there = p->lists.there,
                .k = p->pages.cache.part[CACHE_K],
                .v = p->pages.cache.part[CACHE_V],
                .heads = p->desc.heads,
                .kv_heads = p->desc.kv_heads,
                .sinks = p->desc.sinks ? p->sinks : NULL,
                .mask = p->desc.mask == ATTN_MASK_CUSTOM ? p->mask : NULL,
                .mask_indptr = p->mask_indptr,
                .attention =
                    {
                        .dim = p->desc.head_dim,
                        .dim_v = p->desc.head_dim_v,
                        .scale = (double)p->args.scale * p->q_scale,
                        .soft_cap = p->desc.soft_cap ? p->args.soft_cap : 0,
                        .logits = p->hook ? hook_function(p->hook) : NULL,
                        .logits_arg = p->hook_arg,
                    },
            },
    };
    if (p->latent) {
        e.reference.v = e.reference.k;
        e.reference.v.dim = p->desc.head_dim_v;
    }
    set_window(p, &e.reference);
    struct comparison c = {
        .precision = p->precision,
        .attention = &e.reference.attention,
        .inputs = p->desc.cache.layout == ATTN_KV_PACKED ? p->precision->unit : 0,
        .tasks = p->args.batch * p->desc.kv_heads,
        .task = compare_kv_head,
        .problem = &e,
    };
    comparison_run(&c, p->row);
}

/* Inputs. */

static void set_lengths(struct problem *p)
{
    const struct shape *shape = p->shape;
    const int q_len = p->desc.q_len;
    int padded = 0; /* entries of every list, where these have no lengths of their own */
    for (int s = 0; s < shape->count; s++)
        padded = shape->kv[s] + 3 > padded ? shape->kv[s] + 3 : padded;
    p->args.batch = shape->count;
    for (int s = 0; s < shape->count; s++) {
        const int queries = !(shape->flags & UNEVEN) ? q_len
                            : s == 1                 ? 0
                                                     : 1 + (q_len - 1 + s) % q_len;
        p->cached[s] = p->kv_lens[s] = shape->kv[s];
        if (is_sparse(p) && shape->flags & PADDED)
            p->kv_lens[s] = padded;
        p->qo[s + 1] = p->qo[s] + queries;
        p->mask_indptr[s + 1] = p->mask_indptr[s] + (int64_t)queries * p->kv_lens[s];
    }
    p->args.total_q = p->qo[shape->count] + (shape->flags & PADDED ? 3 : 0);
}

/* A draft token sees the keys before the drafts, and of these itself and what it descends from. */
static void mask_tree(struct problem *p, int s)
{
    const int queries = p->qo[s + 1] - p->qo[s], keys = p->kv_lens[s], first = keys - queries;
    for (int t = 0; t < queries; t++) {
        uint8_t *row = p->mask + p->mask_indptr[s] + (int64_t)t * keys;
        for (int k = 0; k < keys; k++)
            row[k] = k < first;
        for (int node = t; node >= 0; node = node ? (node - 1) / 2 : -1) {
            if (first + node >= 0)
                row[first + node] = 1;
        }
    }
}

static void make_tensors(struct problem *p, uint64_t *random)
{
    const struct attn_decode_desc *d = &p->desc;
    const int tokens = p->args.total_q, h = d->heads;
    p->q_scale = p->kind.q_dtype ? 0.0625f : 1;
    p->q = tensor_dense(p->kind.q_dtype ? find_cache_precision(p->kind.q_dtype, p->run->gpu->target)
                                        : p->precision,
                        tokens, h, d->head_dim);
    p->out = tensor_dense(p->precision, tokens, h, d->head_dim_v);
    p->lse = tensor_lse(tokens, h);
    if (p->shape->flags & VIEWS) {
        p->q.head_stride = d->head_dim + 8;
        p->q.token_stride = h * p->q.head_stride + 16;
        p->out.head_stride = d->head_dim_v + 8;
        p->out.token_stride = h * p->out.head_stride + 24;
        p->lse.token_stride = h + 3;
        p->lse.head_stride = 1;
    }
    tensor_fill(&p->q, random);
    for (int i = 0; i < h; i++)
        p->sinks[i] = (float)(2 * random_value(random));
    for (int i = 0; i < HOOK_FLOATS; i++)
        p->hook_arg[i] = (float)fabs(random_value(random)) / 16;
    p->mask = malloc((size_t)p->mask_indptr[p->args.batch] + 1);
    for (int64_t i = 0; i < p->mask_indptr[p->args.batch]; i++)
        p->mask[i] = random_bits(random) % 3 != 0;
    for (int s = 0; s < p->args.batch && p->shape->flags & TREE; s++)
        mask_tree(p, s);
}

static void make_cache(struct problem *p, uint64_t *random)
{
    const struct attn_decode_desc *d = &p->desc;
    p->pages = (struct sequence_pages){.count = p->args.batch,
                                       .lens = p->cached,
                                       .rotated = p->precision,
                                       .spare_first = is_sparse(p)};
    sequence_pages_make(&p->pages, &d->cache, p->run->gpu->target, d->kv_heads, d->head_dim,
                        d->head_dim_v, p->shape->flags & FAR, p->shape->flags & VIEWS, random);
    if (is_sparse(p))
        slot_lists_make(&p->lists, &p->pages, p->kv_lens, random);
}

/* The last query of a sequence and its first key: both 6 or -6, the key as near as it gets. */
static void point_the_same_way(struct problem *p)
{
    const int group = p->desc.heads / p->desc.kv_heads;
    for (int s = 0; s < p->args.batch; s++) {
        for (int h = 0; h < p->desc.heads; h++) {
            for (int d = 0; d < p->desc.head_dim; d++) {
                const double key = cache_value(&p->pages.cache, CACHE_K,
                                               sequence_page(&p->pages, s, 0), 0, h / group, d);
                tensor_set(&p->q, p->qo[s + 1] - 1, h, d, key < 0 ? -16 : 16);
            }
        }
    }
}

static void *allocate_words(int32_t count) { return calloc((size_t)count + 1, sizeof(int32_t)); }

/* Lists for a GPU of a few compute units, so that short sequences are cut as well. */
static void make_work(struct problem *p)
{
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = p->args.batch,
        .q_len = p->desc.q_len,
        .page_size = entry_keys(p),
        .heads = p->desc.heads,
        .kv_heads = p->desc.kv_heads,
        .lists = 5 * p->desc.kv_heads + 1,
        .window = p->desc.mask == ATTN_MASK_WINDOW ? p->args.window_left + 1 : 0,
    };
    const struct attn_decode_plan_lengths lengths = {
        .kv_lens = p->kv_lens,
        .qo_indptr = p->shape->flags & UNEVEN ? p->qo : NULL,
        .kv_indptr = p->desc.page_table == ATTN_PAGES_INDICES ? list_indptr(p) : NULL,
    };
    struct work *w = &p->work;
    attn_decode_plan_sizes(&shape, &w->sizes);
    w->plan = (struct attn_decode_plan){
        .work_indptr = allocate_words(shape.lists),
        .work_info = allocate_words(INFO * w->sizes.work_items),
        .reduce_indptr = allocate_words(shape.batch),
        .reduce_final_map = allocate_words(2 * shape.batch),
        .reduce_partial_map = allocate_words(w->sizes.partials),
    };
    attn_decode_plan(&shape, &lengths, &w->plan);
    w->items = w->plan.work_indptr[shape.lists];
    w->out = tensor_dense(NULL, w->sizes.partial_rows, p->desc.heads, p->desc.head_dim_v);
    w->lse = tensor_dense(NULL, w->sizes.partial_rows, p->desc.heads, 1);
    p->args.work_lists = shape.lists;
    p->args.partial_rows = w->sizes.partial_rows;
}

static void upload_work(struct problem *p)
{
    struct attn_decode_args *a = &p->args;
    const struct work *w = &p->work;
    const size_t word = sizeof(int32_t);
    a->work_indptr = device_copy(&p->memory, w->plan.work_indptr, (a->work_lists + 1) * word);
    a->work_info = device_copy(&p->memory, w->plan.work_info, INFO * w->items * word);
    a->partial_out = tensor_upload(&p->work.out, &p->memory);
    a->partial_lse = tensor_upload(&p->work.lse, &p->memory);
    if (!p->desc.one_launch)
        return;
    const int tickets = a->batch * p->desc.kv_heads;
    p->work.tickets = allocate_words(tickets);
    a->reduce_indptr = device_copy(&p->memory, w->plan.reduce_indptr, (a->batch + 1) * word);
    a->reduce_partial_map =
        device_copy(&p->memory, w->plan.reduce_partial_map, w->sizes.partials * word);
    a->tickets = device_copy(&p->memory, p->work.tickets, tickets * word);
}

static void free_work(struct work *w)
{
    free(w->plan.work_indptr);
    free(w->plan.work_info);
    free(w->plan.reduce_indptr);
    free(w->plan.reduce_final_map);
    free(w->plan.reduce_partial_map);
    tensor_free(&w->out);
    tensor_free(&w->lse);
    free(w->tickets);
}

static void upload(struct problem *p)
{
    struct attn_decode_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const int batch = a->batch, heads = p->desc.heads;
    float *sinks = malloc(heads * sizeof(*sinks));
    for (int h = 0; h < heads; h++)
        sinks[h] = (float)p->sinks[h];
    a->q = tensor_upload(&p->q, m);
    p->device_q_scale = p->kind.q_dtype ? device_copy(m, &p->q_scale, sizeof(float)) : NULL;
    a->out = tensor_upload(&p->out, m);
    a->lse = p->desc.lse ? tensor_upload(&p->lse, m) : NULL;
    a->sinks = p->desc.sinks ? device_copy(m, sinks, heads * sizeof(*sinks)) : NULL;
    free(sinks);
    a->hook_arg = device_copy(m, p->hook_arg, HOOK_FLOATS * sizeof(float));
    if (p->shape->flags & UNEVEN)
        a->qo_indptr = device_copy(m, p->qo, (batch + 1) * sizeof(int32_t));
    if (p->desc.mask == ATTN_MASK_CUSTOM) {
        a->custom_mask = device_copy(m, p->mask, (size_t)p->mask_indptr[batch] + 1);
        a->mask_indptr = device_copy(m, p->mask_indptr, (batch + 1) * sizeof(int64_t));
    }
    sequence_pages_upload(&p->pages, p->desc.page_table, p->shape->flags & VIEWS, m, &a->cache,
                          &a->pages);
    if (is_sparse(p))
        slot_lists_upload(&p->lists, p->desc.page_table, !(p->shape->flags & PADDED), m, &a->pages);
    if (p->shape->flags & SPLIT)
        upload_work(p);
    a->q_token_stride = p->q.token_stride;
    a->q_head_stride = p->q.head_stride;
    a->out_token_stride = p->out.token_stride;
    a->out_head_stride = p->out.head_stride;
    a->lse_token_stride = p->lse.token_stride;
    a->lse_head_stride = p->lse.head_stride;
}

static bool takes(const struct verify_run *run, bool latent, const struct latent_kind *kind,
                  const struct attn_decode_desc *desc, const char *kernel)
{
    const struct attn_mla_decode_desc d = latent_desc(desc, kind);
    return verify_takes(run, latent ? (const void *)&d : desc, kernel);
}

static bool launch(struct problem *p)
{
    const struct attn_mla_decode_desc d = latent_desc(&p->desc, &p->kind);
    const struct attn_mla_decode_args a = latent_args(&p->args, p->device_q_scale);
    if (p->latent)
        return verify_launch(p->run, &p->memory, &d, &a, p->row);
    return verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row);
}

/* Runs. */

/* Which rows of out and lse, or of the partial results, are some query's. */
static uint8_t *rows_written(const struct problem *p, bool partial, int count)
{
    uint8_t *written = calloc((size_t)count + 1, 1);
    const bool split = p->shape->flags & SPLIT;
    const bool whole = !partial && (!split || p->desc.one_launch);
    for (int s = 0; s < p->args.batch && whole; s++)
        memset(written + p->qo[s], 1, (size_t)(p->qo[s + 1] - p->qo[s]));
    for (int32_t i = 0; i < p->work.items; i++) {
        const int32_t *info = p->work.plan.work_info + INFO * i;
        if ((info[1] >= 0) == partial)
            memset(written + (partial ? info[1] : info[2]), 1, (size_t)(info[3] - info[2]));
    }
    return written;
}

static bool untouched_elsewhere(struct problem *p, const char *name, const struct tensor *t,
                                bool partial)
{
    uint8_t *written = rows_written(p, partial, t->tokens);
    size_t at;
    const bool untouched = tensor_untouched_but(t, written, &at);
    free(written);
    if (untouched)
        return true;
    verify_fail(p->row, "element %zu of %s's memory belongs to no query and was written", at, name);
    return false;
}

/* Everything outside the rows of the sequences must still be poisoned. */
static bool kept_to_itself(struct problem *p)
{
    if (!untouched_elsewhere(p, "out", &p->out, false) ||
        (p->desc.lse && !untouched_elsewhere(p, "lse", &p->lse, false)))
        return false;
    return !(p->shape->flags & SPLIT) ||
           (untouched_elsewhere(p, "partial_out", &p->work.out, true) &&
            untouched_elsewhere(p, "partial_lse", &p->work.lse, true));
}

/* Tickets are 0 again, for the next launch. */
static bool tickets_are_back(struct problem *p)
{
    for (int i = 0; p->work.tickets && i < p->args.batch * p->desc.kv_heads; i++) {
        if (!p->work.tickets[i])
            continue;
        verify_fail(p->row, "tickets[%d] is %d after the launch, expected 0", i,
                    p->work.tickets[i]);
        return false;
    }
    return true;
}

static void download(struct problem *p)
{
    struct device_memory *m = &p->memory;
    tensor_download(&p->out, m);
    if (p->desc.lse)
        tensor_download(&p->lse, m);
    if (p->shape->flags & SPLIT) {
        tensor_download(&p->work.out, m);
        tensor_download(&p->work.lse, m);
    }
    if (p->work.tickets)
        device_read(m, p->work.tickets, p->args.tickets,
                    (size_t)p->args.batch * p->desc.kv_heads * sizeof(int32_t));
}

static void run_problem(struct problem *p)
{
    if (!launch(p))
        return;
    download(p);
    if (verify_copied(&p->memory, p->row) && kept_to_itself(p) && tickets_are_back(p))
        compare(p);
}

static void destroy(struct problem *p)
{
    device_free(&p->memory);
    tensor_free(&p->q);
    tensor_free(&p->out);
    tensor_free(&p->lse);
    sequence_pages_free(&p->pages);
    slot_lists_free(&p->lists);
    free_work(&p->work);
    free(p->sinks);
    free(p->hook_arg);
    free(p->mask);
}

/*
 * Page size and heads for a kernel that takes any: the shape's own, or the next above them for
 * which the pack has no kernel of its own that lookup would rather take. False: a model's heads are
 * not for this kernel.
 */
static bool choose(const struct verify_run *run, const struct shape *shape, bool latent,
                   const struct latent_kind *kind, const char *kernel,
                   const struct attn_decode_desc *given, struct attn_decode_desc *desc)
{
    const bool any_page = given->cache.page_size == 0, any_ratio = given->heads == 0;
    const bool model = shape->flags & MODEL;
    const int page_steps = any_page ? 4 : 1;
    const int ratio_steps = any_ratio && !model ? MAX_RATIO_STEPS : 1;
    if (model && !any_ratio && given->heads != shape->ratio * given->kv_heads)
        return false;
    for (int i = 0; i < page_steps * ratio_steps; i++) {
        *desc = *given;
        if (any_page)
            desc->cache.page_size = verify_page_size(&given->cache, shape->page_size)
                                    << i % page_steps;
        if (any_ratio || model) {
            desc->kv_heads = latent ? 1 : shape->kv_heads;
            desc->heads = (shape->ratio + i / page_steps) * desc->kv_heads;
        }
        if (takes(run, latent, kind, desc, kernel))
            return true;
    }
    return !model;
}

/* 1 / sqrt of a head's size: of latent attention that is the size before absorption, never that of
 * a row of the cache. DeepSeek-V3 has 128 + 64 elements, and the square of YaRN's mscale. */
static float model_scale(bool latent, int head_dim)
{
    const float mscale = 0.1f * logf(40) + 1;
    return latent ? mscale * mscale / sqrtf(192) : 1 / sqrtf((float)head_dim);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info,
                         const struct shape *shape, size_t i, const struct attn_decode_desc *desc,
                         const struct latent_kind *kind, const struct precision *precision,
                         struct hook *hook)
{
    struct verify_row row = {.kernel = info->name, .shape = shape->name};
    const bool latent = !strcmp(info->op, "mla_decode");
    struct problem p = {
        .run = run,
        .shape = shape,
        .precision = precision,
        .latent = latent,
        .kind = *kind,
        .desc = *desc,
        .row = &row,
        .hook = hook,
        .args =
            {
                .size = sizeof(p.args),
                .scale = shape->flags & OWN_SCALE ? 0.3f : model_scale(latent, desc->head_dim),
                .soft_cap = shape->flags & HUGE_LOGIT ? 50 : 5,
                .window_left = windows[i % COUNT(windows)].left,
                .window_right = windows[i % COUNT(windows)].right,
            },
        .memory = {.gpu = run->gpu},
    };
    if (!choose(run, shape, latent, kind, info->name, desc, &p.desc))
        return;
    p.sinks = calloc((size_t)p.desc.heads, sizeof(*p.sinks));
    p.hook_arg = calloc(HOOK_FLOATS, sizeof(*p.hook_arg));
    uint64_t random = run->seed * 1000003 + i;
    set_lengths(&p);
    make_tensors(&p, &random);
    make_cache(&p, &random);
    if (shape->flags & HUGE_LOGIT)
        point_the_same_way(&p);
    if (shape->flags & SPLIT)
        make_work(&p);
    upload(&p);
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

struct attn_decode_desc verify_decode_desc(const struct attn_pack *pack, uint32_t n)
{
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    const int ratio = atoi(verify_field(pack, n, "gqa")); /* "any": 0 */
    struct attn_kernel_info info = {.size = sizeof(info)};
    attn_pack_kernel(pack, n, &info);
    const bool latent = !strcmp(info.op, "mla_decode");
    const int kv_heads = ratio && ratio <= 4 && !latent ? 2 : 1;
    const enum attn_dtype dtype = precision ? precision->dtype : 0;
    return (struct attn_decode_desc){
        .size = sizeof(struct attn_decode_desc),
        .dtype = dtype,
        .head_dim = atoi(verify_field(pack, n, "head_dim")),
        .head_dim_v = atoi(verify_field(pack, n, "head_dim_v")),
        .heads = ratio * kv_heads,
        .kv_heads = kv_heads,
        .q_len = atoi(verify_field(pack, n, "q_len")),
        .mask = VERIFY_NUMBER_OF(pack, n, "mask", "causal", "none", "window", "custom"),
        .sinks = verify_flag(pack, n, "sinks"),
        .soft_cap = verify_flag(pack, n, "soft_cap"),
        .lse = verify_flag(pack, n, "lse"),
        .one_launch = !latent && verify_flag(pack, n, "one_launch"),
        .logits = latent ? NULL : verify_name(pack, n, "logits"),
        .cache = verify_cache_desc(pack, n),
        .page_table = verify_page_table(pack, n),
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_decode_desc desc = verify_decode_desc(run->pack, n);
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    if (!precision || desc.head_dim_v > REF_DIM_MAX) {
        verify_report_fault(run, info->name,
                            "the reference does not cover its dtype or head_dim_v");
        return;
    }
    char why[400];
    struct hook *hook = NULL;
    if (desc.logits && !(hook = hook_open(run->hooks, desc.logits, why, sizeof(why)))) {
        verify_report_fault(run, info->name, why);
        return;
    }
    const struct latent_kind kind = latent_kind(run->pack, n);
    const bool plain = !desc.sinks && !desc.soft_cap && !desc.logits && !desc.lse;
    const bool custom = desc.mask == ATTN_MASK_CUSTOM;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++) {
        if ((plain || !(shapes[i].flags & LONG)) && (custom || !(shapes[i].flags & TREE)))
            verify_shape(run, info, &shapes[i], i, &desc, &kind, precision, hook);
    }
    for (size_t i = 0; i < COUNT(models) && verify_wants_more(run); i++) {
        if (models[i].head_dim == desc.head_dim)
            verify_shape(run, info, &models[i].shape, i * COUNT(windows), &desc, &kind, precision,
                         hook);
    }
    hook_close(hook);
}

const struct verify_op verify_decode = {.op = "decode", .verify = verify};

const struct verify_op verify_mla_decode = {.op = "mla_decode", .verify = verify};
