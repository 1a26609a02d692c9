/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for prefill kernels: the shapes and the inputs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify/call.h"
#include "tools/verify/compare.h"
#include "tools/verify/hook.h"
#include "tools/verify/numbers.h"
#include "tools/verify/pages.h"
#include "tools/verify/tensor.h"
#include "tools/reference/prefill.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { SEQUENCES_MAX = 6, MAX_STEPS = 16 };

enum {
    HUGE_LOGIT = 1 << 0, /* the last query and the first key of a sequence point the same way */
    VIEWS = 1 << 1,      /* q, k, v share a tensor; out and lse have gaps; lse is [token, head] */
    FAR = 1 << 2,        /* all lie beyond 4 GiB, their tokens as far apart as is allowed */
    PADDED = 1 << 3,     /* rows of q and out behind the last sequence */
    LONG = 1 << 4,       /* for plain kernels only */
    OWN_SCALE = 1 << 5,  /* not 1 / sqrt(head_dim) */
};

/*
 * The matrix of shapes: queries and keys of each sequence, and the heads for kernels that take any
 * ratio: every ratio of the models that are known, MQA among them. A simulator's time goes by heads
 * times keys per block of queries, so that long shapes have few heads.
 */
static const struct shape {
    const char *name;
    unsigned flags;
    int ratio, kv_heads;
    int count;
    struct {
        int q, k;
    } sequences[SEQUENCES_MAX];
} shapes[] = {
    {"one", 0, 1, 2, 1, {{1, 1}}},
    {"small", 0, 2, 2, 3, {{7, 7}, {33, 33}, {64, 64}}},
    {"tails", PADDED, 1, 3, 3, {{129, 129}, {65, 65}, {31, 31}}},
    {"extend", 0, 5, 1, 3, {{5, 300}, {130, 257}, {1, 513}}},
    {"few keys", 0, 12, 1, 2, {{200, 40}, {3, 1}}},
    {"empty", PADDED, 4, 2, 6, {{0, 0}, {0, 10}, {10, 0}, {1, 1}, {0, 0}, {2, 3}}},
    {"huge logit", HUGE_LOGIT, 2, 1, 2, {{70, 70}, {20, 150}}},
    {"views", VIEWS, 8, 1, 2, {{90, 90}, {40, 40}}},
    {"beyond 4 GiB", FAR, 1, 2, 1, {{260, 72}}},
    {"long", LONG, 2, 1, 1, {{260, 700}}},
    {"own scale", OWN_SCALE, 1, 1, 1, {{20, 40}}},
};

/* For kernels with a run-time window, in turn. */
static const struct {
    int left, right;
} windows[] = {{127, 0}, {0, 0}, {16, 16}, {-1, 0}, {5, -1}, {-1, -1}, {64, 32}};

/* For kernels that take pages of any size, in turn. */
static const int page_sizes[] = {16, 1, 64, 4, 1024, 32, 2, 128, 8};

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision;
    struct attn_prefill_desc desc;
    struct attn_prefill_args args;
    int32_t cu_q[SEQUENCES_MAX + 1], cu_k[SEQUENCES_MAX + 1];
    struct tensor q, k, v, out, lse; /* paged: k and v only have values */
    int32_t kv_lens[SEQUENCES_MAX];
    struct sequence_pages pages;
    double *sinks;   /* [head] */
    float *hook_arg; /* [HOOK_FLOATS] */
    uint8_t *mask;   /* of all sequences */
    int64_t mask_indptr[SEQUENCES_MAX + 1];
    struct hook *hook; /* or NULL */
    struct device_memory memory;
    struct verify_row *row;
};

/* Comparison: a task is one head of one sequence. */

struct expectation {
    const struct problem *p;
    struct ref_prefill reference;
};

static void compare_head(struct comparison *c, int task)
{
    const struct expectation *e = c->problem;
    const struct problem *p = e->p;
    const struct tensor *lse = p->desc.lse ? &p->lse : NULL;
    struct ref_row *r = malloc(sizeof(*r));
    double *scratch = malloc(((size_t)p->args.max_seqlen_k + 1) * sizeof(*scratch));
    struct place at = {.s = task / p->desc.heads, .head = task % p->desc.heads};
    for (; at.row < p->cu_q[at.s + 1] - p->cu_q[at.s]; at.row++) {
        ref_prefill_row(&e->reference, at.s, at.head, at.row, scratch, r);
        compare_row(c, &at, &p->out, lse, p->cu_q[at.s] + at.row, r);
    }
    free(scratch);
    free(r);
}

static void set_window(const struct problem *p, struct ref_prefill *r)
{
    const int64_t all = INT32_MAX;
    r->left = r->right = all;
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
                .k = p->k.values,
                .v = p->v.values,
                .batch = p->args.batch,
                .heads = p->desc.heads,
                .kv_heads = p->desc.kv_heads,
                .sinks = p->desc.sinks ? p->sinks : NULL,
                .mask = p->mask,
                .mask_indptr = p->mask_indptr,
                .attention =
                    {
                        .dim = p->desc.head_dim,
                        .dim_v = p->desc.head_dim_v,
                        .scale = p->args.scale,
                        .soft_cap = p->desc.soft_cap ? p->args.soft_cap : 0,
                        .logits = p->hook ? hook_function(p->hook) : NULL,
                        .logits_arg = p->hook_arg,
                    },
            },
    };
    set_window(p, &e.reference);
    /* The reference's tensors are dense from the first token that a sequence has. */
    int32_t dense_q[SEQUENCES_MAX + 1], dense_k[SEQUENCES_MAX + 1];
    for (int s = 0; s <= p->args.batch; s++) {
        dense_q[s] = p->cu_q[s] - p->cu_q[0];
        dense_k[s] = p->cu_k[s] - p->cu_k[0];
    }
    e.reference.cu_q = dense_q;
    e.reference.cu_k = dense_k;
    struct comparison c = {
        .precision = p->precision,
        .attention = &e.reference.attention,
        .inputs = p->desc.cache.scale > ATTN_KV_SCALE_TENSOR ? p->precision->unit : 0,
        .tasks = p->args.batch * p->desc.heads,
        .task = compare_head,
        .problem = &e,
    };
    comparison_run(&c, p->row);
}

/* Inputs. */

/* Elements: 4 MiB from a token to the next, the limit. */
enum { FAR_STRIDE = 1 << 21, FAR_TOKENS = 1100 };

static void set_lengths(struct problem *p)
{
    const struct shape *shape = p->shape;
    struct attn_prefill_args *a = &p->args;
    a->batch = shape->count;
    /* With FAR_STRIDE the first query and key are beyond 4 GiB. */
    p->cu_q[0] = shape->flags & FAR ? FAR_TOKENS : 0;
    p->cu_k[0] = shape->flags & FAR && !p->desc.paged ? FAR_TOKENS : 0;
    for (int s = 0; s < shape->count; s++) {
        p->cu_q[s + 1] = p->cu_q[s] + shape->sequences[s].q;
        p->cu_k[s + 1] = p->cu_k[s] + shape->sequences[s].k;
        p->kv_lens[s] = shape->sequences[s].k;
        if (a->max_seqlen_q < shape->sequences[s].q)
            a->max_seqlen_q = shape->sequences[s].q;
        if (a->max_seqlen_k < shape->sequences[s].k)
            a->max_seqlen_k = shape->sequences[s].k;
    }
    a->total_q = p->cu_q[shape->count] + (shape->flags & PADDED ? 5 : 0);
    a->total_k = p->cu_k[shape->count];
}

/* Where the tensors lie: their own, parts of one, or far apart. */
static void set_strides(struct problem *p)
{
    const struct attn_prefill_desc *d = &p->desc;
    const int h = d->heads, kv = d->kv_heads, dim = d->head_dim, dim_v = d->head_dim_v;
    const int tokens = p->args.total_q, keys = p->args.total_k;
    p->q = tensor_dense(p->precision, tokens, h, dim);
    p->k = tensor_dense(p->precision, keys, kv, dim);
    p->v = tensor_dense(p->precision, keys, kv, dim_v);
    p->out = tensor_dense(p->precision, tokens, h, dim_v);
    p->lse = tensor_lse(tokens, h);
    if (p->shape->flags & VIEWS && p->desc.paged) {
        p->q.token_stride += 24;
    } else if (p->shape->flags & VIEWS) {
        p->q.token_stride = p->k.token_stride = p->v.token_stride = (h + kv) * dim + kv * dim_v;
        tensor_place_inside(&p->k, &p->q, h * dim);
        tensor_place_inside(&p->v, &p->q, (h + kv) * dim);
    }
    if (p->shape->flags & VIEWS) {
        p->out.head_stride = dim_v + 8;
        p->out.token_stride = h * p->out.head_stride + 24;
        p->lse.token_stride = h + 3;
        p->lse.head_stride = 1;
    }
    if (p->shape->flags & FAR) {
        p->q.token_stride = p->out.token_stride = FAR_STRIDE;
        p->q.first = p->out.first = p->cu_q[0];
        p->q.sparse = p->out.sparse = true;
    }
    if (p->shape->flags & FAR && !p->desc.paged) {
        p->k.token_stride = p->v.token_stride = FAR_STRIDE;
        tensor_place_inside(&p->v, &p->k, kv * dim);
        p->k.first = p->v.first = p->cu_k[0];
        p->k.sparse = p->v.sparse = true;
    }
}

/* A cache with random tokens; k and v get what its elements are worth. */
static void make_pages(struct problem *p, uint64_t *random)
{
    const struct attn_prefill_desc *d = &p->desc;
    p->pages.count = p->args.batch;
    p->pages.lens = p->kv_lens;
    sequence_pages_make(&p->pages, &d->cache, p->run->gpu->target, d->kv_heads, d->head_dim,
                        d->head_dim_v, p->shape->flags & FAR, p->shape->flags & VIEWS, random);
    for (int s = 0; s < p->args.batch; s++) {
        for (int t = 0; t < p->kv_lens[s]; t++) {
            const int page = sequence_page(&p->pages, s, t), at = t % d->cache.page_size;
            for (int h = 0; h < d->kv_heads; h++) {
                for (int i = 0; i < d->head_dim; i++)
                    tensor_set(&p->k, p->cu_k[s] + t, h, i,
                               cache_value(&p->pages.cache, CACHE_K, page, at, h, i));
                for (int i = 0; i < d->head_dim_v; i++)
                    tensor_set(&p->v, p->cu_k[s] + t, h, i,
                               cache_value(&p->pages.cache, CACHE_V, page, at, h, i));
            }
        }
    }
}

/* Of a cache, only the query can be chosen. */
static void point_at_first_key(struct problem *p)
{
    const int group = p->desc.heads / p->desc.kv_heads;
    for (int s = 0; s < p->args.batch; s++) {
        for (int h = 0; h < p->desc.heads; h++) {
            for (int d = 0; d < p->desc.head_dim; d++) {
                const double key = cache_value(&p->pages.cache, CACHE_K,
                                               sequence_page(&p->pages, s, 0), 0, h / group, d);
                tensor_set(&p->q, p->cu_q[s + 1] - 1, h, d, key < 0 ? -16 : 16);
            }
        }
    }
}

static void point_the_same_way(struct problem *p)
{
    const int group = p->desc.heads / p->desc.kv_heads;
    for (int s = 0; s < p->args.batch; s++) {
        for (int h = 0; h < p->desc.heads; h++) {
            for (int d = 0; d < p->desc.head_dim; d++) {
                const double sign = d % 3 ? 6 : -6;
                tensor_set(&p->q, p->cu_q[s + 1] - 1, h, d, sign);
                tensor_set(&p->k, p->cu_k[s], h / group, d, sign);
            }
        }
    }
}

/* Any two of three keys. */
static void make_mask(struct problem *p, uint64_t *random)
{
    for (int s = 0; s < p->args.batch; s++)
        p->mask_indptr[s + 1] =
            p->mask_indptr[s] + (int64_t)(p->cu_q[s + 1] - p->cu_q[s]) * p->kv_lens[s];
    const int64_t bytes = p->mask_indptr[p->args.batch];
    p->mask = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        p->mask[i] = random_bits(random) % 3 != 0;
}

static void set_inputs(struct problem *p, uint64_t *random)
{
    if (p->desc.mask == ATTN_MASK_CUSTOM)
        make_mask(p, random);
    tensor_fill(&p->q, random);
    tensor_fill(&p->k, random);
    tensor_fill(&p->v, random);
    if (p->desc.paged)
        make_pages(p, random);
    if (p->shape->flags & HUGE_LOGIT && p->desc.paged)
        point_at_first_key(p);
    else if (p->shape->flags & HUGE_LOGIT)
        point_the_same_way(p);
    for (int h = 0; h < p->desc.heads; h++)
        p->sinks[h] = (float)(2 * random_value(random));
    for (int i = 0; i < HOOK_FLOATS; i++)
        p->hook_arg[i] = (float)fabs(random_value(random)) / 16;
}

static void upload(struct problem *p)
{
    struct attn_prefill_args *a = &p->args;
    struct device_memory *m = &p->memory;
    float sinks[HOOK_FLOATS];
    for (int h = 0; h < p->desc.heads; h++)
        sinks[h] = (float)p->sinks[h];
    a->q = tensor_upload(&p->q, m);
    if (p->desc.paged) {
        sequence_pages_upload(&p->pages, p->desc.page_table, p->shape->flags & VIEWS, m, &a->cache,
                              &a->pages);
    } else {
        a->k = tensor_upload(&p->k, m);
        a->v = tensor_upload(&p->v, m);
        a->cu_seqlens_k = device_copy(m, p->cu_k, sizeof(p->cu_k));
    }
    a->out = tensor_upload(&p->out, m);
    a->lse = p->desc.lse ? tensor_upload(&p->lse, m) : NULL;
    a->cu_seqlens_q = device_copy(m, p->cu_q, sizeof(p->cu_q));
    a->sinks = p->desc.sinks ? device_copy(m, sinks, p->desc.heads * sizeof(float)) : NULL;
    a->hook_arg = device_copy(m, p->hook_arg, HOOK_FLOATS * sizeof(float));
    if (p->mask) {
        const int n = p->args.batch;
        const size_t bytes = (size_t)p->mask_indptr[n];
        a->custom_mask = device_copy(m, p->mask, bytes ? bytes : 1);
        a->mask_indptr = device_copy(m, p->mask_indptr, ((size_t)n + 1) * sizeof(int64_t));
    }
    a->q_token_stride = p->q.token_stride;
    a->q_head_stride = p->q.head_stride;
    a->k_token_stride = p->k.token_stride;
    a->k_head_stride = p->k.head_stride;
    a->v_token_stride = p->v.token_stride;
    a->v_head_stride = p->v.head_stride;
    a->out_token_stride = p->out.token_stride;
    a->out_head_stride = p->out.head_stride;
    a->lse_token_stride = p->lse.token_stride;
    a->lse_head_stride = p->lse.head_stride;
}

/* Runs. */

/* Everything outside the rows of the sequences must still be poisoned. */
static bool kept_to_itself(struct problem *p)
{
    const int rows = p->cu_q[p->args.batch];
    size_t at;
    const bool out = tensor_untouched_outside(&p->out, rows, &at);
    if (out && (!p->desc.lse || tensor_untouched_outside(&p->lse, rows, &at)))
        return true;
    verify_fail(p->row, "element %zu of %s's memory belongs to no query and was written", at,
                out ? "lse" : "out");
    return false;
}

static void run_problem(struct problem *p)
{
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    tensor_download(&p->out, &p->memory);
    if (p->desc.lse)
        tensor_download(&p->lse, &p->memory);
    if (verify_copied(&p->memory, p->row) && kept_to_itself(p))
        compare(p);
}

static void destroy(struct problem *p)
{
    device_free(&p->memory);
    tensor_free(&p->q);
    tensor_free(&p->k);
    tensor_free(&p->v);
    tensor_free(&p->out);
    tensor_free(&p->lse);
    if (p->desc.paged)
        sequence_pages_free(&p->pages);
    free(p->sinks);
    free(p->hook_arg);
    free(p->mask);
}

/*
 * Heads for a kernel that takes any ratio: the shape's own ratio, or the next above it for which
 * the pack has no kernel of its own that lookup would rather take. The page size likewise.
 */
static void choose_run_time_values(const struct verify_run *run, const struct shape *shape,
                                   size_t i, const char *kernel, struct attn_prefill_desc *desc)
{
    const bool any_ratio = desc->heads == 0;
    const struct attn_cache_desc cache = desc->cache;
    if (any_ratio)
        desc->kv_heads = shape->kv_heads;
    for (int step = 0; step < MAX_STEPS; step++) {
        if (any_ratio)
            desc->heads = (shape->ratio + step) * shape->kv_heads;
        if (desc->paged)
            desc->cache.page_size =
                verify_page_size(&cache, page_sizes[(i + (size_t)step) % COUNT(page_sizes)]);
        if (verify_takes(run, desc, kernel))
            return;
    }
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_prefill_desc *desc, const struct precision *precision,
                         struct hook *hook)
{
    const struct shape *shape = &shapes[i];
    struct verify_row row = {.kernel = info->name, .shape = shape->name};
    struct problem p = {
        .run = run,
        .shape = shape,
        .precision = precision,
        .desc = *desc,
        .row = &row,
        .hook = hook,
        .args =
            {
                .size = sizeof(p.args),
                .scale = shape->flags & OWN_SCALE ? 0.3f : 1 / sqrtf((float)desc->head_dim),
                .soft_cap = shape->flags & HUGE_LOGIT ? 50 : 5,
                .window_left = windows[i % COUNT(windows)].left,
                .window_right = windows[i % COUNT(windows)].right,
            },
        .memory = {.gpu = run->gpu},
    };
    choose_run_time_values(run, shape, i, info->name, &p.desc);
    p.sinks = calloc((size_t)p.desc.heads, sizeof(*p.sinks));
    p.hook_arg = calloc(HOOK_FLOATS, sizeof(*p.hook_arg));
    uint64_t random = run->seed * 1000003 + i;
    set_lengths(&p);
    set_strides(&p);
    set_inputs(&p, &random);
    upload(&p);
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

struct attn_prefill_desc verify_prefill_desc(const struct attn_pack *pack, uint32_t n)
{
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    const int ratio = atoi(verify_field(pack, n, "gqa")); /* "any": 0 */
    const int kv_heads = ratio && ratio <= 4 ? 2 : 1;
    return (struct attn_prefill_desc){
        .size = sizeof(struct attn_prefill_desc),
        .dtype = precision ? precision->dtype : 0,
        .head_dim = atoi(verify_field(pack, n, "head_dim")),
        .head_dim_v = atoi(verify_field(pack, n, "head_dim_v")),
        .heads = ratio * kv_heads,
        .kv_heads = kv_heads,
        .mask = VERIFY_NUMBER_OF(pack, n, "mask", "causal", "none", "window", "custom"),
        .sinks = verify_flag(pack, n, "sinks"),
        .soft_cap = verify_flag(pack, n, "soft_cap"),
        .lse = verify_flag(pack, n, "lse"),
        .logits = verify_name(pack, n, "logits"),
        .paged = verify_flag(pack, n, "paged"),
        .cache = verify_cache_desc(pack, n),
        .page_table = verify_page_table(pack, n),
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_prefill_desc desc = verify_prefill_desc(run->pack, n);
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    if (!precision || desc.head_dim_v > REF_DIM_MAX || desc.heads > HOOK_FLOATS) {
        verify_report_fault(run, info->name,
                            "the reference does not cover its dtype, head_dim_v or gqa");
        return;
    }
    char why[400];
    struct hook *hook = NULL;
    if (desc.logits && !(hook = hook_open(run->hooks, desc.logits, why, sizeof(why)))) {
        verify_report_fault(run, info->name, why);
        return;
    }
    const bool plain = !desc.sinks && !desc.soft_cap && !desc.logits && !desc.lse && !desc.paged;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++) {
        if (!(shapes[i].flags & LONG) || plain)
            verify_shape(run, info, i, &desc, precision, hook);
    }
    hook_close(hook);
}

const struct verify_op verify_prefill = {.op = "prefill", .verify = verify};
