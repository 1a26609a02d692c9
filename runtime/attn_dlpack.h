/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of frameworks, as DLPack describes them, into libattn's argument structs. Needs DLPack's
 * header (Debian: libdlpack-dev); attn.h does not.
 */
#ifndef ATTN_DLPACK_H
#define ATTN_DLPACK_H

#include <dlpack/dlpack.h>

#include "attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The tensors of one prefill call; those that the descriptor does not ask for may be NULL. */
struct attn_prefill_tensors {
    size_t size;                   /**< sizeof(struct attn_prefill_tensors) */
    const DLTensor *q;             /**< [total_q, heads, head_dim] */
    const DLTensor *k;             /**< [total_k, kv_heads, head_dim] */
    const DLTensor *v;             /**< [total_k, kv_heads, head_dim_v] */
    const DLTensor *out;           /**< [total_q, heads, head_dim_v] */
    const DLTensor *lse;           /**< float32 [heads, total_q] */
    const DLTensor *sinks;         /**< float32 [heads], contiguous */
    const DLTensor *cu_seqlens_q;  /**< int32 [batch + 1], contiguous */
    const DLTensor *cu_seqlens_k;  /**< int32 [batch + 1], contiguous */
};

/**
 * Sets the pointers, strides and counts of `args` from tensors, and checks that each has the dtype,
 * the device, the shape and the strides that the op needs; what is wrong is named. The rest of
 * `args`, max_seqlen_q and max_seqlen_k among it, stays the caller's.
 */
ATTN_PUBLIC int attn_prefill_set_tensors(const struct attn_op *op,
                                         const struct attn_prefill_tensors *tensors,
                                         struct attn_prefill_args *args);

#ifdef __cplusplus
}
#endif

#endif
