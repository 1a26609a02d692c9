/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares which of the simulated GPUs a process sees. */
#ifndef HIPSIM_HIP_VISIBLE_H
#define HIPSIM_HIP_VISIBLE_H

#include "hip.h"

enum { HIP_UUID_TEXT = 16 }; /* bytes of the text of a UUID, with its end */

/** Writes the UUID of GPU number `gpu`, by which the lists name it: "GPU-" and this text. */
void hip_device_uuid(unsigned gpu, char text[HIP_UUID_TEXT]);

/** Chooses among `count` GPUs by ROCR_, HIP_ and CUDA_VISIBLE_DEVICES; writes their numbers in the
 *  order in which the process counts them, and returns how many. */
unsigned hip_visible_devices(unsigned count, unsigned gpus[HIP_MAX_DEVICES]);

#endif
