/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check: two waves touch the same bytes of LDS or global memory, nothing orders the one
 * access before the other, at least one of them writes, and not both are atomic.
 * docs/hipsim-checks.md says what orders accesses, and what is left alone.
 *
 * `struct race` belongs to one host thread, which runs one workgroup after the other with it.
 * `struct race_shadow` is what a launch knows of global memory, shared by its threads.
 */
#ifndef HIPSIM_CHECK_RACE_H
#define HIPSIM_CHECK_RACE_H

#include "mem.h"

struct race;
struct race_shadow;

/** The shadow of a launch that is about to run; NULL when memory is short. */
struct race_shadow *race_shadow_begin(void);
/* What a launch has done to the bytes of a page of global memory, a bit each. */
#define RACE_PAGE 4096u
struct race_page {
    uint64_t address;
    uint64_t read[RACE_PAGE / 64], written[RACE_PAGE / 64];
    uint64_t atomic[RACE_PAGE / 64]; /* those of them that atomics alone have touched */
};

/** Tells of all pages that the launch has touched and the check could follow. */
void race_shadow_walk(struct race_shadow *shadow,
                      void (*tell)(void *ctx, const struct race_page *page), void *ctx);

/** The launch has ended. True if its accesses were too many to be followed to the end. */
bool race_shadow_end(struct race_shadow *shadow);

/** For workgroups with `lds_bytes` of LDS; NULL when memory is short. */
struct race *race_create(uint32_t lds_bytes, struct race_shadow *shadow);
void race_destroy(struct race *race);

/** Forgets what the last workgroup did in LDS: another one begins. */
void race_begin(struct race *race);

/** The workgroup's barrier has opened. */
void race_barrier(struct workgroup *wg);

/** The wave is at a barrier of the whole grid, or has passed it: what all waves that were there did
 *  before comes first. */
void race_grid_arrive(struct wave *w);
void race_grid_pass(struct wave *w);

/**
 * Notes an access that mem_resolve() has allowed and compares it with what other waves did. False
 * after a report. Stores that collide are only remembered: race_settle() judges them when their
 * data is in memory.
 */
bool race_access(struct wave *w, const struct inst *in, const struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction);

/** Reports collisions of the instruction that has just run, unless it left all bytes as they were:
 *  waves that repeat another wave's copy do no harm. To be called while wg->race_open is set. */
void race_settle(struct wave *w, const struct inst *in);

/* -- among check_race*.c ----------------------------------------------------------------------- */

/* The access with which another one races. */
struct race_other {
    uint64_t address; /* where they meet */
    uint64_t group;   /* index of its workgroup */
    uint32_t at;      /* offset in the code */
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

/* What a workgroup's host thread knows of global memory. */
struct race_global;
struct race_clocks;
struct race_global *race_global_create(struct race_shadow *shadow,
                                       const struct race_clocks *clocks);
void race_global_destroy(struct race_global *g);
void race_global_begin(struct race_global *g);
/** Releases what the workgroup did before its last barrier and the wave since; the stamp. */
uint64_t race_global_release(struct race_global *g, const struct wave *w);
uint64_t race_global_now(const struct race_global *g);
/** race_access() for global memory. */
bool race_global_access(struct race_global *g, struct wave *w, const struct inst *in,
                        const struct lane_mem *m, unsigned bytes, enum mem_direction direction);
/** race_settle() for global memory. */
void race_global_settle(struct race_global *g, struct wave *w, const struct inst *in);

#endif
