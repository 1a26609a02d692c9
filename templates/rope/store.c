/* SPDX-License-Identifier: Apache-2.0
 *
 * This file stores heads in dense tensors and, with their scales, in the token's slot of the cache.
 */
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

#include <string.h>

void rope_write_dense(struct rope *p, const struct rope_source *s, const struct rope_tensor *t,
                      struct tir_value row, const struct tir_value *raw)
{
    rope_store(p, s->shape, rope_token_base(p, t), s->end, t->head_stride, t->size, row, raw);
}

struct rope_slot rope_open_slot(struct rope *p, bool value)
{
    struct tir_builder *b = &p->b;
    struct rope_slot t = {.cache = p->cache[value]};
    const struct att_cache *c = &t.cache;
    t.at = att_cache_slot_row(c, p->slot);
    t.head_stride = att_stride(b, value ? ARG_V_HEAD_STRIDE : ARG_K_HEAD_STRIDE, c->size);
    if (c->scaling == ATT_KV_SCALE_TOKEN)
        t.scales = tir_add(b, c->scales, att_cache_scale_row(c, p->slot));
    if (c->scaling == ATT_KV_SCALE_HEAD)
        t.scales = c->scales;
    if (t.scales.id)
        t.scale_stride = att_stride32(b, ARG_SCALE_HEAD_STRIDE, sizeof(float));
    return t;
}

struct tir_type rope_head_column(struct rope *p, const struct rope_shape *s, unsigned dtype)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(p->b.f, s->spans[0].heads), 1);
    return tir_tile(p->b.f, dtype, (unsigned)p->rows, 1, &l);
}

struct tir_value rope_absmax(struct rope *p, const struct rope_shape *s, const struct rope_parts *x)
{
    struct tir_value absmax = att_absmax(&p->b, x->v[0]);
    for (unsigned i = 1; i < s->n_parts; i++)
        absmax = tir_max(&p->b, absmax, att_absmax(&p->b, x->v[i]));
    return absmax;
}

/* Returns a view of the scales of all heads of slot `t`, one f32 in each row. */
static struct tir_view scales_of(struct rope *p, const struct rope_source *s,
                                 const struct rope_slot *t)
{
    return att_view(&p->b, t->scales, s->end, t->scale_stride, sizeof(float), 0);
}

void rope_store_scales(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                       struct tir_value row, struct tir_value scale)
{
    tir_tile_store(&p->b, scales_of(p, s, t), row, scale);
}

/* Returns 1 / scale (f32), by which heads `x` from head `row` (i32, index) on are multiplied before
 * they are rounded to the cache's dtype. Returns no value if the cache has no scales. A scale per
 * token is computed here from x, and stored. */
static struct tir_value quantum(struct rope *p, const struct rope_source *s,
                                const struct rope_slot *t, struct tir_value row,
                                const struct rope_parts *x)
{
    const struct att_cache *c = &t->cache;
    if (c->scaling == ATT_KV_SCALE_NONE)
        return (struct tir_value){0};
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        return att_cache_inverse(c, att_cache_tensor_scale(c));
    if (c->scaling == ATT_KV_SCALE_BLOCK)
        return p->inverse;
    if (c->scaling == ATT_KV_SCALE_HEAD)
        return att_cache_inverse(c, tir_tile_load(&p->b, scales_of(p, s, t), row,
                                                  rope_head_column(p, s->shape, TIR_F32)));
    const struct tir_value absmax = rope_absmax(p, s->shape, x);
    const struct tir_value scale = att_cache_scale_of(c, absmax);
    rope_store_scales(p, s, t, row, scale);
    return att_cache_inverse(c, scale);
}

/* Returns the byte offsets (i64, rows x 1) in the cache of the slot's heads from head `row` (i32
 * index) on. Heads from s->end on get offsets so low that stores are skipped. */
static struct tir_value head_rows(struct rope *p, const struct rope_source *s,
                                  const struct rope_slot *t, struct tir_value row)
{
    struct tir_builder *b = &p->b;
    const struct tir_type column = rope_head_column(p, s->shape, TIR_I32);
    const struct tir_value head = tir_add(b, tir_row_index(b, column), tir_splat(b, row, column));
    const struct tir_value last = tir_splat(b, att_plus(b, s->end, -1), column);
    const struct tir_value step = tir_splat(b, tir_convert(b, t->head_stride, TIR_I32), column);
    const struct tir_value within = tir_zext(b, tir_mul(b, head, step), TIR_I64);
    const struct tir_value at = tir_add(b, within, att_like(b, t->at, within));
    const struct tir_value sign = tir_convert(b, tir_sub(b, last, head), TIR_I64);
    return tir_or(b, at, tir_and(b, sign, tir_int_like(b, sign, INT64_MIN)));
}

/* Stores the spans raw[] of a tile of heads, from head `row` (i32 index) on, in slot `t` of a
 * SHUFFLE cache. The layout of such a cache scatters the elements of a head. */
static void scatter(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                    struct tir_value row, const struct tir_value *raw)
{
    const struct tir_value rows = head_rows(p, s, t, row);
    struct att_cache pairs = t->cache;
    pairs.x /= 2;
    pairs.size *= 2;
    for (unsigned i = 0; i < s->shape->n_spans; i++) {
        const bool packed = s->shape->packed && i < s->shape->n_pieces;
        const int first = s->shape->spans[i].first;
        att_cache_store(packed ? &pairs : &t->cache, rows, packed ? first / 2 : first, raw[i]);
    }
}

void rope_store_slot(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                     struct tir_value row, const struct tir_value *stored)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &t->cache;
    if (c->shuffle)
        scatter(p, s, t, row, stored);
    else
        rope_store(p, s->shape, tir_add(b, c->base, t->at), s->end,
                   tir_convert(b, t->head_stride, TIR_I32), c->size, row, stored);
}

void rope_write_cache(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                      struct tir_value row, const struct rope_parts *x, const struct tir_value *raw)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &t->cache;
    struct tir_if some = att_begin_if(b, tir_cmp_ge(b, p->slot, tir_i64(b, 0)));
    struct tir_value stored[ROPE_MAX_SPANS];
    memcpy(stored, raw, sizeof(stored));
    if (c->dtype != p->dtype) {
        const struct tir_value inverse = quantum(p, s, t, row, x);
        struct rope_parts q = *x;
        for (unsigned i = 0; i < s->shape->n_parts; i++)
            q.v[i] = att_cache_quantise(c, x->v[i], inverse);
        rope_pack(p, s->shape, &q, stored);
    }
    rope_store_slot(p, s, t, row, stored);
    tir_end_if(b, &some, NULL);
}
