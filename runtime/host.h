/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions that the schemas in ops/ name. They are the parts of an op's host code that rows
 * of a schema cannot express.
 */
#ifndef ATTN_HOST_H
#define ATTN_HOST_H

#include "runtime/family.h"
#include "runtime/plan.h"

/* The second part of the fill functions (attn_family.fill) of some ops. Each checks the arguments
 * `a` further and sets the kernel arguments in `v` that the op's schema lists with SET(). Returns
 * ATTN_OK or an error. Runs during a launch. */
int attn_cache_copy_fill(const struct attn_cache_copy_desc *d, const struct attn_cache_copy_args *a,
                         union attn_value *v);
int attn_plan_fill(const struct attn_plan_desc *d, const struct attn_plan_args *a,
                   union attn_value *v);
int attn_rope_fill_runs(const struct attn_rope_qk_norm_cache_desc *d,
                        const struct attn_rope_qk_norm_cache_args *a, union attn_value *v);
int attn_indexer_logits_fill(const struct attn_indexer_logits_desc *d,
                             const struct attn_indexer_logits_args *a, union attn_value *v);
int attn_head_product_fill(const struct attn_head_product_desc *d,
                           const struct attn_head_product_args *a, union attn_value *v);
int attn_qk_rmsnorm_fill(const struct attn_qk_rmsnorm_desc *d, const struct attn_qk_rmsnorm_args *a,
                         union attn_value *v);
int attn_mla_rope_fill(const struct attn_mla_rope_cache_desc *d,
                       const struct attn_mla_rope_cache_args *a, union attn_value *v);

/*
 * Returns the number of tokens that a workgroup of cache_write searches for the starts of runs, if
 * it writes whole runs. A run is neighbouring tokens of one page. Larger pages give more tokens,
 * since they have fewer starts.
 */
int32_t attn_cache_write_run(int32_t page_size, int32_t kv_heads, int32_t tokens);

/* Returns the number of tokens of a workgroup of gated_rmsnorm, for rows of `width` elements. With
 * many tokens a workgroup has several steps, since it reads the weight once for all of them. */
int32_t attn_gated_rmsnorm_run(int32_t tokens, int32_t groups, int32_t width);

/* Checks the shape of a plan. Returns ATTN_OK, or ATTN_BAD_ARGUMENT if it is invalid. */
int attn_plan_check(const struct attn_decode_plan_shape *shape);

/* The functions below check device data of a call for ATTN_CHECK_DATA. Each returns ATTN_OK or
 * ATTN_BAD_DATA. */

/* Checks the CSR lists of a combine: each output row is a row of `out`, and each split-KV partial
 * is a row of partial_out. */
int attn_combine_check_lists(const struct attn_op *op, const struct attn_combine_args *args);
/* Checks that no group of tokens is twice in a row of the argument `chosen`. */
int attn_shared_lists_check_groups(const struct attn_op *op,
                                   const struct attn_shared_lists_args *args);

/* Checks that the items of a decode's work lists name existing sequences, queries, pages, heads and
 * split-KV partials. */
int attn_decode_check_work(const struct attn_op *op, const struct attn_decode_args *args);

/* Checks the work items and split-KV partials of a prefill whose keys are split. */
int attn_prefill_check_work(const struct attn_op *op, const struct attn_prefill_args *args);

/* Checks work lists like attn_decode_check_work(), and that the position of each token has a row of
 * cos_sin. */
int attn_rope_decode_check_work(const struct attn_op *op, const struct attn_rope_decode_args *args);

/* Checks the work items, sparse lists and split-KV partials of a latent decode. */
int attn_mla_decode_check_work(const struct attn_op *op, const struct attn_mla_decode_args *args);

/* Checks the work items of an indexer's selection of keys, and the partial lists that its
 * workgroups write. */
int attn_indexer_topk_check_work(const struct attn_op *op, const struct attn_indexer_topk_args *a);

/* Checks that each position of a token, of up to three streams, has a row of cos_sin. */
int attn_rope_check_positions(const struct attn_op *op,
                              const struct attn_rope_qk_norm_cache_args *args);

/* Checks kv_indptr, if the descriptor's kind of metadata reads it. */
int attn_metadata_check_indptr(const struct attn_op *op, const struct attn_metadata_args *args);

/* Checks that the pages of each pair exist: the first in the source cache, the second in the
 * destination. */
int attn_cache_copy_check_pairs(const struct attn_op *op, const struct attn_cache_copy_args *args);

/* Checks that the spans to copy are multiples of 16 bytes and lie in the memory of source and
 * destination. */
int attn_state_copy_check_spans(const struct attn_op *op, const struct attn_state_copy_args *args);

/* Checks that the slots of the sequences' states exist in the pool, and that no two sequences write
 * the same slot. There is one such function for each op with states. */
int attn_conv1d_check_slots(const struct attn_op *op, const struct attn_conv1d_args *args);
int attn_compress_check_slots(const struct attn_op *op, const struct attn_compress_args *args);
int attn_gated_delta_check_slots(const struct attn_op *op,
                                 const struct attn_gated_delta_args *args);
int attn_gated_delta_prefill_check_slots(const struct attn_op *op,
                                         const struct attn_gated_delta_prefill_args *args);
int attn_gated_delta_step_check_slots(const struct attn_op *op,
                                      const struct attn_gated_delta_step_args *args);
int attn_ssd_check_slots(const struct attn_op *op, const struct attn_ssd_args *args);
int attn_selective_scan_check_slots(const struct attn_op *op,
                                    const struct attn_selective_scan_args *args);
int attn_ssd_prefill_check_slots(const struct attn_op *op,
                                 const struct attn_ssd_prefill_args *args);

#endif
