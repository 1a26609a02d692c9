// SPDX-License-Identifier: Apache-2.0
// Tests memory and events of another process. One process allocates, the other opens, both write,
// and a kernel of the first waits for a value that the second stores.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 3000, OFFSET = 1100 };

struct Message {
    hipIpcMemHandle_t memory, flag;
    hipIpcEventHandle_t event;
};

__global__ void fill(int *p, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT)
        p[i] = value + i;
}

__global__ void await(int *flag, int *p)
{
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0)
        ;
    p[1] = p[0] + 1;
}

static void give(int to, const void *what, size_t size)
{
    CHECK(write(to, what, size) == (ssize_t)size);
}

static void take(int from, void *what, size_t size)
{
    CHECK(read(from, what, size) == (ssize_t)size);
}

static int at(const int *p)
{
    int value;
    HIP(hipMemcpy(&value, p, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

static void opener(int from, int to)
{
    Message m;
    int *p, *again, *flag, one = 1;
    hipEvent_t event;
    hipPointerAttribute_t attributes;
    size_t before, after, total;
    take(from, &m, sizeof(m));
    HIP(hipMemGetInfo(&before, &total));
    EXPECT(hipErrorInvalidValue, hipIpcOpenMemHandle((void **)&p, m.memory, 2));
    HIP(hipIpcOpenMemHandle((void **)&p, m.memory, hipIpcMemLazyEnablePeerAccess));
    HIP(hipIpcOpenMemHandle((void **)&again, m.memory, hipIpcMemLazyEnablePeerAccess));
    HIP(hipIpcOpenMemHandle((void **)&flag, m.flag, hipIpcMemLazyEnablePeerAccess));
    HIP(hipMemGetInfo(&after, &total));
    CHECK(p == again && before == after); // no memory is allocated: it is shared
    HIP(hipIpcOpenEventHandle(&event, m.event));
    HIP(hipStreamWaitEvent(NULL, event, 0));
    HIP(hipEventSynchronize(event));
    HIP(hipEventDestroy(event));
    CHECK(at(p) == 7 && at(p + COUNT - 1) == 7 + COUNT - 1 && at(flag) == 0);
    HIP(hipIpcCloseMemHandle(again));
    HIP(hipPointerGetAttributes(&attributes, p));
    CHECK(attributes.memoryType == hipMemoryTypeDevice);
    EXPECT(hipErrorInvalidValue, hipFree(p));
    fill<<<(COUNT + 255) / 256, 256>>>(p, 20);
    HIP(hipDeviceSynchronize());
    HIP(hipMemcpy(flag, &one, sizeof(one), hipMemcpyHostToDevice)); // the value that the other
                                                                    // process waits for
    take(from, &one, sizeof(one));
    CHECK(at(p + 1) == 21);
    HIP(hipIpcCloseMemHandle(p));
    HIP(hipIpcCloseMemHandle(flag));
    EXPECT(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, p));
    EXPECT(hipErrorInvalidValue, hipIpcCloseMemHandle(p));
    give(to, &one, sizeof(one));
}

static void errors(Message *m, int *p)
{
    hipEvent_t plain, event;
    void *pointer;
    HIP(hipEventCreate(&plain));
    EXPECT(hipErrorInvalidHandle, hipIpcGetEventHandle(&m->event, plain));
    EXPECT(hipErrorInvalidValue, hipIpcGetEventHandle(NULL, plain));
    HIP(hipEventDestroy(plain));
    EXPECT(hipErrorInvalidValue, hipIpcGetMemHandle(NULL, p));
    EXPECT(hipErrorInvalidValue, hipIpcGetMemHandle(&m->memory, NULL));
    EXPECT(hipErrorInvalidValue, hipIpcGetMemHandle(&m->memory, p + COUNT));
    HIP(hipIpcGetMemHandle(&m->memory, p));
    EXPECT(hipErrorInvalidContext,
           hipIpcOpenMemHandle(&pointer, m->memory, hipIpcMemLazyEnablePeerAccess));
    EXPECT(hipErrorInvalidValue, hipIpcCloseMemHandle(p));
    HIP(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
    HIP(hipEventRecord(event, NULL));
    HIP(hipIpcGetEventHandle(&m->event, event));
    EXPECT(hipErrorInvalidContext, hipIpcOpenEventHandle(&plain, m->event));
    HIP(hipEventDestroy(event));
}

static void owner(int from, int to)
{
    Message m;
    int *p, *small, *flags, value = 1, back;
    HIP(hipMalloc(&small, 64)); // on the same page as later allocations
    HIP(hipMalloc(&flags, 2 * OFFSET));
    HIP(hipMalloc(&p, COUNT * sizeof(*p)));
    HIP(hipMemcpy(small, &value, sizeof(value), hipMemcpyHostToDevice));
    HIP(hipMemset(flags, 0, 2 * OFFSET));
    fill<<<(COUNT + 255) / 256, 256>>>(p, 7);
    errors(&m, p);
    HIP(hipIpcGetMemHandle(&m.flag, flags + OFFSET / 4));
    give(to, &m, sizeof(m));
    await<<<1, 1>>>(flags + OFFSET / 4, p);
    HIP(hipDeviceSynchronize());
    CHECK(at(p) == 20 && at(p + 1) == 21 && at(small) == 1);
    give(to, &value, sizeof(value));
    take(from, &value, sizeof(value));
    HIP(hipFree(p));
    EXPECT(hipErrorInvalidValue, hipIpcGetMemHandle(&m.memory, p));
    HIP(hipFree(flags));
    back = at(small);
    CHECK(back == 1);
    HIP(hipFree(small));
}

int main()
{
    int there[2], back[2], status;
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    const pid_t child = fork(); // before either process uses HIP
    if (child == 0) {
        opener(there[0], back[1]);
        return 0;
    }
    owner(back[0], there[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
