/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares how long the LDS is busy with an instruction, from the lanes' addresses.
 *
 * A wave's access is cut into phases, sets of lanes that are served together; which, depends on the
 * target, the direction and the width (SHARK empirical-lds; HipKittens phase solver). Within a
 * phase, lanes that want different dwords of the same bank wait for each other.
 */
#ifndef HIPSIM_TIME_LDS_H
#define HIPSIM_TIME_LDS_H

#include "time_params.h"

struct time_lds_cost {
    unsigned clocks;    /* of the banks */
    unsigned floor;     /* of them, without any conflict */
    unsigned bus_bytes; /* on the bus of the SIMD pair, towards the LDS or back */
};

/* `bytes` per lane: 1, 2, 4, 8, 12, 16; `addr` byte offsets of the lanes in `lanes`. */
struct time_lds_cost time_lds_cost(const struct time_params *p, enum gfx_target target,
                                   bool is_store, unsigned bytes, uint64_t lanes,
                                   const uint64_t addr[WAVE_LANES]);

/* The lanes of the phases of an access; returns how many there are (at most 8). */
unsigned time_lds_phases(enum gfx_target target, bool is_store, unsigned bytes, uint64_t phases[8]);

#endif
