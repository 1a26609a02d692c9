/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for rope_qk_norm_cache kernels: how far a kernel may be off, and whether it wrote
 * anything else.
 */
#include <math.h>

#include "tools/verify/rope.h"
#include "tools/reference/rope_qk_norm_cache.h"

static void fail_element(struct rope_problem *p, const char *what, int token, int head, int d,
                         double got, double expected)
{
    verify_fail(p->row, "%s: token %d, head %d, element %d is %g, expected %g",
                isnan(got) ? "not written, or NaN" : what, token, head, d, got, expected);
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
 * the largest |x|, off as above, times a constant rounded to float32: 2 f; one per page is that of
 * several tokens. What the page had before is multiplied by a quotient then, which is good to an
 * ulp, with a product: no more than what is stored anew.
 */
static const double f = 0x1p-24;

static double arithmetic_error(const struct rope_problem *p)
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

static double read_element(struct rope_problem *p, const struct target *t, int token, int head,
                           int d)
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

static void compare_head(struct rope_problem *p, const struct target *t, int token, int head,
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
static void compare_scale(struct rope_problem *p, enum cache_part part, int token, int head,
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

/* What the tokens of a page from `slot` on, that a call has, make of its scale and of those before
 * them; `largest` |x| of theirs, off by `terms` at most. */
static void compare_run(struct rope_problem *p, enum cache_part part, int token, int head,
                        double largest, double terms)
{
    const double limit = p->cache.precision->limit;
    const int size = p->cache.desc.page_size;
    const int page = (int)(p->slots[token] / size), begin = (int)(p->slots[token] % size);
    const float old = *cache_scale(&p->untouched, part, page, 0, head);
    float *scale = cache_scale(&p->cache, part, page, 0, head);
    const double expected = ref_cache_block_scale(&largest, 1, begin, old, limit);
    const double bound = terms / limit + 2 * f * expected;
    const bool kept = begin > 0 && *scale == old && fabs(expected - old) <= bound;
    if (!kept && !(fabs(*scale - expected) <= bound))
        fail_element(p, "scale", token, head, 0, *scale, expected);
    const struct target t = {
        .what = "before",
        .type = p->cache.precision,
        .part = part,
        .scale = *scale,
    };
    for (int at = 0; at < begin && *scale != old; at++) {
        for (int d = 0; d < p->desc.head_dim; d++) {
            const double x = cache_value(&p->untouched, part, page, at, head, d);
            double most;
            const double stored = expected_value(&t, x, 0, &most);
            const double got = cache_value(&p->cache, part, page, at, head, d);
            if (!(fabs(got - stored) <= most))
                fail_element(p, t.what, token, head, d, got, stored);
            cache_set_bits(&p->cache, part, page, at, head, d,
                           cache_bits(&p->untouched, part, page, at, head, d));
        }
    }
    *scale = old;
}

static void compare_cached(struct rope_problem *p, enum cache_part part, int token, int head,
                           const struct ref_rope_head *r, double arithmetic)
{
    const int size = p->cache.desc.page_size;
    const int page = (int)(p->slots[token] / size), at = (int)(p->slots[token] % size);
    const bool scaled = p->cache.desc.scale != ATTN_KV_SCALE_NONE;
    const struct target t = {
        .what = part == CACHE_K ? "k" : "v",
        .type = p->cache.precision,
        .part = part,
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
static void rotated_head(const struct rope_problem *p, bool of_q, int token, int head,
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
        .dim = d->head_dim,
        .rotary_dim = d->rotary_dim,
        .pairs = (enum ref_pairs)d->rope,
        .norm = d->norm != ATTN_NORM_NONE,
        .gemma = d->norm == ATTN_NORM_GEMMA_RMS,
        .given = full,
        .mean_square = squares / (of_q ? p->args.q_count : p->args.k_count),
        .eps = p->args.eps,
        .x = head_of(of_q ? &p->q : &p->k, token, head),
        .bias = d->bias ? head_of(of_q ? &p->q_bias : &p->k_bias, 0, head) : NULL,
        .weight = head_of(weight, 0, full ? head : 0),
        .cos = angles,
        .sin = angles + d->rotary_dim / 2,
    };
    ref_rope_head(&reference, r);
}

static void plain_head(const struct rope_problem *p, const struct tensor *x,
                       const struct tensor *bias, int token, int head, struct ref_rope_head *r)
{
    const struct ref_rope reference = {
        .dim = p->desc.head_dim,
        .x = head_of(x, token, head),
        .bias = bias ? head_of(bias, 0, head) : NULL,
    };
    ref_rope_head(&reference, r);
}

/* A result that went back to where the input was, which lies in the memory of `p->q`. */
static struct tensor in_place(const struct rope_problem *p, const struct tensor *t)
{
    struct tensor r = *t;
    r.image = p->q.image;
    r.guard = (size_t)t->offset;
    return r;
}

static void compare_q(struct rope_problem *p, const struct tensor *out, struct ref_rope_head *r)
{
    const struct target q = {
        .what = "q",
        .tensor = out,
        .type = p->q_precision,
        .scale = p->q_precision->size == 1 ? p->q_scale : 0,
    };
    const struct target gate = {.what = "gate", .tensor = &p->gate, .type = p->precision};
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

static void expected_head(const struct rope_problem *p, enum cache_part part, int token, int head,
                          struct ref_rope_head *r)
{
    if (part == CACHE_K)
        rotated_head(p, false, token, head, r);
    else
        plain_head(p, &p->v, p->desc.bias ? &p->v_bias : NULL, token, head, r);
}

/* The scales of pages, after all that is stored with them. */
static void compare_runs(struct rope_problem *p, enum cache_part part, struct ref_rope_head *r,
                         double arithmetic)
{
    const int tokens = p->args.tokens;
    for (int token = 0, end; token < tokens; token = end) {
        end = cache_run_end(&p->cache, p->slots, tokens, token);
        for (int head = 0; p->slots[token] >= 0 && head < p->desc.kv_heads; head++) {
            double largest = 0, terms = 0;
            for (int i = token; i < end; i++) {
                expected_head(p, part, i, head, r);
                for (int d = 0; d < p->desc.head_dim; d++) {
                    largest = fmax(largest, fabs(r->out[d]));
                    terms = fmax(terms, arithmetic * r->magnitude[d]);
                }
            }
            compare_run(p, part, token, head, largest, terms);
        }
    }
}

static void compare_kv(struct rope_problem *p, enum cache_part part, const struct tensor *out,
                       struct ref_rope_head *r)
{
    const bool key = part == CACHE_K;
    const struct target kept = {
        .what = key ? "k_out" : "v_out",
        .tensor = out,
        .type = p->precision,
    };
    const double error = key ? arithmetic_error(p) : p->desc.bias ? 0x1p-24 : 0;
    for (int token = 0; token < p->args.tokens; token++) {
        for (int head = 0; head < p->desc.kv_heads; head++) {
            expected_head(p, part, token, head, r);
            if (p->desc.keep_kv)
                compare_head(p, &kept, token, head, r, error);
            if (p->args.slot_mapping && p->slots[token] >= 0)
                compare_cached(p, part, token, head, r, error);
        }
    }
    if (p->args.slot_mapping && p->cache.desc.scale == ATTN_KV_SCALE_BLOCK)
        compare_runs(p, part, r, error);
}

void rope_compare(struct rope_problem *p)
{
    const bool back = p->shape->flags & ROPE_IN_PLACE;
    const struct tensor q = rope_q_in_place(p) ? in_place(p, &p->q) : p->q_out;
    const struct tensor key = back ? in_place(p, &p->k) : p->k_out;
    const struct tensor value = back ? in_place(p, &p->v) : p->v_out;
    struct ref_rope_head r;
    compare_q(p, &q, &r);
    compare_kv(p, CACHE_K, &key, &r);
    if (p->args.v)
        compare_kv(p, CACHE_V, &value, &r);
    p->row->relative = p->norm > 0 ? sqrt(p->error / p->norm) : sqrt(p->error);
    p->row->relative_bound = p->norm > 0 ? sqrt(p->bounds / p->norm) : 0;
}

/* Nothing else may have been written. */

static void check_output(struct rope_problem *p, const struct tensor *t, const char *name)
{
    size_t at;
    if (!tensor_untouched_outside(t, p->args.tokens, &at))
        verify_fail(p->row, "%s: memory beside its elements was written, at %zu", name, at);
}

/* Keys, values and gates beside q that was written in place. */
static void check_packed(struct rope_problem *p)
{
    const struct tensor *q = &p->q;
    const size_t row = (size_t)q->token_stride, n = row * (size_t)q->tokens;
    const uint16_t *before = (uint16_t *)p->before, *now = (uint16_t *)q->image;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i % row;
        const bool of_q = at < (size_t)(q->heads * q->head_stride);
        const bool written =
            of_q ? rope_q_in_place(p) && at % (size_t)q->head_stride < (size_t)q->dim
                 : p->desc.keep_kv;
        if (!written && before[i] != now[i]) {
            verify_fail(p->row, "in place: an element beside q was written");
            return;
        }
    }
}

/* What belongs to slots was put back while it was compared. */
static void check_cache(struct rope_problem *p)
{
    for (int part = 0; part < CACHE_PARTS; part++) {
        if (!cache_same(&p->cache, &p->untouched, part))
            verify_fail(p->row, "%s: elements or scales that belong to no slot were written",
                        part == CACHE_K ? "k" : "v");
    }
}

void rope_check_surroundings(struct rope_problem *p)
{
    if (p->desc.gate)
        check_output(p, &p->gate, "gate");
    if (p->args.slot_mapping)
        check_cache(p);
    if (!rope_q_in_place(p))
        check_output(p, &p->q_out, "q_out");
    if (p->shape->flags & ROPE_IN_PLACE) {
        check_packed(p);
        return;
    }
    if (p->desc.keep_kv) {
        check_output(p, &p->k_out, "k_out");
        if (p->args.v)
            check_output(p, &p->v_out, "v_out");
    }
}
