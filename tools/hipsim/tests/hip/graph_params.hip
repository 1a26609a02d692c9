// SPDX-License-Identifier: Apache-2.0
// Tests the graph functions of HIP 6: nodes of any type, the driver's copies and fills, batches of
// values, attributes of kernels.
#include "check.h"

#include <dlfcn.h>
#include <string.h>
#include <string>

// Layout of hipGraphNodeParams; types are counted from 0.
struct NodeParams {
    int type, reserved[3];
    union {
        long long all[29];
        hipKernelNodeParams kernel;
        struct {
            int flags, reserved[3];
            hipMemcpy3DParms params;
        } copy;
        hipMemsetParams fill;
        hipHostNodeParams host;
        hipGraph_t graph;
        hipEvent_t event;
        void *freed;
        struct {
            hipMemPoolProps pool;
            const void *access;
            size_t access_count, size;
            void *pointer;
        } alloc;
    };
    long long end;
};

// Layout of HIP_MEMSET_NODE_PARAMS.
struct Fill {
    void *dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
};

// Layout of HIP_MEMCPY3D in HIP 6.
struct Copy {
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host, *src_device, *src_array;
    size_t src_pitch, src_height, dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host, *dst_device, *dst_array;
    size_t dst_pitch, dst_height, width, height, depth;
};

// Layout of the entries of hipStreamBatchMemOpParams and hipBatchMemOpNodeParams.
struct Operation {
    int type;
    void *address;
    uint64_t value;
    unsigned flags;
    uint64_t pad[2];
};
struct Batch {
    void *context;
    unsigned count;
    Operation *operations;
    unsigned flags;
};

template <typename Function> static Function *find(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address);
    return (Function *)address;
}

static auto *add_node = find<hipError_t(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *,
                                        size_t, NodeParams *)>("hipGraphAddNode");
static auto *set_node = find<hipError_t(hipGraphNode_t, NodeParams *)>("hipGraphNodeSetParams");
static auto *set_exec = find<hipError_t(hipGraphExec_t, hipGraphNode_t, NodeParams *)>(
    "hipGraphExecNodeSetParams");

__global__ void add(int *p, int value)
{
    p[threadIdx.x] += value;
}

static NodeParams kernel_params(void **arguments)
{
    NodeParams params = {};
    params.kernel.func = (void *)add;
    params.kernel.gridDim = dim3(1);
    params.kernel.blockDim = dim3(4);
    params.kernel.kernelParams = arguments;
    return params;
}

static NodeParams fill_params(int *p, unsigned value)
{
    NodeParams params = {};
    params.type = 2;
    params.fill.dst = p;
    params.fill.elementSize = 4;
    params.fill.width = 4;
    params.fill.height = 1;
    params.fill.value = value;
    return params;
}

static int run(hipGraphExec_t exec, const int *p)
{
    int back[4];
    HIP(hipGraphLaunch(exec, NULL));
    HIP(hipMemcpy(back, p, sizeof(back), hipMemcpyDeviceToHost));
    CHECK(back[0] == back[3]);
    return back[0];
}

static void count_up(void *data)
{
    ++*(int *)data;
}

// Adds a chain of a host function, events and an empty node. Each call overwrites `*node`, which
// also names the node that the new one depends on.
static void add_calls(hipGraph_t graph, hipGraphNode_t *node, hipEvent_t event, int *calls)
{
    NodeParams more = {};
    more.type = 3;
    more.host = {count_up, calls};
    HIP(add_node(node, graph, node, 1, &more));
    more.type = 7;
    more.event = event;
    HIP(add_node(node, graph, node, 1, &more));
    more.type = 6;
    HIP(add_node(node, graph, node, 1, &more));
    more.type = 5;
    HIP(add_node(node, graph, node, 1, &more));
}

// Adds nodes that copy *p to p + 4 through memory that the graph allocates and frees.
static void add_copies(hipGraph_t graph, hipGraphNode_t node, int *p)
{
    NodeParams more = {};
    more.type = 10;
    more.alloc.pool.allocType = hipMemAllocationTypePinned;
    more.alloc.pool.location.type = hipMemLocationTypeDevice;
    more.alloc.size = 64;
    HIP(add_node(&node, graph, &node, 1, &more));
    CHECK(more.alloc.pointer);
    void *allocated = more.alloc.pointer;
    more = {};
    more.type = 1;
    more.copy.params.srcPtr = {p, 16, 16, 1};
    more.copy.params.dstPtr = {allocated, 16, 16, 1};
    more.copy.params.extent = {16, 1, 1};
    more.copy.params.kind = hipMemcpyDeviceToDevice;
    HIP(add_node(&node, graph, &node, 1, &more));
    more.copy.params.srcPtr.ptr = allocated;
    more.copy.params.dstPtr.ptr = p + 4;
    HIP(add_node(&node, graph, &node, 1, &more));
    more = {};
    more.type = 11;
    more.freed = allocated;
    HIP(add_node(&node, graph, &node, 1, &more));
}

struct Nodes {
    hipGraph_t graph, child;
    hipGraphNode_t fill, kernel, child_node, inner;
};

static Nodes build(int *p, void **arguments, hipEvent_t event, int *calls)
{
    Nodes n;
    hipGraphNodeType type;
    NodeParams params = fill_params(p, 3);
    HIP(hipGraphCreate(&n.graph, 0));
    HIP(hipGraphCreate(&n.child, 0));
    HIP(add_node(&n.fill, n.graph, NULL, 0, &params));
    params = kernel_params(arguments);
    HIP(add_node(&n.kernel, n.graph, &n.fill, 1, &params));
    HIP(add_node(&n.inner, n.child, NULL, 0, &params));
    params = {};
    params.type = 4;
    params.graph = n.child;
    HIP(add_node(&n.child_node, n.graph, &n.kernel, 1, &params));
    HIP(hipGraphNodeGetType(n.child_node, &type));
    CHECK(type == hipGraphNodeTypeGraph);
    hipGraphNode_t node = n.child_node;
    add_calls(n.graph, &node, event, calls);
    add_copies(n.graph, node, p);
    return n;
}

static void any_type(int *p)
{
    hipGraphExec_t exec;
    hipGraphNode_t node;
    hipEvent_t event;
    int value = 5, calls = 0;
    void *arguments[] = {&p, &value};
    HIP(hipEventCreate(&event));
    const Nodes n = build(p, arguments, event, &calls);
    NodeParams params = {};
    HIP(hipGraphInstantiate(&exec, n.graph, NULL, NULL, 0));
    CHECK(run(exec, p) == 13 && run(exec, p + 4) == 13 && calls == 2);
    params = fill_params(p, 20);
    HIP(set_exec(exec, n.fill, &params));
    CHECK(run(exec, p) == 30);
    value = 1;
    params = kernel_params(arguments);
    HIP(set_exec(exec, n.kernel, &params));
    CHECK(run(exec, p) == 26);
    EXPECT(hipErrorInvalidValue, set_exec(exec, n.fill, &params)); // the node has another type
    HIP(hipGraphExecDestroy(exec));

    HIP(set_node(n.kernel, &params)); // changes the graph: 3 + 1 + the child's sum
    HIP(set_node(n.inner, &params));
    NodeParams more = {};
    more.type = 4;
    more.graph = n.child;
    HIP(set_node(n.child_node, &more));
    HIP(hipGraphInstantiate(&exec, n.graph, NULL, NULL, 0));
    CHECK(run(exec, p) == 5);
    EXPECT(hipErrorInvalidValue, set_node(n.kernel, NULL));
    EXPECT(hipErrorInvalidValue, add_node(&node, n.graph, NULL, 0, NULL));
    params.type = 8;
    EXPECT(hipErrorInvalidValue, add_node(&node, n.graph, NULL, 0, &params));
    params.type = 10;
    EXPECT(hipErrorInvalidValue, set_node(n.kernel, &params));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(n.child));
    HIP(hipGraphDestroy(n.graph));
    HIP(hipEventDestroy(event));
}

static void driver(int *p)
{
    auto *add_copy = find<hipError_t(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t,
                                     const Copy *, hipCtx_t)>("hipDrvGraphAddMemcpyNode");
    auto *get_copy = find<hipError_t(hipGraphNode_t, Copy *)>("hipDrvGraphMemcpyNodeGetParams");
    auto *set_copy =
        find<hipError_t(hipGraphNode_t, const Copy *)>("hipDrvGraphMemcpyNodeSetParams");
    auto *exec_copy = find<hipError_t(hipGraphExec_t, hipGraphNode_t, const Copy *, hipCtx_t)>(
        "hipDrvGraphExecMemcpyNodeSetParams");
    auto *add_fill = find<hipError_t(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t,
                                     const Fill *, hipCtx_t)>("hipDrvGraphAddMemsetNode");
    auto *exec_fill = find<hipError_t(hipGraphExec_t, hipGraphNode_t, const Fill *, hipCtx_t)>(
        "hipDrvGraphExecMemsetNodeSetParams");
    auto configure =
        (bool (*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "hipsim_configure");
    hipGraph_t graph;
    hipGraphNode_t fill, copy;
    hipGraphExec_t exec;
    Fill f = {p, 0, 9, 4, 4, 1};
    Copy c = {}, got;
    int host[4] = {};
    c.src_type = 2, c.src_device = p, c.dst_type = 1, c.dst_host = host;
    c.src_pitch = c.dst_pitch = 8, c.src_height = c.dst_height = 2;
    c.width = 8, c.height = 2, c.depth = 1;
    CHECK(configure("hip=6", NULL, 0));
    HIP(hipGraphCreate(&graph, 0));
    HIP(add_fill(&fill, graph, NULL, 0, &f, NULL));
    HIP(add_copy(&copy, graph, &fill, 1, &c, NULL));
    HIP(get_copy(copy, &got));
    CHECK(got.src_type == 2 && got.src_device == p && !got.src_host && got.src_pitch == 8);
    CHECK(got.dst_type == 1 && got.dst_host == host && got.dst_height == 2);
    CHECK(got.width == 8 && got.height == 2 && got.depth == 1);
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK(run(exec, p) == 9 && host[0] == 9 && host[3] == 9);
    f.value = 4;
    HIP(exec_fill(exec, fill, &f, NULL));
    c.dst_x = 4, c.height = 1, c.width = 4;
    HIP(exec_copy(exec, copy, &c, NULL));
    CHECK(run(exec, p) == 4 && host[0] == 9 && host[1] == 4 && host[2] == 9);
    HIP(hipGraphExecDestroy(exec));
    c.dst_x = 0, c.dst_y = 1;
    HIP(set_copy(copy, &c));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK(run(exec, p) == 9 && host[2] == 9 && host[3] == 9);
    c.dst_pitch = 4, c.width = 8, c.height = 2; // rows overlap
    EXPECT(hipErrorInvalidValue, set_copy(copy, &c));
    EXPECT(hipErrorInvalidValue, add_fill(&fill, graph, NULL, 0, NULL, NULL));
    f.height = 0;
    EXPECT(hipErrorInvalidValue, add_fill(&fill, graph, NULL, 0, &f, NULL));
    CHECK(configure("hip=5", NULL, 0));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
}

static auto *submit =
    find<hipError_t(hipStream_t, unsigned, Operation *, unsigned)>("hipStreamBatchMemOp");

// Tests 32-bit and 64-bit values: a batch writes them, then waits for them.
static void batches(int *p)
{
    Operation operations[] = {{2, p, 77, 0, {}},
                              {5, p + 2, (UINT64_C(3) << 32) + 4, 0, {}},
                              {1, p, 77, hipStreamWaitValueEq, {}},
                              {4, p + 2, UINT64_C(3) << 32, hipStreamWaitValueGte, {}}};
    hipGraph_t graph;
    hipGraphExec_t exec;
    hipStream_t stream;
    int back[4];
    HIP(hipStreamCreate(&stream));
    HIP(hipMemset(p, 0, 16));
    HIP(submit(stream, 4, operations, 0));
    HIP(hipStreamSynchronize(stream));
    HIP(hipMemcpy(back, p, 16, hipMemcpyDeviceToHost));
    CHECK(back[0] == 77 && back[1] == 0 && back[2] == 4 && back[3] == 3);
    EXPECT(hipErrorInvalidValue, submit(stream, 0, operations, 0));
    EXPECT(hipErrorInvalidValue, submit(stream, 4, NULL, 0));
    EXPECT(hipErrorInvalidValue, submit(stream, 4, operations, 1));
    operations[1].address = p + 1; // address is not aligned to 8
    EXPECT(hipErrorInvalidValue, submit(stream, 4, operations, 0));
    operations[1].address = p + 2;
    operations[3].type = 6;
    EXPECT(hipErrorNotSupported, submit(stream, 4, operations, 0));
    operations[3].type = 4;

    HIP(hipMemset(p, 0, 16));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    HIP(submit(stream, 4, operations, 0));
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    operations[0].value = 1; // no effect: the graph has copies
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipMemcpy(back, p, 16, hipMemcpyDeviceToHost));
    CHECK(back[0] == 77 && back[3] == 3);
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
}

static void batch_nodes(int *p)
{
    auto *add_batch = find<hipError_t(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t,
                                      const Batch *)>("hipGraphAddBatchMemOpNode");
    auto *get = find<hipError_t(hipGraphNode_t, Batch *)>("hipGraphBatchMemOpNodeGetParams");
    auto *set = find<hipError_t(hipGraphNode_t, Batch *)>("hipGraphBatchMemOpNodeSetParams");
    auto *exec_set = find<hipError_t(hipGraphExec_t, hipGraphNode_t, const Batch *)>(
        "hipGraphExecBatchMemOpNodeSetParams");
    Operation operations[] = {{2, p, 1, 0, {}}};
    Batch batch = {NULL, 1, operations, 0}, got;
    hipGraph_t graph;
    hipGraphNode_t node;
    hipGraphExec_t exec;
    int back;
    HIP(hipGraphCreate(&graph, 0));
    HIP(add_batch(&node, graph, NULL, 0, &batch));
    HIP(get(node, &got));
    CHECK(got.count == 1 && got.operations != operations && got.operations[0].value == 1);
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    operations[0].value = 2;
    HIP(exec_set(exec, node, &batch));
    HIP(hipGraphLaunch(exec, NULL));
    HIP(hipMemcpy(&back, p, 4, hipMemcpyDeviceToHost));
    CHECK(back == 2);
    HIP(hipGraphExecDestroy(exec));
    operations[0].value = 3;
    HIP(set(node, &batch));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphLaunch(exec, NULL));
    HIP(hipMemcpy(&back, p, 4, hipMemcpyDeviceToHost));
    CHECK(back == 3);
    EXPECT(hipErrorInvalidValue, set(node, NULL));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
}

// Tests that attributes stay when the node's parameters change.
static void attributes(int *p)
{
    auto *copy = find<hipError_t(hipGraphNode_t, hipGraphNode_t)>(
        "hipGraphKernelNodeCopyAttributes");
    auto *set = find<hipError_t(hipGraphNode_t, int, const void *)>(
        "hipGraphKernelNodeSetAttribute");
    auto *get = find<hipError_t(hipGraphNode_t, int, void *)>("hipGraphKernelNodeGetAttribute");
    int value = 5;
    void *arguments[] = {&p, &value};
    hipGraph_t graph;
    hipGraphNode_t one, two, fill;
    uint64_t window[4] = {1, 2, 3, 4}, got[4] = {};
    int priority = -1, cooperative = 1;
    NodeParams params = kernel_params(arguments);
    HIP(hipGraphCreate(&graph, 0));
    HIP(add_node(&one, graph, NULL, 0, &params));
    HIP(add_node(&two, graph, NULL, 0, &params));
    HIP(set(one, 8, &priority));
    HIP(set(one, 2, &cooperative));
    HIP(set(one, 1, window));
    EXPECT(hipErrorInvalidValue, set(one, 5, &priority));
    EXPECT(hipErrorInvalidValue, set(one, 8, NULL));
    HIP(set_node(one, &params));
    HIP(get(two, 2, &cooperative));
    CHECK(cooperative == 0);
    HIP(copy(one, two));
    HIP(get(two, 8, &priority));
    HIP(get(two, 2, &cooperative));
    HIP(get(two, 1, got));
    CHECK(priority == -1 && cooperative == 1 && memcmp(got, window, sizeof(got)) == 0);
    params = fill_params(p, 0);
    HIP(add_node(&fill, graph, NULL, 0, &params));
    EXPECT(hipErrorInvalidValue, copy(one, fill));
    HIP(hipGraphDestroy(graph));
}

int main()
{
    int *p;
    HIP(hipMalloc(&p, 64));
    any_type(p);
    driver(p);
    batches(p);
    batch_nodes(p);
    attributes(p);
    HIP(hipFree(p));
    return 0;
}
