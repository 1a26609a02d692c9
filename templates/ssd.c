/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrence of Mamba2 and of lightning attention, token by token: S = exp(g) S + b (w x)^T and
 * out = scale S c + d x, times silu(z). The state S is N x P (head_dim x head_dim_v). w is the
 * token's time step (from dt), g = rate w the log of its decay, and d is argument skip. b and c
 * correspond to keys and queries of gated_delta, and x to a value. A wave has the same part of a
 * state as in templates/gated_delta.c.
 */
#include "templates/linear/gates.h"
#include "templates/linear/recurrence.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

enum { FLOAT = 4, ELEM = 2 }; /* bytes of an f32, and of a 16-bit element */

static const struct att_knob knobs[] = {
    {"elements", 2, {2048, 8192}},
    {"waves", 2, {2, 4}},
    {"waves_per_simd", 2, {1, 4}},
};

/* Vectors of a token: c, b, x, dt and z. A vector that a variant does not have is not loaded. */
enum { C, B, X, DT, Z, VECTORS };

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct ssd {
    /* The first member, since functions of the recurrence have its address */
    struct att_recurrence r;
    /* Index of each vector among the loaded vectors; -1: it is not loaded */
    int place[VECTORS];
    /* f32, 1 x 1, of the value head: rate of decay; dt_bias; d, the factor of x in out; 0: the
     * argument is NULL */
    struct tir_value rate, bias, skip;
};

/* True if each token has a time step. */
static bool has_steps(const struct att_variant *v) { return v->gates != ATT_GATES_CONSTANT; }

/* Issues the loads of the vectors of token `token` (i32) into raw[]: zeros if `there` (i1) is
 * false. */
static void load_token(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                       struct tir_value *raw)
{
    struct tir_builder *b = &r->b;
    const struct ssd *s = (const struct ssd *)r;
    const struct tir_value key = att_recurrence_key(r, ATT_HEADS(K_IN), token);
    const struct tir_value query = att_recurrence_key(r, ATT_HEADS(Q), token);
    const struct tir_value x = att_recurrence_value(r, ATT_HEADS(V_IN), token);
    raw[s->place[B]] = att_state_load_keys(b, &r->state, key, r->dtype, there);
    raw[s->place[X]] = att_state_load_values(b, &r->state, x, r->dtype, there);
    if (has_steps(r->v)) {
        const struct tir_value dt =
            att_recurrence_element(r, ATT_TOKENS(DT), ELEM, token, r->value_head);
        raw[s->place[DT]] = att_state_load_one(b, &r->state, dt, r->dtype, there);
    }
    raw[s->place[C]] = att_state_load_keys(b, &r->state, query, r->dtype, there);
    if (r->v->act != ATT_ACT_NONE) {
        const struct tir_value z = att_recurrence_value(r, ATT_HEADS(Z_IN), token);
        raw[s->place[Z]] = att_state_load_values(b, &r->state, z, r->dtype, there);
    }
}

/* Loads the value head's element of array argument `arg` of f32, a tile of 1 x 1; 0 if the argument
 * is NULL. */
static struct tir_value load_number(struct att_recurrence *r, const char *arg)
{
    struct tir_builder *b = &r->b;
    const struct tir_value at = att_at(b, arg, att_wide_times(b, r->value_head, FLOAT));
    return att_state_load_one(b, &r->state, at, TIR_F32, att_is_given(b, arg));
}

/* Loads the rate, the bias and the skip of the value head. */
static void load_head(struct att_recurrence *r)
{
    struct ssd *s = (struct ssd *)r;
    s->rate = load_number(r, ARG_RATE);
    s->skip = load_number(r, ARG_SKIP);
    if (has_steps(r->v))
        s->bias = load_number(r, ARG_DT_BIAS);
}

/* Advances *state by the token whose loaded vectors are raw[], and returns the token's output, an
 * f32 for each of the wave's value elements. */
static struct tir_value advance(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state)
{
    struct tir_builder *b = &r->b;
    struct ssd *s = (struct ssd *)r;
    const struct att_state *t = &r->state;
    const struct tir_value key = att_state_keys(b, t, raw[s->place[B]]);
    const struct tir_value query = att_state_keys(b, t, raw[s->place[C]]);
    const struct tir_value x = tir_convert(b, raw[s->place[X]], TIR_F32);
    struct tir_value g = s->rate, u = x;
    if (has_steps(r->v)) {
        const struct tir_value w = att_time_step(b, r->v, raw[s->place[DT]], s->bias);
        g = tir_mul(b, g, w);
        u = tir_mul(b, x, tir_broadcast(b, w, t->values));
    }
    const struct tir_value old = att_recurrence_scaled(r, *state, att_exp(b, g));
    *state = tir_fma(b, att_state_spread(b, t, u), att_state_spread(b, t, key), old);
    const struct tir_value sum = att_recurrence_product(r, *state, query);
    const struct tir_value skipped = tir_mul(b, x, tir_broadcast(b, s->skip, t->values));
    const struct tir_value out = tir_fma(b, sum, att_arg_like(b, ARG_SCALE, sum), skipped);
    if (r->v->act == ATT_ACT_NONE)
        return out;
    return tir_mul(b, out, att_silu(b, tir_convert(b, raw[s->place[Z]], TIR_F32)));
}

/* Sets place[] of the vectors that the variant has, and counts them in r.vectors. */
static void choose_vectors(struct ssd *s)
{
    for (int i = 0; i < VECTORS; i++) {
        const bool has = i == DT ? has_steps(s->r.v) : i != Z || s->r.v->act != ATT_ACT_NONE;
        s->place[i] = has ? (int)s->r.vectors++ : -1;
    }
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct ssd s = {
        .r = {.v = v,
              .dtype = att_dtype(v),
              .load = load_token,
              .begin = load_head,
              .advance = advance},
    };
    choose_vectors(&s);
    att_recurrence_build(&s.r, m, out);
}

const struct att_template att_template_ssd = {
    .name = "ssd",
    .description = "state-space recurrence, token by token, with states",
    .takes = OP_TAKES_SSD | ATT_BIT(TILE),
    ATT_TILES(att_state_tiles, knobs),
    .own = {"elements"},
    .fits = att_state_fits,
    .check = att_state_space_check,
    .build = build,
};
