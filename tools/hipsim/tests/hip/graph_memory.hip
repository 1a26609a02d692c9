// SPDX-License-Identifier: Apache-2.0
// Tests memory that graphs allocate and free, by nodes of ROCm 6 (found by name) and by captured
// calls.
#include "check.h"

#include <dlfcn.h>
#include <stdint.h>

struct Parameters { // layout of hipMemAllocNodeParams
    hipMemPoolProps pool;
    const hipMemAccessDesc *access;
    size_t accesses, size;
    void *pointer;
};

enum { BYTES = 64 * sizeof(int), TYPE_ALLOC = 11, TYPE_FREE = 12 }; // types as in HIP 5
enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH };

template <typename Function> static Function *find(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address);
    return (Function *)address;
}

typedef hipError_t AddAlloc(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t,
                            Parameters *);
typedef hipError_t AddFree(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, void *);

__global__ void set(int *p, int value)
{
    p[threadIdx.x] = value + threadIdx.x;
}

__global__ void add(int *to, const int *p)
{
    to[threadIdx.x] += p[threadIdx.x];
}

static int last_of(const int *p)
{
    int value;
    HIP(hipMemcpy(&value, p + 63, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

static uint64_t attribute(int which)
{
    uint64_t value = 1;
    HIP(find<hipError_t(int, int, void *)>("hipDeviceGetGraphMemAttribute")(0, which, &value));
    return value;
}

static hipGraphNode_t kernel(hipGraph_t graph, const hipGraphNode_t *need, void (*function)(),
                             void **arguments)
{
    hipGraphNode_t node;
    hipKernelNodeParams params = {};
    params.blockDim = dim3(64);
    params.gridDim = dim3(1);
    params.func = (void *)function;
    params.kernelParams = arguments;
    HIP(hipGraphAddKernelNode(&node, graph, need, 1, &params));
    return node;
}

static Parameters device_memory(size_t size)
{
    Parameters parameters = {};
    parameters.pool.allocType = hipMemAllocationTypePinned;
    parameters.pool.location.type = hipMemLocationTypeDevice;
    parameters.size = size;
    return parameters;
}

// Launches a graph twice: allocate, set, add, free.
static void nodes(int *sum)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    hipGraphNode_t alloc, release;
    hipGraphNodeType type;
    Parameters parameters = device_memory(BYTES), read = {};
    int value = 100;
    void *freed = NULL;

    HIP(hipGraphCreate(&graph, 0));
    HIP(find<AddAlloc>("hipGraphAddMemAllocNode")(&alloc, graph, NULL, 0, &parameters));
    void *set_arguments[] = { &parameters.pointer, &value };
    void *add_arguments[] = { &sum, &parameters.pointer };
    hipGraphNode_t a = kernel(graph, &alloc, (void (*)())set, set_arguments);
    hipGraphNode_t b = kernel(graph, &a, (void (*)())add, add_arguments);
    HIP(find<AddFree>("hipGraphAddMemFreeNode")(&release, graph, &b, 1, parameters.pointer));
    HIP(hipGraphNodeGetType(alloc, &type));
    CHECK((int)type == TYPE_ALLOC);
    HIP(hipGraphNodeGetType(release, &type));
    CHECK((int)type == TYPE_FREE);
    HIP(find<hipError_t(hipGraphNode_t, Parameters *)>("hipGraphMemAllocNodeGetParams")(alloc,
                                                                                        &read));
    CHECK(read.pointer == parameters.pointer && read.size == BYTES);
    HIP(find<hipError_t(hipGraphNode_t, void *)>("hipGraphMemFreeNodeGetParams")(release, &freed));
    CHECK(freed == parameters.pointer);

    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphDestroy(graph)); // the executable keeps the memory
    CHECK(attribute(USED) == 0);
    HIP(hipGraphLaunch(exec, 0));
    HIP(hipGraphLaunch(exec, 0));
    CHECK(last_of(sum) == 2 * (100 + 63));
    CHECK(attribute(USED) == 0 && attribute(USED_HIGH) == BYTES && attribute(RESERVED) == BYTES);
    HIP(find<hipError_t(int)>("hipDeviceGraphMemTrim")(0));
    CHECK(attribute(RESERVED) == 0 && attribute(RESERVED_HIGH) == BYTES);
    uint64_t zero = 0;
    auto set_attribute = find<hipError_t(int, int, void *)>("hipDeviceSetGraphMemAttribute");
    HIP(set_attribute(0, USED_HIGH, &zero));
    CHECK(attribute(USED_HIGH) == 0);
    EXPECT(hipErrorInvalidValue, set_attribute(0, USED, &zero));
    HIP(hipGraphExecDestroy(exec));
}

// Tests memory that a graph allocates and does not free: the program owns it.
static void kept(int *sum)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    hipGraphNode_t alloc;
    Parameters parameters = device_memory(BYTES);
    size_t before, during, after, total;
    int value = 1;

    HIP(hipMemGetInfo(&before, &total));
    HIP(hipGraphCreate(&graph, 0));
    HIP(find<AddAlloc>("hipGraphAddMemAllocNode")(&alloc, graph, NULL, 0, &parameters));
    void *arguments[] = { &parameters.pointer, &value };
    kernel(graph, &alloc, (void (*)())set, arguments);
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    EXPECT(hipErrorInvalidValue, hipFree(parameters.pointer)); // not allocated before a launch
    HIP(hipGraphLaunch(exec, 0));
    EXPECT(hipErrorInvalidValue, hipGraphLaunch(exec, 0)); // would allocate again without a free
    HIP(hipFree(parameters.pointer));
    HIP(hipGraphLaunch(exec, 0));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
    CHECK(last_of((int *)parameters.pointer) == 64);
    HIP(hipMemGetInfo(&during, &total));
    HIP(hipFreeAsync(parameters.pointer, 0));
    HIP(hipMemGetInfo(&after, &total));
    CHECK(during < before && after == before);
    EXPECT(hipErrorInvalidValue, hipFree(parameters.pointer));
    (void)sum;
}

static void captured(int *sum)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    int *p;

    HIP(hipMemset(sum, 0, BYTES));
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    HIP(hipMallocAsync((void **)&p, BYTES, stream));
    set<<<1, 64, 0, stream>>>(p, 7);
    add<<<1, 64, 0, stream>>>(sum, p);
    HIP(hipFreeAsync(p, stream));
    EXPECT(hipErrorInvalidValue, hipFreeAsync(sum, stream)); // not allocated by the graph
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(last_of(sum) == 3 * (7 + 63));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
}

// Tests that allocated bytes are undefined in each launch, even if an earlier launch wrote them.
static void undefined(int *sum)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    hipGraphNode_t alloc, release;
    Parameters parameters = device_memory(BYTES);

    HIP(hipGraphCreate(&graph, 0));
    HIP(find<AddAlloc>("hipGraphAddMemAllocNode")(&alloc, graph, NULL, 0, &parameters));
    HIP(find<AddFree>("hipGraphAddMemFreeNode")(&release, graph, &alloc, 1, parameters.pointer));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphLaunch(exec, 0));
    HIP(hipMemset(parameters.pointer, 0, BYTES));
    HIP(hipGraphLaunch(exec, 0));
    add<<<1, 64>>>(sum, (int *)parameters.pointer);
    EXPECT(hipErrorLaunchFailure, hipDeviceSynchronize());
    HIP(hipGraphExecDestroy(exec));
    HIP(hipGraphDestroy(graph));
}

static void refusals(void)
{
    hipGraph_t graph;
    hipGraphNode_t node;
    Parameters parameters = device_memory(0);
    AddAlloc *add_alloc = find<AddAlloc>("hipGraphAddMemAllocNode");

    HIP(hipGraphCreate(&graph, 0));
    EXPECT(hipErrorInvalidValue, add_alloc(&node, graph, NULL, 0, &parameters));
    parameters.size = BYTES;
    EXPECT(hipErrorInvalidValue, add_alloc(&node, NULL, NULL, 0, &parameters));
    EXPECT(hipErrorInvalidValue, add_alloc(&node, graph, NULL, 1, &parameters));
    parameters.pool.location.id = 9;
    EXPECT(hipErrorInvalidValue, add_alloc(&node, graph, NULL, 0, &parameters));
    EXPECT(hipErrorInvalidValue,
           find<AddFree>("hipGraphAddMemFreeNode")(&node, graph, NULL, 0, &parameters));
    HIP(hipGraphDestroy(graph));
}

int main(void)
{
    int *sum;
    HIP(hipMalloc(&sum, BYTES));
    HIP(hipMemset(sum, 0, BYTES));
    nodes(sum);
    kept(sum);
    captured(sum);
    refusals();
    undefined(sum);
    return 0;
}
