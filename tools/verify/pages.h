/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences in a paged cache: which pages hold their tokens, in random order, and the tables that
 * say so. What no kernel may read is poisoned: slots without a token, entries behind the last.
 */
#ifndef TOOLS_VERIFY_PAGES_H
#define TOOLS_VERIFY_PAGES_H

#include "tools/verify/cache.h"

struct sequence_pages {
    struct paged_cache cache;
    int count;                       /* sequences */
    const int32_t *lens;             /* [count]: tokens of each; the caller's */
    const struct precision *rotated; /* packed rows: of their 16-bit elements; the caller's */
    bool spare_first;                /* page 0 is nobody's; the caller's */
    int32_t *pages;                  /* page numbers of all sequences, one after the other */
    int32_t *first;                  /* [count + 1]: where those of each begin */
};

/** A cache with random tokens and a few pages more than are used. `far`: 64 MiB from a page to the
 * next, and those of the sequences beyond 4 GiB. `gaps`: strides leave memory in between. */
void sequence_pages_make(struct sequence_pages *p, const struct attn_cache_desc *desc,
                         const char *target, int kv_heads, int head_dim, int head_dim_v, bool far,
                         bool gaps, uint64_t *random);

/** Token t of sequence s: its page, and where it stands there is t modulo the page size. */
int sequence_page(const struct sequence_pages *p, int s, int t);

/** Uploads the cache and its tables, rows of blocks with a stride that has gaps. */
void sequence_pages_upload(struct sequence_pages *p, enum attn_page_table table, bool gaps,
                           struct device_memory *m, struct attn_cache *cache,
                           struct attn_pages *pages);

/** How the n-th kernel's pages are listed. */
enum attn_page_table verify_page_table(const struct attn_pack *pack, uint32_t n);

/** The page size to try a kernel with: its own, or `size` where it takes any and the layout has
 * room for that, else the smallest that does. */
int verify_page_size(const struct attn_cache_desc *desc, int size);

void sequence_pages_free(struct sequence_pages *p);

#endif
