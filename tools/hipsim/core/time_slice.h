/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the waves of a worker's workgroup in time slices on its host thread. */
#ifndef HIPSIM_TIME_SLICE_H
#define HIPSIM_TIME_SLICE_H

#include "worker.h"

/** Starts workgroup `index` of the grid on the worker. */
void slice_begin(struct worker *k, uint64_t index);

/**
 * Runs the workgroup until it ends, waits for others, or has used its time slice; with `brief` the
 * slice is one step. False if the dispatch must end.
 */
bool slice_run(struct worker *k, bool brief);

/** Ends a workgroup in which no wave can run: all have ended, or they wait for each other. False
 * after a fault, also a deadlock. */
bool slice_end(struct worker *k);

/** Returns the wave's next instruction; NULL after a fault. */
const struct inst *slice_fetch(const struct code_slots *code, struct wave *w);

/** Executes `in`, which slice_fetch() has returned, and moves the wave past it. */
void slice_step(struct worker *k, struct wave *w, const struct inst *in);

/** Opens the workgroup's barrier if every wave that has not ended has reached or signalled it. */
void slice_release(struct workgroup *wg);

/** Resumes the waves whose grid barrier has opened. True if a wave waits at one that has not. */
bool slice_wait_for_grid(struct workgroup *wg);

#endif
