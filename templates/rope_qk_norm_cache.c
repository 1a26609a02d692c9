/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to the output of a layer's QKV projection before attention, in one pass over it:
 *
 *   x = x + bias                                  q, k, v
 *   x = x rsq(mean(x^2) + eps) w                  q, k: per head, or with a given sum of squares
 *   (a, b) = (a cos - b sin, b cos + a sin)       q, k: pairs of elements, by position
 *
 * q goes to its output, k and v to the slot of a paged cache. A wave takes one token at a time, so
 * that its position and its slot are scalars, and walks over the heads, a tile of them after the
 * other; the next tile is on its way while one is worked on. Where there are many tokens a wave
 * takes several, where there are few their heads are shared out over several waves.
 *
 * The elements a and b of a pair are two tiles with one layout: the rotation needs no cross-lane
 * traffic. NeoX pairs lie rotary_dim / 2 apart, which is two loads; GPT-J pairs are neighbours,
 * loaded as one dword and taken apart.
 */
#include "templates/cache.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEM = 2 /* bytes of bf16 and fp16 */, WAVES = 4, MAX_SPANS = 8, MAX_PARTS = MAX_SPANS + 1 };

/* Neighbouring elements of a head, held by one tile of heads x elements. */
struct span {
    int first;                 /* element of the head */
    struct tir_type heads;     /* as it is loaded: GPT-J pairs as dwords */
    struct tir_type vector;    /* one head's weights, cosines: the same columns */
};

/* How a tile of heads is held. The first two parts are the halves of the rotating pairs, where
 * there are any: spans 0 and 1, or both in span 0. */
struct shape {
    unsigned n_spans, n_parts;
    bool rotates, packed;
    struct span spans[MAX_SPANS];
};

/* A tile of heads by parts, each of them alike: f32, or what memory is to have. */
struct parts {
    struct tir_value v[MAX_PARTS];
};

struct rope {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype;
    int rows; /* heads a tile */
    struct shape rotated, plain;
    struct tir_value token;    /* i32 */
    struct tir_value slot;     /* i64, negative: nowhere */
    struct tir_value cos, sin; /* 1 x rotary_dim / 2 */
};

/* q, k or v: the heads of this wave, from `first` to `end`. */
struct source {
    const char *name; /* of the tensor, and of its stride arguments */
    const char *weight, *bias, *squares;
    const struct shape *shape;
    struct tir_value weights[MAX_SPANS]; /* of a norm per head: alike for all */
    struct tir_value first, end;
    struct tir_value base, stride; /* of the token: i64, i32 bytes */
};

static unsigned log2u(unsigned x) { return 31 - (unsigned)__builtin_clz(x); }

static bool is_power_of_two(int x) { return x > 0 && !(x & (x - 1)); }

static int rotary_dim(const struct att_variant *v)
{
    return v->rope == ATT_ROPE_NONE ? 0 : v->rotary_dim;
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    (void)m;
    const int rotary = rotary_dim(v);
    if (v->head_dim % 16 || v->head_dim > 512)
        return att_reject(why, ATT_HEAD_DIM,
                          "head_dim %d is not a multiple of 16 of at most 512", v->head_dim);
    if (rotary > v->head_dim)
        return att_reject(why, ATT_ROTARY_DIM, "rotary_dim %d is more than head_dim %d", rotary,
                          v->head_dim);
    if (rotary && (!is_power_of_two(rotary) || rotary < 16))
        return att_reject(why, ATT_ROTARY_DIM,
                          "rotary_dim %d is not a power of two of at least 16", rotary);
    if (v->gate && v->bias)
        return att_reject(why, ATT_GATE, "a gate has no bias: gate and bias exclude each other");
    if (rotary && v->kv_layout == ATT_KV_LAYOUT_SHUFFLE && rotary < 32)
        return att_reject(why, ATT_ROTARY_DIM, "rotary_dim %d: half of it has to be a multiple of "
                          "the elements that a SHUFFLE cache keeps together, 8 or 16", rotary);
    if (v->mrope != ATT_MROPE_NONE && !rotary)
        return att_reject(why, ATT_MROPE, "without rotation there are no sections of it");
    return att_cache_check(v, why);
}

/* Shapes. */

/* `columns` elements of 1 << lane_bits lanes, each with runs of 1 << run_bits; the other lanes, and
 * then registers, hold further heads. */
static struct tir_layout tile_layout(unsigned rows, unsigned columns, unsigned run_bits,
                                     unsigned lane_bits)
{
    struct tir_layout l = {.lane_bits = 6};
    unsigned n = 0, row = 1;
    uint32_t lanes[6];
    for (unsigned i = 0; i < 6; i++) {
        lanes[i] = i < lane_bits ? TIR_RC(0, 1u << (run_bits + i)) : TIR_RC(row, 0);
        row <<= i >= lane_bits;
    }
    for (unsigned c = 1; c < columns; c <<= 1)
        if (c < 1u << run_bits || c >= 1u << (run_bits + lane_bits))
            l.basis[n++] = TIR_RC(0, c);
    for (; row < rows; row <<= 1)
        l.basis[n++] = TIR_RC(row, 0);
    l.reg_bits = (uint8_t)n;
    memcpy(l.basis + n, lanes, sizeof(lanes));
    return l;
}

static void add_span(struct rope *p, struct shape *s, unsigned first, unsigned columns,
                     unsigned dtype, unsigned lane_bits)
{
    struct tir_func *f = p->b.f;
    const unsigned most = dtype == TIR_I32 ? 2 : 3, held = log2u(columns) - lane_bits;
    const struct tir_layout l =
        tile_layout((unsigned)p->rows, columns, held < most ? held : most, lane_bits);
    const struct tir_layout vector = tir_layout_slice(&l, 0);
    s->spans[s->n_spans++] = (struct span){
        .first = (int)first,
        .heads = tir_tile(f, dtype, (unsigned)p->rows, columns, &l),
        .vector = tir_tile(f, dtype, 1, columns, &vector),
    };
}

/* Elements from `first` on that do not rotate, in panels of power-of-two width. */
static void add_panels(struct rope *p, struct shape *s, unsigned first, unsigned lane_bits)
{
    for (unsigned left = (unsigned)p->v->head_dim - first; left; ) {
        const unsigned width = 1u << log2u(left);
        add_span(p, s, first, width, p->dtype, lane_bits);
        first += width;
        left -= width;
    }
}

static unsigned min_u(unsigned a, unsigned b) { return a < b ? a : b; }

/* Lanes that share a head: 16 elements each, of the rotating ones at least 4 in either half, or 2
 * where a lane would have too many of the others then. */
static unsigned lanes_of_head(unsigned dim, unsigned rotary)
{
    const unsigned most = log2u(min_u(dim / 16, 64));
    if (!rotary)
        return most;
    const unsigned wide = min_u(most, log2u(rotary / 8));
    return dim >> wide > 32 ? min_u(most, log2u(rotary / 4)) : wide;
}

/* The widest load is 16 bytes, and no lane is without an element of any panel. */
static void choose_shapes(struct rope *p)
{
    const unsigned dim = (unsigned)p->v->head_dim, rotary = (unsigned)rotary_dim(p->v);
    const unsigned narrowest = dim & -dim; /* a panel as narrow as this may come last */
    const unsigned lane_bits = lanes_of_head(dim, rotary);
    p->rows = 64 >> lane_bits;
    struct shape *s = &p->rotated;
    s->rotates = rotary != 0;
    s->packed = p->v->rope == ATT_ROPE_GPTJ;
    if (s->packed)
        add_span(p, s, 0, rotary / 2, TIR_I32, lane_bits);
    for (unsigned half = 0; half < 2 && s->rotates && !s->packed; half++)
        add_span(p, s, half * rotary / 2, rotary / 2, p->dtype, lane_bits);
    add_panels(p, s, rotary, lane_bits);
    s->n_parts = s->n_spans + s->packed;
    add_panels(p, &p->plain, 0, log2u(min_u(min_u(dim / 8, 64), narrowest)));
    p->plain.n_parts = p->plain.n_spans;
}

/* Values. */

static struct tir_value to_f32(struct rope *p, struct tir_value x)
{
    return tir_convert(&p->b, x, TIR_F32);
}

/* f32 from memory, of which a NaN gets a zero low half: what is computed from it and from 16-bit
 * data is then rounded without a check. */
static struct tir_value short_nan(struct rope *p, struct tir_value x)
{
    struct tir_builder *b = &p->b;
    return tir_select(b, tir_cmp_eq(b, x, x), x, tir_float_like(b, x, NAN));
}

static struct tir_type with_dtype(struct rope *p, struct tir_value x, unsigned dtype)
{
    struct tir_type t = tir_typeof(p->b.f, x);
    t.dtype = (uint8_t)dtype;
    return t;
}

/* The 16-bit floats in the low or high half of dwords. */
static struct tir_value half_of(struct rope *p, struct tir_value pairs, bool high)
{
    struct tir_builder *b = &p->b;
    if (p->dtype == TIR_BF16) {
        const struct tir_value bits = high
            ? tir_and(b, pairs, tir_int_like(b, pairs, -65536))
            : tir_shl(b, pairs, tir_int_like(b, pairs, 16));
        return tir_bitcast(b, bits, with_dtype(p, bits, TIR_F32));
    }
    if (high)
        pairs = tir_shr(b, pairs, tir_int_like(b, pairs, 16));
    const struct tir_value bits = tir_convert(b, pairs, TIR_I16);
    return to_f32(p, tir_bitcast(b, bits, with_dtype(p, bits, p->dtype)));
}

static struct parts unpack(struct rope *p, const struct shape *s, const struct tir_value *raw)
{
    struct parts x;
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        if (s->packed && i == 0) {
            x.v[n++] = half_of(p, raw[0], false);
            x.v[n++] = half_of(p, raw[0], true);
        } else {
            x.v[n++] = to_f32(p, raw[i]);
        }
    }
    return x;
}

/* Neighbours side by side: 8 or 16 bits each, in 16 or 32. */
static struct tir_value join(struct rope *p, struct tir_value low, struct tir_value high)
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

/* The parts as memory has them, span by span. */
static void pack(struct rope *p, const struct shape *s, const struct parts *x,
                 struct tir_value *raw)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        if (s->packed && i == 0) {
            raw[0] = join(p, x->v[0], x->v[1]);
            n = 2;
        } else {
            raw[i] = x->v[n++];
        }
    }
}

static void convert(struct rope *p, const struct shape *s, struct parts *x, unsigned dtype)
{
    for (unsigned i = 0; i < s->n_parts; i++)
        x->v[i] = tir_convert_short(&p->b, x->v[i], dtype);
}

static struct tir_value repeat(struct rope *p, struct tir_value x, struct tir_value like)
{
    return tir_broadcast(&p->b, x, tir_typeof(p->b.f, like));
}

/* Memory. */

static void load(struct rope *p, const struct shape *s, struct tir_value base,
                 struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
                 struct tir_value *raw)
{
    const int bytes = p->v->head_dim * ELEM;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const struct tir_view view =
            att_view(&p->b, base, end, stride, bytes, s->spans[i].first * ELEM);
        raw[i] = tir_tile_load(&p->b, view, row,
                               vector ? s->spans[i].vector : s->spans[i].heads);
    }
}

/* Elements of `size` bytes. */
static void store(struct rope *p, const struct shape *s, struct tir_value base,
                  struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                  const struct tir_value *raw)
{
    const int bytes = p->v->head_dim * size;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const struct tir_view view =
            att_view(&p->b, base, end, stride, bytes, s->spans[i].first * size);
        tir_tile_store(&p->b, view, row, raw[i]);
    }
}

static struct tir_value stride_of(struct rope *p, const char *tensor, const char *what, int size)
{
    char name[48];
    snprintf(name, sizeof(name), "%s_%s_stride", tensor, what);
    return att_stride(&p->b, name, size);
}

/* Where the token's heads begin. */
static struct tir_value token_base(struct rope *p, const char *tensor, int size)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at =
        tir_mul(b, att_wide(b, p->token), stride_of(p, tensor, "token", size));
    return tir_add(b, tir_arg(b, tensor, TIR_I64), at);
}

static struct tir_value head_stride(struct rope *p, const char *tensor, int size)
{
    return tir_convert(&p->b, stride_of(p, tensor, "head", size), TIR_I32);
}

static void fetch(struct rope *p, const struct source *s, struct tir_value row,
                  struct tir_value *raw)
{
    load(p, s->shape, s->base, s->end, s->stride, row, false, raw);
}

/* What a tensor [token, head, head_dim] gets. */
static void write_dense(struct rope *p, const struct source *s, const char *tensor,
                        int size, struct tir_value row, const struct tir_value *raw)
{
    store(p, s->shape, token_base(p, tensor, size), s->end, head_stride(p, tensor, size), size, row,
          raw);
}

/* Weights or biases [head, head_dim] of a tile of heads. */
static struct parts per_head(struct rope *p, const struct source *s, const char *tensor,
                             struct tir_value row)
{
    struct tir_builder *b = &p->b;
    struct tir_value raw[MAX_SPANS];
    const struct tir_value stride = tir_i32(b, p->v->head_dim * ELEM);
    load(p, s->shape, tir_arg(b, tensor, TIR_I64), s->end, stride, row, false, raw);
    return unpack(p, s->shape, raw);
}

/* Weights [head_dim], for every head of a tile. */
static void load_weights(struct rope *p, struct source *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value stride = tir_i32(b, p->v->head_dim * ELEM);
    if (p->v->norm == ATT_NORM_RMS || p->v->norm == ATT_NORM_GEMMA_RMS)
        load(p, s->shape, tir_arg(b, s->weight, TIR_I64), tir_i32(b, 1), stride, tir_i32(b, 0),
             true, s->weights);
}

/* Norm. */

static void add(struct rope *p, const struct shape *s, struct parts *x, const struct parts *y)
{
    for (unsigned i = 0; i < s->n_parts; i++)
        x->v[i] = tir_add(&p->b, x->v[i], y->v[i]);
}

/* 1 / rms of each head. */
static struct tir_value inverse_rms(struct rope *p, const struct shape *s, const struct parts *x)
{
    struct tir_builder *b = &p->b;
    struct tir_value sum = {0};
    for (unsigned i = 0; i < s->n_parts; i++) {
        struct tir_value square = tir_mul(b, x->v[i], x->v[i]);
        if (i == 0 && s->rotates) { /* pairs have one layout: one sum across lanes */
            i++;
            square = tir_fma(b, x->v[1], x->v[1], square);
        }
        const struct tir_value part = tir_row_sum(b, square);
        sum = sum.id ? tir_add(b, sum, part) : part;
    }
    const struct tir_type t = tir_typeof(b->f, sum);
    const struct tir_value eps = tir_splat(b, tir_arg(b, "eps", TIR_F32), t);
    const struct tir_value share = tir_float_like(b, sum, 1.0f / (float)p->v->head_dim);
    return tir_rsq(b, tir_fma(b, sum, share, eps));
}

static void normalise_heads(struct rope *p, const struct source *s, struct parts *x)
{
    struct tir_builder *b = &p->b;
    const struct parts weight = unpack(p, s->shape, s->weights);
    const struct tir_value inverse = inverse_rms(p, s->shape, x);
    for (unsigned i = 0; i < s->shape->n_parts; i++) {
        struct tir_value w = weight.v[i];
        if (p->v->norm == ATT_NORM_GEMMA_RMS)
            w = tir_add(b, w, tir_float_like(b, w, 1.0f));
        const struct tir_value scaled = tir_mul(b, x->v[i], repeat(p, inverse, x->v[i]));
        x->v[i] = tir_mul(b, scaled, repeat(p, w, x->v[i]));
    }
}

/* With norm full the sum of squares runs over the heads of all ranks: the caller has it. */
static struct tir_value given_inverse_rms(struct rope *p, const struct source *s)
{
    struct tir_builder *b = &p->b;
    char name[32];
    if (p->v->norm != ATT_NORM_FULL || !s->weight)
        return (struct tir_value){0};
    const struct tir_value at = tir_shl(b, p->token, tir_i32(b, 2));
    const struct tir_value sum =
        tir_scalar_load(b, tir_arg(b, s->squares, TIR_I64), at, TIR_F32);
    snprintf(name, sizeof(name), "%s_share", s->squares);
    const struct tir_value mean =
        tir_fma(b, sum, tir_arg(b, name, TIR_F32), tir_arg(b, "eps", TIR_F32));
    return short_nan(p, tir_rsq(b, mean));
}

static void normalise_all(struct rope *p, const struct source *s, struct tir_value row,
                          struct tir_value inverse, struct parts *x)
{
    struct tir_builder *b = &p->b;
    const struct parts w = per_head(p, s, s->weight, row);
    for (unsigned i = 0; i < s->shape->n_parts; i++) {
        const struct tir_value each = tir_splat(b, inverse, tir_typeof(b->f, x->v[i]));
        x->v[i] = tir_mul(b, tir_mul(b, x->v[i], each), w.v[i]);
    }
}

/* Rotation. */

static void rotate(struct rope *p, struct parts *x)
{
    struct tir_builder *b = &p->b;
    const struct tir_value c = repeat(p, p->cos, x->v[0]), s = repeat(p, p->sin, x->v[0]);
    const struct tir_value first = x->v[0], second = x->v[1];
    x->v[0] = tir_fma(b, first, c, tir_neg(b, tir_mul(b, second, s)));
    x->v[1] = tir_fma(b, second, c, tir_mul(b, first, s));
}

/* Cosines (0) or sines (1) of a position, f32. */
static struct tir_value load_angles(struct rope *p, struct tir_value position, int which)
{
    struct tir_builder *b = &p->b;
    const bool wide = p->v->cos_sin == ATT_COS_SIN_F32;
    const int half = rotary_dim(p->v) / 2, size = wide ? sizeof(float) : ELEM;
    const struct tir_value base = tir_add(b, tir_arg(b, "cos_sin", TIR_I64),
                                          tir_mul(b, position, tir_i64(b, 2 * half * size)));
    struct tir_type t = p->rotated.spans[0].vector;
    t.dtype = (uint8_t)(wide ? TIR_F32 : p->dtype);
    const struct tir_view view = att_view(b, base, tir_i32(b, 1), tir_i32(b, 2 * half * size),
                                          2 * half * size, which * half * size);
    return short_nan(p, to_f32(p, tir_tile_load(b, view, tir_i32(b, 0), t)));
}

static struct tir_value load_position(struct rope *p, int stream)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_shl(b, p->token, tir_i32(b, 3));
    struct tir_value base = tir_arg(b, "positions", TIR_I64);
    if (stream) {
        const struct tir_value step = att_stride(b, "positions_stride", sizeof(int64_t));
        base = tir_add(b, base, tir_mul(b, step, tir_i64(b, stream)));
    }
    return tir_scalar_load(b, base, at, TIR_I64);
}

static struct tir_value vector_of(struct rope *p, const char *arg, struct tir_value like)
{
    return tir_splat(&p->b, tir_arg(&p->b, arg, TIR_I32), tir_typeof(p->b.f, like));
}

/*
 * Which pairs have their angle of the second and of the third position. In sections: those behind
 * the first section_t, and behind section_h more. Interleaved: every third, as long as there are
 * some left.
 */
static void choose_streams(struct rope *p, struct tir_value of[3])
{
    struct tir_builder *b = &p->b;
    struct tir_type t = p->rotated.spans[0].vector;
    t.dtype = TIR_I32;
    const struct tir_value pair = tir_col_index(b, t);
    const struct tir_value h = vector_of(p, "section_h", pair);
    if (p->v->mrope == ATT_MROPE_SECTIONS) {
        const struct tir_value first = vector_of(p, "section_t", pair);
        of[1] = tir_cmp_ge(b, pair, first);
        of[2] = tir_cmp_ge(b, pair, tir_add(b, first, h));
        return;
    }
    const struct tir_value three = tir_int_like(b, pair, 3);
    const struct tir_value place = tir_rem(b, pair, three);
    const struct tir_value w = vector_of(p, "section_w", pair);
    of[1] = tir_and(b, tir_cmp_eq(b, place, tir_int_like(b, pair, 1)),
                    tir_cmp_lt(b, pair, tir_mul(b, h, three)));
    of[2] = tir_and(b, tir_cmp_eq(b, place, tir_int_like(b, pair, 2)),
                    tir_cmp_lt(b, pair, tir_mul(b, w, three)));
}

static void find_angles(struct rope *p)
{
    struct tir_value position = load_position(p, 0), of[3];
    p->cos = tir_named(&p->b, "cos", load_angles(p, position, 0));
    p->sin = tir_named(&p->b, "sin", load_angles(p, position, 1));
    if (p->v->mrope == ATT_MROPE_NONE)
        return;
    choose_streams(p, of);
    for (int i = 1; i < 3; i++) {
        position = load_position(p, i);
        p->cos = tir_select(&p->b, of[i], load_angles(p, position, 0), p->cos);
        p->sin = tir_select(&p->b, of[i], load_angles(p, position, 1), p->sin);
    }
}

/* What q and k go through; v only has its bias added. `inverse`: that of norm full. */
static void transform(struct rope *p, const struct source *s, struct tir_value inverse,
                      struct tir_value row, struct parts *x)
{
    if (p->v->bias) {
        const struct parts bias = per_head(p, s, s->bias, row);
        add(p, s->shape, x, &bias);
    }
    if (!s->weight)
        return;
    if (p->v->norm == ATT_NORM_FULL)
        normalise_all(p, s, row, inverse, x);
    else if (p->v->norm != ATT_NORM_NONE)
        normalise_heads(p, s, x);
    if (p->v->rope != ATT_ROPE_NONE)
        rotate(p, x);
}

/* The cache. */

/* The slot of the token in k or v. */
struct slot {
    struct att_cache cache;
    struct tir_value at;          /* i64: byte offset of the first head */
    struct tir_value head_stride; /* i64 bytes */
    struct tir_value scales;      /* i64: address of the first head's scale */
    struct tir_value scale_stride; /* i32 bytes from a head's scale to the next */
};

static struct slot open_slot(struct rope *p, bool value)
{
    struct tir_builder *b = &p->b;
    struct slot t = {.cache = att_cache(b, p->v, p->m, value, tir_i32(b, 0))};
    const struct att_cache *c = &t.cache;
    t.at = att_cache_slot_row(c, p->slot);
    t.head_stride = stride_of(p, value ? "v" : "k", "head", c->size);
    if (c->scaling == ATT_KV_SCALE_TOKEN || c->scaling == ATT_KV_SCALE_BLOCK) {
        t.scales = tir_add(b, c->scales, att_cache_scale_row(c, p->slot));
        t.scale_stride =
            tir_convert(b, att_stride(b, "scale_head_stride", sizeof(float)), TIR_I32);
    }
    return t;
}

/* One number for each head of a tile. */
static struct tir_type head_column(struct rope *p, const struct shape *s, unsigned dtype)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(p->b.f, s->spans[0].heads), 1);
    return tir_tile(p->b.f, dtype, (unsigned)p->rows, 1, &l);
}

/* The scales of a tile of heads, those of the slot or of its page. */
static struct tir_view scales_of(struct rope *p, const struct source *s, const struct slot *t)
{
    return att_view(&p->b, t->scales, s->end, t->scale_stride, sizeof(float), 0);
}

/* The factor that x is stored with; a scale per token is found here, and stored. */
static struct tir_value quantum(struct rope *p, const struct source *s, const struct slot *t,
                                struct tir_value row, const struct parts *x)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &t->cache;
    if (c->scaling == ATT_KV_SCALE_NONE)
        return (struct tir_value){0};
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        return att_cache_inverse(c, att_cache_tensor_scale(c));
    if (c->scaling == ATT_KV_SCALE_BLOCK)
        return att_cache_inverse(c, tir_tile_load(b, scales_of(p, s, t), row,
                                                  head_column(p, s->shape, TIR_F32)));
    struct tir_value absmax = att_absmax(b, x->v[0]);
    for (unsigned i = 1; i < s->shape->n_parts; i++)
        absmax = tir_max(b, absmax, att_absmax(b, x->v[i]));
    const struct tir_value scale = att_cache_scale_of(c, absmax);
    tir_tile_store(b, scales_of(p, s, t), row, scale);
    return att_cache_inverse(c, scale);
}

/* Byte offsets of a tile of heads; far below 0, and so skipped, from `end` on. */
static struct tir_value head_rows(struct rope *p, const struct source *s, const struct slot *t,
                                  struct tir_value row)
{
    struct tir_builder *b = &p->b;
    const struct tir_type column = head_column(p, s->shape, TIR_I32);
    const struct tir_value head =
        tir_add(b, tir_row_index(b, column), tir_splat(b, row, column));
    const struct tir_value last = tir_splat(b, att_plus(b, s->end, -1), column);
    const struct tir_value step =
        tir_splat(b, tir_convert(b, t->head_stride, TIR_I32), column);
    const struct tir_value within = tir_zext(b, tir_mul(b, head, step), TIR_I64);
    const struct tir_value at = tir_add(b, within, tir_splat(b, t->at, tir_typeof(b->f, within)));
    const struct tir_value sign = tir_convert(b, tir_sub(b, last, head), TIR_I64);
    return tir_or(b, at, tir_and(b, sign, tir_int_like(b, sign, INT64_MIN)));
}

static void scatter(struct rope *p, const struct source *s, const struct slot *t,
                    struct tir_value row, const struct tir_value *raw)
{
    const struct tir_value rows = head_rows(p, s, t, row);
    struct att_cache pairs = t->cache;
    pairs.x /= 2;
    pairs.size *= 2;
    for (unsigned i = 0; i < s->shape->n_spans; i++) {
        const bool packed = s->shape->packed && i == 0;
        att_cache_store(packed ? &pairs : &t->cache, rows, s->shape->spans[i].first, raw[i]);
    }
}

/* `raw` is x in the op's own dtype. */
static void write_cache(struct rope *p, const struct source *s, const struct slot *t,
                        struct tir_value row, const struct parts *x, const struct tir_value *raw)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &t->cache;
    struct tir_if some = tir_begin_if(b, tir_cmp_ge(b, p->slot, tir_i64(b, 0)), false, NULL, 0);
    struct tir_value stored[MAX_SPANS];
    memcpy(stored, raw, sizeof(stored));
    if (c->dtype != p->dtype) {
        const struct tir_value inverse = quantum(p, s, t, row, x);
        struct parts q = *x;
        for (unsigned i = 0; i < s->shape->n_parts; i++)
            q.v[i] = att_cache_quantise(c, x->v[i], inverse);
        pack(p, s->shape, &q, stored);
    }
    if (c->shuffle)
        scatter(p, s, t, row, stored);
    else
        store(p, s->shape, tir_add(b, c->base, t->at), s->end,
              tir_convert(b, t->head_stride, TIR_I32), c->size, row, stored);
    tir_else(b, &some, NULL);
    tir_end_if(b, &some, NULL);
}

/* Loops over heads. */

struct walk {
    struct tir_loop loop;
    struct tir_value raw[MAX_SPANS], next[MAX_SPANS];
    const struct source *s;
};

/* raw[] holds the first tile; the loop's index is the tile's first head. */
static void begin_walk(struct rope *p, const struct source *s, const struct tir_value *first,
                       struct walk *w)
{
    struct tir_builder *b = &p->b;
    w->s = s;
    memcpy(w->raw, first, sizeof(w->raw));
    w->loop = tir_begin_for(b, s->first, s->end, tir_i32(b, p->rows), w->raw, s->shape->n_spans);
    fetch(p, s, att_plus(b, w->loop.index, p->rows), w->next);
}

static void end_walk(struct rope *p, struct walk *w)
{
    tir_end_for(&p->b, &w->loop, w->next, w->s->shape->n_spans);
}

static void visit_q(struct rope *p, const struct source *s, const struct tir_value *first)
{
    struct tir_builder *b = &p->b;
    const struct tir_value inverse_rms = given_inverse_rms(p, s);
    const bool narrow = p->v->out_dtype == ATT_OUT_DTYPE_FP8;
    struct tir_value inverse = {0};
    if (narrow)
        inverse = tir_rcp(b, tir_scalar_load(b, tir_arg(b, "out_scale", TIR_I64), tir_i32(b, 0),
                                             TIR_F32));
    struct walk w;
    begin_walk(p, s, first, &w);
    struct parts x = unpack(p, s->shape, w.raw);
    transform(p, s, inverse_rms, w.loop.index, &x);
    for (unsigned i = 0; i < s->shape->n_parts && narrow; i++)
        x.v[i] = tir_mul(b, x.v[i], tir_splat(b, inverse, tir_typeof(b->f, x.v[i])));
    convert(p, s->shape, &x, narrow ? TIR_FP8 : p->dtype);
    pack(p, s->shape, &x, w.raw);
    write_dense(p, s, "out", narrow ? 1 : ELEM, w.loop.index, w.raw);
    end_walk(p, &w);
}

static void visit_kv(struct rope *p, const struct source *s, const struct tir_value *first,
                     bool value)
{
    const struct tir_value inverse_rms = given_inverse_rms(p, s);
    const struct slot slot = open_slot(p, value);
    struct walk w;
    begin_walk(p, s, first, &w);
    struct parts x = unpack(p, s->shape, w.raw);
    if (!value || p->v->bias) {
        transform(p, s, inverse_rms, w.loop.index, &x);
        struct parts rounded = x;
        convert(p, s->shape, &rounded, p->dtype);
        pack(p, s->shape, &rounded, w.raw);
    }
    if (p->v->keep_kv)
        write_dense(p, s, value ? "v_out" : "k_out", ELEM, w.loop.index, w.raw);
    write_cache(p, s, &slot, w.loop.index, &x, w.raw);
    end_walk(p, &w);
}

/* The second half of each head of q, which goes where it is told, unchanged. */
static void visit_gate(struct rope *p, const struct source *q)
{
    struct source s = *q;
    s.shape = &p->plain;
    s.base = tir_add(&p->b, q->base, tir_i64(&p->b, p->v->head_dim * ELEM));
    struct tir_value first[MAX_SPANS];
    struct walk w;
    fetch(p, &s, s.first, first);
    begin_walk(p, &s, first, &w);
    write_dense(p, &s, "gate", ELEM, w.loop.index, w.raw);
    end_walk(p, &w);
}

/* This wave's share of so many heads, in whole tiles: its first head and one past its last. */
static void share_out(struct rope *p, const char *heads, struct source *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value all = tir_arg(b, heads, TIR_I32);
    const struct tir_value parts = tir_arg(b, "head_parts", TIR_I32);
    const struct tir_value even =
        tir_div(b, att_plus(b, tir_add(b, all, parts), -1), parts);
    const struct tir_value share =
        tir_and(b, att_plus(b, even, p->rows - 1), tir_i32(b, -p->rows));
    s->first = tir_mul(b, tir_block_id(b, 1), share);
    s->end = tir_min(b, all, tir_add(b, s->first, share));
}

/* The token's heads, and the first tile of them on its way. */
static void open_token(struct rope *p, struct source *s, struct tir_value *first)
{
    s->base = token_base(p, s->name, ELEM);
    s->stride = head_stride(p, s->name, ELEM);
    fetch(p, s, s->first, first);
}

/* No slots: nothing is cached. */
static void load_slot(struct rope *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_scalar(TIR_I64);
    const struct tir_value slots = tir_arg(b, "slot_mapping", TIR_I64);
    struct tir_if some =
        tir_begin_if(b, tir_cmp_ne(b, slots, tir_i64(b, 0)), false, &t, 1);
    const struct tir_value slot =
        tir_scalar_load(b, slots, tir_shl(b, p->token, tir_i32(b, 3)), TIR_I64);
    tir_else(b, &some, &slot);
    p->slot = tir_i64(b, -1);
    tir_end_if(b, &some, &p->slot);
}

static void visit_token(struct rope *p, struct source of[3])
{
    struct tir_value first[3][MAX_SPANS];
    for (int i = 0; i < 3; i++)
        open_token(p, &of[i], first[i]);
    if (p->v->rope != ATT_ROPE_NONE)
        find_angles(p);
    load_slot(p);
    visit_q(p, &of[0], first[0]);
    if (p->v->gate)
        visit_gate(p, &of[0]);
    visit_kv(p, &of[1], first[1], false);
    visit_kv(p, &of[2], first[2], true);
}

/* The tokens of this wave, one after the other. */
static void visit_tokens(struct rope *p)
{
    struct tir_builder *b = &p->b;
    struct source of[3] = {
        {.name = "q", .weight = "q_weight", .bias = "q_bias", .squares = "q_squares",
         .shape = &p->rotated},
        {.name = "k_in", .weight = "k_weight", .bias = "k_bias", .squares = "k_squares",
         .shape = &p->rotated},
        {.name = "v_in", .bias = "v_bias", .shape = &p->plain},
    };
    for (int i = 0; i < 3; i++) {
        share_out(p, i ? "kv_heads" : "heads", &of[i]);
        if (of[i].weight)
            load_weights(p, &of[i]);
    }
    const struct tir_value none = tir_cmp_eq(b, tir_arg(b, "v_in", TIR_I64), tir_i64(b, 0));
    of[2].end = tir_select(b, none, tir_i32(b, 0), of[2].end);

    const struct tir_value wave =
        tir_add(b, att_times(b, tir_block_id(b, 0), WAVES), tir_wave_id(b));
    const struct tir_value run = tir_arg(b, "run_tokens", TIR_I32);
    const struct tir_value first = tir_mul(b, wave, run);
    const struct tir_value end =
        tir_min(b, tir_add(b, first, run), tir_arg(b, "tokens", TIR_I32));
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    p->token = loop.index;
    visit_token(p, of);
    tir_end_for(b, &loop, NULL, 0);
}

/* By the elements that a lane holds: of a tile in f32, of the next one on its way, of weights and
 * angles, and of the first tiles of k and v. */
static unsigned waves_per_simd(const struct rope *p)
{
    const int held = p->rows * p->v->head_dim / 64;
    return held > 32 ? 1 : held > 16 ? 2 : 4;
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    char name[ATT_NAME_MAX];
    struct rope p = {.v = v, .m = m, .dtype = att_dtype(v)};
    att_variant_name(v, name);
    struct tir_func *f = tir_func_create(name, m, WAVES);
    p.b = tir_at_end(f, f->body);
    choose_shapes(&p);
    f->waves_per_simd = waves_per_simd(&p);
    visit_tokens(&p);
    tir_return(&p.b);

    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .n_phases = 1, .interleave = 0},
        .grid = {{"token_runs", WAVES, 1}, {"head_parts", 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "tokens=%d heads=%d", WAVES, p.rows);
}

const struct att_template att_template_rope_qk_norm_cache = {
    .name = "rope_qk_norm_cache",
    .description = "bias, QK norm, rotary embedding and KV cache write in one pass",
    .takes = ATT_BIT(DTYPE) | ATT_BIT(HEAD_DIM) | ATT_BIT(KV_DTYPE) |
             ATT_BIT(KV_LAYOUT) | ATT_BIT(KV_SCALE) | ATT_BIT(ROPE) | ATT_BIT(ROTARY_DIM) |
             ATT_BIT(MROPE) | ATT_BIT(COS_SIN) | ATT_BIT(NORM) | ATT_BIT(BIAS) | ATT_BIT(GATE) |
             ATT_BIT(KEEP_KV) | ATT_BIT(OUT_DTYPE),
    .check = check,
    .build = build,
};
