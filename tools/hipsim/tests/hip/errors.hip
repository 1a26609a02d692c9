// SPDX-License-Identifier: Apache-2.0
// Tests that faulty calls give a named error, never crash, and leave the program able to continue.
#include "check.h"
#include <string.h>

__global__ void store_at(int *p, int index)
{
    p[index] = 1;
}

__global__ void endless(volatile int *p)
{
    while (*p == 0)
        ;
}

static void launches(void)
{
    int *p;

    HIP(hipMalloc(&p, 64 * sizeof(*p)));
    HIP(hipMemset(p, 0, 64 * sizeof(*p)));
    store_at<<<1, 1>>>(p, 63);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());

    // A store one element past the end fails the launch, and the next synchronisation.
    store_at<<<1, 1>>>(p, 64);
    EXPECT(hipErrorIllegalAddress, hipGetLastError());
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    HIP(hipDeviceSynchronize());

    HIP(hipFree(p));
    store_at<<<1, 1>>>(p, 0);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    int on_the_stack = 0;
    store_at<<<1, 1>>>(&on_the_stack, 0);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    CHECK(on_the_stack == 0);
    (void)hipGetLastError();

    HIP(hipMalloc(&p, sizeof(*p)));
    HIP(hipMemset(p, 0, sizeof(*p)));
    endless<<<1, 64>>>(p);
    EXPECT(hipErrorLaunchTimeOut, hipDeviceSynchronize());
    (void)hipGetLastError();

    store_at<<<0, 1>>>(p, 0);
    EXPECT(hipErrorInvalidConfiguration, hipGetLastError());
    store_at<<<1, 1025>>>(p, 0);
    EXPECT(hipErrorInvalidConfiguration, hipGetLastError());
    store_at<<<dim3(1u << 31, 1u << 15, 1u << 15), dim3(1)>>>(p, 0);
    EXPECT(hipErrorInvalidConfiguration, hipGetLastError());
    store_at<<<1, 1>>>(p, 0);
    HIP(hipGetLastError());
    HIP(hipDeviceSynchronize());
}

static void handles(void)
{
    hipModule_t module;
    hipFunction_t function;
    int number = 5, *p = &number;
    void *args[] = {&p, &number};
    char junk[256] = "not a code object";

    EXPECT(hipErrorInvalidImage, hipModuleLoadData(&module, junk));
    EXPECT(hipErrorFileNotFound, hipModuleLoad(&module, "/nonexistent/file.co"));
    EXPECT(hipErrorInvalidHandle, hipModuleGetFunction(&function, (hipModule_t)&number, "f"));
    EXPECT(hipErrorInvalidHandle, hipModuleLaunchKernel((hipFunction_t)&number, 1, 1, 1, 1, 1, 1,
                                                        0, 0, args, NULL));
    EXPECT(hipErrorInvalidDeviceFunction,
           hipLaunchKernel((const void *)&number, dim3(1), dim3(1), args, 0, 0));
    EXPECT(hipErrorInvalidValue, hipMemset(&number, 0, sizeof(number)));
    EXPECT(hipErrorContextIsDestroyed, hipStreamQuery((hipStream_t)&number));
    EXPECT(hipErrorInvalidHandle, hipEventQuery((hipEvent_t)&number));
    EXPECT(hipErrorInvalidSymbol, hipMemcpyToSymbol((const void *)&number, &number, 4));
}

static void names(void)
{
    CHECK(strcmp(hipGetErrorName(hipErrorIllegalAddress), "hipErrorIllegalAddress") == 0);
    CHECK(strcmp(hipGetErrorString(hipSuccess), "no error") == 0);
    CHECK(strcmp(hipGetErrorString((hipError_t)12345), "unknown error") == 0);
    (void)hipGetLastError();
    EXPECT(hipErrorInvalidValue, hipMemset(NULL, 0, 4));
    EXPECT(hipErrorInvalidValue, hipPeekAtLastError());
    EXPECT(hipErrorInvalidValue, hipGetLastError());
    EXPECT(hipSuccess, hipGetLastError());
    // Arrays are not simulated. The call gives an error and has no effect.
    hipArray_t array;
    hipChannelFormatDesc format = hipCreateChannelDesc<float>();
    EXPECT(hipErrorNotSupported, hipMallocArray(&array, &format, 16, 16, 0));
}

// Tests flags and settings that HIP's runtime refuses, and what it keeps of those that it accepts.
static void settings(void)
{
    hipEvent_t event;
    hipMemPool_t pool;
    unsigned flags;
    uint32_t type, hops;
    HIP(hipSetDeviceFlags(hipDeviceScheduleYield | hipDeviceMapHost | 0x10)); // 0x10:
                                                                              // LmemResizeToMax
    HIP(hipGetDeviceFlags(&flags));
    CHECK(flags == hipDeviceScheduleYield);
    EXPECT(hipErrorInvalidValue, hipSetDeviceFlags(0x100));
    EXPECT(hipErrorInvalidValue, hipDeviceSetCacheConfig((hipFuncCache_t)-1));
    HIP(hipDeviceSetCacheConfig(hipFuncCachePreferEqual));
    EXPECT(hipErrorInvalidValue, hipDeviceSetSharedMemConfig((hipSharedMemConfig)3));
    HIP(hipDeviceSetSharedMemConfig(hipSharedMemBankSizeEightByte));
    EXPECT(hipErrorInvalidValue,
           hipEventCreateWithFlags(&event, hipEventReleaseToDevice | hipEventReleaseToSystem));
    HIP(hipEventCreateWithFlags(&event, hipEventReleaseToDevice | hipEventBlockingSync));
    HIP(hipEventDestroy(event));
    EXPECT(hipErrorInvalidValue, hipExtGetLinkTypeAndHopCount(0, 0, &type, &hops));
    EXPECT(hipErrorInvalidDevice, hipExtGetLinkTypeAndHopCount(0, 99, &type, &hops));
    EXPECT(hipErrorInvalidValue, hipDeviceGetMemPool(&pool, 99));
    EXPECT(hipErrorInvalidDevice, hipDeviceGetDefaultMemPool(&pool, 99));
}

int main()
{
    launches();
    handles();
    names();
    settings();
    return 0;
}
