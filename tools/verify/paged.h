/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares paged caches of a call, for all layouts, element types and scales. It also
 * declares page tables and lists of slots that lead to tokens. Slots without a token and list
 * entries after the last one are poison.
 */
#ifndef TOOLS_VERIFY_PAGED_H
#define TOOLS_VERIFY_PAGED_H

#include "tools/reference/cache.h"
#include "tools/verify/call.h"

/* The parts of a cache: keys and values, or for latent rows the latent part and the rotated
 * part. */
enum cache_part { CACHE_K, CACHE_V, CACHE_PARTS };

/** K and V of a cache, or the rows of a latent cache. With PACKED, SCALES_LAST and PLANES, K is the
 * latent part of a row and V its rotated elements. PLANES has them in two tensors. */
struct paged {
    /* Descriptor of the cache; its dtype is always set to the type of K's elements. */
    struct attn_cache_desc desc;
    /* precision: element type of K and V. rotated: element type of the rotated part, in rows with
     * two types. */
    const struct precision *precision, *rotated;
    /* parts: 2 for K and V, 1 for rows that are both. kv_heads and page_count: numbers of KV heads
     * and pages. dim: elements of a row of K and of V. */
    int parts, kv_heads, page_count, dim[CACHE_PARTS];
    /* Tensors of elements and of scales, indexed by part. */
    struct operand *elements[CACHE_PARTS], *scales[CACHE_PARTS];
    bool powers; /* true: scales inside rows are powers of two */
};

/** Returns the cache of a call. `first` is the number of its first operand, such as
 * CACHE_WRITE_K_CACHE. `latent`: true if a row is both key and value. */
struct paged paged_of(struct call *c, unsigned first, const struct attn_cache_desc *desc,
                      bool latent);

/** True if a row mixes elements of one and two bytes, or contains its scales. The elements of the
 * cache's tensors are then bytes. */
bool paged_has_rows(const struct attn_cache_desc *desc);

/** True if scales have a tensor with one scale for each token of a head, or for each page of a
 * head. */
static inline bool paged_scales_rows(const struct attn_cache_desc *desc)
{
    return desc->scale == ATTN_KV_SCALE_TOKEN || desc->scale == ATTN_KV_SCALE_BLOCK;
}

/** Sets the distance between pages to `bytes`. Only rows with a token are then on the device.
 * Called in struct verify_op.place. */
void paged_spread(struct call *c, unsigned first, int64_t bytes);

/** Makes all sequences share one scale per head, for scales of kind HEAD. Does nothing for other
 * kinds. Called in struct verify_op.place. */
void paged_share_scales(struct call *c, unsigned first, const struct attn_cache_desc *desc);

/** Omits the cache from the call. Called in struct verify_op.place. */
void paged_leave_out(struct call *c, unsigned first);

/** A slot of a cache for one head: a token of a page, and the sequence that the token belongs
 * to. */
struct slot {
    /* page: number of the page. token: index of the token in the page. head: KV head. sequence:
     * index of the sequence. */
    int64_t page;
    int token, head, sequence;
};

/** Returns K or V as it was before the launch, for the reference, as rows of `dim` elements. */
struct ref_cache paged_reference(const struct paged *p, enum cache_part part, int dim);

/** Returns the bits of element d of a slot before the launch. */
uint32_t paged_bits(const struct paged *p, enum cache_part part, struct slot s, int d);
/** Returns the bits of element d of a slot after the launch. */
uint32_t paged_result_bits(const struct paged *p, enum cache_part part, struct slot s, int d);

/** Returns the value of element d of a slot before the launch: the stored number times its
 * scale. */
double paged_value(const struct paged *p, enum cache_part part, struct slot s, int d);
/** Returns the value of element d of a slot after the launch: the stored number times its scale. */
double paged_result_value(const struct paged *p, enum cache_part part, struct slot s, int d);

/** Returns the scale of a slot before the launch; 1 if the cache has no scales. */
double paged_scale(const struct paged *p, enum cache_part part, struct slot s);
/** Returns the scale of a slot after the launch; 1 if the cache has no scales. */
double paged_result_scale(const struct paged *p, enum cache_part part, struct slot s);

/** Returns the number of K's elements that share a scale, in rows that contain their scales. */
int packed_run(const struct paged *p);
/** Returns the scale of element d of a row that contains its scales, after the launch. */
double packed_result_scale(const struct paged *p, struct slot s, int d);
/** Compares the scale of the packed_run() elements from d on, after the launch, with the expected
 * scale. The largest magnitude of these elements is `largest` with an error of at most `off`.
 * Allows the kernel to write the scale. */
void packed_compare_scale(struct call *c, struct paged *p, struct slot s, int d, double largest,
                          double off);

/** Compares element d times its scale, after the launch, with `expected`, as call_compare()
 * does. */
void paged_compare(struct call *c, struct paged *p, enum cache_part part, struct slot s, int d,
                   double expected, double bound);

/** Returns the bytes that a cache write moves: it reads `rows` rows of `dim` elements of 16 bits,
 * and writes them to the cache with their scales. */
double paged_move_bytes(const struct attn_cache_desc *desc, double rows, int dim);

/** Allows the kernel to write element d of a slot. For elements that the caller compares by
 * itself. */
void paged_allow(struct paged *p, enum cache_part part, struct slot s, int d);
/** Allows the kernel to write the scale of a slot. For scales that the caller compares by
 * itself. */
void paged_allow_scale(struct paged *p, enum cache_part part, struct slot s);

/** Puts all slots of a page on the device, if the cache's pages are GiB apart. */
void paged_touch(struct paged *p, int64_t page);

/** Returns the number of K's scales (V has as many) that are not of a token or page: 1 with kind
 * TENSOR, sequences x heads with HEAD, 0 with other kinds. */
int paged_shared_scales(const struct paged *p);

/** Sets the scale with index i among the paged_shared_scales() scales of K or V. */
void paged_set_shared_scale(struct paged *p, enum cache_part part, int i, double scale);

/** Returns a random number from 0 to 1 for a scale. For V it differs by at least 1/4 from of_k, the
 * number for K of the same slot. So a kernel that exchanges the two scales fails. */
double paged_scale_fraction(enum cache_part part, double of_k, uint64_t *random);

/** Fills keys, values and scales of the token at.token of page at.page at random, for all heads;
 * at.head is ignored. The scale of a page is set with the page's first token. */
void paged_fill_token(struct paged *p, struct slot at, uint64_t *random);

/** Fills the first `tokens` tokens of a page, and the page's scale for each head. The scale is
 * larger or smaller than later tokens of the page require. */
void paged_fill_page(struct paged *p, int64_t page, int tokens, uint64_t *random);

/** Returns the index after the last token of the run that begins with `token`. Tokens of a run have
 * consecutive slots in one page. `slots` has the slot of each of `tokens` tokens. */
int slots_run_end(int page_size, const int64_t *slots, int tokens, int token);

/** Returns the page numbers 0 .. count - 1 in random order, in memory for free(). */
int32_t *shuffled_pages(int count, uint64_t *random);

/** Sequences and their pages. Lists of slots are sequences with pages of one token. */
struct page_lists {
    int count;           /* number of sequences */
    const int32_t *lens; /* [count]: tokens of each sequence; owned by the caller */
    /* [count]: number of first tokens that no query sees; NULL: page_lists_hide() was not called */
    int32_t *unseen;
    int32_t *first; /* [count + 1]: index in `pages` of each sequence's first page */
    int32_t *pages; /* pages of all sequences in order; set by page_lists_fill() */
    int page_size;  /* tokens of a page */
    int spare;      /* number of pages in the cache that no sequence uses */
    /* far: pages are GiB apart; in_order: pages are consecutive, or blocks are a permutation */
    bool far, in_order;
    bool spare_first; /* true: page 0 belongs to no sequence */
    /* true: a row of the page table has no entries after the longest sequence's last page */
    bool exact;
};

/* Bytes between pages that are far apart, and the number of such pages in 4 GiB. */
enum { PAGES_FAR_STRIDE = 32 << 20, PAGES_FAR_SPARE = 128 };

/**
 * Sets the sizes of the cache and of the page table for the sequences of `l`. An op's callback
 * verify_op.size calls it. Sets l->first, and cache->page_count to the pages of all sequences plus
 * l->spare, unless `cache` is NULL. Sets pages->entries
 * to the entries of a row of the table, or of all lists with ATTN_PAGES_INDICES. With l->far, used
 * pages are beyond 4 GiB after paged_spread() by PAGES_FAR_STRIDE. With l->in_order there are no
 * unused pages.
 */
void page_lists_make(struct call *c, struct page_lists *l, enum attn_page_table table,
                     struct attn_cache *cache, struct attn_pages *pages);

/** Chooses pages, sets every token of the sequences, and sets the operands of the lists. `first` is
 * the number of the first list's operand, such as DECODE_KV_LENS. Called in struct
 * verify_op.fill. */
void page_lists_fill(struct call *c, struct page_lists *l, struct paged *p, unsigned first);

/** Chooses pages and sets every token of the sequences: the first part of page_lists_fill(). */
void page_lists_fill_tokens(struct call *c, struct page_lists *l, struct paged *p);
/** Sets the operands of the lists, beginning with number `first`: the second part of
 * page_lists_fill(). */
void page_lists_set(struct call *c, const struct page_lists *l, unsigned first);

/** Makes lists of slots, `l`, that name tokens of `pages`, in struct verify_op.fill. The first slot
 * of a list is the first token of its sequence. Other slots are tokens of any sequence, or
 * negative. The last of several lists has no keys. With `in_order` every token appears once, in
 * random order. Returns a byte for each entry: 1 if the entry names a key, else 0. */
uint8_t *slot_lists_fill(struct call *c, struct page_lists *l, const struct page_lists *pages,
                         unsigned first);

/** Sets entry i of the list of sequence s to `slot`. `first` is the number of the first list's
 * operand, as in slot_lists_fill(). */
void slot_lists_set(struct call *c, const struct page_lists *l, int s, int i, int32_t slot,
                    unsigned first);

/** Number of slots of a block. With ATTN_SPARSE_BLOCKS each entry of a list names a block. */
enum { LIST_BLOCK = 64 };

/** Makes lists of blocks, `l`, and lists of the slots of these blocks, `slots`. The first block of
 * a list has the first token of its sequence. Sets all tokens of the blocks. Returns a byte for
 * each slot: 1 if the slot holds a key, else 0. */
uint8_t *block_lists_fill(struct call *c, struct page_lists *l, struct page_lists *slots,
                          const struct page_lists *pages, struct paged *p, unsigned first);

/** Sets l->unseen: the number of first tokens of each sequence that no query sees. `first_query`
 * has each sequence's first query. A query sees `left` tokens before itself, or with `chunk` the
 * tokens of its chunk. For pages that only have unseen tokens, lists then name pages outside of the
 * cache. */
void page_lists_hide(struct call *c, struct page_lists *l, const int32_t *first_query, int64_t left,
                     int chunk);

/** Returns the slot of token number t of sequence s, for a KV head. */
struct slot page_lists_slot(const struct page_lists *l, int s, int64_t t, int head);

/** Returns the page size, in tokens, to try at a step: the kernel's own size if it has one, else
 * `size` * 2^step. A size too small for the layout is replaced by the smallest possible one. */
int paged_size(const struct attn_cache_desc *desc, int size, int step);

#endif
