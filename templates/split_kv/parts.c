/* SPDX-License-Identifier: Apache-2.0
 *
 * This file merges the partials (parts) of a sequence in the same launch, for field one_launch. The
 * sequence's workgroups count their parts. If the parts are few, the last workgroup merges them:
 * each wave adds up some heads, or rows of O, over all parts in their order. So sums do not depend
 * on which workgroup is last. If the parts are many, share.c merges them. A part (O, lse) is the
 * state m = lse log2(e), l = 1.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/attention/share.h"
#include "templates/split_kv/split_kv.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <math.h>
#include <string.h>

enum {
    ALONE_PARTS = 16, /* most parts that one workgroup adds up as fast as several would */
    ALONE_ROWS = 512  /* most rows of O, over all parts, that one workgroup adds up */
};

/* Byte offsets of the rows of a tile in partial_out or partial_lse, relative to the first row of a
 * part. */
struct partial {
    struct tir_type t;             /* type of the tile as it is loaded; its transpose is used */
    struct split_kv_tensor tensor; /* the tensor of partials */
    /* i32: bytes of a row, with all heads. The number has 32 bits, since a product of two
     * zero-extended 32-bit numbers takes only two instructions. */
    struct tir_value row_bytes;
    struct tir_value at; /* i64: byte offset of each row */
};

/* The parts of the item's sequence, which are entries of reduce_partial_map, and the layout in
 * which they are added up. */
struct parts {
    struct tir_value first, count; /* i32: index of the first entry, and the number of entries */
    struct tir_value map;          /* i64: address of the first entry */
    struct tir_type o;             /* type of a load of O, which takes split_kv_parts() loads */
    /* True: each wave has its own columns; false: each wave has its own rows of O^T. */
    bool by_column;
    struct partial lses, outs;     /* places of a part's lse and of its O */
    struct split_kv_places places; /* places of the result */
    struct tir_value lse_at;       /* lses.at as i32 */
};

struct tir_value split_kv_is_part(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    return tir_and(b, tir_cmp_ge(b, d->item.partial, zero), tir_cmp_gt(b, d->n_rows, zero));
}

/* Sets the layout of the sum: d->columns, the types of O^T and of a number for each column, and the
 * type of a load of O. Lanes have adjacent elements of a row, as memory has them; in the layout of
 * matrix instructions a load would read from sixteen rows. Columns without a query are left out.
 * Each wave has its own columns, or its own rows of O^T if there are few columns. */
static void choose_sum(struct split_kv *d, struct parts *p)
{
    const unsigned width = tir_bits(split_kv_part_width(&d->value)), waves = tir_bits(d->waves);
    /* Number of rows of Q of a sequence; 0: not known. */
    const unsigned rows_used = split_kv_known_rows(d);
    unsigned columns = 0;
    while (1u << columns < (rows_used ? rows_used : d->columns) && 1u << columns < d->columns)
        columns++;
    /* most: log2 of the most lanes that share a row, half of a wave's. If all lanes shared one, a
     * row's numbers would be equal in the whole wave, and too many for the scalar registers. */
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
    const unsigned loaded = split_kv_part_width(&d->value);
    p->o = tir_tile(d->b.f, TIR_F32, loaded, d->columns, &l);
    if (d->value.overlap)
        l = tir_layout_stack(&l, loaded);
    const struct tir_layout column = tir_layout_slice(&l, 0);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &l);
    d->attention.softmax.vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &column);
}

/* Returns the byte offsets, in the tensor of argument `tensor`, of the columns of a tile of type
 * `t`. A head has `bytes` bytes. */
static struct partial find_partial(struct split_kv *d, const char *tensor, int bytes,
                                   struct tir_type t)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, t));
    struct partial p = {.t = tir_tile(b->f, t.dtype, t.cols, t.rows, &l)};
    p.tensor = split_kv_partial(d, tensor, bytes, tir_i32(b, 0));
    p.row_bytes = att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), bytes);
    p.at = split_kv_offsets(d, p.t, &p.tensor);
    return p;
}

/* Loads the elements of a part from byte `byte` of each row's head on, as the transpose of p->t.
 * `row` (i32) is the part's first row in the partials. */
static struct tir_value load_rows(struct split_kv *d, const struct partial *p, struct tir_value row,
                                  int byte)
{
    struct tir_builder *b = &d->b;
    const struct tir_value base =
        tir_add(b, p->tensor.base,
                tir_mul(b, tir_zext(b, row, TIR_I64), tir_zext(b, p->row_bytes, TIR_I64)));
    return tir_transpose(b, tir_tile_gather(b, base, p->at, tir_i32(b, byte), p->t));
}

/* Loads O^T of the part whose first row in the partials is `row` (i32). */
static struct tir_value load_out(struct split_kv *d, const struct partial *p, struct tir_value row)
{
    struct tir_value part[2];
    for (unsigned i = 0; i < split_kv_parts(&d->value); i++)
        part[i] = load_rows(d, p, row, 4 * split_kv_part_first(&d->value, i));
    return d->value.overlap ? tir_stack(&d->b, part[0], part[1]) : part[0];
}

/* PARTS_AT_ONCE: most parts whose row indices and lse are loaded at once. TOGETHER: scalar loads in
 * flight at once. */
enum { PARTS_AT_ONCE = 16, TOGETHER = 8 };

/* Returns the number of parts whose O fits in the registers that K and V had in the loop over keys,
 * at most PARTS_AT_ONCE. */
static unsigned parts_under_way(const struct split_kv *d)
{
    const unsigned registers = d->value.width * d->columns / d->waves >> d->m->lane_bits;
    const unsigned n = 64 / registers;
    return n > PARTS_AT_ONCE ? PARTS_AT_ONCE : n < 1 ? 1 : n;
}

/* Returns the number of parts whose row numbers and lse are loaded at once: PARTS_AT_ONCE, or
 * parts_under_way() if that is less than half of PARTS_AT_ONCE. */
static unsigned parts_at_once(const struct split_kv *d)
{
    const unsigned n = parts_under_way(d);
    return n < PARTS_AT_ONCE / 2 ? n : PARTS_AT_ONCE;
}

/* Loads the first rows (i32) in the partials of parts k (i32) to k + n - 1 into row[]. If `whole`,
 * all n parts exist, so a single load reads adjacent entries. Otherwise parts after the last one
 * get the last part's row. */
static void find_rows(struct split_kv *d, const struct parts *p, struct tir_value k,
                      struct tir_value *row, unsigned n, bool whole)
{
    struct tir_builder *b = &d->b;
    const struct tir_value last = att_plus(b, p->count, -1), two = tir_i32(b, 2);
    const struct tir_value chunk = tir_add(b, p->map, tir_shl(b, att_wide(b, k), tir_i64(b, 2)));
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value part = tir_min(b, att_plus(b, k, (int)i), last);
        row[i] = whole ? tir_scalar_load(b, chunk, tir_i32(b, 4 * (int)i), TIR_I32)
                       : tir_scalar_load(b, p->map, tir_shl(b, part, two), TIR_I32);
    }
    for (unsigned i = 0; i < n; i += TOGETHER)
        tir_anchor_all(b, row + i, n - i < TOGETHER ? n - i : TOGETHER);
}

/* Loads the lse of the columns of the part whose first row is `row` (i32). Offsets have 32 bits: a
 * partial_lse of 4 GiB would need a partial_out of at least 256 GiB. */
static struct tir_value load_lse(struct split_kv *d, const struct parts *p, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = tir_typeof(b->f, p->lse_at);
    const struct tir_value at =
        tir_add(b, p->lse_at, tir_splat(b, tir_mul(b, row, p->lses.row_bytes), t));
    return tir_transpose(b, tir_tile_gather(b, p->lses.tensor.base, tir_zext(b, at, TIR_I64),
                                            tir_i32(b, 0), p->lses.t));
}

/* Returns state `before` plus `n` parts from part k (i32) on. Issues the loads of all rows and lse,
 * and then the loads of O. If `whole`, all n parts exist; otherwise parts after the last one have
 * weight 0. */
static struct split_kv_state add_parts(struct split_kv *d, const struct parts *p,
                                       struct tir_value k, const struct split_kv_state *before,
                                       unsigned n, bool whole)
{
    struct tir_builder *b = &d->b;
    struct tir_value row[PARTS_AT_ONCE], lse[PARTS_AT_ONCE], o[PARTS_AT_ONCE];
    find_rows(d, p, k, row, n, whole);
    for (unsigned i = 0; i < n; i++)
        lse[i] = load_lse(d, p, row[i]);
    /* The loop adds anchors. Without them LLVM keeps the product of row and heads of all parts in
     * scalar registers. */
    for (unsigned i = 0; i < n; i += TOGETHER)
        tir_anchor_all(b, row + i, n - i < TOGETHER ? n - i : TOGETHER);
    const unsigned ahead = n < parts_under_way(d) ? n : parts_under_way(d);
    for (unsigned i = 0; i < ahead; i++)
        o[i] = load_out(d, &p->outs, row[i]);
    const struct tir_value log2e = tir_float_like(b, before->m, ATT_LOG2E);
    const struct tir_value none = tir_float_like(b, before->m, -INFINITY);
    struct tir_value top = none;
    for (unsigned i = 0; i < n; i++) {
        if (!whole)
            lse[i] = tir_select(b, tir_cmp_lt(b, att_plus(b, k, (int)i), p->count), lse[i], none);
        top = tir_max(b, top, lse[i]);
    }
    struct split_kv_state sum = {.m = tir_max(b, before->m, tir_mul(b, top, log2e))};
    const struct tir_value below = tir_neg(b, sum.m),
                           factor = tir_exp2(b, tir_add(b, before->m, below));
    sum.l = tir_mul(b, before->l, factor);
    sum.o = tir_mul(b, before->o, tir_broadcast(b, factor, d->output));
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value w = tir_exp2(b, tir_fma(b, lse[i], log2e, below));
        sum.l = tir_add(b, sum.l, w);
        sum.o = tir_fma(b, o[i], tir_broadcast(b, w, d->output), sum.o);
        if (i + ahead >= n)
            continue;
        tir_anchor(b, sum.o); /* with this anchor the next part's O uses the same registers */
        o[i + ahead] = load_out(d, &p->outs, row[i + ahead]);
    }
    return sum;
}

/* Returns the sum of all parts: many parts at once, then the remaining parts a few at a time. */
static struct split_kv_state add_all_parts(struct split_kv *d, const struct parts *p)
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
        const struct split_kv_state before = {carried[0], carried[1], carried[2]};
        const struct split_kv_state s = add_parts(d, p, loop.index, &before, n, n > least);
        memcpy(carried, (struct tir_value[]){s.m, s.l, s.o}, sizeof(carried));
        tir_end_for(b, &loop, carried, 3);
        done = end;
    }
    return (struct split_kv_state){carried[0], carried[1], carried[2]};
}

/* Returns the tile type of one i32 that is the same in all lanes. */
static struct tir_type one_number(struct split_kv *d)
{
    const struct tir_layout l = tir_spread_one(d->m);
    return tir_tile(d->b.f, TIR_I32, 1, 1, &l);
}

/* Returns the address (i64) of the ticket of the item's sequence and KV head. Each group of heads
 * has counters of its own in the ticket's cache line. */
static struct tir_value ticket_of(struct split_kv *d)
{
    enum {
        COUNTERS_BITS = 3 /* log2 of the bytes of a group's counters */
    };
    struct tir_builder *b = &d->b;
    const struct tir_value kv_heads = tir_arg(b, ARG_KV_HEADS, TIR_I32);
    const struct tir_value pair =
        tir_add(b, tir_mul(b, d->item.sequence, kv_heads), d->item.kv_head);
    const struct tir_value line = att_at(b, ARG_TICKETS, att_wide_times(b, pair, ATT_TICKET_LINE));
    if (d->head_groups <= 1)
        return line;
    return tir_add(b, line, tir_shl(b, att_wide(b, d->head_group), tir_i64(b, COUNTERS_BITS)));
}

/* Counts this part in the ticket at address `ticket` (i64), and returns the number of parts (i32)
 * that were written before it. One wave counts after all waves have written, and passes the number
 * to the other waves through LDS. */
static struct tir_value count_parts(struct split_kv *d, const struct parts *p,
                                    struct tir_value ticket)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = one_number(d);
    const struct tir_layout map = tir_row_major(1, 1);
    tir_wait_memory(b);
    tir_barrier(b);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)));
    const struct tir_value before = tir_splat(b, tir_arrive(b, ticket, p->count), t);
    tir_tile_lds_store(b, d->lds, before, &map);
    tir_end_if(b, &first, NULL);
    att_lds_barrier(&d->b);
    const struct tir_value count = tir_first_lane(b, tir_tile_lds_load(b, d->lds, t, &map));
    att_lds_barrier(&d->b);
    return count;
}

/* Sets p->lses, p->outs and p->places, the places of the parts and of the result. The arguments for
 * these take long to load, so the loads are issued before the workgroup knows that it adds up the
 * parts. */
static void find_places(struct split_kv *d, struct parts *p)
{
    struct tir_builder *b = &d->b;
    p->lses = find_partial(d, ARG_PARTIAL_LSE, 4, d->attention.softmax.vector);
    p->lse_at = tir_convert(b, p->lses.at, TIR_I32);
    p->outs = find_partial(d, ARG_PARTIAL_OUT, d->v->head_dim_v * 4, p->o);
    p->places = split_kv_load_places(d, SPLIT_KV_SUM);
    split_kv_find_out(d, &p->places);
    split_kv_find_lse(d, &p->places);
    p->places.own_lse = p->by_column;
    const struct tir_value scalars[] = {p->lses.tensor.base, p->lses.row_bytes, p->outs.tensor.base,
                                        p->outs.row_bytes};
    tir_anchor(b, p->lse_at);
    tir_anchor(b, p->outs.at);
    tir_anchor_all(b, scalars, sizeof(scalars) / sizeof(scalars[0]));
}

/* Adds up all parts of the current columns (rows of Q) and writes their result. */
static void sum_up(struct split_kv *d, const struct parts *p)
{
    struct tir_builder *b = &d->b;
    const struct split_kv_state s = add_all_parts(d, p);
    const struct tir_value inverse = split_kv_write_lse(d, &s, &p->places);
    split_kv_write_out(d, tir_mul(b, s.o, tir_broadcast(b, inverse, d->output)), &p->places);
}

/* Adds up the parts in several passes, each over d->columns of the item's rows, for items with more
 * rows than columns. */
static void sum_up_in_passes(struct split_kv *d, struct parts *p)
{
    struct tir_builder *b = &d->b;
    struct tir_loop pass =
        tir_begin_for(b, tir_i32(b, 0), d->n_rows, tir_i32(b, (int)d->columns), NULL, 0);
    d->first_row = pass.index;
    find_places(d, p);
    sum_up(d, p);
    tir_end_for(b, &pass, NULL, 0);
}

/* Counts this workgroup's part, and adds up all parts if it is the last one. */
static void join(struct split_kv *d, struct parts *p)
{
    struct tir_builder *b = &d->b;
    /* Number of rows of Q of a sequence; 0: not known. */
    const unsigned rows = split_kv_known_rows(d);
    const bool once = rows && rows <= d->columns;
    const struct tir_value ticket = ticket_of(d);
    d->first_row = tir_i32(b, 0);
    if (once)
        find_places(d, p);
    tir_anchor(b, ticket);
    const struct tir_value before = count_parts(d, p, ticket);
    struct tir_if last = att_begin_if(b, tir_cmp_eq(b, before, att_plus(b, p->count, -1)));
    tir_acquire(b);
    if (once)
        sum_up(d, p);
    else
        sum_up_in_passes(d, p);
    tir_end_if(b, &last, NULL);
}

/* Returns an i1: true if the last workgroup of a sequence adds up its `count` (i32) parts, false if
 * all of the sequence's workgroups do. */
static struct tir_value are_few(struct split_kv *d, struct tir_value count)
{
    struct tir_builder *b = &d->b;
    const struct tir_value rows = tir_mul(b, count, d->n_rows);
    return tir_and(b, tir_cmp_le(b, count, tir_i32(b, ALONE_PARTS)),
                   tir_cmp_le(b, rows, tir_i32(b, ALONE_ROWS)));
}

void split_kv_join_parts(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_type output = d->output, vector = d->attention.softmax.vector;
    const unsigned columns = d->columns;
    const struct tir_value loaded[] = {tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64),
                                       tir_arg(b, ARG_TICKETS, TIR_I64),
                                       tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                                       tir_arg(b, ARG_KV_HEADS, TIR_I32),
                                       tir_arg(b, ARG_PARTIAL_LSE, TIR_I64),
                                       tir_arg(b, ARG_PARTIAL_OUT, TIR_I64),
                                       tir_arg(b, ARG_OUT, TIR_I64),
                                       tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64),
                                       tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64)};
    struct tir_if part = att_begin_if(b, split_kv_is_part(d));
    struct parts p = {.first = att_far_entry(b, ARG_REDUCE_INDPTR, d->item.sequence, TIR_I32)};
    const struct tir_value next = att_plus(b, d->item.sequence, 1);
    p.count = tir_sub(b, att_far_entry(b, ARG_REDUCE_INDPTR, next, TIR_I32), p.first);
    /* All these arguments arrive in one round of loads. */
    tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]));
    p.map = att_at(b, ARG_REDUCE_PARTIAL_MAP, tir_shl(b, att_wide(b, p.first), tir_i64(b, 2)));
    struct tir_if few = att_begin_if(b, are_few(d, p.count));
    choose_sum(d, &p);
    join(d, &p);
    d->columns = columns;
    d->output = output;
    d->attention.softmax.vector = vector;
    tir_else(b, &few, NULL);
    d->part_ends[0] = p.first;
    d->part_ends[1] = tir_add(b, p.first, p.count);
    d->ticket = ticket_of(d);
    split_kv_share_narrow(d);
    tir_end_if(b, &few, NULL);
    tir_end_if(b, &part, NULL);
}

/* Implements the declaration in split_kv.h. For an item that is no part, loads from argument
 * kv_lens instead, since that memory always exists. */
struct tir_value split_kv_prefetch_parts(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    if (!d->v->one_launch)
        return (struct tir_value){0};
    const struct tir_value cut = tir_cmp_ge(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value two = tir_i64(b, 2), sequence = tir_materialize(b, d->item.sequence);
    const struct tir_value at = tir_shl(b, att_wide(b, sequence), two);
    const struct tir_value other = att_at(b, ARG_KV_LENS, at);
    const struct tir_value ends = att_at(b, ARG_REDUCE_INDPTR, at);
    const struct tir_value first =
        tir_scalar_load(b, tir_select(b, cut, ends, other), tir_i32(b, 0), TIR_I32);
    const struct tir_value entry =
        att_at(b, ARG_REDUCE_PARTIAL_MAP, tir_shl(b, att_wide(b, first), two));
    return tir_scalar_load(b, tir_select(b, cut, entry, other), tir_i32(b, 0), TIR_I32);
}
