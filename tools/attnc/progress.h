/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a long command is: a bar where a person watches, plain lines in a log.
 */
#ifndef TOOLS_ATTNC_PROGRESS_H
#define TOOLS_ATTNC_PROGRESS_H

#include <stddef.h>

/** Says on standard error that `done` of `total` steps are done, and what the newest one was. */
void show_progress(size_t done, size_t total, const char *step);

/** Removes the bar, before anything else is printed. Does nothing where there is none. */
void clear_progress(void);

#endif
