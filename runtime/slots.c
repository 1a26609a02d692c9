/* SPDX-License-Identifier: Apache-2.0 */
/* This file checks lists of slots, which sparse attention has in the place of page lists. */
#include <stdlib.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"

int attn_slots_fill(enum attn_page_table table, const struct attn_pages *p,
                    union attn_value *values)
{
    static const int32_t not_null;
    if (table == ATTN_PAGES_BLOCKS && !p->kv_lens && p->entries == 0)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "pages: kv_lens is NULL, and entries is not set: no list has a "
                               "length");
    const int r = attn_pages_fill(table, p, &not_null, values);
    values[ATTN_ARG_KV_LENS].ptr = p->kv_lens;
    return r;
}

/* ATTN_CHECK_DATA. */

/* The lists as they are read back; NULL where one is not given. */
struct lists {
    int32_t *lens, *indptr, *slots;
    int64_t stride, entries; /* of block_table */
};

static int64_t first_of(const struct lists *l, int32_t s)
{
    return l->indptr ? l->indptr[s] : s * l->stride;
}

static int64_t room_of(const struct lists *l, int32_t s)
{
    return l->indptr ? l->indptr[s + 1] - l->indptr[s] : l->entries;
}

static int check_list(const struct lists *l, int32_t s, int64_t limit)
{
    const int64_t first = first_of(l, s), room = room_of(l, s);
    const int64_t length = l->lens ? l->lens[s] : room;
    if (length < 0 || length > room)
        return attn_fail(ATTN_BAD_DATA, "kv_lens[%d] is %lld; the list has %lld slots", s,
                         (long long)length, (long long)room);
    for (int64_t i = 0; i < length; i++) {
        if (l->slots[first + i] >= limit)
            return attn_fail(ATTN_BAD_DATA, "slot %lld of list %d is %d, the cache has %lld",
                             (long long)i, s, l->slots[first + i], (long long)limit);
    }
    return ATTN_OK;
}

static int read_array(const struct attn_device *device, const int32_t *data, int64_t count,
                      void *stream, int32_t **array)
{
    void *copy = NULL;
    const int r =
        data ? attn_read_back(device, data, (size_t)count * sizeof(*data), stream, &copy) : ATTN_OK;
    *array = copy;
    return r;
}

static int read_lists(const struct attn_device *device, enum attn_page_table table,
                      const struct attn_pages *p, int32_t batch, void *stream, struct lists *l)
{
    l->stride = p->block_table_stride ? p->block_table_stride : p->entries;
    l->entries = p->entries ? p->entries : l->stride;
    int r = read_array(device, p->kv_lens, batch, stream, &l->lens);
    if (r || table == ATTN_PAGES_BLOCKS)
        return r ? r
                 : read_array(device, p->block_table, (batch - 1) * l->stride + l->entries, stream,
                              &l->slots);
    const struct attn_indptr indptr = {
        .name = "kv_indptr",
        .data = p->kv_indptr,
        .batch = batch,
        .longest = INT32_MAX,
        .total = p->entries ? p->entries : INT32_MAX,
    };
    r = attn_check_indptr(device, &indptr, stream);
    if (!r)
        r = read_array(device, p->kv_indptr, batch + 1, stream, &l->indptr);
    if (!r && l->indptr)
        r = read_array(device, p->kv_indices, l->indptr[batch], stream, &l->slots);
    return r;
}

int attn_slots_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t batch, void *stream)
{
    const int64_t limit =
        cache->page_count ? (int64_t)cache->page_count * desc->page_size : INT64_MAX;
    struct lists l = {0};
    int r = read_lists(device, table, pages, batch, stream, &l);
    for (int32_t s = 0; s < batch && !r && l.slots; s++)
        r = check_list(&l, s, limit);
    free(l.lens);
    free(l.indptr);
    free(l.slots);
    return r;
}
