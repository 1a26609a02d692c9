// SPDX-License-Identifier: Apache-2.0
// Two waves copy rows to LDS without registers, and read each other's row. A barrier does not wait
// for such copies: each wave must wait for its own (s_waitcnt vmcnt) before the barrier. Only the
// program compiled with -DWAIT does.
//
//     hipsim cc copy_to_lds.hip -o copy && hipsim ./copy
//         LDS is read before its copy has arrived
//     hipsim cc copy_to_lds.hip -DWAIT -o copy && hipsim ./copy
//         no finding: 0 of 128 wrong
#include <hip/hip_runtime.h>
#include <stdio.h>

#define THREADS 128

#ifdef WAIT
#    define FINISH_COPIES() __builtin_amdgcn_s_waitcnt(0x0f70) // vmcnt(0), other counters at most
#else
#    define FINISH_COPIES()
#endif

typedef unsigned __attribute__((address_space(1))) * global_pointer;
typedef unsigned __attribute__((address_space(3))) * lds_pointer;

__global__ void reverse(unsigned *in, unsigned *out)
{
    __shared__ unsigned row[THREADS];
    const unsigned i = threadIdx.x, wave = i / 64 * 64;
    __builtin_amdgcn_global_load_lds((global_pointer)(in + i), (lds_pointer)(row + wave), 4, 0, 0);
    FINISH_COPIES();
    __builtin_amdgcn_s_barrier();
    out[i] = row[THREADS - 1 - i];
}

int main()
{
    unsigned host[THREADS], *in, *out, wrong = 0;
    for (unsigned i = 0; i < THREADS; i++)
        host[i] = 1000 + i;
    if (hipMalloc(&in, sizeof(host)) || hipMalloc(&out, sizeof(host)) ||
        hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice))
        return 1;
    reverse<<<1, THREADS>>>(in, out);
    if (hipMemcpy(host, out, sizeof(host), hipMemcpyDeviceToHost))
        return 1;
    for (unsigned i = 0; i < THREADS; i++)
        wrong += host[i] != 1000 + THREADS - 1 - i;
    printf("%u of %d wrong\n", wrong, THREADS);
    return hipFree(in) || hipFree(out) || wrong;
}
