/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order among the waves of a workgroup between two barriers: which releases each has acquired.
 *
 * Vector clocks (Lamport 1978; Flanagan and Freund, "FastTrack", 2009): all waves draw their
 * stamps from one counter. A release stamps what its wave has done so far; an atomic leaves what
 * its wave knows at its location, an atomic that reads takes it from there.
 */
#ifndef HIPSIM_CHECK_RACE_CLOCKS_H
#define HIPSIM_CHECK_RACE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WAVES 16u
#define CLOCK_LOCATIONS 256u /* by hash: a collision only orders more */

struct race_clocks {
    uint32_t now;                            /* stamp of the last release */
    uint32_t base;                           /* `now` when the workgroup began */
    uint32_t seen[CLOCK_WAVES][CLOCK_WAVES]; /* [a][b]: the last release of b that a knows of */
    uint32_t tag[CLOCK_LOCATIONS];           /* base + 1 of the workgroup that it belongs to */
    uint32_t left[CLOCK_LOCATIONS][CLOCK_WAVES];
};

/** Another workgroup begins: its waves know nothing of each other. */
void clocks_begin(struct race_clocks *c);

/** `wave` releases what it has done; clocks_leave() says where. */
void clocks_release(struct race_clocks *c, unsigned wave);

/** `wave` leaves what it has released and acquired at `address`. */
void clocks_leave(struct race_clocks *c, unsigned wave, uint64_t address);

/** `wave` takes what was left at `address`. */
void clocks_acquire(struct race_clocks *c, unsigned wave, uint64_t address);

/** `wave` has met a store of `other` that it was waiting for, made at `time`. */
void clocks_follow(struct race_clocks *c, unsigned wave, unsigned other, uint32_t time);

/** The waves of `waves` whose accesses up to `time`, a count, are ordered before `wave`. */
uint16_t clocks_ordered(const struct race_clocks *c, unsigned wave, uint16_t waves, uint32_t time);

/** Has any wave of the workgroup released anything? */
static inline bool clocks_run(const struct race_clocks *c) { return c->now != c->base; }

#endif
