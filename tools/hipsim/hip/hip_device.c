/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated devices: facts, selection, limits, peers. */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_visible.h"

/* HIP's own defaults for hipLimitPrintfFifoSize and hipLimitMallocHeapSize, in bytes. */
#define DEFAULT_PRINTF_FIFO (1u << 20)
#define DEFAULT_MALLOC_HEAP (8u << 20)
#define DEFAULT_STACK 1024u
#define LIMIT_STACK 0 /* number of hipLimitStackSize, which HIP 5.2's enum lacks */

/* Sets the properties and attributes of a device from its part. False on failure. */
static bool make_facts(struct device_facts *facts, const struct gfx_part *part)
{
    const struct isa *isa = isa_of(part->target);
    char name[64], arch[64];

    snprintf(name, sizeof(name), "%s %s (simulated by hipsim)", isa->brand, part->product);
    snprintf(arch, sizeof(arch), "%s%s", isa->name, isa->features);
    *facts = (struct device_facts){
        .part = part,
        .target = part->target,
        .name = strdup(name),
        .arch = strdup(arch),
        .compute_units = (int)part->compute_units,
        .clock_khz = (int)part->mhz * 1000,
        .memory_clock_khz = (int)part->hbm_mhz * 1000,
        .memory_bus_bits = (int)isa->bus_bits,
        .memory_bytes = (uint64_t)part->hbm_gib << 30,
        .isa = isa,
        .lds_bytes = isa->lds_group,
        .lds_granule = isa->lds_granule,
        .l2_bytes = (int)isa->l2_bytes,
        .memory_bytes_per_us = (uint64_t)(part->hbm_peak_gb_per_s * 1000),
    };
    return facts->name && facts->arch;
}

/* Facts of the devices; they exist as long as the process. */
static struct device_facts facts[HIP_MAX_DEVICES];

static struct {
    struct hip_device *devices;
    int count;
} all;

bool hip_devices_create(const struct options *options)
{
    all.devices = calloc(HIP_MAX_DEVICES, sizeof(*all.devices));
    if (!all.devices)
        return false;
    unsigned gpus[HIP_MAX_DEVICES];
    const unsigned visible = hip_visible_devices((unsigned)options->devices, gpus);
    for (int i = 0; i < (int)visible; i++) {
        struct hip_device *device = &all.devices[i];
        if (!make_facts(&facts[i], options_part(options, gpus[i])))
            return false;
        device->facts = &facts[i];
        device->ordinal = i;
        device->gpu = gpus[i];
        device->memory_bytes =
            options->memory_gib ? options->memory_gib << 30 : device->facts->memory_bytes;
        device->limits[LIMIT_STACK] = DEFAULT_STACK;
        device->limits[hipLimitPrintfFifoSize] = DEFAULT_PRINTF_FIFO;
        device->limits[hipLimitMallocHeapSize] = DEFAULT_MALLOC_HEAP;
        pthread_mutex_init(&device->lock, NULL);
        pthread_rwlock_init(&device->legacy, NULL);
        if (!hip_stream_create_null(device))
            return false;
        all.count = i + 1;
    }
    return true;
}

int hip_device_count(void) { return all.count; }

struct hip_device *hip_device(int ordinal)
{
    return ordinal >= 0 && ordinal < all.count ? &all.devices[ordinal] : NULL;
}

struct hip_device *hip_current_device(void) { return hip_device(hip_thread()->device); }

/* The functions from here on give versions, and count and select devices. */

HIP_EXPORT hipError_t hipInit(unsigned int flags)
{
    return HIP_CALL(hipInit, flags ? hipErrorInvalidValue : hipSuccess);
}

/* Sets *version to HIP's version. If option `hip` is later than our headers, the program gets that
 * version: Triton refuses to start on HIP 5. */
static hipError_t get_version(int *version)
{
    int major = (int)hip_options().hip;

    if (!version)
        return hipErrorInvalidValue;
    *version = major > HIP_VERSION_MAJOR ? major * 10000000 : HIP_VERSION;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDriverGetVersion(int *version)
{
    return HIP_CALL(hipDriverGetVersion, get_version(version));
}

HIP_EXPORT hipError_t hipRuntimeGetVersion(int *version)
{
    return HIP_CALL(hipRuntimeGetVersion, get_version(version));
}

/* Sets *count to the number of devices. */
static hipError_t get_count(int *count)
{
    if (!count)
        return hipErrorInvalidValue;
    *count = all.count;
    return all.count ? hipSuccess : hipErrorNoDevice;
}

HIP_EXPORT hipError_t hipGetDeviceCount(int *count)
{
    return HIP_CALL(hipGetDeviceCount, get_count(count));
}

/* Makes the device `ordinal` current in the calling thread. */
static hipError_t set_device(int ordinal)
{
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    hip_thread()->device = ordinal;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipSetDevice(int ordinal)
{
    return HIP_CALL(hipSetDevice, set_device(ordinal));
}

/* Sets *ordinal to the current device. */
static hipError_t get_device(int *ordinal)
{
    if (!ordinal)
        return hipErrorInvalidValue;
    if (all.count == 0)
        return hipErrorNoDevice;
    *ordinal = hip_thread()->device;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGetDevice(int *ordinal)
{
    return HIP_CALL(hipGetDevice, get_device(ordinal));
}

/* Sets *device to the handle of the device `ordinal`. */
static hipError_t device_get(hipDevice_t *device, int ordinal)
{
    if (!device)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    return HIP_CALL(hipDeviceGet, device_get(device, ordinal));
}

/* Waits for all work of the current device. */
static hipError_t synchronize(void)
{
    struct hip_device *device = hip_current_device();

    return device ? hip_device_wait_done(device) : hipErrorNoDevice;
}

HIP_EXPORT hipError_t hipDeviceSynchronize(void)
{
    return HIP_CALL(hipDeviceSynchronize, synchronize());
}

/* Drops pending faults only. The program's objects are still valid. */
HIP_EXPORT hipError_t hipDeviceReset(void)
{
    return HIP_CALL(hipDeviceReset, (synchronize(), hipSuccess));
}

/* Sets *ordinal to the device that fits the properties `wish` best. All simulated devices are
 * alike, so it is the first. */
static hipError_t choose_device(int *ordinal, const hipDeviceProp_t *wish)
{
    if (!ordinal || !wish)
        return hipErrorInvalidValue;
    *ordinal = 0;
    return all.count ? hipSuccess : hipErrorNoDevice;
}

HIP_EXPORT hipError_t hipChooseDeviceR0000(int *ordinal, const void *wish)
{
    return HIP_CALL(hipChooseDeviceR0000, choose_device(ordinal, wish));
}

HIP_EXPORT hipError_t hipChooseDeviceR0600(int *ordinal, const void *wish)
{
    return HIP_CALL(hipChooseDeviceR0600, choose_device(ordinal, wish));
}

HIP_EXPORT hipError_t hipChooseDevice(int *ordinal, const hipDeviceProp_t *wish)
{
    return HIP_CALL(hipChooseDevice, choose_device(ordinal, wish));
}

/* The functions from here on give the names and ids of devices. */

/* Writes a text to a buffer of `size` bytes, truncated if necessary. */
static hipError_t write_text(char *to, int size, const char *text)
{
    if (!to || size <= 0)
        return hipErrorInvalidValue;
    snprintf(to, (size_t)size, "%s", text);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetName(char *name, int size, hipDevice_t ordinal)
{
    const struct hip_device *device;

    return HIP_CALL(hipDeviceGetName, (device = hip_device(ordinal))
                                          ? write_text(name, size, device->facts->name)
                                          : hipErrorInvalidDevice);
}

/* Sets *uuid to the identifier of the device `ordinal`. */
static hipError_t get_uuid(hipUUID *uuid, int ordinal)
{
    if (!uuid)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    memset(uuid, 0, sizeof(*uuid));
    hip_device_uuid(hip_device(ordinal)->gpu, uuid->bytes);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t ordinal)
{
    return HIP_CALL(hipDeviceGetUuid, get_uuid(uuid, ordinal));
}

/* Writes the PCI bus id. GPU n is on bus n + 1, device 0, function 0, also if earlier GPUs are not
 * visible. */
static hipError_t get_bus_id(char *text, int size, int ordinal)
{
    char id[16];

    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    snprintf(id, sizeof(id), "0000:%02x:00.0", (hip_device(ordinal)->gpu + 1) & 0xff);
    return size < (int)sizeof "0000:00:00.0" ? hipErrorInvalidValue : write_text(text, size, id);
}

HIP_EXPORT hipError_t hipDeviceGetPCIBusId(char *text, int size, int ordinal)
{
    return HIP_CALL(hipDeviceGetPCIBusId, get_bus_id(text, size, ordinal));
}

/* Sets *ordinal to the device whose bus is in `text`. */
static hipError_t device_by_bus_id(int *ordinal, const char *text)
{
    unsigned domain, bus, slot, function;

    if (!ordinal || !text || sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return hipErrorInvalidValue;
    for (int i = 0; i < all.count; i++) {
        if (domain || slot || function || all.devices[i].gpu + 1 != bus)
            continue;
        *ordinal = i;
        return hipSuccess;
    }
    return hipErrorInvalidDevice;
}

HIP_EXPORT hipError_t hipDeviceGetByPCIBusId(int *ordinal, const char *text)
{
    return HIP_CALL(hipDeviceGetByPCIBusId, device_by_bus_id(ordinal, text));
}

/* Sets the version of the device's instruction set. */
static hipError_t compute_capability(int *major, int *minor, int ordinal)
{
    if (!major || !minor)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    *major = hip_device(ordinal)->facts->isa->capability / 10;
    *minor = hip_device(ordinal)->facts->isa->capability % 10;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t ordinal)
{
    return HIP_CALL(hipDeviceComputeCapability, compute_capability(major, minor, ordinal));
}

/* Sets *bytes to the memory size of the device. */
static hipError_t total_memory(size_t *bytes, int ordinal)
{
    if (!bytes)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    *bytes = hip_device(ordinal)->memory_bytes;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t ordinal)
{
    return HIP_CALL(hipDeviceTotalMem, total_memory(bytes, ordinal));
}

/* The functions from here on access the limits and settings of devices. */

/* Sets *get to a limit of the current device, or if `get` is NULL the limit to `set`. */
static hipError_t access_limit(enum hipLimit_t limit, size_t *get, size_t set)
{
    struct hip_device *device = hip_current_device();

    if (!device)
        return hipErrorNoDevice;
    if ((unsigned)limit > hipLimitMallocHeapSize)
        return hipErrorUnsupportedLimit;
    pthread_mutex_lock(&device->lock);
    if (get)
        *get = device->limits[limit];
    else
        device->limits[limit] = set;
    pthread_mutex_unlock(&device->lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit)
{
    return HIP_CALL(hipDeviceGetLimit,
                    value ? access_limit(limit, value, 0) : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value)
{
    return HIP_CALL(hipDeviceSetLimit, access_limit(limit, NULL, value));
}

/* Sets the flags for how the host waits to `set`, or reads them to *get. The other flags are always
 * set. */
static hipError_t access_flags(unsigned *get, unsigned set)
{
    struct hip_device *device = hip_current_device();

    if (!device)
        return hipErrorNoDevice;
    if (set & ~(unsigned)(hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax))
        return hipErrorInvalidValue;
    pthread_mutex_lock(&device->lock);
    if (get)
        *get = device->flags;
    else
        device->flags = set & hipDeviceScheduleMask;
    pthread_mutex_unlock(&device->lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGetDeviceFlags(unsigned int *flags)
{
    return HIP_CALL(hipGetDeviceFlags, flags ? access_flags(flags, 0) : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipSetDeviceFlags(unsigned flags)
{
    return HIP_CALL(hipSetDeviceFlags, access_flags(NULL, flags));
}

/* Accepts settings of caches and banks as HIP does; they have no effect on these GPUs. */
HIP_EXPORT hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config)
{
    return HIP_CALL(hipDeviceSetCacheConfig, (unsigned)config <= hipFuncCachePreferEqual
                                                 ? hipSuccess
                                                 : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config)
{
    return HIP_CALL(hipDeviceGetCacheConfig,
                    config ? (*config = hipFuncCachePreferNone, hipSuccess) : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config)
{
    return HIP_CALL(hipDeviceSetSharedMemConfig, (unsigned)config <= hipSharedMemBankSizeEightByte
                                                     ? hipSuccess
                                                     : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config)
{
    return HIP_CALL(hipDeviceGetSharedMemConfig,
                    config ? (*config = hipSharedMemBankSizeFourByte, hipSuccess)
                           : hipErrorInvalidValue);
}

/* The functions from here on control access to peer devices. */

/* Sets *can to 1 if the device `ordinal` can access the memory of the device `peer`, otherwise to
 * 0. */
static hipError_t can_access_peer(int *can, int ordinal, int peer)
{
    if (!can)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal) || !hip_device(peer))
        return hipErrorInvalidDevice;
    *can = ordinal != peer;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceCanAccessPeer(int *can, int ordinal, int peer)
{
    return HIP_CALL(hipDeviceCanAccessPeer, can_access_peer(can, ordinal, peer));
}

/* Enables or disables the current device's access to the memory of a peer. */
static hipError_t set_peer(int peer, unsigned flags, bool enable)
{
    struct hip_device *device = hip_current_device();

    if (flags)
        return hipErrorInvalidValue;
    if (!device || !hip_device(peer) || peer == device->ordinal)
        return hipErrorInvalidDevice;
    uint64_t bit = UINT64_C(1) << peer;
    if (enable)
        return atomic_fetch_or(&device->peers, bit) & bit ? hipErrorPeerAccessAlreadyEnabled
                                                          : hipSuccess;
    return atomic_fetch_and(&device->peers, ~bit) & bit ? hipSuccess : hipErrorPeerAccessNotEnabled;
}

HIP_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    return HIP_CALL(hipDeviceEnablePeerAccess, set_peer(peer, flags, true));
}

HIP_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer)
{
    return HIP_CALL(hipDeviceDisablePeerAccess, set_peer(peer, 0, false));
}

/* Sets *value to an attribute of the link between two devices. */
static hipError_t p2p_attribute(int *value, hipDeviceP2PAttr attribute, int from, int to)
{
    if (!value)
        return hipErrorInvalidValue;
    if (!hip_device(from) || !hip_device(to) || from == to)
        return hipErrorInvalidDevice;
    *value = attribute != hipDevP2PAttrHipArrayAccessSupported;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int from,
                                               int to)
{
    return HIP_CALL(hipDeviceGetP2PAttribute, p2p_attribute(value, attribute, from, to));
}

/* Sets *type to the type of a link and *hops to its length. HSA_AMD_LINK_INFO_TYPE_XGMI is 4; all
 * devices of a node are linked directly. */
static hipError_t link_type(int from, int to, uint32_t *type, uint32_t *hops)
{
    if (!type || !hops || from == to || from < 0 || to < 0)
        return hipErrorInvalidValue;
    if (!hip_device(from) || !hip_device(to))
        return hipErrorInvalidDevice;
    *type = 4;
    *hops = 1;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *type, uint32_t *hops)
{
    return HIP_CALL(hipExtGetLinkTypeAndHopCount, link_type(from, to, type, hops));
}
