/* SPDX-License-Identifier: Apache-2.0 */
/* Checks paged caches and page lists, and sets the kernel arguments that describe them. */
#include "runtime/cache_args.h"

#include <stdlib.h>

#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/fill.h"

enum { PAGE_SIZE_MAX = 65536 }; /* most tokens of a page */

/* Most bytes of a page: kernels address it with 32-bit byte offsets. */
#define PAGE_BYTES_MAX (INT64_C(1) << 31)

/* The page stride in bytes must be below this: kernels multiply page numbers by a 32-bit stride. */
#define PAGE_STRIDE_MAX (INT64_C(1) << 32)

/* Returns the number of cache elements in 16 bytes. */
static int chunk(const struct attn_cache_desc *d) { return 16 / attn_dtype_size(d->dtype); }

/* Checks that the cache's head sizes, data type and page size fit its layout. `op` is the first
 * word of messages. Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
static int check_layout(const char *op, const struct attn_cache_heads *h,
                        const struct attn_cache_desc *d)
{
    const int x = chunk(d);
    if (h->head_dim % x || h->head_dim_v % x)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "%s: head_dim %d or head_dim_v %d of a %s cache is not "
                         "a multiple of %d, which are 16 bytes",
                         op, h->head_dim, h->head_dim_v, attn_dtype_name(d->dtype), x);
    if (attn_is_shuffled(d) && d->page_size % x)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "%s: page_size %d of a %s cache with layout %s, "
                         "whose pages have a multiple of %d tokens",
                         op, d->page_size, attn_dtype_name(d->dtype),
                         d->layout == ATTN_KV_SHUFFLE ? "SHUFFLE" : "SHUFFLE_K", x);
    const bool rows = h->head_dim == 576 && h->head_dim_v == 512;
    const bool apart = h->head_dim == 512 && h->head_dim_v == 64;
    const bool packed =
        h->kv_heads == 1 && (rows || apart) && d->dtype == ATTN_FP8 && !attn_has_scale_tensors(d);
    if (d->layout == ATTN_KV_PACKED && !packed)
        return attn_fail(
            ATTN_BAD_ARGUMENT,
            "%s: a cache with layout PACKED has one head of 512 + 64 elements, dtype "
            "ATTN_FP8 and scale NONE or E8M0; here head_dim is %d, head_dim_v %d, dtype %s",
            op, h->head_dim, h->head_dim_v, attn_dtype_name(d->dtype));
    const bool both = h->head_dim == 512 && h->head_dim_v == 512;
    const bool parts =
        (h->head_dim == 448 && h->head_dim_v == 64) || (h->head_dim == 512 && h->head_dim_v == 448);
    const bool parted = h->kv_heads == 1 && (both || parts) && d->dtype == ATTN_FP8 &&
                        d->scale == ATTN_KV_SCALE_NONE;
    const bool pooled = d->layout == ATTN_KV_SCALES_LAST || d->layout == ATTN_KV_PLANES ||
                        (attn_packed_row(d->layout) && d->layout != ATTN_KV_PACKED);
    if (pooled && !parted)
        return attn_fail(
            ATTN_BAD_ARGUMENT,
            "%s: a cache with layout %s has one head of 512 elements that are "
            "key and value, or of 448 + 64, dtype ATTN_FP8 and scale NONE; here head_dim is %d, "
            "head_dim_v %d, dtype %s",
            op, attn_kv_layout_texts[d->layout], h->head_dim, h->head_dim_v,
            attn_dtype_name(d->dtype));
    return ATTN_OK;
}

/* Checks that the cache's data type and layout allow its kind of scale. `op` is the first word of
 * messages. Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
static int check_scale(const char *op, const struct attn_cache_desc *d)
{
    const bool scaled = d->scale != ATTN_KV_SCALE_NONE;
    if (d->scale == ATTN_KV_SCALE_E8M0 && d->layout != ATTN_KV_PACKED)
        return attn_fail(
            ATTN_BAD_ARGUMENT,
            "%s: cache.scale says e8m0, which is of layout PACKED; cache.layout says %s", op,
            attn_kv_layout_texts[d->layout]);
    if (scaled && attn_dtype_size(d->dtype) != 1)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: a %s cache has no scale, cache.scale says %s", op,
                         attn_dtype_name(d->dtype), attn_kv_scale_texts[d->scale]);
    if (!scaled && d->dtype == ATTN_INT8)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "%s: an int8 cache needs a scale, cache.scale says "
                         "none",
                         op);
    return ATTN_OK;
}

int attn_cache_normalise(const char *op, enum attn_dtype dtype,
                         const struct attn_cache_heads *heads, struct attn_cache_desc *d)
{
    if (d->dtype == 0)
        d->dtype = dtype;
    if (attn_dtype_size(d->dtype) == 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: cache.dtype %d is none of enum attn_dtype", op,
                         (int)d->dtype);
    if ((size_t)d->layout >= attn_kv_layout_texts_count)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: cache.layout %d is none of enum attn_kv_layout",
                         op, (int)d->layout);
    if ((size_t)d->scale >= attn_kv_scale_texts_count)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: cache.scale %d is none of enum attn_kv_scale", op,
                         (int)d->scale);
    if (d->page_size < 1 || d->page_size > PAGE_SIZE_MAX)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: cache.page_size %d is not in 1 to %d", op,
                         d->page_size, PAGE_SIZE_MAX);
    int r = check_layout(op, heads, d);
    return r ? r : check_scale(op, d);
}

/* The functions from here on run during a launch, so their messages are constants. */

/* Replaces each stride of K or V that is 0 by the stride of a contiguous tensor. Strides are in
 * elements: [0] of pages, [1] of tokens, [2] of heads. `dim` is the length of a row. With layouts
 * SHUFFLE and SCALES_LAST the strides inside a page are fixed. */
static void set_defaults(const struct attn_cache_desc *d, int64_t kv_heads, int64_t dim,
                         int64_t strides[3])
{
    const bool shuffle = attn_is_shuffled(d);
    if (d->layout == ATTN_KV_SCALES_LAST) {
        strides[1] = strides[2] = ATTN_MIXED_ROW;
        if (strides[0] == 0)
            strides[0] = attn_mixed_page(d->page_size);
        return;
    }
    if (strides[2] == 0)
        strides[2] = shuffle ? dim * d->page_size : dim;
    if (strides[1] == 0 || shuffle)
        strides[1] = shuffle ? 0 : attn_times(kv_heads, strides[2]);
    if (strides[0] == 0)
        strides[0] =
            shuffle ? attn_times(kv_heads, strides[2]) : attn_times(d->page_size, strides[1]);
}

/* Checks the strides of K or V, in elements: [0] of pages, [1] of tokens, [2] of heads.
 * set_defaults() has replaced zeros. */
static int check_strides(const struct attn_cache_desc *d, int32_t kv_heads,
                         const int64_t strides[3])
{
    const int64_t size = attn_dtype_size(d->dtype);
    if ((strides[0] | strides[1] | strides[2]) & (chunk(d) - 1))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: a stride of k or v is not a multiple of 16 bytes");
    if (strides[0] < 0 || strides[0] >= PAGE_STRIDE_MAX / size)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache: k_page_stride or v_page_stride is 4 GiB "
                                                  "or more, or negative");
    if (strides[1] < 0 || strides[1] > PAGE_BYTES_MAX / d->page_size / size)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache: with k_token_stride or v_token_stride a "
                                                  "page has more than 2 GiB, or less than nothing");
    if (strides[2] < 0 || strides[2] > PAGE_BYTES_MAX / kv_heads / size)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache: with k_head_stride or v_head_stride a "
                                                  "page has more than 2 GiB, or less than nothing");
    return ATTN_OK;
}

/* True if a page ends after the next page begins. `row` is the number of elements of a head's row;
 * strides as in check_strides(). If tokens or heads are further apart than pages, pages interleave,
 * and that dimension does not count to the length of a page. */
static bool pages_overlap(const struct attn_cache_desc *d, int32_t kv_heads, int64_t row,
                          const int64_t strides[3])
{
    const bool shuffle = attn_is_shuffled(d);
    const struct {
        int64_t count, stride;
    } axes[] = {{shuffle ? 1 : d->page_size, strides[1]}, {kv_heads, strides[2]}};
    int64_t run = shuffle ? row * d->page_size : row;
    if (d->layout == ATTN_KV_SCALES_LAST)
        return strides[0] < attn_mixed_page(d->page_size);
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
        if (axes[i].count > 1 && axes[i].stride == strides[0])
            return true;
        if (axes[i].stride < strides[0])
            run += (axes[i].count - 1) * axes[i].stride;
    }
    return strides[0] < run;
}

/* Checks the pointers and strides of the scales, if the cache has scales in tensors of their
 * own. */
static int check_scale_args(const struct attn_cache_desc *d, int32_t kv_heads,
                            const struct attn_cache *c)
{
    if (!attn_has_scale_tensors(d))
        return ATTN_OK;
    if (!c->k_scale || !c->v_scale)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: cache.scale is set, k_scale or v_scale is NULL");
    if (c->scale_page_stride < 0 || c->scale_page_stride >= PAGE_STRIDE_MAX / (int)sizeof(float))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: scale_page_stride is 4 GiB or more, or negative");
    if (c->scale_head_stride < 0 ||
        c->scale_head_stride > PAGE_BYTES_MAX / kv_heads / (int)sizeof(float))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: with scale_head_stride the scales of a "
                               "page have more than 2 GiB, or less than nothing");
    if (((uintptr_t)c->k_scale | (uintptr_t)c->v_scale) % sizeof(float))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: k_scale or v_scale is not aligned to 4 bytes");
    return ATTN_OK;
}

/* Sets the strides of the scales in `values`, in elements. A stride that the caller gave as 0
 * becomes the stride of a contiguous tensor, except with ATTN_KV_SCALE_HEAD. */
static void set_scale_strides(const struct attn_cache_desc *d, int64_t kv_heads,
                              const struct attn_cache *c, union attn_value *values)
{
    const int64_t tokens = d->scale == ATTN_KV_SCALE_TOKEN ? d->page_size : 1;
    const int64_t head = c->scale_head_stride ? c->scale_head_stride : tokens;
    const int64_t page = c->scale_page_stride ? c->scale_page_stride : kv_heads * head;
    const bool single = d->scale == ATTN_KV_SCALE_TENSOR || !attn_has_scale_tensors(d);
    if (d->scale == ATTN_KV_SCALE_HEAD) {
        values[ATTN_ARG_SCALE_HEAD_STRIDE].i64 = c->scale_head_stride;
        values[ATTN_ARG_SCALE_PAGE_STRIDE].i64 = c->scale_page_stride;
        return;
    }
    values[ATTN_ARG_SCALE_HEAD_STRIDE].i64 = single ? 0 : head;
    values[ATTN_ARG_SCALE_PAGE_STRIDE].i64 = single ? 0 : page;
}

/* Sets the strides of K and V in `values`, in elements. `k` and `v` have them for pages, tokens and
 * heads. */
static void set_strides(union attn_value *values, const int64_t k[3], const int64_t v[3])
{
    values[ATTN_ARG_K_PAGE_STRIDE].i64 = k[0];
    values[ATTN_ARG_K_TOKEN_STRIDE].i64 = k[1];
    values[ATTN_ARG_K_HEAD_STRIDE].i64 = k[2];
    values[ATTN_ARG_V_PAGE_STRIDE].i64 = v[0];
    values[ATTN_ARG_V_TOKEN_STRIDE].i64 = v[1];
    values[ATTN_ARG_V_HEAD_STRIDE].i64 = v[2];
}

int32_t attn_page_shift(int32_t page_size)
{
    return page_size > 1 ? 32 - __builtin_clz((unsigned)page_size - 1) : 0;
}

int64_t attn_page_magic(int32_t page_size)
{
    const uint64_t n = page_size > 1 ? (uint64_t)page_size : 1;
    return (int64_t)(((UINT64_C(1) << (31 + attn_page_shift(page_size))) + n - 1) / n);
}

/* Checks K, V and their scales in `c`, and sets their pointers, strides and the page size in
 * `values`. Returns ATTN_OK or ATTN_BAD_ARGUMENT. */
static int fill_sides(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                      const struct attn_cache *c, union attn_value *values)
{
    if (!c->k || !c->v || ((uintptr_t)c->k | (uintptr_t)c->v) % 16)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "cache: k or v is NULL or not aligned to 16 bytes");
    if (c->page_count < 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache: page_count is negative");
    int64_t k[3] = {c->k_page_stride, c->k_token_stride, c->k_head_stride};
    int64_t v[3] = {c->v_page_stride, c->v_token_stride, c->v_head_stride};
    const int64_t k_row = attn_row_length(d->layout, false, heads->head_dim);
    const int64_t v_row = attn_row_length(d->layout, true, heads->head_dim_v);
    set_defaults(d, heads->kv_heads, k_row, k);
    set_defaults(d, heads->kv_heads, v_row, v);
    int r = check_strides(d, heads->kv_heads, k);
    if (!r)
        r = check_strides(d, heads->kv_heads, v);
    if (!r)
        r = check_scale_args(d, heads->kv_heads, c);
    if (r)
        return r;
    if (c->page_count != 1 && (pages_overlap(d, heads->kv_heads, k_row, k) ||
                               pages_overlap(d, heads->kv_heads, v_row, v)))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "cache: with k_page_stride or v_page_stride a "
                                                  "page ends after the next one begins");
    values[ATTN_ARG_K].ptr = c->k;
    values[ATTN_ARG_V].ptr = c->v;
    values[ATTN_ARG_K_SCALE].ptr = c->k_scale;
    values[ATTN_ARG_V_SCALE].ptr = c->v_scale;
    set_strides(values, k, v);
    set_scale_strides(d, heads->kv_heads, c, values);
    values[ATTN_ARG_PAGE_SIZE].i64 = d->page_size;
    values[ATTN_ARG_PAGE_SHIFT].i64 = attn_page_shift(d->page_size);
    values[ATTN_ARG_PAGE_MAGIC].i64 = attn_page_magic(d->page_size);
    return ATTN_OK;
}

/* Sets the arguments of a cache to 0. A kernel without a cache still loads these arguments but does
 * not use them. */
void attn_cache_fill_none(union attn_value *values)
{
    static const enum attn_arg args[] = {
        ATTN_ARG_K,
        ATTN_ARG_V,
        ATTN_ARG_K_SCALE,
        ATTN_ARG_V_SCALE,
        ATTN_ARG_K_PAGE_STRIDE,
        ATTN_ARG_K_TOKEN_STRIDE,
        ATTN_ARG_K_HEAD_STRIDE,
        ATTN_ARG_V_PAGE_STRIDE,
        ATTN_ARG_V_TOKEN_STRIDE,
        ATTN_ARG_V_HEAD_STRIDE,
        ATTN_ARG_SCALE_PAGE_STRIDE,
        ATTN_ARG_SCALE_HEAD_STRIDE,
        ATTN_ARG_PAGE_SIZE,
        ATTN_ARG_PAGE_SHIFT,
        ATTN_ARG_PAGE_MAGIC,
    };
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        values[args[i]].i64 = 0;
}

int attn_latent_fill(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                     const struct attn_cache *c, union attn_value *values)
{
    struct attn_cache both = *c;
    if (d->layout == ATTN_KV_PLANES)
        return fill_sides(d, heads, c, values);
    both.v = c->k;
    both.v_scale = c->k_scale;
    both.v_page_stride = c->k_page_stride;
    both.v_token_stride = c->k_token_stride;
    both.v_head_stride = c->k_head_stride;
    return fill_sides(d, heads, &both, values);
}

/* Checks the cache and sets its kernel arguments. Rows of packed layouts and of SCALES_LAST contain
 * keys and values, so c->v is not used for them. */
int attn_cache_fill(const struct attn_cache_desc *d, const struct attn_cache_heads *heads,
                    const struct attn_cache *c, union attn_value *values)
{
    if (attn_packed_row(d->layout) || d->layout == ATTN_KV_SCALES_LAST)
        return attn_latent_fill(d, heads, c, values);
    return fill_sides(d, heads, c, values);
}

/* Checks that the tokens of a page are neighbours in the array `slot`: the kernel computes a page's
 * scale once. Negative slots are skipped. */
static int check_runs(const struct attn_cache_desc *d, const int64_t *slot, int32_t tokens,
                      int32_t page_count)
{
    bool *seen = calloc((size_t)page_count, sizeof(*seen));
    if (!seen)
        return attn_fail_fixed(ATTN_NO_MEMORY, "ATTN_CHECK_DATA: out of memory");
    int r = ATTN_OK;
    for (int32_t i = 0; !r && i < tokens; i++) {
        if (slot[i] < 0 || (i > 0 && slot[i] == slot[i - 1] + 1 && slot[i] % d->page_size))
            continue;
        bool *page = &seen[slot[i] / d->page_size];
        if (*page)
            r = attn_fail(ATTN_BAD_DATA,
                          "slot_mapping[%d] is %lld: the tokens that a call has for "
                          "page %lld do not follow each other, as a scale per page needs it",
                          i, (long long)slot[i], (long long)(slot[i] / d->page_size));
        *page = true;
    }
    free(seen);
    return r;
}

/* Copies the slots of `tokens` tokens from the device to *copy, and checks that each is below
 * `count`, the number of slots of the cache. Does nothing if `count` is 0. *copy is NULL if nothing
 * was read; the caller frees it, also after a failure. */
static int read_slots(const struct attn_device *device, const int64_t *slots, int32_t tokens,
                      int64_t count, void *stream, void **copy)
{
    *copy = NULL;
    int r = count ? attn_read_back(device, slots, (size_t)tokens * sizeof(*slots), stream, copy)
                  : ATTN_OK;
    const int64_t *slot = *copy;
    for (int32_t i = 0; !r && slot && i < tokens; i++) {
        if (slot[i] >= count)
            r = attn_fail(ATTN_BAD_DATA, "slot_mapping[%d] is %lld, the cache has %lld slots", i,
                          (long long)slot[i], (long long)count);
    }
    return r;
}

int attn_check_slots(const struct attn_device *device, const int64_t *slots, int32_t tokens,
                     int64_t count, void *stream)
{
    void *copy;
    const int r = read_slots(device, slots, tokens, count, stream, &copy);
    free(copy);
    return r;
}

int attn_cache_check_slots(const struct attn_device *device, const struct attn_cache_desc *d,
                           const struct attn_cache *c, const int64_t *slots, int32_t tokens,
                           void *stream)
{
    void *copy;
    int r = read_slots(device, slots, tokens, (int64_t)c->page_count * d->page_size, stream, &copy);
    if (!r && copy && d->scale == ATTN_KV_SCALE_BLOCK)
        r = check_runs(d, copy, tokens, c->page_count);
    free(copy);
    return r;
}

int attn_pages_fill(enum attn_page_table table, const struct attn_pages *p, const int32_t *lens,
                    union attn_value *values)
{
    if (!p->kv_lens && !lens)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "pages: kv_lens is NULL");
    if (((uintptr_t)p->kv_lens | (uintptr_t)p->block_table | (uintptr_t)p->kv_indptr |
         (uintptr_t)p->kv_indices) %
        sizeof(int32_t))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "pages: an array is not aligned to 4 bytes");
    if (p->entries < 0 || p->block_table_stride < 0 || p->block_table_stride > INT32_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "pages: entries or block_table_stride is negative, "
                               "or block_table_stride is above 2^31 - 1");
    if (table == ATTN_PAGES_BLOCKS && !p->block_table)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "pages: page_table is BLOCKS, block_table is NULL");
    if (table == ATTN_PAGES_BLOCKS && p->entries == 0 && p->block_table_stride == 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "pages: neither block_table_stride nor entries is set; a table has "
                               "one column at least, also where no sequence has keys");
    if (table == ATTN_PAGES_INDICES && (!p->kv_indptr || !p->kv_indices))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "pages: page_table is INDICES, kv_indptr or kv_indices is NULL");
    values[ATTN_ARG_KV_LENS].ptr = p->kv_lens ? p->kv_lens : lens;
    values[ATTN_ARG_BLOCK_TABLE].ptr = p->block_table;
    values[ATTN_ARG_BLOCK_TABLE_STRIDE].i64 =
        p->block_table_stride ? p->block_table_stride : p->entries;
    values[ATTN_ARG_KV_INDPTR].ptr = p->kv_indptr;
    values[ATTN_ARG_KV_INDICES].ptr = p->kv_indices;
    return ATTN_OK;
}

void attn_cache_skip(const struct attn_cache_desc *d, int64_t count, union attn_value *values)
{
    if (d->scale != ATTN_KV_SCALE_HEAD)
        return;
    const int64_t bytes = count * values[ATTN_ARG_SCALE_PAGE_STRIDE].i64 * (int64_t)sizeof(float);
    attn_advance(&values[ATTN_ARG_K_SCALE].ptr, bytes);
    attn_advance(&values[ATTN_ARG_V_SCALE].ptr, bytes);
}

void attn_pages_skip(int64_t count, union attn_value *values)
{
    const int64_t bytes = count * (int64_t)sizeof(int32_t);
    attn_advance(&values[ATTN_ARG_KV_LENS].ptr, bytes);
    attn_advance(&values[ATTN_ARG_KV_INDPTR].ptr, bytes);
    attn_advance(&values[ATTN_ARG_BLOCK_TABLE].ptr,
                 bytes * values[ATTN_ARG_BLOCK_TABLE_STRIDE].i64);
}

/* The functions from here on check device data of a call for ATTN_CHECK_DATA. */

int attn_cache_check_scales(const struct attn_device *device, const struct attn_cache_desc *d,
                            int32_t kv_heads, const struct attn_cache *c, int32_t rows,
                            void *stream)
{
    int r = ATTN_OK;
    for (int value = 0; value < 2 && !r && d->scale == ATTN_KV_SCALE_HEAD; value++)
        r = attn_check_finite(device,
                              &(struct attn_floats){.name = value ? "v_scale" : "k_scale",
                                                    .data = value ? c->v_scale : c->k_scale,
                                                    .rows = rows,
                                                    .columns = kv_heads,
                                                    .row_stride = c->scale_page_stride,
                                                    .column_stride = c->scale_head_stride},
                              stream);
    return r;
}

/* Returns the number of pages that `tokens` tokens occupy. */
static int64_t count_pages(const struct attn_cache_desc *d, int32_t tokens)
{
    return ((int64_t)tokens + d->page_size - 1) / d->page_size;
}

/* Checks that the page list of each sequence has enough pages for its length. `l` has host copies
 * of the lists. */
static int check_lens(const struct attn_cache_desc *d, const struct attn_page_lists *l,
                      int32_t batch)
{
    for (int32_t s = 0; s < batch; s++) {
        if (l->lens[s] < 0)
            return attn_fail(ATTN_BAD_DATA, "kv_lens[%d] is %d", s, l->lens[s]);
        const int64_t need = count_pages(d, l->lens[s]);
        const int64_t have = attn_page_list_room(l, s);
        if (need > have)
            return attn_fail(ATTN_BAD_DATA, "kv_lens[%d] is %d, %lld pages; it is given %lld", s,
                             l->lens[s], (long long)need, (long long)have);
    }
    return ATTN_OK;
}

/* Checks that each page number that a sequence uses is below the number of pages of the cache, if
 * that is not 0. `l` has host copies of the lists. */
static int check_entries(const struct attn_cache_desc *d, const struct attn_cache *c,
                         const struct attn_page_lists *l, int32_t batch)
{
    const int32_t limit = c->page_count ? c->page_count : INT32_MAX;
    for (int32_t s = 0; s < batch; s++) {
        const int64_t first = attn_page_list_first(l, s);
        for (int64_t i = first; i < first + count_pages(d, l->lens[s]); i++) {
            if (l->entries[i] >= 0 && l->entries[i] < limit)
                continue;
            if (l->indptr)
                return attn_fail(ATTN_BAD_DATA, "kv_indices[%lld] is %d, the cache has %d pages",
                                 (long long)i, l->entries[i], limit);
            return attn_fail(ATTN_BAD_DATA, "block_table[%d][%lld] is %d, the cache has %d pages",
                             s, (long long)(i - first), l->entries[i], limit);
        }
    }
    return ATTN_OK;
}

int attn_pages_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream)
{
    struct attn_page_lists l = {0};
    int r = attn_read_page_lists(device, table, pages, batch, stream, &l);
    if (!r && l.lens && l.entries)
        r = check_lens(desc, &l, batch);
    if (!r && l.lens && l.entries)
        r = check_entries(desc, cache, &l, batch);
    attn_free_page_lists(&l);
    return r;
}
