/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the layer's kernels. */
#include "parts.h"

/* Returns the latent cache; an fp8 cache is addressed in bytes, a bf16 one in 16-bit elements. */
struct attn_cache latent_cache(const struct layer *l)
{
    return (struct attn_cache){
        .k = l->memory.cache,
        .k_scale = l->shape->fp8 ? l->memory.scale : NULL,
        .page_count = BATCH * LONGEST / l->shape->page,
    };
}

static struct attn_pages pages_of(const struct layer *l)
{
    return (struct attn_pages){
        .kv_lens = l->memory.in.kv_lens,
        .block_table = l->memory.block_table,
        .entries = LONGEST / l->shape->page,
    };
}

void launch_norm(const struct layer *l, int tokens)
{
    const struct memory *m = &l->memory;
    const struct attn_qk_rmsnorm_args args = {
        .size = sizeof(args),
        .q = m->t.q_a,
        .q_weight = m->q_norm,
        .q_out = m->t.q_a,
        .kv = m->t.kv_a,
        .kv_weight = m->kv_norm,
        .kv_out = m->t.kv_a,
        .kv_token_stride = ROW,
        .kv_out_token_stride = ROW,
        .tokens = tokens,
        .eps = rms_eps,
        .stream = l->stream,
    };
    ATTN(attn_qk_rmsnorm_launch(l->kernels.norm, &args));
}

void launch_rotate(const struct layer *l, int tokens, bool step)
{
    const struct memory *m = &l->memory;
    const struct shape *s = l->shape;
    struct attn_mla_rope_cache_args args = {
        .size = sizeof(args),
        .cache = latent_cache(l),
        .q_pe = m->t.q + s->nope,
        .q_pe_token_stride = query_size(s),
        .q_pe_head_stride = key_dim(s),
        .kv_c = m->t.kv_a,
        .k_pe = m->t.kv_a + LATENT,
        .kv_c_token_stride = ROW,
        .k_pe_token_stride = ROW,
        .slot_mapping = m->in.slots,
        .positions = m->in.positions,
        .cos_sin = m->cos_sin,
        .max_position = LONGEST,
        .tokens = tokens,
        .stream = l->stream,
    };
    if (step) {
        args.q_out =
            m->t.absorbed; /* launch_absorb() wrote its latent part, if there is an indexer */
        if (!s->index_heads) {
            args.q_nope = m->t.q;
            args.q_nope_token_stride = query_size(s);
            args.q_nope_head_stride = key_dim(s);
            args.w_uk = m->absorb;
        }
    } else {
        args.kv_c_out = m->t.kv_a;
        args.k_pe_out = m->t.kv_a + LATENT;
        args.kv_c_out_token_stride = ROW;
        args.k_pe_out_token_stride = ROW;
    }
    ATTN(attn_mla_rope_cache_launch(step ? l->kernels.rotate_step : l->kernels.rotate, &args));
}

void launch_up(const struct layer *l, const uint16_t *rows, int tokens)
{
    const struct shape *s = l->shape;
    const struct attn_head_product_args keys = {
        .size = sizeof(keys),
        .x = rows,
        .x_token_stride = ROW,
        .w = l->memory.kv_b,
        .w_head_stride = (int64_t)(s->nope + s->value) * LATENT,
        .tail = rows + LATENT,
        .tail_token_stride = ROW,
        .out = l->memory.t.k,
        .out_token_stride = query_size(s),
        .out_head_stride = key_dim(s),
        .tail_out = l->memory.t.k + s->nope,
        .tail_out_token_stride = query_size(s),
        .tail_out_head_stride = key_dim(s),
        .tokens = tokens,
        .stream = l->stream,
    };
    const struct attn_head_product_args values = {
        .size = sizeof(values),
        .x = rows,
        .x_token_stride = ROW,
        .w = l->memory.kv_b + (size_t)s->nope * LATENT,
        .w_head_stride = keys.w_head_stride,
        .out = l->memory.t.v,
        .tokens = tokens,
        .stream = l->stream,
    };
    ATTN(attn_head_product_launch(l->kernels.keys, &keys));
    ATTN(attn_head_product_launch(l->kernels.values, &values));
}

static struct attn_prefill_args prefill_args(const struct layer *l, const struct call *call)
{
    struct attn_prefill_args args = {
        .size = sizeof(args),
        .q = l->memory.t.q,
        .k = l->memory.t.k,
        .v = l->memory.t.v,
        .lse_head_stride = TOKENS,
        .lse_token_stride = 1,
        .cu_seqlens_q = l->memory.in.q_ends,
        .batch = BATCH,
        .tokens = call_tokens(call),
        .scale = (float)softmax_scale(l->shape),
        .stream = l->stream,
    };
    for (int s = 0; s < BATCH; s++)
        args.max_seqlen_q = call->added[s] > args.max_seqlen_q ? call->added[s] : args.max_seqlen_q;
    return args;
}

void launch_prefill(const struct layer *l, const struct call *call)
{
    struct attn_prefill_args args = prefill_args(l, call);
    args.out = l->memory.t.out;
    args.lse = l->memory.lse;
    args.cu_seqlens_k = args.cu_seqlens_q;
    args.total_k = args.tokens;
    args.max_seqlen_k = args.max_seqlen_q;
    ATTN(attn_prefill_launch(l->kernels.prefill, &args));
}

void launch_gather(const struct layer *l)
{
    struct attn_cache cache = latent_cache(l);
    const size_t element = l->shape->fp8 ? 1 : sizeof(uint16_t);
    cache.v = (uint8_t *)cache.k + LATENT * element;
    cache.v_scale = cache.k_scale;
    cache.k_token_stride = cache.v_token_stride = ROW;
    cache.k_page_stride = cache.v_page_stride = (int64_t)ROW * l->shape->page;
    const struct attn_cache_gather_args args = {
        .size = sizeof(args),
        .cache = cache,
        .pages = pages_of(l),
        .k_out = l->memory.t.gathered,
        .v_out = l->memory.t.gathered + LATENT,
        .k_out_token_stride = ROW,
        .v_out_token_stride = ROW,
        .cu_seqlens_k = l->memory.in.k_ends,
        .seq_starts = l->memory.in.starts,
        .batch = BATCH,
        .total_k = CHUNKED,
        .max_seqlen_k = CHUNK,
        .stream = l->stream,
    };
    ATTN(attn_cache_gather_launch(l->kernels.gather, &args));
}

void launch_chunk(const struct layer *l, const struct call *call)
{
    const struct memory *m = &l->memory;
    struct attn_prefill_args args = prefill_args(l, call);
    args.out = m->chunk_out;
    args.lse = m->chunk_lse;
    args.cu_seqlens_k = m->in.k_ends;
    args.max_seqlen_k = CHUNK;
    ATTN(attn_prefill_launch(l->kernels.chunk, &args));
    const struct attn_combine_args merge = {
        .size = sizeof(merge),
        .out = m->t.out,
        .lse = m->lse,
        .prefix = m->chunk_out,
        .prefix_lse = m->chunk_lse,
        .suffix = m->t.out,
        .suffix_lse = m->lse,
        .lse_head_stride = TOKENS,
        .lse_token_stride = 1,
        .prefix_lse_head_stride = TOKENS,
        .prefix_lse_token_stride = 1,
        .suffix_lse_head_stride = TOKENS,
        .suffix_lse_token_stride = 1,
        .tokens = args.tokens,
        .stream = l->stream,
    };
    ATTN(attn_combine_launch(l->kernels.merge, &merge));
}

/* Launches the plan of a step, from the lengths in device memory. */
static void launch_plan(const struct layer *l)
{
    const struct memory *m = &l->memory;
    const struct attn_plan_args args = {
        .size = sizeof(args),
        .shape = m->work.shape,
        .lengths = {.kv_lens = m->in.kv_lens, .qo_indptr = m->in.q_ends},
        .plan = m->work.device,
        .stream = l->stream,
    };
    ATTN(attn_plan_launch(l->kernels.plan, &args));
}

void launch_absorb(const struct layer *l, int tokens)
{
    const struct shape *s = l->shape;
    const struct attn_head_product_args args = {
        .size = sizeof(args),
        .x = l->memory.t.q,
        .x_token_stride = query_size(s),
        .x_head_stride = key_dim(s),
        .w = l->memory.absorb,
        .out = l->memory.t.absorbed,
        .out_token_stride = (int64_t)s->heads * ROW,
        .out_head_stride = ROW,
        .tokens = tokens,
        .stream = l->stream,
    };
    ATTN(attn_head_product_launch(l->kernels.absorb, &args));
}

/* Launches attention over latents and the product with W_UV. */
static void launch_decode(const struct layer *l)
{
    const struct memory *m = &l->memory;
    const struct shape *s = l->shape;
    const struct attn_mla_decode_args args = {
        .size = sizeof(args),
        .cache = latent_cache(l),
        .pages = pages_of(l),
        .q = m->t.absorbed,
        .out = m->t.latent,
        .qo_indptr = m->in.q_ends,
        .work_indptr = m->work.device.work_indptr,
        .work_info = m->work.device.work_info,
        .work_lists = m->work.shape.lists,
        .partial_out = m->work.partial_out,
        .partial_lse = m->work.partial_lse,
        .partial_rows = m->work.sizes.partial_rows,
        .reduce_indptr = m->work.device.reduce_indptr,
        .reduce_partial_map = m->work.device.reduce_partial_map,
        .tickets = m->tickets,
        .w_uv = m->kv_b + (size_t)s->nope * LATENT,
        .w_uv_head_stride = (int64_t)(s->nope + s->value) * LATENT,
        .product_out = m->t.out,
        .product_tickets = m->product_tickets,
        .batch = BATCH,
        .tokens = STEP,
        .scale = (float)softmax_scale(l->shape),
        .stream = l->stream,
    };
    ATTN(attn_mla_decode_launch(l->kernels.decode, &args));
}

void launch_raise(const struct layer *l, int tokens)
{
    const struct shape *s = l->shape;
    const struct attn_head_product_args args = {
        .size = sizeof(args),
        .x = l->memory.t.latent,
        .w = l->memory.kv_b + (size_t)s->nope * LATENT,
        .w_head_stride = (int64_t)(s->nope + s->value) * LATENT,
        .out = l->memory.t.out,
        .tokens = tokens,
        .stream = l->stream,
    };
    ATTN(attn_head_product_launch(l->kernels.raise, &args));
}

void launch_step(const struct layer *l)
{
    launch_plan(l);
    launch_rotate(l, STEP, true);
    launch_decode(l);
}
