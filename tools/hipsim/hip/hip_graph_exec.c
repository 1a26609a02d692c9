/* SPDX-License-Identifier: Apache-2.0 */
/* Graph executables: copies of a graph that can be launched and updated. */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>

struct hipGraphExec {
    struct hip_object object;
    pthread_mutex_t lock; /* locked while the graph runs and while nodes change */
    struct ihipGraph *graph;
    unsigned long long flags;
};

/* Frees an executable graph. */
static void destroy_exec(struct hip_object *object)
{
    struct hipGraphExec *exec = (struct hipGraphExec *)object;

    hip_graph_put(exec->graph);
    pthread_mutex_destroy(&exec->lock);
    free(exec);
}

bool hip_exec_lock(hipGraphExec_t handle)
{
    struct hipGraphExec *exec = hip_object_get(handle, HIP_GRAPH_EXEC);

    if (exec)
        pthread_mutex_lock(&exec->lock);
    return exec != NULL;
}

void hip_exec_unlock(hipGraphExec_t exec)
{
    pthread_mutex_unlock(&exec->lock);
    hip_object_put(exec);
}

struct hipGraphNode *hip_exec_node(hipGraphExec_t exec, const struct hipGraphNode *node)
{
    for (size_t i = 0; i < exec->graph->nodes.count; i++)
        if (exec->graph->nodes.items[i]->origin == node)
            return exec->graph->nodes.items[i];
    return NULL;
}

/* True if the graph has no cycle. Otherwise writes a message to the caller's buffer `log`, of
 * `size` bytes. */
static bool is_runnable(const struct ihipGraph *graph, char *log, size_t size)
{
    size_t *order = hip_graph_order(graph);
    bool ok = order != NULL;

    free(order);
    for (size_t i = 0; ok && i < graph->nodes.count; i++)
        if (graph->nodes.items[i]->work.kind == WORK_GRAPH)
            ok = is_runnable(graph->nodes.items[i]->work.graph, log, size);
    if (!ok && log && size)
        snprintf(log, size, "the graph has a cycle");
    return ok;
}

/* Creates an executable graph from a graph. */
static hipError_t instantiate(hipGraphExec_t *handle, hipGraph_t graph_handle,
                              hipGraphNode_t *error_node, char *log, size_t size)
{
    struct ihipGraph *graph = handle ? hip_object_get(graph_handle, HIP_GRAPH) : NULL;

    if (!graph)
        return hipErrorInvalidValue;
    if (error_node)
        *error_node = NULL;
    if (log && size)
        log[0] = 0;
    struct hipGraphExec *exec = calloc(1, sizeof(*exec));
    hipError_t error = exec ? hipSuccess : hipErrorOutOfMemory;
    hip_graph_lock();
    if (exec && !is_runnable(graph, log, size))
        error = hip_fail(hipErrorInvalidValue, "the graph has a cycle");
    else if (exec && !(exec->graph = hip_graph_clone(graph)))
        error = hipErrorOutOfMemory;
    hip_graph_unlock();
    hip_object_put(graph);
    if (error != hipSuccess) {
        free(exec);
        return error;
    }
    pthread_mutex_init(&exec->lock, NULL);
    hip_object_add(&exec->object, HIP_GRAPH_EXEC, destroy_exec);
    *handle = exec;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph,
                                          hipGraphNode_t *error_node, char *log, size_t size)
{
    return HIP_CALL(hipGraphInstantiate, instantiate(exec, graph, error_node, log, size));
}

/* Instantiates a graph. Flags are only for queries, since the device launches nothing, and launches
 * free no memory. */
static hipError_t instantiate_with(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)
{
    const hipError_t error = instantiate(exec, graph, NULL, NULL, 0);

    if (error == hipSuccess)
        (*exec)->flags = flags;
    return error;
}

HIP_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph,
                                                   unsigned long long flags)
{
    return HIP_CALL(hipGraphInstantiateWithFlags, instantiate_with(exec, graph, flags));
}

/* The layout of hipGraphInstantiateParams, which HIP 6 added. */
struct instantiate_parameters {
    hipGraphNode_t culprit;
    unsigned long long flags;
    enum { SUCCESS, ERROR, INVALID_STRUCTURE } result;
    hipStream_t upload_stream;
};
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *exec, hipGraph_t graph,
                                         struct instantiate_parameters *parameters);
hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long *flags);

/* Creates an executable graph with the flags in *parameters, and stores the result there. */
static hipError_t instantiate_from(hipGraphExec_t *exec, hipGraph_t graph,
                                   struct instantiate_parameters *parameters)
{
    if (!parameters)
        return hipErrorInvalidValue;
    const hipError_t error = instantiate_with(exec, graph, parameters->flags);
    parameters->culprit = NULL;
    parameters->result = error == hipSuccess             ? SUCCESS
                         : error == hipErrorInvalidValue ? INVALID_STRUCTURE
                                                         : ERROR;
    return error;
}

HIP_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *exec, hipGraph_t graph,
                                                    struct instantiate_parameters *parameters)
{
    return HIP_CALL(hipGraphInstantiateWithParams, instantiate_from(exec, graph, parameters));
}

/* Sets *flags to the flags of an executable graph. */
static hipError_t get_flags(hipGraphExec_t exec, unsigned long long *flags)
{
    if (!flags || !hip_exec_lock(exec))
        return hipErrorInvalidValue;
    *flags = exec->flags;
    hip_exec_unlock(exec);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long *flags)
{
    return HIP_CALL(hipGraphExecGetFlags, get_flags(exec, flags));
}

HIP_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
    return HIP_CALL(hipGraphExecDestroy,
                    hip_object_remove(exec, HIP_GRAPH_EXEC) ? hipSuccess : hipErrorInvalidValue);
}

/* Launches an executable, whose graph is unchanged. In a capture it becomes a child graph. */
static hipError_t launch(hipGraphExec_t handle, hipStream_t stream)
{
    struct hip_work work = {.kind = WORK_GRAPH};
    hipError_t error;

    if (!hip_exec_lock(handle))
        return hip_fail(hipErrorInvalidValue, "the graph executable %p is invalid", (void *)handle);
    work.graph = handle->graph;
    if (hip_is_capturing(stream, &error)) {
        struct hip_work copy;
        error = hip_work_copy(&work, &copy);
        if (error == hipSuccess)
            error = hip_submit(stream, copy);
    } else {
        error = hip_submit_borrowed(stream, &work);
    }
    hip_exec_unlock(handle);
    return error;
}

HIP_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    return HIP_CALL(hipGraphLaunch, launch(exec, stream));
}

HIP_EXPORT hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream)
{
    (void)stream;
    return HIP_CALL(hipGraphUpload, hip_exec_lock(exec) ? (hip_exec_unlock(exec), hipSuccess)
                                                        : hipErrorInvalidValue);
}

/* The functions from here on enable and disable nodes. */

hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int enabled);
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int *enabled);

/* Sets *enabled to whether a node runs, or with `set` makes it so. Only kernels, copies and fills
 * may be disabled. */
static hipError_t enabled(hipGraphExec_t exec, hipGraphNode_t handle, bool set,
                          unsigned int *enabled)
{
    hipError_t error = hipErrorInvalidValue;

    if (!enabled || !hip_exec_lock(exec))
        return hipErrorInvalidValue;
    struct hipGraphNode *node = hip_exec_node(exec, handle);
    if (node && (node->work.kind == WORK_KERNEL || node->work.kind == WORK_COPY ||
                 node->work.kind == WORK_FILL)) {
        if (set)
            node->left_out = !*enabled;
        else
            *enabled = !node->left_out;
        error = hipSuccess;
    }
    hip_exec_unlock(exec);
    return error;
}

HIP_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node,
                                             unsigned int is_enabled)
{
    return HIP_CALL(hipGraphNodeSetEnabled, enabled(exec, node, true, &is_enabled));
}

HIP_EXPORT hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node,
                                             unsigned int *is_enabled)
{
    return HIP_CALL(hipGraphNodeGetEnabled, enabled(exec, node, false, is_enabled));
}

/* The functions from here on update a whole executable graph. */

/* Compares the shapes of two graphs. Sets *culprit to the first node that differs. */
static hipGraphExecUpdateResult compare(const struct ihipGraph *have, const struct ihipGraph *want,
                                        hipGraphNode_t *culprit)
{
    if (have->nodes.count != want->nodes.count)
        return hipGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; i < have->nodes.count; i++) {
        const struct hipGraphNode *a = have->nodes.items[i];
        struct hipGraphNode *b = want->nodes.items[i];
        *culprit = b;
        if (a->work.kind != b->work.kind)
            return hipGraphExecUpdateErrorNodeTypeChanged;
        if (a->needs.count != b->needs.count)
            return hipGraphExecUpdateErrorTopologyChanged;
        for (size_t j = 0; j < a->needs.count; j++)
            if (!hip_nodes_have(&a->needs, have->nodes.items[b->needs.items[j]->position]))
                return hipGraphExecUpdateErrorTopologyChanged;
    }
    *culprit = NULL;
    return hipGraphExecUpdateSuccess;
}

/* Replaces the parameters of an executable graph by those that the nodes of a graph have. */
static hipError_t update(hipGraphExec_t handle, hipGraph_t graph_handle, hipGraphNode_t *culprit,
                         hipGraphExecUpdateResult *result)
{
    hipGraphNode_t node = NULL;
    hipGraphExecUpdateResult outcome = hipGraphExecUpdateError;
    struct ihipGraph *graph = hip_object_get(graph_handle, HIP_GRAPH);
    struct ihipGraph *copy = NULL;

    if (!graph || !hip_exec_lock(handle)) {
        hip_object_put(graph);
        return hipErrorInvalidValue;
    }
    hip_graph_lock();
    outcome = compare(handle->graph, graph, &node);
    if (outcome == hipGraphExecUpdateSuccess && !(copy = hip_graph_clone(graph)))
        outcome = hipGraphExecUpdateError;
    /* Later changes of single nodes still name nodes of the first instantiated graph. */
    for (size_t i = 0; copy && i < copy->nodes.count; i++) {
        copy->nodes.items[i]->origin = handle->graph->nodes.items[i]->origin;
        copy->nodes.items[i]->left_out = handle->graph->nodes.items[i]->left_out;
    }
    hip_graph_unlock();
    if (copy) {
        hip_graph_put(handle->graph);
        handle->graph = copy;
    }
    hip_exec_unlock(handle);
    hip_object_put(graph);
    if (culprit)
        *culprit = node;
    if (result)
        *result = outcome;
    return copy ? hipSuccess : hipErrorGraphExecUpdateFailure;
}

HIP_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph,
                                         hipGraphNode_t *culprit, hipGraphExecUpdateResult *result)
{
    return HIP_CALL(hipGraphExecUpdate, update(exec, graph, culprit, result));
}
