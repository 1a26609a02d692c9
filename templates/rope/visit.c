/* SPDX-License-Identifier: Apache-2.0
 *
 * This file transforms a token's heads (bias, norm and rotation), tile by tile, and stores the
 * results.
 */
#include "op_names.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

#include <string.h>

void rope_fetch(struct rope *p, const struct rope_source *s, struct tir_value row,
                struct tir_value *raw)
{
    rope_load(p, s->shape, s->base, s->end, s->in.head_stride, row, false, raw);
}

/* Adds the parts of y to the parts of x in place. Both are heads of shape `s`. */
static void add(struct rope *p, const struct rope_shape *s, struct rope_parts *x,
                const struct rope_parts *y)
{
    for (unsigned i = 0; i < s->n_parts; i++)
        x->v[i] = tir_add(&p->b, x->v[i], y->v[i]);
}

void rope_transform(struct rope *p, const struct rope_source *s, struct tir_value inverse,
                    struct tir_value row, struct rope_parts *x)
{
    if (p->v->bias) {
        const struct rope_parts bias = rope_load_vectors(p, s, &s->bias, row);
        add(p, s->shape, x, &bias);
    }
    if (!s->weight.tensor)
        return;
    if (p->v->norm == ATT_NORM_FULL)
        rope_normalise_all(p, s, row, inverse, x);
    else if (p->v->norm != ATT_NORM_NONE)
        rope_normalise_heads(p, s, x);
    if (p->v->rope != ATT_ROPE_NONE)
        rope_rotate(p, x);
}

/* A loop over the tiles of a wave's heads of one token, which loads the next tile while it
 * processes one. */
struct walk {
    struct tir_loop loop;
    /* spans of the tile of this iteration, and of the next one */
    struct tir_value raw[ROPE_MAX_SPANS], next[ROPE_MAX_SPANS];
    const struct rope_source *s; /* source of the heads */
};

/* Begins the loop `w` over tiles of heads of source `s`, and loads the second tile. `first` is the
 * loaded first tile. The loop's index is the index (i32) of the first head of the iteration's
 * tile. */
static void begin_walk(struct rope *p, const struct rope_source *s, const struct tir_value *first,
                       struct walk *w)
{
    struct tir_builder *b = &p->b;
    w->s = s;
    memcpy(w->raw, first, sizeof(w->raw));
    w->loop = tir_begin_for(b, s->first, s->end, tir_i32(b, p->rows), w->raw, s->shape->n_spans);
    rope_fetch(p, s, att_plus(b, w->loop.index, p->rows), w->next);
}

/* Ends the loop of begin_walk(), which carries the next tile's loaded spans. */
static void end_walk(struct rope *p, struct walk *w)
{
    tir_end_for(&p->b, &w->loop, w->next, w->s->shape->n_spans);
}

void rope_visit_q(struct rope *p, const struct rope_source *s, const struct tir_value *first)
{
    struct tir_builder *b = &p->b;
    const struct tir_value inverse_rms = rope_given_inverse_rms(p, s);
    const bool narrow = p->narrow_q;
    struct tir_value inverse = {0};
    if (narrow)
        inverse = tir_rcp(b, att_scale(b, ARG_OUT_SCALE));
    struct walk w;
    begin_walk(p, s, first, &w);
    struct rope_parts x = rope_unpack(p, s->shape, w.raw);
    rope_transform(p, s, inverse_rms, w.loop.index, &x);
    for (unsigned i = 0; i < s->shape->n_parts && narrow; i++)
        x.v[i] = tir_mul(b, x.v[i], att_like(b, inverse, x.v[i]));
    rope_convert(p, s->shape, &x, narrow ? TIR_FP8 : p->dtype);
    rope_pack(p, s->shape, &x, w.raw);
    rope_write_dense(p, s, &s->out, w.loop.index, w.raw);
    end_walk(p, &w);
}

void rope_visit_kv(struct rope *p, const struct rope_source *source, const struct tir_value *first,
                   bool value)
{
    struct rope_source opened = *source, *const s = &opened;
    const struct tir_value inverse_rms = rope_given_inverse_rms(p, s);
    rope_open_kept(p, s, value);
    const struct rope_slot slot = p->by_pages ? (struct rope_slot){0} : rope_open_slot(p, value);
    struct walk w;
    begin_walk(p, s, first, &w);
    struct rope_parts x = rope_unpack(p, s->shape, w.raw);
    if (!value || p->v->bias) {
        rope_transform(p, s, inverse_rms, w.loop.index, &x);
        struct rope_parts rounded = x;
        rope_convert(p, s->shape, &rounded, p->dtype);
        rope_pack(p, s->shape, &rounded, w.raw);
    }
    if (p->v->keep_kv)
        rope_write_dense(p, s, &s->out, w.loop.index, w.raw);
    if (!p->by_pages)
        rope_write_cache(p, s, &slot, w.loop.index, &x, w.raw);
    end_walk(p, &w);
}

/* Implements the declaration in rope.h. A gate is the second half of each head in tensor q. The
 * gate's bias is added; a gate is neither normed nor rotated. Gates are stored to gate->out, or to
 * argument `gate` if gate->out is not set. */
void rope_visit_gate(struct rope *p, const struct rope_source *q, const struct rope_source *gate)
{
    struct rope_source s = *gate;
    s.in = q->in;
    if (!s.out.size)
        s.out = rope_open_tensor(p, ATT_HEADS(GATE), ROPE_ELEM);
    s.base = tir_add(&p->b, q->base, tir_i64(&p->b, p->v->head_dim * ROPE_ELEM));
    struct tir_value first[ROPE_MAX_SPANS];
    struct walk w;
    rope_fetch(p, &s, s.first, first);
    begin_walk(p, &s, first, &w);
    if (p->v->bias) {
        struct rope_parts x = rope_unpack(p, s.shape, w.raw);
        rope_transform(p, &s, (struct tir_value){0}, w.loop.index, &x);
        rope_convert(p, s.shape, &x, p->dtype);
        rope_pack(p, s.shape, &x, w.raw);
    }
    rope_write_dense(p, &s, &s.out, w.loop.index, w.raw);
    end_walk(p, &w);
}

void rope_load_slot(struct rope *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_scalar(TIR_I64);
    const struct tir_value slots = tir_arg(b, ARG_SLOT_MAPPING, TIR_I64);
    struct tir_if some = tir_begin_if(b, tir_cmp_ne(b, slots, tir_i64(b, 0)), false, &t, 1);
    const struct tir_value slot =
        tir_scalar_load(b, slots, tir_shl(b, p->token, tir_i32(b, 3)), TIR_I64);
    tir_else(b, &some, &slot);
    p->slot = tir_i64(b, -1);
    tir_end_if(b, &some, &p->slot);
}
