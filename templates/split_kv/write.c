/* SPDX-License-Identifier: Apache-2.0
 *
 * This file writes the result of an item, or its partial with the LSE.
 *
 * Addresses are computed before the last barrier of the waves, so that only work that depends on
 * the sum follows it.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/split_kv/split_kv.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <math.h>

struct tir_type split_kv_in_order(struct split_kv *d)
{
    struct tir_layout l = tir_layout_sort_regs(tir_layout_of(d->b.f, d->output));
    if (d->value.overlap)
        l = tir_layout_regs_first(&l, TIR_RC(d->value.width / 2 - 1, d->columns - 1));
    return tir_tile(d->b.f, TIR_F32, d->output.rows, d->output.cols, &l);
}

/* Returns the type of a transposed tile: `t` with rows and columns exchanged. */
static struct tir_type transposed(struct split_kv *d, struct tir_type t)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(d->b.f, t));
    return tir_tile(d->b.f, t.dtype, t.cols, t.rows, &l);
}

/* Returns the query and the head of each row of a tile of type `t`, whose rows are the wave's
 * columns. */
static struct split_kv_rows rows_of(struct split_kv *d, struct tir_type t)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_value row = tir_row_index(b, tir_tile(b->f, TIR_I32, t.rows, 1, &l));
    return split_kv_rows(d, row);
}

/* Returns the byte offsets (i64) in *tensor of the queries and heads *rows. */
static struct tir_value offset_of(struct split_kv *d, const struct split_kv_rows *rows,
                                  const struct split_kv_tensor *tensor)
{
    struct tir_builder *b = &d->b;
    const struct tir_value moved = tir_sub(b, tensor->row0, d->item.first_token);
    const struct tir_value row = tir_add(b, rows->token, att_like(b, moved, rows->token));
    const struct tir_value r = tir_convert(b, row, TIR_I64);
    const struct tir_value h = tir_convert(b, rows->head, TIR_I64);
    const struct tir_type t = tir_typeof(b->f, r);
    return tir_add(b, tir_mul(b, r, tir_splat(b, tensor->row_bytes, t)),
                   tir_mul(b, h, tir_splat(b, tensor->head_bytes, t)));
}

struct tir_value split_kv_offsets(struct split_kv *d, struct tir_type t,
                                  const struct split_kv_tensor *tensor)
{
    const struct split_kv_rows r = rows_of(d, t);
    return offset_of(d, &r, tensor);
}

struct split_kv_tensor split_kv_partial(struct split_kv *d, const char *tensor, int bytes,
                                        struct tir_value row0)
{
    struct tir_builder *b = &d->b;
    const struct tir_value head_bytes = tir_i64(b, bytes);
    return (struct split_kv_tensor){
        .base = tir_arg(b, tensor, TIR_I64),
        .row0 = row0,
        .row_bytes = tir_mul(b, att_wide(b, tir_arg(b, ARG_HEADS, TIR_I32)), head_bytes),
        .head_bytes = head_bytes,
    };
}

/* Returns the result tensor in argument `tensor`. The arguments `token_stride` and `head_stride`
 * have its strides in elements of `size` bytes. */
static struct split_kv_tensor result(struct split_kv *d, const char *tensor,
                                     const char *token_stride, const char *head_stride, int size)
{
    struct tir_builder *b = &d->b;
    return (struct split_kv_tensor){
        .base = tir_arg(b, tensor, TIR_I64),
        .row0 = d->item.first_token,
        .row_bytes = att_stride(b, token_stride, size),
        .head_bytes = att_stride(b, head_stride, size),
    };
}

/* Returns tensor `x` if `first` (i1) is true, else `y`. */
static struct split_kv_tensor either(struct split_kv *d, struct tir_value first,
                                     const struct split_kv_tensor *x,
                                     const struct split_kv_tensor *y)
{
    struct tir_builder *b = &d->b;
    return (struct split_kv_tensor){
        .base = tir_select(b, first, x->base, y->base),
        .row0 = tir_select(b, first, x->row0, y->row0),
        .row_bytes = tir_select(b, first, x->row_bytes, y->row_bytes),
        .head_bytes = tir_select(b, first, x->head_bytes, y->head_bytes),
    };
}

/* Returns the byte offset (i64) in *tensor of each row of a tile of type `t`, whose rows are the
 * wave's columns. Columns without a query get -1, so that nothing is stored. */
static struct tir_value place_rows(struct split_kv *d, struct tir_type t,
                                   const struct split_kv_tensor *tensor)
{
    struct tir_builder *b = &d->b;
    const struct split_kv_rows r = rows_of(d, t);
    const struct tir_value at = offset_of(d, &r, tensor);
    return tir_select(b, r.valid, at, tir_int_like(b, at, -1));
}

/* Returns att_softmax_sinks() for the heads of the wave's columns. */
static struct tir_value sinks(struct split_kv *d, struct tir_value final)
{
    const struct att_softmax *const s = &d->attention.softmax;
    const struct split_kv_rows r = rows_of(d, att_softmax_column(&d->b, s));
    return att_softmax_sinks(&d->b, s, r.head, final);
}

/* Returns sinks(), loaded only if `final` (i1) is true. A part has no sinks, and its stores need
 * not wait for them. */
static struct tir_value final_sinks(struct split_kv *d, struct tir_value final)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = d->attention.softmax.vector;
    struct tir_if whole = tir_begin_if(b, final, false, &t, 1);
    struct tir_value s = sinks(d, final);
    tir_anchor(b, s); /* without this anchor LLVM waits for the loads after the branch */
    tir_else(b, &whole, &s);
    s = tir_splat(b, tir_f32(b, -INFINITY), t);
    tir_end_if(b, &whole, &s);
    return s;
}

struct split_kv_places split_kv_load_places(struct split_kv *d, enum split_kv_kind kind)
{
    struct tir_builder *b = &d->b;
    struct split_kv_places p = {.kind = kind};
    if (kind != SPLIT_KV_PART)
        p.out = result(d, ARG_OUT, ARG_OUT_TOKEN_STRIDE, ARG_OUT_HEAD_STRIDE, 2);
    if (kind != SPLIT_KV_PART && d->v->lse)
        p.lse = result(d, ARG_LSE, ARG_LSE_TOKEN_STRIDE, ARG_LSE_HEAD_STRIDE, 4);
    if (att_shares_scale(d->v) && kind == SPLIT_KV_EITHER)
        p.scale = att_cache_tensor_scale(&d->value.c);
    const struct tir_value zero = tir_i32(b, 0);
    p.final =
        kind == SPLIT_KV_SUM ? tir_cmp_eq(b, zero, zero) : tir_cmp_lt(b, d->item.partial, zero);
    if (kind == SPLIT_KV_SUM || kind == SPLIT_KV_RESULT)
        return p;
    const struct split_kv_tensor o =
        split_kv_partial(d, ARG_PARTIAL_OUT, d->v->head_dim_v * 4, d->item.partial);
    const struct split_kv_tensor l = split_kv_partial(d, ARG_PARTIAL_LSE, 4, d->item.partial);
    p.out = kind == SPLIT_KV_PART ? o : either(d, p.final, &p.out, &o);
    p.lse = p.lse.base.id ? either(d, p.final, &p.lse, &l) : l;
    return p;
}

/* Sets p->out_at to the byte offset in p->out of each column's row. */
static void find_out(struct split_kv *d, struct split_kv_places *p)
{
    p->out_at = place_rows(d, transposed(d, split_kv_in_order(d)), &p->out);
}

/* Sets p->lse_at to the byte offset in p->lse of each column, if an LSE is written. */
static void find_lse(struct split_kv *d, struct split_kv_places *p)
{
    if (p->lse.base.id)
        p->lse_at = place_rows(d, transposed(d, d->attention.softmax.vector), &p->lse);
}

void split_kv_find_out(struct split_kv *d, struct split_kv_places *p)
{
    find_out(d, p);
    /* Without this anchor LLVM computes offsets late, at the stores. */
    tir_anchor(&d->b, p->out_at);
    tir_anchor(&d->b, p->out.base);
}

void split_kv_find_lse(struct split_kv *d, struct split_kv_places *p)
{
    find_lse(d, p);
    if (p->lse.base.id) {
        tir_anchor(&d->b, p->lse_at);
        tir_anchor(&d->b, p->lse.base);
    }
    if (d->v->sinks)
        p->sinks = sinks(d, p->final);
}

/* Writes `lse` (f32, 1 x columns) to p->lse. Every wave has all columns, and wave 0 writes them,
 * with two exceptions. In a sum each wave writes its own columns. With own_columns the wave that
 * has a column's first elements writes it. */
static void write_lse(struct split_kv *d, struct tir_value lse, const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    if (!p->lse.base.id)
        return;
    struct tir_value writes = tir_cmp_eq(b, d->wave, tir_i32(b, 0));
    if (d->own_columns)
        writes = tir_cmp_eq(b, d->first_value.id ? d->first_value : tir_i32(b, 0), tir_i32(b, 0));
    else if (p->own_lse)
        writes = p->final;
    else if (p->kind == SPLIT_KV_EITHER && !d->v->lse)
        writes = tir_and(b, writes, tir_cmp_ge(b, d->item.partial, tir_i32(b, 0)));
    struct tir_if first = att_begin_if(b, writes);
    tir_tile_scatter(b, p->lse.base, p->lse_at, tir_i32(b, 0), tir_transpose(b, lse));
    tir_end_if(b, &first, NULL);
}

/* Writes O^T `o` to p->out, as f32 if `part`, else in 16 bits. If a row has two parts that overlap,
 * both parts are written. */
static void write_rows(struct split_kv *d, struct tir_value o, bool part,
                       const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    const struct split_kv_cache *const c = &d->value;
    const int size = part ? 4 : 2;
    if (!part)
        o = tir_convert_short(b, o, d->dtype);
    for (unsigned i = 0; i < split_kv_parts(c); i++) {
        const struct tir_value half = c->overlap ? tir_half(b, o, (int)i) : o;
        tir_tile_scatter(b, p->out.base, p->out_at, tir_i32(b, size * split_kv_part_first(c, i)),
                         tir_transpose(b, half));
    }
}

/* Returns the inverse of the softmax denominator (1 x columns), times `scale` (f32) of V if that
 * has a value. */
static struct tir_value inverse_of(struct split_kv *d, const struct att_softmax_end *end,
                                   struct tir_value scale)
{
    struct tir_builder *b = &d->b;
    if (!scale.id)
        return end->inverse;
    return tir_mul(b, end->inverse, tir_splat(b, scale, d->attention.softmax.vector));
}

struct tir_value split_kv_write_lse(struct split_kv *d, const struct split_kv_state *s,
                                    const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    const struct att_softmax_end end =
        att_softmax_finish(b, &d->attention.softmax, s->m, s->l, p->sinks);
    write_lse(d, att_softmax_lse(b, &end), p);
    return inverse_of(d, &end, p->scale);
}

/* Returns O^T `o` with registers in the order of head_dim_v: converted to type
 * split_kv_in_order(). */
static struct tir_value sorted(struct split_kv *d, struct tir_value o)
{
    const struct tir_layout l = *tir_layout_of(d->b.f, split_kv_in_order(d));
    return tir_relayout(&d->b, o, &l);
}

void split_kv_write_out(struct split_kv *d, struct tir_value o, const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    o = sorted(d, o);
    if (p->kind != SPLIT_KV_EITHER) {
        write_rows(d, o, p->kind == SPLIT_KV_PART, p);
        return;
    }
    struct tir_if whole = att_begin_if(b, p->final);
    write_rows(d, o, false, p);
    tir_else(b, &whole, NULL);
    write_rows(d, o, true, p);
    tir_end_if(b, &whole, NULL);
}

/* Returns the number of parts, at most 8, into which the rows of O^T of type `o` can be divided in
 * each lane. */
static int parts_of(struct split_kv *d, struct tir_type o)
{
    enum { MOST = 8 };
    struct tir_layout l = *tir_layout_of(d->b.f, o);
    unsigned n = 1;
    for (; n < MOST && tir_layout_has_halves(&l, o.rows / n); n *= 2)
        l = tir_layout_half(&l);
    return (int)n;
}

/* Returns x with eight consecutive rows in each lane, by exchanging rows between pairs of lanes. In
 * x, a lane has four of these rows, and four of the next eight. With the result, a store has 16
 * bytes, and there are half as many stores. */
static struct tir_value with_neighbours(struct tir_builder *b, struct tir_value x)
{
    enum { OWN = 4, NEXT = 8 };
    const struct tir_layout *const now = tir_layout_of(b->f, tir_typeof(b->f, x));
    const struct tir_layout l = tir_layout_swap(now, TIR_RC(OWN, 0), TIR_RC(NEXT, 0));
    return tir_relayout(b, x, &l);
}

/* Writes x, some rows of O^T, to p->out from byte `byte` of each row's head on. */
static void write_part(struct split_kv *d, struct tir_value x, int byte,
                       const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    const bool whole = p->kind == SPLIT_KV_RESULT;
    const struct tir_layout l = tir_layout_sort_regs(tir_layout_of(b->f, tir_typeof(b->f, x)));
    x = tir_relayout(b, x, &l);
    if (whole)
        x = tir_convert_short(b, x, d->dtype);
    if (whole && d->m->has_lane_swap && d->m->lane_bits == TIR_WAVE_BITS)
        x = with_neighbours(b, x); /* a lane of a wave of 32 has eight rows */
    tir_tile_scatter(b, p->out.base, p->out_at, tir_i32(b, byte), tir_transpose(b, x));
}

/* Writes O^T `o` of the wave's own columns, multiplied by `inverse` (1 x columns). Writes part by
 * part, since all of O^T takes half of the registers. */
static void write_in_parts(struct split_kv *d, struct tir_value o, struct tir_value inverse,
                           const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    const bool whole = p->kind == SPLIT_KV_RESULT;
    const int parts = parts_of(d, d->output);
    const int step = (int)d->value.width / parts * (whole ? 2 : 4);
    for (int i = 0; i < parts; i++) {
        struct tir_value x = att_part(b, o, (unsigned)i, (unsigned)parts);
        if (d->finish_part)
            x = d->finish_part(d->family, x, (unsigned)i);
        x = att_scaled(b, x, inverse);
        if (!d->finish_part) {
            write_part(d, x, i * step, p);
            continue;
        }
        for (int k = 0; k < 2; k++)
            write_part(d, tir_half(b, x, k), i * step + k * (step / 2), p);
    }
}

/* Returns the layout in registers of a part of O: columns x `width` elements of `size` bytes. A
 * lane has 16 bytes of a row, and the next lane the next 16. A wave has its own columns. */
static struct tir_layout lines_of(const struct split_kv *d, unsigned width, unsigned size)
{
    enum { STORE = 16 /* bytes of a lane's store */ };
    const struct tir_layout rows = tir_row_major(d->columns, width);
    const unsigned vector = tir_bits(STORE / size), lanes = d->m->lane_bits;
    const unsigned waves = tir_bits(d->waves);
    return tir_map_cut(&rows, vector, lanes, rows.reg_bits - vector - lanes - waves, waves);
}

/* Writes O^T `o`, multiplied by `inverse`, by way of LDS, so that a store has whole cache lines. As
 * products leave O^T, a store has 32 bytes of each of 16 rows, and the L2 takes a line for each. */
static void write_in_lines(struct split_kv *d, struct tir_value o, struct tir_value inverse,
                           const struct split_kv_places *p)
{
    enum { APART = 16 /* bytes between rows in LDS, against bank conflicts */ };
    struct tir_builder *b = &d->b;
    const bool whole = p->kind == SPLIT_KV_RESULT;
    /* The order of registers gives O^T parts with a range of rows and all columns. */
    const struct tir_layout turned = tir_layout_transpose(tir_layout_of(b->f, d->output));
    const struct tir_layout by_rows = tir_layout_sort_regs(&turned);
    const struct tir_layout order = tir_layout_transpose(&by_rows);
    const struct tir_value sorted_o = tir_relayout(b, o, &order);
    const unsigned size = whole ? 2 : 4;
    const unsigned parts = (unsigned)parts_of(d, tir_typeof(b->f, sorted_o));
    const unsigned width = d->value.width / parts;
    const struct tir_layout lines = lines_of(d, width, size);
    const struct tir_type t = tir_tile(b->f, whole ? d->dtype : TIR_F32, d->columns, width, &lines);
    const struct tir_value rows = place_rows(d, t, &p->out);
    struct tir_layout map = tir_row_major(d->columns, width);
    tir_map_pad(&map, width, APART / size);
    for (unsigned i = 0; i < parts; i++) {
        struct tir_value x = att_scaled(b, att_part(b, sorted_o, i, parts), inverse);
        if (whole)
            x = tir_convert_short(b, x, d->dtype);
        tir_tile_lds_store(b, d->lines, tir_transpose(b, x), &map);
        tir_tile_scatter(b, p->out.base, rows, tir_i32(b, (int)(i * width * size)),
                         tir_tile_lds_load(b, d->lines, t, &map));
    }
    att_lds_barrier(b); /* the next item's copies may overwrite the buffer */
}

/* Returns an LDS address (i32) for column `first` (index) in d->divisors: of the column's divisor 1
 * / l if `dtype` is f32, or of its row offset if `dtype` is i64. The offsets of all columns follow
 * the divisors. */
static struct tir_value place_of(struct split_kv *d, unsigned dtype, unsigned first)
{
    const unsigned of_one = (unsigned)sizeof(float);
    const bool rows = dtype == TIR_I64;
    return att_plus(&d->b, d->divisors,
                    (int)(rows ? d->columns * of_one + first * sizeof(int64_t) : first * of_one));
}

/* Loads from LDS what leave_columns() has stored there: divisors 1 / l if `dtype` is f32, row
 * offsets (bytes) if `dtype` is i64. The result has `columns` columns from column `first` (index)
 * on, as columns x 1 in layout *l. */
static struct tir_value take_left(struct split_kv *d, unsigned dtype, unsigned first,
                                  const struct tir_layout *l, unsigned columns)
{
    const struct tir_layout map = tir_row_major(columns, 1);
    return tir_tile_lds_load(&d->b, place_of(d, dtype, first),
                             tir_tile(d->b.f, dtype, columns, 1, l), &map);
}

/* Writes O^T `o`, multiplied by the divisors, of waves that have a part of the latent and all
 * columns. Writes one block of columns after the other. */
static void write_in_blocks(struct split_kv *d, struct tir_value o, const struct split_kv_places *p)
{
    enum { BLOCKS = 4 };
    struct tir_builder *b = &d->b;
    const struct tir_value all = tir_transpose(b, o);
    const unsigned columns = d->columns / BLOCKS;
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct tir_value x = att_part(b, all, i, BLOCKS);
        const struct tir_layout own = *tir_layout_of(b->f, tir_typeof(b->f, x));
        const struct tir_layout one = tir_layout_slice(&own, 1);
        const struct tir_layout vector = tir_layout_of_one_wave(&one);
        const struct tir_value inverse = take_left(d, TIR_F32, i * columns, &vector, columns);
        x = att_scaled(b, x, inverse);
        const struct tir_layout t = tir_layout_transpose(&own), sorted_t = tir_layout_sort_regs(&t);
        const struct tir_layout l = tir_layout_transpose(&sorted_t);
        x = tir_relayout(b, x, &l);
        const struct tir_layout slice = tir_layout_slice(&l, 1);
        const struct tir_value rows = take_left(d, TIR_I64, i * columns, &slice, columns);
        if (p->kind == SPLIT_KV_RESULT)
            x = tir_convert_short(b, x, d->dtype);
        tir_tile_scatter(b, p->out.base, rows, tir_i32(b, 0), x);
    }
}

/* Stores `inverse`, the divisors (1 x columns), and the byte offsets of the columns' rows in LDS
 * for all waves. A lane has one column. Computing the offsets of all rows that a lane writes would
 * take a third of the time of the writes. */
static void leave_columns(struct split_kv *d, struct tir_value inverse,
                          const struct split_kv_places *p)
{
    struct tir_builder *b = &d->b;
    const struct tir_value rows =
        tir_transpose(b, place_rows(d, transposed(d, tir_typeof(b->f, inverse)), &p->out));
    const struct tir_layout map = tir_row_major(1, d->columns);
    tir_tile_lds_store(b, place_of(d, TIR_F32, 0), inverse, &map);
    tir_tile_lds_store(b, place_of(d, TIR_I64, 0), rows, &map);
    att_lds_barrier(b);
}

/* Loads the arguments that locate this wave's elements of a state of kind `kind`, a result or a
 * partial. */
static struct split_kv_places load_own_places(struct split_kv *d, enum split_kv_kind kind)
{
    struct split_kv_places p = split_kv_load_places(d, kind);
    if (d->first_value.id) {
        const int size = kind == SPLIT_KV_RESULT ? 2 : 4;
        const struct tir_value before = att_times(&d->b, d->first_value, size);
        p.out.base = tir_add(&d->b, p.out.base, tir_zext(&d->b, before, TIR_I64));
    }
    return p;
}

struct split_kv_places split_kv_find_result(struct split_kv *d)
{
    struct split_kv_places p = load_own_places(d, SPLIT_KV_RESULT);
    split_kv_find_out(d, &p);
    return p;
}

/* Returns `inverse` as a value of its own, if waves have no accumulation registers. LLVM would
 * otherwise multiply all of O^T before the branch that chooses result or partial, and spill it. */
static struct tir_value keep_apart(struct split_kv *d, struct tir_value inverse)
{
    return d->m->lane_bits == TIR_WAVE_BITS ? inverse : tir_materialize(&d->b, inverse);
}

/* Writes O^T `o` and the LSE as a state of kind `kind`. `o` is already divided, unless waves have
 * their own columns or parts of the latent; then it is multiplied by `inverse`. */
static void write_as(struct split_kv *d, enum split_kv_kind kind, struct tir_value o,
                     struct tir_value inverse, const struct att_softmax_end *end)
{
    const bool found = d->found && kind == SPLIT_KV_RESULT;
    struct split_kv_places p = found ? *d->found : load_own_places(d, kind);
    if (d->divisors.id) {
        leave_columns(d, inverse, &p);
        write_in_blocks(d, o, &p);
    } else if (d->lines.id) {
        write_in_lines(d, o, keep_apart(d, inverse), &p);
    } else {
        if (!found)
            find_out(d, &p);
        if (d->own_columns)
            write_in_parts(d, o, keep_apart(d, inverse), &p);
        else
            split_kv_write_out(d, o, &p);
    }
    find_lse(d, &p);
    if (p.lse.base.id) /* LSE is stored after O, which does not depend on it */
        write_lse(d, att_softmax_lse(&d->b, end), &p);
}

void split_kv_write_state(struct split_kv *d, const struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_value final = tir_cmp_lt(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value sink = d->v->sinks ? final_sinks(d, final) : (struct tir_value){0};
    const struct att_softmax_end end =
        att_softmax_finish(b, &d->attention.softmax, s->m, s->l, sink);
    struct tir_value scale = {0};
    if (att_shares_scale(d->v))
        scale = att_cache_tensor_scale(&d->value.c);
    const struct tir_value inverse = inverse_of(d, &end, scale);
    struct tir_value o = s->o;
    if (!d->own_columns)
        o = sorted(d, tir_mul(b, o, tir_broadcast(b, inverse, d->output)));
    struct tir_if whole = att_begin_if(b, final);
    write_as(d, SPLIT_KV_RESULT, o, inverse, &end);
    tir_else(b, &whole, NULL);
    write_as(d, SPLIT_KV_PART, o, inverse, &end);
    tir_end_if(b, &whole, NULL);
}
