/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated GPUs that a process sees. */
#ifndef HIPSIM_HIP_VISIBLE_H
#define HIPSIM_HIP_VISIBLE_H

#include "hip.h"

enum { HIP_UUID_TEXT = 16 }; /* bytes of a UUID's text, with the final NUL */

/** Writes the UUID of GPU number `gpu` without its prefix "GPU-". Lists may name the GPU by it. */
void hip_device_uuid(unsigned gpu, char text[HIP_UUID_TEXT]);

/** Chooses among `count` GPUs by ROCR_, HIP_ and CUDA_VISIBLE_DEVICES. Sets gpus[] to their
 * numbers, in the order of the process's devices. Returns how many they are. */
unsigned hip_visible_devices(unsigned count, unsigned gpus[HIP_MAX_DEVICES]);

#endif
