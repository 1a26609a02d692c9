/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on graph nodes that HIP 6 added: one call for all types with a union of their parameters,
 * the driver's forms of copies and fills, and attributes of kernel nodes.
 */
#include "hip.h"

#include <assert.h>
#include <string.h>

/* The functions from here on handle nodes of any type. */

/* Values of hipGraphNodeType in HIP 6. */
enum node_type {
    TYPE_KERNEL,
    TYPE_MEMCPY,
    TYPE_MEMSET,
    TYPE_HOST,
    TYPE_GRAPH,
    TYPE_EMPTY,
    TYPE_WAIT_EVENT,
    TYPE_EVENT_RECORD,
    TYPE_ALLOC = 10,
    TYPE_FREE,
};

/* The layout of hipGraphNodeParams. */
struct node_params {
    enum node_type type;
    int reserved[3];
    union {
        long long all[29];
        hipKernelNodeParams kernel;
        struct {
            int flags, reserved[3];
            hipMemcpy3DParms params;
        } copy;
        hipMemsetParams fill;
        hipHostNodeParams host;
        hipGraph_t graph;
        hipEvent_t event;
        void *freed;
    };
    long long end;
};

static_assert(sizeof(struct node_params) == 256, "hipGraphNodeParams");

hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph,
                                   const hipGraphNode_t *needs, size_t count, void *params);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                  const hipGraphNode_t *needs, size_t count, void *pointer);
hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *needs,
                           size_t count, struct node_params *params);
hipError_t hipGraphNodeSetParams(hipGraphNode_t node, struct node_params *params);
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                     struct node_params *params);

/* Returns the error for a node type whose parameters cannot be set. */
static hipError_t no_type(enum node_type type)
{
    return hip_fail(hipErrorInvalidValue, "nodes of type %d have no parameters to set here",
                    (int)type);
}

HIP_EXPORT hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph,
                                      const hipGraphNode_t *needs, size_t count,
                                      struct node_params *params)
{
    if (!params)
        return HIP_CALL(hipGraphAddNode, hipErrorInvalidValue);
    switch (params->type) {
    case TYPE_KERNEL: return hipGraphAddKernelNode(node, graph, needs, count, &params->kernel);
    case TYPE_MEMCPY: return hipGraphAddMemcpyNode(node, graph, needs, count, &params->copy.params);
    case TYPE_MEMSET: return hipGraphAddMemsetNode(node, graph, needs, count, &params->fill);
    case TYPE_HOST: return hipGraphAddHostNode(node, graph, needs, count, &params->host);
    case TYPE_GRAPH: return hipGraphAddChildGraphNode(node, graph, needs, count, params->graph);
    case TYPE_EMPTY: return hipGraphAddEmptyNode(node, graph, needs, count);
    case TYPE_WAIT_EVENT: return hipGraphAddEventWaitNode(node, graph, needs, count, params->event);
    case TYPE_EVENT_RECORD:
        return hipGraphAddEventRecordNode(node, graph, needs, count, params->event);
    case TYPE_ALLOC: return hipGraphAddMemAllocNode(node, graph, needs, count, params->all);
    case TYPE_FREE: return hipGraphAddMemFreeNode(node, graph, needs, count, params->freed);
    }
    return HIP_CALL(hipGraphAddNode, no_type(params->type));
}

/* Replaces the graph of a child node. */
static hipError_t set_child(hipGraphNode_t node, hipGraph_t child)
{
    struct hip_work work;
    const hipError_t error = hip_graph_child_work(child, &work);

    return hip_graph_replace(NULL, false, node, error, work);
}

HIP_EXPORT hipError_t hipGraphNodeSetParams(hipGraphNode_t node, struct node_params *params)
{
    if (!params)
        return HIP_CALL(hipGraphNodeSetParams, hipErrorInvalidValue);
    switch (params->type) {
    case TYPE_KERNEL: return hipGraphKernelNodeSetParams(node, &params->kernel);
    case TYPE_MEMCPY: return hipGraphMemcpyNodeSetParams(node, &params->copy.params);
    case TYPE_MEMSET: return hipGraphMemsetNodeSetParams(node, &params->fill);
    case TYPE_HOST: return hipGraphHostNodeSetParams(node, &params->host);
    case TYPE_GRAPH: return HIP_CALL(hipGraphNodeSetParams, set_child(node, params->graph));
    case TYPE_WAIT_EVENT: return hipGraphEventWaitNodeSetEvent(node, params->event);
    case TYPE_EVENT_RECORD: return hipGraphEventRecordNodeSetEvent(node, params->event);
    case TYPE_EMPTY:
    case TYPE_ALLOC:
    case TYPE_FREE: break;
    }
    return HIP_CALL(hipGraphNodeSetParams, no_type(params->type));
}

HIP_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                struct node_params *params)
{
    if (!params)
        return HIP_CALL(hipGraphExecNodeSetParams, hipErrorInvalidValue);
    switch (params->type) {
    case TYPE_KERNEL: return hipGraphExecKernelNodeSetParams(exec, node, &params->kernel);
    case TYPE_MEMCPY: return hipGraphExecMemcpyNodeSetParams(exec, node, &params->copy.params);
    case TYPE_MEMSET: return hipGraphExecMemsetNodeSetParams(exec, node, &params->fill);
    case TYPE_HOST: return hipGraphExecHostNodeSetParams(exec, node, &params->host);
    case TYPE_GRAPH: return hipGraphExecChildGraphNodeSetParams(exec, node, params->graph);
    case TYPE_WAIT_EVENT: return hipGraphExecEventWaitNodeSetEvent(exec, node, params->event);
    case TYPE_EVENT_RECORD: return hipGraphExecEventRecordNodeSetEvent(exec, node, params->event);
    case TYPE_EMPTY:
    case TYPE_ALLOC:
    case TYPE_FREE: break;
    }
    return HIP_CALL(hipGraphExecNodeSetParams, no_type(params->type));
}

/* The functions from here on handle the driver API's nodes of copies and fills. */

/* The layout of HIP_MEMSET_NODE_PARAMS. */
struct driver_fill {
    hipDeviceptr_t dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
};

hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph,
                                    const hipGraphNode_t *needs, size_t count, const void *params,
                                    hipCtx_t context);
hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, void *params);
hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const void *params);
hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                              const void *params, hipCtx_t context);
hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph,
                                    const hipGraphNode_t *needs, size_t count,
                                    const struct driver_fill *params, hipCtx_t context);
hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                              const struct driver_fill *params, hipCtx_t context);

/* Sets *work to a copy with the driver's parameters. */
static hipError_t copy_work(const void *params, struct hip_work *work)
{
    *work = (struct hip_work){.kind = WORK_COPY};
    hipError_t error = hip_copy_from_driver(params, &work->copy);
    if (error == hipSuccess)
        error = hip_copy_check(&work->copy);
    return error == hipErrorInvalidPitchValue ? hipErrorInvalidValue : error;
}

/* Adds a copy node with the driver's parameters. */
static hipError_t add_copy(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *needs,
                           size_t count, const void *params)
{
    struct hip_work work;
    const hipError_t error = copy_work(params, &work);

    return hip_graph_add_checked(node, graph, needs, count, error, work);
}

HIP_EXPORT hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph,
                                               const hipGraphNode_t *needs, size_t count,
                                               const void *params, hipCtx_t context)
{
    (void)context;
    return HIP_CALL(hipDrvGraphAddMemcpyNode, add_copy(node, graph, needs, count, params));
}

/* Sets *params to the driver's parameters of a copy node. */
static hipError_t get_copy(hipGraphNode_t handle, void *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_COPY) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    hip_copy_to_driver(&node->work.copy, params);
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, void *params)
{
    return HIP_CALL(hipDrvGraphMemcpyNodeGetParams, get_copy(node, params));
}

/* Sets the driver's parameters of a copy node, in a graph or an executable. */
static hipError_t set_copy(hipGraphExec_t exec, bool in_exec, hipGraphNode_t node,
                           const void *params)
{
    struct hip_work work;
    const hipError_t error = copy_work(params, &work);

    return hip_graph_replace(exec, in_exec, node, error, work);
}

HIP_EXPORT hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const void *params)
{
    return HIP_CALL(hipDrvGraphMemcpyNodeSetParams, set_copy(NULL, false, node, params));
}

HIP_EXPORT hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         const void *params, hipCtx_t context)
{
    (void)context;
    return HIP_CALL(hipDrvGraphExecMemcpyNodeSetParams, set_copy(exec, true, node, params));
}

/* Returns the runtime's parameters of a fill for the driver's. */
static hipMemsetParams fill_params(const struct driver_fill *p)
{
    return (hipMemsetParams){.dst = p->dst,
                             .elementSize = p->element,
                             .height = p->height,
                             .pitch = p->pitch,
                             .value = p->value,
                             .width = p->width};
}

HIP_EXPORT hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph,
                                               const hipGraphNode_t *needs, size_t count,
                                               const struct driver_fill *params, hipCtx_t context)
{
    (void)context;
    if (!params)
        return HIP_CALL(hipDrvGraphAddMemsetNode, hipErrorInvalidValue);
    const hipMemsetParams fill = fill_params(params);
    return hipGraphAddMemsetNode(node, graph, needs, count, &fill);
}

HIP_EXPORT hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         const struct driver_fill *params,
                                                         hipCtx_t context)
{
    (void)context;
    if (!params)
        return HIP_CALL(hipDrvGraphExecMemsetNodeSetParams, hipErrorInvalidValue);
    const hipMemsetParams fill = fill_params(params);
    return hipGraphExecMemsetNodeSetParams(exec, node, &fill);
}

/* The functions from here on access attributes of kernel nodes. */

enum { ATTRIBUTE_CACHE_WINDOW = 1, ATTRIBUTE_COOPERATIVE = 2, ATTRIBUTE_PRIORITY = 8 };

/* Reads an attribute to `value`, or with `set` sets it. hipAccessPolicyWindow has 32 bytes. */
static hipError_t attribute_of(struct hip_kernel_work *kernel, int attribute, void *value, bool set)
{
    int cooperative = kernel->cooperative;
    void *kept = attribute == ATTRIBUTE_COOPERATIVE    ? (void *)&cooperative
                 : attribute == ATTRIBUTE_PRIORITY     ? (void *)&kernel->priority
                 : attribute == ATTRIBUTE_CACHE_WINDOW ? (void *)kernel->cache_window
                                                       : NULL;
    const size_t size =
        attribute == ATTRIBUTE_CACHE_WINDOW ? sizeof(kernel->cache_window) : sizeof(int);

    if (!kept)
        return hipErrorInvalidValue;
    memcpy(set ? kept : value, set ? value : kept, size);
    kernel->cooperative = cooperative != 0;
    return hipSuccess;
}

/* Reads or sets an attribute of a kernel node. */
static hipError_t node_attribute(hipGraphNode_t handle, int attribute, void *value, bool set)
{
    struct hipGraphNode *node = value ? hip_graph_node_get(handle, WORK_KERNEL) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    const hipError_t error = attribute_of(&node->work.kernel, attribute, value, set);
    hip_graph_unlock();
    hip_object_put(node);
    return error;
}

/* Declared here since HIP 6's hipLaunchAttributeValue is larger than HIP 5's type. */
hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t from, hipGraphNode_t to);

HIP_EXPORT hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node,
                                                     hipKernelNodeAttrID attribute,
                                                     const hipKernelNodeAttrValue *value)
{
    return HIP_CALL(hipGraphKernelNodeSetAttribute,
                    node_attribute(node, attribute, (void *)(uintptr_t)value, true));
}

HIP_EXPORT hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node,
                                                     hipKernelNodeAttrID attribute,
                                                     hipKernelNodeAttrValue *value)
{
    return HIP_CALL(hipGraphKernelNodeGetAttribute,
                    node_attribute(node, attribute, (void *)value, false));
}

/* Copies the attributes of a kernel node to another one. */
static hipError_t copy_attributes(hipGraphNode_t from_handle, hipGraphNode_t to_handle)
{
    struct hipGraphNode *from = hip_graph_node_get(from_handle, WORK_KERNEL);
    struct hipGraphNode *to = hip_graph_node_get(to_handle, WORK_KERNEL);
    const hipError_t error = from && to ? hipSuccess : hipErrorInvalidValue;

    if (error == hipSuccess) {
        hip_graph_lock();
        to->work.kernel.cooperative = from->work.kernel.cooperative;
        to->work.kernel.priority = from->work.kernel.priority;
        memcpy(to->work.kernel.cache_window, from->work.kernel.cache_window,
               sizeof(to->work.kernel.cache_window));
        hip_graph_unlock();
    }
    hip_object_put(from);
    hip_object_put(to);
    return error;
}

HIP_EXPORT hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t from, hipGraphNode_t to)
{
    return HIP_CALL(hipGraphKernelNodeCopyAttributes, copy_attributes(from, to));
}
