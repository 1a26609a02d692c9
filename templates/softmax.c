/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/softmax.h"

static const float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

struct att_softmax att_softmax(struct tir_builder *b, struct tir_type scores,
                               struct tir_value exponent)
{
    const struct tir_layout *l = tir_layout_of(b->f, scores);
    const struct tir_layout column = tir_layout_slice(l, 0);
    unsigned rows;
    const struct tir_layout folded = tir_layout_fold_rows(l, &rows);
    struct att_softmax s = {
        .scores = scores,
        .vector = tir_tile(b->f, TIR_F32, 1, scores.cols, &column),
        .folded = tir_tile(b->f, TIR_F32, rows, scores.cols, &folded),
        .exponent = exponent,
    };
    const struct tir_value one = tir_f32(b, 1.0f);
    s.lowest = tir_mul(b, tir_f32(b, -3e38f), tir_rcp(b, tir_max(b, exponent, one)));
    /* 2^8 of head room: O and l grow by that much at most before the maximum follows. */
    s.threshold = tir_mul(b, tir_f32(b, 8.0f), tir_rcp(b, exponent));
    return s;
}

struct att_softmax_tile att_softmax_head(struct tir_builder *b, const struct att_softmax *s,
                                         struct tir_value scores, struct tir_value m)
{
    struct att_softmax_tile r;
    const struct tir_value top = tir_max(b, m, tir_col_max(b, tir_col_fold_max(b, scores)));
    const struct tir_value limit = tir_add(b, m, tir_splat(b, s->threshold, s->vector));
    r.grown = tir_any(b, tir_cmp_gt(b, top, limit));
    const struct tir_value exponent = tir_splat(b, s->exponent, s->vector);
    const struct tir_value fall =
        tir_select(b, r.grown, tir_sub(b, m, top), tir_float_like(b, m, 0.0f));
    r.alpha = tir_exp2(b, tir_mul(b, fall, exponent));
    r.m = tir_named(b, "m", tir_select(b, r.grown, top, m));
    const struct tir_value shift =
        tir_broadcast(b, tir_neg(b, tir_mul(b, r.m, exponent)), s->scores);
    r.p = tir_named(b, "p",
                    tir_exp2(b, tir_fma(b, scores, tir_splat(b, s->exponent, s->scores), shift)));
    return r;
}

void att_softmax_rescale(struct tir_builder *b, const struct att_softmax_tile *h,
                         struct tir_value *o, struct tir_value *l)
{
    const struct tir_type t[] = {tir_typeof(b->f, *o), tir_typeof(b->f, *l)};
    struct tir_if branch = tir_begin_if(b, h->grown, true, t, 2);
    const struct tir_value scaled[] = {
        tir_mul(b, *o, tir_broadcast(b, h->alpha, t[0])),
        tir_mul(b, *l, tir_broadcast(b, h->alpha, t[1])),
    };
    tir_else(b, &branch, scaled);
    struct tir_value both[] = {*o, *l};
    tir_end_if(b, &branch, both);
    *o = both[0];
    *l = both[1];
}

struct att_softmax_end att_softmax_finish(struct tir_builder *b, const struct att_softmax *s,
                                          struct tir_value m, struct tir_value l,
                                          struct tir_value sink)
{
    struct att_softmax_end e = {
        .m = tir_mul(b, m, tir_splat(b, s->exponent, s->vector)),
        .l = tir_col_sum(b, l),
    };
    struct tir_value factor = tir_float_like(b, e.l, 1.0f);
    if (sink.id) {
        const bool one = tir_typeof(b->f, sink).kind == TIR_SCALAR;
        const struct tir_value each = one ? tir_splat(b, sink, s->vector) : sink;
        const struct tir_value power = tir_mul(b, each, tir_float_like(b, each, LOG2E));
        const struct tir_value top = tir_max(b, e.m, power);
        factor = tir_exp2(b, tir_sub(b, e.m, top));
        e.l = tir_add(b, tir_mul(b, e.l, factor), tir_exp2(b, tir_sub(b, power, top)));
        e.m = top;
    }
    const struct tir_value zero = tir_float_like(b, e.l, 0.0f);
    e.inverse = tir_select(b, tir_cmp_gt(b, e.l, zero), tir_mul(b, factor, tir_rcp(b, e.l)), zero);
    return e;
}

struct tir_value att_softmax_lse(struct tir_builder *b, const struct att_softmax_end *e)
{
    return tir_mul(b, tir_add(b, e->m, tir_log2(b, e->l)), tir_float_like(b, e->l, LN2));
}

/* tanh(y) = 1 - 2 / (e^2y + 1). */
struct tir_value att_soft_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                              struct tir_value rate)
{
    const struct tir_type t = tir_typeof(b->f, s);
    const struct tir_value twice = tir_mul(b, rate, tir_f32(b, 2 * LOG2E));
    const struct tir_value e = tir_exp2(b, tir_mul(b, s, tir_splat(b, twice, t)));
    const struct tir_value r = tir_rcp(b, tir_add(b, e, tir_float_like(b, e, 1.0f)));
    const struct tir_value down = tir_splat(b, tir_mul(b, cap, tir_f32(b, -2.0f)), t);
    return tir_fma(b, r, down, tir_splat(b, cap, t));
}
