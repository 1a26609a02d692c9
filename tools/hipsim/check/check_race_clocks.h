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

#include "wave.h"

/* Number of waves whose stamps are joined at once. */
#define CLOCK_STEP 16u
/* Number of addresses, by hash; two addresses with the same entry only add order. */
#define CLOCK_LOCATIONS 256u

struct race_clocks {
    uint32_t now;  /* stamp of the last release */
    uint32_t base; /* value of `now` when the workgroup began */
    /* waves of the workgroup, rounded up to a multiple of CLOCK_STEP */
    unsigned waves;
    /* [a][b]: stamp of the last release of wave b that wave a has acquired */
    uint32_t seen[WAVES_MAX][WAVES_MAX];
    /* 1 + `base` of the workgroup that used the entry last */
    uint32_t tag[CLOCK_LOCATIONS];
    /* by entry: stamp of the last release of each wave that was published there */
    uint32_t left[CLOCK_LOCATIONS][WAVES_MAX];
};

/** Begins another workgroup, of `waves` waves, which have no order yet. */
void clocks_begin(struct race_clocks *c, unsigned waves);

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
uint32_t clocks_ordered(const struct race_clocks *c, unsigned wave, uint32_t waves, uint32_t time);

/** True if a wave of the workgroup has made a release. */
static inline bool clocks_run(const struct race_clocks *c) { return c->now != c->base; }

#endif
