/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares paged caches among a call's tensors, whatever their layout, element type and
 * scale, and the lists that say whose tokens their pages hold. A slot without a token and an entry
 * behind the last are poison.
 */
#ifndef TOOLS_VERIFY_PAGED_H
#define TOOLS_VERIFY_PAGED_H

#include "tools/reference/cache.h"
#include "tools/verify/call.h"

enum cache_part { CACHE_K, CACHE_V, CACHE_PARTS };

/** The K and the V of a cache, or the rows of a latent cache. Of packed rows K are the latents and
 * V the rotated elements, in the same bytes. */
struct paged {
    struct attn_cache_desc desc;                 /* dtype is that of the elements, never 0 */
    const struct precision *precision, *rotated; /* the latter: of V of packed rows */
    int parts, kv_heads, page_count, dim[CACHE_PARTS];
    struct operand *elements[CACHE_PARTS], *scales[CACHE_PARTS];
};

/** The cache whose first operand has this number: CACHE_WRITE_K_CACHE. */
struct paged paged_of(struct call *c, unsigned first, const struct attn_cache_desc *desc,
                      bool latent);

/** In place(): puts the pages so many bytes apart; only rows with a token are on the device. */
void paged_spread(struct call *c, unsigned first, int64_t bytes);

/** In place(): the call does without the cache. */
void paged_leave_out(struct call *c, unsigned first);

/** A slot of a cache: a token of a page, for a head. */
struct slot {
    int64_t page;
    int token, head;
};

/** K or V as the reference reads what was uploaded: rows of `dim` elements. */
struct ref_cache paged_reference(const struct paged *p, enum cache_part part, int dim);

/** The bits of an element as they were uploaded, or as the launch left them. */
uint32_t paged_bits(const struct paged *p, enum cache_part part, struct slot s, int d);
uint32_t paged_result_bits(const struct paged *p, enum cache_part part, struct slot s, int d);

/** Value of an element: what is stored times its scale. */
double paged_value(const struct paged *p, enum cache_part part, struct slot s, int d);

/** The scale of a slot; 1 without one. */
double paged_scale(const struct paged *p, enum cache_part part, struct slot s);
double paged_result_scale(const struct paged *p, enum cache_part part, struct slot s);
void paged_set_scale(struct paged *p, enum cache_part part, struct slot s, double scale);

/** Packed rows: how many elements of K share a scale, and that of element d, as it was uploaded or
 * left. */
int packed_run(const struct paged *p);
double packed_result_scale(const struct paged *p, struct slot s, int d);
/** Compares the scale that was left with that of a run whose largest number is `largest` and may be
 * off by `off`; the kernel may write it. */
void packed_compare_scale(struct call *c, struct paged *p, struct slot s, int d, double largest,
                          double off);

/** Compares an element, times its scale, as call_compare() does. */
void paged_compare(struct call *c, struct paged *p, enum cache_part part, struct slot s, int d,
                   double expected, double bound);

/** Bytes of so many rows of `dim` elements, once in 16 bits and once as the cache has them, with
 * their scales. */
double paged_move_bytes(const struct attn_cache_desc *desc, double rows, int dim);

/** The kernel may write an element, or the scale of a slot: it is compared by the caller. */
void paged_allow(struct paged *p, enum cache_part part, struct slot s, int d);
void paged_allow_scale(struct paged *p, enum cache_part part, struct slot s);

/** Puts a whole page of a cache that is far apart on the device. */
void paged_touch(struct paged *p, int64_t page);

/** Random keys, values and scales for the heads of a token; a page's shared scale is set by its
 * first one. */
void paged_fill_token(struct paged *p, int64_t page, int token, uint64_t *random);

/** Fills a page that has a scale: its tokens before `tokens`, and for each head a scale that is
 * larger than the tokens to come need, or smaller. */
void paged_fill_page(struct paged *p, int64_t page, int tokens, uint64_t *random);

/** One past the last of a call's slots that follows that of `token` in its page. */
int slots_run_end(int page_size, const int64_t *slots, int tokens, int token);

/** Page numbers 0 .. count - 1 in random order; free() it. */
int32_t *shuffled_pages(int count, uint64_t *random);

/** Sequences and their pages; or lists of slots, which are pages of one token. */
struct page_lists {
    int count;           /* of sequences */
    const int32_t *lens; /* [count]: tokens of each; the caller's */
    int32_t *unseen;     /* [count]: tokens of each that come before all that is seen; or NULL */
    int32_t *first;      /* [count + 1]: where the pages of each begin */
    int32_t *pages;      /* of all sequences, one after the other; by page_lists_fill() */
    int page_size, spare;
    bool far, in_order;
    bool spare_first; /* page 0 is nobody's */
    bool exact;       /* rows of a table have no entries behind the longest list */
};

enum { PAGES_FAR_STRIDE = 64 << 20 }; /* bytes from a page to the next, where they are far apart */

/**
 * In size(): how many pages the sequences have, with those that the cache has beside them; sets
 * pages->entries, and cache->page_count unless `cache` is NULL. `far`: for paged_spread() by
 * PAGES_FAR_STRIDE, the pages in use beyond 4 GiB. `in_order`: one after the other, as trace has
 * them.
 */
void page_lists_make(struct call *c, struct page_lists *l, enum attn_page_table table,
                     struct attn_cache *cache, struct attn_pages *pages);

/** In fill(): chooses pages, gives every token of the sequences a value, and sets the lists, whose
 * first operand has the number `first`: DECODE_KV_LENS. */
void page_lists_fill(struct call *c, struct page_lists *l, struct paged *p, unsigned first);

/** The two parts of page_lists_fill(): the first chooses pages and gives tokens values, the second
 * sets the lists. */
void page_lists_fill_tokens(struct call *c, struct page_lists *l, struct paged *p);
void page_lists_set(struct call *c, const struct page_lists *l, unsigned first);

/**
 * In fill(): lists of slots of the tokens that `pages` lists. The first slot of a list is the first
 * token of its sequence, the others are tokens of any sequence and some below 0; where there are
 * several lists, the last has no keys. `in_order`: every token once, in random order. Returns a
 * byte for each entry, 0 where it is no key.
 */
uint8_t *slot_lists_fill(struct call *c, struct page_lists *l, const struct page_lists *pages,
                         unsigned first);

/** Slots that an entry of a list with ATTN_SPARSE_BLOCKS names. */
enum { LIST_BLOCK = 64 };

/**
 * The same of lists of blocks, `l`, whose keys become `slots`. The first block of a list has the
 * first token of its sequence; whatever tokens a block names, it gives values.
 */
uint8_t *block_lists_fill(struct call *c, struct page_lists *l, struct page_lists *slots,
                          const struct page_lists *pages, struct paged *p, unsigned first);

/**
 * Says how many tokens of each sequence come before the first one that its queries see, those of
 * first_query[s] .. first_query[s + 1] - 1: `left` before a query's own with a window, chunk * n of
 * the last n with chunks. Lists then name no page of the cache for pages of such tokens alone.
 */
void page_lists_hide(struct call *c, struct page_lists *l, const int32_t *first_query, int64_t left,
                     int chunk);

/** Token t of sequence s, for a head. */
struct slot page_lists_slot(const struct page_lists *l, int s, int64_t t, int head);

/** The page size to try a kernel with at a step: its own, or `size` doubled at each step where it
 * takes any and the layout has room for that, else the smallest that does. */
int paged_size(const struct attn_cache_desc *desc, int size, int step);

#endif
