// SPDX-License-Identifier: Apache-2.0
// Tests libraries of HIP 7, whose kernels can be launched on any device, and managed variables of
// modules.
#include "check.h"

#include <dlfcn.h>
#include <string.h>
#include <string>
#include <vector>

typedef struct ihipLibrary_t *Library;
typedef struct ihipKernel_t *Kernel;
extern "C" {
hipError_t hipLibraryLoadData(Library *, const void *, hipJitOption *, void **, unsigned, void *,
                              void **, unsigned);
hipError_t hipLibraryLoadFromFile(Library *, const char *, hipJitOption *, void **, unsigned,
                                  void *, void **, unsigned);
hipError_t hipLibraryUnload(Library);
hipError_t hipLibraryGetKernel(Kernel *, Library, const char *);
hipError_t hipLibraryGetKernelCount(unsigned *, Library);
hipError_t hipLibraryEnumerateKernels(Kernel *, unsigned, Library);
hipError_t hipLibraryGetGlobal(void **, size_t *, Library, const char *);
hipError_t hipLibraryGetManaged(void **, size_t *, Library, const char *);
hipError_t hipKernelGetLibrary(Library *, Kernel);
hipError_t hipKernelGetName(const char **, Kernel);
hipError_t hipKernelGetFunction(hipFunction_t *, Kernel);
hipError_t hipKernelGetParamInfo(Kernel, size_t, size_t *, size_t *);
hipError_t hipKernelGetAttribute(int *, hipFunction_attribute, Kernel, hipDevice_t);
hipError_t hipKernelSetAttribute(hipFunction_attribute, int, Kernel, hipDevice_t);
}

// The program is linked with Debian's library, which lacks these functions.
#define FOUND(name) ((decltype(&name))dlsym(RTLD_DEFAULT, #name))
#define hipLibraryLoadData FOUND(hipLibraryLoadData)
#define hipLibraryLoadFromFile FOUND(hipLibraryLoadFromFile)
#define hipLibraryUnload FOUND(hipLibraryUnload)
#define hipLibraryGetKernel FOUND(hipLibraryGetKernel)
#define hipLibraryGetKernelCount FOUND(hipLibraryGetKernelCount)
#define hipLibraryEnumerateKernels FOUND(hipLibraryEnumerateKernels)
#define hipLibraryGetGlobal FOUND(hipLibraryGetGlobal)
#define hipLibraryGetManaged FOUND(hipLibraryGetManaged)
#define hipKernelGetLibrary FOUND(hipKernelGetLibrary)
#define hipKernelGetName FOUND(hipKernelGetName)
#define hipKernelGetFunction FOUND(hipKernelGetFunction)
#define hipKernelGetParamInfo FOUND(hipKernelGetParamInfo)
#define hipKernelGetAttribute FOUND(hipKernelGetAttribute)
#define hipKernelSetAttribute FOUND(hipKernelSetAttribute)

static Library load(const char *path)
{
    Library library;
    HIP(hipLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static void errors(const char *path)
{
    Library library = load(path);
    Kernel kernel;
    void *at;
    size_t size;
    EXPECT(hipErrorFileNotFound,
           hipLibraryLoadFromFile(&library, "/nowhere", NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(hipErrorInvalidImage,
           hipLibraryLoadData(&library, "no code", NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(hipErrorInvalidValue, hipLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(hipErrorNotFound, hipLibraryGetKernel(&kernel, library, "mixer"));
    EXPECT(hipErrorInvalidValue, hipLibraryGetKernel(&kernel, library, NULL));
    EXPECT(hipErrorInvalidValue, hipLibraryGetKernel(NULL, library, "mix"));
    EXPECT(hipErrorInvalidHandle, hipLibraryGetKernel(&kernel, NULL, "mix"));
    EXPECT(hipErrorInvalidValue, hipLibraryGetGlobal(NULL, NULL, library, "offset"));
    EXPECT(hipErrorInvalidValue, hipLibraryGetGlobal(&at, &size, library, NULL));
    EXPECT(hipErrorInvalidHandle, hipLibraryGetGlobal(&at, &size, NULL, "offset"));
    EXPECT(hipErrorNotFound, hipLibraryGetGlobal(&at, &size, library, "nothing"));
    EXPECT(hipErrorNotFound, hipLibraryGetManaged(&at, &size, library, "offset"));
    HIP(hipLibraryUnload(library));
    EXPECT(hipErrorInvalidHandle, hipLibraryUnload(library));
}

static void names(const char *path)
{
    Library library = load(path), found;
    unsigned count;
    const char *name;
    Kernel number, again;
    HIP(hipLibraryGetKernelCount(&count, library));
    CHECK(count == 4);
    HIP(hipLibraryGetKernel(&number, library, "number"));
    HIP(hipLibraryGetKernel(&again, library, "number"));
    CHECK(number == again);
    std::vector<Kernel> all(count + 1);
    HIP(hipLibraryEnumerateKernels(all.data(), count + 1, library));
    int seen = 0;
    for (unsigned i = 0; i < count; i++) {
        HIP(hipKernelGetName(&name, all[i]));
        HIP(hipKernelGetLibrary(&found, all[i]));
        CHECK(found == library && (strcmp(name, "number") == 0) == (all[i] == number));
        HIP(hipLibraryGetKernel(&again, library, name));
        CHECK(again == all[i] && (i == 0 || all[i] != all[i - 1]));
        seen += all[i] == number;
    }
    CHECK(seen == 1 && !all[count]);
    size_t offset, size;
    HIP(hipLibraryGetKernel(&again, library, "mix")); // arguments: char, double, short, const int *
    HIP(hipKernelGetParamInfo(again, 1, &offset, &size));
    CHECK(offset == 8 && size == 8);
    HIP(hipKernelGetParamInfo(again, 2, &offset, &size));
    CHECK(offset == 16 && size == 2);
    EXPECT(hipErrorInvalidValue, hipKernelGetParamInfo(again, 6, &offset, &size));
    int threads, lds;
    HIP(hipKernelGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, again, 0));
    CHECK(threads == 1024);
    HIP(hipKernelGetAttribute(&lds, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, again, 0));
    HIP(hipKernelSetAttribute(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, lds, again, 0));
    EXPECT(hipErrorInvalidValue,
           hipKernelSetAttribute(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, lds + 1, again,
                                 0));
    EXPECT(hipErrorInvalidDevice,
           hipKernelGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_NUM_REGS, again, 7));
    HIP(hipLibraryUnload(library));
    EXPECT(hipErrorInvalidHandle, hipKernelGetName(&name, number));
}

static int numbered(Kernel kernel, bool by_host_call)
{
    int *p, back[64];
    long none = 0;
    HIP(hipMalloc(&p, sizeof(back)));
    void *params[] = {&p, &none, &none};
    if (by_host_call)
        HIP(hipLaunchKernel((const void *)kernel, dim3(1), dim3(64), params, 0, NULL));
    else
        HIP(hipModuleLaunchKernel((hipFunction_t)kernel, 1, 1, 1, 64, 1, 1, 0, 0, params, NULL));
    HIP(hipMemcpy(back, p, sizeof(back), hipMemcpyDeviceToHost));
    HIP(hipFree(p));
    return back[63];
}

// Tests that a kernel's handle stands for a function on each device.
static void launches(const char *path)
{
    Library library = load(path);
    Kernel number;
    hipFunction_t functions[2];
    HIP(hipLibraryGetKernel(&number, library, "number"));
    for (int device = 0; device < 2; device++) {
        HIP(hipSetDevice(device));
        CHECK(numbered(number, true) == 63 && numbered(number, false) == 63);
        HIP(hipKernelGetFunction(&functions[device], number));
        CHECK(numbered((Kernel)functions[device], false) == 63);
    }
    CHECK(functions[0] != functions[1]);
    HIP(hipSetDevice(0));
    HIP(hipLibraryUnload(library));
    EXPECT(hipErrorInvalidHandle,
           hipModuleLaunchKernel(functions[0], 1, 1, 1, 64, 1, 1, 0, 0, NULL, NULL));
}

// Launches kept[1] += kept[0] * value, on a variable that the host reads.
static void managed(const char *path)
{
    Library library = load(path);
    Kernel keep;
    int *kept, value = 3, *global;
    void *params[] = {&value};
    size_t size;
    HIP(hipLibraryGetManaged((void **)&kept, &size, library, "kept"));
    CHECK(size == 8 && kept[0] == 5 && kept[1] == 6);
    HIP(hipLibraryGetKernel(&keep, library, "keep"));
    kept[0] = 7;
    HIP(hipLaunchKernel((const void *)keep, dim3(1), dim3(1), params, 0, NULL));
    HIP(hipDeviceSynchronize());
    CHECK(kept[1] == 6 + 7 * 3);
    HIP(hipLibraryGetGlobal((void **)&global, &size, library, "offset"));
    HIP(hipMemcpy(&value, global, sizeof(value), hipMemcpyDeviceToHost));
    CHECK(size == 4 && value == 11);
    HIP(hipLibraryUnload(library));

    hipModule_t module; // the module has its own variable
    hipFunction_t function;
    HIP(hipModuleLoad(&module, path));
    HIP(hipModuleGetGlobal((hipDeviceptr_t *)&kept, &size, module, "kept"));
    CHECK(size == 8 && kept[0] == 5 && kept[1] == 6);
    HIP(hipModuleGetFunction(&function, module, "keep"));
    value = 2;
    HIP(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL));
    HIP(hipDeviceSynchronize());
    CHECK(kept[1] == 6 + 5 * 2);
    HIP(hipModuleUnload(module));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *options = getenv("HIPSIM");
    setenv("HIPSIM", (std::string(options ? options : "") + ",devices=2").c_str(), 1);
    errors(argv[1]);
    names(argv[1]);
    launches(argv[1]);
    managed(argv[1]);
    return 0;
}
