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
 * its waves take the parts in turn, several at once, and meet in LDS. pair: a workgroup has some
 * tokens of one head, its waves different ones. All is read once, and the grid does not depend on
 * what is in memory.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ELEM = 2,        /* bytes of bf16 and fp16 */
    PER = 8,         /* elements of a row that a lane has: 32 bytes of f32, 16 of a 16-bit type */
    MOST = 20,       /* the same where narrower panels follow the widest */
    HEADS = 4,       /* that a wave has, unless its lanes hold more or two registers fewer */
    TOKEN_BITS = 2,  /* pair: log2 of the rows that a lane has */
    WAVES_MOST = 16, /* whose sums one wave adds up */
    AT_ONCE_MOST = 8,
    PANELS = 2 /* of a head dim: 192 is 128 + 64 */
};

/* Members of att_tile.own: parts that a wave has under way. */
enum { AT_ONCE };

/* `rows` are those of a lane; 0: a few heads to a wave, or four tokens of a pair. */
static const struct att_tile tiles[] = {
    {.waves = 4,
     .waves_per_simd = 4,
     .own = {[AT_ONCE] = 4},
     .why = "a list is short, and its parts are latencies next to each other"},
};

static const struct att_knob knobs[] = {
    {"at_once", 3, {1, 2, 8}},
    {"waves", 4, {1, 2, 8, 16}},
    {"rows", 4, {1, 2, 4, 8}},
    {"waves_per_simd", 2, {2, 8}},
};

static const float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

/* D elements of some rows as panels of power-of-two width, f32; and a number for each row. */
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
    unsigned rows;                /* that a wave holds */
    struct state_type type;       /* of all waves */
    struct tir_value token, head; /* of the first row of the workgroup */
    struct tir_value n_rows;      /* that there are from there on */
};

/* The state of some of the keys, for each row: a sum of parts, or, without l, a part, or, without o
 * either, a sink. */
struct state {
    struct tir_value lse, o[PANELS], l;
};

static unsigned largest_power(unsigned n) { return 1u << (31 - __builtin_clz(n)); }

/* Lanes that share a row whose panels have nothing in common: each has PER neighbours of the widest
 * panel, and 4 of the narrowest. */
static unsigned lanes_apart(unsigned dim)
{
    const unsigned wide = largest_power(dim) / PER, narrow = (dim & -dim) / 4;
    return wide < narrow ? wide : narrow;
}

/* Are the panels the first and the last `largest_power(dim)` columns? Both have those in the middle
 * where panels that have nothing in common would be too many, or leave a lane too much. */
static bool overlaps(unsigned dim) { return dim > MOST * lanes_apart(dim); }

static unsigned row_lanes(unsigned dim)
{
    return overlaps(dim) ? largest_power(dim) / PER : lanes_apart(dim);
}

/* Elements of a row that one lane holds. */
static unsigned row_elements(unsigned dim)
{
    return overlaps(dim) ? 2 * PER : dim / lanes_apart(dim);
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

/* Rows that the lanes of a wave hold in one register each. */
static unsigned lane_rows(const struct att_variant *v)
{
    return TIR_WAVE_LANES / row_lanes((unsigned)v->head_dim);
}

static bool is_wide(const struct att_variant *v)
{
    return row_elements((unsigned)v->head_dim) > PER;
}

/* log2 of the rows of a lane. */
static unsigned usual_bits(const struct att_variant *v)
{
    if (v->partials == ATT_PARTIALS_PAIR)
        return TOKEN_BITS - is_wide(v);
    return lane_rows(v) < HEADS && !is_wide(v) ? 1 : 0;
}

static unsigned row_bits(const struct combine *c)
{
    return c->tile.rows ? tir_bits(c->tile.rows) : usual_bits(c->v);
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const bool pair = v->partials == ATT_PARTIALS_PAIR;
    const unsigned rows = t->rows ? t->rows : 1u << usual_bits(v);
    const unsigned elements = row_elements((unsigned)v->head_dim);
    const unsigned bytes = lane_rows(v) * rows * t->waves * ((unsigned)v->head_dim + 2) * 4;
    if (t->rows == 1u << usual_bits(v))
        return att_reject(why, ATT_TILE, "a lane has %u rows already", t->rows);
    if (pair && t->own[AT_ONCE] != tiles[0].own[AT_ONCE])
        return att_reject(why, ATT_TILE, "a pair is two parts");
    if (!att_fits_waves(v, t, m, why))
        return false;
    if (rows * elements * (pair ? 3 : t->own[AT_ONCE] + 1u) > 512u / t->waves_per_simd)
        return att_reject(why, ATT_TILE, "%u rows of %u elements take more than %u registers", rows,
                          elements, 512u / t->waves_per_simd);
    if (!pair && bytes > m->lds_bytes)
        return att_reject(why, ATT_TILE, "sums of %d waves take %u bytes of LDS, %s has %u",
                          t->waves, bytes, m->name, m->lds_bytes);
    return true;
}

/* `width` columns: those of a lane are neighbours, the other lanes first the rest of the row, then
 * more rows; 2^reg_bits times as many are in its registers, and other waves have others. */
static struct tir_type panel_type(struct combine *c, unsigned width, unsigned reg_bits,
                                  unsigned waves)
{
    const unsigned lanes = row_lanes((unsigned)c->v->head_dim);
    struct tir_spread s = tir_spread(c->b.f->machine, waves);
    tir_spread_cols(&s, TIR_REGS, tir_bits(width / lanes));
    tir_spread_cols(&s, TIR_LANES, tir_bits(lanes));
    tir_spread_rows(&s, TIR_LANES, tir_bits(lane_rows(c->v)));
    tir_spread_rows(&s, TIR_REGS, reg_bits);
    tir_spread_rows(&s, TIR_WAVES, tir_bits(waves));
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(c->b.f, TIR_F32, 1u << s.rows, width, &l);
}

static struct state_type state_type(struct combine *c, unsigned reg_bits, unsigned waves)
{
    struct state_type t = {0};
    const unsigned dim = (unsigned)c->v->head_dim, widest = largest_power(dim);
    for (unsigned first = 0; first < dim; t.n++) {
        if (first && overlaps(dim))
            first = dim - widest;
        t.first[t.n] = (int)first;
        t.o[t.n] = panel_type(c, largest_power(dim - first), reg_bits, waves);
        first += t.o[t.n].cols;
    }
    const struct tir_layout l = tir_layout_slice(tir_layout_of(c->b.f, t.o[0]), 1);
    t.row = tir_tile(c->b.f, TIR_F32, t.o[0].rows, 1, &l);
    return t;
}

/* e^(a - shift). */
static struct tir_value power(struct combine *c, struct tir_value a, struct tir_value shift)
{
    struct tir_builder *b = &c->b;
    return tir_exp2(b, tir_mul(b, tir_sub(b, a, shift), tir_float_like(b, a, LOG2E)));
}

/* Returns the number to which powers are relative: the largest lse, or 0 where that is
 * -infinity. */
static struct tir_value shift_of(struct combine *c, struct tir_value top)
{
    struct tir_builder *b = &c->b;
    const struct tir_value none = tir_cmp_eq(b, top, tir_float_like(b, top, -INFINITY));
    return tir_select(b, none, tir_float_like(b, top, 0.0f), top);
}

/* sum + w o; without a sum, w o. `part`: o is of memory, which must not be used where its lse is
 * -infinity: an infinity or a NaN would survive a factor of 0. */
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

/* The sum of n states, of which the first has o and l: lse is that of the largest, o and l count
 * relative to it. */
static struct state add_states(struct combine *c, const struct state *s, unsigned n)
{
    struct tir_builder *b = &c->b;
    struct state sum = {.lse = s[0].lse};
    for (unsigned i = 1; i < n; i++)
        sum.lse = tir_max(b, sum.lse, s[i].lse);
    const struct tir_value shift = shift_of(c, sum.lse);
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value w = power(c, s[i].lse, shift);
        const struct tir_value l = s[i].l.id ? tir_mul(b, w, s[i].l) : w;
        sum.l = i ? tir_add(b, sum.l, l) : l;
        for (unsigned k = 0; k < c->type.n && s[i].o[k].id; k++)
            sum.o[k] = add_weighted(c, sum.o[k], w, s[i].o[k], !s[i].l.id);
    }
    return sum;
}

/* The lse of a part as it is in memory; either infinity says that it is empty. */
static struct tir_value read_lse(struct combine *c, struct tir_value lse)
{
    struct tir_builder *b = &c->b;
    const struct tir_value infinite = tir_cmp_eq(b, lse, tir_float_like(b, lse, INFINITY));
    return tir_select(b, infinite, tir_float_like(b, lse, -INFINITY), lse);
}

static struct tir_value is_null(struct combine *c, struct tir_value pointer)
{
    return tir_cmp_eq(&c->b, pointer, tir_i64(&c->b, 0));
}

/* Address of this token and head in `t`, whose elements have so many bytes. */
static struct tir_value place(struct combine *c, struct att_tensor t, int size)
{
    struct tir_builder *b = &c->b;
    const char *token = t.token_stride, *head = t.head_stride;
    return tir_add(b, tir_arg(b, t.arg, TIR_I64),
                   tir_add(b, tir_mul(b, att_wide(b, c->token), att_stride(b, token, size)),
                           tir_mul(b, att_wide(b, c->head), att_stride(b, head, size))));
}

/* Bytes from one row of a workgroup to the next: a head of a list, a token of a pair. */
static struct tir_value step(struct combine *c, struct att_tensor t, int size)
{
    const bool pair = c->v->partials == ATT_PARTIALS_PAIR;
    const char *name = pair ? t.token_stride : t.head_stride;
    return tir_convert(&c->b, att_stride(&c->b, name, size), TIR_I32);
}

/* exp(sink) joins the denominator where there are sinks. */
static struct state sink_state(struct combine *c, struct tir_type row)
{
    struct tir_builder *b = &c->b;
    const bool pair = c->v->partials == ATT_PARTIALS_PAIR;
    const struct tir_value sinks = tir_arg(b, ARG_SINKS, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value at = tir_shl(b, c->head, tir_i32(b, 2));
    const struct tir_value none = is_null(c, sinks);
    const struct tir_value rows = tir_select(b, none, zero, pair ? tir_i32(b, 1) : c->n_rows);
    const struct tir_view view =
        att_view(b, tir_add(b, sinks, att_wide(b, at)), rows, tir_i32(b, pair ? 0 : 4), 4, 0);
    const struct tir_value sink = tir_tile_load(b, view, zero, row);
    return (struct state){.lse = tir_select(b, none, tir_float_like(b, sink, -INFINITY), sink)};
}

/* out = o / l and lse = top + log l; nothing at all gives 0 and -infinity. */
static void finish(struct combine *c, struct state sum)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_float_like(b, sum.l, 0.0f);
    struct tir_value inverse = tir_select(b, tir_cmp_gt(b, sum.l, zero), tir_rcp(b, sum.l), zero);
    if (c->out_dtype == TIR_FP8) {
        const struct tir_value scale =
            tir_scalar_load(b, tir_arg(b, ARG_OUT_SCALE, TIR_I64), tir_i32(b, 0), TIR_F32);
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

/* Lists: parts as rows of partial_out [row, head, D] and partial_lse [row, head]. */

struct list {
    struct tir_value count; /* parts */
    struct tir_value first; /* csr: entry of the map; dense: row */
    struct tir_value token; /* csr: within the tile */
};

/* The row of part k, which may be past the end: then that of the last. */
static struct tir_value part_row(struct combine *c, const struct list *l, struct tir_value k)
{
    struct tir_builder *b = &c->b;
    const struct tir_value last = att_plus(b, l->count, -1);
    const struct tir_value at = tir_add(b, l->first, tir_min(b, k, last));
    if (c->v->partials == ATT_PARTIALS_DENSE)
        return at;
    const struct tir_value map = tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64);
    return tir_scalar_load(b, map, tir_shl(b, at, tir_i32(b, 2)), TIR_I32);
}

/* The heads of a part, of `elements` each, from element `first` on; none where it is past the end.
 * Rows of the tile are wave times `rows` plus head: memory has the heads alone. */
static struct tir_value load_part(struct combine *c, const char *arg, struct tir_value head,
                                  struct tir_value rows, int elements, int first, struct tir_type t)
{
    struct tir_builder *b = &c->b;
    const int bytes = elements * 4;
    const struct tir_value row0 = att_times(b, tir_wave_id(b), -(int)c->rows);
    const struct tir_value base =
        tir_add(b, tir_arg(b, arg, TIR_I64), tir_mul(b, head, tir_i64(b, bytes)));
    return tir_tile_load(b, att_view(b, base, rows, tir_i32(b, bytes), bytes, first * 4), row0, t);
}

/* Number of the workgroup's first head in row `part` of the list. */
static struct tir_value part_head(struct combine *c, const struct list *l, struct tir_value part)
{
    struct tir_builder *b = &c->b;
    const struct tir_value row = l->token.id ? tir_add(b, part, l->token) : part;
    const struct tir_value heads = att_wide(b, tir_arg(b, ARG_HEADS, TIR_I32));
    return tir_add(b, tir_mul(b, att_wide(b, row), heads), att_wide(b, c->head));
}

/* This wave's share of the parts: those whose number is its own, modulo the waves. */
static struct state add_parts(struct combine *c, const struct list *l)
{
    struct tir_builder *b = &c->b;
    const struct state_type *t = &c->type;
    const int at_once = c->tile.own[AT_ONCE];
    const struct tir_value wave = tir_wave_id(b), zero = tir_f32(b, 0.0f);
    struct tir_value carried[PANELS + 2] = {tir_splat(b, tir_f32(b, -INFINITY), t->row),
                                            tir_splat(b, zero, t->row)};
    for (unsigned k = 0; k < t->n; k++)
        carried[2 + k] = tir_splat(b, zero, t->o[k]);
    struct tir_loop loop =
        tir_begin_for(b, wave, l->count, tir_i32(b, c->tile.waves * at_once), carried, t->n + 2);
    /* All places, then all loads, the small ones first: they are issued as they stand here, and
     * arrive in that order. */
    struct tir_value there[AT_ONCE_MOST], head[AT_ONCE_MOST], rows[AT_ONCE_MOST];
    struct state s[AT_ONCE_MOST + 1] = {{.lse = carried[0], .l = carried[1]}};
    memcpy(s[0].o, carried + 2, sizeof(s[0].o));
    for (int i = 0; i < at_once; i++) {
        const struct tir_value k = att_plus(b, loop.index, i * c->tile.waves);
        there[i] = tir_cmp_lt(b, k, l->count);
        rows[i] = tir_select(b, there[i], c->n_rows, tir_i32(b, 0));
        head[i] = part_head(c, l, part_row(c, l, k));
    }
    for (int i = 0; i < at_once; i++)
        s[i + 1].lse = load_part(c, ARG_PARTIAL_LSE, head[i], rows[i], 1, 0, t->row);
    for (int i = 0; i < at_once; i++)
        for (unsigned k = 0; k < t->n; k++)
            s[i + 1].o[k] = load_part(c, ARG_PARTIAL_OUT, head[i], rows[i], c->v->head_dim,
                                      t->first[k], t->o[k]);
    for (int i = 0; i < at_once; i++) {
        const struct tir_value lse = read_lse(c, s[i + 1].lse);
        s[i + 1].lse = tir_select(b, there[i], lse, tir_float_like(b, lse, -INFINITY));
    }
    struct state sum = add_states(c, s, (unsigned)at_once + 1);
    carried[0] = sum.lse;
    carried[1] = sum.l;
    memcpy(carried + 2, sum.o, sizeof(sum.o));
    tir_end_for(b, &loop, carried, t->n + 2);
    sum = (struct state){.lse = carried[0], .l = carried[1]};
    memcpy(sum.o, carried + 2, sizeof(sum.o));
    return sum;
}

/* Every wave leaves its sum in LDS; the first adds them up and writes the result. */
static void join_waves(struct combine *c, struct state own)
{
    struct tir_builder *b = &c->b;
    const struct state_type t = state_type(c, row_bits(c), 1);
    const int waves = c->tile.waves;
    const unsigned all = c->rows * c->tile.waves;
    const struct tir_layout row_all = tir_row_major(all, 1), row_map = tir_row_major(c->rows, 1);
    const struct tir_value lse = tir_lds_buffer(b, all * 4, 16), l = tir_lds_buffer(b, all * 4, 16);
    struct tir_value o[PANELS];
    for (unsigned k = 0; k < t.n; k++) {
        const struct tir_layout o_all = tir_row_major(all, t.o[k].cols);
        o[k] = tir_lds_buffer(b, all * t.o[k].cols * 4, 16);
        tir_tile_lds_store(b, o[k], own.o[k], &o_all);
    }
    tir_tile_lds_store(b, lse, own.lse, &row_all);
    tir_tile_lds_store(b, l, own.l, &row_all);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);

    const struct tir_value first = tir_cmp_eq(b, tir_wave_id(b), tir_i32(b, 0));
    struct tir_if one = tir_begin_if(b, first, false, NULL, 0);
    struct state s[WAVES_MOST + 1];
    for (int i = 0; i < waves; i++) {
        const int at = i * (int)c->rows * 4;
        s[i].lse = tir_tile_lds_load(b, att_plus(b, lse, at), t.row, &row_map);
        s[i].l = tir_tile_lds_load(b, att_plus(b, l, at), t.row, &row_map);
        for (unsigned k = 0; k < t.n; k++) {
            const struct tir_layout map = tir_row_major(c->rows, t.o[k].cols);
            s[i].o[k] =
                tir_tile_lds_load(b, att_plus(b, o[k], at * (int)t.o[k].cols), t.o[k], &map);
        }
    }
    s[waves] = sink_state(c, t.row);
    finish(c, add_states(c, s, (unsigned)waves + 1));
    tir_else(b, &one, NULL);
    tir_end_if(b, &one, NULL);
}

/* A tile: tokens that share a list. False: there is no such token, or its list is empty. */
static struct tir_value find_csr(struct combine *c, struct list *l)
{
    struct tir_builder *b = &c->b;
    const struct tir_value tile = tir_block_id(b, 0);
    const struct tir_value at = tir_shl(b, tile, tir_i32(b, 2));
    const struct tir_value indptr = tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64);
    l->first = tir_scalar_load(b, indptr, at, TIR_I32);
    const struct tir_value end = tir_scalar_load(b, indptr, att_plus(b, at, 4), TIR_I32);
    const struct tir_value map = tir_arg(b, ARG_REDUCE_FINAL_MAP, TIR_I64);
    const struct tir_value begin = tir_shl(b, tile, tir_i32(b, 3));
    const struct tir_value q_start = tir_scalar_load(b, map, begin, TIR_I32);
    const struct tir_value q_end = tir_scalar_load(b, map, att_plus(b, begin, 4), TIR_I32);
    l->count = tir_sub(b, end, l->first);
    l->token = tir_block_id(b, 2);
    c->token = tir_add(b, q_start, l->token);
    return tir_and(b, tir_cmp_gt(b, l->count, tir_i32(b, 0)), tir_cmp_lt(b, c->token, q_end));
}

/* Every token has its splits, or as many of them as split_counts says. */
static void find_dense(struct combine *c, struct list *l)
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
}

static void build_lists(struct combine *c)
{
    struct tir_builder *b = &c->b;
    c->type = state_type(c, row_bits(c), c->tile.waves);
    c->rows = c->type.row.rows / c->tile.waves;
    c->head = att_times(b, tir_block_id(b, 1), (int)c->rows);
    c->n_rows = tir_sub(b, tir_arg(b, ARG_HEADS, TIR_I32), c->head);
    struct list l = {0};
    if (c->v->partials == ATT_PARTIALS_DENSE) {
        find_dense(c, &l);
        join_waves(c, add_parts(c, &l));
        return;
    }
    struct tir_if some = tir_begin_if(b, find_csr(c, &l), false, NULL, 0);
    join_waves(c, add_parts(c, &l));
    tir_else(b, &some, NULL);
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
        struct tir_type t = c->type.o[k];
        t.dtype = (uint8_t)c->dtype;
        s.o[k] = tir_tile_load(b, o, tir_i32(b, 0), t);
    }
    return s;
}

static void build_pair(struct combine *c)
{
    struct tir_builder *b = &c->b;
    c->type = state_type(c, row_bits(c), c->tile.waves);
    c->rows = c->type.row.rows;
    c->token = att_times(b, tir_block_id(b, 0), (int)c->rows);
    c->head = tir_block_id(b, 1);
    c->n_rows = tir_sub(b, tir_arg(b, ARG_TOTAL_Q, TIR_I32), c->token);
    struct state s[3];
    s[0] = load_state(c, ATT_HEADS(PREFIX), ATT_HEADS(PREFIX_LSE));
    s[1] = load_state(c, ATT_HEADS(SUFFIX), ATT_HEADS(SUFFIX_LSE));
    for (int i = 0; i < 2; i++) {
        s[i].lse = read_lse(c, s[i].lse);
        for (unsigned k = 0; k < c->type.n; k++)
            s[i].o[k] = tir_convert(b, s[i].o[k], TIR_F32);
    }
    s[2] = sink_state(c, c->type.row);
    finish(c, add_states(c, s, 3));
}

/* Workgroups: for the tiles, their tokens and blocks of heads; for blocks of tokens and heads. */
static void set_grid(const struct combine *c, struct att_grid grid[3])
{
    const bool csr = c->v->partials == ATT_PARTIALS_CSR;
    const bool pair = c->v->partials == ATT_PARTIALS_PAIR;
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
    c.dtype = v->dtype == ATT_DTYPE_BF16 ? TIR_BF16 : TIR_F16;
    c.out_dtype = v->out_dtype == ATT_OUT_DTYPE_FP8 ? TIR_FP8 : c.dtype;
    if (v->partials == ATT_PARTIALS_PAIR)
        build_pair(&c);
    else
        build_lists(&c);
    tir_return(&c.b);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .interleave = 1},
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
