/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes and edges, copies, order, execution. */
#include "hip.h"

#include <stdlib.h>
#include <string.h>

/* Locked while nodes or edges of any graph change. */
static pthread_mutex_t graphs = PTHREAD_MUTEX_INITIALIZER;

void hip_graph_lock(void) { pthread_mutex_lock(&graphs); }

void hip_graph_unlock(void) { pthread_mutex_unlock(&graphs); }

/* The functions from here on handle sets of nodes. */

bool hip_nodes_have(const struct hip_nodes *nodes, const struct hipGraphNode *node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->items[i] == node)
            return true;
    return false;
}

/* Appends a node to the list. False without memory. */
static bool append(struct hip_nodes *nodes, struct hipGraphNode *node)
{
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity ? nodes->capacity * 2 : 4;
        struct hipGraphNode **items = realloc(nodes->items, capacity * sizeof(*items));
        if (!items)
            return false;
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->count++] = node;
    return true;
}

bool hip_nodes_add(struct hip_nodes *nodes, struct hipGraphNode *node)
{
    return hip_nodes_have(nodes, node) || append(nodes, node);
}

bool hip_nodes_remove(struct hip_nodes *nodes, const struct hipGraphNode *node)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->items[i] != node)
            continue;
        memmove(&nodes->items[i], &nodes->items[i + 1],
                (nodes->count - i - 1) * sizeof(*nodes->items));
        nodes->count--;
        return true;
    }
    return false;
}

void hip_nodes_clear(struct hip_nodes *nodes)
{
    free(nodes->items);
    *nodes = (struct hip_nodes){0};
}

/* The functions from here on create and destroy graphs. */

/* Frees a node. */
static void destroy_node(struct hip_object *object)
{
    struct hipGraphNode *node = (struct hipGraphNode *)object;

    hip_work_release(&node->work);
    hip_nodes_clear(&node->needs);
    free(node->params);
    free(node);
}

/* Frees a graph and its nodes. */
static void destroy_graph(struct hip_object *object)
{
    struct ihipGraph *graph = (struct ihipGraph *)object;

    for (size_t i = 0; i < graph->nodes.count; i++)
        hip_object_remove(graph->nodes.items[i], HIP_GRAPH_NODE);
    hip_nodes_clear(&graph->nodes);
    hip_user_references_release(graph->objects);
    free(graph);
}

struct ihipGraph *hip_graph_create(void)
{
    struct ihipGraph *graph = calloc(1, sizeof(*graph));

    if (graph)
        hip_object_add(&graph->object, HIP_GRAPH, destroy_graph);
    return graph;
}

void hip_graph_put(struct ihipGraph *graph)
{
    if (graph)
        hip_object_remove(graph, HIP_GRAPH);
}

hipError_t hip_graph_add(struct ihipGraph *graph, const struct hip_nodes *needs,
                         struct hip_work work, struct hipGraphNode **out)
{
    struct hipGraphNode *node = calloc(1, sizeof(*node));

    if (!node) {
        hip_work_release(&work);
        return hipErrorOutOfMemory;
    }
    node->work = work;
    node->graph = graph;
    node->position = graph->nodes.count;
    for (size_t i = 0; needs && i < needs->count; i++) {
        if (hip_nodes_add(&node->needs, needs->items[i]))
            continue;
        destroy_node(&node->object);
        return hipErrorOutOfMemory;
    }
    if (!append(&graph->nodes, node)) {
        destroy_node(&node->object);
        return hipErrorOutOfMemory;
    }
    hip_object_add(&node->object, HIP_GRAPH_NODE, destroy_node);
    *out = node;
    return hipSuccess;
}

/* Adds a copy of the node to the graph `copy`. False without memory. */
static bool clone_node(struct ihipGraph *copy, const struct hipGraphNode *node)
{
    struct hip_work work;
    struct hipGraphNode *made;

    if (hip_work_copy(&node->work, &work) != hipSuccess ||
        hip_graph_add(copy, NULL, work, &made) != hipSuccess)
        return false;
    made->origin = node;
    made->left_out = node->left_out;
    return true;
}

struct ihipGraph *hip_graph_clone(const struct ihipGraph *graph)
{
    struct ihipGraph *copy = hip_graph_create();

    if (!copy)
        return NULL;
    copy->origin = graph;
    if (!hip_user_references_copy(graph->objects, &copy->objects)) {
        hip_graph_put(copy);
        return NULL;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (!clone_node(copy, graph->nodes.items[i])) {
            hip_graph_put(copy);
            return NULL;
        }
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct hip_nodes *needs = &graph->nodes.items[i]->needs;
        for (size_t j = 0; j < needs->count; j++) {
            struct hipGraphNode *need = copy->nodes.items[needs->items[j]->position];
            if (!hip_nodes_add(&copy->nodes.items[i]->needs, need)) {
                hip_graph_put(copy);
                return NULL;
            }
        }
    }
    return copy;
}

/* Visits nodes depth first with a stack of its own, since a long chain would exhaust the
 * thread's. */
size_t *hip_graph_order(const struct ihipGraph *graph)
{
    enum { NEW, OPEN, DONE };
    size_t count = graph->nodes.count;
    size_t *order = calloc(count + 1, sizeof(*order));
    size_t *stack = calloc(count + 1, sizeof(*stack));
    /* by node: index of the dependency to visit next */
    size_t *next = calloc(count + 1, sizeof(*next));
    unsigned char *state = calloc(count + 1, 1);
    size_t placed = 0, depth = 0;
    bool ok = order && stack && next && state;

    for (size_t root = 0; ok && root < count; root++) {
        if (state[root] == NEW) {
            state[root] = OPEN;
            stack[depth++] = root;
        }
        while (ok && depth > 0) {
            size_t at = stack[depth - 1];
            const struct hip_nodes *needs = &graph->nodes.items[at]->needs;
            if (next[at] == needs->count) {
                state[at] = DONE;
                order[placed++] = at;
                depth--;
                continue;
            }
            size_t need = needs->items[next[at]++]->position;
            ok = state[need] != OPEN;
            if (state[need] == NEW) {
                state[need] = OPEN;
                stack[depth++] = need;
            }
        }
    }
    free(stack);
    free(next);
    free(state);
    if (!ok) {
        free(order);
        return NULL;
    }
    return order;
}

/* True if the node is a kernel that depends on a kernel. The command processor has then prepared
 * it. */
static bool follows_kernel(const struct hipGraphNode *node)
{
    if (node->work.kind != WORK_KERNEL)
        return false;
    for (size_t i = 0; i < node->needs.count; i++)
        if (node->needs.items[i]->work.kind == WORK_KERNEL)
            return true;
    return false;
}

/* Runs a node's work at modelled time *end, and sets *end to its end. */
static hipError_t run_node(const struct hipGraphNode *node, struct hip_device *device, double *end)
{
    struct hip_work work = node->work; /* a copy; the node owns what the work owns */
    if (follows_kernel(node))
        work.kernel.follows = true;
    return hip_work_run(&work, device, end);
}

hipError_t hip_graph_run(const struct ihipGraph *graph, struct hip_device *device, double *time)
{
    size_t count = graph->nodes.count;
    size_t *order = hip_graph_order(graph);
    double *ends = calloc(count + 1, sizeof(*ends));
    hipError_t error = order && ends ? hipSuccess : hipErrorOutOfMemory;
    double start = *time;

    for (size_t i = 0; error == hipSuccess && i < count; i++) {
        const struct hipGraphNode *node = graph->nodes.items[order[i]];
        double end = start;
        for (size_t j = 0; j < node->needs.count; j++)
            if (ends[node->needs.items[j]->position] > end)
                end = ends[node->needs.items[j]->position];
        if (!node->left_out)
            error = run_node(node, device, &end);
        ends[order[i]] = end;
        if (end > *time)
            *time = end;
    }
    free(order);
    free(ends);
    return error;
}

/* From here on there are functions of the HIP API for graphs. */

/* Creates an empty graph. */
static hipError_t graph_create(hipGraph_t *graph, unsigned flags)
{
    if (!graph || flags)
        return hipErrorInvalidValue;
    *graph = hip_graph_create();
    return *graph ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags)
{
    return HIP_CALL(hipGraphCreate, graph_create(graph, flags));
}

/* Destroys the graph of a handle. */
static hipError_t graph_destroy(hipGraph_t handle)
{
    struct ihipGraph *graph = hip_object_get(handle, HIP_GRAPH);
    hipError_t error = hipSuccess;

    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    if (graph->captured || graph->is_child)
        error = hip_fail(hipErrorInvalidValue, "the graph belongs to a %s and ends with it",
                         graph->captured ? "capture" : "node");
    hip_graph_unlock();
    if (error == hipSuccess)
        hip_object_remove(graph, HIP_GRAPH);
    hip_object_put(graph);
    return error;
}

HIP_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph)
{
    return HIP_CALL(hipGraphDestroy, graph_destroy(graph));
}

/* Sets *copy to a copy of a graph. */
static hipError_t graph_clone(hipGraph_t *copy, hipGraph_t handle)
{
    struct ihipGraph *graph = copy ? hip_object_get(handle, HIP_GRAPH) : NULL;

    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    *copy = hip_graph_clone(graph);
    hip_graph_unlock();
    hip_object_put(graph);
    return *copy ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipGraphClone(hipGraph_t *copy, hipGraph_t graph)
{
    return HIP_CALL(hipGraphClone, graph_clone(copy, graph));
}

/* Sets *found to the copy of a node in a cloned graph. */
static hipError_t find_in_clone(hipGraphNode_t *found, hipGraphNode_t original, hipGraph_t handle)
{
    struct ihipGraph *graph = found ? hip_object_get(handle, HIP_GRAPH) : NULL;

    if (!graph)
        return hipErrorInvalidValue;
    *found = NULL;
    hip_graph_lock();
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.items[i]->origin == original)
            *found = graph->nodes.items[i];
    hip_graph_unlock();
    hip_object_put(graph);
    return *found ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipGraphNodeFindInClone(hipGraphNode_t *node, hipGraphNode_t original,
                                              hipGraph_t graph)
{
    return HIP_CALL(hipGraphNodeFindInClone, find_in_clone(node, original, graph));
}

/* Copies the first *count nodes to `to`, with NULL after the last one; none if `to` is NULL. Sets
 * *count to the number copied or, without `to`, to the number of nodes. */
static hipError_t list(const struct hip_nodes *nodes, hipGraphNode_t *to, size_t *count)
{
    for (size_t i = 0; to && i < *count; i++)
        to[i] = i < nodes->count ? nodes->items[i] : NULL;
    if (!to || *count > nodes->count)
        *count = nodes->count;
    return hipSuccess;
}

/* Stores the nodes of a graph, or only its roots. *count is the room, then their number. */
static hipError_t graph_nodes(hipGraph_t handle, hipGraphNode_t *to, size_t *count, bool roots)
{
    struct hip_nodes found = {0};
    struct ihipGraph *graph = count ? hip_object_get(handle, HIP_GRAPH) : NULL;
    bool ok = true;

    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    for (size_t i = 0; ok && i < graph->nodes.count; i++)
        if (!roots || graph->nodes.items[i]->needs.count == 0)
            ok = append(&found, graph->nodes.items[i]);
    hipError_t error = ok ? list(&found, to, count) : hipErrorOutOfMemory;
    hip_graph_unlock();
    hip_nodes_clear(&found);
    hip_object_put(graph);
    return error;
}

HIP_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    return HIP_CALL(hipGraphGetNodes, graph_nodes(graph, nodes, count, false));
}

HIP_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    return HIP_CALL(hipGraphGetRootNodes, graph_nodes(graph, nodes, count, true));
}

/* From here on there are functions of the HIP API for edges. */

/* Stores the nodes that a node depends on, or its dependents. *count is the room, then their
 * number. */
static hipError_t neighbours(hipGraphNode_t handle, hipGraphNode_t *to, size_t *count,
                             bool dependents)
{
    struct hip_nodes found = {0};
    struct hipGraphNode *node = count ? hip_object_get(handle, HIP_GRAPH_NODE) : NULL;
    bool ok = true;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    const struct hip_nodes *all = dependents ? &node->graph->nodes : &node->needs;
    for (size_t i = 0; ok && i < all->count; i++)
        if (!dependents || hip_nodes_have(&all->items[i]->needs, node))
            ok = append(&found, all->items[i]);
    hipError_t error = ok ? list(&found, to, count) : hipErrorOutOfMemory;
    hip_graph_unlock();
    hip_nodes_clear(&found);
    hip_object_put(node);
    return error;
}

HIP_EXPORT hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *nodes,
                                                  size_t *count)
{
    return HIP_CALL(hipGraphNodeGetDependencies, neighbours(node, nodes, count, false));
}

HIP_EXPORT hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *nodes,
                                                    size_t *count)
{
    return HIP_CALL(hipGraphNodeGetDependentNodes, neighbours(node, nodes, count, true));
}

/* Adds or removes the dependence of node `to` on node `from`. */
static hipError_t change_edge(struct ihipGraph *graph, hipGraphNode_t from, hipGraphNode_t to,
                              bool add)
{
    if (!hip_nodes_have(&graph->nodes, from) || !hip_nodes_have(&graph->nodes, to) || from == to)
        return hipErrorInvalidValue;
    if (!add)
        return hip_nodes_remove(&to->needs, from) ? hipSuccess : hipErrorInvalidValue;
    if (hip_nodes_have(&to->needs, from))
        return hipErrorInvalidValue;
    return hip_nodes_add(&to->needs, from) ? hipSuccess : hipErrorOutOfMemory;
}

/* Adds or removes `count` dependences of a graph. */
static hipError_t change_edges(hipGraph_t handle, const hipGraphNode_t *from,
                               const hipGraphNode_t *to, size_t count, bool add)
{
    struct ihipGraph *graph = count && (!from || !to) ? NULL : hip_object_get(handle, HIP_GRAPH);
    hipError_t error = hipSuccess;

    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    for (size_t i = 0; error == hipSuccess && i < count; i++)
        error = change_edge(graph, from[i], to[i], add);
    hip_graph_unlock();
    hip_object_put(graph);
    return error;
}

HIP_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from,
                                              const hipGraphNode_t *to, size_t count)
{
    return HIP_CALL(hipGraphAddDependencies, change_edges(graph, from, to, count, true));
}

HIP_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from,
                                                 const hipGraphNode_t *to, size_t count)
{
    return HIP_CALL(hipGraphRemoveDependencies, change_edges(graph, from, to, count, false));
}

/* Stores the dependences of a graph. *count is the room, then their number. */
static hipError_t edges(hipGraph_t handle, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count)
{
    struct ihipGraph *graph = count && !from == !to ? hip_object_get(handle, HIP_GRAPH) : NULL;
    size_t found = 0;

    if (!graph)
        return hipErrorInvalidValue;
    hip_graph_lock();
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct hip_nodes *needs = &graph->nodes.items[i]->needs;
        for (size_t j = 0; j < needs->count; j++, found++) {
            if (!from || found >= *count)
                continue;
            from[found] = needs->items[j];
            to[found] = graph->nodes.items[i];
        }
    }
    hip_graph_unlock();
    hip_object_put(graph);
    for (size_t i = found; from && i < *count; i++)
        from[i] = to[i] = NULL;
    if (!from || *count > found)
        *count = found;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to,
                                       size_t *count)
{
    return HIP_CALL(hipGraphGetEdges, edges(graph, from, to, count));
}

/* Removes a node from its graph and destroys it. */
static hipError_t destroy_one(hipGraphNode_t handle)
{
    struct hipGraphNode *node = hip_object_get(handle, HIP_GRAPH_NODE);

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    if (node->graph->captured) {
        hip_graph_unlock();
        hip_object_put(node);
        return hip_fail(hipErrorInvalidValue, "the node belongs to a capture, which depends on it");
    }
    struct hip_nodes *nodes = &node->graph->nodes;
    hip_nodes_remove(nodes, node);
    for (size_t i = 0; i < nodes->count; i++) {
        nodes->items[i]->position = i;
        hip_nodes_remove(&nodes->items[i]->needs, node);
    }
    hip_graph_unlock();
    hip_object_remove(node, HIP_GRAPH_NODE);
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t node)
{
    return HIP_CALL(hipGraphDestroyNode, destroy_one(node));
}
