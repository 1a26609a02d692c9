/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model's interface for the HIP side. */
#ifndef HIPSIM_TIME_API_H
#define HIPSIM_TIME_API_H

#include "wave.h"

/*
 * Runs the launch, in time if hipsim_time_enable() or `always` says so: then *microseconds is its
 * modelled time at the power-limited clock, else it is negative. Returns as engine_run().
 */
int time_run(struct launch *launch, bool always, double *microseconds);

#endif
