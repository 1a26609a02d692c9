/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of keys or values that a whole workgroup reads through a page table. Every row finds its
 * own page, so pages may have any size. Every row has a 64-bit address, so a cache may have any
 * size.
 *
 * A tile is read in three steps, which a pipeline places in different stages: page numbers are
 * looked up, the cache's bits are loaded, and the bits are converted to elements.
 */
#ifndef TEMPLATES_CACHE_PAGES_H
#define TEMPLATES_CACHE_PAGES_H

#include "templates/cache/cache.h"

/** The pages of one sequence. All but `table` are i32 scalars. */
struct att_pages {
    const struct att_variant *v;
    struct tir_value table; /* i64: address of the sequence's first page number */
    bool slots; /* the table has a slot for each key in place of page numbers; a negative slot means
                   no key, and slot 0 is read instead */
    struct att_paging paging, entries; /* divisors: the tokens of a page, and the tokens of an entry
                                          of the table */
    struct tir_value first, last; /* indices of the first and last table entries that may be read;
                                     lower and higher indices are replaced by these */
    struct tir_value last_key;    /* with lists of blocks: the last key; later keys are replaced by
                                     it, since they may not exist */
    struct tir_value used;        /* mask of page numbers: all ones, or 0 for a sequence without
                                     keys, so that it reads page 0 */
    struct tir_value second, second_stride; /* with two_sources: address of the second source, and
                                               bytes from a row to the next, or with scales_last
                                               from a page to the next; i64 */
    struct tir_value second_first; /* with two_sources: slot of the second source's row 0; i32 */
    struct tir_value second_plane, second_plane_stride; /* with planes: address of the second
                                                           source's last 64 elements, and bytes
                                                           from a row to the next; i64 */
};

/** Returns the pages of sequence `batch`, which has `kv_len` keys. No query sees a key before
 * `first_key`, so no table entry before that key's is read. All are i32. */
struct att_pages att_pages(struct tir_builder *b, const struct att_variant *v,
                           struct tir_value batch, struct tir_value kv_len,
                           struct tir_value first_key);

/** The spread over registers of a tile of `tokens` keys or values that is loaded: tokens x cols
 * elements, from column `first` on, over all waves of the function. */
struct att_paged_tile {
    struct att_cache cache;
    unsigned tokens, cols, first, run; /* run: number of elements that are adjacent in memory, and
                                          loaded by one lane */
    struct tir_type gathered;          /* type of the loaded elements, with a row for each run:
                                          (runs of all tokens) x run */
    bool blocks; /* a token has several runs, which are not runs of V in SHUFFLE */
};

/** Returns the spread of a tile. `layout` is the caller's layout of tokens x cols for an NHD cache.
 * NULL: 16 bytes of 16-bit elements in a lane. For packed rows `cols` and `layout` are of the
 * latent part. */
struct att_paged_tile att_paged_tile(struct tir_builder *b, const struct att_cache *cache,
                                     unsigned tokens, unsigned cols, unsigned first,
                                     const struct tir_layout *layout);

/** Loads the page number (i32) of each gathered row, or with sparse lists its slot. `key` is the
 * index of the tile's first token in its sequence. */
struct tir_value att_page_numbers(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_paged_tile *t, struct tir_value key);

/** Returns the byte offset (i32) of each gathered row's entry in the table: the first step of
 * att_page_numbers(), for templates that read the table themselves. */
struct tir_value att_entry_offsets(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value key);
/** Returns the page number or slot of each gathered row from its table entry: the second step of
 * att_page_numbers(). */
struct tir_value att_entry_slots(struct tir_builder *b, const struct att_pages *p,
                                 const struct att_paged_tile *t, struct tir_value key,
                                 struct tir_value entries);

/** Returns the results `entries` of att_page_numbers() for each element: tokens x cols of i32. Not
 * for V in SHUFFLE. */
struct tir_value att_paged_entries(struct tir_builder *b, const struct att_paged_tile *t,
                                   struct tir_value entries);

/** Returns the byte offset (i64) of each gathered row from the cache's base. `page_numbers` is the
 * result of att_page_numbers(). A negative slot is replaced by slot 0. With two_sources a row may
 * be in the second source. */
struct tir_value att_paged_rows(struct tir_builder *b, const struct att_pages *p,
                                const struct att_paged_tile *t, struct tir_value key,
                                struct tir_value page_numbers);

/** A loaded tile: the cache's bits, and its scales if there are any. A gathered row has one scale,
 * or one for each element if the row has several tokens. */
struct att_paged_data {
    struct tir_value bits, scale;
    struct tir_value rotated; /* of scales_last and planes: the row's last 64 elements, in each of
                                 its runs */
    /* With a second source of another format: the number of its row for each gathered row (i32),
     * below 0 where the row is the cache's, and the rows' bits and scales. */
    struct tir_value second_row, second_bits, second_scale;
};

/** Issues the loads of the tile whose first token is `key`. `page_numbers` is the result of
 * att_page_numbers(). */
struct att_paged_data att_paged_load(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value key,
                                     struct tir_value page_numbers);

/** Returns loaded data as tokens x cols of `dtype`, multiplied by scales of tokens, pages or runs.
 * The caller multiplies by a scale of the whole tensor. Rows of tokens after the sequence's end
 * hold whatever the page holds. */
struct tir_value att_paged_elements(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, unsigned dtype);

#endif
