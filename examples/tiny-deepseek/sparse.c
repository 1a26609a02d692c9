/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over the keys that an indexer chooses: its memory, and all launches of a call. Each
 * token is a sequence of its own with a list of slots. Prompts and generated tokens therefore need
 * the same kernels.
 */
#include <math.h>

#include "pages.h"
#include "parts.h"

static int32_t page_count(const struct layer *l) { return BATCH * LONGEST / l->shape->page; }

/* Allocates the plan: a token's keys are cut into parts, depending on its context. */
static void allocate_plan(struct layer *l)
{
    struct attn_device_info device = {.size = sizeof(device)};
    ATTN(attn_device_describe(l->kernels.device, &device));
    const struct attn_indexer_topk_desc desc = {
        .size = sizeof(desc),
        .top_k = l->shape->chosen,
        .heads = l->shape->index_heads,
        .planned = true,
    };
    const struct attn_indexer_topk_shape shape = {
        .size = sizeof(shape),
        .rows = TOKENS,
        .max_keys = LONGEST,
        .compute_units = device.compute_units,
    };
    ATTN(attn_indexer_topk_workspace_size(&desc, &shape, &l->memory.places));
    l->index.workspace = gpu_allocate(l->memory.places.bytes);
}

void sparse_allocate(struct layer *l)
{
    struct memory *m = &l->memory;
    struct index *x = &l->index;
    const size_t heads = (size_t)l->shape->index_heads, element = sizeof(uint16_t);
    x->q = gpu_allocate(TOKENS * heads * INDEX * element);
    x->k = gpu_allocate(TOKENS * INDEX * element);
    x->weights = gpu_allocate(TOKENS * heads * element);
    x->q_out = gpu_allocate(TOKENS * heads * INDEX);
    x->weights_out = gpu_allocate(TOKENS * heads * sizeof(float));
    x->cache = gpu_allocate((size_t)page_count(l) * layer_index_page(l));
    x->slots = gpu_allocate(TOKENS * (size_t)l->shape->chosen * sizeof(int32_t));
    x->counts = gpu_allocate(TOKENS * sizeof(int32_t));
    allocate_plan(l);
    m->row_sequences = gpu_allocate(TOKENS * sizeof(int32_t));
    m->row_ends = gpu_allocate(TOKENS * sizeof(int32_t));
    m->index_norm = gpu_allocate(INDEX * sizeof(float));
    m->index_bias = gpu_allocate(INDEX * sizeof(float));
    gpu_upload(m->index_norm, l->model->index_norm, INDEX * sizeof(float));
    gpu_upload(m->index_bias, l->model->index_bias, INDEX * sizeof(float));
}

void sparse_free(struct layer *l)
{
    const struct index *x = &l->index;
    void *const memory[] = {
        x->q,
        x->k,
        x->weights,
        x->q_out,
        x->weights_out,
        x->cache,
        x->slots,
        x->counts,
        x->workspace,
        l->memory.row_sequences,
        l->memory.row_ends,
        l->memory.index_norm,
        l->memory.index_bias,
    };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        HIP(hipFree(memory[i]));
}

static void launch_index_rotate(const struct layer *l)
{
    const struct memory *m = &l->memory;
    const struct attn_indexer_rope_cache_args args = {
        .size = sizeof(args),
        .q = l->index.q,
        .weights = l->index.weights,
        .q_out = l->index.q_out,
        .weights_out = l->index.weights_out,
        .k = l->index.k,
        .k_weight = m->index_norm,
        .k_bias = m->index_bias,
        .slot_mapping = m->in.slots,
        .positions = m->in.positions,
        .cos_sin = m->cos_sin,
        .keys = l->index.cache,
        .tokens = TOKENS,
        .page_size = l->shape->page,
        .page_count = page_count(l),
        .max_position = LONGEST,
        .page_stride = (int64_t)layer_index_page(l),
        .weight_scale = (float)(1 / sqrt((double)l->shape->index_heads * INDEX)),
        .eps = rms_eps,
        .stream = l->stream,
    };
    ATTN(attn_indexer_rope_cache_launch(l->kernels.index_rotate, &args));
}

static int32_t *words(const struct layer *l, size_t place)
{
    return (int32_t *)(l->index.workspace + place);
}

static float *numbers(const struct layer *l, size_t place)
{
    return (float *)(l->index.workspace + place);
}

/* Launches the plan of the indexer, which all layers of a model would share. */
static void launch_index_plan(const struct layer *l)
{
    const struct attn_indexer_topk_workspace *w = &l->memory.places;
    const struct attn_plan_args args = {
        .size = sizeof(args),
        .shape =
            {
                .size = sizeof(args.shape),
                .batch = TOKENS,
                .q_len = 1,
                .heads = 1,
                .kv_heads = 1,
                .lists = w->lists,
                .item_cost = w->item_cost,
                .merge_rate = w->merge_rate,
            },
        .lengths = {.kv_lens = l->memory.row_ends},
        .plan =
            {
                .work_indptr = words(l, w->work_indptr),
                .work_info = words(l, w->work_info),
                .reduce_indptr = words(l, w->reduce_indptr),
                .reduce_final_map = words(l, w->reduce_final_map),
                .reduce_partial_map = words(l, w->reduce_partial_map),
            },
        .stream = l->stream,
    };
    ATTN(attn_plan_launch(l->kernels.plan, &args));
}

/* Merges the lists of each token's parts; the contexts are too short for two launches. */
static void launch_join(const struct layer *l)
{
    const struct attn_indexer_topk_workspace *w = &l->memory.places;
    const struct attn_topk_args args = {
        .size = sizeof(args),
        .scores = numbers(l, w->values),
        .source = words(l, w->indices),
        .reduce_indptr = words(l, w->reduce_indptr),
        .block_table = l->memory.block_table,
        .block_table_stride = LONGEST / l->shape->page,
        .row_sequences = l->memory.row_sequences,
        .indices = l->index.slots,
        .counts = l->index.counts,
        .rows = TOKENS,
        .page_size = l->shape->page,
        .stream = l->stream,
    };
    ATTN(attn_topk_launch(l->kernels.join, &args));
}

/* Launches the choice: slots of the best keys of each token's sequence, up to itself. */
static void launch_choose(const struct layer *l)
{
    const struct memory *m = &l->memory;
    const struct attn_indexer_topk_workspace *w = &l->memory.places;
    const struct attn_indexer_topk_args args = {
        .size = sizeof(args),
        .q = l->index.q_out,
        .weights = l->index.weights_out,
        .keys = l->index.cache,
        .row_ends = m->row_ends,
        .block_table = m->block_table,
        .block_table_stride = LONGEST / l->shape->page,
        .row_sequences = m->row_sequences,
        .indices = l->index.slots,
        .counts = l->index.counts,
        .work_indptr = words(l, w->work_indptr),
        .work_info = words(l, w->work_info),
        .work_lists = w->lists,
        .partial_indices = words(l, w->indices),
        .partial_values = numbers(l, w->values),
        .rows = TOKENS,
        .page_size = l->shape->page,
        .page_stride = (int64_t)layer_index_page(l),
        .slots = true,
        .stream = l->stream,
    };
    ATTN(attn_indexer_topk_launch(l->kernels.choose, &args));
}

static void launch_attend(const struct layer *l)
{
    const struct attn_mla_decode_args args = {
        .size = sizeof(args),
        .cache = latent_cache(l),
        .pages =
            {
                .kv_lens = l->index.counts,
                .block_table = l->index.slots,
                .entries = l->shape->chosen,
            },
        .q = l->memory.t.absorbed,
        .out = l->memory.t.latent,
        .batch = TOKENS,
        .tokens = TOKENS,
        .scale = (float)softmax_scale(l->shape),
        .stream = l->stream,
    };
    ATTN(attn_mla_decode_launch(l->kernels.sparse, &args));
}

void launch_sparse(const struct layer *l)
{
    launch_index_rotate(l);
    launch_index_plan(l);
    launch_choose(l);
    launch_join(l);
    launch_absorb(l, TOKENS);
    launch_rotate(l, TOKENS, true);
    launch_attend(l);
    launch_raise(l, TOKENS);
}
