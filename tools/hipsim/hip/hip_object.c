/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of live handles, in which every handle from a program is looked up. */
#include "hip.h"

#include <stdlib.h>

#define FIRST_BITS 10u

static struct hip_object *first_buckets[1u << FIRST_BITS];

static struct {
    pthread_mutex_t lock;
    struct hip_object **buckets; /* array of 1 << bits lists */
    unsigned bits;
    size_t count;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .buckets = first_buckets, .bits = FIRST_BITS};

/* Returns the list of the hash table for the handle. */
static struct hip_object **bucket_of(const void *handle)
{
    const uint64_t hash = (uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);

    return &registry.buckets[hash >> (64 - registry.bits)];
}

/* Doubles the number of buckets, since graphs have many nodes. Without memory the chains become
 * longer. */
static void grow(void)
{
    const size_t size = (size_t)1 << registry.bits;
    struct hip_object **before = registry.buckets;
    struct hip_object **buckets = calloc(size * 4, sizeof(*buckets));

    if (!buckets)
        return;
    registry.buckets = buckets;
    registry.bits += 2;
    for (size_t i = 0; i < size; i++) {
        while (before[i]) {
            struct hip_object *object = before[i], **bucket = bucket_of(object);
            before[i] = object->next;
            object->next = *bucket;
            *bucket = object;
        }
    }
    if (before != first_buckets)
        free(before);
}

void hip_object_add(struct hip_object *object, enum hip_kind kind,
                    void (*destroy)(struct hip_object *object))
{
    object->kind = kind;
    object->destroy = destroy;
    atomic_store(&object->references, 1);
    pthread_mutex_lock(&registry.lock);
    if (++registry.count >> registry.bits >= 2)
        grow();
    struct hip_object **bucket = bucket_of(object);
    object->next = *bucket;
    *bucket = object;
    pthread_mutex_unlock(&registry.lock);
}

/* Returns the link that points to the object, so that it can be removed. The caller has locked the
 * registry. */
static struct hip_object **find(const void *handle, enum hip_kind kind)
{
    struct hip_object **link = bucket_of(handle);

    while (*link && (*link != handle || (*link)->kind != kind))
        link = &(*link)->next;
    return link;
}

void *hip_object_get(const void *handle, enum hip_kind kind)
{
    pthread_mutex_lock(&registry.lock);
    struct hip_object *object = *find(handle, kind);
    if (object)
        atomic_fetch_add(&object->references, 1);
    pthread_mutex_unlock(&registry.lock);
    return object;
}

void hip_object_ref(void *object)
{
    atomic_fetch_add(&((struct hip_object *)object)->references, 1);
}

void hip_object_put(void *pointer)
{
    struct hip_object *object = pointer;

    if (object && atomic_fetch_sub(&object->references, 1) == 1)
        object->destroy(object);
}

bool hip_object_remove(const void *handle, enum hip_kind kind)
{
    pthread_mutex_lock(&registry.lock);
    struct hip_object **link = find(handle, kind);
    struct hip_object *object = *link;
    if (object) {
        *link = object->next;
        registry.count--;
    }
    pthread_mutex_unlock(&registry.lock);
    hip_object_put(object);
    return object != NULL;
}
