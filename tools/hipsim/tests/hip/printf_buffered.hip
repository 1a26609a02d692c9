// SPDX-License-Identifier: Apache-2.0
// Tests that a kernel that prints into the runtime's buffer is refused before it runs. A kernel of
// the same module that does not print runs.
#include "check.h"

// Clang calls this function of opencl.bc, which it does not link for HIP. The buffer's address is a
// hidden argument: in code object V5 at byte 72 after the explicit arguments.
extern "C" __device__ char *__printf_alloc(unsigned)
{
    return ((char **)__builtin_amdgcn_implicitarg_ptr())[9];
}

__global__ void talk(int *p)
{
    *p = 1;
    printf("%d\n", *p);
}

__global__ void keep_silent(int *p)
{
    *p += 2;
}

int main()
{
    int *p, value;

    HIP(hipMalloc(&p, sizeof(*p)));
    HIP(hipMemset(p, 0, sizeof(*p)));
    talk<<<1, 1>>>(p);
    EXPECT(hipErrorNotSupported, hipGetLastError());
    keep_silent<<<1, 1>>>(p);
    HIP(hipGetLastError());
    HIP(hipMemcpy(&value, p, sizeof(value), hipMemcpyDeviceToHost));
    CHECK(value == 2);
    return 0;
}
