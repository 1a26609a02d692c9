/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements contexts. On AMD GPUs a context is little more than a name for a device. */
#include "hip.h"

#include <stdlib.h>

struct ihipCtx_t {
    struct hip_object object;
    int device;
    unsigned flags;
};

#define STACK (sizeof((struct hip_thread *)0)->contexts / sizeof(struct ihipCtx_t *))

static void destroy_context(struct hip_object *object) { free(object); }

/* Creates a context of the device. NULL: no memory. */
static struct ihipCtx_t *make(int device, unsigned flags)
{
    struct ihipCtx_t *context = calloc(1, sizeof(*context));

    if (!context)
        return NULL;
    context->device = device;
    context->flags = flags;
    hip_object_add(&context->object, HIP_CONTEXT, destroy_context);
    return context;
}

/* Returns the ordinal of a context's device, and sets *flags. Negative if the handle is invalid. */
static int device_of(hipCtx_t handle, unsigned *flags)
{
    struct ihipCtx_t *context = hip_object_get(handle, HIP_CONTEXT);
    int device = context ? context->device : -1;

    if (context && flags)
        *flags = context->flags;
    hip_object_put(context);
    return device;
}

/* Returns the device's primary context, which is created at first use. NULL: no memory. */
static struct ihipCtx_t *primary(struct hip_device *device)
{
    pthread_mutex_lock(&device->lock);
    if (!device->primary)
        device->primary = make(device->ordinal, 0);
    struct ihipCtx_t *context = device->primary;
    pthread_mutex_unlock(&device->lock);
    return context;
}

/* Makes the context the top of the thread's stack. */
static hipError_t push(hipCtx_t context)
{
    struct hip_thread *thread = hip_thread();
    int device = device_of(context, NULL);

    if (device < 0)
        return hipErrorInvalidContext;
    if (thread->ncontexts == STACK)
        return hip_fail(hipErrorInvalidContext, "more than %zu contexts are pushed", STACK);
    thread->contexts[thread->ncontexts++] = context;
    thread->device = device;
    return hipSuccess;
}

/* Creates a context of the device `ordinal` and makes it current. */
static hipError_t create(hipCtx_t *context, unsigned flags, int ordinal)
{
    if (!context)
        return hipErrorInvalidValue;
    if (!hip_device(ordinal))
        return hipErrorInvalidDevice;
    *context = make(ordinal, flags);
    return *context ? push(*context) : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipCtxCreate(hipCtx_t *context, unsigned int flags, hipDevice_t device)
{
    return HIP_CALL(hipCtxCreate, create(context, flags, device));
}

/* Destroys a context. */
static hipError_t destroy(hipCtx_t context)
{
    struct hip_thread *thread = hip_thread();

    if (!hip_object_remove(context, HIP_CONTEXT))
        return hipErrorInvalidContext;
    if (thread->ncontexts && thread->contexts[thread->ncontexts - 1] == context)
        thread->ncontexts--;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipCtxDestroy(hipCtx_t context)
{
    return HIP_CALL(hipCtxDestroy, destroy(context));
}

/* Sets *context to the current context. */
static hipError_t current(hipCtx_t *context)
{
    struct hip_thread *thread = hip_thread();
    struct hip_device *device = hip_current_device();

    if (!context)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    *context = thread->ncontexts ? thread->contexts[thread->ncontexts - 1] : primary(device);
    return *context ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t *context)
{
    return HIP_CALL(hipCtxGetCurrent, current(context));
}

HIP_EXPORT hipError_t hipCtxPushCurrent(hipCtx_t context)
{
    return HIP_CALL(hipCtxPushCurrent, push(context));
}

/* Removes the top of the thread's stack of contexts, and sets *context to it. */
static hipError_t pop(hipCtx_t *context)
{
    struct hip_thread *thread = hip_thread();

    if (thread->ncontexts == 0)
        return hipErrorInvalidContext;
    thread->ncontexts--;
    if (context)
        *context = thread->contexts[thread->ncontexts];
    if (thread->ncontexts) {
        int device = device_of(thread->contexts[thread->ncontexts - 1], NULL);
        if (device >= 0)
            thread->device = device;
    }
    return hipSuccess;
}

HIP_EXPORT hipError_t hipCtxPopCurrent(hipCtx_t *context)
{
    return HIP_CALL(hipCtxPopCurrent, pop(context));
}

/* Replaces the top of the thread's stack by the context. */
static hipError_t set_current(hipCtx_t context)
{
    struct hip_thread *thread = hip_thread();

    if (!context)
        return thread->ncontexts ? pop(NULL) : hipSuccess;
    if (device_of(context, NULL) < 0)
        return hipErrorInvalidContext;
    if (thread->ncontexts)
        thread->ncontexts--;
    return push(context);
}

HIP_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t context)
{
    return HIP_CALL(hipCtxSetCurrent, set_current(context));
}

HIP_EXPORT hipError_t hipCtxGetDevice(hipDevice_t *device)
{
    return HIP_CALL(hipCtxGetDevice,
                    device ? (*device = hip_thread()->device, hipSuccess) : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipCtxGetApiVersion(hipCtx_t context, int *version)
{
    return HIP_CALL(hipCtxGetApiVersion, !version ? hipErrorInvalidValue
                                         : context && device_of(context, NULL) < 0
                                             ? hipErrorInvalidContext
                                             : (*version = 4, hipSuccess));
}

HIP_EXPORT hipError_t hipCtxGetFlags(unsigned int *flags)
{
    const struct hip_thread *thread = hip_thread();

    if (flags)
        *flags = 0;
    if (flags && thread->ncontexts)
        device_of(thread->contexts[thread->ncontexts - 1], flags);
    return HIP_CALL(hipCtxGetFlags, flags ? hipSuccess : hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipCtxSynchronize(void)
{
    struct hip_device *device;

    return HIP_CALL(hipCtxSynchronize, (device = hip_current_device())
                                           ? hip_device_wait_done(device)
                                           : hipErrorNoDevice);
}

HIP_EXPORT hipError_t hipCtxGetCacheConfig(hipFuncCache_t *config)
{
    return hipDeviceGetCacheConfig(config);
}

HIP_EXPORT hipError_t hipCtxSetCacheConfig(hipFuncCache_t config)
{
    return hipDeviceSetCacheConfig(config);
}

HIP_EXPORT hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config)
{
    return hipDeviceGetSharedMemConfig(config);
}

HIP_EXPORT hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config)
{
    return hipDeviceSetSharedMemConfig(config);
}

HIP_EXPORT hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags)
{
    return hipDeviceEnablePeerAccess(device_of(peer, NULL), flags);
}

HIP_EXPORT hipError_t hipCtxDisablePeerAccess(hipCtx_t peer)
{
    return hipDeviceDisablePeerAccess(device_of(peer, NULL));
}

/* The functions from here on handle primary contexts. */

/* Sets *context to the primary context of the device `ordinal`. */
static hipError_t retain(hipCtx_t *context, int ordinal)
{
    struct hip_device *device = hip_device(ordinal);

    if (!context)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorInvalidDevice;
    *context = primary(device);
    return *context ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t device)
{
    return HIP_CALL(hipDevicePrimaryCtxRetain, retain(context, device));
}

HIP_EXPORT hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device)
{
    return HIP_CALL(hipDevicePrimaryCtxRelease,
                    hip_device(device) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_EXPORT hipError_t hipDevicePrimaryCtxReset(hipDevice_t device)
{
    return HIP_CALL(hipDevicePrimaryCtxReset,
                    hip_device(device) ? hipSuccess : hipErrorInvalidDevice);
}

/* Sets the flags of the device's primary context, and whether it is active. */
static hipError_t primary_state(int ordinal, unsigned *flags, int *active)
{
    struct hip_device *device = hip_device(ordinal);

    if (!flags || !active)
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorInvalidDevice;
    pthread_mutex_lock(&device->lock);
    *flags = device->flags;
    *active = device->primary != NULL;
    pthread_mutex_unlock(&device->lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int *flags,
                                                  int *active)
{
    return HIP_CALL(hipDevicePrimaryCtxGetState, primary_state(device, flags, active));
}

/* As in HIP, the flags of a context that exists cannot change. */
HIP_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipDevicePrimaryCtxSetFlags,
                    hip_device(device) ? hipErrorContextAlreadyInUse : hipErrorInvalidDevice);
}
