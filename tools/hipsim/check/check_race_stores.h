/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of gfx1250 to global memory that their wave has not waited for (STOREcnt). A barrier does
 * not wait for them: LLVM inserts s_wait_storecnt before s_barrier_signal (memory model gfx12.5).
 * Without that wait, another wave may read old bytes after the barrier, and a release of another
 * wave does not cover the store. On gfx9 the waves of a workgroup share a cache that keeps the
 * order, so that nothing is recorded there.
 */
#ifndef HIPSIM_CHECK_RACE_STORES_H
#define HIPSIM_CHECK_RACE_STORES_H

#include "check_race.h"

#define STORES_OUT 256u /* recorded stores of a workgroup, at most */

/* A store of a wave. */
struct late_store {
    uint64_t low, end;   /* addresses of all lanes */
    uint64_t lanes;      /* lanes that stored, as a bit mask */
    uint32_t number;     /* among the wave's STOREcnt operations */
    uint32_t epoch;      /* barriers before it */
    uint32_t at;         /* code offset */
    uint8_t wave, bytes; /* bytes per lane */
    uint64_t address[WAVE_LANES];
};

struct race_stores {
    unsigned n; /* stores in `out` */
    struct late_store out[STORES_OUT];
};

/** Records a store of `bytes` bytes per lane. False if STORES_OUT stores of the workgroup are
 *  outstanding: the store is not recorded then. */
bool stores_add(struct race_stores *s, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned bytes);

/** True if the access of `w` meets an outstanding store that another wave made before the last
 *  barrier. The store is then in `other`. */
bool stores_meet(struct race_stores *s, const struct wave *w, const struct lane_mem *m,
                 unsigned bytes, struct race_other *other);

/** Returns the waves, as a bit mask, with outstanding stores of the epoch. */
uint16_t stores_of(struct race_stores *s, const struct workgroup *wg, uint32_t epoch);

#endif
