// SPDX-License-Identifier: Apache-2.0
// Tests functions of ROCm 6 and 7. They are found by name, as in programs that also run on older
// versions.
#include "check.h"

#include <dlfcn.h>
#include <string.h>

struct Attribute {
    int id;
    char unused[4];
    unsigned long long value[8];
};

struct Config {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
    Attribute *attributes;
    unsigned count;
};

struct ModuleConfig {
    unsigned grid[3], block[3], lds;
    hipStream_t stream;
    Attribute *attributes;
    unsigned count;
};

typedef hipError_t GetProcAddress(const char *, void **, int, uint64_t, int *);
static GetProcAddress *get_proc_address;

template <typename Function> static Function *find(const char *name)
{
    void *address = NULL;
    int status = -1;
    HIP(get_proc_address(name, &address, 600, 0, &status));
    CHECK(address && status == 0);
    return (Function *)address;
}

__global__ void add(int *p, int value)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

static void names(void)
{
    void *address, *r0600;
    int status;
    EXPECT(hipErrorNotFound, get_proc_address("hipNoSuchThing", &address, 600, 0, &status));
    CHECK(!address && status == 1);
    EXPECT(hipErrorInvalidValue, get_proc_address(NULL, &address, 600, 0, NULL));
    EXPECT(hipErrorInvalidValue, get_proc_address("hipInit", NULL, 600, 0, NULL));
    int device = -1;
    HIP(find<hipError_t(int *)>("hipGetDevice")(&device));
    CHECK(device == 0);
    // The struct changed in 6.0, so the name means different functions before and after.
    HIP(get_proc_address("hipGetDeviceProperties", &address, 502, 0, NULL));
    HIP(get_proc_address("hipGetDeviceProperties", &r0600, 600, 0, NULL));
    CHECK(address != r0600);
}

static void fills(void)
{
    enum { PITCH = 64, ROWS = 3, WIDTH = 5 };
    unsigned char host[PITCH * ROWS], *p;
    HIP(hipMalloc(&p, sizeof(host)));
    HIP(hipMemset(p, 0, sizeof(host)));
    HIP(find<hipError_t(void *, size_t, unsigned short, size_t, size_t)>("hipMemsetD2D16")(
        p, PITCH, 0x1234, WIDTH, ROWS));
    HIP(find<hipError_t(void *, size_t, unsigned, size_t, size_t, hipStream_t)>(
        "hipMemsetD2D32Async")(p + 32, PITCH, 0x89abcdef, 1, 2, 0));
    HIP(find<hipError_t(void *, size_t, unsigned char, size_t, size_t)>("hipMemsetD2D8")(
        p + 63, PITCH, 7, 1, ROWS));
    HIP(hipMemcpy(host, p, sizeof(host), hipMemcpyDeviceToHost));
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < PITCH; x++) {
            const unsigned char *row = host + y * PITCH;
            static const unsigned char word[] = { 0xef, 0xcd, 0xab, 0x89 };
            const int expected = x < 2 * WIDTH             ? (x & 1 ? 0x12 : 0x34)
                                 : x >= 32 && x < 36 && y < 2 ? word[x - 32]
                                 : x == 63                 ? 7
                                                           : 0;
            CHECK(row[x] == expected);
        }
    }
    HIP(hipFree(p));
}

static int first(const int *p)
{
    int value;
    HIP(hipMemcpy(&value, p, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

static void launches(void)
{
    int *p, value = 5;
    HIP(hipMalloc(&p, 128 * sizeof(*p)));
    HIP(hipMemset(p, 0, 128 * sizeof(*p)));
    void *params[] = { &p, &value };
    Attribute attributes[] = { { 2, {}, { 1 } }, { 8, {}, { 3 } } }; // 2: cooperative, 8: priority
    Config config = { 2, 64, 0, 0, attributes, 2 };
    auto launch = find<hipError_t(const Config *, const void *, void **)>("hipLaunchKernelExC");
    HIP(launch(&config, (const void *)add, params));
    CHECK(first(p) == 5 && first(p + 127) == 5);
    EXPECT(hipErrorInvalidValue, launch(NULL, (const void *)add, params));
    attributes[0].id = 4; // 4: clusters, not on these GPUs
    EXPECT(hipErrorNotSupported, launch(&config, (const void *)add, params));
    hipFunction_t function;
    HIP(find<hipError_t(hipFunction_t *, const void *)>("hipGetFuncBySymbol")(
        &function, (const void *)add));
    ModuleConfig module = { { 1, 1, 1 }, { 64, 1, 1 }, 0, 0, NULL, 0 };
    auto drive = find<hipError_t(const ModuleConfig *, hipFunction_t, void **, void **)>(
        "hipDrvLaunchKernelEx");
    HIP(drive(&module, function, params, NULL));
    CHECK(first(p) == 10 && first(p + 127) == 5);
    HIP(hipFree(p));
}

static void streams(void)
{
    hipStream_t a, b;
    unsigned long long ids[3];
    auto get_id = find<hipError_t(hipStream_t, unsigned long long *)>("hipStreamGetId");
    HIP(hipStreamCreate(&a));
    HIP(hipStreamCreate(&b));
    HIP(get_id(NULL, &ids[0]));
    HIP(get_id(a, &ids[1]));
    HIP(get_id(b, &ids[2]));
    CHECK(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    HIP(get_id(a, &ids[0]));
    CHECK(ids[0] == ids[1]);
    HIP(hipStreamDestroy(a));
    EXPECT(hipErrorContextIsDestroyed, get_id(a, &ids[0]));
    HIP(hipStreamDestroy(b));
}

static void print(hipGraph_t graph)
{
    char path[] = "/tmp/recent_XXXXXX", text[4096];
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    HIP(find<hipError_t(hipGraph_t, const char *, unsigned)>("hipGraphDebugDotPrint")(graph, path,
                                                                                      0));
    FILE *f = fdopen(fd, "r");
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    fclose(f);
    remove(path);
    CHECK(strstr(text, "digraph") && strstr(text, "_Z3addPii") && strstr(text, "node_0 -> node_1"));
}

static void graphs(void)
{
    int *p;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    hipGraphNode_t nodes[2];
    size_t count = 2;
    unsigned on = 7;
    HIP(hipMalloc(&p, 64 * sizeof(*p)));
    HIP(hipMemset(p, 0, 64 * sizeof(*p)));
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    add<<<1, 64, 0, stream>>>(p, 1);
    add<<<1, 64, 0, stream>>>(p, 10);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphGetNodes(graph, nodes, &count));
    print(graph);
    auto set = find<hipError_t(hipGraphExec_t, hipGraphNode_t, unsigned)>("hipGraphNodeSetEnabled");
    auto get = find<hipError_t(hipGraphExec_t, hipGraphNode_t, unsigned *)>(
        "hipGraphNodeGetEnabled");
    HIP(get(exec, nodes[1], &on));
    CHECK(on == 1);
    HIP(set(exec, nodes[1], 0));
    HIP(get(exec, nodes[1], &on));
    CHECK(on == 0);
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(first(p) == 1);
    hipGraphNode_t culprit;
    hipGraphExecUpdateResult result;
    HIP(hipGraphExecUpdate(exec, graph, &culprit, &result)); // an update leaves the node disabled
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(first(p) == 2);
    HIP(set(exec, nodes[1], 1));
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(first(p) == 13);
    HIP(hipGraphDestroy(graph));
    HIP(hipGraphExecDestroy(exec));
    HIP(hipStreamDestroy(stream));
    HIP(hipFree(p));
}

static int ended;

static void end_of_object(void *data)
{
    ended += *(int *)data;
}

// Tests that a user object ends with the last graph, copy and executable that holds it.
static void user_objects(void)
{
    typedef struct hipUserObject *Object;
    struct Parameters {
        hipGraphNode_t culprit;
        unsigned long long flags;
        int result;
        hipStream_t stream;
    } parameters = {NULL, 8, 5, NULL};
    auto make = find<hipError_t(Object *, void *, hipHostFn_t, unsigned, unsigned)>(
        "hipUserObjectCreate");
    auto retain = find<hipError_t(Object, unsigned)>("hipUserObjectRetain");
    auto release = find<hipError_t(Object, unsigned)>("hipUserObjectRelease");
    auto give = find<hipError_t(hipGraph_t, Object, unsigned, unsigned)>(
        "hipGraphRetainUserObject");
    auto take = find<hipError_t(hipGraph_t, Object, unsigned)>("hipGraphReleaseUserObject");
    auto instantiate = find<hipError_t(hipGraphExec_t *, hipGraph_t, Parameters *)>(
        "hipGraphInstantiateWithParams");
    auto flags_of = find<hipError_t(hipGraphExec_t, unsigned long long *)>("hipGraphExecGetFlags");
    unsigned long long flags = 0;
    Object object;
    hipGraph_t graph, copy;
    hipGraphExec_t exec;
    int one = 1;
    EXPECT(hipErrorInvalidValue, make(&object, &one, end_of_object, 1, 0));
    EXPECT(hipErrorInvalidValue, make(&object, &one, end_of_object, 0, 1));
    HIP(make(&object, &one, end_of_object, 1, 1));
    HIP(hipGraphCreate(&graph, 0));
    HIP(retain(object, 2));
    HIP(release(object, 1));
    HIP(give(graph, object, 1, 1));                   // moves one reference to the graph
    HIP(release(object, 1));
    EXPECT(hipErrorInvalidValue, take(graph, object, 0));
    HIP(hipGraphClone(&copy, graph));
    HIP(instantiate(&exec, graph, &parameters));
    CHECK(parameters.result == 0);
    HIP(flags_of(exec, &flags));
    CHECK(flags == 8);
    HIP(take(graph, object, 2)); // the graph holds one reference
    HIP(hipGraphDestroy(graph));
    HIP(hipGraphDestroy(copy));
    CHECK(ended == 0);
    HIP(hipGraphExecDestroy(exec));
    CHECK(ended == 1);
    HIP(release(object, 1));
    EXPECT(hipErrorInvalidValue, release(NULL, 1));
    HIP(make(&object, &one, end_of_object, 2, 1));
    HIP(release(object, 3)); // only two references are left
    CHECK(ended == 2);
}

static void memory(void)
{
    int *host, *p, back = 0;
    unsigned count = 0;
    hipModule_t module;
    HIP(find<hipError_t(void **, size_t, unsigned)>("hipExtHostAlloc")((void **)&host, 256, 0));
    HIP(hipMalloc(&p, 256));
    host[0] = 5;
    host[1] = 6;
    auto copy_rows = find<hipError_t(void *, size_t, const void *, size_t, size_t, size_t,
                                     hipMemcpyKind, hipStream_t)>("hipMemcpy2DAsync_spt");
    HIP(copy_rows(p, 8, host, 8, 8, 1, hipMemcpyHostToDevice, NULL));
    HIP(hipMemcpy(&back, p + 1, 4, hipMemcpyDeviceToHost));
    CHECK(back == 6);
    EXPECT(hipErrorInvalidHandle, find<hipError_t(unsigned *, hipModule_t)>(
                                      "hipModuleGetFunctionCount")(&count, NULL));
    EXPECT(hipErrorInvalidImage, find<hipError_t(hipModule_t *, const void *)>(
                                     "hipModuleLoadFatBinary")(&module, "no code"));
    HIP(hipMemcpy(p + 2, p, 8, (hipMemcpyKind)1024)); // 1024: a copy without compute units
    HIP(hipMemcpy(&back, p + 3, 4, hipMemcpyDeviceToHost));
    CHECK(back == 6);
    int khz = 0;
    HIP(hipDeviceGetAttribute(&khz, (hipDeviceAttribute_t)10017, 0)); // 10017: rate of
                                                                      // wall_clock64()
    CHECK(khz == 100000);
    HIP(hipFree(p));
    HIP(hipHostFree(host));
}

// Tests memory types and the version as in HIP 6, if the program states that it was compiled with
// HIP 6.
static void memory_types(void)
{
    auto configure =
        (bool (*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "hipsim_configure");
    int *p, back = 0, version;
    const int value = 7;
    hipPointerAttribute_t attributes;
    CHECK(configure);
    HIP(hipDriverGetVersion(&version));
    CHECK(version == HIP_VERSION);
    HIP(hipMalloc(&p, 256));
    HIP(hipPointerGetAttributes(&attributes, p));
    CHECK(attributes.memoryType == hipMemoryTypeDevice);
    EXPECT(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, &back));
    CHECK(configure("hip=6", NULL, 0));
    HIP(hipDriverGetVersion(&version)); // Triton requires version 6 or later
    CHECK(version == 60000000);
    HIP(hipPointerGetAttributes(&attributes, p));
    CHECK((int)attributes.memoryType == 2);
    HIP(hipPointerGetAttributes(&attributes, &back));
    CHECK((int)attributes.memoryType == 0);
    hip_Memcpy2D copy = {};
    copy.srcMemoryType = (hipMemoryType)1;
    copy.srcHost = &value;
    copy.dstMemoryType = (hipMemoryType)2;
    copy.dstDevice = p;
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = 4;
    copy.Height = 1;
    HIP(hipMemcpyParam2D(&copy));
    HIP(hipMemcpy(&back, p, 4, hipMemcpyDeviceToHost));
    CHECK(back == 7);
    CHECK(configure("hip=5", NULL, 0));
    HIP(hipFree(p));
}

// Layout of HIP_MEMCPY3D in HIP 6's driver_types.h.
struct Memcpy3D {
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host, *src_device, *src_array;
    size_t src_pitch, src_height, dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host, *dst_device, *dst_array;
    size_t dst_pitch, dst_height, width, height, depth;
};

// Copies boxes of two layers, each with two of three rows, each with four of eight bytes.
static void boxes()
{
    auto configure =
        (bool (*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "hipsim_configure");
    unsigned char from[48], to[48] = {}, *p;
    for (int i = 0; i < 48; i++)
        from[i] = (unsigned char)(i + 1);
    HIP(hipMalloc(&p, 48));
    HIP(hipMemset(p, 0, 48));
    Memcpy3D copy = {};
    copy.src_type = 1, copy.src_host = from, copy.dst_type = 2, copy.dst_device = p;
    copy.src_pitch = copy.dst_pitch = 8, copy.src_height = copy.dst_height = 3;
    copy.src_x = 1, copy.src_y = 1, copy.dst_x = 3, copy.dst_y = 0;
    copy.width = 4, copy.height = 2, copy.depth = 2;
    CHECK(configure("hip=6", NULL, 0));
    HIP(hipDrvMemcpy3D((const HIP_MEMCPY3D *)&copy));
    CHECK(configure("hip=5", NULL, 0));
    HIP(hipMemcpy(to, p, 48, hipMemcpyDeviceToHost));
    for (int i = 0; i < 48; i++) {
        int x = i % 8 - 3, y = i / 8 % 3, inside = x >= 0 && x < 4 && y < 2;
        CHECK(to[i] == (inside ? from[i / 24 * 24 + (y + 1) * 8 + x + 1] : 0));
    }
    HIP(hipFree(p));
}

// Tests node types: HIP 6 counts them from 0 (driver_types.h).
static void node_types()
{
    auto configure =
        (bool (*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "hipsim_configure");
    hipGraph_t graph;
    hipGraphNode_t node;
    hipGraphNodeType type;
    HIP(hipGraphCreate(&graph, 0));
    HIP(hipGraphAddEmptyNode(&node, graph, NULL, 0));
    HIP(hipGraphNodeGetType(node, &type));
    CHECK((int)type == 6);
    CHECK(configure("hip=6", NULL, 0));
    HIP(hipGraphNodeGetType(node, &type));
    CHECK((int)type == 5);
    CHECK(configure("hip=5", NULL, 0));
    HIP(hipGraphDestroy(graph));
}

// Tests hipEventDisableSystemFence, and hipEventInterprocess, which "also must" have
// hipEventDisableTiming.
static void event_flags()
{
    hipEvent_t event;
    HIP(hipEventCreateWithFlags(&event, 0x20000000));
    HIP(hipEventRecord(event, NULL));
    HIP(hipEventDestroy(event));
    EXPECT(hipErrorInvalidValue, hipEventCreateWithFlags(&event, hipEventInterprocess));
    HIP(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
    HIP(hipEventDestroy(event));
}

// Tests hipStreamLegacy of HIP 6.3, which is the null stream. A query of its capture state while
// another stream is captured gives hipErrorStreamCaptureImplicit (hip_runtime_api.h).
static void legacy_stream()
{
    hipStream_t legacy = (hipStream_t)1, stream;
    hipStreamCaptureStatus status;
    hipGraph_t graph;
    int *p, back[4];
    HIP(hipMalloc(&p, sizeof(back)));
    HIP(hipMemsetAsync(p, 0, sizeof(back), legacy));
    add<<<1, 4, 0, legacy>>>(p, 9);
    HIP(hipMemcpyAsync(back, p, sizeof(back), hipMemcpyDeviceToHost, NULL));
    HIP(hipStreamSynchronize(legacy));
    CHECK(back[0] == 9 && back[3] == 9);
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamIsCapturing(legacy, &status));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (hipStream_t null : {legacy, (hipStream_t)NULL})
        EXPECT(hipErrorStreamCaptureImplicit, hipStreamIsCapturing(null, &status));
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
    EXPECT(hipErrorInvalidHandle, hipStreamDestroy(legacy));
    HIP(hipFree(p));
}

int main()
{
    get_proc_address = (GetProcAddress *)dlsym(RTLD_DEFAULT, "hipGetProcAddress");
    CHECK(get_proc_address);
    names();
    fills();
    launches();
    streams();
    graphs();
    user_objects();
    memory();
    memory_types();
    boxes();
    node_types();
    event_flags();
    legacy_stream();
    return 0;
}
