/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel loop: the threads share a counter, and each takes the next index from it.
 */
#include "compiler/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64, STACK_BYTES = 16 << 20 /* stack of a thread: LLVM recurses deeply */ };

struct loop {
    atomic_size_t next; /* the smallest index that no thread has taken */
    size_t count;
    void (*body)(void *context, size_t i);
    void *context;
};

/* Calls the loop's body for one index after another until none is left. The start function of a
 * thread; `argument` is a struct loop. */
static void *work(void *argument)
{
    struct loop *l = argument;
    for (size_t i; (i = atomic_fetch_add(&l->next, 1)) < l->count;)
        l->body(l->context, i);
    return NULL;
}

void attnc_parallel(unsigned jobs, size_t count, void (*body)(void *context, size_t i),
                    void *context)
{
    struct loop l = {.count = count, .body = body, .context = context};
    pthread_t threads[MAX_THREADS];
    size_t started = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (started < MAX_THREADS && started + 1 < jobs && started + 1 < count &&
           pthread_create(&threads[started], &attributes, work, &l) == 0)
        started++;
    pthread_attr_destroy(&attributes);
    work(&l);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
