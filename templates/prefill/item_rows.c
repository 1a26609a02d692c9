/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads and stores the rows of an item of prefill's work list. Heads and tokens have
 * different strides, so each row of Q and O has a separate address. The products' layouts have a
 * row in each lane, and their loads and stores would access a cache line for each lane. If LDS has
 * room, rows therefore pass through LDS. A wave loads and stores its own rows from there, with
 * several lanes for each row.
 *
 * An item with all keys of its tile writes the result. Other items write normalised output to
 * partial_out and LSE without sinks to partial_lse.
 */
#include "templates/prefill/item_rows.h"

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

enum { LSE_BYTES = 4, PARTIAL_BYTES = 4, LANE_BYTES = 16, LINE_BYTES = 128 };

/* ---- Rows of an item: query, head and byte offset of each ---- */

struct prefill_rows prefill_find_rows(struct prefill *p, struct tir_value index)
{
    struct tir_builder *b = &p->b;
    const struct tir_value row = tir_add(b, index, att_like(b, p->work.row0, index));
    const struct tir_value last = att_like(b, att_plus(b, p->item.n_rows, -1), row);
    const struct tir_value there = tir_max(b, tir_min(b, row, last), tir_int_like(b, row, 0));
    const struct tir_value gqa = att_like(b, p->item.gqa, row);
    const struct tir_value first_head = tir_mul(b, p->work.kv_head, p->item.gqa);
    struct prefill_rows r = {.token = tir_div(b, there, gqa), .valid = tir_cmp_le(b, row, last)};
    r.head =
        tir_add(b, tir_sub(b, there, tir_mul(b, r.token, gqa)), att_like(b, first_head, there));
    return r;
}

/* Returns the query and head of each row of a tile of type t, whose rows are the workgroup's
 * rows. */
static struct prefill_rows rows_of(struct prefill *p, struct tir_type t)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    return prefill_find_rows(p, tir_row_index(b, tir_tile(b->f, TIR_I32, t.rows, 1, &l)));
}

/* Strides of a tensor in bytes (i64), from a token to the next and from a head to the next, and
 * `first` (i32): index of the item's first token in the tensor. The strides are below 2 GiB, so
 * their upper halves are 0, and a multiplication by a token's index is one instruction. */
struct strides {
    struct tir_value token, head, first;
};

/* Returns `a` (i32, not negative) as i64. */
static struct tir_value as_wide(struct prefill *p, struct tir_value a)
{
    return tir_zext(&p->b, a, TIR_I64);
}

/* Returns the strides of argument tensor t, whose elements have `bytes` bytes. */
static struct strides strides_of(struct prefill *p, const struct att_tensor *t, int bytes)
{
    struct tir_builder *b = &p->b;
    return (struct strides){as_wide(p, att_stride32(b, t->token_stride, bytes)),
                            as_wide(p, att_stride32(b, t->head_stride, bytes)),
                            p->item.first_token};
}

/* Returns the strides of a tensor of partials whose heads have `bytes` bytes each. */
static struct strides partial_strides(struct prefill *p, int bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value row = att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), bytes);
    return (struct strides){as_wide(p, row), tir_i64(b, bytes), p->item.partial};
}

/* Returns the byte offset (i64) of each query and head of r in a tensor with strides s, from the
 * tensor's address on. */
static struct tir_value offsets(struct prefill *p, const struct prefill_rows *r,
                                const struct strides *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value row = tir_add(b, r->token, att_like(b, s->first, r->token));
    const struct tir_value token = as_wide(p, row), head = as_wide(p, r->head);
    return tir_add(b, tir_mul(b, token, att_like(b, s->token, token)),
                   tir_mul(b, head, att_like(b, s->head, head)));
}

struct tir_value prefill_gather_q(struct prefill *p, const struct prefill_panel *n,
                                  struct tir_type t)
{
    struct tir_builder *b = &p->b;
    const struct att_tensor q = ATT_HEADS(Q);
    const struct strides s = strides_of(p, &q, (int)prefill_bytes(p));
    const struct prefill_rows r = rows_of(p, t);
    return tir_tile_gather(b, tir_arg(b, q.arg, TIR_I64), offsets(p, &r, &s),
                           tir_i32(b, (int)(n->first * prefill_bytes(p))), t);
}

/* ---- Rows of Q and O on their way through LDS ---- */

/* Returns the type of a tile of the workgroup's rows with `width` columns of `dtype`. A lane has 16
 * bytes, and neighbouring lanes have neighbouring columns; each wave has its own rows. */
static struct tir_type whole_rows(struct prefill *p, unsigned dtype, unsigned width)
{
    const unsigned vector = tir_bits(LANE_BYTES * 8 / tir_dtype_bits(dtype));
    const unsigned columns = tir_bits(width);
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    tir_spread_cols(&s, TIR_REGS, vector < columns ? vector : columns);
    const unsigned lanes = tir_spread_room(&s, TIR_LANES), left = columns - s.cols;
    tir_spread_cols(&s, TIR_LANES, left < lanes ? left : lanes);
    tir_spread_rows(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    tir_spread_rows(&s, TIR_REGS, tir_bits(p->tile->rows) - s.rows);
    tir_spread_rows(&s, TIR_WAVES, tir_bits(p->tile->waves / prefill_groups(p)));
    tir_spread_cols(&s, TIR_REGS, columns - s.cols);
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->b.f, dtype, prefill_queries(p), width, &l);
}

/* Returns the LDS map of a part of O with `columns` columns: queries x columns, elements of `bytes`
 * bytes. Lanes that write one column of neighbouring rows use each bank once. */
static struct tir_layout out_map(const struct prefill *p, unsigned bytes, unsigned columns)
{
    const unsigned chunk = LANE_BYTES / bytes;
    return att_lds_swizzled(prefill_queries(p), columns, chunk, 0, tir_bits(columns / chunk));
}

/* Returns the number of column parts in which O passes through LDS, one after the other. Elements
 * have `bytes` bytes. 0: no part fits, or O has padding columns. */
static unsigned out_parts(const struct prefill *p, unsigned bytes)
{
    enum { LEAST = 32 /* fewest columns of a part */ };
    const unsigned all = prefill_queries(p) * prefill_dv(p) * bytes;
    if (prefill_dv(p) != (unsigned)p->v->head_dim_v || prefill_v_parts(p) > 1)
        return 0;
    for (unsigned parts = 1; prefill_dv(p) / parts >= LEAST; parts *= 2)
        if (all / parts <= p->staging.item_bytes)
            return parts;
    return 0;
}

/* Implements the declaration in item_rows.h. If workgroups share a compute unit, loads of one wait
 * for stores of another, and stores of whole cache lines take less time to issue. So if no other
 * LDS is left, O passes through the buffers of K and V, in parts whose rows fill cache lines. If
 * rows of a part are shorter than a line, O is stored from registers. */
void prefill_plan_item_rows(struct prefill *p, unsigned room, unsigned keys)
{
    unsigned q = 0, out = prefill_queries(p) * prefill_dv(p) * PREFILL_OUT_BYTES;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        n->q_at = q;
        q += prefill_q_bytes(p, n);
    }
    q *= prefill_groups(p);
    p->staging.item_q = q <= room            ? PREFILL_OWN_ROOM
                        : q <= p->value.room ? PREFILL_V_ROOM
                                             : PREFILL_NO_ROOM;
    while (out > room)
        out /= 2;
    p->staging.item_bytes = q <= room && q > out ? q : out;
    if (p->staging.item_q != PREFILL_NO_ROOM || out_parts(p, PARTIAL_BYTES))
        return;
    p->staging.item_bytes = prefill_residents(p->tile) > 1 ? keys : 0;
    const unsigned parts = out_parts(p, PREFILL_OUT_BYTES);
    if (parts && prefill_dv(p) / parts * PREFILL_OUT_BYTES >= LINE_BYTES)
        p->staging.home = PREFILL_KV_ROOM;
    else
        p->staging.item_bytes = 0;
}

void prefill_issue_q_rows(struct prefill *p)
{
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        n->q_rows = prefill_gather_q(p, n, whole_rows(p, p->shape.dtype, n->width));
    }
}

void prefill_store_q_rows(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        const struct prefill_panel *n = &p->k.panels[i];
        const struct tir_layout lds = prefill_q_lds(p, n);
        tir_tile_lds_store(b, prefill_q_buffer(p, n), n->q_rows, &lds);
    }
    tir_wait(b, TIR_LDS_WRITES, 0);
}

void prefill_await_q_reads(struct prefill *p)
{
    if (p->staging.item_q != PREFILL_V_ROOM)
        return;
    att_lds_barrier(&p->b);
}

/* ---- Results and partials of an item ---- */

/* Returns att_softmax_sinks() for the heads of the workgroup's rows. */
static struct tir_value sinks(struct prefill *p, struct tir_value final)
{
    const struct att_softmax *const s = &p->attention.softmax;
    const struct prefill_rows r = rows_of(p, att_softmax_column(&p->b, s));
    return att_softmax_sinks(&p->b, s, r.head, final);
}

/* Returns the byte offset (i64) of each row of a tile of type t in a tensor with strides s. Rows
 * after the item's last one get -1, and stores skip them. */
static struct tir_value places(struct prefill *p, struct tir_type t, const struct strides *s)
{
    struct tir_builder *b = &p->b;
    const struct prefill_rows r = rows_of(p, t);
    const struct tir_value at = offsets(p, &r, s);
    return tir_select(b, r.valid, at, tir_int_like(b, at, -1));
}

/* A tensor to which O or LSE is written. */
struct target {
    struct tir_value base;  /* i64: address of the tensor */
    struct strides strides; /* strides of the tensor, in bytes */
    unsigned dtype;         /* enum tir_dtype of the tensor's elements */
};

/* Writes `o`, `rows` rows of O^T from row `first` on, to `out`. Rows from prefill_main_rows() on
 * are not written. */
static void write_rows(struct prefill *p, const struct target *out, struct tir_value o,
                       unsigned first, unsigned rows)
{
    struct tir_builder *b = &p->b;
    const unsigned there = prefill_main_rows(p);
    if (first >= there)
        return;
    if (first + rows > there) {
        write_rows(p, out, tir_half(b, o, 0), first, rows / 2);
        write_rows(p, out, tir_half(b, o, 1), first + rows / 2, rows / 2);
        return;
    }
    if (out->dtype != TIR_F32)
        o = tir_convert_short(b, o, out->dtype);
    const struct tir_value by_rows = tir_transpose(b, o);
    const int bytes = (int)tir_dtype_bits(out->dtype) / 8;
    tir_tile_scatter(b, out->base, places(p, tir_typeof(b->f, by_rows), &out->strides),
                     tir_i32(b, (int)first * bytes), by_rows);
}

/* Writes O^T (`o`) to `out` through LDS, in `parts` equal parts of its rows one after the other. */
static void write_by_rows(struct prefill *p, const struct target *out, struct tir_value o,
                          unsigned parts)
{
    struct tir_builder *b = &p->b;
    const unsigned columns = prefill_dv(p) / parts, bytes = tir_dtype_bits(out->dtype) / 8;
    const struct tir_layout map = out_map(p, bytes, columns);
    const struct tir_type t = whole_rows(p, out->dtype, columns);
    const struct tir_value at = places(p, t, &out->strides);
    for (unsigned i = 0; i < parts; i++) {
        struct tir_value part = att_part(&p->b, o, i, parts);
        if (out->dtype != TIR_F32)
            part = tir_convert_short(b, part, out->dtype);
        tir_tile_lds_store(b, p->staging.buffer, tir_transpose(b, part), &map);
        tir_wait(b, TIR_LDS_WRITES, 0);
        const struct tir_value rows = tir_tile_lds_load(b, p->staging.buffer, t, &map);
        tir_tile_scatter(b, out->base, at, tir_i32(b, (int)(i * columns * bytes)), rows);
    }
}

/* Writes O^T (`o`) to `out`, through LDS if LDS has room for O. */
static void write_out(struct prefill *p, const struct target *out, struct tir_value o)
{
    const unsigned parts = out_parts(p, tir_dtype_bits(out->dtype) / 8);
    if (parts) {
        write_by_rows(p, out, o, parts);
        return;
    }
    if (prefill_v_parts(p) == 1) {
        write_rows(p, out, o, 0, prefill_dv(p));
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        write_rows(p, out, tir_half(&p->b, o, (int)i), prefill_v_first(p, i), prefill_dv(p) / 2);
}

/* Writes `lse` (f32, 1 x queries) to tensor `to`. */
static void write_lse(struct prefill *p, const struct target *to, struct tir_value lse)
{
    struct tir_builder *b = &p->b;
    const struct tir_value column = tir_transpose(b, lse);
    tir_tile_scatter(b, to->base, places(p, tir_typeof(b->f, column), &to->strides), tir_i32(b, 0),
                     column);
}

/* Writes O^T (`o`) and LSE of the workgroup's rows to the tensors out and LSE. */
static void write_result(struct prefill *p, struct tir_value lse, struct tir_value o)
{
    struct tir_builder *b = &p->b;
    const struct att_tensor out = ATT_HEADS(OUT), of_lse = ATT_HEADS(LSE);
    write_out(p,
              &(struct target){tir_arg(b, out.arg, TIR_I64), strides_of(p, &out, PREFILL_OUT_BYTES),
                               att_dtype(p->v)},
              o);
    if (p->v->lse)
        write_lse(p,
                  &(struct target){tir_arg(b, of_lse.arg, TIR_I64),
                                   strides_of(p, &of_lse, LSE_BYTES), TIR_F32},
                  lse);
}

/* Writes O^T (`o`) and LSE of the workgroup's rows to the tensors of partials. */
static void write_part(struct prefill *p, struct tir_value lse, struct tir_value o)
{
    struct tir_builder *b = &p->b;
    const int row = p->v->head_dim_v * PARTIAL_BYTES;
    write_out(
        p, &(struct target){tir_arg(b, ARG_PARTIAL_OUT, TIR_I64), partial_strides(p, row), TIR_F32},
        o);
    write_lse(p,
              &(struct target){tir_arg(b, ARG_PARTIAL_LSE, TIR_I64), partial_strides(p, LSE_BYTES),
                               TIR_F32},
              lse);
}

void prefill_write_item(struct prefill *p, struct tir_value m, struct tir_value l,
                        struct tir_value o)
{
    struct tir_builder *b = &p->b;
    const struct tir_value final = tir_cmp_lt(b, p->item.partial, tir_i32(b, 0));
    struct tir_value sink = {0};
    /* This copy makes LLVM compute the addresses of O here. Q has the same rows, and LLVM would
     * hold their addresses in registers through the loop. */
    p->work.row0 = tir_materialize(b, p->work.row0);
    if (p->v->sinks)
        sink = sinks(p, final);
    const struct att_softmax_end end = att_softmax_finish(b, &p->attention.softmax, m, l, sink);
    struct tir_value factor = end.inverse;
    if (p->source.v.scale.id)
        factor = tir_mul(b, factor, att_like(b, p->source.v.scale, factor));
    o = att_scaled(b, o, factor);
    const struct tir_value lse = att_softmax_lse(b, &end);
    struct tir_if whole = att_begin_if(b, final);
    write_result(p, lse, o);
    tir_else(b, &whole, NULL);
    write_part(p, lse, o);
    tir_end_if(b, &whole, NULL);
}
