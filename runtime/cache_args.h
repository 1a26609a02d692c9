/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of arguments, and values of kernel arguments, that the ops with a paged cache share. */
#ifndef ATTN_CACHE_ARGS_H
#define ATTN_CACHE_ARGS_H

#include "runtime/family.h"

/* Heads of a cache: the number of KV heads, and the elements of a head's row of k and of v. */
struct attn_cache_heads {
    int32_t kv_heads, head_dim, head_dim_v;
};

/* Bytes of a row with layout SCALES_LAST: of 448 fp8 and 64 16-bit elements, and of the row's
 * scales, which are at the end of the page. */
enum { ATTN_MIXED_ROW = 448 + 64 * 2, ATTN_MIXED_SCALES = 8 };

/* Bytes of a row with layout PLANES: in the tensor of k 448 fp8 elements, 14 scales and 50 unused
 * bytes, in the tensor of v 64 rotated elements of 16 bits. */
enum { ATTN_PLANE_ROW = 512, ATTN_PLANE_ROTATED = 64 * 2 };

/* Returns the bytes of a cache row of 512 elements for layouts whose rows contain both elements and
 * scales. Returns 0 for other layouts. */
static inline int64_t attn_packed_row(enum attn_kv_layout layout)
{
    switch (layout) {
    case ATTN_KV_PACKED:
        /* bytes of fp8 elements, of scales, of 16-bit elements */
        return 512 + 16 + 64 * 2;
    case ATTN_KV_PACKED_FP4: return 512 / 2 + 32;
    case ATTN_KV_PACKED_MXFP4: return 512 / 2 + 16;
    case ATTN_KV_PACKED_MXFP8: return 512 + 16;
    default: return 0;
    }
}

/* Returns the length of a row of k, or of v if `value` is true. The unit is bytes for layouts whose
 * rows contain scales; for others it is elements, and the length is `dim`. */
static inline int64_t attn_row_length(enum attn_kv_layout layout, bool value, int64_t dim)
{
    if (layout == ATTN_KV_PLANES)
        return value ? ATTN_PLANE_ROTATED : ATTN_PLANE_ROW;
    return attn_packed_row(layout) ? attn_packed_row(layout) : dim;
}

/* Returns the bytes of a page of `tokens` rows with layout SCALES_LAST, a multiple of 16. */
static inline int64_t attn_mixed_page(int64_t tokens)
{
    return (tokens * (ATTN_MIXED_ROW + ATTN_MIXED_SCALES) + 15) / 16 * 16;
}

/* Returns the bytes of an element; 0 if the dtype is unknown. */
int attn_dtype_size(enum attn_dtype dtype);

/** True if the layout is SHUFFLE or SHUFFLE_K: a page stores K in groups of 16 bytes, each followed
 * by the same group of the next token. */
static inline bool attn_is_shuffled(const struct attn_cache_desc *d)
{
    return d->layout == ATTN_KV_SHUFFLE || d->layout == ATTN_KV_SHUFFLE_K;
}

/** True if the cache has scales in tensors of their own. False if it has none or if its rows
 * contain them. */
static inline bool attn_has_scale_tensors(const struct attn_cache_desc *d)
{
    return d->scale != ATTN_KV_SCALE_NONE && d->scale != ATTN_KV_SCALE_E8M0;
}

/* Returns log2 of a page's tokens, rounded up: the shift with which kernels divide by the page size
 * (templates/cache/paging.h). A page size of 0 counts as 1. */
int32_t attn_page_shift(int32_t page_size);
/* Returns the multiplier with which kernels divide by the page size, before the shift of
 * attn_page_shift(). A page size of 0 counts as 1. */
int64_t attn_page_magic(int32_t page_size);

/* Returns the name of a dtype in descriptions, such as "bf16". */
const char *attn_dtype_name(enum attn_dtype dtype);

/* Checks a cache descriptor and fills in its defaults; a cache dtype of 0 becomes `dtype`, the
 * op's. `op` is the first word of messages. */
__attribute__((cold)) int attn_cache_normalise(const char *op, enum attn_dtype dtype,
                                               const struct attn_cache_heads *heads,
                                               struct attn_cache_desc *desc);

/* Checks the cache of a call and sets in `values`, indexed by enum attn_arg, the kernel arguments
 * CACHE_ARGS() of ops/types.def. May run during a launch. */
int attn_cache_fill(const struct attn_cache_desc *desc, const struct attn_cache_heads *heads,
                    const struct attn_cache *cache, union attn_value *values);

/* Like attn_cache_fill(), for a latent cache: a row of head_dim elements in the tensor of k is both
 * key and value. */
int attn_latent_fill(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                     const struct attn_cache *c, union attn_value *values);

/* Sets the kernel arguments CACHE_ARGS() in `values` to 0, for a call that does not access the
 * cache. */
void attn_cache_fill_none(union attn_value *values);

/* Checks the page lists of a call and sets the kernel arguments PAGES_ARGS() in `values`. `lens`,
 * in device memory, replaces a missing kv_lens. If `lens` is NULL, a missing kv_lens is an error.
 * May run during a launch. */
int attn_pages_fill(enum attn_page_table table, const struct attn_pages *pages, const int32_t *lens,
                    union attn_value *values);

/* Moves the pointers to scales in `values` past the first `count` sequences, for a call that is
 * launched in pieces. Only scales of ATTN_KV_SCALE_HEAD differ between sequences; other pointers
 * stay. */
void attn_cache_skip(const struct attn_cache_desc *desc, int64_t count, union attn_value *values);

/* Moves the pointers to page lists in `values` past the first `count` sequences, for a call that is
 * launched in pieces. */
void attn_pages_skip(int64_t count, union attn_value *values);

/* Like attn_pages_fill(), for lists that name slots instead of pages. kv_lens may be NULL. */
int attn_slots_fill(enum attn_page_table table, const struct attn_pages *pages,
                    union attn_value *values);

/* Checks for ATTN_CHECK_DATA that scales of kind ATTN_KV_SCALE_HEAD are finite, for `rows`
 * sequences. Scales of other kinds are not checked. Waits for the stream. */
int attn_cache_check_scales(const struct attn_device *device, const struct attn_cache_desc *desc,
                            int32_t kv_heads, const struct attn_cache *cache, int32_t rows,
                            void *stream);

/* Checks for ATTN_CHECK_DATA the page lists of `batch` sequences: lengths, numbers of entries, and
 * that page numbers are below cache->page_count. Waits for the stream. */
int attn_pages_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream);

/* Slots of a second source, a tensor besides the cache whose rows a list may name: slot numbers
 * `first` to `first` + `count` - 1. count 0: there is no such tensor. */
struct attn_more_slots {
    int64_t first, count;
};

/* Checks for ATTN_CHECK_DATA lengths and entries of the slot lists of `batch` sequences. An entry
 * names a slot, or a block of `slots` slots. They must lie in cache->page_count pages or be among
 * `more`. Negative entries are allowed. Waits for the stream. */
__attribute__((cold)) int attn_slots_check(
    const struct attn_device *device, const struct attn_cache_desc *desc,
    enum attn_page_table table, const struct attn_cache *cache, const struct attn_pages *pages,
    int32_t slots, const struct attn_more_slots *more, int32_t batch, void *stream);

/* Checks for ATTN_CHECK_DATA that the `tokens` slots, an array in device memory, lie in
 * cache->page_count pages. If a scale is per page, slots of one page must be neighbours in the
 * array. Waits for the stream. */
int attn_cache_check_slots(const struct attn_device *device, const struct attn_cache_desc *desc,
                           const struct attn_cache *cache, const int64_t *slots, int32_t tokens,
                           void *stream);

/* Checks for ATTN_CHECK_DATA that the `tokens` slots, an array in device memory, are below `count`;
 * a count of 0 checks nothing. Waits for the stream. */
int attn_check_slots(const struct attn_device *device, const int64_t *slots, int32_t tokens,
                     int64_t count, void *stream);

#endif
