/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the prefill family: attention over packed sequences, K and V as plain tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/family.h"
#include "runtime/op.h"

enum { UNLIMITED = 1 << 30 }; /* of a window, as kernels see it: a sum of two still fits 32 bits */

static struct attn_cache_heads heads_of(const struct attn_prefill_desc *d)
{
    return (struct attn_cache_heads){d->kv_heads, d->head_dim, d->head_dim_v};
}

static int normalise(const void *given, union attn_desc *out)
{
    struct attn_prefill_desc d = *(const struct attn_prefill_desc *)given;
    if (d.head_dim_v == 0)
        d.head_dim_v = d.head_dim;
    if (d.dtype != ATTN_BF16 && d.dtype != ATTN_FP16)
        return attn_fail(ATTN_BAD_ARGUMENT, "prefill: dtype %d is none of enum attn_dtype",
                         (int)d.dtype);
    if ((unsigned)d.mask > ATTN_MASK_WINDOW)
        return attn_fail(ATTN_BAD_ARGUMENT, "prefill: mask %d is none of enum attn_mask",
                         (int)d.mask);
    if (d.head_dim <= 0 || d.head_dim_v <= 0 || d.head_dim > 65536 || d.head_dim_v > 65536)
        return attn_fail(ATTN_BAD_ARGUMENT, "prefill: head_dim %d and head_dim_v %d", d.head_dim,
                         d.head_dim_v);
    if (d.kv_heads <= 0 || d.heads <= 0 || d.heads % d.kv_heads)
        return attn_fail(ATTN_BAD_ARGUMENT, "prefill: %d heads are not a multiple of %d kv_heads",
                         d.heads, d.kv_heads);
    const struct attn_cache_heads heads = heads_of(&d);
    int r = ATTN_OK;
    if (!d.paged) {
        d.cache = (struct attn_cache_desc){.dtype = d.dtype};
        d.page_table = ATTN_PAGES_BLOCKS;
    } else if ((unsigned)d.page_table > ATTN_PAGES_INDICES) {
        r = attn_fail(ATTN_BAD_ARGUMENT, "prefill: page_table %d is none of enum attn_page_table",
                      (int)d.page_table);
    } else {
        r = attn_cache_normalise("prefill", d.dtype, &heads, &d.cache);
    }
    out->prefill = d;
    return r;
}

static void make_key(const union attn_desc *desc, struct attn_key *key)
{
    const struct attn_prefill_desc *d = &desc->prefill;
    static const char *const masks[] = {"none", "causal", "window"};
    attn_key_add(key, "dtype", d->dtype == ATTN_BF16 ? "bf16" : "fp16");
    struct attn_key_field *gqa = attn_key_add_number(key, "gqa", d->heads / d->kv_heads);
    attn_key_cover(gqa, "any", 1);
    attn_key_add_number(key, "head_dim", d->head_dim);
    attn_key_add_number(key, "head_dim_v", d->head_dim_v);
    attn_cache_add_key(key, d->dtype, &d->cache);
    attn_key_add(key, "logits", d->logits ? d->logits : "none");
    attn_key_add_flag(key, "lse", d->lse);
    /* A run-time window covers every mask; without a mask the most tiles run masked for nothing. */
    struct attn_key_field *mask = attn_key_add(key, "mask", masks[d->mask]);
    if (d->mask != ATTN_MASK_WINDOW)
        attn_key_cover(mask, "window", d->mask == ATTN_MASK_CAUSAL ? 2 : 4);
    if (d->paged)
        attn_cache_add_page_size(key, &d->cache);
    else
        attn_key_add(key, "page_size", "any");
    attn_pages_add_key(key, d->page_table);
    attn_key_add_flag(key, "paged", d->paged);
    attn_key_add_flag(key, "sinks", d->sinks);
    attn_key_add_flag(key, "soft_cap", d->soft_cap);
}

static bool aligned(const void *p) { return p && (uintptr_t)p % 16 == 0; }

/* Sets a tensor's strides, contiguous where 0; both dtypes have 2 bytes, so 8 elements are 16. */
static bool set_strides(union attn_value *values, unsigned token, int64_t token_stride,
                        int64_t head_stride, int64_t heads, int64_t size)
{
    if (head_stride == 0)
        head_stride = size;
    if (token_stride == 0)
        token_stride = heads * size;
    values[token].i64 = token_stride;
    values[token + 1].i64 = head_stride;
    return ((token_stride | head_stride) & 7) == 0;
}

static_assert(ATTN_ARG_Q_HEAD_STRIDE == ATTN_ARG_Q_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_K_HEAD_STRIDE == ATTN_ARG_K_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_V_HEAD_STRIDE == ATTN_ARG_V_TOKEN_STRIDE + 1 &&
                  ATTN_ARG_OUT_HEAD_STRIDE == ATTN_ARG_OUT_TOKEN_STRIDE + 1,
              "set_strides() sets both");

static int check(const struct attn_prefill_desc *d, const struct attn_prefill_args *a)
{
    if (a->batch < 0 || a->total_q < 0 || a->total_k < 0 || a->max_seqlen_q < 0 ||
        a->max_seqlen_k < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "prefill: a negative count");
    if (a->batch == 0 || a->total_q == 0 || a->max_seqlen_q == 0)
        return ATTN_OK; /* empty: pointers may be anything */
    if (!aligned(a->q) || !aligned(a->out) || (!d->paged && (!aligned(a->k) || !aligned(a->v))))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "prefill: q, k, v or out is NULL or not aligned to 16 bytes");
    if (!a->cu_seqlens_q || (!d->paged && !a->cu_seqlens_k))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "prefill: cu_seqlens_q or cu_seqlens_k is NULL");
    if (d->lse && !a->lse)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "prefill: desc.lse is set, lse is NULL");
    if (d->sinks && !a->sinks)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "prefill: desc.sinks is set, sinks is NULL");
    if (d->soft_cap && !(a->soft_cap > 0))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "prefill: desc.soft_cap is set, soft_cap is not positive");
    if (d->mask == ATTN_MASK_WINDOW && (a->window_left < -1 || a->window_right < -1))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "prefill: a window distance is below -1 (no limit)");
    if (!isfinite(a->scale))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "prefill: scale is not finite");
    return ATTN_OK;
}

static int64_t distance(int32_t d) { return d < 0 || d > UNLIMITED ? UNLIMITED : d; }

/* The mask of the descriptor, as a kernel with a run-time window sees it. */
static void set_window(union attn_value *v, enum attn_mask mask, const struct attn_prefill_args *a)
{
    v[ATTN_ARG_WINDOW_LEFT].i64 = mask == ATTN_MASK_WINDOW ? distance(a->window_left) : UNLIMITED;
    v[ATTN_ARG_WINDOW_RIGHT].i64 = mask == ATTN_MASK_WINDOW   ? distance(a->window_right)
                                   : mask == ATTN_MASK_CAUSAL ? 0
                                                              : UNLIMITED;
}

static int fill_plain(const struct attn_prefill_desc *d, const struct attn_prefill_args *a,
                      union attn_value *v)
{
    v[ATTN_ARG_K].ptr = a->k;
    v[ATTN_ARG_V].ptr = a->v;
    v[ATTN_ARG_CU_SEQLENS_K].ptr = a->cu_seqlens_k;
    if (set_strides(v, ATTN_ARG_K_TOKEN_STRIDE, a->k_token_stride, a->k_head_stride, d->kv_heads,
                    d->head_dim) &&
        set_strides(v, ATTN_ARG_V_TOKEN_STRIDE, a->v_token_stride, a->v_head_stride, d->kv_heads,
                    d->head_dim_v))
        return ATTN_OK;
    return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                           "prefill: a stride of k or v is not a multiple of 16 bytes");
}

static int fill_paged(const struct attn_prefill_desc *d, const struct attn_prefill_args *a,
                      union attn_value *v)
{
    const struct attn_cache_heads heads = heads_of(d);
    const int r = attn_cache_fill(&d->cache, &heads, &a->cache, v);
    return r ? r : attn_pages_fill(d->page_table, &a->pages, v);
}

static int fill(const union attn_desc *desc, const void *args, struct attn_call *call)
{
    const struct attn_prefill_desc *d = &desc->prefill;
    const struct attn_prefill_args *a = args;
    union attn_value *v = call->values;
    int r = check(d, a);
    if (r)
        return r;
    call->stream = a->stream;
    call->empty = a->batch == 0 || a->total_q == 0 || a->max_seqlen_q == 0;
    if (call->empty)
        return ATTN_OK;
    r = d->paged ? fill_paged(d, a, v) : fill_plain(d, a, v);
    if (r)
        return r;
    v[ATTN_ARG_Q].ptr = a->q;
    v[ATTN_ARG_OUT].ptr = a->out;
    v[ATTN_ARG_LSE].ptr = a->lse;
    v[ATTN_ARG_SINKS].ptr = a->sinks;
    v[ATTN_ARG_CU_SEQLENS_Q].ptr = a->cu_seqlens_q;
    v[ATTN_ARG_HOOK_ARG].ptr = a->hook_arg;
    if (!set_strides(v, ATTN_ARG_Q_TOKEN_STRIDE, a->q_token_stride, a->q_head_stride, d->heads,
                     d->head_dim) ||
        !set_strides(v, ATTN_ARG_OUT_TOKEN_STRIDE, a->out_token_stride, a->out_head_stride,
                     d->heads, d->head_dim_v))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "prefill: a stride of q or out is not a multiple of 16 bytes");
    v[ATTN_ARG_LSE_TOKEN_STRIDE].i64 = a->lse_token_stride ? a->lse_token_stride : 1;
    v[ATTN_ARG_LSE_HEAD_STRIDE].i64 = a->lse_head_stride ? a->lse_head_stride : a->total_q;
    v[ATTN_ARG_HEADS].i64 = d->heads;
    v[ATTN_ARG_KV_HEADS].i64 = d->kv_heads;
    v[ATTN_ARG_GQA].i64 = d->heads / d->kv_heads;
    v[ATTN_ARG_BATCH].i64 = a->batch;
    v[ATTN_ARG_TOTAL_Q].i64 = a->total_q;
    v[ATTN_ARG_MAX_SEQLEN_Q].i64 = a->max_seqlen_q;
    v[ATTN_ARG_MAX_SEQLEN_K].i64 = a->max_seqlen_k;
    const float scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)d->head_dim);
    v[ATTN_ARG_SCALE].f32 = scale;
    v[ATTN_ARG_SCALE_LOG2].f32 = scale * 1.44269504f; /* log2(e) */
    v[ATTN_ARG_SOFT_CAP].f32 = a->soft_cap;
    set_window(v, d->mask, a);
    return ATTN_OK;
}

static int check_data(const struct attn_op *op, const void *args)
{
    const struct attn_prefill_args *a = args;
    const struct attn_indptr q = {
        .name = "cu_seqlens_q",
        .data = a->cu_seqlens_q,
        .batch = a->batch,
        .total = a->total_q,
        .longest = a->max_seqlen_q,
    };
    const struct attn_indptr k = {
        .name = "cu_seqlens_k",
        .data = a->cu_seqlens_k,
        .batch = a->batch,
        .total = a->total_k ? a->total_k : INT32_MAX,
        .longest = a->max_seqlen_k,
    };
    const struct attn_prefill_desc *d = &op->desc.prefill;
    int r = attn_check_indptr(op->device, &q, a->stream);
    if (!r && d->paged)
        return attn_pages_check(op->device, &d->cache, d->page_table, &a->cache, &a->pages,
                                a->batch, a->stream);
    return r ? r : attn_check_indptr(op->device, &k, a->stream);
}

const struct attn_family attn_family_prefill = {
    .op = "prefill",
    .desc_size = sizeof(struct attn_prefill_desc),
    .args_size = sizeof(struct attn_prefill_args),
    .normalise = normalise,
    .make_key = make_key,
    .fill = fill,
    .check_data = check_data,
    .sets =
        {
            ATTN_CACHE_SETS,
            ATTN_PAGES_SETS,
            ATTN_SETS(Q),
            ATTN_SETS(OUT),
            ATTN_SETS(LSE),
            ATTN_SETS(SINKS),
            ATTN_SETS(CU_SEQLENS_Q),
            ATTN_SETS(CU_SEQLENS_K),
            ATTN_SETS(HOOK_ARG),
            ATTN_SETS(Q_TOKEN_STRIDE),
            ATTN_SETS(Q_HEAD_STRIDE),
            ATTN_SETS(OUT_TOKEN_STRIDE),
            ATTN_SETS(OUT_HEAD_STRIDE),
            ATTN_SETS(LSE_TOKEN_STRIDE),
            ATTN_SETS(LSE_HEAD_STRIDE),
            ATTN_SETS(HEADS),
            ATTN_SETS(KV_HEADS),
            ATTN_SETS(GQA),
            ATTN_SETS(BATCH),
            ATTN_SETS(TOTAL_Q),
            ATTN_SETS(MAX_SEQLEN_Q),
            ATTN_SETS(MAX_SEQLEN_K),
            ATTN_SETS(SCALE),
            ATTN_SETS(SCALE_LOG2),
            ATTN_SETS(SOFT_CAP),
            ATTN_SETS(WINDOW_LEFT),
            ATTN_SETS(WINDOW_RIGHT),
        },
};

ATTN_PUBLIC int attn_prefill_lookup(struct attn_device *device,
                                    const struct attn_prefill_desc *desc, struct attn_op **op)
{
    return attn_lookup(device, &attn_family_prefill, desc, op);
}

ATTN_PUBLIC int attn_prefill_launch(const struct attn_op *op, const struct attn_prefill_args *args)
{
    return attn_launch(op, &attn_family_prefill, args);
}
