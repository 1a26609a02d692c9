/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a workgroup on its host thread: the waves of one worker, instruction by instruction. */
#ifndef HIPSIM_TURN_H
#define HIPSIM_TURN_H

#include "worker.h"

/** Starts the workgroup of this index on the worker. */
void turn_begin(struct worker *k, uint64_t index);

/**
 * Runs the workgroup until it has ended, waits for others, or its turn is over, which is one step
 * if it is `brief`. False when the dispatch has come to its end.
 */
bool turn_take(struct worker *k, bool brief);

/** No wave can run: ends the workgroup. False after a fault; waves that have not ended are one. */
bool turn_end(struct worker *k);

/** The instruction that the wave executes next, NULL after a fault. */
const struct inst *turn_fetch(const struct code_slots *code, struct wave *w);

/** Executes one instruction that has been fetched. */
void turn_step(struct worker *k, struct wave *w, const struct inst *in);

/** Opens the barrier when every wave that has not ended is at it. */
void turn_release(struct workgroup *wg);

/** Resumes waves whose barrier of the grid has opened. True if one waits still. */
bool turn_wait_for_grid(struct workgroup *wg);

#endif
