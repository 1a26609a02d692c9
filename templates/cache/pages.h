/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of keys or values that a whole workgroup reads through a page table: every row finds its
 * own page, so any page size will do, and every row has a 64-bit address, so any cache size.
 *
 * A tile passes three steps, which a pipeline puts into stages of their own: page numbers are
 * looked up, the bits of the cache are loaded, and they are turned into elements to compute with.
 */
#ifndef TEMPLATES_CACHE_PAGES_H
#define TEMPLATES_CACHE_PAGES_H

#include "templates/cache/cache.h"

/** The pages of one sequence. All but `table` are i32 scalars. */
struct att_pages {
    const struct att_variant *v;
    struct tir_value table; /* i64: address of the sequence's first page number */
    bool slots; /* page numbers are slots, one a key; below 0: no key, and slot 0 stands for it */
    struct att_paging paging, entries; /* tokens of a page; of an entry of the table */
    struct tir_value first, last; /* entries of the table that may be read; others become these */
    struct tir_value last_key;    /* those behind it, of blocks, become it: they need not exist */
    struct tir_value used;        /* all ones; 0 for a sequence without keys: it reads page 0 */
};

/** The pages of sequence `batch` with kv_len keys, of which none before `first_key` is seen. */
struct att_pages att_pages(struct tir_builder *b, const struct att_variant *v,
                           struct tir_value batch, struct tir_value kv_len,
                           struct tir_value first_key);

/** The registers of a tile of `tokens` keys or values under way: tokens x cols elements, columns
 * from `first` on, over all waves of the function. */
struct att_paged_tile {
    struct att_cache cache;
    unsigned tokens, cols, first, run; /* run: elements that memory keeps together */
    struct tir_type gathered;          /* a row for each run: (runs of all tokens) x run */
    bool blocks; /* a token has several runs, which are not those of V in SHUFFLE */
};

/** `layout` is that of the tokens x cols tile where the caller needs one and the cache is NHD, or
 * NULL: 16 bytes of 16-bit elements a lane. Of packed rows it is the latent. */
struct att_paged_tile att_paged_tile(struct tir_builder *b, const struct att_cache *cache,
                                     unsigned tokens, unsigned cols, unsigned first,
                                     const struct tir_layout *layout);

/** The page number, or slot, of each gathered row of the tile whose first token is `key`. */
struct tir_value att_page_numbers(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_paged_tile *t, struct tir_value key);

/** The two steps of att_page_numbers(), for templates that read the table themselves: the i32 byte
 * of each row's entry from the first one on, and the page number, or slot, of what stands there. */
struct tir_value att_entry_offsets(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value key);
struct tir_value att_entry_slots(struct tir_builder *b, const struct att_pages *p,
                                 const struct att_paged_tile *t, struct tir_value key,
                                 struct tir_value entries);

/** att_page_numbers() beside the elements: tokens x cols of i32; not of V in SHUFFLE. */
struct tir_value att_paged_entries(struct tir_builder *b, const struct att_paged_tile *t,
                                   struct tir_value entries);

/** Returns where the gathered rows begin, i64 bytes behind the cache's base: a slot below 0 has
 * slot 0's. */
struct tir_value att_paged_rows(struct tir_builder *b, const struct att_pages *p,
                                const struct att_paged_tile *t, struct tir_value key,
                                struct tir_value page_numbers);

/** A loaded tile: bits of the cache, and its scales in f32 where there are any: one for each row,
 * or one for each element where a row has many tokens. */
struct att_paged_data {
    struct tir_value bits, scale;
};
struct att_paged_data att_paged_load(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value key,
                                     struct tir_value page_numbers);

/** Converts what was loaded to tokens x cols of `dtype` and applies scales of tokens and pages; a
 * scale of the whole tensor is left to the caller. Tokens beyond the sequence hold whatever the
 * page holds. */
struct tir_value att_paged_elements(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, unsigned dtype);

#endif
