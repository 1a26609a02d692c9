/* SPDX-License-Identifier: Apache-2.0
 *
 * Work in child processes, several at once: HIP does not survive a fork, and a simulator is one GPU
 * for the whole life of its process. What children print comes out whole, in the parts' order.
 */
#ifndef TOOLS_ATTNC_CHILDREN_H
#define TOOLS_ATTNC_CHILDREN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CHILDREN_MAX_JOBS = 64, CHILD_MAX_RESULTS = 8 };

/** The pipe by which a child reports its steps and results. */
struct child_report {
    int fd;
};

struct children {
    size_t parts;  /* parts of the work; each runs in a child process of its own */
    unsigned jobs; /* children that run at once */
    size_t steps;  /* steps of all parts, for the progress bar; 0: no bar */

    /** In the child: does part `part`. Its standard output is kept for later. Returns the exit
     * code. */
    int (*work)(void *context, size_t part, struct child_report *report);

    /** In the parent, in the order of the parts: receives what the child printed, and the sums that
     * it passed to child_result(); zeros if it died. */
    void (*collect)(void *context, size_t part, FILE *printed, const size_t results[]);

    /** Name of a part, for the message about a child that dies. */
    const char *(*name)(void *context, size_t part);
    void *context;
};

/** Runs all parts. Returns the worst exit code: EXIT_USER, then EXIT_ENVIRONMENT. */
int run_children(const struct children *c);

/** Reports, in a child, that a step begins. */
void child_step(struct child_report *report, const char *name);

/** Reports a child's sums, at most CHILD_MAX_RESULTS, to collect(). The child calls it at its
 * end. */
void child_result(struct child_report *report, const size_t *results, size_t count);

/** Calls `take` with each line that a child printed, without its end. */
void each_printed_line(FILE *printed, void (*take)(void *context, char *line), void *context);

/** Copies the output of a child, the file `printed`, to standard output. */
void copy_printed(FILE *printed);

#endif
