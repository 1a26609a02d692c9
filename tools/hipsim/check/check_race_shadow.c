/* SPDX-License-Identifier: Apache-2.0 */
#include "check_race_shadow.h"

#include <assert.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

static_assert(PAGE_SLOTS >= 2 * PAGES_MAX, "a search ends soon");

/* The last launch's shadow, for the next launch. */
static struct race_shadow *_Atomic spare;

/* Reserves address space for zeros. The host allocates pages when they are first written. NULL: not
 * possible. */
static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Releases memory of reserve(). NULL is allowed. */
static void release(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

/* Frees the shadow and its tables. */
static void destroy(struct race_shadow *s)
{
    release(s->pages, PAGES_MAX * sizeof(*s->pages));
    release(s->splits, SPLITS_MAX * sizeof(*s->splits));
    release(s->intervals, INTERVALS_MAX * sizeof(*s->intervals));
    release(s, sizeof(*s));
}

/* Reserves the shadow and its tables. NULL: no memory. */
static struct race_shadow *create(void)
{
    struct race_shadow *s = reserve(sizeof(*s));
    if (!s)
        return s;
    s->pages = reserve(PAGES_MAX * sizeof(*s->pages));
    s->splits = reserve(SPLITS_MAX * sizeof(*s->splits));
    s->intervals = reserve(INTERVALS_MAX * sizeof(*s->intervals));
    if (s->pages && s->splits && s->intervals) {
        madvise(s->pages, PAGES_MAX * sizeof(*s->pages), MADV_HUGEPAGE);
        return s;
    }
    destroy(s);
    return NULL;
}

struct race_shadow *race_shadow_begin(void)
{
    struct race_shadow *s = atomic_exchange(&spare, NULL);
    if (!s)
        s = create();
    if (!s)
        return NULL;
    s->launch++;
    if (s->pages_used > PAGES_KEPT) {
        madvise(s->pages, PAGES_MAX * sizeof(*s->pages), MADV_DONTNEED);
        memset(s->tag, 0, sizeof(s->tag));
    }
    if (s->pages_used > PAGES_NAMED) { /* their cells may serve other addresses */
        memset(s->key, 0, sizeof(s->key));
        memset(s->index, 0, sizeof(s->index));
        s->pages_used = 0;
    }
    s->splits_used = s->intervals_used = 1;
    s->full = s->left_out = false;
    s->clock = 1;
    memset(s->location, 0, sizeof(s->location));
    return s;
}

bool race_shadow_end(struct race_shadow *s)
{
    const bool incomplete = s->full || s->left_out;
    s = atomic_exchange(&spare, s);
    if (s)
        destroy(s);
    return incomplete;
}

/* Adds the accesses in cell `c` to the bits of *page. The cell has `bytes` bytes from byte `first`
 * of the page on. */
static void collect(const struct race_shadow *s, const struct cell *c, unsigned first,
                    unsigned bytes, struct race_page *page)
{
    const unsigned part = bytes / 4;

    for (unsigned i = 0; c->split && c->parts != LOST && i < 4; i++)
        collect(s, &s->splits[c->parts][i], first + i * part, part, page);
    if (c->split && c->parts != LOST)
        return;
    const uint64_t written = c->writer ? c->written : 0, read = c->reader ? c->read : 0;
    const bool atomic = (!c->writer || c->writer & ATOMIC) && (!c->reader || c->reader & ATOMIC);
    page->written[first / 64] |= written << first % 64;
    page->read[first / 64] |= read << first % 64;
    page->atomic[first / 64] |= (atomic ? written | read : 0) << first % 64;
}

void race_shadow_walk(struct race_shadow *s, void (*tell)(void *ctx, const struct race_page *page),
                      void *ctx)
{
    for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
        const uint32_t index = s->key[i] ? s->index[i] : 0;
        if (!index || index > PAGES_MAX || s->tag[index - 1] != s->launch)
            continue;
        struct race_page page = {.address = (s->key[i] - 1) * PAGE};
        for (unsigned k = 0; k < PAGE / RACE_GRANULE; k++)
            collect(s, &s->pages[index - 1][k], k * RACE_GRANULE, RACE_GRANULE, &page);
        tell(ctx, &page);
    }
}

/* Creates a page at slot `i` of the hash table and returns its index, which is PAGES_MAX or more if
 * no page is left. */
static uint32_t new_page(struct race_shadow *s, uint32_t i)
{
    uint32_t page = atomic_fetch_add(&s->pages_used, 1);
    if (page >= PAGES_MAX) {
        atomic_store(&s->pages_used, PAGES_MAX);
        atomic_store(&s->full, true);
        page = NO_PAGE - 1;
    }
    atomic_store_explicit(&s->index[i], page + 1, memory_order_release);
    return page;
}

uint32_t race_shadow_page(struct race_shadow *s, uint64_t number)
{
    uint32_t i = (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PAGE_SLOT_BITS));
    for (;; i = (i + 1) % PAGE_SLOTS) {
        uint64_t key = atomic_load_explicit(&s->key[i], memory_order_relaxed);
        if (!key && atomic_load_explicit(&s->full, memory_order_relaxed))
            return NO_PAGE;
        if (!key && atomic_compare_exchange_strong(&s->key[i], &key, number + 1))
            return new_page(s, i);
        if (key != number + 1)
            continue;
        uint32_t index;
        while (!(index = atomic_load_explicit(&s->index[i], memory_order_acquire)))
            sched_yield();
        return index - 1;
    }
}

struct cell *race_shadow_cells(struct race_shadow *s, uint32_t page)
{
    if (s->tag[page] != s->launch) {
        if (s->tag[page])
            memset(s->pages[page], 0, sizeof(s->pages[page]));
        s->tag[page] = s->launch;
    }
    return s->pages[page];
}

bool race_shadow_split(struct race_shadow *s, struct cell *c, unsigned bytes)
{
    uint32_t block = atomic_fetch_add(&s->splits_used, 1);
    const unsigned part = bytes / 4;
    if (block >= SPLITS_MAX) {
        atomic_store(&s->splits_used, SPLITS_MAX);
        atomic_store(&s->full, true);
        c->parts = LOST;
        c->split = true;
        return false;
    }
    for (unsigned i = 0; i < 4; i++) {
        struct cell *k = &s->splits[block][i];
        *k = *c;
        k->written = c->written >> i * part & ((1u << part) - 1);
        k->read = c->read >> i * part & ((1u << part) - 1);
        if (!k->written)
            k->writer = 0;
        if (!k->read)
            k->reader = k->other = 0;
    }
    c->parts = block;
    c->split = true;
    return true;
}
