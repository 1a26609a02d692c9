/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the loops of `attnc probes` (probes.s). Each measures one number of the timing
 * model, on a GPU or on the simulator. probes.c is the command, probe_run.c runs a loop,
 * probe_fit.c finds the number that a result means.
 */
#ifndef TOOLS_ATTNC_PROBES_H
#define TOOLS_ATTNC_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PROBE_RUNS = 15 };

/** A loop and the parameter that it measures. */
struct probe {
    const char *kernel;    /* symbol in the code object */
    const char *parameter; /* name of a row P of targets/facts/ */
    const char *target;    /* the only target that has the loop; NULL: all */
    unsigned waves;        /* of a workgroup */
    unsigned groups;       /* workgroups of a launch */
    bool event;            /* true: microseconds of the launch; false: clocks by s_memtime */
    unsigned nodes; /* launches of a graph, each after the one before; 0: one launch, no graph */
};

/** Every probe. The first two measure the power law of the clock, on which all microseconds
 * depend. */
extern const struct probe probes[];
extern const size_t probe_count;

/** True if the target has this probe. */
bool probe_is_for(const struct probe *p, const char *target);

/** Median and bounds of a probe's runs, in clocks or microseconds. */
struct probe_result {
    double median, low, high;
    bool simulated; /* true: the library is hipsim */
};

/** Opens the HIP library at `path`, or if that is NULL the machine's of version 7, 6 or 5. Loads
 * the target's loops and allocates their data. Returns false with a sentence in `why` on failure.
 * HIP stays open until the process ends. */
bool probe_open(const char *path, const char *target, char why[200]);

/** Runs a probe once to warm up and then PROBE_RUNS times, or once if a simulated device repeats
 * its first result. `parameters` are changes of the simulator's timing model, or NULL. Returns
 * false with a sentence in `why` on failure. */
bool probe_run(const struct probe *p, const char *parameters, struct probe_result *r,
               char why[200]);

/**
 * Finds the parameters with which the simulator gives the results of `file`, which `attnc probes`
 * wrote, and prints them to standard output. `simulator` is the path of its HIP library. Returns an
 * exit_code after a message.
 */
int probes_fit(const char *file, const char *simulator);

#endif
