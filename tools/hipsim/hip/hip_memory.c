/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, registration, and queries about pointers. */
#include "hip_order.h"

#include <stdlib.h>
#include <string.h>

#include "memory_share.h"

/* Returns the slot of the live allocation that contains the byte at `pointer`; NULL if there is
 * none. */
static const struct hipsim_mem_slot *live_slot(const void *pointer)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search((uintptr_t)pointer);

    const uint64_t state = slot ? atomic_load(&slot->state) & 3 : HIPSIM_MEM_EMPTY;
    struct hipsim_mem_cursor cursor = {0};

    if (state == HIPSIM_MEM_PARTIAL)
        return hipsim_mem_check(&cursor, (uintptr_t)pointer, 1, false) == HIPSIM_MEM_OK ? slot
                                                                                        : NULL;
    if (state != HIPSIM_MEM_LIVE)
        return NULL;
    /* the null pointer and redzones belong to no allocation */
    return (uintptr_t)pointer - slot->base < hipsim_mem_slot_size(slot) ? slot : NULL;
}

/* True if the slot is host memory, allocated or registered. */
static bool is_host(const struct hipsim_mem_slot *slot)
{
    return slot->kind == HIPSIM_MEM_HOST || slot->kind == HIPSIM_MEM_REGISTERED;
}

/* Allocates `size` bytes for the device, and sets *pointer to the address. */
static hipError_t allocate_from(const struct hip_device *device, void **pointer, size_t size,
                                enum hipsim_mem_kind kind, unsigned flags)
{
    if (!pointer)
        return hipErrorInvalidValue;
    *pointer = NULL;
    if (!device)
        return hipErrorNoDevice;
    if (size == 0)
        return hipSuccess;
    uint64_t used = hipsim_mem_in_use((unsigned)device->ordinal);
    if (kind == HIPSIM_MEM_DEVICE &&
        (used > device->memory_bytes || size > device->memory_bytes - used))
        return hipErrorOutOfMemory;
    struct hipsim_mem_request request = {
        .size = size, .kind = kind, .device = (unsigned)device->ordinal, .flags = flags};
    *pointer = hipsim_mem_alloc(&request);
    return *pointer ? hipSuccess : hipErrorOutOfMemory;
}

/* Allocates `size` bytes for the current device, and sets *pointer to the address. */
static hipError_t allocate(void **pointer, size_t size, enum hipsim_mem_kind kind, unsigned flags)
{
    return allocate_from(hip_current_device(), pointer, size, kind, flags);
}

hipError_t hip_allocate_on(void **pointer, size_t size, const struct hip_device *device)
{
    return allocate_from(device, pointer, size, HIPSIM_MEM_DEVICE, 0);
}

hipError_t hip_allocate(void **pointer, size_t size)
{
    return allocate(pointer, size, HIPSIM_MEM_DEVICE, 0);
}

/* Frees the allocation that begins at `pointer`; NULL is allowed. `host`: it must be host
 * memory. */
static hipError_t release(void *pointer, bool host)
{
    if (!pointer)
        return hipSuccess;
    const struct hipsim_mem_slot *slot = live_slot(pointer);
    bool fits = slot && slot->base == (uintptr_t)pointer &&
                (slot->kind == HIPSIM_MEM_HOST ||
                 (!host && (slot->kind == HIPSIM_MEM_DEVICE || slot->kind == HIPSIM_MEM_MANAGED)));
    if (!fits) {
        char where[300];
        hipsim_mem_describe((uintptr_t)pointer, 1, where, sizeof(where));
        return hip_fail(hipErrorInvalidValue, "%p cannot be freed: it is %s", pointer, where);
    }
    hip_order_drain();
    hipError_t error;
    if (hip_graph_memory_free(pointer, &error))
        return error;
    hip_order_forget(pointer, atomic_load(&slot->state) >> 2);
    hip_pool_forget(pointer);
    hipsim_mem_unshare((uintptr_t)pointer);
    return hipsim_mem_free(pointer) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hip_release(void *pointer) { return release(pointer, false); }

/* The functions from here on allocate and free memory. */

HIP_EXPORT hipError_t hipMalloc(void **pointer, size_t size)
{
    return HIP_CALL(hipMalloc, allocate(pointer, size, HIPSIM_MEM_DEVICE, 0));
}

HIP_EXPORT hipError_t hipExtMallocWithFlags(void **pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipExtMallocWithFlags, allocate(pointer, size, HIPSIM_MEM_DEVICE, flags));
}

/* Allocates `size` bytes of managed memory. */
static hipError_t allocate_managed(void **pointer, size_t size, unsigned flags)
{
    if (flags != hipMemAttachGlobal && flags != hipMemAttachHost)
        return hipErrorInvalidValue;
    return size ? allocate(pointer, size, HIPSIM_MEM_MANAGED, flags) : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipMallocManaged(void **pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipMallocManaged, allocate_managed(pointer, size, flags));
}

HIP_EXPORT hipError_t hipHostMalloc(void **pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipHostMalloc, allocate(pointer, size, HIPSIM_MEM_HOST, flags));
}

/* Allocates host memory. `flags` has bits 0 to 2 (portable, mapped, write-combined) and
 * hipHostMalloc's from 28 on. */
static hipError_t allocate_host(void **pointer, size_t size, unsigned flags)
{
    if (flags & ~0xf0000007u)
        return hipErrorInvalidValue;
    return allocate(pointer, size, HIPSIM_MEM_HOST, flags);
}

HIP_EXPORT hipError_t hipHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipHostAlloc, allocate_host(pointer, size, flags));
}

hipError_t hipExtHostAlloc(void **pointer, size_t size, unsigned int flags);

HIP_EXPORT hipError_t hipExtHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipExtHostAlloc, allocate_host(pointer, size, flags));
}

HIP_EXPORT hipError_t hipMallocHost(void **pointer, size_t size)
{
    return HIP_CALL(hipMallocHost, allocate(pointer, size, HIPSIM_MEM_HOST, 0));
}

HIP_EXPORT hipError_t hipMemAllocHost(void **pointer, size_t size)
{
    return HIP_CALL(hipMemAllocHost, allocate(pointer, size, HIPSIM_MEM_HOST, 0));
}

/* Frees memory; `host`: it must be host memory. Work may still use it, so the call waits for all
 * work (HIP API, hipFree()). */
static hipError_t wait_and_release(void *pointer, bool host)
{
    if (pointer)
        hip_order_wait_all();
    return release(pointer, host);
}

HIP_EXPORT hipError_t hipFree(void *pointer)
{
    return HIP_CALL(hipFree, wait_and_release(pointer, false));
}

HIP_EXPORT hipError_t hipHostFree(void *pointer)
{
    return HIP_CALL(hipHostFree, wait_and_release(pointer, true));
}

HIP_EXPORT hipError_t hipFreeHost(void *pointer)
{
    return HIP_CALL(hipFreeHost, release(pointer, true));
}

/* Allocates `rows` rows of `width` bytes, each at a multiple of 128 bytes, a cache line. Sets
 * *pitch to the bytes from a row to the next. */
static hipError_t allocate_rows(void **pointer, size_t *pitch, size_t width, size_t rows)
{
    size_t size;

    if (!pointer || !pitch || width > SIZE_MAX - 127)
        return hipErrorInvalidValue;
    *pitch = (width + 127) & ~(size_t)127;
    if (__builtin_mul_overflow(*pitch, rows, &size))
        return hipErrorOutOfMemory;
    return allocate(pointer, size, HIPSIM_MEM_DEVICE, 0);
}

HIP_EXPORT hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    return HIP_CALL(hipMallocPitch, allocate_rows(pointer, pitch, width, height));
}

HIP_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t *pointer, size_t *pitch, size_t width,
                                       size_t height, unsigned int element)
{
    (void)element;
    return HIP_CALL(hipMemAllocPitch, allocate_rows(pointer, pitch, width, height));
}

/* Allocates memory for a box of the extent. */
static hipError_t allocate_box(hipPitchedPtr *box, hipExtent extent)
{
    size_t rows;

    if (!box || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return hipErrorInvalidValue;
    box->xsize = extent.width;
    box->ysize = extent.height;
    return allocate_rows(&box->ptr, &box->pitch, extent.width, rows);
}

HIP_EXPORT hipError_t hipMalloc3D(hipPitchedPtr *box, hipExtent extent)
{
    return HIP_CALL(hipMalloc3D, allocate_box(box, extent));
}

/* The functions from here on register the caller's host memory. */

/* Registers `size` bytes of host memory. */
static hipError_t register_host(void *pointer, size_t size, unsigned flags)
{
    struct hip_device *device = hip_current_device();

    if (!pointer || size == 0)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    if (live_slot(pointer))
        return hipErrorHostMemoryAlreadyRegistered;
    return hipsim_mem_register(pointer, size, (unsigned)device->ordinal, flags)
               ? hipSuccess
               : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipHostRegister(void *pointer, size_t size, unsigned int flags)
{
    return HIP_CALL(hipHostRegister, register_host(pointer, size, flags));
}

HIP_EXPORT hipError_t hipHostUnregister(void *pointer)
{
    return HIP_CALL(hipHostUnregister, !pointer ? hipErrorInvalidValue
                                       : hipsim_mem_unregister(pointer)
                                           ? hipSuccess
                                           : hipErrorHostMemoryNotRegistered);
}

/* Sets *device to the device pointer of host memory, which has the same address. */
static hipError_t device_pointer(void **device, void *host)
{
    if (!device)
        return hipErrorInvalidValue;
    const struct hipsim_mem_slot *slot = live_slot(host);
    if (!slot || !(is_host(slot) || slot->kind == HIPSIM_MEM_MANAGED))
        return hipErrorInvalidValue;
    *device = host;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipHostGetDevicePointer, device_pointer(device, host));
}

/* Sets *flags to the flags of host memory. */
static hipError_t host_flags(unsigned *flags, void *host)
{
    const struct hipsim_mem_slot *slot = live_slot(host);

    if (!flags || !slot || !is_host(slot))
        return hipErrorInvalidValue;
    *flags = slot->flags;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipHostGetFlags(unsigned int *flags, void *host)
{
    return HIP_CALL(hipHostGetFlags, host_flags(flags, host));
}

/* The functions from here on answer questions about pointers. */

/* Returns the number of the slot's memory type. HIP 5 reports managed memory as device memory. */
static unsigned type_number(const struct hipsim_mem_slot *slot)
{
    if (slot->kind == HIPSIM_MEM_MANAGED && hip_options().hip >= 6)
        return hip_memory_type_number(hipMemoryTypeUnified);
    return hip_memory_type_number(is_host(slot) ? hipMemoryTypeHost : hipMemoryTypeDevice);
}

/* Sets *attributes to the attributes of a pointer. */
static hipError_t pointer_attributes(hipPointerAttribute_t *attributes, const void *pointer)
{
    if (!attributes)
        return hipErrorInvalidValue;
    const struct hipsim_mem_slot *slot = live_slot(pointer);
    if (!slot && hip_options().hip >= 6) {
        *attributes = (hipPointerAttribute_t){.device = -2}; /* not registered, no device */
        return hipSuccess;
    }
    if (!slot)
        return hipErrorInvalidValue;
    bool managed = slot->kind == HIPSIM_MEM_MANAGED;
    *attributes = (hipPointerAttribute_t){
        .memoryType = (hipMemoryType)type_number(slot),
        .device = slot->device,
        .devicePointer = (void *)(uintptr_t)pointer,
        .hostPointer = is_host(slot) || managed ? (void *)(uintptr_t)pointer : NULL,
        .isManaged = managed,
        .allocationFlags = slot->flags,
    };
    return hipSuccess;
}

HIP_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes,
                                              const void *pointer)
{
    return HIP_CALL(hipPointerGetAttributes, pointer_attributes(attributes, pointer));
}

#define STORE(type, value) (*(type *)data = (type)(value), hipSuccess)

/* Sets the result at `data` to one attribute of a pointer. */
static hipError_t pointer_attribute(void *data, hipPointer_attribute attribute, void *pointer)
{
    const struct hipsim_mem_slot *slot = live_slot(pointer);

    if (!data)
        return hipErrorInvalidValue;
    if (attribute == HIP_POINTER_ATTRIBUTE_MAPPED)
        return STORE(int, slot != NULL);
    if (!slot)
        return hipErrorInvalidValue;
    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: return STORE(unsigned, type_number(slot));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: return STORE(void *, pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host(slot) && slot->kind != HIPSIM_MEM_MANAGED)
            return hipErrorInvalidValue;
        return STORE(void *, pointer);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: return STORE(uint64_t, atomic_load(&slot->serial));
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: return STORE(unsigned, slot->kind == HIPSIM_MEM_MANAGED);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return STORE(int, slot->device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: return STORE(uint64_t, slot->base);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: return STORE(uint64_t, hipsim_mem_slot_size(slot));
    default:
        return hip_fail(hipErrorNotSupported, "pointer attribute %d is not simulated",
                        (int)attribute);
    }
}

HIP_EXPORT hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute,
                                             hipDeviceptr_t pointer)
{
    return HIP_CALL(hipPointerGetAttribute, pointer_attribute(data, attribute, pointer));
}

/* Reads several attributes. An attribute that the pointer lacks is set to null, without an
 * error. */
static hipError_t many_attributes(unsigned count, hipPointer_attribute *attributes, void **data,
                                  void *pointer)
{
    if (count == 0 || !attributes || !data)
        return hipErrorInvalidValue;
    for (unsigned i = 0; i < count; i++) {
        const struct hipsim_mem_slot *slot = live_slot(pointer);
        if (attributes[i] == HIP_POINTER_ATTRIBUTE_HOST_POINTER && data[i] && slot &&
            slot->kind == HIPSIM_MEM_DEVICE) {
            *(void **)data[i] = NULL;
            continue;
        }
        hipError_t error = pointer_attribute(data[i], attributes[i], pointer);
        if (error != hipSuccess)
            return error;
    }
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned int count,
                                                 hipPointer_attribute *attributes, void **data,
                                                 hipDeviceptr_t pointer)
{
    return HIP_CALL(hipDrvPointerGetAttributes, many_attributes(count, attributes, data, pointer));
}

/* Sets the unused and total memory of the current device in bytes. */
static hipError_t memory_info(size_t *unused, size_t *total)
{
    struct hip_device *device = hip_current_device();

    if (!device)
        return hipErrorNoDevice;
    uint64_t used = hipsim_mem_in_use((unsigned)device->ordinal);
    if (unused)
        *unused = used < device->memory_bytes ? device->memory_bytes - used : 0;
    if (total)
        *total = device->memory_bytes;
    return unused || total ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipMemGetInfo(size_t *unused, size_t *total)
{
    return HIP_CALL(hipMemGetInfo, memory_info(unused, total));
}

/* Sets the base and size of the allocation that has the pointer. */
static hipError_t address_range(void **base, size_t *size, void *pointer)
{
    const struct hipsim_mem_slot *slot = live_slot(pointer);

    if (!slot)
        return hipErrorNotFound;
    if (base)
        *base = (void *)(uintptr_t)slot->base;
    if (size)
        *size = hipsim_mem_slot_size(slot);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size,
                                            hipDeviceptr_t pointer)
{
    return HIP_CALL(hipMemGetAddressRange, address_range(base, size, pointer));
}

HIP_EXPORT hipError_t hipMemPtrGetInfo(void *pointer, size_t *size)
{
    return HIP_CALL(hipMemPtrGetInfo,
                    size ? address_range(NULL, size, pointer) : hipErrorInvalidValue);
}

/* The functions from here on take hints for managed memory, which have no effect here. */

/* Checks the range of a hint: the error is hipErrorInvalidValue if a byte is not allocated. */
static hipError_t hint(const void *pointer, size_t size)
{
    struct hipsim_mem_cursor cursor = {0};

    return size && hipsim_mem_check(&cursor, (uintptr_t)pointer, size, false) == HIPSIM_MEM_OK
               ? hipSuccess
               : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipMemPrefetchAsync(const void *pointer, size_t size, int device,
                                          hipStream_t stream)
{
    (void)stream;
    return HIP_CALL(hipMemPrefetchAsync, device == hipCpuDeviceId || hip_device(device)
                                             ? hint(pointer, size)
                                             : hipErrorInvalidDevice);
}

HIP_EXPORT hipError_t hipMemAdvise(const void *pointer, size_t size, hipMemoryAdvise advice,
                                   int device)
{
    (void)advice;
    (void)device;
    return HIP_CALL(hipMemAdvise, hint(pointer, size));
}

/* Implements hipMemAdvise() of HIP 7, which takes locations instead of devices. */
hipError_t hipMemAdvise_v2(const void *pointer, size_t size, hipMemoryAdvise advice,
                           hipMemLocation place);
hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t size, hipMemLocation place,
                                  unsigned int flags, hipStream_t stream);

HIP_EXPORT hipError_t hipMemAdvise_v2(const void *pointer, size_t size, hipMemoryAdvise advice,
                                      hipMemLocation place)
{
    (void)advice;
    (void)place;
    return HIP_CALL(hipMemAdvise_v2, hint(pointer, size));
}

HIP_EXPORT hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t size, hipMemLocation place,
                                             unsigned int flags, hipStream_t stream)
{
    const bool is_device = place.type == hipMemLocationTypeDevice;

    (void)stream;
    return HIP_CALL(hipMemPrefetchAsync_v2, flags ? hipErrorInvalidValue
                                            : is_device && !hip_device(place.id)
                                                ? hipErrorInvalidDevice
                                                : hint(pointer, size));
}

/* Attaches managed memory to a stream. Size 0 means the whole allocation; a part of it is
 * refused. */
static hipError_t attach(void *pointer, size_t size, unsigned flags)
{
    const struct hipsim_mem_slot *slot = live_slot(pointer);

    if (!slot || slot->kind != HIPSIM_MEM_MANAGED || (size && size != hipsim_mem_slot_size(slot)))
        return hipErrorInvalidValue;
    return flags == hipMemAttachGlobal || flags == hipMemAttachHost || flags == hipMemAttachSingle
               ? hipSuccess
               : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *pointer, size_t size,
                                              unsigned int flags)
{
    (void)stream;
    return HIP_CALL(hipStreamAttachMemAsync, attach(pointer, size, flags));
}

/* Returns a channel descriptor, which is plain data. Programs without arrays call it too. */
HIP_EXPORT hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w,
                                                     enum hipChannelFormatKind kind)
{
    return (hipChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = kind};
}
