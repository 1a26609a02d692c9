/* SPDX-License-Identifier: Apache-2.0 */
/* Device properties in the layouts of HIP 5 and HIP 6, and device attributes. */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_properties.h"
#include "hip_visible.h"

#define MAX_THREADS 1024
/* Work-items that a compute unit holds: 4 SIMDs of 8 waves of 64 lanes, or of 16 of 32. */
#define THREADS_PER_UNIT 2048
/* 32-bit registers of a compute unit; the same as 4 * 1024 * 32. */
#define REGISTERS_PER_UNIT (4 * 512 * 64)
#define MAX_PITCH INT32_MAX
#define CLOCK_COUNTER_KHZ 100000 /* rate of s_memrealtime */

/* Returns `value`, limited to INT32_MAX. */
static int limit_int(uint64_t value) { return value > INT32_MAX ? INT32_MAX : (int)value; }

/* Numbers of attributes that HIP 6 added. */
enum {
    VIRTUAL_MEMORY_SUPPORTED = 89,
    HOST_REGISTER_SUPPORTED = 90,
    POOL_HANDLE_TYPES = 91,
    WALL_CLOCK_RATE = 10017,
};

/* A device attribute by number. */
struct attribute_row {
    int attribute;
    int value;
};

/* Attributes that are the same for all these GPUs. */
static const struct attribute_row common[] = {
    {hipDeviceAttributeEccEnabled, 1},
    {hipDeviceAttributeAsyncEngineCount, 2},
    {hipDeviceAttributeCanMapHostMemory, 1},
    {hipDeviceAttributeCanUseHostPointerForRegisteredMem, 1},
    {hipDeviceAttributeConcurrentKernels, 1},
    {hipDeviceAttributeConcurrentManagedAccess, 1},
    {hipDeviceAttributeCooperativeLaunch, 1},
    {hipDeviceAttributeDeviceOverlap, 1},
    {hipDeviceAttributeDirectManagedMemAccessFromHost, 1},
    {hipDeviceAttributeGlobalL1CacheSupported, 1},
    {hipDeviceAttributeManagedMemory, 1},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, 2},
    {hipDeviceAttributeMaxBlockDimX, MAX_THREADS},
    {hipDeviceAttributeMaxBlockDimY, MAX_THREADS},
    {hipDeviceAttributeMaxBlockDimZ, MAX_THREADS},
    {hipDeviceAttributeMaxGridDimX, INT32_MAX},
    {hipDeviceAttributeMaxGridDimY, 65536},
    {hipDeviceAttributeMaxGridDimZ, 65536},
    {hipDeviceAttributeMaxThreadsDim, MAX_THREADS},
    {hipDeviceAttributeMaxThreadsPerBlock, MAX_THREADS},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, THREADS_PER_UNIT},
    {hipDeviceAttributeMaxPitch, MAX_PITCH},
    {hipDeviceAttributeMaxRegistersPerBlock, 65536},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, REGISTERS_PER_UNIT},
    {hipDeviceAttributeStreamPrioritiesSupported, 1},
    {hipDeviceAttributeTextureAlignment, 256},
    {hipDeviceAttributeTexturePitchAlignment, 256},
    {hipDeviceAttributeTotalConstantMemory, INT32_MAX},
    {hipDeviceAttributeUnifiedAddressing, 1},
    {hipDeviceAttributeMemoryPoolsSupported, 1},
    {hipDeviceAttributeClockInstructionRate, CLOCK_COUNTER_KHZ},
    {hipDeviceAttributeIsLargeBar, 1},
    {hipDeviceAttributeCanUseStreamWaitValue, 1},
    {hipDeviceAttributeFineGrainSupport, 1},
    {VIRTUAL_MEMORY_SUPPORTED, 1},
    {HOST_REGISTER_SUPPORTED, 1},
    {WALL_CLOCK_RATE, CLOCK_COUNTER_KHZ},
};

/* Sets *value to the attribute in a table. False if the table lacks it. */
static bool find_row(const struct attribute_row *rows, size_t count, int which, int *value)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].attribute == which) {
            *value = rows[i].value;
            return true;
        }
    }
    return false;
}

/* Sets *value to attribute number `which`. If there is no row, these GPUs lack the feature: 0.
 * False if the number is invalid. */
static bool attribute(const struct hip_device *device, int which, int *value)
{
    const struct device_facts *facts = device->facts;
    const struct attribute_row own[] = {
        {hipDeviceAttributeClockRate, facts->clock_khz},
        {hipDeviceAttributeL2CacheSize, facts->l2_bytes},
        {hipDeviceAttributeComputeCapabilityMajor, facts->isa->capability / 10},
        {hipDeviceAttributeComputeCapabilityMinor, facts->isa->capability % 10},
        {hipDeviceAttributeWarpSize, facts->isa->lanes},
        {hipDeviceAttributeMemoryBusWidth, facts->memory_bus_bits},
        {hipDeviceAttributeMemoryClockRate, facts->memory_clock_khz},
        {hipDeviceAttributeMultiprocessorCount, facts->compute_units},
        {hipDeviceAttributePciBusId, (int)device->gpu + 1},
        {hipDeviceAttributeMaxSharedMemoryPerBlock, (int)facts->lds_bytes},
        {hipDeviceAttributeSharedMemPerBlockOptin, (int)facts->lds_bytes},
        {hipDeviceAttributeSharedMemPerMultiprocessor, (int)facts->isa->lds_bytes},
        {hipDeviceAttributeTotalGlobalMem, limit_int(device->memory_bytes)},
        {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, (int)facts->isa->lds_bytes},
        {hipDeviceAttributeGcnArch, facts->isa->version},
        {hipDeviceAttributePhysicalMultiProcessorCount, facts->compute_units},
    };

    *value = 0;
    if (!find_row(own, sizeof(own) / sizeof(*own), which, value))
        find_row(common, sizeof(common) / sizeof(*common), which, value);
    return (which >= 0 && which <= POOL_HANDLE_TYPES) ||
           (which >= hipDeviceAttributeAmdSpecificBegin && which <= WALL_CLOCK_RATE);
}

/* Returns an attribute that exists. */
static int attribute_value(const struct hip_device *device, int which)
{
    int value;

    attribute(device, which, &value);
    return value;
}

/* Sets *value to an attribute of the device `ordinal`. */
static hipError_t get_attribute(int *value, int which, int ordinal)
{
    const struct hip_device *device = hip_device(ordinal);

    if (!value)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorInvalidDevice;
    return attribute(device, which, value) ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int ordinal)
{
    return HIP_CALL(hipDeviceGetAttribute, get_attribute(value, (int)which, ordinal));
}

/* Returns the features of the architecture: all but those that only newer or older families
 * have. */
static hipDeviceArch_t arch_features(void)
{
    return (hipDeviceArch_t){
        .hasGlobalInt32Atomics = 1,
        .hasGlobalFloatAtomicExch = 1,
        .hasSharedInt32Atomics = 1,
        .hasSharedFloatAtomicExch = 1,
        .hasFloatAtomicAdd = 1,
        .hasGlobalInt64Atomics = 1,
        .hasSharedInt64Atomics = 1,
        .hasDoubles = 1,
        .hasWarpVote = 1,
        .hasWarpBallot = 1,
        .hasWarpShuffle = 1,
        .hasThreadFenceSystem = 1,
        .has3dGrid = 1,
    };
}

/* Assigns the fields with the same name in both layouts. */
#define COMMON_PROPERTIES(p, device)                                                         \
    do {                                                                                     \
        const struct device_facts *facts = (device)->facts;                                  \
        snprintf((p)->name, sizeof(p)->name, "%s", facts->name);                             \
        snprintf((p)->gcnArchName, sizeof(p)->gcnArchName, "%s", facts->arch);               \
        (p)->totalGlobalMem = (device)->memory_bytes;                                        \
        (p)->sharedMemPerBlock = facts->lds_bytes;                                           \
        (p)->maxSharedMemoryPerMultiProcessor = facts->isa->lds_bytes;                       \
        (p)->regsPerBlock = attribute_value(device, hipDeviceAttributeMaxRegistersPerBlock); \
        (p)->warpSize = facts->isa->lanes;                                                   \
        (p)->maxThreadsPerBlock = MAX_THREADS;                                               \
        for (int i = 0; i < 3; i++)                                                          \
            (p)->maxThreadsDim[i] = MAX_THREADS;                                             \
        (p)->maxGridSize[0] = attribute_value(device, hipDeviceAttributeMaxGridDimX);        \
        (p)->maxGridSize[1] = attribute_value(device, hipDeviceAttributeMaxGridDimY);        \
        (p)->maxGridSize[2] = attribute_value(device, hipDeviceAttributeMaxGridDimZ);        \
        (p)->clockRate = facts->clock_khz;                                                   \
        (p)->memoryClockRate = facts->memory_clock_khz;                                      \
        (p)->memoryBusWidth = facts->memory_bus_bits;                                        \
        (p)->totalConstMem = INT32_MAX;                                                      \
        (p)->major = attribute_value(device, hipDeviceAttributeComputeCapabilityMajor);      \
        (p)->minor = attribute_value(device, hipDeviceAttributeComputeCapabilityMinor);      \
        (p)->multiProcessorCount = facts->compute_units;                                     \
        (p)->l2CacheSize = facts->l2_bytes;                                                  \
        (p)->maxThreadsPerMultiProcessor = THREADS_PER_UNIT;                                 \
        (p)->clockInstructionRate = CLOCK_COUNTER_KHZ;                                       \
        (p)->arch = arch_features();                                                         \
        (p)->concurrentKernels = 1;                                                          \
        (p)->pciBusID = (int)(device)->gpu + 1;                                              \
        (p)->canMapHostMemory = 1;                                                           \
        (p)->cooperativeLaunch = 1;                                                          \
        (p)->memPitch = MAX_PITCH;                                                           \
        (p)->textureAlignment = 256;                                                         \
        (p)->texturePitchAlignment = 256;                                                    \
        (p)->ECCEnabled = 1;                                                                 \
        (p)->isLargeBar = 1;                                                                 \
        (p)->managedMemory = 1;                                                              \
        (p)->directManagedMemAccessFromHost = 1;                                             \
        (p)->concurrentManagedAccess = 1;                                                    \
    } while (0)

/* Sets *device to the device of a call, and clears the result `p` of `size` bytes. */
static hipError_t begin_properties(void *p, size_t size, int ordinal,
                                   const struct hip_device **device)
{
    *device = hip_device(ordinal);
    if (!p)
        return hipErrorInvalidValue;
    if (!*device)
        return hipErrorInvalidDevice;
    memset(p, 0, size);
    return hipSuccess;
}

/* Sets the device's properties in the layout of HIP 5. */
static hipError_t properties_r0000(hipDeviceProp_t *p, int ordinal)
{
    const struct hip_device *device;
    const hipError_t error = begin_properties(p, sizeof(*p), ordinal, &device);

    if (error != hipSuccess)
        return error;
    COMMON_PROPERTIES(p, device);
    p->gcnArch = attribute_value(device, hipDeviceAttributeGcnArch);
    return hipSuccess;
}

/* Sets the device's properties in the layout of HIP 6. */
static hipError_t properties_r0600(struct hip_properties_r0600 *p, int ordinal)
{
    const struct hip_device *device;
    const hipError_t error = begin_properties(p, sizeof(*p), ordinal, &device);

    if (error != hipSuccess)
        return error;
    COMMON_PROPERTIES(p, device);
    hip_device_uuid(device->gpu, p->uuid);
    p->asyncEngineCount = 2;
    p->deviceOverlap = 1;
    p->unifiedAddressing = 1;
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = 1;
    p->sharedMemPerMultiprocessor = device->facts->isa->lds_bytes;
    p->sharedMemPerBlockOptin = device->facts->lds_bytes;
    p->regsPerMultiprocessor = REGISTERS_PER_UNIT;
    p->maxBlocksPerMultiProcessor = 2;
    p->canUseHostPointerForRegisteredMem = 1;
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int ordinal)
{
    return HIP_CALL(hipGetDeviceProperties, properties_r0000(properties, ordinal));
}

HIP_EXPORT hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_t *properties, int ordinal)
{
    return HIP_CALL(hipGetDevicePropertiesR0000, properties_r0000(properties, ordinal));
}

HIP_EXPORT hipError_t hipGetDevicePropertiesR0600(struct hip_properties_r0600 *properties,
                                                  int ordinal)
{
    return HIP_CALL(hipGetDevicePropertiesR0600, properties_r0600(properties, ordinal));
}
