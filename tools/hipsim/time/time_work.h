/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instruction counts of a launch's workgroups, and an estimate of their durations. Samples have
 * instruction counts with clocks; other workgroups are interpolated between them.
 */
#ifndef HIPSIM_TIME_WORK_H
#define HIPSIM_TIME_WORK_H

#include "wave.h"

struct time_work;

/* Allocates a table of instruction counts for a launch of `workgroups` workgroups; free it with
 * time_work_destroy(). NULL without memory, or above 2^24 workgroups. */
struct time_work *time_work_create(uint64_t workgroups);
void time_work_destroy(struct time_work *work);

/* Returns an observer that records each workgroup when it ends. */
struct observer time_work_observer(struct time_work *work);
/* Records that workgroup `index` has ended after `instructions` instructions. `idle`: it has stored
 * nothing to global memory. */
void time_work_note(struct time_work *work, uint64_t index, uint64_t instructions, bool idle);

/* Returns the number of instructions of workgroup `index`, or of its nearest neighbour that has
 * run. */
double time_work_of(const struct time_work *work, uint64_t index);
/* Returns the number of instructions of all workgroups that have run. */
double time_work_total(const struct time_work *work);

/* Adds a sample: workgroups with at most `instructions` instructions had `clocks` clocks. */
void time_work_sample(struct time_work *work, double instructions, double clocks);

/* True if the workgroup has ended without a store to global memory. */
bool time_group_idle(const struct workgroup *wg);

/* True if workgroup `index`, or the nearest one that has run, ended without a store to global
 * memory. */
bool time_work_idle(const struct time_work *work, uint64_t index);

/* Returns the factor, at least 1, by which `instructions` differs from the nearest sample. */
double time_work_distance(const struct time_work *work, double instructions);

/* Returns the estimated clocks of workgroup `index`. Needs at least one sample. */
double time_work_clocks(const struct time_work *work, uint64_t index);

#endif
