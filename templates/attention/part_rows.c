/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of lists of parts. Each lane has 16 bytes of some rows and adds up all parts of these
 * rows. A fixed number of parts is in flight at any time: once a part is added, the load of the
 * next part is issued into its registers.
 */
#include "templates/attention/part_rows.h"

#include <math.h>

#include "ir/bits.h"
#include "ir/spread.h"

enum {
    ELEM = 2,   /* bytes of an element of bf16 or fp16 */
    VECTOR = 4, /* numbers (f32) of a partial result that a lane loads at once: 16 bytes */
    VALUES_MOST = (2 + ATT_PART_PANELS) + (1 + ATT_PART_PANELS) * ATT_PARTS_MOST
};

/* Returns the largest power of two that is at most n. */
static unsigned largest_power(unsigned n) { return 1u << (31 - __builtin_clz(n)); }

/* Returns the number of adjacent elements that a lane has: 16 bytes, which are 4 numbers of f32, or
 * 8 of a 16-bit type. */
unsigned att_parts_per_lane(const struct att_part_rows *r)
{
    return r->tokens ? 2 * VECTOR : VECTOR;
}

/* Returns the most elements of a row that a lane may have, over all panels. */
static unsigned most_per_lane(const struct att_part_rows *r)
{
    return att_parts_per_lane(r) + 12 - VECTOR * !r->tokens;
}

/* Returns the number of lanes that share a row whose panels do not overlap. Each lane has adjacent
 * elements of the widest panel, and VECTOR of the narrowest. */
static unsigned lanes_apart(const struct att_part_rows *r)
{
    const unsigned dim = r->head_dim;
    const unsigned wide = largest_power(dim) / att_parts_per_lane(r),
                   narrow = (dim & -dim) / VECTOR;
    return wide < narrow ? wide : narrow;
}

/* True if a row's two panels overlap: they are its first and its last largest_power(head_dim)
 * columns. Rows have overlapping panels if disjoint panels would be more than ATT_PART_PANELS, or
 * would exceed a lane's registers. */
static bool overlaps(const struct att_part_rows *r)
{
    return r->head_dim > most_per_lane(r) * lanes_apart(r);
}

/* Returns the number of lanes that share a row. It exceeds the lanes of a wave if several waves
 * share a row. */
static unsigned row_lanes(const struct att_part_rows *r)
{
    return overlaps(r) ? largest_power(r->head_dim) / att_parts_per_lane(r) : lanes_apart(r);
}

/* Returns the number of elements of a row that one lane holds, over all panels. */
unsigned att_parts_elements(const struct att_part_rows *r)
{
    return overlaps(r) ? 2 * att_parts_per_lane(r) : r->head_dim / lanes_apart(r);
}

/* Returns the number of waves that share a row; 1 if a row has no more lanes than a wave. */
unsigned att_parts_row_waves(const struct att_part_rows *r)
{
    return row_lanes(r) > tir_lanes(r->m) ? row_lanes(r) / tir_lanes(r->m) : 1;
}

unsigned att_parts_wave_rows(const struct att_part_rows *r)
{
    return tir_lanes(r->m) * att_parts_row_waves(r) / row_lanes(r);
}

/* Returns the type of a panel of `width` columns. Without r->tokens a lane has VECTOR adjacent
 * columns, else an equal share of them. Bits of lane and wave numbers select first the other
 * columns of the row, then rows. A lane has 2^row_bits rows in its registers. */
static struct tir_type panel_type(struct att_part_rows *r, unsigned width)
{
    const unsigned lanes = row_lanes(r) / att_parts_row_waves(r),
                   neighbours = r->tokens ? width / row_lanes(r) : VECTOR;
    struct tir_spread s = tir_spread(r->m, r->waves);
    tir_spread_cols(&s, TIR_REGS, tir_bits(neighbours));
    tir_spread_cols(&s, TIR_LANES, tir_bits(lanes));
    tir_spread_cols(&s, r->lone ? TIR_REGS : TIR_WAVES, tir_bits(att_parts_row_waves(r)));
    tir_spread_cols(&s, TIR_REGS, tir_bits(width / row_lanes(r) / neighbours));
    tir_spread_rows(&s, TIR_LANES, tir_bits(att_parts_wave_rows(r)));
    tir_spread_rows(&s, TIR_REGS, r->row_bits);
    if (!r->lone)
        tir_spread_rows(&s, TIR_WAVES, tir_bits(r->waves / att_parts_row_waves(r)));
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(r->b->f, TIR_F32, 1u << s.rows, width, &l);
}

void att_parts_choose_type(struct att_part_rows *r)
{
    struct att_part_type t = {0};
    const unsigned dim = r->head_dim, widest = largest_power(dim);
    for (unsigned first = 0; first < dim; t.n++) {
        if (first && overlaps(r))
            first = dim - widest;
        t.first[t.n] = (int)first;
        t.o[t.n] = panel_type(r, largest_power(dim - first));
        first += t.o[t.n].cols;
    }
    const struct tir_layout l = tir_layout_slice(tir_layout_of(r->b->f, t.o[0]), 1);
    t.row = tir_tile(r->b->f, TIR_F32, t.o[0].rows, 1, &l);
    r->type = t;
}

/* Returns e^(a - shift) for each element of the f32 tiles `a` and `shift`. */
static struct tir_value power(struct att_part_rows *r, struct tir_value a, struct tir_value shift)
{
    struct tir_builder *b = r->b;
    return tir_exp2(b, tir_mul(b, tir_sub(b, a, shift), tir_float_like(b, a, ATT_LOG2E)));
}

/* Returns e^(a - shift), and 1 where `a` equals `shift`. Both may be infinite for a sink, and their
 * difference would be a NaN. */
static struct tir_value power_of_sum(struct att_part_rows *r, struct tir_value a,
                                     struct tir_value shift)
{
    struct tir_builder *b = r->b;
    const struct tir_value is_shift = tir_cmp_eq(b, a, shift);
    return tir_select(b, is_shift, tir_float_like(b, a, 1.0f), power(r, a, shift));
}

/* Returns the number that is subtracted from all exponents: `top`, the largest lse of each row, or
 * 0 where `top` is -infinity. */
static struct tir_value shift_of(struct att_part_rows *r, struct tir_value top)
{
    struct tir_builder *b = r->b;
    const struct tir_value none = tir_cmp_eq(b, top, tir_float_like(b, top, -INFINITY));
    return tir_select(b, none, tir_float_like(b, top, 0.0f), top);
}

/* Returns sum + w * o, or w * o if `sum` has no value. w is a factor for each row of o. With
 * `part`, o is a partial result from memory. Rows with w = 0 then are replaced by 0, since an
 * infinity or a NaN would survive a factor of 0. */
static struct tir_value add_weighted(struct att_part_rows *r, struct tir_value sum,
                                     struct tir_value w, struct tir_value o, bool part)
{
    struct tir_builder *b = r->b;
    const struct tir_value wide = tir_broadcast(b, w, tir_typeof(b->f, o));
    if (part) {
        const struct tir_value zero = tir_float_like(b, wide, 0.0f);
        o = tir_select(b, tir_cmp_gt(b, wide, zero), o, zero);
    }
    return sum.id ? tir_fma(b, wide, o, sum) : tir_mul(b, wide, o);
}

/* Returns the sum of the n states s[]. The result's lse is the largest one of s[], and the result's
 * o and l are relative to that lse. */
struct att_part_state att_parts_add_states(struct att_part_rows *r, const struct att_part_state *s,
                                           unsigned n)
{
    struct tir_builder *b = r->b;
    struct att_part_state sum = {.lse = s[0].lse};
    for (unsigned i = 1; i < n; i++)
        sum.lse = tir_max(b, sum.lse, s[i].lse);
    const struct tir_value shift = shift_of(r, sum.lse);
    for (unsigned i = 0; i < n; i++) {
        const bool part = !s[i].l.id;
        const struct tir_value w =
            part ? power(r, s[i].lse, shift) : power_of_sum(r, s[i].lse, shift);
        const struct tir_value l = part ? w : tir_mul(b, w, s[i].l);
        sum.l = i ? tir_add(b, sum.l, l) : l;
        for (unsigned k = 0; k < r->type.n && s[i].o[k].id; k++)
            sum.o[k] = add_weighted(r, sum.o[k], w, s[i].o[k], part);
    }
    return sum;
}

/* Replaces +infinity by -infinity in lse[], the lse of n parts as loaded from memory. Either
 * infinity marks a part without keys. */
void att_parts_read_lse(struct att_part_rows *r, struct tir_value *lse, unsigned n)
{
    struct tir_builder *b = r->b;
    struct tir_value infinite[ATT_PARTS_MOST];
    for (unsigned i = 0; i < n; i++)
        infinite[i] = tir_cmp_eq(b, lse[i], tir_float_like(b, lse[i], INFINITY));
    for (unsigned i = 0; i < n; i++)
        lse[i] = tir_select(b, infinite[i], tir_float_like(b, lse[i], -INFINITY), lse[i]);
}

/* Returns an i1: true if `pointer` (i64) is NULL. */
static struct tir_value is_null(struct att_part_rows *r, struct tir_value pointer)
{
    return tir_cmp_eq(r->b, pointer, tir_i64(r->b, 0));
}

/* Returns the address (i64) in tensor `t` of the first row, at r->token and r->head. Its elements
 * have `size` bytes. */
struct tir_value att_parts_place(struct att_part_rows *r, struct att_tensor t, int size)
{
    struct tir_builder *b = r->b;
    const char *token = t.token_stride, *head = t.head_stride;
    return att_at(
        b, t.arg,
        tir_add(b, att_offset(b, r->token, token, size), att_offset(b, r->head, head, size)));
}

/* Returns the bytes (i32) from a row to the next in tensor `t`: from token to token if rows are
 * tokens, else from head to head. Its elements have `size` bytes. */
struct tir_value att_parts_step(struct att_part_rows *r, struct att_tensor t, int size)
{
    const bool pair = r->tokens;
    const char *name = pair ? t.token_stride : t.head_stride;
    return att_stride32(r->b, name, size);
}

/* Returns the sinks of the rows, rows x 1 of f32. Without sinks returns zeros, which no caller
 * uses. */
struct tir_value att_parts_load_sinks(struct att_part_rows *r)
{
    struct tir_builder *b = r->b;
    if (r->no_sinks)
        return tir_splat(b, tir_f32(b, 0.0f), r->type.row);
    const struct tir_value sinks = tir_arg(b, ARG_SINKS, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value at = tir_shl(b, r->head, tir_i32(b, 2)), one = tir_i32(b, 1);
    const struct tir_value rows =
        tir_select(b, is_null(r, sinks), zero, r->tokens ? one : r->n_rows);
    const struct tir_view view =
        att_view(b, tir_add(b, sinks, att_wide(b, at)), rows, tir_i32(b, r->tokens ? 0 : 4), 4, 0);
    return tir_tile_load(b, view, zero, r->type.row);
}

/* Returns the sinks (rows x 1) as a state: lse is `sink` and l is 1. Without sinks lse is -infinity
 * and l is 0. */
struct att_part_state att_parts_sink_state(struct att_part_rows *r, struct tir_value sink)
{
    struct tir_builder *b = r->b;
    const struct tir_value none = tir_float_like(b, sink, -INFINITY);
    if (r->no_sinks)
        return (struct att_part_state){.lse = none, .l = tir_float_like(b, sink, 0.0f)};
    const struct tir_value lse =
        tir_select(b, is_null(r, tir_arg(b, ARG_SINKS, TIR_I64)), none, sink);
    const struct tir_value l = tir_select(
        b, tir_cmp_eq(b, lse, none), tir_float_like(b, sink, 0.0f), tir_float_like(b, sink, 1.0f));
    return (struct att_part_state){.lse = lse, .l = l};
}

/* Writes out = o / l and LSE = lse + log l of `sum`. For a sum without any key out is 0 and LSE
 * -infinity. */
void att_parts_finish(struct att_part_rows *r, struct att_part_state sum)
{
    struct tir_builder *b = r->b;
    const struct tir_value zero = tir_float_like(b, sum.l, 0.0f);
    struct tir_value inverse = tir_select(b, tir_cmp_gt(b, sum.l, zero), tir_rcp(b, sum.l), zero);
    if (r->out_dtype == TIR_FP8) {
        const struct tir_value scale = att_scale(b, ARG_OUT_SCALE);
        inverse = tir_mul(b, inverse, att_like(b, tir_rcp(b, scale), inverse));
    }
    const int size = r->out_dtype == TIR_FP8 ? 1 : ELEM;
    for (unsigned k = 0; k < r->type.n; k++) {
        const struct tir_value o = att_scaled(b, sum.o[k], inverse);
        const struct tir_view out = att_view(b, att_parts_place(r, ATT_HEADS(OUT), size), r->n_rows,
                                             att_parts_step(r, ATT_HEADS(OUT), size),
                                             (int)r->head_dim * size, r->type.first[k] * size);
        tir_tile_store(b, out, tir_i32(b, 0), tir_convert(b, o, r->out_dtype));
    }
    if (r->no_lse)
        return;
    const struct tir_value lse =
        tir_fma(b, tir_log2(b, sum.l), tir_float_like(b, sum.l, ATT_LN2), shift_of(r, sum.lse));
    const struct tir_value rows =
        tir_select(b, is_null(r, tir_arg(b, ARG_LSE, TIR_I64)), tir_i32(b, 0), r->n_rows);
    const struct att_tensor t = ATT_HEADS(LSE);
    const struct tir_view to =
        att_view(b, att_parts_place(r, t, 4), rows, att_parts_step(r, t, 4), 4, 0);
    tir_tile_store(b, to, tir_i32(b, 0), lse);
}

/* Consecutive parts of a list whose loads are issued together. */
struct batch {
    unsigned n; /* number of parts, at most ATT_PARTS_MOST */
    /* row: i32, index of each part's row in partial_out. lse, o: LSE and output (panels) of each
     * part, f32, as loaded. */
    struct tir_value row[ATT_PARTS_MOST], lse[ATT_PARTS_MOST], o[ATT_PARTS_MOST][ATT_PART_PANELS];
};

/* Returns the index (i32) of the row in partial_out of part `part` (i32, index in the list), for a
 * list without a map. */
static struct tir_value place_row(struct att_part_rows *r, const struct att_part_list *l,
                                  struct tir_value part)
{
    return tir_add(r->b, l->first, l->step.id ? tir_mul(r->b, part, l->step) : part);
}

/* Sets p->row to the rows in partial_out of p->n parts, from the part with index `k` (i32) in the
 * list on. Parts after the list's end get the last part's row. All loads of the map are issued at
 * once. */
static void find_rows(struct att_part_rows *r, const struct att_part_list *l, struct tir_value k,
                      struct batch *p)
{
    struct tir_builder *b = r->b;
    const bool csr = l->map.id;
    const int size = csr ? 4 : 1;
    const struct tir_value at = att_times(b, k, size);
    const struct tir_value last = att_times(b, att_plus(b, l->count, -1), size);
    for (unsigned i = 0; i < p->n; i++) {
        const struct tir_value own = tir_min(b, att_plus(b, at, (int)i * size), last);
        p->row[i] = csr ? tir_scalar_load(b, l->map, own, TIR_I32) : place_row(r, l, own);
    }
    if (csr)
        tir_anchor_all(b, p->row, p->n);
}

/* Loads row `row` (i32: index), a part, of tensor `arg` (partial_out or partial_lse) into panels
 * part[]. `elements`: number of f32 of a head in the tensor. t[]: types of the n panels. */
static void load_part(struct att_part_rows *r, const struct att_part_list *l, const char *arg,
                      int elements, struct tir_value row, const struct tir_type *t, unsigned n,
                      struct tir_value *part)
{
    struct tir_builder *b = r->b;
    const int bytes = elements * 4;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value row_bytes = att_wide(b, att_times(b, heads, bytes));
    struct tir_value base = att_at(b, arg, att_wide_times(b, r->head, bytes));
    if (l->token.id)
        base = tir_add(b, base, tir_mul(b, att_wide(b, l->token), row_bytes));
    base = tir_add(b, base, tir_mul(b, att_wide(b, row), row_bytes));
    for (unsigned k = 0; k < n; k++) {
        const int first = n > 1 ? r->type.first[k] * 4 : 0;
        const struct tir_view v = att_view(b, base, r->n_rows, tir_i32(b, bytes), bytes, first);
        part[k] = tir_tile_load(b, v, tir_i32(b, 0), t[k]);
    }
}

/* Issues the loads of the lse of the parts in batch `p`. */
static void load_lse(struct att_part_rows *r, const struct att_part_list *l, struct batch *p)
{
    for (unsigned i = 0; i < p->n; i++)
        load_part(r, l, ARG_PARTIAL_LSE, 1, p->row[i], &r->type.row, 1, &p->lse[i]);
}

/* Issues the loads of the partial output O of part `i` (index) of batch `p`. */
static void load_values(struct att_part_rows *r, const struct att_part_list *l, struct batch *p,
                        unsigned i)
{
    load_part(r, l, ARG_PARTIAL_OUT, (int)r->head_dim, p->row[i], r->type.o, r->type.n, p->o[i]);
}

/* Issues the loads of the first batch of a list. Loads of rows' indices and of lse, which are
 * needed first, precede loads of outputs. */
static void load_batch(struct att_part_rows *r, const struct att_part_list *l, struct batch *p)
{
    find_rows(r, l, tir_i32(r->b, 0), p);
    load_lse(r, l, p);
    for (unsigned i = 0; i < p->n; i++)
        load_values(r, l, p, i);
}

/* Adds the parts of batch `p` to *sum, which has no parts yet if sum->o has no value. Once a part
 * is added, issues the load of a part of batch `next` into the same registers. `next` NULL: the
 * list has no further batch, and nothing is loaded. */
static void add_batch(struct att_part_rows *r, const struct att_part_list *l,
                      struct att_part_state *sum, struct batch *p, struct batch *next)
{
    struct tir_builder *b = r->b;
    struct tir_value top = sum->lse, weight[ATT_PARTS_MOST];
    att_parts_read_lse(r, p->lse, p->n);
    for (unsigned i = 0; i < p->n; i++)
        top = tir_max(b, top, p->lse[i]);
    const struct tir_value shift = shift_of(r, top), w = power_of_sum(r, sum->lse, shift);
    for (unsigned i = 0; i < p->n; i++)
        weight[i] = power(r, p->lse[i], shift);
    sum->lse = top;
    sum->l = tir_mul(b, w, sum->l);
    for (unsigned i = 0; i < p->n; i++)
        sum->l = tir_add(b, sum->l, weight[i]);
    for (unsigned k = 0; k < r->type.n && sum->o[k].id; k++)
        sum->o[k] = add_weighted(r, (struct tir_value){0}, w, sum->o[k], false);
    for (unsigned i = 0; i < p->n; i++) {
        for (unsigned k = 0; k < r->type.n; k++)
            sum->o[k] = add_weighted(r, sum->o[k], weight[i], p->o[i][k], true);
        if (next)
            load_values(r, l, next, i);
    }
}

/* Adds the parts of `p`, the last batch of a list, to *sum. Only the last batch may have fewer than
 * p->n parts. */
static void add_last(struct att_part_rows *r, const struct att_part_list *l,
                     struct att_part_state *sum, struct batch *p)
{
    struct tir_builder *b = r->b;
    const struct tir_value last = tir_and(b, att_plus(b, l->count, -1), tir_i32(b, (int)p->n - 1));
    for (unsigned i = 1; i < p->n; i++)
        p->lse[i] = tir_select(b, tir_cmp_ge(b, last, tir_i32(b, (int)i)), p->lse[i],
                               tir_float_like(b, p->lse[i], -INFINITY));
    add_batch(r, l, sum, p, NULL);
}

/* Sets the panels of sum->o to f32 zeros. */
static void clear_values(struct att_part_rows *r, struct att_part_state *sum)
{
    for (unsigned k = 0; k < r->type.n; k++)
        sum->o[k] = tir_splat(r->b, tir_f32(r->b, 0.0f), r->type.o[k]);
}

/* Copies the values of *sum and *p to list[], the values that the loop over batches carries; if
 * `back`, copies from list[] to *sum and *p. Returns the number of values. */
static unsigned list_values(struct att_part_rows *r, struct att_part_state *sum, struct batch *p,
                            bool back, struct tir_value list[VALUES_MOST])
{
    struct tir_value *own[VALUES_MOST];
    unsigned n = 0;
    own[n++] = &sum->lse;
    own[n++] = &sum->l;
    for (unsigned k = 0; k < r->type.n; k++)
        own[n++] = &sum->o[k];
    for (unsigned i = 0; i < p->n; i++) {
        own[n++] = &p->lse[i];
        for (unsigned k = 0; k < r->type.n; k++)
            own[n++] = &p->o[i][k];
    }
    for (unsigned i = 0; i < n; i++)
        *(back ? own[i] : &list[i]) = *(back ? &list[i] : own[i]);
    return n;
}

/* Returns the sum of `sink` and of all parts of list `l`. The list has at most `most` parts, which
 * are loaded together. */
static struct att_part_state add_few(struct att_part_rows *r, const struct att_part_list *l,
                                     struct tir_value sink, unsigned most)
{
    struct batch p = {.n = most};
    load_batch(r, l, &p);
    struct att_part_state sum = att_parts_sink_state(r, sink);
    add_last(r, l, &sum, &p);
    return sum;
}

/* Returns the sum of `sink` and of all parts of list `l`. A batch of r->at_once parts is loaded
 * while the previous batch is added. */
static struct att_part_state add_batches(struct att_part_rows *r, const struct att_part_list *l,
                                         struct tir_value sink)
{
    struct tir_builder *b = r->b;
    struct tir_value v[VALUES_MOST];
    struct batch p = {.n = r->at_once}, next = p;
    const struct tir_value step = tir_i32(b, (int)p.n);
    load_batch(r, l, &p);
    struct att_part_state sum = att_parts_sink_state(r, sink);
    clear_values(r, &sum);
    const unsigned n = list_values(r, &sum, &p, false, v);
    struct tir_loop loop = tir_begin_for(b, step, l->count, step, v, n);
    list_values(r, &sum, &p, true, v);
    find_rows(r, l, loop.index, &next);
    load_lse(r, l, &next);
    add_batch(r, l, &sum, &p, &next);
    list_values(r, &sum, &next, false, v);
    tir_end_for(b, &loop, v, n);
    list_values(r, &sum, &p, true, v);
    add_last(r, l, &sum, &p);
    return sum;
}

/* Returns the sum of the parts of list `l` and of the sinks. Lists of few parts take a branch that
 * loads fewer rows, since loads after a list's end are unused. Loads of sinks are issued before the
 * parts' loads, and awaited after them. */
struct att_part_state att_parts_add_list(struct att_part_rows *r, const struct att_part_list *l)
{
    struct tir_builder *b = r->b;
    const unsigned few = (r->at_once + 1u) / 2;
    const struct tir_value sink = att_parts_load_sinks(r);
    const struct tir_value is_short = tir_cmp_le(b, l->count, tir_i32(b, (int)few));
    struct batch none = {0};
    struct tir_value v[VALUES_MOST];
    struct tir_type types[2 + ATT_PART_PANELS] = {r->type.row, r->type.row};
    for (unsigned k = 0; k < r->type.n; k++)
        types[2 + k] = r->type.o[k];
    struct tir_if one = tir_begin_if(b, is_short, false, types, 2 + r->type.n);
    struct att_part_state sum = add_few(r, l, sink, few);
    list_values(r, &sum, &none, false, v);
    tir_else(b, &one, v);
    sum = add_batches(r, l, sink);
    list_values(r, &sum, &none, false, v);
    tir_end_if(b, &one, v);
    list_values(r, &sum, &none, true, v);
    return sum;
}

/* Writes the results of rows without any part: out is 0, and LSE is the sink, or -infinity
 * without sinks. */
void att_parts_finish_empty(struct att_part_rows *r)
{
    struct att_part_state sum = att_parts_sink_state(r, att_parts_load_sinks(r));
    clear_values(r, &sum);
    att_parts_finish(r, sum);
}
