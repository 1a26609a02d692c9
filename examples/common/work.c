/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates memory for plans of decode steps, and plans steps on the host. */
#include "work.h"

#include <stdlib.h>

void work_allocate(struct work *w, const struct attn_op *decode,
                   const struct attn_decode_plan_shape *shape, int longest, int head_dim_v)
{
    const struct attn_decode_step step = {
        .size = sizeof(step),
        .batch = shape->batch,
        .kv_len = longest,
    };
    struct attn_decode_split split = {.size = sizeof(split)};
    ATTN(attn_decode_choose_split(decode, &step, &split));
    w->shape = *shape;
    w->shape.size = sizeof(w->shape);
    w->shape.lists = split.lists ? split.lists : shape->batch * shape->kv_heads;
    w->shape.item_cost = split.item_cost;
    w->shape.merge_rate = split.merge_rate;
    w->shape.unit_keys = split.unit_keys;
    ATTN(attn_decode_plan_sizes(&w->shape, &w->sizes));
    ATTN(attn_decode_plan_place(&w->shape, NULL, &w->bytes, NULL));
    w->host_memory = calloc(1, w->bytes);
    if (!w->host_memory)
        exit(2);
    w->device_memory = gpu_allocate(w->bytes);
    ATTN(attn_decode_plan_place(&w->shape, w->host_memory, &w->bytes, &w->host));
    ATTN(attn_decode_plan_place(&w->shape, w->device_memory, &w->bytes, &w->device));
    const size_t rows = (size_t)w->sizes.partial_rows * (size_t)shape->heads;
    w->partial_out = gpu_allocate((rows * (size_t)head_dim_v + 1) * sizeof(float));
    w->partial_lse = gpu_allocate((rows + 1) * sizeof(float));
}

void work_free(struct work *w)
{
    free(w->host_memory);
    HIP(hipFree(w->device_memory));
    HIP(hipFree(w->partial_out));
    HIP(hipFree(w->partial_lse));
}

void work_plan(struct work *w, const int32_t *kv_lens)
{
    const struct attn_decode_plan_lengths lengths = {.kv_lens = kv_lens};
    ATTN(attn_decode_plan(&w->shape, &lengths, &w->host));
    gpu_upload(w->device_memory, w->host_memory, w->bytes);
}
