// SPDX-License-Identifier: Apache-2.0
// Compiled with -g. The report names this file and the line of the store.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/hipsim/hip/hipsim.h"

static char report[4096];

static void keep(void *, const hipsim_report *r)
{
    snprintf(report, sizeof(report), "%s", r->text);
}

__device__ __attribute__((noinline)) void store(int *p, int at)
{
    p[at] = 1; // the reported line
}

__global__ void kernel(int *p, int at)
{
    store(p, at);
}

int main()
{
    auto set_report = (void (*)(void (*)(void *, const hipsim_report *), void *))dlsym(
        RTLD_DEFAULT, "hipsim_set_report");
    CHECK(set_report);
    int *p;
    HIP(hipMalloc(&p, 64));
    kernel<<<1, 1>>>(p, 3);
    HIP(hipDeviceSynchronize());
    set_report(keep, NULL);
    kernel<<<1, 1>>>(p, 1 << 20);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    CHECK(strstr(report, "\n  source ") && strstr(report, "lines.hip:19"));
    return 0;
}
