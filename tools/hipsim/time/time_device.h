/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model of all compute units at once, for launches whose workgroups depend on each
 * other: grid barriers, polling, work claimed by atomics. It always steps the compute unit whose
 * next instruction issues first. Workgroups therefore see each other's effects in the order of
 * modelled time. L2, MALL, HBM and contended atomics are common to all.
 */
#ifndef HIPSIM_TIME_DEVICE_H
#define HIPSIM_TIME_DEVICE_H

#include "time_busy.h"
#include "time_cu.h"

struct time_device_setup {
    uint64_t workgroups;
    uint32_t resident; /* workgroups that a compute unit holds at once */
    double extra;      /* clocks of a workgroup beyond its instructions */
    double idle_extra; /* `extra` of a workgroup that stores nothing */
    bool warm_code;    /* true: the code is in the instruction caches at the start */
    /* receives the instructions of the first compute unit; NULL: none */
    const struct time_sink *sink;
};

struct time_device_result {
    struct time_cu_result sum; /* figures summed over all compute units */
    /* clocks until the last workgroup has ended and its stores are in memory */
    double clocks;
    double busy;                /* fraction of the slots' time that is in use, 0 to 1 */
    double first;               /* clocks of workgroup 0 */
    struct time_busy over_time; /* occupancy of each XCD over the launch's time */
};

/* Runs the launch with all compute units timed, and counts it in launch->counters. False after a
 * fault. */
bool time_device_run(struct launch *launch, struct time_code *code,
                     const struct time_device_setup *setup, struct time_device_result *result);

/*
 * True if a workgroup of the kernel may wait for another one or compete with it for work. The sign
 * is a loop with a load of device scope, or with an atomic that returns the old value. Examines the
 * code that can be reached from code offset `entry`, or the whole range if there are calls through
 * registers.
 */
bool time_code_communicates(struct code *code, uint64_t entry);

#endif
