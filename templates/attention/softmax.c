/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/attention/softmax.h"

#include "templates/workgroup/scalar.h"

#include <float.h>
#include <math.h>

static const float LOWEST = -3e38f;

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
        .room = 8, /* weights are at most 2^8 before m is updated */
    };
    return s;
}

void att_softmax_range_fp8(const struct tir_builder *b, struct att_softmax *s)
{
    enum { FOLLOW = 4 };
    static const float LOG2_15 = 3.9068906f, LOG2_28 = 4.8073549f;
    s->rise = b->f->machine->fp8_is_fnuz ? LOG2_15 : LOG2_28;
    s->room = s->rise + FOLLOW; /* log2 of the largest fp8 number: 240 (fnuz) or 448 */
}

struct tir_value att_softmax_lowest(struct tir_builder *b, const struct att_softmax *s)
{
    return tir_splat(b, tir_f32(b, LOWEST), s->vector);
}

/* Returns an i1 for each element of `top`, the largest scores of each lane: true if the score
 * exceeds its query's m by more than the threshold. m is 1 x queries. */
static struct tir_value has_grown(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value top, struct tir_value m)
{
    const struct tir_value below = tir_broadcast(b, tir_neg(b, m), s->folded);
    const struct tir_value above = tir_fma(b, top, tir_splat(b, s->exponent, s->folded), below);
    return tir_cmp_gt(b, above,
                      s->threshold.id ? tir_splat(b, s->threshold, s->folded)
                                      : tir_float_like(b, above, s->room));
}

struct tir_value att_softmax_grown(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value scores, struct tir_value m)
{
    const struct tir_value grown = has_grown(b, s, tir_col_fold_max(b, scores), m);
    return s->threshold.id ? tir_lane_count(b, grown) : tir_any(b, grown);
}

struct tir_value att_softmax_next(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m)
{
    const struct tir_value max = tir_col_max(b, scores);
    const struct tir_value exponents =
        s->exponents.id ? s->exponents : tir_splat(b, s->exponent, s->vector);
    const struct tir_value top = s->rise > 0
                                     ? tir_fma(b, max, exponents, tir_float_like(b, max, -s->rise))
                                     : tir_mul(b, max, exponents);
    return tir_max(b, m, top);
}

struct att_softmax_step att_softmax_maximum(struct tir_builder *b, const struct att_softmax *s,
                                            struct tir_value scores, struct tir_value alpha,
                                            struct tir_value *m)
{
    const struct tir_value top = tir_col_fold_max(b, scores);
    struct att_softmax_step r = {.grown = tir_any(b, has_grown(b, s, top, *m))};

    const struct tir_type t[] = {s->vector, s->vector};
    struct tir_if follow = tir_begin_if(b, r.grown, true, t, 2);
    const struct tir_value next = att_softmax_next(b, s, top, *m);
    struct tir_value factor = tir_exp2(b, tir_sub(b, *m, next));
    if (s->from_zero) {
        const struct tir_value first = tir_cmp_lt(b, *m, tir_float_like(b, *m, LOWEST / 2));
        factor = tir_select(b, first, tir_float_like(b, factor, 1.0f), factor);
    }
    tir_else(b, &follow, (struct tir_value[]){next, factor});
    struct tir_value both[] = {*m, alpha};
    tir_end_if(b, &follow, both);
    *m = tir_named(b, "m", both[0]);
    r.alpha = both[1];
    return r;
}

struct tir_value att_softmax_exponent(struct tir_builder *b, const struct att_softmax *s,
                                      struct tir_value scores, struct tir_value m)
{
    const struct tir_value up = s->exponents.id ? tir_broadcast(b, s->exponents, s->scores)
                                                : tir_splat(b, s->exponent, s->scores);
    return tir_fma(b, scores, up, tir_broadcast(b, tir_neg(b, m), s->scores));
}

struct tir_value att_softmax_fall(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m)
{
    const struct tir_value down = s->exponents.id
                                      ? tir_broadcast(b, tir_neg(b, s->exponents), s->scores)
                                      : tir_splat(b, tir_neg(b, s->exponent), s->scores);
    return tir_fma(b, scores, down, tir_broadcast(b, m, s->scores));
}

/* Returns x (rows x queries) with each column multiplied by that query's alpha (1 x queries). A
 * query may be in other lanes in x than in alpha. */
static struct tir_value follow(struct tir_builder *b, struct tir_value x, struct tir_value alpha)
{
    const struct tir_type t = tir_typeof(b->f, x);
    const struct tir_layout own = tir_layout_slice(tir_layout_of(b->f, t), 0);
    if (!tir_layout_equal(&own, tir_layout_of(b->f, tir_typeof(b->f, alpha))))
        alpha = tir_relayout(b, alpha, &own);
    return tir_mul(b, x, tir_broadcast(b, alpha, t));
}

void att_softmax_rescale(struct tir_builder *b, const struct att_softmax_step *step,
                         struct tir_value *x, struct tir_value *y)
{
    const struct tir_type t[] = {tir_typeof(b->f, *x), tir_typeof(b->f, *y)};
    struct tir_if branch = tir_begin_if(b, step->grown, true, t, 2);
    const struct tir_value scaled[] = {follow(b, *x, step->alpha), follow(b, *y, step->alpha)};
    tir_else(b, &branch, scaled);
    struct tir_value both[] = {*x, *y};
    tir_end_if(b, &branch, both);
    *x = both[0];
    *y = both[1];
}

void att_softmax_rescale_some(struct tir_builder *b, const struct att_softmax_step *step,
                              struct tir_value *l, struct tir_value *o)
{
    const struct tir_type t[] = {tir_typeof(b->f, *l), tir_typeof(b->f, *o)};
    struct tir_if branch = tir_begin_if(b, step->grown, true, t, 2);
    struct tir_value scaled[] = {*l, *o};
    const struct att_softmax_step some = {
        .grown = tir_any(b, tir_cmp_ne(b, *l, tir_float_like(b, *l, 0.0f))), .alpha = step->alpha};
    att_softmax_rescale(b, &some, &scaled[0], &scaled[1]);
    tir_else(b, &branch, scaled);
    struct tir_value both[] = {*l, *o};
    tir_end_if(b, &branch, both);
    *l = both[0];
    *o = both[1];
}

struct att_softmax_end att_softmax_finish(struct tir_builder *b, const struct att_softmax *s,
                                          struct tir_value m, struct tir_value l,
                                          struct tir_value sink)
{
    struct att_softmax_end e = {
        .m = m,
        .l = tir_col_sum(b, l),
    };
    struct tir_value factor = tir_float_like(b, e.l, 1.0f);
    if (sink.id) {
        const bool one = tir_typeof(b->f, sink).kind == TIR_SCALAR;
        const struct tir_value each = one ? tir_splat(b, sink, s->vector) : sink;
        const struct tir_value power = tir_mul(b, each, tir_float_like(b, each, ATT_LOG2E));
        const struct tir_value top = tir_max(b, e.m, power);
        /* A sink equal to the maximum has weight 1. This covers an infinite sink, whose difference
         * from itself would be a NaN. */
        const struct tir_value is_top = tir_cmp_eq(b, power, top);
        const struct tir_value weight = tir_select(b, is_top, tir_float_like(b, power, 1.0f),
                                                   tir_exp2(b, tir_sub(b, power, top)));
        factor = tir_exp2(b, tir_sub(b, e.m, top));
        e.l = tir_add(b, tir_mul(b, e.l, factor), weight);
        e.m = top;
    }
    /* For a query without a visible key l is 0, and the factor makes the inverse 0 too. */
    const struct tir_value divisor = tir_max(b, e.l, tir_float_like(b, e.l, FLT_MIN));
    e.inverse = tir_mul(b, factor, tir_rcp(b, divisor));
    return e;
}

struct tir_type att_softmax_column(struct tir_builder *b, const struct att_softmax *s)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, s->vector));
    return tir_tile(b->f, TIR_F32, s->vector.cols, 1, &l);
}

struct tir_value att_softmax_sinks(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value head, struct tir_value final)
{
    const struct tir_value wide = tir_convert(b, head, TIR_I64);
    const struct tir_value sink = tir_tile_gather(b, tir_arg(b, ARG_SINKS, TIR_I64),
                                                  tir_shl(b, wide, tir_int_like(b, wide, 2)),
                                                  tir_i32(b, 0), att_softmax_column(b, s));
    return tir_select(b, final, tir_transpose(b, sink),
                      tir_splat(b, tir_f32(b, -INFINITY), s->vector));
}

struct tir_value att_softmax_lse(struct tir_builder *b, const struct att_softmax_end *e)
{
    return tir_mul(b, tir_add(b, e->m, tir_log2(b, e->l)), tir_float_like(b, e->l, ATT_LN2));
}

/* Returns -1 / (e^(2y) + 1) for each score s, where y is s times a rate. `rate2` (f32) is
 * 2 log2(e) times that rate. The absolute error is one unit in the last place of 1. */
static struct tir_value cap_share(struct tir_builder *b, struct tir_value s, struct tir_value rate2)
{
    const struct tir_type t = tir_typeof(b->f, s);
    const struct tir_value e = tir_exp2(b, tir_mul(b, s, tir_splat(b, rate2, t)));
    return tir_rcp(b, tir_sub(b, tir_float_like(b, e, -1.0f), e));
}

/* Returns cap * tanh(y) = cap - 2 cap / (e^(2y) + 1) for each score s, where y is s times a rate.
 * `rate2` is 2 log2(e) times that rate, and `up` is 2 cap; all are f32. The absolute error is one
 * unit in the last place of `cap`. */
static struct tir_value cap_by_exp(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                                   struct tir_value rate2, struct tir_value up)
{
    const struct tir_type t = tir_typeof(b->f, s);
    return tir_fma(b, cap_share(b, s, rate2), tir_splat(b, up, t), tir_splat(b, cap, t));
}

/* Returns cap * tanh(y) of f32 `y` by a series: y - y^3/3 + 2 y^5/15 - 17 y^7/315 + 62 y^9/2835.
 * For |y| < 3/8 the next term is less than 1382 y^10 / 155925 = 5e-7 of the sum. */
static struct tir_value cap_by_series(struct tir_builder *b, struct tir_value y,
                                      struct tir_value cap)
{
    static const float terms[] = {62.0f / 2835, -17.0f / 315, 2.0f / 15, -1.0f / 3, 1.0f};
    const struct tir_value square = tir_mul(b, y, y);
    struct tir_value sum = tir_float_like(b, y, terms[0]);
    for (unsigned i = 1; i < sizeof(terms) / sizeof(terms[0]); i++)
        sum = tir_fma(b, sum, square, tir_float_like(b, y, terms[i]));
    return tir_mul(b, tir_mul(b, sum, y), att_like(b, cap, y));
}

/* Returns cap * tanh(s * rate) of scores `s`, computed as an exponential and as a series. Selects
 * the more exact result for each element. */
static struct tir_value cap_exactly(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                                    struct tir_value rate)
{
    const struct tir_value up = tir_mul(b, cap, tir_f32(b, 2.0f));
    const struct tir_value y = tir_mul(b, s, att_like(b, rate, s));
    const struct tir_value series = cap_by_series(b, y, cap);
    const struct tir_value other = cap_by_exp(b, y, cap, tir_f32(b, 2 * ATT_LOG2E), up);
    const struct tir_value small = tir_cmp_lt(b, tir_abs(b, y), tir_float_like(b, y, 0.375f));
    return tir_select(b, small, series, other);
}

/* Returns cap_exactly() of scores `s`. If a lane has rows of both halves, the upper half is
 * computed first and then the lower one. A half needs fewer registers for temporaries, which exist
 * in addition to all registers of the loop. */
static struct tir_value cap_by_halves(struct tir_builder *b, struct tir_value s,
                                      struct tir_value cap, struct tir_value rate)
{
    const struct tir_type t = tir_typeof(b->f, s);
    const struct tir_layout *const own = tir_layout_of(b->f, t);
    const struct tir_layout apart = tir_layout_regs_first(own, TIR_RC(t.rows / 2 - 1, t.cols - 1));
    if (!tir_layout_has_halves(&apart, t.rows))
        return cap_exactly(b, s, cap, rate);
    const struct tir_value all = tir_relayout(b, s, &apart);
    const struct tir_value upper = cap_exactly(b, tir_half(b, all, 0), cap, rate);
    const struct tir_value lower = cap_exactly(b, tir_half(b, all, 1), cap, rate);
    return tir_relayout(b, tir_stack(b, upper, lower), own);
}

/* Returns a scalar i1: true if `cap` (f32) exceeds 512, so that scores near 0 need cap_by_series().
 * Up to 512 cap_by_exp() suffices: its error, one unit in the last place of `cap`, is at most 2^-14
 * of a logit of 1. */
static struct tir_value needs_series(struct tir_builder *b, struct tir_value cap)
{
    return tir_cmp_gt(b, cap, tir_f32(b, 512.0f));
}

/* Begins the if of a soft cap of the scores `s`, and builds its first branch, for caps that
 * needs_series(). The caller builds the other branch, and ends the if with the scores after the
 * cap. Sets *rate2 to `rate` times 2 log2(e). */
static struct tir_if begin_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                               struct tir_value rate, struct tir_value *rate2)
{
    const struct tir_type t = tir_typeof(b->f, s);
    *rate2 = tir_mul(b, rate, tir_f32(b, 2 * ATT_LOG2E));
    struct tir_if large = tir_begin_if(b, needs_series(b, cap), true, &t, 1);
    const struct tir_value exact = cap_by_halves(b, s, cap, rate);
    tir_else(b, &large, &exact);
    return large;
}

struct tir_value att_soft_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                              struct tir_value rate)
{
    struct tir_value rate2;
    struct tir_if large = begin_cap(b, s, cap, rate, &rate2);
    struct tir_value capped = cap_by_exp(b, s, cap, rate2, tir_mul(b, cap, tir_f32(b, 2.0f)));
    tir_end_if(b, &large, &capped);
    return capped;
}

struct tir_value att_softmax_end_maximum(struct tir_builder *b, const struct att_softmax *s,
                                         struct tir_value m)
{
    return s->shift.id ? tir_add(b, m, att_like(b, s->shift, m)) : m;
}

void att_softmax_set_cap(struct tir_builder *b, struct att_softmax *s, struct tir_value cap)
{
    const struct tir_value log2e = tir_f32(b, ATT_LOG2E), large = needs_series(b, cap);
    const struct tir_value power = tir_mul(b, cap, log2e);
    s->exponent = tir_select(b, large, log2e, tir_mul(b, power, tir_f32(b, 2.0f)));
    s->shift = tir_select(b, large, tir_f32(b, 0.0f), power);
}

struct tir_value att_softmax_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                                 struct tir_value rate)
{
    struct tir_value rate2;
    struct tir_if large = begin_cap(b, s, cap, rate, &rate2);
    struct tir_value capped = cap_share(b, s, rate2);
    tir_end_if(b, &large, &capped);
    return capped;
}
