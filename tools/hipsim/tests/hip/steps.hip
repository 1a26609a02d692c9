// SPDX-License-Identifier: Apache-2.0
// Tests launches in steps: hipConfigureCall(), hipSetupArgument(), hipLaunchByPtr().
#include "check.h"

#include <thread>

__global__ void fill(int *p, char step, int value)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = value + step * threadIdx.x;
}

__global__ void nothing()
{
}

__global__ void dynamic(int *p)
{
    extern __shared__ int lds[];
    lds[threadIdx.x ^ 63] = threadIdx.x;
    __syncthreads();
    p[threadIdx.x] = lds[threadIdx.x];
}

static void arguments(int *p, char step, int value)
{
    HIP(hipSetupArgument(&value, sizeof(value), 12));
    HIP(hipSetupArgument(&p, sizeof(p), 0));
    HIP(hipSetupArgument(&step, sizeof(step), 8));
}

static int at(const int *p, int i)
{
    int value;
    HIP(hipMemcpy(&value, p + i, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

int main(void)
{
    int *p;
    hipStream_t stream;
    HIP(hipMalloc(&p, 256 * sizeof(*p)));
    HIP(hipMemset(p, 0, 256 * sizeof(*p)));
    HIP(hipStreamCreate(&stream));

    EXPECT(hipErrorMissingConfiguration, hipLaunchByPtr((const void *)fill));
    EXPECT(hipErrorMissingConfiguration, hipSetupArgument(&p, sizeof(p), 0));
    HIP(hipConfigureCall(2, 64, 0, stream));
    EXPECT(hipErrorInvalidValue, hipSetupArgument(NULL, 8, 0));
    EXPECT(hipErrorInvalidValue, hipSetupArgument(&p, 8, SIZE_MAX));
    arguments(p, 3, 7);
    HIP(hipLaunchByPtr((const void *)fill));
    HIP(hipStreamSynchronize(stream));
    CHECK(at(p, 0) == 7 && at(p, 127) == 7 + 3 * 63 && at(p, 128) == 0);

    // The last configuration is launched first. Each thread has its own stack of configurations.
    HIP(hipConfigureCall(1, 64, 0, stream));
    arguments(p, 0, 1);
    HIP(hipConfigureCall(1, 64, 0, NULL));
    arguments(p + 64, 0, 2);
    std::thread([] {
        EXPECT(hipErrorMissingConfiguration, hipLaunchByPtr((const void *)fill));
    }).join();
    HIP(hipLaunchByPtr((const void *)fill));
    CHECK(at(p, 0) == 7 && at(p, 64) == 2);
    HIP(hipLaunchByPtr((const void *)fill));
    HIP(hipStreamSynchronize(stream));
    CHECK(at(p, 0) == 1 && at(p, 63) == 1 && at(p, 64) == 2);

    HIP(hipConfigureCall(1, 64, 64 * sizeof(int), NULL));
    HIP(hipSetupArgument(&p, sizeof(p), 0));
    HIP(hipLaunchByPtr((const void *)dynamic));
    CHECK(at(p, 0) == 63 && at(p, 63) == 0);

    HIP(hipConfigureCall(1, 1, 0, NULL));
    HIP(hipLaunchByPtr((const void *)nothing));
    HIP(hipConfigureCall(1, 64, 0, NULL));
    EXPECT(hipErrorInvalidValue, hipLaunchByPtr((const void *)fill)); // the arguments are missing
    EXPECT(hipErrorMissingConfiguration, hipLaunchByPtr((const void *)nothing));
    HIP(hipConfigureCall(1, 64, 0, NULL));
    EXPECT(hipErrorInvalidDeviceFunction, hipLaunchByPtr(&stream));
    HIP(hipStreamDestroy(stream));
    HIP(hipFree(p));
    return 0;
}
