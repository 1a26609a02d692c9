/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches in three steps, as compilers before HIP-Clang emitted them: the shape, each argument,
 * the kernel. Launches may nest, since an argument's expression may launch kernels.
 */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

enum { NESTED_MAX = 16, ARGUMENTS_MAX = 1 << 20 };

/* A launch that was configured and not made yet. */
struct step {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
    char *arguments; /* packed arguments, which the step owns */
    size_t bytes;
};

static _Thread_local struct step steps[NESTED_MAX];
static _Thread_local unsigned nsteps;

/* Adds a configured launch to the thread's stack. */
static hipError_t configure(dim3 grid, dim3 block, size_t lds, hipStream_t stream)
{
    if (nsteps == NESTED_MAX)
        return hip_fail(hipErrorInvalidConfiguration, "%d launches are configured and not made",
                        NESTED_MAX);
    steps[nsteps++] = (struct step){.grid = grid, .block = block, .lds = lds, .stream = stream};
    return hipSuccess;
}

HIP_EXPORT hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, hipStream_t stream)
{
    return HIP_CALL(hipConfigureCall, configure(grid, block, lds, stream));
}

/* Sets bytes of the arguments of the launch that was configured last. */
static hipError_t set_argument(const void *argument, size_t size, size_t offset)
{
    size_t end;

    if (!argument || __builtin_add_overflow(offset, size, &end) || end > ARGUMENTS_MAX)
        return hipErrorInvalidValue;
    if (!nsteps)
        return hip_fail(hipErrorMissingConfiguration, "no call has been configured");
    struct step *step = &steps[nsteps - 1];
    if (end > step->bytes) {
        char *arguments = realloc(step->arguments, end);
        if (!arguments)
            return hipErrorOutOfMemory;
        memset(arguments + step->bytes, 0, end - step->bytes);
        step->arguments = arguments;
        step->bytes = end;
    }
    if (size)
        memcpy(step->arguments + offset, argument, size);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipSetupArgument(const void *argument, size_t size, size_t offset)
{
    return HIP_CALL(hipSetupArgument, set_argument(argument, size, offset));
}

/* Launches the kernel `host` with the configuration on the top of the stack. */
static hipError_t launch(const void *host)
{
    if (!nsteps)
        return hip_fail(hipErrorMissingConfiguration, "no call has been configured");
    const struct step step = steps[--nsteps];
    size_t bytes = step.bytes;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, step.arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, HIP_LAUNCH_PARAM_END};
    if (!step.arguments) /* the kernel has no arguments */
        extra[0] = HIP_LAUNCH_PARAM_END;
    const hipError_t error =
        hip_launch_packed(host, step.grid, step.block, step.lds, step.stream, extra);
    free(step.arguments);
    return error;
}

HIP_EXPORT hipError_t hipLaunchByPtr(const void *function)
{
    return HIP_CALL(hipLaunchByPtr, launch(function));
}
