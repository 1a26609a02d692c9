/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. Work runs when it is submitted, so an asynchronous allocation or free
 * happens at once. A pool only counts its allocations.
 */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

#define ATTRIBUTES (hipMemPoolAttrUsedMemHigh + 1)

/* A memory pool. It only counts its allocations. */
struct ihipMemPoolHandle_t {
    struct hip_object object;
    struct hip_device *device;
    uint64_t attributes[ATTRIBUTES]; /* by enum hipMemPoolAttr; need pools.lock */
};

struct taken { /* an allocation and its pool */
    const void *pointer;
    size_t size;
    struct ihipMemPoolHandle_t *pool; /* pool, which the entry references */
    struct taken *next;
};

#define BUCKETS 1024u

static struct {
    pthread_mutex_t lock;
    struct taken *buckets[BUCKETS];
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the list of the hash table for the pointer. */
static struct taken **bucket_of(const void *pointer)
{
    return &pools.buckets[((uintptr_t)pointer >> 8) * 2654435761u % BUCKETS];
}

static void destroy_pool(struct hip_object *object) { free(object); }

/* Creates a memory pool of the device. NULL: no memory. */
static struct ihipMemPoolHandle_t *create_pool(struct hip_device *device)
{
    struct ihipMemPoolHandle_t *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return NULL;
    pool->device = device;
    pool->attributes[hipMemPoolReuseFollowEventDependencies] = 1;
    pool->attributes[hipMemPoolReuseAllowOpportunistic] = 1;
    pool->attributes[hipMemPoolReuseAllowInternalDependencies] = 1;
    hip_object_add(&pool->object, HIP_POOL, destroy_pool);
    return pool;
}

/* Returns a reference to the device's default pool (`want_default`) or current pool. */
static struct ihipMemPoolHandle_t *device_pool(struct hip_device *device, bool want_default)
{
    pthread_mutex_lock(&device->lock);
    if (!device->default_pool)
        device->default_pool = device->pool = create_pool(device);
    struct ihipMemPoolHandle_t *pool = want_default ? device->default_pool : device->pool;
    if (pool)
        hip_object_ref(pool);
    pthread_mutex_unlock(&device->lock);
    return pool;
}

/* Adds `size` bytes to the pool's attributes. */
static void account(struct ihipMemPoolHandle_t *pool, size_t size)
{
    uint64_t *a = pool->attributes;

    a[hipMemPoolAttrUsedMemCurrent] += size;
    a[hipMemPoolAttrReservedMemCurrent] += size;
    if (a[hipMemPoolAttrUsedMemCurrent] > a[hipMemPoolAttrUsedMemHigh])
        a[hipMemPoolAttrUsedMemHigh] = a[hipMemPoolAttrUsedMemCurrent];
    if (a[hipMemPoolAttrReservedMemCurrent] > a[hipMemPoolAttrReservedMemHigh])
        a[hipMemPoolAttrReservedMemHigh] = a[hipMemPoolAttrReservedMemCurrent];
}

void hip_pool_forget(const void *pointer)
{
    struct taken *found = NULL;

    pthread_mutex_lock(&pools.lock);
    for (struct taken **link = bucket_of(pointer); *link; link = &(*link)->next) {
        if ((*link)->pointer != pointer)
            continue;
        found = *link;
        *link = found->next;
        found->pool->attributes[hipMemPoolAttrUsedMemCurrent] -= found->size;
        found->pool->attributes[hipMemPoolAttrReservedMemCurrent] -= found->size;
        break;
    }
    pthread_mutex_unlock(&pools.lock);
    if (found) {
        hip_object_put(found->pool);
        free(found);
    }
}

/* Captures an allocation. Each launch of the graph allocates at the same address. */
static hipError_t capture_take(void **pointer, size_t size, const struct hip_device *device,
                               hipStream_t stream)
{
    struct hip_work work;
    const hipError_t error = hip_graph_memory_capture(pointer, size, device, &work);

    return error == hipSuccess ? hip_submit(stream, work) : error;
}

/* Allocates from a pool, and drops the reference `pool` or records it with the allocation. */
static hipError_t take(void **pointer, size_t size, struct ihipMemPoolHandle_t *pool,
                       hipStream_t stream)
{
    hipError_t error = hipErrorOutOfMemory;
    struct taken *taken = malloc(sizeof(*taken));

    if (!pool || !taken)
        goto fail;
    if (hip_is_capturing(stream, &error)) {
        error = capture_take(pointer, size, pool->device, stream);
        goto fail;
    }
    error = hip_allocate(pointer, size);
    if (error != hipSuccess || !*pointer)
        goto fail;
    *taken = (struct taken){.pointer = *pointer, .size = size, .pool = pool};
    pthread_mutex_lock(&pools.lock);
    struct taken **bucket = bucket_of(*pointer);
    taken->next = *bucket;
    *bucket = taken;
    account(pool, size);
    pthread_mutex_unlock(&pools.lock);
    return hipSuccess;
fail:
    free(taken);
    hip_object_put(pool);
    return error;
}

/* Allocates `size` bytes from the pool of the current device, in the order of the stream. */
static hipError_t malloc_async(void **pointer, size_t size, hipStream_t stream)
{
    struct hip_device *device = hip_current_device();

    if (!pointer)
        return hipErrorInvalidValue;
    return device ? take(pointer, size, device_pool(device, false), stream) : hipErrorNoDevice;
}

HIP_EXPORT hipError_t hipMallocAsync(void **pointer, size_t size, hipStream_t stream)
{
    return HIP_CALL(hipMallocAsync, malloc_async(pointer, size, stream));
}

/* Allocates `size` bytes from a pool. */
static hipError_t malloc_from(void **pointer, size_t size, hipMemPool_t handle, hipStream_t stream)
{
    struct ihipMemPoolHandle_t *pool = hip_object_get(handle, HIP_POOL);

    if (!pointer || !pool) {
        hip_object_put(pool);
        return hipErrorInvalidValue;
    }
    return take(pointer, size, pool, stream);
}

HIP_EXPORT hipError_t hipMallocFromPoolAsync(void **pointer, size_t size, hipMemPool_t pool,
                                             hipStream_t stream)
{
    return HIP_CALL(hipMallocFromPoolAsync, malloc_from(pointer, size, pool, stream));
}

/* Frees memory when the stream's earlier work is done. */
static hipError_t free_async(void *pointer, hipStream_t stream)
{
    struct hip_work work;
    hipError_t error;

    if (hip_is_capturing(stream, &error)) {
        error = hip_graph_memory_capture_free(pointer, &work);
        return error == hipSuccess ? hip_submit(stream, work) : error;
    }
    return pointer ? hip_release(pointer) : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipFreeAsync(void *pointer, hipStream_t stream)
{
    return HIP_CALL(hipFreeAsync, free_async(pointer, stream));
}

/* Sets *pool to the current pool of a device, or to its default pool. */
static hipError_t get_pool(hipMemPool_t *pool, int ordinal, bool want_default)
{
    struct hip_device *device = hip_device(ordinal);

    if (!pool)
        return hipErrorInvalidValue;
    if (!device)
        return want_default ? hipErrorInvalidDevice : hipErrorInvalidValue;
    *pool = device_pool(device, want_default);
    if (!*pool)
        return hipErrorOutOfMemory;
    hip_object_put(*pool); /* the registry references the pool */
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int ordinal)
{
    return HIP_CALL(hipDeviceGetDefaultMemPool, get_pool(pool, ordinal, true));
}

HIP_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int ordinal)
{
    return HIP_CALL(hipDeviceGetMemPool, get_pool(pool, ordinal, false));
}

/* Makes the pool the current one of a device. */
static hipError_t set_pool(int ordinal, hipMemPool_t handle)
{
    struct hip_device *device = hip_device(ordinal);
    hipMemPool_t unused;

    if (!device)
        return hipErrorInvalidValue;
    struct ihipMemPoolHandle_t *pool = hip_object_get(handle, HIP_POOL);
    if (!pool || get_pool(&unused, ordinal, true) != hipSuccess) {
        hip_object_put(pool);
        return hipErrorInvalidValue;
    }
    /* The device references the program's pool. */
    pthread_mutex_lock(&device->lock);
    struct ihipMemPoolHandle_t *before = device->pool;
    device->pool = pool;
    if (before != device->default_pool)
        hip_object_put(before);
    if (pool == device->default_pool)
        hip_object_put(pool);
    pthread_mutex_unlock(&device->lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceSetMemPool(int ordinal, hipMemPool_t pool)
{
    return HIP_CALL(hipDeviceSetMemPool, set_pool(ordinal, pool));
}

/* Creates a memory pool with the properties. */
static hipError_t pool_create(hipMemPool_t *pool, const hipMemPoolProps *properties)
{
    if (!pool || !properties || properties->allocType != hipMemAllocationTypePinned ||
        properties->location.type != hipMemLocationTypeDevice)
        return hipErrorInvalidValue;
    struct hip_device *device = hip_device(properties->location.id);
    if (!device)
        return hipErrorInvalidValue;
    *pool = create_pool(device);
    return *pool ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties)
{
    return HIP_CALL(hipMemPoolCreate, pool_create(pool, properties));
}

/* Destroys the pool of a handle. */
static hipError_t pool_destroy(hipMemPool_t handle)
{
    struct ihipMemPoolHandle_t *pool = hip_object_get(handle, HIP_POOL);

    if (!pool)
        return hipErrorInvalidValue;
    struct hip_device *device = pool->device;
    bool is_default;
    pthread_mutex_lock(&device->lock);
    is_default = pool == device->default_pool;
    if (!is_default && pool == device->pool) {
        device->pool = device->default_pool;
        hip_object_put(pool);
    }
    pthread_mutex_unlock(&device->lock);
    if (!is_default)
        hip_object_remove(pool, HIP_POOL);
    hip_object_put(pool);
    return is_default ? hipErrorInvalidValue : hipSuccess;
}

HIP_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool)
{
    return HIP_CALL(hipMemPoolDestroy, pool_destroy(pool));
}

/* True if the attribute is on or off, not a number of bytes. */
static bool is_switch(hipMemPoolAttr attribute)
{
    return attribute <= hipMemPoolReuseAllowInternalDependencies;
}

/* Reads or sets an attribute of a pool. */
static hipError_t access_attribute(hipMemPool_t handle, hipMemPoolAttr attribute, void *value,
                                   bool set)
{
    if (!value || (unsigned)attribute - 1 >= ATTRIBUTES - 1)
        return hipErrorInvalidValue;
    struct ihipMemPoolHandle_t *pool = hip_object_get(handle, HIP_POOL);
    if (!pool)
        return hipErrorInvalidValue;
    hipError_t error = hipSuccess;
    pthread_mutex_lock(&pools.lock);
    uint64_t *slot = &pool->attributes[attribute];
    if (!set && is_switch(attribute))
        *(int *)value = (int)*slot;
    else if (!set)
        *(uint64_t *)value = *slot;
    else if (is_switch(attribute))
        *slot = (uint64_t)(*(int *)value != 0);
    else if (attribute == hipMemPoolAttrReleaseThreshold)
        *slot = *(uint64_t *)value;
    else if ((attribute == hipMemPoolAttrReservedMemHigh ||
              attribute == hipMemPoolAttrUsedMemHigh) &&
             *(uint64_t *)value == 0)
        *slot = slot[-1]; /* the high watermark restarts from the current value */
    else
        error = hipErrorInvalidValue;
    pthread_mutex_unlock(&pools.lock);
    hip_object_put(pool);
    return error;
}

HIP_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute,
                                             void *value)
{
    return HIP_CALL(hipMemPoolGetAttribute, access_attribute(pool, attribute, value, false));
}

HIP_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute,
                                             void *value)
{
    return HIP_CALL(hipMemPoolSetAttribute, access_attribute(pool, attribute, value, true));
}

/* Checks the pool. Nothing else is to do: no memory is cached, so there is none to trim. */
static hipError_t check_pool(hipMemPool_t handle)
{
    void *pool = hip_object_get(handle, HIP_POOL);

    hip_object_put(pool);
    return pool ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t keep)
{
    (void)keep;
    return HIP_CALL(hipMemPoolTrimTo, check_pool(pool));
}

/* Checks a location. Its value does not matter, since all devices share one address space. */
static hipError_t check_location(const hipMemLocation *location)
{
    if (!location || location->type != hipMemLocationTypeDevice)
        return hipErrorInvalidValue;
    return hip_device(location->id) ? hipSuccess : hipErrorInvalidDevice;
}

/* Sets which devices can access a pool. */
static hipError_t set_access(hipMemPool_t pool, const hipMemAccessDesc *list, size_t count)
{
    hipError_t error = list && count ? check_pool(pool) : hipErrorInvalidValue;

    for (size_t i = 0; error == hipSuccess && i < count; i++)
        error = check_location(&list[i].location);
    return error;
}

HIP_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *list,
                                          size_t count)
{
    return HIP_CALL(hipMemPoolSetAccess, set_access(pool, list, count));
}

/* Sets *flags to the access that a location has to a pool. */
static hipError_t get_access(hipMemAccessFlags *flags, hipMemPool_t pool,
                             const hipMemLocation *location)
{
    if (!flags || check_location(location) != hipSuccess)
        return hipErrorInvalidValue;
    *flags = hipMemAccessFlagsProtReadWrite;
    return check_pool(pool);
}

HIP_EXPORT hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool,
                                          hipMemLocation *location)
{
    return HIP_CALL(hipMemPoolGetAccess, get_access(flags, pool, location));
}
