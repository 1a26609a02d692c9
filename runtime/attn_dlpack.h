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
    size_t size;                  /**< sizeof(struct attn_prefill_tensors) */
    const DLTensor *q;            /**< [total_q, heads, head_dim] */
    const DLTensor *k;            /**< [total_k, kv_heads, head_dim] */
    const DLTensor *v;            /**< [total_k, kv_heads, head_dim_v] */
    const DLTensor *out;          /**< [total_q, heads, head_dim_v] */
    const DLTensor *lse;          /**< float32 [heads, total_q] */
    const DLTensor *sinks;        /**< float32 [heads], contiguous */
    const DLTensor *cu_seqlens_q; /**< int32 [batch + 1], contiguous */
    const DLTensor *cu_seqlens_k; /**< int32 [batch + 1], contiguous */
};

/**
 * Sets the pointers, strides and counts of `args` from tensors, and checks that each has the dtype,
 * the device, the shape and the strides that the op needs; what is wrong is named. The rest of
 * `args`, max_seqlen_q and max_seqlen_k among it, stays the caller's.
 */
ATTN_PUBLIC int attn_prefill_set_tensors(const struct attn_op *op,
                                         const struct attn_prefill_tensors *tensors,
                                         struct attn_prefill_args *args);

/** The tensors of one decode call; those that the descriptor does not ask for may be NULL. */
struct attn_decode_tensors {
    size_t size;                 /**< sizeof(struct attn_decode_tensors) */
    const DLTensor *q;           /**< [total_q, heads, head_dim] */
    const DLTensor *out;         /**< [total_q, heads, head_dim_v] */
    const DLTensor *lse;         /**< float32 [heads, total_q] */
    const DLTensor *sinks;       /**< float32 [heads], contiguous */
    const DLTensor *k_cache;     /**< NHD [pages, page_size, kv_heads, head_dim]; SHUFFLE [pages,
                                    * kv_heads, head_dim / x, page_size, x]; ATTN_FP8 as uint8 */
    const DLTensor *v_cache;     /**< NHD [pages, page_size, kv_heads, head_dim_v]; SHUFFLE
                                    * [pages, kv_heads, page_size / x, head_dim_v, x] */
    const DLTensor *k_scale;     /**< float32 [1], [pages, kv_heads, page_size] or [pages,
                                    * kv_heads], as desc.cache.scale says */
    const DLTensor *v_scale;     /**< the same, with the same strides */
    const DLTensor *kv_lens;     /**< int32 [batch], contiguous */
    const DLTensor *block_table; /**< int32 [batch, entries] */
    const DLTensor *kv_indptr;   /**< int32 [batch + 1], contiguous */
    const DLTensor *kv_indices;  /**< int32 [entries], contiguous */
    const DLTensor *qo_indptr;   /**< int32 [batch + 1], contiguous; or NULL */
};

/**
 * The same for decode. Work lists with their partial results, a custom mask and everything that is
 * a number stay the caller's.
 */
ATTN_PUBLIC int attn_decode_set_tensors(const struct attn_op *op,
                                        const struct attn_decode_tensors *tensors,
                                        struct attn_decode_args *args);

#ifdef __cplusplus
}
#endif

#endif
