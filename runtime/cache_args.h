/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and kernel values that the op families with a paged cache share. */
#ifndef ATTN_CACHE_ARGS_H
#define ATTN_CACHE_ARGS_H

#include "runtime/family.h"

/* Heads of a cache: their number, and the elements of a row of k and of v. */
struct attn_cache_heads {
    int32_t kv_heads, head_dim, head_dim_v;
};

/* Bytes of a row with layout SCALES_LAST: 448 fp8 elements and 64 of 16 bits. Bytes of the row's
 * scales, which are at the end of the page. */
enum { ATTN_MIXED_ROW = 448 + 64 * 2, ATTN_MIXED_SCALES = 8 };

/* Bytes of a row with layout PLANES: at k, 448 fp8 elements, 14 scales and 50 unused bytes; at v,
 * 64 elements of 16 bits. */
enum { ATTN_PLANE_ROW = 512, ATTN_PLANE_ROTATED = 64 * 2 };

/* Returns the bytes of a row that contains all elements and scales in the tensor of k; 0: rows of
 * the layout do not. */
static inline int64_t attn_packed_row(enum attn_kv_layout layout)
{
    switch (layout) {
    case ATTN_KV_PACKED: return 512 + 16 + 64 * 2; /* fp8, scales, elements of 16 bits */
    case ATTN_KV_PACKED_FP4: return 512 / 2 + 32;
    case ATTN_KV_PACKED_MXFP4: return 512 / 2 + 16;
    case ATTN_KV_PACKED_MXFP8: return 512 + 16;
    default: return 0;
    }
}

/* Returns the length of a row of k, or with `value` of v: bytes if rows contain their scales,
 * otherwise `dim` elements. */
static inline int64_t attn_row_length(enum attn_kv_layout layout, bool value, int64_t dim)
{
    if (layout == ATTN_KV_PLANES)
        return value ? ATTN_PLANE_ROTATED : ATTN_PLANE_ROW;
    return attn_packed_row(layout) ? attn_packed_row(layout) : dim;
}

/* Returns the bytes of a page of SCALES_LAST, a multiple of 16. */
static inline int64_t attn_mixed_page(int64_t tokens)
{
    return (tokens * (ATTN_MIXED_ROW + ATTN_MIXED_SCALES) + 15) / 16 * 16;
}

/* Returns the bytes of an element; 0: unknown dtype. */
int attn_dtype_size(enum attn_dtype dtype);

/** True if a page stores the tokens of a head together, and x elements of a token's K side by
 * side. */
static inline bool attn_is_shuffled(const struct attn_cache_desc *d)
{
    return d->layout == ATTN_KV_SHUFFLE || d->layout == ATTN_KV_SHUFFLE_K;
}

/** True if the scales are separate tensors instead of part of the rows. */
static inline bool attn_has_scale_tensors(const struct attn_cache_desc *d)
{
    return d->scale != ATTN_KV_SCALE_NONE && d->scale != ATTN_KV_SCALE_E8M0;
}

/* Return ceil(log2) of a page's tokens, and the multiplier by which kernels divide by the page
 * size: templates/cache/paging.h. A page size of 0 counts as 1. */
int32_t attn_page_shift(int32_t page_size);
int64_t attn_page_magic(int32_t page_size);

/* Returns the name of a dtype in descriptions. */
const char *attn_dtype_name(enum attn_dtype dtype);

/* Checks a cache descriptor and fills in its defaults: a dtype of 0 becomes `dtype`, the op's. `op`
 * begins the messages. */
__attribute__((cold)) int attn_cache_normalise(const char *op, enum attn_dtype dtype,
                                               const struct attn_cache_heads *heads,
                                               struct attn_cache_desc *desc);

/* Checks the cache of a call and sets the values of CACHE_ARGS() in ops/types.def. Launch path. */
int attn_cache_fill(const struct attn_cache_desc *desc, const struct attn_cache_heads *heads,
                    const struct attn_cache *cache, union attn_value *values);

/* Like attn_cache_fill(), for a latent cache: each row of head_dim elements at k is both key and
 * value. */
int attn_latent_fill(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                     const struct attn_cache *c, union attn_value *values);

/* Sets the values of CACHE_ARGS() to zero, for a call that does not access the cache. */
void attn_cache_fill_none(union attn_value *values);

/* Checks the page lists of a call and sets the values of PAGES_ARGS(). `lens` replaces a missing
 * kv_lens; if `lens` is NULL, a missing kv_lens is an error. Launch path. */
int attn_pages_fill(enum attn_page_table table, const struct attn_pages *pages, const int32_t *lens,
                    union attn_value *values);

/* Moves the scale pointers in `values` past the first `count` sequences. Only scales of
 * ATTN_KV_SCALE_HEAD differ between sequences; others stay unchanged. */
void attn_cache_skip(const struct attn_cache_desc *desc, int64_t count, union attn_value *values);

/* Moves the page-list pointers in `values` past the first `count` sequences. */
void attn_pages_skip(int64_t count, union attn_value *values);

/* Like attn_pages_fill(), for lists of slots, where kv_lens may be NULL. */
int attn_slots_fill(enum attn_page_table table, const struct attn_pages *pages,
                    union attn_value *values);

/* ATTN_CHECK_DATA: checks that the scales of `rows` sequences are finite with ATTN_KV_SCALE_HEAD.
 * Scales of other kinds are not checked. */
int attn_cache_check_scales(const struct attn_device *device, const struct attn_cache_desc *desc,
                            int32_t kv_heads, const struct attn_cache *cache, int32_t rows,
                            void *stream);

/* ATTN_CHECK_DATA: checks lengths, numbers of entries, and page numbers against
 * cache->page_count. */
int attn_pages_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream);

/* Slots of another tensor than the cache: `count` of them, the first has number `first`. count 0:
 * there is no such tensor. */
struct attn_more_slots {
    int64_t first, count;
};

/* ATTN_CHECK_DATA: checks lengths and entries of the lists of slots. An entry names `slots` slots:
 * 1, or a block. They must lie in cache->page_count pages, or be among `more`. Negative entries are
 * allowed. */
__attribute__((cold)) int attn_slots_check(
    const struct attn_device *device, const struct attn_cache_desc *desc,
    enum attn_page_table table, const struct attn_cache *cache, const struct attn_pages *pages,
    int32_t slots, const struct attn_more_slots *more, int32_t batch, void *stream);

/* ATTN_CHECK_DATA: checks that slots lie in cache->page_count pages. Where pages have scales, the
 * slots of a page must form a run. */
int attn_cache_check_slots(const struct attn_device *device, const struct attn_cache_desc *desc,
                           const struct attn_cache *cache, const int64_t *slots, int32_t tokens,
                           void *stream);

/* ATTN_CHECK_DATA: checks that slots are below `count`; a count of 0 checks nothing. */
int attn_check_slots(const struct attn_device *device, const int64_t *slots, int32_t tokens,
                     int64_t count, void *stream);

#endif
