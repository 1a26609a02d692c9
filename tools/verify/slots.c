/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/slots.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 5 };

static int32_t slot_of(const struct sequence_pages *p, int s, int t)
{
    const int size = p->cache.desc.page_size;
    return sequence_page(p, s, t) * size + t % size;
}

/* A token of any sequence, or none; -1 where there is no token at all. */
static int32_t random_slot(const struct sequence_pages *p, uint64_t *random)
{
    int64_t total = 0;
    for (int s = 0; s < p->count; s++)
        total += p->lens[s];
    if (total == 0 || random_bits(random) % 8 == 0)
        return random_bits(random) % 2 ? -1 : INT32_MIN;
    int64_t at = (int64_t)(random_bits(random) % (uint64_t)total);
    int s = 0;
    for (; at >= p->lens[s]; s++)
        at -= p->lens[s];
    return slot_of(p, s, (int)at);
}

static int32_t entry_of(const struct slot_lists *l, const struct sequence_pages *p, int s, int i,
                        uint64_t *random)
{
    if (i >= p->lens[s] || (s > 0 && s == l->count - 1))
        return -1;
    return i ? random_slot(p, random) : slot_of(p, s, 0);
}

void slot_lists_make(struct slot_lists *l, const struct sequence_pages *p, const int32_t *lens,
                     uint64_t *random)
{
    l->count = p->count;
    l->lens = lens;
    l->first = calloc((size_t)l->count + 1, sizeof(*l->first));
    for (int s = 0; s < l->count; s++)
        l->first[s + 1] = l->first[s] + lens[s];
    const size_t entries = (size_t)l->first[l->count];
    l->slots = calloc(entries + 1, sizeof(*l->slots));
    l->there = calloc(entries + 1, 1);
    for (int s = 0; s < l->count; s++) {
        for (int i = 0; i < lens[s]; i++) {
            const int32_t slot = entry_of(l, p, s, i, random);
            l->slots[l->first[s] + i] = slot;
            l->there[l->first[s] + i] = slot >= 0;
        }
    }
}

static void upload_rows(const struct slot_lists *l, bool counted, struct device_memory *m,
                        struct attn_pages *a)
{
    for (int s = 0; s < l->count; s++)
        a->entries = l->lens[s] > a->entries ? l->lens[s] : a->entries;
    a->entries += counted;
    a->block_table_stride = a->entries + GAP;
    const size_t count = (size_t)(l->count * a->block_table_stride);
    int32_t *rows = malloc(count * sizeof(*rows));
    for (size_t i = 0; i < count; i++)
        rows[i] = INT32_MAX - (int32_t)i;
    for (int s = 0; s < l->count; s++)
        memcpy(rows + s * a->block_table_stride, l->slots + l->first[s],
               (size_t)l->lens[s] * sizeof(*rows));
    a->block_table = device_copy(m, rows, count * sizeof(*rows));
    free(rows);
}

void slot_lists_upload(const struct slot_lists *l, enum attn_page_table table, bool counted,
                       struct device_memory *m, struct attn_pages *a)
{
    *a = (struct attn_pages){0};
    if (counted)
        a->kv_lens = device_copy(m, l->lens, (size_t)l->count * sizeof(*l->lens));
    if (table == ATTN_PAGES_BLOCKS) {
        upload_rows(l, counted, m, a);
        return;
    }
    a->entries = l->first[l->count];
    a->kv_indptr = device_copy(m, l->first, ((size_t)l->count + 1) * sizeof(*l->first));
    a->kv_indices = device_copy(m, l->slots, (size_t)a->entries * sizeof(*l->slots));
}

void slot_lists_free(struct slot_lists *l)
{
    free(l->slots);
    free(l->first);
    free(l->there);
}
