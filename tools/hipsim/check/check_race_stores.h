/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of gfx1250 to global memory that their wave has not waited for (STOREcnt). A barrier does
 * not wait for them: LLVM inserts s_wait_storecnt before s_barrier_signal (memory model gfx12.5).
 * Without that wait, another wave may read old bytes after the barrier, and a release by another
 * wave does not include the store. On GFX9 the waves of a workgroup share a cache that keeps their
 * order, so no store is recorded there.
 */
#ifndef HIPSIM_CHECK_RACE_STORES_H
#define HIPSIM_CHECK_RACE_STORES_H

#include "check_race.h"

/* Most recorded stores of a workgroup: those that all waves may have in flight. */
#define STORES_OUT (WAVES_MAX * PENDING_MAX)
/* Number of recorded stores after which completed ones are removed before another is added. */
#define STORES_SWEPT 64u

/* A store of a wave. */
struct late_store {
    uint64_t low, end;   /* range of the addresses of all lanes */
    uint64_t lanes;      /* mask of the lanes that stored */
    uint32_t number;     /* number of the store among the wave's STOREcnt operations */
    uint32_t epoch;      /* number of barriers before the store */
    uint32_t at;         /* code offset of the store */
    uint8_t wave, bytes; /* index of the wave; bytes per lane */
    uint64_t address[WAVE_LANES];
};

struct race_stores {
    unsigned n; /* number of stores in `out` */
    struct late_store out[STORES_OUT];
};

/** Records a store of `bytes` bytes per lane. False, with nothing recorded, if STORES_OUT stores of
 * the workgroup are in flight. */
bool stores_add(struct race_stores *s, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned bytes);

/** True if another wave's store to bytes of this access is in flight since before the last barrier.
 * The access of `w` has `bytes` bytes per lane. Sets *other to that store. */
bool stores_meet(struct race_stores *s, const struct wave *w, const struct lane_mem *m,
                 unsigned bytes, struct race_other *other);

/** Returns the waves that have stores of the epoch in flight, a bit each. */
uint32_t stores_of(struct race_stores *s, const struct workgroup *wg, uint32_t epoch);

#endif
