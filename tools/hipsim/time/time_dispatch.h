/* SPDX-License-Identifier: Apache-2.0 */
/* Workgroups over the device: XCDs in turn, compute units as they fall free. */
#ifndef HIPSIM_TIME_DISPATCH_H
#define HIPSIM_TIME_DISPATCH_H

#include "time_busy.h"
#include "time_params.h"

/* The limits on how many workgroups a compute unit holds. */
struct time_occupancy {
    uint32_t waves_per_workgroup;
    uint32_t workgroups_per_cu;
    uint32_t waves_per_simd; /* with that many workgroups */
    double part;             /* of the compute unit's registers, that a workgroup takes */
};

struct time_occupancy time_occupancy(const struct time_params *p, const struct launch *launch);

/* Returns how long a workgroup of this index takes its slot, in clocks, with its compute unit
 * full. */
typedef double time_duration_fn(const void *ctx, uint64_t index);

struct time_dispatch {
    double clocks; /* until the last workgroup ends */
    double busy;   /* of the slots' time, 0 .. 1 */
};

/*
 * Workgroup i goes to XCD i % xcds; an XCD starts its workgroups in order, each on the slot that
 * falls free first. Beyond 2^22 workgroups every slot is taken to be busy to the end but for the
 * longest workgroup. `clocks` is infinite without memory. `busy` is told of every workgroup.
 */
struct time_dispatch time_dispatch(const struct time_params *p, uint64_t workgroups,
                                   uint32_t workgroups_per_cu, time_duration_fn *duration,
                                   const void *ctx, struct time_busy *busy);

#endif
