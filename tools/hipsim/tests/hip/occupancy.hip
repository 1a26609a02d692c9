// SPDX-License-Identifier: Apache-2.0
// Tests occupancy and function attributes, which follow from registers and LDS.
#include "check.h"

__global__ void light(int *p)
{
    p[threadIdx.x] = threadIdx.x;
}

__global__ __launch_bounds__(256) void lds_heavy(int *p)
{
    __shared__ int data[8192];
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    p[threadIdx.x] = data[255 - threadIdx.x];
}

int main()
{
    int blocks = 0, grid = 0, block = 0, *p;
    hipFuncAttributes attributes;
    hipDeviceProp_t properties;

    HIP(hipGetDeviceProperties(&properties, 0));
    HIP(hipFuncGetAttributes(&attributes, (const void *)lds_heavy));
    CHECK(attributes.sharedSizeBytes == 32768);
    CHECK(attributes.maxThreadsPerBlock == 256);
    CHECK(attributes.numRegs > 0 && attributes.numRegs <= 512);

    // A compute unit has 8 wave slots on each of 4 SIMDs.
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)light, 256, 0));
    CHECK(blocks == 8);
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)light, 1024, 0));
    CHECK(blocks == 2);
    // A block has 32 KiB of LDS. 64 KiB hold two blocks, 160 KiB four (26 granules of 1280 B).
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)lds_heavy, 256, 0));
    CHECK(blocks == (properties.sharedMemPerBlock == 65536 ? 2 : 4));
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)lds_heavy, 512, 0));
    CHECK(blocks == 0);
    HIP(hipOccupancyMaxPotentialBlockSize(&grid, &block, (const void *)lds_heavy, 0, 0));
    CHECK(block == 256);
    CHECK(grid == properties.multiProcessorCount *
                      (properties.sharedMemPerBlock == 65536 ? 2 : 4));

    HIP(hipMalloc(&p, 1024 * sizeof(*p)));
    void *args[] = {&p};
    // These blocks cannot be resident together.
    EXPECT(hipErrorCooperativeLaunchTooLarge,
           hipLaunchCooperativeKernel((const void *)light, dim3(100000), dim3(256), args, 0, 0));
    HIP(hipLaunchCooperativeKernel((const void *)light, dim3(1), dim3(256), args, 0, 0));
    // The requested LDS exceeds the device's.
    EXPECT(hipErrorLaunchOutOfResources,
           hipLaunchKernel((const void *)light, dim3(1), dim3(64), args, 1 << 20, 0));
    EXPECT(hipErrorInvalidConfiguration,
           hipLaunchKernel((const void *)lds_heavy, dim3(1), dim3(512), args, 0, 0));
    return 0;
}
