/* SPDX-License-Identifier: Apache-2.0 */
/* Checks lists of slots or blocks of slots, which sparse attention has instead of page lists. */
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

/* The functions from here on check device data of a call for ATTN_CHECK_DATA. */

/* Returns the slot number after the last slot of the tensor that has slot `slot`: the second source
 * `more`, or the cache, whose slots end at `limit`. */
static int64_t end_of(const struct attn_more_slots *more, int64_t slot, int64_t limit)
{
    return more->count && slot >= more->first ? more->first + more->count : limit;
}

/* Checks the length and the entries of the list of sequence `s`, by host copies. An entry names
 * `slots` slots: 1, or a block. `limit` is the number of slots of the cache. */
static int check_list(const struct attn_page_lists *l, int32_t s, int64_t slots, int64_t limit,
                      const struct attn_more_slots *more)
{
    const int64_t first = attn_page_list_first(l, s), room = attn_page_list_room(l, s) * slots;
    const int64_t length = l->lens ? l->lens[s] : room;
    if (length < 0 || length > room)
        return attn_fail(ATTN_BAD_DATA, "kv_lens[%d] is %lld; the list has %lld slots", s,
                         (long long)length, (long long)room);
    for (int64_t i = 0; i < length; i += slots) {
        const int64_t entry = l->entries[first + i / slots], left = length - i;
        const int64_t end = entry * slots + (left < slots ? left : slots);
        if (entry >= 0 && end > end_of(more, entry * slots, limit))
            return attn_fail(
                ATTN_BAD_DATA, "%s %lld of list %d is %lld, the cache has %lld slots%s",
                slots > 1 ? "block" : "slot", (long long)(i / slots), s, (long long)entry,
                (long long)limit, more->count ? ", second has too few rows" : "");
    }
    return ATTN_OK;
}

int attn_slots_check(const struct attn_device *device, const struct attn_cache_desc *desc,
                     enum attn_page_table table, const struct attn_cache *cache,
                     const struct attn_pages *pages, int32_t slots,
                     const struct attn_more_slots *more, int32_t batch, void *stream)
{
    const int64_t limit =
        cache->page_count ? (int64_t)cache->page_count * desc->page_size : INT64_MAX;
    struct attn_page_lists l = {0};
    int r = attn_read_page_lists(device, table, pages, batch, stream, &l);
    for (int32_t s = 0; s < batch && !r && l.entries; s++)
        r = check_list(&l, s, slots, limit, more);
    attn_free_page_lists(&l);
    return r;
}
