/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the progress display of a long command: a bar on a terminal, plain lines in a
 * log.
 */
#ifndef TOOLS_ATTNC_PROGRESS_H
#define TOOLS_ATTNC_PROGRESS_H

#include <stddef.h>

/** Shows on standard error that `done` of `total` steps have begun, and `step`, the name of the
 * newest one. */
void show_progress(size_t done, size_t total, const char *step);

/** Removes the bar; call it before anything else is printed. Does nothing unless standard error is
 * a terminal. */
void clear_progress(void);

#endif
