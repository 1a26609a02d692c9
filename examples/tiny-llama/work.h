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

void work_allocate(struct work *w);
void work_free(struct work *w);

/* Plans a step for these contexts, and brings the plan to the device. */
void work_plan(struct work *w, const int32_t kv_lens[BATCH]);

#endif
