/* SPDX-License-Identifier: Apache-2.0
 *
 * With `one_launch` parts of many heads are added up by all workgroups that are there. A workgroup
 * that has written its part waits a while for the others', and those that see the last one come
 * share the rows, or halves of them. Whoever has waited long enough leaves, and the ticket says so.
 * If nobody has, rows are dealt out: no wave asks for the number of its own. Else each wave claims
 * one, and then the next, until no row is left. The last workgroup never waits: so none needs
 * another to run, and a row is the sum of all parts in their order whoever adds them up.
 *
 * A lane knows a part: where its rows are, and what its lse says it counts. All lanes together have
 * a row, and read what a part counts from its lane. Few rows of many parts have more waves than
 * slices: slices are a line of memory wide then, eight lanes each, and lanes have eight parts side
 * by side, of which each knows its own. All loads of up to 128 parts are under way at once.
 *
 *     m = max_k lse_k log2(e)   w_k = 2^(lse_k log2(e) - m)   O = sum_k w_k o_k / sum_k w_k
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/decode.h"
#include "templates/scalar.h"

#include <math.h>
#include <string.h>

static const float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;
static const float LOWEST = -3e38f; /* of a part without keys */

enum {
    LINE = 128,     /* bytes of memory that a sequence has for its counts */
    POLLS = 16,     /* for the last part, 400 to 600 clocks each: as long as one would need alone */
    SLEEP = 2,      /* times 64 clocks between them, where many wait at one ticket */
    FEW_POLLS = 28, /* of few parts, 260 to 400 clocks each */
    SLICES = 32,    /* that rows are cut into, at least: waves that can help */
    LEAST = 256,    /* elements of a slice: 16 bytes of each lane */
    REGISTERS = 64, /* of parts on their way */
    MOST = 16,
    FEW = 4,       /* parts at once */
    FEW_PARTS = 32 /* of a sequence: a lane has elements of one at a time */
};

/* The parts of a slice are summed up with all loads at once, with a lane having elements of one
 * part at a time, or of eight. */
enum way { AT_ONCE, ONE_BY_ONE, SIDE_BY_SIDE };

/* A row of O, or a part of one, where parts have it. */
struct slice {
    struct tir_value token, head, element; /* i32; the token as row of q */
    struct tir_value lse, out;             /* i64, of the row of part 0 */
};
struct share {
    struct decode *d;
    struct tir_value first, count;   /* of reduce_partial_map */
    struct tir_value ticket, claims; /* i64: where parts are counted, and slices claimed */
    struct tir_value behind;         /* parts that came later than the workgroup's own */
    struct tir_value left;           /* workgroups that did not wait for the last part; -1: this one
                                        did not */
    struct tir_value row_bytes;      /* i64, of a part */
    struct tir_type lanes, slice;    /* f32: a part a lane, 64 x 1; elements of a row, 1 x n */
    struct tir_type one;             /* f32 1 x 1 */
    enum way way;
    struct tir_value few[FEW]; /* i32: the rows of the parts, where these are few; of those behind
                                  the last, its row */
    struct tir_value few_lse[FEW], few_out[FEW]; /* i64: their bytes */
    /* Lanes have several parts side by side if there are many. */
    unsigned loads;                 /* of such parts, one after the other; 0: there are few parts */
    struct tir_type some, parts;    /* f32: parts x elements; parts x 1 */
    struct tir_value rows_at[MOST]; /* i64 parts x 1: where the first of them are */
};

static bool has_few_rows(const struct decode *d)
{
    const unsigned rows = (unsigned)(d->v->gqa * d->v->q_len); /* 0: not known */
    return rows && rows < SLICES;
}

/* Few rows are cut, so that there are slices for all who help. */
static unsigned slice_width(const struct decode *d)
{
    const unsigned width = (unsigned)d->v->head_dim_v;
    const unsigned rows = (unsigned)(d->v->gqa * d->v->q_len); /* 0: not known */
    return rows && rows < SLICES && width > LEAST ? LEAST : width;
}

static void choose_types(struct share *s)
{
    struct decode *const d = s->d;
    struct tir_spread rows = tir_spread(d->m, d->waves), row = rows;
    tir_spread_rows(&rows, TIR_LANES, d->m->lane_bits);
    tir_spread_cols(&row, TIR_REGS, 2);
    tir_spread_cols(&row, TIR_LANES, d->m->lane_bits);
    tir_spread_cols(&row, TIR_REGS, tir_bits(slice_width(d)) - 2 - d->m->lane_bits);
    const struct tir_layout parts = tir_spread_layout(&rows), elements = tir_spread_layout(&row);
    const struct tir_layout number = tir_layout_slice(&elements, 1);
    s->lanes = tir_tile(d->b.f, TIR_F32, 1u << d->m->lane_bits, 1, &parts);
    s->slice = tir_tile(d->b.f, TIR_F32, 1, slice_width(d), &elements);
    s->one = tir_tile(d->b.f, TIR_F32, 1, 1, &number);
}

static struct tir_type as_int(struct tir_type t, unsigned dtype)
{
    t.dtype = (uint8_t)dtype;
    return t;
}

/* Counts the parts and waits for the last one. Sets s->number, and s->left to how many have left,
 * or to -1 where this workgroup has. All waves have written their part when one of them counts, and
 * learn the rest from that. */
static void await_parts(struct share *s)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32), t = as_int(s->one, TIR_I32);
    const struct tir_layout map = tir_row_major(1, 1);
    const struct tir_value left_bit = tir_i32(b, TIR_LEFT_BIT);
    tir_wait_memory(b);
    tir_anchor(b, d->touched);
    tir_barrier(b);
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    const struct tir_value was = tir_atomic_add(b, s->ticket, tir_i32(b, 1), true);
    const struct tir_value behind =
        tir_sub(b, att_plus(b, s->count, -1), tir_and(b, was, tir_i32(b, TIR_ARRIVED)));
    struct tir_value left = tir_sar(b, was, left_bit);
    struct tir_if early = tir_begin_if(b, tir_cmp_gt(b, behind, tir_i32(b, 0)), false, &i32, 1);
    const struct tir_value seen =
        tir_await(b, s->ticket, s->count, s->way == AT_ONCE ? FEW_POLLS : POLLS,
                  s->way == AT_ONCE ? 0 : SLEEP);
    tir_else(b, &early, &seen);
    tir_end_if(b, &early, &left);
    const struct tir_value said = tir_or(b, tir_shl(b, left, left_bit), behind);
    tir_tile_lds_store(b, d->lds, tir_splat(b, said, t), &map);
    tir_end_if(b, &first, NULL);
    decode_meet(d);
    const struct tir_value all = tir_first_lane(b, tir_tile_lds_load(b, d->lds, t, &map));
    decode_meet(d);
    s->left = tir_sar(b, all, left_bit);
    s->behind = tir_and(b, all, tir_i32(b, TIR_ARRIVED));
}

/* The rows of the parts from `chunk` on, a part a lane; of those behind the last, its row. */
static struct tir_value find_rows(struct share *s, struct tir_value chunk)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = as_int(s->lanes, TIR_I32);
    const struct tir_value last = tir_splat(b, att_plus(b, s->count, -1), t);
    const struct tir_value part = tir_add(b, tir_row_index(b, t), tir_splat(b, chunk, t));
    const struct tir_value entry = tir_add(b, tir_min(b, part, last), tir_splat(b, s->first, t));
    const struct tir_value at = tir_convert(b, entry, TIR_I64);
    return tir_tile_gather_constant(b, tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                                    tir_shl(b, at, tir_int_like(b, at, 2)), t);
}

/* A state: m in powers of two, l and O relative to 2^m. */
struct sum {
    struct tir_value m, l, o;
    struct tir_value to; /* i64: O goes there; set where O has been divided already */
};

/* Address (i64) of the slice's row in a tensor whose elements have so many bytes. */
static struct tir_value place(struct share *s, const struct slice *l, struct att_tensor t, int size)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value token =
        tir_mul(b, att_wide(b, l->token), att_stride(b, t.token_stride, size));
    const struct tir_value head =
        tir_mul(b, att_wide(b, l->head), att_stride(b, t.head_stride, size));
    return tir_add(b, tir_arg(b, t.arg, TIR_I64), tir_add(b, token, head));
}

static struct slice find_slice(struct share *s, struct tir_value number)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const unsigned bits = tir_bits((unsigned)d->v->head_dim_v / s->slice.cols);
    const struct tir_value row = tir_sar(b, number, tir_i32(b, (int)bits));
    const struct tir_value part = tir_and(b, number, tir_i32(b, (1 << bits) - 1));
    const struct tir_value token = tir_div(b, row, d->gqa);
    struct slice l = {.element = att_times(b, part, (int)s->slice.cols)};
    l.head =
        tir_add(b, tir_sub(b, row, tir_mul(b, token, d->gqa)), tir_mul(b, d->item.kv_head, d->gqa));
    l.token = tir_add(b, d->item.first_token, token);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value at = tir_add(b, tir_mul(b, token, heads), l.head);
    const struct tir_value element = tir_add(b, att_times(b, at, d->v->head_dim_v), l.element);
    l.lse = tir_add(b, tir_arg(b, ARG_PARTIAL_LSE, TIR_I64),
                    tir_shl(b, tir_zext(b, at, TIR_I64), tir_i64(b, 2)));
    l.out = tir_add(b, tir_arg(b, ARG_PARTIAL_OUT, TIR_I64),
                    tir_shl(b, tir_zext(b, element, TIR_I64), tir_i64(b, 2)));
    return l;
}

/* The slice of the result begins here. */
static struct tir_value find_result(struct share *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    return tir_add(b, place(s, l, ATT_HEADS(OUT), 2),
                   tir_shl(b, att_wide(b, l->element), tir_i64(b, 1)));
}

/* log2 of what each lane's part counts. */
static struct tir_value load_lse(struct share *s, const struct slice *l, struct tir_value rows,
                                 struct tir_value chunk)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = as_int(s->lanes, TIR_I32);
    const struct tir_value wide = tir_zext(b, rows, TIR_I64);
    const struct tir_value bytes =
        tir_zext(b, att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), (int)sizeof(float)), TIR_I64);
    const struct tir_value at = tir_mul(b, wide, tir_splat(b, bytes, tir_typeof(b->f, wide)));
    const struct tir_value lse = tir_tile_gather(b, l->lse, at, tir_i32(b, 0), s->lanes);
    const struct tir_value left = tir_splat(b, tir_sub(b, s->count, chunk), t);
    const struct tir_value there = tir_cmp_lt(b, tir_row_index(b, t), left);
    const struct tir_value lowest = tir_float_like(b, lse, LOWEST);
    return tir_select(b, there, tir_max(b, tir_mul(b, lse, tir_float_like(b, lse, LOG2E)), lowest),
                      lowest);
}

/* O of a part. */
static struct tir_value load_out(struct share *s, const struct slice *l, struct tir_value row)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value at = tir_mul(b, tir_zext(b, row, TIR_I64), s->row_bytes);
    const struct tir_type t = as_int(s->one, TIR_I64);
    return tir_tile_gather(b, tir_add(b, l->out, at), tir_splat(b, tir_i64(b, 0), t), tir_i32(b, 0),
                           s->slice);
}

/* o += w_k o_k of n parts from k on. */
static struct tir_value add_outs(struct share *s, const struct slice *l, struct tir_value rows,
                                 struct tir_value weights, struct tir_value k, struct tir_value o,
                                 unsigned n)
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

/* Many parts of a chunk at once, and what is left of them few by few. */
static struct tir_value add_chunk(struct share *s, const struct slice *l, struct tir_value rows,
                                  struct tir_value weights, struct tir_value n, struct tir_value o)
{
    struct tir_builder *b = &s->d->b;
    const unsigned registers = s->slice.cols >> s->d->m->lane_bits, most = REGISTERS / registers;
    struct tir_value done = tir_i32(b, 0);
    for (unsigned at_once = most; at_once; at_once = at_once > FEW ? FEW : 0) {
        const struct tir_value end = at_once > FEW ? tir_and(b, n, tir_i32(b, -(int)at_once)) : n;
        struct tir_loop loop = tir_begin_for(b, done, end, tir_i32(b, (int)at_once), &o, 1);
        const struct tir_value more = add_outs(s, l, rows, weights, loop.index, o, at_once);
        o = more;
        tir_end_for(b, &loop, &o, 1);
        done = end;
    }
    return o;
}

/* The sum, and the parts from `chunk` on, as far as there are lanes for them. */
static struct sum join_chunk(struct share *s, const struct slice *l, struct tir_value rows,
                             struct tir_value chunk, const struct sum *before)
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

static struct sum join_all(struct share *s, const struct slice *l, struct tir_value rows)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_f32(b, 0.0f), lanes = tir_i32(b, s->lanes.rows);
    struct tir_value carried[] = {tir_f32(b, LOWEST), zero, tir_splat(b, zero, s->slice), rows};
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), s->count, lanes, carried, 4);
    const struct sum before = {.m = carried[0], .l = carried[1], .o = carried[2]};
    const struct sum sum = join_chunk(s, l, carried[3], loop.index, &before);
    carried[3] = find_rows(s, tir_add(b, loop.index, lanes));
    const struct tir_value now[] = {sum.m, sum.l, sum.o};
    memcpy(carried, now, sizeof(now));
    tir_end_for(b, &loop, carried, 4);
    return (struct sum){.m = carried[0], .l = carried[1], .o = carried[2]};
}

/* ---- The result ---- */

static void store_row(struct share *s, struct tir_value base, struct tir_value a)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = as_int(s->one, TIR_I64);
    tir_tile_scatter(b, base, tir_splat(b, tir_i64(b, 0), t), tir_i32(b, 0), a);
}

/* The inverse of a denominator; 0 where no part has a key. */
static struct tir_value inverse_of(struct tir_builder *b, struct tir_value l)
{
    const struct tir_value zero = tir_float_like(b, l, 0.0f);
    return tir_select(b, tir_cmp_gt(b, l, zero), tir_rcp(b, l), zero);
}

/* The log of the denominator of a row of which no part has a key is -infinity. */
static void write_log(struct share *s, const struct slice *l, const struct sum *sum)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    if (!d->v->lse)
        return;
    const struct tir_value some = tir_cmp_gt(b, sum->l, tir_f32(b, 0.0f));
    const struct tir_value log =
        tir_mul(b, tir_add(b, sum->m, tir_log2(b, sum->l)), tir_f32(b, LN2));
    const struct tir_value lse = tir_select(b, some, log, tir_f32(b, -INFINITY));
    const struct tir_value first = tir_cmp_eq(b, l->element, tir_i32(b, 0));
    struct tir_if begins = tir_begin_if(b, first, false, NULL, 0);
    store_row(s, place(s, l, ATT_HEADS(LSE), 4), tir_splat(b, lse, s->one));
    tir_end_if(b, &begins, NULL);
}

static void write_slice(struct share *s, const struct slice *l, const struct sum *sum)
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

/* ---- Few parts ---- */

static void find_few(struct share *s)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value map = tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64);
    const struct tir_value last = att_plus(b, s->count, -1);
    for (int i = 0; i < FEW; i++) {
        const struct tir_value entry = tir_add(b, s->first, tir_min(b, tir_i32(b, i), last));
        s->few[i] = tir_scalar_load(b, map, att_times(b, entry, 4), TIR_I32);
    }
    tir_anchor_all(b, s->few, FEW);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value bytes = tir_zext(b, att_times(b, heads, sizeof(float)), TIR_I64);
    for (int i = 0; i < FEW; i++) {
        const struct tir_value row = tir_zext(b, s->few[i], TIR_I64);
        s->few_lse[i] = tir_mul(b, row, bytes);
        s->few_out[i] = tir_mul(b, row, s->row_bytes);
    }
    tir_anchor_all(b, s->few_lse, FEW); /* while stores are under way */
    tir_anchor_all(b, s->few_out, FEW);
}

/* All loads are under way together: none tells where another one reads. Every lane has what each
 * part counts. O has been divided. */
static struct sum join_few(struct share *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type wide = as_int(s->one, TIR_I64);
    const struct tir_value none = tir_splat(b, tir_i64(b, 0), wide), zero = tir_i32(b, 0);
    struct tir_value lse[FEW], part[FEW];
    for (int i = 0; i < FEW; i++)
        lse[i] = tir_tile_gather(b, tir_add(b, l->lse, s->few_lse[i]), none, zero, s->one);
    for (int i = 0; i < FEW; i++)
        part[i] = tir_tile_gather(b, tir_add(b, l->out, s->few_out[i]), none, zero, s->slice);
    const struct tir_value to = find_result(s, l);
    tir_anchor(b, to);
    const struct tir_value lowest = tir_float_like(b, lse[0], LOWEST);
    struct tir_value top = lowest, sum = tir_float_like(b, lowest, 0.0f);
    for (int i = 0; i < FEW; i++) {
        const struct tir_value log =
            tir_max(b, tir_mul(b, lse[i], tir_float_like(b, lowest, LOG2E)), lowest);
        const struct tir_value there = tir_cmp_lt(b, tir_i32(b, i), s->count);
        lse[i] = tir_select(b, tir_splat(b, there, as_int(s->one, TIR_I1)), log, lowest);
        top = tir_max(b, top, lse[i]);
    }
    for (int i = 0; i < FEW; i++) {
        const struct tir_value power = tir_exp2(b, tir_sub(b, lse[i], top));
        const struct tir_value some = tir_cmp_gt(b, lse[i], lowest);
        lse[i] = tir_select(b, some, power, tir_float_like(b, lowest, 0.0f));
        sum = tir_add(b, sum, lse[i]);
    }
    const struct tir_value inverse = inverse_of(b, sum);
    for (int i = 0; i < FEW; i++)
        lse[i] = tir_mul(b, lse[i], inverse);
    tir_anchor_all(b, lse, FEW); /* while rows are under way */
    struct tir_value o = {0};
    for (int i = 0; i < FEW; i++) {
        const struct tir_value factor = tir_broadcast(b, lse[i], s->slice);
        o = i ? tir_fma(b, part[i], factor, o) : tir_mul(b, part[i], factor);
    }
    return (struct sum){tir_first_lane(b, top), tir_first_lane(b, sum), o, to};
}

/* ---- Many parts ---- */

/* Lanes have `parts` parts of a slice of 256 / parts elements. */
static void choose_parts(struct share *s, unsigned parts, unsigned loads)
{
    struct decode *const d = s->d;
    const unsigned bits = tir_bits(parts), lanes = d->m->lane_bits;
    struct tir_spread spread = tir_spread(d->m, d->waves);
    tir_spread_cols(&spread, TIR_REGS, 2);
    tir_spread_cols(&spread, TIR_LANES, lanes - bits);
    tir_spread_rows(&spread, TIR_LANES, bits);
    const struct tir_layout l = tir_spread_layout(&spread);
    const struct tir_layout row = tir_layout_slice(&l, 1), element = tir_layout_slice(&l, 0);
    const struct tir_layout number = tir_layout_slice(&element, 1);
    s->loads = loads;
    s->some = tir_tile(d->b.f, TIR_F32, parts, LEAST >> bits, &l);
    s->parts = tir_tile(d->b.f, TIR_F32, parts, 1, &row);
    s->slice = tir_tile(d->b.f, TIR_F32, 1, LEAST >> bits, &element);
    s->one = tir_tile(d->b.f, TIR_F32, 1, 1, &number);
}

/* Finds where the rows of the parts from `chunk` on are, in bytes; those behind the last part have
 * its row. */
static void find_parts(struct share *s, struct tir_value chunk, struct tir_value at[MOST])
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = as_int(s->parts, TIR_I32);
    const struct tir_value last = tir_splat(b, att_plus(b, s->count, -1), t);
    struct tir_value entry[MOST];
    for (unsigned i = 0; i < s->loads; i++) {
        const struct tir_value first = att_plus(b, chunk, (int)(i * s->parts.rows));
        const struct tir_value part = tir_add(b, tir_row_index(b, t), tir_splat(b, first, t));
        const struct tir_value n = tir_add(b, tir_min(b, part, last), tir_splat(b, s->first, t));
        const struct tir_value wide = tir_convert(b, n, TIR_I64);
        entry[i] = tir_tile_gather_constant(b, tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                                            tir_shl(b, wide, tir_int_like(b, wide, 2)), t);
    }
    for (unsigned i = 0; i < s->loads; i++) {
        const struct tir_value row = tir_zext(b, entry[i], TIR_I64);
        at[i] = tir_mul(b, row, tir_splat(b, s->row_bytes, tir_typeof(b->f, row)));
    }
}

/* Returns the log2 of what each part from `chunk` on counts. */
static void load_parts_lse(struct share *s, const struct slice *l, struct tir_value chunk,
                           const struct tir_value at[MOST], struct tir_value lse[MOST])
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type t = as_int(s->parts, TIR_I32);
    const int bits = tir_bits((unsigned)s->d->v->head_dim_v);
    for (unsigned i = 0; i < s->loads; i++) {
        const struct tir_value byte = tir_shr(b, at[i], tir_int_like(b, at[i], bits));
        lse[i] = tir_tile_gather(b, l->lse, byte, tir_i32(b, 0), s->parts);
    }
    for (unsigned i = 0; i < s->loads; i++) {
        const struct tir_value first = att_plus(b, chunk, (int)(i * s->parts.rows));
        const struct tir_value left = tir_splat(b, tir_sub(b, s->count, first), t);
        const struct tir_value there = tir_cmp_lt(b, tir_row_index(b, t), left);
        const struct tir_value lowest = tir_float_like(b, lse[i], LOWEST);
        const struct tir_value log =
            tir_max(b, tir_mul(b, lse[i], tir_float_like(b, lse[i], LOG2E)), lowest);
        lse[i] = tir_select(b, there, log, lowest);
    }
}

/* The sum, and the parts from `chunk` on. O has a row for each part that lanes have at once. */
static struct sum join_parts(struct share *s, const struct slice *l, struct tir_value chunk,
                             const struct tir_value at[MOST], const struct sum *before)
{
    struct tir_builder *b = &s->d->b;
    struct tir_value lse[MOST], part[MOST];
    load_parts_lse(s, l, chunk, at, lse);
    for (unsigned i = 0; i < s->loads; i++)
        part[i] = tir_tile_gather(b, l->out, at[i], tir_i32(b, 0), s->some);
    struct tir_value top = lse[0];
    for (unsigned i = 1; i < s->loads; i++)
        top = tir_max(b, top, lse[i]);
    struct sum sum = {.m = tir_max(b, before->m, tir_first_lane(b, tir_col_max(b, top)))};
    const struct tir_value scale = tir_exp2(b, tir_sub(b, before->m, sum.m));
    const struct tir_value zero = tir_float_like(b, top, 0.0f);
    const struct tir_value lowest = tir_float_like(b, top, LOWEST);
    struct tir_value l_sum = zero;
    sum.o = tir_mul(b, before->o, tir_splat(b, scale, s->some));
    for (unsigned i = 0; i < s->loads; i++) {
        const struct tir_value power =
            tir_exp2(b, tir_sub(b, lse[i], tir_splat(b, sum.m, s->parts)));
        const struct tir_value w = tir_select(b, tir_cmp_gt(b, lse[i], lowest), power, zero);
        l_sum = tir_add(b, l_sum, w);
        sum.o = tir_fma(b, part[i], tir_broadcast(b, w, s->some), sum.o);
    }
    sum.l = tir_fma(b, before->l, scale, tir_first_lane(b, tir_col_sum(b, l_sum)));
    return sum;
}

/* The same as find_parts(), where there are any from `chunk` on. */
static void find_more_parts(struct share *s, struct tir_value chunk, struct tir_value at[MOST])
{
    struct tir_builder *b = &s->d->b;
    struct tir_type types[MOST];
    struct tir_value next[MOST];
    for (unsigned i = 0; i < s->loads; i++)
        types[i] = tir_typeof(b->f, at[i]);
    struct tir_if more = tir_begin_if(b, tir_cmp_lt(b, chunk, s->count), false, types, s->loads);
    find_parts(s, chunk, next);
    tir_else(b, &more, next);
    tir_end_if(b, &more, at);
}

static struct sum join_all_parts(struct share *s, const struct slice *l)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_f32(b, 0.0f);
    const struct tir_value chunk = tir_i32(b, (int)(s->loads * s->parts.rows));
    struct tir_value carried[3 + MOST] = {tir_f32(b, LOWEST), zero, tir_splat(b, zero, s->some)};
    memcpy(carried + 3, s->rows_at, sizeof(s->rows_at));
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), s->count, chunk, carried, 3 + s->loads);
    const struct sum before = {.m = carried[0], .l = carried[1], .o = carried[2]};
    const struct sum sum = join_parts(s, l, loop.index, carried + 3, &before);
    find_more_parts(s, tir_add(b, loop.index, chunk), carried + 3);
    const struct tir_value now[] = {sum.m, sum.l, sum.o};
    memcpy(carried, now, sizeof(now));
    tir_end_for(b, &loop, carried, 3 + s->loads);
    return (struct sum){.m = carried[0], .l = carried[1], .o = tir_col_sum(b, carried[2])};
}

static void sum_up_slice(struct share *s, struct tir_value rows, struct tir_value number)
{
    const struct slice slice = find_slice(s, number);
    const struct sum sum = s->way == AT_ONCE        ? join_few(s, &slice)
                           : s->way == SIDE_BY_SIDE ? join_all_parts(s, &slice)
                                                    : join_all(s, &slice, rows);
    write_slice(s, &slice, &sum);
}

/* ---- All are there ---- */

/* Slices go round the workgroups, from the last that came: it knows first that all are there. Then
 * it makes the ticket 0 for the next launch. */
static void sum_up_dealt(struct share *s, struct tir_value rows, struct tir_value n)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value first = tir_add(b, tir_mul(b, d->wave, s->count), s->behind);
    const struct tir_value waves = att_times(b, s->count, (int)d->waves);
    struct tir_loop slice = tir_begin_for(b, first, n, waves, NULL, 0);
    sum_up_slice(s, rows, slice.index);
    tir_end_for(b, &slice, NULL, 0);
    struct tir_if last = tir_begin_if(b, tir_cmp_eq(b, first, zero), false, NULL, 0);
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, s->count), false);
    tir_end_if(b, &last, NULL);
}

/* ---- Some have left ---- */

static struct tir_value claim(struct share *s)
{
    return tir_atomic_add(&s->d->b, s->claims, tir_i32(&s->d->b, 1), false);
}

/* Sums up the slice that was claimed, if it is one, and claims another. */
static struct tir_value sum_up_claim(struct share *s, struct tir_value rows, struct tir_value own,
                                     struct tir_value n)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    sum_up_slice(s, rows, own);
    const struct tir_value next = claim(s);
    tir_else(b, &some, &next);
    tir_end_if(b, &some, &own);
    return own;
}

/* Each wave that claims does so once in vain; the last of these makes both counters 0 for the next
 * launch. */
static void reset_counters(struct share *s, struct tir_value own, struct tir_value n)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value waves = att_times(b, tir_sub(b, s->count, s->left), (int)s->d->waves);
    const struct tir_value claims = tir_add(b, n, waves);
    struct tir_if last =
        tir_begin_if(b, tir_cmp_eq(b, att_plus(b, own, 1), claims), false, NULL, 0);
    const struct tir_value left = tir_shl(b, s->left, tir_i32(b, TIR_LEFT_BIT));
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, tir_add(b, left, s->count)), false);
    tir_atomic_add(b, s->claims, tir_sub(b, zero, claims), false);
    tir_end_if(b, &last, NULL);
}

/* Claims grow, so that no wave has more of them than are left behind its first one. Most have one
 * or two, and pass the turns that are left in steps of TURNS. */
static void sum_up_claimed(struct share *s, struct tir_value rows, struct tir_value n)
{
    enum { TURNS = 6 };
    struct tir_builder *b = &s->d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    const struct tir_value turns = tir_i32(b, TURNS);
    struct tir_value own = claim(s);
    struct tir_loop loop = tir_begin_for(b, own, n, turns, &own, 1);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    struct tir_value inner = own;
    struct tir_loop turn = tir_begin_for(b, tir_i32(b, 0), turns, tir_i32(b, 1), &inner, 1);
    inner = sum_up_claim(s, rows, inner, n);
    tir_end_for(b, &turn, &inner, 1);
    tir_else(b, &some, &inner);
    tir_end_if(b, &some, &own);
    tir_end_for(b, &loop, &own, 1);
    reset_counters(s, own, n);
}

/* Waits for all parts and adds them up, if this workgroup is there then. */
static void await_and_sum_up(struct share *s, struct tir_value rows)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value n = att_times(b, d->n_rows, d->v->head_dim_v / (int)s->slice.cols);
    await_parts(s);
    struct tir_if all = tir_begin_if(b, tir_cmp_eq(b, s->left, zero), false, NULL, 0);
    tir_acquire(b);
    sum_up_dealt(s, rows, n);
    tir_else(b, &all, NULL);
    struct tir_if some = tir_begin_if(b, tir_cmp_gt(b, s->left, zero), false, NULL, 0);
    tir_acquire(b);
    sum_up_claimed(s, rows, n);
    tir_end_if(b, &some, NULL);
    tir_end_if(b, &all, NULL);
}

static void sum_up_few(struct share s)
{
    s.way = AT_ONCE;
    find_few(&s);
    await_and_sum_up(&s, (struct tir_value){0});
}

static void sum_up_one_by_one(struct share s)
{
    s.way = ONE_BY_ONE;
    const struct tir_value rows = find_rows(&s, tir_i32(&s.d->b, 0));
    tir_anchor(&s.d->b, rows); /* else LLVM asks for them when all have come */
    await_and_sum_up(&s, rows);
}

/* The same of many parts of few rows, side by side in the lanes. */
static void sum_up_side_by_side(struct share s)
{
    enum { PARTS = 8 };
    struct tir_builder *b = &s.d->b;
    s.way = SIDE_BY_SIDE;
    choose_parts(&s, PARTS, MOST);
    find_parts(&s, tir_i32(b, 0), s.rows_at);
    for (unsigned i = 0; i < s.loads; i++)
        tir_anchor(b, s.rows_at[i]);
    await_and_sum_up(&s, (struct tir_value){0});
}

static void sum_up_many(struct share *s)
{
    struct tir_builder *b = &s->d->b;
    if (!has_few_rows(s->d)) {
        sum_up_one_by_one(*s);
        return;
    }
    const struct tir_value many = tir_cmp_gt(b, s->count, tir_i32(b, FEW_PARTS));
    struct tir_if branch = tir_begin_if(b, many, false, NULL, 0);
    sum_up_side_by_side(*s);
    tir_else(b, &branch, NULL);
    sum_up_one_by_one(*s);
    tir_end_if(b, &branch, NULL);
}

/* Asks for all arguments of a sum in one round, while what this workgroup has is being stored. */
static void ask_arguments(struct decode *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value asked[] = {
        tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64), tir_arg(b, ARG_PARTIAL_LSE, TIR_I64),
        tir_arg(b, ARG_PARTIAL_OUT, TIR_I64),        tir_arg(b, ARG_OUT, TIR_I64),
        tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64),   tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64),
    };
    tir_anchor_all(b, asked, sizeof(asked) / sizeof(asked[0]));
}

void decode_ask_part_ends(struct decode *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value cut = tir_cmp_ge(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value at = tir_shl(b, att_wide(b, d->item.sequence), tir_i64(b, 2));
    const struct tir_value ends = tir_add(b, tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64), at);
    const struct tir_value q = tir_arg(b, ARG_Q, TIR_I64), from = tir_select(b, cut, ends, q);
    const struct tir_value ticket =
        tir_add(b, tir_arg(b, ARG_TICKETS, TIR_I64),
                tir_mul(b, att_wide(b, d->item.sequence), tir_i64(b, LINE)));
    d->ticket = tir_select(b, cut, ticket, q);
    for (int i = 0; i < 2; i++)
        d->part_ends[i] = tir_scalar_load(b, from, tir_i32(b, 4 * i), TIR_I32);
}

/* A word that all lanes have. */
static struct tir_type word_type(struct decode *d)
{
    const struct tir_spread one = tir_spread(d->m, d->waves);
    const struct tir_layout l = tir_spread_layout(&one);
    return tir_tile(d->b.f, TIR_I32, 1, 1, &l);
}

struct tir_value decode_untouched(struct decode *d) { return tir_undef(&d->b, word_type(d)); }

void decode_touch_ticket(struct decode *d)
{
    enum { LAST = LINE - 4 /* a word that counts nothing */ };
    struct tir_builder *b = &d->b;
    const struct tir_type t = word_type(d);
    const struct tir_value none = tir_splat(b, tir_i64(b, 0), as_int(t, TIR_I64));
    const struct tir_value at = tir_add(b, d->ticket, tir_i64(b, LAST));
    d->touched = tir_tile_gather(b, at, none, tir_i32(b, 0), t);
}

void decode_share_parts(struct decode *d)
{
    struct tir_builder *b = &d->b;
    struct tir_if part = tir_begin_if(b, decode_is_part(d), false, NULL, 0);
    ask_arguments(d);
    struct share s = {.d = d, .first = d->part_ends[0]};
    s.count = tir_sub(b, d->part_ends[1], s.first);
    s.ticket = d->ticket;
    s.claims = tir_add(b, s.ticket, tir_i64(b, 4));
    s.row_bytes =
        tir_zext(b, att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), d->v->head_dim_v * 4), TIR_I64);
    choose_types(&s);
    struct tir_if few = tir_begin_if(b, tir_cmp_le(b, s.count, tir_i32(b, FEW)), false, NULL, 0);
    sum_up_few(s);
    tir_else(b, &few, NULL);
    sum_up_many(&s);
    tir_end_if(b, &few, NULL);
    tir_end_if(b, &part, NULL);
}
