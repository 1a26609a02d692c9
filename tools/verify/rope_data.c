/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for rope_qk_norm_cache kernels: inputs, tables and outputs, on the host and on the
 * device.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/verify/rope.h"
#include "tools/reference/rope_qk_norm_cache.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { MAX_POSITION = 131072, NEAR_POSITIONS = 512, FAR_PAGES = 6, STREAMS = 3 };

/* What a scale that is given lets be stored; a few of the numbers are larger. */
static const double most_stored = 4;

/* Tables. */

static double pair_frequency(enum rope_table table, int i, int rotary_dim)
{
    const double pi = 3.14159265358979323846, base = table == ROPE_LLAMA3 ? 500000 : 150000;
    const double f = pow(base, -2.0 * i / rotary_dim);
    if (table == ROPE_LLAMA3) { /* factor 8, low 1, high 4, 8192 positions in training */
        const double turns = 8192 * f / (2 * pi);
        const double smooth = fmin(fmax((turns - 1) / (4 - 1), 0), 1);
        return (1 - smooth) * f / 8 + smooth * f;
    }
    if (table == ROPE_YARN) { /* 32; beta 32 and 1; 4096 positions (Peng, arXiv 2309.00071) */
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

static void make_row(const struct rope_problem *p, int64_t position, float *row)
{
    const int rotary = p->desc.rotary_dim, half = rotary / 2;
    const double scale = p->shape->table == ROPE_YARN ? 0.1 * log(32) + 1 : 1;
    for (int i = 0; i < half; i++) {
        const double angle = (double)position * pair_frequency(p->shape->table, i, rotary);
        row[i] = (float)(scale * cos(angle));
        row[half + i] = (float)(scale * sin(angle));
    }
    for (int i = 0; i < rotary && p->desc.cos_sin_short; i++)
        row[i] = (float)few_bits(row[i]);
}

/* Which position pair i rotates by (Qwen2-VL; Qwen3-VL). */
static int stream_of(const struct rope_problem *p, int i)
{
    const int32_t *n = p->args.sections;
    if (p->desc.mrope == ATTN_MROPE_SECTIONS)
        return i < n[0] ? 0 : i < n[0] + n[1] ? 1 : 2;
    if (p->desc.mrope == ATTN_MROPE_INTERLEAVED)
        return i % 3 == 1 && i < 3 * n[1] ? 1 : i % 3 == 2 && i < 3 * n[2] ? 2 : 0;
    return 0;
}

static void set_angles(struct rope_problem *p, int token)
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
static void set_positions(struct rope_problem *p, uint64_t *random)
{
    const int n = p->shape->tokens, half = p->desc.rotary_dim / 2;
    const int64_t most = p->shape->flags & ROPE_FAR_TABLE ? MAX_POSITION : NEAR_POSITIONS;
    p->positions = verify_allocate((size_t)n * STREAMS, sizeof(*p->positions));
    p->angles = verify_allocate((size_t)n * (size_t)p->desc.rotary_dim, sizeof(*p->angles));
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
static void set_scales(struct rope_problem *p, int slot, uint64_t *random)
{
    const int size = p->cache.desc.page_size;
    const enum attn_kv_scale scaling = p->cache.desc.scale;
    if (scaling != ATTN_KV_SCALE_TENSOR)
        return;
    for (int part = 0; part < CACHE_PARTS; part++) {
        for (int head = 0; head < p->desc.kv_heads; head++)
            *cache_scale(&p->cache, part, slot / size, slot % size, head) =
                random_scale(p->cache.precision, random);
    }
}

/* Where pages have scales, the tokens of one follow each other: in each of the pages in turn three
 * or as many as it has, from some token on. What is there before them has a scale. */
static void set_runs(struct rope_problem *p, const int32_t *order, uint64_t *random)
{
    const int n = p->shape->tokens, size = p->cache.desc.page_size;
    const int run = size < 3 ? size : 3, all = p->cache.page_count * size;
    int first = 0;
    for (int t = 0; t < n; t++) {
        if (t % run == 0)
            first = (int)(random_bits(random) % (uint64_t)(size - run + 1));
        p->slots[t] = (int64_t)order[t / run] * size + first + t % run;
        if (p->shape->flags & ROPE_IN_ORDER)
            p->slots[t] = 5 + t;
        const bool far = p->shape->flags & ROPE_FAR_CACHE;
        if (far)
            p->slots[t] = all - n + t;
        if (p->shape->flags & ROPE_SKIPS && (far ? t + 2 >= n : t % 3 == 2))
            p->slots[t] = t % 2 ? -1 : INT64_MIN;
    }
    for (int t = 0; t < n; t = cache_run_end(&p->cache, p->slots, n, t)) {
        if (p->slots[t] < 0)
            continue;
        p->cache.used[p->slots[t] / size] = true;
        cache_fill_page(&p->cache, (int)(p->slots[t] / size), (int)(p->slots[t] % size), random);
    }
}

static void set_single_slots(struct rope_problem *p, const int32_t *order, uint64_t *random)
{
    const int n = p->shape->tokens, all = p->cache.page_count * p->cache.desc.page_size;
    for (int t = 0; t < n; t++) {
        p->slots[t] = p->shape->flags & ROPE_IN_ORDER ? 5 + t : order[t];
        if (p->shape->flags & ROPE_FAR_CACHE) /* the last pages, all of whose offsets are large */
            p->slots[t] = all - 1 - t;
        if (p->shape->flags & ROPE_SKIPS && t % 3 == 1)
            p->slots[t] = t % 2 ? -1 : INT64_MIN;
        if (p->slots[t] < 0)
            continue;
        p->cache.used[p->slots[t] / p->cache.desc.page_size] = true;
        set_scales(p, (int)p->slots[t], random);
    }
}

static void set_slots(struct rope_problem *p, uint64_t *random)
{
    const bool block = p->cache.desc.scale == ATTN_KV_SCALE_BLOCK;
    const int pages = p->cache.page_count;
    int32_t *order = shuffled_pages(block ? pages : pages * p->cache.desc.page_size, random);
    p->slots = verify_allocate((size_t)p->shape->tokens, sizeof(*p->slots));
    if (block)
        set_runs(p, order, random);
    else
        set_single_slots(p, order, random);
    free(order);
    cache_copy(&p->untouched, &p->cache);
}

static void spread(struct tensor *t)
{
    t->head_stride = t->dim + 16;
    t->token_stride = t->heads * t->head_stride + 48;
}

/* q, key and value, each head of q with its gate where there is one. */
static void place_inputs(struct rope_problem *p)
{
    const struct rope_case *s = p->shape;
    const int dim = p->desc.head_dim, q_dim = p->desc.gate ? 2 * dim : dim;
    p->q = tensor_dense(p->precision, s->tokens, s->heads, dim);
    p->k = tensor_dense(p->precision, s->tokens, s->kv_heads, dim);
    p->v = tensor_dense(p->precision, s->tokens, s->kv_heads, dim);
    p->q.head_stride = q_dim;
    p->q.token_stride = s->heads * q_dim;
    if (s->flags & ROPE_PACKED) {
        const int64_t token = s->heads * q_dim + 2 * s->kv_heads * dim;
        p->q.token_stride = p->k.token_stride = p->v.token_stride = token;
        tensor_place_inside(&p->k, &p->q, s->heads * q_dim);
        tensor_place_inside(&p->v, &p->q, (s->heads * q_dim + s->kv_heads * dim));
    }
    p->gate_in = p->q;
    tensor_place_inside(&p->gate_in, &p->q, dim);
}

static void place_outputs(struct rope_problem *p)
{
    const struct rope_case *s = p->shape;
    const int dim = p->desc.head_dim;
    struct tensor *outputs[] = {&p->q_out, &p->k_out, &p->v_out, &p->gate};
    for (size_t i = 0; i < COUNT(outputs); i++) {
        const bool of_q = i == 0 || i == 3;
        *outputs[i] = tensor_dense(p->precision, s->tokens, of_q ? s->heads : s->kv_heads, dim);
        if (s->flags & ROPE_GAPS)
            spread(outputs[i]);
    }
    p->q_out.precision = p->q_precision;
}

static void place_weights(struct rope_problem *p)
{
    const struct rope_case *s = p->shape;
    const bool full = p->desc.norm == ATTN_NORM_FULL;
    p->q_weight = tensor_dense(p->precision, 1, full ? s->heads : 1, p->desc.head_dim);
    p->k_weight = tensor_dense(p->precision, 1, full ? s->kv_heads : 1, p->desc.head_dim);
    p->q_bias = tensor_dense(p->precision, 1, s->heads, p->desc.head_dim);
    p->k_bias = p->v_bias = tensor_dense(p->precision, 1, s->kv_heads, p->desc.head_dim);
}

/* Each token's sum of squares as other ranks' heads would make it: not that of this rank. */
static void set_squares(struct rope_problem *p, uint64_t *random)
{
    const size_t n = (size_t)p->shape->tokens;
    p->args.q_count = 2 * p->desc.heads * p->desc.head_dim;
    p->args.k_count = 2 * p->desc.kv_heads * p->desc.head_dim;
    p->q_squares = verify_allocate(n, sizeof(float));
    p->k_squares = verify_allocate(n, sizeof(float));
    for (size_t t = 0; t < n; t++) {
        p->q_squares[t] = (float)((1.25 + random_value(random) / 2) * p->args.q_count);
        p->k_squares[t] = (float)((1.25 + random_value(random) / 2) * p->args.k_count);
    }
}

void rope_set_inputs(struct rope_problem *p, const char *target, uint64_t *random)
{
    const struct rope_case *s = p->shape;
    place_inputs(p);
    place_outputs(p);
    place_weights(p);
    struct tensor *inputs[] = {
        &p->q,        &p->k,      &p->v,      &p->gate_in, &p->q_weight,
        &p->k_weight, &p->q_bias, &p->k_bias, &p->v_bias,
    };
    for (size_t i = 0; i < COUNT(inputs); i++)
        tensor_fill(inputs[i], random);
    set_squares(p, random);
    p->q_scale = p->q_precision->size == 1 ? random_scale(p->q_precision, random) : 1;
    set_positions(p, random);
    const bool block = p->desc.cache.scale == ATTN_KV_SCALE_BLOCK; /* a few tokens a page then */
    int pages = s->tokens / (block && s->page_size > 3 ? 3 : s->page_size) + 2;
    if (s->flags & ROPE_FAR_CACHE)
        pages = FAR_PAGES;
    cache_init(&p->cache, &p->desc.cache, target, s->kv_heads, p->desc.head_dim, p->desc.head_dim,
               pages, s->flags & ROPE_GAPS);
    if (s->flags & ROPE_FAR_CACHE)
        cache_spread(&p->cache, INT64_C(1) << 30);
    set_slots(p, random);
}

/* Only the rows that are read: the others stay undefined, and a simulator says so if they are. */
static void *upload_table(struct rope_problem *p)
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

static void set_input_strides(struct rope_problem *p)
{
    struct attn_rope_qk_norm_cache_args *a = &p->args;
    a->q_token_stride = p->q.token_stride;
    a->q_head_stride = p->q.head_stride;
    a->k_token_stride = p->k.token_stride;
    a->k_head_stride = p->k.head_stride;
    a->v_token_stride = p->v.token_stride;
    a->v_head_stride = p->v.head_stride;
}

void rope_upload_inputs(struct rope_problem *p)
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

bool rope_q_in_place(const struct rope_problem *p)
{
    return p->shape->flags & ROPE_IN_PLACE && p->q_precision->size == 2;
}

void rope_upload_outputs(struct rope_problem *p)
{
    struct attn_rope_qk_norm_cache_args *a = &p->args;
    struct device_memory *m = &p->memory;
    if (p->desc.gate) {
        a->gate = tensor_upload(&p->gate, m);
        a->gate_token_stride = p->gate.token_stride;
        a->gate_head_stride = p->gate.head_stride;
    }
    if (p->shape->flags & ROPE_NO_CACHE) {
        a->v = NULL;
    } else {
        a->slot_mapping = device_copy(m, p->slots, (size_t)a->tokens * sizeof(*p->slots));
        cache_upload(&p->cache, m, &a->cache);
    }
    if (!rope_q_in_place(p)) {
        a->q_out = tensor_upload(&p->q_out, m);
        a->q_out_scale = device_copy(m, &p->q_scale, sizeof(p->q_scale));
        a->q_out_token_stride = p->q_out.token_stride;
        a->q_out_head_stride = p->q_out.head_stride;
    }
    if (p->shape->flags & ROPE_IN_PLACE)
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
