/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that child processes do, several at once. HIP does not survive a fork, and a simulator is
 * one GPU for the whole life of its process. What each child prints is collected, and handed on in
 * the order of the parts.
 */
#ifndef TOOLS_ATTNC_CHILDREN_H
#define TOOLS_ATTNC_CHILDREN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The most children at once, and the most sums that a child reports. */
enum { CHILDREN_MAX_JOBS = 64, CHILD_MAX_RESULTS = 8 };

/** The child's end of the pipe to its parent, for child_step() and child_result(). */
struct child_report {
    /* File descriptor that the child writes to. */
    int fd;
};

/** The work of run_children(): its size and the functions that do it. */
struct children {
    size_t parts; /* parts of the work; each runs in a child process of its own */
    /* Most children that run at once; more than CHILDREN_MAX_JOBS counts as that. */
    unsigned jobs;
    size_t steps; /* steps of all parts, for the progress bar; 0: no bar */

    /** Runs part `part` in a child process, whose standard output is kept for collect(). Returns
     * the child's exit_code. */
    int (*work)(void *context, size_t part, struct child_report *report);

    /** Receives, in the parent, what the child of part `part` printed and the sums that it passed
     * to child_result(). Called in the order of the parts. Sums are 0 if the child died. */
    void (*collect)(void *context, size_t part, FILE *printed, const size_t results[]);

    /** Returns the name of a part, for the message that its child died. */
    const char *(*name)(void *context, size_t part);
    /* The first argument of the three functions. */
    void *context;
};

/** Runs all parts. Returns EXIT_USER if any child returned it or died of a signal, else
 * EXIT_ENVIRONMENT if any returned it, else EXIT_GOOD. */
int run_children(const struct children *c);

/** Tells the parent, from a child, that the step `name` begins. */
void child_step(struct child_report *report, const char *name);

/** Sends `count` sums, at most CHILD_MAX_RESULTS, from a child to the parent's collect(). Call it
 * once, last. */
void child_result(struct child_report *report, const size_t *results, size_t count);

/** Calls `take` with each line of `printed`, a child's output, without the line's end. */
void each_printed_line(FILE *printed, void (*take)(void *context, char *line), void *context);

/** Copies the rest of `printed`, a child's output, to standard output. */
void copy_printed(FILE *printed);

#endif
