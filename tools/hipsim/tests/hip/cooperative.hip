// SPDX-License-Identifier: Apache-2.0
// Tests workgroups that wait for each other, at barriers of the grid and for flags.
#include "check.h"

#include <hip/hip_cooperative_groups.h>

using namespace cooperative_groups;

// Sets each element, in each round, to 1 plus its left neighbour's value of the previous round. The
// neighbour is often in another block.
__global__ void rounds(int *data, int n, int count)
{
    grid_group grid = this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < count; r++) {
        int left = data[(r & 1) * n + (i + n - 1) % n];
        data[((r + 1) & 1) * n + i] = left + 1;
        grid.sync();
    }
}

__global__ void absent(void)
{
    if (blockIdx.x != 3)
        this_grid().sync();
}

// The first block waits for a flag of the last block.
__global__ void flag(int *flag, int *out)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == gridDim.x - 1) {
        out[1] = 41;
        __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    }
    if (blockIdx.x == 0) {
        while (!__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT))
            __builtin_amdgcn_s_sleep(1);
        out[0] = out[1] + 1;
    }
}

int main()
{
    const int n = 64 * 256;
    static int host[64 * 256];
    int *p, size = n, count = 5;
    HIP(hipMalloc(&p, 2 * n * sizeof(int)));
    HIP(hipMemset(p, 0, 2 * n * sizeof(int)));
    void *arguments[] = {&p, &size, &count};
    HIP(hipLaunchCooperativeKernel((void *)rounds, dim3(64), dim3(256), arguments, 0, NULL));
    HIP(hipMemcpy(host, p + n, sizeof(host), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        CHECK(host[i] == count);

    HIP(hipMemset(p, 0, 12));
    flag<<<100, 64>>>(p, p + 1);
    HIP(hipMemcpy(host, p + 1, 4, hipMemcpyDeviceToHost));
    CHECK(host[0] == 42);

    // In the cooperative launch one block never reaches the barrier. The second launch is not
    // cooperative.
    EXPECT(hipErrorLaunchTimeOut,
           hipLaunchCooperativeKernel((void *)absent, dim3(8), dim3(128), arguments, 0, NULL));
    absent<<<8, 128>>>();
    CHECK(hipDeviceSynchronize() != hipSuccess);
    return 0;
}
