/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/gates.h"

#include "op_names.h"
#include "templates/workgroup/scalar.h"

struct tir_value att_exp(struct tir_builder *b, struct tir_value x)
{
    return tir_exp2(b, tir_mul(b, x, tir_float_like(b, x, ATT_LOG2E)));
}

struct tir_value att_sigmoid(struct tir_builder *b, struct tir_value x)
{
    const struct tir_value e = tir_exp2(b, tir_mul(b, x, tir_float_like(b, x, -ATT_LOG2E)));
    return tir_rcp(b, tir_add(b, e, tir_float_like(b, e, 1)));
}

struct tir_value att_silu(struct tir_builder *b, struct tir_value x)
{
    return tir_mul(b, x, att_sigmoid(b, x));
}

/* Computes log(1 + exp(x)), and returns x if x is above 20. Let e be exp(x) and u be 1 + e,
 * rounded. log(u) e / (u - 1) is log(1 + e) to a few units in the last place, also for small
 * results, since log(u) / (u - 1) changes slowly. If u is 1 the result is e (Goldberg 1991,
 * theorem 4). */
static struct tir_value softplus(struct tir_builder *b, struct tir_value x)
{
    const struct tir_value one = tir_float_like(b, x, 1), limit = tir_float_like(b, x, 20);
    const struct tir_value e = att_exp(b, tir_min(b, x, limit));
    const struct tir_value u = tir_add(b, e, one), rest = tir_sub(b, u, one);
    const struct tir_value log = tir_mul(b, tir_log2(b, u), tir_float_like(b, x, ATT_LN2));
    const struct tir_value exact = tir_cmp_eq(b, rest, tir_float_like(b, rest, 0));
    const struct tir_value ratio = tir_mul(b, e, tir_rcp(b, tir_select(b, exact, one, rest)));
    const struct tir_value small = tir_select(b, exact, e, tir_mul(b, log, ratio));
    return tir_select(b, tir_cmp_gt(b, x, limit), x, small);
}

struct tir_value att_log_decay(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value in, struct tir_value a, struct tir_value bias)
{
    if (v->gates == ATT_GATES_GIVEN)
        return in;
    const struct tir_value x = tir_add(b, in, bias);
    const struct tir_type t = tir_typeof(b->f, x);
    if (tir_typeof(b->f, a).cols != t.cols)
        a = tir_broadcast(b, a, t);
    if (v->gates == ATT_GATES_SOFTPLUS)
        return tir_neg(b, tir_mul(b, a, softplus(b, x)));
    const struct tir_value bound = tir_splat(b, tir_arg(b, ARG_LOWER_BOUND, TIR_F32), t);
    return tir_mul(b, bound, att_sigmoid(b, tir_mul(b, a, x)));
}

struct tir_value att_arg_like(struct tir_builder *b, const char *arg, struct tir_value like)
{
    return att_like(b, tir_arg(b, arg, TIR_F32), like);
}

struct tir_value att_time_step(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value dt, struct tir_value bias)
{
    const struct tir_value x = tir_add(b, tir_convert(b, dt, TIR_F32), bias);
    const struct tir_value w = v->gates == ATT_GATES_SOFTPLUS ? softplus(b, x) : x;
    return tir_min(b, tir_max(b, w, att_arg_like(b, ARG_DT_MIN, w)),
                   att_arg_like(b, ARG_DT_MAX, w));
}
