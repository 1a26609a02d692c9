/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of rope_qk_norm_cache kernels: shapes, tables and inputs.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/reference/rope_qk_norm_cache.h"
#include "tools/verify/rope.h"

/* Rows of the table of cosines and sines; rows with small positions; pages that are far apart;
 * positions of a token in multimodal rotation. */
enum { MAX_POSITION = 131072, NEAR_POSITIONS = 512, FAR_PAGES = 6, STREAMS = 3 };

/** Ways in which models compute their tables of cosines and sines. They differ only in the kernel's
 * inputs. */
enum rope_table { PLAIN, YARN, LLAMA3 };

/* The shapes. They have head counts of models, whole or on one of several ranks. */
static const struct shape {
    struct verify_shape is;
    int heads, kv_heads, tokens, page_size;
    enum rope_table table;
} shapes[] = {
    {{"one token", 0}, 32, 4, 1, 16, PLAIN},
    {{"one kv head", ROPE_PACKED}, 12, 1, 5, 16, LLAMA3},
    {{"in place", ROPE_PACKED | ROPE_IN_PLACE}, 6, 1, 7, 64, YARN},
    {{"gaps", ROPE_PACKED | VERIFY_VIEWS}, 10, 2, 13, 48, PLAIN},
    {{"prefill", ROPE_PACKED | ROPE_IN_ORDER}, 16, 8, 70, 272, LLAMA3},
    {{"slots < 0", ROPE_SKIPS | VERIFY_VIEWS}, 5, 1, 11, 1, PLAIN},
    {{"no cache", ROPE_NO_CACHE | VERIFY_VIEWS}, 3, 2, 6, 16, YARN},
    {{"far position", ROPE_FAR_TABLE | ROPE_PACKED}, 40, 8, 5, 3, YARN},
    {{"beyond 4 GiB", ROPE_FAR_CACHE | ROPE_SKIPS}, 16, 2, 6, 16, PLAIN},
    {{"wide", ROPE_PACKED}, 96, 8, 2, 1024, PLAIN},
    {{"many tokens", ROPE_PACKED | ROPE_IN_ORDER}, 2, 1, 523, 16, PLAIN},
    {{"many, gaps", ROPE_SKIPS | VERIFY_VIEWS}, 11, 3, 270, 48, PLAIN},
};

/* The shape with which a trace begins. */
static const struct shape traced = {
    {"trace", ROPE_PACKED | ROPE_IN_ORDER | ROPE_COUNT_UP}, 32, 8, 512, 64, PLAIN};

/* The largest number that can be stored with the scales of caches here. A few results are
 * larger. */
static const double most_stored = 4;

/* The functions from here on fill the table of cosines and sines. */

/* Returns the angle, in radians per position, by which pair `i` rotates. */
static double pair_frequency(enum rope_table table, int i, int rotary_dim)
{
    const double pi = 3.14159265358979323846, base = table == LLAMA3 ? 500000 : 150000;
    const double f = pow(base, -2.0 * i / rotary_dim);
    if (table == LLAMA3) { /* factor 8, low 1, high 4, 8192 positions in training */
        const double turns = 8192 * f / (2 * pi);
        const double smooth = fmin(fmax((turns - 1) / (4 - 1), 0), 1);
        return (1 - smooth) * f / 8 + smooth * f;
    }
    if (table == YARN) { /* factor 32; beta 32 and 1; 4096 positions (Peng, arXiv 2309.00071) */
        const double step = rotary_dim / (2 * log(base));
        const double low = floor(step * log(4096 / (32 * 2 * pi)));
        const double high = ceil(step * log(4096 / (2 * pi)));
        const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        return ramp * f / 32 + (1 - ramp) * f;
    }
    return f;
}

/* Returns a number near x that every type represents exactly. */
static double few_bits(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return exponent < -12 ? 0 : ldexp(nearbyint(fraction * 256) / 256, exponent);
}

/* Fills the row of a position that some token has. Other rows stay undefined, and the simulator
 * reports reads of them. */
static void fill_row(struct call *c, int64_t position)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    const enum rope_table table = ((const struct shape *)c->shape)->table;
    struct operand *o = call_operand(c, ROPE_QK_NORM_CACHE_COS_SIN);
    const double scale = table == YARN ? 0.1 * log(32) + 1 : 1;
    const int half = d->rotary_dim / 2;
    for (int i = 0; i < d->rotary_dim; i++) {
        const double angle = (double)position * pair_frequency(table, i % half, d->rotary_dim);
        const double x = scale * (i < half ? cos(angle) : sin(angle));
        operand_set(o, AT(position, i), d->cos_sin_short ? few_bits(x) : x);
    }
}

/* Returns the index of the position that rotates pair i, in the order of Qwen2-VL or of
 * Qwen3-VL. */
int rope_stream(const struct call *c, int i)
{
    const enum attn_mrope mrope = c->desc.rope_qk_norm_cache.mrope;
    const int32_t *n = c->args.rope_qk_norm_cache.sections;
    if (mrope == ATTN_MROPE_SECTIONS)
        return i < n[0] ? 0 : i < n[0] + n[1] ? 1 : 2;
    if (mrope == ATTN_MROPE_INTERLEAVED)
        return i % 3 == 1 && i < 3 * n[1] ? 1 : i % 3 == 2 && i < 3 * n[2] ? 2 : 0;
    return 0;
}

/* The functions from here on choose the sizes of a call. */

struct paged rope_cache(struct call *c)
{
    return paged_of(c, ROPE_QK_NORM_CACHE_K_CACHE, &c->desc.rope_qk_norm_cache.cache, false);
}

bool rope_q_in_place(const struct call *c)
{
    return call_has(c, ROPE_IN_PLACE) && c->desc.rope_qk_norm_cache.q_out_dtype != ATTN_FP8;
}

/* Sets the sections of multimodal rotation. */
static void set_sections(struct call *c)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    struct attn_rope_qk_norm_cache_args *a = &c->args.rope_qk_norm_cache;
    const int half = d->rotary_dim / 2;
    const bool sections = d->mrope == ATTN_MROPE_SECTIONS;
    /* interleaved: sections are so short that some of every third pair use position 0 */
    a->sections[1] = sections ? half * 3 / 8 : half * 5 / 16;
    a->sections[2] = sections ? half * 3 / 8 : half / 4;
    a->sections[0] = half - a->sections[1] - a->sections[2];
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    struct attn_rope_qk_norm_cache_args *a = &c->args.rope_qk_norm_cache;
    const bool block = d->cache.scale == ATTN_KV_SCALE_BLOCK; /* a page then has few tokens */
    d->heads = s->heads;
    d->kv_heads = s->kv_heads;
    d->cache.page_size = paged_size(&d->cache, s->page_size, c->step);
    a->tokens = s->tokens;
    a->eps = 0.0625f; /* large enough to change results */
    a->max_position = call_has(c, ROPE_COUNT_UP)    ? s->tokens
                      : call_has(c, ROPE_FAR_TABLE) ? MAX_POSITION
                                                    : NEAR_POSITIONS;
    /* the number of elements on all ranks, not only on this one */
    a->q_count = 2 * d->heads * d->head_dim;
    a->k_count = 2 * d->kv_heads * d->head_dim;
    a->cache.page_count = s->tokens / (block && s->page_size > 3 ? 3 : s->page_size) + 2;
    if (call_has(c, ROPE_FAR_CACHE))
        a->cache.page_count = FAR_PAGES;
    set_sections(c);
}

/* Places q with its gates, key and value of a token in one row. */
static void pack(struct call *c)
{
    struct operand *q = call_operand(c, ROPE_QK_NORM_CACHE_Q);
    const int64_t q_row = q->dims[1] * q->dims[2];
    int64_t row = q_row;
    for (int part = 0; part < CACHE_PARTS; part++) {
        struct operand *o = call_operand(c, ROPE_QK_NORM_CACHE_K + part);
        operand_set_strides(o, false, false);
        operand_place_inside(o, q, row);
        row += o->dims[1] * o->dims[2];
    }
    operand_set_strides(q, false, false);
    for (int i = 0; i < 1 + CACHE_PARTS; i++)
        operand_set_stride(call_operand(c, ROPE_QK_NORM_CACHE_Q + i), 0, row);
}

/* Places the outputs: in the memory of the inputs, or elsewhere. */
static void place_outputs(struct call *c)
{
    const bool back = call_has(c, ROPE_IN_PLACE);
    for (int part = 0; part < CACHE_PARTS; part++) {
        struct operand *in = call_operand(c, ROPE_QK_NORM_CACHE_K + part);
        if (back || !in->given || !c->desc.rope_qk_norm_cache.keep_kv)
            operand_leave_out(call_operand(c, ROPE_QK_NORM_CACHE_K_OUT + part));
        in->schema.written |= back && c->desc.rope_qk_norm_cache.keep_kv;
    }
    if (!rope_q_in_place(c))
        return;
    operand_leave_out(call_operand(c, ROPE_QK_NORM_CACHE_Q_OUT));
    call_operand(c, ROPE_QK_NORM_CACHE_Q)->schema.written = true;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    struct operand *table = call_operand(c, ROPE_QK_NORM_CACHE_COS_SIN);
    table->align = 16;
    table->far = true;
    if (call_has(c, ROPE_PACKED))
        pack(c);
    if (call_has(c, ROPE_NO_CACHE)) {
        paged_leave_out(c, ROPE_QK_NORM_CACHE_K_CACHE);
        operand_leave_out(call_operand(c, ROPE_QK_NORM_CACHE_SLOT_MAPPING));
        operand_leave_out(call_operand(c, ROPE_QK_NORM_CACHE_V));
    }
    if (call_has(c, ROPE_FAR_CACHE))
        paged_spread(c, ROPE_QK_NORM_CACHE_K_CACHE, INT64_C(1) << 30);
    place_outputs(c);
}

/* The functions from here on fill the inputs of a call. */

/* Fills positions: the largest, the smallest, and random ones, some of them twice. */
static void fill_positions(struct call *c)
{
    const int n = c->args.rope_qk_norm_cache.tokens;
    const int64_t most = c->args.rope_qk_norm_cache.max_position;
    struct operand *o = call_operand(c, ROPE_QK_NORM_CACHE_POSITIONS);
    const bool streams = o->schema.ndim == 2;
    for (int t = 0; t < (streams ? STREAMS : 1) * n && o->given; t++) {
        const int64_t position = call_has(c, ROPE_COUNT_UP) ? t % n
                                 : t == 0                   ? most - 1
                                 : t == 1 ? 0
                                          : (int64_t)(random_bits(&c->random) % (uint64_t)most);
        operand_set_int(o, streams ? AT(t / n, t % n) : AT(t), position);
        fill_row(c, position);
    }
}

/* Returns the scale with which the element type stores numbers up to (1 + fraction) *
 * most_stored. */
static float scale_of(const struct precision *type, double fraction)
{
    return (float)((1 + fraction) * most_stored / type->limit);
}

/* Chooses slots for pages that have scales. Each page gets a run of three consecutive tokens, or
 * fewer at its end, from a random token on. Older tokens of the page already have a scale. */
static void choose_runs(struct call *c, const struct paged *p, const int32_t *order, int64_t *slots)
{
    const int n = c->args.rope_qk_norm_cache.tokens, size = p->desc.page_size;
    const int run = size < 3 ? size : 3, all = p->page_count * size;
    const bool far = call_has(c, ROPE_FAR_CACHE);
    int first = 0;
    for (int t = 0; t < n; t++) {
        if (t % run == 0)
            first = (int)(random_bits(&c->random) % (uint64_t)(size - run + 1));
        slots[t] = far                          ? all - n + t
                   : call_has(c, ROPE_COUNT_UP) ? t
                   : call_has(c, ROPE_IN_ORDER) ? 5 + t
                                                : (int64_t)order[t / run] * size + first + t % run;
        if (call_has(c, ROPE_SKIPS) && (far ? t + 2 >= n : t % 3 == 2))
            slots[t] = t % 2 ? -1 : INT64_MIN;
    }
}

/* Chooses slots in the last pages, whose offsets are all large if pages are far apart. */
static void choose_single_slots(struct call *c, const struct paged *p, const int32_t *order,
                                int64_t *slots)
{
    const int all = p->page_count * p->desc.page_size;
    for (int t = 0; t < c->args.rope_qk_norm_cache.tokens; t++) {
        slots[t] = call_has(c, ROPE_FAR_CACHE)  ? all - 1 - t
                   : call_has(c, ROPE_COUNT_UP) ? t
                   : call_has(c, ROPE_IN_ORDER) ? 5 + t
                                                : order[t];
        if (call_has(c, ROPE_SKIPS) && t % 3 == 1)
            slots[t] = t % 2 ? -1 : INT64_MIN;
    }
}

/* Fills the parts of the cache that the kernel reads: scales of the tensor or of heads, or older
 * tokens of pages with scales. */
static void fill_cache(struct call *c, struct paged *p, const int64_t *slots)
{
    const int n = c->args.rope_qk_norm_cache.tokens, size = p->desc.page_size;
    for (int t = 0; t < n; t++) {
        if (slots[t] >= 0)
            paged_touch(p, slots[t] / size);
    }
    for (int i = 0; i < paged_shared_scales(p); i++) {
        double fraction = 0;
        for (int part = 0; part < CACHE_PARTS; part++) {
            fraction = paged_scale_fraction(part, fraction, &c->random);
            paged_set_shared_scale(p, part, i, scale_of(p->precision, fraction));
        }
    }
    for (int t = 0; p->desc.scale == ATTN_KV_SCALE_BLOCK && t < n;
         t = slots_run_end(size, slots, n, t)) {
        if (slots[t] >= 0)
            paged_fill_page(p, slots[t] / size, (int)(slots[t] % size), &c->random);
    }
}

/* Fills slot_mapping, the slot of the cache for each token. */
static void fill_slots(struct call *c)
{
    struct paged p = rope_cache(c);
    const int n = c->args.rope_qk_norm_cache.tokens;
    const bool block = p.desc.scale == ATTN_KV_SCALE_BLOCK;
    int32_t *order = shuffled_pages(p.page_count * (block ? 1 : p.desc.page_size), &c->random);
    int64_t *slots = verify_allocate((size_t)n, sizeof(*slots));
    (block ? choose_runs : choose_single_slots)(c, &p, order, slots);
    for (int t = 0; t < n; t++)
        operand_set_int(call_operand(c, ROPE_QK_NORM_CACHE_SLOT_MAPPING), AT(t), slots[t]);
    fill_cache(c, &p, slots);
    free(slots);
    free(order);
}

/* Fills each token's sum of squares as if other ranks' heads were included. */
static void fill_squares(struct call *c)
{
    const struct attn_rope_qk_norm_cache_args *a = &c->args.rope_qk_norm_cache;
    struct operand *q = call_operand(c, ROPE_QK_NORM_CACHE_Q_SQUARES);
    struct operand *k = call_operand(c, ROPE_QK_NORM_CACHE_K_SQUARES);
    for (int t = 0; q->given && t < a->tokens; t++) {
        operand_set(q, AT(t), (1.25 + random_value(&c->random) / 2) * a->q_count);
        operand_set(k, AT(t), (1.25 + random_value(&c->random) / 2) * a->k_count);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    static const unsigned random[] = {
        ROPE_QK_NORM_CACHE_Q,        ROPE_QK_NORM_CACHE_K,        ROPE_QK_NORM_CACHE_V,
        ROPE_QK_NORM_CACHE_Q_WEIGHT, ROPE_QK_NORM_CACHE_K_WEIGHT, ROPE_QK_NORM_CACHE_Q_BIAS,
        ROPE_QK_NORM_CACHE_K_BIAS,   ROPE_QK_NORM_CACHE_V_BIAS,
    };
    const struct operand *q_out = call_operand(c, ROPE_QK_NORM_CACHE_Q_OUT);
    struct operand *scale = call_operand(c, ROPE_QK_NORM_CACHE_Q_OUT_SCALE);
    for (size_t i = 0; i < COUNT(random); i++)
        operand_set_random(call_operand(c, random[i]), &c->random);
    fill_squares(c);
    if (scale->given)
        operand_set(scale, AT(0),
                    scale_of(q_out->precision, paged_scale_fraction(CACHE_K, 0, &c->random)));
    fill_positions(c);
    if (!call_has(c, ROPE_NO_CACHE))
        fill_slots(c);
}

/* Returns why the reference does not cover the kernel, or NULL if it does. */
static const char *covers(const struct call *c)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    return d->head_dim > REF_ROPE_DIM_MAX || d->head_dim_v > REF_ROPE_DIM_MAX
               ? "the reference does not cover head_dim"
               : NULL;
}

/* Returns the bytes that a launch reads and writes. Of the cache, only written bytes are
 * counted. */
static double least_bytes(const struct call *c)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    const double rows = (double)c->args.rope_qk_norm_cache.tokens * d->kv_heads;
    const double scale = d->cache.scale == ATTN_KV_SCALE_TOKEN ? sizeof(float) : 0;
    const double dims = d->head_dim + d->head_dim_v;
    return call_operand_bytes(c) + rows * (dims * attn_dtype_size(d->cache.dtype) + 2 * scale);
}

const struct verify_op verify_rope_qk_norm_cache = {
    .op = "rope_qk_norm_cache",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=2048"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, tokens), 1 << 20, "tokens of one sequence"},
            {"heads", offsetof(struct shape, heads), 1024, "query heads"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024, "key/value heads"},
            {"page_size", offsetof(struct shape, page_size), 65536, "tokens in a page"},
        },
    .covers = covers,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = rope_compare,
    .least_bytes = least_bytes,
};
