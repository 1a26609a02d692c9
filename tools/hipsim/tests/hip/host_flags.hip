// SPDX-License-Identifier: Apache-2.0
// Tests kernels and streams that wait for values that the host stores after their submission.
#include "check.h"

#include <string>

__global__ void wait_and_add(int *flag, int *out, int value)
{
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0)
        __builtin_amdgcn_s_sleep(1);
    out[threadIdx.x] += value;
}

__global__ void add(int *out, int value)
{
    out[threadIdx.x] += value;
}

__global__ void raise(int *flag)
{
    __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

__global__ void store_and_wait(int *flag, int *out)
{
    *out = 1;
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0)
        ;
}

static int *flag, *device, *host;
static hipStream_t stream, other;

static void lower(void)
{
    *(volatile int *)flag = 0;
    HIP(hipMemset(device, 0, 64 * sizeof(int)));
    HIP(hipDeviceSynchronize());
    host[5] = -1;
}

// Tests that later operations of a waiting kernel's stream wait, and other streams do not.
static void kernel_waits(void)
{
    hipEvent_t event, elsewhere;
    lower();
    HIP(hipEventCreate(&event));
    HIP(hipEventCreate(&elsewhere));
    wait_and_add<<<1, 64, 0, stream>>>(flag, device, 3);
    HIP(hipGetLastError());
    add<<<1, 64, 0, stream>>>(device, 100);
    HIP(hipMemcpyAsync(host, device, 64 * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP(hipEventRecord(event, stream));
    EXPECT(hipErrorNotReady, hipStreamQuery(stream));
    EXPECT(hipErrorNotReady, hipEventQuery(event));
    HIP(hipEventRecord(elsewhere, other));
    HIP(hipStreamSynchronize(other));
    HIP(hipEventQuery(elsewhere));
    CHECK(host[5] == -1);
    *(volatile int *)flag = 1;
    HIP(hipEventSynchronize(event));
    CHECK(host[5] == 103);
    HIP(hipStreamQuery(stream));
    HIP(hipEventDestroy(event));
    HIP(hipEventDestroy(elsewhere));
}

static void queried(void)
{
    lower();
    wait_and_add<<<1, 64, 0, stream>>>(flag, device, 3);
    EXPECT(hipErrorNotReady, hipStreamQuery(stream));
    *(volatile int *)flag = 1;
    HIP(hipStreamQuery(stream)); // runs the work of the stream
    HIP(hipStreamSynchronize(stream));
}

// Tests a kernel that waits for a flag of a kernel launched after it.
static void streams_meet(void)
{
    lower();
    wait_and_add<<<1, 64, 0, stream>>>(flag, device, 4);
    raise<<<1, 1, 0, other>>>(flag);
    HIP(hipMemcpyAsync(host, device, 64 * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(host[5] == 4);
}

// The host waits for `stream`. Its kernel waits for a flag that `other` raises once it sees the
// host's store.
static void chain(void)
{
    lower();
    wait_and_add<<<1, 64, 0, stream>>>(flag, device, 5);
    HIP(hipStreamWaitValue32(other, flag + 1, 1, hipStreamWaitValueEq, ~0u));
    raise<<<1, 1, 0, other>>>(flag);
    EXPECT(hipErrorNotReady, hipStreamQuery(other));
    *(volatile int *)(flag + 1) = 1;
    HIP(hipStreamSynchronize(stream));
    HIP(hipMemcpy(host, device, 64 * sizeof(int), hipMemcpyDeviceToHost));
    CHECK(host[5] == 5);
    HIP(hipStreamSynchronize(other));
    flag[1] = 0;
}

static void stream_waits(void)
{
    lower();
    HIP(hipStreamWaitValue32(stream, flag, 7, hipStreamWaitValueEq, 0xff));
    add<<<1, 64, 0, stream>>>(device, 9);
    HIP(hipMemcpyAsync(host, device, 64 * sizeof(int), hipMemcpyDeviceToHost, stream));
    EXPECT(hipErrorNotReady, hipStreamQuery(stream));
    CHECK(host[5] == -1);
    *(volatile int *)flag = 0x107;
    HIP(hipStreamSynchronize(stream));
    CHECK(host[5] == 9);
    EXPECT(hipErrorInvalidValue, hipStreamWaitValue32(stream, flag, 7, 4, 0xff));
    lower();
    HIP(hipStreamWaitValue64(stream, flag, 1, hipStreamWaitValueGte, 0xff));
    HIP(hipStreamWriteValue32(other, flag, 1, 0));
    HIP(hipStreamSynchronize(stream));
}

// Tests waits that never end: nobody stores the value, or the launch has stored and cannot restart.
static void deadlocks(void)
{
    lower();
    (void)hipGetLastError();
    wait_and_add<<<1, 64, 0, stream>>>(flag, device, 3);
    HIP(hipGetLastError());
    EXPECT(hipErrorLaunchTimeOut, hipStreamSynchronize(stream));
    HIP(hipStreamWaitValue32(stream, flag, 1, hipStreamWaitValueEq, ~0u));
    EXPECT(hipErrorLaunchTimeOut, hipStreamSynchronize(stream));
    store_and_wait<<<1, 1, 0, stream>>>(flag, device);
    EXPECT(hipErrorLaunchTimeOut, hipGetLastError());
    EXPECT(hipErrorLaunchTimeOut, hipStreamSynchronize(stream));
}

int main(void)
{
    // No budget: a wave polls about a million times before it is found to wait.
    const char *options = getenv("HIPSIM");
    setenv("HIPSIM", (std::string(options ? options : "") + ",budget=0").c_str(), 1);
    HIP(hipHostMalloc((void **)&flag, 2 * sizeof(int), 0));
    HIP(hipHostMalloc((void **)&host, 64 * sizeof(int), 0));
    HIP(hipMalloc((void **)&device, 64 * sizeof(int)));
    flag[1] = 0;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    kernel_waits();
    queried();
    streams_meet();
    chain();
    stream_waits();
    deadlocks();
    return 0;
}
