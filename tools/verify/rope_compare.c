/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of rope_qk_norm_cache kernels: the comparison of results, and the bounds on errors.
 */
#include <math.h>

#include "tools/reference/rope_qk_norm_cache.h"
#include "tools/verify/rope.h"

/*
 * Bounds. f = 2^-24 is the unit of float32. The error of an element is relative to the sum of the
 * magnitudes of its terms:
 *
 *   bias        f
 *   norm        (D + 5) f / 2 + 5 f for a norm per head. The sum of squares has three roundings for
 *               each square and at most D for the sum, the mean and eps two more. The root halves
 *               these. v_rsq_f32 is exact to an ulp, 2 f. 1 + w and two products have f each.
 *   given sum   (1 + 1) f / 2 + 4 f, for the same reasons
 *   rotation    2 f for a product and the sum of two
 *
 * A rounding to the type of the output is added. An element with no operation is copied exactly.
 *
 * Stored with a scale: x is multiplied by the scale's inverse, which is exact to an ulp, 2 f, and
 * the product has one more rounding. Then x is rounded to the type: its unit, or the smallest step
 * times the scale, if that is larger. Numbers beyond the largest become the largest. A scale per
 * token is the largest |x|, with the error above, times a constant rounded to float32: 2 f. A scale
 * per page is that scale for several tokens. Older tokens of the page are multiplied by a quotient.
 * The quotient is exact to an ulp, so the product's error does not exceed a new token's.
 */
static const double f = 0x1p-24;

double rope_arithmetic_error(const struct rope_steps *s)
{
    double roundings = s->bias ? 1 : 0;
    if (s->norm == ATTN_NORM_FULL)
        roundings += 5;
    else if (s->norm != ATTN_NORM_NONE)
        roundings += (s->head_dim + 5) / 2.0 + 5;
    if (s->rope != ATTN_ROPE_NONE)
        roundings += 2;
    return roundings * f;
}

/* Returns the relative error of the op's arithmetic. */
static double arithmetic_error(const struct attn_rope_qk_norm_cache_desc *d)
{
    return rope_arithmetic_error(&(struct rope_steps){d->bias, d->norm, d->rope, d->head_dim});
}

/* The source of a head of q, k or v. */
struct source {
    struct operand *x, *bias, *weight, *squares;
    bool rotated; /* true for q and k; v is copied without rotation */
    int dim;      /* elements of a head */
    /* first: index of the first element of x in a row of the tensor. count: number of elements in
     * the sum of squares */
    int first, count;
};

/* Returns the source of q, k or v: its operand, bias and norm weight. */
static struct source source_of(struct call *c, unsigned x)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    struct source s = {.x = call_operand(c, x), .rotated = x != ROPE_QK_NORM_CACHE_V};
    s.dim = s.rotated ? d->head_dim : d->head_dim_v;
    s.bias = call_operand(c, ROPE_QK_NORM_CACHE_Q_BIAS + (x - ROPE_QK_NORM_CACHE_Q));
    if (!s.rotated)
        return s;
    const bool of_q = x == ROPE_QK_NORM_CACHE_Q;
    s.weight = call_operand(c, of_q ? ROPE_QK_NORM_CACHE_Q_WEIGHT : ROPE_QK_NORM_CACHE_K_WEIGHT);
    s.squares = call_operand(c, of_q ? ROPE_QK_NORM_CACHE_Q_SQUARES : ROPE_QK_NORM_CACHE_K_SQUARES);
    s.count = of_q ? c->args.rope_qk_norm_cache.q_count : c->args.rope_qk_norm_cache.k_count;
    return s;
}

/* Reads the cosines and sines of a token's position. */
static void read_angles(struct call *c, int token, double *angles)
{
    const int half = c->desc.rope_qk_norm_cache.rotary_dim / 2;
    const struct operand *table = call_operand(c, ROPE_QK_NORM_CACHE_COS_SIN);
    const struct operand *positions = call_operand(c, ROPE_QK_NORM_CACHE_POSITIONS);
    for (int i = 0; i < half && table->given; i++) {
        const int64_t row = operand_int(
            positions, positions->schema.ndim == 2 ? AT(rope_stream(c, i), token) : AT(token));
        angles[i] = operand_value(table, AT(row, i));
        angles[half + i] = operand_value(table, AT(row, half + i));
    }
}

/* Computes the expected head `r` of a token. */
static void expected_head(struct call *c, const struct source *s, int token, int head,
                          struct ref_rope_head *r)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    double x[REF_ROPE_DIM_MAX], bias[REF_ROPE_DIM_MAX], weight[REF_ROPE_DIM_MAX];
    double angles[REF_ROPE_DIM_MAX];
    const bool norm = s->rotated && d->norm != ATTN_NORM_NONE, biased = s->bias && s->bias->given;
    const bool full = norm && d->norm == ATTN_NORM_FULL;
    for (int i = 0; i < s->dim; i++) {
        x[i] = operand_value(s->x, AT(token, head, s->first + i));
        bias[i] = biased ? operand_value(s->bias, AT(head, s->first + i)) : 0;
        weight[i] = norm ? operand_value(s->weight, full ? AT(head, i) : AT(i)) : 0;
    }
    struct ref_rope reference = {
        .dim = s->dim,
        .norm = norm,
        .gemma = d->norm == ATTN_NORM_GEMMA_RMS,
        .given = full,
        .mean_square = full ? operand_value(s->squares, AT(token)) / s->count : 0,
        .eps = c->args.rope_qk_norm_cache.eps,
        .x = x,
        .bias = biased ? bias : NULL,
        .weight = weight,
    };
    if (s->rotated) {
        read_angles(c, token, angles);
        reference.rotary_dim = d->rotary_dim;
        reference.pairs = (enum ref_pairs)d->rope;
        reference.cos = angles;
        reference.sin = angles + d->rotary_dim / 2;
    }
    ref_rope_head(&reference, r);
}

/* Returns the number that is stored for x. *bound receives the bound of its error. `terms` bounds
 * the error of x. */
static double expected_value(const struct rope_target *t, double x, double terms, double *bound)
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

/* Compares a rotated head in a tensor or in the cache. */
static void compare_head(struct call *c, const struct rope_target *t, int token, int head,
                         const struct ref_rope_head *r, double arithmetic)
{
    for (int d = 0; d < r->dim; d++) {
        double bound;
        const double expected = expected_value(t, r->out[d], arithmetic * r->magnitude[d], &bound);
        if (!t->operand) {
            paged_compare(c, t->cache, t->part, t->slot, d, expected, bound);
            continue;
        }
        const double got = operand_result(t->operand, AT(token, head, d));
        call_compare_value(c, t->operand, AT(token, head, d), t->scale > 0 ? got * t->scale : got,
                           expected, bound);
    }
}

/* Reports a wrong scale of the cache. */
static void fail_scale(struct call *c, const struct rope_target *t, double expected)
{
    verify_fail(c->row, "the scale of %s of page %lld, token %d, head %d is %g, expected %g",
                t->part == CACHE_K ? "k" : "v", (long long)t->slot.page, t->slot.token,
                t->slot.head, t->scale, expected);
}

/* The largest magnitude of a head's elements, and a bound of its error. */
struct largest {
    double x, terms;
};

/* Updates `l` with the largest element of a head and the largest bound. */
static void note_largest(const struct ref_rope_head *r, double arithmetic, struct largest *l)
{
    for (int d = 0; d < r->dim; d++) {
        l->x = fmax(l->x, fabs(r->out[d]));
        l->terms = fmax(l->terms, arithmetic * r->magnitude[d]);
    }
}

void rope_compare_cached(struct call *c, struct rope_target t, int token,
                         const struct ref_rope_head *r, double arithmetic)
{
    const double limit = t.type->limit;
    struct largest l = {0};
    if (t.cache->desc.scale != ATTN_KV_SCALE_NONE)
        t.scale = paged_result_scale(t.cache, t.part, t.slot);
    compare_head(c, &t, token, t.slot.head, r, arithmetic);
    if (t.cache->desc.scale != ATTN_KV_SCALE_TOKEN)
        return;
    note_largest(r, arithmetic, &l);
    paged_allow_scale(t.cache, t.part, t.slot);
    if (!(fabs(t.scale - l.x / limit) <= l.terms / limit + 2 * f * l.x / limit))
        fail_scale(c, &t, l.x / limit);
}

/* Compares the scale of a page, which the call's tokens may have raised: `l` is their largest
 * element. Also compares the page's older tokens, which the kernel then rounds again. */
static void compare_run(struct call *c, struct rope_target t, const struct largest *l)
{
    const double limit = t.type->limit, old = paged_scale(t.cache, t.part, t.slot);
    const struct attn_rope_qk_norm_cache_desc *desc = &c->desc.rope_qk_norm_cache;
    const int begin = t.slot.token;
    const int dim = t.part == CACHE_K ? desc->head_dim : desc->head_dim_v;
    const double expected = ref_cache_block_scale(&l->x, 1, begin, old, limit);
    const double bound = l->terms / limit + 2 * f * expected;
    t.scale = paged_result_scale(t.cache, t.part, t.slot);
    paged_allow_scale(t.cache, t.part, t.slot);
    const bool kept = begin > 0 && t.scale == old && fabs(expected - old) <= bound;
    if (!kept && !(fabs(t.scale - expected) <= bound))
        fail_scale(c, &t, expected);
    for (t.slot.token = 0; t.slot.token < begin && t.scale != old; t.slot.token++) {
        for (int d = 0; d < dim; d++) {
            double most;
            const double x = paged_value(t.cache, t.part, t.slot, d);
            const double stored = expected_value(&t, x, 0, &most);
            paged_compare(c, t.cache, t.part, t.slot, d, stored, most);
        }
    }
}

/* Compares the rotated queries and the gates. */
static void compare_q(struct call *c)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    const bool back = rope_q_in_place(c);
    const struct operand *scale = call_operand(c, ROPE_QK_NORM_CACHE_Q_OUT_SCALE);
    struct operand *out = call_operand(c, back ? ROPE_QK_NORM_CACHE_Q : ROPE_QK_NORM_CACHE_Q_OUT);
    struct operand *gates = call_operand(c, ROPE_QK_NORM_CACHE_GATE);
    const struct source source = source_of(c, ROPE_QK_NORM_CACHE_Q);
    const struct source gate_source = {
        .x = source.x, .bias = source.bias, .dim = d->head_dim, .first = d->head_dim};
    const struct rope_target q = {
        .operand = out,
        .type = out->precision,
        .scale = scale->given ? operand_value(scale, AT(0)) : 0,
    };
    const struct rope_target gate = {.operand = gates, .type = gates->precision};
    struct ref_rope_head r;
    for (int token = 0; token < c->args.rope_qk_norm_cache.tokens; token++) {
        for (int head = 0; head < d->heads; head++) {
            expected_head(c, &source, token, head, &r);
            compare_head(c, &q, token, head, &r, arithmetic_error(d));
            if (!d->gate)
                continue;
            expected_head(c, &gate_source, token, head, &r);
            compare_head(c, &gate, token, head, &r, d->bias ? f : 0);
        }
    }
}

/* Compares the tokens of a call page by page, since the tokens of a page share a scale. */
static void compare_runs(struct call *c, const struct source *source, struct rope_target t,
                         const int64_t *slots, double error)
{
    const int tokens = c->args.rope_qk_norm_cache.tokens, size = t.cache->desc.page_size;
    struct ref_rope_head r;
    for (int token = 0, end; token < tokens; token = end) {
        end = slots_run_end(size, slots, tokens, token);
        for (int head = 0; slots[token] >= 0 && head < t.cache->kv_heads; head++) {
            struct largest l = {0};
            for (int i = token; i < end; i++) {
                expected_head(c, source, i, head, &r);
                note_largest(&r, error, &l);
            }
            t.slot = (struct slot){slots[token] / size, (int)(slots[token] % size), head, 0};
            compare_run(c, t, &l);
        }
    }
}

/* Compares the keys or values in the cache and in the output. */
static void compare_kv(struct call *c, enum cache_part part)
{
    const struct attn_rope_qk_norm_cache_desc *d = &c->desc.rope_qk_norm_cache;
    const bool back = call_has(c, ROPE_IN_PLACE), cached = !call_has(c, ROPE_NO_CACHE);
    const struct source source = source_of(c, ROPE_QK_NORM_CACHE_K + part);
    const int64_t *slots = (const int64_t *)call_operand(c, ROPE_QK_NORM_CACHE_SLOT_MAPPING)->image;
    struct operand *out =
        call_operand(c, (back ? ROPE_QK_NORM_CACHE_K : ROPE_QK_NORM_CACHE_K_OUT) + part);
    struct paged p = cached ? rope_cache(c) : (struct paged){0};
    const struct rope_target kept = {.operand = out, .type = out->precision};
    struct rope_target target = {.cache = &p, .part = part, .type = p.precision};
    const double error = part == CACHE_K ? arithmetic_error(d) : d->bias ? f : 0;
    struct ref_rope_head r;
    for (int token = 0; token < c->args.rope_qk_norm_cache.tokens; token++) {
        for (int head = 0; head < d->kv_heads; head++) {
            expected_head(c, &source, token, head, &r);
            if (d->keep_kv)
                compare_head(c, &kept, token, head, &r, error);
            if (!cached || slots[token] < 0)
                continue;
            const int size = p.desc.page_size;
            target.slot = (struct slot){slots[token] / size, (int)(slots[token] % size), head, 0};
            rope_compare_cached(c, target, token, &r, error);
        }
    }
    if (cached && p.desc.scale == ATTN_KV_SCALE_BLOCK)
        compare_runs(c, &source, target, slots, error);
}

void rope_compare(struct call *c)
{
    compare_q(c);
    compare_kv(c, CACHE_K);
    if (call_operand(c, ROPE_QK_NORM_CACHE_V)->given)
        compare_kv(c, CACHE_V);
}
