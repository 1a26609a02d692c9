/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/metadata.h"

#include <stddef.h>

/* Returns the number of pages that the keys of sequence `s` occupy. */
static int32_t page_count(const struct ref_metadata *m, int s)
{
    int32_t n = 0;
    for (int64_t keys = 0; keys < m->kv_lens[s]; keys += m->page_size)
        n++;
    return n;
}

int32_t ref_metadata_indptr(const struct ref_metadata *m, int n)
{
    int32_t sum = 0;
    for (int s = 0; s < n; s++)
        sum += page_count(m, s);
    return sum;
}

int32_t ref_metadata_page(const struct ref_metadata *m, int s, int i)
{
    const int64_t row = m->rows ? m->rows[s] : s;
    const int64_t entry = (m->kv_start ? m->kv_start[s] : 0) + i;
    return m->slots ? m->table[row * m->stride + entry * m->page_size] / m->page_size
                    : m->table[row * m->stride + entry];
}

int32_t ref_metadata_last_page_len(const struct ref_metadata *m, int s)
{
    const int32_t full = page_count(m, s) - 1;
    return full < 0 ? 0 : m->kv_lens[s] - full * m->page_size;
}

int32_t ref_metadata_length(const struct ref_metadata *m, int s)
{
    return m->kv_lens[s] > 0 ? m->kv_lens[s] + m->advance : m->kv_lens[s];
}

int64_t ref_metadata_slot(const struct ref_metadata *m, int s)
{
    const int32_t newest = ref_metadata_length(m, s) - 1;
    if (newest < 0)
        return -1;
    const int64_t page = m->table[s * m->stride + newest / m->page_size];
    return page * m->page_size + newest % m->page_size;
}
