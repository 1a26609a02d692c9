/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose iterations run on several threads.
 */
#ifndef COMPILER_PARALLEL_H
#define COMPILER_PARALLEL_H

#include <stddef.h>

/**
 * Calls body(context, i) once for every i < count, in rising order of start, on up to `jobs`
 * threads, the caller's among them. Returns when all are done. Fewer threads where the system has
 * no more.
 */
void attnc_parallel(unsigned jobs, size_t count, void (*body)(void *context, size_t i),
                    void *context);

#endif
