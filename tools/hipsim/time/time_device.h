/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All compute units of a device in time, for launches whose workgroups depend on each other: they
 * meet at a barrier of the grid, poll what others write, or share out work by atomics. The unit
 * whose next instruction issues first goes next, so what workgroups see of each other is in the
 * order of modelled time, and what they share, L2, MALL, HBM and contended atomics, is shared.
 */
#ifndef HIPSIM_TIME_DEVICE_H
#define HIPSIM_TIME_DEVICE_H

#include "time_busy.h"
#include "time_cu.h"

struct time_device_setup {
    uint64_t workgroups;
    uint32_t resident; /* workgroups that a compute unit holds */
    double extra;      /* clocks that a workgroup takes beyond its instructions, */
    double idle_extra; /* and one that stores nothing */
    bool warm_code;
    const struct time_sink *sink; /* of the first compute unit; NULL: none */
};

struct time_device_result {
    struct time_cu_result sum; /* of all compute units */
    double clocks;             /* until the last workgroup ends and all is stored */
    double busy;               /* of the time of the slots that the device has, 0 .. 1 */
    double first;              /* clocks of workgroup 0 */
    struct time_busy over_time;
};

/* Runs the launch; launch->counters counts all of it. False after a fault. */
bool time_device_run(struct launch *launch, struct time_code *code,
                     const struct time_device_setup *setup, struct time_device_result *result);

/*
 * Returns whether a workgroup of a kernel can wait for another, or take work that another would:
 * there is a loop round a load of device scope, or round an atomic whose old value it gets. Found
 * in the code that can be reached from `entry`, or in all of the range where calls go through
 * registers.
 */
bool time_code_communicates(struct code *code, uint64_t entry);

#endif
