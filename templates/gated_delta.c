/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule of GDN and KDA, token by token: S = exp(g) S, S += k (beta (v - S k))^T and
 * out = S q, with a state S of K x V for each sequence and value head.
 *
 * A wave has a few of the V value elements by all of K in registers, over all tokens of a call: no
 * other wave has any of these, so a state is read and written once and in place. The vectors of the
 * next token are under way while it works on one. All of it is float.
 */
#include "ir/bits.h"
#include "templates/linear/gates.h"
#include "templates/linear/sequence.h"
#include "templates/linear/state.h"
#include "templates/template.h"

#include <stdio.h>

enum { ELEM = 2, FLOAT = 4, LEAST_DIM = 64, MOST_DIM = 256 };

/* Members of att_tile.own: elements of a state that a wave has. */
enum { ELEMENTS };

static const struct att_tile tiles[] = {
    {.waves = 1,
     .waves_per_simd = 2,
     .own = {[ELEMENTS] = 4096},
     .why = "64 registers of state under way at once; rows of memory are lines of 128 bytes"},
};

static const struct att_knob knobs[] = {
    {"elements", 2, {2048, 8192}},
    {"waves", 2, {2, 4}},
    {"waves_per_simd", 2, {1, 4}},
};

/* The vectors of a token as they are loaded, and how many there are. */
enum { Q, K, V, GATE, BETA, VECTORS };
struct token {
    struct tir_value v[VECTORS];
};

struct delta {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    struct att_tile tile;
    struct att_state state;
    struct att_sequence sequence;
    struct tir_value head, value_head; /* i32 */
    struct tir_value first;            /* i32: value element of the wave */
    struct tir_value real;             /* i1: no padding */
    struct tir_value a, bias;          /* exp(a_log), 1 x 1; dt_bias like a decay */
};

static unsigned rows_of(const struct att_variant *v, const struct att_tile *t)
{
    const unsigned rows = t->own[ELEMENTS] / (unsigned)v->head_dim;
    return rows < (unsigned)v->head_dim_v ? rows : (unsigned)v->head_dim_v;
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned parts = (unsigned)v->head_dim_v / rows_of(v, t);
    if (parts < t->waves)
        return att_reject(why, ATT_HEAD_DIM_V, "%u waves have %u parts of %d elements", t->waves,
                          parts, v->head_dim_v);
    return att_fits_waves(v, t, m, why);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    static const enum att_field dims[] = {ATT_HEAD_DIM, ATT_HEAD_DIM_V};
    struct att_tile tile;
    for (int i = 0; i < 2; i++) {
        const int dim = att_get(v, dims[i]);
        if (!tir_is_power(dim) || dim < LEAST_DIM || dim > MOST_DIM)
            return att_reject(why, dims[i], "%d is not 64, 128 or 256", dim);
    }
    return att_find_tile(v, m, &tile, why);
}

static struct tir_value times(struct delta *d, struct tir_value a, struct tir_value c)
{
    return tir_mul(&d->b, att_state_spread(&d->b, &d->state, a), c);
}

/* ---- Vectors of a token ---- */

/* Returns the address of element `element` (i32) of a token's row of a tensor. */
static struct tir_value place(struct delta *d, const char *arg, const char *stride, int size,
                              struct tir_value token, struct tir_value element)
{
    struct tir_builder *b = &d->b;
    const struct tir_value row = att_row(b, tir_arg(b, arg, TIR_I64), token, stride, size);
    return tir_add(b, row, tir_mul(b, att_wide(b, element), tir_i64(b, size)));
}

static struct tir_value place_head(struct delta *d, struct att_tensor t, struct tir_value token,
                                   struct tir_value head)
{
    struct tir_builder *b = &d->b;
    const struct tir_value row =
        att_row(b, tir_arg(b, t.arg, TIR_I64), token, t.token_stride, ELEM);
    return tir_add(b, row, att_offset(b, head, t.head_stride, ELEM));
}

/* Loads what a decay is made of: a number of the head, or one for each element of a key. */
static struct tir_value load_gate(struct delta *d, struct tir_value token, struct tir_value there)
{
    struct tir_builder *b = &d->b;
    const bool given = d->v->gates == ATT_GATES_GIVEN, wide = d->v->decay == ATT_DECAY_CHANNEL;
    const char *arg = given ? ARG_LOG_DECAY : ARG_GATE_IN;
    const char *stride = given ? ARG_LOG_DECAY_TOKEN_STRIDE : ARG_GATE_IN_TOKEN_STRIDE;
    const unsigned dtype = given ? TIR_F32 : att_dtype(d->v);
    const struct tir_value element = att_times(b, d->value_head, wide ? d->v->head_dim : 1);
    const struct tir_value at = place(d, arg, stride, given ? FLOAT : ELEM, token, element);
    return wide ? att_state_load_keys(b, &d->state, at, dtype, there)
                : att_state_load_one(b, &d->state, at, dtype, there);
}

/* Loads what beta is made of: a number of the head, or one for each value element. */
static struct tir_value load_beta(struct delta *d, struct tir_value token, struct tir_value there)
{
    struct tir_builder *b = &d->b;
    const bool given = d->v->gates == ATT_GATES_GIVEN, wide = d->v->beta_wide;
    const char *arg = given ? ARG_BETA : ARG_BETA_IN;
    const char *stride = given ? ARG_BETA_TOKEN_STRIDE : ARG_BETA_IN_TOKEN_STRIDE;
    const unsigned dtype = given ? TIR_F32 : att_dtype(d->v);
    struct tir_value element = d->value_head;
    if (wide)
        element = tir_add(b, att_times(b, element, d->v->head_dim_v), d->first);
    const struct tir_value at = place(d, arg, stride, given ? FLOAT : ELEM, token, element);
    return wide ? att_state_load_values(b, &d->state, at, dtype, there)
                : att_state_load_one(b, &d->state, at, dtype, there);
}

/* Loads the vectors of a token; zeros of one behind the last, and of padding. */
static struct token load_token(struct delta *d, struct tir_value token)
{
    struct tir_builder *b = &d->b;
    const unsigned dtype = att_dtype(d->v);
    const struct tir_value there = tir_and(b, d->real, tir_cmp_lt(b, token, d->sequence.end));
    const struct tir_value q = place_head(d, ATT_HEADS(Q), token, d->head);
    const struct tir_value k = place_head(d, ATT_HEADS(K_IN), token, d->head);
    const struct tir_value v = tir_add(b, place_head(d, ATT_HEADS(V_IN), token, d->value_head),
                                       att_wide(b, att_times(b, d->first, ELEM)));
    struct token t;
    t.v[K] = att_state_load_keys(b, &d->state, k, dtype, there);
    t.v[GATE] = load_gate(d, token, there);
    t.v[V] = att_state_load_values(b, &d->state, v, dtype, there);
    t.v[BETA] = load_beta(d, token, there);
    t.v[Q] = att_state_load_keys(b, &d->state, q, dtype, there);
    return t;
}

/* ---- Gates ---- */

/* Loads what all tokens share: exp(a_log), and dt_bias like a decay. What is not given is 0. */
static void load_head(struct delta *d)
{
    struct tir_builder *b = &d->b;
    if (d->v->gates == ATT_GATES_GIVEN)
        return;
    const bool wide = d->v->decay == ATT_DECAY_CHANNEL;
    const struct tir_value head = att_wide(b, d->value_head);
    const struct tir_value a_log =
        tir_add(b, tir_arg(b, ARG_A_LOG, TIR_I64), tir_mul(b, head, tir_i64(b, FLOAT)));
    const struct tir_value bias =
        tir_add(b, tir_arg(b, ARG_DT_BIAS, TIR_I64),
                tir_mul(b, head, tir_i64(b, FLOAT * (wide ? d->v->head_dim : 1))));
    const struct tir_value log =
        att_state_load_one(b, &d->state, a_log, TIR_F32, att_is_given(b, ARG_A_LOG));
    const struct tir_value has_bias = att_is_given(b, ARG_DT_BIAS);
    d->a = att_exp(b, log);
    d->bias = wide ? att_state_keys(b, &d->state,
                                    att_state_load_keys(b, &d->state, bias, TIR_F32, has_bias))
                   : att_state_load_one(b, &d->state, bias, TIR_F32, has_bias);
}

/* Repeats the head's number for all that a decay is of. */
static struct tir_value like_decay(struct delta *d, struct tir_value one, struct tir_value decay)
{
    return d->v->decay == ATT_DECAY_CHANNEL ? tir_broadcast(&d->b, one, tir_typeof(d->b.f, decay))
                                            : one;
}

/* Computes exp(g). */
static struct tir_value decay_of(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->b;
    struct tir_value g = d->v->decay == ATT_DECAY_CHANNEL ? att_state_keys(b, &d->state, raw)
                                                          : tir_convert(b, raw, TIR_F32);
    if (d->v->gates == ATT_GATES_GIVEN)
        return att_exp(b, g);
    const struct tir_value x = tir_add(b, g, d->bias), a = like_decay(d, d->a, x);
    if (d->v->gates == ATT_GATES_SOFTPLUS) {
        g = tir_neg(b, tir_mul(b, a, att_softplus(b, x)));
    } else {
        const struct tir_value bound =
            tir_splat(b, tir_arg(b, ARG_LOWER_BOUND, TIR_F32), tir_typeof(b->f, x));
        g = tir_mul(b, bound, att_sigmoid(b, tir_mul(b, a, x)));
    }
    return att_exp(b, g);
}

static struct tir_value beta_of(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->b;
    const struct tir_value x = tir_convert(b, raw, TIR_F32);
    const struct tir_value beta = d->v->gates == ATT_GATES_GIVEN ? x : att_sigmoid(b, x);
    return d->v->beta_wide ? beta : tir_broadcast(b, beta, d->state.values);
}

/* Computes x / sqrt(sum x^2 + eps), or x without desc.l2_norm; a zero stays one without eps too. */
static struct tir_value unit(struct delta *d, struct tir_value x)
{
    struct tir_builder *b = &d->b;
    if (!d->v->l2_norm)
        return x;
    const struct tir_value sum = tir_row_sum(b, tir_mul(b, x, x));
    const struct tir_value eps =
        tir_splat(b, tir_arg(b, ARG_L2_EPS, TIR_F32), tir_typeof(b->f, sum));
    const struct tir_value square =
        tir_max(b, tir_add(b, sum, eps), tir_float_like(b, sum, 1.17549435e-38f));
    return tir_mul(b, x, tir_broadcast(b, tir_rsq(b, square), tir_typeof(b->f, x)));
}

/* ---- The recurrence ---- */

/* Returns S x, a number for each value element. */
static struct tir_value product(struct delta *d, struct tir_value s, struct tir_value x)
{
    return tir_row_sum(&d->b, times(d, x, s));
}

/* Advances the state by a token; returns its output. */
static struct tir_value advance(struct delta *d, const struct token *t, struct tir_value *state)
{
    struct tir_builder *b = &d->b;
    const struct att_state *s = &d->state;
    const struct tir_value k = unit(d, att_state_keys(b, s, t->v[K]));
    struct tir_value q = unit(d, att_state_keys(b, s, t->v[Q]));
    q = tir_mul(b, q, tir_splat(b, tir_arg(b, ARG_SCALE, TIR_F32), tir_typeof(b->f, q)));
    const struct tir_value old = times(d, decay_of(d, t->v[GATE]), *state);
    const struct tir_value v = tir_convert(b, t->v[V], TIR_F32);
    const struct tir_value u =
        tir_mul(b, beta_of(d, t->v[BETA]), tir_sub(b, v, product(d, old, k)));
    *state = tir_fma(b, att_state_spread(b, s, u), att_state_spread(b, s, k), old);
    return product(d, *state, q);
}

static void store_out(struct delta *d, struct tir_value token, struct tir_value out)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = tir_add(b, place_head(d, ATT_HEADS(OUT), token, d->value_head),
                                        att_wide(b, att_times(b, d->first, ELEM)));
    att_state_store_values(b, at, tir_bool(b, true), tir_convert_short(b, out, att_dtype(d->v)));
}

/* ---- Slots ---- */

/* Returns entry [sequence][step] of a matrix of slots. */
static struct tir_value slot_at(struct delta *d, const char *arg, const char *sequence_stride,
                                const char *step_stride, struct tir_value step)
{
    struct tir_builder *b = &d->b;
    const struct tir_value row =
        tir_mul(b, att_wide(b, d->sequence.index), att_stride(b, sequence_stride, sizeof(int32_t)));
    const struct tir_value at =
        tir_add(b, row, tir_mul(b, att_wide(b, step), att_stride(b, step_stride, sizeof(int32_t))));
    return tir_scalar_load(b, tir_add(b, tir_arg(b, arg, TIR_I64), at), tir_i32(b, 0), TIR_I32);
}

/* Returns the address of the value head's state in a slot. */
static struct tir_value state_at(struct delta *d, struct tir_value slot)
{
    struct tir_builder *b = &d->b;
    const int bytes = d->v->head_dim * d->v->head_dim_v * d->state.size;
    return tir_add(
        b, att_row(b, tir_arg(b, ARG_STATE, TIR_I64), slot, ARG_STATE_SLOT_STRIDE, d->state.size),
        tir_mul(b, att_wide(b, d->value_head), tir_i64(b, bytes)));
}

/* Stores the state after a token where the call asks for it. */
static void store_state(struct delta *d, struct tir_value token, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value steps = tir_arg(b, ARG_STATE_STEPS, TIR_I32);
    const struct tir_value each = tir_cmp_gt(b, steps, tir_i32(b, 1));
    const struct tir_value last = tir_cmp_eq(b, att_plus(b, token, 1), d->sequence.end);
    struct tir_if stores =
        tir_begin_if(b, tir_and(b, d->real, tir_or(b, each, last)), false, NULL, 0);
    const struct tir_value step =
        tir_select(b, each, tir_sub(b, token, d->sequence.start), tir_i32(b, 0));
    const struct tir_value slot = slot_at(d, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE,
                                          ARG_STATE_SLOTS_STEP_STRIDE, step);
    att_state_store(b, &d->state, state_at(d, slot), d->first, att_is_slot(b, slot), state);
    tir_end_if(b, &stores, NULL);
}

static void visit_sequence(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot = slot_at(d, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE,
                                          ARG_STATE_SLOTS_IN_STEP_STRIDE, d->sequence.accepted);
    d->real = att_is_slot(b, slot);
    struct token t = load_token(d, d->sequence.start);
    load_head(d);
    struct tir_value carried[VECTORS + 1];
    carried[VECTORS] = att_state_load(b, &d->state, state_at(d, slot), d->first,
                                      tir_and(b, d->real, d->sequence.has_state));
    for (int i = 0; i < VECTORS; i++)
        carried[i] = t.v[i];
    struct tir_loop loop =
        tir_begin_for(b, d->sequence.start, d->sequence.end, tir_i32(b, 1), carried, VECTORS + 1);
    for (int i = 0; i < VECTORS; i++)
        t.v[i] = carried[i];
    struct tir_value state = carried[VECTORS];
    const struct token next = load_token(d, att_plus(b, loop.index, 1));
    store_out(d, loop.index, advance(d, &t, &state));
    store_state(d, loop.index, state);
    for (int i = 0; i < VECTORS; i++)
        carried[i] = next.v[i];
    carried[VECTORS] = state;
    tir_end_for(b, &loop, carried, VECTORS + 1);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct delta d = {.v = v, .m = m};
    att_find_tile(v, m, &d.tile, NULL);
    const int waves = d.tile.waves;
    const unsigned rows = rows_of(v, &d.tile), parts = (unsigned)v->head_dim_v / rows;
    struct tir_func *f = att_begin_kernel(v, m, d.tile.waves, d.tile.waves_per_simd);
    d.b = tir_at_end(f, f->body);
    struct tir_builder *b = &d.b;
    d.state = att_state(b, v, v->head_dim, v->head_dim_v, rows);
    const struct tir_value part =
        tir_add(b, att_times(b, tir_block_id(b, 0), waves), tir_wave_id(b));
    d.first = att_times(b, part, (int)rows);
    d.value_head = tir_block_id(b, 1);
    d.head = tir_div(b, d.value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    d.sequence = att_sequence(b, tir_block_id(b, 2));
    const struct tir_value some = tir_cmp_gt(b, d.sequence.count, tir_i32(b, 0));
    struct tir_if has_tokens = tir_begin_if(b, some, false, NULL, 0);
    visit_sequence(&d);
    tir_end_if(b, &has_tokens, NULL);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1},
        .grid = {{NULL, 1, (int)parts / waves}, {ARG_VALUE_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", rows, waves);
}

const struct att_template att_template_gated_delta = {
    .name = "gated_delta",
    .description = "gated delta rule, token by token, with states",
    .takes = OP_TAKES_GATED_DELTA | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"elements"},
    .fits = fits,
    .check = check,
    .build = build,
};
