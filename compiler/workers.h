/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose iterations run in child processes, so that one that dies takes nothing with it.
 */
#ifndef COMPILER_WORKERS_H
#define COMPILER_WORKERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct attnc_workers {
    void *context;

    /** In a child: does item i and writes its result to `out`. What else it changes is lost. */
    void (*work)(void *context, size_t i, FILE *out);

    /** In the caller, once for every item, in the order in which they end: what work() has written.
     * NULL: the child died, and `status` is what waitpid() said of it; 0: memory ran out. */
    void (*done)(void *context, size_t i, const uint8_t *result, size_t size, int status);
};

/**
 * Does every item i < count, in rising order of start, in up to `jobs` children at a time. Returns
 * when all are done. A child that dies ends its item only. Where the system gives no child the
 * caller does the work itself. The caller must have no other threads.
 */
void attnc_run_workers(unsigned jobs, size_t count, const struct attnc_workers *w);

#endif
