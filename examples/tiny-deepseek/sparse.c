/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is attention over the keys that an indexer chooses: its memory, and all launches of a
 * call. A token is a sequence of its own in the attention, with a list of slots, so that prompts
 * and generated tokens are alike.
 */
#include <math.h>

#include "pages.h"
#include "parts.h"

static int32_t page_count(const struct layer *l) { return BATCH * LONGEST / l->shape->page; }

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

/* Slots of the best keys of each token's own sequence, up to itself. */
static void launch_choose(const struct layer *l)
{
    const struct memory *m = &l->memory;
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
        .total_q = TOKENS,
        .scale = (float)softmax_scale(l->shape),
        .stream = l->stream,
    };
    ATTN(attn_mla_decode_launch(l->kernels.sparse, &args));
}

void launch_sparse(const struct layer *l)
{
    launch_index_rotate(l);
    launch_choose(l);
    launch_absorb(l, TOKENS);
    launch_rotate(l, TOKENS, true);
    launch_attend(l);
    launch_raise(l, TOKENS);
}
