/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel loop in child processes. If a child crashes, only its item fails.
 */
#ifndef COMPILER_WORKERS_H
#define COMPILER_WORKERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The two functions of a parallel loop. */
struct attnc_workers {
    void *context; /* the caller's pointer that both functions receive */

    /** Processes item `i` in a child process and writes the result to `out`. Changes of the child's
     * memory do not reach the caller. */
    void (*work)(void *context, size_t i, FILE *out);

    /** Receives in the caller's process the `size` bytes that work() wrote for item `i`; called
     * once per item, in the order of completion. `result` is NULL if there are none: the child died
     * with `status` from waitpid(), or memory ran out and `status` is 0. */
    void (*done)(void *context, size_t i, const uint8_t *result, size_t size, int status);
};

/**
 * Processes every item `i` < `count`, started in ascending order, in up to `jobs` child processes
 * at a time. Returns when all are done. If a child dies, only its item fails. If the system starts
 * no child, the caller's process does the work. The caller must have no other threads.
 */
void attnc_run_workers(unsigned jobs, size_t count, const struct attnc_workers *w);

#endif
