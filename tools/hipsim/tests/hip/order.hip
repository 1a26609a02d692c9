// SPDX-License-Identifier: Apache-2.0
// Tests races between streams: they are reported, and another order of the work gives wrong
// results. Work that events, waits or the null stream order has no report, and the same results in
// any order.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

#include "tools/hipsim/hip/hipsim.h"

static int races;
static char report[4096];

static void keep(void *, const hipsim_report *r)
{
    races += strcmp(r->kind, "race") == 0;
    snprintf(report, sizeof(report), "%s", r->text);
}

__global__ void add(int *p, int n)
{
    p[threadIdx.x] += n;
}

__global__ void count(int *p)
{
    atomicAdd(p, 1);
}

enum { ITEMS = 64, BYTES = ITEMS * 4 };

static int *device, *pinned;
static hipStream_t one, two, legacy;
static hipEvent_t event;

// Each case starts when all work has ended and memory is zero. It returns true if its results are
// right.
static bool no_event()
{
    add<<<1, ITEMS, 0, one>>>(device, 1);
    add<<<1, ITEMS, 0, two>>>(device, 2);
    HIP(hipDeviceSynchronize());
    return true;
}

static bool late_event()
{
    HIP(hipEventRecord(event, one)); // too early: the work comes after the record
    HIP(hipMemsetAsync(device, 1, BYTES, one));
    HIP(hipStreamWaitEvent(two, event, 0));
    HIP(hipMemcpyAsync(pinned, device, BYTES, hipMemcpyDeviceToHost, two));
    HIP(hipStreamSynchronize(two));
    return pinned[ITEMS - 1] == 0x01010101;
}

static bool early_read()
{
    add<<<1, ITEMS, 0, one>>>(device, 7);
    HIP(hipMemcpy(pinned, device, BYTES, hipMemcpyDeviceToHost)); // does not wait for stream `one`
    return pinned[3] == 7;
}

static bool wrong_wait()
{
    add<<<1, ITEMS, 0, one>>>(device, 7);
    HIP(hipMemcpyAsync(pinned, device, BYTES, hipMemcpyDeviceToHost, one));
    HIP(hipStreamSynchronize(two)); // the wrong stream
    const bool right = pinned[3] == 7;
    HIP(hipMemsetAsync(device, 0, BYTES, two));
    return right;
}

static bool by_event()
{
    add<<<1, ITEMS, 0, one>>>(device, 1);
    HIP(hipEventRecord(event, one));
    HIP(hipStreamWaitEvent(two, event, 0));
    add<<<1, ITEMS, 0, two>>>(device, 2);
    HIP(hipMemcpyAsync(pinned, device, BYTES, hipMemcpyDeviceToHost, two));
    HIP(hipStreamSynchronize(two));
    return pinned[ITEMS - 1] == 3;
}

static bool by_host()
{
    add<<<1, ITEMS, 0, one>>>(device, 1);
    HIP(hipEventRecord(event, one));
    while (hipEventQuery(event) == hipErrorNotReady)
        ;
    add<<<1, ITEMS, 0, two>>>(device, 2);
    while (hipStreamQuery(two) == hipErrorNotReady)
        ;
    HIP(hipMemcpy(pinned, device, BYTES, hipMemcpyDeviceToHost));
    return pinned[0] == 3;
}

static bool by_null_stream()
{
    add<<<1, ITEMS, 0, legacy>>>(device, 1);
    add<<<1, ITEMS>>>(device, 2);
    add<<<1, ITEMS, 0, legacy>>>(device, 4);
    HIP(hipMemcpy(pinned, device, BYTES, hipMemcpyDeviceToHost));
    return pinned[ITEMS - 1] == 7;
}

static bool apart()
{
    add<<<1, ITEMS / 2, 0, one>>>(device, 1);
    add<<<1, ITEMS / 2, 0, two>>>(device + ITEMS / 2, 2);
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(pinned, device, BYTES, hipMemcpyDeviceToHost));
    return pinned[0] == 1 && pinned[ITEMS / 2] == 2;
}

static bool by_atomics()
{
    count<<<2, ITEMS, 0, one>>>(device);
    count<<<2, ITEMS, 0, two>>>(device);
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(pinned, device, BYTES, hipMemcpyDeviceToHost));
    return pinned[0] == 4 * ITEMS;
}

static bool freed_and_given_again()
{
    int *p, *q;
    HIP(hipMalloc(&p, BYTES));
    HIP(hipMemsetAsync(p, 0, BYTES, one));
    HIP(hipFree(p));
    HIP(hipMalloc(&q, BYTES));
    HIP(hipMemsetAsync(q, 0, BYTES, two));
    HIP(hipFree(q));
    return true;
}

static const struct {
    const char *name;
    bool (*run)();
    bool is_race, shows; // shows: the result depends on the order
} cases[] = {
    {"no_event", no_event, true, false},
    {"late_event", late_event, true, true},
    {"early_read", early_read, true, true},
    {"wrong_wait", wrong_wait, true, true},
    {"by_event", by_event, false, false},
    {"by_host", by_host, false, false},
    {"by_null_stream", by_null_stream, false, false},
    {"apart", apart, false, false},
    {"by_atomics", by_atomics, false, false},
    {"freed_and_given_again", freed_and_given_again, false, false},
};

int main()
{
    auto configure = (decltype(hipsim_configure) *)dlsym(RTLD_DEFAULT, "hipsim_configure");
    auto set_report = (decltype(hipsim_set_report) *)dlsym(RTLD_DEFAULT, "hipsim_set_report");
    CHECK(configure && set_report);
    set_report(keep, NULL);
    HIP(hipMalloc(&device, BYTES));
    HIP(hipHostMalloc(&pinned, BYTES, 0));
    HIP(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    HIP(hipStreamCreate(&legacy));
    HIP(hipEventCreate(&event));
    for (const auto &c : cases) {
        bool shown = false;
        int found = 0;
        for (int seed = 0; seed < 8; seed++) {
            char text[40];
            snprintf(text, sizeof(text), "streams=%d", seed);
            CHECK(configure(text, NULL, 0));
            HIP(hipMemset(device, 0, BYTES));
            HIP(hipDeviceSynchronize());
            memset(pinned, 0, BYTES);
            races = 0;
            const bool right = c.run();
            HIP(hipDeviceSynchronize());
            found += races;
            shown |= !right;
            if (races && !strstr(report, "data race between streams: "))
                printf("%s: %s\n", c.name, report);
        }
        // Each pair of operations has one report.
        if (found > 0 != c.is_race || shown != c.shows) {
            printf("%s: %d races, %s results\n%s\n", c.name, found, shown ? "wrong" : "right",
                   report);
            return 1;
        }
    }
    return 0;
}
