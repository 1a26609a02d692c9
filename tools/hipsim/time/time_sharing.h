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

/*
 * Do neighbours share lines in groups? lines[i] is what workgroup i of `n` loads. They do where
 * near ones have lines in common and none have that are n / 2 apart or more.
 */
bool time_lines_in_groups(struct time_lines *const *lines, unsigned n);

/*
 * Returns how many of a group load the same line, where groups are as large as they look: the lines
 * of `n` workgroups grow by as much with each group. n - 1 steps from one workgroup to the next are
 * best a multiple of the groups' size, wherever the first of these begins.
 */
double time_lines_group(struct time_lines *const *lines, unsigned n);

#endif
