/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes random HIP calls in any order, with null, stale and foreign handles, and with sizes from 0
 * to the largest. Each call must return, no object may be used after its end, and nothing may be
 * left when all handles have been released.
 *
 * An input is a list of calls: one byte chooses a row of calls.def, one byte each its arguments.
 */
#include "tools/hipsim/hip/hip.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 200
#define SLOTS 24
#define SCRATCH 4096

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Kinds of handles. calls.def has a letter for each: small for an argument, capital for the address
 * at which a call stores a handle. */
enum handle {
    STREAM,
    EVENT,
    GRAPH,
    NODE,
    EXEC,
    MODULE,
    FUNCTION,
    POOL,
    POINTER,
    OBJECT,
    RANGE,
    MEMORY,
    HANDLES,
};
static const char letters[HANDLES + 1] = "segnxmflpjry";
static const char capitals[HANDLES + 1] = "SEGNXMFLPJRY";

struct input {
    const uint8_t *data;
    size_t size;
};

/* The handles that HIP has returned, by kind. Handles that were released stay in the list. */
static struct {
    void *items[SLOTS];
    unsigned count;
} out[HANDLES];

typedef void *hipUserObject_t;
int hipUserObjectCreate(hipUserObject_t *object, void *resource, hipHostFn_t end, unsigned count,
                        unsigned flags);
int hipUserObjectRetain(hipUserObject_t object, unsigned count);
int hipUserObjectRelease(hipUserObject_t object, unsigned count);
int hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count,
                             unsigned flags);
int hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count);

static void *code; /* code object that the calls load as a module */
static _Alignas(64) char scratch[8][SCRATCH];

static unsigned byte(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static void keep(enum handle kind, void *item)
{
    if (!item)
        return;
    for (unsigned i = 0; i < out[kind].count; i++)
        if (out[kind].items[i] == item)
            return;
    if (out[kind].count < SLOTS)
        out[kind].items[out[kind].count++] = item;
}

static uintptr_t a_handle(enum handle kind, struct input *in)
{
    const unsigned choice = byte(in);

    /* A call must not get a host address that is no allocation, since HIP accesses it. */
    if ((kind == RANGE || kind == POINTER) && !out[kind].count)
        return 0;
    if (kind == RANGE)
        return (uintptr_t)out[RANGE].items[choice % out[RANGE].count] + (choice / 32 << 20);
    if (kind == POINTER && choice >= 250)
        return 0;
    if (kind == POINTER)
        return (uintptr_t)out[POINTER].items[choice % out[POINTER].count] +
               (choice >= 220 ? choice : 0);
    if (choice >= 250)
        return choice == 250 ? (uintptr_t)scratch[7] : choice == 251 ? 2 : choice == 252 ? 1 : 0;
    if (choice >= 240) { /* of another kind */
        const unsigned other = choice % HANDLES;
        return out[other].count ? (uintptr_t)out[other].items[0] : 0;
    }
    return out[kind].count ? (uintptr_t)out[kind].items[choice % out[kind].count] : 0;
}

static size_t a_size(struct input *in)
{
    static const size_t sizes[] = {
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        16,
        63,
        64,
        65,
        255,
        256,
        257,
        1000,
        4096,
        4097,
        20000,
        1 << 17,
        1 << 21,
        1 << 22,
        3 << 21,
        (size_t)1 << 39,
        (size_t)1 << 40,
        (size_t)1 << 62,
        SIZE_MAX / 2,
        SIZE_MAX - 4096,
        SIZE_MAX - 1,
        SIZE_MAX,
    };

    return sizes[byte(in) % (sizeof(sizes) / sizeof(*sizes))];
}

static uint32_t a_dimension(struct input *in)
{
    static const uint32_t some[] = {1,   1,    1,    2,     3,        64,        0,
                                    256, 1024, 1025, 65536, 1u << 31, UINT32_MAX};
    return some[byte(in) % (sizeof(some) / sizeof(*some))];
}

/* True if a grid has at most 4,096 workgroups, so that a launch takes little time. */
static bool is_small(const uint32_t grid[3])
{
    return (uint64_t)grid[0] * grid[1] <= 4096 && (uint64_t)grid[0] * grid[1] * grid[2] <= 4096;
}

/* Returns four kernel arguments of 16 bytes each. No kernel of the module takes more. */
static void **arguments(struct input *in)
{
    static uint64_t values[8][2];
    static void *list[9];

    for (unsigned i = 0; i < 8; i++) {
        values[i][0] = byte(in) & 1 ? a_handle(POINTER, in) : a_size(in);
        list[i] = byte(in) == 255 ? NULL : values[i];
    }
    return list;
}

static void **packed(struct input *in)
{
    static void *list[5];
    static size_t size;

    size = byte(in);
    list[0] = HIP_LAUNCH_PARAM_BUFFER_POINTER;
    list[1] = scratch[6];
    list[2] = byte(in) == 255 ? (void *)9 : HIP_LAUNCH_PARAM_BUFFER_SIZE;
    list[3] = &size;
    list[4] = HIP_LAUNCH_PARAM_END;
    return list;
}

static hipError_t fill_box(struct input *in)
{
    const hipPitchedPtr box = {(void *)a_handle(POINTER, in), a_size(in), a_size(in), a_size(in)};

    return hipMemset3D(box, (int)byte(in), (hipExtent){a_size(in), a_size(in), a_size(in)});
}

static hipError_t launch(struct input *in)
{
    const uint32_t grid[3] = {a_dimension(in), a_dimension(in), a_dimension(in)};
    const uint32_t block[3] = {a_dimension(in), a_dimension(in), a_dimension(in)};
    const unsigned how = byte(in);

    if (!is_small(grid))
        return hipSuccess;
    return hipModuleLaunchKernel((hipFunction_t)a_handle(FUNCTION, in), grid[0], grid[1], grid[2],
                                 block[0], block[1], block[2], (unsigned)a_size(in),
                                 (hipStream_t)a_handle(STREAM, in), how & 1 ? arguments(in) : NULL,
                                 how & 2 ? packed(in) : NULL);
}

static void nothing(void *data) { (void)data; }

static void no_callback(hipStream_t stream, hipError_t error, void *data)
{
    (void)stream, (void)error, (void)data;
}

/* Fills a structure of the kind that the letter of calls.def names, and returns its address. */
static void *a_structure(char letter, struct input *in, unsigned slot)
{
    void *const to = scratch[slot];

    if (byte(in) == 255)
        return NULL;
    memset(to, 0, sizeof(scratch[0]));
    if (letter == 'K') {
        hipKernelNodeParams *p = to;
        *p = (hipKernelNodeParams){
            .blockDim = {a_dimension(in), a_dimension(in), a_dimension(in)},
            .gridDim = {a_dimension(in), a_dimension(in), a_dimension(in)},
            .func = (void *)a_handle(FUNCTION, in),
            .sharedMemBytes = (unsigned)a_size(in),
            .kernelParams = arguments(in),
        };
        if (!is_small(&p->gridDim.x))
            p->gridDim = (dim3){1, 1, 1};
    } else if (letter == 'C') {
        *(hipMemcpy3DParms *)to = (hipMemcpy3DParms){
            .srcPtr = {(void *)a_handle(POINTER, in), a_size(in), a_size(in), a_size(in)},
            .dstPtr = {(void *)a_handle(POINTER, in), a_size(in), a_size(in), a_size(in)},
            .srcPos = {a_size(in), a_size(in), a_size(in)},
            .extent = {a_size(in), a_size(in), a_size(in)},
            .kind = (hipMemcpyKind)(byte(in) % 7),
        };
    } else if (letter == 'A') {
        *(hipMemsetParams *)to = (hipMemsetParams){.dst = (void *)a_handle(POINTER, in),
                                                   .elementSize = byte(in) % 6,
                                                   .height = a_size(in),
                                                   .pitch = a_size(in),
                                                   .value = byte(in),
                                                   .width = a_size(in)};
    } else if (letter == 'H') {
        *(hipHostNodeParams *)to = (hipHostNodeParams){.fn = byte(in) & 1 ? nothing : NULL};
    } else if (letter == 'Q') {
        *(hipMemPoolProps *)to = (hipMemPoolProps){
            .allocType = (hipMemAllocationType)(byte(in) % 3),
            .location = {.type = (hipMemLocationType)(byte(in) % 3), .id = (int)byte(in) % 4 - 1}};
    } else if (letter == 'V') {
        *(hipMemAllocationProp *)to =
            (hipMemAllocationProp){.type = hipMemAllocationTypePinned,
                                   .location = {hipMemLocationTypeDevice, (int)byte(in) % 4 - 1}};
    } else if (letter == 'D') {
        *(hipMemAccessDesc *)to = (hipMemAccessDesc){
            {hipMemLocationTypeDevice, (int)byte(in) % 3 - 1}, (hipMemAccessFlags)(byte(in) % 5)};
    }
    return to;
}

/* The calls of calls.def, with a letter for each argument. Small letters are handles of enum
 * handle, capitals the addresses at which handles are stored. */
typedef int any_call(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t);
static const struct {
    const char *name;
    const char *arguments;
    any_call *function;
} calls[] = {
#define CALL(name, arguments) {#name, arguments, (any_call *)(uintptr_t)name},
#include "tests/fuzz/calls.def"
};

static uintptr_t argument(char letter, struct input *in, unsigned slot)
{
    const char *kind = strchr(letters, letter);

    if (kind)
        return a_handle((enum handle)(kind - letters), in);
    switch (letter) {
    case 'z': return a_size(in);
    case 'i': /* a number from -1 to 10: a device, a kind or flags */
        return (uintptr_t)(intptr_t)((int)(byte(in) % 12) - 1);
    case 'b': return byte(in);
    case 'd': return a_dimension(in);
    case 'v': /* an array of nodes */
        for (unsigned i = 0; i < 4; i++)
            ((uintptr_t *)scratch[slot])[i] = a_handle(NODE, in);
        return (uintptr_t)scratch[slot];
    case 'c': /* a count */ return byte(in) % 5;
    case 'q': /* the address of a count */
        *(size_t *)scratch[slot] = byte(in) % 9;
        return (uintptr_t)scratch[slot];
    case 'h': return (uintptr_t)nothing;
    case 'w': return (uintptr_t)no_callback;
    case 'o': /* a place for results */ return byte(in) == 255 ? 0 : (uintptr_t)scratch[slot];
    case '%': /* the name of a kernel or variable */
        return (uintptr_t)((const char *[]){"mix", "number", "table", "", "x"})[byte(in) % 5];
    case 'I': /* a code object, perhaps damaged */
        ((char *)code)[byte(in) * 8] ^= (char)(byte(in) & 1);
        return (uintptr_t)code;
    default: /* a handle is stored, or a structure is passed */
        kind = memchr(capitals, letter, HANDLES);
        if (!kind)
            return (uintptr_t)a_structure(letter, in, slot);
        if (byte(in) == 255 || out[kind - capitals].count == SLOTS)
            return 0;
        *(void **)scratch[slot] = NULL;
        return (uintptr_t)scratch[slot];
    }
}

__attribute__((no_sanitize("function"))) /* x86-64 and AArch64 call all types alike */
static void
make(unsigned row, struct input *in)
{
    uintptr_t a[10] = {0};
    const char *kinds = calls[row].arguments;

    for (unsigned i = 0; kinds[i]; i++)
        a[i] = argument(kinds[i], in, i % 7);
    if (calls[row].function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]) != 0)
        return;
    for (unsigned i = 0; kinds[i]; i++) {
        const char *kind = memchr(capitals, kinds[i], HANDLES);
        if (kind && a[i])
            keep((enum handle)(kind - capitals), *(void **)a[i]);
    }
}

/* Unmaps all that is mapped in an address range of 2, 4 or 6 MiB, and frees the range. */
static void give_back_range(char *base)
{
    for (unsigned at = 0; at < 3; at++)
        for (unsigned granules = 1; granules <= 3; granules++)
            hipMemUnmap(base + ((size_t)at << 21), (size_t)granules << 21);
    for (unsigned granules = 1; granules <= 3; granules++)
        hipMemAddressFree(base, (size_t)granules << 21);
}

/* Releases all references to a user object. A call has added at most INT_MAX of them. */
static void give_back_object(void *object)
{
    for (unsigned i = 0; i <= MAX_CALLS; i++)
        hipUserObjectRelease(object, INT_MAX);
}

/* Ends work that would keep memory. The thread's own stream cannot be destroyed, and its capture
 * may have memory. A stream may still wait for a value, so that later work, such as hipFreeAsync(),
 * has not run. */
static void end_work(void)
{
    hipGraph_t graph;
    int devices = 0;

    if (hipStreamEndCapture(hipStreamPerThread, &graph) == hipSuccess)
        hipGraphDestroy(graph);
    (void)hipGetDeviceCount(&devices);
    for (int d = 0; d < devices; d++) {
        hipSetDevice(d);
        hipDeviceSynchronize();
    }
    hipSetDevice(0);
}

static void give_back(void)
{
    end_work();
    for (unsigned i = 0; i < out[STREAM].count; i++)
        hipStreamDestroy(out[STREAM].items[i]);
    for (unsigned i = 0; i < out[EXEC].count; i++)
        hipGraphExecDestroy(out[EXEC].items[i]);
    for (unsigned i = 0; i < out[GRAPH].count; i++)
        hipGraphDestroy(out[GRAPH].items[i]);
    for (unsigned i = 0; i < out[EVENT].count; i++)
        hipEventDestroy(out[EVENT].items[i]);
    for (unsigned i = 0; i < out[POINTER].count; i++)
        hipFree(out[POINTER].items[i]);
    for (unsigned i = 0; i < out[OBJECT].count; i++)
        give_back_object(out[OBJECT].items[i]);
    for (unsigned i = 0; i < out[MEMORY].count; i++)
        while (hipMemRelease(out[MEMORY].items[i]) == hipSuccess)
            ;
    for (unsigned i = 0; i < out[RANGE].count; i++)
        give_back_range(out[RANGE].items[i]);
    for (unsigned i = 0; i < out[MODULE].count; i++)
        hipModuleUnload(out[MODULE].items[i]);
    hipMemPool_t own;
    if (hipDeviceGetDefaultMemPool(&own, 0) == hipSuccess)
        hipDeviceSetMemPool(0, own);
    for (unsigned i = 0; i < out[POOL].count; i++)
        hipMemPoolDestroy(out[POOL].items[i]);
    memset(out, 0, sizeof(out));
    (void)hipGetLastError();
}

static void silence(void *ctx, const struct hipsim_report *report)
{
    (void)ctx;
    if (!report->text[0])
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    FILE *f = fopen(MODULE_FILE, "rb");

    (void)argc, (void)argv;
    code = calloc(1, 1 << 16);
    if (!f || !code || !fread(code, 1, 1 << 16, f) ||
        !hipsim_configure("memory=1,threads=1,budget=2000,devices=2", NULL, 0))
        abort();
    fclose(f);
    hipsim_set_report(silence, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    static uint64_t before = UINT64_MAX;

    for (unsigned i = 0; i < MAX_CALLS && in.size; i++) {
        const unsigned row = byte(&in);
        if (row < sizeof(calls) / sizeof(*calls))
            make(row, &in);
        else if (row & 1)
            launch(&in);
        else
            fill_box(&in);
    }
    give_back();
    if (before == UINT64_MAX)
        before = hipsim_live_bytes(0);
    if (hipsim_live_bytes(0) != before) {
        fprintf(stderr, "%zu bytes are left\n", (size_t)(hipsim_live_bytes(0) - before));
        abort();
    }
    return 0;
}
