/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the cache_gather family: keys and values of sequences out of a paged cache. */
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/op.h"

static struct attn_cache_heads heads_of(const struct attn_cache_gather_desc *d)
{
    return (struct attn_cache_heads){
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .head_dim_v = d->head_dim_v,
    };
}

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_cache_gather_desc d = *(const struct attn_cache_gather_desc *)given;
    struct attn_cache_heads heads = heads_of(&d);
    if ((unsigned)d.page_table > ATTN_PAGES_INDICES)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "cache_gather: page_table %d is none of enum "
                         "attn_page_table",
                         (int)d.page_table);
    int r = attn_cache_normalise_op("cache_gather", d.dtype, &heads, &d.cache);
    if (r)
        return r;
    d.head_dim_v = heads.head_dim_v;
    out->cache_gather = d;
    return ATTN_OK;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_cache_gather_desc *d = &desc->cache_gather;
    attn_key_add(key, "dtype", attn_dtype_name(d->dtype));
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add_number(key, "head_dim_v", d->head_dim_v);
    attn_cache_add_key(key, d->dtype, &d->cache);
    attn_cache_add_page_size(key, &d->cache);
    attn_pages_add_key(key, d->page_table);
}

static_assert(ATTN_ARG_K_OUT_HEAD_STRIDE == ATTN_ARG_K_OUT_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_V_OUT_TOKEN_STRIDE == ATTN_ARG_K_OUT_TOKEN_STRIDE + 2 &&
                  ATTN_ARG_V_OUT_HEAD_STRIDE == ATTN_ARG_K_OUT_TOKEN_STRIDE + 3,
              "attn_kv_rows_fill() sets all four");

static int fill_pages(const struct attn_cache_gather_desc *d,
                      const struct attn_cache_gather_args *a, union attn_value *v)
{
    struct attn_pages pages = a->pages;
    if (!pages.kv_lens)
        pages.kv_lens = a->cu_seqlens_k; /* no kernel of the family reads them */
    return attn_pages_fill(d->page_table, &pages, v);
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_cache_gather_desc *d = &desc->cache_gather;
    const struct attn_cache_gather_args *a = args;
    union attn_value *v = call->values;
    call->stream = a->stream;
    /* Pointers may be anything then. */
    call->empty = a->batch == 0 || a->total_k == 0 || a->max_seqlen_k == 0;
    if (a->batch < 0 || a->total_k < 0 || a->max_seqlen_k < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_gather: a negative count");
    if (call->empty)
        return ATTN_OK;
    if (!a->cu_seqlens_k)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache_gather: cu_seqlens_k is NULL");
    const struct attn_cache_heads heads = heads_of(d);
    const struct attn_kv_rows rows = {
        .k = a->k_out,
        .v = a->v_out,
        .k_token_stride = a->k_out_token_stride,
        .k_head_stride = a->k_out_head_stride,
        .v_token_stride = a->v_out_token_stride,
        .v_head_stride = a->v_out_head_stride,
    };
    int r = attn_cache_fill(&d->cache, &heads, &a->cache, v);
    if (!r)
        r = fill_pages(d, a, v);
    if (!r)
        r = attn_kv_rows_fill(&heads, &rows, ATTN_ARG_K_OUT, ATTN_ARG_V_OUT,
                              ATTN_ARG_K_OUT_TOKEN_STRIDE, v);
    v[ATTN_ARG_CU_SEQLENS_K].ptr = a->cu_seqlens_k;
    v[ATTN_ARG_SEQ_STARTS].ptr = a->seq_starts;
    v[ATTN_ARG_KV_HEADS].i64 = d->kv_heads;
    v[ATTN_ARG_BATCH].i64 = a->batch;
    /* A workgroup may begin before the start of a sequence, as far as x - 1 tokens. */
    v[ATTN_ARG_MAX_SEQLEN_K].i64 = a->max_seqlen_k + 16 / attn_dtype_size(d->cache.dtype) - 1;
    return r;
}

static int check_starts(const struct attn_op *op, const struct attn_cache_gather_args *a)
{
    void *copy = NULL;
    int r = a->seq_starts ? attn_read_back(op->device, a->seq_starts, a->batch * sizeof(int32_t),
                                           a->stream, &copy)
                          : ATTN_OK;
    const int32_t *start = copy;
    for (int32_t s = 0; !r && copy && s < a->batch; s++) {
        if (start[s] < 0)
            r = attn_fail(ATTN_BAD_DATA, "seq_starts[%d] is %d", s, start[s]);
    }
    free(copy);
    return r;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_cache_gather_desc *d = &op->desc.cache_gather;
    const struct attn_cache_gather_args *a = args;
    const struct attn_indptr rows = {
        .name = "cu_seqlens_k",
        .data = a->cu_seqlens_k,
        .batch = a->batch,
        .total = a->total_k,
        .longest = a->max_seqlen_k,
    };
    int r = attn_check_indptr(op->device, &rows, a->stream);
    if (!r)
        r = check_starts(op, a);
    return r || !a->pages.kv_lens ? r
                                  : attn_pages_check(op->device, &d->cache, d->page_table,
                                                     &a->cache, &a->pages, a->batch, a->stream);
}

const struct attn_family attn_family_cache_gather = {
    .op = "cache_gather",
    .desc_size = sizeof(struct attn_cache_gather_desc),
    .args_size = sizeof(struct attn_cache_gather_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_CACHE_SETS,
            ATTN_PAGES_SETS,
            ATTN_SETS(K_OUT),
            ATTN_SETS(V_OUT),
            ATTN_SETS(K_OUT_TOKEN_STRIDE),
            ATTN_SETS(K_OUT_HEAD_STRIDE),
            ATTN_SETS(V_OUT_TOKEN_STRIDE),
            ATTN_SETS(V_OUT_HEAD_STRIDE),
            ATTN_SETS(CU_SEQLENS_K),
            ATTN_SETS(SEQ_STARTS),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(BATCH),
            ATTN_SETS(MAX_SEQLEN_K),
        },
};

ATTN_PUBLIC int attn_cache_gather_lookup(struct attn_device *device,
                                         const struct attn_cache_gather_desc *desc,
                                         struct attn_op **op)
{
    return attn_lookup(device, &attn_family_cache_gather, desc, op);
}

ATTN_PUBLIC int attn_cache_gather_launch(const struct attn_op *op,
                                         const struct attn_cache_gather_args *args)
{
    return attn_launch(op, &attn_family_cache_gather, args);
}
