/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how a decode step is cut into pieces, so that it keeps the whole GPU busy. */
#ifndef WORK_H
#define WORK_H

#include "attention.h"
#include "gpu.h"

struct work {
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan host, device; /* made here, read there */
    float *partial_out, *partial_lse;     /* what the pieces leave for the combine */
};

/* Takes memory for plans of steps of this op, split as `attnc tune` found it for the pack; for one
 * that was not tuned there is a list for each compute unit. */
void work_allocate(struct work *w, const struct attn_op *decode);
void work_free(struct work *w);

/* Plans a step for these contexts, and brings the plan to the device. */
void work_plan(struct work *w, const int32_t kv_lens[BATCH]);

#endif
