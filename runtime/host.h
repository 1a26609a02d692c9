/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares what the schemas in ops/ call by name: the host's part of an op that rows of a
 * table cannot say.
 */
#ifndef ATTN_HOST_H
#define ATTN_HOST_H

#include "runtime/family.h"
#include "runtime/plan.h"

/* On the launch path: they check more of a call and set what SET() names. */
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
 * Tokens that a workgroup of cache_write looks for the beginning of a run in, where it owns whole
 * runs: more where pages are large, since fewer begin there.
 */
int32_t attn_cache_write_run(int32_t page_size, int32_t kv_heads, int32_t tokens);

/* ATTN_BAD_ARGUMENT where the shape of a plan makes no sense. */
int attn_plan_check(const struct attn_decode_plan_shape *shape);

/* ATTN_CHECK_DATA. */

/* The tiles of CSR lists lie in `out`, their parts in partial_out. */
int attn_combine_check_lists(const struct attn_op *op, const struct attn_combine_args *args);

/* The items of a work list name sequences, queries, pages, heads and partial rows that exist. */
int attn_decode_check_work(const struct attn_op *op, const struct attn_decode_args *args);

int attn_mla_decode_check_work(const struct attn_op *op, const struct attn_mla_decode_args *args);

int attn_indexer_topk_check_work(const struct attn_op *op, const struct attn_indexer_topk_args *a);

/* Each position of each stream has a row of cos_sin. */
int attn_rope_check_positions(const struct attn_op *op,
                              const struct attn_rope_qk_norm_cache_args *args);

/* kv_indptr, where the kind reads it. */
int attn_metadata_check_indptr(const struct attn_op *op, const struct attn_metadata_args *args);

/* Pages that are copied exist in their caches. */
int attn_cache_copy_check_pairs(const struct attn_op *op, const struct attn_cache_copy_args *args);

#endif
