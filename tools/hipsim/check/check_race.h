/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check. A race is a pair of accesses by two waves to the same bytes of LDS or global
 * memory. Nothing orders one before the other, at least one writes, and not both are atomic.
 * tools/hipsim/docs/hipsim-checks.md describes what orders accesses, and which races are ignored.
 *
 * A store that conflicts with another access is recorded, not reported, when its address is
 * resolved. settle() evaluates it when its data are in memory. It ignores stores that changed no
 * byte, since a wave that repeats another wave's copy is harmless.
 *
 * One host thread uses a `struct race` for all workgroups that it runs, one after the other.
 * `struct race_shadow` is a launch's record of global memory, which its threads share.
 */
#ifndef HIPSIM_CHECK_RACE_H
#define HIPSIM_CHECK_RACE_H

#include "check.h"

extern const struct check check_race;

/* Global memory that a launch has accessed in one page of RACE_PAGE bytes: a bit per byte. */
#define RACE_PAGE 4096u
struct race_page {
    uint64_t address;
    uint64_t read[RACE_PAGE / 64], written[RACE_PAGE / 64];
    uint64_t atomic[RACE_PAGE / 64]; /* bytes that only atomics have read or written */
};

/* The declarations from here on are internal to check_race*.c. */

/* The other access of a race. */
struct race_other {
    uint64_t address; /* address of the first byte that both accesses have */
    uint64_t group;   /* index, in the grid, of the workgroup that made the access */
    uint32_t at;      /* code offset, in bytes, of the instruction that made the access */
    /* waves whose load repeats one of the storing wave, a bit each (check_race_later.h) */
    uint32_t readers;
    uint8_t wave, lane; /* the access's wave in the workgroup, and its lane */
    bool wrote, lds;    /* true: the access is a write; it is to LDS, not to global memory */
    bool unwaited;      /* true: a write from before the barrier that no wait has completed */
};

/** Reports a race between `in`, which accesses memory in `direction`, and `other`. Returns the
 * result of wave_finding(). */
bool race_report(struct wave *w, const struct inst *in, const struct race_other *other,
                 enum mem_direction direction);

/** Reports that the load `in` may read old bytes, since no instruction `missing` (its mnemonic) is
 * between it and the store `other`. Returns the result of wave_finding(). */
bool race_fence_report(struct wave *w, const struct inst *in, const struct race_other *other,
                       const char *missing);

/** True if a compare-and-swap has the value of the load at code offset `offset` as its expected
 * value. Clang implements atomics that the machine lacks by such a load and a compare-and-swap,
 * which detects intermediate changes itself. */
bool race_feeds_compare(const struct launch *l, uint32_t offset);

/** True if the load at code offset `offset` is in a loop that stores nothing and passes only lane
 * masks between iterations. Only another wave can end such a loop. */
bool race_polls(const struct launch *l, uint32_t offset);

/** True for the atomics that locks use: exchange and compare-and-swap. */
bool race_swaps(const struct inst *in);

/** True for atomic accesses. Loads and stores of global memory are atomic if their scope bits say
 * so; LDS loads and stores never are. */
bool race_is_atomic(const struct inst *in, const struct lane_mem *m, enum mem_direction direction);

/** True if the store at code offset `store` may depend on the value of the load at code offset
 * `load`. */
bool race_reaches(const struct launch *l, uint32_t load, uint32_t store);

/** The record of a launch's accesses to global memory. */
struct race_shadow;
/* Starts the record of a launch. NULL without memory. */
struct race_shadow *race_shadow_begin(void);
/** Calls tell(ctx, page) for all pages that the launch has accessed and the check has recorded. */
void race_shadow_walk(struct race_shadow *shadow,
                      void (*tell)(void *ctx, const struct race_page *page), void *ctx);
/** Ends the launch. True if it had more accesses, or more stores in flight, than the check could
 * record. */
bool race_shadow_end(struct race_shadow *shadow);

/* The race check's state of a host thread for global memory, for one workgroup after the other. */
struct race_global;
struct race_clocks;
struct race_spare;
/* Creates the state of a host thread. NULL without memory. */
struct race_global *race_global_create(struct race_shadow *shadow, const struct race_clocks *clocks,
                                       struct race_spare *spare);
void race_global_destroy(struct race_global *g);
/* Forgets the previous workgroup's accesses that are not in `shadow`. */
void race_global_begin(struct race_global *g);
/** Releases the accesses of the workgroup before its last barrier, and of the wave since. Returns
 * the number (stamp) of the release. */
uint64_t race_global_release(struct race_global *g, const struct wave *w);
/** Orders all accesses released so far before the wave's later ones. */
void race_global_acquire(struct race_global *g, const struct wave *w);
/** Records a buffer_wbl2 or buffer_inv of the wave, the instruction `in`; without sc1 it has no
 * effect. The write-back is in flight until the wave has waited for its counter. The caller counts
 * the instruction in wave->issued afterwards. */
void race_global_cache(struct race_global *g, const struct wave *w, const struct inst *in);
/** Gives all waves of the workgroup what one of them has acquired, when its barrier opens. */
void race_global_barrier(struct race_global *g, const struct workgroup *wg);
/** Checks an access to global memory, as accessed() of struct check. */
bool race_global_access(struct race_global *g, struct wave *w, const struct inst *in,
                        const struct lane_mem *m, unsigned bytes, enum mem_direction direction);
/** Evaluates the wave's recorded stores to global memory and reports the races among them, as
 * settle() of struct check. */
void race_global_settle(struct race_global *g, struct wave *w, const struct inst *in);

#endif
