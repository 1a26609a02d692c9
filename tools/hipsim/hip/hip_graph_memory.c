/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate and free as they run. Its address is constant from the creation of
 * the node on, so the bytes are allocated then. A launch only changes whether they are in use. If a
 * graph does not free the memory, the program frees it with hipFree() or another graph.
 */
#include "hip_order.h"

#include <stdlib.h>
#include <string.h>

/* The layout of hipMemAllocNodeParams in ROCm 6's hip_runtime_api.h. */
struct alloc_parameters {
    hipMemPoolProps pool;
    const hipMemAccessDesc *access;
    size_t access_count;
    size_t size;
    void *pointer;
};
/* Attributes of graph memory, in bytes: in use, and reserved; each as a current value and as the
 * highest so far. */
enum graph_memory_attribute { USED, USED_HIGH, RESERVED, RESERVED_HIGH, ATTRIBUTES };

/* Memory that nodes of graphs allocate and free. */
struct hip_graph_memory {
    unsigned nodes; /* number of nodes in graphs and executables that allocate or free it */
    /* True: a launch has allocated it, and nothing has freed it since. */
    bool in_use;
    size_t size;
    void *pointer;
    int device;
    hipMemPoolProps pool;
    struct hip_graph_memory *next;
};

enum { DEVICES_MAX = 64 };
static struct {
    pthread_mutex_t lock;
    struct hip_graph_memory *all;
    uint64_t attributes[DEVICES_MAX][ATTRIBUTES];
} memories = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the graph memory that begins at `pointer`. NULL: none. */
static struct hip_graph_memory *find(const void *pointer)
{
    struct hip_graph_memory *m = memories.all;

    while (m && m->pointer != pointer)
        m = m->next;
    return m;
}

/* Adds the memory to the device's attributes, or if not `more` subtracts it. */
static void account(const struct hip_graph_memory *m, bool more)
{
    uint64_t *a = memories.attributes[m->device % DEVICES_MAX];

    a[USED] = more ? a[USED] + m->size : a[USED] - m->size;
    if (a[USED] > a[USED_HIGH])
        a[USED_HIGH] = a[USED];
    if (a[USED] > a[RESERVED])
        a[RESERVED] = a[USED];
    if (a[RESERVED] > a[RESERVED_HIGH])
        a[RESERVED_HIGH] = a[RESERVED];
}

/* Removes the memory from the table if nothing can use it any more, and returns it for the caller
 * to free; otherwise NULL. */
static struct hip_graph_memory *take_dead(struct hip_graph_memory *m)
{
    if (m->nodes || m->in_use)
        return NULL;
    for (struct hip_graph_memory **link = &memories.all; *link; link = &(*link)->next) {
        if (*link != m)
            continue;
        *link = m->next;
        return m;
    }
    return NULL;
}

/* Frees memory that no graph uses any more. NULL is allowed. */
static void release_dead(struct hip_graph_memory *dead)
{
    if (!dead)
        return;
    hip_order_forget(dead->pointer, dead->size);
    hipsim_mem_free(dead->pointer);
    free(dead);
}

void hip_graph_memory_ref(struct hip_graph_memory *memory)
{
    pthread_mutex_lock(&memories.lock);
    memory->nodes++;
    pthread_mutex_unlock(&memories.lock);
}

void hip_graph_memory_put(struct hip_graph_memory *memory)
{
    pthread_mutex_lock(&memories.lock);
    memory->nodes--;
    struct hip_graph_memory *dead = take_dead(memory);
    pthread_mutex_unlock(&memories.lock);
    release_dead(dead);
}

/* Makes the bytes undefined, when they are allocated and when they are freed. */
static hipError_t change(struct hip_graph_memory *memory, bool in_use)
{
    hipError_t error = hipSuccess;

    pthread_mutex_lock(&memories.lock);
    if (memory->in_use == in_use) {
        error = hipErrorInvalidValue;
    } else {
        memory->in_use = in_use;
        account(memory, in_use);
        hipsim_mem_unmark((uintptr_t)memory->pointer, memory->size);
    }
    pthread_mutex_unlock(&memories.lock);
    return error;
}

hipError_t hip_graph_memory_run(struct hip_graph_memory *memory, bool in_use)
{
    const hipError_t error = change(memory, in_use);

    if (error == hipSuccess)
        return hipSuccess;
    return hip_fail(
        error, "the graph %s %p, which %s", in_use ? "allocates" : "frees", memory->pointer,
        in_use ? "an earlier launch has allocated and nobody has freed" : "is not allocated");
}

bool hip_graph_memory_free(const void *pointer, hipError_t *error)
{
    struct hip_graph_memory *dead = NULL;

    pthread_mutex_lock(&memories.lock);
    struct hip_graph_memory *m = find(pointer);
    if (m)
        m->nodes++;
    pthread_mutex_unlock(&memories.lock);
    if (!m)
        return false;
    *error = change(m, false);
    if (*error != hipSuccess)
        hip_fail(*error, "%p is memory of a graph, which has not allocated it", pointer);
    pthread_mutex_lock(&memories.lock);
    m->nodes--;
    dead = take_dead(m);
    pthread_mutex_unlock(&memories.lock);
    release_dead(dead);
    return true;
}

/* The functions from here on handle nodes that allocate and free. */

/* Checks the parameters of an allocation. */
static hipError_t check_parameters(const struct alloc_parameters *p)
{
    if (!p || !p->size || p->pool.allocType != hipMemAllocationTypePinned ||
        p->pool.location.type != hipMemLocationTypeDevice || !hip_device(p->pool.location.id) ||
        (p->access_count && !p->access))
        return hipErrorInvalidValue;
    for (size_t i = 0; i < p->access_count; i++)
        if (p->access[i].location.type != hipMemLocationTypeDevice ||
            !hip_device(p->access[i].location.id))
            return hipErrorInvalidValue;
    return hipSuccess;
}

/* Sets *work to an allocation with these parameters. */
static hipError_t alloc_work(struct alloc_parameters *p, struct hip_work *work)
{
    hipError_t error = check_parameters(p);
    struct hip_graph_memory *m = error == hipSuccess ? calloc(1, sizeof(*m)) : NULL;

    if (!m)
        return error == hipSuccess ? hipErrorOutOfMemory : error;
    *m = (struct hip_graph_memory){
        .nodes = 1, .size = p->size, .device = p->pool.location.id, .pool = p->pool};
    error = hip_allocate_on(&m->pointer, p->size, hip_device(m->device));
    if (error != hipSuccess) {
        free(m);
        return error;
    }
    p->pointer = m->pointer;
    pthread_mutex_lock(&memories.lock);
    m->next = memories.all;
    memories.all = m;
    pthread_mutex_unlock(&memories.lock);
    *work = (struct hip_work){.kind = WORK_ALLOC, .memory = m};
    return hipSuccess;
}

/* Sets *work to the release of graph memory. */
static hipError_t free_work(const void *pointer, struct hip_work *work)
{
    pthread_mutex_lock(&memories.lock);
    struct hip_graph_memory *m = find(pointer);
    if (m)
        m->nodes++;
    pthread_mutex_unlock(&memories.lock);
    *work = (struct hip_work){.kind = m ? WORK_FREE : WORK_EMPTY, .memory = m};
    return m ? hipSuccess
             : hip_fail(hipErrorInvalidValue, "%p is no memory that a graph allocates", pointer);
}

hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph,
                                   const hipGraphNode_t *needs, size_t count,
                                   struct alloc_parameters *parameters);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                  const hipGraphNode_t *needs, size_t count, void *pointer);
hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                     const hipGraphNode_t *needs, size_t count,
                                     hipDeviceptr_t pointer);
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, struct alloc_parameters *parameters);
hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *pointer);

HIP_EXPORT hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph,
                                              const hipGraphNode_t *needs, size_t count,
                                              struct alloc_parameters *parameters)
{
    struct hip_work work;
    hipError_t error;

    return HIP_CALL(hipGraphAddMemAllocNode,
                    (error = alloc_work(parameters, &work),
                     hip_graph_add_checked(node, graph, needs, count, error, work)));
}

HIP_EXPORT hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                             const hipGraphNode_t *needs, size_t count,
                                             void *pointer)
{
    struct hip_work work;
    hipError_t error;

    return HIP_CALL(hipGraphAddMemFreeNode,
                    (error = free_work(pointer, &work),
                     hip_graph_add_checked(node, graph, needs, count, error, work)));
}

HIP_EXPORT hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
                                                const hipGraphNode_t *needs, size_t count,
                                                hipDeviceptr_t pointer)
{
    struct hip_work work;
    hipError_t error;

    return HIP_CALL(hipDrvGraphAddMemFreeNode,
                    (error = free_work((const void *)pointer, &work),
                     hip_graph_add_checked(node, graph, needs, count, error, work)));
}

/* Sets *to to the memory of a node that allocates or frees (`kind`). */
static hipError_t get_memory(hipGraphNode_t handle, enum hip_work_kind kind,
                             struct alloc_parameters *to)
{
    struct hipGraphNode *node = to ? hip_graph_node_get(handle, kind) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    const struct hip_graph_memory *m = node->work.memory;
    *to = (struct alloc_parameters){.pool = m->pool, .size = m->size, .pointer = m->pointer};
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node,
                                                    struct alloc_parameters *parameters)
{
    return HIP_CALL(hipGraphMemAllocNodeGetParams, get_memory(node, WORK_ALLOC, parameters));
}

/* Stores the pointer that a node frees at `to`. */
static hipError_t get_freed(hipGraphNode_t node, void *to)
{
    struct alloc_parameters parameters;
    const hipError_t error = to ? get_memory(node, WORK_FREE, &parameters) : hipErrorInvalidValue;

    if (error == hipSuccess)
        memcpy(to, &parameters.pointer, sizeof(parameters.pointer));
    return error;
}

HIP_EXPORT hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *pointer)
{
    return HIP_CALL(hipGraphMemFreeNodeGetParams, get_freed(node, pointer));
}

/* The functions from here on capture allocations. */

hipError_t hip_graph_memory_capture(void **pointer, size_t size, const struct hip_device *device,
                                    struct hip_work *work)
{
    struct alloc_parameters parameters = {
        .pool = {.allocType = hipMemAllocationTypePinned,
                 .location = {.type = hipMemLocationTypeDevice, .id = device->ordinal}},
        .size = size,
    };
    const hipError_t error = alloc_work(&parameters, work);

    if (error == hipSuccess)
        *pointer = parameters.pointer;
    return error;
}

hipError_t hip_graph_memory_capture_free(const void *pointer, struct hip_work *work)
{
    return free_work(pointer, work);
}

/* The functions from here on access attributes of graphs' memory. */

hipError_t hipDeviceGetGraphMemAttribute(int device, enum graph_memory_attribute attribute,
                                         void *value);
hipError_t hipDeviceSetGraphMemAttribute(int device, enum graph_memory_attribute attribute,
                                         void *value);
hipError_t hipDeviceGraphMemTrim(int device);

/* Checks the arguments of a call about memory attributes. */
static hipError_t check_attribute(int device, enum graph_memory_attribute attribute,
                                  const void *value)
{
    if (!hip_device(device))
        return hipErrorInvalidDevice;
    return value && (unsigned)attribute < ATTRIBUTES ? hipSuccess : hipErrorInvalidValue;
}

/* Sets *value to a memory attribute of the device. */
static hipError_t get_attribute(int device, enum graph_memory_attribute attribute, void *value)
{
    const hipError_t error = check_attribute(device, attribute, value);

    if (error != hipSuccess)
        return error;
    pthread_mutex_lock(&memories.lock);
    *(uint64_t *)value = memories.attributes[device % DEVICES_MAX][attribute];
    pthread_mutex_unlock(&memories.lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetGraphMemAttribute(int device,
                                                    enum graph_memory_attribute attribute,
                                                    void *value)
{
    return HIP_CALL(hipDeviceGetGraphMemAttribute, get_attribute(device, attribute, value));
}

/* Sets a high watermark to 0, so that it restarts from the current value. */
static hipError_t set_attribute(int device, enum graph_memory_attribute attribute,
                                const void *value)
{
    const hipError_t error = check_attribute(device, attribute, value);

    if (error != hipSuccess)
        return error;
    if ((attribute != USED_HIGH && attribute != RESERVED_HIGH) || *(const uint64_t *)value)
        return hipErrorInvalidValue;
    pthread_mutex_lock(&memories.lock);
    uint64_t *high = &memories.attributes[device % DEVICES_MAX][attribute];
    *high = high[-1];
    pthread_mutex_unlock(&memories.lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceSetGraphMemAttribute(int device,
                                                    enum graph_memory_attribute attribute,
                                                    void *value)
{
    return HIP_CALL(hipDeviceSetGraphMemAttribute, set_attribute(device, attribute, value));
}

/* Releases the unused graph memory of the device. */
static hipError_t trim(int device)
{
    if (!hip_device(device))
        return hipErrorInvalidDevice;
    pthread_mutex_lock(&memories.lock);
    uint64_t *a = memories.attributes[device % DEVICES_MAX];
    a[RESERVED] = a[USED];
    pthread_mutex_unlock(&memories.lock);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGraphMemTrim(int device)
{
    return HIP_CALL(hipDeviceGraphMemTrim, trim(device));
}
