// SPDX-License-Identifier: Apache-2.0
// Tests graphs: captured ones and ones built by calls, launched, updated and cloned.
#include "check.h"

__global__ void add(int *p, int value)
{
    p[threadIdx.x] += value;
}

static int first_of(const int *device)
{
    int host[64];
    HIP(hipMemcpy(host, device, sizeof(host), hipMemcpyDeviceToHost));
    for (int i = 1; i < 64; i++)
        CHECK(host[i] == host[0]);
    return host[0];
}

// Captures a fork to a second stream and a join.
static hipGraph_t capture(hipStream_t a, hipStream_t b, int *p, int *q, int value)
{
    hipGraph_t graph;
    hipEvent_t forked, joined;
    hipStreamCaptureStatus status;

    HIP(hipEventCreate(&forked));
    HIP(hipEventCreate(&joined));
    HIP(hipStreamBeginCapture(a, hipStreamCaptureModeRelaxed));
    HIP(hipStreamIsCapturing(a, &status));
    CHECK(status == hipStreamCaptureStatusActive);
    HIP(hipMemsetAsync(p, 0, 64 * sizeof(*p), a));
    HIP(hipEventRecord(forked, a));
    HIP(hipStreamWaitEvent(b, forked, 0));
    HIP(hipMemsetAsync(q, 0, 64 * sizeof(*q), b));
    add<<<1, 64, 0, b>>>(q, value);
    HIP(hipEventRecord(joined, b));
    add<<<1, 64, 0, a>>>(p, value);
    HIP(hipStreamWaitEvent(a, joined, 0));
    HIP(hipMemcpyAsync(p + 64, q, 64 * sizeof(*p), hipMemcpyDeviceToDevice, a));
    EXPECT(hipErrorStreamCaptureUnsupported, hipStreamSynchronize(a));
    HIP(hipStreamEndCapture(a, &graph));
    HIP(hipEventDestroy(forked));
    HIP(hipEventDestroy(joined));
    return graph;
}

static void captured(void)
{
    hipStream_t a, b;
    hipGraphExec_t exec;
    hipGraphNode_t nodes[16], culprit;
    hipGraphExecUpdateResult result;
    size_t count = 16;
    int *p, *q;

    HIP(hipMalloc(&p, 128 * sizeof(*p)));
    HIP(hipMalloc(&q, 64 * sizeof(*q)));
    HIP(hipMemset(p, 0xff, 128 * sizeof(*p)));
    HIP(hipStreamCreate(&a));
    HIP(hipStreamCreate(&b));
    hipGraph_t graph = capture(a, b, p, q, 5);
    CHECK(first_of(p) == -1); // capturing executes nothing
    HIP(hipGraphGetNodes(graph, nodes, &count));
    CHECK(count == 5);
    HIP(hipGraphGetRootNodes(graph, NULL, &count));
    CHECK(count == 1);
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        HIP(hipGraphLaunch(exec, a));
    HIP(hipStreamSynchronize(a));
    CHECK(first_of(p) == 5 && first_of(p + 64) == 5);

    hipGraph_t other = capture(a, b, p, q, 9);
    HIP(hipGraphExecUpdate(exec, other, &culprit, &result));
    CHECK(result == hipGraphExecUpdateSuccess);
    HIP(hipGraphLaunch(exec, a));
    CHECK(first_of(p) == 9 && first_of(p + 64) == 9);

    // An update with a graph of another shape is refused and changes nothing.
    hipGraph_t empty;
    HIP(hipGraphCreate(&empty, 0));
    EXPECT(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec, empty, &culprit, &result));
    CHECK(result == hipGraphExecUpdateErrorTopologyChanged);
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
    HIP(hipGraphDestroy(other));
    HIP(hipGraphDestroy(empty));
}

static void by_hand(void)
{
    hipGraph_t graph, copy;
    hipGraphExec_t exec;
    hipGraphNode_t fill, work, back, found;
    int *p, value = 7, host[64];

    HIP(hipMalloc(&p, 64 * sizeof(*p)));
    HIP(hipGraphCreate(&graph, 0));
    hipMemsetParams memset_params = {};
    memset_params.dst = p;
    memset_params.elementSize = 4;
    memset_params.value = 100;
    memset_params.width = 64;
    memset_params.height = 1;
    HIP(hipGraphAddMemsetNode(&fill, graph, NULL, 0, &memset_params));
    void *args[] = {&p, &value};
    hipKernelNodeParams kernel_params = {};
    kernel_params.func = (void *)add;
    kernel_params.gridDim = dim3(1);
    kernel_params.blockDim = dim3(64);
    kernel_params.kernelParams = args;
    HIP(hipGraphAddKernelNode(&work, graph, &fill, 1, &kernel_params));
    HIP(hipGraphAddMemcpyNode1D(&back, graph, NULL, 0, host, p, sizeof(host),
                                hipMemcpyDeviceToHost));
    HIP(hipGraphAddDependencies(graph, &work, &back, 1));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphLaunch(exec, 0));
    HIP(hipDeviceSynchronize());
    CHECK(host[0] == 107 && host[63] == 107);

    // Arguments are copied when the node is created. New arguments only go into the executable.
    value = 20;
    HIP(hipGraphExecKernelNodeSetParams(exec, work, &kernel_params));
    memset_params.value = 1000;
    HIP(hipGraphExecMemsetNodeSetParams(exec, fill, &memset_params));
    HIP(hipGraphLaunch(exec, 0));
    CHECK(host[0] == 1020);
    hipKernelNodeParams got;
    HIP(hipGraphKernelNodeGetParams(work, &got));
    CHECK(got.func == (void *)add && got.blockDim.x == 64 && *(int *)got.kernelParams[1] == 7);

    HIP(hipGraphClone(&copy, graph));
    HIP(hipGraphNodeFindInClone(&found, work, copy));
    CHECK(found && found != work);
    HIP(hipGraphAddDependencies(copy, &found, &found, 0));
    // A cycle is detected before a node runs.
    hipGraphNode_t fill_copy;
    HIP(hipGraphNodeFindInClone(&fill_copy, fill, copy));
    HIP(hipGraphAddDependencies(copy, &found, &fill_copy, 1));
    hipGraphExec_t none;
    EXPECT(hipErrorInvalidValue, hipGraphInstantiate(&none, copy, NULL, NULL, 0));
    HIP(hipGraphDestroy(copy));
    HIP(hipGraphDestroy(graph));
    HIP(hipGraphLaunch(exec, 0)); // the executable does not need its graph
    HIP(hipGraphExecDestroy(exec));
    EXPECT(hipErrorInvalidValue, hipGraphLaunch(exec, 0));
}

// Tests that sizes of copies and fills are checked when a node is created, not when it runs.
static void sizes_are_checked(void)
{
    hipGraph_t graph;
    hipGraphNode_t node;
    int *p;
    char host[512] = {0};
    HIP(hipMalloc(&p, 256));
    HIP(hipGraphCreate(&graph, 0));
    EXPECT(hipErrorInvalidValue, hipGraphAddMemcpyNode1D(&node, graph, NULL, 0, p, host, 260,
                                                         hipMemcpyHostToDevice));
    hipMemsetParams fill = {};
    fill.dst = p;
    fill.elementSize = 4;
    fill.width = 65;
    fill.height = 1;
    EXPECT(hipErrorInvalidValue, hipGraphAddMemsetNode(&node, graph, NULL, 0, &fill));
    fill.width = 64;
    HIP(hipGraphAddMemsetNode(&node, graph, NULL, 0, &fill));
    HIP(hipGraphAddMemcpyNode1D(&node, graph, &node, 1, p, host, 256, hipMemcpyHostToDevice));
    HIP(hipGraphDestroy(graph));
    HIP(hipFree(p));
}

// Tests that handles of graphs that a capture or a node uses cannot be destroyed.
static void owned_by_others(void)
{
    hipStream_t stream;
    hipStreamCaptureStatus status;
    unsigned long long id;
    hipGraph_t graph, child, inner;
    const hipGraphNode_t *nodes;
    hipGraphNode_t node;
    size_t count;
    int *p;
    HIP(hipMalloc(&p, 64 * sizeof(*p)));
    HIP(hipMemset(p, 0, 64 * sizeof(*p)));
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    add<<<1, 64, 0, stream>>>(p, 1);
    HIP(hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
    CHECK(count == 1);
    node = nodes[0];
    EXPECT(hipErrorInvalidValue, hipGraphDestroyNode(node));
    EXPECT(hipErrorInvalidValue, hipGraphDestroy(graph));
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphDestroyNode(node));

    HIP(hipGraphCreate(&child, 0));
    HIP(hipGraphAddEmptyNode(&node, child, NULL, 0));
    HIP(hipGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    HIP(hipGraphDestroy(child)); // the node has a copy
    HIP(hipGraphChildGraphNodeGetGraph(node, &inner));
    EXPECT(hipErrorInvalidValue, hipGraphDestroy(inner));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
    HIP(hipFree(p));
}

// Adds the graph to itself. The number of nodes doubles each time, until there are too many.
static void children_of_themselves(void)
{
    hipGraph_t graph;
    hipGraphNode_t node;
    hipError_t error = hipSuccess;
    HIP(hipGraphCreate(&graph, 0));
    for (int i = 0; i < 40 && error == hipSuccess; i++)
        error = hipGraphAddChildGraphNode(&node, graph, NULL, 0, graph);
    CHECK(error == hipErrorOutOfMemory);
    HIP(hipGraphDestroy(graph));
}

static void absurd_nodes(void)
{
    hipGraph_t graph;
    hipGraphNode_t node;
    int *p, value = 1;
    void *args[] = {&p, &value};
    HIP(hipMalloc(&p, 256));
    HIP(hipGraphCreate(&graph, 0));
    hipKernelNodeParams kernel = {};
    kernel.func = (void *)add;
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(0);
    kernel.kernelParams = args;
    EXPECT(hipErrorInvalidConfiguration, hipGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    hipMemcpy3DParms copy = {};
    copy.srcPtr = make_hipPitchedPtr(p, 16, 16, SIZE_MAX / 16);
    copy.dstPtr = make_hipPitchedPtr(p + 32, 16, 16, 1);
    copy.extent = make_hipExtent(4, 1, 1);
    copy.srcPos.z = 3; // 3 * 2^64 bytes away
    copy.kind = hipMemcpyDeviceToDevice;
    EXPECT(hipErrorInvalidValue, hipGraphAddMemcpyNode(&node, graph, NULL, 0, &copy));
    EXPECT(hipErrorInvalidValue, hipMemcpy3D(&copy));
    copy.srcPos.z = 0;
    HIP(hipGraphAddMemcpyNode(&node, graph, NULL, 0, &copy));
    copy.srcPtr.ysize = 1;
    copy.srcPos.x = (size_t)1 << 46; // an address outside of all memory
    copy.kind = hipMemcpyDefault;
    EXPECT(hipErrorInvalidValue, hipMemcpy3D(&copy));
    // All planes are at one address, so any number of them is in bounds.
    EXPECT(hipErrorInvalidValue, hipMemset3D(make_hipPitchedPtr(p, 16, 16, 0), 0,
                                             make_hipExtent(16, 1, SIZE_MAX)));
    HIP(hipMemset3D(make_hipPitchedPtr(p, 16, 16, 2), 0, make_hipExtent(16, 2, 8)));
    HIP(hipGraphDestroy(graph));
    HIP(hipFree(p));
}

int main()
{
    captured();
    by_hand();
    sizes_are_checked();
    owned_by_others();
    children_of_themselves();
    absurd_nodes();
    return 0;
}
