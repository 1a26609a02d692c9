/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel loop on threads of this process.
 */
#ifndef COMPILER_PARALLEL_H
#define COMPILER_PARALLEL_H

#include <stddef.h>

/**
 * Calls body(context, i) once for every i < count, started in ascending order, on up to `jobs`
 * threads including the caller's. Returns when all are done. Uses fewer threads if the system
 * provides no more.
 */
void attnc_parallel(unsigned jobs, size_t count, void (*body)(void *context, size_t i),
                    void *context);

#endif
