/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/pages.h"

#include <stdlib.h>
#include <string.h>

enum { SPARE = 3, FAR_SPARE = 64, FAR_STRIDE = 64 << 20 };

enum attn_page_table verify_page_table(const struct attn_pack *pack, uint32_t n)
{
    return VERIFY_NUMBER_OF(pack, n, "page_table", "blocks", "indices");
}

int verify_page_size(const struct attn_cache_desc *desc, int size)
{
    const int run = desc->dtype == ATTN_FP8 || desc->dtype == ATTN_INT8 ? 16 : 8;
    if (desc->page_size)
        return desc->page_size;
    return desc->layout == ATTN_KV_SHUFFLE && size < run ? run : size;
}

static int page_count(const struct sequence_pages *p, int s)
{
    return p->first[s + 1] - p->first[s];
}

int sequence_page(const struct sequence_pages *p, int s, int t)
{
    return p->pages[p->first[s] + t / p->cache.desc.page_size];
}

static void choose_pages(struct sequence_pages *p, int spare, bool far, uint64_t *random)
{
    const int used = p->first[p->count];
    p->pages = shuffled_pages(used + spare, random);
    for (int i = 0; far && i < used; i++)
        p->pages[i] = spare + i;
    for (int i = 0; p->spare_first && i < used; i++) {
        if (p->pages[i] == 0)
            p->pages[i] = p->pages[used]; /* the first of the spare ones */
    }
}

void sequence_pages_make(struct sequence_pages *p, const struct attn_cache_desc *desc,
                         const char *target, int kv_heads, int head_dim, int head_dim_v, bool far,
                         bool gaps, uint64_t *random)
{
    const int size = desc->page_size, spare = far ? FAR_SPARE : SPARE;
    p->first = calloc((size_t)p->count + 1, sizeof(*p->first));
    for (int s = 0; s < p->count; s++)
        p->first[s + 1] = p->first[s] + (p->lens[s] + size - 1) / size;
    cache_init(&p->cache, desc, target, kv_heads, head_dim, head_dim_v, p->first[p->count] + spare,
               gaps);
    p->cache.part[CACHE_K].rotated = p->rotated;
    if (far)
        cache_spread(&p->cache, FAR_STRIDE);
    choose_pages(p, spare, far, random);
    for (int s = 0; s < p->count; s++) {
        for (int t = 0; t < p->lens[s]; t++)
            cache_fill_token(&p->cache, sequence_page(p, s, t), t % size, random);
    }
}

static void upload_blocks(struct sequence_pages *p, bool gaps, struct device_memory *m,
                          struct attn_pages *a)
{
    for (int s = 0; s < p->count; s++)
        a->entries = page_count(p, s) > a->entries ? page_count(p, s) : a->entries;
    a->entries += 2;
    a->block_table_stride = a->entries + (gaps ? 5 : 0);
    const size_t count = (size_t)(p->count * a->block_table_stride);
    int32_t *table = malloc(count * sizeof(*table));
    for (size_t i = 0; i < count; i++)
        table[i] = INT32_MAX - (int32_t)i;
    for (int s = 0; s < p->count; s++)
        memcpy(table + s * a->block_table_stride, p->pages + p->first[s],
               (size_t)page_count(p, s) * sizeof(*table));
    a->block_table = device_copy(m, table, count * sizeof(*table));
    free(table);
}

void sequence_pages_upload(struct sequence_pages *p, enum attn_page_table table, bool gaps,
                           struct device_memory *m, struct attn_cache *cache, struct attn_pages *a)
{
    cache_upload(&p->cache, m, cache);
    a->kv_lens = device_copy(m, p->lens, (size_t)p->count * sizeof(*p->lens));
    if (table == ATTN_PAGES_BLOCKS) {
        upload_blocks(p, gaps, m, a);
        return;
    }
    a->entries = p->first[p->count];
    a->kv_indptr = device_copy(m, p->first, ((size_t)p->count + 1) * sizeof(*p->first));
    a->kv_indices = device_copy(m, p->pages, (size_t)a->entries * sizeof(*p->pages));
}

void sequence_pages_free(struct sequence_pages *p)
{
    cache_free(&p->cache);
    free(p->pages);
    free(p->first);
}
