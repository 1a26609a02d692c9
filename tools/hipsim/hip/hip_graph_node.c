/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of graph nodes: creates them, and reads and changes their parameters. */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

/* The functions from here on are common to all kinds of nodes. */

/* Adds a node. In any case the function owns what the work owns. An `error` in the node's
 * parameters is returned; `work` owns nothing then. */
hipError_t hip_graph_add_checked(hipGraphNode_t *out, hipGraph_t handle,
                                 const hipGraphNode_t *needs, size_t count, hipError_t error,
                                 struct hip_work work)
{
    struct hip_nodes wanted = {.items = (hipGraphNode_t *)(uintptr_t)needs, .count = count};
    struct ihipGraph *graph = NULL;

    if (error != hipSuccess)
        return error;
    if (out && (!count || needs))
        graph = hip_object_get(handle, HIP_GRAPH);
    if (!graph) {
        hip_work_release(&work);
        return hipErrorInvalidValue;
    }
    hip_graph_lock();
    for (size_t i = 0; i < count; i++)
        if (!hip_nodes_have(&graph->nodes, needs[i]))
            error = hipErrorInvalidValue;
    if (error == hipSuccess)
        error = hip_graph_add(graph, &wanted, work, out);
    else
        hip_work_release(&work);
    hip_graph_unlock();
    hip_object_put(graph);
    return error;
}

hipError_t hip_graph_replace(hipGraphExec_t exec, bool in_exec, hipGraphNode_t handle,
                             hipError_t error, struct hip_work work)
{
    struct hipGraphNode *node;

    if (error != hipSuccess)
        return error;
    if (in_exec && !hip_exec_lock(exec)) {
        hip_work_release(&work);
        return hipErrorInvalidValue;
    }
    node = in_exec ? hip_exec_node(exec, handle) : hip_object_get(handle, HIP_GRAPH_NODE);
    if (in_exec && node)
        hip_object_ref(node);
    if (!node || node->work.kind != work.kind) {
        error = hipErrorInvalidValue;
        hip_work_release(&work);
    } else {
        hip_graph_lock();
        struct hip_work before = node->work;
        if (work.kind == WORK_KERNEL) {
            work.kernel.cooperative = before.kernel.cooperative;
            work.kernel.priority = before.kernel.priority;
            memcpy(work.kernel.cache_window, before.kernel.cache_window,
                   sizeof(work.kernel.cache_window));
        }
        node->work = work;
        hip_graph_unlock();
        hip_work_release(&before);
    }
    hip_object_put(node);
    if (in_exec)
        hip_exec_unlock(exec);
    return error;
}

struct hipGraphNode *hip_graph_node_get(hipGraphNode_t handle, enum hip_work_kind kind)
{
    struct hipGraphNode *node = hip_object_get(handle, HIP_GRAPH_NODE);

    if (node && node->work.kind != kind) {
        hip_object_put(node);
        return NULL;
    }
    return node;
}

/* Defines hipGraphAdd*Node, hipGraph*NodeSetParams and hipGraphExec*NodeSetParams for a kind of
 * node whose parameters are a struct. */
#define NODE_KIND(Kind, params_type, exec_params_type, convert)                                   \
    HIP_EXPORT hipError_t hipGraphAdd##Kind##Node(hipGraphNode_t *node, hipGraph_t graph,         \
                                                  const hipGraphNode_t *needs, size_t count,      \
                                                  const params_type *params)                      \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(hipGraphAdd##Kind##Node,                                                  \
                        (error = convert(params, &work),                                          \
                         hip_graph_add_checked(node, graph, needs, count, error, work)));         \
    }                                                                                             \
    HIP_EXPORT hipError_t hipGraph##Kind##NodeSetParams(hipGraphNode_t node,                      \
                                                        const params_type *params)                \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(                                                                          \
            hipGraph##Kind##NodeSetParams,                                                        \
            (error = convert(params, &work), hip_graph_replace(NULL, false, node, error, work))); \
    }                                                                                             \
    HIP_EXPORT hipError_t hipGraphExec##Kind##NodeSetParams(                                      \
        hipGraphExec_t exec, hipGraphNode_t node, exec_params_type *params)                       \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(                                                                          \
            hipGraphExec##Kind##NodeSetParams,                                                    \
            (error = convert(params, &work), hip_graph_replace(exec, true, node, error, work)));  \
    }

/* The functions from here on handle nodes of kernels. */

/* Sets *work to a kernel launch with these parameters. */
static hipError_t kernel_work(const hipKernelNodeParams *params, struct hip_work *work)
{
    struct ihipModuleSymbol_t *function;

    if (!params)
        return hipErrorInvalidValue;
    hipError_t error = hip_any_function(params->func, &function);
    if (error != hipSuccess)
        return hip_fail(hipErrorInvalidDeviceFunction, "%p is no kernel", params->func);
    error =
        hip_kernel_work_blocks(function, params->gridDim, params->blockDim, params->sharedMemBytes,
                               params->kernelParams, params->extra, work);
    if (error == hipSuccess)
        work->kernel.host_function = params->func;
    hip_object_put(function);
    return error;
}

NODE_KIND(Kernel, hipKernelNodeParams, const hipKernelNodeParams, kernel_work)

/* Makes pointers to the node's own copies of its arguments, which are valid until the node
 * changes. */
static hipError_t point_at_arguments(struct hipGraphNode *node)
{
    const struct hip_kernel_work *kernel = &node->work.kernel;
    const struct kernel_metadata *m = &kernel->function->kernel->metadata;
    uint32_t next = 0;

    free(node->params);
    node->params = calloc(m->nargs + 1u, sizeof(*node->params));
    if (!node->params)
        return hipErrorOutOfMemory;
    for (uint32_t i = 0; i < m->nargs; i++)
        if (!argument_is_hidden(m->args[i].kind))
            node->params[next++] = (char *)kernel->args + m->args[i].offset;
    return hipSuccess;
}

/* Sets *params to the parameters of a kernel node. */
static hipError_t get_kernel(hipGraphNode_t handle, hipKernelNodeParams *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_KERNEL) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    hipError_t error = point_at_arguments(node);
    const struct hip_kernel_work *k = &node->work.kernel;
    *params = (hipKernelNodeParams){
        .blockDim = {k->block[0], k->block[1], k->block[2]},
        .gridDim = {k->grid[0] / k->block[0], k->grid[1] / k->block[1], k->grid[2] / k->block[2]},
        .func = (void *)(uintptr_t)k->host_function,
        .kernelParams = node->params,
        .sharedMemBytes = k->dynamic_lds,
    };
    hip_graph_unlock();
    hip_object_put(node);
    return error;
}

HIP_EXPORT hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *params)
{
    return HIP_CALL(hipGraphKernelNodeGetParams, get_kernel(node, params));
}

/* The functions from here on handle nodes of copies. */

/* Sets *work to a copy with these parameters. */
static hipError_t copy_work(const hipMemcpy3DParms *params, struct hip_work *work)
{
    *work = (struct hip_work){.kind = WORK_COPY};
    const hipError_t error = hip_copy_from_3d(params, &work->copy);
    return error == hipSuccess ? hip_copy_check(&work->copy) : error;
}

NODE_KIND(Memcpy, hipMemcpy3DParms, hipMemcpy3DParms, copy_work)

/* Sets *params to the parameters of a copy node. */
static hipError_t get_copy(hipGraphNode_t handle, hipMemcpy3DParms *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_COPY) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    const struct hip_copy *c = &node->work.copy;
    *params = (hipMemcpy3DParms){
        .srcPtr = {(void *)(uintptr_t)c->src, c->src_pitch, c->width,
                   c->src_pitch ? c->src_slice / c->src_pitch : c->height},
        .dstPtr = {c->dst, c->dst_pitch, c->width,
                   c->dst_pitch ? c->dst_slice / c->dst_pitch : c->height},
        .extent = {c->width, c->height, c->depth},
        .kind = c->kind,
    };
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *params)
{
    return HIP_CALL(hipGraphMemcpyNodeGetParams, get_copy(node, params));
}

/* Returns the work of a copy of `size` bytes. */
static struct hip_work copy_1d(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
    return (struct hip_work){
        .kind = WORK_COPY,
        .copy = {.dst = dst,
                 .src = src,
                 .dst_pitch = size,
                 .src_pitch = size,
                 .width = size,
                 .height = 1,
                 .depth = 1,
                 .kind = kind},
    };
}

/* Checks the addresses of a copy. */
static hipError_t check_copy(const struct hip_work *work)
{
    if (!work->copy.dst || !work->copy.src)
        return hipErrorInvalidValue;
    return hip_is_copy_kind(work->copy.kind) ? hip_copy_check(&work->copy)
                                             : hipErrorInvalidMemcpyDirection;
}

HIP_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph,
                                              const hipGraphNode_t *needs, size_t count, void *dst,
                                              const void *src, size_t size, hipMemcpyKind kind)
{
    const struct hip_work work = copy_1d(dst, src, size, kind);

    return HIP_CALL(hipGraphAddMemcpyNode1D,
                    hip_graph_add_checked(node, graph, needs, count, check_copy(&work), work));
}

HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src,
                                                    size_t size, hipMemcpyKind kind)
{
    const struct hip_work work = copy_1d(dst, src, size, kind);

    return HIP_CALL(hipGraphMemcpyNodeSetParams1D,
                    hip_graph_replace(NULL, false, node, check_copy(&work), work));
}

HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node,
                                                        void *dst, const void *src, size_t size,
                                                        hipMemcpyKind kind)
{
    const struct hip_work work = copy_1d(dst, src, size, kind);

    return HIP_CALL(hipGraphExecMemcpyNodeSetParams1D,
                    hip_graph_replace(exec, true, node, check_copy(&work), work));
}

/* Sets *work to a copy to or from a device variable. */
static hipError_t symbol_work(const void *symbol, const void *other, size_t size, size_t offset,
                              hipMemcpyKind kind, bool to_symbol, struct hip_work *work)
{
    *work = (struct hip_work){.kind = WORK_COPY};
    const hipError_t error =
        hip_copy_symbol(symbol, other, size, offset, kind, to_symbol, &work->copy);
    return error == hipSuccess ? check_copy(work) : error;
}

/* The three calls for one direction, whose parameters have different orders. */
#define SYMBOL_NODE(Way, PARAMS, symbol, other, to_symbol)                                         \
    HIP_EXPORT hipError_t hipGraphAddMemcpyNode##Way(                                              \
        hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *needs, size_t count, PARAMS, \
        size_t size, size_t offset, hipMemcpyKind kind)                                            \
    {                                                                                              \
        struct hip_work work;                                                                      \
        hipError_t error;                                                                          \
        return HIP_CALL(hipGraphAddMemcpyNode##Way,                                                \
                        (error = symbol_work(symbol, other, size, offset, kind, to_symbol, &work), \
                         hip_graph_add_checked(node, graph, needs, count, error, work)));          \
    }                                                                                              \
    HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams##Way(                                        \
        hipGraphNode_t node, PARAMS, size_t size, size_t offset, hipMemcpyKind kind)               \
    {                                                                                              \
        struct hip_work work;                                                                      \
        hipError_t error;                                                                          \
        return HIP_CALL(hipGraphMemcpyNodeSetParams##Way,                                          \
                        (error = symbol_work(symbol, other, size, offset, kind, to_symbol, &work), \
                         hip_graph_replace(NULL, false, node, error, work)));                      \
    }                                                                                              \
    HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams##Way(                                    \
        hipGraphExec_t exec, hipGraphNode_t node, PARAMS, size_t size, size_t offset,              \
        hipMemcpyKind kind)                                                                        \
    {                                                                                              \
        struct hip_work work;                                                                      \
        hipError_t error;                                                                          \
        return HIP_CALL(hipGraphExecMemcpyNodeSetParams##Way,                                      \
                        (error = symbol_work(symbol, other, size, offset, kind, to_symbol, &work), \
                         hip_graph_replace(exec, true, node, error, work)));                       \
    }

#define COMMA ,
SYMBOL_NODE(FromSymbol, void *dst COMMA const void *symbol, symbol, dst, false)
SYMBOL_NODE(ToSymbol, const void *symbol COMMA const void *src, symbol, src, true)

/* The functions from here on handle nodes of fills. */

/* Sets *work to a fill with these parameters. */
static hipError_t fill_work(const hipMemsetParams *params, struct hip_work *work)
{
    if (!params || !params->dst || params->height == 0)
        return hipErrorInvalidValue;
    *work = (struct hip_work){
        .kind = WORK_FILL,
        .fill = {.dst = params->dst,
                 .pitch = params->pitch,
                 .width = params->width,
                 .height = params->height,
                 .depth = 1,
                 .element = params->elementSize,
                 .value = params->value},
    };
    return hip_fill_check(&work->fill);
}

NODE_KIND(Memset, hipMemsetParams, const hipMemsetParams, fill_work)

/* Sets *params to the parameters of a fill node. */
static hipError_t get_fill(hipGraphNode_t handle, hipMemsetParams *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_FILL) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    const struct hip_fill *f = &node->work.fill;
    *params = (hipMemsetParams){.dst = f->dst,
                                .elementSize = f->element,
                                .height = f->height,
                                .pitch = f->pitch,
                                .value = f->value,
                                .width = f->width};
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *params)
{
    return HIP_CALL(hipGraphMemsetNodeGetParams, get_fill(node, params));
}

/* The functions from here on handle nodes of host functions. */

/* Sets *work to a call of a host function. */
static hipError_t host_work(const hipHostNodeParams *params, struct hip_work *work)
{
    if (!params || !params->fn)
        return hipErrorInvalidValue;
    *work = (struct hip_work){.kind = WORK_HOST, .host = {params->fn, params->userData}};
    return hipSuccess;
}

NODE_KIND(Host, hipHostNodeParams, const hipHostNodeParams, host_work)

/* Sets *params to the parameters of a host node. */
static hipError_t get_host(hipGraphNode_t handle, hipHostNodeParams *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_HOST) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    *params = (hipHostNodeParams){.fn = node->work.host.fn, .userData = node->work.host.data};
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *params)
{
    return HIP_CALL(hipGraphHostNodeGetParams, get_host(node, params));
}

/* The functions from here on handle nodes of events. */

/* Sets *work to the record of an event, or the wait for one. */
static hipError_t event_work(hipEvent_t handle, enum hip_work_kind kind, struct hip_work *work)
{
    *work = (struct hip_work){.kind = kind, .event = hip_object_get(handle, HIP_EVENT)};
    if (work->event)
        return hipSuccess;
    work->kind = WORK_EMPTY;
    return hipErrorInvalidValue;
}

/* Sets *event to the event of a node. */
static hipError_t get_event(hipGraphNode_t handle, enum hip_work_kind kind, hipEvent_t *event)
{
    struct hipGraphNode *node = event ? hip_graph_node_get(handle, kind) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    *event = node->work.event;
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

#define EVENT_NODE(Kind, kind)                                                                    \
    HIP_EXPORT hipError_t hipGraphAdd##Kind##Node(hipGraphNode_t *node, hipGraph_t graph,         \
                                                  const hipGraphNode_t *needs, size_t count,      \
                                                  hipEvent_t event)                               \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(hipGraphAdd##Kind##Node,                                                  \
                        (error = event_work(event, kind, &work),                                  \
                         hip_graph_add_checked(node, graph, needs, count, error, work)));         \
    }                                                                                             \
    HIP_EXPORT hipError_t hipGraph##Kind##NodeGetEvent(hipGraphNode_t node, hipEvent_t *event)    \
    {                                                                                             \
        return HIP_CALL(hipGraph##Kind##NodeGetEvent, get_event(node, kind, event));              \
    }                                                                                             \
    HIP_EXPORT hipError_t hipGraph##Kind##NodeSetEvent(hipGraphNode_t node, hipEvent_t event)     \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(hipGraph##Kind##NodeSetEvent,                                             \
                        (error = event_work(event, kind, &work),                                  \
                         hip_graph_replace(NULL, false, node, error, work)));                     \
    }                                                                                             \
    HIP_EXPORT hipError_t hipGraphExec##Kind##NodeSetEvent(hipGraphExec_t exec,                   \
                                                           hipGraphNode_t node, hipEvent_t event) \
    {                                                                                             \
        struct hip_work work;                                                                     \
        hipError_t error;                                                                         \
        return HIP_CALL(hipGraphExec##Kind##NodeSetEvent,                                         \
                        (error = event_work(event, kind, &work),                                  \
                         hip_graph_replace(exec, true, node, error, work)));                      \
    }

EVENT_NODE(EventRecord, WORK_RECORD)
EVENT_NODE(EventWait, WORK_WAIT)

/* The functions from here on handle child graphs and empty nodes. */

/* Most nodes of a child with its own children. A child is copied with them, so graphs nested in
 * each other would grow exponentially without a limit. */
#define MAX_CHILD_NODES (1u << 18)

/* Returns the number of nodes of a graph, with the nodes of its child graphs. */
static size_t count_nodes(const struct ihipGraph *graph)
{
    size_t count = graph->nodes.count;

    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.items[i]->work.kind == WORK_GRAPH)
            count += count_nodes(graph->nodes.items[i]->work.graph);
    return count;
}

hipError_t hip_graph_child_work(hipGraph_t handle, struct hip_work *work)
{
    struct ihipGraph *graph = hip_object_get(handle, HIP_GRAPH);

    *work = (struct hip_work){.kind = WORK_EMPTY};
    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    const size_t count = count_nodes(graph);
    struct ihipGraph *copy = count <= MAX_CHILD_NODES ? hip_graph_clone(graph) : NULL;
    hip_graph_unlock();
    hip_object_put(graph);
    if (count > MAX_CHILD_NODES)
        return hip_fail(hipErrorOutOfMemory, "a child graph of %zu nodes exceeds the limit of %u",
                        count, MAX_CHILD_NODES);
    if (!copy)
        return hipErrorOutOfMemory;
    copy->is_child = true;
    *work = (struct hip_work){.kind = WORK_GRAPH, .graph = copy};
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph,
                                                const hipGraphNode_t *needs, size_t count,
                                                hipGraph_t child)
{
    struct hip_work work;
    hipError_t error;

    return HIP_CALL(hipGraphAddChildGraphNode,
                    (error = hip_graph_child_work(child, &work),
                     hip_graph_add_checked(node, graph, needs, count, error, work)));
}

HIP_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                          hipGraph_t child)
{
    struct hip_work work;
    hipError_t error;

    return HIP_CALL(hipGraphExecChildGraphNodeSetParams,
                    (error = hip_graph_child_work(child, &work),
                     hip_graph_replace(exec, true, node, error, work)));
}

/* Sets *graph to the graph of a child node. */
static hipError_t get_child(hipGraphNode_t handle, hipGraph_t *graph)
{
    struct hipGraphNode *node = graph ? hip_graph_node_get(handle, WORK_GRAPH) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    *graph = node->work.graph;
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph)
{
    return HIP_CALL(hipGraphChildGraphNodeGetGraph, get_child(node, graph));
}

HIP_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph,
                                           const hipGraphNode_t *needs, size_t count)
{
    return HIP_CALL(hipGraphAddEmptyNode,
                    hip_graph_add_checked(node, graph, needs, count, hipSuccess,
                                          (struct hip_work){.kind = WORK_EMPTY}));
}

/* HIP 6 counts node types from 0, HIP 5 from 1. The two types are 10 and 11 in HIP 6, which exist
 * since 5.4. */
#define NODE_TYPE_ALLOC ((hipGraphNodeType)11)
#define NODE_TYPE_FREE ((hipGraphNodeType)12)
#define NODE_TYPE_BATCH ((hipGraphNodeType)15) /* 14 in HIP 6.4 */

/* Sets *type to the type of a node. */
static hipError_t get_type(hipGraphNode_t handle, hipGraphNodeType *type)
{
    static const hipGraphNodeType types[] = {
        [WORK_EMPTY] = hipGraphNodeTypeEmpty,    [WORK_KERNEL] = hipGraphNodeTypeKernel,
        [WORK_COPY] = hipGraphNodeTypeMemcpy,    [WORK_FILL] = hipGraphNodeTypeMemset,
        [WORK_HOST] = hipGraphNodeTypeHost,      [WORK_RECORD] = hipGraphNodeTypeEventRecord,
        [WORK_WAIT] = hipGraphNodeTypeWaitEvent, [WORK_GRAPH] = hipGraphNodeTypeGraph,
        [WORK_ALLOC] = NODE_TYPE_ALLOC,          [WORK_FREE] = NODE_TYPE_FREE,
        [WORK_BATCH] = NODE_TYPE_BATCH,
    };
    struct hipGraphNode *node = type ? hip_object_get(handle, HIP_GRAPH_NODE) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    *type = (hipGraphNodeType)(types[node->work.kind] - (hip_options().hip >= 6));
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type)
{
    return HIP_CALL(hipGraphNodeGetType, get_type(node, type));
}
