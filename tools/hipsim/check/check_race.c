/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check for LDS, and parts that the check of global memory uses too.
 *
 * LDS has a cell per dword: its writers and readers since the last barrier. A cell has its epoch,
 * the number of barriers, which is never reset, not even for another workgroup. A cell with an old
 * epoch counts as empty, so cells are never cleared. Reads are entered in the cells only when a
 * store needs them (check_race_reads.h).
 */
#include "check_race.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_race_clocks.h"
#include "check_race_later.h"
#include "check_race_reads.h"
#include "decode.h"
#include "memory.h"

#define WHOLE 0xf /* mask of all bytes of a dword */
#define CONFLICTS_MAX (WAVE_LANES * 8)
#define POLLS_KEPT 16u /* number of loads for which the result of race_polls() is cached */

/* Properties of a dword's accesses since the last barrier. */
enum site_flags {
    SITE_ATOMIC = 1 << 0,      /* only atomics have written the dword */
    SITE_MIXED = 1 << 1,       /* several waves access parts of the dword: the check ignores it */
    SITE_DS = 1 << 2,          /* the last write was an LDS instruction, see `seq` */
    SITE_READ_ATOMIC = 1 << 3, /* only atomics have read the dword */
    /* write_time is set; if not, the write was before the first release */
    SITE_WRITE_TIME = 1 << 4,
    SITE_READ_TIME = 1 << 5,
};

/* Part of a dword's record that every access uses. */
struct cell {
    /* Number of barriers before the accesses; the cell counts as empty if that is not the current
     * number. */
    uint32_t epoch;
    union {
        struct {
            uint8_t written, read; /* masks of the bytes of the dword */
            uint8_t last;          /* index of the last wave that wrote */
            uint8_t flags;
        };
        uint32_t uses; /* these four members as one word; the host is little-endian */
    };
    union {
        struct {
            uint32_t writers, readers; /* waves, a bit each; all writers wrote the same bytes */
        };
        uint64_t waves; /* these two as one word */
    };
};

/* First bits of members in cell.uses and cell.waves; the first member begins at bit 0. */
enum { USES_READ = 8, USES_LAST = 16, USES_FLAGS = 24, WAVES_READERS = 32 };

/* Part of a dword's record for reports, and for reads after the next barrier. */
struct site {
    uint32_t write_at; /* code offset of the last write */
    uint32_t seq;      /* number of that write among the wave's LGKM operations */
};

/* Part of a dword's record for atomic swaps, and for accesses after a release of a wave. */
struct order {
    /* values of clocks.now at the write and at the read; the earliest if several waves did */
    uint32_t write_time, read_time;
    /* epoch of `swappers`, the waves that have swapped the value by an atomic, a bit each */
    uint32_t swap_epoch;
    uint32_t swappers;
};

/* A store to bytes that another wave uses. It is a race if it changes them. */
struct conflict {
    struct race_other other;
    /* Host address of the dword. */
    const uint8_t *p;
    /* The dword before the store, and the mask of the bits that the store writes. */
    uint32_t old, mask;
};

/* The race check's state of a host thread, for one workgroup after the other. */
struct race {
    uint32_t base;   /* epoch in which the workgroup began */
    uint32_t newest; /* largest epoch so far */
    /* Records by LDS dword. */
    struct cell *cells;
    struct site *sites;
    struct order *orders;
    uint32_t *read_at; /* code offset of the last read, by LDS dword */
    struct race_global *global;
    struct race_clocks clocks;
    struct race_spare spare;
    struct {
        uint32_t offset; /* code offset + 1; 0: empty */
        /* True: race_polls() is true for the load. */
        bool polls;
    } loads[POLLS_KEPT];
    unsigned nconflicts;
    struct conflict conflicts[CONFLICTS_MAX];
    struct race_reads reads; /* last, since create() does not clear its list, which is long */
};

/* One dword of a lane's access. */
struct probe {
    struct wave *w;
    const struct inst *in;
    struct race *race;
    uint64_t address; /* address of the dword */
    /* Host address of the dword. */
    const uint8_t *p;
    uint32_t epoch;
    uint32_t self;     /* bit of the wave in masks */
    uint32_t *read_at; /* entry of the dword in race.read_at */
    uint8_t lane;
    uint8_t mask; /* mask of the accessed bytes */
    enum mem_direction direction;
    bool atomic;
    bool swap;    /* true: an exchange or compare-and-swap, as locks use */
    bool pending; /* true: another wave has LGKM operations in flight */
};

/* Frees the state of the check. */
static void destroy(void *state)
{
    struct race *r = state;
    free(r->cells);
    free(r->sites);
    free(r->orders);
    free(r->read_at);
    race_global_destroy(r->global);
    free(r);
}

/* Allocates the state of the check for one worker. `shadow` is the launch's state for global
 * memory. NULL: no memory. */
static void *create(const struct launch *l, void *shadow)
{
    const size_t dwords = l->lds_bytes / 4 + 2;
    struct race *r = malloc(sizeof(*r));
    if (!r)
        return NULL;
    memset(r, 0, offsetof(struct race, reads.kept));
    r->cells = calloc(dwords, sizeof(*r->cells));
    r->sites = calloc(dwords, sizeof(*r->sites));
    r->orders = calloc(dwords, sizeof(*r->orders));
    r->read_at = calloc(dwords, sizeof(*r->read_at));
    reads_create(&r->reads, l->lds_bytes);
    r->global = race_global_create(shadow, &r->clocks, &r->spare);
    if (r->cells && r->sites && r->orders && r->read_at && r->global)
        return r;
    destroy(r);
    return NULL;
}

/* Prepares the state for the workgroup `wg`. */
static void begin(void *state, const struct workgroup *wg)
{
    struct race *r = state;
    r->base = ++r->newest;
    r->nconflicts = 0;
    race_spare_begin(&r->spare);
    reads_begin(&r->reads);
    clocks_begin(&r->clocks, wg->nwaves);
    race_global_begin(r->global);
}

/* Records for global memory that the waves of the workgroup have passed a barrier. */
static void barrier(void *state, struct workgroup *wg)
{
    race_global_barrier(((struct race *)state)->global, wg);
}

/* Records a cache instruction for global memory. */
static void cache(void *state, struct wave *w, const struct inst *in)
{
    race_global_cache(((struct race *)state)->global, w, in);
}

/* Records that the wave releases its accesses when it arrives at a barrier of the grid. */
static void grid_arrive(void *state, struct wave *w)
{
    race_global_release(((struct race *)state)->global, w);
}

/* Records that the wave acquires the accesses of others when it passes a barrier of the grid. */
static void grid_pass(void *state, struct wave *w)
{
    race_global_acquire(((struct race *)state)->global, w);
}

/* Writes the name of workgroup `index` to `text`, of `size` bytes; nothing if it is `wg`. */
static void name_group(const struct workgroup *wg, uint64_t index, char *text, size_t size)
{
    const struct launch *l = wg->launch;
    uint64_t id[3];
    for (unsigned d = 0; d < 3; d++) {
        uint64_t groups = ((uint64_t)l->grid[d] + l->block[d] - 1) / l->block[d];
        id[d] = index % groups;
        index /= groups;
    }
    snprintf(text, size, " of workgroup (%llu, %llu, %llu)", (unsigned long long)id[0],
             (unsigned long long)id[1], (unsigned long long)id[2]);
}

bool race_report(struct wave *w, const struct inst *in, const struct race_other *o,
                 enum mem_direction direction)
{
    static const char *const names[] = {
        [MEM_READ] = "load", [MEM_WRITE] = "store", [MEM_MODIFY] = "atomic access"};
    const struct launch *l = w->launch;
    const bool apart = o->group != w->wg->index;
    char text[160], group[80] = "", near[256] = "";
    long long at = (long long)(o->at + code_address(l->code) - l->entry_pc);
    if (apart)
        name_group(w->wg, o->group, group, sizeof(group));
    if (!o->lds)
        hipsim_mem_describe(o->address, 1, near, sizeof(near));
    return wave_finding(
        w, in, FAULT_RACE, UINT64_C(1) << o->lane,
        "%s at %s 0x%llx, which wave %u%s %s at entry%+lld (%s) %s; the kernel relies on "
        "the order of its %s%s%s",
        names[direction], o->lds ? "LDS offset" : "address", (unsigned long long)o->address,
        o->wave, group, o->wrote ? "writes" : "reads", at,
        code_text(l->code, o->at, text, sizeof(text)),
        o->unwaited ? "without having waited for it before s_barrier"
        : apart     ? "with nothing in between that orders them"
                    : "with no barrier in between",
        apart ? "workgroups" : "waves", o->lds ? "" : "; the address is ", near);
}

bool race_fence_report(struct wave *w, const struct inst *in, const struct race_other *o,
                       const char *missing)
{
    const struct launch *l = w->launch;
    const bool stores = strcmp(missing, "buffer_inv") != 0;
    char text[160], group[80] = "", near[256] = "";
    name_group(w->wg, o->group, group, sizeof(group));
    hipsim_mem_describe(o->address, 1, near, sizeof(near));
    return wave_finding(
        w, in, FAULT_FENCE, UINT64_C(1) << o->lane,
        "load at address 0x%llx, which wave %u%s stores at entry%+lld (%s): %s no %s with sc1 %s, "
        "so that another XCD may have old bytes; the address is %s",
        (unsigned long long)o->address, o->wave, group,
        (long long)(o->at + code_address(l->code) - l->entry_pc),
        code_text(l->code, o->at, text, sizeof(text)), stores ? "there is" : "the workgroup has",
        missing, stores ? "after the store" : "since it loaded them before", near);
}

/* Returns the earlier access that conflicts with `a`. `writers` and `readers` are masks of the
 * other waves that stored and loaded. */
static struct race_other other_of(const struct probe *a, const struct cell *c, const struct site *s,
                                  uint32_t writers, uint32_t readers)
{
    bool wrote = writers != 0;
    uint32_t others = wrote ? writers : readers;
    unsigned last = others >> c->last & 1 ? c->last : (unsigned)__builtin_ctz(others);
    return (struct race_other){
        .address = a->address,
        .group = a->w->wg->index,
        .lane = a->lane,
        .lds = true,
        .wave = (uint8_t)(wrote ? last : (unsigned)__builtin_ctz(others)),
        .wrote = wrote,
        .at = wrote ? s->write_at : *a->read_at,
    };
}

/* True if the last write of the dword is still in flight. Another wave made it before the
 * barrier. */
static inline bool outstanding(const struct probe *a, const struct cell *c, const struct site *s)
{
    if (c->epoch < a->race->base || !(c->flags & SITE_DS) || c->writers & a->self || !c->writers ||
        !(c->written & a->mask))
        return false;
    const struct wave *writer = a->w->wg->waves[c->last];
    if (!writer->npending[WAIT_LGKM] ||
        (int32_t)(s->seq - writer->pending[WAIT_LGKM][0].number) < 0)
        return false; /* its oldest operation in flight is newer than the write */
    return writer->state != WAVE_ENDED && wave_outstanding(writer, WAIT_LGKM, s->seq);
}

/* Returns the dword's record of times and swaps. */
static inline struct order *order_of(const struct probe *a)
{
    return &a->race->orders[a->address / 4];
}

/* Returns the clock of the last store to the dword; if none is recorded, the clock at which the
 * workgroup began. */
static uint32_t write_time(const struct probe *a, const struct cell *c)
{
    return c->flags & SITE_WRITE_TIME ? order_of(a)->write_time : a->race->clocks.base;
}

/* Returns the clock of the last load of the dword; if none is recorded, the clock at which the
 * workgroup began. */
static uint32_t read_time(const struct probe *a, const struct cell *c)
{
    return c->flags & SITE_READ_TIME ? order_of(a)->read_time : a->race->clocks.base;
}

/* Records the load `a` in the dword's cell. */
static void note_read(const struct probe *a, struct cell *c)
{
    if (clocks_run(&a->race->clocks) && !(c->readers & ~a->self)) {
        order_of(a)->read_time = a->race->clocks.now;
        c->flags |= SITE_READ_TIME;
    }
    if (!c->readers && a->atomic)
        c->flags |= SITE_READ_ATOMIC;
    else if (!a->atomic)
        c->flags &= (uint8_t)~SITE_READ_ATOMIC;
    c->readers |= a->self;
    c->read |= a->mask;
    *a->read_at = (uint32_t)a->in->offset;
}

/* True for the release of a lock: a plain store to a dword that only atomics have written, this
 * wave's swap among them. */
static bool releases_lock(const struct probe *a, const struct cell *c)
{
    return a->direction == MEM_WRITE && c->flags & SITE_ATOMIC &&
           order_of(a)->swap_epoch == a->epoch && order_of(a)->swappers & a->self;
}

/* Records an access in its cell. `shared`: another wave has used the cell in this epoch. True if
 * the access releases a lock. */
static bool note(const struct probe *a, struct cell *c, struct site *s, bool shared)
{
    const struct race_clocks *k = &a->race->clocks;
    if (a->direction == MEM_READ) {
        note_read(a, c);
        return false;
    }
    const bool released = releases_lock(a, c);
    const bool atomic = released || (a->atomic && (!c->writers || c->flags & SITE_ATOMIC));
    const bool ds = a->in->row->flags & ROW_LDS;
    const uint8_t kept =
        SITE_MIXED | SITE_READ_ATOMIC | SITE_READ_TIME | (shared ? SITE_WRITE_TIME : 0);
    c->flags = (uint8_t)((c->flags & kept) | (atomic ? SITE_ATOMIC : 0) | (ds ? SITE_DS : 0));
    if (a->swap) {
        struct order *o = order_of(a);
        o->swappers = (o->swap_epoch == a->epoch ? o->swappers : 0) | a->self;
        o->swap_epoch = a->epoch;
    }
    if (clocks_run(k) && !(shared && c->writers & ~a->self)) {
        order_of(a)->write_time = k->now;
        c->flags |= SITE_WRITE_TIME;
    }
    c->writers = shared ? c->writers | a->self : a->self;
    c->written |= a->mask;
    s->write_at = (uint32_t)a->in->offset;
    c->last = (uint8_t)a->w->id;
    s->seq = a->w->issued[WAIT_LGKM];
    return released;
}

/* Returns race_polls() of the load at code offset `offset`. Caches it, since it is slow. */
static bool polls(const struct probe *a, uint32_t offset)
{
    const unsigned i = offset / 4 % POLLS_KEPT;
    if (a->race->loads[i].offset != offset + 1) {
        a->race->loads[i].offset = offset + 1;
        a->race->loads[i].polls = race_polls(a->w->launch, offset);
    }
    return a->race->loads[i].polls;
}

/* True if the plain store releases a lock, or sets a flag that other waves poll. */
static bool sets_flag(const struct probe *a, const struct cell *c, uint32_t readers)
{
    return a->direction == MEM_WRITE && !a->atomic &&
           (releases_lock(a, c) || (readers && polls(a, *a->read_at)));
}

/* Releases the accesses that the wave made before its store `a`, if that store sets a flag
 * (`raised`). */
static void release_by_flag(const struct probe *a, bool raised)
{
    if (!raised)
        return;
    clocks_release(&a->race->clocks, a->w->id);
    clocks_leave(&a->race->clocks, a->w->id, a->address);
}

/*
 * True for conflicts that a program intends. Polling reads a value that another wave stores, which
 * orders later accesses. A compare-and-swap detects the conflict itself. sets_flag() has plain
 * stores.
 */
static bool is_intended(const struct probe *a, const struct cell *c, uint32_t writers)
{
    const uint32_t at = (uint32_t)a->in->offset;
    if (a->direction == MEM_READ) {
        if (a->atomic && c->flags & SITE_ATOMIC)
            return true;
        if (!polls(a, at))
            return c->flags & SITE_ATOMIC && race_feeds_compare(a->w->launch, at);
        clocks_acquire(&a->race->clocks, a->w->id, a->address);
        for (uint32_t left = c->flags & SITE_ATOMIC ? 0 : writers; left; left &= left - 1)
            clocks_follow(&a->race->clocks, a->w->id, (unsigned)__builtin_ctz(left),
                          write_time(a, c));
        return true;
    }
    return !writers && a->atomic &&
           (c->flags & SITE_READ_ATOMIC || polls(a, *a->read_at) ||
            race_feeds_compare(a->w->launch, *a->read_at));
}

/* Removes from *writers and *readers the waves whose accesses are ordered before this one. If it is
 * a store, removes them from the cell too. */
static void settle_order(const struct probe *a, struct cell *c, uint32_t *writers,
                         uint32_t *readers)
{
    const struct race_clocks *k = &a->race->clocks;
    *writers &= ~clocks_ordered(k, a->w->id, *writers, write_time(a, c));
    *readers &= ~clocks_ordered(k, a->w->id, *readers, read_time(a, c));
    if (a->direction == MEM_READ)
        return;
    c->writers &= *writers | a->self;
    c->readers &= *readers | a->self;
    if (!c->writers)
        c->written = 0;
    if (!c->readers)
        c->read = 0;
}

/* Checks and records an access to one dword. False if a report stops the wave. */
static bool touch(const struct probe *a, struct cell *c, struct site *s)
{
    if (c->epoch != a->epoch) {
        if (a->direction != MEM_WRITE && outstanding(a, c, s)) {
            struct race_other other = other_of(a, c, s, c->writers, 0);
            other.unwaited = true;
            if (!race_report(a->w, a->in, &other, a->direction))
                return false;
        }
        *c = (struct cell){.epoch = a->epoch};
    }
    if (!((c->writers | c->readers) & ~a->self)) {
        release_by_flag(a, note(a, c, s, false));
        return true;
    }
    uint32_t writers = c->writers & ~a->self, readers = c->readers & ~a->self;
    if (clocks_run(&a->race->clocks))
        settle_order(a, c, &writers, &readers);
    bool partial =
        a->mask != WHOLE || (c->writers && c->written != WHOLE) || (c->readers && c->read != WHOLE);
    bool others = writers || readers;
    if (!(c->written & a->mask) || (a->atomic && c->flags & SITE_ATOMIC) ||
        (a->direction == MEM_READ && c->writers & a->self && !(c->flags & SITE_ATOMIC)))
        writers = 0;
    if (!(c->read & a->mask) || a->direction == MEM_READ)
        readers = 0;
    const bool flag = sets_flag(a, c, readers);
    if (c->flags & SITE_MIXED) {
        writers = readers = 0;
    } else if ((writers || readers) && !flag && !is_intended(a, c, writers)) {
        struct conflict f = {.other = other_of(a, c, s, writers, readers), .p = a->p};
        struct race *r = a->race;
        if (a->direction != MEM_WRITE) {
            if (!race_report(a->w, a->in, &f.other, a->direction))
                return false;
        } else if (r->nconflicts < CONFLICTS_MAX) {
            f.old = mem_get32(a->p);
            for (unsigned i = 0; i < 4; i++)
                f.mask |= a->mask >> i & 1 ? 0xffu << 8 * i : 0;
            r->conflicts[r->nconflicts++] = f;
            a->w->wg->unsettled = true;
        }
    } else if (others && partial) {
        c->flags |= SITE_MIXED;
    }
    release_by_flag(a, note(a, c, s, others) || flag);
    return true;
}

/* Checks and records all dwords of a lane's access, of `bytes` bytes from LDS byte `first` on. `p`
 * is the host address. False if a report stops the wave. */
static bool touch_lane(struct probe *a, uint64_t first, const uint8_t *p, unsigned bytes)
{
    struct race *r = a->race;
    uint64_t end = first + bytes;
    for (uint64_t at = first & ~UINT64_C(3); at < end; at += 4) {
        unsigned from = at < first ? (unsigned)(first - at) : 0;
        unsigned to = end - at < 4 ? (unsigned)(end - at) : 4;
        a->address = at;
        a->p = at < first ? p - (first - at) : p + (at - first);
        a->mask = (uint8_t)(WHOLE >> (4 - (to - from)) << from);
        a->read_at = &r->read_at[at / 4];
        if (!touch(a, &r->cells[at / 4], &r->sites[at / 4]))
            return false;
    }
    return true;
}

/* A cell as a vector of the host: epoch, uses, writers, readers. */
typedef uint32_t cell_words __attribute__((vector_size(sizeof(struct cell))));

/* Masks with which a repeated read updates a cell of its own epoch that no wave has written. */
struct again {
    cell_words want, test; /* a cell qualifies if it equals `want` in the bits of `test` */
    cell_words kept, use;  /* bits of the cell that stay; bits that the read sets */
    uint32_t at;           /* code offset of the read */
};

/* Returns the masks for a read by the wave of probe `a`. */
static struct again again_of(const struct probe *a)
{
    const uint32_t flags = (uint32_t)(uint8_t)~SITE_READ_ATOMIC << USES_FLAGS;
    return (struct again){
        .want = {a->epoch},
        .test = {UINT32_MAX, 0, UINT32_MAX, 0},
        .kept = {UINT32_MAX, flags, 0, UINT32_MAX},
        .use = {0, (uint32_t)WHOLE << USES_READ, 0, a->self},
        .at = (uint32_t)a->in->offset,
    };
}

/* Records a read of `n` dwords that were read and not written since the barrier, for launches
 * without the timing model. False, with nothing recorded, if they are not all so. */
static inline bool read_again(struct cell *cells, uint32_t *read_at, unsigned n,
                              const struct again *g)
{
    cell_words differs = {0}, c;
    uint64_t halves[2];
    for (unsigned i = 0; i < n; i++) {
        memcpy(&c, &cells[i], sizeof(c));
        differs |= (c ^ g->want) & g->test;
    }
    memcpy(halves, &differs, sizeof(halves));
    if (halves[0] | halves[1])
        return false;
    for (unsigned i = 0; i < n; i++) {
        memcpy(&c, &cells[i], sizeof(c));
        c = (c & g->kept) | g->use;
        memcpy(&cells[i], &c, sizeof(c));
        read_at[i] = g->at;
    }
    return true;
}

/* Records a read of whole LDS dwords. Since the barrier no other wave may have written them, nor
 * read dwords that this wave has written. False if that is not so. */
static bool read_plain(struct race *r, const struct probe *a, uint64_t first, unsigned bytes)
{
    if ((first | bytes) & 3)
        return false;
    const uint32_t kept = ~((uint32_t)SITE_READ_ATOMIC << USES_FLAGS);
    const uint32_t use = (uint32_t)WHOLE << USES_READ;
    const uint32_t timed = (uint32_t)clocks_run(&r->clocks) * SITE_READ_TIME << USES_FLAGS;
    for (uint64_t i = first / 4; i < (first + bytes) / 4; i++) {
        struct cell *c = &r->cells[i];
        const bool same = c->epoch == a->epoch;
        if (same ? c->writers && (c->writers | c->readers) & ~a->self
                 : a->pending && outstanding(a, c, &r->sites[i]))
            return false;
        if (!same)
            *c = (struct cell){.epoch = a->epoch};
        c->uses &= kept;
        if (timed && !(c->readers & ~a->self)) {
            r->orders[i].read_time = r->clocks.now;
            c->uses |= timed;
        }
        c->uses |= use;
        c->readers |= a->self;
        r->read_at[i] = (uint32_t)a->in->offset;
    }
    return true;
}

/* Values that write_plain() needs for a store; the same for all lanes. */
struct plain_store {
    uint32_t epoch, at, seq; /* values of cell.epoch, site.write_at and site.seq */
    bool timed;              /* true: order.write_time gets the time of the store */
    uint64_t foreign;        /* bits of cell.waves that must be 0 */
    uint32_t self;           /* bit of the wave in masks */
    uint32_t kept;           /* bits of cell.uses that stay */
    /* bits of cell.uses that the store sets, without the mask of written bytes */
    uint32_t use;
};

/* Returns the values for the store of probe `a`. */
static struct plain_store plain_store_of(const struct race *r, const struct probe *a)
{
    const uint64_t others = ~a->self;
    const bool timed = clocks_run(&r->clocks);
    const unsigned flags =
        (a->in->row->flags & ROW_LDS ? SITE_DS : 0u) | (timed ? SITE_WRITE_TIME : 0u);
    return (struct plain_store){
        .epoch = a->epoch,
        .at = (uint32_t)a->in->offset,
        .seq = a->w->issued[WAIT_LGKM],
        .timed = timed,
        .foreign = others | others << WAVES_READERS,
        .self = a->self,
        .kept = 0xffff | (uint32_t)(SITE_MIXED | SITE_READ_ATOMIC | SITE_READ_TIME) << USES_FLAGS,
        .use = a->w->id << USES_LAST | flags << USES_FLAGS,
    };
}

/* Records a store to LDS dwords, or to a part of one, that no other wave has used since the
 * barrier. False, with nothing recorded, if that is not so. */
static inline bool write_plain(struct race *r, const struct plain_store *p, uint64_t first,
                               unsigned bytes)
{
    const unsigned from = first & 3, parts = bytes < 4 ? (1u << bytes) - 1 : WHOLE;
    if (bytes < 4 ? from + bytes > 4 : (first | bytes) & 3)
        return false;
    const uint32_t use = p->use | parts << from;
    struct cell *c = &r->cells[first / 4];
    struct site *s = &r->sites[first / 4];
    for (unsigned left = (from + bytes + 3) / 4; left; left--, c++, s++) {
        const bool same = c->epoch == p->epoch;
        const uint64_t waves = same ? c->waves : 0;
        const uint32_t uses = same ? c->uses : 0;
        if (waves & p->foreign || uses & (uint32_t)SITE_ATOMIC << USES_FLAGS)
            return false;
        c->uses = (uses & p->kept) | use;
        c->waves = waves | p->self;
        c->epoch = p->epoch;
        s->write_at = p->at;
        s->seq = p->seq;
        if (p->timed)
            r->orders[s - r->sites].write_time = r->clocks.now;
    }
    return true;
}

/* Enters a kept read of the current epoch in the cells. No store has accessed its dwords. */
static void enter_read(struct race *r, const struct kept_read *k)
{
    const uint32_t kept = (uint32_t)(uint8_t)~SITE_READ_ATOMIC << USES_FLAGS;
    const uint32_t use = (uint32_t)WHOLE << USES_READ;
    unsigned l;
    FOR_LANES(l, k->lanes)
    for (unsigned i = 0; i < k->dwords; i++) {
        struct cell *c = &r->cells[k->address[l] / 4 + i];
        if (c->epoch != r->reads.epoch)
            *c = (struct cell){.epoch = r->reads.epoch};
        c->uses = (c->uses & kept) | use;
        c->readers |= UINT32_C(1) << k->wave;
        r->read_at[k->address[l] / 4 + i] = k->at;
    }
}

/* Keeps a read of LDS bytes [first, end) for later instead of entering it in the cells. False where
 * that could change a report: a store of this epoch, or one in flight, may have written these
 * bytes. */
static bool keep_read(struct race *r, const struct wave *w, const struct inst *in,
                      const struct lane_mem *m, unsigned bytes, uint32_t first, uint32_t end)
{
    return !clocks_run(&r->clocks) && !((m->bits | bytes) & 3) &&
           !(reads_parts(&r->reads, first, end) & r->reads.written) &&
           !reads_unwaited(&r->reads, w) && reads_keep(&r->reads, w, in, m, bytes / 4, first, end);
}

/* Enters the kept reads that an access to LDS bytes [first, end) may conflict with. */
static void enter_reads(struct race *r, uint32_t first, uint32_t end)
{
    const unsigned n = reads_before(&r->reads, first, end);
    for (unsigned i = 0; i < n; i++)
        enter_read(r, &r->reads.kept[i]);
    if (n)
        reads_remove(&r->reads, n);
}

/* Checks an access to LDS by all lanes of `m`, `bytes` per lane. False after a fault. */
static bool lds_access(struct race *r, struct wave *w, const struct inst *in,
                       const struct lane_mem *m, unsigned bytes, enum mem_direction direction,
                       bool atomic)
{
    struct probe a = {
        .w = w,
        .in = in,
        .race = r,
        .epoch = r->base + (uint32_t)w->wg->barriers,
        .self = UINT32_C(1) << w->id,
        .direction = direction,
        .atomic = atomic,
        .swap = direction == MEM_MODIFY && race_swaps(in),
    };
    const bool plain_read = direction == MEM_READ && !atomic;
    const uint32_t first = (uint32_t)m->low, end = (uint32_t)(m->low + m->span);
    reads_enter(&r->reads, a.epoch);
    r->newest = a.epoch > r->newest ? a.epoch : r->newest;
    if (!m->lanes || (plain_read && keep_read(r, w, in, m, bytes, first, end)))
        return true;
    enter_reads(r, first, end);
    if (direction != MEM_READ)
        reads_store(&r->reads, w, in, first, end);
    const bool repeats = plain_read && bytes % 4 == 0 && !clocks_run(&r->clocks);
    const struct again again = again_of(&a);
    const struct plain_store store = plain_store_of(r, &a);
    unsigned l;
    for (uint32_t i = 0; i < w->wg->nwaves; i++)
        a.pending |= i != w->id && w->wg->waves[i]->npending[WAIT_LGKM];
    FOR_LANES(l, m->lanes)
    {
        const uint64_t at = m->addr[l];
        a.lane = (uint8_t)l;
        a.mask = WHOLE; /* touch_lane() has changed the mask for its last dword */
        if (repeats && at % 4 == 0 &&
            read_again(r->cells + at / 4, r->read_at + at / 4, bytes / 4, &again))
            continue;
        if (!atomic &&
            (plain_read ? read_plain(r, &a, at, bytes) : write_plain(r, &store, at, bytes)))
            continue;
        if (!touch_lane(&a, m->addr[l], m->ptr[l], bytes))
            return false;
    }
    return true;
}

/* Orders waves by an atomic that was already checked: its read acquires, its write releases. */
static void synchronize(struct race *r, const struct wave *w, const struct inst *in,
                        const struct lane_mem *m, enum mem_direction direction)
{
    const bool acquires = direction == MEM_READ || in->dst.kind != OPND_NONE;
    unsigned l;
    if (acquires)
        FOR_LANES(l, m->lanes)
    clocks_acquire(&r->clocks, w->id, m->addr[l]);
    if (direction == MEM_READ)
        return;
    clocks_release(&r->clocks, w->id);
    FOR_LANES(l, m->lanes)
    clocks_leave(&r->clocks, w->id, m->addr[l]);
}

/* Checks an access to LDS or global memory, `bytes` per lane of `m`. False after a fault. */
static bool accessed(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction)
{
    struct race *r = state;
    const bool several = w->wg->nwaves > 1, atomic = race_is_atomic(in, m, direction);
    bool ok;
    if (direction != MEM_READ && !race_spare_stores(&r->spare, w, in))
        return false;
    if (m->space == MEM_GLOBAL)
        ok = race_global_access(r->global, w, in, m, bytes, direction);
    else
        ok = !several || lds_access(r, w, in, m, bytes, direction, atomic);
    if (several && atomic)
        synchronize(r, w, in, m, direction);
    return ok;
}

/* Completes the checks of an instruction that has executed. A store that did not change a value is
 * no race. */
static void settle(void *state, struct wave *w, const struct inst *in)
{
    struct race *r = state;
    race_global_settle(r->global, w, in);
    for (unsigned i = 0; i < r->nconflicts && w->state != WAVE_FAULTED; i++) {
        const struct conflict *c = &r->conflicts[i];
        if ((mem_get32(c->p) ^ c->old) & c->mask)
            race_report(w, in, &c->other, MEM_WRITE);
    }
    r->nconflicts = 0;
}

/* Begins a launch. Launches of a single wave are not watched, since it cannot race. */
static void *launch_begin(const struct launch *l, uint64_t first, uint64_t last, bool *watches)
{
    *watches = l->block[0] * l->block[1] * l->block[2] > code_isa(l->code)->lanes ||
               last > first + 1 || l->touched;
    return *watches ? race_shadow_begin() : NULL;
}

/* Completes the check of a launch, and sets race_incomplete if some accesses were not recorded. */
static void launch_end(struct launch *l, void *shadow)
{
    if (l->touched)
        race_shadow_walk(shadow, l->touched, l->touched_ctx);
    if (race_shadow_end(shadow))
        l->race_incomplete = true;
}

const struct check check_race = {
    .kinds = CHECK_RACE,
    .launch_begin = launch_begin,
    .launch_end = launch_end,
    .group_create = create,
    .group_destroy = destroy,
    .group_begin = begin,
    .accessed = accessed,
    .settle = settle,
    .barrier = barrier,
    .cache = cache,
    .grid_arrive = grid_arrive,
    .grid_pass = grid_pass,
};
