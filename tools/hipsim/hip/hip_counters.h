/* SPDX-License-Identifier: Apache-2.0 */
/* The file of option `counters`: a CSV table with a row for each launch. */
#ifndef HIPSIM_HIP_COUNTERS_H
#define HIPSIM_HIP_COUNTERS_H

#include "hip.h"
#include "hipsim_time.h"

/** Creates the file options->counters if it is not the table's file already. On failure false, with
 * a sentence in `why`. The caller calls hip_counters_settle() after it. */
bool hip_counters_prepare(const struct options *options, char *why, size_t why_size);

/** Makes the file of hip_counters_prepare() the table's file and writes its header if `ok`;
 * otherwise closes it. `options` are the same. */
void hip_counters_settle(const struct options *options, bool ok);

/** Writes a launch's row. `time` is its modelled report; NULL if it was not timed. */
void hip_counters_write(const struct hipsim_launch_stats *stats,
                        const struct hipsim_time_report *time);

#endif
