/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has the norms of q and k: of each head by itself, or with a sum of squares over all
 * heads that is given (norm full).
 */
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

void rope_load_weights(struct rope *p, struct rope_source *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value stride = tir_i32(b, p->v->head_dim * ROPE_ELEM);
    if (p->v->norm == ATT_NORM_RMS || p->v->norm == ATT_NORM_GEMMA_RMS)
        rope_load(p, s->shape, tir_arg(b, s->weight.tensor, TIR_I64), tir_i32(b, 1), stride,
                  tir_i32(b, 0), true, s->weights);
}

/* Returns 1 / sqrt(mean(x^2) + eps) of each head of the tile x, rows x 1. */
static struct tir_value inverse_rms(struct rope *p, const struct rope_shape *s,
                                    const struct rope_parts *x)
{
    struct tir_builder *b = &p->b;
    struct tir_value sum = {0};
    for (unsigned i = 0; i < s->n_parts; i++) {
        struct tir_value square = tir_mul(b, x->v[i], x->v[i]);
        /* Both parts of a piece of rotated pairs have one layout, so a single sum across lanes is
         * enough for both. */
        if (i < 2 * s->n_pieces) {
            i++;
            square = tir_fma(b, x->v[i], x->v[i], square);
        }
        const struct tir_value part = tir_row_sum(b, square);
        sum = sum.id ? tir_add(b, sum, part) : part;
    }
    const struct tir_type t = tir_typeof(b->f, sum);
    const struct tir_value eps = tir_splat(b, tir_arg(b, ARG_EPS, TIR_F32), t);
    const struct tir_value share = tir_float_like(b, sum, 1.0f / (float)p->v->head_dim);
    return tir_rsq(b, tir_fma(b, sum, share, eps));
}

void rope_normalise_heads(struct rope *p, const struct rope_source *s, struct rope_parts *x)
{
    struct tir_builder *b = &p->b;
    const struct rope_parts weight = rope_unpack(p, s->shape, s->weights);
    const struct tir_value inverse = inverse_rms(p, s->shape, x);
    for (unsigned i = 0; i < s->shape->n_parts; i++) {
        struct tir_value w = weight.v[i];
        if (p->v->norm == ATT_NORM_GEMMA_RMS)
            w = tir_add(b, w, tir_float_like(b, w, 1.0f));
        const struct tir_value scaled = tir_mul(b, x->v[i], rope_repeat(p, inverse, x->v[i]));
        x->v[i] = tir_mul(b, scaled, rope_repeat(p, w, x->v[i]));
    }
}

struct tir_value rope_given_inverse_rms(struct rope *p, const struct rope_source *s)
{
    struct tir_builder *b = &p->b;
    if (p->v->norm != ATT_NORM_FULL || !s->weight.tensor)
        return (struct tir_value){0};
    const struct tir_value sum = att_entry(b, s->squares, p->token, TIR_F32);
    const struct tir_value mean =
        tir_fma(b, sum, tir_arg(b, s->share, TIR_F32), tir_arg(b, ARG_EPS, TIR_F32));
    return rope_short_nan(p, tir_rsq(b, mean));
}

void rope_normalise_all(struct rope *p, const struct rope_source *s, struct tir_value row,
                        struct tir_value inverse, struct rope_parts *x)
{
    struct tir_builder *b = &p->b;
    const struct rope_parts w = rope_load_vectors(p, s, &s->weight, row);
    for (unsigned i = 0; i < s->shape->n_parts; i++) {
        const struct tir_value each = att_like(b, inverse, x->v[i]);
        x->v[i] = tir_mul(b, tir_mul(b, x->v[i], each), w.v[i]);
    }
}
