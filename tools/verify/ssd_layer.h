/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares parts that the verification of ssd and of ssd_prefill shares: inputs of a
 * state-space layer, and the comparison with the recurrence, token by token.
 */
#ifndef TOOLS_VERIFY_SSD_LAYER_H
#define TOOLS_VERIFY_SSD_LAYER_H

#include "tools/verify/recurrent.h"

/** A call of ssd or ssd_prefill: its operands and settings. */
struct ssd_layer {
    struct recurrent r;
    /* Operands of the call, with the names of ops/ssd.def. */
    struct operand *x, *b, *c, *z, *dt, *dt_bias, *rate, *d, *out;
    enum attn_gates gates;
    enum attn_act act;
    /* Pointers to counts and scalars in the call's descriptor and arguments; elements of a row of B
     * and C, and of a head. */
    int32_t *heads, *value_heads;
    int head_dim, head_dim_v;
    float *scale, *dt_min, *dt_max;
    int chunk; /* tokens of a matrix product; 0: the kernel works token by token */

    /* Segments of prompts. segments: whether the kernel writes or reads their states. segment:
     * tokens of a segment. segment_count: segments of the longest sequence. Then the operands. */
    enum attn_segments segments;
    int segment, segment_count;
    struct operand *segment_states, *segment_sums;
};

/** Makes a struct ssd_layer for a call. OP is the op's name in numbers of operands, `op` in unions
 * of descriptors and arguments. `recurrent` and `tokens` are the members r and chunk. */
#define SSD_LAYER_OF(call, op, OP, recurrent, tokens)  \
    ((struct ssd_layer){                               \
        .r = (recurrent),                              \
        .x = call_operand((call), OP##_X),             \
        .b = call_operand((call), OP##_B),             \
        .c = call_operand((call), OP##_C),             \
        .z = call_operand((call), OP##_Z),             \
        .dt = call_operand((call), OP##_DT),           \
        .dt_bias = call_operand((call), OP##_DT_BIAS), \
        .rate = call_operand((call), OP##_RATE),       \
        .d = call_operand((call), OP##_D),             \
        .out = call_operand((call), OP##_OUT),         \
        .gates = (call)->desc.op.gates,                \
        .act = (call)->desc.op.act,                    \
        .heads = &(call)->desc.op.heads,               \
        .value_heads = &(call)->desc.op.value_heads,   \
        .head_dim = (call)->desc.op.head_dim,          \
        .head_dim_v = (call)->desc.op.head_dim_v,      \
        .scale = &(call)->args.op.scale,               \
        .dt_min = &(call)->args.op.dt_min,             \
        .dt_max = &(call)->args.op.dt_max,             \
        .chunk = (tokens),                             \
    })

/** Sets head counts, token counts, scale, dt_min and dt_max of a call. */
void ssd_layer_size(const struct ssd_layer *l);

/** Sets strides and absent operands: with FUSED tensors are slices of one row, with PLAIN d and
 * dt_bias are absent. */
void ssd_layer_place(const struct ssd_layer *l);

/** Fills the inputs at random. With EXTREMES time steps and decays are at their bounds. For a
 * kernel that reads states of segments, the reference computes these states. */
void ssd_layer_fill(const struct ssd_layer *l);

/** Compares outputs and states with the recurrence. */
void ssd_layer_compare(const struct ssd_layer *l);

/** Returns the bytes that a call has to load and store: states and rows of tokens. */
double ssd_layer_least_bytes(const struct ssd_layer *l);

#endif
