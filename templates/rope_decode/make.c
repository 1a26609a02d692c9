/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes queries, keys and values of new tokens from rows of the QKV projection, and
 * stores them in LDS.
 */
#include "templates/rope_decode/rope_decode.h"
#include "templates/workgroup/scalar.h"

#include "ir/address_map.h"
#include "ir/bits.h"

#include <string.h>

/* Returns the number of new tokens of the item's sequence (i32). */
static struct tir_value new_tokens(struct decode *d)
{
    return tir_sub(&d->kv.b, d->kv.item.end_token, d->kv.item.first_token);
}

struct tir_value rope_decode_key(struct decode *d, int token)
{
    struct tir_builder *b = &d->kv.b;
    return att_plus(b, tir_sub(b, d->kv.item.kv_len, new_tokens(d)), token);
}

struct tir_value rope_decode_exists(struct decode *d, int token)
{
    return tir_cmp_gt(&d->kv.b, new_tokens(d), tir_i32(&d->kv.b, token));
}

struct tir_value rope_decode_is_mine(struct decode *d, int token)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value key = rope_decode_key(d, token);
    const struct tir_value tile =
        tir_sar(b, tir_sub(b, key, d->kv.item.first_key), tir_i32(b, (int)tir_bits(d->kv.keys)));
    const struct tir_value wave = tir_and(b, tile, tir_i32(b, (int)d->kv.waves - 1));
    const struct tir_value inside = tir_and(b, tir_cmp_ge(b, key, d->kv.item.first_key),
                                            tir_cmp_lt(b, key, d->kv.item.end_key));
    return tir_and(b, tir_and(b, rope_decode_exists(d, token), inside),
                   tir_cmp_eq(b, wave, d->kv.wave));
}

/* Names of the arguments of a tensor [row, head, head_dim]: its address and strides, and the bias
 * [head, head_dim] that is added to it. */
struct tensor {
    const char *arg, *token_stride, *head_stride, *bias;
};
static const struct tensor query_rows = {ARG_Q, ARG_Q_TOKEN_STRIDE, ARG_Q_HEAD_STRIDE, ARG_Q_BIAS};
static const struct tensor new_rows[] = {
    {ARG_K_IN, ARG_K_IN_TOKEN_STRIDE, ARG_K_IN_HEAD_STRIDE, ARG_K_BIAS},
    {ARG_V_IN, ARG_V_IN_TOKEN_STRIDE, ARG_V_IN_HEAD_STRIDE, ARG_V_BIAS},
};

/* Returns the row (i32) in tensors q, k and v of new token `token` (index). If the sequence has
 * fewer new tokens, returns the row of its last token. */
static struct tir_value row_of_token(struct decode *d, int token)
{
    struct tir_builder *b = &d->kv.b;
    return tir_min(b, att_plus(b, d->kv.item.first_token, token),
                   att_plus(b, d->kv.item.end_token, -1));
}

/* Issues the loads of `n` heads (i32) of tensor `from` in row p->token into raw[], and of their
 * biases into bias[]. The first head is `head` (i32). If `repeat`, every row of the tile gets that
 * head. */
static void load_rows(struct rope *p, const struct tensor *from, struct tir_value head,
                      struct tir_value n, bool repeat, struct tir_value *raw,
                      struct tir_value *bias)
{
    struct tir_builder *b = &p->b;
    const struct rope_shape *const shape = &p->rotated;
    const int bytes = p->v->head_dim * ROPE_ELEM;
    const struct tir_value row =
        att_row(b, tir_arg(b, from->arg, TIR_I64), p->token, from->token_stride, ROPE_ELEM);
    const struct tir_value base = att_row(b, row, head, from->head_stride, ROPE_ELEM);
    const struct tir_value zero = tir_i32(b, 0);
    rope_load(p, shape, base, n, repeat ? zero : att_stride32(b, from->head_stride, ROPE_ELEM),
              zero, false, raw);
    if (!p->v->bias)
        return;
    const struct tir_value first = att_at(b, from->bias, att_wide(b, att_times(b, head, bytes)));
    rope_load(p, shape, first, n, repeat ? zero : tir_i32(b, bytes), zero, false, bias);
}

/* Issues the loads of the norm's weights in argument `arg` into s->weights, if the variant has a
 * norm. */
static void load_weights(struct rope *p, struct rope_source *s, const char *arg)
{
    struct tir_builder *b = &p->b;
    if (p->v->norm != ATT_NORM_NONE)
        rope_load(p, s->shape, tir_arg(b, arg, TIR_I64), tir_i32(b, 1),
                  tir_i32(b, p->v->head_dim * ROPE_ELEM), tir_i32(b, 0), true, s->weights);
}

void rope_decode_load_queries(struct decode *d, int token, uint8_t stage,
                              struct rope_decode_queries *q)
{
    const struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *b = &q->rope.b;
    *q = (struct rope_decode_queries){.rope = s->rope, .source.shape = &s->rope.rotated};
    q->rope.token = row_of_token(d, token);
    const struct tir_value there = rope_decode_exists(d, token);
    *b = d->kv.b;
    if (d->kv.v->rope != ATT_ROPE_NONE)
        rope_load_positions(&q->rope);
    for (int i = 0; i < s->tiles; i++) {
        const int first = i * s->rope.rows;
        const struct tir_value n =
            tir_select(b, there, tir_i32(b, d->kv.v->gqa - first), tir_i32(b, 0));
        const struct tir_value head =
            att_plus(b, att_times(b, d->kv.item.kv_head, d->kv.v->gqa), first);
        load_rows(&q->rope, &query_rows, head, n, false, q->raw[i], q->bias[i]);
    }
    load_weights(&q->rope, &q->source, ARG_Q_WEIGHT);
    b->stage = stage;
    if (d->kv.v->rope != ATT_ROPE_NONE)
        rope_load_angles(&q->rope);
    b->stage = d->kv.b.stage;
    d->kv.b = *b;
}

/* Sets list[] to pointers to the members of `w` that rope_decode_load_new_rows() loads, and types[]
 * to the types of these. Returns the number of members. */
static unsigned list_news(struct rope_decode_news *w, struct tir_value *list[],
                          struct tir_type *types)
{
    const struct att_variant *const v = w->rope.v;
    const struct rope_shape *const shape = w->source.shape;
    unsigned n = 0;
    for (unsigned i = 0; i < shape->n_spans; i++) {
        for (int part = 0; part < 2; part++) {
            types[n] = shape->spans[i].heads;
            list[n++] = &w->raw[part][i];
            types[n] = shape->spans[i].heads;
            list[n] = &w->bias[part][i];
            n += v->bias;
        }
        types[n] = shape->spans[i].vector;
        list[n] = &w->source.weights[i];
        n += v->norm != ATT_NORM_NONE;
    }
    for (unsigned i = 0; i < shape->n_rotated; i++) {
        const struct tir_type t = shape->spans[shape->packed ? i : 2 * i].vector;
        types[n] = tir_with_dtype(t, rope_angle_dtype(&w->rope));
        list[n++] = &w->rope.cos[i];
        types[n] = types[n - 1];
        list[n++] = &w->rope.sin[i];
    }
    return n;
}

void rope_decode_load_new_rows(struct decode *d, int token, const struct rope *of,
                               struct rope_decode_news *w)
{
    enum { MOST = 5 * ROPE_MAX_SPANS + 2 * ROPE_MAX_PIECES };
    const struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *b = &w->rope.b;
    struct tir_value *list[MOST], values[MOST];
    struct tir_type types[MOST];
    *w = (struct rope_decode_news){
        .rope = s->kv, .source.shape = &s->kv.rotated, .mine = rope_decode_is_mine(d, token)};
    w->rope.token = of->token;
    memcpy(w->rope.position, of->position, sizeof(of->position));
    *b = d->kv.b;
    const unsigned n = list_news(w, list, types);
    struct tir_if mine = tir_begin_if(b, w->mine, true, types, n);
    for (int i = 0; i < 2; i++)
        load_rows(&w->rope, &new_rows[i], d->kv.item.kv_head, tir_i32(b, s->kv.rows), true,
                  w->raw[i], w->bias[i]);
    load_weights(&w->rope, &w->source, ARG_K_WEIGHT);
    if (d->kv.v->rope != ATT_ROPE_NONE)
        rope_load_angles(&w->rope);
    for (unsigned i = 0; i < n; i++)
        values[i] = *list[i];
    tir_else(b, &mine, values);
    for (unsigned i = 0; i < n; i++)
        values[i] = tir_undef(b, types[i]);
    tir_end_if(b, &mine, values);
    for (unsigned i = 0; i < n; i++)
        *list[i] = values[i];
    d->kv.b = *b;
}

/* Returns the loaded spans raw[] of heads as f32 parts, with the loaded bias[] added if the variant
 * has biases. */
static struct rope_parts with_bias(struct rope *p, const struct tir_value *raw,
                                   const struct tir_value *bias)
{
    struct tir_builder *const b = &p->b;
    struct rope_parts x = rope_unpack(p, &p->rotated, raw);
    if (!p->v->bias)
        return x;
    const struct rope_parts more = rope_unpack(p, &p->rotated, bias);
    for (unsigned i = 0; i < p->rotated.n_parts; i++)
        x.v[i] = tir_add(b, x.v[i], more.v[i]);
    return x;
}

/* Normalises and rotates heads `x` in place, if the variant has a norm and a rotation. */
static void transform(struct rope *p, const struct rope_source *s, struct rope_parts *x)
{
    if (p->v->norm != ATT_NORM_NONE)
        rope_normalise_heads(p, s, x);
    if (p->v->rope == ATT_ROPE_NONE)
        return;
    struct rope angles = *p;
    rope_widen_angles(&angles);
    rope_rotate(&angles, x);
    p->b = angles.b;
}

void rope_decode_make_queries(struct decode *d, struct rope_decode_queries *q, int tile, int row)
{
    struct tir_value raw[ROPE_MAX_SPANS];
    q->rope.b = d->kv.b;
    struct rope_parts x = with_bias(&q->rope, q->raw[tile], q->bias[tile]);
    transform(&q->rope, &q->source, &x);
    rope_convert(&q->rope, q->source.shape, &x, d->kv.dtype);
    rope_pack(&q->rope, q->source.shape, &x, raw);
    d->kv.b = q->rope.b;
    rope_decode_put(d, q->source.shape,
                    att_plus(&d->kv.b, rope_decode_of(d)->lds_q, row * rope_decode_q_bytes(d)),
                    ROPE_ELEM, ROPE_DECODE_PAD, raw);
}

/* Returns an i1 for each row of type `t`, a tile of k and v: true in rows of k, false in rows of
 * v. */
static struct tir_value is_key(struct rope_decode_news *w, struct tir_type t)
{
    struct tir_builder *const b = &w->rope.b;
    const struct tir_value row = tir_row_index(b, tir_with_dtype(t, TIR_I32));
    return tir_cmp_lt(b, row, tir_int_like(b, row, w->rope.rows / 2));
}

/* Returns the inverse of the scale of each row of `x`, the elements of new token `token` (index):
 * f32, rows x 1. Elements are multiplied by it before they are stored. Returns no value if the
 * cache `c` has no scales. Scales of single tokens are computed from `x` and stored in LDS. */
static struct tir_value find_quantum(struct decode *d, struct rope_decode_news *w, int token,
                                     const struct att_cache *c, const struct rope_parts *x)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *const b = &w->rope.b;
    if (c->scaling == ATT_KV_SCALE_NONE)
        return (struct tir_value){0};
    if (att_shares_scale(d->kv.v)) {
        struct att_cache value = d->kv.value.c;
        value.b = b;
        const struct tir_type t = rope_head_column(&w->rope, w->source.shape, TIR_F32);
        const struct tir_value of_key = tir_splat(b, att_cache_tensor_scale(c), t);
        const struct tir_value of_value = tir_splat(b, att_cache_tensor_scale(&value), t);
        return att_cache_inverse(c, tir_select(b, is_key(w, t), of_key, of_value));
    }
    const struct tir_layout map = tir_row_major((unsigned)w->rope.rows, 1);
    const struct tir_value scale = att_cache_scale_of(c, rope_absmax(&w->rope, w->source.shape, x));
    d->kv.b = *b;
    tir_tile_lds_store(&d->kv.b, rope_decode_address(d, s->scales, sizeof(float), token, false),
                       scale, &map);
    *b = d->kv.b;
    return att_cache_inverse(c, scale);
}

/* Quantises the rows `x` of k and v of new token `token` (index), and stores them in LDS as the
 * cache stores them. Sets raw[] to the quantised elements in the dtype of the products. */
static void quantise(struct decode *d, struct rope_decode_news *w, int token,
                     const struct rope_parts *x, struct tir_value *raw)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *const b = &w->rope.b;
    const struct rope_shape *const shape = w->source.shape;
    struct att_cache c = d->kv.k.c;
    struct tir_value stored[ROPE_MAX_SPANS];
    struct rope_parts back;
    c.b = b;
    const struct tir_value inverse = find_quantum(d, w, token, &c, x);
    for (unsigned i = 0; i < shape->n_parts; i++)
        back.v[i] = att_cache_quantise(&c, x->v[i], inverse);
    rope_pack(&w->rope, shape, &back, stored);
    d->kv.b = *b;
    rope_decode_put(d, shape, rope_decode_address(d, s->stored, d->kv.v->head_dim, token, false), 1,
                    0, stored);
    *b = d->kv.b;
    rope_convert(&w->rope, shape, &back, d->kv.dtype);
    rope_pack(&w->rope, shape, &back, raw);
}

void rope_decode_make_news(struct decode *d, struct rope_decode_news *w, int token)
{
    struct tir_builder *const b = &w->rope.b;
    const struct rope_shape *const shape = w->source.shape;
    struct tir_value raw[ROPE_MAX_SPANS];
    *b = d->kv.b;
    struct tir_if mine = tir_begin_if(b, w->mine, true, NULL, 0);
    struct rope_parts x = with_bias(&w->rope, w->raw[0], w->bias[0]);
    const struct rope_parts v = with_bias(&w->rope, w->raw[1], w->bias[1]);
    transform(&w->rope, &w->source, &x);
    for (unsigned i = 0; i < shape->n_parts; i++)
        x.v[i] = tir_select(b, is_key(w, tir_typeof(b->f, x.v[i])), x.v[i], v.v[i]);
    if (rope_decode_is_narrow(d)) {
        quantise(d, w, token, &x, raw);
    } else {
        rope_convert(&w->rope, shape, &x, d->kv.dtype);
        rope_pack(&w->rope, shape, &x, raw);
    }
    d->kv.b = *b;
    rope_decode_put(d, shape,
                    rope_decode_address(d, 0, d->kv.v->head_dim * ROPE_ELEM, token, false),
                    ROPE_ELEM, 0, raw);
    *b = d->kv.b;
    tir_end_if(b, &mine, NULL);
    d->kv.b = *b;
}
