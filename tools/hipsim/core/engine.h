/* SPDX-License-Identifier: Apache-2.0 */
/* The engine, which runs dispatches. */
#ifndef HIPSIM_ENGINE_H
#define HIPSIM_ENGINE_H

#include "wave.h"

/*
 * Runs all workgroups of the launch on host threads. Returns when they have ended or one has
 * faulted: 0, or -1 with launch->fault set. The result depends on the number of threads only if the
 * kernel's workgroups race with each other.
 */
int engine_run(struct launch *launch);

void counters_add(struct counters *sum, const struct counters *c);

/*
 * A workgroup that the caller steps instruction by instruction, so that the timing model can choose
 * the next wave. A group has the memory of one workgroup and runs workgroups one after the other.
 * Only one thread may use it at a time. Creating one sets the launch's counters and fault to 0.
 */
struct engine_group;

/*
 * Creates a group. For workgroups that run at the same time, pass the first group as `with`, and
 * destroy it last; the first group has NULL. Returns NULL, with launch->fault set, if the launch is
 * refused or memory is short.
 */
struct engine_group *engine_group_create(struct launch *launch, struct engine_group *with);
void engine_group_destroy(struct engine_group *group);

/* Starts workgroup `index` of the grid. The result is valid until the next start. */
struct workgroup *engine_group_start(struct engine_group *group, uint64_t index);

/* Returns the wave's next instruction; NULL after a fault. */
const struct inst *engine_group_fetch(struct wave *w);

/* Executes `in`, which engine_group_fetch() has returned. False if the dispatch has faulted. */
bool engine_group_step(struct engine_group *group, struct wave *w, const struct inst *in);

/* Opens the workgroup's barrier if every wave that has not ended has reached it. True if it
 * opened. */
bool engine_group_release(struct engine_group *group);

/* Resumes the waves whose grid barrier has opened. True if a wave waits at one that has not. */
bool engine_group_wait_for_grid(struct engine_group *group);

/* Ends the workgroup when no wave can run. False after a fault, also a deadlock. */
bool engine_group_finish(struct engine_group *group);

/* Returns the counts of all instructions that the group has executed since its creation. */
struct counters engine_group_counters(const struct engine_group *group);

#endif
