/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps calls of HIP and libattn. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

void gpu_check_hip(hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return;
    fprintf(stderr, "%s: %s\n", call, hipGetErrorString(error));
    exit(2);
}

void gpu_check_attn(int status, const char *call)
{
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, attn_status_name(status), attn_last_error());
    exit(2);
}

void *gpu_allocate(size_t size)
{
    void *p;
    HIP(hipMalloc(&p, size));
    HIP(hipMemset(p, 0xff, size));
    return p;
}

void gpu_upload(void *to, const void *from, size_t size)
{
    HIP(hipMemcpy(to, from, size, hipMemcpyHostToDevice));
}

void gpu_capture(hipStream_t stream)
{
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
}

hipGraphExec_t gpu_captured(hipStream_t stream)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphDestroy(graph));
    return exec;
}
