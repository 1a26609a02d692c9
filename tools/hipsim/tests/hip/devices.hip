// SPDX-License-Identifier: Apache-2.0
// Tests which of several GPUs a process sees, and on which GPU a launch runs. Without arguments the
// program runs itself with each set of variables, and compares the bus numbers that it prints.
#include "check.h"
#include <dlfcn.h>
#include <string.h>
#include <string>

__device__ int here;

__global__ void count(int *out)
{
    atomicExch(out, atomicAdd(&here, 1));
}

static const struct {
    const char *rocr, *hip, *cuda, *buses; // NULL: the variable is not set
} cases[] = {
    {NULL, NULL, NULL, "1 2 3 4"},
    {NULL, "2", NULL, "3"},
    {NULL, "3,0", NULL, "4 1"},
    {NULL, "1,1,0", NULL, "2 1"}, // HIP skips a repeated number
    {NULL, "1,9,0", NULL, "2"},
    {NULL, "0,x,1", NULL, "1"},
    {NULL, "-1", NULL, ""},
    {NULL, " 1", NULL, ""},
    {NULL, "01", NULL, ""},
    {NULL, "0,", NULL, "1"},
    {NULL, "", "2,3", "3 4"}, // HIP ignores an empty value
    {NULL, NULL, "1", "2"},
    {NULL, "0", "1", "1"},
    {NULL, NULL, "", "1 2 3 4"},
    {NULL, "GPU-hipsim-00000002,0", NULL, "3 1"},
    {NULL, "GPU-hipsim-00000009,0", NULL, ""},
    {"", NULL, NULL, ""}, // ROCr sees no GPU if the value is empty
    {"3,1", NULL, NULL, "4 2"},
    {"3,1", "1", NULL, "2"}, // index in the list that ROCr left
    {"3,1", "2", NULL, ""},
    {"3,1", NULL, "0", "4"},
    {"1,1,0", NULL, NULL, "2"}, // ROCr's list ends at a repetition
    {"0x2", NULL, NULL, "3"},
    {"2,7,0", NULL, NULL, "3"},
    {"1x,0", NULL, NULL, ""},
    {"GPU-hipsim-00000003,0", "0", NULL, "4"},
    {"GPU-hipsim-0000000", NULL, NULL, ""}, // prefix of all names: ambiguous
    {"GPU-", NULL, NULL, ""},
};

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static std::string buses_of(const char *program)
{
    const std::string command = std::string(program) + " list";
    char line[256] = "";
    FILE *child = popen(command.c_str(), "r");

    CHECK(child && fgets(line, sizeof(line), child));
    CHECK(pclose(child) == 0);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static int list()
{
    int devices = 0;
    const hipError_t error = hipGetDeviceCount(&devices);

    CHECK(error == (devices ? hipSuccess : hipErrorNoDevice));
    for (int i = 0; i < devices; i++) {
        char id[32], wanted[32];
        int bus, back;
        hipUUID uuid;
        HIP(hipDeviceGetAttribute(&bus, hipDeviceAttributePciBusId, i));
        HIP(hipDeviceGetPCIBusId(id, sizeof(id), i));
        snprintf(wanted, sizeof(wanted), "0000:%02x:00.0", bus);
        CHECK(strcmp(id, wanted) == 0);
        HIP(hipDeviceGetByPCIBusId(&back, id));
        CHECK(back == i);
        HIP(hipDeviceGetUuid(&uuid, i));
        snprintf(wanted, sizeof(wanted), "hipsim-%08x", bus - 1);
        CHECK(memcmp(uuid.bytes, wanted, strlen(wanted)) == 0);
        printf("%s%d", i ? " " : "", bus);
    }
    putchar('\n');
    return 0;
}

static void visible(const char *program)
{
    for (const auto &c : cases) {
        set("ROCR_VISIBLE_DEVICES", c.rocr);
        set("HIP_VISIBLE_DEVICES", c.hip);
        set("CUDA_VISIBLE_DEVICES", c.cuda);
        const std::string buses = buses_of(program);
        if (buses != c.buses)
            fprintf(stderr, "ROCR %s HIP %s CUDA %s: '%s', not '%s'\n", c.rocr ? c.rocr : "unset",
                    c.hip ? c.hip : "unset", c.cuda ? c.cuda : "unset", buses.c_str(), c.buses);
        CHECK(buses == c.buses);
    }
    set("ROCR_VISIBLE_DEVICES", NULL);
    set("HIP_VISIBLE_DEVICES", "2,1");
    set("CUDA_VISIBLE_DEVICES", NULL);
}

static int counted(int device)
{
    int value;

    HIP(hipSetDevice(device));
    HIP(hipMemcpyFromSymbol(&value, HIP_SYMBOL(here), sizeof(value)));
    return value;
}

// Tests that a launch runs on the device of its stream. The null stream belongs to the current
// device.
static void streams()
{
    hipStream_t second;
    int *out, count_of_second = -1;
    void *args[] = {&out};

    HIP(hipSetDevice(1));
    HIP(hipStreamCreate(&second));
    HIP(hipMalloc(&out, sizeof(*out)));
    HIP(hipSetDevice(0));
    count<<<1, 1, 0, second>>>(out);
    HIP(hipGetLastError());
    HIP(hipLaunchKernel((const void *)count, dim3(1), dim3(1), args, 0, second));
    HIP(hipLaunchCooperativeKernel((const void *)count, dim3(1), dim3(1), args, 0, second));
    HIP(hipStreamSynchronize(second));
    HIP(hipMemcpy(&count_of_second, out, sizeof(*out), hipMemcpyDeviceToHost));
    CHECK(count_of_second == 2);
    CHECK(counted(0) == 0 && counted(1) == 3);
    HIP(hipSetDevice(1));
    count<<<1, 1>>>(out);
    count<<<1, 1, 0, hipStreamPerThread>>>(out);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());
    CHECK(counted(0) == 0 && counted(1) == 5);

    HIP(hipSetDevice(0)); // a captured launch keeps its stream's device, too
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipStreamBeginCapture(second, hipStreamCaptureModeRelaxed));
    count<<<1, 1, 0, second>>>(out);
    HIP(hipStreamEndCapture(second, &graph));
    HIP(hipGraphInstantiate(&executable, graph, NULL, NULL, 0));
    HIP(hipGraphLaunch(executable, second));
    HIP(hipStreamSynchronize(second));
    CHECK(counted(0) == 0 && counted(1) == 6);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(second));
}

// Tests grids that clr's hipModuleLaunchKernel refuses. Launches of host functions have no such
// limit.
static void grids()
{
    hipFunction_t function;
    int *out;
    void *args[] = {&out};
    const unsigned most = 65536;

    HIP(hipSetDevice(0));
    HIP(hipMalloc(&out, sizeof(*out)));
    // Debian 12's HIP lacks the function.
    using by_symbol = hipError_t (*)(hipFunction_t *, const void *);
    auto find = (by_symbol)dlsym(RTLD_DEFAULT, "hipGetFuncBySymbol");
    HIP(find(&function, (const void *)count));
    for (unsigned i = 0; i < 2; i++) {
        const unsigned y = i ? 1 : most, z = i ? most : 1;
        const int before = counted(0);
        HIP(hipModuleLaunchKernel(function, 1, y, z, 1, 1, 1, 0, 0, args, NULL));
        HIP(hipDeviceSynchronize());
        CHECK(counted(0) == before + (int)most);
        EXPECT(hipErrorInvalidValue,
               hipModuleLaunchKernel(function, 1, y + !i, z + i, 1, 1, 1, 0, 0, args, NULL));
    }
    EXPECT(hipErrorInvalidValue,
           hipModuleLaunchKernel(function, 1u << 31, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    EXPECT(hipErrorInvalidConfiguration,
           hipModuleLaunchKernel(function, 1u << 30, 1, 1, 8, 1, 1, 0, 0, args, NULL));
    (void)hipGetLastError();
    const int before = counted(0);
    count<<<dim3(1, most + 1, 1), 1>>>(out);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());
    CHECK(counted(0) == before + (int)most + 1);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return list();
    const char *options = getenv("HIPSIM");
    setenv("HIPSIM", (std::string(options ? options : "") + ",devices=4").c_str(), 1);
    visible(argv[0]);
    streams();
    grids();
    return 0;
}
