// SPDX-License-Identifier: Apache-2.0
// Tests accesses beyond the end of each kind of memory, and the last access that is allowed.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/hipsim/hip/hipsim.h"

static char report[4096];

static void keep(void *, const hipsim_report *r)
{
    snprintf(report, sizeof(report), "%s", r->text);
}

__global__ void in_dynamic_lds(int *out, int at)
{
    extern __shared__ int dynamic[];
    dynamic[at] = at;
    *out = dynamic[at];
}

__global__ void in_private(int *out, int at)
{
    volatile int local[16];
    local[at] = at;
    *out = local[at];
}

__global__ void in_arguments(int *out, int at)
{
    auto arguments = (const __attribute__((address_space(4))) int *)
        __builtin_amdgcn_kernarg_segment_ptr();
    *out = arguments[at];
}

__global__ void in_global(int *out)
{
    *out = 1;
}

// Expects that a launch with `good` succeeds, and that a launch with `bad` fails with a report that
// contains `where`.
static void expect(void (*kernel)(int *, int), int lds, int *out, int good, int bad,
                   const char *where)
{
    kernel<<<1, 1, lds>>>(out, good);
    HIP(hipDeviceSynchronize());
    kernel<<<1, 1, lds>>>(out, bad);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    (void)hipGetLastError();
    if (!strstr(report, where)) {
        fprintf(stderr, "\"%s\" is not in\n%s\n", where, report);
        exit(1);
    }
}

static void freed(void)
{
    hipStream_t one, other;
    int *p;

    HIP(hipStreamCreate(&one));
    HIP(hipStreamCreate(&other));
    HIP(hipMallocAsync((void **)&p, 256, one));
    in_global<<<1, 1, 0, one>>>(p);
    HIP(hipFreeAsync(p, other));
    HIP(hipStreamSynchronize(one));
    in_global<<<1, 1, 0, one>>>(p);
    EXPECT(hipErrorIllegalAddress, hipStreamSynchronize(one));
    (void)hipGetLastError();
    CHECK(strstr(report, "use after free") && strstr(report, "into the freed 256 B allocation"));
}

// Frees memory that a captured kernel stores to, before the graph is launched.
static void freed_before_a_graph_runs(void)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t runs;
    int *p;

    HIP(hipStreamCreate(&stream));
    HIP(hipMalloc(&p, 256));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    in_global<<<1, 1, 0, stream>>>(p);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&runs, graph, NULL, NULL, 0));
    HIP(hipGraphLaunch(runs, stream));
    HIP(hipStreamSynchronize(stream));
    HIP(hipFree(p));
    report[0] = 0;
    (void)hipGraphLaunch(runs, stream);
    EXPECT(hipErrorIllegalAddress, hipStreamSynchronize(stream));
    CHECK(strstr(report, "use after free"));
}

int main()
{
    auto set_report = (void (*)(void (*)(void *, const hipsim_report *), void *))dlsym(
        RTLD_DEFAULT, "hipsim_set_report");
    int *out;

    CHECK(set_report);
    set_report(keep, NULL);
    HIP(hipMalloc(&out, sizeof(*out)));
    expect(in_dynamic_lds, 64, out, 15, 16, "the workgroup has 64 bytes");
    expect(in_private, 0, out, 15, 1 << 20, "out of bounds");
    expect(in_arguments, 0, out, 2, 100, "past the end of the ");
    expect(in_arguments, 0, out, 0, 100, "(kernel arguments)");
    freed();
    freed_before_a_graph_runs();
    return 0;
}
