// SPDX-License-Identifier: Apache-2.0
// Runs without a device library. Code object version 6 and generic targets need that here, because
// Debian's libraries lack both.
#include "check.h"

__global__ void fill(unsigned *p)
{
    __shared__ unsigned data[128];
    unsigned i = __builtin_amdgcn_workitem_id_x();
    data[i] = __builtin_amdgcn_workgroup_id_x() * 1000 + i;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    p[__builtin_amdgcn_workgroup_id_x() * 128 + i] = data[127 - i];
}

int main()
{
    unsigned *p, host[384];

    HIP(hipMalloc(&p, sizeof(host)));
    fill<<<3, 128>>>(p);
    HIP(hipMemcpy(host, p, sizeof(host), hipMemcpyDeviceToHost));
    for (unsigned i = 0; i < 384; i++)
        CHECK(host[i] == i / 128 * 1000 + 127 - i % 128);
    return 0;
}
