/* SPDX-License-Identifier: Apache-2.0
 *
 * Partial attention outputs become one: with o_k the output over one part of the keys, normalised,
 * and lse_k the natural log of its denominator,
 *
 *   out = sum_k e^(lse_k - LSE) o_k,  LSE = log(sum_k e^lse_k [+ e^sink])
 *
 * A part with an lse of +-infinity saw no key: it counts for nothing and its output is not used,
 * whatever is there. Where that is true of all parts, out is 0 and LSE -infinity.
 *
 * The schemes differ in how parts are found. csr, dense: a workgroup has some heads of one token,
 * of which each lane has 16 bytes and walks all parts: some are on their way at any time, and one
 * that was added makes room for another. pair: a workgroup has some tokens of one head. All is read
 * once, no wave waits for another, and the grid does not depend on what is in memory.
 */
#include "ir/bits.h"
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <math.h>
#include <stdio.h>

enum {
    ELEM = 2,       /* bytes of bf16 and fp16 */
    VECTOR = 4,     /* f32 that a lane loads at once */
    TOKEN_BITS = 2, /* pair: log2 of the rows of a lane */
    AT_ONCE_MOST = 8,
    PANELS = 2, /* panels of a head dim: 192 is 128 + 64 */
    VALUES_MOST = (2 + PANELS) + (1 + PANELS) * AT_ONCE_MOST
};

/* Members of att_tile.own: parts that a wave has in flight; 0: a pair, which has two parts. */
enum { AT_ONCE };

/* `rows` is the number of rows of a lane; 0: one, or four tokens of a pair. */
static const struct att_tile tiles[] = {
    {.waves = 4,
     .waves_per_simd = 8,
     .own = {[AT_ONCE] = 8},
     .why = "a list is short, and its parts are latencies next to each other"},
    {.waves = 4, .waves_per_simd = 4, .own = {[AT_ONCE] = 4}, .why = "a lane has 8 or 12 elements"},
    {.waves = 4, .waves_per_simd = 4, .why = "a pair has two parts of a 16-bit type"},
};

static const struct att_knob knobs[] = {
    {"at_once", 3, {1, 2, 8}},
    {"waves", 4, {1, 2, 8, 16}},
    {"rows", 4, {1, 2, 4, 8}},
    {"waves_per_simd", 2, {2, 8}},
};

static const float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

/* The registers of some rows: D elements as panels of power-of-two width, f32, and a number for
   each row. */
struct state_type {
    unsigned n;
    int first[PANELS]; /* column */
    struct tir_type o[PANELS], row;
};

struct combine {
    const struct att_variant *v;
    struct att_tile tile;
    struct tir_builder b;
    unsigned dtype, out_dtype;
    unsigned rows; /* of a workgroup */
    struct state_type type;
    struct tir_value token, head; /* of the first row of the workgroup */
    struct tir_value n_rows;      /* number of rows from there on */
};

/* The state of some keys, for each row: a sum of parts; without l, a part; without o and l, a
 * sink. */
struct state {
    struct tir_value lse, o[PANELS], l;
};

static unsigned largest_power(unsigned n) { return 1u << (31 - __builtin_clz(n)); }

static bool is_pair(const struct att_variant *v) { return v->partials == ATT_PARTIALS_PAIR; }

/* Returns the elements of a row's widest panel in a lane: 16 bytes of f32, or of a 16-bit type. */
static unsigned per_lane(const struct att_variant *v) { return is_pair(v) ? 2 * VECTOR : VECTOR; }

/* Returns the most elements of all panels that a lane has, if narrower panels follow the widest. */
static unsigned most_per_lane(const struct att_variant *v)
{
    return per_lane(v) + 12 - VECTOR * !is_pair(v);
}

/* Returns the lanes that share a row with disjoint panels: each lane has adjacent elements of the
 * widest panel, and VECTOR of the narrowest. */
static unsigned lanes_apart(const struct att_variant *v)
{
    const unsigned dim = (unsigned)v->head_dim;
    const unsigned wide = largest_power(dim) / per_lane(v), narrow = (dim & -dim) / VECTOR;
    return wide < narrow ? wide : narrow;
}

/* True if the panels are the first and the last `largest_power(dim)` columns, which overlap in the
 * middle. That is the case if disjoint panels would be too many, or give a lane too many
 * elements. */
static bool overlaps(const struct att_variant *v)
{
    return (unsigned)v->head_dim > most_per_lane(v) * lanes_apart(v);
}

/* Returns the lanes that share a row; more than a wave has if two waves do. */
static unsigned row_lanes(const struct att_variant *v)
{
    return overlaps(v) ? largest_power((unsigned)v->head_dim) / per_lane(v) : lanes_apart(v);
}

/* Returns the elements of a row that one lane holds. */
static unsigned row_elements(const struct att_variant *v)
{
    return overlaps(v) ? 2 * per_lane(v) : (unsigned)v->head_dim / lanes_apart(v);
}

/* Returns the waves that share a row. */
static unsigned row_waves(const struct att_variant *v)
{
    return row_lanes(v) > TIR_WAVE_LANES ? row_lanes(v) / TIR_WAVE_LANES : 1;
}

/* Returns the rows that a wave holds in one register of each lane. */
static unsigned lane_rows(const struct att_variant *v)
{
    return TIR_WAVE_LANES * row_waves(v) / row_lanes(v);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const int dim = v->head_dim;
    struct att_tile tile;
    if (dim % 8 || dim < 32 || dim > 512)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not a multiple of 8 from 32 to 512",
                          dim);
    return att_find_tile(v, m, &tile, why);
}

/* Returns log2 of the rows of a lane. */
static unsigned usual_bits(const struct att_variant *v)
{
    return is_pair(v) ? TOKEN_BITS - (row_elements(v) > per_lane(v)) : 0;
}

static unsigned row_bits(const struct combine *c)
{
    return c->tile.rows ? tir_bits(c->tile.rows) : usual_bits(c->v);
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned rows = t->rows ? t->rows : 1u << usual_bits(v), at_once = t->own[AT_ONCE];
    const unsigned elements = row_elements(v), registers = 512u / t->waves_per_simd;
    if (t->rows == 1u << usual_bits(v))
        return att_reject(why, ATT_TILE, "a lane has %u rows already", t->rows);
    if (is_pair(v) != !at_once)
        return att_reject(why, ATT_TILE, "is for %s", at_once ? "lists of parts" : "pairs");
    if (t->waves < row_waves(v))
        return att_reject(why, ATT_TILE, "%u waves share a row", row_waves(v));
    if (!att_fits_waves(v, t, m, why))
        return false;
    if (rows * (elements * (is_pair(v) ? 3 : at_once + 1) + 2 * at_once) > registers)
        return att_reject(why, ATT_TILE, "%u rows of %u elements take more than %u registers", rows,
                          elements, registers);
    return true;
}

/* Returns the type of `width` columns: VECTOR adjacent ones in a lane. The other lanes and waves
 * have first the rest of the row, then more rows, and registers 2^reg_bits times as many. */
static struct tir_type panel_type(struct combine *c, unsigned width)
{
    const struct att_variant *v = c->v;
    const unsigned lanes = row_lanes(v) / row_waves(v),
                   neighbours = is_pair(v) ? width / lanes : VECTOR;
    struct tir_spread s = tir_spread(c->b.f->machine, c->tile.waves);
    tir_spread_cols(&s, TIR_REGS, tir_bits(neighbours));
    tir_spread_cols(&s, TIR_LANES, tir_bits(lanes));
    tir_spread_cols(&s, TIR_WAVES, tir_bits(row_waves(v)));
    tir_spread_cols(&s, TIR_REGS, tir_bits(width / row_lanes(v) / neighbours));
    tir_spread_rows(&s, TIR_LANES, tir_bits(lane_rows(v)));
    tir_spread_rows(&s, TIR_REGS, row_bits(c));
    tir_spread_rows(&s, TIR_WAVES, tir_bits(c->tile.waves / row_waves(v)));
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(c->b.f, TIR_F32, 1u << s.rows, width, &l);
}

static struct state_type state_type(struct combine *c)
{
    struct state_type t = {0};
    const unsigned dim = (unsigned)c->v->head_dim, widest = largest_power(dim);
    for (unsigned first = 0; first < dim; t.n++) {
        if (first && overlaps(c->v))
            first = dim - widest;
        t.first[t.n] = (int)first;
        t.o[t.n] = panel_type(c, largest_power(dim - first));
        first += t.o[t.n].cols;
    }
    const struct tir_layout l = tir_layout_slice(tir_layout_of(c->b.f, t.o[0]), 1);
    t.row = tir_tile(c->b.f, TIR_F32, t.o[0].rows, 1, &l);
    return t;
}

/* Returns e^(a - shift). */
static struct tir_value power(struct combine *c, struct tir_value a, struct tir_value shift)
{
    struct tir_builder *b = &c->b;
    return tir_exp2(b, tir_mul(b, tir_sub(b, a, shift), tir_float_like(b, a, LOG2E)));
}

/* Returns e^(a - shift) for a sink that may be infinite: 1 if it equals the shift, since the
 * difference would be a NaN. */
static struct tir_value power_of_sum(struct combine *c, struct tir_value a, struct tir_value shift)
{
    struct tir_builder *b = &c->b;
    const struct tir_value is_shift = tir_cmp_eq(b, a, shift);
    return tir_select(b, is_shift, tir_float_like(b, a, 1.0f), power(c, a, shift));
}

/* Returns the reference of all powers: the largest lse, or 0 if that is -infinity. */
static struct tir_value shift_of(struct combine *c, struct tir_value top)
{
    struct tir_builder *b = &c->b;
    const struct tir_value none = tir_cmp_eq(b, top, tir_float_like(b, top, -INFINITY));
    return tir_select(b, none, tir_float_like(b, top, 0.0f), top);
}

/* Returns sum + w o, or w o without a sum. With `part`, o comes from memory and is ignored if its
 * lse is -infinity. An infinity or a NaN would survive a factor of 0. */
static struct tir_value add_weighted(struct combine *c, struct tir_value sum, struct tir_value w,
                                     struct tir_value o, bool part)
{
    struct tir_builder *b = &c->b;
    const struct tir_value wide = tir_broadcast(b, w, tir_typeof(b->f, o));
    if (part) {
        const struct tir_value zero = tir_float_like(b, wide, 0.0f);
        o = tir_select(b, tir_cmp_gt(b, wide, zero), o, zero);
    }
    return sum.id ? tir_fma(b, wide, o, sum) : tir_mul(b, wide, o);
}

/* Adds n states; the first has o and l. The result's lse is the largest, and o and l are relative
 * to it. */
static struct state add_states(struct combine *c, const struct state *s, unsigned n)
{
    struct tir_builder *b = &c->b;
    struct state sum = {.lse = s[0].lse};
    for (unsigned i = 1; i < n; i++)
        sum.lse = tir_max(b, sum.lse, s[i].lse);
    const struct tir_value shift = shift_of(c, sum.lse);
    for (unsigned i = 0; i < n; i++) {
        const bool part = !s[i].l.id;
        const struct tir_value w =
            part ? power(c, s[i].lse, shift) : power_of_sum(c, s[i].lse, shift);
        const struct tir_value l = part ? w : tir_mul(b, w, s[i].l);
        sum.l = i ? tir_add(b, sum.l, l) : l;
        for (unsigned k = 0; k < c->type.n && s[i].o[k].id; k++)
            sum.o[k] = add_weighted(c, sum.o[k], w, s[i].o[k], part);
    }
    return sum;
}

/* Reads the lse of parts from memory, where either infinity marks an empty part. */
static void read_lse(struct combine *c, struct tir_value *lse, unsigned n)
{
    struct tir_builder *b = &c->b;
    struct tir_value infinite[AT_ONCE_MOST];
    for (unsigned i = 0; i < n; i++)
        infinite[i] = tir_cmp_eq(b, lse[i], tir_float_like(b, lse[i], INFINITY));
    for (unsigned i = 0; i < n; i++)
        lse[i] = tir_select(b, infinite[i], tir_float_like(b, lse[i], -INFINITY), lse[i]);
}

static struct tir_value is_null(struct combine *c, struct tir_value pointer)
{
    return tir_cmp_eq(&c->b, pointer, tir_i64(&c->b, 0));
}

/* Returns the address of this token and head in `t`, whose elements have `size` bytes. */
static struct tir_value place(struct combine *c, struct att_tensor t, int size)
{
    struct tir_builder *b = &c->b;
    const char *token = t.token_stride, *head = t.head_stride;
    return tir_add(
        b, tir_arg(b, t.arg, TIR_I64),
        tir_add(b, att_offset(b, c->token, token, size), att_offset(b, c->head, head, size)));
}

/* Returns the bytes between two rows of a workgroup: a head of a list, or a token of a pair. */
static struct tir_value step(struct combine *c, struct att_tensor t, int size)
{
    const bool pair = is_pair(c->v);
    const char *name = pair ? t.token_stride : t.head_stride;
    return att_stride32(&c->b, name, size);
}

/* Loads the sinks of the rows; 0 if there are none. */
static struct tir_value load_sinks(struct combine *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value sinks = tir_arg(b, ARG_SINKS, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value at = tir_shl(b, c->head, tir_i32(b, 2)), one = tir_i32(b, 1);
    const struct tir_value rows =
        tir_select(b, is_null(c, sinks), zero, is_pair(c->v) ? one : c->n_rows);
    const struct tir_view view = att_view(b, tir_add(b, sinks, att_wide(b, at)), rows,
                                          tir_i32(b, is_pair(c->v) ? 0 : 4), 4, 0);
    return tir_tile_load(b, view, zero, c->type.row);
}

/* Returns the state of the sinks: exp(sink) joins the denominator. */
static struct state sink_state(struct combine *c, struct tir_value sink)
{
    struct tir_builder *b = &c->b;
    const struct tir_value none = tir_float_like(b, sink, -INFINITY);
    const struct tir_value lse =
        tir_select(b, is_null(c, tir_arg(b, ARG_SINKS, TIR_I64)), none, sink);
    const struct tir_value l = tir_select(
        b, tir_cmp_eq(b, lse, none), tir_float_like(b, sink, 0.0f), tir_float_like(b, sink, 1.0f));
    return (struct state){.lse = lse, .l = l};
}

/* Computes out = o / l and lse = top + log l. Without any part they are 0 and -infinity. */
static void finish(struct combine *c, struct state sum)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_float_like(b, sum.l, 0.0f);
    struct tir_value inverse = tir_select(b, tir_cmp_gt(b, sum.l, zero), tir_rcp(b, sum.l), zero);
    if (c->out_dtype == TIR_FP8) {
        const struct tir_value scale = att_scale(b, ARG_OUT_SCALE);
        inverse = tir_mul(b, inverse, tir_splat(b, tir_rcp(b, scale), tir_typeof(b->f, inverse)));
    }
    const int size = c->out_dtype == TIR_FP8 ? 1 : ELEM;
    for (unsigned k = 0; k < c->type.n; k++) {
        const struct tir_value o =
            tir_mul(b, sum.o[k], tir_broadcast(b, inverse, tir_typeof(b->f, sum.o[k])));
        const struct tir_view out =
            att_view(b, place(c, ATT_HEADS(OUT), size), c->n_rows, step(c, ATT_HEADS(OUT), size),
                     c->v->head_dim * size, c->type.first[k] * size);
        tir_tile_store(b, out, tir_i32(b, 0), tir_convert(b, o, c->out_dtype));
    }

    const struct tir_value lse =
        tir_fma(b, tir_log2(b, sum.l), tir_float_like(b, sum.l, LN2), shift_of(c, sum.lse));
    const struct tir_value rows =
        tir_select(b, is_null(c, tir_arg(b, ARG_LSE, TIR_I64)), tir_i32(b, 0), c->n_rows);
    const struct att_tensor t = ATT_HEADS(LSE);
    const struct tir_view to = att_view(b, place(c, t, 4), rows, step(c, t, 4), 4, 0);
    tir_tile_store(b, to, tir_i32(b, 0), lse);
}

/* Lists: parts are rows of partial_out [row, head, D] and partial_lse [row, head]. */

struct list {
    struct tir_value count; /* number of parts */
    struct tir_value map;   /* csr: address of the first part's row number */
    struct tir_value first; /* dense: row of the first part */
    struct tir_value token; /* csr: number within the tile */
};

/* Consecutive parts, as they are loaded. */
struct batch {
    unsigned n;
    struct tir_value row[AT_ONCE_MOST], lse[AT_ONCE_MOST], o[AT_ONCE_MOST][PANELS];
};

/* Finds the rows of parts k, k + 1, ...; after the end, the last part's. All loads are issued at
   once. */
static void find_rows(struct combine *c, const struct list *l, struct tir_value k, struct batch *p)
{
    struct tir_builder *b = &c->b;
    const bool csr = l->map.id;
    const int size = csr ? 4 : 1;
    const struct tir_value at = att_times(b, k, size);
    const struct tir_value last = att_times(b, att_plus(b, l->count, -1), size);
    for (unsigned i = 0; i < p->n; i++) {
        const struct tir_value own = tir_min(b, att_plus(b, at, (int)i * size), last);
        p->row[i] = csr ? tir_scalar_load(b, l->map, own, TIR_I32) : tir_add(b, l->first, own);
    }
    if (csr)
        tir_anchor_all(b, p->row, p->n);
}

/* Loads the workgroup's heads of a row of a tensor with `elements` for each head, panel by
   panel. */
static void load_part(struct combine *c, const struct list *l, const char *arg, int elements,
                      struct tir_value row, const struct tir_type *t, unsigned n,
                      struct tir_value *part)
{
    struct tir_builder *b = &c->b;
    const int bytes = elements * 4;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value row_bytes = att_wide(b, att_times(b, heads, bytes));
    struct tir_value base =
        tir_add(b, tir_arg(b, arg, TIR_I64), tir_mul(b, att_wide(b, c->head), tir_i64(b, bytes)));
    if (l->token.id)
        base = tir_add(b, base, tir_mul(b, att_wide(b, l->token), row_bytes));
    base = tir_add(b, base, tir_mul(b, att_wide(b, row), row_bytes));
    for (unsigned k = 0; k < n; k++) {
        const int first = n > 1 ? c->type.first[k] * 4 : 0;
        const struct tir_view v = att_view(b, base, c->n_rows, tir_i32(b, bytes), bytes, first);
        part[k] = tir_tile_load(b, v, tir_i32(b, 0), t[k]);
    }
}

static void load_lse(struct combine *c, const struct list *l, struct batch *p)
{
    for (unsigned i = 0; i < p->n; i++)
        load_part(c, l, ARG_PARTIAL_LSE, 1, p->row[i], &c->type.row, 1, &p->lse[i]);
}

static void load_values(struct combine *c, const struct list *l, struct batch *p, unsigned i)
{
    load_part(c, l, ARG_PARTIAL_OUT, c->v->head_dim, p->row[i], c->type.o, c->type.n, p->o[i]);
}

/* Loads a batch: the small loads, which are needed first, before the large ones. */
static void load_batch(struct combine *c, const struct list *l, struct batch *p)
{
    find_rows(c, l, tir_i32(&c->b, 0), p);
    load_lse(c, l, p);
    for (unsigned i = 0; i < p->n; i++)
        load_values(c, l, p, i);
}

/* Adds the parts of a batch to the sum; a sum without o is empty. Each part makes room for one of
 * the next batch, if there is one. */
static void add_batch(struct combine *c, const struct list *l, struct state *sum, struct batch *p,
                      struct batch *next)
{
    struct tir_builder *b = &c->b;
    struct tir_value top = sum->lse, weight[AT_ONCE_MOST];
    read_lse(c, p->lse, p->n);
    for (unsigned i = 0; i < p->n; i++)
        top = tir_max(b, top, p->lse[i]);
    const struct tir_value shift = shift_of(c, top), w = power_of_sum(c, sum->lse, shift);
    for (unsigned i = 0; i < p->n; i++)
        weight[i] = power(c, p->lse[i], shift);
    sum->lse = top;
    sum->l = tir_mul(b, w, sum->l);
    for (unsigned i = 0; i < p->n; i++)
        sum->l = tir_add(b, sum->l, weight[i]);
    for (unsigned k = 0; k < c->type.n && sum->o[k].id; k++)
        sum->o[k] = add_weighted(c, (struct tir_value){0}, w, sum->o[k], false);
    for (unsigned i = 0; i < p->n; i++) {
        for (unsigned k = 0; k < c->type.n; k++)
            sum->o[k] = add_weighted(c, sum->o[k], weight[i], p->o[i][k], true);
        if (next)
            load_values(c, l, next, i);
    }
}

/* Adds the last batch, the only one that may be incomplete. */
static void add_last(struct combine *c, const struct list *l, struct state *sum, struct batch *p)
{
    struct tir_builder *b = &c->b;
    const struct tir_value last = tir_and(b, att_plus(b, l->count, -1), tir_i32(b, (int)p->n - 1));
    for (unsigned i = 1; i < p->n; i++)
        p->lse[i] = tir_select(b, tir_cmp_ge(b, last, tir_i32(b, (int)i)), p->lse[i],
                               tir_float_like(b, p->lse[i], -INFINITY));
    add_batch(c, l, sum, p, NULL);
}

static void clear_values(struct combine *c, struct state *sum)
{
    for (unsigned k = 0; k < c->type.n; k++)
        sum->o[k] = tir_splat(&c->b, tir_f32(&c->b, 0.0f), c->type.o[k]);
}

/* Copies the values that the loop carries, of a sum and a batch, to a list, or back. Returns their
 * number. */
static unsigned list_values(struct combine *c, struct state *sum, struct batch *p, bool back,
                            struct tir_value list[VALUES_MOST])
{
    struct tir_value *own[VALUES_MOST];
    unsigned n = 0;
    own[n++] = &sum->lse;
    own[n++] = &sum->l;
    for (unsigned k = 0; k < c->type.n; k++)
        own[n++] = &sum->o[k];
    for (unsigned i = 0; i < p->n; i++) {
        own[n++] = &p->lse[i];
        for (unsigned k = 0; k < c->type.n; k++)
            own[n++] = &p->o[i][k];
    }
    for (unsigned i = 0; i < n; i++)
        *(back ? own[i] : &list[i]) = *(back ? &list[i] : own[i]);
    return n;
}

/* Adds all parts as one batch. */
static struct state add_few(struct combine *c, const struct list *l, struct tir_value sink,
                            unsigned most)
{
    struct batch p = {.n = most};
    load_batch(c, l, &p);
    struct state sum = sink_state(c, sink);
    add_last(c, l, &sum, &p);
    return sum;
}

/* Adds all parts, batch by batch. */
static struct state add_batches(struct combine *c, const struct list *l, struct tir_value sink)
{
    struct tir_builder *b = &c->b;
    struct tir_value v[VALUES_MOST];
    struct batch p = {.n = c->tile.own[AT_ONCE]}, next = p;
    const struct tir_value step = tir_i32(b, (int)p.n);
    load_batch(c, l, &p);
    struct state sum = sink_state(c, sink);
    clear_values(c, &sum);
    const unsigned n = list_values(c, &sum, &p, false, v);
    struct tir_loop loop = tir_begin_for(b, step, l->count, step, v, n);
    list_values(c, &sum, &p, true, v);
    find_rows(c, l, loop.index, &next);
    load_lse(c, l, &next);
    add_batch(c, l, &sum, &p, &next);
    list_values(c, &sum, &next, false, v);
    tir_end_for(b, &loop, v, n);
    list_values(c, &sum, &p, true, v);
    add_last(c, l, &sum, &p);
    return sum;
}

/* Adds all parts; there is at least one. For few parts fewer loads are wasted. The loads of sinks
 * are issued first, but waited for after the parts. */
static struct state add_parts(struct combine *c, const struct list *l)
{
    struct tir_builder *b = &c->b;
    const unsigned few = (c->tile.own[AT_ONCE] + 1u) / 2;
    const struct tir_value sink = load_sinks(c);
    const struct tir_value is_short = tir_cmp_le(b, l->count, tir_i32(b, (int)few));
    struct batch none = {0};
    struct tir_value v[VALUES_MOST];
    struct tir_type types[2 + PANELS] = {c->type.row, c->type.row};
    for (unsigned k = 0; k < c->type.n; k++)
        types[2 + k] = c->type.o[k];
    struct tir_if one = tir_begin_if(b, is_short, false, types, 2 + c->type.n);
    struct state sum = add_few(c, l, sink, few);
    list_values(c, &sum, &none, false, v);
    tir_else(b, &one, v);
    sum = add_batches(c, l, sink);
    list_values(c, &sum, &none, false, v);
    tir_end_if(b, &one, v);
    list_values(c, &sum, &none, true, v);
    return sum;
}

/* Finishes a token without any part. */
static void finish_empty(struct combine *c)
{
    struct state sum = sink_state(c, load_sinks(c));
    clear_values(c, &sum);
    finish(c, sum);
}

/* Finds a tile: tokens that share a list. False if there is no such token or its list is empty. */
static struct tir_value find_csr(struct combine *c, struct list *l)
{
    struct tir_builder *b = &c->b;
    const struct tir_value tile = tir_block_id(b, 0);
    const struct tir_value at = tir_shl(b, tile, tir_i32(b, 2));
    const struct tir_value indptr = tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64);
    const struct tir_value begin = tir_scalar_load(b, indptr, at, TIR_I32);
    const struct tir_value end = tir_scalar_load(b, indptr, att_plus(b, at, 4), TIR_I32);
    const struct tir_value tokens = tir_arg(b, ARG_REDUCE_FINAL_MAP, TIR_I64);
    const struct tir_value pair = tir_shl(b, tile, tir_i32(b, 3));
    const struct tir_value q_start = tir_scalar_load(b, tokens, pair, TIR_I32);
    const struct tir_value q_end = tir_scalar_load(b, tokens, att_plus(b, pair, 4), TIR_I32);
    l->count = tir_sub(b, end, begin);
    l->map = tir_add(b, tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
                     tir_mul(b, att_wide(b, begin), tir_i64(b, 4)));
    l->token = tir_block_id(b, 2);
    c->token = tir_add(b, q_start, l->token);
    return tir_and(b, tir_cmp_gt(b, l->count, tir_i32(b, 0)), tir_cmp_lt(b, c->token, q_end));
}

/* Finds a token's splits: all, or the number in split_counts. False if there is none. */
static struct tir_value find_dense(struct combine *c, struct list *l)
{
    struct tir_builder *b = &c->b;
    const struct tir_value splits = tir_arg(b, ARG_SPLITS, TIR_I32);
    const struct tir_value counts = tir_arg(b, ARG_SPLIT_COUNTS, TIR_I64);
    const struct tir_type type = tir_scalar(TIR_I32);
    c->token = tir_block_id(b, 0);
    l->first = tir_mul(b, c->token, splits);
    struct tir_if all = tir_begin_if(b, is_null(c, counts), false, &type, 1);
    tir_else(b, &all, &splits);
    l->count = tir_scalar_load(b, counts, tir_shl(b, c->token, tir_i32(b, 2)), TIR_I32);
    l->count = tir_min(b, l->count, splits);
    tir_end_if(b, &all, &l->count);
    return tir_cmp_gt(b, l->count, tir_i32(b, 0));
}

/* Combines lists. A tile of a plan without parts is left unchanged; a dense token then gets its
   sinks. */
static void build_lists(struct combine *c)
{
    struct tir_builder *b = &c->b;
    const bool csr = c->v->partials == ATT_PARTIALS_CSR;
    struct list l = {0};
    c->head = att_times(b, tir_block_id(b, 1), (int)c->rows);
    c->n_rows = tir_sub(b, tir_arg(b, ARG_HEADS, TIR_I32), c->head);
    struct tir_if some = tir_begin_if(b, csr ? find_csr(c, &l) : find_dense(c, &l), false, NULL, 0);
    finish(c, add_parts(c, &l));
    tir_else(b, &some, NULL);
    if (!csr)
        finish_empty(c);
    tir_end_if(b, &some, NULL);
}

/* A pair: two states of every token and head, in the type of the result. */

static struct state load_state(struct combine *c, struct att_tensor out, struct att_tensor lse)
{
    struct tir_builder *b = &c->b;
    const struct tir_value base = place(c, out, ELEM), row = step(c, out, ELEM);
    const struct tir_view from = att_view(b, place(c, lse, 4), c->n_rows, step(c, lse, 4), 4, 0);
    struct state s = {.lse = tir_tile_load(b, from, tir_i32(b, 0), c->type.row)};
    for (unsigned k = 0; k < c->type.n; k++) {
        const struct tir_view o =
            att_view(b, base, c->n_rows, row, c->v->head_dim * ELEM, c->type.first[k] * ELEM);
        s.o[k] = tir_tile_load(b, o, tir_i32(b, 0), tir_with_dtype(c->type.o[k], c->dtype));
    }
    return s;
}

static void build_pair(struct combine *c)
{
    struct tir_builder *b = &c->b;
    c->token = att_times(b, tir_block_id(b, 0), (int)c->rows);
    c->head = tir_block_id(b, 1);
    c->n_rows = tir_sub(b, tir_arg(b, ARG_TOTAL_Q, TIR_I32), c->token);
    struct state s[3];
    s[0] = load_state(c, ATT_HEADS(PREFIX), ATT_HEADS(PREFIX_LSE));
    s[1] = load_state(c, ATT_HEADS(SUFFIX), ATT_HEADS(SUFFIX_LSE));
    for (int i = 0; i < 2; i++) {
        read_lse(c, &s[i].lse, 1);
        for (unsigned k = 0; k < c->type.n; k++)
            s[i].o[k] = tir_convert(b, s[i].o[k], TIR_F32);
    }
    s[2] = sink_state(c, load_sinks(c));
    finish(c, add_states(c, s, 3));
}

/* Sets the grid: tiles, their tokens and blocks of heads; or blocks of tokens, and heads. */
static void set_grid(const struct combine *c, struct att_grid grid[3])
{
    const bool csr = c->v->partials == ATT_PARTIALS_CSR, pair = is_pair(c->v);
    grid[0] = (struct att_grid){csr ? ARG_REDUCE_TILES : ARG_TOTAL_Q, pair ? (int)c->rows : 1, 1};
    grid[1] = (struct att_grid){ARG_HEADS, pair ? 1 : (int)c->rows, 1};
    grid[2] = (struct att_grid){csr ? ARG_MAX_SEQLEN_Q : NULL, 1, 1};
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct combine c = {.v = v};
    att_find_tile(v, m, &c.tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, c.tile.waves, c.tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    c.dtype = att_dtype(v);
    c.out_dtype = v->out_dtype == ATT_OUT_DTYPE_FP8 ? TIR_FP8 : c.dtype;
    c.type = state_type(&c);
    c.rows = c.type.row.rows;
    if (is_pair(v))
        build_pair(&c);
    else
        build_lists(&c);
    tir_return(&c.b);
    *k = (struct att_kernel){
        .func = f,
    };
    set_grid(&c, k->grid);
    snprintf(k->tuning, sizeof(k->tuning), "rows=%u waves=%d at_once=%d", c.rows, c.tile.waves,
             c.tile.own[AT_ONCE]);
}

const struct att_template att_template_combine = {
    .name = "combine",
    .description = "partial attention outputs, weighted by their LSE, become one",
    .takes = OP_TAKES_COMBINE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"at_once"},
    .fits = fits,
    .check = check,
    .build = build,
};
