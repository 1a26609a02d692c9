// SPDX-License-Identifier: Apache-2.0
// Tests each kind of memory, copies and fills in one to three dimensions, pools, pointer
// attributes.
#include "check.h"
#include <string.h>

__global__ void twice(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= 2;
}

__managed__ int managed_counter = 20;

__global__ void count_up()
{
    managed_counter++;
}

static void kinds(void)
{
    const int n = 100;
    int *managed, *pinned, *seen, *plain = (int *)malloc(n * sizeof(*plain));
    hipPointerAttribute_t attributes;

    HIP(hipMallocManaged(&managed, n * sizeof(*managed)));
    HIP(hipHostMalloc(&pinned, n * sizeof(*pinned)));
    HIP(hipHostGetDevicePointer((void **)&seen, pinned, 0));
    HIP(hipHostRegister(plain, n * sizeof(*plain), 0));
    EXPECT(hipErrorHostMemoryAlreadyRegistered, hipHostRegister(plain, n * sizeof(*plain), 0));
    for (int i = 0; i < n; i++)
        managed[i] = pinned[i] = plain[i] = i;
    twice<<<1, 128>>>(managed, n);
    twice<<<1, 128>>>(seen, n);
    twice<<<1, 128>>>(plain, n);
    HIP(hipDeviceSynchronize());
    for (int i = 0; i < n; i++)
        CHECK(managed[i] == 2 * i && pinned[i] == 2 * i && plain[i] == 2 * i);
    HIP(hipPointerGetAttributes(&attributes, managed + 3));
    CHECK(attributes.isManaged && attributes.devicePointer == managed + 3);
    HIP(hipPointerGetAttributes(&attributes, pinned));
    CHECK(attributes.memoryType == hipMemoryTypeHost && attributes.hostPointer == pinned);
    HIP(hipHostUnregister(plain));
    EXPECT(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, plain));
    HIP(hipFree(managed));
    HIP(hipHostFree(pinned));
    free(plain);

    count_up<<<1, 1>>>();
    HIP(hipDeviceSynchronize());
    CHECK(managed_counter == 21);
}

static void boxes(void)
{
    char *device, host[8 * 6 * 4], back[8 * 6 * 4];
    size_t pitch;

    for (unsigned i = 0; i < sizeof(host); i++)
        host[i] = (char)i;
    HIP(hipMallocPitch((void **)&device, &pitch, 8, 6));
    CHECK(pitch >= 8);
    HIP(hipMemcpy2D(device, pitch, host, 8, 8, 6, hipMemcpyHostToDevice));
    memset(back, 0, sizeof(back));
    HIP(hipMemcpy2DAsync(back, 16, device, pitch, 8, 6, hipMemcpyDeviceToHost, 0));
    for (int y = 0; y < 6; y++)
        CHECK(memcmp(back + 16 * y, host + 8 * y, 8) == 0);
    HIP(hipMemset2D(device, pitch, 0x55, 3, 6));
    HIP(hipMemcpy2D(back, 8, device, pitch, 8, 6, hipMemcpyDefault));
    CHECK(back[8 + 2] == 0x55 && back[8 + 3] == host[8 + 3]);
    HIP(hipFree(device));

    hipPitchedPtr box;
    HIP(hipMalloc3D(&box, make_hipExtent(8, 6, 4)));
    hipMemcpy3DParms p = {};
    p.srcPtr = make_hipPitchedPtr(host, 8, 8, 6);
    p.dstPtr = box;
    p.extent = make_hipExtent(8, 6, 4);
    p.kind = hipMemcpyHostToDevice;
    HIP(hipMemcpy3D(&p));
    p.srcPtr = box;
    p.dstPtr = make_hipPitchedPtr(back, 8, 8, 6);
    p.kind = hipMemcpyDeviceToHost;
    HIP(hipMemcpy3D(&p));
    CHECK(memcmp(back, host, sizeof(host)) == 0);
    HIP(hipFree(box.ptr));
}

static void fills(void)
{
    unsigned char bytes[32];
    char *p;

    HIP(hipMalloc(&p, 32));
    HIP(hipMemset(p, 0x11, 32));
    HIP(hipMemsetD8(p + 1, 0x22, 3));
    HIP(hipMemsetD16(p + 4, 0x3344, 2));
    HIP(hipMemsetD32(p + 8, 0x55667788, 2));
    EXPECT(hipErrorInvalidValue, hipMemsetD32(p + 9, 0, 1));
    EXPECT(hipErrorInvalidValue, hipMemset(p, 0, 33));
    HIP(hipMemcpy(bytes, p, 32, hipMemcpyDeviceToHost));
    const unsigned char expected[17] = {0x11, 0x22, 0x22, 0x22, 0x44, 0x33, 0x44, 0x33, 0x88,
                                        0x77, 0x66, 0x55, 0x88, 0x77, 0x66, 0x55, 0x11};
    CHECK(memcmp(bytes, expected, sizeof(expected)) == 0);
    HIP(hipFree(p));
}

static void pools(void)
{
    hipMemPool_t pool;
    size_t before, after, total;
    uint64_t used;
    char *p;

    HIP(hipMemGetInfo(&before, &total));
    HIP(hipDeviceGetDefaultMemPool(&pool, 0));
    HIP(hipMallocAsync((void **)&p, 1 << 20, 0));
    HIP(hipMemGetInfo(&after, &total));
    CHECK(before - after == 1 << 20);
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 1 << 20);
    HIP(hipMemsetAsync(p, 1, 1 << 20, 0));
    HIP(hipFreeAsync(p, 0));
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 0);
    HIP(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemHigh, &used));
    CHECK(used == 1 << 20);
}

static void limits(void)
{
    size_t unused, total, size;
    char *p, *base, value = 3;

    HIP(hipMemGetInfo(&unused, &total));
    EXPECT(hipErrorOutOfMemory, hipMalloc(&p, total + 1));
    // The allocation is larger than the host's memory, and only its end is accessed.
    HIP(hipMalloc(&p, (size_t)100 << 30));
    HIP(hipMemcpy(p + ((size_t)100 << 30) - 1, &value, 1, hipMemcpyHostToDevice));
    HIP(hipMemGetAddressRange((hipDeviceptr_t *)&base, &size, p + 12345));
    CHECK(base == p && size == (size_t)100 << 30);
    HIP(hipFree(p));
    EXPECT(hipErrorInvalidValue, hipFree(p));
    EXPECT(hipErrorInvalidValue, hipMemcpy(p, &value, 1, hipMemcpyHostToDevice));
    EXPECT(hipErrorInvalidValue, hipMemcpy(&size, &value, 1, hipMemcpyHostToDevice));
    HIP(hipMalloc(&p, 0));
    CHECK(p == NULL);
    HIP(hipFree(NULL));
}

int main()
{
    kinds();
    boxes();
    fills();
    pools();
    limits();
    return 0;
}
