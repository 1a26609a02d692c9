/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waves that poll memory. A wave that comes back to a place of its code with every register as it
 * was, while no byte of memory has changed, will do the same for ever: it waits for somebody else.
 * Where all waves of a dispatch wait like that, the dispatch is in deadlock. Workgroups that
 * run for long are watched now and then.
 */
#ifndef HIPSIM_SPIN_H
#define HIPSIM_SPIN_H

#include "worker.h"

/** A turn of a workgroup begins that is to be watched. Without memory it is not watched. */
void spin_watch(struct worker *k);

/** A turn of a workgroup begins that is not watched. */
void spin_leave(struct worker *k);

/** The turn is over. True: every wave of it waited, for a barrier or by polling, and it has changed
 *  no memory. The instructions of such a turn do not count against the budget. */
bool spin_waits(struct worker *k);

/** The wave has branched backwards. */
void spin_went_back(struct worker *k, struct wave *w);

/** The running instruction may write to these lanes' memory: called before it does. */
void spin_may_write(struct spin *s, const struct lane_mem *m, unsigned bytes);

/** The instruction has run: did the bytes change? */
void spin_settle(struct spin *s);

/** The wave does what cannot be repeated: it has read a clock, or sent a message to the host. */
void spin_changed(struct spin *s);

/**
 * All waves of the dispatch wait. Reports that as a deadlock and returns true, unless another
 * thread of this process, beside the engine's own, may still change the memory that they poll: then
 * sleeps for a moment and returns false until `since`, in seconds of CLOCK_MONOTONIC, is
 * SPIN_SECONDS ago.
 */
bool spin_deadlock(const struct worker *k, double since);

enum { SPIN_SECONDS = 60 };

void spin_free(struct spin *s);

/** Says whether the process has more threads than `own`, which could store what is polled. */
bool spin_others_run(uint32_t own);

#endif
