/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what verification of gated_delta and of gated_delta_prefill shares: inputs of
 * a layer of GDN or KDA, and what the recurrence takes of a token, in doubles.
 */
#ifndef TOOLS_VERIFY_DELTA_LAYER_H
#define TOOLS_VERIFY_DELTA_LAYER_H

#include "tools/verify/recurrent.h"

/** A call of either op. */
struct delta_layer {
    struct recurrent r;
    /* Operands with the names of ops/gated_delta.def. */
    struct operand *q, *k, *v, *gate_in, *beta_in, *a_log, *dt_bias, *log_decay, *beta, *out;
    enum attn_decay decay;
    enum attn_gates gates;
    /* q and k are divided by their lengths; beta has a number for each value element. */
    bool l2_norm, beta_wide;
    /* Counts and scalars of the call's descriptor and arguments. */
    int32_t *heads, *value_heads;
    int head_dim, head_dim_v;
    float *scale, *l2_eps, *lower_bound;
};

/** The members of struct delta_layer for a call whose op is OP in operands and `op` in unions. */
#define DELTA_LAYER_OF(call, op, OP, recurrent, wide)      \
    ((struct delta_layer){                                 \
        .r = (recurrent),                                  \
        .q = call_operand((call), OP##_Q),                 \
        .k = call_operand((call), OP##_K),                 \
        .v = call_operand((call), OP##_V),                 \
        .gate_in = call_operand((call), OP##_GATE_IN),     \
        .beta_in = call_operand((call), OP##_BETA_IN),     \
        .a_log = call_operand((call), OP##_A_LOG),         \
        .dt_bias = call_operand((call), OP##_DT_BIAS),     \
        .log_decay = call_operand((call), OP##_LOG_DECAY), \
        .beta = call_operand((call), OP##_BETA),           \
        .out = call_operand((call), OP##_OUT),             \
        .decay = (call)->desc.op.decay,                    \
        .gates = (call)->desc.op.gates,                    \
        .l2_norm = (call)->desc.op.l2_norm,                \
        .beta_wide = (wide),                               \
        .heads = &(call)->desc.op.heads,                   \
        .value_heads = &(call)->desc.op.value_heads,       \
        .head_dim = (call)->desc.op.head_dim,              \
        .head_dim_v = (call)->desc.op.head_dim_v,          \
        .scale = &(call)->args.op.scale,                   \
        .l2_eps = &(call)->args.op.l2_eps,                 \
        .lower_bound = &(call)->args.op.lower_bound,       \
    })

/** Sets head counts, token counts, scale, l2_eps and lower_bound of a call. */
void delta_layer_size(const struct delta_layer *l);

/** Places tensors, with FUSED in one row, and leaves out what PLAIN has not. */
void delta_layer_place(const struct delta_layer *l);

/** Fills the inputs, with gates at their bounds and zero keys for EXTREMES. */
void delta_layer_fill(const struct delta_layer *l);

/** Bounds of the errors of gates, keys and queries in float, relative to the exact numbers. f =
 * 2^-24: */
struct delta_bounds {
    double decay[RECURRENT_DIM_MAX]; /* of exp(g), for each element of a key */
    double log[RECURRENT_DIM_MAX];   /* of g */
    double key, query, beta;
};

/** A token of a value head. */
struct delta_token {
    double q[RECURRENT_DIM_MAX], k[RECURRENT_DIM_MAX]; /* divided by their lengths; q is scaled */
    double length, query_length; /* what k and q were divided by; 1 without l2_norm, 0 for zeros */
    double log[RECURRENT_DIM_MAX], decay[RECURRENT_DIM_MAX]; /* g, exp(g) */
    double beta[RECURRENT_DIM_MAX], v[RECURRENT_DIM_MAX];
    struct delta_bounds off;
};

/** Computes the inputs of the recurrence for token t of a value head, and bounds of their
 * errors. */
void delta_layer_token(const struct delta_layer *l, int t, int value_head, struct delta_token *out);

/** Returns the Euclidean length of n numbers. */
double delta_length_of(const double *x, int n);

/** Compares the output of a sequence that is padding with zeros. */
void delta_layer_compare_padding(const struct delta_layer *l, const struct recurrent_sequence *s);

/** Returns the bytes of q, k, v, gates and out of all tokens. */
double delta_layer_row_bytes(const struct delta_layer *l);

#endif
