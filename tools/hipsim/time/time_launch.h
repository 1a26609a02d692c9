/* SPDX-License-Identifier: Apache-2.0 */
/* Times a launch: sampled workgroups run on a modelled compute unit, and the dispatch model
 * extrapolates from them. */
#ifndef HIPSIM_TIME_LAUNCH_H
#define HIPSIM_TIME_LAUNCH_H

#include "hipsim_time.h"
#include "time_cu.h"

struct time_config {
    struct time_params params;
    uint32_t samples;
    bool samples_only;
    const char *trace_path;
    const char *annotate_path;
};

/*
 * Runs the launch in place of engine_run(), and sets *report. Every workgroup executes once, or
 * only the samples if the configuration says so. Returns 0, or -1 with launch->fault set.
 */
int time_launch_run(struct launch *launch, const struct time_config *config,
                    struct hipsim_time_report *report);

/* The hottest loop of a profile. */
struct time_loop {
    uint64_t first, last; /* code offsets of the first instruction and of the backward branch */
    double iterations;    /* iterations of a wave */
    /* mean number of waves that a SIMD holds when one of them begins an iteration */
    double waves;
    /* clocks of one wave per iteration: modelled, and the least that are possible */
    double clocks, bound;
    struct time_mix mix; /* instructions of one wave per iteration */
};
/* Sets *loop to the loop of a profile of `waves` waves that has the most clocks. False if the
 * profile has no loop. */
bool time_hottest_loop(const struct time_code *code, uint64_t waves, struct time_loop *loop);

/* Writes the disassembly with the profile to the file `path`. False on a write error. See
 * trace.c. */
bool time_annotate(const struct time_code *code, const char *kernel, const char *path);

/* A trace in the JSON format of Chrome and Perfetto, see trace.c. time_trace_open() returns NULL if
 * it cannot create the file. */
struct time_trace;
struct time_trace *time_trace_open(const char *path, const char *kernel, struct time_code *code);
struct time_sink time_trace_sink(struct time_trace *trace);
/* Adds the occupancy of the XCDs from `report` (NULL: none) and closes the file. False on a write
 * error. */
bool time_trace_close(struct time_trace *trace, const struct hipsim_time_report *report);

#endif
