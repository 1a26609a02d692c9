/* SPDX-License-Identifier: Apache-2.0
 *
 * This file adds up the partials (parts) of a sequence slice by slice, for field one_launch.
 * share.c assigns slices to waves.
 *
 * With ONE_BY_ONE each lane has the row of one part in the partials, and the part's weight, which
 * follows from its lse. All lanes together have a slice of O, and read a part's weight from the
 * part's lane. With few rows of many parts there would be fewer slices than waves. In that case
 * slices are 32 elements, a line of memory. Eight lanes have a slice of one part, and a wave has
 * eight parts side by side. All loads of up to 128 parts are in flight at once.
 *
 *      m = max_k lse_k log2(e)   w_k = 2^(lse_k log2(e) - m)   O = sum_k w_k o_k / sum_k w_k
 *
 * A sink is a part whose o is 0: sums begin with it.
 */
#include "templates/split_kv/part_sum.h"
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"

#include <math.h>
#include <string.h>

static const float LOWEST = -3e38f; /* log2 of the weight of a part without keys */
static const float HIGHEST = 3e38f; /* log2 of the weight of an infinite sink */

enum {
    SLICES = 32,    /* least number of slices of the result; with fewer, waves would have none */
    LEAST = 256,    /* number of elements of a narrow slice: 16 bytes (f32) in each of 64 lanes */
    REGISTERS = 64, /* number of registers of a lane for parts in flight */
    MOST = SPLIT_KV_PART_LOADS, /* most loads of a lane in flight */
    FEW = SPLIT_KV_FEW_PARTS,   /* most parts that are all read at once */
    HALF = FEW / 2,             /* number of these that are read whatever the number of parts */
    FEW_BY_ONE = 32, /* number of parts above which a result of few rows is added up side by side */
    SIDE_BY_SIDE = 8 /* number of parts that a wave reads at once */
};

/* A row of the result, or a piece of a row, with its address in the partials. */
struct slice {
    /* i32: row in q; index of the query head; index in its row of the slice's first element. */
    struct tir_value token, head, element;
    /* i64: addresses of the slice's row in row 0 of partial_lse, and of the slice in row 0 of
     * partial_out. */
    struct tir_value lse, out;
};

/* True if the number of rows of the result is known and smaller than SLICES. */
static bool has_few_rows(const struct split_kv *d)
{
    /* Number of rows of Q of a sequence; 0: not known. */
    const unsigned rows = split_kv_known_rows(d);
    return rows && rows < SLICES;
}

/* Returns the number of elements of a slice, for parts at once or one by one. Few rows are divided
 * into pieces, so that every wave has a slice. Few parts have few workgroups and waves; a second
 * slice of a wave would wait for memory once more. */
static unsigned slice_width(const struct split_kv_part_sum *s)
{
    const struct split_kv *const d = s->d;
    const unsigned width = (unsigned)d->v->head_dim_v, rows = split_kv_known_rows(d);
    const unsigned waves = s->way == SPLIT_KV_PARTS_AT_ONCE ? HALF * d->waves : SLICES;
    return rows && rows < waves && width > LEAST ? LEAST : width;
}

/* Sets the types of `s` for parts that are added at once or one by one. */
static void choose_types(struct split_kv_part_sum *s)
{
    struct split_kv *const d = s->d;
    struct tir_spread rows = tir_spread(d->m, d->waves), row = rows;
    tir_spread_rows(&rows, TIR_LANES, d->m->lane_bits);
    tir_spread_cols(&row, TIR_REGS, 2);
    tir_spread_cols(&row, TIR_LANES, d->m->lane_bits);
    tir_spread_cols(&row, TIR_REGS, tir_bits(slice_width(s)) - 2 - d->m->lane_bits);
    const struct tir_layout parts = tir_spread_layout(&rows), elements = tir_spread_layout(&row);
    const struct tir_layout number = tir_layout_slice(&elements, 1);
    s->lanes = tir_tile(d->b.f, TIR_F32, 1u << d->m->lane_bits, 1, &parts);
    s->slice = tir_tile(d->b.f, TIR_F32, 1, slice_width(s), &elements);
    s->one = tir_tile(d->b.f, TIR_F32, 1, 1, &number);
}

/* The sum of some parts of a slice. m: log2 of the largest weight. l and o: denominator and output,
 * relative to 2^m. */
struct sum {
    struct tir_value m, l, o;
    /* i64: address of the slice in the result, if O is already divided by the denominator; no
     * value: O is not divided yet. */
    struct tir_value to;
};

/* Returns the address (i64) of the row of slice *l in result tensor `t`, whose elements have `size`
 * bytes. */
static struct tir_value place(struct split_kv_part_sum *s, const struct slice *l,
                              struct att_tensor t, int size)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value token =
        tir_mul(b, att_wide(b, l->token), att_stride(b, t.token_stride, size));
    const struct tir_value head =
        tir_mul(b, att_wide(b, l->head), att_stride(b, t.head_stride, size));
    return att_at(b, t.arg, tir_add(b, token, head));
}

/* Returns the number of slices of a row. If a row is no multiple of a slice, the last slice
 * overlaps the one before it. Both write the same numbers there. */
static int pieces_of_row(const struct split_kv_part_sum *s)
{
    const int width = (int)s->slice.cols;
    return (s->d->v->head_dim_v + width - 1) / width;
}

/* Returns slice `number` (i32 index) of the result. */
static struct slice find_slice(struct split_kv_part_sum *s, struct tir_value number)
{
    struct split_kv *const d = s->d;
    struct tir_builder *b = &d->b;
    const int pieces = pieces_of_row(s);
    const struct tir_value row = tir_div(b, number, tir_i32(b, pieces));
    const struct tir_value piece = tir_sub(b, number, att_times(b, row, pieces));
    const struct tir_value token = tir_div(b, row, d->gqa);
    const int last = d->v->head_dim_v - (int)s->slice.cols;
    struct slice l = {.element =
                          tir_min(b, att_times(b, piece, (int)s->slice.cols), tir_i32(b, last))};
    l.head = tir_add(b, tir_sub(b, row, tir_mul(b, token, d->gqa)), split_kv_first_head(d));
    l.token = tir_add(b, d->item.first_token, token);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value at = tir_add(b, tir_mul(b, token, heads), l.head);
    const struct tir_value element = tir_add(b, att_times(b, at, d->v->head_dim_v), l.element);
    l.lse = att_at(b, ARG_PARTIAL_LSE, tir_shl(b, tir_zext(b, at, TIR_I64), tir_i64(b, 2)));
    l.out = att_at(b, ARG_PARTIAL_OUT, tir_shl(b, tir_zext(b, element, TIR_I64), tir_i64(b, 2)));
    return l;
}

/* Returns the address (i64) of slice *l in the result. */
static struct tir_value find_result(struct split_kv_part_sum *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    return tir_add(b, place(s, l, ATT_HEADS(OUT), 2),
                   tir_shl(b, att_wide(b, l->element), tir_i64(b, 1)));
}

/* Issues the load of the sink of the head of slice *l; no value: the variant has no sinks. */
static struct tir_value load_sink(struct split_kv_part_sum *s, const struct slice *l)
{
    struct tir_builder *const b = &s->d->b;
    if (!s->d->v->sinks)
        return (struct tir_value){0};
    return tir_scalar_load(b, tir_arg(b, ARG_SINKS, TIR_I64), att_times(b, l->head, sizeof(float)),
                           TIR_F32);
}

/* Returns the sum before the first part is added: the sink `sink` (f32) of load_sink(), or zero
 * without sinks. O is not set. */
static struct sum begin_sum(struct split_kv_part_sum *s, struct tir_value sink)
{
    struct tir_builder *const b = &s->d->b;
    const struct tir_value lowest = tir_f32(b, LOWEST), zero = tir_f32(b, 0.0f);
    if (!s->d->v->sinks)
        return (struct sum){.m = lowest, .l = zero};
    const struct tir_value power = tir_mul(b, sink, tir_f32(b, ATT_LOG2E));
    const struct tir_value m = tir_min(b, tir_max(b, power, lowest), tir_f32(b, HIGHEST));
    return (struct sum){.m = m,
                        .l = tir_select(b, tir_cmp_gt(b, m, lowest), tir_f32(b, 1.0f), zero)};
}

/* ---- The result ---- */

/* Stores `a`, a slice or one number, at address `base` (i64). */
static void store_row(struct split_kv_part_sum *s, struct tir_value base, struct tir_value a)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = tir_with_dtype(s->one, TIR_I64);
    tir_tile_scatter(b, base, tir_splat(b, tir_i64(b, 0), t), tir_i32(b, 0), a);
}

/* Returns 1 / l of a denominator l; 0 if no part has a key. */
static struct tir_value inverse_of(struct tir_builder *b, struct tir_value l)
{
    const struct tir_value zero = tir_float_like(b, l, 0.0f);
    return tir_select(b, tir_cmp_gt(b, l, zero), tir_rcp(b, l), zero);
}

/* Writes the LSE of slice *l's row, from `sum`; -infinity if no part has a key. Only the first
 * slice of a row writes it. */
static void write_log(struct split_kv_part_sum *s, const struct slice *l, const struct sum *sum)
{
    struct split_kv *const d = s->d;
    struct tir_builder *b = &d->b;
    if (!d->v->lse)
        return;
    const struct tir_value some = tir_cmp_gt(b, sum->l, tir_f32(b, 0.0f));
    const struct tir_value log =
        tir_mul(b, tir_add(b, sum->m, tir_log2(b, sum->l)), tir_f32(b, ATT_LN2));
    struct tir_value lse = tir_select(b, some, log, tir_f32(b, -INFINITY));
    if (d->v->sinks)
        lse = tir_select(b, tir_cmp_lt(b, sum->m, tir_f32(b, HIGHEST)), lse, tir_f32(b, INFINITY));
    const struct tir_value first = tir_cmp_eq(b, l->element, tir_i32(b, 0));
    struct tir_if begins = att_begin_if(b, first);
    store_row(s, place(s, l, ATT_HEADS(LSE), 4), tir_splat(b, lse, s->one));
    tir_end_if(b, &begins, NULL);
}

/* Writes slice *l and the LSE of its row. Divides O of the sum by the denominator first, unless O
 * is already divided (sum->to). */
static void write_slice(struct split_kv_part_sum *s, const struct slice *l, const struct sum *sum)
{
    struct tir_builder *b = &s->d->b;
    struct tir_value o = sum->o, to = sum->to;
    if (!to.id) {
        to = find_result(s, l);
        o = tir_mul(b, o, tir_splat(b, inverse_of(b, sum->l), s->slice));
    }
    store_row(s, to, tir_convert_short(b, o, s->d->dtype));
    write_log(s, l, sum);
}

/* ---- Parts one by one ---- */

/* Returns the row index in partial_out (i32, one in each lane) of the parts from part `chunk` (i32:
 * index) on, from reduce_partial_map. Lanes after the last part get the last part's row. */
static struct tir_value find_rows(struct split_kv_part_sum *s, struct tir_value chunk)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = tir_with_dtype(s->lanes, TIR_I32);
    const struct tir_value last = tir_splat(b, att_plus(b, s->count, -1), t);
    const struct tir_value part = tir_add(b, tir_row_index(b, t), tir_splat(b, chunk, t));
    const struct tir_value entry = tir_add(b, tir_min(b, part, last), tir_splat(b, s->first, t));
    const struct tir_value at = tir_convert(b, entry, TIR_I64);
    return tir_tile_gather_constant(b, tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                                    tir_shl(b, at, tir_int_like(b, at, 2)), t);
}

/* Loads, for slice *l, log2 of the weight of each lane's part: lane i has part `chunk` (i32) + i.
 * The result is LOWEST in lanes without a part. `rows` are the parts' rows. */
static struct tir_value load_lse(struct split_kv_part_sum *s, const struct slice *l,
                                 struct tir_value rows, struct tir_value chunk)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = tir_with_dtype(s->lanes, TIR_I32);
    const struct tir_value wide = tir_zext(b, rows, TIR_I64);
    const struct tir_value bytes =
        tir_zext(b, att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), (int)sizeof(float)), TIR_I64);
    const struct tir_value at = tir_mul(b, wide, att_like(b, bytes, wide));
    const struct tir_value lse = tir_tile_gather(b, l->lse, at, tir_i32(b, 0), s->lanes);
    const struct tir_value left = tir_splat(b, tir_sub(b, s->count, chunk), t);
    const struct tir_value there = tir_cmp_lt(b, tir_row_index(b, t), left);
    const struct tir_value lowest = tir_float_like(b, lse, LOWEST);
    return tir_select(
        b, there, tir_max(b, tir_mul(b, lse, tir_float_like(b, lse, ATT_LOG2E)), lowest), lowest);
}

/* Loads slice *l of O of the part in row `row` (i32) of the partials. */
static struct tir_value load_out(struct split_kv_part_sum *s, const struct slice *l,
                                 struct tir_value row)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value at = tir_mul(b, tir_zext(b, row, TIR_I64), s->row_bytes);
    const struct tir_type t = tir_with_dtype(s->one, TIR_I64);
    return tir_tile_gather(b, tir_add(b, l->out, at), tir_splat(b, tir_i64(b, 0), t), tir_i32(b, 0),
                           s->slice);
}

/* Returns `o` plus the weighted outputs, for slice *l, of the `n` parts that belong to lanes k
 * (i32), k + 1 and so on. Each lane has its part's row in `rows` (i32) and weight in `weights`
 * (f32). */
static struct tir_value add_outs(struct split_kv_part_sum *s, const struct slice *l,
                                 struct tir_value rows, struct tir_value weights,
                                 struct tir_value k, struct tir_value o, unsigned n)
{
    struct tir_builder *b = &s->d->b;
    struct tir_value part[MOST];
    for (unsigned i = 0; i < n; i++)
        part[i] = load_out(s, l, tir_lane_read(b, rows, att_plus(b, k, (int)i)));
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value w = tir_lane_read(b, weights, att_plus(b, k, (int)i));
        o = tir_fma(b, part[i], tir_splat(b, w, s->slice), o);
    }
    return o;
}

/* Returns `o` plus the weighted O of slice *l of the first `n` (i32) parts of a chunk: many parts
 * at once, then the remaining parts a few at a time. A chunk has a part for each lane, with its row
 * in `rows` (i32) and its weight in `weights` (f32). */
static struct tir_value add_chunk(struct split_kv_part_sum *s, const struct slice *l,
                                  struct tir_value rows, struct tir_value weights,
                                  struct tir_value n, struct tir_value o)
{
    struct tir_builder *b = &s->d->b;
    const unsigned registers = s->slice.cols >> s->d->m->lane_bits, most = REGISTERS / registers;
    struct tir_value done = tir_i32(b, 0);
    for (unsigned at_once = most; at_once; at_once = at_once > HALF ? HALF : 0) {
        const struct tir_value end = at_once > HALF ? tir_and(b, n, tir_i32(b, -(int)at_once)) : n;
        struct tir_loop loop = tir_begin_for(b, done, end, tir_i32(b, (int)at_once), &o, 1);
        const struct tir_value more = add_outs(s, l, rows, weights, loop.index, o, at_once);
        o = more;
        tir_end_for(b, &loop, &o, 1);
        done = end;
    }
    return o;
}

/* Returns the sum `before` of slice *l plus a chunk of parts from part `chunk` (i32) on. Each lane
 * has one of these parts, whose row index in partial_out is in `rows` (i32). */
static struct sum join_chunk(struct split_kv_part_sum *s, const struct slice *l,
                             struct tir_value rows, struct tir_value chunk,
                             const struct sum *before)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value lse = load_lse(s, l, rows, chunk);
    struct sum sum = {.m = tir_max(b, before->m, tir_first_lane(b, tir_col_max(b, lse)))};
    const struct tir_value scale = tir_exp2(b, tir_sub(b, before->m, sum.m));
    const struct tir_value lowest = tir_float_like(b, lse, LOWEST);
    const struct tir_value power = tir_exp2(b, tir_sub(b, lse, tir_splat(b, sum.m, s->lanes)));
    const struct tir_value weights =
        tir_select(b, tir_cmp_gt(b, lse, lowest), power, tir_float_like(b, lse, 0.0f));
    sum.l = tir_fma(b, before->l, scale, tir_first_lane(b, tir_col_sum(b, weights)));
    const struct tir_value left = tir_sub(b, s->count, chunk), lanes = tir_i32(b, s->lanes.rows);
    sum.o = add_chunk(s, l, rows, weights, tir_min(b, left, lanes),
                      tir_mul(b, before->o, tir_splat(b, scale, s->slice)));
    return sum;
}

/* Returns the sum of all parts of slice *l, chunk by chunk. */
static struct sum join_all(struct split_kv_part_sum *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_f32(b, 0.0f), lanes = tir_i32(b, s->lanes.rows);
    const struct sum begun = begin_sum(s, load_sink(s, l));
    struct tir_value carried[] = {begun.m, begun.l, tir_splat(b, zero, s->slice), s->rows};
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), s->count, lanes, carried, 4);
    const struct sum before = {.m = carried[0], .l = carried[1], .o = carried[2]};
    const struct sum sum = join_chunk(s, l, carried[3], loop.index, &before);
    carried[3] = find_rows(s, tir_add(b, loop.index, lanes));
    const struct tir_value now[] = {sum.m, sum.l, sum.o};
    memcpy(carried, now, sizeof(now));
    tir_end_for(b, &loop, carried, 4);
    return (struct sum){.m = carried[0], .l = carried[1], .o = carried[2]};
}

/* ---- Few parts at once ---- */

/* Sets s->few_lse to the byte offsets of up to FEW parts in partial_lse. */
static void find_few(struct split_kv_part_sum *s)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value map = tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64);
    const struct tir_value last = att_plus(b, s->count, -1);
    struct tir_value rows[FEW];
    for (int i = 0; i < FEW; i++) {
        const struct tir_value entry = tir_add(b, s->first, tir_min(b, tir_i32(b, i), last));
        rows[i] = tir_scalar_load(b, map, att_times(b, entry, 4), TIR_I32);
    }
    tir_anchor_all(b, rows, FEW);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value bytes = tir_zext(b, att_times(b, heads, sizeof(float)), TIR_I64);
    for (int i = 0; i < FEW; i++) {
        const struct tir_value row = tir_zext(b, rows[i], TIR_I64);
        s->few_lse[i] = tir_mul(b, row, bytes);
    }
    tir_anchor_all(b, s->few_lse, FEW); /* offsets are computed while stores are in flight */
}

/* Returns the address (i64) of slice *l of O of part `i`. */
static struct tir_value few_out(struct split_kv_part_sum *s, const struct slice *l, int i)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value row = s->few_lse[i];
    return tir_add(b, l->out, tir_mul(b, row, tir_int_like(b, row, s->d->v->head_dim_v)));
}

/* Returns the sum of the first `n` parts of slice *l, at most FEW, with O already divided by the
 * denominator. Parts from the sum's number of parts on have no weight. No load depends on another
 * load, so all loads are in flight together. Every lane has the weights of all parts. */
static struct sum join_first(struct split_kv_part_sum *s, const struct slice *l, int n)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type wide = tir_with_dtype(s->one, TIR_I64);
    const struct tir_value none = tir_splat(b, tir_i64(b, 0), wide), zero = tir_i32(b, 0);
    struct tir_value lse[FEW], part[FEW];
    const struct tir_value sink = load_sink(s, l);
    for (int i = 0; i < n; i++)
        lse[i] = tir_tile_gather(b, tir_add(b, l->lse, s->few_lse[i]), none, zero, s->one);
    for (int i = 0; i < n; i++)
        part[i] = tir_tile_gather(b, few_out(s, l, i), none, zero, s->slice);
    const struct tir_value to = find_result(s, l);
    tir_anchor(b, to); /* with this anchor LLVM computes it while parts are in flight */
    const struct tir_value lowest = tir_float_like(b, lse[0], LOWEST);
    const struct sum begun = begin_sum(s, sink);
    const struct tir_value first = tir_splat(b, begun.m, s->one);
    struct tir_value top = first;
    for (int i = 0; i < n; i++) {
        const struct tir_value log =
            tir_max(b, tir_mul(b, lse[i], tir_float_like(b, lowest, ATT_LOG2E)), lowest);
        const struct tir_value there = tir_cmp_lt(b, tir_i32(b, i), s->count);
        lse[i] = tir_select(b, tir_splat(b, there, tir_with_dtype(s->one, TIR_I1)), log, lowest);
        top = tir_max(b, top, lse[i]);
    }
    struct tir_value sum =
        tir_mul(b, tir_splat(b, begun.l, s->one), tir_exp2(b, tir_sub(b, first, top)));
    for (int i = 0; i < n; i++) {
        const struct tir_value power = tir_exp2(b, tir_sub(b, lse[i], top));
        const struct tir_value some = tir_cmp_gt(b, lse[i], lowest);
        lse[i] = tir_select(b, some, power, tir_float_like(b, lowest, 0.0f));
        sum = tir_add(b, sum, lse[i]);
    }
    const struct tir_value inverse = inverse_of(b, sum);
    for (int i = 0; i < n; i++)
        lse[i] = tir_mul(b, lse[i], inverse);
    tir_anchor_all(b, lse, (unsigned)n); /* weights are computed while rows of O are in flight */
    struct tir_value o = {0};
    for (int i = 0; i < n; i++) {
        const struct tir_value factor = tir_broadcast(b, lse[i], s->slice);
        o = i ? tir_fma(b, part[i], factor, o) : tir_mul(b, part[i], factor);
    }
    return (struct sum){tir_first_lane(b, top), tir_first_lane(b, sum), o, to};
}

/* Returns the sum of all parts of slice *l, at most FEW, with O already divided by the denominator.
 * A sum of at most HALF parts loads no others. */
static struct sum join_few(struct split_kv_part_sum *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type f32 = tir_scalar(TIR_F32), i64 = tir_scalar(TIR_I64);
    const struct tir_type types[] = {f32, f32, s->slice, i64};
    const struct tir_value fits = tir_cmp_le(b, s->count, tir_i32(b, HALF));
    struct tir_if half = tir_begin_if(b, fits, false, types, 4);
    const struct sum few = join_first(s, l, HALF);
    tir_else(b, &half, (struct tir_value[]){few.m, few.l, few.o, few.to});
    const struct sum all = join_first(s, l, FEW);
    struct tir_value joined[] = {all.m, all.l, all.o, all.to};
    tir_end_if(b, &half, joined);
    return (struct sum){joined[0], joined[1], joined[2], joined[3]};
}

/* ---- Parts side by side ---- */

/* Returns log2 of the number of vectors of four floats of a part's slice that a lane has, with
 * SPLIT_KV_PARTS_OF_ROWS. */
static unsigned row_vector_bits(const struct split_kv *d)
{
    return d->v->head_dim_v < 4 * (LEAST / SIDE_BY_SIDE) ? 1 : 2;
}

/* Returns the number of vectors of four floats that a lane loads at once. The number is chosen so
 * that no more registers are needed than for the loop over keys, since workgroups with more
 * registers would start later. */
static unsigned vectors_at_once(const struct split_kv *d)
{
    enum { NARROW = 4 * (LEAST / SIDE_BY_SIDE) };
    const bool few = d->v->head_dim_v < NARROW || (d->v->head_dim_v == NARROW && d->kv_bytes == 1);
    return few ? MOST / 2 : MOST;
}

unsigned split_kv_few_parts_of_rows(const struct split_kv *d)
{
    return vectors_at_once(d) * SIDE_BY_SIDE >> row_vector_bits(d);
}

/* Returns the number of groups of SIDE_BY_SIDE parts whose loads are in flight at once, when parts
 * are added in the way s->way. */
static int loads_of(const struct split_kv_part_sum *s)
{
    const unsigned n = vectors_at_once(s->d);
    return (int)(s->way == SPLIT_KV_PARTS_OF_ROWS ? n >> row_vector_bits(s->d) : n);
}

/* Sets the types of `s` for parts side by side: a wave has SIDE_BY_SIDE parts of a slice. */
static void choose_parts(struct split_kv_part_sum *s)
{
    struct split_kv *const d = s->d;
    const unsigned bits = tir_bits(SIDE_BY_SIDE), lanes = d->m->lane_bits;
    const unsigned width = vectors_at_once(d) / (unsigned)loads_of(s) * (LEAST / SIDE_BY_SIDE);
    struct tir_spread spread = tir_spread(d->m, d->waves);
    tir_spread_cols(&spread, TIR_REGS, 2);
    tir_spread_cols(&spread, TIR_LANES, lanes - bits);
    tir_spread_rows(&spread, TIR_LANES, bits);
    tir_spread_fill(&spread, TIR_REGS, SIDE_BY_SIDE, width);
    const struct tir_layout l = tir_spread_layout(&spread);
    const struct tir_layout row = tir_layout_slice(&l, 1), element = tir_layout_slice(&l, 0);
    const struct tir_layout number = tir_layout_slice(&element, 1);
    s->some = tir_tile(d->b.f, TIR_F32, SIDE_BY_SIDE, width, &l);
    s->parts = tir_tile(d->b.f, TIR_F32, SIDE_BY_SIDE, 1, &row);
    s->slice = tir_tile(d->b.f, TIR_F32, 1, width, &element);
    s->one = tir_tile(d->b.f, TIR_F32, 1, 1, &number);
}

/* Sets at[] to the byte offsets (i64) in partial_lse of the rows of the parts from part `chunk`
 * (i32) on. Parts after the last one get the last part's offset. */
static void find_parts(struct split_kv_part_sum *s, struct tir_value chunk,
                       struct tir_value at[MOST])
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = tir_with_dtype(s->parts, TIR_I32);
    const struct tir_value last = tir_splat(b, att_plus(b, s->count, -1), t);
    struct tir_value entry[MOST];
    for (int i = 0; i < loads_of(s); i++) {
        const struct tir_value first = att_plus(b, chunk, i * s->parts.rows);
        const struct tir_value part = tir_add(b, tir_row_index(b, t), tir_splat(b, first, t));
        const struct tir_value n = tir_add(b, tir_min(b, part, last), tir_splat(b, s->first, t));
        const struct tir_value wide = tir_convert(b, n, TIR_I64);
        entry[i] = tir_tile_gather_constant(b, tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                                            tir_shl(b, wide, tir_int_like(b, wide, 2)), t);
    }
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value bytes = tir_zext(b, att_times(b, heads, sizeof(float)), TIR_I64);
    for (int i = 0; i < loads_of(s); i++) {
        const struct tir_value row = tir_zext(b, entry[i], TIR_I64);
        at[i] = tir_mul(b, row, att_like(b, bytes, row));
    }
}

/* Loads lse[], log2 of the weights for slice *l of the parts from part `chunk` (i32) on; LOWEST
 * after the last part. at[] is from find_parts(). */
static void load_parts_lse(struct split_kv_part_sum *s, const struct slice *l,
                           struct tir_value chunk, const struct tir_value at[MOST],
                           struct tir_value lse[MOST])
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = tir_with_dtype(s->parts, TIR_I32);
    for (int i = 0; i < loads_of(s); i++)
        lse[i] = tir_tile_gather(b, l->lse, at[i], tir_i32(b, 0), s->parts);
    for (int i = 0; i < loads_of(s); i++) {
        const struct tir_value first = att_plus(b, chunk, i * s->parts.rows);
        const struct tir_value left = tir_splat(b, tir_sub(b, s->count, first), t);
        const struct tir_value there = tir_cmp_lt(b, tir_row_index(b, t), left);
        const struct tir_value lowest = tir_float_like(b, lse[i], LOWEST);
        const struct tir_value log =
            tir_max(b, tir_mul(b, lse[i], tir_float_like(b, lse[i], ATT_LOG2E)), lowest);
        lse[i] = tir_select(b, there, log, lowest);
    }
}

/* Returns the sum `before` of slice *l plus the parts from part `chunk` (i32) on, whose byte
 * offsets in partial_lse are at[]. O of the result has a row for each of the SIDE_BY_SIDE parts. */
static struct sum join_parts(struct split_kv_part_sum *s, const struct slice *l,
                             struct tir_value chunk, const struct tir_value at[MOST],
                             const struct sum *before)
{
    struct tir_builder *b = &s->d->b;
    struct tir_value lse[MOST], part[MOST];
    load_parts_lse(s, l, chunk, at, lse);
    for (int i = 0; i < loads_of(s); i++) {
        const struct tir_value elements = tir_int_like(b, at[i], s->d->v->head_dim_v);
        part[i] = tir_tile_gather(b, l->out, tir_mul(b, at[i], elements), tir_i32(b, 0), s->some);
    }
    struct tir_value top = lse[0];
    for (int i = 1; i < loads_of(s); i++)
        top = tir_max(b, top, lse[i]);
    struct sum sum = {.m = tir_max(b, before->m, tir_first_lane(b, tir_col_max(b, top)))};
    const struct tir_value scale = tir_exp2(b, tir_sub(b, before->m, sum.m));
    const struct tir_value zero = tir_float_like(b, top, 0.0f);
    const struct tir_value lowest = tir_float_like(b, top, LOWEST);
    struct tir_value l_sum = zero;
    sum.o = tir_mul(b, before->o, tir_splat(b, scale, s->some));
    for (int i = 0; i < loads_of(s); i++) {
        const struct tir_value power =
            tir_exp2(b, tir_sub(b, lse[i], tir_splat(b, sum.m, s->parts)));
        const struct tir_value w = tir_select(b, tir_cmp_gt(b, lse[i], lowest), power, zero);
        l_sum = tir_add(b, l_sum, w);
        sum.o = tir_fma(b, part[i], tir_broadcast(b, w, s->some), sum.o);
    }
    sum.l = tir_fma(b, before->l, scale, tir_first_lane(b, tir_col_sum(b, l_sum)));
    return sum;
}

/* Sets at[] by find_parts() if the sum has a part with index `chunk` (i32); otherwise at[] stays as
 * it is. */
static void find_more_parts(struct split_kv_part_sum *s, struct tir_value chunk,
                            struct tir_value at[MOST])
{
    struct tir_builder *b = &s->d->b;
    struct tir_value next[MOST];
    struct tir_if more =
        tir_begin_if_like(b, tir_cmp_lt(b, chunk, s->count), false, at, (unsigned)loads_of(s));
    find_parts(s, chunk, next);
    tir_else(b, &more, next);
    tir_end_if(b, &more, at);
}

/* Returns the sum of all parts of slice *l, SIDE_BY_SIDE parts in each group. */
static struct sum join_all_parts(struct split_kv_part_sum *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_f32(b, 0.0f);
    const struct tir_value chunk = tir_i32(b, loads_of(s) * (int)s->parts.rows);
    const struct sum begun = begin_sum(s, load_sink(s, l));
    struct tir_value carried[3 + MOST] = {begun.m, begun.l, tir_splat(b, zero, s->some)};
    memcpy(carried + 3, s->rows_at, (size_t)loads_of(s) * sizeof(s->rows_at[0]));
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), s->count, chunk, carried, 3 + (unsigned)loads_of(s));
    const struct sum before = {.m = carried[0], .l = carried[1], .o = carried[2]};
    const struct sum sum = join_parts(s, l, loop.index, carried + 3, &before);
    find_more_parts(s, tir_add(b, loop.index, chunk), carried + 3);
    const struct tir_value now[] = {sum.m, sum.l, sum.o};
    memcpy(carried, now, sizeof(now));
    tir_end_for(b, &loop, carried, 3 + (unsigned)loads_of(s));
    return (struct sum){.m = carried[0], .l = carried[1], .o = tir_col_sum(b, carried[2])};
}

/* ---- A sum, from its parts to its slices ---- */

struct split_kv_part_sum split_kv_part_sum(struct split_kv *d, struct tir_value first,
                                           struct tir_value count)
{
    struct tir_builder *b = &d->b;
    struct split_kv_part_sum s = {.d = d, .first = first, .count = count};
    s.row_bytes =
        tir_zext(b, att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), d->v->head_dim_v * 4), TIR_I64);
    return s;
}

struct tir_value split_kv_parts_lie_side_by_side(const struct split_kv_part_sum *s)
{
    struct tir_builder *b = &s->d->b;
    if (!has_few_rows(s->d))
        return (struct tir_value){0};
    return tir_cmp_gt(b, s->count, tir_i32(b, FEW_BY_ONE));
}

void split_kv_part_sum_find(struct split_kv_part_sum *s, enum split_kv_part_way way)
{
    struct tir_builder *b = &s->d->b;
    s->way = way;
    switch (way) {
    case SPLIT_KV_PARTS_AT_ONCE:
        choose_types(s);
        find_few(s);
        break;
    case SPLIT_KV_PARTS_ONE_BY_ONE:
        choose_types(s);
        s->rows = find_rows(s, tir_i32(b, 0));
        /* Without this anchor LLVM loads the rows after the last part has arrived. */
        tir_anchor(b, s->rows);
        break;
    case SPLIT_KV_PARTS_SIDE_BY_SIDE:
    case SPLIT_KV_PARTS_OF_ROWS:
        choose_parts(s);
        find_parts(s, tir_i32(b, 0), s->rows_at);
        for (int i = 0; i < loads_of(s); i++)
            tir_anchor(b, s->rows_at[i]);
        break;
    }
}

struct tir_value split_kv_part_sum_slices(const struct split_kv_part_sum *s)
{
    const struct split_kv *const d = s->d;
    return att_times(&s->d->b, d->n_rows, pieces_of_row(s));
}

void split_kv_part_sum_slice(struct split_kv_part_sum *s, struct tir_value number)
{
    const struct slice slice = find_slice(s, number);
    const struct sum sum = s->way == SPLIT_KV_PARTS_AT_ONCE      ? join_few(s, &slice)
                           : s->way == SPLIT_KV_PARTS_ONE_BY_ONE ? join_all(s, &slice)
                                                                 : join_all_parts(s, &slice);
    write_slice(s, &slice, &sum);
}
