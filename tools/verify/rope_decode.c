/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of rope_decode kernels: the new tokens, to which the kernel applies bias, norm and
 * rotation. New rows of the cache are compared with doubles, by the bounds of rope_qk_norm_cache
 * (rope_compare.c). Attention's reference then reads the rows that the kernel wrote, and its
 * results are compared as decode's (decode_compare.c). tests/python/test_rope_decode.py compares
 * bits with the results of two launches.
 */
#include <math.h>

#include "tools/reference/rope_qk_norm_cache.h"
#include "tools/verify/decode.h"
#include "tools/verify/numbers.h"
#include "tools/verify/rope.h"

/* Number of rows of the table of cosines and sines. */
enum { POSITIONS = 512 };

/* Returns the description of the op. */
static const struct attn_rope_decode_desc *desc_of(const struct call *c)
{
    return &c->desc.rope_decode;
}

void rope_decode_size(struct call *c)
{
    c->args.rope_decode.eps = 0.0625f; /* large enough to change results */
    c->args.rope_decode.max_position = POSITIONS;
}

/* Fills positions, and the row of cos_sin of each position. Other rows stay poison. */
static void fill_angles(struct call *c)
{
    const int rotary = desc_of(c)->rotary_dim, half = rotary / 2;
    struct operand *positions = call_operand(c, ROPE_DECODE_POSITIONS);
    struct operand *table = call_operand(c, ROPE_DECODE_COS_SIN);
    for (int t = 0; positions->given && t < ARG(c, tokens); t++) {
        const int64_t row = t == 0 ? POSITIONS - 1 : t * INT64_C(37) % POSITIONS;
        operand_set_int(positions, AT(t), row);
        for (int i = 0; i < rotary; i++) {
            const double angle = (double)row * pow(10000, -2.0 * (i % half) / rotary);
            const double x = i < half ? cos(angle) : sin(angle);
            operand_set(table, AT(row, i), nearbyint(x * 64) / 64); /* exact in 16 bits */
        }
    }
}

/* Sets the scales of the cache, or of its heads, so that numbers up to about 4 can be stored. A few
 * results are larger, and saturate. */
static void fill_scales(struct call *c)
{
    struct own *own = c->own;
    for (int i = 0; i < paged_shared_scales(&own->cache); i++)
        for (int part = 0; part < CACHE_PARTS; part++)
            paged_set_shared_scale(
                &own->cache, (enum cache_part)part, i,
                (float)((1.25 + part + 0.125 * (i % 5)) * 4 / own->cache.precision->limit));
}

void rope_decode_fill(struct call *c)
{
    static const unsigned random[] = {
        ROPE_DECODE_K,      ROPE_DECODE_V,      ROPE_DECODE_Q_WEIGHT, ROPE_DECODE_K_WEIGHT,
        ROPE_DECODE_Q_BIAS, ROPE_DECODE_K_BIAS, ROPE_DECODE_V_BIAS,
    };
    for (size_t i = 0; i < sizeof(random) / sizeof(random[0]); i++)
        operand_set_random(call_operand(c, random[i]), &c->random);
    fill_angles(c);
    fill_scales(c);
}

int rope_decode_cached(const struct call *c, int s)
{
    const struct own *own = c->own;
    const int queries = own->qo[s + 1] - own->qo[s];
    return queries < own->kv_lens[s] ? queries : own->kv_lens[s];
}

/* The source of heads of q, k or v. */
struct source {
    struct operand *x, *bias, *weight; /* weight NULL: neither normed nor rotated */
};

/* Returns the source of q, k or v: its operand, bias and norm weight. */
static struct source source_of(struct call *c, unsigned x)
{
    struct source s = {
        .x = call_operand(c, x),
        .bias = call_operand(c, ROPE_DECODE_Q_BIAS + (x - ROPE_DECODE_Q)),
    };
    if (x != ROPE_DECODE_V)
        s.weight = call_operand(c, ROPE_DECODE_Q_WEIGHT + (x - ROPE_DECODE_Q));
    return s;
}

/* Computes the expected head of a new token after bias, norm and rotation. */
static void expect_head(struct call *c, const struct source *s, int token, int head,
                        struct ref_rope_head *r)
{
    const struct attn_rope_decode_desc *d = desc_of(c);
    const struct operand *positions = call_operand(c, ROPE_DECODE_POSITIONS);
    const struct operand *table = call_operand(c, ROPE_DECODE_COS_SIN);
    double x[REF_ROPE_DIM_MAX], bias[REF_ROPE_DIM_MAX], weight[REF_ROPE_DIM_MAX];
    double angles[REF_ROPE_DIM_MAX];
    const bool norm = s->weight && d->norm != ATTN_NORM_NONE, biased = s->bias->given;
    for (int i = 0; i < d->head_dim; i++) {
        x[i] = operand_value(s->x, AT(token, head, i));
        bias[i] = biased ? operand_value(s->bias, AT(head, i)) : 0;
        weight[i] = norm ? operand_value(s->weight, AT(i)) : 0;
    }
    struct ref_rope reference = {
        .dim = d->head_dim,
        .norm = norm,
        .gemma = d->norm == ATTN_NORM_GEMMA_RMS,
        .eps = c->args.rope_decode.eps,
        .x = x,
        .bias = biased ? bias : NULL,
        .weight = weight,
    };
    if (s->weight && d->rope != ATTN_ROPE_NONE) {
        for (int i = 0; i < d->rotary_dim; i++)
            angles[i] = operand_value(table, AT(operand_int(positions, AT(token)), i));
        reference.rotary_dim = d->rotary_dim;
        reference.pairs = (enum ref_pairs)d->rope;
        reference.cos = angles;
        reference.sin = angles + d->rotary_dim / 2;
    }
    ref_rope_head(&reference, r);
}

double *rope_decode_queries(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_rope_decode_desc *d = desc_of(c);
    const struct source source = source_of(c, ROPE_DECODE_Q);
    const int tokens = own->qo[ARG(c, batch)];
    const size_t row = (size_t)d->heads * (size_t)d->head_dim;
    double *q = call_allocate(c, (size_t)tokens * row + 1, sizeof(*q));
    struct ref_rope_head r;
    for (int t = 0; t < tokens; t++) {
        for (int h = 0; h < d->heads; h++) {
            expect_head(c, &source, t, h, &r);
            for (int i = 0; i < d->head_dim; i++)
                q[(size_t)t * row + (size_t)(h * d->head_dim + i)] = r.out[i];
        }
    }
    return q;
}

/* Compares the rows of K or V that sequence s's new tokens have in the cache. */
static void compare_rows(struct call *c, enum cache_part part, int s)
{
    struct own *own = c->own;
    const struct attn_rope_decode_desc *d = desc_of(c);
    const struct source source = source_of(c, ROPE_DECODE_K + part);
    const struct rope_steps steps = {d->bias, source.weight ? d->norm : ATTN_NORM_NONE,
                                     source.weight ? d->rope : ATTN_ROPE_NONE, d->head_dim};
    const int n = rope_decode_cached(c, s);
    struct rope_target target = {.cache = &own->cache, .part = part, .type = own->cache.precision};
    struct ref_rope_head r;
    for (int t = 0; t < n; t++) {
        const int token = own->qo[s + 1] - n + t;
        for (int head = 0; head < d->kv_heads; head++) {
            expect_head(c, &source, token, head, &r);
            target.slot = page_lists_slot(&own->pages, s, own->kv_lens[s] - n + t, head);
            rope_compare_cached(c, target, token, &r, rope_arithmetic_error(&steps));
        }
    }
}

void rope_decode_compare_cache(struct call *c)
{
    for (int s = 0; s < ARG(c, batch); s++) {
        compare_rows(c, CACHE_K, s);
        compare_rows(c, CACHE_V, s);
    }
}

void rope_decode_replace(struct call *c, int s, int kv_head, double *k, double *v)
{
    struct own *own = c->own;
    const int n = rope_decode_cached(c, s), dim = desc_of(c)->head_dim;
    double *const rows[CACHE_PARTS] = {k, v};
    for (int t = own->kv_lens[s] - n; t < own->kv_lens[s]; t++) {
        const struct slot slot = page_lists_slot(&own->pages, s, t, kv_head);
        for (int part = 0; part < CACHE_PARTS; part++) {
            for (int i = 0; i < dim; i++)
                rows[part][(int64_t)t * dim + i] =
                    paged_result_value(&own->cache, (enum cache_part)part, slot, i);
        }
    }
}
