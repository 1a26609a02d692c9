/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines workgroups touch, and how many of them share. */
#ifndef HIPSIM_TIME_SHARING_H
#define HIPSIM_TIME_SHARING_H

#include "tools/hipsim/wave.h"

struct time_lines;

/* Collects the lines that workgroups load, as an observer. NULL without memory. */
struct time_lines *time_lines_create(void);
void time_lines_destroy(struct time_lines *lines);
struct observer time_lines_observer(struct time_lines *lines);

/* Bytes in the lines that were loaded. */
double time_lines_bytes(const struct time_lines *lines);

/* Of the lines in `a`, the part that is in `b` too: 0 .. 1. */
double time_lines_overlap(const struct time_lines *a, const struct time_lines *b);

#endif
