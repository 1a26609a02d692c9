// SPDX-License-Identifier: Apache-2.0
// Tests modelled time of ordinary kernels: report, trace and listing, and that events, clocks in
// the kernel and the report agree on a launch.
#include "check.h"

#include <hip/hip_cooperative_groups.h>

#include <math.h>
#include <string.h>

#include <string>

#pragma weak hipsim_time_enable
#pragma weak hipsim_time_last
#pragma weak hipsim_time_format
#include "tools/hipsim/time/hipsim_time.h"

using namespace cooperative_groups;

__global__ void triad(const float *a, const float *b, float *c, long long *clocks)
{
    const long long begin = clock64();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 50; k++)
        sum = fmaf(sum, b[i], a[i]);
    c[i] = sum;
    __threadfence();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = clock64() - begin;
}

__global__ void meet(int *data, int rounds)
{
    for (int r = 0; r < rounds; r++) {
        data[blockIdx.x * blockDim.x + threadIdx.x] += r;
        this_grid().sync();
    }
}

static std::string slurp(const char *path)
{
    std::string text;
    char part[4096];
    FILE *f = fopen(path, "r");
    CHECK(f);
    for (size_t n; (n = fread(part, 1, sizeof(part), f)) > 0;)
        text.append(part, n);
    CHECK(fclose(f) == 0 && remove(path) == 0);
    return text;
}

// Checks that events of a track are in order and do not overlap, and that braces match.
static void check_trace(const std::string &json)
{
    long long last[64] = {0}, events = 0;
    int depth = 0;
    for (char c : json)
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    CHECK(depth == 0);
    for (size_t at = 0; (at = json.find("{\"ph\":\"X\"", at)) != std::string::npos; at++) {
        int track;
        long long ts, duration;
        CHECK(sscanf(json.c_str() + json.find("\"tid\":", at), "\"tid\":%d", &track) == 1);
        CHECK(sscanf(json.c_str() + json.find("\"ts\":", at), "\"ts\":%lld,\"dur\":%lld", &ts,
                     &duration) == 2);
        CHECK(track >= 0 && track < 64 && ts >= last[track] && duration > 0);
        last[track] = ts + duration;
        events++;
    }
    CHECK(events > 100);
    for (const char *counter : {"MFMA %", "VALU %", "LDS %", "VMEM %"})
        CHECK(json.find(std::string("{\"ph\":\"C\",\"pid\":1,\"name\":\"") + counter) !=
              std::string::npos);
    CHECK(json.find("thread_name") != std::string::npos);
}

// Tests the launch cost in a graph: the second kernel of a graph has a lower cost than a single
// launch.
static void check_graph(double by_itself, int n, float *a, float *b, float *c, long long *clocks)
{
    struct hipsim_time_options options = {sizeof(options)};
    struct hipsim_time_report r = {sizeof(r)};
    char why[200];
    CHECK(hipsim_time_enable(&options, why, sizeof(why)));
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    HIP(hipStreamCreate(&stream));
    for (int kernels = 1; kernels <= 2; kernels++) {
        HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
        for (int i = 0; i < kernels; i++)
            triad<<<n / 256, 256, 0, stream>>>(a, b, c, clocks);
        HIP(hipStreamEndCapture(stream, &graph));
        HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
        HIP(hipGraphLaunch(exec, stream));
        HIP(hipStreamSynchronize(stream));
        CHECK(hipsim_time_last(&r));
        CHECK(kernels == 1 ? r.launch_us == by_itself : r.launch_us < by_itself);
        HIP(hipGraphExecDestroy(exec));
        HIP(hipGraphDestroy(graph));
    }
    HIP(hipStreamDestroy(stream));
}

// Tests a program whose struct is smaller or larger than the library's. It gets the members that
// both have.
static void check_sizes(const struct hipsim_time_report *whole)
{
    struct {
        struct hipsim_time_report report;
        unsigned char after[64];
    } room;
    const size_t old = offsetof(struct hipsim_time_report, cycles);
    memset(&room, 0x5a, sizeof(room));
    room.report.size = old;
    CHECK(hipsim_time_last(&room.report) && room.report.size == old);
    CHECK(room.report.workgroups == whole->workgroups);
    for (size_t i = old; i < sizeof(room); i++)
        CHECK(((unsigned char *)&room)[i] == 0x5a);
    char text[2000];
    CHECK(hipsim_time_format(&room.report, text, sizeof(text)) > 0 && strstr(text, " 0 cycles"));
    room.report.size = sizeof(room);
    CHECK(hipsim_time_last(&room.report) && room.report.cycles == whole->cycles);
    for (unsigned char byte : room.after)
        CHECK(byte == 0);
    room.report.size = 0;
    CHECK(!hipsim_time_last(&room.report) && hipsim_time_format(&room.report, text, 1) == -1);
    char why[200];
    struct hipsim_time_options options = {};
    CHECK(!hipsim_time_enable(&options, why, sizeof(why)) && strstr(why, "no size"));
}

// Tests blocks that meet at barriers: they are modelled together, and twice the rounds take about
// twice the time.
static void check_meeting(int *data)
{
    struct hipsim_time_options options = {sizeof(options)};
    struct hipsim_time_report r = {sizeof(r)};
    char why[200];
    double took[2];
    CHECK(hipsim_time_enable(&options, why, sizeof(why)));
    for (int i = 0; i < 2; i++) {
        int rounds = 4 << i;
        void *arguments[] = {&data, &rounds};
        HIP(hipLaunchCooperativeKernel((void *)meet, dim3(32), dim3(128), arguments, 0, NULL));
        HIP(hipDeviceSynchronize());
        CHECK(hipsim_time_last(&r) && strstr(r.kernel, "meet") && r.together);
        took[i] = r.cycles;
    }
    CHECK(took[1] > 1.5 * took[0] && took[1] < 2.5 * took[0]);
    CHECK(hipsim_time_enable(NULL, why, sizeof(why)));
}

int main()
{
    const int n = 1 << 14;
    float *a, *b, *c, elapsed;
    long long *clocks, first;
    char trace[] = "/tmp/hip-timing-trace-XXXXXX", listing[] = "/tmp/hip-timing-listing-XXXXXX";
    CHECK(hipsim_time_enable && hipsim_time_last);
    CHECK(mkstemp(trace) >= 0 && mkstemp(listing) >= 0);
    HIP(hipMalloc(&a, n * 4));
    HIP(hipMalloc(&b, n * 4));
    HIP(hipMalloc(&c, n * 4));
    HIP(hipMalloc(&clocks, n));
    HIP(hipMemset(a, 0, n * 4));
    HIP(hipMemset(b, 0, n * 4));

    struct hipsim_time_options options = {sizeof(options)};
    options.trace_path = trace;
    options.annotate_path = listing;
    char why[200];
    CHECK(hipsim_time_enable(&options, why, sizeof(why)));
    hipEvent_t begin, end;
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
    HIP(hipEventRecord(begin, NULL));
    triad<<<n / 256, 256>>>(a, b, c, clocks);
    HIP(hipEventRecord(end, NULL));
    HIP(hipEventSynchronize(end));
    HIP(hipEventElapsedTime(&elapsed, begin, end));
    HIP(hipMemcpy(&first, clocks, sizeof(first), hipMemcpyDeviceToHost));

    struct hipsim_time_report r = {sizeof(r)};
    CHECK(hipsim_time_last(&r));
    CHECK(strstr(r.kernel, "triad") && r.workgroups == n / 256 && r.complete && !r.together);
    CHECK(fabs(elapsed * 1000 - r.us_at_power) < 0.01 * r.us_at_power);
    CHECK(r.us_at_max <= r.us_at_power && r.us_at_max > r.launch_us);
    // Block 0 is the first sample. The clocks that it read are part of its modelled time.
    CHECK(first > 50 * 4 && first < r.workgroup_cycles && first > 0.3 * r.workgroup_cycles);
    unsigned long long waited = 0;
    for (int i = 0; i < HIPSIM_STALL_COUNT; i++)
        waited += r.stall_cycles[i];
    CHECK(r.issue_cycles > 0 && waited > 0 && r.stall_cycles[HIPSIM_STALL_WAIT_VMEM] > 0);
    check_trace(slurp(trace));
    const std::string text = slurp(listing);
    CHECK(text.find("v_fma") != std::string::npos && text.find("worst stall") != std::string::npos);

    check_sizes(&r);
    check_graph(r.launch_us, n, a, b, c, clocks);
    check_meeting((int *)c);
    return 0;
}
