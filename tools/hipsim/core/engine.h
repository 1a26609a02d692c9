/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a dispatch. */
#ifndef HIPSIM_ENGINE_H
#define HIPSIM_ENGINE_H

#include "wave.h"

/*
 * Runs all workgroups of the launch, spread over host threads, and returns when they have ended
 * or one has faulted. Returns 0, or -1 with launch->fault filled in. The result does not depend
 * on the number of threads unless the kernel's workgroups race with each other.
 */
int engine_run(struct launch *launch);

void counters_add(struct counters *sum, const struct counters *c);

/*
 * One workgroup under the caller's control, instruction by instruction: the timing model decides
 * which wave goes next. A group holds the memory of one workgroup and runs one after the other.
 * It belongs to one thread at a time; create clears the launch's counters and fault.
 */
struct engine_group;

/*
 * Groups whose workgroups run at the same time are made `with` the first of them, which outlives
 * the others; NULL for that one. NULL with launch->fault filled in when the launch is refused or
 * memory is short.
 */
struct engine_group *engine_group_create(struct launch *launch, struct engine_group *with);
void engine_group_destroy(struct engine_group *group);

/* Starts the workgroup of this index. It stays valid until the next start. */
struct workgroup *engine_group_start(struct engine_group *group, uint64_t index);

/* The instruction that the wave executes next, NULL after a fault. */
const struct inst *engine_group_fetch(struct wave *w);

/* Executes it. False when the dispatch has faulted. */
bool engine_group_step(struct engine_group *group, struct wave *w, const struct inst *in);

/* Opens the barrier if every wave that has not ended is at it. True if it opened. */
bool engine_group_release(struct engine_group *group);

/* Resumes waves whose grid barrier has opened. True if a wave still waits. */
bool engine_group_wait_for_grid(struct engine_group *group);

/* To be called when no wave can run any more. False after a fault; a deadlock is one. */
bool engine_group_finish(struct engine_group *group);

/* Counts of the instructions that the group has executed since it was created. */
const struct counters *engine_group_counters(const struct engine_group *group);

#endif
