/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of the cache lines that workgroups load, to find how many workgroups share each line. */
#ifndef HIPSIM_TIME_SHARING_H
#define HIPSIM_TIME_SHARING_H

#include "wave.h"

struct time_lines;

/* Creates an empty set of cache lines. time_lines_observer() adds the lines that workgroups load.
 * NULL without memory. */
struct time_lines *time_lines_create(void);
void time_lines_destroy(struct time_lines *lines);
struct observer time_lines_observer(struct time_lines *lines);

/* Returns the record to which launch->tensor must point while that observer is set: it adds the
 * record's lines. */
struct tensor_lines *time_lines_tensor(struct time_lines *lines);

/* Returns the bytes of the lines in the set. */
double time_lines_bytes(const struct time_lines *lines);

/* Adds the lines of `from` to `into`. */
void time_lines_merge(struct time_lines *into, const struct time_lines *from);

/*
 * Returns the exponent b with which loaded lines grow: n workgroups load n^b times the lines of
 * one. 0: all load the same lines; 1: no line is shared; 1/2: rows and columns of a matrix product.
 * `sum` is the sum of the line bytes of the n workgroups, `together` the bytes of their union.
 */
double time_lines_growth(double together, double sum, unsigned n);

/*
 * True if neighbours share lines in groups: near workgroups have lines in common, workgroups that
 * are n / 2 or more apart have none. lines[i] is the set of workgroup i of `n`.
 */
bool time_lines_in_groups(struct time_lines *const *lines, unsigned n);

/*
 * Returns the number of workgroups in a group that load the same line, assuming equal groups. n - 1
 * should be a multiple of the group size; the result is then independent of where the first group
 * begins.
 */
double time_lines_group(struct time_lines *const *lines, unsigned n);

#endif
