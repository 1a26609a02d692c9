/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention: prefill, decode, the plan of a decode step and the combination of its parts, and the
 * arrays that these read.
 */
#ifndef ATTN_ATTENTION_H
#define ATTN_ATTENTION_H

#include "attn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Prefill: attention over packed sequences ---- */

/** What is fixed for a layer. */
struct attn_prefill_desc {
    size_t size;           /**< sizeof(struct attn_prefill_desc) */
    enum attn_dtype dtype; /**< of q, k, v and out */
    int32_t head_dim;
    int32_t head_dim_v; /**< 0: head_dim */
    int32_t heads;      /**< query heads, a multiple of kv_heads */
    int32_t kv_heads;
    enum attn_mask mask;
    bool sinks;         /**< args->sinks joins the softmax denominator */
    bool soft_cap;      /**< scores pass through cap * tanh(score / cap) */
    bool lse;           /**< args->lse is written */
    const char *logits; /**< name of a user's logits function, or NULL */
    bool paged;         /**< keys and values are read from args->cache, through args->pages */
    struct attn_cache_desc cache;    /**< with paged */
    enum attn_page_table page_table; /**< with paged */
};

/**
 * One call. Sequence s has queries cu_seqlens_q[s] .. cu_seqlens_q[s + 1] - 1 and keys likewise;
 * either may have length 0. A query that sees no key gets output 0 and LSE -infinity.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). The last dimension is contiguous; q, k, v, out and their strides in bytes are multiples
 * of 16. Everything that varies between replays of a captured graph is read from device memory.
 *
 * With desc.paged the keys of sequence s, for a prefix hit or a chunk of a long prompt, are the
 * pages.kv_lens[s] tokens of its pages, those of its queries the last ones; k, v, their strides,
 * cu_seqlens_k and total_k are not looked at. Per-token and per-page scales are applied before the
 * values are rounded to dtype.
 */
struct attn_prefill_args {
    size_t size;                 /**< sizeof(struct attn_prefill_args) */
    const void *q;               /**< [total_q, heads, head_dim] */
    const void *k;               /**< [total_k, kv_heads, head_dim] */
    const void *v;               /**< [total_k, kv_heads, head_dim_v] */
    void *out;                   /**< [total_q, heads, head_dim_v] */
    float *lse;                  /**< natural log, scale included; NULL without desc.lse */
    const float *sinks;          /**< [heads]; NULL without desc.sinks */
    const int32_t *cu_seqlens_q; /**< [batch + 1] on the device */
    const int32_t *cu_seqlens_k; /**< [batch + 1] on the device */
    const void *hook_arg;        /**< for the user's logits function */
    int64_t q_token_stride, q_head_stride;
    int64_t k_token_stride, k_head_stride;
    int64_t v_token_stride, v_head_stride;
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int32_t batch;
    int32_t total_q;      /**< tokens that q, out and lse have room for */
    int32_t total_k;      /**< tokens that k and v have; 0: not said */
    int32_t max_seqlen_q; /**< no sequence has more queries */
    int32_t max_seqlen_k; /**< no sequence has more keys */
    float scale;          /**< multiplies q . k; 0: 1 / sqrt(head_dim) */
    float soft_cap;       /**< > 0 with desc.soft_cap */
    int32_t window_left;  /**< with ATTN_MASK_WINDOW; -1: no limit */
    int32_t window_right; /**< with ATTN_MASK_WINDOW; -1: no limit */
    void *workspace;      /**< attn_op_workspace_size() bytes on the device */
    size_t workspace_size;
    void *stream;            /**< hipStream_t of the op's device; NULL: its default stream,
                           * when the device is the thread's current one */
    struct attn_cache cache; /**< with desc.paged */
    struct attn_pages pages; /**< with desc.paged */
};

/**
 * Chooses and loads the kernel for a layer. The kernel whose key equals the descriptor comes first;
 * failing that, the cheapest that covers it: one for any GQA ratio, or any page size, then one with
 * a run-time window for a causal mask, then for none. The same packs and descriptor give the same
 * kernel. ATTN_NO_KERNEL names what is missing and the nearest kernel. Release with
 * attn_op_destroy().
 */
ATTN_PUBLIC int attn_prefill_lookup(struct attn_device *device,
                                    const struct attn_prefill_desc *desc, struct attn_op **op);

/**
 * Launches on args->stream and returns without waiting. Allocates nothing, takes no lock, makes no
 * system call of its own; any number of threads may launch the same op; may be captured into a
 * graph. An empty batch is success without a launch.
 */
ATTN_PUBLIC int attn_prefill_launch(const struct attn_op *op, const struct attn_prefill_args *args);

/* ---- Decode: a few new queries per sequence over a paged cache ---- */

/** What is fixed for a layer. */
struct attn_decode_desc {
    size_t size;           /**< sizeof(struct attn_decode_desc) */
    enum attn_dtype dtype; /**< of q and out: ATTN_BF16 or ATTN_FP16 */
    int32_t head_dim;
    int32_t head_dim_v; /**< 0: head_dim */
    int32_t heads;      /**< query heads, a multiple of kv_heads */
    int32_t kv_heads;
    int32_t q_len;       /**< no sequence ever has more queries; 0: 1 */
    enum attn_mask mask; /**< for one query, ATTN_MASK_NONE and ATTN_MASK_CAUSAL are the same */
    bool sinks;          /**< args->sinks joins the softmax denominator */
    bool soft_cap;       /**< scores pass through cap * tanh(score / cap) */
    bool lse;            /**< args->lse is written */
    const char *logits;  /**< name of a user's logits function, or NULL */
    struct attn_cache_desc cache;
    enum attn_page_table page_table;
};

/**
 * One call. Sequence s has the queries qo_indptr[s] .. qo_indptr[s + 1] - 1, or, where qo_indptr is
 * NULL, s * q_len .. s * q_len + q_len - 1; its newest kv_lens[s] keys are in the cache, those of
 * the queries among them. A query that sees no key gets output 0 and LSE -infinity, so kv_lens[s]
 * may be 0; the queries of a sequence never outnumber desc.q_len.
 *
 * Without a work list a workgroup takes a sequence and a kv head, and writes its result. With one,
 * workgroup w takes the items work_info[work_indptr[w]] .. work_info[work_indptr[w + 1] - 1], as
 * attn_decode_plan() lists them; an item that is part of a sequence writes its own normalised
 * output and the natural log of its denominator, without sinks, to partial_out and partial_lse, and
 * a combine launch makes the result of these.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). The last dimension is contiguous; q, out and their strides in bytes are multiples of 16.
 * Everything that varies between replays of a captured graph is read from device memory: the grid
 * depends on batch, work_lists and the descriptor alone.
 */
struct attn_decode_args {
    size_t size;        /**< sizeof(struct attn_decode_args) */
    const void *q;      /**< [total_q, heads, head_dim] */
    void *out;          /**< [total_q, heads, head_dim_v] */
    float *lse;         /**< natural log, scale included; NULL without desc.lse */
    const float *sinks; /**< [heads]; NULL without desc.sinks */
    struct attn_cache cache;
    struct attn_pages pages;
    const int32_t *qo_indptr;   /**< [batch + 1] on the device, or NULL */
    const uint8_t *custom_mask; /**< with ATTN_MASK_CUSTOM: 1 where a query sees a key; of query t
                                 * of sequence s from mask_indptr[s] + t * kv_lens[s] on */
    const int64_t *mask_indptr; /**< [batch + 1] on the device, with ATTN_MASK_CUSTOM */
    const int32_t *work_indptr; /**< [work_lists + 1] on the device, or NULL: no work list */
    const int32_t *work_info;   /**< [items, 8] on the device, 16-byte aligned */
    float *partial_out;         /**< [partial_rows, heads, head_dim_v], 16-byte aligned */
    float *partial_lse;         /**< [partial_rows, heads] */
    const void *hook_arg;       /**< for the user's logits function */
    int64_t q_token_stride, q_head_stride;
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int32_t batch;
    int32_t total_q;      /**< tokens that q, out and lse have room for */
    int32_t q_len;        /**< a bound for a sequence's queries; 0: desc.q_len */
    int32_t work_lists;   /**< of work_indptr: workgroups to launch */
    int32_t partial_rows; /**< of partial_out, for ATTN_CHECK_DATA; 0: not said */
    float scale;          /**< multiplies q . k; 0: 1 / sqrt(head_dim) */
    float soft_cap;       /**< > 0 with desc.soft_cap */
    int32_t window_left;  /**< with ATTN_MASK_WINDOW; -1: no limit */
    int32_t window_right; /**< with ATTN_MASK_WINDOW; -1: no limit */
    void *stream;         /**< hipStream_t of the op's device; NULL: its default stream,
                           * when the device is the thread's current one */
};

/**
 * Chooses and loads the kernel for a layer. The kernel whose key equals the descriptor comes first;
 * failing that, the one with the smallest sum of costs: 1 for any page size, 1 for any GQA ratio, 2
 * for a run-time window in place of causal, 4 in place of none, and for a kernel of more queries 5
 * and 1 for each step to the next count of 2, 3, 4, 5, 6, 7, 8, 16, 32, 64. ATTN_NO_KERNEL names
 * what is missing and the nearest kernel. Release with attn_op_destroy().
 */
ATTN_PUBLIC int attn_decode_lookup(struct attn_device *device, const struct attn_decode_desc *desc,
                                   struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_decode_launch(const struct attn_op *op, const struct attn_decode_args *args);

/* ---- Planning: how a decode batch becomes work lists ---- */

/** What stays the same from step to step. */
struct attn_decode_plan_shape {
    size_t size;       /**< sizeof(struct attn_decode_plan_shape) */
    int32_t batch;     /**< sequences, padding among them */
    int32_t q_len;     /**< no sequence has more queries */
    int32_t page_size; /**< a power of two */
    int32_t heads;     /**< a multiple of kv_heads, at most 65535 */
    int32_t kv_heads;
    int32_t lists;  /**< workgroups of the launch: a multiple of the GPU's compute units */
    int32_t window; /**< keys that a query sees at most, its own among them: window_left + 1;
                        * 0: no limit. Pages before those are in no item */
};

/** What a plan for any lengths has room for. */
struct attn_decode_plan_sizes {
    int32_t work_items;   /**< (batch + parts - 1) * kv_heads, parts = max(1, lists / kv_heads) */
    int32_t partials;     /**< min(batch + parts - 1, 2 * (parts - 1)) */
    int32_t partial_rows; /**< partials * q_len: of partial_out and partial_lse */
};

/** A step's lengths, in host memory. */
struct attn_decode_plan_lengths {
    const int32_t *kv_lens;   /**< [batch]; below 0 counts as 0 */
    const int32_t *qo_indptr; /**< [batch + 1], or NULL: every sequence has q_len queries */
    const int32_t *kv_indptr; /**< [batch + 1] for ATTN_PAGES_INDICES, NULL for a block table */
};

/**
 * A plan: the tensors that decode and combine read, as AITER's consumers do. Item i is
 * work_info[8 * i ..] = { sequence, first partial row or -1: the result is final, first query
 * token, their end, first page, their end, keys of the sequence behind, first query head | end of
 * query heads << 16 }. Pages count from the first of the sequence, with kv_indptr from that of
 * kv_indices. Sequence b, where it was cut, is made of the partial rows from
 * reduce_partial_map[reduce_indptr[b]] .. reduce_partial_map[reduce_indptr[b + 1] - 1] on.
 */
struct attn_decode_plan {
    int32_t *work_indptr;        /**< [lists + 1] */
    int32_t *work_info;          /**< [work_items, 8] */
    int32_t *reduce_indptr;      /**< [batch + 1] */
    int32_t *reduce_final_map;   /**< [batch, 2]: first query token of a sequence, and their end */
    int32_t *reduce_partial_map; /**< [partials] */
};

/** Bounds for the tensors of a plan, so that they can be allocated once. */
ATTN_PUBLIC int attn_decode_plan_sizes(const struct attn_decode_plan_shape *shape,
                                       struct attn_decode_plan_sizes *sizes);

/**
 * Cuts the keys of a batch into pieces of about the same cost, one launch's worth, and deals them
 * to the lists; docs/planning.md defines every integer, and the plan kernel writes the same ones on
 * the device. Host memory, and none of it allocated; what is behind the last item is not written.
 */
ATTN_PUBLIC int attn_decode_plan(const struct attn_decode_plan_shape *shape,
                                 const struct attn_decode_plan_lengths *lengths,
                                 const struct attn_decode_plan *plan);

/** Nothing about a plan is fixed for a layer: one kernel makes them all. */
struct attn_plan_desc {
    size_t size; /**< sizeof(struct attn_plan_desc) */
};

/** One call: the lengths and the plan are in device memory. */
struct attn_plan_args {
    size_t size; /**< sizeof(struct attn_plan_args) */
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_lengths lengths;
    struct attn_decode_plan plan; /**< of attn_decode_plan_sizes(); work_info 16-byte
                                           * aligned */
    void *stream;                 /**< hipStream_t of the op's device; NULL: the default
                                           * stream */
};

/** Loads the plan kernel. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_plan_lookup(struct attn_device *device, const struct attn_plan_desc *desc,
                                 struct attn_op **op);

/**
 * Writes on the device, in one launch of one workgroup, what attn_decode_plan() writes on the host:
 * the lengths may change between replays of a captured graph, the shape not. The units of all
 * sequences together, max(page_size, 64) tokens each and two more for each sequence, are below
 * 2^31, and lists / kv_heads is at most 65471. An empty batch is success without a launch.
 */
ATTN_PUBLIC int attn_plan_launch(const struct attn_op *op, const struct attn_plan_args *args);

/* ---- Combine: partial attention outputs become one ---- */

/** Where the parts of an output are. */
enum attn_partials {
    ATTN_PARTIALS_CSR,   /**< rows of partial_out that a list per tile of tokens names: decode */
    ATTN_PARTIALS_DENSE, /**< partial_out [token, split, head, head_dim] */
    ATTN_PARTIALS_PAIR   /**< two tensors like out: chunked context, a shared prefix */
};

/** What is fixed for a layer. */
struct attn_combine_desc {
    size_t size;               /**< sizeof(struct attn_combine_desc) */
    enum attn_dtype dtype;     /**< ATTN_BF16 or ATTN_FP16: of out, prefix and suffix */
    enum attn_dtype out_dtype; /**< of out: 0 for dtype, or ATTN_FP8 */
    int32_t head_dim;          /**< of out */
    int32_t heads;             /**< query heads */
    enum attn_partials partials;
};

/**
 * One call. With o_k the output over some of the keys, normalised, and lse_k the natural log of its
 * softmax denominator,
 *
 *     out = sum_k exp(lse_k - L) o_k,   L = log(sum_k exp(lse_k) [+ exp(sinks[head])])
 *
 * and lse = L. A part with an lse of plus or minus infinity saw no key: its values are not used,
 * whatever they are. Where that is so of every part, out is 0 and lse minus infinity, or the sink.
 * fp8 is out / out_scale[0], saturated.
 *
 * CSR: tile t has the query tokens reduce_final_map[t][0] .. reduce_final_map[t][1] - 1 and a part
 * for each i of reduce_indptr[t] .. reduce_indptr[t + 1] - 1: for the j-th of its tokens, row
 * reduce_partial_map[i] + j. What belongs to a tile without parts is not touched.
 * DENSE: every token is written; splits from split_counts[token] on are not read.
 * PAIR: every token is written; out may be prefix or suffix itself, unless it is ATTN_FP8.
 *
 * Strides are in elements; 0 stands for a contiguous [token, head, element] tensor (LSE: [head,
 * token]). Strides of out, prefix and suffix are multiples of 8 elements. The grid depends on the
 * counts below and the descriptor alone: what varies between replays of a captured graph is read
 * from device memory.
 */
struct attn_combine_args {
    size_t size;              /**< sizeof(struct attn_combine_args) */
    void *out;                /**< [total_q, heads, head_dim], 16-byte aligned; ATTN_FP8: 8 */
    float *lse;               /**< [heads, total_q], or NULL: not written */
    const float *sinks;       /**< [heads], or NULL */
    const float *out_scale;   /**< [1] on the device, with ATTN_FP8 */
    const float *partial_out; /**< CSR: [row, heads, head_dim], 16-byte aligned; DENSE: [total_q,
                               * splits, heads, head_dim]; contiguous */
    const float *partial_lse; /**< the same without head_dim */
    const int32_t *reduce_indptr;      /**< CSR: [reduce_tiles + 1] on the device */
    const int32_t *reduce_final_map;   /**< CSR: [reduce_tiles, 2] on the device */
    const int32_t *reduce_partial_map; /**< CSR: on the device */
    const int32_t *split_counts;       /**< DENSE: [total_q] on the device, or NULL: all splits */
    const void *prefix;                /**< PAIR: [total_q, heads, head_dim] of desc.dtype */
    const void *suffix;                /**< PAIR: likewise */
    const float *prefix_lse;           /**< PAIR: [heads, total_q] */
    const float *suffix_lse;           /**< PAIR: likewise */
    int64_t out_token_stride, out_head_stride;
    int64_t lse_token_stride, lse_head_stride;
    int64_t prefix_token_stride, prefix_head_stride;
    int64_t suffix_token_stride, suffix_head_stride;
    int64_t prefix_lse_token_stride, prefix_lse_head_stride;
    int64_t suffix_lse_token_stride, suffix_lse_head_stride;
    int32_t total_q;      /**< tokens that out has; DENSE, PAIR: all are written */
    int32_t reduce_tiles; /**< CSR: tiles, empty ones included */
    int32_t q_len;        /**< CSR: no tile has more tokens; 0: 1 */
    int32_t splits;       /**< DENSE: of every token in partial_out */
    int32_t partial_rows; /**< CSR: of partial_out, for ATTN_CHECK_DATA; 0: not said */
    void *stream;         /**< hipStream_t of the op's device; NULL: the default stream */
};

/** Chooses and loads the kernel whose key equals the descriptor. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_combine_lookup(struct attn_device *device,
                                    const struct attn_combine_desc *desc, struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_combine_launch(const struct attn_op *op, const struct attn_combine_args *args);

/* ---- Metadata: arrays that attention reads, made of lengths and page numbers each step ---- */

/**
 * What is made. P is the page size; entry(s, i) is block_table[row * block_table_stride + i], a
 * page number, or, with table_of_slots, the entry i * P of that row divided by P; row is
 * request_rows[s], or s without them.
 */
enum attn_metadata {
    ATTN_METADATA_INDPTR,        /**< kv_indptr[s] = sum of ceil(kv_lens[i] / P) over i < s; with
                                  * P = 1 that of the lengths */
    ATTN_METADATA_KV_INDICES,    /**< kv_indices[kv_indptr[s] + i] = entry(s, kv_start[s] + i), up
                                  * to kv_indptr[s + 1] */
    ATTN_METADATA_PAGE_TABLE,    /**< page_table[s][i] = entry(s, i) for i < ceil(kv_lens[s] / P) */
    ATTN_METADATA_LAST_PAGE_LEN, /**< last_page_lens[s] = (kv_lens[s] - 1) mod P + 1; 0 of 0 */
    ATTN_METADATA_DRAFT_SLOTS    /**< kv_lens[s] += advance, then slot_mapping[s] =
                                  * block_table[s][n / P] * P + n mod P and positions[s] = n with
                                  * n = kv_lens[s] - 1: one step of a draft model */
};

struct attn_metadata_desc {
    size_t size; /**< sizeof(struct attn_metadata_desc) */
    enum attn_metadata kind;
};

/**
 * One call. All arrays are on the device: lengths, pages and indptrs are int32; slots, positions
 * and rows int64, as engines have them. What the kind does not need may be NULL. Padding is safe:
 * nothing is copied for a sequence without pages, a length below 0 counts as 0, and a draft step
 * leaves a length of 0 or less alone, with slot -1 and position 0. What lies behind the last entry
 * is not touched. The grid depends on the counts here alone, so that the lengths may change between
 * replays of a captured graph.
 */
struct attn_metadata_args {
    size_t size;                 /**< sizeof(struct attn_metadata_args) */
    int32_t *kv_lens;            /**< [batch]; DRAFT_SLOTS: also written */
    const int32_t *block_table;  /**< [rows, block_table_stride]: page numbers or slots */
    const int64_t *request_rows; /**< KV_INDICES, PAGE_TABLE: [batch], or NULL */
    const int32_t *kv_start;     /**< KV_INDICES: [batch], or NULL: 0 */
    int32_t *kv_indptr;          /**< [batch + 1]: INDPTR writes, KV_INDICES reads it */
    int32_t *kv_indices;         /**< KV_INDICES: [kv_indptr[batch]] */
    int32_t *page_table;         /**< PAGE_TABLE: [batch, page_table_stride] */
    int32_t *last_page_lens;     /**< LAST_PAGE_LEN: [batch] */
    int64_t *slot_mapping;       /**< DRAFT_SLOTS: [batch] */
    int64_t *positions;          /**< DRAFT_SLOTS: [batch], or NULL */
    int64_t block_table_stride;  /**< entries of a row */
    int64_t page_table_stride;   /**< 0: entries */
    int32_t batch;
    int32_t page_size;   /**< a power of two */
    int32_t entries;     /**< KV_INDICES, PAGE_TABLE: no sequence has more; what would be
                                  * beyond is not copied */
    int32_t advance;     /**< DRAFT_SLOTS: 0 or more */
    bool table_of_slots; /**< block_table names the slot of every token, as req_to_token
                                  * does: not for DRAFT_SLOTS */
    void *stream;        /**< hipStream_t of the op's device; NULL: the default stream */
};

/** Loads the kernel of a kind. Release with attn_op_destroy(). */
ATTN_PUBLIC int attn_metadata_lookup(struct attn_device *device,
                                     const struct attn_metadata_desc *desc, struct attn_op **op);

/** As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph. */
ATTN_PUBLIC int attn_metadata_launch(const struct attn_op *op,
                                     const struct attn_metadata_args *args);

#ifdef __cplusplus
}
#endif

#endif
