/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: address ranges are reserved, physical memory is created, and one is
 * mapped into the other.
 *
 * Physical memory is a part of one growing file in memory. Mapping shows that part in the arena, so
 * its bytes are the same at every address and survive unmapping.
 */
#include "hip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/falloc.h>

/* Physical memory that can be mapped to reserved addresses. */
struct ihipMemGenericAllocationHandle {
    struct hip_object object;
    struct hip_device *device;
    uint64_t size;
    uint64_t offset; /* byte offset in the file */
    /* handles that were created and not released; this and the next members need all.lock */
    unsigned handles;
    /* True: the memory has been mapped before, so its bytes may be initialised. */
    bool mapped_before;
    bool is_old; /* true: created with HIP 5's layout of properties */
};

typedef struct ihipMemGenericAllocationHandle memory;

/* A range of reserved addresses that shows physical memory. */
struct mapping {
    uint64_t address, size;
    memory *memory; /* memory, which the mapping references */
    struct mapping *next;
};

static struct {
    pthread_mutex_t lock;
    int file;
    uint64_t end; /* end of the file in bytes; parts are never reused */
    struct mapping *mappings;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};

#define RECOMMENDED (UINT64_C(2) << 20) /* bytes of the hardware's large pages */

/* Properties in HIP 6's layout. In HIP 5 other members are first, and widths differ. */
struct properties {
    int type, handle_type;
    hipMemLocation location;
    void *win32;
    uint32_t flags[2];
};

/* True if the size is a positive multiple of the granularity. */
static bool is_whole(uint64_t size) { return size > 0 && size % HIPSIM_MEM_GRANULE == 0; }

/* Returns `error`, with a message that `what` has a wrong size. */
static hipError_t not_whole(hipError_t error, const char *what, uint64_t size)
{
    return hip_fail(error,
                    "%s of %llu bytes is no multiple of the granularity, "
                    "%llu",
                    what, (unsigned long long)size, (unsigned long long)HIPSIM_MEM_GRANULE);
}

/* Returns the device of the properties, which must describe pinned device memory, the only kind;
 * otherwise NULL. Sets *is_old if they have HIP 5's layout. */
static struct hip_device *device_of(const void *given, bool *is_old)
{
    const struct properties *recent = given;
    const hipMemAllocationProp *old = given;

    if (!given)
        return NULL;
    *is_old = false;
    if (recent->type == hipMemAllocationTypePinned &&
        recent->location.type == hipMemLocationTypeDevice)
        return hip_device(recent->location.id);
    *is_old = true;
    if (old->type == hipMemAllocationTypePinned && old->location.type == hipMemLocationTypeDevice)
        return hip_device(old->location.id);
    return NULL;
}

/* The functions from here on reserve addresses. */

/* Reserves `size` bytes of addresses. */
static hipError_t reserve(void **pointer, size_t size, size_t alignment, unsigned long long flags)
{
    const struct hip_device *device = hip_current_device();

    if (!pointer || flags || (alignment & (alignment - 1)))
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    if (!is_whole(size))
        return not_whole(hipErrorOutOfMemory, "a reservation", size);
    const uint64_t least = size < RECOMMENDED ? HIPSIM_MEM_GRANULE : RECOMMENDED;
    const struct hipsim_mem_request request = {
        .size = size,
        .alignment = alignment < least ? least : alignment,
        .kind = HIPSIM_MEM_RESERVED,
        .device = (unsigned)device->ordinal,
    };
    *pointer = hipsim_mem_alloc(&request);
    return *pointer ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipMemAddressReserve(void **pointer, size_t size, size_t alignment,
                                           void *wish, unsigned long long flags)
{
    (void)wish;
    return HIP_CALL(hipMemAddressReserve, reserve(pointer, size, alignment, flags));
}

/* Returns the reservation that contains all of [address, address + size). */
static const struct hipsim_mem_slot *reservation(uint64_t address, uint64_t size)
{
    const struct hipsim_mem_slot *slot = hipsim_mem_search(address);

    if (!slot || (atomic_load(&slot->state) & 3) != HIPSIM_MEM_PARTIAL)
        return NULL;
    const uint64_t offset = address - slot->base, have = hipsim_mem_slot_size(slot);
    return offset <= have && size <= have - offset ? slot : NULL;
}

/* Sets *bytes to the mapped bytes of [address, address + size). False if a mapping is only partly
 * inside. */
static bool mapped_bytes(uint64_t address, uint64_t size, uint64_t *bytes)
{
    bool whole = true;

    *bytes = 0;
    for (const struct mapping *m = all.mappings; m; m = m->next) {
        const uint64_t begin = m->address > address ? m->address : address;
        const uint64_t m_end = m->address + m->size;
        const uint64_t end = m_end < address + size ? m_end : address + size;
        if (begin >= end)
            continue;
        *bytes += end - begin;
        whole = whole && end - begin == m->size;
    }
    return whole;
}

/* Releases reserved addresses. */
static hipError_t free_addresses(void *pointer, size_t size)
{
    const uint64_t address = (uintptr_t)pointer;
    uint64_t bytes;

    pthread_mutex_lock(&all.lock);
    const struct hipsim_mem_slot *slot = reservation(address, size);
    bool ok = slot && slot->base == address && hipsim_mem_slot_size(slot) == size;
    if (ok && (!mapped_bytes(address, size, &bytes) || bytes)) {
        pthread_mutex_unlock(&all.lock);
        return hip_fail(hipErrorInvalidValue, "memory is still mapped at the addresses of %p",
                        pointer);
    }
    ok = ok && hipsim_mem_free(pointer);
    pthread_mutex_unlock(&all.lock);
    return ok ? hipSuccess
              : hip_fail(hipErrorInvalidValue, "%zu bytes at %p were not reserved", size, pointer);
}

HIP_EXPORT hipError_t hipMemAddressFree(void *pointer, size_t size)
{
    return HIP_CALL(hipMemAddressFree, free_addresses(pointer, size));
}

/* The functions from here on create and release memory that can be mapped. */

/* Frees created memory. */
static void destroy_memory(struct hip_object *object)
{
    memory *m = (memory *)object;

    (void)fallocate(all.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)m->offset,
                    (off_t)m->size);
    hipsim_mem_account((unsigned)m->device->ordinal, -(int64_t)m->size);
    free(m);
}

/* Extends the file by `size` bytes, and sets *offset to where they begin. False if that fails. The
 * caller has locked `all`. */
static bool extend(uint64_t size, uint64_t *offset)
{
    if (all.file < 0)
        all.file = memfd_create("hipsim", MFD_CLOEXEC);
    if (all.file < 0 || size > INT64_MAX - all.end ||
        ftruncate(all.file, (off_t)(all.end + size)) != 0)
        return false;
    *offset = all.end;
    all.end += size;
    return true;
}

/* Creates memory that can be mapped to reserved addresses. */
static hipError_t create(memory **handle, size_t size, const void *properties,
                         unsigned long long flags)
{
    bool is_old;
    struct hip_device *device = device_of(properties, &is_old);

    if (!handle || flags)
        return hipErrorInvalidValue;
    if (!device)
        return hip_fail(hipErrorInvalidValue, "the properties name no pinned memory of a device");
    if (!is_whole(size))
        return not_whole(hipErrorInvalidValue, "memory", size);
    const uint64_t used = hipsim_mem_in_use((unsigned)device->ordinal);
    if (used > device->memory_bytes || size > device->memory_bytes - used)
        return hipErrorOutOfMemory;
    memory *m = calloc(1, sizeof(*m));
    pthread_mutex_lock(&all.lock);
    const bool ok = m && extend(size, &m->offset);
    pthread_mutex_unlock(&all.lock);
    if (!ok) {
        const int why = errno;
        free(m);
        return hip_fail(hipErrorOutOfMemory, "no file of the memory's size: %s", strerror(why));
    }
    m->device = device;
    m->size = size;
    m->handles = 1;
    m->is_old = is_old;
    hipsim_mem_account((unsigned)device->ordinal, (int64_t)size);
    hip_object_add(&m->object, HIP_MEMORY, destroy_memory);
    *handle = m;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
                                   const hipMemAllocationProp *properties, unsigned long long flags)
{
    return HIP_CALL(hipMemCreate, create(handle, size, properties, flags));
}

/* Releases a handle. A mapping exists without it. */
static hipError_t release(hipMemGenericAllocationHandle_t handle)
{
    memory *m = hip_object_get(handle, HIP_MEMORY);

    if (!m)
        return hip_fail(hipErrorInvalidValue, "the memory handle %p is invalid", (void *)handle);
    pthread_mutex_lock(&all.lock);
    const bool last = --m->handles == 0;
    pthread_mutex_unlock(&all.lock);
    if (last)
        hip_object_remove(m, HIP_MEMORY);
    hip_object_put(m);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    return HIP_CALL(hipMemRelease, release(handle));
}

/* Sets *bytes to the granularity of sizes and addresses. */
static hipError_t granularity(size_t *bytes, const void *properties, unsigned option)
{
    bool is_old;

    if (!bytes || option > hipMemAllocationGranularityRecommended ||
        !device_of(properties, &is_old))
        return hipErrorInvalidValue;
    *bytes = option == hipMemAllocationGranularityRecommended ? RECOMMENDED : HIPSIM_MEM_GRANULE;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetAllocationGranularity(size_t *bytes,
                                                     const hipMemAllocationProp *properties,
                                                     hipMemAllocationGranularity_flags option)
{
    return HIP_CALL(hipMemGetAllocationGranularity, granularity(bytes, properties, option));
}

/* Sets *to to the properties of created memory. */
static hipError_t get_properties(hipMemAllocationProp *to, hipMemGenericAllocationHandle_t handle)
{
    memory *m = to ? hip_object_get(handle, HIP_MEMORY) : NULL;

    if (!m)
        return hipErrorInvalidValue;
    const hipMemLocation location = {hipMemLocationTypeDevice, m->device->ordinal};
    if (!m->is_old) {
        const struct properties recent = {.type = hipMemAllocationTypePinned, .location = location};
        memcpy(to, &recent, sizeof(recent));
    } else {
        *to = (hipMemAllocationProp){.type = hipMemAllocationTypePinned, .location = location};
    }
    hip_object_put(m);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetAllocationPropertiesFromHandle(
    hipMemAllocationProp *properties, hipMemGenericAllocationHandle_t handle)
{
    return HIP_CALL(hipMemGetAllocationPropertiesFromHandle, get_properties(properties, handle));
}

/* The functions from here on map memory at reserved addresses. */

/* Marks bytes that are mapped at two addresses as initialised, since a write at one address changes
 * the other. */
static void mark_everywhere(memory *m)
{
    for (const struct mapping *other = all.mappings; other; other = other->next)
        if (other->memory == m)
            hipsim_mem_mark(other->address, other->size);
}

/* Maps memory at `address`. The caller has locked `all`. */
static hipError_t map_locked(uint64_t address, uint64_t size, memory *m)
{
    uint64_t bytes;

    if (!reservation(address, size) || (address - hipsim_arena.base) % HIPSIM_MEM_GRANULE)
        return hip_fail(hipErrorInvalidValue, "%llu bytes at 0x%llx were not reserved",
                        (unsigned long long)size, (unsigned long long)address);
    if (!mapped_bytes(address, size, &bytes) || bytes)
        return hip_fail(hipErrorInvalidValue, "memory is mapped at 0x%llx already",
                        (unsigned long long)address);
    struct mapping *mapping = malloc(sizeof(*mapping));
    if (!mapping || mmap((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, all.file, (off_t)m->offset) == MAP_FAILED) {
        free(mapping);
        return hipErrorOutOfMemory;
    }
    hip_object_ref(m);
    *mapping = (struct mapping){address, size, m, all.mappings};
    all.mappings = mapping;
    hipsim_mem_unmark(address, size);
    if (m->mapped_before)
        mark_everywhere(m);
    m->mapped_before = true;
    return hipSuccess;
}

/* Maps created memory to reserved addresses. */
static hipError_t map(void *pointer, size_t size, size_t offset,
                      hipMemGenericAllocationHandle_t handle, unsigned long long flags)
{
    memory *m = hip_object_get(handle, HIP_MEMORY);
    hipError_t error = hipErrorInvalidValue;

    if (!m)
        return hip_fail(error, "the memory handle %p is invalid", (void *)handle);
    if (offset || flags) {
        error = hip_fail(error, "offset and flags must be 0");
    } else if (!is_whole(size) || size > m->size) {
        error = hip_fail(error, "a mapping of %zu bytes: the memory has %llu, in granules of %llu",
                         size, (unsigned long long)m->size, (unsigned long long)HIPSIM_MEM_GRANULE);
    } else {
        pthread_mutex_lock(&all.lock);
        error = map_locked((uintptr_t)pointer, size, m);
        pthread_mutex_unlock(&all.lock);
    }
    hip_object_put(m);
    return error;
}

HIP_EXPORT hipError_t hipMemMap(void *pointer, size_t size, size_t offset,
                                hipMemGenericAllocationHandle_t handle, unsigned long long flags)
{
    return HIP_CALL(hipMemMap, map(pointer, size, offset, handle, flags));
}

/* True if every granule of [pointer, pointer + size) is mapped. With `whole`, no mapping may extend
 * beyond it. The caller has locked `all`. */
static bool is_mapped(const void *pointer, uint64_t size, bool whole)
{
    const uint64_t address = (uintptr_t)pointer;
    uint64_t bytes;

    return is_whole(size) && (address - hipsim_arena.base) % HIPSIM_MEM_GRANULE == 0 &&
           reservation(address, size) && (mapped_bytes(address, size, &bytes) || !whole) &&
           bytes == size;
}

/* Returns the error for a range that is not a mapped range. */
static hipError_t not_mapped(const void *pointer, uint64_t size)
{
    return hip_fail(hipErrorInvalidValue, "%llu bytes at %p are not what was mapped",
                    (unsigned long long)size, pointer);
}

/* Removes the mappings in a range from the list and returns them. The caller has locked `all`. */
static struct mapping *take_mappings(uint64_t address, uint64_t size)
{
    struct mapping *taken = NULL, **link = &all.mappings;

    while (*link) {
        struct mapping *m = *link;
        if (m->address - address >= size) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        m->next = taken;
        taken = m;
    }
    return taken;
}

/* Unmaps all mappings in a range, which must be whole. */
static hipError_t unmap(void *pointer, size_t size)
{
    pthread_mutex_lock(&all.lock);
    if (!is_mapped(pointer, size, true)) {
        pthread_mutex_unlock(&all.lock);
        return not_mapped(pointer, size);
    }
    hipsim_mem_permit((uintptr_t)pointer, size, false, false);
    const void *empty = mmap(pointer, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    struct mapping *taken = empty == MAP_FAILED ? NULL : take_mappings((uintptr_t)pointer, size);
    pthread_mutex_unlock(&all.lock);
    while (taken) {
        struct mapping *next = taken->next;
        hip_object_put(taken->memory);
        free(taken);
        taken = next;
    }
    return empty == MAP_FAILED ? hipErrorOutOfMemory : hipSuccess;
}

HIP_EXPORT hipError_t hipMemUnmap(void *pointer, size_t size)
{
    return HIP_CALL(hipMemUnmap, unmap(pointer, size));
}

/* The functions from here on set and give the access rights of mappings. */

/* Sets the access rights to a range. A right of one device is a right of all devices. */
static hipError_t set_access(void *pointer, size_t size, const hipMemAccessDesc *list, size_t count)
{
    unsigned flags = 0;

    if (!list || !count)
        return hipErrorInvalidValue;
    for (size_t i = 0; i < count; i++) {
        if (list[i].location.type != hipMemLocationTypeDevice || !hip_device(list[i].location.id) ||
            (list[i].flags & ~(unsigned)hipMemAccessFlagsProtReadWrite) || list[i].flags == 2)
            return hip_fail(hipErrorInvalidValue, "access %zu is to no device, or of no kind", i);
        flags |= list[i].flags;
    }
    pthread_mutex_lock(&all.lock);
    const bool ok = is_mapped(pointer, size, false);
    if (ok)
        hipsim_mem_permit((uintptr_t)pointer, size, flags != 0,
                          flags == hipMemAccessFlagsProtReadWrite);
    pthread_mutex_unlock(&all.lock);
    return ok ? hipSuccess : not_mapped(pointer, size);
}

HIP_EXPORT hipError_t hipMemSetAccess(void *pointer, size_t size, const hipMemAccessDesc *list,
                                      size_t count)
{
    return HIP_CALL(hipMemSetAccess, set_access(pointer, size, list, count));
}

/* Returns the mapping that contains an address; NULL if there is none. The caller has locked
 * `all`. */
static const struct mapping *find(const void *pointer)
{
    const struct mapping *m = all.mappings;

    while (m && (uintptr_t)pointer - m->address >= m->size)
        m = m->next;
    return m;
}

/* Sets *flags to the access of a device to an address. */
static hipError_t get_access(unsigned long long *flags, const hipMemLocation *location,
                             void *pointer)
{
    struct hipsim_mem_cursor cursor = {0};

    if (!flags || !location || location->type != hipMemLocationTypeDevice ||
        !hip_device(location->id))
        return hipErrorInvalidValue;
    pthread_mutex_lock(&all.lock);
    const bool ok = find(pointer) != NULL;
    pthread_mutex_unlock(&all.lock);
    if (!ok)
        return hip_fail(hipErrorInvalidValue, "nothing is mapped at %p", pointer);
    const enum hipsim_mem_verdict verdict = hipsim_mem_check(&cursor, (uintptr_t)pointer, 1, true);
    *flags = verdict == HIPSIM_MEM_OK          ? hipMemAccessFlagsProtReadWrite
             : verdict == HIPSIM_MEM_READ_ONLY ? hipMemAccessFlagsProtRead
                                               : hipMemAccessFlagsProtNone;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location,
                                      void *pointer)
{
    return HIP_CALL(hipMemGetAccess, get_access(flags, location, pointer));
}

/* Sets *handle to the memory that is mapped at an address, and counts one more handle. */
static hipError_t retain(hipMemGenericAllocationHandle_t *handle, const void *pointer)
{
    hipError_t error = hipErrorInvalidValue;

    if (!handle)
        return error;
    pthread_mutex_lock(&all.lock);
    const struct mapping *m = find(pointer);
    /* A released handle cannot be returned, since it is in no registry. */
    if (m && m->memory->handles) {
        m->memory->handles++;
        *handle = m->memory;
        error = hipSuccess;
    }
    pthread_mutex_unlock(&all.lock);
    return error;
}

HIP_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle,
                                                   void *pointer)
{
    return HIP_CALL(hipMemRetainAllocationHandle, retain(handle, pointer));
}
