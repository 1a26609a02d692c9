/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a decode step into work lists, so that it uses the whole GPU. */
#ifndef WORK_H
#define WORK_H

#include "gpu.h"

struct work {
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan host, device; /* `device` is filled by work_plan() or the plan kernel */
    void *host_memory, *device_memory;    /* memory of the plans, `bytes` bytes each */
    size_t bytes;
    float *partial_out, *partial_lse; /* results of the parts, for the combine */
};

/*
 * Allocates memory for plans of this op's steps. The caller sets batch, q_len, heads, kv_heads and
 * window of `shape`. Keys, up to `longest` per sequence, are split as `attnc tune` found best for
 * the pack. An untuned pack has one list per sequence and KV head. A part has `head_dim_v` numbers
 * per query and head.
 */
void work_allocate(struct work *w, const struct attn_op *decode,
                   const struct attn_decode_plan_shape *shape, int longest, int head_dim_v);
void work_free(struct work *w);

/* Plans a step for these contexts, [batch], on the host, and copies the plan to the device. */
void work_plan(struct work *w, const int32_t *kv_lens);

#endif
