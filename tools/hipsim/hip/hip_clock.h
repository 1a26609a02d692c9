/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the time of copies, and of launches that the timing model (time/) does not
 * time, in microseconds.
 * A launch costs 5 us. Then each SIMD issues one vector instruction in 4 cycles (CDNA: 16 lanes
 * wide) and one instruction of any other kind in 1, at the highest clock. As many compute units
 * work as there are workgroups. Copies run at 80 % of the memory's peak within a device, and at 50
 * GB/s (PCIe 5.0 x16) to the host.
 */
#ifndef HIPSIM_HIP_CLOCK_H
#define HIPSIM_HIP_CLOCK_H

#include "hip.h"

/** Return the modelled microseconds of a launch, and of a copy of `bytes` bytes. */
double hip_clock_launch(const struct hipsim_launch_stats *stats, const struct device_facts *facts);
double hip_clock_copy(uint64_t bytes, bool crosses_to_host, const struct device_facts *facts);

#endif
