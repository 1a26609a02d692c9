/* SPDX-License-Identifier: Apache-2.0 */
/* This file checks DLPack tensors against an op's descriptor and takes pointers and strides
 * over. */
#include "runtime/attn_dlpack.h"

#include "runtime/error.h"
#include "runtime/op.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Sizes that only the tensors know: a dimension that is WHOLE is as large as its `size`, which the
 * first tensor sets, BEHIND one more; FREE may be anything. */
enum { WHOLE = -1, BEHIND = -2, FREE = -3, DIMENSIONS_MAX = 5 };

/* What a tensor has to be; not looked at unless it is needed. */
struct want {
    const char *name;
    const DLTensor *tensor;
    DLDataType dtype;
    int ndim;
    int64_t shape[DIMENSIONS_MAX];
    int64_t *size;  /* -1: no tensor has set it */
    int contiguous; /* so many of the last dimensions are, together */
    bool needed;
};

/* ATTN_FP8 is the GPU's own of two e4m3, which DLPack tells apart and HIP does not: bytes. */
static DLDataType element_type(enum attn_dtype dtype)
{
    switch (dtype) {
    case ATTN_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case ATTN_FP16: return (DLDataType){kDLFloat, 16, 1};
    case ATTN_FP8: return (DLDataType){kDLUInt, 8, 1};
    default: return (DLDataType){kDLInt, 8, 1};
    }
}

static const DLDataType float32 = {kDLFloat, 32, 1};
static const DLDataType int32 = {kDLInt, 32, 1};

/* Codes of DLPack 1.0 and later, which Debian's header does not name. */
static const char *code_name(unsigned code)
{
    static const char *const names[] = {
        "int",
        "uint",
        "float",
        "opaque handle",
        "bfloat",
        "complex",
        "bool",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    };
    return code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown type";
}

static int check_type(const struct want *w)
{
    const DLDataType is = w->tensor->dtype;
    if (is.code == w->dtype.code && is.bits == w->dtype.bits && is.lanes == 1)
        return ATTN_OK;
    return attn_fail(ATTN_BAD_ARGUMENT, "%s is %s of %u bits, %u lanes; %s of %u is needed",
                     w->name, code_name(is.code), is.bits, is.lanes, code_name(w->dtype.code),
                     w->dtype.bits);
}

/* ROCm's own device type, or CUDA's, by which ROCm builds of frameworks may call it. */
static int check_device(const struct want *w, int ordinal)
{
    const int type = (int)w->tensor->device.device_type;
    if (type != kDLROCM && type != kDLCUDA)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is on a device of DLPack's type %d, not on a GPU",
                         w->name, type);
    if (w->tensor->device.device_id != ordinal)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is on GPU %d, the op on GPU %d", w->name,
                         w->tensor->device.device_id, ordinal);
    return ATTN_OK;
}

static int64_t product(const DLTensor *t, int from)
{
    int64_t n = 1;
    for (int d = from; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

static int64_t stride(const DLTensor *t, int dimension)
{
    return t->strides ? t->strides[dimension] : product(t, dimension + 1);
}

static int check_dimension(const struct want *w, int d)
{
    const int64_t is = w->tensor->shape[d], more = w->shape[d] == BEHIND;
    int64_t needed = w->shape[d];
    if (needed == FREE)
        return is >= 0 && is <= INT32_MAX ? ATTN_OK
                                          : attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld",
                                                      w->name, d, (long long)is);
    if (more && is == 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s has no element", w->name);
    if (needed < 0) {
        if (*w->size < 0 && is >= more && is <= INT32_MAX)
            *w->size = is - more;
        needed = *w->size + more;
    }
    if (is == needed)
        return ATTN_OK;
    return attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld, %lld is needed", w->name, d,
                     (long long)is, (long long)needed);
}

static int check_shape(const struct want *w)
{
    const DLTensor *t = w->tensor;
    if (t->ndim != w->ndim)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s has %d dimensions, %d are needed", w->name, t->ndim,
                         w->ndim);
    for (int d = 0; d < w->ndim; d++) {
        int r = check_dimension(w, d);
        if (r)
            return r;
    }
    for (int d = t->ndim - w->contiguous; d < t->ndim; d++) {
        const int64_t dense = product(t, d + 1);
        if (t->shape[d] > 1 && stride(t, d) != dense)
            return attn_fail(ATTN_BAD_ARGUMENT, "%s: its %s dimension has stride %lld, not %lld",
                             w->name, d == t->ndim - 1 ? "last" : "inner", (long long)stride(t, d),
                             (long long)dense);
    }
    return ATTN_OK;
}

static int check(const struct want *w, int ordinal)
{
    if (!w->needed)
        return ATTN_OK;
    if (!w->tensor)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is NULL", w->name);
    int r = check_type(w);
    if (!r)
        r = check_device(w, ordinal);
    return r ? r : check_shape(w);
}

static int check_all(const struct want *wants, size_t count, int ordinal)
{
    int r = ATTN_OK;
    for (size_t i = 0; !r && i < count; i++)
        r = check(&wants[i], ordinal);
    return r;
}

static void *address(const DLTensor *t) { return (char *)t->data + t->byte_offset; }

ATTN_PUBLIC int attn_prefill_set_tensors(const struct attn_op *op,
                                         const struct attn_prefill_tensors *t,
                                         struct attn_prefill_args *args)
{
    if (!op || !t || !args || op->family != &attn_family_prefill || t->size != sizeof(*t) ||
        args->size != sizeof(*args))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_prefill_set_tensors: NULL, an op of "
                                                  "another family, or a size that is not set");
    const struct attn_prefill_desc *d = &op->desc.prefill;
    const DLDataType element = element_type(d->dtype);
    int64_t q = -1, k = -1, batch = -1;
    const struct want wants[] = {
        {"q", t->q, element, 3, {WHOLE, d->heads, d->head_dim}, &q, 1, true},
        {"k", t->k, element, 3, {WHOLE, d->kv_heads, d->head_dim}, &k, 1, true},
        {"v", t->v, element, 3, {WHOLE, d->kv_heads, d->head_dim_v}, &k, 1, true},
        {"out", t->out, element, 3, {WHOLE, d->heads, d->head_dim_v}, &q, 1, true},
        {"cu_seqlens_q", t->cu_seqlens_q, int32, 1, {BEHIND}, &batch, 1, true},
        {"cu_seqlens_k", t->cu_seqlens_k, int32, 1, {BEHIND}, &batch, 1, true},
        {"lse", t->lse, float32, 2, {d->heads, WHOLE}, &q, 0, d->lse},
        {"sinks", t->sinks, float32, 1, {d->heads}, NULL, 1, d->sinks},
    };
    int r = check_all(wants, COUNT(wants), op->device->ordinal);
    if (r)
        return r;
    args->q = address(t->q);
    args->k = address(t->k);
    args->v = address(t->v);
    args->out = address(t->out);
    args->cu_seqlens_q = address(t->cu_seqlens_q);
    args->cu_seqlens_k = address(t->cu_seqlens_k);
    args->q_token_stride = stride(t->q, 0);
    args->q_head_stride = stride(t->q, 1);
    args->k_token_stride = stride(t->k, 0);
    args->k_head_stride = stride(t->k, 1);
    args->v_token_stride = stride(t->v, 0);
    args->v_head_stride = stride(t->v, 1);
    args->out_token_stride = stride(t->out, 0);
    args->out_head_stride = stride(t->out, 1);
    args->batch = (int32_t)batch;
    args->total_q = (int32_t)q;
    args->total_k = (int32_t)k;
    if (d->lse) {
        args->lse = address(t->lse);
        args->lse_head_stride = stride(t->lse, 0);
        args->lse_token_stride = stride(t->lse, 1);
    }
    if (d->sinks)
        args->sinks = address(t->sinks);
    return ATTN_OK;
}

/* NHD: [page, token, head, element]. SHUFFLE, with x elements in 16 bytes: K [page, head, D / x,
 * token, x], V [page, head, token / x, D, x]. */
static struct want want_cache(const struct attn_decode_desc *d, const char *name,
                              const DLTensor *tensor, DLDataType element, bool value,
                              int64_t *pages)
{
    const int64_t dim = value ? d->head_dim_v : d->head_dim, tokens = d->cache.page_size;
    const int64_t x = 128 / element.bits;
    struct want w = {name, tensor, element, 4, {WHOLE, tokens, d->kv_heads, dim}, pages, 1, true};
    if (d->cache.layout == ATTN_KV_NHD)
        return w;
    w.ndim = 5;
    w.contiguous = 3;
    w.shape[1] = d->kv_heads;
    w.shape[2] = (value ? tokens : dim) / x;
    w.shape[3] = value ? dim : tokens;
    w.shape[4] = x;
    return w;
}

/* [1], [page, head, token] or [page, head]. */
static struct want want_scale(const struct attn_decode_desc *d, const char *name,
                              const DLTensor *tensor, int64_t *pages)
{
    const enum attn_kv_scale scale = d->cache.scale;
    struct want w = {name, tensor, float32, 1, {1}, NULL, 1, scale != ATTN_KV_SCALE_NONE};
    if (scale == ATTN_KV_SCALE_NONE || scale == ATTN_KV_SCALE_TENSOR)
        return w;
    const bool token = scale == ATTN_KV_SCALE_TOKEN;
    return (struct want){
        name,  tensor, float32, token ? 3 : 2, {WHOLE, d->kv_heads, d->cache.page_size},
        pages, token,  true};
}

static void set_cache(const struct attn_decode_desc *d, const struct attn_decode_tensors *t,
                      int64_t pages, struct attn_cache *c)
{
    const bool nhd = d->cache.layout == ATTN_KV_NHD;
    c->k = address(t->k_cache);
    c->v = address(t->v_cache);
    c->k_page_stride = stride(t->k_cache, 0);
    c->v_page_stride = stride(t->v_cache, 0);
    c->k_head_stride = stride(t->k_cache, nhd ? 2 : 1);
    c->v_head_stride = stride(t->v_cache, nhd ? 2 : 1);
    c->k_token_stride = nhd ? stride(t->k_cache, 1) : 0;
    c->v_token_stride = nhd ? stride(t->v_cache, 1) : 0;
    c->page_count = (int32_t)pages;
    if (d->cache.scale == ATTN_KV_SCALE_NONE)
        return;
    c->k_scale = address(t->k_scale);
    c->v_scale = address(t->v_scale);
    if (d->cache.scale == ATTN_KV_SCALE_TENSOR)
        return;
    c->scale_page_stride = stride(t->k_scale, 0);
    c->scale_head_stride = stride(t->k_scale, 1);
}

static int check_scales(const struct attn_decode_desc *d, const struct attn_decode_tensors *t)
{
    if (d->cache.scale == ATTN_KV_SCALE_NONE || d->cache.scale == ATTN_KV_SCALE_TENSOR ||
        (stride(t->k_scale, 0) == stride(t->v_scale, 0) &&
         stride(t->k_scale, 1) == stride(t->v_scale, 1)))
        return ATTN_OK;
    return attn_fail_fixed(ATTN_BAD_ARGUMENT, "k_scale and v_scale have different strides");
}

static void set_pages(const struct attn_decode_desc *d, const struct attn_decode_tensors *t,
                      struct attn_pages *p)
{
    p->kv_lens = address(t->kv_lens);
    if (d->page_table == ATTN_PAGES_INDICES) {
        p->kv_indptr = address(t->kv_indptr);
        p->kv_indices = address(t->kv_indices);
        p->entries = (int32_t)t->kv_indices->shape[0];
        return;
    }
    p->block_table = address(t->block_table);
    p->block_table_stride = stride(t->block_table, 0);
    p->entries = (int32_t)t->block_table->shape[1];
}

ATTN_PUBLIC int attn_decode_set_tensors(const struct attn_op *op,
                                        const struct attn_decode_tensors *t,
                                        struct attn_decode_args *args)
{
    if (!op || !t || !args || op->family != &attn_family_decode || t->size != sizeof(*t) ||
        args->size != sizeof(*args))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_decode_set_tensors: NULL, an op of "
                                                  "another family, or a size that is not set");
    const struct attn_decode_desc *d = &op->desc.decode;
    const DLDataType element = element_type(d->dtype);
    const DLDataType stored = element_type(d->cache.dtype);
    const bool indices = d->page_table == ATTN_PAGES_INDICES;
    int64_t q = -1, pages = -1, batch = -1;
    const struct want wants[] = {
        {"q", t->q, element, 3, {WHOLE, d->heads, d->head_dim}, &q, 1, true},
        {"out", t->out, element, 3, {WHOLE, d->heads, d->head_dim_v}, &q, 1, true},
        {"lse", t->lse, float32, 2, {d->heads, WHOLE}, &q, 0, d->lse},
        {"sinks", t->sinks, float32, 1, {d->heads}, NULL, 1, d->sinks},
        want_cache(d, "k_cache", t->k_cache, stored, false, &pages),
        want_cache(d, "v_cache", t->v_cache, stored, true, &pages),
        want_scale(d, "k_scale", t->k_scale, &pages),
        want_scale(d, "v_scale", t->v_scale, &pages),
        {"kv_lens", t->kv_lens, int32, 1, {WHOLE}, &batch, 1, true},
        {"block_table", t->block_table, int32, 2, {WHOLE, FREE}, &batch, 1, !indices},
        {"kv_indptr", t->kv_indptr, int32, 1, {BEHIND}, &batch, 1, indices},
        {"kv_indices", t->kv_indices, int32, 1, {FREE}, NULL, 1, indices},
        {"qo_indptr", t->qo_indptr, int32, 1, {BEHIND}, &batch, 1, t->qo_indptr != NULL},
    };
    int r = check_all(wants, COUNT(wants), op->device->ordinal);
    if (!r)
        r = check_scales(d, t);
    if (r)
        return r;
    args->q = address(t->q);
    args->out = address(t->out);
    args->q_token_stride = stride(t->q, 0);
    args->q_head_stride = stride(t->q, 1);
    args->out_token_stride = stride(t->out, 0);
    args->out_head_stride = stride(t->out, 1);
    args->batch = (int32_t)batch;
    args->total_q = (int32_t)q;
    args->qo_indptr = t->qo_indptr ? address(t->qo_indptr) : NULL;
    if (d->lse) {
        args->lse = address(t->lse);
        args->lse_head_stride = stride(t->lse, 0);
        args->lse_token_stride = stride(t->lse, 1);
    }
    if (d->sinks)
        args->sinks = address(t->sinks);
    set_cache(d, t, pages, &args->cache);
    set_pages(d, t, &args->pages);
    return ATTN_OK;
}
