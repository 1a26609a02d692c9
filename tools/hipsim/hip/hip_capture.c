/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: work becomes graph nodes. Streams and events record the nodes on which later work
 * depends. */
#include "hip.h"

#include <stdlib.h>

/* A capture of one or more streams, from its begin to its end. */
struct hip_capture {
    struct ihipGraph *graph;
    struct ihipStream_t *origin;
    /* Thread that has begun the capture. */
    struct ihipStream_t *streams; /* streams that capture, linked by next_captured */
    hipStreamCaptureMode mode;
    unsigned long long id;
    pthread_t thread;
    bool invalid; /* true: a forbidden call was made, so the capture can only be ended */
};

static struct {
    pthread_mutex_t lock;
    unsigned active; /* number of captures that forbid the legacy null stream */
    unsigned long long last_id;
    /* Events that were recorded in captures. They are few, so a list suffices. */
    struct ihipEvent_t *events[4096];
    unsigned nevents;
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Copies a list of nodes. False without memory. */
static bool copy_nodes(struct hip_nodes *to, const struct hip_nodes *from)
{
    bool ok = true;

    for (size_t i = 0; ok && i < from->count; i++)
        ok = hip_nodes_add(to, from->items[i]);
    return ok;
}

bool hip_is_capturing(hipStream_t handle, hipError_t *error)
{
    bool capturing = false;

    if (hip_stream_is_legacy(handle)) {
        pthread_mutex_lock(&captures.lock);
        capturing = captures.active > 0;
        pthread_mutex_unlock(&captures.lock);
        *error = hipErrorStreamCaptureImplicit;
        return capturing;
    }
    struct ihipStream_t *stream = hip_stream_get(handle);
    if (!stream)
        return false;
    pthread_mutex_lock(&captures.lock);
    capturing = stream->capture != NULL;
    pthread_mutex_unlock(&captures.lock);
    *error = hipErrorStreamCaptureUnsupported;
    hip_object_put(stream);
    return capturing;
}

/* Adds the stream to the capture. */
static void join(struct hip_capture *capture, struct ihipStream_t *stream)
{
    stream->capture = capture;
    stream->next_captured = capture->streams;
    capture->streams = stream;
    hip_object_ref(stream);
}

/* Removes all streams and events from the capture and frees it. Returns the graph, which the caller
 * then owns. */
static struct ihipGraph *dissolve(struct hip_capture *capture)
{
    struct ihipGraph *graph = capture->graph;
    struct ihipStream_t *stream = capture->streams;

    while (stream) {
        struct ihipStream_t *next = stream->next_captured;
        stream->capture = NULL;
        stream->next_captured = NULL;
        hip_nodes_clear(&stream->frontier);
        hip_object_put(stream);
        stream = next;
    }
    for (unsigned i = 0; i < captures.nevents;) {
        struct ihipEvent_t *event = captures.events[i];
        if (event->capture != capture) {
            i++;
            continue;
        }
        event->capture = NULL;
        hip_nodes_clear(&event->frontier);
        captures.events[i] = captures.events[--captures.nevents];
    }
    hip_graph_lock();
    graph->captured = false;
    hip_graph_unlock();
    if (capture->mode != hipStreamCaptureModeRelaxed)
        captures.active--;
    free(capture);
    return graph;
}

hipError_t hip_capture_add(struct ihipStream_t *stream, struct hip_work work)
{
    struct hipGraphNode *node;
    hipError_t error;

    pthread_mutex_lock(&captures.lock);
    struct hip_capture *capture = stream->capture;
    if (!capture || capture->invalid) {
        error = capture ? hipErrorStreamCaptureInvalidated : hipErrorStreamCaptureImplicit;
        pthread_mutex_unlock(&captures.lock);
        hip_work_release(&work);
        return error;
    }
    hip_graph_lock();
    error = hip_graph_add(capture->graph, &stream->frontier, work, &node);
    hip_graph_unlock();
    if (error == hipSuccess) {
        stream->frontier.count = 0;
        if (!hip_nodes_add(&stream->frontier, node))
            error = hipErrorOutOfMemory;
    }
    capture->invalid = error != hipSuccess;
    pthread_mutex_unlock(&captures.lock);
    return error;
}

hipError_t hip_capture_record(struct ihipStream_t *stream, struct ihipEvent_t *event)
{
    hipError_t error = hipSuccess;

    hip_capture_forget_event(event);
    pthread_mutex_lock(&captures.lock);
    if (!stream->capture)
        error = hipErrorStreamCaptureImplicit;
    else if (captures.nevents == sizeof(captures.events) / sizeof(*captures.events) ||
             !copy_nodes(&event->frontier, &stream->frontier))
        error = hipErrorOutOfMemory;
    if (error == hipSuccess) {
        event->capture = stream->capture;
        captures.events[captures.nevents++] = event;
    }
    pthread_mutex_unlock(&captures.lock);
    return error;
}

bool hip_event_is_captured(const struct ihipEvent_t *event)
{
    pthread_mutex_lock(&captures.lock);
    bool captured = event->capture != NULL;
    pthread_mutex_unlock(&captures.lock);
    return captured;
}

bool hip_capture_wait(struct ihipStream_t *stream, struct ihipEvent_t *event, hipError_t *error)
{
    *error = hipSuccess;
    pthread_mutex_lock(&captures.lock);
    struct hip_capture *theirs = event->capture;
    bool concerned = theirs || stream->capture;
    if (theirs && !stream->capture && stream->is_null) {
        *error = hipErrorStreamCaptureImplicit;
    } else if (theirs) {
        if (!stream->capture)
            join(theirs, stream);
        if (stream->capture != theirs)
            *error = hipErrorStreamCaptureMerge;
        else if (!copy_nodes(&stream->frontier, &event->frontier))
            *error = hipErrorOutOfMemory;
    } else if (concerned) {
        *error = hipErrorStreamCaptureIsolation;
    }
    if (concerned && *error != hipSuccess && stream->capture)
        stream->capture->invalid = true;
    pthread_mutex_unlock(&captures.lock);
    return concerned;
}

void hip_capture_forget_event(struct ihipEvent_t *event)
{
    pthread_mutex_lock(&captures.lock);
    if (event->capture) {
        event->capture = NULL;
        hip_nodes_clear(&event->frontier);
        for (unsigned i = 0; i < captures.nevents; i++)
            if (captures.events[i] == event)
                captures.events[i] = captures.events[--captures.nevents];
    }
    pthread_mutex_unlock(&captures.lock);
}

void hip_capture_abandon(struct ihipStream_t *stream)
{
    struct ihipGraph *graph = NULL;

    pthread_mutex_lock(&captures.lock);
    if (stream->capture)
        graph = dissolve(stream->capture);
    pthread_mutex_unlock(&captures.lock);
    hip_graph_put(graph);
}

/* From here on there are functions of the HIP API. */

/* Starts a capture on the stream. The caller holds the lock. */
static hipError_t begin_locked(struct ihipStream_t *stream, hipStreamCaptureMode mode)
{
    if (stream->capture)
        return hipErrorIllegalState;
    struct hip_capture *capture = calloc(1, sizeof(*capture));
    struct ihipGraph *graph = capture ? hip_graph_create() : NULL;
    if (!graph) {
        free(capture);
        return hipErrorOutOfMemory;
    }
    graph->captured = true;
    *capture = (struct hip_capture){
        .graph = graph,
        .origin = stream,
        .mode = mode,
        .id = ++captures.last_id,
        .thread = pthread_self(),
    };
    join(capture, stream);
    if (mode != hipStreamCaptureModeRelaxed)
        captures.active++;
    return hipSuccess;
}

/* Starts a capture on the stream of the handle. */
static hipError_t begin(hipStream_t handle, hipStreamCaptureMode mode)
{
    if (hip_stream_is_legacy(handle))
        return hip_fail(hipErrorStreamCaptureUnsupported,
                        "the legacy null stream cannot be captured");
    if ((unsigned)mode > hipStreamCaptureModeRelaxed)
        return hipErrorInvalidValue;
    struct ihipStream_t *stream = hip_stream_get(handle);
    if (!stream)
        return hipErrorContextIsDestroyed;
    pthread_mutex_lock(&captures.lock);
    hipError_t error = begin_locked(stream, mode);
    pthread_mutex_unlock(&captures.lock);
    hip_object_put(stream);
    return error;
}

HIP_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    return HIP_CALL(hipStreamBeginCapture, begin(stream, mode));
}

/* True if the frontier of the stream that began the capture has every node without dependents. The
 * work of any other node would be lost. */
static bool is_joined(const struct hip_capture *capture)
{
    const struct hip_nodes *nodes = &capture->graph->nodes;

    for (size_t i = 0; i < nodes->count; i++) {
        bool needed = hip_nodes_have(&capture->origin->frontier, nodes->items[i]);
        for (size_t j = i + 1; !needed && j < nodes->count; j++)
            needed = hip_nodes_have(&nodes->items[j]->needs, nodes->items[i]);
        if (!needed)
            return false;
    }
    return true;
}

/* Ends the stream's capture and sets *graph to its graph. The caller holds the lock. */
static hipError_t end_locked(struct ihipStream_t *stream, struct ihipGraph **graph)
{
    struct hip_capture *capture = stream->capture;
    hipError_t error = hipSuccess;

    if (!capture)
        return hipErrorIllegalState;
    if (capture->origin != stream)
        return hipErrorStreamCaptureUnmatched;
    if (capture->mode != hipStreamCaptureModeRelaxed &&
        !pthread_equal(capture->thread, pthread_self()))
        return hipErrorStreamCaptureWrongThread;
    if (capture->invalid)
        error = hipErrorStreamCaptureInvalidated;
    else if (!is_joined(capture))
        error = hipErrorStreamCaptureUnjoined;
    *graph = dissolve(capture);
    return error;
}

/* Ends the capture of the handle's stream. */
static hipError_t end(hipStream_t handle, hipGraph_t *out)
{
    struct ihipGraph *graph = NULL;

    if (!out)
        return hipErrorInvalidValue;
    struct ihipStream_t *stream = handle ? hip_stream_get(handle) : NULL;
    if (!stream)
        return hipErrorIllegalState;
    pthread_mutex_lock(&captures.lock);
    hipError_t error = end_locked(stream, &graph);
    pthread_mutex_unlock(&captures.lock);
    hip_object_put(stream);
    if (error != hipSuccess)
        hip_graph_put(graph);
    *out = error == hipSuccess ? graph : NULL;
    return error;
}

HIP_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    return HIP_CALL(hipStreamEndCapture, end(stream, graph));
}

/* The results of hipStreamGetCaptureInfo and its later forms. */
struct capture_info {
    hipStreamCaptureStatus status;
    unsigned long long id;
    struct ihipGraph *graph;
    const hipGraphNode_t *nodes;
    size_t count;
};

/* Sets *info to the state of the capture on the handle's stream. */
static hipError_t info(hipStream_t handle, struct capture_info *info)
{
    *info = (struct capture_info){.status = hipStreamCaptureStatusNone};
    if (hip_stream_is_legacy(handle)) {
        hipError_t error;
        return hip_is_capturing(handle, &error) ? error : hipSuccess;
    }
    struct ihipStream_t *stream = hip_stream_get(handle);
    if (!stream)
        return hipErrorContextIsDestroyed;
    pthread_mutex_lock(&captures.lock);
    if (stream->capture) {
        info->status = stream->capture->invalid ? hipStreamCaptureStatusInvalidated
                                                : hipStreamCaptureStatusActive;
        info->id = stream->capture->id;
        info->graph = stream->capture->graph;
        info->nodes = stream->frontier.items;
        info->count = stream->frontier.count;
    }
    pthread_mutex_unlock(&captures.lock);
    hip_object_put(stream);
    return hipSuccess;
}

/* Sets the results that the caller requests (pointers that are not NULL) to the state of the
 * stream's capture. */
static hipError_t get_info(hipStream_t stream, hipStreamCaptureStatus *status,
                           unsigned long long *id, hipGraph_t *graph, const hipGraphNode_t **nodes,
                           size_t *count)
{
    struct capture_info found;

    if (!status)
        return hipErrorInvalidValue;
    hipError_t error = info(stream, &found);
    *status = found.status;
    if (id)
        *id = found.id;
    if (graph)
        *graph = found.graph;
    if (nodes)
        *nodes = found.nodes;
    if (count)
        *count = found.count;
    return error;
}

HIP_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    return HIP_CALL(hipStreamIsCapturing, get_info(stream, status, NULL, NULL, NULL, NULL));
}

HIP_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status,
                                              unsigned long long *id)
{
    return HIP_CALL(hipStreamGetCaptureInfo, get_info(stream, status, id, NULL, NULL, NULL));
}

HIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status,
                                                 unsigned long long *id, hipGraph_t *graph,
                                                 const hipGraphNode_t **nodes, size_t *count)
{
    return HIP_CALL(hipStreamGetCaptureInfo_v2, get_info(stream, status, id, graph, nodes, count));
}

/* Changes the nodes that the next captured operation depends on. */
static hipError_t update_needs(hipStream_t handle, hipGraphNode_t *nodes, size_t count,
                               unsigned flags)
{
    struct ihipStream_t *stream = handle ? hip_stream_get(handle) : NULL;
    hipError_t error = hipSuccess;

    if (!stream || flags > hipStreamSetCaptureDependencies || (count && !nodes)) {
        hip_object_put(stream);
        return hipErrorInvalidValue;
    }
    pthread_mutex_lock(&captures.lock);
    if (!stream->capture)
        error = hipErrorIllegalState;
    for (size_t i = 0; error == hipSuccess && i < count; i++)
        if (!hip_nodes_have(&stream->capture->graph->nodes, nodes[i]))
            error = hipErrorInvalidValue;
    if (error == hipSuccess && flags == hipStreamSetCaptureDependencies)
        stream->frontier.count = 0;
    for (size_t i = 0; error == hipSuccess && i < count; i++)
        if (!hip_nodes_add(&stream->frontier, nodes[i]))
            error = hipErrorOutOfMemory;
    pthread_mutex_unlock(&captures.lock);
    hip_object_put(stream);
    return error;
}

HIP_EXPORT hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *nodes,
                                                         size_t count, unsigned int flags)
{
    return HIP_CALL(hipStreamUpdateCaptureDependencies, update_needs(stream, nodes, count, flags));
}

/* Exchanges the capture mode of the calling thread with *mode. */
static hipError_t exchange_mode(hipStreamCaptureMode *mode)
{
    struct hip_thread *thread = hip_thread();

    if (!mode || (unsigned)*mode > hipStreamCaptureModeRelaxed)
        return hipErrorInvalidValue;
    hipStreamCaptureMode before = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = before;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    return HIP_CALL(hipThreadExchangeStreamCaptureMode, exchange_mode(mode));
}
