/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order among the waves of a workgroup between two barriers: which releases each wave has acquired.
 *
 * These are vector clocks (Lamport 1978; Flanagan and Freund, "FastTrack", 2009) with stamps from
 * one counter. A release has a stamp and includes everything that its wave did before. An atomic
 * write publishes the releases that its wave has made or acquired, at its address. An atomic read
 * at that address acquires them.
 */
#ifndef HIPSIM_CHECK_RACE_CLOCKS_H
#define HIPSIM_CHECK_RACE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_WAVES 16u
/* Number of addresses, by hash; two addresses with the same entry only add order. */
#define CLOCK_LOCATIONS 256u

struct race_clocks {
    uint32_t now;  /* stamp of the last release */
    uint32_t base; /* value of `now` when the workgroup began */
    /* [a][b]: stamp of the last release of wave b that wave a has acquired */
    uint32_t seen[CLOCK_WAVES][CLOCK_WAVES];
    /* 1 + `base` of the workgroup that used the entry last */
    uint32_t tag[CLOCK_LOCATIONS];
    /* by entry: stamp of the last release of each wave that was published there */
    uint32_t left[CLOCK_LOCATIONS][CLOCK_WAVES];
};

/** Begins another workgroup, whose waves have no order yet. */
void clocks_begin(struct race_clocks *c);

/** Releases the accesses that `wave` (its index) has made. clocks_leave() publishes the release. */
void clocks_release(struct race_clocks *c, unsigned wave);

/** Publishes at `address` all releases that `wave` has made or acquired. */
void clocks_leave(struct race_clocks *c, unsigned wave, uint64_t address);

/** Makes `wave` acquire all releases that were published at `address`. */
void clocks_acquire(struct race_clocks *c, unsigned wave, uint64_t address);

/** Orders wave `other`, up to its store at stamp `time`, before `wave`, which has polled and read
 * that store's value. */
void clocks_follow(struct race_clocks *c, unsigned wave, unsigned other, uint32_t time);

/** Returns the waves of the mask `waves` whose accesses up to stamp `time` are ordered before
 * `wave`. */
uint16_t clocks_ordered(const struct race_clocks *c, unsigned wave, uint16_t waves, uint32_t time);

/** True if a wave of the workgroup has made a release. */
static inline bool clocks_run(const struct race_clocks *c) { return c->now != c->base; }

#endif
