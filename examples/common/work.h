/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how a decode step is cut into work lists, so that it keeps the whole GPU
 * busy. */
#ifndef WORK_H
#define WORK_H

#include "gpu.h"

struct work {
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan host, device; /* work_plan() or the plan kernel makes the latter */
    float *partial_out, *partial_lse;     /* what the parts leave for the combine */
};

/*
 * Takes memory for plans of steps of this op. The caller sets batch, q_len, heads, kv_heads and
 * window of `shape`. Keys, up to `longest` a sequence, are split as `attnc tune` found it for the
 * pack; for one that was not tuned there is a list for each sequence and KV head. A part has
 * `head_dim_v` numbers for each query and head.
 */
void work_allocate(struct work *w, const struct attn_op *decode,
                   const struct attn_decode_plan_shape *shape, int longest, int head_dim_v);
void work_free(struct work *w);

/* Plans a step for these contexts, [batch], on the host, and brings the plan to the device. */
void work_plan(struct work *w, const int32_t *kv_lens);

#endif
