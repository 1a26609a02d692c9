/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for cache_write kernels: every byte of the cache, before and after.
 *
 * With a scale per page the tokens of a call that go to one page follow each other, so shapes whose
 * tokens stand in any order, or leave some out, do it by the page then.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/verify/verify.h"
#include "tools/verify/cache.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { RUNS_MAX = 6, PAGE_STEPS = 4, LAUNCHES = 20 };

enum {
    SHUFFLED = 1 << 0, /* slots in random order */
    GAPS = 1 << 1,     /* every third token goes nowhere */
    VIEWS = 1 << 2,    /* k_in and v_in are parts of one tensor; strides in the cache */
    FAR = 1 << 3,      /* pages spread over 4 GiB and more */
    HUGE = 1 << 4,     /* numbers beyond what the cache can hold; rows of zeros */
    STEPS = 1 << 5,    /* LAUNCHES calls one after the other, for scales that a page shares */
};

/*
 * The matrix of shapes: tokens that follow each other in a sequence, from which position on, and
 * the page size for kernels that take any. The pages of a sequence are anywhere.
 */
static const struct shape {
    const char *name;
    unsigned flags;
    int page_size, kv_heads;
    int count;
    struct {
        int first, tokens;
    } runs[RUNS_MAX];
} shapes[] = {
    {"one", 0, 16, 2, 1, {{0, 1}}},
    {"none", 0, 16, 1, 0, {{0, 0}}},
    {"whole pages", 0, 16, 2, 1, {{0, 96}}},
    {"sequences", 0, 32, 1, 4, {{0, 37}, {30, 3}, {5, 70}, {63, 1}}},
    {"decode", 0, 64, 3, 5, {{63, 1}, {0, 1}, {64, 1}, {7, 1}, {130, 1}}},
    {"any order", SHUFFLED, 16, 1, 2, {{0, 40}, {3, 50}}},
    {"padded", GAPS, 128, 2, 2, {{0, 64}, {120, 20}}},
    {"views", VIEWS, 64, 2, 2, {{0, 50}, {60, 9}}},
    {"beyond 4 GiB", FAR, 16, 1, 2, {{0, 20}, {9, 30}}},
    {"huge numbers", HUGE, 16, 1, 1, {{0, 33}}},
    {"steps", STEPS, 16, 2, 4, {{0, 1}, {5, 1}, {14, 1}, {31, 1}}},
    {"drafts", STEPS, 32, 1, 3, {{0, 4}, {29, 2}, {7, 3}}},
    {"single slots", 0, 1, 1, 2, {{0, 9}, {4, 5}}},
};

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision;
    struct attn_cache_write_desc desc;
    struct attn_cache_write_args args;
    struct tensor q, in[CACHE_PARTS]; /* q: what else is in the tensor of which in[] are views */
    struct paged_cache cache;         /* after the launch what the device has */
    struct paged_cache before;
    int32_t *pages;                      /* of the runs, one after the other */
    int64_t *slots;                      /* [tokens] */
    int step;                            /* calls so far, each with as many tokens of every run */
    struct device_memory memory, inputs; /* the cache; what one call is given */
    struct verify_row *row;
    double error, norm, bound; /* sums of squares */
};

/* Comparison. */

static void note_fault(struct problem *p, const char *what, const char *part, int64_t slot,
                       int head, int d, double got, double expected)
{
    verify_fail(p->row, "%s: %s of slot %lld, head %d, element %d is %g, expected %g", what, part,
                (long long)slot, head, d, got, expected);
}

static const char *const part_names[] = {"k", "v"};

/*
 * What a number x may become. With u = precision->unit and tiny = precision->tiny, rounding is off
 * by u |x| or tiny; a scaled number by tiny times the scale, and x * inverse is a float32 product
 * of an inverse that is off by 1 ulp of a float32 (2^-23) of a scale that is off by as much: four
 * units of 2^-23 in all may shift where it is rounded. What is beyond the largest number is it.
 */
static double nearest(const struct problem *p, double x, double scale, double *bound)
{
    const struct precision *c = p->cache.precision;
    const double most = x < 0 && c->dtype == ATTN_INT8 ? c->limit + 1 : c->limit;
    const double largest = scale * most, arithmetic = 4 * 0x1p-23 * fabs(x);
    *bound = 0;
    if (c->dtype == p->desc.dtype)
        return x;
    if (fabs(x) >= largest) {
        *bound = arithmetic;
        return copysign(largest, x);
    }
    *bound = fmax(c->unit * fabs(x), c->tiny * scale) + arithmetic;
    return x;
}

/* What is stored for x, which the device has made of it. */
static void compare_element(struct problem *p, enum cache_part part, int64_t slot, int head, int d,
                            double x)
{
    const int page = (int)(slot / p->desc.cache.page_size);
    const int at = (int)(slot % p->desc.cache.page_size);
    const bool scaled = p->desc.cache.scale != ATTN_KV_SCALE_NONE;
    const double scale = scaled ? *cache_scale(&p->cache, part, page, at, head) : 1;
    double bound;
    const double expected = nearest(p, x, scale, &bound);
    const double got = cache_value(&p->cache, part, page, at, head, d);
    const double error = fabs(got - expected);
    p->error += error * error;
    p->norm += expected * expected;
    p->bound += bound * bound;
    if (!(error <= bound))
        note_fault(p, "wrong", part_names[part], slot, head, d, got, expected);
    if (bound > 0 && error * p->row->largest_bound >= p->row->largest * bound) {
        p->row->largest = error;
        p->row->largest_bound = bound;
    }
    cache_set_bits(&p->cache, part, page, at, head, d,
                   cache_bits(&p->before, part, page, at, head, d));
}

/* The largest |x| over the largest number, a float32 product of a constant rounded to float32. */
static void compare_scale(struct problem *p, enum cache_part part, int64_t slot, int token,
                          int head)
{
    const int page = (int)(slot / p->desc.cache.page_size);
    const int at = (int)(slot % p->desc.cache.page_size);
    double largest = 0;
    for (int d = 0; d < p->in[part].dim; d++)
        largest = fmax(largest, fabs(tensor_value(&p->in[part], token, head, d)));
    const double expected = largest / p->cache.precision->limit;
    float *scale = cache_scale(&p->cache, part, page, at, head);
    if (!(fabs(*scale - expected) <= 0x1p-23 * expected))
        note_fault(p, "wrong scale", part_names[part], slot, head, 0, *scale, expected);
    *scale = *cache_scale(&p->before, part, page, at, head);
}

static void compare_token(struct problem *p, enum cache_part part, int token)
{
    const int64_t slot = p->slots[token];
    for (int head = 0; head < p->desc.kv_heads && slot >= 0; head++) {
        for (int d = 0; d < p->in[part].dim; d++)
            compare_element(p, part, slot, head, d, tensor_value(&p->in[part], token, head, d));
        if (p->desc.cache.scale == ATTN_KV_SCALE_TOKEN)
            compare_scale(p, part, slot, token, head);
    }
}

static double expected_scale(const struct problem *p, enum cache_part part, int token, int end,
                             int head, double old)
{
    const struct tensor *in = &p->in[part];
    const int64_t count = (int64_t)(end - token) * in->dim;
    double *x = malloc((size_t)count * sizeof(*x));
    if (!x)
        abort();
    for (int64_t i = 0; i < count; i++)
        x[i] = tensor_value(in, token + (int)(i / in->dim), head, (int)(i % in->dim));
    const int begin = (int)(p->slots[token] % p->desc.cache.page_size);
    const double scale = ref_cache_block_scale(x, count, begin, old, p->cache.precision->limit);
    free(x);
    return scale;
}

/* The scale of a page, as far off as that of a token, and what had another one before. */
static void compare_run(struct problem *p, enum cache_part part, int token, int end, int head)
{
    const int64_t slot = p->slots[token];
    const int page = (int)(slot / p->desc.cache.page_size);
    const int begin = (int)(slot % p->desc.cache.page_size);
    const float old = *cache_scale(&p->before, part, page, 0, head);
    float *scale = cache_scale(&p->cache, part, page, 0, head);
    const double expected = expected_scale(p, part, token, end, head, old);
    const bool kept = begin > 0 && expected == old;
    if (kept ? *scale != old : !(fabs(*scale - expected) <= 0x1p-23 * expected))
        note_fault(p, "wrong scale", part_names[part], slot, head, 0, *scale, expected);
    for (int at = 0; at < begin && *scale != old; at++) {
        for (int d = 0; d < p->in[part].dim; d++)
            compare_element(p, part, slot - begin + at, head, d,
                            cache_value(&p->before, part, page, at, head, d));
    }
    *scale = old;
}

static void compare_runs(struct problem *p, enum cache_part part)
{
    for (int token = 0, end; token < p->args.tokens; token = end) {
        end = cache_run_end(&p->cache, p->slots, p->args.tokens, token);
        for (int head = 0; head < p->desc.kv_heads && p->slots[token] >= 0; head++)
            compare_run(p, part, token, end, head);
    }
}

static void compare(struct problem *p)
{
    struct verify_row *row = p->row;
    for (int part = 0; part < CACHE_PARTS; part++) {
        for (int token = 0; token < p->args.tokens; token++)
            compare_token(p, part, token);
        if (p->desc.cache.scale == ATTN_KV_SCALE_BLOCK)
            compare_runs(p, part);
        if (!cache_same(&p->cache, &p->before, part))
            verify_fail(row,
                        "bytes of %s or its scales that belong to no slot of slot_mapping "
                        "were written",
                        part_names[part]);
    }
    row->relative = p->norm > 0 ? sqrt(p->error / p->norm) : sqrt(p->error);
    row->relative_bound = p->norm > 0 ? sqrt(p->bound / p->norm) : 0;
}

/* Inputs. */

static int launches(const struct problem *p) { return p->shape->flags & STEPS ? LAUNCHES : 1; }

static int count_pages(const struct problem *p, int i)
{
    const int size = p->desc.cache.page_size;
    const int tokens = p->shape->runs[i].tokens * launches(p);
    return (p->shape->runs[i].first + tokens + size - 1) / size;
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t t = *a;
    *a = *b;
    *b = t;
}

static void reverse(int64_t *a, int count)
{
    for (int i = 0; i < count / 2; i++)
        swap(&a[i], &a[count - 1 - i]);
}

/* The last page's tokens first. */
static void reverse_pages(struct problem *p)
{
    reverse(p->slots, p->args.tokens);
    for (int i = 0, end; i < p->args.tokens; i = end) {
        for (end = i + 1; end < p->args.tokens && p->slots[end] == p->slots[end - 1] - 1 &&
                          p->slots[end - 1] % p->desc.cache.page_size;
             end++)
            continue;
        reverse(&p->slots[i], end - i);
    }
}

static void change_slots(struct problem *p, uint64_t *random)
{
    const bool whole = p->desc.cache.scale == ATTN_KV_SCALE_BLOCK;
    const int tokens = p->args.tokens, size = p->desc.cache.page_size;
    if (p->shape->flags & SHUFFLED && whole)
        reverse_pages(p);
    for (int i = tokens - 1; p->shape->flags & SHUFFLED && !whole && i > 0; i--)
        swap(&p->slots[i], &p->slots[random_bits(random) % (uint64_t)(i + 1)]);
    for (int i = 0; p->shape->flags & GAPS && i < tokens; i++) {
        const bool gap = whole ? i >= tokens - 3 || p->slots[i] % size * 3 > size * 2 : i % 3 == 2;
        if (gap)
            p->slots[i] = i % 2 ? -1 : INT64_MIN;
    }
}

/* The slots of all runs in this step. */
static void make_slots(struct problem *p, uint64_t *random)
{
    const struct shape *shape = p->shape;
    const int size = p->desc.cache.page_size;
    for (int i = 0, token = 0, first = 0; i < shape->count; first += count_pages(p, i++)) {
        for (int t = 0; t < shape->runs[i].tokens; t++, token++) {
            const int at = shape->runs[i].first + p->step * shape->runs[i].tokens + t;
            p->slots[token] = (int64_t)p->pages[first + at / size] * size + at % size;
        }
    }
    change_slots(p, random);
}

/* Of all runs, and some that stay empty. Returns how many there are. */
static int make_pages(struct problem *p, uint64_t *random)
{
    int used = 0, tokens = 0;
    for (int i = 0; i < p->shape->count; i++) {
        used += count_pages(p, i);
        tokens += p->shape->runs[i].tokens;
    }
    /* Far apart: 64 MiB from a page to the next, and those in use are the last. */
    const bool far = p->shape->flags & FAR;
    const int spare = far ? 64 : 3;
    p->pages = shuffled_pages(used + spare, random);
    for (int i = 0; far && i < used; i++)
        p->pages[i] = spare + i;
    p->args.tokens = tokens;
    p->slots = malloc(((size_t)tokens + 1) * sizeof(*p->slots));
    return used + spare;
}

static void make_inputs(struct problem *p)
{
    const struct attn_cache_write_desc *d = &p->desc;
    const int heads = d->kv_heads, q = 3 * heads * d->head_dim;
    struct tensor *k = &p->in[CACHE_K], *v = &p->in[CACHE_V];
    p->q = tensor_dense(p->precision, p->args.tokens, 3 * heads, d->head_dim);
    *k = tensor_dense(p->precision, p->args.tokens, heads, d->head_dim);
    *v = tensor_dense(p->precision, p->args.tokens, heads, d->head_dim_v);
    if (p->shape->flags & VIEWS) {
        p->q.token_stride = q + heads * (d->head_dim + d->head_dim_v);
        k->token_stride = v->token_stride = p->q.token_stride;
        tensor_place_inside(k, &p->q, q);
        tensor_place_inside(v, &p->q, q + heads * d->head_dim);
    }
}

static void fill_inputs(struct problem *p, uint64_t *random)
{
    tensor_fill(&p->q, random);
    tensor_fill(&p->in[CACHE_K], random);
    tensor_fill(&p->in[CACHE_V], random);
    for (int part = 0; p->shape->flags & HUGE && part < CACHE_PARTS; part++) {
        for (int i = 0; i < p->in[part].dim; i++) {
            tensor_set(&p->in[part], 1, 0, i, 0);
            tensor_set(&p->in[part], 2, 0, i, i % 2 ? 128 * (1 + i % 255) : -1024);
            tensor_set(&p->in[part], p->args.tokens - 1, 0, i, 0);
        }
    }
}

/* Before the launch some slots have tokens, and the scale of a tensor is there. */
static void make_cache(struct problem *p, int pages, uint64_t *random)
{
    const struct attn_cache_write_desc *d = &p->desc;
    const int size = d->cache.page_size;
    const bool block = d->cache.scale == ATTN_KV_SCALE_BLOCK;
    cache_init(&p->cache, &d->cache, p->run->gpu->target, d->kv_heads, d->head_dim, d->head_dim_v,
               pages, p->shape->flags & VIEWS);
    if (p->shape->flags & FAR)
        cache_spread(&p->cache, 64 << 20);
    for (int page = p->shape->flags & FAR ? 64 : 0; page < pages; page++) {
        if (!block || page % 2 || p->shape->flags & FAR)
            cache_fill_token(&p->cache, page, page % size, random);
    }
    const int tokens = p->args.tokens;
    for (int token = 0, end; block && token < tokens; token = end) {
        end = cache_run_end(&p->cache, p->slots, tokens, token);
        if (p->slots[token] >= 0)
            cache_fill_page(&p->cache, (int)(p->slots[token] / size), (int)(p->slots[token] % size),
                            random);
    }
    cache_copy(&p->before, &p->cache);
}

static void upload_inputs(struct problem *p)
{
    struct attn_cache_write_args *a = &p->args;
    struct device_memory *m = &p->inputs;
    if (p->shape->flags & VIEWS)
        tensor_upload(&p->q, m);
    a->k_in = tensor_upload(&p->in[CACHE_K], m);
    a->v_in = tensor_upload(&p->in[CACHE_V], m);
    a->k_in_token_stride = p->in[CACHE_K].token_stride;
    a->k_in_head_stride = p->in[CACHE_K].head_stride;
    a->v_in_token_stride = p->in[CACHE_V].token_stride;
    a->v_in_head_stride = p->in[CACHE_V].head_stride;
    a->slot_mapping = device_copy(m, p->slots, ((size_t)a->tokens + 1) * sizeof(*p->slots));
}

/* Runs. */

/* What a launch has left is what the next one finds. */
static void run_step(struct problem *p)
{
    struct paged_cache after;
    if (!verify_copied(&p->inputs, p->row) ||
        !verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    cache_download(&p->cache, &p->memory);
    if (!verify_copied(&p->memory, p->row))
        return;
    cache_copy(&after, &p->cache);
    compare(p);
    cache_free(&p->before);
    p->before = after;
}

static void run_problem(struct problem *p, uint64_t *random)
{
    run_step(p);
    for (p->step = 1; p->step < launches(p) && !p->row->fault[0]; p->step++) {
        make_slots(p, random);
        fill_inputs(p, random);
        device_free(&p->inputs);
        upload_inputs(p);
        run_step(p);
    }
}

/* For a kernel of any page size the shape's, or the next for which the pack has no other kernel. */
static void choose_page_size(const struct verify_run *run, const struct shape *shape,
                             const char *kernel, struct attn_cache_write_desc *desc)
{
    const int chunk = 16 / find_cache_precision(desc->cache.dtype, run->gpu->target)->size;
    const int least = desc->cache.layout == ATTN_KV_SHUFFLE ? chunk : 1;
    for (int i = 0; i < PAGE_STEPS; i++) {
        desc->cache.page_size = (shape->page_size < least ? least : shape->page_size) << i;
        if (verify_takes(run, desc, kernel))
            return;
    }
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_cache_write_desc *desc)
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
        .inputs = {.gpu = run->gpu},
    };
    p.desc.kv_heads = shape->kv_heads;
    if (!desc->cache.page_size)
        choose_page_size(run, shape, info->name, &p.desc);
    uint64_t random = run->seed * 1000003 + i;
    const int pages = make_pages(&p, &random);
    make_slots(&p, &random);
    make_inputs(&p);
    fill_inputs(&p, &random);
    make_cache(&p, pages, &random);
    upload_inputs(&p);
    cache_upload(&p.cache, &p.memory, &p.args.cache);
    run_problem(&p, &random);
    device_free(&p.inputs);
    device_free(&p.memory);
    for (int part = 0; part < CACHE_PARTS; part++)
        tensor_free(&p.in[part]);
    tensor_free(&p.q);
    cache_free(&p.cache);
    cache_free(&p.before);
    free(p.slots);
    free(p.pages);
    verify_report(run, &row);
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    const struct attn_cache_write_desc desc = {
        .size = sizeof(desc),
        .dtype = precision ? precision->dtype : 0,
        .head_dim = atoi(verify_field(run->pack, n, "head_dim")),
        .head_dim_v = atoi(verify_field(run->pack, n, "head_dim_v")),
        .cache = verify_cache_desc(run->pack, n),
    };
    if (!precision) {
        verify_report_fault(run, info->name, "no reference covers its dtype");
        return;
    }
    const bool block = desc.cache.scale == ATTN_KV_SCALE_BLOCK;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++) {
        if (block || !(shapes[i].flags & STEPS))
            verify_shape(run, info, i, &desc);
    }
}

const struct verify_family verify_cache_write = {.op = "cache_write", .verify = verify};
