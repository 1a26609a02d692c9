/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the modelled time of copies and untimed launches by the formulas of hip_clock.h. */
#include "hip_clock.h"

#define LAUNCH_MICROSECONDS 5.0
#define COPY_MICROSECONDS 2.0
#define SIMDS 4

double hip_clock_launch(const struct hipsim_launch_stats *stats, const struct device_facts *facts)
{
    uint64_t vector = stats->valu + stats->mfma;
    double cycles = 4.0 * (double)vector + (double)(stats->instructions - vector);
    uint64_t units = stats->workgroups < (uint64_t)facts->compute_units
                         ? stats->workgroups
                         : (uint64_t)facts->compute_units;
    if (units == 0)
        return LAUNCH_MICROSECONDS;
    return LAUNCH_MICROSECONDS +
           cycles / (double)(units * SIMDS) / ((double)facts->clock_khz / 1000.0);
}

double hip_clock_copy(uint64_t bytes, bool crosses_to_host, const struct device_facts *facts)
{
    const double host_bytes_per_us = 50000.0;
    /* A copy within a device reads and writes every byte. */
    double inside = 2.0 * (double)bytes / (0.8 * (double)facts->memory_bytes_per_us);

    return COPY_MICROSECONDS + (crosses_to_host ? (double)bytes / host_bytes_per_us : inside);
}
