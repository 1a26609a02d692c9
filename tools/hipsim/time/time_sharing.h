/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that workgroups touch, and how many workgroups share each. */
#ifndef HIPSIM_TIME_SHARING_H
#define HIPSIM_TIME_SHARING_H

#include "wave.h"

struct time_lines;

/* Collects the lines that workgroups load, as an observer. NULL without memory. */
struct time_lines *time_lines_create(void);
void time_lines_destroy(struct time_lines *lines);
struct observer time_lines_observer(struct time_lines *lines);

/* Bytes in the lines that were loaded. */
double time_lines_bytes(const struct time_lines *lines);

/* Adds the lines of another set, which are then in both. */
void time_lines_merge(struct time_lines *into, const struct time_lines *from);

/*
 * Returns b, the growth of the lines that n workgroups load: n^b times those of one. 0: all load
 * the same; 1: no two load the same; 1/2: rows and columns of a matrix product. `sum` is what `n`
 * of them load each by itself, `together` what they load.
 */
double time_lines_growth(double together, double sum, unsigned n);

#endif
