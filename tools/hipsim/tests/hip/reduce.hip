// SPDX-License-Identifier: Apache-2.0
// Tests static and dynamic LDS, barriers, shuffles, atomics, private memory, calls through the
// stack.
#include "check.h"

__global__ void sum_dynamic(const int *in, int *out, int n)
{
    extern __shared__ int part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, part[0]);
}

__global__ void sum_shuffle(const int *in, int *out, int n)
{
    __shared__ int waves[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;
    for (int step = warpSize / 2; step > 0; step /= 2)
        value += __shfl_down(value, step);
    if (threadIdx.x % warpSize == 0)
        waves[threadIdx.x / warpSize] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / warpSize; w++)
            value += waves[w];
        atomicAdd(out, value);
    }
}

__device__ __attribute__((noinline)) int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __attribute__((noinline)) int reversed(const int *in, int n)
{
    int copy[64];
    if (n == 0)
        return in[0];
    for (int i = 0; i < 64; i++)
        copy[i] = in[63 - i];
    return reversed(copy, n - 1) + copy[n];
}

__global__ void recursion(int *out)
{
    int numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = i;
    out[threadIdx.x] = fibonacci(threadIdx.x % 10) + (reversed(numbers, 12) - 372);
}

__global__ void histogram(const int *in, int *out, int n)
{
    int private_bins[8] = {0};
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        private_bins[in[i] & 7]++;
    for (int b = 0; b < 8; b++)
        atomicAdd(&out[b], private_bins[b]);
}

int main()
{
    const int n = 5000;
    int *in, *out, host[n], sum = 0, bins[8] = {0}, got[64];
    for (int i = 0; i < n; i++) {
        host[i] = (i * 7919) % 1000 - 300;
        sum += host[i];
        bins[host[i] & 7]++;
    }
    HIP(hipMalloc(&in, sizeof(host)));
    HIP(hipMalloc(&out, sizeof(got)));
    HIP(hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice));

    HIP(hipMemset(out, 0, sizeof(got)));
    sum_dynamic<<<(n + 511) / 512, 512, 512 * sizeof(int)>>>(in, out, n);
    HIP(hipMemcpy(got, out, sizeof(int), hipMemcpyDeviceToHost));
    CHECK(got[0] == sum);

    HIP(hipMemset(out, 0, sizeof(got)));
    sum_shuffle<<<(n + 1023) / 1024, 1024>>>(in, out, n);
    HIP(hipMemcpy(got, out, sizeof(int), hipMemcpyDeviceToHost));
    CHECK(got[0] == sum);

    HIP(hipMemset(out, 0, sizeof(got)));
    histogram<<<1, 128>>>(in, out, n);
    HIP(hipMemcpy(got, out, sizeof(bins), hipMemcpyDeviceToHost));
    for (int b = 0; b < 8; b++)
        CHECK(got[b] == bins[b]);

    const int expected[10] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    recursion<<<1, 64>>>(out);
    HIP(hipMemcpy(got, out, sizeof(got), hipMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        CHECK(got[i] == expected[i % 10]);
    return 0;
}
