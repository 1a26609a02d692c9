/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_CLOCK_H
#define TOOLS_ATTNC_CLOCK_H

#include <time.h>

/** Returns the seconds since an arbitrary start, by a clock that is never set back. */
static inline double steady_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
