/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data races in LDS, and what the check of global memory shares with it.
 *
 * LDS has a cell per dword: who wrote it and who read it since the last barrier. Cells carry the
 * epoch (barriers passed, counted on from one workgroup to the next), so nothing is ever cleared.
 */
#include "tools/hipsim/check_race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/decode.h"

#define WHOLE 0xf                 /* all bytes of a dword */
#define CONFLICTS_MAX (WAVE_LANES * 8)
#define COMPARE_WITHIN 48         /* instructions from a load to the swap that it prepares */

enum site_flags {
    SITE_ATOMIC = 1 << 0, /* only atomics have written */
    SITE_MIXED = 1 << 1,  /* waves share the dword byte-wise: not followed any further */
    SITE_DS = 1 << 2,     /* last written by an LDS instruction, `seq` tells which */
};

/* What every access needs. */
struct cell {
    uint32_t epoch;
    uint32_t read_at;          /* offset in the code */
    uint16_t writers, readers; /* a bit per wave; all writers wrote the same bytes */
    uint8_t written, read;     /* bytes */
    uint8_t last;              /* wave that wrote last */
    uint8_t flags;
};

/* What stores leave for reports and for reads after the next barrier. */
struct site {
    uint32_t write_at; /* offset in the code */
    uint32_t seq;      /* of the last write among the wave's LGKM operations */
};

/* A store that changed bytes which another wave uses, if it did change them. */
struct conflict {
    struct race_other other;
    const uint8_t *p;
    uint32_t old, mask;
};

struct race {
    uint32_t base;   /* epoch of the workgroup's beginning */
    uint32_t newest; /* largest epoch used */
    struct cell *cells;
    struct site *sites;
    struct race_global *global;
    unsigned nconflicts;
    struct conflict conflicts[CONFLICTS_MAX];
};

/* One lane's dword of an access. */
struct probe {
    struct wave *w;
    const struct inst *in;
    struct race *race;
    uint64_t address;  /* of the dword */
    const uint8_t *p;
    uint32_t epoch;
    uint16_t self;
    uint8_t lane;
    uint8_t mask;      /* bytes */
    enum mem_direction direction;
    bool pending;      /* some wave has LGKM operations outstanding */
};

struct race *race_create(uint32_t lds_bytes, struct race_shadow *shadow)
{
    size_t dwords = lds_bytes / 4 + 2;
    struct race *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->cells = calloc(dwords, sizeof(*r->cells));
    r->sites = calloc(dwords, sizeof(*r->sites));
    r->global = race_global_create(shadow);
    if (r->cells && r->sites && r->global)
        return r;
    race_destroy(r);
    return NULL;
}

void race_destroy(struct race *r)
{
    if (!r)
        return;
    free(r->cells);
    free(r->sites);
    race_global_destroy(r->global);
    free(r);
}

void race_begin(struct race *r)
{
    r->base = ++r->newest;
    r->nconflicts = 0;
    race_global_begin(r->global);
}

void race_barrier(struct workgroup *wg)
{
    uint64_t acquired = 0;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        if (wg->waves[i]->acquired > acquired)
            acquired = wg->waves[i]->acquired;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        wg->waves[i]->acquired = acquired;
}

void race_grid_arrive(struct wave *w)
{
    if (w->wg->race)
        race_global_release(w->wg->race->global, w);
}

void race_grid_pass(struct wave *w)
{
    if (w->wg->race)
        w->acquired = race_global_now(w->wg->race->global);
}

/* The other workgroup, as far as it is another one. */
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
    return wave_finding(w, in, FAULT_RACE, UINT64_C(1) << o->lane,
               "%s at %s 0x%llx, which wave %u%s %s at entry%+lld (%s) %s; the kernel relies on "
               "the order of its %s%s%s", names[direction], o->lds ? "LDS offset" : "address",
               (unsigned long long)o->address, o->wave, group, o->wrote ? "writes" : "reads", at,
               code_text(l->code, o->at, text, sizeof(text)),
               o->unwaited ? "without having waited for it before s_barrier"
               : apart ? "with nothing in between that orders them"
                       : "with no barrier in between",
               apart ? "workgroups" : "waves", o->lds ? "" : "; the address is ", near);
}

static struct race_other other_of(const struct probe *a, const struct cell *c,
                                  const struct site *s, uint16_t writers, uint16_t readers)
{
    bool wrote = writers != 0;
    uint16_t others = wrote ? writers : readers;
    unsigned last = others >> c->last & 1 ? c->last : (unsigned)__builtin_ctz(others);
    return (struct race_other){
        .address = a->address, .group = a->w->wg->index, .lane = a->lane, .lds = true,
        .wave = (uint8_t)(wrote ? last : (unsigned)__builtin_ctz(others)), .wrote = wrote,
        .at = wrote ? s->write_at : c->read_at,
    };
}

/* Is the last write of the dword, by another wave before the barrier, still on its way? */
static bool outstanding(const struct probe *a, const struct cell *c, const struct site *s)
{
    if (c->epoch < a->race->base || !(c->flags & SITE_DS) || c->writers & a->self
        || !c->writers || !(c->written & a->mask))
        return false;
    const struct wave *writer = a->w->wg->waves[c->last];
    return writer->state != WAVE_ENDED && wave_outstanding(writer, WAIT_LGKM, s->seq);
}

static void note(const struct probe *a, struct cell *c, struct site *s, bool shared)
{
    if (a->direction == MEM_READ) {
        c->readers |= a->self;
        c->read |= a->mask;
        c->read_at = (uint32_t)a->in->offset;
        return;
    }
    bool atomic = a->direction == MEM_MODIFY && (!c->writers || c->flags & SITE_ATOMIC);
    bool ds = a->in->row->flags & ROW_LDS;
    c->flags = (uint8_t)((c->flags & SITE_MIXED) | (atomic ? SITE_ATOMIC : 0) | (ds ? SITE_DS : 0));
    c->writers = shared ? c->writers | a->self : a->self;
    c->written |= a->mask;
    s->write_at = (uint32_t)a->in->offset;
    c->last = (uint8_t)a->w->id;
    s->seq = a->w->issued[WAIT_LGKM];
}

bool race_feeds_compare(const struct wave *w, uint32_t offset)
{
    for (unsigned n = 0; n < COMPARE_WITHIN; n++) {
        const struct inst *in = code_inst(w->launch->code, offset);
        if (!in || !in->row)
            return false;
        if (strstr(in->row->name, "atomic_cmpswap") || strncmp(in->row->name, "ds_cmpst", 8) == 0)
            return true;
        offset += in->size;
    }
    return false;
}

static bool excused(const struct probe *a, const struct cell *c, bool wrote)
{
    if (a->direction == MEM_READ)
        return c->flags & SITE_ATOMIC && race_feeds_compare(a->w, (uint32_t)a->in->offset);
    return !wrote && a->direction == MEM_MODIFY && race_feeds_compare(a->w, c->read_at);
}

/* One dword. False after a report. */
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
    if (!((c->writers | c->readers) & (uint16_t)~a->self)) {
        note(a, c, s, false);
        return true;
    }
    uint16_t writers = c->writers & (uint16_t)~a->self, readers = c->readers & (uint16_t)~a->self;
    bool partial = a->mask != WHOLE || (c->writers && c->written != WHOLE)
        || (c->readers && c->read != WHOLE);
    bool others = writers || readers;
    if (!(c->written & a->mask) || (a->direction == MEM_MODIFY && c->flags & SITE_ATOMIC)
        || (a->direction == MEM_READ && c->writers & a->self && !(c->flags & SITE_ATOMIC)))
        writers = 0;
    if (!(c->read & a->mask) || a->direction == MEM_READ)
        readers = 0;
    if (c->flags & SITE_MIXED) {
        writers = readers = 0;
    } else if ((writers || readers) && !excused(a, c, writers != 0)) {
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
            a->w->wg->race_open = true;
        }
    } else if (others && partial) {
        c->flags |= SITE_MIXED;
    }
    note(a, c, s, others);
    return true;
}

/* All dwords of a lane's access. */
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
        if (!touch(a, &r->cells[at / 4], &r->sites[at / 4]))
            return false;
    }
    return true;
}

/* The common case: whole dwords of LDS that nobody has written since the barrier. True when it
 * was one. */
static bool read_plain(struct race *r, const struct probe *a, uint64_t first, unsigned bytes)
{
    if ((first | bytes) & 3)
        return false;
    const uint32_t at = (uint32_t)a->in->offset;
    for (uint64_t i = first / 4; i < (first + bytes) / 4; i++) {
        struct cell *c = &r->cells[i];
        const bool same = c->epoch == a->epoch;
        if (same ? c->writers != 0 : a->pending)
            return false;
        *c = (struct cell){
            .epoch = a->epoch, .read_at = at, .read = WHOLE, .flags = same ? c->flags : 0,
            .readers = (uint16_t)((same ? c->readers : 0) | a->self),
        };
    }
    return true;
}

static bool lds_access(struct wave *w, const struct inst *in, const struct lane_mem *m,
                       unsigned bytes, enum mem_direction direction)
{
    struct race *r = w->wg->race;
    struct probe a = {
        .w = w, .in = in, .race = r, .epoch = r->base + (uint32_t)w->wg->barriers,
        .self = (uint16_t)(1u << w->id), .direction = direction,
    };
    unsigned l;
    r->newest = a.epoch > r->newest ? a.epoch : r->newest;
    for (uint32_t i = 0; i < w->wg->nwaves; i++)
        a.pending |= i != w->id && w->wg->waves[i]->npending[WAIT_LGKM];
    FOR_LANES(l, m->lanes) {
        a.lane = (uint8_t)l;
        if (direction == MEM_READ && read_plain(r, &a, m->addr[l], bytes))
            continue;
        if (!touch_lane(&a, m->addr[l], m->ptr[l], bytes))
            return false;
    }
    return true;
}

bool race_access(struct wave *w, const struct inst *in, const struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction)
{
    if (m->space == MEM_GLOBAL)
        return race_global_access(w->wg->race->global, w, in, m, bytes, direction);
    return w->wg->nwaves == 1 || lds_access(w, in, m, bytes, direction);
}

void race_settle(struct wave *w, const struct inst *in)
{
    struct race *r = w->wg->race;
    w->wg->race_open = false;
    race_global_settle(r->global, w, in);
    for (unsigned i = 0; i < r->nconflicts && w->state != WAVE_FAULTED; i++) {
        const struct conflict *c = &r->conflicts[i];
        if ((mem_get32(c->p) ^ c->old) & c->mask)
            race_report(w, in, &c->other, MEM_WRITE);
    }
    r->nconflicts = 0;
}
