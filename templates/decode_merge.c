/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a work item of decode: the waves' states are merged through LDS, and what the item
 * asks for is written.
 *
 *     m = max(m1, m2)   l = l1 2^(m1 - m) + l2 2^(m2 - m)   O = O1 2^(m1 - m) + O2 2^(m2 - m)
 *
 * Where LDS has room for O of all waves, they learn each other's m and l, store their O as they
 * count in the sum, and each adds up and writes a part of its rows. Elsewhere half of the waves
 * hand over to the other half until one is left, which writes.
 *
 * With `one_launch` the parts of a sequence count themselves, and the last workgroup merges them:
 * each wave takes some heads, or rows of O, of all parts, in their order, so that sums do not
 * depend on who was last. A part (O, lse) is the state m = lse log2(e), l = 1.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/decode.h"
#include "templates/scalar.h"

#include <math.h>
#include <string.h>

static const float LOG2E = 1.4426950408889634f;

/* O with its upper rows in a lane's first registers and its lower rows in the others, where a lane
 * has both. */
static struct tir_layout halves_of(const struct decode *d)
{
    return tir_layout_regs_first(tir_layout_of(d->b.f, d->output),
                                 TIR_RC(d->value.width / 2 - 1, d->columns - 1));
}

/* A wave's state in LDS: 16 bytes of every lane side by side, which have no conflicts. */
static struct tir_layout o_map(const struct decode *d)
{
    const struct tir_layout l = halves_of(d);
    return tir_lane_major(&l, 4);
}

static struct tir_layout vector_map(const struct decode *d) { return tir_row_major(1, d->columns); }

static unsigned o_bytes(const struct decode *d) { return d->value.width * d->columns * 4; }

static unsigned slot_bytes(const struct decode *d) { return o_bytes(d) + 2 * d->columns * 4; }

/* Half of the waves at once where two states fit beside other workgroups'; else one by one. */
static unsigned slots(const struct decode *d)
{
    return d->waves / 2 * slot_bytes(d) <= d->m->lds_bytes / 2 ? d->waves / 2 : 1;
}

/* Have other workgroups of the compute unit as much LDS as this one, with O of all waves in it? */
static bool shares_sum(const struct decode *d)
{
    const unsigned groups = 4 * d->waves_per_simd / d->waves;
    const unsigned most = d->m->lds_bytes / (groups ? groups : 1);
    const unsigned regs = d->value.width * d->columns >> d->m->lane_bits;
    return d->waves > 1 && d->k.width <= 256 && d->waves * o_bytes(d) <= most &&
           regs >= 4 * d->waves;
}

unsigned decode_merge_bytes(const struct decode *d)
{
    if (shares_sum(d))
        return d->waves * o_bytes(d);
    return d->waves > 1 ? slots(d) * slot_bytes(d) : 4 * d->columns;
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

/* O times a factor and what another wave has in LDS, of the same type, times another. */
static struct tir_value join_part(struct decode *d, struct tir_value at, struct tir_value own,
                                  struct tir_value own_factor, struct tir_value factor)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = tir_typeof(b->f, own);
    const struct tir_layout map = tir_lane_major(tir_layout_of(b->f, t), 4);
    const struct tir_value other = tir_tile_lds_load(b, at, t, &map);
    return tir_fma(b, own, tir_broadcast(b, own_factor, t),
                   tir_mul(b, other, tir_broadcast(b, factor, t)));
}

/* A half of the other's O is loaded when the one before has been added: two whole ones would be all
 * registers that a wave has. */
static struct tir_value join_output(struct decode *d, struct tir_value at, struct tir_value own,
                                    struct tir_value own_factor, struct tir_value factor)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout halves = halves_of(d);
    const struct tir_value o = tir_relayout(b, own, &halves);
    struct tir_value joined[2];
    if (!tir_layout_has_halves(&halves, d->value.width))
        return tir_relayout(b, join_part(d, at, o, own_factor, factor),
                            tir_layout_of(b->f, d->output));
    for (int i = 0; i < 2; i++)
        joined[i] = join_part(d, att_plus(b, at, i * (int)o_bytes(d) / 2), tir_half(b, o, i),
                              own_factor, factor);
    return tir_relayout(b, tir_stack(b, joined[0], joined[1]), tir_layout_of(b->f, d->output));
}

/* This wave's state and that of another in LDS. */
static struct decode_state join(struct decode *d, const struct decode_state *x, struct tir_value at)
{
    struct tir_builder *b = &d->b;
    const struct tir_type vector = d->attention.softmax.vector;
    const struct tir_layout map = vector_map(d);
    const struct tir_value m_at = att_plus(b, at, (int)o_bytes(d));
    const struct tir_value m = tir_tile_lds_load(b, m_at, vector, &map);
    const struct tir_value l =
        tir_tile_lds_load(b, att_plus(b, m_at, (int)d->columns * 4), vector, &map);
    struct decode_state s = {.m = tir_max(b, x->m, m)};
    const struct tir_value fx = tir_exp2(b, tir_sub(b, x->m, s.m));
    const struct tir_value fy = tir_exp2(b, tir_sub(b, m, s.m));
    s.l = tir_fma(b, x->l, fx, tir_mul(b, l, fy));
    s.o = join_output(d, at, x->o, fx, fy);
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
    const struct decode_state both =
        join(d, s, tir_add(b, d->lds, att_times(b, d->wave, (int)slot_bytes(d))));
    tir_else(b, &taker, (struct tir_value[]){both.m, both.l, both.o});
    struct tir_value values[] = {s->m, s->l, s->o};
    tir_end_if(b, &taker, values);
    *s = (struct decode_state){values[0], values[1], values[2]};
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

static void hand_over_all(struct decode *d, struct decode_state *s)
{
    const unsigned n = slots(d);
    if (n == 1)
        for (unsigned wave = 1; wave < d->waves; wave++)
            hand_over(d, s, wave, 1);
    else
        for (unsigned half = d->waves / 2; half; half /= 2)
            hand_over(d, s, half, half);
}

/* The type of O with registers in the order of dv, so that a lane has neighbours; what tells halves
 * of it apart is the last. */
static struct tir_type in_order(struct decode *d)
{
    struct tir_layout l = tir_layout_sort_regs(tir_layout_of(d->b.f, d->output));
    if (d->value.overlap)
        l = tir_layout_regs_first(&l, TIR_RC(d->value.width / 2 - 1, d->columns - 1));
    return tir_tile(d->b.f, TIR_F32, d->output.rows, d->output.cols, &l);
}

/* Every wave's LDS accesses are done, and all may write there again. */
static void meet(struct decode *d)
{
    tir_wait(&d->b, TIR_LDS_WRITES, 0);
    tir_barrier(&d->b);
}

/* The greatest m, the sum of l, and O as it counts in the sum. */
static void agree(struct decode *d, struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_type vector = d->attention.softmax.vector;
    const struct tir_layout map = vector_map(d);
    const int bytes = (int)d->columns * 4;
    struct tir_value m[DECODE_MAX_WAVES], l[DECODE_MAX_WAVES];
    const struct tir_value own = tir_add(b, d->lds, att_times(b, d->wave, 2 * bytes));
    tir_tile_lds_store(b, own, s->m, &map);
    tir_tile_lds_store(b, att_plus(b, own, bytes), s->l, &map);
    meet(d);
    for (int i = 0; i < (int)d->waves; i++) {
        m[i] = tir_tile_lds_load(b, att_plus(b, d->lds, 2 * i * bytes), vector, &map);
        l[i] = tir_tile_lds_load(b, att_plus(b, d->lds, (2 * i + 1) * bytes), vector, &map);
    }
    struct tir_value most = m[0];
    for (unsigned i = 1; i < d->waves; i++)
        most = tir_max(b, most, m[i]);
    s->o = tir_mul(b, s->o, tir_broadcast(b, tir_exp2(b, tir_sub(b, s->m, most)), d->output));
    s->l = tir_mul(b, l[0], tir_exp2(b, tir_sub(b, m[0], most)));
    for (unsigned i = 1; i < d->waves; i++)
        s->l = tir_fma(b, l[i], tir_exp2(b, tir_sub(b, m[i], most)), s->l);
    s->m = most;
    meet(d);
}

/* Each wave adds up a part of the rows: those that the last registers of a lane have, in their
 * order. Halves that overlap stay together. */
static struct tir_value share_sum(struct decode *d, struct tir_value o)
{
    struct tir_builder *b = &d->b;
    const struct tir_type whole = in_order(d);
    const struct tir_layout columns_first =
        tir_layout_regs_first(tir_layout_of(b->f, whole), TIR_RC(0, d->columns - 1));
    const struct tir_layout *const l = &columns_first;
    const unsigned kept = d->value.overlap ? 1 : 0;
    const struct tir_layout dealt = tir_layout_deal_regs(l, l->reg_bits - kept, tir_bits(d->waves));
    const struct tir_layout map = tir_lane_major(l, 4);
    const int bytes = (int)o_bytes(d);
    const struct tir_value own = tir_add(b, d->lds, att_times(b, d->wave, bytes));
    tir_tile_lds_store(b, own, tir_relayout(b, o, l), &map);
    meet(d);
    d->output = tir_tile(b->f, TIR_F32, whole.rows, whole.cols, &dealt);
    struct tir_value sum = tir_tile_lds_load(b, d->lds, d->output, &map);
    for (int i = 1; i < (int)d->waves; i++)
        sum =
            tir_add(b, sum, tir_tile_lds_load(b, att_plus(b, d->lds, i * bytes), d->output, &map));
    meet(d);
    return sum;
}

/* i64 bytes of rows and heads in a tensor with these strides. `row0`: what stands for the item's
 * first token. */
static struct tir_value offset_of(struct decode *d, const struct decode_rows *rows,
                                  struct tir_value row0, struct tir_value row_bytes,
                                  struct tir_value head_bytes)
{
    struct tir_builder *b = &d->b;
    const struct tir_value moved = tir_sub(b, row0, d->item.first_token);
    const struct tir_value row =
        tir_add(b, rows->token, tir_splat(b, moved, tir_typeof(b->f, rows->token)));
    const struct tir_value r = tir_convert(b, row, TIR_I64);
    const struct tir_value h = tir_convert(b, rows->head, TIR_I64);
    const struct tir_type t = tir_typeof(b->f, r);
    return tir_add(b, tir_mul(b, r, tir_splat(b, row_bytes, t)),
                   tir_mul(b, h, tir_splat(b, head_bytes, t)));
}

/* The rows of a tile, columns x anything. */
static struct decode_rows rows_of(struct decode *d, struct tir_type t)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(d->b.f, t), 1);
    return decode_rows(d, tir_row_index(&d->b, tir_tile(d->b.f, TIR_I32, t.rows, 1, &l)));
}

static struct tir_value valid_only(struct decode *d, const struct decode_rows *r,
                                   struct tir_value offset)
{
    return tir_select(&d->b, r->valid, offset, tir_int_like(&d->b, offset, -1));
}

/* a is columns x anything, f32 or 16 bits; strides in bytes; it begins at `byte` of each row. */
static void write_rows(struct decode *d, const char *tensor, struct tir_value a,
                       struct tir_value row0, struct tir_value row_bytes,
                       struct tir_value head_bytes, int byte)
{
    struct tir_builder *b = &d->b;
    const struct decode_rows r = rows_of(d, tir_typeof(b->f, a));
    const struct tir_value at = valid_only(d, &r, offset_of(d, &r, row0, row_bytes, head_bytes));
    tir_tile_scatter(b, tir_arg(b, tensor, TIR_I64), at, tir_i32(b, byte), a);
}

/* The first wave writes the values that all waves hold alike, each the `own` ones. */
static void write_lse(struct decode *d, const char *tensor, struct tir_value lse,
                      struct tir_value row0, struct tir_value row_bytes,
                      struct tir_value head_bytes, bool own)
{
    struct tir_builder *b = &d->b;
    if (own) {
        write_rows(d, tensor, tir_transpose(b, lse), row0, row_bytes, head_bytes, 0);
        return;
    }
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    write_rows(d, tensor, tir_transpose(b, lse), row0, row_bytes, head_bytes, 0);
    tir_else(b, &first, NULL);
    tir_end_if(b, &first, NULL);
}

/* O^T, of f32 or 16 bits, half by half where these overlap. */
static void write_out(struct decode *d, const char *tensor, struct tir_value o, int size,
                      struct tir_value row0, struct tir_value row_bytes,
                      struct tir_value head_bytes)
{
    const struct decode_cache *const c = &d->value;
    for (unsigned i = 0; i < decode_parts(c); i++) {
        const struct tir_value part = c->overlap ? tir_half(&d->b, o, (int)i) : o;
        write_rows(d, tensor, tir_transpose(&d->b, part), row0, row_bytes, head_bytes,
                   size * decode_part_first(c, i));
    }
}

static void write_final(struct decode *d, struct tir_value o, struct tir_value lse, bool own_lse)
{
    struct tir_builder *b = &d->b;
    const struct tir_value o16 = tir_convert_short(b, o, d->dtype);
    write_out(d, ARG_OUT, o16, 2, d->item.first_token, att_stride(b, ARG_OUT_TOKEN_STRIDE, 2),
              att_stride(b, ARG_OUT_HEAD_STRIDE, 2));
    if (d->v->lse)
        write_lse(d, ARG_LSE, lse, d->item.first_token, att_stride(b, ARG_LSE_TOKEN_STRIDE, 4),
                  att_stride(b, ARG_LSE_HEAD_STRIDE, 4), own_lse);
}

static void write_partial(struct decode *d, struct tir_value o, struct tir_value lse)
{
    struct tir_builder *b = &d->b;
    const struct tir_value heads = att_wide(b, tir_arg(b, ARG_HEADS, TIR_I32));
    const struct tir_value head_bytes = tir_i64(b, d->v->head_dim_v * 4), four = tir_i64(b, 4);
    write_out(d, ARG_PARTIAL_OUT, o, 4, d->item.partial, tir_mul(b, heads, head_bytes), head_bytes);
    write_lse(d, ARG_PARTIAL_LSE, lse, d->item.partial, tir_mul(b, heads, four), four, false);
}

static struct tir_type transposed(struct decode *d, struct tir_type t)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(d->b.f, t));
    return tir_tile(d->b.f, t.dtype, t.cols, t.rows, &l);
}

/* The learnt logit of each column's head; none where the result is not final. */
static struct tir_value sinks(struct decode *d, struct tir_value final)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = transposed(d, d->attention.softmax.vector);
    const struct decode_rows r = rows_of(d, t);
    const struct tir_value head = tir_convert(b, r.head, TIR_I64);
    const struct tir_value sink =
        tir_tile_gather(b, tir_arg(b, ARG_SINKS, TIR_I64),
                        tir_shl(b, head, tir_int_like(b, head, 2)), tir_i32(b, 0), t);
    return tir_select(b, final, tir_transpose(b, sink),
                      tir_splat(b, tir_f32(b, -INFINITY), d->attention.softmax.vector));
}

/* O and its lse as they are written. `sum`: of parts, to which scales of the cache were applied. */
static struct tir_value finish(struct decode *d, const struct decode_state *s,
                               struct tir_value final, bool sum, struct tir_value *lse)
{
    struct tir_builder *b = &d->b;
    const struct tir_value sink = d->v->sinks ? sinks(d, final) : (struct tir_value){0};
    const struct att_softmax_end end =
        att_softmax_finish(b, &d->attention.softmax, s->m, s->l, sink);
    *lse = att_softmax_lse(b, &end);
    struct tir_value inverse = end.inverse;
    if (d->v->kv_scale == ATT_KV_SCALE_TENSOR && !sum)
        inverse =
            tir_mul(b, inverse,
                    tir_splat(b, att_cache_tensor_scale(&d->value.c), d->attention.softmax.vector));
    const struct tir_layout l = *tir_layout_of(b->f, in_order(d));
    return tir_relayout(b, tir_mul(b, s->o, tir_broadcast(b, inverse, d->output)), &l);
}

void decode_write_state(struct decode *d, const struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_value final = tir_cmp_lt(b, d->item.partial, tir_i32(b, 0));
    struct tir_value lse;
    const struct tir_value o = finish(d, s, final, false, &lse);
    struct tir_if whole = tir_begin_if(b, final, false, NULL, 0);
    write_final(d, o, lse, false);
    tir_else(b, &whole, NULL);
    write_partial(d, o, lse);
    tir_end_if(b, &whole, NULL);
}

void decode_end_item(struct decode *d, struct decode_state *s)
{
    struct tir_builder *b = &d->b;
    if (shares_sum(d)) {
        const struct tir_type output = d->output;
        agree(d, s);
        s->o = share_sum(d, s->o);
        decode_write_state(d, s);
        d->output = output;
        return;
    }
    hand_over_all(d, s);
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    decode_write_state(d, s);
    tir_else(b, &first, NULL);
    tir_end_if(b, &first, NULL);
}

/* ---- Parts of other workgroups ---- */

/* A partial tensor of `bytes` a head: from a part's first row to the rows of a tile that is turned
 * to be of type t. */
struct partial {
    const char *tensor;
    struct tir_type t;          /* before it is turned */
    struct tir_value row_bytes; /* of all heads */
    struct tir_value at;        /* i64 of each row */
};

/* The parts of the item's sequence, as entries of reduce_partial_map. */
struct parts {
    struct tir_value first, count;
    struct tir_type o; /* of O as it is loaded: decode_parts() of them are an O */
    bool by_column;    /* waves have columns of their own */
    struct partial lses, outs;
};

static struct tir_value load_word(struct decode *d, const char *array, struct tir_value index)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = tir_shl(b, att_wide(b, index), tir_i64(b, 2));
    return tir_scalar_load(b, tir_add(b, tir_arg(b, array, TIR_I64), at), tir_i32(b, 0), TIR_I32);
}

/* The parts are summed up as memory has them, neighbours of a row side by side in the lanes: a load
 * of O as matrix instructions leave it would touch sixteen rows at once. Nor are there columns that
 * no query has. Waves take columns of their own, or rows of O where these are few. Sets d's columns
 * and its types of O and of a number for each column, and that of a load of O. */
static void choose_sum(struct decode *d, struct parts *p)
{
    const unsigned width = tir_bits(decode_part_width(&d->value)), waves = tir_bits(d->waves);
    const unsigned rows_used = (unsigned)(d->v->gqa * d->v->q_len); /* 0: not known */
    unsigned columns = 0;
    while (1u << columns < (rows_used ? rows_used : d->columns) && 1u << columns < d->columns)
        columns++;
    /* At most half of the lanes: rows that are alike in a wave would be scalars, too many. */
    const unsigned most = d->m->lane_bits - 1;
    p->by_column = columns > waves;
    const unsigned row = p->by_column ? width - 2 : width - 2 - waves;
    const unsigned lanes = row < most ? row : most, across = d->m->lane_bits - lanes;
    const unsigned least = across + (p->by_column ? waves : 0);
    columns = columns < least ? least : columns;
    d->columns = 1u << columns;
    struct tir_spread s = tir_spread(d->m, d->waves);
    tir_spread_cols(&s, TIR_REGS, 2);
    tir_spread_cols(&s, TIR_LANES, lanes);
    tir_spread_cols(&s, TIR_REGS, row - lanes);
    if (!p->by_column)
        tir_spread_cols(&s, TIR_WAVES, waves);
    tir_spread_rows(&s, TIR_LANES, across);
    if (p->by_column)
        tir_spread_rows(&s, TIR_WAVES, waves);
    tir_spread_rows(&s, TIR_REGS, columns - least);
    const struct tir_layout rows = tir_spread_layout(&s);
    struct tir_layout l = tir_layout_transpose(&rows);
    const unsigned loaded = decode_part_width(&d->value);
    p->o = tir_tile(d->b.f, TIR_F32, loaded, d->columns, &l);
    if (d->value.overlap)
        l = tir_layout_stack(&l, loaded);
    const struct tir_layout column = tir_layout_slice(&l, 0);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &l);
    d->attention.softmax.vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &column);
}

static struct partial find_partial(struct decode *d, const char *tensor, int bytes,
                                   struct tir_type t)
{
    struct tir_builder *b = &d->b;
    struct partial p = {.tensor = tensor, .t = transposed(d, t)};
    const struct decode_rows r = rows_of(d, p.t);
    const struct tir_value head_bytes = tir_i64(b, bytes);
    p.row_bytes = tir_mul(b, att_wide(b, tir_arg(b, ARG_HEADS, TIR_I32)), head_bytes);
    p.at = offset_of(d, &r, tir_i32(b, 0), p.row_bytes, head_bytes);
    return p;
}

static struct tir_value load_rows(struct decode *d, const struct partial *p, struct tir_value row,
                                  int byte)
{
    struct tir_builder *b = &d->b;
    const struct tir_value base =
        tir_add(b, tir_arg(b, p->tensor, TIR_I64), tir_mul(b, att_wide(b, row), p->row_bytes));
    return tir_transpose(b, tir_tile_gather(b, base, p->at, tir_i32(b, byte), p->t));
}

static struct tir_value load_out(struct decode *d, const struct partial *p, struct tir_value row)
{
    struct tir_value part[2];
    for (unsigned i = 0; i < decode_parts(&d->value); i++)
        part[i] = load_rows(d, p, row, 4 * decode_part_first(&d->value, i));
    return d->value.overlap ? tir_stack(&d->b, part[0], part[1]) : part[0];
}

enum { PARTS_AT_ONCE = 16 };

/* As many as fit in the registers that the loop over keys had for K and V. */
static unsigned parts_at_once(const struct decode *d)
{
    const unsigned registers = d->value.width * d->columns / d->waves >> d->m->lane_bits;
    const unsigned n = 64 / registers;
    return n > PARTS_AT_ONCE ? PARTS_AT_ONCE : n < 1 ? 1 : n;
}

/* Parts k to k + n: all small loads, then all large ones. A part that is not there repeats the last
 * one's O, with l = 0. */
static void load_parts(struct decode *d, const struct parts *p, struct tir_value k,
                       struct decode_state *s, unsigned n)
{
    struct tir_builder *b = &d->b;
    const struct tir_value lowest = att_softmax_lowest(b, &d->attention.softmax);
    const struct tir_value log2e = tir_float_like(b, lowest, LOG2E);
    const struct tir_value last = att_plus(b, p->count, -1);
    struct tir_value row[PARTS_AT_ONCE], there[PARTS_AT_ONCE], lse[PARTS_AT_ONCE];
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value part = att_plus(b, k, (int)i);
        there[i] = tir_cmp_lt(b, part, p->count);
        row[i] = load_word(d, ARG_REDUCE_PARTIAL_MAP, tir_add(b, p->first, tir_min(b, part, last)));
    }
    for (unsigned i = 0; i < n; i++)
        lse[i] = load_rows(d, &p->lses, row[i], 0);
    for (unsigned i = 0; i < n; i++)
        s[i].o = load_out(d, &p->outs, row[i]);
    for (unsigned i = 0; i < n; i++) {
        s[i].m = tir_max(b, tir_mul(b, tir_select(b, there[i], lse[i], lowest), log2e), lowest);
        s[i].l = tir_select(b, tir_cmp_gt(b, s[i].m, lowest), tir_float_like(b, lowest, 1.0f),
                            tir_float_like(b, lowest, 0.0f));
    }
}

/* A state and n parts from k on. */
static struct decode_state add_parts(struct decode *d, const struct parts *p, struct tir_value k,
                                     const struct decode_state *before, unsigned n)
{
    struct tir_builder *b = &d->b;
    struct decode_state s[PARTS_AT_ONCE];
    load_parts(d, p, k, s, n);
    struct decode_state sum = {.m = before->m};
    for (unsigned i = 0; i < n; i++)
        sum.m = tir_max(b, sum.m, s[i].m);
    const struct tir_value factor = tir_exp2(b, tir_sub(b, before->m, sum.m));
    sum.l = tir_mul(b, before->l, factor);
    sum.o = tir_mul(b, before->o, tir_broadcast(b, factor, d->output));
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value w = tir_mul(b, s[i].l, tir_exp2(b, tir_sub(b, s[i].m, sum.m)));
        sum.l = tir_add(b, sum.l, w);
        sum.o = tir_fma(b, s[i].o, tir_broadcast(b, w, d->output), sum.o);
    }
    return sum;
}

/* All parts: many at once, and what is left of them few by few. */
static struct decode_state add_all_parts(struct decode *d, const struct parts *p)
{
    struct tir_builder *b = &d->b;
    const unsigned most = parts_at_once(d), least = most < 4 ? most : 4;
    const struct tir_value zero = tir_f32(b, 0.0f), first = tir_i32(b, 0);
    struct tir_value carried[] = {att_softmax_lowest(b, &d->attention.softmax),
                                  tir_splat(b, zero, d->attention.softmax.vector),
                                  tir_splat(b, zero, d->output)};
    struct tir_value done = first;
    for (unsigned n = most; n >= least; n = n > least ? least : 0) {
        const struct tir_value end =
            n > least ? tir_and(b, p->count, tir_i32(b, -(int)n)) : p->count;
        struct tir_loop loop = tir_begin_for(b, done, end, tir_i32(b, (int)n), carried, 3);
        const struct decode_state before = {carried[0], carried[1], carried[2]};
        const struct decode_state s = add_parts(d, p, loop.index, &before, n);
        memcpy(carried, (struct tir_value[]){s.m, s.l, s.o}, sizeof(carried));
        tir_end_for(b, &loop, carried, 3);
        done = end;
    }
    return (struct decode_state){carried[0], carried[1], carried[2]};
}

/* Counts the parts that had been written before this one. All waves have written theirs when one of
 * them counts, and learn it from that. */
static struct tir_value count_parts(struct decode *d, const struct parts *p)
{
    struct tir_builder *b = &d->b;
    struct tir_type t = d->attention.softmax.vector;
    t.dtype = TIR_I32;
    const struct tir_layout map = vector_map(d);
    const struct tir_value kv_heads = tir_arg(b, ARG_KV_HEADS, TIR_I32);
    const struct tir_value pair =
        tir_add(b, tir_mul(b, d->item.sequence, kv_heads), d->item.kv_head);
    const struct tir_value ticket =
        tir_add(b, tir_arg(b, ARG_TICKETS, TIR_I64), tir_shl(b, att_wide(b, pair), tir_i64(b, 2)));
    tir_wait_memory(b);
    tir_barrier(b);
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    const struct tir_value before = tir_splat(b, tir_arrive(b, ticket, p->count), t);
    tir_tile_lds_store(b, d->lds, before, &map);
    tir_end_if(b, &first, NULL);
    meet(d);
    const struct tir_value count = tir_first_lane(b, tir_tile_lds_load(b, d->lds, t, &map));
    meet(d);
    return count;
}

static void write_sum(struct decode *d, const struct decode_state *s, bool by_column)
{
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value lse;
    const struct tir_value o = finish(d, s, tir_cmp_eq(b, zero, zero), true, &lse);
    write_final(d, o, lse, by_column);
}

static void sum_up(struct decode *d, struct parts *p)
{
    struct tir_builder *b = &d->b;
    const struct tir_type output = d->output, vector = d->attention.softmax.vector;
    const unsigned columns = d->columns;
    choose_sum(d, p);
    struct tir_loop pass =
        tir_begin_for(b, tir_i32(b, 0), d->n_rows, tir_i32(b, (int)d->columns), NULL, 0);
    d->first_row = pass.index;
    p->lses = find_partial(d, ARG_PARTIAL_LSE, 4, d->attention.softmax.vector);
    p->outs = find_partial(d, ARG_PARTIAL_OUT, d->v->head_dim_v * 4, p->o);
    const struct decode_state s = add_all_parts(d, p);
    write_sum(d, &s, p->by_column);
    tir_end_for(b, &pass, NULL, 0);
    d->columns = columns;
    d->output = output;
    d->attention.softmax.vector = vector;
}

void decode_join_parts(struct decode *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value cut =
        tir_and(b, tir_cmp_ge(b, d->item.partial, zero), tir_cmp_gt(b, d->n_rows, zero));
    struct tir_if part = tir_begin_if(b, cut, false, NULL, 0);
    struct parts p = {.first = load_word(d, ARG_REDUCE_INDPTR, d->item.sequence)};
    const struct tir_value next = att_plus(b, d->item.sequence, 1);
    p.count = tir_sub(b, load_word(d, ARG_REDUCE_INDPTR, next), p.first);
    const struct tir_value before = count_parts(d, &p);
    struct tir_if last =
        tir_begin_if(b, tir_cmp_eq(b, before, att_plus(b, p.count, -1)), false, NULL, 0);
    tir_acquire(b);
    sum_up(d, &p);
    tir_end_if(b, &last, NULL);
    tir_end_if(b, &part, NULL);
}
