/* SPDX-License-Identifier: Apache-2.0
 *
 * This file rotates pairs of elements by the angles of the token's position, or with mrope of its
 * three positions.
 */
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

void rope_rotate(struct rope *p, struct rope_parts *x)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->rotated.n_rotated; i++) {
        struct tir_value *const pair = &x->v[2 * i], first = pair[0], second = pair[1];
        const struct tir_value c = rope_repeat(p, p->cos[i], first);
        const struct tir_value s = rope_repeat(p, p->sin[i], first);
        pair[0] = tir_fma(b, first, c, tir_neg(b, tir_mul(b, second, s)));
        pair[1] = tir_fma(b, second, c, tir_mul(b, first, s));
    }
}

/* Returns the tile type of one number for each pair of piece `piece` (index): 1 x pairs, in the
 * layout of heads. Sets *first to the index in the head of the piece's first pair. */
static struct tir_type pairs_of(const struct rope *p, unsigned piece, int *first)
{
    const struct rope_shape *s = &p->rotated;
    const struct rope_span *span = &s->spans[s->packed ? piece : 2 * piece];
    *first = s->packed ? span->first / 2 : span->first;
    return span->vector;
}

/* Issues the loads of cosines, or of sines if `which` is 1, for the pairs of piece `piece` (index).
 * `position` (i64) is the row of the table. The result has the table's dtype. */
static struct tir_value load_angles(struct rope *p, struct tir_value position, unsigned piece,
                                    int which)
{
    struct tir_builder *b = &p->b;
    const bool wide = p->v->cos_sin == ATT_COS_SIN_F32;
    const int half = rope_rotary_dim(p->v) / 2, size = wide ? sizeof(float) : ROPE_ELEM;
    const struct tir_value base =
        att_at(b, ARG_COS_SIN, tir_mul(b, position, tir_i64(b, 2 * half * size)));
    int first;
    struct tir_type t = pairs_of(p, piece, &first);
    t.dtype = (uint8_t)rope_angle_dtype(p);
    const struct tir_view view = att_view(b, base, tir_i32(b, 1), tir_i32(b, 2 * half * size),
                                          2 * half * size, (which * half + first) * size);
    return tir_tile_load(b, view, tir_i32(b, 0), t);
}

unsigned rope_angle_dtype(const struct rope *p)
{
    return p->v->cos_sin == ATT_COS_SIN_F32 ? TIR_F32 : p->dtype;
}

/* Returns loaded cosines or sines x as f32, with NaNs that rope_short_nan() has replaced. */
static struct tir_value widen(struct rope *p, struct tir_value x)
{
    return rope_short_nan(p, rope_to_f32(p, x));
}

/* Loads position `stream` (0 to 2, i64) of token p->token. Only mrope has positions 1 and 2. */
static struct tir_value load_position(struct rope *p, int stream)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_shl(b, p->token, tir_i32(b, 3));
    struct tir_value base = tir_arg(b, ARG_POSITIONS, TIR_I64);
    if (stream) {
        const struct tir_value step = att_stride(b, ARG_POSITIONS_STRIDE, sizeof(int64_t));
        base = tir_add(b, base, tir_mul(b, step, tir_i64(b, stream)));
    }
    return tir_scalar_load(b, base, at, TIR_I64);
}

/* Returns the i32 argument `arg` in every element of the type of `like`. */
static struct tir_value vector_of(struct rope *p, const char *arg, struct tir_value like)
{
    return att_like(&p->b, tir_arg(&p->b, arg, TIR_I32), like);
}

/* Returns a mask (i32): all bits set in elements with a < b, else 0. a - b must not overflow. A
 * mask takes a vector register; a comparison's result would take two scalar registers, which are
 * scarce. */
static struct tir_value less(struct rope *p, struct tir_value a, struct tir_value b)
{
    const struct tir_value difference = tir_sub(&p->b, a, b);
    return tir_sar(&p->b, difference, tir_int_like(&p->b, difference, 31));
}

/* Returns, element by element, b where `mask` (a result of less()) is set, and a where it is
 * not. */
static struct tir_value choose(struct rope *p, struct tir_value mask, struct tir_value a,
                               struct tir_value b)
{
    struct tir_builder *o = &p->b;
    const struct tir_type bits = tir_typeof(o->f, mask), number = tir_typeof(o->f, a);
    const struct tir_value from = tir_bitcast(o, a, bits), to = tir_bitcast(o, b, bits);
    const struct tir_value differ = tir_and(o, tir_xor(o, from, to), mask);
    return tir_bitcast(o, tir_xor(o, from, differ), number);
}

/* Sets of[1] and of[2] to masks of pairs in piece `piece`: the pairs whose angle belongs to the
 * second, and to the third, position of mrope. In sections: pairs from index section_t on, and
 * pairs from section_t + section_h on. Interleaved: pairs with an index of 1 or 2 modulo 3, up to
 * the section's length. */
static void choose_streams(struct rope *p, unsigned piece, struct tir_value of[3])
{
    struct tir_builder *b = &p->b;
    int before;
    const struct tir_type t = tir_with_dtype(pairs_of(p, piece, &before), TIR_I32);
    const struct tir_value column = tir_col_index(b, t);
    const struct tir_value pair = tir_add(b, column, tir_int_like(b, column, before));
    const struct tir_value h = vector_of(p, ARG_SECTION_H, pair);
    if (p->v->mrope == ATT_MROPE_SECTIONS) {
        const struct tir_value last =
            tir_sub(b, vector_of(p, ARG_SECTION_T, pair), tir_int_like(b, pair, 1));
        of[1] = less(p, last, pair);
        of[2] = less(p, tir_add(b, last, h), pair);
        return;
    }
    const struct tir_value three = tir_int_like(b, pair, 3);
    const struct tir_value place = tir_rem(b, pair, three);
    const struct tir_value w = vector_of(p, ARG_SECTION_W, pair);
    const struct tir_value one = tir_int_like(b, place, 1);
    const struct tir_value third = less(p, one, place);
    const struct tir_value second = tir_and(b, less(p, tir_int_like(b, place, 0), place),
                                            tir_xor(b, third, tir_int_like(b, third, -1)));
    of[1] = tir_and(b, second, less(p, pair, tir_mul(b, h, three)));
    of[2] = tir_and(b, third, less(p, pair, tir_mul(b, w, three)));
}

/* Sets p->cos and p->sin (f32) for the pairs of piece `piece` (index). With mrope, a pair's section
 * selects the position that determines the angle. */
static void find_piece(struct rope *p, unsigned piece, const struct tir_value position[3])
{
    struct tir_value of[3], cos = widen(p, load_angles(p, position[0], piece, 0));
    struct tir_value sin = widen(p, load_angles(p, position[0], piece, 1));
    if (p->v->mrope != ATT_MROPE_NONE) {
        choose_streams(p, piece, of);
        for (int i = 1; i < 3; i++) {
            cos = choose(p, of[i], cos, widen(p, load_angles(p, position[i], piece, 0)));
            sin = choose(p, of[i], sin, widen(p, load_angles(p, position[i], piece, 1)));
        }
    }
    p->cos[piece] = tir_named(&p->b, "cos", cos);
    p->sin[piece] = tir_named(&p->b, "sin", sin);
}

void rope_load_positions(struct rope *p)
{
    const int streams = p->v->mrope == ATT_MROPE_NONE ? 1 : 3;
    for (int i = 0; i < streams; i++)
        p->position[i] = load_position(p, i);
}

void rope_load_angles(struct rope *p)
{
    for (unsigned i = 0; i < p->rotated.n_rotated; i++) {
        p->cos[i] = load_angles(p, p->position[0], i, 0);
        p->sin[i] = load_angles(p, p->position[0], i, 1);
    }
}

void rope_widen_angles(struct rope *p)
{
    for (unsigned i = 0; i < p->rotated.n_rotated; i++) {
        p->cos[i] = tir_named(&p->b, "cos", widen(p, p->cos[i]));
        p->sin[i] = tir_named(&p->b, "sin", widen(p, p->sin[i]));
    }
}

void rope_find_angles(struct rope *p)
{
    rope_load_positions(p);
    for (unsigned i = 0; i < p->rotated.n_rotated; i++)
        find_piece(p, i, p->position);
}
