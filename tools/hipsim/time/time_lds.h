/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks for which an instruction occupies the LDS, computed from the lanes' addresses.
 *
 * A wave's access has phases, sets of lanes that are served together. The phases depend on the
 * target, the direction and the width (SHARK empirical-lds; HipKittens phase solver). In a phase,
 * lanes that access different dwords of the same bank are served one after the other.
 */
#ifndef HIPSIM_TIME_LDS_H
#define HIPSIM_TIME_LDS_H

#include "time_params.h"

struct time_lds_cost {
    unsigned clocks;    /* clocks for which the LDS banks are busy */
    unsigned floor;     /* part of `clocks` that remains without bank conflicts */
    unsigned bus_bytes; /* bytes on the bus between LDS and a pair of SIMDs */
};

/* Returns the cost of an access of `bytes` bytes per lane: 1, 2, 4, 8, 12 or 16. addr[] has the
 * byte offsets of the lanes in `lanes`. */
struct time_lds_cost time_lds_cost(const struct time_params *p, enum gfx_target target,
                                   bool is_store, unsigned bytes, uint64_t lanes,
                                   const uint64_t addr[WAVE_LANES]);

/* Sets phases[] to the lane masks of an access's phases. Returns their number, at most 8. */
unsigned time_lds_phases(enum gfx_target target, bool is_store, unsigned bytes, uint64_t phases[8]);

#endif
