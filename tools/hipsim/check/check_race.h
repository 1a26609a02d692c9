/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check: two waves touch the same bytes of LDS or global memory, nothing orders the one
 * access before the other, at least one of them writes, and not both are atomic.
 * docs/hipsim-checks.md says what orders accesses, and what is left alone.
 *
 * Stores that collide are only remembered when they are resolved: settle() judges them when their
 * data are in memory, and leaves alone those that left all bytes as they were, since waves that
 * repeat another wave's copy do no harm.
 *
 * `struct race` belongs to one host thread, which runs one workgroup after the other with it.
 * `struct race_shadow` is what a launch knows of global memory, shared by its threads.
 */
#ifndef HIPSIM_CHECK_RACE_H
#define HIPSIM_CHECK_RACE_H

#include "check.h"

extern const struct check check_race;

/* Accesses of a launch to a page of global memory, a bit per byte. */
#define RACE_PAGE 4096u
struct race_page {
    uint64_t address;
    uint64_t read[RACE_PAGE / 64], written[RACE_PAGE / 64];
    uint64_t atomic[RACE_PAGE / 64]; /* those of them that atomics alone have touched */
};

/* -- among check_race*.c ----------------------------------------------------------------------- */

/* The access with which another one races. */
struct race_other {
    uint64_t address; /* where they meet */
    uint64_t group;   /* index of its workgroup */
    uint32_t at;      /* offset in the code */
    uint16_t readers; /* that repeat a load of the wave that stores (check_race_later.h) */
    uint8_t wave, lane;
    bool wrote, lds;
    bool unwaited; /* it was not waited for before the barrier */
};

/** Reports `in`'s race with `other`; as wave_finding(). */
bool race_report(struct wave *w, const struct inst *in, const struct race_other *other,
                 enum mem_direction direction);

/** Does the load at `offset` read what a compare-and-swap then expects? Clang begins the atomics
 *  that the machine lacks with such a load; the swap itself finds out what has changed since. */
bool race_feeds_compare(const struct launch *l, uint32_t offset);

/** Is the load at `offset` in a loop that stores nothing and carries nothing but lane masks from
 *  turn to turn? Only another wave can end such a loop. */
bool race_polls(const struct launch *l, uint32_t offset);

/** May the store at `store` depend on what the load at `load` brings? Offsets in the code. */
bool race_reaches(const struct launch *l, uint32_t load, uint32_t store);

/** The shadow of a launch that is about to run; NULL when memory is short. */
struct race_shadow;
struct race_shadow *race_shadow_begin(void);
/** Tells of all pages that the launch has touched and the check could follow. */
void race_shadow_walk(struct race_shadow *shadow,
                      void (*tell)(void *ctx, const struct race_page *page), void *ctx);
/** The launch has ended. True if its accesses were too many to be followed to the end. */
bool race_shadow_end(struct race_shadow *shadow);

/* State of a workgroup's host thread for global memory. */
struct race_global;
struct race_clocks;
struct race_spare;
struct race_global *race_global_create(struct race_shadow *shadow, const struct race_clocks *clocks,
                                       struct race_spare *spare);
void race_global_destroy(struct race_global *g);
void race_global_begin(struct race_global *g);
/** Releases what the workgroup did before its last barrier and the wave since; the stamp. */
uint64_t race_global_release(struct race_global *g, const struct wave *w);
/** The wave has acquired all that was released up to now. */
void race_global_acquire(struct race_global *g, const struct wave *w);
/** The workgroup's barrier has opened: its waves share what they have acquired. */
void race_global_barrier(struct race_global *g, const struct workgroup *wg);
/** The check's accessed() for global memory. */
bool race_global_access(struct race_global *g, struct wave *w, const struct inst *in,
                        const struct lane_mem *m, unsigned bytes, enum mem_direction direction);
/** The check's settle() for global memory. */
void race_global_settle(struct race_global *g, struct wave *w, const struct inst *in);

#endif
