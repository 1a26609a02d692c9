/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modelled time of copies, and of launches that the timing model (time/) does not time, in
 * microseconds.
 *
 * A launch costs 5 us. After that each SIMD issues a vector instruction in 4 cycles (CDNA: 16 lanes
 * wide) and any other instruction in 1, at the highest clock. As many compute units work as there
 * are workgroups. Copies within a device have 80 % of the memory's peak bandwidth; copies from and
 * to the host have 50 GB/s (PCIe 5.0 x16).
 */
#ifndef HIPSIM_HIP_CLOCK_H
#define HIPSIM_HIP_CLOCK_H

#include "hip.h"

/** Return the modelled microseconds of a launch, and of a copy of `bytes` bytes. */
double hip_clock_launch(const struct hipsim_launch_stats *stats, const struct device_facts *facts);
double hip_clock_copy(uint64_t bytes, bool crosses_to_host, const struct device_facts *facts);

#endif
