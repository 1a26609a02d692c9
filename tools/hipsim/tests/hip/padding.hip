// SPDX-License-Identifier: Apache-2.0
// Compiled with -O0, which copies structures with their padding: whole dwords that were never
// written. The copy is no error, but the use of a member that was never written is.
#include "check.h"

struct padded {
    int a;
    double b;
    char c;
    alignas(8) char d;
};

__global__ void copy(padded *out, int *count)
{
    padded p;
    p.a = threadIdx.x;
    p.b = 0.5 * threadIdx.x;
    p.c = 1;
    p.d = 2;
    padded q = p;
    out[threadIdx.x] = q;
    padded again = out[threadIdx.x];
    if (again.b == 0.5 * again.a)
        atomicAdd(count, again.c + again.d);
}

__global__ void forgets(padded *out)
{
    padded p;
    p.a = threadIdx.x;
    p.c = p.d = 0;
    out[threadIdx.x] = p;
    if (out[threadIdx.x].b > 0)
        out[threadIdx.x].c = 1;
}

int main()
{
    padded *out;
    int *count, total;

    HIP(hipMalloc(&out, 64 * sizeof(*out)));
    HIP(hipMalloc(&count, sizeof(*count)));
    HIP(hipMemset(count, 0, sizeof(*count)));
    copy<<<1, 64>>>(out, count);
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(&total, count, sizeof(total), hipMemcpyDeviceToHost));
    CHECK(total == 64 * 3);
    forgets<<<1, 64>>>(out);
    EXPECT(hipErrorLaunchFailure, hipDeviceSynchronize());
    return 0;
}
