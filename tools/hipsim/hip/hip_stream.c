/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: submission, modelled time, synchronisation. */
#include "hip_order.h"

#include <stdlib.h>

/* Frees a stream. */
static void destroy_stream(struct hip_object *object)
{
    struct ihipStream_t *stream = (struct ihipStream_t *)object;

    hip_order_free_slot(stream->slot);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Creates a stream of the device. NULL: no memory. */
static struct ihipStream_t *create_stream(struct hip_device *device, unsigned flags, int priority,
                                          bool is_null)
{
    static _Atomic uint64_t streams;
    struct ihipStream_t *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->id = atomic_fetch_add(&streams, 1);
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->is_null = is_null;
    stream->slot = hip_order_slot(is_null);
    pthread_mutex_init(&stream->lock, NULL);
    hip_object_add(&stream->object, HIP_STREAM, destroy_stream);
    /* The device's null stream is the first in the list of its streams. */
    pthread_mutex_lock(&device->lock);
    if (is_null) {
        device->null_stream = stream;
    } else {
        stream->next = device->null_stream->next;
        device->null_stream->next = stream;
        hip_object_ref(stream);
    }
    pthread_mutex_unlock(&device->lock);
    return stream;
}

/* The functions from here on make the null stream and the streams of threads. */

static pthread_once_t per_thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t per_thread_key;

/* A thread's own streams, by device. */
struct per_thread {
    struct ihipStream_t *streams[HIP_MAX_DEVICES];
};

static void unlist(struct ihipStream_t *stream);

/* Destroys a thread's own streams when the thread ends. */
static void end_thread(void *value)
{
    struct per_thread *own = value;

    for (unsigned i = 0; i < HIP_MAX_DEVICES; i++) {
        if (!own->streams[i])
            continue;
        unlist(own->streams[i]);
        hip_object_remove(own->streams[i], HIP_STREAM);
    }
    free(own);
}

/* Creates the key of the threads' own streams. */
static void make_per_thread_key(void) { pthread_key_create(&per_thread_key, end_thread); }

/* Returns the calling thread's own stream of the device, which is created at first use. */
static struct ihipStream_t *per_thread_stream(struct hip_device *device)
{
    pthread_once(&per_thread_once, make_per_thread_key);
    struct per_thread *own = pthread_getspecific(per_thread_key);

    if (!own) {
        own = calloc(1, sizeof(*own));
        if (!own)
            return NULL;
        pthread_setspecific(per_thread_key, own);
    }
    struct ihipStream_t **stream = &own->streams[device->ordinal];
    if (!*stream)
        *stream = create_stream(device, hipStreamDefault, 0, false);
    return *stream;
}

bool hip_stream_create_null(struct hip_device *device)
{
    return create_stream(device, hipStreamDefault, 0, true) != NULL;
}

struct ihipStream_t *hip_stream_get(hipStream_t handle)
{
    struct hip_device *device = hip_current_device();

    if (!device)
        return NULL;
    if (!hip_stream_is_legacy(handle) && handle != hipStreamPerThread)
        return hip_object_get(handle, HIP_STREAM);
    struct ihipStream_t *stream =
        hip_stream_is_legacy(handle) ? device->null_stream : per_thread_stream(device);
    if (stream)
        hip_object_ref(stream);
    return stream;
}

struct hip_device *hip_stream_device(hipStream_t handle)
{
    struct ihipStream_t *stream =
        handle == hipStreamPerThread ? NULL : hip_object_get(handle, HIP_STREAM);
    struct hip_device *device = stream ? stream->device : hip_current_device();

    if (stream)
        hip_object_put(stream);
    return device;
}

/* The functions from here on run a stream's work. */

/* True if the stream waits for the null stream. */
static bool is_blocking(const struct ihipStream_t *stream)
{
    return !(stream->flags & hipStreamNonBlocking);
}

/* Locks the stream. */
static void lock_stream(struct ihipStream_t *stream)
{
    if (stream->is_null)
        pthread_rwlock_wrlock(&stream->device->legacy);
    else if (is_blocking(stream))
        pthread_rwlock_rdlock(&stream->device->legacy);
    pthread_mutex_lock(&stream->lock);
}

/* Unlocks the stream. */
static void unlock_stream(struct ihipStream_t *stream)
{
    pthread_mutex_unlock(&stream->lock);
    if (stream->is_null || is_blocking(stream))
        pthread_rwlock_unlock(&stream->device->legacy);
}

/* Returns the modelled time, in microseconds, at which work submitted now may start. It is after
 * the stream's earlier work, after work that the host has waited for, and by the rules of the
 * legacy null stream. The caller has locked the stream. */
static double start_time(struct ihipStream_t *stream)
{
    struct hip_device *device = stream->device;
    double time = stream->time;

    pthread_mutex_lock(&device->lock);
    if (device->synchronized_at > time)
        time = device->synchronized_at;
    if (stream->is_null) {
        for (struct ihipStream_t *other = stream->next; other; other = other->next)
            if (is_blocking(other) && other->time > time)
                time = other->time;
    } else if (is_blocking(stream) && device->null_stream->time > time) {
        time = device->null_stream->time;
    }
    pthread_mutex_unlock(&device->lock);
    return time;
}

/* True if a kernel ran and failed. A refused launch was reported already, and nothing ran. */
static bool is_fault(hipError_t error)
{
    return error == hipErrorIllegalAddress || error == hipErrorLaunchFailure ||
           error == hipErrorLaunchTimeOut || error == hipErrorAssert;
}

hipError_t hip_stream_run(struct ihipStream_t *stream, const struct hip_work *work)
{
    /* A host function runs without locks, so that a HIP call in it, which is not allowed, cannot
     * hang. */
    if (work->kind == WORK_HOST) {
        work->host.fn(work->host.data);
        return hipSuccess;
    }
    lock_stream(stream);
    double time = start_time(stream);
    hipError_t error = hip_work_run(work, stream->device, &time);
    stream->time = time;
    if (is_fault(error) && stream->fault == hipSuccess)
        stream->fault = error;
    unlock_stream(stream);
    return error;
}

void hip_stream_fail(struct ihipStream_t *stream, hipError_t error)
{
    lock_stream(stream);
    if (stream->fault == hipSuccess)
        stream->fault = error;
    unlock_stream(stream);
}

/* Returns the error for an invalid stream handle, with a message. */
static hipError_t invalid_stream(hipStream_t handle)
{
    return hip_fail(hipErrorContextIsDestroyed, "the stream handle %p is invalid", (void *)handle);
}

hipError_t hip_submit_borrowed(hipStream_t handle, const struct hip_work *work)
{
    struct ihipStream_t *stream = hip_stream_get(handle);

    if (!stream)
        return invalid_stream(handle);
    hipError_t error = hip_order_submit(stream, work);
    hip_object_put(stream);
    return error;
}

hipError_t hip_submit(hipStream_t handle, struct hip_work work)
{
    hipError_t error;

    if (!hip_is_capturing(handle, &error)) {
        error = hip_submit_borrowed(handle, &work);
        hip_work_release(&work);
        return error;
    }
    struct ihipStream_t *stream = hip_stream_get(handle);
    if (!stream) {
        hip_work_release(&work);
        return invalid_stream(handle);
    }
    error = hip_capture_add(stream, work);
    hip_object_put(stream);
    return error;
}

/* Returns the pending fault of the stream and clears it. Sets *time to the end of its work. */
static hipError_t take_fault(struct ihipStream_t *stream, double *time)
{
    lock_stream(stream);
    hipError_t fault = stream->fault;
    stream->fault = hipSuccess;
    *time = start_time(stream);
    unlock_stream(stream);
    return fault;
}

/* Records that the host has waited for the device until modelled time `time`. */
static void advance_host(struct hip_device *device, double time)
{
    pthread_mutex_lock(&device->lock);
    if (time > device->synchronized_at)
        device->synchronized_at = time;
    pthread_mutex_unlock(&device->lock);
}

hipError_t hip_stream_wait_done(hipStream_t handle)
{
    hipError_t error;
    double time;

    if (hip_is_capturing(handle, &error))
        return error;
    struct ihipStream_t *stream = hip_stream_get(handle);
    if (!stream)
        return invalid_stream(handle);
    hip_order_wait_stream(stream);
    error = take_fault(stream, &time);
    advance_host(stream->device, time);
    hip_object_put(stream);
    return error;
}

hipError_t hip_submit_and_wait(hipStream_t stream, struct hip_work work)
{
    hipError_t error;

    if (hip_is_capturing(stream, &error)) {
        hip_work_release(&work);
        return error;
    }
    error = hip_submit(stream, work);
    if (error != hipSuccess)
        return error;
    return hip_stream_wait_done(stream);
}

/* Returns a reference to the next stream in the device's list. Drops the reference to `stream`. */
static struct ihipStream_t *next_stream(struct hip_device *device, struct ihipStream_t *stream)
{
    pthread_mutex_lock(&device->lock);
    struct ihipStream_t *next = stream->next;
    if (next)
        hip_object_ref(next);
    pthread_mutex_unlock(&device->lock);
    hip_object_put(stream);
    return next;
}

hipError_t hip_device_wait_done(struct hip_device *device)
{
    hipError_t error = hipSuccess;
    struct ihipStream_t *stream = device->null_stream;

    hip_order_wait_all();
    hip_object_ref(stream);
    for (; stream; stream = next_stream(device, stream)) {
        double time;
        hipError_t fault = take_fault(stream, &time);
        if (error == hipSuccess)
            error = fault;
        advance_host(device, time);
    }
    return error;
}

HIPSIM_API double hipsim_device_time(int ordinal)
{
    struct hip_device *device = hip_device(ordinal);

    if (!device)
        return -1.0;
    pthread_rwlock_wrlock(&device->legacy);
    pthread_mutex_lock(&device->lock);
    double time = device->synchronized_at;
    for (struct ihipStream_t *s = device->null_stream; s; s = s->next)
        if (s->time > time)
            time = s->time;
    pthread_mutex_unlock(&device->lock);
    pthread_rwlock_unlock(&device->legacy);
    return time;
}

/* From here on there are functions of the HIP API. */

/* Removes the stream from the list of its device. */
static void unlist(struct ihipStream_t *stream)
{
    struct hip_device *device = stream->device;
    struct ihipStream_t *before;
    bool found = false;

    pthread_mutex_lock(&device->lock);
    for (before = device->null_stream; before; before = before->next) {
        if (before->next == stream) {
            before->next = stream->next;
            stream->next = NULL;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (found)
        hip_object_put(stream);
}

/* Creates a stream of the current device. */
static hipError_t make_stream(hipStream_t *stream, unsigned flags, int priority)
{
    struct hip_device *device = hip_current_device();

    if (!stream || (flags != hipStreamDefault && flags != hipStreamNonBlocking))
        return hipErrorInvalidValue;
    if (!device)
        return hipErrorNoDevice;
    priority = priority < -1 ? -1 : priority > 1 ? 1 : priority;
    *stream = create_stream(device, flags, priority, false);
    return *stream ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipStreamCreate(hipStream_t *stream)
{
    return HIP_CALL(hipStreamCreate, make_stream(stream, hipStreamDefault, 0));
}

HIP_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
    return HIP_CALL(hipStreamCreateWithFlags, make_stream(stream, flags, 0));
}

HIP_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags,
                                                  int priority)
{
    return HIP_CALL(hipStreamCreateWithPriority, make_stream(stream, flags, priority));
}

HIP_EXPORT hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words,
                                                   const uint32_t *mask)
{
    return HIP_CALL(hipExtStreamCreateWithCUMask, words && mask
                                                      ? make_stream(stream, hipStreamDefault, 0)
                                                      : hipErrorInvalidValue);
}

/* Returns a mask of all compute units. Programs may set masks, which have no effect on the
 * model. */
static hipError_t get_mask(uint32_t words, uint32_t *mask)
{
    struct hip_device *device = hip_current_device();

    if (!device || !mask || words == 0)
        return hipErrorInvalidValue;
    for (uint32_t i = 0; i < words; i++) {
        int left = device->facts->compute_units - (int)i * 32;
        mask[i] = left >= 32 ? UINT32_MAX : left > 0 ? (UINT32_C(1) << left) - 1 : 0;
    }
    return hipSuccess;
}

HIP_EXPORT hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t *mask)
{
    (void)stream;
    return HIP_CALL(hipExtStreamGetCUMask, get_mask(words, mask));
}

HIP_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 1;
    if (greatest)
        *greatest = -1;
    return HIP_CALL(hipDeviceGetStreamPriorityRange, hipSuccess);
}

/* Destroys the stream of a handle. */
static hipError_t destroy(hipStream_t handle)
{
    if (hip_stream_is_legacy(handle) || handle == hipStreamPerThread)
        return hipErrorInvalidHandle;
    struct ihipStream_t *stream = hip_object_get(handle, HIP_STREAM);
    if (!stream || stream->is_null) {
        hip_object_put(stream);
        return invalid_stream(handle);
    }
    hip_capture_abandon(stream);
    hip_order_wait_stream(stream);
    unlist(stream);
    hip_object_remove(stream, HIP_STREAM);
    hip_object_put(stream);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipStreamDestroy(hipStream_t stream)
{
    return HIP_CALL(hipStreamDestroy, destroy(stream));
}

/* Returns whether the work of a stream is done. */
static hipError_t query(hipStream_t handle)
{
    hipError_t error;
    struct ihipStream_t *stream = hip_stream_get(handle);

    if (!stream)
        return invalid_stream(handle);
    const bool done = hip_order_stream_done(stream);
    hip_object_put(stream);
    if (hip_is_capturing(handle, &error))
        return error;
    return done ? hipSuccess : hipErrorNotReady;
}

HIP_EXPORT hipError_t hipStreamQuery(hipStream_t stream)
{
    return HIP_CALL(hipStreamQuery, query(stream));
}

HIP_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream)
{
    return HIP_CALL(hipStreamSynchronize, hip_stream_wait_done(stream));
}

/* Sets the flags, priority and device of a stream. */
static hipError_t get_flags(hipStream_t handle, unsigned *flags, int *priority, int *device)
{
    struct ihipStream_t *stream = hip_stream_get(handle);

    if (!stream)
        return invalid_stream(handle);
    if (flags)
        *flags = stream->flags;
    if (priority)
        *priority = stream->priority;
    if (device)
        *device = stream->device->ordinal;
    hip_object_put(stream);
    return flags || priority || device ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id);

/* Sets *id to the number of a stream. */
static hipError_t get_id(hipStream_t handle, unsigned long long *id)
{
    struct ihipStream_t *stream = id ? hip_stream_get(handle) : NULL;

    if (!stream)
        return id ? hipErrorContextIsDestroyed : hipErrorInvalidValue;
    *id = stream->id;
    hip_object_put(stream);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id)
{
    return HIP_CALL(hipStreamGetId, get_id(stream, id));
}

HIP_EXPORT hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags)
{
    return HIP_CALL(hipStreamGetFlags, get_flags(stream, flags, NULL, NULL));
}

HIP_EXPORT hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
    return HIP_CALL(hipStreamGetPriority, get_flags(stream, NULL, priority, NULL));
}

HIP_EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device)
{
    return HIP_CALL(hipStreamGetDevice, get_flags(stream, NULL, NULL, device));
}

HIP_EXPORT int hipGetStreamDeviceId(hipStream_t stream)
{
    int device = -1;

    if (hip_enter("hipGetStreamDeviceId") == hipSuccess)
        get_flags(stream, NULL, NULL, &device);
    return device;
}

/* Submits a call of a host function to the stream. */
static hipError_t host_function(hipStream_t stream, hipHostFn_t fn, void *data)
{
    if (!fn)
        return hipErrorInvalidValue;
    return hip_submit(stream, (struct hip_work){.kind = WORK_HOST, .host = {fn, data}});
}

HIP_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *data)
{
    return HIP_CALL(hipLaunchHostFunc, host_function(stream, fn, data));
}

/* Submits a callback with the stream's status to the stream. */
static hipError_t add_callback(hipStream_t stream, hipStreamCallback_t callback, void *data,
                               unsigned flags)
{
    hipError_t error;

    if (!callback || flags != 0)
        return hipErrorInvalidValue;
    if (hip_is_capturing(stream, &error))
        return hipErrorStreamCaptureUnsupported;
    hip_order_drain();
    error = query(stream);
    if (error == hipSuccess)
        callback(stream, hipSuccess, data);
    return error;
}

HIP_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback,
                                           void *data, unsigned int flags)
{
    return HIP_CALL(hipStreamAddCallback, add_callback(stream, callback, data, flags));
}
