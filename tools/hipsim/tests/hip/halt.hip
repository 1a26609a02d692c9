// SPDX-License-Identifier: Apache-2.0
// Tests that a race is reported once, counted, and stops the kernel only with halt=race, while a
// memory fault stops it by default.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/hipsim/hip/hipsim.h"

static int reports;
static char report[4096];

static void keep(void *, const hipsim_report *r)
{
    reports++;
    snprintf(report, sizeof(report), "%s", r->text);
}

__global__ void shift(int *out)
{
    __shared__ int part[128];
    part[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = part[(threadIdx.x + 64) % 128];
}

__global__ void store_at(int *p, int at)
{
    p[at] = 1;
}

template <typename F> static F *find(const char *name)
{
    F *f = (F *)dlsym(RTLD_DEFAULT, name);
    CHECK(f);
    return f;
}

int main()
{
    auto configure = find<decltype(hipsim_configure)>("hipsim_configure");
    auto findings = find<decltype(hipsim_findings)>("hipsim_findings");
    auto last_launch = find<decltype(hipsim_last_launch)>("hipsim_last_launch");
    int *p, out[128];

    find<decltype(hipsim_set_report)>("hipsim_set_report")(keep, NULL);
    HIP(hipMalloc(&p, sizeof(out)));
    CHECK(configure("halt=memory+race", NULL, 0));
    shift<<<1, 128>>>(p);
    EXPECT(hipErrorLaunchFailure, hipDeviceSynchronize());
    CHECK(reports == 1 && strstr(report, "data race") && findings() == 0);
    (void)hipGetLastError();

    CHECK(configure("halt=memory+align+uninit", NULL, 0)); // the default value
    for (int i = 0; i < 2; i++) {
        hipsim_launch_stats stats = {sizeof(stats)};
        shift<<<1, 128>>>(p);
        HIP(hipDeviceSynchronize());
        CHECK(last_launch(&stats) && stats.findings > 0);
    }
    CHECK(reports == 2 && findings() >= 2);
    HIP(hipMemcpy(out, p, sizeof(out), hipMemcpyDeviceToHost));
    CHECK(out[0] == 64 && out[127] == 63);
    store_at<<<1, 1>>>(p, 1 << 20);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    CHECK(reports == 3);
    return 0;
}
