/* SPDX-License-Identifier: Apache-2.0
 *
 * This file divides tiles of heads in registers: in spans of adjacent elements, as memory has them,
 * and in parts in f32. The first parts are the two halves of the rotated pairs.
 */
#include "op_names.h"
#include "ir/spread.h"
#include "ir/bits.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int rope_rotary_dim(const struct att_variant *v)
{
    return v->rope == ATT_ROPE_NONE ? 0 : v->rotary_dim;
}

/* Returns the layout of a tile of `rows` heads x `columns` elements. 2^lane_bits lanes share a
 * head. The first 2^used_bits of these lanes hold the columns in runs of 2^run_bits, and the other
 * lanes repeat the same columns. Higher lanes, and then registers, hold further heads. */
static struct tir_layout tile_layout(const struct tir_machine *m, unsigned rows, unsigned columns,
                                     unsigned run_bits, unsigned used_bits, unsigned lane_bits)
{
    struct tir_spread s = tir_spread(m, 1);
    tir_spread_cols(&s, TIR_REGS, run_bits);
    tir_spread_cols(&s, TIR_LANES, used_bits);
    tir_spread_repeat(&s, TIR_LANES, lane_bits - used_bits);
    tir_spread_cols(&s, TIR_REGS, tir_bits(columns) - s.cols);
    tir_spread_rows(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    tir_spread_rows(&s, TIR_REGS, tir_bits(rows) - s.rows);
    return tir_spread_layout(&s);
}

static unsigned min_u(unsigned a, unsigned b) { return a < b ? a : b; }

static unsigned lowest_bit(unsigned x) { return x & -x; }

/* Adds a span of `columns` elements of `dtype` from element `first` on. A lane has at least 4
 * elements of the span, or all. A lane has only 2 if 4 elements of each span of the head would
 * exceed the registers. 2^lane_bits lanes share a head. */
static void add_span(struct rope *p, struct rope_shape *s, unsigned first, unsigned columns,
                     unsigned dtype, unsigned lane_bits)
{
    struct tir_func *f = p->b.f;
    const unsigned most = dtype == TIR_I32 ? 2 : 3, bits = tir_bits_floor(columns);
    const bool few = dtype == TIR_I32 || s->many;
    const unsigned least = min_u(few ? 1 : 2, bits);
    const unsigned used = min_u(lane_bits, bits - least);
    const struct tir_layout l = tile_layout(p->b.f->machine, (unsigned)p->rows, columns,
                                            min_u(bits - used, most), used, lane_bits);
    const struct tir_layout vector = tir_layout_slice(&l, 0);
    assert(s->n_spans < ROPE_MAX_SPANS);
    s->spans[s->n_spans++] = (struct rope_span){
        .first = (int)first,
        .heads = tir_tile(f, dtype, (unsigned)p->rows, columns, &l),
        .vector = tir_tile(f, dtype, 1, columns, &vector),
    };
}

/* Adds spans for the elements from `first` to the head's end, which do not rotate. Their widths are
 * powers of two. No span crosses a 16-byte block of the cache that it does not begin. A head is
 * spread over 2^lane_bits lanes. */
static void add_panels(struct rope *p, struct rope_shape *s, unsigned first, unsigned lane_bits)
{
    const unsigned block = 16 * 8 / tir_dtype_bits(att_cache_dtype(p->v));
    for (unsigned left = s->dim - first; left;) {
        const unsigned most = first % block ? lowest_bit(first) : left;
        const unsigned width = 1u << tir_bits_floor(min_u(left, most));
        add_span(p, s, first, width, p->dtype, lane_bits);
        first += width;
        left -= width;
    }
}

/* Returns the log2 of the number of lanes that share a head of `dim` elements, `elements` in each.
 * Fewer lanes share a head if the narrowest piece or panel would have less than 4 elements a lane.
 * A lane holds at most 32 elements. `rotary` is the number of elements that rotate. */
static unsigned lanes_of_head(const struct rope *p, unsigned dim, unsigned rotary,
                              unsigned elements)
{
    const unsigned most =
        tir_bits_floor(min_u(dim < elements ? 1 : dim / elements, tir_lanes(p->m)));
    if (!rotary)
        return most;
    const unsigned piece = lowest_bit(rotary / 2), panel = lowest_bit(dim - rotary);
    const unsigned narrowest = panel && panel < piece ? panel : piece;
    const unsigned all = min_u(most, tir_bits_floor(narrowest < 4 ? 1 : narrowest / 4));
    return dim >> all > 32 ? most : all;
}

/* Adds the pieces of `half` pairs, and their spans, from element `from` on. Widths of pieces are
 * powers of two. 2^lane_bits lanes share a head. */
static void add_pieces(struct rope *p, struct rope_shape *s, unsigned from, unsigned half,
                       unsigned lane_bits)
{
    for (unsigned first = 0; first < half; s->n_pieces++) {
        const unsigned width = 1u << tir_bits_floor(half - first);
        if (s->packed) {
            add_span(p, s, from + 2 * first, width, TIR_I32, lane_bits);
        } else {
            add_span(p, s, from + first, width, p->dtype, lane_bits);
            add_span(p, s, from + half + first, width, p->dtype, lane_bits);
        }
        first += width;
    }
}

/* Adds the spans of a head of `dim` elements without rotation. At least 2^least lanes share the
 * head: the number of lanes that share a head that rotates. With fewer lanes, a wave would have
 * more heads than p->rows. */
static void add_plain(struct rope *p, struct rope_shape *s, unsigned dim, unsigned least)
{
    const unsigned own = tir_bits_floor(min_u(min_u(dim / 8, tir_lanes(p->m)), lowest_bit(dim)));
    s->dim = dim;
    add_panels(p, s, 0, own > least ? own : least);
    s->n_parts = s->n_spans;
}

/* Implements the declaration in rope.h, with loads of up to 16 bytes. */
void rope_choose_shapes(struct rope *p)
{
    const unsigned dim = (unsigned)p->v->head_dim, rotary = (unsigned)rope_rotary_dim(p->v);
    const unsigned lane_bits = lanes_of_head(p, dim, rotary, (unsigned)p->elements);
    p->rows = tir_lanes(p->m) >> lane_bits;
    struct rope_shape *s = &p->rotated;
    s->dim = dim;
    s->packed = p->v->rope == ATT_ROPE_GPTJ;
    s->many = __builtin_popcount(rotary / 2) > ROPE_FEW_PIECES;
    add_pieces(p, s, 0, rotary / 2, lane_bits);
    s->n_rotated = s->n_pieces;
    if (p->even)
        add_pieces(p, s, rotary, (dim - rotary) / 2, lane_bits);
    else
        add_panels(p, s, rotary, lane_bits);
    s->n_parts = s->n_spans + (s->packed ? s->n_pieces : 0);
    add_plain(p, &p->gates, dim, lane_bits);
    add_plain(p, &p->values, (unsigned)p->v->head_dim_v, lane_bits);
}

unsigned rope_lane_elements(const struct rope *p, const struct rope_shape *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const unsigned packed = s->packed && i < s->n_pieces;
        n += 1u << (tir_layout_of(p->b.f, s->spans[i].heads)->reg_bits + packed);
    }
    return n;
}

struct tir_value rope_to_f32(struct rope *p, struct tir_value x)
{
    return tir_convert(&p->b, x, TIR_F32);
}

struct tir_value rope_short_nan(struct rope *p, struct tir_value x)
{
    struct tir_builder *b = &p->b;
    return tir_select(b, tir_cmp_eq(b, x, x), x, tir_float_like(b, x, NAN));
}

/* Returns the type of x with `dtype` (enum tir_dtype) instead of its own. */
static struct tir_type with_dtype(struct rope *p, struct tir_value x, unsigned dtype)
{
    return tir_with_dtype(tir_typeof(p->b.f, x), dtype);
}

/* Returns the 16-bit floats in the high halves, or the low halves, of the dwords `pairs`, as
 * f32. */
static struct tir_value half_of(struct rope *p, struct tir_value pairs, bool high)
{
    struct tir_builder *b = &p->b;
    if (p->dtype == TIR_BF16) {
        const struct tir_value bits = high ? tir_and(b, pairs, tir_int_like(b, pairs, -65536))
                                           : tir_shl(b, pairs, tir_int_like(b, pairs, 16));
        return tir_bitcast(b, bits, with_dtype(p, bits, TIR_F32));
    }
    if (high)
        pairs = tir_shr(b, pairs, tir_int_like(b, pairs, 16));
    const struct tir_value bits = tir_convert(b, pairs, TIR_I16);
    return rope_to_f32(p, tir_bitcast(b, bits, with_dtype(p, bits, p->dtype)));
}

struct rope_parts rope_unpack(struct rope *p, const struct rope_shape *s,
                              const struct tir_value *raw)
{
    struct rope_parts x;
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        if (s->packed && i < s->n_pieces) {
            x.v[n++] = half_of(p, raw[i], false);
            x.v[n++] = half_of(p, raw[i], true);
        } else {
            x.v[n++] = rope_to_f32(p, raw[i]);
        }
    }
    return x;
}

struct tir_value rope_join(struct rope *p, struct tir_value low, struct tir_value high)
{
    struct tir_builder *b = &p->b;
    const unsigned bits = tir_dtype_bits(tir_typeof(b->f, low).dtype);
    struct tir_value half[2] = {low, high};
    for (int i = 0; i < 2; i++) {
        const struct tir_type t = with_dtype(p, half[i], bits == 8 ? TIR_I8 : TIR_I16);
        half[i] = tir_zext(b, tir_bitcast(b, half[i], t), bits == 8 ? TIR_I16 : TIR_I32);
    }
    return tir_or(b, half[0], tir_shl(b, half[1], tir_int_like(b, half[1], bits)));
}

void rope_pack(struct rope *p, const struct rope_shape *s, const struct rope_parts *x,
               struct tir_value *raw)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        if (s->packed && i < s->n_pieces) {
            raw[i] = rope_join(p, x->v[n], x->v[n + 1]);
            n += 2;
        } else {
            raw[i] = x->v[n++];
        }
    }
}

void rope_convert(struct rope *p, const struct rope_shape *s, struct rope_parts *x, unsigned dtype)
{
    for (unsigned i = 0; i < s->n_parts; i++)
        x->v[i] = tir_convert_short(&p->b, x->v[i], dtype);
}

struct tir_value rope_repeat(struct rope *p, struct tir_value x, struct tir_value like)
{
    return tir_broadcast(&p->b, x, tir_typeof(p->b.f, like));
}

void rope_load(struct rope *p, const struct rope_shape *s, struct tir_value base,
               struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
               struct tir_value *raw)
{
    const int bytes = (int)s->dim * ROPE_ELEM;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const struct tir_view view =
            att_view(&p->b, base, end, stride, bytes, s->spans[i].first * ROPE_ELEM);
        raw[i] = tir_tile_load(&p->b, view, row, vector ? s->spans[i].vector : s->spans[i].heads);
    }
}

void rope_store(struct rope *p, const struct rope_shape *s, struct tir_value base,
                struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                const struct tir_value *raw)
{
    const int bytes = (int)s->dim * size;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const struct tir_view view =
            att_view(&p->b, base, end, stride, bytes, s->spans[i].first * size);
        tir_tile_store(&p->b, view, row, raw[i]);
    }
}

struct rope_tensor rope_open_tensor(struct rope *p, struct att_tensor t, int size)
{
    return (struct rope_tensor){
        .size = size,
        .base = tir_arg(&p->b, t.arg, TIR_I64),
        .token_stride = att_stride(&p->b, t.token_stride, size),
        .head_stride = att_stride32(&p->b, t.head_stride, size),
    };
}

void rope_open_source(struct rope *p, struct rope_source *s, enum rope_part part)
{
    const struct att_tensor in[] = {ATT_HEADS(Q), ATT_HEADS(K_IN), ATT_HEADS(V_IN)};
    s->in = rope_open_tensor(p, in[part], ROPE_ELEM);
    if (part == ROPE_Q)
        s->out = rope_open_tensor(p, ATT_HEADS(OUT), p->narrow_q ? 1 : ROPE_ELEM);
    if (part != ROPE_Q)
        p->cache[part - 1] = att_cache(&p->b, p->v, p->m, part == ROPE_V, tir_i32(&p->b, 0));
}

bool rope_opens_late(const struct rope *p)
{
    const struct att_variant *const v = p->v;
    return v->bias || v->kv_scale == ATT_KV_SCALE_TOKEN || v->norm == ATT_NORM_FULL;
}

void rope_open_kept(struct rope *p, struct rope_source *s, bool value)
{
    const struct att_tensor out[] = {ATT_HEADS(K_OUT), ATT_HEADS(V_OUT)};
    if (p->v->keep_kv && !s->out.size)
        s->out = rope_open_tensor(p, out[value], ROPE_ELEM);
}

struct tir_value rope_token_base(struct rope *p, const struct rope_tensor *t)
{
    struct tir_builder *b = &p->b;
    return tir_add(b, t->base, tir_mul(b, att_wide(b, p->token), t->token_stride));
}
