/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of launches on a GPU by HIP events, with cold caches, and the clock that the driver
 * reports.
 */
#ifndef TOOLS_ATTNC_EVENTS_H
#define TOOLS_ATTNC_EVENTS_H

#include "tools/attnc/trace/trace.h"

/** Event functions of the HIP library that a session has opened, and what a measurement needs. */
struct events {
    int (*hipEventCreate)(void **event);
    int (*hipEventRecord)(void *event, void *stream);
    int (*hipEventSynchronize)(void *event);
    int (*hipEventElapsedTime)(float *milliseconds, void *start, void *stop);
    int (*hipMemsetAsync)(void *to, int value, size_t size, void *stream);
    /* Events before and after a launch. */
    void *start, *stop;
    /* Device memory that is overwritten before each launch to empty the caches; NULL: none. */
    void *flush;
    size_t flush_size; /* bytes of `flush`; 0: caches stay as they are */
    char clock[128];   /* path of the sysfs file with the clock, in Hz; "": there is none */
};

/** Creates the events of a session, and allocates `flush` bytes that are overwritten before each
 * launch; 0: none. On failure returns false, with the missing part in `why`. Call it in a child
 * process, whose end frees events and memory. */
bool events_open(struct events *e, struct trace_session *t, size_t flush, char *why,
                 size_t why_size);

/** Times one launch of a session; *us gets the time in us. On failure returns false, with the
 * failed HIP call in `why`. */
bool events_time(struct events *e, struct trace_session *t, double *us, char *why, size_t why_size);

/** Returns the clock that the driver reports, in MHz; 0 if it reports none. */
double events_clock(const struct events *e);

#endif
