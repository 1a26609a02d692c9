/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches workgroups over the device: one XCD after the other, and there to the slot that is
 * free first. */
#ifndef HIPSIM_TIME_DISPATCH_H
#define HIPSIM_TIME_DISPATCH_H

#include "time_busy.h"
#include "time_params.h"

/* Occupancy of a compute unit. */
struct time_occupancy {
    uint32_t waves_per_workgroup;
    uint32_t workgroups_per_cu;
    uint32_t waves_per_simd; /* waves of a SIMD with workgroups_per_cu workgroups */
    double part;             /* part of the compute unit's registers that a workgroup has, 0 to 1 */
};

struct isa;
/* Returns the occupancy of a compute unit with workgroups of the launch. */
struct time_occupancy time_occupancy(const struct time_params *p, const struct isa *isa,
                                     const struct launch *launch);

/* Returns the clocks for which workgroup `index` is in its slot if all slots of its compute unit
 * are in use. */
typedef double time_duration_fn(const void *ctx, uint64_t index);

struct time_dispatch {
    double clocks; /* clocks until the last workgroup ends */
    double busy;   /* fraction of the slots' time that is in use, 0 to 1 */
};

/*
 * Computes the launch's clocks from the durations of its workgroups. Workgroup i runs on XCD i %
 * xcds. An XCD starts its workgroups in order, each in the slot that is free first. Above 2^22
 * workgroups the result is an estimate: all slots are busy to the end, except for the longest
 * workgroup. `clocks` is infinite without memory. Adds every workgroup's time to *busy.
 */
struct time_dispatch time_dispatch(const struct time_params *p, uint64_t workgroups,
                                   uint32_t workgroups_per_cu, time_duration_fn *duration,
                                   const void *ctx, struct time_busy *busy);

#endif
