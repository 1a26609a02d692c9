/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order among the waves of a workgroup between two barriers: which releases each wave has acquired.
 *
 * These are vector clocks (Lamport 1978; Flanagan and Freund, "FastTrack", 2009) with stamps from
 * one counter. A release stamps what its wave has done so far. An atomic write leaves the wave's
 * knowledge at its location, and an atomic read takes it from there.
 */
#ifndef HIPSIM_CHECK_RACE_CLOCKS_H
#define HIPSIM_CHECK_RACE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WAVES 16u
#define CLOCK_LOCATIONS 256u /* by hash: a collision only adds order */

struct race_clocks {
    uint32_t now;                            /* stamp of the last release */
    uint32_t base;                           /* `now` when the workgroup began */
    uint32_t seen[CLOCK_WAVES][CLOCK_WAVES]; /* [a][b]: the last release of b that a has acquired */
    uint32_t tag[CLOCK_LOCATIONS];           /* base + 1 of the workgroup that used the location
                                              * last */
    uint32_t left[CLOCK_LOCATIONS][CLOCK_WAVES]; /* by location: the last release of each wave that
                                                  * was published there */
};

/** Starts another workgroup, without any order among its waves. */
void clocks_begin(struct race_clocks *c);

/** Releases what `wave` has done so far; clocks_leave() publishes it. */
void clocks_release(struct race_clocks *c, unsigned wave);

/** Publishes at `address` what `wave` has released and acquired. */
void clocks_leave(struct race_clocks *c, unsigned wave, uint64_t address);

/** Makes `wave` acquire what was published at `address`. */
void clocks_acquire(struct race_clocks *c, unsigned wave, uint64_t address);

/** Orders `other` before `wave`, which has polled and found a store that `other` made at `time`. */
void clocks_follow(struct race_clocks *c, unsigned wave, unsigned other, uint32_t time);

/** Returns the waves of `waves` with all accesses up to `time` (a stamp) ordered before `wave`. */
uint16_t clocks_ordered(const struct race_clocks *c, unsigned wave, uint16_t waves, uint32_t time);

/** True if any wave of the workgroup has released anything. */
static inline bool clocks_run(const struct race_clocks *c) { return c->now != c->base; }

#endif
