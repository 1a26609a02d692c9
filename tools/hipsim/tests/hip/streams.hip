// SPDX-License-Identifier: Apache-2.0
// Tests streams, events and modelled time.
#include "check.h"

__global__ void spin(int *out, int rounds)
{
    int value = threadIdx.x;
    for (int i = 0; i < rounds; i++)
        value = value * 1664525 + 1013904223;
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

static void note_status(hipStream_t, hipError_t status, void *data)
{
    CHECK(status == hipSuccess);
    ++*(int *)data;
}

int main()
{
    hipStream_t a, b;
    hipEvent_t start, middle, stop, untimed;
    float first = 0, second = 0;
    int *out, called = 0, least, greatest, priority;
    unsigned flags;

    HIP(hipMalloc(&out, 64 * 256 * sizeof(*out)));
    HIP(hipStreamCreate(&a));
    HIP(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
    HIP(hipStreamGetFlags(b, &flags));
    CHECK(flags == hipStreamNonBlocking);
    HIP(hipDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest < least);
    HIP(hipStreamGetPriority(a, &priority));
    HIP(hipEventCreate(&start));
    HIP(hipEventCreate(&middle));
    HIP(hipEventCreate(&stop));
    HIP(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
    EXPECT(hipErrorInvalidHandle, hipEventElapsedTime(&first, start, stop));

    HIP(hipEventRecord(start, a));
    spin<<<64, 256, 0, a>>>(out, 10);
    HIP(hipEventRecord(middle, a));
    spin<<<64, 256, 0, a>>>(out, 1000);
    HIP(hipEventRecord(stop, a));
    HIP(hipEventSynchronize(stop));
    HIP(hipEventQuery(stop));
    HIP(hipEventElapsedTime(&first, start, middle));
    HIP(hipEventElapsedTime(&second, middle, stop));
    CHECK(first > 0 && second > first); // more instructions have a longer modelled time

    // A wait for another stream's event cannot end before the event.
    HIP(hipStreamWaitEvent(b, stop, 0));
    HIP(hipEventRecord(middle, b));
    HIP(hipEventElapsedTime(&first, stop, middle));
    CHECK(first >= 0);

    // Modelled times of two streams overlap: work starts when its own stream is idle.
    HIP(hipDeviceSynchronize());
    HIP(hipEventRecord(start, a));
    HIP(hipEventRecord(middle, b));
    HIP(hipEventElapsedTime(&first, start, middle));
    CHECK(first > -0.001f && first < 0.001f);

    HIP(hipEventRecord(untimed, a));
    EXPECT(hipErrorInvalidHandle, hipEventElapsedTime(&first, start, untimed));
    HIP(hipStreamAddCallback(a, note_status, &called, 0));
    HIP(hipStreamQuery(a));
    HIP(hipStreamSynchronize(a));
    CHECK(called == 1);

    spin<<<1, 64, 0, hipStreamPerThread>>>(out, 3);
    HIP(hipStreamSynchronize(hipStreamPerThread));
    HIP(hipStreamDestroy(a));
    HIP(hipStreamDestroy(b));
    EXPECT(hipErrorContextIsDestroyed, hipStreamSynchronize(a));
    HIP(hipEventDestroy(start));
    EXPECT(hipErrorInvalidHandle, hipEventDestroy(start));
    return 0;
}
