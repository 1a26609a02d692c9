/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for rope_qk_norm_cache kernels: the shapes, the inputs, and how far a kernel may be
 * off.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/verify.h"
#include "tools/attnc/verify_cache.h"
#include "tools/attnc/verify_numbers.h"
#include "tools/attnc/verify_tensor.h"
#include "tools/reference/rope_qk_norm_cache.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
    PACKED = 1 << 0,    /* q, key and value are parts of one tensor */
    IN_PLACE = 1 << 1,  /* and the results go back there */
    GAPS = 1 << 2,      /* outputs and cache leave memory between tokens and heads */
    SKIPS = 1 << 3,     /* some slots are negative */
    NO_CACHE = 1 << 4,  /* no slots, no values */
    FAR_TABLE = 1 << 5, /* positions up to 131071 */
    FAR_CACHE = 1 << 6, /* pages lie 1 GiB apart */
    IN_ORDER = 1 << 7,  /* slots of consecutive tokens are neighbours, as in a prefill */
    MANY = 1 << 8,      /* a wave has several tokens; for plain kernels only */
};

/* How the table of cosines and sines was made: for the kernel these are other numbers only. */
enum table { PLAIN, YARN, LLAMA3 };

/* The head counts are those of models, whole or as one of several ranks has them. */
static const struct shape {
    const char *name;
    unsigned flags;
    int heads, kv_heads, tokens, page_size;
    enum table table;
} shapes[] = {
    { "one token", 0, 32, 4, 1, 16, PLAIN },
    { "one kv head", PACKED, 12, 1, 5, 16, LLAMA3 },
    { "in place", PACKED | IN_PLACE, 6, 1, 7, 64, YARN },
    { "gaps", PACKED | GAPS, 10, 2, 13, 16, PLAIN },
    { "prefill", PACKED | IN_ORDER, 16, 8, 70, 64, LLAMA3 },
    { "slots < 0", SKIPS | GAPS, 5, 1, 11, 1, PLAIN },
    { "no cache", NO_CACHE | GAPS, 3, 2, 6, 16, YARN },
    { "far position", FAR_TABLE | PACKED, 40, 8, 3, 32, YARN },
    { "beyond 4 GiB", FAR_CACHE | SKIPS, 16, 2, 6, 16, PLAIN },
    { "wide", PACKED, 96, 8, 2, 1024, PLAIN },
    { "many tokens", PACKED | IN_ORDER | MANY, 1, 1, 4099, 16, PLAIN },
};

enum { MAX_POSITION = 131072, NEAR_POSITIONS = 512, FAR_PAGES = 6, STREAMS = 3 };

/* What a scale that is given lets be stored; a few of the numbers are larger. */
static const double most_stored = 4;

struct problem {
    struct verify_run *run;
    const struct shape *shape;
    const struct precision *precision, *q_precision;
    struct attn_rope_qk_norm_cache_desc desc;
    struct attn_rope_qk_norm_cache_args args;
    struct tensor q, k, v, gate_in;
    struct tensor q_out, k_out, v_out, gate;
    struct tensor q_weight, k_weight, q_bias, k_bias, v_bias;
    struct paged_cache cache, untouched; /* after the launch, before it */
    int64_t *positions;                  /* [3, token] */
    int64_t *slots;
    float *angles; /* [token, rotary_dim]: by which the pairs of a token rotate */
    float *q_squares, *k_squares;
    float q_scale;
    uint8_t *before; /* packed inputs, in place */
    struct device_memory memory;
    struct verify_row *row;
    char *fault;
    size_t fault_size;
    double error, norm, bounds; /* sums of squares */
    double closest;
};

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* Tables. */

static double pair_frequency(enum table table, int i, int rotary_dim)
{
    const double pi = 3.14159265358979323846, base = table == LLAMA3 ? 500000 : 150000;
    const double f = pow(base, -2.0 * i / rotary_dim);
    if (table == LLAMA3) { /* factor 8, low 1, high 4, 8192 positions in training */
        const double turns = 8192 * f / (2 * pi);
        const double smooth = fmin(fmax((turns - 1) / (4 - 1), 0), 1);
        return (1 - smooth) * f / 8 + smooth * f;
    }
    if (table == YARN) { /* factor 32, beta 32 and 1, 4096 positions (Peng, arXiv 2309.00071) */
        const double step = rotary_dim / (2 * log(base));
        const double low = floor(step * log(4096 / (32 * 2 * pi)));
        const double high = ceil(step * log(4096 / (2 * pi)));
        const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        return ramp * f / 32 + (1 - ramp) * f;
    }
    return f;
}

/* A number that every type holds, near x. */
static double few_bits(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return exponent < -12 ? 0 : ldexp(nearbyint(fraction * 256) / 256, exponent);
}

static void make_row(const struct problem *p, int64_t position, float *row)
{
    const int rotary = p->desc.rotary_dim, half = rotary / 2;
    const double scale = p->shape->table == YARN ? 0.1 * log(32) + 1 : 1;
    for (int i = 0; i < half; i++) {
        const double angle = (double)position * pair_frequency(p->shape->table, i, rotary);
        row[i] = (float)(scale * cos(angle));
        row[half + i] = (float)(scale * sin(angle));
    }
    for (int i = 0; i < rotary && p->desc.cos_sin_short; i++)
        row[i] = (float)few_bits(row[i]);
}

/* Which position pair i rotates by (Qwen2-VL; Qwen3-VL). */
static int stream_of(const struct problem *p, int i)
{
    const int32_t *n = p->args.sections;
    if (p->desc.mrope == ATTN_MROPE_SECTIONS)
        return i < n[0] ? 0 : i < n[0] + n[1] ? 1 : 2;
    if (p->desc.mrope == ATTN_MROPE_INTERLEAVED)
        return i % 3 == 1 && i < 3 * n[1] ? 1 : i % 3 == 2 && i < 3 * n[2] ? 2 : 0;
    return 0;
}

static void set_angles(struct problem *p, int token)
{
    const int rotary = p->desc.rotary_dim, half = rotary / 2;
    float *angles = p->angles + (size_t)token * (size_t)rotary;
    float rows[STREAMS][REF_ROPE_DIM_MAX];
    for (int s = 0; s < STREAMS; s++)
        make_row(p, p->positions[s * p->shape->tokens + token], rows[s]);
    for (int i = 0; i < half; i++) {
        angles[i] = rows[stream_of(p, i)][i];
        angles[half + i] = rows[stream_of(p, i)][half + i];
    }
}

/* Inputs. */

/* The largest position, the smallest, others; two tokens may share one. */
static void set_positions(struct problem *p, uint64_t *random)
{
    const int n = p->shape->tokens, half = p->desc.rotary_dim / 2;
    const int64_t most = p->shape->flags & FAR_TABLE ? MAX_POSITION : NEAR_POSITIONS;
    p->positions = allocate((size_t)n * STREAMS, sizeof(*p->positions));
    p->angles = allocate((size_t)n * (size_t)p->desc.rotary_dim, sizeof(*p->angles));
    p->args.max_position = (int32_t)most;
    p->args.sections[1] = p->desc.mrope == ATTN_MROPE_SECTIONS ? half * 3 / 8 : (half + 1) / 3;
    p->args.sections[2] = p->desc.mrope == ATTN_MROPE_SECTIONS ? half * 3 / 8 : half / 3;
    p->args.sections[0] = half - p->args.sections[1] - p->args.sections[2];
    for (int t = 0; t < n * STREAMS; t++)
        p->positions[t] = t == 0 ? most - 1 : t == 1 ? 0 : (int64_t)(random_bits(random) % most);
    for (int t = 0; t < n; t++)
        set_angles(p, t);
}

/* What is larger than most_stored is more than this scale can stand for. */
static float random_scale(const struct precision *type, uint64_t *random)
{
    const double fraction = (double)(random_bits(random) >> 40) * 0x1p-24;
    return (float)((1 + fraction) * most_stored / type->limit);
}

/* Those that the kernel reads. */
static void set_scales(struct problem *p, int slot, uint64_t *random)
{
    const int size = p->cache.desc.page_size;
    const enum attn_kv_scale scaling = p->cache.desc.scale;
    if (scaling == ATTN_KV_SCALE_NONE || scaling == ATTN_KV_SCALE_TOKEN)
        return;
    for (int part = 0; part < CACHE_PARTS; part++) {
        for (int head = 0; head < p->desc.kv_heads; head++)
            *cache_scale(&p->cache, part, slot / size, slot % size, head) =
                random_scale(p->cache.precision, random);
    }
}

static void set_slots(struct problem *p, uint64_t *random)
{
    const int n = p->shape->tokens, all = p->cache.page_count * p->cache.desc.page_size;
    int32_t *order = shuffled_pages(all, random);
    p->slots = allocate((size_t)n, sizeof(*p->slots));
    for (int t = 0; t < n; t++) {
        p->slots[t] = p->shape->flags & IN_ORDER ? 5 + t : order[t];
        if (p->shape->flags & FAR_CACHE) /* the last pages, all of whose offsets are large */
            p->slots[t] = all - 1 - t;
        if (p->shape->flags & SKIPS && t % 3 == 1)
            p->slots[t] = t % 2 ? -1 : INT64_MIN;
        if (p->slots[t] < 0)
            continue;
        p->cache.used[p->slots[t] / p->cache.desc.page_size] = true;
        set_scales(p, (int)p->slots[t], random);
    }
    free(order);
    cache_copy(&p->untouched, &p->cache);
}

static void spread(struct tensor *t)
{
    t->head_stride = t->dim + 16;
    t->token_stride = t->heads * t->head_stride + 48;
}

/* q, key and value, each head of q with its gate where there is one. */
static void place_inputs(struct problem *p)
{
    const struct shape *s = p->shape;
    const int dim = p->desc.head_dim, q_dim = p->desc.gate ? 2 * dim : dim;
    p->q = tensor_dense(p->precision, s->tokens, s->heads, dim);
    p->k = tensor_dense(p->precision, s->tokens, s->kv_heads, dim);
    p->v = tensor_dense(p->precision, s->tokens, s->kv_heads, dim);
    p->q.head_stride = q_dim;
    p->q.token_stride = s->heads * q_dim;
    if (s->flags & PACKED) {
        const int64_t token = s->heads * q_dim + 2 * s->kv_heads * dim;
        p->q.token_stride = p->k.token_stride = p->v.token_stride = token;
        tensor_place_inside(&p->k, &p->q, s->heads * q_dim);
        tensor_place_inside(&p->v, &p->q, (s->heads * q_dim + s->kv_heads * dim));
    }
    p->gate_in = p->q;
    tensor_place_inside(&p->gate_in, &p->q, dim);
}

static void place_outputs(struct problem *p)
{
    const struct shape *s = p->shape;
    const int dim = p->desc.head_dim;
    struct tensor *outputs[] = { &p->q_out, &p->k_out, &p->v_out, &p->gate };
    for (size_t i = 0; i < COUNT(outputs); i++) {
        const bool of_q = i == 0 || i == 3;
        *outputs[i] = tensor_dense(p->precision, s->tokens, of_q ? s->heads : s->kv_heads, dim);
        if (s->flags & GAPS)
            spread(outputs[i]);
    }
    p->q_out.precision = p->q_precision;
}

static void place_weights(struct problem *p)
{
    const struct shape *s = p->shape;
    const bool full = p->desc.norm == ATTN_NORM_FULL;
    p->q_weight = tensor_dense(p->precision, 1, full ? s->heads : 1, p->desc.head_dim);
    p->k_weight = tensor_dense(p->precision, 1, full ? s->kv_heads : 1, p->desc.head_dim);
    p->q_bias = tensor_dense(p->precision, 1, s->heads, p->desc.head_dim);
    p->k_bias = p->v_bias = tensor_dense(p->precision, 1, s->kv_heads, p->desc.head_dim);
}

/* Each token's sum of squares as other ranks' heads would make it: not that of this rank. */
static void set_squares(struct problem *p, uint64_t *random)
{
    const size_t n = (size_t)p->shape->tokens;
    p->args.q_count = 2 * p->desc.heads * p->desc.head_dim;
    p->args.k_count = 2 * p->desc.kv_heads * p->desc.head_dim;
    p->q_squares = allocate(n, sizeof(float));
    p->k_squares = allocate(n, sizeof(float));
    for (size_t t = 0; t < n; t++) {
        p->q_squares[t] = (float)((1.25 + random_value(random) / 2) * p->args.q_count);
        p->k_squares[t] = (float)((1.25 + random_value(random) / 2) * p->args.k_count);
    }
}

static void set_inputs(struct problem *p, const char *target, uint64_t *random)
{
    const struct shape *s = p->shape;
    place_inputs(p);
    place_outputs(p);
    place_weights(p);
    struct tensor *inputs[] = {
        &p->q, &p->k, &p->v, &p->gate_in, &p->q_weight, &p->k_weight, &p->q_bias, &p->k_bias,
        &p->v_bias,
    };
    for (size_t i = 0; i < COUNT(inputs); i++)
        tensor_fill(inputs[i], random);
    set_squares(p, random);
    p->q_scale = p->q_precision->size == 1 ? random_scale(p->q_precision, random) : 1;
    set_positions(p, random);
    int pages = s->tokens / s->page_size + 2;
    if (s->flags & FAR_CACHE)
        pages = FAR_PAGES;
    cache_init(&p->cache, &p->desc.cache, target, s->kv_heads, p->desc.head_dim,
               p->desc.head_dim, pages, s->flags & GAPS);
    if (s->flags & FAR_CACHE)
        cache_spread(&p->cache, INT64_C(1) << 30);
    set_slots(p, random);
}

/* Only the rows that are read: the others stay undefined, and a simulator says so if they are. */
static void *upload_table(struct problem *p)
{
    const int rotary = p->desc.rotary_dim;
    const size_t size = p->desc.cos_sin_short ? sizeof(uint16_t) : sizeof(float);
    const size_t bytes = (size_t)rotary * size;
    char *table = device_allocate(&p->memory, (size_t)p->args.max_position * bytes);
    const int n = p->shape->tokens * (p->desc.mrope == ATTN_MROPE_NONE ? 1 : STREAMS);
    for (int t = 0; t < n && table; t++) {
        float row[REF_ROPE_DIM_MAX];
        uint16_t bits[REF_ROPE_DIM_MAX];
        make_row(p, p->positions[t], row);
        for (int i = 0; i < rotary; i++)
            bits[i] = p->desc.cos_sin_short ? encode_element(p->precision, row[i]) : 0;
        device_write(&p->memory, table + (size_t)p->positions[t] * bytes,
                     p->desc.cos_sin_short ? (void *)bits : row, bytes);
    }
    return table;
}

static void set_input_strides(struct problem *p)
{
    struct attn_rope_qk_norm_cache_args *a = &p->args;
    a->q_token_stride = p->q.token_stride;
    a->q_head_stride = p->q.head_stride;
    a->k_token_stride = p->k.token_stride;
    a->k_head_stride = p->k.head_stride;
    a->v_token_stride = p->v.token_stride;
    a->v_head_stride = p->v.head_stride;
}

static void upload_inputs(struct problem *p)
{
    struct attn_rope_qk_norm_cache_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const size_t n = (size_t)p->shape->tokens;
    a->q = tensor_upload(&p->q, m);
    if (p->desc.gate)
        tensor_upload(&p->gate_in, m);
    a->k = tensor_upload(&p->k, m);
    a->v = tensor_upload(&p->v, m);
    if (p->desc.norm != ATTN_NORM_NONE) {
        a->q_weight = tensor_upload(&p->q_weight, m);
        a->k_weight = tensor_upload(&p->k_weight, m);
    }
    if (p->desc.norm == ATTN_NORM_FULL) {
        a->q_squares = device_copy(m, p->q_squares, n * sizeof(float));
        a->k_squares = device_copy(m, p->k_squares, n * sizeof(float));
    }
    if (p->desc.bias) {
        a->q_bias = tensor_upload(&p->q_bias, m);
        a->k_bias = tensor_upload(&p->k_bias, m);
        a->v_bias = tensor_upload(&p->v_bias, m);
    }
    if (p->desc.rope != ATTN_ROPE_NONE) {
        a->positions = device_copy(m, p->positions, n * STREAMS * sizeof(*p->positions));
        a->cos_sin = upload_table(p);
    }
    set_input_strides(p);
}

static bool q_in_place(const struct problem *p)
{
    return p->shape->flags & IN_PLACE && p->q_precision->size == 2;
}

static void upload_outputs(struct problem *p)
{
    struct attn_rope_qk_norm_cache_args *a = &p->args;
    struct device_memory *m = &p->memory;
    if (p->desc.gate) {
        a->gate = tensor_upload(&p->gate, m);
        a->gate_token_stride = p->gate.token_stride;
        a->gate_head_stride = p->gate.head_stride;
    }
    if (p->shape->flags & NO_CACHE) {
        a->v = NULL;
    } else {
        a->slot_mapping = device_copy(m, p->slots, (size_t)a->tokens * sizeof(*p->slots));
        cache_upload(&p->cache, m, &a->cache);
    }
    if (!q_in_place(p)) {
        a->q_out = tensor_upload(&p->q_out, m);
        a->q_out_scale = device_copy(m, &p->q_scale, sizeof(p->q_scale));
        a->q_out_token_stride = p->q_out.token_stride;
        a->q_out_head_stride = p->q_out.head_stride;
    }
    if (p->shape->flags & IN_PLACE)
        return;
    if (!p->desc.keep_kv)
        return;
    a->k_out = tensor_upload(&p->k_out, m);
    a->v_out = tensor_upload(&p->v_out, m);
    a->k_out_token_stride = p->k_out.token_stride;
    a->k_out_head_stride = p->k_out.head_stride;
    a->v_out_token_stride = p->v_out.token_stride;
    a->v_out_head_stride = p->v_out.head_stride;
}

/* Faults. */

static void fail(struct problem *p, const char *what, const char *why)
{
    if (!p->row->fault)
        snprintf(p->fault, p->fault_size, "%s: %s", what, why);
    p->row->fault = p->fault;
}

static void fail_element(struct problem *p, const char *what, int token, int head, int d,
                         double got, double expected)
{
    char where[160];
    snprintf(where, sizeof(where), "token %d, head %d, element %d is %g, expected %g", token, head,
             d, got, expected);
    fail(p, isnan(got) ? "not written, or NaN" : what, where);
}

/*
 * Bounds. With f = 2^-24, the unit of float32, an element is off, relative to the terms that it is
 * the sum of, by at most
 *
 *   f      for the bias;
 *   with a norm per head, (D + 5) f / 2 + 5 f: the squares have three roundings each and their sum
 *     at most D, the mean and eps add two, of which the root takes half; v_rsq_f32 is good to an
 *     ulp, 2 f; 1 + w and two products have one each;
 *   with a given sum, (1 + 1) f / 2 + 4 f likewise;
 *   2 f    for a product and the sum of two, with rotation;
 *
 * and by a rounding to the type of the output. What nothing is done to comes through as it is.
 *
 * What is stored with a scale is x times its inverse, which is good to an ulp, 2 f, and the product
 * has one more rounding; then x is off by the unit of the type, or, where that is larger, by the
 * smallest step times the scale; what is beyond the largest number becomes it. A scale per token is
 * the largest |x|, off as above, times a constant rounded to float32: 2 f.
 */
static const double f = 0x1p-24;

static double arithmetic_error(const struct problem *p)
{
    double roundings = p->desc.bias ? 1 : 0;
    if (p->desc.norm == ATTN_NORM_FULL)
        roundings += 5;
    else if (p->desc.norm != ATTN_NORM_NONE)
        roundings += (p->desc.head_dim + 5) / 2.0 + 5;
    if (p->desc.rope != ATTN_ROPE_NONE)
        roundings += 2;
    return roundings * f;
}

/* Where a head ended up. */
struct target {
    const char *what;
    const struct tensor *tensor; /* NULL: the cache */
    const struct precision *type;
    enum cache_part part;
    double scale; /* 0: stored as it is */
};

/* What x becomes, and how far from it that may be. `terms`: the error of x itself. */
static double expected_value(const struct target *t, double x, double terms, double *bound)
{
    const double u = t->type->unit;
    if (t->type->size == 2) {
        *bound = terms == 0 ? 0 : u * fabs(x) + t->type->tiny + (1 + u) * terms;
        return x;
    }
    const double scale = t->scale > 0 ? t->scale : 1;
    const double most = t->type->limit + (x < 0 && t->type->dtype == ATTN_INT8);
    const double stored = copysign(fmin(fabs(x), most * scale), x);
    const double arithmetic = terms + (t->scale > 0 ? 4 * f * fabs(stored) : 0);
    *bound = fmax(u * fabs(stored), t->type->tiny * scale) + (1 + u) * arithmetic;
    return stored;
}

static double read_element(struct problem *p, const struct target *t, int token, int head, int d)
{
    if (t->tensor)
        return tensor_get(t->tensor, token, head, d) * (t->scale > 0 ? t->scale : 1);
    const int size = p->cache.desc.page_size;
    const int page = (int)(p->slots[token] / size), at = (int)(p->slots[token] % size);
    const double got = cache_value(&p->cache, t->part, page, at, head, d);
    cache_set_bits(&p->cache, t->part, page, at, head, d,
                   cache_bits(&p->untouched, t->part, page, at, head, d));
    return got;
}

static void compare_head(struct problem *p, const struct target *t, int token, int head,
                         const struct ref_rope_head *r, double arithmetic)
{
    for (int d = 0; d < p->desc.head_dim; d++) {
        double bound;
        const double expected = expected_value(t, r->out[d], arithmetic * r->magnitude[d], &bound);
        const double got = read_element(p, t, token, head, d);
        const double error = fabs(got - expected);
        p->error += error * error;
        p->norm += expected * expected;
        p->bounds += bound * bound;
        if (!(error <= bound))
            fail_element(p, t->what, token, head, d, got, expected);
        if (bound > 0 && error / bound >= p->closest) {
            p->closest = error / bound;
            p->row->largest = error;
            p->row->largest_bound = bound;
        }
    }
}

/* The scale that was stored for a token and head, which then counts as untouched. */
static void compare_scale(struct problem *p, enum cache_part part, int token, int head,
                          const struct ref_rope_head *r, double arithmetic)
{
    const int size = p->cache.desc.page_size;
    const int page = (int)(p->slots[token] / size), at = (int)(p->slots[token] % size);
    float *scale = cache_scale(&p->cache, part, page, at, head);
    double largest = 0, terms = 0;
    for (int d = 0; d < p->desc.head_dim; d++) {
        largest = fmax(largest, fabs(r->out[d]));
        terms = fmax(terms, arithmetic * r->magnitude[d]);
    }
    const double expected = largest / p->cache.precision->limit;
    const double bound = terms / p->cache.precision->limit + 2 * f * expected;
    if (!(fabs(*scale - expected) <= bound))
        fail_element(p, "scale", token, head, 0, *scale, expected);
    *scale = *cache_scale(&p->untouched, part, page, at, head);
}

static void compare_cached(struct problem *p, enum cache_part part, int token, int head,
                           const struct ref_rope_head *r, double arithmetic)
{
    const int size = p->cache.desc.page_size;
    const int page = (int)(p->slots[token] / size), at = (int)(p->slots[token] % size);
    const bool scaled = p->cache.desc.scale != ATTN_KV_SCALE_NONE;
    const struct target t = {
        .what = part == CACHE_K ? "k" : "v", .type = p->cache.precision, .part = part,
        .scale = scaled ? *cache_scale(&p->cache, part, page, at, head) : 0,
    };
    compare_head(p, &t, token, head, r, arithmetic);
    if (p->cache.desc.scale == ATTN_KV_SCALE_TOKEN)
        compare_scale(p, part, token, head, r, arithmetic);
}

static const double *head_of(const struct tensor *t, int token, int head)
{
    return t->values + ((size_t)token * (size_t)t->heads + (size_t)head) * (size_t)t->dim;
}

/* What q or the key of one head should be. */
static void rotated_head(const struct problem *p, bool of_q, int token, int head,
                         struct ref_rope_head *r)
{
    const struct attn_rope_qk_norm_cache_desc *d = &p->desc;
    const bool full = d->norm == ATTN_NORM_FULL;
    const struct tensor *weight = of_q ? &p->q_weight : &p->k_weight;
    double angles[REF_ROPE_DIM_MAX];
    for (int i = 0; i < d->rotary_dim; i++)
        angles[i] = p->angles[(size_t)token * (size_t)d->rotary_dim + (size_t)i];
    const double squares = of_q ? p->q_squares[token] : p->k_squares[token];
    const struct ref_rope reference = {
        .dim = d->head_dim, .rotary_dim = d->rotary_dim, .pairs = (enum ref_pairs)d->rope,
        .norm = d->norm != ATTN_NORM_NONE, .gemma = d->norm == ATTN_NORM_GEMMA_RMS, .given = full,
        .mean_square = squares / (of_q ? p->args.q_count : p->args.k_count), .eps = p->args.eps,
        .x = head_of(of_q ? &p->q : &p->k, token, head),
        .bias = d->bias ? head_of(of_q ? &p->q_bias : &p->k_bias, 0, head) : NULL,
        .weight = head_of(weight, 0, full ? head : 0),
        .cos = angles, .sin = angles + d->rotary_dim / 2,
    };
    ref_rope_head(&reference, r);
}

static void plain_head(const struct problem *p, const struct tensor *x, const struct tensor *bias,
                       int token, int head, struct ref_rope_head *r)
{
    const struct ref_rope reference = {
        .dim = p->desc.head_dim, .x = head_of(x, token, head),
        .bias = bias ? head_of(bias, 0, head) : NULL,
    };
    ref_rope_head(&reference, r);
}

/* A result that went back to where the input was, which lies in the memory of `p->q`. */
static struct tensor in_place(const struct problem *p, const struct tensor *t)
{
    struct tensor r = *t;
    r.image = p->q.image;
    r.guard = (size_t)t->offset;
    return r;
}

static void compare_q(struct problem *p, const struct tensor *out, struct ref_rope_head *r)
{
    const struct target q = {
        .what = "q", .tensor = out, .type = p->q_precision,
        .scale = p->q_precision->size == 1 ? p->q_scale : 0,
    };
    const struct target gate = { .what = "gate", .tensor = &p->gate, .type = p->precision };
    for (int token = 0; token < p->args.tokens; token++) {
        for (int head = 0; head < p->desc.heads; head++) {
            rotated_head(p, true, token, head, r);
            compare_head(p, &q, token, head, r, arithmetic_error(p));
            plain_head(p, &p->gate_in, NULL, token, head, r);
            if (p->desc.gate)
                compare_head(p, &gate, token, head, r, 0);
        }
    }
}

static void compare_kv(struct problem *p, enum cache_part part, const struct tensor *out,
                       struct ref_rope_head *r)
{
    const bool key = part == CACHE_K;
    const struct target kept = {
        .what = key ? "k_out" : "v_out", .tensor = out, .type = p->precision,
    };
    const double error = key ? arithmetic_error(p) : p->desc.bias ? 0x1p-24 : 0;
    for (int token = 0; token < p->args.tokens; token++) {
        for (int head = 0; head < p->desc.kv_heads; head++) {
            if (key)
                rotated_head(p, false, token, head, r);
            else
                plain_head(p, &p->v, p->desc.bias ? &p->v_bias : NULL, token, head, r);
            if (p->desc.keep_kv)
                compare_head(p, &kept, token, head, r, error);
            if (p->args.slot_mapping && p->slots[token] >= 0)
                compare_cached(p, part, token, head, r, error);
        }
    }
}

static void compare(struct problem *p)
{
    const bool back = p->shape->flags & IN_PLACE;
    const struct tensor q = q_in_place(p) ? in_place(p, &p->q) : p->q_out;
    const struct tensor key = back ? in_place(p, &p->k) : p->k_out;
    const struct tensor value = back ? in_place(p, &p->v) : p->v_out;
    struct ref_rope_head *r = allocate(1, sizeof(*r));
    compare_q(p, &q, r);
    compare_kv(p, CACHE_K, &key, r);
    if (p->args.v)
        compare_kv(p, CACHE_V, &value, r);
    free(r);
    p->row->relative = p->norm > 0 ? sqrt(p->error / p->norm) : sqrt(p->error);
    p->row->relative_bound = p->norm > 0 ? sqrt(p->bounds / p->norm) : 0;
}

/* Nothing else may have been written. */

static void check_output(struct problem *p, const struct tensor *t, const char *name)
{
    char where[64];
    size_t at;
    if (tensor_untouched_outside(t, p->args.tokens, &at))
        return;
    snprintf(where, sizeof(where), "memory beside its elements was written, at %zu", at);
    fail(p, name, where);
}

/* Keys, values and gates beside q that was written in place. */
static void check_packed(struct problem *p)
{
    const struct tensor *q = &p->q;
    const size_t row = (size_t)q->token_stride, n = row * (size_t)q->tokens;
    const uint16_t *before = (uint16_t *)p->before, *now = (uint16_t *)q->image;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i % row;
        const bool of_q = at < (size_t)(q->heads * q->head_stride);
        const bool written =
            of_q ? q_in_place(p) && at % (size_t)q->head_stride < (size_t)q->dim : p->desc.keep_kv;
        if (!written && before[i] != now[i]) {
            fail(p, "in place", "an element beside q was written");
            return;
        }
    }
}

/* What belongs to slots was put back while it was compared. */
static void check_cache(struct problem *p)
{
    for (int part = 0; part < CACHE_PARTS; part++) {
        if (!cache_same(&p->cache, &p->untouched, part))
            fail(p, part == CACHE_K ? "k" : "v",
                 "elements or scales that belong to no slot were written");
    }
}

static void check_surroundings(struct problem *p)
{
    if (p->desc.gate)
        check_output(p, &p->gate, "gate");
    if (p->args.slot_mapping)
        check_cache(p);
    if (!q_in_place(p))
        check_output(p, &p->q_out, "q_out");
    if (p->shape->flags & IN_PLACE) {
        check_packed(p);
        return;
    }
    if (p->desc.keep_kv) {
        check_output(p, &p->k_out, "k_out");
        if (p->args.v)
            check_output(p, &p->v_out, "v_out");
    }
}

/* Runs. */

static size_t packed_bytes(const struct problem *p)
{
    return (size_t)(p->q.token_stride * p->q.tokens) * sizeof(uint16_t);
}

static int download(struct problem *p)
{
    struct device_memory *m = &p->memory;
    int error = p->desc.gate ? tensor_download(&p->gate, m) : 0;
    if (p->args.slot_mapping)
        cache_download(&p->cache, m);
    if (!error && !q_in_place(p))
        error = tensor_download(&p->q_out, m);
    if (p->shape->flags & IN_PLACE)
        return error ? error : tensor_download(&p->q, m);
    if (p->desc.keep_kv && !error)
        error = tensor_download(&p->k_out, m);
    if (p->desc.keep_kv && !error && p->args.v)
        error = tensor_download(&p->v_out, m);
    return error ? error : m->error;
}

static void launch(struct problem *p, const struct attn_op *op)
{
    const struct gpu *gpu = p->run->gpu;
    int error;
    if (attn_rope_qk_norm_cache_launch(op, &p->args))
        fail(p, "launch", attn_last_error());
    else if ((error = gpu->hipDeviceSynchronize()))
        fail(p, "hipDeviceSynchronize", gpu->hipGetErrorName(error));
    else if ((error = download(p)))
        fail(p, "hipMemcpy", gpu->hipGetErrorName(error));
    else {
        compare(p);
        check_surroundings(p);
    }
}

static void run_problem(struct problem *p)
{
    struct attn_op *op;
    if (p->memory.error) {
        fail(p, "hipMalloc or hipMemcpy", p->run->gpu->hipGetErrorName(p->memory.error));
        return;
    }
    if (attn_rope_qk_norm_cache_lookup(p->run->gpu->device, &p->desc, &op)) {
        fail(p, "lookup", attn_last_error());
        return;
    }
    const char *other = verify_other_kernel(op, &p->args, p->row);
    if (other)
        fail(p, "lookup gives another kernel", other);
    else
        launch(p, op);
    attn_op_destroy(op);
}

static void destroy(struct problem *p)
{
    struct tensor *all[] = {
        &p->q, &p->k, &p->v, &p->gate_in, &p->q_out, &p->k_out, &p->v_out, &p->gate,
        &p->q_weight, &p->k_weight, &p->q_bias, &p->k_bias, &p->v_bias,
    };
    device_free(&p->memory);
    for (size_t i = 0; i < COUNT(all); i++)
        tensor_free(all[i]);
    cache_free(&p->cache);
    cache_free(&p->untouched);
    free(p->positions);
    free(p->slots);
    free(p->angles);
    free(p->q_squares);
    free(p->k_squares);
    free(p->before);
}

/* A page of a SHUFFLE cache has the tokens that take 16 bytes, or more. */
static int page_size(const struct attn_cache_desc *desc, int size)
{
    const int least = desc->layout != ATTN_KV_SHUFFLE ? 1
                      : desc->dtype == ATTN_FP8 || desc->dtype == ATTN_INT8 ? 16 : 8;
    return size < least ? least : size;
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_rope_qk_norm_cache_desc *desc,
                         const struct precision *precision)
{
    const struct shape *shape = &shapes[i];
    char fault[400];
    struct verify_row row = { .kernel = info->name, .shape = shape->name };
    struct problem p = {
        .run = run, .shape = shape, .precision = precision, .desc = *desc, .row = &row,
        .q_precision = find_cache_precision(desc->q_out_dtype, info->target),
        .fault = fault, .fault_size = sizeof(fault),
        .args = { .size = sizeof(p.args), .tokens = shape->tokens, .eps = 1e-6f },
        .memory = { .gpu = run->gpu },
    };
    p.desc.heads = shape->heads;
    p.desc.kv_heads = shape->kv_heads;
    p.desc.cache.page_size = page_size(&p.desc.cache, shape->page_size);
    uint64_t random = run->seed * 1000003 + i;
    set_inputs(&p, info->target, &random);
    upload_inputs(&p);
    upload_outputs(&p);
    if (shape->flags & IN_PLACE) {
        p.before = allocate(packed_bytes(&p), 1);
        device_read(&p.memory, p.before, p.q.device, packed_bytes(&p));
    }
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

static bool flag(const struct attn_pack *pack, uint32_t n, const char *field)
{
    return !strcmp(verify_field(pack, n, field), "true");
}

struct attn_rope_qk_norm_cache_desc verify_rope_qk_norm_cache_desc(const struct attn_pack *pack,
                                                                   uint32_t n)
{
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    const enum attn_dtype dtype = precision ? precision->dtype : 0;
    return (struct attn_rope_qk_norm_cache_desc){
        .size = sizeof(struct attn_rope_qk_norm_cache_desc),
        .dtype = dtype,
        .q_out_dtype = VERIFY_NUMBER_OF(pack, n, "out_dtype", "same", "fp8") ? ATTN_FP8 : dtype,
        .head_dim = atoi(verify_field(pack, n, "head_dim")),
        .rope = VERIFY_NUMBER_OF(pack, n, "rope", "none", "neox", "gptj"),
        .rotary_dim = atoi(verify_field(pack, n, "rotary_dim")),
        .mrope = VERIFY_NUMBER_OF(pack, n, "mrope", "none", "sections", "interleaved"),
        .cos_sin_short = VERIFY_NUMBER_OF(pack, n, "cos_sin", "f32", "same"),
        .norm = VERIFY_NUMBER_OF(pack, n, "norm", "none", "rms", "gemma_rms", "full"),
        .bias = flag(pack, n, "bias"),
        .gate = flag(pack, n, "gate"),
        .keep_kv = flag(pack, n, "keep_kv"),
        .cache = verify_cache_desc(pack, n),
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    const struct attn_rope_qk_norm_cache_desc desc =
        verify_rope_qk_norm_cache_desc(run->pack, n);
    if (!precision || desc.head_dim > REF_ROPE_DIM_MAX) {
        verify_report(run, &(struct verify_row){
            .kernel = info->name, .shape = "-",
            .fault = "the reference does not cover its dtype or head_dim" });
        return;
    }
    const bool plain = !desc.bias && !desc.gate && !desc.keep_kv;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        if (!(shapes[i].flags & MANY) || plain)
            verify_shape(run, info, i, &desc, precision);
    }
}

const struct verify_family verify_rope_qk_norm_cache = {
    .op = "rope_qk_norm_cache", .verify = verify,
};
