/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares how much every workgroup of a launch has executed, and an estimate from that
 * of how long each would take: the sampled ones say how long so many instructions take, and the
 * others lie between.
 */
#ifndef HIPSIM_TIME_WORK_H
#define HIPSIM_TIME_WORK_H

#include "wave.h"

struct time_work;

/* For so many workgroups; NULL without memory or if there are too many to keep. */
struct time_work *time_work_create(uint64_t workgroups);
void time_work_destroy(struct time_work *work);

/* Notes the workgroups that end. */
struct observer time_work_observer(struct time_work *work);
void time_work_note(struct time_work *work, uint64_t index, uint64_t instructions, bool idle);

/* Instructions of a workgroup; of its nearest neighbour that has run, if it has not. */
double time_work_of(const struct time_work *work, uint64_t index);
/* Instructions of all workgroups that have run. */
double time_work_total(const struct time_work *work);

/* A sample: workgroups of at most so many instructions took so many clocks. */
void time_work_sample(struct time_work *work, double instructions, double clocks);

/* Has a workgroup come to its end without a store that others can see? */
bool time_group_idle(const struct workgroup *wg);

/* Did workgroup `index`, or the nearest one that has run, end without such a store? */
bool time_work_idle(const struct time_work *work, uint64_t index);

/* Returns how much more or less than any sample a workgroup executes, as a factor >= 1. */
double time_work_distance(const struct time_work *work, double instructions);

/* The clocks of a workgroup. Needs a sample. */
double time_work_clocks(const struct time_work *work, uint64_t index);

#endif
