/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotation of pairs by the angles of the token's position, or of its three positions.
 */
#include "templates/rope.h"
#include "templates/scalar.h"

void rope_rotate(struct rope *p, struct rope_parts *x)
{
    struct tir_builder *b = &p->b;
    const struct tir_value c = rope_repeat(p, p->cos, x->v[0]), s = rope_repeat(p, p->sin, x->v[0]);
    const struct tir_value first = x->v[0], second = x->v[1];
    x->v[0] = tir_fma(b, first, c, tir_neg(b, tir_mul(b, second, s)));
    x->v[1] = tir_fma(b, second, c, tir_mul(b, first, s));
}

/* Cosines (0) or sines (1) of a position, f32. */
static struct tir_value load_angles(struct rope *p, struct tir_value position, int which)
{
    struct tir_builder *b = &p->b;
    const bool wide = p->v->cos_sin == ATT_COS_SIN_F32;
    const int half = rope_rotary_dim(p->v) / 2, size = wide ? sizeof(float) : ROPE_ELEM;
    const struct tir_value base = tir_add(b, tir_arg(b, "cos_sin", TIR_I64),
                                          tir_mul(b, position, tir_i64(b, 2 * half * size)));
    struct tir_type t = p->rotated.spans[0].vector;
    t.dtype = (uint8_t)(wide ? TIR_F32 : p->dtype);
    const struct tir_view view = att_view(b, base, tir_i32(b, 1), tir_i32(b, 2 * half * size),
                                          2 * half * size, which * half * size);
    return rope_short_nan(p, rope_to_f32(p, tir_tile_load(b, view, tir_i32(b, 0), t)));
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

void rope_find_angles(struct rope *p)
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
