/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of keys or values that a whole workgroup reads through a page table: every row finds its
 * own page, so any page size will do, and every row has a 64-bit address, so any cache size.
 *
 * A tile passes three steps, which a pipeline puts into stages of their own: page numbers are
 * looked up, the bits of the cache are loaded, and they are converted to elements to compute with.
 */
#ifndef TEMPLATES_CACHE_PAGES_H
#define TEMPLATES_CACHE_PAGES_H

#include "templates/cache/cache.h"

/** The pages of one sequence. All but `table` are i32 scalars. */
struct att_pages {
    const struct att_variant *v;
    struct tir_value table; /* i64: address of the sequence's first page number */
    bool slots; /* page numbers are slots, one for each key; negative: no key, and slot 0 is read
                   instead */
    struct att_paging paging, entries; /* of pages: tokens of a page; of entries: tokens of an
                                          entry of the table */
    struct tir_value first, last; /* entries of the table that may be read; others are replaced by
                                     these */
    struct tir_value last_key;    /* with blocks: keys after it are replaced by it, since they may
                                     not exist */
    struct tir_value used;        /* all ones; 0 for a sequence without keys, which then reads page
                                     0 */
    struct tir_value second, second_stride; /* with two_sources: address of the second source, and
                                               bytes from a row to the next, or with scales_last
                                               from a page to the next; i64 */
    struct tir_value second_first; /* with two_sources: slot of the second source's row 0; i32 */
    struct tir_value second_plane, second_plane_stride; /* with planes: address of the second
                                                           source's last 64 elements, and bytes
                                                           from a row to the next; i64 */
};

/** Returns the pages of sequence `batch`, which has kv_len keys. No query sees a key before
 * `first_key`, so entries before it are not read. */
struct att_pages att_pages(struct tir_builder *b, const struct att_variant *v,
                           struct tir_value batch, struct tir_value kv_len,
                           struct tir_value first_key);

/** The registers of a tile of `tokens` keys or values in flight: tokens x cols elements, from
 * column `first` on, over all waves of the function. */
struct att_paged_tile {
    struct att_cache cache;
    unsigned tokens, cols, first, run; /* run: elements that are adjacent in memory, and loaded
                                          by one lane */
    struct tir_type gathered;          /* a row for each run: (runs of all tokens) x run */
    bool blocks; /* a token has several runs, which are not runs of V in SHUFFLE */
};

/** Initialises a tile. `layout` is the caller's layout of tokens x cols for an NHD cache, or NULL:
 * 16 bytes of 16-bit elements in a lane. For packed rows it is the latent part's. */
struct att_paged_tile att_paged_tile(struct tir_builder *b, const struct att_cache *cache,
                                     unsigned tokens, unsigned cols, unsigned first,
                                     const struct tir_layout *layout);

/** Loads the page number, or for sparse lists the slot, of each gathered row. `key` is the
 * number of the tile's first token in its sequence. */
struct tir_value att_page_numbers(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_paged_tile *t, struct tir_value key);

/** Compute the two steps of att_page_numbers(), for templates that read the table themselves: the
 * i32 byte offset of each row's entry, and the page number, or slot, of an entry. */
struct tir_value att_entry_offsets(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value key);
struct tir_value att_entry_slots(struct tir_builder *b, const struct att_pages *p,
                                 const struct att_paged_tile *t, struct tir_value key,
                                 struct tir_value entries);

/** Returns att_page_numbers() for each element: tokens x cols of i32; not for V in SHUFFLE. */
struct tir_value att_paged_entries(struct tir_builder *b, const struct att_paged_tile *t,
                                   struct tir_value entries);

/** Returns the address of each gathered row, in i64 bytes from the cache's base. A negative slot
 * is replaced by slot 0. With two_sources a row may be in the second source. */
struct tir_value att_paged_rows(struct tir_builder *b, const struct att_pages *p,
                                const struct att_paged_tile *t, struct tir_value key,
                                struct tir_value page_numbers);

/** A loaded tile: the cache's bits, and its scales in f32 if there are any. A row has one scale, or
 * one for each element if it holds several tokens. */
struct att_paged_data {
    struct tir_value bits, scale;
    struct tir_value rotated; /* of scales_last and planes: the row's last 64 elements, in each of
                                 its runs */
    /* With a second source of another format: the number of its row for each gathered row (i32),
     * below 0 where the row is the cache's, and the rows' bits and scales. */
    struct tir_value second_row, second_bits, second_scale;
};

/** Issues the loads of the tile whose first token is `key`. `page_numbers` are of
 * att_page_numbers(). */
struct att_paged_data att_paged_load(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value key,
                                     struct tir_value page_numbers);

/** Converts loaded data to tokens x cols of `dtype`, and applies scales of tokens and pages. The
 * caller applies a scale of the whole tensor. Tokens beyond the sequence hold whatever the page
 * holds. */
struct tir_value att_paged_elements(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, unsigned dtype);

#endif
