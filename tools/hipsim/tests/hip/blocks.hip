// SPDX-License-Identifier: Apache-2.0
// Runs blocks on several host threads. The block that counts last may read what the other blocks
// stored before they counted. Without the count the reads are a race.
#include "check.h"

#define BLOCKS 300

__global__ void sum(const int *in, int *partial, int *counter, int *out, int fenced)
{
    __shared__ int part[128];
    __shared__ int last;
    part[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        int s = 0;
        for (int i = 0; i < 128; i++)
            s += part[i];
        if (fenced)
            partial[blockIdx.x] = s;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        last = atomicAdd(counter, 1) == BLOCKS - 1;
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        if (!fenced)
            partial[blockIdx.x] = s;
    }
    __syncthreads();
    if (!last || threadIdx.x >= 64)
        return;
    int s = 0;
    for (int i = threadIdx.x; i < BLOCKS; i += 64)
        s += partial[i];
    atomicAdd(out, s);
}

int main()
{
    static int numbers[BLOCKS * 128];
    int *in, *partial, *counter, *out, total, want = 0;

    for (int i = 0; i < BLOCKS * 128; i++)
        want += numbers[i] = i % 17;
    HIP(hipMalloc(&in, sizeof(numbers)));
    HIP(hipMalloc(&partial, BLOCKS * sizeof(*partial)));
    HIP(hipMalloc(&counter, sizeof(*counter)));
    HIP(hipMalloc(&out, sizeof(*out)));
    HIP(hipMemcpy(in, numbers, sizeof(numbers), hipMemcpyHostToDevice));
    for (int fenced = 1; fenced >= 0; fenced--) {
        for (int run = 0; run < (fenced ? 5 : 1); run++) {
            HIP(hipMemset(counter, 0, sizeof(*counter)));
            HIP(hipMemset(out, 0, sizeof(*out)));
            HIP(hipMemset(partial, 0, BLOCKS * sizeof(*partial)));
            sum<<<BLOCKS, 128>>>(in, partial, counter, out, fenced);
            EXPECT(fenced ? hipSuccess : hipErrorLaunchFailure, hipDeviceSynchronize());
            HIP(hipMemcpy(&total, out, sizeof(total), hipMemcpyDeviceToHost));
            CHECK(!fenced || total == want);
        }
    }
    return 0;
}
