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

/** The page table, or the sparse list, of one sequence. Values are i32 scalars unless stated. */
struct att_pages {
    const struct att_variant *v;
    /* i64: address of the sequence's first table entry, a page number (i32) or with sparse lists an
     * entry of the list. */
    struct tir_value table;
    /* True: the table is a sparse list, with a slot or block for each entry. A negative entry means
     * no key, and slot 0 is read instead. False: entries are page numbers. */
    bool slots;
    /* Divisions of token indices: `paging` by the tokens of a page, `entries` by the tokens of an
     * entry of the table. */
    struct att_paging paging, entries;
    /* Indices of the first and last table entries that may be read; an index outside is replaced by
     * the nearer of them. */
    struct tir_value first, last;
    /* With lists of blocks: index of the last key; later keys are replaced by this one, since they
     * may not exist. */
    struct tir_value last_key;
    /* Bit mask that is applied to page numbers: all ones, or 0 for a sequence without keys, which
     * makes all its loads read page 0. */
    struct tir_value used;
    /* i64, with two_sources: address of the second source, and bytes from a row to the next, or
     * with scales_last from a page to the next. */
    struct tir_value second, second_stride;
    /* With two_sources: slot number that is row 0 of the second source. */
    struct tir_value second_first;
    /* i64, with two_sources and planes: address of the second source's last 64 elements, and bytes
     * from a row to the next. */
    struct tir_value second_plane, second_plane_stride;
};

/** Returns the pages of sequence `batch` (index), which has `kv_len` keys. No query sees a key
 * before `first_key` (index), so no table entry before that key's is read. All are i32. */
struct att_pages att_pages(struct tir_builder *b, const struct att_variant *v,
                           struct tir_value batch, struct tir_value kv_len,
                           struct tir_value first_key);

/** The spread over lanes and registers of a loaded tile of K or V: `tokens` tokens x `cols`
 * elements, from column `first` on, over all waves of the workgroup. */
struct att_paged_tile {
    struct att_cache cache;
    /* Number of tokens and of columns, index of the first column; run: number of elements that are
     * adjacent in memory and loaded by one lane at once. */
    unsigned tokens, cols, first, run;
    /* Type of the loaded elements: a row for each run of each token, `run` columns. */
    struct tir_type gathered;
    /* True: a token's columns are several runs. False: they are one run, or for V in SHUFFLE a run
     * has one column of several tokens. */
    bool blocks;
};

/** Returns the spread of a tile of `tokens` tokens and `cols` columns from `first` on. `layout`:
 * layout of tokens x cols that the caller wants, for an NHD cache. NULL: 16 bytes of 16-bit
 * elements in a lane. For packed rows `cols` and `layout` are of the latent part. */
struct att_paged_tile att_paged_tile(struct tir_builder *b, const struct att_cache *cache,
                                     unsigned tokens, unsigned cols, unsigned first,
                                     const struct tir_layout *layout);

/** Loads the page number (i32) of each gathered row, or with sparse lists the row's slot. `key`
 * (i32) is the index in the sequence of the tile's first token. */
struct tir_value att_page_numbers(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_paged_tile *t, struct tir_value key);

/** Returns the byte offset (i32) in the table of each gathered row's entry: the first step of
 * att_page_numbers(), for templates that read the table themselves. `key` (i32): index of the
 * tile's first token. */
struct tir_value att_entry_offsets(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value key);
/** Returns the page number or slot (i32) of each gathered row from `entries`, its loaded table
 * entry: the second step of att_page_numbers(). `key` (i32): index of the tile's first token. */
struct tir_value att_entry_slots(struct tir_builder *b, const struct att_pages *p,
                                 const struct att_paged_tile *t, struct tir_value key,
                                 struct tir_value entries);

/** Returns `entries`, the result of att_page_numbers(), repeated for each element: tokens x cols of
 * i32. Not for V in SHUFFLE. */
struct tir_value att_paged_entries(struct tir_builder *b, const struct att_paged_tile *t,
                                   struct tir_value entries);

/** Returns the byte offset (i64) of each gathered row from the cache's base. `key` (i32): index of
 * the tile's first token. `page_numbers`: result of att_page_numbers(). A negative slot is replaced
 * by slot 0. With two_sources a row may be in the second source. */
struct tir_value att_paged_rows(struct tir_builder *b, const struct att_pages *p,
                                const struct att_paged_tile *t, struct tir_value key,
                                struct tir_value page_numbers);

/** A tile as loaded. `bits`: stored elements. `scale`: scales as stored (f32 if they are not
 * packed), one for each gathered row, or for each token of a row that is a run of tokens; no value:
 * none. */
struct att_paged_data {
    struct tir_value bits, scale;
    /* With scales_last and planes: the last 64 elements of the row, repeated for each run of the
     * row; else no value. */
    struct tir_value rotated;
    /* With a second source of another format: second_row (i32) is the index in the second source of
     * each gathered row, below 0 for a row of the cache. second_bits and second_scale are the
     * elements and scales of the second source's rows. */
    struct tir_value second_row, second_bits, second_scale;
};

/** Issues the loads of the tile whose first token has index `key` (i32) in the sequence.
 * `page_numbers` is the result of att_page_numbers(). */
struct att_paged_data att_paged_load(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value key,
                                     struct tir_value page_numbers);

/** Returns loaded data as tokens x cols of `dtype`, multiplied by scales of tokens, pages or runs.
 * The caller multiplies by a scale of the whole tensor. Rows of tokens after the sequence's end
 * have whatever is in the page. */
struct tir_value att_paged_elements(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, unsigned dtype);

#endif
