/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of mla_rope_cache kernels: rotated queries, with W_UK if the kernel has it, and rows
 * of the cache.
 */
#include <math.h>

#include "tools/reference/head_product.h"
#include "tools/reference/mla_rope_cache.h"
#include "tools/verify/call.h"
#include "tools/verify/paged.h"
#include "tools/verify/pooled_row.h"
#include "tools/verify/stored.h"
#include "tools/verify/weights.h"

/* Rows of the tables of cosines and sines; number of pages with FAR_CACHE. */
enum { FAR_POSITIONS = 65536, NEAR_POSITIONS = 300, FAR_PAGES = 6 };

/* Flags of a shape. */
enum {
    /* kv_c and k_pe are slices of one tensor; q_pe is the end of heads of 192 elements */
    PACKED = 1 << 0,
    IN_Q_OUT = 1 << 1,  /* q_out already holds the latent part */
    IN_PLACE = 1 << 2,  /* q_pe is rotated in place */
    SKIPS = 1 << 3,     /* some slots are negative */
    NO_CACHE = 1 << 4,  /* the call has no cache and no slots */
    FAR_TABLE = 1 << 5, /* positions are large */
    FAR_CACHE = 1 << 6, /* pages are 1 GiB apart */
    IN_ORDER = 1 << 7,  /* positions and slots are 0, 1, ... */
    MANY = 1 << 8,      /* each wave has several parts and latents; slow */
};

/* The shapes. Some have the head counts of DeepSeek-V3, Kimi-K2, K3 and GLM-5 on one of several
 * ranks. */
static const struct shape {
    struct verify_shape is;
    int heads, tokens, page_size;
} shapes[] = {
    {{"one token", 0}, 16, 1, 64},
    {{"12 heads", PACKED}, 12, 7, 16},
    {{"views", VERIFY_VIEWS}, 8, 13, 1},
    {{"slots < 0", VERIFY_VIEWS | SKIPS}, 17, 6, 48},
    {{"one head", PACKED | SKIPS}, 1, 37, 64},
    {{"no cache", NO_CACHE | VERIFY_VIEWS}, 3, 6, 16},
    {{"latent in place", IN_Q_OUT | PACKED}, 24, 5, 16},
    {{"not absorbed", IN_PLACE | PACKED}, 16, 9, 3},
    {{"far position", FAR_TABLE | PACKED}, 40, 3, 272},
    {{"beyond 4 GiB", FAR_CACHE | SKIPS}, 16, 6, 16},
    {{"128 heads", PACKED}, 128, 2, 1024},
    {{"many tokens", VERIFY_VIEWS | SKIPS | MANY}, 17, 4100, 64},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", PACKED | IN_ORDER}, 16, 512, 64};

/* The data of a call, in call->own. */
struct own {
    float *angles; /* [token, rotary]: the rows of cos_sin that tokens read */
    /* weight of the norm */
    double weight[REF_ROPE_DIM_MAX];
    /* expected row of the cache, or head of a query */
    struct ref_rope_head expected;
    double off[REF_ROPE_DIM_MAX]; /* error bound of each element of the product with W_UK */
};

/* Returns the number of rotated elements at the end of a row of the cache. */
static int rotary(const struct call *c)
{
    return c->desc.mla_rope_cache.head_dim - c->desc.mla_rope_cache.head_dim_v;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_mla_rope_cache_args *a = &c->args.mla_rope_cache;
    c->desc.mla_rope_cache.heads = s->heads;
    c->desc.mla_rope_cache.cache.page_size = s->page_size;
    a->tokens = s->tokens;
    a->eps = 0.0625f; /* large enough to change results */
    a->max_position = call_has(c, IN_ORDER)    ? s->tokens
                      : call_has(c, FAR_TABLE) ? FAR_POSITIONS
                                               : NEAR_POSITIONS;
    a->cache.page_count = call_has(c, FAR_CACHE) ? FAR_PAGES : s->tokens / s->page_size + 3;
}

/* Returns the weights of the call. */
static struct weights weights_of(struct call *c)
{
    return (struct weights){.w = call_operand(c, MLA_ROPE_CACHE_W_UK),
                            .scale = call_operand(c, MLA_ROPE_CACHE_W_UK_SCALE),
                            .blocks = c->desc.mla_rope_cache.weights == ATTN_WEIGHTS_FP8_BLOCK};
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const int latent = c->desc.mla_rope_cache.head_dim_v, row = latent + rotary(c);
    struct operand *kv_c = call_operand(c, MLA_ROPE_CACHE_KV_C);
    struct operand *k_pe = call_operand(c, MLA_ROPE_CACHE_K_PE);
    struct operand *q_pe = call_operand(c, MLA_ROPE_CACHE_Q_PE);
    struct operand *cache = call_operand(c, MLA_ROPE_CACHE_K_CACHE);
    struct operand *plane = call_operand(c, MLA_ROPE_CACHE_V_CACHE);
    const struct attn_cache_desc *d = &c->desc.mla_rope_cache.cache;
    call_operand(c, MLA_ROPE_CACHE_COS_SIN)->align = 16; /* 16 bytes for a table of any type */
    weights_place(call_operand(c, MLA_ROPE_CACHE_W_UK));
    if (call_has(c, PACKED) && k_pe->given) {
        operand_set_stride(kv_c, 0, row);
        operand_set_stride(k_pe, 0, row);
        operand_place_inside(k_pe, kv_c, latent);
        operand_set_stride(q_pe, 1, 192);
        operand_set_stride(q_pe, 0, (int64_t)c->desc.mla_rope_cache.heads * 192);
    }
    if (call_has(c, IN_Q_OUT | IN_PLACE))
        operand_leave_out(call_operand(c, MLA_ROPE_CACHE_Q_NOPE));
    if (call_has(c, IN_PLACE))
        operand_leave_out(call_operand(c, MLA_ROPE_CACHE_Q_OUT));
    if (call_has(c, NO_CACHE)) {
        operand_leave_out(call_operand(c, MLA_ROPE_CACHE_SLOT_MAPPING));
        operand_leave_out(cache);
        operand_leave_out(call_operand(c, MLA_ROPE_CACHE_V_CACHE));
        operand_leave_out(call_operand(c, MLA_ROPE_CACHE_K_SCALE));
    }
    if (call_has(c, FAR_CACHE)) {
        operand_set_stride(cache, 0, (INT64_C(1) << 30) / cache->size);
        cache->far = true;
        if (d->layout == ATTN_KV_PLANES) {
            operand_set_stride(plane, 0, INT64_C(1) << 30);
            plane->far = true;
        }
    }
}

/* The functions from here on fill the inputs of a call. */

/* Makes a row of the table with DeepSeek-V3's YaRN: factor 40, 4096 positions in training, beta 32
 * and 1. Its mscale over mscale_all_dim is 1 (arXiv 2309.00071). Short tables have numbers of 8
 * significant bits. */
static void make_row(const struct call *c, int64_t position, float *row)
{
    const int n = rotary(c), half = n / 2;
    const double pi = 3.14159265358979323846, step = n / (2 * log(10000));
    const double low = floor(step * log(4096 / (32 * 2 * pi)));
    const double high = ceil(step * log(4096 / (2 * pi)));
    for (int i = 0; i < half; i++) {
        const double f = pow(10000, -2.0 * i / n);
        const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        const double angle = (double)position * (ramp * f / 40 + (1 - ramp) * f);
        row[i] = (float)cos(angle);
        row[half + i] = (float)sin(angle);
    }
    for (int i = 0; i < n && c->desc.mla_rope_cache.cos_sin_short; i++)
        row[i] = nearbyintf(row[i] * 128) / 128;
}

/* Fills the positions and the cosines and sines of the tokens. */
static void fill_positions(struct call *c)
{
    struct own *own = c->own;
    const struct attn_mla_rope_cache_args *a = &c->args.mla_rope_cache;
    const int n = rotary(c);
    struct operand *positions = call_operand(c, MLA_ROPE_CACHE_POSITIONS);
    own->angles = call_allocate(c, (size_t)a->tokens * (size_t)n + 1, sizeof(float));
    for (int t = 0; t < a->tokens && positions->given; t++) {
        float *row = own->angles + (size_t)t * (size_t)n;
        const int64_t any = (int64_t)(random_bits(&c->random) % (uint64_t)a->max_position);
        const int64_t p = call_has(c, IN_ORDER) ? t
                          : t == 0              ? a->max_position - 1
                          : t == 1              ? 0
                                                : any;
        make_row(c, p, row);
        operand_set_int(positions, AT(t), p);
        for (int i = 0; i < n; i++)
            operand_set(call_operand(c, MLA_ROPE_CACHE_COS_SIN), AT(p, i), row[i]);
    }
}

/* Fills slot_mapping: each token has another slot, whose contents before the launch are
 * overwritten. */
static void fill_slots(struct call *c)
{
    const struct attn_mla_rope_cache_args *a = &c->args.mla_rope_cache;
    const int size = c->desc.mla_rope_cache.cache.page_size, all = a->cache.page_count * size;
    struct operand *cache = call_operand(c, MLA_ROPE_CACHE_K_CACHE);
    struct operand *plane = call_operand(c, MLA_ROPE_CACHE_V_CACHE);
    struct operand *slots = call_operand(c, MLA_ROPE_CACHE_SLOT_MAPPING);
    /* coprime to `all`, so that every slot is used once */
    const int stride = all % 7 ? 7 : all % 5 ? 5 : 1;
    for (int t = 0; t < a->tokens && slots->given; t++) {
        int64_t slot = call_has(c, IN_ORDER)    ? t
                       : call_has(c, FAR_CACHE) ? all - 1 - t
                                                : (3 + t * stride) % all;
        if (call_has(c, SKIPS) && t % 3 == 1)
            slot = t % 2 ? -1 : INT64_MIN;
        operand_set_int(slots, AT(t), slot);
        if (slot >= 0)
            operand_set(cache, AT(slot / size, slot % size, 0, 0), 1);
        if (slot >= 0 && plane->given)
            operand_set(plane, AT(slot / size, slot % size, 0, 0), 1);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    static const unsigned inputs[] = {MLA_ROPE_CACHE_Q_NOPE, MLA_ROPE_CACHE_Q_PE,
                                      MLA_ROPE_CACHE_KV_C, MLA_ROPE_CACHE_K_PE,
                                      MLA_ROPE_CACHE_KV_WEIGHT};
    for (size_t i = 0; i < COUNT(inputs); i++)
        operand_set_random(call_operand(c, inputs[i]), &c->random);
    struct operand *q_scale = call_operand(c, MLA_ROPE_CACHE_Q_OUT_SCALE);
    struct operand *k_scale = call_operand(c, MLA_ROPE_CACHE_K_SCALE);
    if (q_scale->given)
        operand_set(q_scale, AT(0),
                    stored_scale(call_operand(c, MLA_ROPE_CACHE_Q_OUT)->precision, &c->random));
    if (k_scale->given)
        operand_set(k_scale, AT(0),
                    stored_scale(call_operand(c, MLA_ROPE_CACHE_K_CACHE)->precision, &c->random));
    if (c->desc.mla_rope_cache.product_dim) {
        const struct weights weights = weights_of(c);
        weights_fill(&weights, 0.25, &c->random);
    }
    fill_positions(c);
    fill_slots(c);
}

/* The functions from here on compare the results of a call. */

/*
 * Bounds an element's error relative to the sum of the magnitudes of its terms. With f = 2^-24 the
 * bound is (D + 5) f / 2 + 5 f for a norm over D elements, and 2 f for rotation. rope_compare.c
 * derives it. `row`: true for a row of the cache, false for a query.
 */
static double arithmetic_of(const struct call *c, bool row, int d)
{
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    if (d >= desc->head_dim_v)
        return desc->rope == ATTN_ROPE_NONE ? 0 : 2 * STORED_F;
    return row && desc->norm != ATTN_NORM_NONE ? ((desc->head_dim_v + 5) / 2.0 + 5) * STORED_F : 0;
}

/* Computes `out`, a head's query times the head's part of W_UK, and the bounds own->off.
 * tools/verify/head_product.c derives the bound of the sum. The sum is rounded to dtype before it
 * is stored as another type. */
static void absorb(struct call *c, int token, int head, double *out)
{
    struct own *own = c->own;
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    const struct operand *q = call_operand(c, MLA_ROPE_CACHE_Q_NOPE);
    const struct weights weights = weights_of(c);
    const int n = desc->product_dim;
    const double narrow = desc->q_out_dtype == ATTN_FP8 ? q->precision->unit : 0;
    struct weights_row row;
    double x[WEIGHTS_COLUMNS], magnitude;
    for (int k = 0; k < n; k++)
        x[k] = operand_value(q, AT(token, head, k));
    for (int d = 0; d < desc->head_dim_v; d++) {
        weights_read(&weights, head, d, &row);
        out[d] = ref_head_product(x, row.w, n, row.scale, WEIGHTS_BLOCK, &magnitude);
        own->off[d] = stored_product_error(n, magnitude);
        own->off[d] += narrow * (fabs(out[d]) + own->off[d]);
    }
}

/* Computes own->expected: with `row` the cache row of a token, else a head of its query. */
static void expect(struct call *c, int token, int head, bool row)
{
    struct own *own = c->own;
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    const struct operand *latent =
        call_operand(c, row ? MLA_ROPE_CACHE_KV_C : MLA_ROPE_CACHE_Q_NOPE);
    const struct operand *pe = call_operand(c, row ? MLA_ROPE_CACHE_K_PE : MLA_ROPE_CACHE_Q_PE);
    const int n = rotary(c);
    double x[REF_ROPE_DIM_MAX], y[REF_ROPE_DIM_MAX], angles[REF_ROPE_DIM_MAX];
    const bool absorbs = !row && desc->product_dim;
    for (int d = 0; latent->given && !absorbs && d < desc->head_dim_v; d++)
        x[d] = operand_value(latent, row ? AT(token, d) : AT(token, head, d));
    if (absorbs)
        absorb(c, token, head, x);
    for (int d = 0; d < n; d++) {
        y[d] = operand_value(pe, row ? AT(token, d) : AT(token, head, d));
        angles[d] = own->angles[(size_t)token * (size_t)n + (size_t)d];
    }
    const struct ref_mla_row reference = {
        .latent = desc->head_dim_v,
        .rotary = n,
        .pairs = (enum ref_pairs)desc->rope,
        .norm = row && desc->norm != ATTN_NORM_NONE,
        .eps = c->args.mla_rope_cache.eps,
        .c = latent->given ? x : NULL,
        .weight = own->weight,
        .pe = y,
        .cos = angles,
        .sin = angles + n / 2,
    };
    ref_mla_row(&reference, &own->expected);
}

/* Compares the element `at` of `o` with element d of own->expected. */
static void compare_element(struct call *c, struct operand *o, const struct operand *scale,
                            bool row, int d, const int64_t at[])
{
    const struct own *own = c->own;
    const struct ref_rope_head *r = &own->expected;
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    const bool product = !row && desc->product_dim && d < desc->head_dim_v;
    const double divisor = scale && scale->given ? operand_value(scale, AT(0)) : 1;
    const double arithmetic = product ? own->off[d] : arithmetic_of(c, row, d) * r->magnitude[d];
    double bound;
    const double expected = stored_value(o->precision, divisor, r->out[d], arithmetic, &bound);
    call_compare(c, o, at, expected, bound);
}

/* Compares the queries of a token. */
static void compare_queries(struct call *c, int t)
{
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    struct operand *out = call_operand(c, MLA_ROPE_CACHE_Q_OUT);
    const struct operand *scale = call_operand(c, MLA_ROPE_CACHE_Q_OUT_SCALE);
    const int latent = desc->head_dim_v;
    for (int h = 0; h < desc->heads; h++) {
        expect(c, t, h, false);
        for (int d = call_has(c, IN_Q_OUT | IN_PLACE) ? latent : 0; d < desc->head_dim; d++) {
            if (call_has(c, IN_PLACE))
                compare_element(c, call_operand(c, MLA_ROPE_CACHE_Q_PE), NULL, false, d,
                                AT(t, h, d - latent));
            else
                compare_element(c, out, scale, false, d, AT(t, h, d));
        }
    }
}

/* Compares a packed row of the cache: elements of the latent, the scale of each run of them, and
 * the rotated key in dtype. A scale has the error of the largest number of its run, and 2 units of
 * float32. */
static void compare_packed(struct call *c, struct slot s)
{
    const struct ref_rope_head *r = &((struct own *)c->own)->expected;
    struct paged p = paged_of(c, MLA_ROPE_CACHE_K_CACHE, &c->desc.mla_rope_cache.cache, true);
    double bound;
    for (int d = 0; d < p.dim[CACHE_V]; d++) {
        const int at = p.dim[CACHE_K] + d;
        const double arithmetic = arithmetic_of(c, true, at) * r->magnitude[at];
        const double expected = stored_value(p.rotated, 1, r->out[at], arithmetic, &bound);
        paged_compare(c, &p, CACHE_V, s, d, expected, bound);
    }
    for (int first = 0; first < p.dim[CACHE_K]; first += packed_run(&p)) {
        const double scale = packed_result_scale(&p, s, first);
        double largest = 0, off = 0;
        for (int d = first; d < first + packed_run(&p); d++) {
            const double arithmetic = arithmetic_of(c, true, d) * r->magnitude[d];
            const double expected = stored_value(p.precision, scale, r->out[d], arithmetic, &bound);
            paged_compare(c, &p, CACHE_K, s, d, expected * scale, bound * scale);
            largest = fmax(largest, fabs(r->out[d]));
            off = fmax(off, arithmetic);
        }
        packed_compare_scale(c, &p, s, first, largest, off + 2 * STORED_F * largest);
    }
}

/* Compares a row of the cache in which all elements have scales. */
static void compare_pooled(struct call *c, struct slot s)
{
    const struct ref_rope_head *r = &((struct own *)c->own)->expected;
    double error[REF_PACKED_LATENT];
    for (int d = 0; d < REF_PACKED_LATENT; d++)
        error[d] = arithmetic_of(c, true, d) * r->magnitude[d];
    const struct pooled_row row = {.format = paged_row(c->desc.mla_rope_cache.cache.layout),
                                   .tensor = call_operand(c, MLA_ROPE_CACHE_K_CACHE),
                                   .at = {s.page, s.token},
                                   .axis = 3};
    pooled_row_compare(c, &row, r->out, error);
}

/* Compares the cache row of a token. */
static void compare_row(struct call *c, int t)
{
    const struct attn_mla_rope_cache_desc *desc = &c->desc.mla_rope_cache;
    const struct operand *slots = call_operand(c, MLA_ROPE_CACHE_SLOT_MAPPING);
    const struct operand *scale = call_operand(c, MLA_ROPE_CACHE_K_SCALE);
    const int64_t slot = slots->given ? operand_int(slots, AT(t)) : -1;
    const int64_t page = slot / desc->cache.page_size, at = slot % desc->cache.page_size;
    const int latent = desc->head_dim_v;
    const bool packed = paged_has_rows(&desc->cache);
    expect(c, t, 0, true);
    for (int d = 0; d < desc->head_dim; d++) {
        if (desc->keep_kv && d < latent)
            compare_element(c, call_operand(c, MLA_ROPE_CACHE_KV_C_OUT), NULL, true, d, AT(t, d));
        if (desc->keep_kv && d >= latent)
            compare_element(c, call_operand(c, MLA_ROPE_CACHE_K_PE_OUT), NULL, true, d,
                            AT(t, d - latent));
        if (slot >= 0 && !packed)
            compare_element(c, call_operand(c, MLA_ROPE_CACHE_K_CACHE), scale, true, d,
                            AT(page, at, 0, d));
    }
    if (slot >= 0 && paged_row(desc->cache.layout))
        compare_pooled(c, (struct slot){.page = page, .token = (int)at});
    else if (slot >= 0 && packed)
        compare_packed(c, (struct slot){.page = page, .token = (int)at});
}

/* Compares the queries and cache rows of all tokens. */
static void compare(struct call *c)
{
    struct own *own = c->own;
    const struct operand *weight = call_operand(c, MLA_ROPE_CACHE_KV_WEIGHT);
    for (int d = 0; weight->given && d < c->desc.mla_rope_cache.head_dim_v; d++)
        own->weight[d] = operand_value(weight, AT(d));
    for (int t = 0; t < c->args.mla_rope_cache.tokens; t++) {
        compare_queries(c, t);
        compare_row(c, t);
    }
}

/* True if the kernel is verified on the shape. A kernel with the product writes q_out, and runs
 * shapes with few heads and tokens. IN_PLACE needs a q_out of q's type and a rotated part. MANY
 * needs a rotated part, and runs for q_out of fp8 only, since all types have the same code. */
static bool takes(const struct call *c)
{
    const struct attn_mla_rope_cache_desc *d = &c->desc.mla_rope_cache;
    const struct shape *shape = c->shape;
    if (call_has(c, MANY) && (d->q_out_dtype != ATTN_FP8 || !rotary(c)))
        return false;
    if (d->product_dim)
        return !call_has(c, IN_PLACE | IN_Q_OUT | MANY) && shape->heads <= 40;
    return !call_has(c, IN_PLACE) || (d->q_out_dtype == d->dtype && rotary(c));
}

/* Returns the bytes of queries and cache rows, read and written, and of data that tokens share. */
static double least_bytes(const struct call *c)
{
    const struct attn_mla_rope_cache_desc *d = &c->desc.mla_rope_cache;
    const double q = d->q_out_dtype == ATTN_FP8 ? 1 : 2, kv = d->cache.dtype == ATTN_FP8 ? 1 : 2;
    const double cached =
        paged_row(d->cache.layout)          ? paged_row(d->cache.layout)->bytes
        : d->cache.layout == ATTN_KV_PACKED ? REF_PACKED_ROW
        : d->cache.layout == ATTN_KV_SCALES_LAST || d->cache.layout == ATTN_KV_PLANES
            ? REF_MIXED_ROW + REF_MIXED_SCALES
            : d->head_dim * kv;
    const double saved = d->product_dim ? 2.0 * d->heads * (d->head_dim_v - d->product_dim) : 0;
    const double row =
        d->head_dim * (d->heads * (2 + q) + 2 + (d->keep_kv ? 2 : 0)) + cached - saved;
    const double weights = d->product_dim ? weights_bytes(&c->operands[MLA_ROPE_CACHE_W_UK],
                                                          &c->operands[MLA_ROPE_CACHE_W_UK_SCALE])
                                          : 0;
    const double table =
        d->rope == ATTN_ROPE_NONE ? 0 : 8 + rotary(c) * (d->cos_sin_short ? 2.0 : 4.0);
    return c->args.mla_rope_cache.tokens * (row + table + 8) + 2.0 * d->head_dim_v + weights;
}

const struct verify_op verify_mla_rope_cache = {
    .op = "mla_rope_cache",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=2048"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, tokens), 1 << 20, "tokens of one sequence"},
            {"heads", offsetof(struct shape, heads), 128, "query heads"},
            {"page", offsetof(struct shape, page_size), 65536, "tokens in a page"},
        },
    .own_size = sizeof(struct own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
