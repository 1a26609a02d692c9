/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of calls that use the thread's own stream instead of the null stream. Programs that are
 * compiled with -fgpu-default-stream=per-thread call them. */
#include "hip.h"

/* Returns the stream, or the thread's own stream in place of the null stream. */
static hipStream_t own(hipStream_t stream) { return stream ? stream : hipStreamPerThread; }

/* Waits for the thread's stream after an asynchronous form of a blocking call. `error` is that
 * form's result. */
static hipError_t wait(hipError_t error)
{
    return error == hipSuccess ? hipStreamSynchronize(hipStreamPerThread) : error;
}

#define SPT(name, parameters, call)              \
    HIP_EXPORT hipError_t name##_spt parameters; \
    HIP_EXPORT hipError_t name##_spt parameters { return call; }

SPT(hipMemcpy, (void *dst, const void *src, size_t size, hipMemcpyKind kind),
    wait(hipMemcpyAsync(dst, src, size, kind, hipStreamPerThread)))
SPT(hipMemcpyAsync,
    (void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream),
    hipMemcpyAsync(dst, src, size, kind, own(stream)))
SPT(hipMemcpyToSymbol,
    (const void *symbol, const void *src, size_t size, size_t offset, hipMemcpyKind kind),
    wait(hipMemcpyToSymbolAsync(symbol, src, size, offset, kind, hipStreamPerThread)))
SPT(hipMemcpyFromSymbol,
    (void *dst, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind),
    wait(hipMemcpyFromSymbolAsync(dst, symbol, size, offset, kind, hipStreamPerThread)))
SPT(hipMemcpy2D,
    (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
     hipMemcpyKind kind),
    wait(hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, hipStreamPerThread)))
SPT(hipMemcpy3D, (const struct hipMemcpy3DParms *p), wait(hipMemcpy3DAsync(p, hipStreamPerThread)))
SPT(hipMemset, (void *dst, int value, size_t size),
    wait(hipMemsetAsync(dst, value, size, hipStreamPerThread)))
SPT(hipMemset2D, (void *dst, size_t pitch, int value, size_t width, size_t height),
    wait(hipMemset2DAsync(dst, pitch, value, width, height, hipStreamPerThread)))
SPT(hipMemset3D, (hipPitchedPtr box, int value, hipExtent extent),
    wait(hipMemset3DAsync(box, value, extent, hipStreamPerThread)))
SPT(hipMemsetAsync, (void *dst, int value, size_t size, hipStream_t stream),
    hipMemsetAsync(dst, value, size, own(stream)))
SPT(hipMemcpyToSymbolAsync,
    (const void *symbol, const void *src, size_t size, size_t offset, hipMemcpyKind kind,
     hipStream_t stream),
    hipMemcpyToSymbolAsync(symbol, src, size, offset, kind, own(stream)))
SPT(hipMemcpyFromSymbolAsync,
    (void *dst, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind,
     hipStream_t stream),
    hipMemcpyFromSymbolAsync(dst, symbol, size, offset, kind, own(stream)))
SPT(hipMemcpy2DAsync,
    (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
     hipMemcpyKind kind, hipStream_t stream),
    hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, own(stream)))
SPT(hipMemcpy3DAsync, (const struct hipMemcpy3DParms *p, hipStream_t stream),
    hipMemcpy3DAsync(p, own(stream)))
SPT(hipMemset2DAsync,
    (void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
    hipMemset2DAsync(dst, pitch, value, width, height, own(stream)))
SPT(hipMemset3DAsync, (hipPitchedPtr box, int value, hipExtent extent, hipStream_t stream),
    hipMemset3DAsync(box, value, extent, own(stream)))
SPT(hipStreamQuery, (hipStream_t stream), hipStreamQuery(own(stream)))
SPT(hipStreamSynchronize, (hipStream_t stream), hipStreamSynchronize(own(stream)))
SPT(hipStreamGetPriority, (hipStream_t stream, int *priority),
    hipStreamGetPriority(own(stream), priority))
SPT(hipStreamGetFlags, (hipStream_t stream, unsigned int *flags),
    hipStreamGetFlags(own(stream), flags))
SPT(hipStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned int flags),
    hipStreamWaitEvent(own(stream), event, flags))
SPT(hipEventRecord, (hipEvent_t event, hipStream_t stream), hipEventRecord(event, own(stream)))
SPT(hipLaunchKernel,
    (const void *function, dim3 grid, dim3 block, void **params, size_t lds, hipStream_t stream),
    hipLaunchKernel(function, grid, block, params, lds, own(stream)))
SPT(hipLaunchCooperativeKernel,
    (const void *function, dim3 grid, dim3 block, void **params, uint32_t lds, hipStream_t stream),
    hipLaunchCooperativeKernel(function, grid, block, params, lds, own(stream)))
SPT(hipLaunchHostFunc, (hipStream_t stream, hipHostFn_t fn, void *data),
    hipLaunchHostFunc(own(stream), fn, data))
SPT(hipStreamAddCallback,
    (hipStream_t stream, hipStreamCallback_t callback, void *data, unsigned int flags),
    hipStreamAddCallback(own(stream), callback, data, flags))
SPT(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t stream), hipGraphLaunch(exec, own(stream)))
SPT(hipStreamBeginCapture, (hipStream_t stream, hipStreamCaptureMode mode),
    hipStreamBeginCapture(own(stream), mode))
SPT(hipStreamEndCapture, (hipStream_t stream, hipGraph_t *graph),
    hipStreamEndCapture(own(stream), graph))
SPT(hipStreamGetCaptureInfo,
    (hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id),
    hipStreamGetCaptureInfo(own(stream), status, id))
SPT(hipStreamIsCapturing, (hipStream_t stream, hipStreamCaptureStatus *status),
    hipStreamIsCapturing(own(stream), status))
