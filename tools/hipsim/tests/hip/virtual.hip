// SPDX-License-Identifier: Apache-2.0
// Tests reserved addresses and created memory that is mapped to them. Allocators that grow in place
// and engines that release their weights use these.
#include "check.h"
#include <string.h>

__global__ void fill(int *p, int n, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = value + i;
}

__global__ void sum(const int *p, int *to)
{
    *to = p[0] + p[1];
}

static size_t granule;
static hipMemAllocationProp properties;
static const hipMemAccessDesc full = {{hipMemLocationTypeDevice, 0},
                                      hipMemAccessFlagsProtReadWrite};

static hipMemGenericAllocationHandle_t create(size_t size)
{
    hipMemGenericAllocationHandle_t memory;
    HIP(hipMemCreate(&memory, size, &properties, 0));
    return memory;
}

static int read(const void *p)
{
    int value;
    HIP(hipMemcpy(&value, p, sizeof(value), hipMemcpyDeviceToHost));
    return value;
}

static void fill_fails(int *p)
{
    fill<<<1, 1>>>(p, 1, 0);
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    (void)hipGetLastError();
}

static void grows_in_place(void)
{
    char *base;
    HIP(hipMemAddressReserve((void **)&base, 4 * granule, 0, NULL, 0));
    int *at_end = (int *)(base + granule) - 32;
    fill_fails((int *)base); // no memory is mapped
    hipMemGenericAllocationHandle_t a = create(granule), b = create(granule);
    HIP(hipMemMap(base, granule, 0, a, 0));
    fill_fails((int *)base); // no access was granted
    HIP(hipMemSetAccess(base, granule, &full, 1));
    fill<<<1, 64>>>(at_end, 32, 5);
    HIP(hipDeviceSynchronize());
    fill<<<1, 64>>>(at_end, 33, 5); // one element too many
    EXPECT(hipErrorIllegalAddress, hipDeviceSynchronize());
    (void)hipGetLastError();
    HIP(hipMemMap(base + granule, granule, 0, b, 0));
    HIP(hipMemSetAccess(base, 2 * granule, &full, 1));
    fill<<<1, 64>>>(at_end, 64, 5); // crosses both mappings
    HIP(hipDeviceSynchronize());
    CHECK(read(at_end) == 5 && read(at_end + 63) == 68);
    EXPECT(hipErrorInvalidValue, hipMemUnmap(base, 3 * granule));
    EXPECT(hipErrorInvalidValue, hipMemAddressFree(base, 4 * granule));
    HIP(hipMemUnmap(base, 2 * granule));
    fill_fails((int *)base);
    EXPECT(hipErrorInvalidValue, hipMemcpy(base, base + granule, 4, hipMemcpyDeviceToDevice));
    HIP(hipMemRelease(a));
    HIP(hipMemRelease(b));
    EXPECT(hipErrorInvalidValue, hipMemRelease(b));
    HIP(hipMemAddressFree(base, 4 * granule));
    fill_fails((int *)base);
}

// Tests that contents belong to the memory, not to the address, and exist as long as the handle or
// a mapping does.
static void bytes_follow_the_memory(void)
{
    char *base;
    size_t before, with, after, total;
    HIP(hipMemGetInfo(&before, &total));
    HIP(hipMemAddressReserve((void **)&base, 2 * granule, 0, NULL, 0));
    hipMemGenericAllocationHandle_t memory = create(granule), again;
    HIP(hipMemGetInfo(&with, &total));
    CHECK(before - with == granule);
    HIP(hipMemMap(base, granule, 0, memory, 0));
    HIP(hipMemSetAccess(base, granule, &full, 1));
    fill<<<1, 64>>>((int *)base, 64, 100);
    HIP(hipMemUnmap(base, granule));
    HIP(hipMemMap(base + granule, granule, 0, memory, 0));
    HIP(hipMemSetAccess(base + granule, granule, &full, 1));
    CHECK(read(base + granule + 12) == 103);
    HIP(hipMemMap(base, granule, 0, memory, 0)); // two mappings of one memory
    HIP(hipMemSetAccess(base, granule, &full, 1));
    fill<<<1, 64>>>((int *)base, 64, 200);
    sum<<<1, 1>>>((int *)(base + granule), (int *)(base + 1024));
    HIP(hipDeviceSynchronize());
    CHECK(read(base + granule + 1024) == 401);
    HIP(hipMemRetainAllocationHandle(&again, base));
    CHECK(again == memory);
    HIP(hipMemRelease(again));
    HIP(hipMemRelease(memory));
    CHECK(read(base + 12) == 203); // a mapping keeps the memory
    HIP(hipMemUnmap(base, 2 * granule));
    HIP(hipMemGetInfo(&after, &total));
    CHECK(after == before);
    HIP(hipMemAddressFree(base, 2 * granule));
}

static void access_and_initialisation_are_checked(void)
{
    char *base;
    unsigned long long flags;
    hipMemAccessDesc reading = full;
    reading.flags = hipMemAccessFlagsProtRead;
    HIP(hipMemAddressReserve((void **)&base, granule, 0, NULL, 0));
    hipMemGenericAllocationHandle_t memory = create(granule);
    HIP(hipMemMap(base, granule, 0, memory, 0));
    HIP(hipMemSetAccess(base, granule, &full, 1));
    sum<<<1, 1>>>((int *)base, (int *)base + 64); // never written
    EXPECT(hipErrorLaunchFailure, hipDeviceSynchronize());
    (void)hipGetLastError();
    HIP(hipMemset(base, 1, 8));
    sum<<<1, 1>>>((int *)base, (int *)base + 64);
    HIP(hipDeviceSynchronize());
    CHECK(read((int *)base + 64) == 2 * 0x01010101);
    HIP(hipMemSetAccess(base, granule, &reading, 1));
    HIP(hipMemGetAccess(&flags, &full.location, base));
    CHECK(flags == hipMemAccessFlagsProtRead);
    fill_fails((int *)base);
    CHECK(read(base) == 0x01010101);
    HIP(hipMemUnmap(base, granule));
    HIP(hipMemRelease(memory));
    HIP(hipMemAddressFree(base, granule));
}

static void bad_arguments(void)
{
    void *base;
    hipMemGenericAllocationHandle_t memory;
    EXPECT(hipErrorOutOfMemory, hipMemAddressReserve(&base, granule - 1, 0, NULL, 0));
    EXPECT(hipErrorInvalidValue, hipMemAddressReserve(&base, granule, 3, NULL, 0));
    EXPECT(hipErrorOutOfMemory, hipMemAddressReserve(&base, (size_t)1 << 62, 0, NULL, 0));
    EXPECT(hipErrorInvalidValue, hipMemCreate(&memory, granule + 512, &properties, 0));
    EXPECT(hipErrorInvalidValue, hipMemCreate(&memory, granule, NULL, 0));
    hipMemAllocationProp got;
    memory = create(granule);
    HIP(hipMemGetAllocationPropertiesFromHandle(&got, memory));
    CHECK(got.type == properties.type && got.location.id == 0);
    HIP(hipMemRelease(memory));
    // Layout of the properties in HIP 6: type, kind of handle, location.
    const int recent[8] = {hipMemAllocationTypePinned, 0, hipMemLocationTypeDevice, 0};
    int recent_got[8] = {};
    HIP(hipMemCreate(&memory, granule, (const hipMemAllocationProp *)recent, 0));
    HIP(hipMemGetAllocationPropertiesFromHandle((hipMemAllocationProp *)recent_got, memory));
    CHECK(memcmp(recent, recent_got, sizeof(recent)) == 0);
    HIP(hipMemRelease(memory));
    EXPECT(hipErrorOutOfMemory, hipMemCreate(&memory, (size_t)1 << 62, &properties, 0));
    HIP(hipMemAddressReserve(&base, granule, 8 * granule, NULL, 0));
    CHECK((size_t)base % (8 * granule) == 0);
    memory = create(granule);
    EXPECT(hipErrorInvalidValue, hipMemMap(base, 2 * granule, 0, memory, 0));
    EXPECT(hipErrorInvalidValue, hipMemMap((char *)base + 512, granule, 0, memory, 0));
    EXPECT(hipErrorInvalidValue, hipMemSetAccess(base, granule, &full, 1));
    HIP(hipMemMap(base, granule, 0, memory, 0));
    EXPECT(hipErrorInvalidValue, hipMemMap(base, granule, 0, memory, 0));
    EXPECT(hipErrorInvalidValue, hipFree(base));
    HIP(hipMemUnmap(base, granule));
    HIP(hipMemRelease(memory));
    HIP(hipMemAddressFree(base, granule));
    EXPECT(hipErrorInvalidValue, hipMemAddressFree(base, granule));
}

int main()
{
    properties.type = hipMemAllocationTypePinned;
    properties.location = full.location;
    for (int option = hipMemAllocationGranularityMinimum;
         option <= hipMemAllocationGranularityRecommended; option++) {
        HIP(hipMemGetAllocationGranularity(&granule, &properties,
                                           (hipMemAllocationGranularity_flags)option));
        grows_in_place();
        bytes_follow_the_memory();
        access_and_initialisation_are_checked();
        bad_arguments();
    }
    return 0;
}
