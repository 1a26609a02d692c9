/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares what op families with a paged cache share: struct attn_cache_desc into keys,
 * struct attn_cache and struct attn_pages into the values of args.def. A family calls normalise and
 * the key functions at lookup, the fill functions in a launch, and lists ATTN_CACHE_SETS and
 * ATTN_PAGES_SETS in attn_family.sets.
 */
#ifndef ATTN_CACHE_ARGS_H
#define ATTN_CACHE_ARGS_H

#include "runtime/family.h"

/* The heads that a cache holds. */
struct attn_cache_heads {
    int32_t kv_heads, head_dim, head_dim_v;
};

/* Bytes of an element; 0 for no dtype. */
int attn_dtype_size(enum attn_dtype dtype);

/* As a description spells it. */
const char *attn_dtype_name(enum attn_dtype dtype);

/* Checks it for an op of `dtype`; a dtype of 0 becomes that one. `op` begins the messages. */
int attn_cache_normalise(const char *op, enum attn_dtype dtype,
                         const struct attn_cache_heads *heads, struct attn_cache_desc *desc);

/* Adds kv_dtype, kv_layout and kv_scale. */
void attn_cache_add_key(struct attn_key *key, enum attn_dtype dtype,
                        const struct attn_cache_desc *desc);

/* Adds page_size, which a kernel for any size covers at cost 1. */
void attn_cache_add_page_size(struct attn_key *key, const struct attn_cache_desc *desc);

/* Adds page_table. */
void attn_pages_add_key(struct attn_key *key, enum attn_page_table table);

/* Checks dtype, heads and dims of an op that only moves keys and values, and its cache as above;
 * *head_dim_v of 0 becomes head_dim. */
int attn_cache_normalise_op(const char *op, enum attn_dtype dtype, struct attn_cache_heads *heads,
                            struct attn_cache_desc *desc);

/* Keys and values beside the cache, [token, kv head, dim] of 16-bit numbers. */
struct attn_kv_rows {
    const void *k, *v;
    int64_t k_token_stride, k_head_stride, v_token_stride, v_head_stride;
};

/* Checks them and sets k_in or k_out and so on: `k`, `v` and `strides` are the first of the values
 * in args.def. On the launch path. */
int attn_kv_rows_fill(const struct attn_cache_heads *heads, const struct attn_kv_rows *rows,
                      unsigned k, unsigned v, unsigned strides, union attn_value *values);

/* Checks the cache of a call and sets ATTN_CACHE_SETS. On the launch path. */
int attn_cache_fill(const struct attn_cache_desc *desc, const struct attn_cache_heads *heads,
                    const struct attn_cache *cache, union attn_value *values);

/* Checks the lists of a call and sets ATTN_PAGES_SETS. On the launch path. */
int attn_pages_fill(enum attn_page_table table, const struct attn_pages *pages,
                    union attn_value *values);

/* ATTN_CHECK_DATA: lengths, enough entries, page numbers below cache->page_count. */
int attn_pages_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream);

/* ATTN_CHECK_DATA: slots lie in cache->page_count pages, and in runs where these have scales. */
int attn_cache_check_slots(const struct attn_device *device, const struct attn_cache_desc *desc,
                           const struct attn_cache *cache, const int64_t *slots, int32_t tokens,
                           void *stream);

#define ATTN_CACHE_SETS                                                                           \
    ATTN_SETS(K), ATTN_SETS(V), ATTN_SETS(K_SCALE), ATTN_SETS(V_SCALE), ATTN_SETS(K_PAGE_STRIDE), \
        ATTN_SETS(K_TOKEN_STRIDE), ATTN_SETS(K_HEAD_STRIDE), ATTN_SETS(V_PAGE_STRIDE),            \
        ATTN_SETS(V_TOKEN_STRIDE), ATTN_SETS(V_HEAD_STRIDE), ATTN_SETS(SCALE_PAGE_STRIDE),        \
        ATTN_SETS(SCALE_HEAD_STRIDE), ATTN_SETS(PAGE_SIZE), ATTN_SETS(PAGE_SHIFT)

#define ATTN_PAGES_SETS                                                        \
    ATTN_SETS(KV_LENS), ATTN_SETS(BLOCK_TABLE), ATTN_SETS(BLOCK_TABLE_STRIDE), \
        ATTN_SETS(KV_INDPTR), ATTN_SETS(KV_INDICES)

#endif
