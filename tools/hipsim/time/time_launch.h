/* SPDX-License-Identifier: Apache-2.0 */
/* A launch in time: sampled workgroups on a modelled compute unit, the rest by dispatch. */
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
 * Runs the launch in place of engine_run(): every workgroup executes once, or only those that are
 * sampled if the configuration says so. 0, or -1 with launch->fault filled in.
 */
int time_launch_run(struct launch *launch, const struct time_config *config,
                    struct hipsim_time_report *report);

/* The hottest loop of a profile: where it is, a wave's clocks per iteration, its lower bound. */
struct time_loop {
    uint64_t first, last; /* offsets of its first instruction and of the branch back */
    double iterations;    /* of one wave */
    double clocks, bound; /* per iteration */
    struct time_mix mix;  /* of one wave, per iteration */
};
bool time_hottest_loop(const struct time_code *code, uint64_t waves, unsigned waves_per_simd,
                       struct time_loop *loop);

/* Writes the disassembly with the profile; false on a write error. trace.c. */
bool time_annotate(const struct time_code *code, const char *kernel, const char *path);

/* A trace in the JSON format of Chrome and Perfetto; trace.c. NULL if the file cannot be made. */
struct time_trace;
struct time_trace *time_trace_open(const char *path, const char *kernel, struct time_code *code);
struct time_sink time_trace_sink(struct time_trace *trace);
/* Adds how full the XCDs were over the time of the launch, unless `report` is NULL, and closes the
 * file. False on a write error. */
bool time_trace_close(struct time_trace *trace, const struct hipsim_time_report *report);

#endif
