/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events of other processes. Work runs when it is submitted, so an event that another
 * process opens is complete already. With option `streams`, the work before a record of such an
 * event runs at the record.
 */
#include "hip_order.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_share.h"

enum { LAZY_PEER_ACCESS = 1 }; /* value of hipIpcMemLazyEnablePeerAccess; HIP 5 has 0 */
enum { MEMORY_MAGIC = 0x6d706968, EVENT_MAGIC = 0x65706968 };

/* Contents of a handle's 64 bytes. */
struct ipc_handle {
    uint32_t magic;
    int32_t device;
    struct hipsim_mem_place place;
    /* number of the allocation, which differs for allocations at the same address */
    uint64_t serial;
};

static_assert(sizeof(struct ipc_handle) <= HIP_IPC_HANDLE_SIZE, "a handle has room");

/* Memory of another process that is open, and how often it was opened. */
struct opened {
    struct ipc_handle handle;
    void *pointer;
    unsigned count;
    struct opened *next;
};

static struct {
    pthread_mutex_t lock;
    struct opened *all;
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The functions from here on share memory between processes. */

/* Sets *out to a handle that other processes can open, for the memory at `pointer`. */
static hipError_t get_memory(hipIpcMemHandle_t *out, void *pointer)
{
    struct ipc_handle handle = {.magic = MEMORY_MAGIC};
    const struct hipsim_mem_slot *slot = pointer ? hipsim_mem_search((uintptr_t)pointer) : NULL;

    if (!out || !slot || slot->kind != HIPSIM_MEM_DEVICE)
        return hip_fail(hipErrorInvalidValue, "%p is no memory of a device", pointer);
    hip_order_drain();
    if (!hipsim_mem_share((uintptr_t)pointer, &handle.place))
        return hip_fail(hipErrorInvalidValue, "%p cannot be shared: %s", pointer, strerror(errno));
    handle.device = slot->device;
    handle.serial = atomic_load(&slot->serial);
    memset(out, 0, sizeof(*out));
    memcpy(out, &handle, sizeof(handle));
    return hipSuccess;
}

HIP_EXPORT hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *pointer)
{
    return HIP_CALL(hipIpcGetMemHandle, get_memory(handle, pointer));
}

/* Opens memory of another process, or counts another opening of it. The caller has locked the
 * list. */
static hipError_t open_locked(void **pointer, const struct ipc_handle *handle, unsigned device)
{
    struct opened *o = opened.all;

    while (o && memcmp(&o->handle, handle, sizeof(*handle)) != 0)
        o = o->next;
    if (!o) {
        o = calloc(1, sizeof(*o));
        if (!o)
            return hipErrorOutOfMemory;
        o->pointer = hipsim_mem_open(&handle->place, device);
        if (!o->pointer) {
            free(o);
            return hip_fail(hipErrorMapFailed, "memory of process %d cannot be opened: %s",
                            (int)handle->place.process, strerror(errno));
        }
        o->handle = *handle;
        o->next = opened.all;
        opened.all = o;
    }
    o->count++;
    *pointer = o->pointer;
    return hipSuccess;
}

/* Opens memory of another process, and sets *pointer to its address. */
static hipError_t open_memory(void **pointer, const hipIpcMemHandle_t *given, unsigned flags)
{
    const struct hip_device *device = hip_current_device();
    struct ipc_handle handle;

    memcpy(&handle, given, sizeof(handle));
    if (!pointer || flags > LAZY_PEER_ACCESS || handle.magic != MEMORY_MAGIC)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    if (handle.place.process == getpid())
        return hip_fail(hipErrorInvalidContext, "the handle is of this process's own memory");
    pthread_mutex_lock(&opened.lock);
    const hipError_t error = open_locked(pointer, &handle, (unsigned)device->ordinal);
    pthread_mutex_unlock(&opened.lock);
    return error;
}

HIP_EXPORT hipError_t hipIpcOpenMemHandle(void **pointer, hipIpcMemHandle_t handle,
                                          unsigned int flags)
{
    return HIP_CALL(hipIpcOpenMemHandle, open_memory(pointer, &handle, flags));
}

/* Closes memory of another process. */
static hipError_t close_memory(void *pointer)
{
    struct opened **link = &opened.all, *dead = NULL;

    hip_order_drain();
    pthread_mutex_lock(&opened.lock);
    while (*link && (*link)->pointer != pointer)
        link = &(*link)->next;
    const bool found = *link != NULL;
    if (found && --(*link)->count == 0) {
        dead = *link;
        *link = dead->next;
        hip_order_forget(pointer, dead->handle.place.size);
        hipsim_mem_close(pointer);
    }
    pthread_mutex_unlock(&opened.lock);
    free(dead);
    return found ? hipSuccess
                 : hip_fail(hipErrorInvalidValue, "%p is no opened memory of another process",
                            pointer);
}

HIP_EXPORT hipError_t hipIpcCloseMemHandle(void *pointer)
{
    return HIP_CALL(hipIpcCloseMemHandle, close_memory(pointer));
}

/* The functions from here on share events between processes. */

/* Sets *out to a handle that other processes can open, for an event. */
static hipError_t get_event(hipIpcEventHandle_t *out, hipEvent_t handle)
{
    struct ihipEvent_t *event = out ? hip_object_get(handle, HIP_EVENT) : NULL;
    const struct ipc_handle text = {.magic = EVENT_MAGIC, .place.process = getpid()};

    if (!event)
        return hipErrorInvalidValue;
    const bool allowed = event->flags & hipEventInterprocess;
    hip_object_put(event);
    if (!allowed)
        return hip_fail(hipErrorInvalidHandle, "the event was not made with hipEventInterprocess");
    hip_order_drain();
    memset(out, 0, sizeof(*out));
    memcpy(out, &text, sizeof(text));
    return hipSuccess;
}

HIP_EXPORT hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event)
{
    return HIP_CALL(hipIpcGetEventHandle, get_event(handle, event));
}

/* Opens an event of another process. */
static hipError_t open_event(hipEvent_t *event, const hipIpcEventHandle_t *given)
{
    struct ipc_handle handle;

    memcpy(&handle, given, sizeof(handle));
    if (!event || handle.magic != EVENT_MAGIC)
        return hipErrorInvalidValue;
    if (handle.place.process == getpid())
        return hip_fail(hipErrorInvalidContext, "the handle is of this process's own event");
    return hip_event_create(event, hipEventInterprocess | hipEventDisableTiming);
}

HIP_EXPORT hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle)
{
    return HIP_CALL(hipIpcOpenEventHandle, open_event(event, &handle));
}
