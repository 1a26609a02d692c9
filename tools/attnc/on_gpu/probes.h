/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the loops of `attnc probes` (probes.s). Each measures one parameter of the
 * timing model, on a GPU or on the simulator. probes.c is the command, probe_run.c runs a loop, and
 * probe_fit.c finds the parameter from the results.
 */
#ifndef TOOLS_ATTNC_PROBES_H
#define TOOLS_ATTNC_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Timed runs of a probe on a GPU. */
enum { PROBE_RUNS = 15 };

/** A loop and the parameter that it measures. */
struct probe {
    const char *kernel; /* symbol of the loop's kernel in the code object */
    /* Name of the parameter, as targets/facts/ has it. */
    const char *parameter;
    const char *target; /* name of the only target with this loop; NULL: all have it */
    unsigned waves;     /* waves of a workgroup */
    unsigned groups;    /* workgroups of a launch */
    /* True: the result is the launch's time in microseconds, by events; false: clocks of the loop,
     * by s_memtime. */
    bool event;
    /* Launches of a graph, each after the one before; 0: the probe is one launch without a
     * graph. */
    unsigned nodes;
};

/** Every probe, `probe_count` of them. The first two measure the power law of the clock, on which
 * all microseconds depend. */
extern const struct probe probes[];
extern const size_t probe_count;

/** True if the target has this probe. */
bool probe_is_for(const struct probe *p, const char *target);

/** Median and confidence interval of a probe's runs, in clocks or microseconds (struct probe's
 * `event`). */
struct probe_result {
    double median, low, high;
    bool simulated; /* true: the library is hipsim */
};

/** Opens a HIP library, loads the target's loops and allocates their buffers. `path` is the
 * library; NULL: the machine's, of HIP 7, 6 or 5. On failure returns false, with a sentence in
 * `why`. HIP stays open until the process ends. */
bool probe_open(const char *path, const char *target, char why[200]);

/** Runs a probe once to warm up, then PROBE_RUNS times; once if the simulator repeats its first
 * result. `parameters` changes the simulator's timing model, in the form of --parameters; NULL: no
 * change. On failure returns false, with a sentence in `why`. */
bool probe_run(const struct probe *p, const char *parameters, struct probe_result *r,
               char why[200]);

/** Runs a probe once on a simulated device, which repeats its results. *value is its clocks or
 * microseconds with `parameters`. Returns false with a sentence in `why` on failure. */
bool probe_model(const struct probe *p, const char *parameters, double *value, char why[200]);

/** Finds the parameters with which the simulator gives the results in `file`, the output of `attnc
 * probes`. Prints them to standard output. `simulator` is the path of hipsim. Returns an exit_code
 * after a message. */
int probes_fit(const char *file, const char *simulator);

#endif
