/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for combine kernels: the lists of parts, the inputs, and how far a kernel may be
 * off.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify/verify.h"
#include "tools/verify/tensor.h"
#include "tools/reference/combine.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { TILES_MAX = 8, SPLITS_MAX = 70 };

enum {
    CSR = 1 << ATTN_PARTIALS_CSR,
    DENSE = 1 << ATTN_PARTIALS_DENSE,
    PAIR = 1 << ATTN_PARTIALS_PAIR,
};

enum {
    SINKS = 1 << 0,
    NO_LSE = 1 << 1,   /* none is asked for */
    EMPTY = 1 << 2,    /* many parts saw no key: lse of either infinity, NaNs in their rows */
    APART = 1 << 3,    /* lse from -1000 to 1000: one part outweighs the others */
    VIEWS = 1 << 4,    /* out and the states have gaps; lse is [token, head] */
    COUNTS = 1 << 5,   /* dense: split_counts says how many splits of a token were written */
    IN_PLACE = 1 << 6, /* pair: out is prefix, which has the same type */
    FAR = 1 << 7,      /* csr: partial_out reaches beyond 4 GiB, with rows far apart */
};

/* Tiles: query tokens that share a list of so many parts. Dense and pair have tokens alone; a pair
 * has two parts, whatever stands here. */
static const struct shape {
    const char *name;
    unsigned schemes, flags;
    int heads;
    struct {
        int tokens, parts;
    } tiles[TILES_MAX];
} shapes[] = {
    {"one", CSR | DENSE | PAIR, 0, 1, {{1, 2}}},
    {"lists", CSR, SINKS, 12, {{1, 2}, {1, 0}, {1, 1}, {1, 5}, {2, 0}, {1, 17}}},
    {"lists", DENSE, SINKS, 12, {{1, 2}, {1, 1}, {1, 5}, {1, 17}}},
    {"tokens", CSR | PAIR, NO_LSE, 5, {{4, 3}, {1, 2}, {3, 4}, {2, 16}}},
    {"long", CSR | DENSE, 0, 2, {{1, 67}, {1, 33}}},
    {"many tokens", PAIR, SINKS, 3, {{70, 2}}},
    {"empty", CSR | DENSE | PAIR, EMPTY, 3, {{1, 3}, {2, 2}, {1, 9}, {2, 21}}},
    {"empty, sinks", CSR | DENSE | PAIR, EMPTY | SINKS, 2, {{2, 2}, {1, 3}, {1, 1}}},
    {"far apart", CSR | DENSE | PAIR, APART, 6, {{1, 4}, {2, 19}, {1, 2}}},
    {"views", CSR | DENSE | PAIR, VIEWS | SINKS, 7, {{1, 2}, {2, 6}, {1, 3}}},
    {"unwritten", DENSE, COUNTS, 4, {{1, 3}, {1, 0}, {1, 1}, {1, 20}, {1, 70}}},
    {"in place", PAIR, IN_PLACE, 2, {{40, 2}}},
    {"beyond 4 GiB", CSR, FAR, 2, {{1, 3}, {2, 2}}},
};

/* One kernel on one shape. */
struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision, *out_precision;
    struct attn_combine_desc desc;
    struct attn_combine_args args;
    int tokens, tiles;
    int first[TILES_MAX + 1]; /* token of each tile, and their number */
    int32_t indptr[TILES_MAX + 1], *map;
    int32_t *device_map; /* differs where rows are spread */
    int rows;            /* of parts: [row, head] */
    double *o, *lse;
    float *sinks, out_scale;
    struct tensor out, out_lse, prefix, suffix, prefix_lse, suffix_lse;
    struct device_memory memory;
    struct verify_row *row;
};

static bool is(const struct problem *p, unsigned flags) { return p->shape->flags & flags; }
static bool scheme(const struct problem *p, enum attn_partials s) { return p->desc.partials == s; }

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* Parts of a token, in the order of the list. */

static int tile_of(const struct problem *p, int token)
{
    int tile = 0;
    while (p->first[tile + 1] <= token)
        tile++;
    return tile;
}

static int count_parts(const struct problem *p, int token)
{
    return scheme(p, ATTN_PARTIALS_PAIR) ? 2 : p->shape->tiles[tile_of(p, token)].parts;
}

static int row_of(const struct problem *p, int token, int part)
{
    const int tile = tile_of(p, token);
    if (scheme(p, ATTN_PARTIALS_CSR))
        return p->map[p->indptr[tile] + part] + token - p->first[tile];
    return scheme(p, ATTN_PARTIALS_DENSE) ? token * p->args.splits + part
                                          : part * p->tokens + token;
}

/* What the kernel is to leave alone: the tokens of a tile without parts. */
static bool is_untouched(const struct problem *p, int token)
{
    return scheme(p, ATTN_PARTIALS_CSR) && count_parts(p, token) == 0;
}

/* Bounds. */

/*
 * With f = 2^-24, the unit of float32, u that of out, p_k the weights and d_k how far lse_k is
 * below the largest:
 *
 *   e^(lse_k - m) is 2^((lse_k - m) log2 e): a difference, a constant and a product, each rounded,
 *     put the exponent off by 3 f d_k in all, and 2^x is off by one ulp, 2 f. A running maximum
 *     splits d_k into steps that add up to it, each with 2 f for the power and f for the product;
 *     there are fewer than n of them, and 3 more where waves meet;
 *   n such terms are added, of which products and sums are rounded: 2 n f more. So the weight of
 *     part k is off by f (3 d_k + 5 n + 16), and the denominator by the mean of that;
 *   the reciprocals, the scale and the last product: 4 f, which the 16 have room for;
 *   a weight below 2^-126 may be lost: 2^-126 |o|;
 *   what that makes of out is rounded: u |out| + tiny, and u of the error before it.
 */
static const double f = 0x1p-24;

static double relative_error(const struct ref_combine_row *r, int parts, double distance)
{
    return f * (3 * (distance + r->lse_distance) + 2 * (5 * parts + 16));
}

static double arithmetic_bound(const struct ref_combine_row *r, int parts, int d)
{
    return relative_error(r, parts, 0) * r->magnitude[d] + 3 * f * r->distance[d] +
           0x1p-126 * r->values[d];
}

static double lse_bound(const struct ref_combine_row *r, int parts)
{
    return relative_error(r, parts, 0) + 4 * f * (fabs(r->lse) + r->largest);
}

struct sums {
    double error, norm, rounded, arithmetic; /* of squares */
    double closest;
};

static void note_fault(struct problem *p, const char *what, int token, int head, int d, double got,
                       double expected)
{
    verify_fail(p->row, "%s: token %d, head %d, element %d is %g, expected %g", what, token, head,
                d, got, expected);
}

static void compare_element(struct problem *p, struct sums *s, const struct ref_combine_row *r,
                            int token, int head, int d)
{
    const struct precision *precision = p->out_precision;
    const int parts = count_parts(p, token);
    const double scale = p->out_scale, u = precision->unit;
    const double expected = fmin(fmax(r->out[d] / scale, -precision->limit), precision->limit);
    const double got = tensor_get(&p->out, token, head, d), error = fabs(got - expected);
    const double arithmetic = arithmetic_bound(r, parts, d) / scale + precision->tiny;
    const double bound = u * fabs(expected) + (1 + u) * arithmetic;
    s->error += error * error;
    s->norm += expected * expected;
    s->arithmetic += arithmetic * arithmetic;
    if (!(error <= bound))
        note_fault(p, isnan(got) ? "not written, or NaN" : "out", token, head, d, got, expected);
    if (bound > 0 && error / bound >= s->closest) {
        s->closest = error / bound;
        p->row->largest = error;
        p->row->largest_bound = bound;
    }
}

static void compare_row(struct problem *p, struct sums *s, int token, int head)
{
    struct ref_combine_part parts[SPLITS_MAX];
    struct ref_combine_row r;
    const int n = count_parts(p, token), heads = p->desc.heads, dim = p->desc.head_dim;
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)row_of(p, token, i) * heads + head;
        parts[i] = (struct ref_combine_part){&p->o[at * dim], p->lse[at]};
    }
    ref_combine_row(parts, n, is(p, SINKS) ? p->sinks[head] : -INFINITY, dim, &r);
    for (int d = 0; d < dim; d++)
        compare_element(p, s, &r, token, head, d);
    if (is(p, NO_LSE))
        return;
    const double got = tensor_get(&p->out_lse, token, head, 0);
    if (isinf(r.lse) ? got != r.lse : !(fabs(got - r.lse) <= lse_bound(&r, n)))
        note_fault(p, "lse", token, head, 0, got, r.lse);
}

/* The elements of a token that must still be poisoned, which is a NaN. */
static void check_untouched(struct problem *p, int token)
{
    for (int head = 0; head < p->desc.heads; head++) {
        for (int d = 0; d < p->desc.head_dim; d++) {
            if (!isnan(tensor_get(&p->out, token, head, d)))
                note_fault(p, "written, without parts", token, head, d,
                           tensor_get(&p->out, token, head, d), NAN);
        }
        if (!is(p, NO_LSE) && !isnan(tensor_get(&p->out_lse, token, head, 0)))
            note_fault(p, "lse written, without parts", token, head, 0,
                       tensor_get(&p->out_lse, token, head, 0), NAN);
    }
}

static void compare(struct problem *p)
{
    struct sums s = {0};
    for (int token = 0; token < p->tokens; token++) {
        if (is_untouched(p, token)) {
            check_untouched(p, token);
            continue;
        }
        for (int head = 0; head < p->desc.heads; head++)
            compare_row(p, &s, token, head);
    }
    /* One rounding of each element, at most u of it; the arithmetic's bounds add as they are. */
    const double u = p->out_precision->unit;
    struct verify_row *row = p->row;
    row->relative = s.norm > 0 ? sqrt(s.error / s.norm) : sqrt(s.error);
    row->relative_bound = s.norm > 0 ? u + (1 + u) * sqrt(s.arithmetic / s.norm) : 0;
    if (!(row->relative <= row->relative_bound))
        verify_fail(row, "the relative error of the whole is beyond its bound");
}

/* Inputs. */

/* Parts of a tile lie in blocks of rows, the later ones before the earlier, with room between. */
static void make_lists(struct problem *p)
{
    int parts = 0, longest = 1;
    for (int t = 0; t < TILES_MAX && p->shape->tiles[t].tokens; t++) {
        p->first[t + 1] = p->first[t] + p->shape->tiles[t].tokens;
        p->indptr[t + 1] = parts += p->shape->tiles[t].parts;
        if (longest < p->shape->tiles[t].tokens)
            longest = p->shape->tiles[t].tokens;
        p->tiles = t + 1;
    }
    for (int t = p->tiles; t < TILES_MAX; t++)
        p->first[t + 1] = INT32_MAX;
    p->tokens = p->first[p->tiles];
    p->map = allocate((size_t)parts, sizeof(*p->map));
    p->device_map = allocate((size_t)parts, sizeof(*p->map));
    for (int i = 0; i < parts; i++)
        p->device_map[i] = p->map[i] = (parts - 1 - i) * (longest + 1);
    p->args.q_len = longest;
    p->args.reduce_tiles = p->tiles;
    p->args.total_q = p->tokens;
    for (int t = 0; t < p->tiles; t++) {
        if (p->args.splits < p->shape->tiles[t].parts)
            p->args.splits = p->shape->tiles[t].parts;
    }
    p->rows = scheme(p, ATTN_PARTIALS_CSR)     ? parts * (longest + 1)
              : scheme(p, ATTN_PARTIALS_DENSE) ? p->tokens * p->args.splits
                                               : 2 * p->tokens;
}

static double random_lse(const struct problem *p, uint64_t *random)
{
    if (is(p, EMPTY) && random_bits(random) % 5 < 3)
        return random_bits(random) & 1 ? INFINITY : -INFINITY;
    return (float)(random_value(random) * (is(p, APART) ? 500 : 3));
}

/* Of a state of a pair: a value of dtype; else of float32. */
static double random_out(const struct problem *p, uint64_t *random)
{
    return scheme(p, ATTN_PARTIALS_PAIR) ? random_value(random)
                                         : (float)((double)random_bits(random) * 0x1p-63 - 1);
}

/* Every row that is a part gets values; the others, and those of empty parts, are NaNs. Without
 * split_counts it is their lse that says so. */
static void make_parts(struct problem *p, uint64_t *random)
{
    const int heads = p->desc.heads, dim = p->desc.head_dim;
    const size_t count = (size_t)p->rows * heads;
    p->o = allocate(count * dim, sizeof(*p->o));
    p->lse = allocate(count, sizeof(*p->lse));
    p->sinks = allocate((size_t)heads, sizeof(*p->sinks));
    const bool said = scheme(p, ATTN_PARTIALS_DENSE) && !is(p, COUNTS);
    for (size_t i = 0; i < count; i++)
        p->lse[i] = said ? -INFINITY : NAN;
    for (size_t i = 0; i < count * dim; i++)
        p->o[i] = NAN;
    for (int token = 0; token < p->tokens; token++) {
        for (int i = 0; i < count_parts(p, token) * heads; i++) {
            const size_t at = (size_t)row_of(p, token, i / heads) * heads + i % heads;
            p->lse[at] = random_lse(p, random);
            for (int d = 0; d < dim && !isinf(p->lse[at]); d++)
                p->o[at * dim + d] = random_out(p, random);
        }
    }
    for (int h = 0; h < heads; h++)
        p->sinks[h] = (float)(2 * random_value(random));
    /* fp8 in most of its range, and beyond it where one part outweighs the others. */
    p->out_scale = p->out_precision->dtype == ATTN_FP8 ? 0.002f : 1;
}

static float *floats(const double *values, size_t count)
{
    float *copy = allocate(count, sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = (float)values[i];
    return copy;
}

static const float *upload_floats(struct problem *p, const double *values, size_t count)
{
    float *copy = floats(values, count);
    const float *device = device_copy(&p->memory, copy, count * sizeof(*copy));
    free(copy);
    return device;
}

/* A block of rows gets a GiB of partial_out for itself, which holds nothing else. */
static void spread_rows(struct problem *p, int blocks)
{
    struct attn_combine_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const size_t heads = (size_t)p->desc.heads, row = heads * p->desc.head_dim * sizeof(float);
    const int per = p->rows / blocks;
    const size_t apart = ((size_t)1 << 30) / row;
    char *out = device_allocate(m, blocks * apart * row);
    char *lse = device_allocate(m, blocks * apart * heads * sizeof(float));
    float *o = floats(p->o, p->rows * heads * p->desc.head_dim);
    float *l = floats(p->lse, p->rows * heads);
    for (int i = 0; i < blocks; i++) {
        device_write(m, out + i * apart * row, (char *)o + i * per * row, per * row);
        device_write(m, lse + i * apart * heads * sizeof(float), l + i * per * heads,
                     per * heads * sizeof(float));
        p->device_map[i] = p->map[i] / per * (int32_t)apart;
    }
    free(o);
    free(l);
    a->partial_out = (const float *)out;
    a->partial_lse = (const float *)lse;
    a->partial_rows = (int32_t)(blocks * apart);
}

/* partial_out and partial_lse, and the lists. */
static void upload_lists(struct problem *p)
{
    struct attn_combine_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const size_t count = (size_t)p->rows * p->desc.heads;
    if (is(p, FAR)) {
        spread_rows(p, p->indptr[p->tiles]);
    } else {
        a->partial_out = upload_floats(p, p->o, count * p->desc.head_dim);
        a->partial_lse = upload_floats(p, p->lse, count);
        a->partial_rows = p->rows;
    }
    if (scheme(p, ATTN_PARTIALS_CSR)) {
        int32_t tokens[2 * TILES_MAX];
        for (int t = 0; t < p->tiles; t++) {
            tokens[2 * t] = p->first[t];
            tokens[2 * t + 1] = p->first[t + 1];
        }
        a->reduce_indptr = device_copy(m, p->indptr, sizeof(p->indptr));
        a->reduce_final_map = device_copy(m, tokens, sizeof(tokens));
        a->reduce_partial_map =
            device_copy(m, p->device_map, (size_t)p->indptr[p->tiles] * sizeof(*p->map));
    } else if (is(p, COUNTS)) {
        int32_t *counts = allocate((size_t)p->tokens, sizeof(*counts));
        for (int t = 0; t < p->tokens; t++)
            counts[t] = count_parts(p, t);
        a->split_counts = device_copy(m, counts, (size_t)p->tokens * sizeof(*counts));
        free(counts);
    }
}

/* One of the two states: rows from `first` on. Those without keys hold NaNs. */
static const void *upload_state(struct problem *p, struct tensor *t, int first)
{
    const int heads = p->desc.heads, dim = p->desc.head_dim;
    const double *o = p->o + (size_t)first * heads * dim;
    const size_t count = (size_t)p->tokens * heads;
    t->values = allocate(count * dim, sizeof(*t->values));
    for (size_t i = 0; i < count * dim; i++)
        t->values[i] = isnan(o[i]) ? 0 : o[i];
    char *device = tensor_upload(t, &p->memory);
    uint16_t nans[REF_COMBINE_DIM_MAX];
    for (int d = 0; d < dim; d++)
        nans[d] = t->precision->poison;
    for (size_t i = 0; i < count; i++) {
        const int64_t at = (int64_t)(i / heads) * t->token_stride + (i % heads) * t->head_stride;
        if (isnan(o[i * dim]))
            device_write(&p->memory, device + 2 * at, nans, 2 * (size_t)dim);
    }
    return device;
}

/* float32 in the layout of out_lse. */
static const float *upload_state_lse(struct problem *p, int first)
{
    const int heads = p->desc.heads;
    const struct tensor *like = &p->out_lse;
    const size_t size = (size_t)(p->tokens * like->token_stride + heads * like->head_stride);
    double *values = allocate(size, sizeof(*values));
    for (size_t i = 0; i < size; i++)
        values[i] = NAN;
    for (int i = 0; i < p->tokens * heads; i++)
        values[i / heads * like->token_stride + i % heads * like->head_stride] =
            p->lse[first * heads + i];
    const float *device = upload_floats(p, values, size);
    free(values);
    return device;
}

static void upload_pair(struct problem *p)
{
    struct attn_combine_args *a = &p->args;
    a->prefix = upload_state(p, &p->prefix, 0);
    a->suffix = upload_state(p, &p->suffix, p->tokens);
    a->prefix_lse = upload_state_lse(p, 0);
    a->suffix_lse = upload_state_lse(p, p->tokens);
    a->prefix_token_stride = p->prefix.token_stride;
    a->prefix_head_stride = p->prefix.head_stride;
    a->suffix_token_stride = p->suffix.token_stride;
    a->suffix_head_stride = p->suffix.head_stride;
    a->prefix_lse_token_stride = a->suffix_lse_token_stride = p->out_lse.token_stride;
    a->prefix_lse_head_stride = a->suffix_lse_head_stride = p->out_lse.head_stride;
}

static void set_strides(struct problem *p)
{
    const int heads = p->desc.heads, dim = p->desc.head_dim;
    p->out = tensor_dense(p->out_precision, p->tokens, heads, dim);
    p->prefix = p->suffix = tensor_dense(p->precision, p->tokens, heads, dim);
    p->out_lse = tensor_lse(p->tokens, heads);
    if (!is(p, VIEWS))
        return;
    p->out.head_stride = dim + 8;
    p->out.token_stride = heads * p->out.head_stride + 24;
    p->prefix.token_stride = heads * dim + 16;
    p->suffix.head_stride = dim + 40;
    p->suffix.token_stride = heads * p->suffix.head_stride;
    p->out_lse.token_stride = heads + 3;
    p->out_lse.head_stride = 1;
}

static void upload(struct problem *p)
{
    struct attn_combine_args *a = &p->args;
    struct device_memory *m = &p->memory;
    if (scheme(p, ATTN_PARTIALS_PAIR))
        upload_pair(p);
    else
        upload_lists(p);
    a->out = is(p, IN_PLACE) ? (void *)a->prefix : tensor_upload(&p->out, m);
    a->lse = is(p, NO_LSE) ? NULL : tensor_upload(&p->out_lse, m);
    a->sinks = is(p, SINKS) ? device_copy(m, p->sinks, p->desc.heads * sizeof(float)) : NULL;
    a->out_scale = device_copy(m, &p->out_scale, sizeof(p->out_scale));
    a->out_token_stride = p->out.token_stride;
    a->out_head_stride = p->out.head_stride;
    a->lse_token_stride = p->out_lse.token_stride;
    a->lse_head_stride = p->out_lse.head_stride;
}

/* Running. */

static bool kept_to_itself(struct problem *p)
{
    size_t at;
    const bool out = tensor_untouched_outside(&p->out, p->tokens, &at);
    if (out && (is(p, NO_LSE) || tensor_untouched_outside(&p->out_lse, p->tokens, &at)))
        return true;
    verify_fail(p->row, "element %zu of %s's memory belongs to no token and was written", at,
                out ? "lse" : "out");
    return false;
}

static void run_problem(struct problem *p)
{
    if (is(p, IN_PLACE))
        p->out = p->prefix;
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    tensor_download(&p->out, &p->memory);
    if (!is(p, NO_LSE))
        tensor_download(&p->out_lse, &p->memory);
    if (verify_copied(&p->memory, p->row) && kept_to_itself(p))
        compare(p);
}

static void destroy(struct problem *p)
{
    device_free(&p->memory);
    if (is(p, IN_PLACE))
        p->out = (struct tensor){0}; /* the prefix's memory */
    tensor_free(&p->out);
    tensor_free(&p->out_lse);
    tensor_free(&p->prefix);
    tensor_free(&p->suffix);
    free(p->map);
    free(p->device_map);
    free(p->o);
    free(p->lse);
    free(p->sinks);
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_combine_desc *desc, const struct precision *precision,
                         const struct precision *out_precision)
{
    struct verify_row row = {.kernel = info->name, .shape = shapes[i].name};
    struct problem p = {
        .run = run,
        .shape = &shapes[i],
        .precision = precision,
        .out_precision = out_precision,
        .desc = *desc,
        .args = {.size = sizeof(p.args)},
        .memory = {.gpu = run->gpu},
        .row = &row,
    };
    p.desc.heads = shapes[i].heads;
    uint64_t random = run->seed * 1000003 + i;
    make_lists(&p);
    make_parts(&p, &random);
    set_strides(&p);
    upload(&p);
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

struct attn_combine_desc verify_combine_desc(const struct attn_pack *pack, uint32_t n)
{
    const char *partials = verify_field(pack, n, "partials");
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    const bool fp8 = !strcmp(verify_field(pack, n, "out_dtype"), "fp8");
    return (struct attn_combine_desc){
        .size = sizeof(struct attn_combine_desc),
        .dtype = precision ? precision->dtype : 0,
        .out_dtype = fp8 ? ATTN_FP8 : 0,
        .head_dim = atoi(verify_field(pack, n, "head_dim")),
        .partials = !strcmp(partials, "csr")     ? ATTN_PARTIALS_CSR
                    : !strcmp(partials, "dense") ? ATTN_PARTIALS_DENSE
                                                 : ATTN_PARTIALS_PAIR,
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_combine_desc desc = verify_combine_desc(run->pack, n);
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    const bool fp8 = desc.out_dtype == ATTN_FP8;
    if (!precision || desc.head_dim > REF_COMBINE_DIM_MAX) {
        verify_report_fault(run, info->name, "the reference does not cover its dtype or head_dim");
        return;
    }
    const struct precision *out = fp8 ? find_cache_precision(ATTN_FP8, info->target) : precision;
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++) {
        if (shapes[i].schemes >> desc.partials & 1 && !(fp8 && shapes[i].flags & IN_PLACE))
            verify_shape(run, info, i, &desc, precision, out);
    }
}

const struct verify_family verify_combine = {.op = "combine", .verify = verify};
