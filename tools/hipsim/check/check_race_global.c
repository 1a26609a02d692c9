/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check for global memory, between the waves of a workgroup and between workgroups.
 *
 * Every 16 bytes of memory that a launch accesses have a cell: the last writer, and the readers
 * since. A cell is split into four of 4 bytes, and these into bytes, if waves access parts of it. A
 * writer or reader is an *interval* plus a bit per wave. An interval is the accesses of a workgroup
 * between two of its barriers.
 *
 * Order: barriers order the waves of a workgroup. Atomics order all waves, and so do loads and
 * stores with sc1, the encoding of agent-scope atomic ones. One that writes is a release: of the
 * wave's accesses, and of the workgroup's accesses before its last barrier. One that reads or
 * returns a value is an acquire. Releases have increasing stamps from one clock. Each location has
 * the stamp of its last release. Each wave has the largest stamp that it has acquired (`acquired`),
 * which a barrier makes common to its workgroup. An access is ordered before a wave's if its
 * interval was released at or before that stamp, by any wave. Vector clocks would be more exact.
 * check_race_shadow.c stores cells and intervals.
 *
 * The fence check uses the same record. Each XCD has an L2 of its own. It holds plain stores until
 * buffer_wbl2 with sc1 writes them back, and loaded lines until buffer_inv with sc1 discards them
 * (LLVM, memory model gfx942). A load that is ordered after a store of another workgroup, but lacks
 * one of the two, may return old bytes.
 */
#include "check_race.h"

#include <assert.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check_race_clocks.h"
#include "check_race_shadow.h"
#include "check_race_stores.h"
#include "wait.h"

#define INTERVAL_CHUNK 64u /* number of intervals that a thread reserves at once */
#define RECENT 64u         /* number of pages that a thread finds without the hash table */
#define OPEN_MAX 64u       /* most unreleased intervals of a workgroup */
#define COLLISIONS_MAX (2 * WAVE_LANES)

/* Most locations that one instruction acquires. Swizzled buffers, formats and loads to LDS access
 * up to four dwords per lane, each at an address of its own. */
#define ACQUIRES_MAX (4 * WAVE_LANES)

/* The race check's state of a host thread for global memory. */
struct race_global {
    struct race_shadow *shadow;
    const struct race_clocks *clocks;
    struct race_spare *spare;
    uint32_t current;       /* index of the workgroup's interval; 0: the next access begins one */
    uint32_t epoch;         /* number of the workgroup's barriers when `current` began */
    uint32_t open, nopen;   /* first interval of the list of unreleased intervals; its length */
    uint32_t dirty;         /* first interval of the list of those that were not written back */
    uint32_t flushing;      /* waves with an entry in flush[], a bit each */
    uint32_t invalidations; /* number of executed buffer_inv with sc1 in this workgroup */
    /* Interval numbers that this thread has reserved: from `chunk` to chunk_end - 1. */
    uint32_t chunk, chunk_end;
    uint64_t held;                  /* locked stripes, a bit each */
    uint64_t acquire[ACQUIRES_MAX]; /* addresses that the current instruction acquires */
    /* Numbers of entries of acquire[], collisions[] and repeats[]. */
    unsigned nacquire, ncollisions, nrepeats;
    /* By wave: its last write-back. It writes back the interval `first` and all after it in the
     * list. */
    struct {
        uint32_t first;            /* interval */
        uint32_t number;           /* wave.issued before the write-back */
        enum wait_counter counter; /* counter of the write-back */
    } flush[WAVES_MAX];
    /* stamp by wave: releases up to it are ordered before the wave's accesses */
    uint64_t acquired[WAVES_MAX];
    struct {
        uint64_t number; /* number of the page + 1; 0: empty */
        uint32_t page;
    } recent[RECENT];
    struct collision collisions[COLLISIONS_MAX];
    struct collision repeats[WAVE_LANES]; /* old bytes of stores to cells that were read */
    struct cell *repeated[WAVE_LANES];    /* cells of the entries of `repeats` */
    /* gfx1250: stores that no wait has completed. Last, since race_global_create() does not clear
     * its list of 1 MiB. */
    struct race_stores stores;
};

/* An access to one granule, the 16 bytes of a cell. */
struct touch {
    struct race_global *g;
    struct wave *w;
    const struct inst *in;
    enum mem_direction direction;
    uint32_t self;      /* interval of the access, with flags ATOMIC or LOCAL */
    uint32_t bit;       /* bit of the wave */
    uint16_t bad;       /* result: mask of the bytes that conflict */
    bool named;         /* true: `other` is set, for the first conflicting byte */
    bool fences;        /* true: the launch has the fence check */
    const char *fence;  /* result: missing_fence() of a load; NULL: none is missing */
    uint64_t page;      /* number of the page of `cells`, whose lock is held */
    struct cell *cells; /* cells of the page; NULL: the page is not recorded */
    struct race_other other;
};

struct race_global *race_global_create(struct race_shadow *shadow, const struct race_clocks *clocks,
                                       struct race_spare *spare)
{
    struct race_global *g = malloc(sizeof(*g));
    if (!g)
        return NULL;
    memset(g, 0, offsetof(struct race_global, stores.out));
    g->shadow = shadow;
    g->clocks = clocks;
    g->spare = spare;
    return g;
}

void race_global_destroy(struct race_global *g) { free(g); }

void race_global_begin(struct race_global *g)
{
    g->current = g->open = g->nopen = 0;
    g->dirty = g->invalidations = g->flushing = 0;
    g->stores.n = 0;
    memset(g->acquired, 0, sizeof(g->acquired));
}

/* Locks a stripe of the shadow's granules. */
static void lock(struct race_global *g, unsigned stripe)
{
    _Atomic bool *taken = &g->shadow->stripe[stripe].taken;
    for (unsigned n = 1; atomic_exchange_explicit(taken, true, memory_order_acquire); n++)
        if (n % 64 == 0)
            sched_yield();
    g->held |= UINT64_C(1) << stripe;
}

/* Unlocks all stripes that the worker holds. */
static void unlock_all(struct race_global *g)
{
    for (; g->held; g->held &= g->held - 1)
        atomic_store_explicit(&g->shadow->stripe[__builtin_ctzll(g->held)].taken, false,
                              memory_order_release);
}

/* Returns the index of an address's page. NO_PAGE, or an index from PAGES_MAX on, means that the
 * page is not recorded. */
static uint32_t page_of(struct race_global *g, uint64_t address)
{
    uint64_t number = address / PAGE;
    unsigned at = number % RECENT;
    if (g->recent[at].number != number + 1) {
        g->recent[at].page = race_shadow_page(g->shadow, number);
        g->recent[at].number = number + 1;
    }
    return g->recent[at].page;
}

/* The functions from here on order intervals. */

/* Returns the number of a new interval for the workgroup; 0: all numbers are used. */
static uint32_t new_interval(struct race_global *g, const struct workgroup *wg)
{
    struct race_shadow *s = g->shadow;
    if (g->chunk == g->chunk_end) {
        g->chunk = atomic_fetch_add(&s->intervals_used, INTERVAL_CHUNK);
        g->chunk_end = g->chunk + INTERVAL_CHUNK;
    }
    if (g->chunk_end > INTERVALS_MAX) {
        g->chunk = g->chunk_end = INTERVALS_MAX - INTERVAL_CHUNK;
        atomic_store(&s->full, true);
        return 0;
    }
    struct interval *j = &s->intervals[g->chunk];
    *j = (struct interval){
        .group = (uint32_t)wg->index,
        .epoch = (uint32_t)wg->barriers,
        .next = g->open,
        .next_dirty = g->dirty,
        .invalidations = g->invalidations,
    };
    g->open = g->dirty = g->chunk;
    g->nopen++;
    return g->chunk++;
}

/* Returns the index of the workgroup's interval and adds `w` to its waves; 0 if no interval is
 * left. */
static uint32_t touch_interval(struct race_global *g, const struct wave *w)
{
    if (!g->current || g->epoch != (uint32_t)w->wg->barriers) {
        g->epoch = (uint32_t)w->wg->barriers;
        g->current = new_interval(g, w->wg);
        if (!g->current)
            return 0;
    }
    g->shadow->intervals[g->current].touched |= UINT32_C(1) << w->id;
    return g->current;
}

/* Returns the waves, a bit each, that have not waited for stores of interval `j`. `w` cannot
 * release their part of it. */
static uint32_t unwaited(struct race_global *g, const struct interval *j, const struct wave *w)
{
    return g->stores.n ? stores_of(&g->stores, w->wg, j->epoch) & ~(UINT32_C(1) << w->id) : 0;
}

/* Releases the part of interval `j` that `w` may release, with stamp `stamp`. True if all of it is
 * released. */
static bool release_interval(struct race_global *g, struct interval *j, const struct wave *w,
                             uint64_t stamp)
{
    const uint32_t bit = UINT32_C(1) << w->id;
    const bool past = j->epoch < (uint32_t)w->wg->barriers || g->nopen > OPEN_MAX;
    const uint32_t late = past ? unwaited(g, j, w) : 0;
    if (!past && !(j->touched & bit))
        return false;
    if (j->released) {
        if (!late)
            j->rest = stamp;
        return !late;
    }
    j->covered = past ? ~late : bit;
    j->released = stamp;
    return past ? !late : j->touched == bit;
}

/* Sets written_back of interval number `first` and of all older ones in its workgroup's list. It
 * ends at a marked interval, since all older ones are marked then. */
static void mark_written(struct race_global *g, uint32_t first)
{
    struct interval *const all = g->shadow->intervals;
    for (uint32_t i = first; i && !atomic_load(&all[i].written_back); i = all[i].next_dirty)
        atomic_store(&all[i].written_back, true);
}

/* Ends the write-backs for which their waves have waited. */
static void end_flushes(struct race_global *g, const struct workgroup *wg)
{
    for (uint32_t left = g->flushing; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        if (wave_outstanding(wg->waves[i], g->flush[i].counter, g->flush[i].number))
            continue;
        mark_written(g, g->flush[i].first);
        g->flushing &= ~(UINT32_C(1) << i);
    }
}

/* Makes the wave's next access begin a new interval, since this release does not include it. */
uint64_t race_global_release(struct race_global *g, const struct wave *w)
{
    struct race_shadow *s = g->shadow;
    const uint32_t bit = UINT32_C(1) << w->id;
    uint64_t stamp = 0;
    end_flushes(g, w->wg);
    const bool early = (g->flushing & bit) != 0;
    for (uint32_t *at = &g->open; *at;) {
        struct interval *j = &s->intervals[*at];
        if (!stamp)
            stamp = atomic_fetch_add(&s->clock, 1) + 1;
        const bool ours = g->current == *at && j->touched & bit;
        if (release_interval(g, j, w, stamp)) {
            *at = j->next;
            g->nopen--;
        } else {
            at = &j->next;
        }
        if (early && j->released == stamp && atomic_load(&j->flushed))
            atomic_store(&j->early, true);
        if (ours)
            g->current = 0;
    }
    return stamp ? stamp : atomic_load(&s->clock);
}

void race_global_acquire(struct race_global *g, const struct wave *w)
{
    g->acquired[w->id] = atomic_load(&g->shadow->clock);
}

void race_global_barrier(struct race_global *g, const struct workgroup *wg)
{
    uint64_t latest = 0;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        latest = g->acquired[i] > latest ? g->acquired[i] : latest;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        g->acquired[i] = latest;
}

/* Returns the entry in which the stamps of releases at the address are recorded. Several addresses
 * may share an entry. */
static _Atomic uint64_t *location(struct race_global *g, uint64_t address)
{
    uint64_t hash = (address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    return &g->shadow->location[hash % LOCATIONS];
}

/* Raises the entries of the addresses of the lanes in `m` to at least `stamp`. */
static void release_at(struct race_global *g, const struct lane_mem *m, uint64_t stamp)
{
    unsigned l;
    FOR_LANES(l, m->lanes)
    {
        _Atomic uint64_t *at = location(g, m->addr[l]);
        uint64_t old = atomic_load(at);
        while (old < stamp && !atomic_compare_exchange_weak(at, &old, stamp))
            ;
    }
}

/* True if the accesses of `waves` in interval `id` are ordered before the accesses of the wave of
 * `t` from now on. `time` is clocks.now at these accesses. */
static bool ordered(const struct touch *t, uint32_t id, uint32_t waves, uint32_t time)
{
    const struct interval *j = &t->g->shadow->intervals[id & NUMBER];
    if (j->group == (uint32_t)t->w->wg->index) {
        waves &= ~t->bit;
        waves &= ~clocks_ordered(t->g->clocks, t->w->id, waves, time);
        if (!waves || j->epoch < (uint32_t)t->w->wg->barriers)
            return true;
    }
    uint64_t released = atomic_load(&j->released), rest = atomic_load(&j->rest);
    uint64_t acquired = t->g->acquired[t->w->id];
    return (released && released <= acquired && !(waves & ~j->covered)) ||
           (rest && rest <= acquired);
}

/* The functions from here on handle fences. */

void race_global_cache(struct race_global *g, const struct wave *w, const struct inst *in)
{
    if (!in->sc1)
        return;
    g->current = 0; /* later accesses belong to another interval */
    if (strcmp(in->row->name, "buffer_inv") == 0) {
        g->invalidations++;
        return;
    }
    if (!in->row->wait)
        return;
    struct interval *const all = g->shadow->intervals;
    const enum wait_counter counter = wave_counter(in, (enum wait_counter)(in->row->wait - 1));
    for (uint32_t i = g->dirty; i && !atomic_load(&all[i].flushed); i = all[i].next_dirty)
        atomic_store(&all[i].flushed, true);
    g->flush[w->id].first = g->dirty;
    g->flush[w->id].number = w->issued[counter];
    g->flush[w->id].counter = counter;
    g->flushing |= UINT32_C(1) << w->id;
}

/* True if the workgroup has loaded the cell before its present writer stored, and has not discarded
 * its cache lines since. */
static bool keeps_old(const struct touch *t, const struct cell *c)
{
    const struct interval *j = &t->g->shadow->intervals[c->reader & NUMBER];
    return c->read_before && !(c->reader & ATOMIC) && j->group == (uint32_t)t->w->wg->index &&
           j->invalidations == t->g->invalidations;
}

/* Returns the first thing that is missing between the cell's last store and the load `t`, which
 * atomics order after it: "buffer_wbl2", "wait for the buffer_wbl2" or "buffer_inv". Returns NULL
 * if nothing is missing, or if the workgroup of the load has stored itself. */
static const char *missing_fence(const struct touch *t, const struct cell *c)
{
    const struct interval *j = &t->g->shadow->intervals[c->writer & NUMBER];
    if (!t->fences || t->direction != MEM_READ || t->self & ATOMIC || c->quiet ||
        j->group == (uint32_t)t->w->wg->index)
        return NULL;
    if (!(c->writer & ATOMIC) && !atomic_load(&j->flushed))
        return "buffer_wbl2";
    if (!(c->writer & ATOMIC) && (atomic_load(&j->early) || !atomic_load(&j->written_back)))
        return "wait for the buffer_wbl2";
    return keeps_old(t, c) ? "buffer_inv" : NULL;
}

/* The functions from here on compare an access with a cell. */

/* Records an earlier access, in the interval `id`, that conflicts with the current one. Only the
 * first one is kept. */
static void note_other(struct touch *t, uint32_t id, uint32_t waves, uint32_t at, uint32_t readers,
                       bool wrote)
{
    const struct interval *j = &t->g->shadow->intervals[id & NUMBER];
    if (j->group == (uint32_t)t->w->wg->index)
        waves &= ~t->bit;
    if (t->named)
        return;
    t->named = true;
    t->other = (struct race_other){
        .group = j->group,
        .readers = readers,
        .wave = waves ? (uint8_t)__builtin_ctz(waves) : 0,
        .at = at,
        .wrote = wrote,
        .address = t->other.address,
        .lane = t->other.lane,
    };
}

/* True if the interval `id` belongs to the workgroup of the current access. */
static bool same_group(const struct touch *t, uint32_t id)
{
    return t->g->shadow->intervals[id & NUMBER].group == (uint32_t)t->w->wg->index;
}

/* True for conflicts that are no race: two atomics within their scope, or a value that a
 * compare-and-swap verifies. `id` is the interval of the other access, `at` its code offset;
 * `wrote`: it wrote. */
static bool is_no_race(const struct touch *t, uint32_t id, uint32_t at, bool wrote)
{
    if ((id & t->self & ATOMIC) ||
        (id & (ATOMIC | LOCAL) && t->self & (ATOMIC | LOCAL) && same_group(t, id)))
        return true;
    if (t->direction == MEM_READ)
        return id & ATOMIC && race_feeds_compare(t->w->launch, (uint32_t)t->in->offset);
    return !wrote && t->direction == MEM_MODIFY && race_feeds_compare(t->w->launch, at);
}

/* Returns the waves whose load is redundant, a bit each: another wave of their workgroup makes the
 * same load and stores to the location. 0: none. */
static uint32_t repeats(const struct touch *t, const struct cell *c)
{
    const bool loads = t->direction == MEM_READ;
    if (!c->reader || !same_group(t, c->reader) || !(c->readers & (loads ? c->writers : t->bit)))
        return 0;
    if (!loads)
        return c->readers & ~t->bit;
    return c->read_at == (uint32_t)t->in->offset && same_group(t, c->writer) ? t->bit : 0;
}

/* Returns the bytes of `mask` that race with accesses in the cell, or lack a fence. */
static uint16_t collide(struct touch *t, const struct cell *c, uint16_t mask)
{
    const bool harmless = t->direction == MEM_READ && c->quiet;
    const bool written = c->writer && c->written & mask;
    const bool in_order = written && ordered(t, c->writer, c->writers, c->write_time);
    if (in_order && (t->fence = missing_fence(t, c))) {
        note_other(t, c->writer, c->writers, c->write_at, 0, true);
        return c->written & mask;
    }
    if (written && !harmless && !in_order && !is_no_race(t, c->writer, c->write_at, true)) {
        const uint32_t readers = t->direction == MEM_READ ? repeats(t, c) : 0;
        note_other(t, c->writer, c->writers, c->write_at, readers, true);
        return c->written & mask;
    }
    if (t->direction == MEM_READ || !(c->read & mask))
        return 0;
    if (c->reader && !ordered(t, c->reader, c->readers, c->read_time) &&
        !is_no_race(t, c->reader, c->read_at, false)) {
        note_other(t, c->reader, c->readers, c->read_at, repeats(t, c), false);
        return c->read & mask;
    }
    if (c->other && !ordered(t, c->other, 0, 0) && !is_no_race(t, c->other, c->read_at, false)) {
        note_other(t, c->other, 0, c->read_at, 0, false);
        return c->read & mask;
    }
    return 0;
}

/* Records a read of the bytes `mask`. False if the cell must be split first, since it would include
 * bytes that were not read. */
static bool note_read(const struct touch *t, struct cell *c, uint16_t mask)
{
    const bool mine = c->reader == t->self && c->readers == t->bit && !c->other;
    if (c->reader && !mine && c->read != mask)
        return false;
    c->read |= mask;
    c->read_at = (uint32_t)t->in->offset & CODE_OFFSET;
    c->read_before = false;
    if (mine || c->reader != t->self)
        c->read_time = t->g->clocks->now;
    if (c->reader == t->self) {
        c->readers |= t->bit;
        return true;
    }
    if (c->reader && !same_group(t, c->reader))
        c->other = c->reader;
    c->reader = t->self;
    c->readers = t->bit;
    return true;
}

/* Records a store to the bytes of `mask` in the cell. False if the cell cannot hold both this store
 * and an earlier one. */
static bool note_write(const struct touch *t, struct cell *c, uint16_t mask)
{
    const bool mine = c->writer == t->self && c->writers == t->bit;
    if (c->writer && !mine && c->written & ~mask)
        return false;
    const bool shared = !mine && c->writer == t->self && c->written == mask;
    if (!shared)
        c->write_time = t->g->clocks->now;
    c->writers = shared ? c->writers | t->bit : t->bit;
    c->writer = t->self;
    c->written |= mask;
    c->read_before = c->reader != 0;
    c->write_at = (uint32_t)t->in->offset & INT32_MAX;
    c->quiet = false;
    return true;
}

/* Saves the old bytes of a store that may write back the value that was read. */
static void note_repeat(struct touch *t, struct cell *c, uint16_t mask)
{
    struct race_global *g = t->g;
    if (!c->reader || (c->writer && !c->quiet) || g->nrepeats == WAVE_LANES)
        return;
    collision_keep(&g->repeats[g->nrepeats], &t->other, t->other.address, mask);
    g->repeated[g->nrepeats++] = c;
}

/* Checks and records an access to the bytes `mask` of a cell, which has `bytes` bytes. Splits the
 * cell if needed. */
static void touch(struct touch *t, struct cell *c, unsigned bytes, uint16_t mask)
{
    if (!c->split) {
        uint16_t bad = collide(t, c, mask);
        if (bytes == RACE_GRANULE && t->direction == MEM_WRITE)
            note_repeat(t, c, mask);
        bool fits = t->direction == MEM_READ ? note_read(t, c, mask) : note_write(t, c, mask);
        t->bad |= bad;
        if (fits || !race_shadow_split(t->g->shadow, c, bytes))
            return;
    }
    if (c->parts == LOST)
        return;
    const unsigned part = bytes / 4;
    uint16_t bad = t->bad;
    for (unsigned i = 0; i < 4; i++) {
        uint16_t sub = mask >> i * part & ((1u << part) - 1);
        if (!sub)
            continue;
        t->bad = 0;
        touch(t, &t->g->shadow->splits[c->parts][i], part, sub);
        bad |= (uint16_t)(t->bad << i * part);
    }
    t->bad = bad;
}

/* The functions from here on note accesses. */

/* Locks the page of the granule with index `granule`, and returns its cells. NULL if the page is
 * not recorded. */
static struct cell *enter_page(struct touch *t, uint64_t granule)
{
    struct race_global *g = t->g;
    uint32_t page = page_of(g, granule);
    t->page = granule / PAGE;
    t->cells = NULL;
    if (page >= PAGES_MAX)
        return NULL;
    unsigned stripe = page % STRIPES;
    if (!(g->held >> stripe & 1)) {
        /* only stores have several locks, and they already have all that they need */
        unlock_all(g);
        lock(g, stripe);
    }
    return t->cells = race_shadow_cells(g->shadow, page);
}

/* Records the access if nobody else has used the granule, or all have read the same bytes. False
 * otherwise, with nothing recorded. */
static inline bool touch_quick(const struct touch *t, struct cell *c, uint16_t mask)
{
    if (c->split || c->writer || (c->reader && (c->reader != t->self || c->read != mask)))
        return false;
    if (t->direction == MEM_READ) {
        if (!(c->readers & ~t->bit))
            c->read_time = t->g->clocks->now;
        c->reader = t->self;
        c->readers |= t->bit;
        c->read = mask;
        c->read_at = (uint32_t)t->in->offset & CODE_OFFSET;
        return true;
    }
    if (c->reader)
        return false;
    c->writer = t->self;
    c->writers = t->bit;
    c->written = mask;
    c->write_at = (uint32_t)t->in->offset & INT32_MAX;
    c->write_time = t->g->clocks->now;
    return true;
}

/* Checks and records the bytes `mask` of the granule with index `granule`; `lane` accesses the
 * first of them. False if a report stops the wave. */
static bool touch_granule(struct touch *t, uint64_t granule, uint16_t mask, unsigned lane)
{
    struct cell *c = granule / PAGE == t->page ? t->cells : enter_page(t, granule);
    if (!c)
        return true;
    c += granule % PAGE / RACE_GRANULE;
    if (touch_quick(t, c, mask))
        return true;
    t->bad = 0;
    t->named = false;
    t->fence = NULL;
    t->other.address = granule;
    t->other.lane = (uint8_t)lane;
    touch(t, c, RACE_GRANULE, mask);
    if (!t->bad)
        return true;
    t->other.address = granule + (unsigned)__builtin_ctz(t->bad);
    if (t->direction == MEM_WRITE) {
        if (t->g->ncollisions < COLLISIONS_MAX)
            collision_keep(&t->g->collisions[t->g->ncollisions++], &t->other, granule, t->bad);
        return true;
    }
    unlock_all(t->g);
    t->page = UINT64_MAX;
    if (t->fence)
        return race_fence_report(t->w, t->in, &t->other, t->fence);
    return race_spare_report(t->g->spare, t->w, t->in, &t->other, t->direction);
}

/* Returns the mask of the bytes of a granule that the range from `first` up to `end` covers. */
static uint16_t byte_mask(uint64_t first, uint64_t end, uint64_t granule)
{
    unsigned from = first > granule ? (unsigned)(first - granule) : 0;
    unsigned to = end - granule < RACE_GRANULE ? (unsigned)(end - granule) : RACE_GRANULE;
    return (uint16_t)((1u << to) - (1u << from));
}

/* Checks and records the granules of an access, neighbouring lanes in the same granule together.
 * False if a report stops the wave. */
static bool touch_lanes(struct touch *t, const struct lane_mem *m, unsigned bytes)
{
    uint64_t granule = 0;
    uint16_t mask = 0;
    unsigned l, lane = 0;
    FOR_LANES(l, m->lanes)
    {
        const uint64_t first = m->addr[l], end = first + bytes;
        for (uint64_t at = first & ~(uint64_t)(RACE_GRANULE - 1); at < end; at += RACE_GRANULE) {
            if (at == granule) {
                mask |= byte_mask(first, end, at);
                continue;
            }
            if (mask && !touch_granule(t, granule, mask, lane))
                return false;
            granule = at;
            mask = byte_mask(first, end, at);
            lane = l;
        }
    }
    return !mask || touch_granule(t, granule, mask, lane);
}

/*
 * Locks all stripes that a store needs, in ascending order to avoid deadlock. They stay locked
 * until the data are in memory, so that earlier stores of other waves can be compared.
 */
static void lock_lanes(struct race_global *g, const struct lane_mem *m, unsigned bytes)
{
    uint64_t stripes = 0, last = UINT64_MAX;
    unsigned l;
    FOR_LANES(l, m->lanes)
    {
        for (uint64_t at = m->addr[l] / PAGE; at <= (m->addr[l] + bytes - 1) / PAGE; at++) {
            if (at == last)
                continue;
            last = at;
            uint32_t page = page_of(g, at * PAGE);
            if (page < PAGES_MAX)
                stripes |= UINT64_C(1) << page % STRIPES;
        }
    }
    for (; stripes; stripes &= stripes - 1)
        lock(g, (unsigned)__builtin_ctzll(stripes));
}

bool race_global_access(struct race_global *g, struct wave *w, const struct inst *in,
                        const struct lane_mem *m, unsigned bytes, enum mem_direction direction)
{
    const bool coherent = in->sc1 || (in->row->flags & ROW_SMEM && in->sc0);
    const bool atomic = direction == MEM_MODIFY || coherent;
    struct race_other late;
    unsigned l;
    if (!atomic && direction == MEM_READ && stores_meet(&g->stores, w, m, bytes, &late) &&
        !race_report(w, in, &late, direction))
        return false;
    if (atomic_load_explicit(&g->shadow->full, memory_order_relaxed))
        return true;
    if (g->held) /* an earlier part of an instruction that stores in several parts has them
                    locked */
        race_global_settle(g, w, in);
    if (atomic && direction & MEM_WRITE)
        release_at(g, m, race_global_release(g, w));
    if (atomic && (direction == MEM_READ || in->dst.kind != OPND_NONE)) {
        assert(g->nacquire + (unsigned)__builtin_popcountll(m->lanes) <= ACQUIRES_MAX);
        FOR_LANES(l, m->lanes)
        g->acquire[g->nacquire++] = m->addr[l];
        w->wg->unsettled = true;
    }
    struct touch t = {
        .g = g,
        .w = w,
        .in = in,
        .direction = direction,
        .bit = UINT32_C(1) << w->id,
        .self = touch_interval(g, w),
        .page = UINT64_MAX,
        .fences = (w->launch->checks & CHECK_FENCE) != 0,
    };
    if (!t.self)
        return true;
    t.self |= atomic ? ATOMIC : in->sc0 ? LOCAL : 0;
    if (in->counter[0] == WAIT_STORE && !stores_add(&g->stores, w, in, m, bytes))
        atomic_store(&g->shadow->left_out, true);
    if (direction == MEM_WRITE) {
        lock_lanes(g, m, bytes);
        w->wg->unsettled = true;
    }
    bool ok = touch_lanes(&t, m, bytes);
    if (direction != MEM_WRITE)
        unlock_all(g);
    return ok;
}

void race_global_settle(struct race_global *g, struct wave *w, const struct inst *in)
{
    unsigned n = 0;
    for (unsigned i = 0; i < g->ncollisions; i++)
        if (collision_changed(&g->collisions[i]))
            g->collisions[n++] = g->collisions[i];
    g->ncollisions = 0;
    for (unsigned i = 0; i < g->nrepeats; i++)
        g->repeated[i]->quiet =
            g->repeated[i]->written == g->repeats[i].mask && !collision_changed(&g->repeats[i]);
    g->nrepeats = 0;
    unlock_all(g);
    for (unsigned i = 0; i < n && w->state != WAVE_FAULTED; i++)
        race_spare_report(g->spare, w, in, &g->collisions[i].other, MEM_WRITE);
    for (unsigned i = 0; i < g->nacquire; i++) {
        uint64_t stamp = atomic_load(location(g, g->acquire[i]));
        g->acquired[w->id] = stamp > g->acquired[w->id] ? stamp : g->acquired[w->id];
    }
    g->nacquire = 0;
}
