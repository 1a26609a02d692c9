/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a modelled time, and the position in a capture at which they were recorded. */
#include "hip_order.h"

#include <stdlib.h>

/* Frees an event. */
static void destroy_event(struct hip_object *object)
{
    struct ihipEvent_t *event = (struct ihipEvent_t *)object;

    hip_capture_forget_event(event);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

/* Returns the error for an invalid event handle, with a message. */
static hipError_t invalid(hipEvent_t handle)
{
    return hip_fail(hipErrorInvalidHandle, "the event handle %p is invalid", (void *)handle);
}

/* True if `flags` are valid flags of an event. An event for other processes "also must" have
 * hipEventDisableTiming (hip_runtime_api.h). */
static bool are_flags(unsigned flags)
{
    enum { DISABLE_SYSTEM_FENCE = 0x20000000 }; /* flag that HIP 5.6 added */
    const unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                           DISABLE_SYSTEM_FENCE | hipEventReleaseToDevice | hipEventReleaseToSystem;

    const unsigned release =
        flags & (DISABLE_SYSTEM_FENCE | hipEventReleaseToDevice | hipEventReleaseToSystem);

    return !(flags & ~known) && !(release & (release - 1)) &&
           (!(flags & hipEventInterprocess) || flags & hipEventDisableTiming);
}

hipError_t hip_event_create(hipEvent_t *handle, unsigned flags)
{
    struct hip_device *device = hip_current_device();

    if (!handle || !are_flags(flags))
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    struct ihipEvent_t *event = calloc(1, sizeof(*event));
    if (!event)
        return hipErrorOutOfMemory;
    event->flags = flags;
    event->device = device->ordinal;
    pthread_mutex_init(&event->lock, NULL);
    hip_object_add(&event->object, HIP_EVENT, destroy_event);
    *handle = event;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipEventCreate(hipEvent_t *event)
{
    return HIP_CALL(hipEventCreate, hip_event_create(event, 0));
}

HIP_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    return HIP_CALL(hipEventCreateWithFlags, hip_event_create(event, flags));
}

HIP_EXPORT hipError_t hipEventDestroy(hipEvent_t event)
{
    return HIP_CALL(hipEventDestroy,
                    hip_object_remove(event, HIP_EVENT) ? hipSuccess : invalid(event));
}

hipError_t hip_event_record(hipEvent_t handle, hipStream_t stream_handle)
{
    struct ihipEvent_t *event = hip_object_get(handle, HIP_EVENT);
    hipError_t error;

    if (!event)
        return invalid(handle);
    if (!hip_is_capturing(stream_handle, &error)) {
        hip_capture_forget_event(event);
        const bool shared = event->flags & hipEventInterprocess;
        error = hip_submit(stream_handle, (struct hip_work){.kind = WORK_RECORD, .event = event});
        if (shared)
            hip_order_drain();
        return error;
    }
    struct ihipStream_t *stream = hip_stream_get(stream_handle);
    error = stream ? hip_capture_record(stream, event) : hipErrorContextIsDestroyed;
    hip_object_put(stream);
    hip_object_put(event);
    return error;
}

HIP_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    return HIP_CALL(hipEventRecord, hip_event_record(event, stream));
}

HIP_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream,
                                              unsigned int flags)
{
    return HIP_CALL(hipEventRecordWithFlags,
                    flags > 1 ? hipErrorInvalidValue : hip_event_record(event, stream));
}

/* Makes later work of the stream wait for the event. */
static hipError_t wait(hipStream_t stream_handle, hipEvent_t handle, unsigned flags)
{
    struct ihipEvent_t *event = hip_object_get(handle, HIP_EVENT);
    hipError_t error;

    if (!event)
        return invalid(handle);
    struct ihipStream_t *stream = flags ? NULL : hip_stream_get(stream_handle);
    if (!stream) {
        hip_object_put(event);
        return flags ? hipErrorInvalidValue : hipErrorContextIsDestroyed;
    }
    if (hip_capture_wait(stream, event, &error))
        hip_object_put(event);
    else
        error = hip_submit(stream_handle, (struct hip_work){.kind = WORK_WAIT, .event = event});
    hip_object_put(stream);
    return error;
}

HIP_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
    return HIP_CALL(hipStreamWaitEvent, wait(stream, event, flags));
}

/* Sets *time to the modelled time of an event. Returns an error if it is not known yet, or if the
 * event has no time and `must_be_timed` is set. */
static hipError_t query(hipEvent_t handle, double *time, bool must_be_timed)
{
    struct ihipEvent_t *event = hip_object_get(handle, HIP_EVENT);
    hipError_t error = hipSuccess;

    if (!event)
        return invalid(handle);
    const bool done = hip_order_event_done(event);
    pthread_mutex_lock(&event->lock);
    if (hip_event_is_captured(event))
        error = hipErrorCapturedEvent;
    else if (!done)
        error = hipErrorNotReady;
    else if (must_be_timed && (!event->recorded || event->flags & hipEventDisableTiming))
        error = hipErrorInvalidHandle;
    *time = event->time;
    pthread_mutex_unlock(&event->lock);
    hip_object_put(event);
    return error;
}

HIP_EXPORT hipError_t hipEventQuery(hipEvent_t event)
{
    double time;

    return HIP_CALL(hipEventQuery, query(event, &time, false));
}

/* Waits until the event is complete. */
static hipError_t synchronize(hipEvent_t event)
{
    struct hip_device *device;
    double time;
    struct ihipEvent_t *known = hip_object_get(event, HIP_EVENT);

    if (known)
        hip_order_wait_event(known);
    hip_object_put(known);
    hipError_t error = query(event, &time, false);

    if (error != hipSuccess || !(device = hip_current_device()))
        return error;
    pthread_mutex_lock(&device->lock);
    if (time > device->synchronized_at)
        device->synchronized_at = time;
    pthread_mutex_unlock(&device->lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipEventSynchronize(hipEvent_t event)
{
    return HIP_CALL(hipEventSynchronize, synchronize(event));
}

/* Sets *milliseconds to the modelled time between two events. */
static hipError_t elapsed(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    double from, to;

    if (!milliseconds)
        return hipErrorInvalidValue;
    hipError_t error = query(start, &from, true);
    if (error == hipSuccess)
        error = query(stop, &to, true);
    if (error == hipSuccess)
        *milliseconds = (float)((to - from) / 1000.0);
    return error;
}

HIP_EXPORT hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    return HIP_CALL(hipEventElapsedTime, elapsed(milliseconds, start, stop));
}
