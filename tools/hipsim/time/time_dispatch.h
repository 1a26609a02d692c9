/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches workgroups over the device: XCDs round-robin, then the compute unit that is free
 * first. */
#ifndef HIPSIM_TIME_DISPATCH_H
#define HIPSIM_TIME_DISPATCH_H

#include "time_busy.h"
#include "time_params.h"

/* Occupancy limits of a compute unit. */
struct time_occupancy {
    uint32_t waves_per_workgroup;
    uint32_t workgroups_per_cu;
    uint32_t waves_per_simd; /* with workgroups_per_cu workgroups */
    double part;             /* fraction of the compute unit's registers that a workgroup has */
};

struct isa;
/* Returns the occupancy of a compute unit with the launch's workgroups. */
struct time_occupancy time_occupancy(const struct time_params *p, const struct isa *isa,
                                     const struct launch *launch);

/* Returns the clocks for which workgroup `index` uses its slot if all slots of its compute unit are
 * in use. */
typedef double time_duration_fn(const void *ctx, uint64_t index);

struct time_dispatch {
    double clocks; /* until the last workgroup ends */
    double busy;   /* fraction of slot time in use, 0 .. 1 */
};

/*
 * Computes the launch's time from the durations of its workgroups. Workgroup i goes to XCD i %
 * xcds; an XCD starts its workgroups in order, each on the slot that is free first. Above 2^22
 * workgroups, all slots count as busy to the end except for the longest workgroup. `clocks` is
 * infinite without memory. Adds every workgroup's slot time to `busy`.
 */
struct time_dispatch time_dispatch(const struct time_params *p, uint64_t workgroups,
                                   uint32_t workgroups_per_cu, time_duration_fn *duration,
                                   const void *ctx, struct time_busy *busy);

#endif
