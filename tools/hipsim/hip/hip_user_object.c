/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: resources of the program that exist as long as graphs refer to them. */
#include "hip.h"

#include <limits.h>
#include <stdlib.h>

#define NO_DESTRUCTOR_SYNC 1u /* hipUserObjectNoDestructorSync, the only flag, which must be set */
#define MOVE 1u               /* hipGraphUserObjectMove: the graph gets the caller's references */

typedef struct hipUserObject *hipUserObject_t;

/* A resource of the program and the function that frees it. */
struct hipUserObject {
    struct hip_object object;
    void *resource;
    hipHostFn_t end;
    uint64_t count; /* references of the program and of graphs; needs the lock `counts` */
};

/* An entry of a graph's list of user objects: the object, and the number of the graph's references
 * to it. */
struct hip_user_reference {
    /* the user object, to which the entry has a reference of its own */
    struct hipUserObject *object;
    uint64_t count;
    struct hip_user_reference *next;
};

static pthread_mutex_t counts = PTHREAD_MUTEX_INITIALIZER;

/* Calls the program's function for the resource and frees the object. */
static void destroy_user_object(struct hip_object *object)
{
    struct hipUserObject *user = (struct hipUserObject *)object;

    user->end(user->resource);
    free(user);
}

/* Adds `count` references. False if the object has ended. */
static bool add(struct hipUserObject *user, uint64_t count)
{
    pthread_mutex_lock(&counts);
    const bool alive = user->count > 0;
    if (alive)
        user->count += count;
    pthread_mutex_unlock(&counts);
    return alive;
}

/* Drops `count` references; the last one ends the object. As in AMD's library, more may be dropped
 * than exist. */
static bool drop(struct hipUserObject *user, uint64_t count)
{
    pthread_mutex_lock(&counts);
    const bool alive = user->count > 0;
    user->count -= count < user->count ? count : user->count;
    const bool last = alive && user->count == 0;
    pthread_mutex_unlock(&counts);
    if (last)
        hip_object_remove(user, HIP_USER_OBJECT);
    return alive;
}

/* The functions from here on hold references of graphs to user objects. */

/* Returns the list's entry for an object; NULL if there is none. */
static struct hip_user_reference *find(struct hip_user_reference *list,
                                       const struct hipUserObject *user)
{
    while (list && list->object != user)
        list = list->next;
    return list;
}

/* Adds `count` references to the list, which the caller has counted. False without memory. */
static bool hold(struct hip_user_reference **list, struct hipUserObject *user, uint64_t count)
{
    struct hip_user_reference *have = find(*list, user);

    if (!have) {
        have = malloc(sizeof(*have));
        if (!have)
            return false;
        hip_object_ref(user);
        *have = (struct hip_user_reference){.object = user, .next = *list};
        *list = have;
    }
    have->count += count;
    return true;
}

bool hip_user_references_copy(const struct hip_user_reference *from, struct hip_user_reference **to)
{
    for (; from; from = from->next) {
        if (!hold(to, from->object, from->count))
            return false;
        add(from->object, from->count);
    }
    return true;
}

void hip_user_references_release(struct hip_user_reference *list)
{
    while (list) {
        struct hip_user_reference *next = list->next;
        drop(list->object, list->count);
        hip_object_put(list->object);
        free(list);
        list = next;
    }
}

/* Gives a graph `count` references to an object: new ones, or with MOVE the caller's. */
static hipError_t graph_retain(hipGraph_t handle, hipUserObject_t user_handle, unsigned count,
                               unsigned flags)
{
    struct ihipGraph *graph = hip_object_get(handle, HIP_GRAPH);
    struct hipUserObject *user = hip_object_get(user_handle, HIP_USER_OBJECT);
    hipError_t error = hipErrorInvalidValue;

    if (graph && user && count > 0 && count <= INT_MAX && flags <= MOVE &&
        (flags == MOVE || add(user, count))) {
        hip_graph_lock();
        error = hold(&graph->objects, user, count) ? hipSuccess : hipErrorOutOfMemory;
        hip_graph_unlock();
        if (error != hipSuccess && flags != MOVE)
            drop(user, count);
    }
    hip_object_put(graph);
    hip_object_put(user);
    return error;
}

/* Drops `count` of a graph's references to an object. */
static hipError_t graph_release(hipGraph_t handle, hipUserObject_t user_handle, unsigned count)
{
    struct ihipGraph *graph = hip_object_get(handle, HIP_GRAPH);
    struct hipUserObject *user = hip_object_get(user_handle, HIP_USER_OBJECT);
    uint64_t dropped = 0;
    const bool ok = graph && user_handle && count > 0;

    if (ok && user) {
        hip_graph_lock();
        struct hip_user_reference *have = find(graph->objects, user);
        dropped = !have ? 0 : have->count < count ? have->count : count;
        if (have)
            have->count -= dropped;
        hip_graph_unlock();
    }
    if (dropped)
        drop(user, dropped);
    hip_object_put(graph);
    hip_object_put(user);
    return ok ? hipSuccess : hipErrorInvalidValue;
}

/* From here on there are functions of the HIP API, which HIP 5.2's header lacks. */

hipError_t hipUserObjectCreate(hipUserObject_t *object, void *resource, hipHostFn_t end,
                               unsigned int count, unsigned int flags);
hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count);
hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count);
hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count,
                                    unsigned int flags);
hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count);

/* Creates a user object with `count` references. */
static hipError_t create(hipUserObject_t *handle, void *resource, hipHostFn_t end, unsigned count,
                         unsigned flags)
{
    if (!handle || !end || count == 0 || count > INT_MAX || flags != NO_DESTRUCTOR_SYNC)
        return hipErrorInvalidValue;
    struct hipUserObject *user = calloc(1, sizeof(*user));
    if (!user)
        return hipErrorOutOfMemory;
    user->resource = resource;
    user->end = end;
    user->count = count;
    hip_object_add(&user->object, HIP_USER_OBJECT, destroy_user_object);
    *handle = user;
    return hipSuccess;
}

HIP_EXPORT hipError_t hipUserObjectCreate(hipUserObject_t *object, void *resource, hipHostFn_t end,
                                          unsigned int count, unsigned int flags)
{
    return HIP_CALL(hipUserObjectCreate, create(object, resource, end, count, flags));
}

/* Retains or releases references, by `how`. An object that has ended is no error. */
static hipError_t change(hipUserObject_t handle, unsigned count,
                         bool (*how)(struct hipUserObject *user, uint64_t count))
{
    struct hipUserObject *user = hip_object_get(handle, HIP_USER_OBJECT);

    if (user && count > 0 && count <= INT_MAX)
        how(user, count);
    hip_object_put(user);
    return handle && count > 0 && count <= INT_MAX ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count)
{
    return HIP_CALL(hipUserObjectRetain, change(object, count, add));
}

HIP_EXPORT hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count)
{
    return HIP_CALL(hipUserObjectRelease, change(object, count, drop));
}

HIP_EXPORT hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object,
                                               unsigned int count, unsigned int flags)
{
    return HIP_CALL(hipGraphRetainUserObject, graph_retain(graph, object, count, flags));
}

HIP_EXPORT hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object,
                                                unsigned int count)
{
    return HIP_CALL(hipGraphReleaseUserObject, graph_release(graph, object, count));
}
