// SPDX-License-Identifier: Apache-2.0
// Runs many host threads at the same time, each with its own stream.
#include "check.h"
#include <pthread.h>

__global__ void fill(int *p, int value)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = value + (int)blockIdx.x;
}

static void *work(void *argument)
{
    const int seed = *(int *)argument;
    int host[256], *p;
    hipStream_t stream;
    hipEvent_t event;

    HIP(hipStreamCreate(&stream));
    HIP(hipEventCreate(&event));
    for (int round = 0; round < 5; round++) {
        HIP(hipMallocAsync((void **)&p, sizeof(host), stream));
        HIP(hipMemsetAsync(p, 0, sizeof(host), stream));
        fill<<<4, 64, 0, stream>>>(p, seed + round);
        HIP(hipEventRecord(event, stream));
        HIP(hipMemcpyAsync(host, p, sizeof(host), hipMemcpyDeviceToHost, stream));
        HIP(hipStreamSynchronize(stream));
        for (int i = 0; i < 256; i++)
            CHECK(host[i] == seed + round + i / 64);
        HIP(hipFreeAsync(p, stream));
        fill<<<1, 64>>>(NULL, 0); // the error belongs to this thread
        EXPECT(hipErrorIllegalAddress, hipGetLastError());
        HIP(hipGetLastError());
    }
    HIP(hipEventDestroy(event));
    HIP(hipStreamDestroy(stream));
    return NULL;
}

int main()
{
    pthread_t threads[6];
    int seeds[6];

    for (int i = 0; i < 6; i++) {
        seeds[i] = i * 1000;
        CHECK(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
