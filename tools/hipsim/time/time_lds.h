/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares how long an instruction occupies the LDS, computed from the lanes' addresses.
 *
 * A wave's access is split into phases, sets of lanes that are served together. The phases depend
 * on the target, the direction and the width (SHARK empirical-lds; HipKittens phase solver). Within
 * a phase, lanes that access different dwords of the same bank are serialised.
 */
#ifndef HIPSIM_TIME_LDS_H
#define HIPSIM_TIME_LDS_H

#include "time_params.h"

struct time_lds_cost {
    unsigned clocks;    /* LDS banks busy */
    unsigned floor;     /* part of `clocks` that remains without bank conflicts */
    unsigned bus_bytes; /* transferred on the bus between LDS and a pair of SIMDs */
};

/* Returns the cost of an access. `bytes` per lane: 1, 2, 4, 8, 12 or 16; `addr`: byte offsets of
 * the lanes in `lanes`. */
struct time_lds_cost time_lds_cost(const struct time_params *p, enum gfx_target target,
                                   bool is_store, unsigned bytes, uint64_t lanes,
                                   const uint64_t addr[WAVE_LANES]);

/* Fills `phases` with the lane mask of each phase of an access. Returns their number, at most 8. */
unsigned time_lds_phases(enum gfx_target target, bool is_store, unsigned bytes, uint64_t phases[8]);

#endif
