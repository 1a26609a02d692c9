/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for cache_gather kernels: sequences in shuffled pages, whole and from the middle.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/verify/verify.h"
#include "tools/verify/pages.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { SEQUENCES_MAX = 5, PAGE_STEPS = 4 };

enum {
    VIEWS = 1 << 0,  /* strides in the cache, the tables and the output */
    FAR = 1 << 1,    /* pages spread over 4 GiB and more */
    PADDED = 1 << 2, /* rows behind the last sequence, workgroups that find nothing to do */
    WHOLE = 1 << 3,  /* seq_starts is NULL */
};

/*
 * The matrix of shapes: of each sequence the tokens that the cache has, and those that are asked
 * for; the page size for kernels that take any.
 */
static const struct shape {
    const char *name;
    unsigned flags;
    int page_size, kv_heads;
    int count;
    struct {
        int tokens, first, end;
    } sequences[SEQUENCES_MAX];
} shapes[] = {
    {"one", WHOLE, 16, 2, 1, {{1, 0, 1}}},
    {"none", 0, 16, 1, 2, {{5, 3, 3}, {0, 0, 0}}},
    {"whole", WHOLE, 16, 1, 3, {{96, 0, 96}, {33, 0, 33}, {7, 0, 7}}},
    {"chunks", 0, 32, 2, 4, {{90, 5, 77}, {64, 32, 64}, {40, 39, 40}, {50, 0, 17}}},
    {"empty", PADDED, 64, 1, 5, {{0, 0, 0}, {70, 7, 70}, {9, 0, 0}, {3, 1, 2}, {0, 0, 0}}},
    {"views", VIEWS | PADDED, 64, 3, 2, {{80, 9, 80}, {30, 0, 30}}},
    {"beyond 4 GiB", FAR, 16, 1, 2, {{40, 0, 40}, {37, 19, 37}}},
    {"large pages", 0, 1024, 1, 2, {{200, 100, 200}, {1030, 1000, 1030}}},
    {"single slots", 0, 1, 2, 2, {{21, 3, 20}, {5, 0, 5}}},
};

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision;
    struct attn_cache_gather_desc desc;
    struct attn_cache_gather_args args;
    int32_t lens[SEQUENCES_MAX], starts[SEQUENCES_MAX], cu[SEQUENCES_MAX + 1];
    struct sequence_pages pages;
    struct tensor out[CACHE_PARTS];
    struct device_memory memory;
    struct verify_row *row;
    double error, norm, bound; /* sums of squares */
};

/* Comparison. */

/* A float32 product of two numbers that float32 holds, rounded once more; exact without a scale. */
static double element_bound(const struct problem *p, double expected)
{
    if (p->desc.cache.scale == ATTN_KV_SCALE_NONE)
        return 0;
    return fmax(p->precision->unit * fabs(expected), p->precision->tiny) + 0x1p-24 * fabs(expected);
}

static void compare_element(struct problem *p, enum cache_part part, int s, int i, int head, int d)
{
    const int token = p->starts[s] + i, size = p->desc.cache.page_size;
    const double expected = cache_value(&p->pages.cache, part, sequence_page(&p->pages, s, token),
                                        token % size, head, d);
    const double got = tensor_get(&p->out[part], p->cu[s] + i, head, d);
    const double error = fabs(got - expected), bound = element_bound(p, expected);
    p->error += error * error;
    p->norm += expected * expected;
    p->bound += bound * bound;
    if (!(error <= bound))
        verify_fail(p->row,
                    "%s: %s of sequence %d, token %d, head %d, element %d is %g, expected "
                    "%g",
                    isnan(got) ? "not written, or NaN" : "wrong", part == CACHE_K ? "k" : "v", s,
                    token, head, d, got, expected);
    if (bound > 0 && error * p->row->largest_bound >= p->row->largest * bound) {
        p->row->largest = error;
        p->row->largest_bound = bound;
    }
}

static void compare_part(struct problem *p, enum cache_part part)
{
    const struct tensor *out = &p->out[part];
    size_t at;
    for (int s = 0; s < p->args.batch; s++)
        for (int i = 0; i < p->cu[s + 1] - p->cu[s]; i++)
            for (int head = 0; head < out->heads; head++)
                for (int d = 0; d < out->dim; d++)
                    compare_element(p, part, s, i, head, d);
    if (!tensor_untouched_outside(out, p->cu[p->args.batch], &at))
        verify_fail(p->row, "%s: memory that belongs to no row was written",
                    part == CACHE_K ? "k_out" : "v_out");
}

static void compare(struct problem *p)
{
    compare_part(p, CACHE_K);
    compare_part(p, CACHE_V);
    p->row->relative = p->norm > 0 ? sqrt(p->error / p->norm) : sqrt(p->error);
    p->row->relative_bound = p->norm > 0 ? sqrt(p->bound / p->norm) : 0;
}

/* Inputs. */

static void set_lengths(struct problem *p)
{
    const struct shape *shape = p->shape;
    struct attn_cache_gather_args *a = &p->args;
    a->batch = shape->count;
    for (int s = 0; s < shape->count; s++) {
        const int rows = shape->sequences[s].end - shape->sequences[s].first;
        p->lens[s] = shape->sequences[s].tokens;
        p->starts[s] = shape->sequences[s].first;
        p->cu[s + 1] = p->cu[s] + rows;
        a->max_seqlen_k = rows > a->max_seqlen_k ? rows : a->max_seqlen_k;
    }
    const bool padded = shape->flags & PADDED;
    a->total_k = p->cu[shape->count] + (padded ? 5 : 0);
    a->max_seqlen_k += padded ? 100 : 0;
}

static void make_outputs(struct problem *p)
{
    const struct attn_cache_gather_desc *d = &p->desc;
    p->out[CACHE_K] = tensor_dense(p->precision, p->args.total_k, d->kv_heads, d->head_dim);
    p->out[CACHE_V] = tensor_dense(p->precision, p->args.total_k, d->kv_heads, d->head_dim_v);
    for (int part = 0; p->shape->flags & VIEWS && part < CACHE_PARTS; part++) {
        struct tensor *t = &p->out[part];
        t->head_stride = t->dim + 8;
        t->token_stride = d->kv_heads * t->head_stride + 24;
    }
}

static void upload(struct problem *p)
{
    struct attn_cache_gather_args *a = &p->args;
    struct device_memory *m = &p->memory;
    a->k_out = tensor_upload(&p->out[CACHE_K], m);
    a->v_out = tensor_upload(&p->out[CACHE_V], m);
    a->k_out_token_stride = p->out[CACHE_K].token_stride;
    a->k_out_head_stride = p->out[CACHE_K].head_stride;
    a->v_out_token_stride = p->out[CACHE_V].token_stride;
    a->v_out_head_stride = p->out[CACHE_V].head_stride;
    a->cu_seqlens_k = device_copy(m, p->cu, sizeof(p->cu));
    a->seq_starts = p->shape->flags & WHOLE ? NULL : device_copy(m, p->starts, sizeof(p->starts));
    sequence_pages_upload(&p->pages, p->desc.page_table, p->shape->flags & VIEWS, m, &a->cache,
                          &a->pages);
}

/* Runs. */

static void run_problem(struct problem *p)
{
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    for (int part = 0; part < CACHE_PARTS; part++)
        tensor_download(&p->out[part], &p->memory);
    if (verify_copied(&p->memory, p->row))
        compare(p);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_cache_gather_desc *desc)
{
    const struct shape *shape = &shapes[i];
    struct verify_row row = {.kernel = info->name, .shape = shape->name};
    struct problem p = {
        .run = run,
        .shape = shape,
        .precision = find_cache_precision(desc->dtype, ""),
        .desc = *desc,
        .row = &row,
        .args = {.size = sizeof(p.args)},
        .memory = {.gpu = run->gpu},
    };
    uint64_t random = run->seed * 1000003 + i;
    p.desc.kv_heads = shape->kv_heads;
    p.desc.cache.page_size = verify_page_size(&desc->cache, shape->page_size);
    /* A page size for which the pack has no kernel of its own that lookup would rather take. */
    for (int step = 1; step < PAGE_STEPS && !verify_takes(run, &p.desc, info->name); step++)
        p.desc.cache.page_size *= 2;
    set_lengths(&p);
    p.pages.count = shape->count;
    p.pages.lens = p.lens;
    sequence_pages_make(&p.pages, &p.desc.cache, run->gpu->target, p.desc.kv_heads, desc->head_dim,
                        desc->head_dim_v, shape->flags & FAR, shape->flags & VIEWS, &random);
    make_outputs(&p);
    upload(&p);
    run_problem(&p);
    device_free(&p.memory);
    for (int part = 0; part < CACHE_PARTS; part++)
        tensor_free(&p.out[part]);
    sequence_pages_free(&p.pages);
    verify_report(run, &row);
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    const struct attn_cache_gather_desc desc = {
        .size = sizeof(desc),
        .dtype = precision ? precision->dtype : 0,
        .head_dim = atoi(verify_field(run->pack, n, "head_dim")),
        .head_dim_v = atoi(verify_field(run->pack, n, "head_dim_v")),
        .cache = verify_cache_desc(run->pack, n),
        .page_table = verify_page_table(run->pack, n),
    };
    if (!precision) {
        verify_report_fault(run, info->name, "no reference covers its dtype");
        return;
    }
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i, &desc);
}

const struct verify_family verify_cache_gather = {.op = "cache_gather", .verify = verify};
