/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/delta.h"

#include "templates/linear/gates.h"

#include <float.h>

enum { FLOAT = 4, ELEM = 2 }; /* bytes of an f32, and of a 16-bit element */

bool att_delta_has_channels(const struct att_variant *v) { return v->decay == ATT_DECAY_CHANNEL; }

struct tir_value att_delta_load_gate(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there)
{
    struct tir_builder *b = &r->b;
    const bool given = r->v->gates == ATT_GATES_GIVEN, wide = att_delta_has_channels(r->v);
    const struct att_tensor t = given ? ATT_TOKENS(LOG_DECAY) : ATT_TOKENS(GATE_IN);
    const unsigned dtype = given ? TIR_F32 : r->dtype;
    const struct tir_value element = att_times(b, r->value_head, wide ? r->v->head_dim : 1);
    const struct tir_value at = att_recurrence_element(r, t, given ? FLOAT : ELEM, token, element);
    return wide ? att_state_load_keys(b, &r->state, at, dtype, there)
                : att_state_load_one(b, &r->state, at, dtype, there);
}

struct tir_value att_delta_load_beta(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there)
{
    struct tir_builder *b = &r->b;
    const bool given = r->v->gates == ATT_GATES_GIVEN, wide = r->v->beta_wide;
    const struct att_tensor t = given ? ATT_TOKENS(BETA) : ATT_TOKENS(BETA_IN);
    const unsigned dtype = given ? TIR_F32 : r->dtype;
    struct tir_value element = r->value_head;
    if (wide)
        element = tir_add(b, att_times(b, element, r->v->head_dim_v), r->first);
    const struct tir_value at = att_recurrence_element(r, t, given ? FLOAT : ELEM, token, element);
    return wide ? att_state_load_values(b, &r->state, at, dtype, there)
                : att_state_load_one(b, &r->state, at, dtype, there);
}

/* ---- Gates ---- */

/* Loads dt_bias of the value head as f32: one number, or K numbers if each element of a key has a
 * decay; zeros if the argument is NULL. */
static struct tir_value load_bias(struct att_recurrence *r)
{
    struct tir_builder *b = &r->b;
    const struct tir_value given = att_is_given(b, ARG_DT_BIAS);
    const int bytes = FLOAT * (att_delta_has_channels(r->v) ? r->v->head_dim : 1);
    const struct tir_value at = att_at(b, ARG_DT_BIAS, att_wide_times(b, r->value_head, bytes));
    if (!att_delta_has_channels(r->v))
        return att_state_load_one(b, &r->state, at, TIR_F32, given);
    return att_state_keys(b, &r->state, att_state_load_keys(b, &r->state, at, TIR_F32, given));
}

void att_delta_load_head(struct att_recurrence *r)
{
    struct tir_builder *b = &r->b;
    struct att_delta *d = (struct att_delta *)r;
    if (r->v->gates == ATT_GATES_GIVEN)
        return;
    const struct tir_value at = att_at(b, ARG_A_LOG, att_wide_times(b, r->value_head, FLOAT));
    const struct tir_value given = att_is_given(b, ARG_A_LOG);
    d->a = att_exp(b, att_state_load_one(b, &r->state, at, TIR_F32, given));
    d->bias = load_bias(r);
}

/* Returns g (f32), the natural logarithm of a token's decay, from `raw`, its gate as loaded. */
static struct tir_value log_decay_of(struct att_delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->r.b;
    const bool wide = att_delta_has_channels(d->r.v);
    const struct tir_value in =
        wide ? att_state_keys(b, &d->r.state, raw) : tir_convert(b, raw, TIR_F32);
    return att_log_decay(b, d->r.v, in, d->a, d->bias);
}

/* Returns beta (f32) from its loaded number `raw`: `raw` itself if the variant's field gates is
 * "given", else the sigmoid of `raw`. If a head has one beta, it is repeated for all value
 * elements. */
static struct tir_value beta_of(struct att_delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->r.b;
    const struct tir_value x = tir_convert(b, raw, TIR_F32);
    const struct tir_value beta = d->r.v->gates == ATT_GATES_GIVEN ? x : att_sigmoid(b, x);
    return d->r.v->beta_wide ? beta : tir_broadcast(b, beta, d->r.state.values);
}

/* Returns x / sqrt(sum x^2 + eps) of the row x, or x itself if field l2_norm is false. A zero x
 * remains zero even if eps is 0. */
static struct tir_value unit(struct att_delta *d, struct tir_value x)
{
    struct tir_builder *b = &d->r.b;
    if (!d->r.v->l2_norm)
        return x;
    const struct tir_value sum = tir_row_dot(b, x, x);
    const struct tir_value eps = att_arg_like(b, ARG_L2_EPS, sum);
    const struct tir_value least = tir_float_like(b, sum, FLT_MIN);
    const struct tir_value square = tir_max(b, tir_add(b, sum, eps), least);
    return att_scaled(b, x, tir_rsq(b, square));
}

/* Returns a token's q (f32, 1 x head_dim) times argument scale. With field l2_norm q is first
 * divided by its length. */
static struct tir_value query(struct att_delta *d, const struct att_delta_token *t)
{
    struct tir_builder *b = &d->r.b;
    const struct tir_value direction = unit(d, att_state_keys(b, &d->r.state, t->q));
    const struct tir_value scale = att_arg_like(b, ARG_SCALE, direction);
    return tir_mul(b, direction, scale);
}

struct tir_value att_delta_advance(struct att_delta *d, const struct att_delta_token *t,
                                   struct tir_value *state, struct att_delta_update *did)
{
    struct att_recurrence *r = &d->r;
    struct tir_builder *b = &r->b;
    const struct att_state *s = &r->state;
    const struct tir_value k = unit(d, att_state_keys(b, s, t->k));
    const struct tir_value early = d->late ? t->q : query(d, t);
    const struct tir_value g = log_decay_of(d, t->gate);
    const struct tir_value old = att_recurrence_scaled(r, *state, att_exp(b, g));
    const struct tir_value v = tir_convert(b, t->v, TIR_F32);
    const struct tir_value missed = tir_sub(b, v, att_recurrence_product(r, old, k));
    const struct tir_value u = tir_mul(b, beta_of(d, t->beta), missed);
    *state = tir_fma(b, att_state_spread(b, s, u), att_state_spread(b, s, k), old);
    *did = (struct att_delta_update){u, k, g};
    return att_recurrence_product(r, *state, d->late ? query(d, t) : early);
}
