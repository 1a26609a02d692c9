// SPDX-License-Identifier: Apache-2.0
// Tests hiprtc, which compiles programs at run time.
#include "check.h"

#include <hip/hiprtc.h>
#include <string.h>
#include <string>
#include <vector>

#define RTC(call) EXPECT_RTC(HIPRTC_SUCCESS, call)
#define EXPECT_RTC(wanted, call)                                                                   \
    do {                                                                                           \
        hiprtcResult got_ = (call);                                                                \
        if (got_ != (wanted)) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    hiprtcGetErrorString(got_));                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static std::string log_of(hiprtcProgram program)
{
    size_t size;
    RTC(hiprtcGetProgramLogSize(program, &size));
    std::vector<char> text(size);
    RTC(hiprtcGetProgramLog(program, text.data()));
    CHECK(size > 0 && text[size - 1] == 0);
    return text.data();
}

static hipModule_t load(hiprtcProgram program)
{
    size_t size;
    hipModule_t module;
    RTC(hiprtcGetCodeSize(program, &size));
    std::vector<char> code(size);
    RTC(hiprtcGetCode(program, code.data()));
    HIP(hipModuleLoadData(&module, code.data()));
    return module;
}

static int at(const int *p, int i)
{
    int value;
    HIP(hipMemcpy(&value, p + i, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

static void launch(hipModule_t module, const char *name, int *p)
{
    hipFunction_t function;
    void *arguments[] = { &p };
    HIP(hipModuleGetFunction(&function, module, name));
    HIP(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, 0, arguments, NULL));
    HIP(hipDeviceSynchronize());
}

static const char text[] = R"(
#include "step/size.h"
extern "C" __global__ void plain(int *p)
{
    __shared__ int lds[64];
    lds[threadIdx.x ^ 63] = threadIdx.x * STEP + ADDED;
    __syncthreads();
    p[threadIdx.x] = lds[threadIdx.x];
}
extern "C" __global__ void lanes(int *p)
{
    p[threadIdx.x] = __AMDGCN_WAVEFRONT_SIZE + 1000 * (int)__builtin_amdgcn_wavefrontsize();
}
namespace n {
__device__ int total;
template <typename T, int N> __global__ void scaled(T *p)
{
    p[threadIdx.x] = N * threadIdx.x;
    atomicAdd(&total, 1);
}
}
)";

static void names_and_headers(int *p)
{
    static const char header[] = "#define STEP 3\n", header_name[] = "step/size.h";
    const char *headers[] = { header }, *header_names[] = { header_name }, *lowered;
    const char *options[] = { "-DADDED=5", "-ffast-math" };
    hiprtcProgram program;

    RTC(hiprtcCreateProgram(&program, text, "names.hip", 1, headers, header_names));
    RTC(hiprtcAddNameExpression(program, "n::scaled<int, 7>"));
    RTC(hiprtcAddNameExpression(program, "&n::total"));
    RTC(hiprtcAddNameExpression(program, "plain"));
    EXPECT_RTC(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION,
               hiprtcGetLoweredName(program, "plain", &lowered));
    RTC(hiprtcCompileProgram(program, 2, options));
    EXPECT_RTC(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION,
               hiprtcAddNameExpression(program, "plain"));
    hipModule_t module = load(program);
    RTC(hiprtcGetLoweredName(program, "plain", &lowered));
    CHECK(strcmp(lowered, "plain") == 0);
    launch(module, lowered, p);
    CHECK(at(p, 0) == 3 * 63 + 5 && at(p, 63) == 5);
    launch(module, "lanes", p);
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, 0));
    CHECK(at(p, 0) == 1001 * properties.warpSize);
    RTC(hiprtcGetLoweredName(program, "n::scaled<int, 7>", &lowered));
    launch(module, lowered, p);
    CHECK(at(p, 1) == 7 && at(p, 63) == 7 * 63);
    RTC(hiprtcGetLoweredName(program, "&n::total", &lowered));
    hipDeviceptr_t total;
    size_t size;
    HIP(hipModuleGetGlobal(&total, &size, module, lowered));
    CHECK(size == sizeof(int) && at((int *)total, 0) == 64);
    EXPECT_RTC(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
               hiprtcGetLoweredName(program, "other", &lowered));
    HIP(hipModuleUnload(module));
    RTC(hiprtcDestroyProgram(&program));
    CHECK(!program);
}

static void errors(void)
{
    hiprtcProgram program;

    RTC(hiprtcCreateProgram(&program, "__global__ void k(int *p) { *p = missing; }", "wrong.hip", 0,
                            NULL, NULL));
    EXPECT_RTC(HIPRTC_ERROR_COMPILATION, hiprtcCompileProgram(program, 0, NULL));
    const std::string log = log_of(program);
    CHECK(log.find("wrong.hip:1:") != std::string::npos);
    CHECK(log.find("missing") != std::string::npos);
    size_t size;
    EXPECT_RTC(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetCodeSize(program, &size));
    RTC(hiprtcDestroyProgram(&program));
    EXPECT_RTC(HIPRTC_ERROR_INVALID_INPUT, hiprtcDestroyProgram(&program));
    EXPECT_RTC(HIPRTC_ERROR_INVALID_PROGRAM,
               hiprtcCreateProgram(&program, NULL, NULL, 0, NULL, NULL));
    // The path of a header may not leave the program's directory.
    const char *outside[] = { "../outside.h" }, *empty[] = { "" };
    RTC(hiprtcCreateProgram(&program, "", NULL, 1, empty, outside));
    EXPECT_RTC(HIPRTC_ERROR_COMPILATION, hiprtcCompileProgram(program, 0, NULL));
    CHECK(!log_of(program).empty());
    RTC(hiprtcDestroyProgram(&program));
}

// Tests that the compiler's files are created in $TMPDIR.
static void temporary_files(void)
{
    hiprtcProgram program;
    const char *before = getenv("TMPDIR");
    const std::string kept = before ? before : "";
    setenv("TMPDIR", "/nowhere", 1);
    RTC(hiprtcCreateProgram(&program, "__global__ void k() {}", NULL, 0, NULL, NULL));
    EXPECT_RTC(HIPRTC_ERROR_COMPILATION, hiprtcCompileProgram(program, 0, NULL));
    CHECK(log_of(program).find("$TMPDIR") != std::string::npos);
    RTC(hiprtcDestroyProgram(&program));
    setenv("TMPDIR", kept.c_str(), 1); // `kept` may be empty: as if it were not set
    RTC(hiprtcCreateProgram(&program, "__global__ void k() {}", NULL, 0, NULL, NULL));
    RTC(hiprtcCompileProgram(program, 0, NULL));
    RTC(hiprtcDestroyProgram(&program));
    if (!before)
        unsetenv("TMPDIR");
}

// Tests that code for another GPU compiles and is refused when it is loaded.
static void other_target(void)
{
    hiprtcProgram program;
    hipDeviceProp_t properties;
    hipModule_t module;
    HIP(hipGetDeviceProperties(&properties, 0));
    const bool is_942 = strncmp(properties.gcnArchName, "gfx942", 6) == 0;
    const char *options[] = { is_942 ? "--offload-arch=gfx950" : "--gpu-architecture=gfx942" };

    RTC(hiprtcCreateProgram(&program, "extern \"C\" __global__ void k() {}", "k", 0, NULL, NULL));
    RTC(hiprtcAddNameExpression(program, "k"));
    RTC(hiprtcCompileProgram(program, 1, options));
    size_t size;
    RTC(hiprtcGetCodeSize(program, &size));
    std::vector<char> code(size);
    RTC(hiprtcGetCode(program, code.data()));
    EXPECT(hipErrorNoBinaryForGpu, hipModuleLoadData(&module, code.data()));
    RTC(hiprtcDestroyProgram(&program));
}

int main(void)
{
    int *p, major = 0, minor;
    HIP(hipMalloc(&p, 64 * sizeof(*p)));
    RTC(hiprtcVersion(&major, &minor));
    CHECK(major > 0);
    names_and_headers(p);
    errors();
    temporary_files();
    other_target();
    HIP(hipFree(p));
    return 0;
}
