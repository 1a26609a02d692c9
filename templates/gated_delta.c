/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the gated delta rule of GDN and KDA, token by token: S = exp(g) S, S += k (beta
 * (v - S k))^T and out = S q. The state S of a sequence and value head has head_dim x head_dim_v
 * elements.
 *
 * A wave keeps some of the head_dim_v value elements, each with all head_dim elements of a key, in
 * registers over all tokens of a call. No other wave has these elements, so a state is read and
 * written once and in place. The loads of the next token's vectors run while a wave computes one
 * token. All arithmetic is in f32.
 */
#include "templates/linear/delta.h"
#include "templates/linear/record.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

/* Bytes of an f32 number, and of an element of bf16 or fp16. */
enum { FLOAT = 4, ELEM = 2 };

static const struct att_knob knobs[] = {
    {"elements", 2, {2048, 8192}},
    {"waves", 2, {2, 4}},
    {"waves_per_simd", 2, {1, 4}},
};

/* Indices in raw[] of the vectors that are loaded for a token. */
enum { Q, K, V, GATE, BETA, VECTORS };

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (!att_state_check_dims(v, why))
        return false;
    if (v->gates == ATT_GATES_CONSTANT)
        return att_reject(why, ATT_GATES, "the delta rule has decays of each token");
    if (v->tree && v->replay)
        return att_reject(why, ATT_TREE, "replay records a chain of drafts, and a tree is none");
    return att_check_tile(v, m, why);
}

/* Issues the loads of the vectors of token `token` (i32, row index in q) into raw[VECTORS]. The
 * vectors are zeros if `there` (i1) is false. */
static void load_token(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                       struct tir_value *raw)
{
    struct tir_builder *b = &r->b;
    const struct tir_value q = att_recurrence_key(r, ATT_HEADS(Q), token);
    const struct tir_value k = att_recurrence_key(r, ATT_HEADS(K_IN), token);
    const struct tir_value v = att_recurrence_value(r, ATT_HEADS(V_IN), token);
    raw[K] = att_state_load_keys(b, &r->state, k, r->dtype, there);
    raw[GATE] = att_delta_load_gate(r, token, there);
    raw[V] = att_state_load_values(b, &r->state, v, r->dtype, there);
    raw[BETA] = att_delta_load_beta(r, token, there);
    raw[Q] = att_state_load_keys(b, &r->state, q, r->dtype, there);
}

/* ---- Records ---- */

/* Stores the record of the current token's update. `u` is the update at the wave's value elements.
 * The wave with the first value element also stores the key `k` and `g`, the logarithm of the
 * decay. */
static void record(struct att_delta *d, struct tir_value u, struct tir_value k, struct tir_value g)
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
    if (att_delta_has_channels(r->v))
        att_state_store_keys(b, &r->state, gate, first, g);
    else
        att_state_store_one(b, gate, first, g);
}

/* ---- The recurrence ---- */

/* Advances *state by a token with vectors raw[VECTORS], and returns the token's output at the
 * wave's value elements. In variants with field replay, also stores the token's record. */
static struct tir_value advance(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state)
{
    struct att_delta *d = (struct att_delta *)r;
    const struct att_delta_token token = {raw[Q], raw[K], raw[V], raw[GATE], raw[BETA]};
    struct att_delta_update did;
    const struct tir_value out = att_delta_advance(d, &token, state, &did);
    if (r->v->replay)
        record(d, did.u, did.k, did.g);
    return out;
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct att_delta d = {.r = {.v = v,
                                .dtype = att_dtype(v),
                                .vectors = VECTORS,
                                .keeps_state = v->replay,
                                .load = load_token,
                                .begin = att_delta_load_head,
                                .advance = advance}};
    att_recurrence_build(&d.r, m, out);
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
