// SPDX-License-Identifier: Apache-2.0
// Tests devices: their count, properties in both layouts, attributes, names and limits.
#include "check.h"
#include <dlfcn.h>
#include <string.h>

static int contexts()
{
    hipCtx_t context, current;
    HIP(hipDevicePrimaryCtxRetain(&context, 0));
    HIP(hipCtxGetCurrent(&current));
    CHECK(context == current);
    HIP(hipCtxCreate(&context, 0, 0));
    HIP(hipCtxGetCurrent(&current));
    CHECK(context == current);
    HIP(hipCtxPopCurrent(&current));
    HIP(hipCtxDestroy(context));
    EXPECT(hipErrorInvalidContext, hipCtxSetCurrent(context));
    return 0;
}

int main()
{
    int count = 0, value = 0, ordinal = -1;
    hipDeviceProp_t p;

    HIP(hipInit(0));
    HIP(hipGetDeviceCount(&count));
    CHECK(count == 1);
    HIP(hipGetDevice(&ordinal));
    CHECK(ordinal == 0);
    EXPECT(hipErrorInvalidDevice, hipSetDevice(count));
    EXPECT(hipErrorInvalidDevice, hipGetDeviceProperties(&p, -1));
    EXPECT(hipErrorInvalidValue, hipGetDeviceProperties(NULL, 0));
    HIP(hipGetDeviceProperties(&p, 0));
    CHECK(strstr(p.name, "simulated"));
    bool cdna4 = strncmp(p.gcnArchName, "gfx950", 6) == 0;
    CHECK(cdna4 || strcmp(p.gcnArchName, "gfx942:sramecc+:xnack-") == 0);
    CHECK(p.warpSize == 64 && p.maxThreadsPerBlock == 1024);
    CHECK(p.sharedMemPerBlock == (cdna4 ? 160u : 64u) * 1024);
    CHECK(p.multiProcessorCount == (cdna4 ? 256 : 304));
    CHECK(p.totalGlobalMem >= (size_t)192 << 30);

    // Layout of HIP 6, which these headers lack: a name, 16 + 8 + 4 bytes of identifiers, then
    // memory sizes.
    typedef hipError_t (*get_r0600)(void *, int);
    get_r0600 get = (get_r0600)dlsym(RTLD_DEFAULT, "hipGetDevicePropertiesR0600");
    CHECK(get);
    unsigned char raw[1472 + 64];
    memset(raw, 0xa5, sizeof(raw));
    HIP(get(raw, 0));
    CHECK(strcmp((char *)raw, p.name) == 0);
    CHECK(memcmp(raw + 288, &p.totalGlobalMem, 8) == 0);
    CHECK(memcmp(raw + 296, &p.sharedMemPerBlock, 8) == 0);
    CHECK(strcmp((char *)raw + 1160, p.gcnArchName) == 0);
    for (int i = 1472; i < (int)sizeof(raw); i++)
        CHECK(raw[i] == 0xa5);

    HIP(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
    CHECK(value == p.multiProcessorCount);
    HIP(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0));
    CHECK(value == 64);
    EXPECT(hipErrorInvalidValue, hipDeviceGetAttribute(&value, (hipDeviceAttribute_t)123456, 0));

    char text[64], short_text[8];
    HIP(hipDeviceGetName(text, sizeof(text), 0));
    CHECK(strcmp(text, p.name) == 0);
    HIP(hipDeviceGetName(short_text, sizeof(short_text), 0));
    CHECK(strlen(short_text) == sizeof(short_text) - 1);
    HIP(hipDeviceGetPCIBusId(text, sizeof(text), 0));
    HIP(hipDeviceGetByPCIBusId(&ordinal, text));
    CHECK(ordinal == 0);
    size_t total = 0;
    HIP(hipDeviceTotalMem(&total, 0));
    CHECK(total == p.totalGlobalMem);
    HIP(hipRuntimeGetVersion(&value));
    CHECK(value / 10000000 >= 5);
    HIP(hipDeviceGetLimit(&total, hipLimitPrintfFifoSize));
    CHECK(total > 0);
    return contexts();
}
