/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers for calls of HIP and libattn. A failure ends the program with a message. */
#ifndef GPU_H
#define GPU_H

#ifndef __HIP_PLATFORM_AMD__
#    define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>

#include <attn.h>

#define HIP(call) gpu_check_hip(call, #call)
#define ATTN(call) gpu_check_attn(call, #call)

void gpu_check_hip(hipError_t error, const char *call);
void gpu_check_attn(int status, const char *call);

/* Allocates device memory filled with NaN, so that reads of unwritten memory show. */
void *gpu_allocate(size_t size);

void gpu_upload(void *to, const void *from, size_t size);

/* Captures launches on a stream; gpu_captured() ends the capture and returns the graph to
 * replay. */
void gpu_capture(hipStream_t stream);
hipGraphExec_t gpu_captured(hipStream_t stream);

#endif
