/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel loop in child processes, so that a crash ends only one item.
 */
#ifndef COMPILER_WORKERS_H
#define COMPILER_WORKERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct attnc_workers {
    void *context;

    /** Runs in a child: processes item i and writes its result to `out`. Other changes of the
     * child's memory are lost. */
    void (*work)(void *context, size_t i, FILE *out);

    /** Runs in the caller, once per item, in the order of completion: receives what work() wrote.
     * NULL: the child died with `status` from waitpid(), or memory ran out (status 0). */
    void (*done)(void *context, size_t i, const uint8_t *result, size_t size, int status);
};

/**
 * Processes every item i < count, started in ascending order, in up to `jobs` children at a time.
 * Returns when all are done. A child that dies fails only its item. If the system starts no child,
 * the caller does the work itself. The caller must have no other threads.
 */
void attnc_run_workers(unsigned jobs, size_t count, const struct attnc_workers *w);

#endif
