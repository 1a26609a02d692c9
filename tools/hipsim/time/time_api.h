/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model's interface for the implementation of HIP. */
#ifndef HIPSIM_TIME_API_H
#define HIPSIM_TIME_API_H

#include "wave.h"

/*
 * Runs the launch. It is timed if hipsim_time_enable() or `always` requests it; *microseconds is
 * then the modelled time at the power-limited clock. Otherwise *microseconds is negative. Returns
 * the value of engine_run().
 */
int time_run(struct launch *launch, bool always, double *microseconds);

#endif
