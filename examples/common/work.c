/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates memory for plans of decode steps, and plans steps on the host. */
#include "work.h"

#include <stdlib.h>
#include <string.h>

/* A plan's five arrays and their capacities in integers. */
enum { ARRAYS = 5 };

static void list_arrays(struct work *w, struct attn_decode_plan *plan, int32_t **arrays[ARRAYS],
                        size_t counts[ARRAYS])
{
    int32_t **const a[ARRAYS] = {
        &plan->work_indptr,      &plan->work_info,          &plan->reduce_indptr,
        &plan->reduce_final_map, &plan->reduce_partial_map,
    };
    const size_t n[ARRAYS] = {
        (size_t)w->shape.lists + 1, 8 * (size_t)w->sizes.work_items, (size_t)w->shape.batch + 1,
        2 * (size_t)w->shape.batch, (size_t)w->sizes.partials,
    };
    memcpy(arrays, a, sizeof(a));
    memcpy(counts, n, sizeof(n));
}

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
    ATTN(attn_decode_plan_sizes(&w->shape, &w->sizes));
    int32_t **host[ARRAYS], **device[ARRAYS];
    size_t counts[ARRAYS];
    list_arrays(w, &w->host, host, counts);
    list_arrays(w, &w->device, device, counts);
    for (int i = 0; i < ARRAYS; i++) {
        *host[i] = calloc(counts[i] + 1, sizeof(int32_t));
        if (!*host[i])
            exit(2);
        *device[i] = gpu_allocate((counts[i] + 1) * sizeof(int32_t));
    }
    const size_t rows = (size_t)w->sizes.partial_rows * (size_t)shape->heads;
    w->partial_out = gpu_allocate((rows * (size_t)head_dim_v + 1) * sizeof(float));
    w->partial_lse = gpu_allocate((rows + 1) * sizeof(float));
}

void work_free(struct work *w)
{
    int32_t **host[ARRAYS], **device[ARRAYS];
    size_t counts[ARRAYS];
    list_arrays(w, &w->host, host, counts);
    list_arrays(w, &w->device, device, counts);
    for (int i = 0; i < ARRAYS; i++) {
        free(*host[i]);
        HIP(hipFree(*device[i]));
    }
    HIP(hipFree(w->partial_out));
    HIP(hipFree(w->partial_lse));
}

void work_plan(struct work *w, const int32_t *kv_lens)
{
    const struct attn_decode_plan_lengths lengths = {.kv_lens = kv_lens};
    ATTN(attn_decode_plan(&w->shape, &lengths, &w->host));
    int32_t **host[ARRAYS], **device[ARRAYS];
    size_t counts[ARRAYS];
    list_arrays(w, &w->host, host, counts);
    list_arrays(w, &w->device, device, counts);
    for (int i = 0; i < ARRAYS; i++)
        gpu_upload(*device[i], *host[i], counts[i] * sizeof(int32_t));
}
