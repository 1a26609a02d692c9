/* SPDX-License-Identifier: Apache-2.0 */
/* The file of option `counters`: a CSV table with a row for each launch. */
#ifndef HIPSIM_HIP_COUNTERS_H
#define HIPSIM_HIP_COUNTERS_H

#include "hip.h"
#include "hipsim_time.h"

/** Creates the file options->counters and writes its header. On failure false, with a sentence in
 * `why`. */
bool hip_counters_configure(const struct options *options, char *why, size_t why_size);

/** Writes a launch's row. `time` is its modelled report; NULL if it was not timed. */
void hip_counters_write(const struct hipsim_launch_stats *stats,
                        const struct hipsim_time_report *time);

#endif
