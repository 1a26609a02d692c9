/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and values: from the QKV projection into a paged cache, out of it, and from page to page.
 */
#ifndef ATTN_CACHE_H
#define ATTN_CACHE_H

#include "attn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What follows the QKV projection: bias, QK norm, rotary embedding, cache write ---- */

/** Which elements of a head rotate together, by the same angle. */
enum attn_rope {
    ATTN_ROPE_NONE, /**< none */
    ATTN_ROPE_NEOX, /**< elements i and i + rotary_dim / 2 */
    ATTN_ROPE_GPTJ  /**< elements 2 i and 2 i + 1 */
};

/** Which of rotary_dim / 2 pairs rotate by which of three positions: time, height, width. */
enum attn_mrope {
    ATTN_MROPE_NONE,       /**< one position */
    ATTN_MROPE_SECTIONS,   /**< the first sections[0] by time, the next sections[1] by height, the
                            * rest by width: Qwen2-VL, Qwen2.5-VL */
    ATTN_MROPE_INTERLEAVED /**< i % 3 == 1 and i < 3 sections[1] by height, i % 3 == 2 and
                            * i < 3 sections[2] by width, the rest by time: Qwen3-VL, Qwen3.5 */
};

enum attn_norm {
    ATTN_NORM_NONE,
    ATTN_NORM_RMS,       /**< per head: x / sqrt(mean(x^2) + eps) * w */
    ATTN_NORM_GEMMA_RMS, /**< per head: x / sqrt(mean(x^2) + eps) * (1 + w) */
    ATTN_NORM_FULL       /**< x / sqrt(squares / count + eps) * w, over the heads of all ranks */
};

/** What is fixed for a layer. */
struct attn_rope_qk_norm_cache_desc {
    size_t size;                 /**< sizeof(struct attn_rope_qk_norm_cache_desc) */
    enum attn_dtype dtype;       /**< of tensors that say nothing else: ATTN_BF16 or ATTN_FP16 */
    enum attn_dtype q_out_dtype; /**< of q_out: 0 for dtype, or ATTN_FP8: q / q_out_scale[0],
                                  * saturated */
    int32_t head_dim;            /**< of q, k and v */
    int32_t heads;               /**< query heads on this rank */
    int32_t kv_heads;
    enum attn_rope rope;
    int32_t rotary_dim; /**< the first elements of a head, which rotate; 0: head_dim */
    enum attn_mrope mrope;
    bool cos_sin_short;  /**< cos_sin is of dtype, not float */
    enum attn_norm norm; /**< of q and k */
    bool bias;           /**< a bias is added to q, k and v first */
    bool gate;           /**< each head of q is followed by its output gate, which goes to gate */
    bool keep_kv;        /**< k and v are also written to k_out and v_out */
    struct attn_cache_desc cache;
};

/**
 * One call, for `tokens` tokens of any sequences. Token t reads row positions[t] of the table
 * cos_sin, [position, rotary_dim]: the cosines of the rotary_dim / 2 pairs, then their sines. A
 * pair (a, b) becomes (a cos - b sin, b cos + a sin). Scaled variants (YaRN, Llama 3) are other
 * tables.
 *
 * k and v of token t go to slot slot_mapping[t] of the cache: page slot / page_size, offset slot %
 * page_size. A token with a negative slot is not cached; its q, and its k and v where they are
 * kept, are worked out all the same. Caches of ATTN_FP8 and ATTN_INT8 get k and v divided by their
 * scale, to nearest even and saturated: a scale per token and head is worked out, as the largest
 * absolute value over the largest number of the type, and stored; one per tensor is there already;
 * one per page and head changes as attn_cache_write_args says, and asks the same of slot_mapping.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. q, k and v
 * may be parts of one tensor. The last dimension is contiguous; tensors and their strides in
 * bytes are multiples of 16, and a token's heads lie within 2 GiB. An output may be its own input
 * with the same strides, and overlaps nothing else.
 */
struct attn_rope_qk_norm_cache_args {
    size_t size;   /**< sizeof(struct attn_rope_qk_norm_cache_args) */
    const void *q; /**< [tokens, heads, head_dim], desc.gate: [tokens, heads, 2 head_dim] */
    const void *k; /**< [tokens, kv_heads, head_dim] */
    const void *v; /**< [tokens, kv_heads, head_dim]; NULL: q and k only */
    void *q_out;   /**< [tokens, heads, head_dim]; NULL: q, in place */
    void *k_out;   /**< [tokens, kv_heads, head_dim], with desc.keep_kv; NULL: k */
    void *v_out;   /**< [tokens, kv_heads, head_dim], with desc.keep_kv; NULL: v */
    void *gate;    /**< [tokens, heads, head_dim], with desc.gate */
    struct attn_cache cache;
    const int64_t *slot_mapping; /**< [tokens] on the device; NULL: nothing is cached */
    const int64_t *positions;    /**< [tokens] on the device, with desc.mrope [3, tokens] */
    const void *cos_sin;         /**< [max_position, rotary_dim] on the device, with desc.rope */
    const float *q_out_scale;    /**< [1] on the device, with q_out of ATTN_FP8 */
    const void *q_weight;        /**< [head_dim]; ATTN_NORM_FULL: [heads, head_dim] */
    const void *k_weight;        /**< [head_dim]; ATTN_NORM_FULL: [kv_heads, head_dim] */
    const void *q_bias;          /**< [heads, head_dim], with desc.bias */
    const void *k_bias;          /**< [kv_heads, head_dim], with desc.bias */
    const void *v_bias;          /**< [kv_heads, head_dim], with desc.bias */
    const float *q_squares; /**< [tokens], ATTN_NORM_FULL: sum of squares of q over all ranks */
    const float *k_squares; /**< [tokens], ATTN_NORM_FULL: the same of k */
    int64_t q_token_stride, q_head_stride; /**< 0 with desc.gate: of [tokens, heads, 2 head_dim] */
    int64_t k_token_stride, k_head_stride;
    int64_t v_token_stride, v_head_stride;
    int64_t q_out_token_stride, q_out_head_stride;
    int64_t k_out_token_stride, k_out_head_stride;
    int64_t v_out_token_stride, v_out_head_stride;
    int64_t gate_token_stride, gate_head_stride;
    int64_t positions_stride; /**< from a row of [3, tokens] to the next; 0: tokens */
    int32_t sections[3];      /**< with desc.mrope: pairs of each position, rotary_dim / 2 in all */
    int32_t tokens;
    int32_t max_position; /**< rows of cos_sin, for ATTN_CHECK_DATA; 0: not said */
    int32_t q_count;      /**< ATTN_NORM_FULL: elements that q_squares sums */
    int32_t k_count;      /**< ATTN_NORM_FULL: elements that k_squares sums */
    float eps;            /**< of the norm */
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/**
 * Chooses and loads the kernel for a layer: the one whose key equals the descriptor; page size and
 * heads may be any. ATTN_NO_KERNEL names what is missing and the nearest kernel. Release with
 * attn_op_destroy().
 */
ATTN_PUBLIC int attn_rope_qk_norm_cache_lookup(struct attn_device *device,
                                               const struct attn_rope_qk_norm_cache_desc *desc,
                                               struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_rope_qk_norm_cache_launch(const struct attn_op *op,
                                               const struct attn_rope_qk_norm_cache_args *args);

/* ---- Cache write: new keys and values into a paged cache ---- */

/** What is fixed for a layer. */
struct attn_cache_write_desc {
    size_t size;           /**< sizeof(struct attn_cache_write_desc) */
    enum attn_dtype dtype; /**< of k_in and v_in: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v; /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
};

/**
 * One call: row i of k_in and v_in goes to slot_mapping[i] = page * page_size + token, and nowhere
 * where that is negative. No two rows have the same slot. Nothing else of the cache is written.
 *
 * A cache of 16-bit numbers gets copies. ATTN_FP8 and ATTN_INT8 get x / scale, rounded to nearest
 * even; what is beyond the largest number becomes it, and a NaN stays one (of int8: 0). With
 * ATTN_KV_SCALE_TENSOR the scales are read. With ATTN_KV_SCALE_TOKEN they are written: the largest
 * |x| of the token and head divided by the largest number, and x is divided by at least 1e-12, as
 * reshape_and_cache_with_pertoken_quant of ROCm/aiter does.
 *
 * With ATTN_KV_SCALE_BLOCK they are read and written, as by reshape_and_cache_with_block_quant. For
 * each head, of the rows that go to one page, s = max(1e-6, max |x|) / the largest number. It is
 * the page's scale from now on where the rows begin with the page's first token, or where it is
 * more than the scale that the page has: what the page holds before them is then multiplied with
 * old / s and rounded again. Otherwise the page keeps its scale. So the rows that go to one page
 * follow each other in slot_mapping as in the page, and those that go nowhere are not among them.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. The last
 * dimension is contiguous; k_in, v_in and their strides in bytes are multiples of 16, and a token's
 * stride is at most 4 MiB. The grid depends on `tokens` and the descriptor alone.
 */
struct attn_cache_write_args {
    size_t size;      /**< sizeof(struct attn_cache_write_args) */
    const void *k_in; /**< [tokens, kv_heads, head_dim] */
    const void *v_in; /**< [tokens, kv_heads, head_dim_v] */
    struct attn_cache cache;
    const int64_t *slot_mapping; /**< [tokens] on the device, 8-byte aligned */
    int64_t k_in_token_stride, k_in_head_stride;
    int64_t v_in_token_stride, v_in_head_stride;
    int32_t tokens;
    void *stream; /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); a kernel for any page size covers at cost 1. */
ATTN_PUBLIC int attn_cache_write_lookup(struct attn_device *device,
                                        const struct attn_cache_write_desc *desc,
                                        struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_write_launch(const struct attn_op *op,
                                        const struct attn_cache_write_args *args);

/* ---- Cache gather: keys and values of sequences out of a paged cache ---- */

/** What is fixed for a layer. */
struct attn_cache_gather_desc {
    size_t size;           /**< sizeof(struct attn_cache_gather_desc) */
    enum attn_dtype dtype; /**< of k_out and v_out: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v; /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
    enum attn_page_table page_table;
};

/**
 * One call: token seq_starts[s] + i of sequence s becomes row cu_seqlens_k[s] + i of k_out and
 * v_out, for every i below cu_seqlens_k[s + 1] - cu_seqlens_k[s]: what is stored, times its scale,
 * rounded once. Nothing else is written. The last page of a sequence is read to its end.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor. The last
 * dimension is contiguous; k_out, v_out and their strides in bytes are multiples of 16, and a
 * token's stride is at most 4 MiB. Everything that varies between replays of a captured graph is
 * read from device memory: the grid depends on batch, max_seqlen_k and the descriptor alone.
 */
struct attn_cache_gather_args {
    size_t size; /**< sizeof(struct attn_cache_gather_args) */
    void *k_out; /**< [total_k, kv_heads, head_dim] */
    void *v_out; /**< [total_k, kv_heads, head_dim_v] */
    struct attn_cache cache;
    struct attn_pages pages;     /**< kv_lens is for ATTN_CHECK_DATA alone, and may be NULL */
    const int32_t *cu_seqlens_k; /**< [batch + 1] on the device: rows of each sequence */
    const int32_t *seq_starts;   /**< [batch] on the device: its first token; NULL: 0 for all */
    int64_t k_out_token_stride, k_out_head_stride;
    int64_t v_out_token_stride, v_out_head_stride;
    int32_t batch;
    int32_t total_k;      /**< rows that k_out and v_out have room for */
    int32_t max_seqlen_k; /**< no sequence has more rows */
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); a kernel for any page size covers at cost 1. */
ATTN_PUBLIC int attn_cache_gather_lookup(struct attn_device *device,
                                         const struct attn_cache_gather_desc *desc,
                                         struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_gather_launch(const struct attn_op *op,
                                         const struct attn_cache_gather_args *args);

/* ---- Cache copy: pages of a paged cache into others ---- */

/** What is fixed for a layer. The cache's dtype is to be given. */
struct attn_cache_copy_desc {
    size_t size; /**< sizeof(struct attn_cache_copy_desc) */
    int32_t head_dim;
    int32_t head_dim_v; /**< 0: head_dim */
    int32_t kv_heads;
    struct attn_cache_desc cache;
};

/**
 * One call: page page_pairs[i][0] of `from` becomes page page_pairs[i][1] of `to`, K, V and, with a
 * scale per token or per block, the scales. A pair with a negative number is skipped. No page is
 * written twice, and none that is read is written. Bytes between the elements of a page are left
 * alone, in a page whose strides leave any.
 *
 * The two caches may differ in their pointers and page strides alone; with from.k NULL they are the
 * same. Both are memory that the GPU can address: its own, or of the host (hipHostMalloc). The grid
 * depends on `pairs` and the descriptor alone, and hipMemcpy is not used, so that pages may be
 * moved by a captured graph.
 */
struct attn_cache_copy_args {
    size_t size; /**< sizeof(struct attn_cache_copy_args) */
    struct attn_cache from;
    struct attn_cache to;
    const int64_t *page_pairs; /**< [pairs, 2] on the device, 16-byte aligned */
    int32_t pairs;
    void *stream; /**< hipStream_t of the op's device; NULL: the default stream */
};

/** As attn_prefill_lookup(); one kernel copies pages of every kind. */
ATTN_PUBLIC int attn_cache_copy_lookup(struct attn_device *device,
                                       const struct attn_cache_copy_desc *desc,
                                       struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_cache_copy_launch(const struct attn_op *op,
                                       const struct attn_cache_copy_args *args);

#ifdef __cplusplus
}
#endif

#endif
