/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule of GDN and KDA, token by token: S = exp(g) S, S += k (beta (v - S k))^T and
 * out = S q, with a state S of K x V for each sequence and value head.
 *
 * A wave has a few of the V value elements by all of K in registers, over all tokens of a call: no
 * other wave has any of these, so a state is read and written once and in place. The vectors of the
 * next token are under way while it works on one. All of it is float.
 */
#include "templates/linear/gates.h"
#include "templates/linear/record.h"
#include "templates/linear/recurrence.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

#include <float.h>
#include <stdio.h>

enum { FLOAT = 4, ELEM = 2 };

static const struct att_knob knobs[] = {
    {"elements", 2, {2048, 8192}},
    {"waves", 2, {2, 4}},
    {"waves_per_simd", 2, {1, 4}},
};

/* The vectors of a token. */
enum { Q, K, V, GATE, BETA, VECTORS };

struct delta {
    struct att_recurrence r;  /* first: its functions are given this */
    struct tir_value a, bias; /* exp(a_log), 1 x 1; dt_bias like a decay */
};

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (!att_state_check_dims(v, why))
        return false;
    if (v->gates == ATT_GATES_CONSTANT)
        return att_reject(why, ATT_GATES, "the delta rule has decays of each token");
    return att_find_tile(v, m, &tile, why);
}

static bool has_channels(const struct att_variant *v) { return v->decay == ATT_DECAY_CHANNEL; }

/* ---- Vectors of a token ---- */

/* Loads what a decay is made of: a number of the head, or one for each element of a key. */
static struct tir_value load_gate(struct att_recurrence *r, struct tir_value token,
                                  struct tir_value there)
{
    struct tir_builder *b = &r->b;
    const bool given = r->v->gates == ATT_GATES_GIVEN, wide = has_channels(r->v);
    const struct att_tensor t = given ? ATT_TOKENS(LOG_DECAY) : ATT_TOKENS(GATE_IN);
    const unsigned dtype = given ? TIR_F32 : r->dtype;
    const struct tir_value element = att_times(b, r->value_head, wide ? r->v->head_dim : 1);
    const struct tir_value at = att_recurrence_element(r, t, given ? FLOAT : ELEM, token, element);
    return wide ? att_state_load_keys(b, &r->state, at, dtype, there)
                : att_state_load_one(b, &r->state, at, dtype, there);
}

/* Loads what beta is made of: a number of the head, or one for each value element. */
static struct tir_value load_beta(struct att_recurrence *r, struct tir_value token,
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

static void load_token(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                       struct tir_value *raw)
{
    struct tir_builder *b = &r->b;
    const struct tir_value q = att_recurrence_key(r, ATT_HEADS(Q), token);
    const struct tir_value k = att_recurrence_key(r, ATT_HEADS(K_IN), token);
    const struct tir_value v = att_recurrence_value(r, ATT_HEADS(V_IN), token);
    raw[K] = att_state_load_keys(b, &r->state, k, r->dtype, there);
    raw[GATE] = load_gate(r, token, there);
    raw[V] = att_state_load_values(b, &r->state, v, r->dtype, there);
    raw[BETA] = load_beta(r, token, there);
    raw[Q] = att_state_load_keys(b, &r->state, q, r->dtype, there);
}

/* ---- Gates ---- */

/* Loads the biases of a decay, one or K of them: 0 where none are given. */
static struct tir_value load_bias(struct att_recurrence *r)
{
    struct tir_builder *b = &r->b;
    const struct tir_value given = att_is_given(b, ARG_DT_BIAS);
    const int bytes = FLOAT * (has_channels(r->v) ? r->v->head_dim : 1);
    const struct tir_value at = tir_add(b, tir_arg(b, ARG_DT_BIAS, TIR_I64),
                                        tir_mul(b, att_wide(b, r->value_head), tir_i64(b, bytes)));
    if (!has_channels(r->v))
        return att_state_load_one(b, &r->state, at, TIR_F32, given);
    return att_state_keys(b, &r->state, att_state_load_keys(b, &r->state, at, TIR_F32, given));
}

/* Loads what all tokens of the head share. */
static void load_head(struct att_recurrence *r)
{
    struct tir_builder *b = &r->b;
    struct delta *d = (struct delta *)r;
    if (r->v->gates == ATT_GATES_GIVEN)
        return;
    const struct tir_value at = tir_add(b, tir_arg(b, ARG_A_LOG, TIR_I64),
                                        tir_mul(b, att_wide(b, r->value_head), tir_i64(b, FLOAT)));
    const struct tir_value given = att_is_given(b, ARG_A_LOG);
    d->a = att_exp(b, att_state_load_one(b, &r->state, at, TIR_F32, given));
    d->bias = load_bias(r);
}

/* Computes g. */
static struct tir_value log_decay_of(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->r.b;
    const bool wide = has_channels(d->r.v);
    const struct tir_value in =
        wide ? att_state_keys(b, &d->r.state, raw) : tir_convert(b, raw, TIR_F32);
    return att_log_decay(b, d->r.v, in, d->a, d->bias);
}

static struct tir_value beta_of(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->r.b;
    const struct tir_value x = tir_convert(b, raw, TIR_F32);
    const struct tir_value beta = d->r.v->gates == ATT_GATES_GIVEN ? x : att_sigmoid(b, x);
    return d->r.v->beta_wide ? beta : tir_broadcast(b, beta, d->r.state.values);
}

/* Computes x / sqrt(sum x^2 + eps), or x without l2_norm; a zero stays one without eps too. */
static struct tir_value unit(struct delta *d, struct tir_value x)
{
    struct tir_builder *b = &d->r.b;
    if (!d->r.v->l2_norm)
        return x;
    const struct tir_value sum = tir_row_dot(b, x, x);
    const struct tir_value eps =
        tir_splat(b, tir_arg(b, ARG_L2_EPS, TIR_F32), tir_typeof(b->f, sum));
    const struct tir_value least = tir_float_like(b, sum, FLT_MIN);
    const struct tir_value square = tir_max(b, tir_add(b, sum, eps), least);
    return tir_mul(b, x, tir_broadcast(b, tir_rsq(b, square), tir_typeof(b->f, x)));
}

/* ---- Records ---- */

/* Records what a token does to the state: u of the wave's value elements; k and g by the first. */
static void record(struct delta *d, struct tir_value u, struct tir_value k, struct tir_value g)
{
    struct att_recurrence *r = &d->r;
    struct tir_builder *b = &r->b;
    const int bytes = att_record_bytes(r->v);
    const struct tir_value row =
        att_row(b, tir_arg(b, ARG_RECORDS, TIR_I64), r->slot, ARG_RECORDS_SLOT_STRIDE, FLOAT);
    const struct tir_value at =
        att_record(b, row, r->value_head, tir_sub(b, r->token, r->sequence.start), bytes);
    const struct tir_value first = tir_and(b, r->real, tir_cmp_eq(b, r->first, tir_i32(b, 0)));
    const struct tir_value key = tir_add(b, at, tir_i64(b, FLOAT * r->v->head_dim_v));
    const struct tir_value gate = tir_add(b, key, tir_i64(b, FLOAT * r->v->head_dim));
    const struct tir_value own = att_wide(b, att_times(b, r->first, FLOAT));
    att_state_store_values(b, tir_add(b, at, own), r->real, u);
    att_state_store_keys(b, &r->state, key, first, k);
    if (has_channels(r->v))
        att_state_store_keys(b, &r->state, gate, first, g);
    else
        att_state_store_one(b, gate, first, g);
}

/* ---- The recurrence ---- */

static struct tir_value advance(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state)
{
    struct tir_builder *b = &r->b;
    struct delta *d = (struct delta *)r;
    const struct att_state *s = &r->state;
    const struct tir_value k = unit(d, att_state_keys(b, s, raw[K]));
    const struct tir_value direction = unit(d, att_state_keys(b, s, raw[Q]));
    const struct tir_value scale =
        tir_splat(b, tir_arg(b, ARG_SCALE, TIR_F32), tir_typeof(b->f, direction));
    const struct tir_value q = tir_mul(b, direction, scale);
    const struct tir_value g = log_decay_of(d, raw[GATE]);
    const struct tir_value old = att_recurrence_scaled(r, *state, att_exp(b, g));
    const struct tir_value v = tir_convert(b, raw[V], TIR_F32);
    const struct tir_value missed = tir_sub(b, v, att_recurrence_product(r, old, k));
    const struct tir_value u = tir_mul(b, beta_of(d, raw[BETA]), missed);
    if (r->v->replay)
        record(d, u, k, g);
    *state = tir_fma(b, att_state_spread(b, s, u), att_state_spread(b, s, k), old);
    return att_recurrence_product(r, *state, q);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct delta d = {.r = {.v = v,
                            .dtype = att_dtype(v),
                            .vectors = VECTORS,
                            .keeps_state = v->replay,
                            .load = load_token,
                            .begin = load_head,
                            .advance = advance}};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned rows = att_state_rows(v, &tile), parts = (unsigned)v->head_dim_v / rows;
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    d.r.b = tir_at_end(f, f->body);
    att_recurrence_open(&d.r, rows, tile.waves);
    att_recurrence_run(&d.r);
    tir_return(&d.r.b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, (int)parts / tile.waves}, {ARG_VALUE_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", rows, tile.waves);
}

const struct att_template att_template_gated_delta = {
    .name = "gated_delta",
    .description = "gated delta rule, token by token, with states",
    .takes = OP_TAKES_GATED_DELTA | ATT_BIT(TILE),
    ATT_TILES(att_state_tiles, knobs),
    .own = {"elements"},
    .fits = att_state_fits,
    .check = check,
    .build = build,
};
