/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what op families with a paged cache share: its checks and its values. */
#ifndef ATTN_CACHE_ARGS_H
#define ATTN_CACHE_ARGS_H

#include "runtime/family.h"

/* The heads that a cache holds. */
struct attn_cache_heads {
    int32_t kv_heads, head_dim, head_dim_v;
};

/* Bytes of a latent row with layout PACKED: 512 fp8, 4 float32 or 16 e8m0, 64 of 16 bits. */
enum { ATTN_PACKED_ROW = 512 + 4 * 4 + 64 * 2 };

/* Bytes of an element; 0 for no dtype. */
int attn_dtype_size(enum attn_dtype dtype);

/** Does a page have heads outside of tokens, K with x elements of a token side by side? */
static inline bool attn_is_shuffled(const struct attn_cache_desc *d)
{
    return d->layout == ATTN_KV_SHUFFLE || d->layout == ATTN_KV_SHUFFLE_K;
}

/** Do scales stand in tensors of their own, and not in the rows? */
static inline bool attn_has_scale_tensors(const struct attn_cache_desc *d)
{
    return d->scale != ATTN_KV_SCALE_NONE && d->scale != ATTN_KV_SCALE_E8M0;
}

/* log2 of a page's tokens, rounded up, and the number that kernels divide by them with:
 * templates/cache/paging.h. 0 tokens count as 1. */
int32_t attn_page_shift(int32_t page_size);
int64_t attn_page_magic(int32_t page_size);

/* The name of a dtype in descriptions. */
const char *attn_dtype_name(enum attn_dtype dtype);

/* Checks it for an op of `dtype`; a dtype of 0 becomes that one. `op` begins the messages. */
int attn_cache_normalise(const char *op, enum attn_dtype dtype,
                         const struct attn_cache_heads *heads, struct attn_cache_desc *desc);

/* Launch: checks the cache of a call and sets the values of CACHE_ARGS() in ops/types.def. */
int attn_cache_fill(const struct attn_cache_desc *desc, const struct attn_cache_heads *heads,
                    const struct attn_cache *cache, union attn_value *values);

/* attn_cache_fill() of a latent cache, whose rows of head_dim elements at k are key and value. */
int attn_latent_fill(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                     const struct attn_cache *c, union attn_value *values);

/* For a call that leaves the cache alone: sets them to zero. */
void attn_cache_fill_none(union attn_value *values);

/*
 * Launch: checks the lists of a call and sets the values of PAGES_ARGS(). `lens` stands for a
 * kv_lens that is not given, where that is allowed.
 */
int attn_pages_fill(enum attn_page_table table, const struct attn_pages *pages, const int32_t *lens,
                    union attn_value *values);

/* Removes the first `count` sequences from the lists of a call. */
void attn_pages_skip(int64_t count, union attn_value *values);

/* attn_pages_fill() of lists of slots: kv_lens may be NULL. */
int attn_slots_fill(enum attn_page_table table, const struct attn_pages *pages,
                    union attn_value *values);

/* ATTN_CHECK_DATA: lengths, enough entries, page numbers below cache->page_count. */
int attn_pages_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream);

/* ATTN_CHECK_DATA: lengths, enough entries of so many slots, slots below those of
 * cache->page_count pages. */
int attn_slots_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t slots, int32_t batch, void *stream);

/* ATTN_CHECK_DATA: slots lie in cache->page_count pages, and in runs where these have scales. */
int attn_cache_check_slots(const struct attn_device *device, const struct attn_cache_desc *desc,
                           const struct attn_cache *cache, const int64_t *slots, int32_t tokens,
                           void *stream);

/* ATTN_CHECK_DATA: slots lie below `count`, unless that is 0. */
int attn_check_slots(const struct attn_device *device, const int64_t *slots, int32_t tokens,
                     int64_t count, void *stream);

#endif
