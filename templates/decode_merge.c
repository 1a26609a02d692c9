/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a work item of decode: the waves' states are merged through LDS, half of the waves
 * handing over to the other half until one is left, which writes what the item asks for.
 *
 *     m = max(m1, m2)   l = l1 2^(m1 - m) + l2 2^(m2 - m)   O = O1 2^(m1 - m) + O2 2^(m2 - m)
 */
#include "ir/spread.h"
#include "templates/decode.h"
#include "templates/scalar.h"

#include <math.h>

/* A wave's state in LDS: 16 bytes of every lane side by side, which have no conflicts. */
static struct tir_layout o_map(const struct decode *d)
{
    return tir_lane_major(tir_layout_of(d->b.f, d->output), 4);
}

static struct tir_layout vector_map(const struct decode *d) { return tir_row_major(1, d->columns); }

static unsigned o_bytes(const struct decode *d) { return d->value.width * d->columns * 4; }

static unsigned slot_bytes(const struct decode *d) { return o_bytes(d) + 2 * d->columns * 4; }

/* Half of the waves at once where two states fit beside other workgroups'; else one by one. */
static unsigned slots(const struct decode *d)
{
    return d->waves / 2 * slot_bytes(d) <= d->m->lds_bytes / 2 ? d->waves / 2 : 1;
}

unsigned decode_merge_bytes(const struct decode *d)
{
    return d->waves > 1 ? slots(d) * slot_bytes(d) : 0;
}

static void store_state(struct decode *d, struct tir_value at, const struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout o = o_map(d), vector = vector_map(d);
    tir_tile_lds_store(b, at, s->o, &o);
    const struct tir_value m_at = att_plus(b, at, (int)o_bytes(d));
    tir_tile_lds_store(b, m_at, s->m, &vector);
    tir_tile_lds_store(b, att_plus(b, m_at, (int)d->columns * 4), s->l, &vector);
}

static struct decode_state load_state(struct decode *d, struct tir_value at)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout o = o_map(d), vector = vector_map(d);
    struct decode_state s;
    const struct tir_value m_at = att_plus(b, at, (int)o_bytes(d));
    s.m = tir_tile_lds_load(b, m_at, d->attention.softmax.vector, &vector);
    s.l = tir_tile_lds_load(b, att_plus(b, m_at, (int)d->columns * 4), d->attention.softmax.vector,
                            &vector);
    s.o = tir_tile_lds_load(b, at, d->output, &o);
    return s;
}

static struct decode_state join(struct decode *d, const struct decode_state *x,
                                const struct decode_state *y)
{
    struct tir_builder *b = &d->b;
    struct decode_state s = {.m = tir_max(b, x->m, y->m)};
    const struct tir_value fx = tir_exp2(b, tir_sub(b, x->m, s.m));
    const struct tir_value fy = tir_exp2(b, tir_sub(b, y->m, s.m));
    s.l = tir_fma(b, x->l, fx, tir_mul(b, y->l, fy));
    s.o = tir_fma(b, x->o, tir_broadcast(b, fx, d->output),
                  tir_mul(b, y->o, tir_broadcast(b, fy, d->output)));
    return s;
}

/* Waves from .. from + n hand their state to waves 0 .. n. */
static void hand_over(struct decode *d, struct decode_state *s, unsigned from, unsigned n)
{
    struct tir_builder *b = &d->b;
    const struct tir_value behind = att_plus(b, d->wave, -(int)from);
    struct tir_if giver =
        tir_begin_if(b, tir_cmp_ult(b, behind, tir_i32(b, (int)n)), false, NULL, 0);
    store_state(d, tir_add(b, d->lds, att_times(b, behind, (int)slot_bytes(d))), s);
    tir_else(b, &giver, NULL);
    tir_end_if(b, &giver, NULL);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);

    const struct tir_type t[] = {d->attention.softmax.vector, d->attention.softmax.vector,
                                 d->output};
    struct tir_if taker = tir_begin_if(b, tir_cmp_lt(b, d->wave, tir_i32(b, (int)n)), false, t, 3);
    const struct decode_state other =
        load_state(d, tir_add(b, d->lds, att_times(b, d->wave, (int)slot_bytes(d))));
    const struct decode_state both = join(d, s, &other);
    tir_else(b, &taker, (struct tir_value[]){both.m, both.l, both.o});
    struct tir_value values[] = {s->m, s->l, s->o};
    tir_end_if(b, &taker, values);
    *s = (struct decode_state){values[0], values[1], values[2]};
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

void decode_merge(struct decode *d, struct decode_state *s)
{
    const unsigned n = slots(d);
    if (n == 1)
        for (unsigned wave = 1; wave < d->waves; wave++)
            hand_over(d, s, wave, 1);
    else
        for (unsigned half = d->waves / 2; half; half /= 2)
            hand_over(d, s, half, half);
}

/* i64 bytes of row and head in a tensor with these strides. */
static struct tir_value offset_of(struct decode *d, struct tir_value row, struct tir_value head,
                                  struct tir_value row_bytes, struct tir_value head_bytes)
{
    struct tir_builder *b = &d->b;
    const struct tir_value r = tir_convert(b, row, TIR_I64), h = tir_convert(b, head, TIR_I64);
    const struct tir_type t = tir_typeof(b->f, r);
    return tir_add(b, tir_mul(b, r, tir_splat(b, row_bytes, t)),
                   tir_mul(b, h, tir_splat(b, head_bytes, t)));
}

/* Addresses of the rows of `a`, columns x anything, or -1 beyond the last. */
static struct decode_rows rows_of(struct decode *d, struct tir_value a)
{
    const struct tir_type t = tir_typeof(d->b.f, a);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(d->b.f, t), 1);
    return decode_rows(d, tir_row_index(&d->b, tir_tile(d->b.f, TIR_I32, t.rows, 1, &l)));
}

static struct tir_value valid_only(struct decode *d, const struct decode_rows *r,
                                   struct tir_value offset)
{
    return tir_select(&d->b, r->valid, offset, tir_int_like(&d->b, offset, -1));
}

/* a is columns x anything, f32 or 16 bits; strides in bytes. `row0`: what stands for the item's
 * first token. */
static void write_rows(struct decode *d, const char *tensor, struct tir_value a,
                       struct tir_value row0, struct tir_value row_bytes,
                       struct tir_value head_bytes)
{
    struct tir_builder *b = &d->b;
    const struct decode_rows r = rows_of(d, a);
    const struct tir_type t = tir_typeof(b->f, r.token);
    const struct tir_value moved = tir_sub(b, row0, d->item.first_token);
    const struct tir_value row = tir_add(b, r.token, tir_splat(b, moved, t));
    const struct tir_value at = valid_only(d, &r, offset_of(d, row, r.head, row_bytes, head_bytes));
    tir_tile_scatter(b, tir_arg(b, tensor, TIR_I64), at, tir_i32(b, 0), a);
}

/* Registers in the order of dv, so that a lane stores neighbours. */
static struct tir_value in_order(struct decode *d, struct tir_value o)
{
    const struct tir_layout l = tir_layout_sort_regs(tir_layout_of(d->b.f, d->output));
    return tir_relayout(&d->b, o, &l);
}

/* The first wave writes the values that all waves hold alike. */
static void write_lse(struct decode *d, const char *tensor, struct tir_value lse,
                      struct tir_value row0, struct tir_value row_bytes,
                      struct tir_value head_bytes)
{
    struct tir_builder *b = &d->b;
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    write_rows(d, tensor, tir_transpose(b, lse), row0, row_bytes, head_bytes);
    tir_else(b, &first, NULL);
    tir_end_if(b, &first, NULL);
}

static void write_final(struct decode *d, struct tir_value o, struct tir_value lse)
{
    struct tir_builder *b = &d->b;
    const struct tir_value o16 = tir_convert_short(b, o, d->dtype);
    write_rows(d, ARG_OUT, tir_transpose(b, o16), d->item.first_token,
               att_stride(b, ARG_OUT_TOKEN_STRIDE, 2), att_stride(b, ARG_OUT_HEAD_STRIDE, 2));
    if (d->v->lse)
        write_lse(d, ARG_LSE, lse, d->item.first_token, att_stride(b, ARG_LSE_TOKEN_STRIDE, 4),
                  att_stride(b, ARG_LSE_HEAD_STRIDE, 4));
}

static void write_partial(struct decode *d, struct tir_value o, struct tir_value lse)
{
    struct tir_builder *b = &d->b;
    const struct tir_value heads = att_wide(b, tir_arg(b, ARG_HEADS, TIR_I32));
    const struct tir_value head_bytes = tir_i64(b, d->v->head_dim_v * 4), four = tir_i64(b, 4);
    write_rows(d, ARG_PARTIAL_OUT, tir_transpose(b, o), d->item.partial,
               tir_mul(b, heads, head_bytes), head_bytes);
    write_lse(d, ARG_PARTIAL_LSE, lse, d->item.partial, tir_mul(b, heads, four), four);
}

/* The learnt logit of each column's head; none where the result is not final. */
static struct tir_value sinks(struct decode *d, struct tir_value final)
{
    struct tir_builder *b = &d->b;
    struct tir_type t = tir_typeof(
        b->f,
        tir_transpose(
            b, tir_col_index(b, (struct tir_type){.kind = TIR_TILE,
                                                  .dtype = TIR_I32,
                                                  .rows = 1,
                                                  .cols = d->attention.softmax.vector.cols,
                                                  .layout = d->attention.softmax.vector.layout})));
    const struct decode_rows r = decode_rows(d, tir_row_index(b, t));
    const struct tir_value head = tir_convert(b, r.head, TIR_I64);
    t.dtype = TIR_F32;
    const struct tir_value sink =
        tir_tile_gather(b, tir_arg(b, ARG_SINKS, TIR_I64),
                        tir_shl(b, head, tir_int_like(b, head, 2)), tir_i32(b, 0), t);
    return tir_select(b, final, tir_transpose(b, sink),
                      tir_splat(b, tir_f32(b, -INFINITY), d->attention.softmax.vector));
}

void decode_write_state(struct decode *d, const struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_value final = tir_cmp_lt(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value sink = d->v->sinks ? sinks(d, final) : (struct tir_value){0};
    const struct att_softmax_end end =
        att_softmax_finish(b, &d->attention.softmax, s->m, s->l, sink);
    const struct tir_value lse = att_softmax_lse(b, &end);
    struct tir_value inverse = end.inverse;
    if (d->v->kv_scale == ATT_KV_SCALE_TENSOR)
        inverse =
            tir_mul(b, inverse,
                    tir_splat(b, att_cache_tensor_scale(&d->value.c), d->attention.softmax.vector));
    const struct tir_value o = in_order(d, tir_mul(b, s->o, tir_broadcast(b, inverse, d->output)));
    struct tir_if whole = tir_begin_if(b, final, false, NULL, 0);
    write_final(d, o, lse);
    tir_else(b, &whole, NULL);
    write_partial(d, o, lse);
    tir_end_if(b, &whole, NULL);
}

void decode_write(struct decode *d, struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    decode_write_state(d, s);
    tir_else(b, &first, NULL);
    tir_end_if(b, &first, NULL);
}
