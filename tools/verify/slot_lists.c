/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file makes lists of slots, or of blocks, of a paged cache for sparse ops. Lists have entries
 * that name no token, since kernels must skip them.
 */
#include "tools/verify/paged.h"

#include <stdlib.h>

/* Returns the slot of the n-th token of all sequences. */
static int32_t token_slot(const struct page_lists *p, int64_t n)
{
    int s = 0;
    for (; n >= p->lens[s]; s++)
        n -= p->lens[s];
    const struct slot slot = page_lists_slot(p, s, n, 0);
    return (int32_t)(slot.page * p->page_size + slot.token);
}

/* Returns the slot of a random token among `all`, or a negative number, which is no token. */
static int32_t random_slot(const struct page_lists *p, int64_t all, uint64_t *random)
{
    if (all == 0 || random_bits(random) % 8 == 0)
        return random_bits(random) % 2 ? -1 : INT32_MIN;
    return token_slot(p, (int64_t)(random_bits(random) % (uint64_t)all));
}

/* True if entry i of a list comes before the list's first slot. Every second list that is long
 * enough begins with more such entries than a block has. */
static bool is_leading_gap(const struct page_lists *l, int s, int i)
{
    enum { GAP = 70 };
    return s % 2 && l->lens[s] >= 2 * GAP && i < GAP;
}

/* Returns a slot for entry `i` of sequence s's list, or a negative number for an entry without a
 * token. */
static int32_t choose_slot(const struct page_lists *l, const struct page_lists *p, int s, int i,
                           int64_t all, uint64_t *random)
{
    if (i >= p->lens[s] || (s > 0 && s == l->count - 1) || is_leading_gap(l, s, i))
        return -1;
    if (i > 0)
        return random_slot(p, all, random);
    const struct slot slot = page_lists_slot(p, s, 0, 0);
    return (int32_t)(slot.page * p->page_size);
}

uint8_t *slot_lists_fill(struct call *c, struct page_lists *l, const struct page_lists *pages,
                         unsigned first)
{
    const int32_t entries = l->first[l->count];
    uint8_t *there = call_allocate(c, (size_t)entries + 1, 1);
    int64_t all = 0;
    for (int s = 0; s < pages->count; s++)
        all += pages->lens[s];
    int32_t *order = l->in_order ? shuffled_pages((int)all, &c->random) : NULL;
    l->pages = call_allocate(c, (size_t)entries + 1, sizeof(*l->pages));
    for (int s = 0; s < l->count; s++) {
        for (int32_t at = l->first[s]; at < l->first[s + 1]; at++) {
            l->pages[at] = order ? token_slot(pages, order[at])
                                 : choose_slot(l, pages, s, at - l->first[s], all, &c->random);
            there[at] = l->pages[at] >= 0;
        }
    }
    free(order);
    page_lists_set(c, l, first);
    return there;
}

void slot_lists_set(struct call *c, const struct page_lists *l, int s, int i, int32_t slot,
                    unsigned first)
{
    struct operand *const blocks = call_operand(c, first + 1);
    struct operand *const indices = call_operand(c, first + 3);
    if (indices->given)
        operand_set_int(indices, AT(l->first[s] + i), slot);
    if (blocks->given)
        operand_set_int(blocks, AT(s, i), slot);
}

/* Returns a number that names no block: a negative one, or one whose product with 64 overflows 32
 * bits to the first slot of a block in the cache. */
static int32_t no_block(int32_t count, uint64_t *random)
{
    return random_bits(random) % 2 ? -1
                                   : INT32_MIN + (int32_t)(random_bits(random) % (uint64_t)count);
}

/* Returns a block for entry i of sequence s's list, or a number that names no block. */
static int32_t choose_block(const struct page_lists *l, const struct page_lists *pages, int s,
                            int i, int32_t count, uint64_t *random)
{
    if (count == 0 || i * LIST_BLOCK >= pages->lens[s] || (s > 0 && s == l->count - 1))
        return -1;
    if (i > 0)
        return random_bits(random) % 4 == 0 ? no_block(count, random)
                                            : (int32_t)(random_bits(random) % (uint64_t)count);
    const struct slot slot = page_lists_slot(pages, s, 0, 0);
    const int64_t block = (slot.page * pages->page_size + slot.token) / LIST_BLOCK;
    return block < count ? (int32_t)block : 0;
}

/* Fills the tokens of a block that belong to no sequence, unless they are filled already. */
static void fill_block(struct call *c, struct paged *p, int64_t block)
{
    for (int64_t slot = block * LIST_BLOCK; slot < (block + 1) * LIST_BLOCK; slot++)
        paged_fill_token(p,
                         (struct slot){.page = slot / p->desc.page_size,
                                       .token = (int)(slot % p->desc.page_size)},
                         &c->random);
}

uint8_t *block_lists_fill(struct call *c, struct page_lists *l, struct page_lists *slots,
                          const struct page_lists *pages, struct paged *p, unsigned first)
{
    const int32_t count = (int32_t)((int64_t)p->page_count * p->desc.page_size / LIST_BLOCK);
    uint8_t *there = call_allocate(c, (size_t)slots->first[l->count] + 1, 1);
    uint8_t *filled = verify_allocate((size_t)count + 1, 1);
    int32_t *order = l->in_order && count ? shuffled_pages(count, &c->random) : NULL;
    l->pages = call_allocate(c, (size_t)l->first[l->count] + 1, sizeof(*l->pages));
    slots->pages = call_allocate(c, (size_t)slots->first[l->count] + 1, sizeof(*slots->pages));
    for (int s = 0; s < l->count; s++) {
        for (int32_t t = 0; t < l->lens[s]; t++) {
            int32_t *const block = &l->pages[l->first[s] + t / LIST_BLOCK];
            const int32_t at = slots->first[s] + t;
            if (t % LIST_BLOCK == 0)
                *block = order ? order[(l->first[s] + t / LIST_BLOCK) % count]
                               : choose_block(l, pages, s, t / LIST_BLOCK, count, &c->random);
            there[at] = *block >= 0;
            slots->pages[at] = there[at] ? *block * LIST_BLOCK + t % LIST_BLOCK : -1;
            if (there[at] && !order && !filled[*block]++)
                fill_block(c, p, *block);
        }
    }
    free(order);
    free(filled);
    page_lists_set(c, l, first);
    return there;
}
