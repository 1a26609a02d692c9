/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares parts that the verification of gated_delta and of gated_delta_prefill shares:
 * inputs of a layer of GDN or KDA, and the reference's inputs of each token in double precision.
 */
#ifndef TOOLS_VERIFY_DELTA_LAYER_H
#define TOOLS_VERIFY_DELTA_LAYER_H

#include "tools/verify/recurrent.h"

/** A call of gated_delta or gated_delta_prefill: its operands and settings. */
struct delta_layer {
    struct recurrent r;
    /* Operands of the call, with the names of ops/gated_delta.def. */
    struct operand *q, *k, *v, *gate_in, *beta_in, *a_log, *dt_bias, *log_decay, *beta, *out;
    enum attn_decay decay;
    enum attn_gates gates;
    /* l2_norm: q and k are divided by their lengths. beta_wide: beta has a number for each value
     * element. */
    bool l2_norm, beta_wide;
    /* Pointers to counts and scalars in the call's descriptor and arguments; elements of a key and
     * of a value. */
    int32_t *heads, *value_heads;
    int head_dim, head_dim_v;
    float *scale, *l2_eps, *lower_bound;
};

/** Makes a struct delta_layer for a call. OP is the op's name in numbers of operands, `op` in
 * unions of descriptors and arguments. `recurrent` and `wide` are the members r and beta_wide. */
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

/** Sets strides of tensors: with FUSED they are slices of one row. With PLAIN optional tensors are
 * left out. */
void delta_layer_place(const struct delta_layer *l);

/** Fills the inputs at random. With EXTREMES gates are at their bounds, and some keys are zeros. */
void delta_layer_fill(const struct delta_layer *l);

/** Bounds of the relative errors of gates, keys and queries in a kernel's float32. */
struct delta_bounds {
    double decay[RECURRENT_DIM_MAX]; /* of decays exp(g), for each element of a key */
    double log[RECURRENT_DIM_MAX];   /* of the logarithms g */
    double key, query, beta;
};

/** The reference's inputs of a token for a value head. */
struct delta_token {
    /* q and k divided by their lengths; q also times the scale */
    double q[RECURRENT_DIM_MAX], k[RECURRENT_DIM_MAX];
    /* lengths by which k and q were divided; 1 without l2_norm; 0: the vector is zeros */
    double length, query_length;
    /* log: g; decay: exp(g), for each element of a key */
    double log[RECURRENT_DIM_MAX], decay[RECURRENT_DIM_MAX];
    double beta[RECURRENT_DIM_MAX], v[RECURRENT_DIM_MAX];
    struct delta_bounds off;
};

/** Computes the inputs of the recurrence for token t of a value head, and bounds of their
 * errors. */
void delta_layer_token(const struct delta_layer *l, int t, int value_head, struct delta_token *out);

/** Returns the bytes of q, k, v, gates and out for all tokens. */
double delta_layer_row_bytes(const struct delta_layer *l);

#endif
