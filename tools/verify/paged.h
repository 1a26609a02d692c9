/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares paged caches among a call's tensors, for all layouts, element types and
 * scales, and the lists of the tokens in their pages. Slots without a token and entries after the
 * last one are poison.
 */
#ifndef TOOLS_VERIFY_PAGED_H
#define TOOLS_VERIFY_PAGED_H

#include "tools/reference/cache.h"
#include "tools/verify/call.h"

/* Keys and values of a cache, or latent part and rotated part of its rows. */
enum cache_part { CACHE_K, CACHE_V, CACHE_PARTS };

/** K and V of a cache, or the rows of a latent cache. With PACKED, SCALES_LAST and PLANES, K is the
 * latent part of a row and V its rotated elements. PLANES has them in two tensors. */
struct paged {
    /* The cache's descriptor; dtype is the type of K's elements, never 0. */
    struct attn_cache_desc desc;
    /* Element types of K and V, and of the rotated part of rows with two types. */
    const struct precision *precision, *rotated;
    /* 2 for K and V, 1 for rows that are both; counts; elements of a row of K and of V. */
    int parts, kv_heads, page_count, dim[CACHE_PARTS];
    /* Tensors of elements and of scales, by part. */
    struct operand *elements[CACHE_PARTS], *scales[CACHE_PARTS];
    bool powers; /* scales inside rows are powers of two */
};

/** Returns the cache whose first operand has number `first`, such as CACHE_WRITE_K_CACHE.
 * `latent`: a row is key and value. */
struct paged paged_of(struct call *c, unsigned first, const struct attn_cache_desc *desc,
                      bool latent);

/** True if a row has elements of one byte and elements of two, or contains its scales. The
 * cache's tensors are then of bytes. */
bool paged_has_rows(const struct attn_cache_desc *desc);

/** True if each token, or each page, of a head has a scale in a tensor. */
static inline bool paged_scales_rows(const struct attn_cache_desc *desc)
{
    return desc->scale == ATTN_KV_SCALE_TOKEN || desc->scale == ATTN_KV_SCALE_BLOCK;
}

/** Sets the stride from page to page to `bytes`, so that only rows with a token are on the
 * device. To be called in place(). */
void paged_spread(struct call *c, unsigned first, int64_t bytes);

/** Makes all sequences share one scale per head. To be called in place(). Changes nothing for other
 * kinds of scales. */
void paged_share_scales(struct call *c, unsigned first, const struct attn_cache_desc *desc);

/** Omits the cache from the call. To be called in place(). */
void paged_leave_out(struct call *c, unsigned first);

/** A slot of a cache: a token of a page, for one head, and the sequence that has the token. */
struct slot {
    /* Page number, token in the page, KV head, and index of the sequence. */
    int64_t page;
    int token, head, sequence;
};

/** Returns K or V for the reference, with the uploaded contents, as rows of `dim` elements. */
struct ref_cache paged_reference(const struct paged *p, enum cache_part part, int dim);

/** Return the bits of an element as uploaded, or as the launch left them. */
uint32_t paged_bits(const struct paged *p, enum cache_part part, struct slot s, int d);
uint32_t paged_result_bits(const struct paged *p, enum cache_part part, struct slot s, int d);

/** Return the value of an element, the stored number times its scale: as uploaded, or as the launch
 * left it. */
double paged_value(const struct paged *p, enum cache_part part, struct slot s, int d);
double paged_result_value(const struct paged *p, enum cache_part part, struct slot s, int d);

/** Return the scale of a slot, as uploaded, or as the launch left it; 1 if the cache has no
 * scales. */
double paged_scale(const struct paged *p, enum cache_part part, struct slot s);
double paged_result_scale(const struct paged *p, enum cache_part part, struct slot s);
/** Sets the scale of a slot before the launch. */
void paged_set_scale(struct paged *p, enum cache_part part, struct slot s, double scale);

/** Return, for rows that contain their scales, the number of K's elements that share a scale,
 * and the scale of element d after the launch. */
int packed_run(const struct paged *p);
double packed_result_scale(const struct paged *p, struct slot s, int d);
/** Compares the scale of the elements from d on, after the launch, with the expected one. Their
 * largest magnitude is `largest` with an error of at most `off`. Allows the kernel to write
 * the scale. */
void packed_compare_scale(struct call *c, struct paged *p, struct slot s, int d, double largest,
                          double off);

/** Compares element d times its scale, after the launch, with `expected`, as call_compare()
 * does. */
void paged_compare(struct call *c, struct paged *p, enum cache_part part, struct slot s, int d,
                   double expected, double bound);

/** Returns the bytes to read `rows` rows of `dim` elements of 16 bits, and to write them to the
 * cache with their scales. */
double paged_move_bytes(const struct attn_cache_desc *desc, double rows, int dim);

/** Allow the kernel to write element d of a slot, or the slot's scale. The caller compares it. */
void paged_allow(struct paged *p, enum cache_part part, struct slot s, int d);
void paged_allow_scale(struct paged *p, enum cache_part part, struct slot s);

/** Puts all slots of a page on the device, in a cache whose pages are GiB apart. */
void paged_touch(struct paged *p, int64_t page);

/** Returns the number of K's scales, and of V's, that belong to no row or page: 1 with TENSOR,
 * sequences x heads with HEAD, 0 with other kinds. */
int paged_shared_scales(const struct paged *p);

/** Sets shared scale i of paged_shared_scales(). */
void paged_set_shared_scale(struct paged *p, enum cache_part part, int i, double scale);

/** Returns a random number from 0 to 1 for a scale. For V it differs by at least 1/4 from of_k, the
 * number for K of the same slot. So a kernel that exchanges the two scales fails. */
double paged_scale_fraction(enum cache_part part, double of_k, uint64_t *random);

/** Fills keys, values and scales of token at.token of at.page at random, for all heads: at.head is
 * ignored. A scale that a page shares is set with the page's first token. */
void paged_fill_token(struct paged *p, struct slot at, uint64_t *random);

/** Fills the first `tokens` tokens of a page, and its scale for each head. The scale is larger or
 * smaller than the later tokens of the page require. */
void paged_fill_page(struct paged *p, int64_t page, int tokens, uint64_t *random);

/** Returns one past the last token of a run that begins with `token`. Tokens of a run have
 * consecutive slots in one page. `slots` has `tokens` entries. */
int slots_run_end(int page_size, const int64_t *slots, int tokens, int token);

/** Returns the page numbers 0 .. count - 1 in random order, in memory for free(). */
int32_t *shuffled_pages(int count, uint64_t *random);

/** Sequences and their pages. Lists of slots are sequences with pages of one token. */
struct page_lists {
    int count;            /* number of sequences */
    const int32_t *lens;  /* [count]: tokens of each sequence; owned by the caller */
    int32_t *unseen;      /* [count]: tokens of each sequence; owned by the caller */
    int32_t *first;       /* [count + 1]: index in `pages` of each sequence's first page */
    int32_t *pages;       /* pages of all sequences in order; set by page_lists_fill() */
    int page_size, spare; /* tokens of a page; number of pages that no sequence has */
    /* far: pages are GiB apart; in_order: pages are consecutive, or blocks are a permutation */
    bool far, in_order;
    bool spare_first; /* page 0 belongs to no sequence */
    bool exact;       /* a row of the page table has no entries after the longest sequence's */
};

enum { PAGES_FAR_STRIDE = 64 << 20 }; /* bytes between pages that are far apart */

/**
 * Counts the pages that the sequences of `l` use, and adds l->spare unused pages. An op calls it
 * in its size() function. Sets l->first, and cache->page_count unless `cache` is NULL. Sets
 * pages->entries to the entries of a row of the table, or of all lists with ATTN_PAGES_INDICES.
 * With l->far, used pages are beyond 4 GiB after paged_spread() by PAGES_FAR_STRIDE. With
 * l->in_order there are no unused pages.
 */
void page_lists_make(struct call *c, struct page_lists *l, enum attn_page_table table,
                     struct attn_cache *cache, struct attn_pages *pages);

/** Chooses pages, gives every token of the sequences a value, and sets the lists, in fill(). The
 * first list's operand has the number `first`, such as DECODE_KV_LENS. */
void page_lists_fill(struct call *c, struct page_lists *l, struct paged *p, unsigned first);

/** Choose pages and fill tokens, and set the operands of the lists: the two parts of
 * page_lists_fill(). */
void page_lists_fill_tokens(struct call *c, struct page_lists *l, struct paged *p);
void page_lists_set(struct call *c, const struct page_lists *l, unsigned first);

/** Makes lists of slots, in fill(), that name tokens of `pages`. The first slot of a list is
 * the first token of its sequence. Other slots are tokens of any sequence, or negative. The
 * last of several lists has no keys. With `in_order` every token appears once, in random
 * order. Returns a byte for each entry: 0 if it is no key, else 1. */
uint8_t *slot_lists_fill(struct call *c, struct page_lists *l, const struct page_lists *pages,
                         unsigned first);

/** Sets entry i of the list of sequence s to `slot`. `first` is the number of the first list's
 * operand, as in slot_lists_fill(). */
void slot_lists_set(struct call *c, const struct page_lists *l, int s, int i, int32_t slot,
                    unsigned first);

/** Slots of a block, which an entry of a list names with ATTN_SPARSE_BLOCKS. */
enum { LIST_BLOCK = 64 };

/** Makes lists of blocks, `l`, and the slots of their keys, `slots`. The first block of a list
 * has the first token of its sequence. Gives values to all tokens of the blocks. Returns a
 * byte for each key, as slot_lists_fill(). */
uint8_t *block_lists_fill(struct call *c, struct page_lists *l, struct page_lists *slots,
                          const struct page_lists *pages, struct paged *p, unsigned first);

/** Computes the tokens that no query sees. `first_query` has each sequence's first query. A
 * query sees `left` tokens before itself, or with `chunk` the tokens of its chunk. Lists have
 * numbers outside the cache for pages that only have unseen tokens. */
void page_lists_hide(struct call *c, struct page_lists *l, const int32_t *first_query, int64_t left,
                     int chunk);

/** Returns the slot of token t of sequence s for a head. */
struct slot page_lists_slot(const struct page_lists *l, int s, int64_t t, int head);

/** Returns the page size, in tokens, to try at a step. A kernel's own size is fixed. For
 * kernels of any size it is `size` doubled at each step. A size too small for the layout is
 * replaced by the smallest possible one. */
int paged_size(const struct attn_cache_desc *desc, int size, int step);

#endif
