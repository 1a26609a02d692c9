// SPDX-License-Identifier: Apache-2.0
// Code object that modules.hip and libraries.hip load.
#include <hip/hip_runtime.h>

extern "C" __device__ int offset = 11;
extern "C" __constant__ float table[4] = {1, 2, 4, 8};
extern "C" __device__ int *chain = &offset; // needs a relocation

extern "C" __global__ void mix(char a, double b, short c, const int *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (float)(a + b + c + in[i] + *chain) * table[i & 3];
}

extern "C" __global__ void number(int *out, long spare, long none)
{
    out[threadIdx.x] = threadIdx.x;
}

// Stores hidden_multigrid_sync_arg of code object V5, the record for cooperative launches.
extern "C" __global__ void meet(const unsigned long **record)
{
    *record = ((const unsigned long *const *)__builtin_amdgcn_implicitarg_ptr())[11];
}

extern "C" __managed__ int kept[2] = {5, 6};

extern "C" __global__ void keep(int value)
{
    kept[1] += kept[0] * value;
}
