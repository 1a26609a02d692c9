/* SPDX-License-Identifier: Apache-2.0 */
/* This file checks DLPack tensors against an op's descriptor and takes pointers and strides
 * over. */
#include "runtime/attn_dlpack.h"

#include <stdio.h>

#include "runtime/error.h"
#include "runtime/op.h"

/* What a tensor has to be. A count of -1 is taken from the tensor. */
struct want {
    const char *name;
    const DLTensor *tensor;
    DLDataType dtype;
    int ndim;
    int64_t shape[3];
    bool contiguous;
};

static DLDataType element_type(enum attn_dtype dtype)
{
    return (DLDataType){ dtype == ATTN_BF16 ? kDLBfloat : kDLFloat, 16, 1 };
}

static const DLDataType float32 = { kDLFloat, 32, 1 };
static const DLDataType int32 = { kDLInt, 32, 1 };

/* Codes of DLPack 1.0 and later, which Debian's header does not name. */
static const char *code_name(unsigned code)
{
    static const char *const names[] = {
        "int", "uint", "float", "opaque handle", "bfloat", "complex", "bool", "float8_e3m4",
        "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
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

static int64_t stride(const DLTensor *t, int dimension)
{
    if (t->strides)
        return t->strides[dimension];
    int64_t product = 1; /* no strides: contiguous */
    for (int d = t->ndim - 1; d > dimension; d--)
        product *= t->shape[d];
    return product;
}

static int check_shape(struct want *w)
{
    const DLTensor *t = w->tensor;
    if (t->ndim != w->ndim)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s has %d dimensions, %d are needed", w->name,
                         t->ndim, w->ndim);
    for (int d = 0; d < w->ndim; d++) {
        if (w->shape[d] < 0 && t->shape[d] >= 0 && t->shape[d] <= INT32_MAX)
            w->shape[d] = t->shape[d];
        if (t->shape[d] != w->shape[d])
            return attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld, %lld is needed", w->name,
                             d, (long long)t->shape[d], (long long)w->shape[d]);
    }
    if (w->contiguous && t->shape[t->ndim - 1] > 1 && stride(t, t->ndim - 1) != 1)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: its last dimension has stride %lld, not 1",
                         w->name, (long long)stride(t, t->ndim - 1));
    return ATTN_OK;
}

static int check(struct want *w, int ordinal)
{
    if (!w->tensor)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is NULL", w->name);
    int r = check_type(w);
    if (!r)
        r = check_device(w, ordinal);
    return r ? r : check_shape(w);
}

static void *address(const DLTensor *t)
{
    return (char *)t->data + t->byte_offset;
}

/* In the order of the fields of struct attn_prefill_tensors. */
enum { Q, K, V, OUT, CU_Q, CU_K, LSE, SINKS, TENSORS };

static int check_all(const struct attn_op *op, struct want *wants)
{
    const struct attn_prefill_desc *d = &op->desc.prefill;
    for (int i = 0; i < TENSORS; i++) {
        if ((i == LSE && !d->lse) || (i == SINKS && !d->sinks))
            continue;
        if (i == V)
            wants[V].shape[0] = wants[K].shape[0];
        if (i == OUT)
            wants[OUT].shape[0] = wants[Q].shape[0];
        if (i == CU_K)
            wants[CU_K].shape[0] = wants[CU_Q].shape[0];
        if (i == LSE)
            wants[LSE].shape[1] = wants[Q].shape[0];
        int r = check(&wants[i], op->device->ordinal);
        if (r)
            return r;
    }
    if (wants[CU_Q].shape[0] < 1)
        return attn_fail(ATTN_BAD_ARGUMENT, "cu_seqlens_q has no element");
    return ATTN_OK;
}

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
    struct want wants[TENSORS] = {
        [Q] = { "q", t->q, element, 3, { -1, d->heads, d->head_dim }, true },
        [K] = { "k", t->k, element, 3, { -1, d->kv_heads, d->head_dim }, true },
        [V] = { "v", t->v, element, 3, { -1, d->kv_heads, d->head_dim_v }, true },
        [OUT] = { "out", t->out, element, 3, { -1, d->heads, d->head_dim_v }, true },
        [CU_Q] = { "cu_seqlens_q", t->cu_seqlens_q, int32, 1, { -1 }, true },
        [CU_K] = { "cu_seqlens_k", t->cu_seqlens_k, int32, 1, { -1 }, true },
        [LSE] = { "lse", t->lse, float32, 2, { d->heads, -1 }, false },
        [SINKS] = { "sinks", t->sinks, float32, 1, { d->heads }, true },
    };
    int r = check_all(op, wants);
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
    args->batch = (int32_t)(wants[CU_Q].shape[0] - 1);
    args->total_q = (int32_t)wants[Q].shape[0];
    args->total_k = (int32_t)wants[K].shape[0];
    if (d->lse) {
        args->lse = address(t->lse);
        args->lse_head_stride = stride(t->lse, 0);
        args->lse_token_stride = stride(t->lse, 1);
    }
    if (d->sinks)
        args->sinks = address(t->sinks);
    return ATTN_OK;
}
