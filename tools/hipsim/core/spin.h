/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects waves that poll memory forever. Suppose a wave returns to the same pc with unchanged
 * registers, and no byte of memory has changed. It then repeats the loop until another wave changes
 * memory: it waits. If all waves of a dispatch wait, the dispatch is in deadlock. Workgroups that
 * run long are watched in some of their time slices.
 */
#ifndef HIPSIM_SPIN_H
#define HIPSIM_SPIN_H

#include "worker.h"

/** Starts a time slice in which the workgroup is watched, or not if an allocation fails. */
void spin_watch(struct worker *k);

/** Starts a time slice in which the workgroup is not watched. */
void spin_leave(struct worker *k);

/** Evaluates a time slice at its end. True if every wave only waited, at a barrier or by polling,
 * and no memory changed. The instructions of such a slice do not count against the budget. */
bool spin_waits(struct worker *k);

/** Records that the wave has branched backwards. Detects whether its state is a repetition. */
void spin_went_back(struct worker *k, struct wave *w);

/** Saves the bytes of the access, which the running instruction may change; `bytes` per lane. */
void spin_may_write(struct spin *s, const struct lane_mem *m, unsigned bytes);

/** Compares the saved bytes with memory after the instruction, and records a change. */
void spin_settle(struct spin *s);

/** Records an effect that makes repetitions differ: the wave has read a clock or sent a message to
 * the host. */
void spin_changed(struct spin *s);

/**
 * Handles a dispatch in which all waves wait. Reports a deadlock and returns true, unless a thread
 * outside the engine may still change the polled memory. In that case it sleeps briefly and returns
 * false. It reports the deadlock SPIN_SECONDS after `since`, in seconds of CLOCK_MONOTONIC.
 */
bool spin_deadlock(const struct worker *k, double since);

enum { SPIN_SECONDS = 60 };

void spin_free(struct spin *s);

/** True if the process has more than `own` threads, or shares memory: the polled memory may then
 * change. */
bool spin_others_run(uint32_t own);

#endif
