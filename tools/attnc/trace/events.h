/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of launches on a GPU by HIP's events, with a cold cache, and the clock that the GPU says it
 * runs at.
 */
#ifndef TOOLS_ATTNC_EVENTS_H
#define TOOLS_ATTNC_EVENTS_H

#include "tools/attnc/trace/trace.h"

/** The event functions of the library that a session's device came from. */
struct events {
    int (*hipEventCreate)(void **event);
    int (*hipEventRecord)(void *event, void *stream);
    int (*hipEventSynchronize)(void *event);
    int (*hipEventElapsedTime)(float *milliseconds, void *start, void *stop);
    int (*hipMemsetAsync)(void *to, int value, size_t size, void *stream);
    void *start, *stop;
    void *flush;       /* device memory that is written before each launch, or NULL */
    size_t flush_size; /* bytes, more than the last cache of the target holds */
    char clock[128];   /* file of sysfs with the clock, in Hz; "": there is none */
};

/** Opens the events of a session's device. `flush` bytes are overwritten before each sample, 0:
 * none. Returns false with the missing part in `why` on failure. Measurements run in a child
 * process, whose end releases the events and the memory. */
bool events_open(struct events *e, struct trace_session *t, size_t flush, char *why,
                 size_t why_size);

/** Times one launch of a session, in us. Returns false if a HIP call failed, and `why` has its
 * name. */
bool events_time(struct events *e, struct trace_session *t, double *us, char *why, size_t why_size);

/** Returns the clock that the driver reports, in MHz, or 0. */
double events_clock(const struct events *e);

#endif
