/* SPDX-License-Identifier: Apache-2.0
 *
 * This file defines records [slot, value head, step] of the updates that tokens make to states of
 * the gated delta rule: S = exp(g) S + k u^T. A record has f32 numbers: head_dim_v of u, head_dim
 * of k, and g. g has head_dim numbers with a decay per channel, else one number and three of
 * padding.
 */
#ifndef TEMPLATES_LINEAR_RECORD_H
#define TEMPLATES_LINEAR_RECORD_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** Returns the number of bytes of one record, for one token and value head. */
static inline int att_record_bytes(const struct att_variant *v)
{
    const int gates = v->decay == ATT_DECAY_CHANNEL ? v->head_dim : 4;
    return (v->head_dim_v + v->head_dim + gates) * (int)sizeof(float);
}

/** Returns the address (i64) of the record of draft `step` (i32 index) and value head `value_head`
 * (i32 index). `row` (i64) is the address of the slot's records. A record has `bytes` bytes. */
static inline struct tir_value att_record(struct tir_builder *b, struct tir_value row,
                                          struct tir_value value_head, struct tir_value step,
                                          int bytes)
{
    const struct tir_value steps = tir_arg(b, ARG_RECORD_STEPS, TIR_I32);
    const struct tir_value index = tir_add(b, tir_mul(b, value_head, steps), step);
    return tir_add(b, row, att_wide_times(b, index, bytes));
}

#endif
