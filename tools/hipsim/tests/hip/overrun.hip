// SPDX-License-Identifier: Apache-2.0
// Writes past an array on the stack into its neighbour. Only the compiler knows the array's end:
// with its bounds check the kernel traps, and the report has the lanes and the line.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/hipsim/hip/hipsim.h"

static char report[4096];

static void keep(void *, const hipsim_report *r)
{
    snprintf(report, sizeof(report), "%s", r->text);
}

static const int line_of_the_store = __LINE__ + 6;
__global__ void leaves_its_array(int *out, const int *at)
{
    int first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8};
    const int i = at[threadIdx.x];

    first[i] = 10;
    second[i & 3] += 1;
    int sum = 0;
    for (int j = 0; j < 4; j++)
        sum += first[(j + i) & 3] * 10 + second[(i * j) & 3];
    out[threadIdx.x] = sum;
}

int main()
{
    auto set_report = (void (*)(void (*)(void *, const hipsim_report *), void *))dlsym(
        RTLD_DEFAULT, "hipsim_set_report");
    int *out, *at, places[64];
    char line[64];
    CHECK(set_report);
    HIP(hipMalloc(&out, 256));
    HIP(hipMalloc(&at, 256));
    set_report(keep, NULL);
    for (int i = 0; i < 64; i++)
        places[i] = i & 3;
    HIP(hipMemcpy(at, places, 256, hipMemcpyHostToDevice));
    leaves_its_array<<<1, 64>>>(out, at);
    HIP(hipDeviceSynchronize());
    CHECK(!report[0]);
    places[33] = 5;
    HIP(hipMemcpy(at, places, 256, hipMemcpyHostToDevice));
    leaves_its_array<<<1, 64>>>(out, at);
    EXPECT(hipErrorAssert, hipDeviceSynchronize());
    snprintf(line, sizeof(line), "overrun.hip:%d", line_of_the_store);
    CHECK(strstr(report, "s_trap") && strstr(report, "0x0000000200000000"));
    CHECK(strstr(report, line));
    return 0;
}
