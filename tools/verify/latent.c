/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/latent.h"

#include "tools/verify/verify.h"

struct latent_kind latent_kind(const struct attn_pack *pack, uint32_t n)
{
    return (struct latent_kind){
        .sparse = VERIFY_NUMBER_OF(pack, n, "sparse", "none", "slots"),
        .q_dtype = VERIFY_NUMBER_OF(pack, n, "q_dtype", "same", "fp8") ? ATTN_FP8 : 0,
    };
}

struct attn_mla_decode_desc latent_desc(const struct attn_decode_desc *d,
                                        const struct latent_kind *kind)
{
    return (struct attn_mla_decode_desc){
        .size = sizeof(struct attn_mla_decode_desc),
        .dtype = d->dtype,
        .head_dim = d->head_dim,
        .head_dim_v = d->head_dim_v,
        .heads = d->heads,
        .q_len = d->q_len,
        .mask = d->mask,
        .lse = d->lse,
        .cache = d->cache,
        .page_table = d->page_table,
        .sparse = kind->sparse,
        .q_dtype = kind->q_dtype,
    };
}

struct attn_mla_decode_args latent_args(const struct attn_decode_args *a, const float *q_scale)
{
    struct attn_mla_decode_args latent = {
        .size = sizeof(latent),
        .stream = a->stream,
        .cache = a->cache,
        .pages = a->pages,
        .q = a->q,
        .q_scale = q_scale,
        .q_token_stride = a->q_token_stride,
        .q_head_stride = a->q_head_stride,
        .out = a->out,
        .out_token_stride = a->out_token_stride,
        .out_head_stride = a->out_head_stride,
        .lse = a->lse,
        .lse_head_stride = a->lse_head_stride,
        .lse_token_stride = a->lse_token_stride,
        .qo_indptr = a->qo_indptr,
        .custom_mask = a->custom_mask,
        .mask_indptr = a->mask_indptr,
        .work_indptr = a->work_indptr,
        .work_info = a->work_info,
        .partial_out = a->partial_out,
        .partial_lse = a->partial_lse,
        .batch = a->batch,
        .total_q = a->total_q,
        .q_len = a->q_len,
        .work_lists = a->work_lists,
        .partial_rows = a->partial_rows,
        .scale = a->scale,
    };
    latent.cache.v = NULL; /* nor is its scale looked at */
    latent.cache.v_scale = NULL;
    return latent;
}
