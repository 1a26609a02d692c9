/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the order of the operations of streams, events and the host.
 *
 * Every stream has a slot of a vector clock, in which its operations are numbered. An operation
 * comes after those of its stream, after what the host had waited for when it was submitted, after
 * what its stream has waited for by events, and by the rules of the legacy null stream. All host
 * threads count as one: what orders them is not known here. Two operations that touch the same
 * bytes race unless one comes before the other, one of them at least changes them, and not both
 * are atomic.
 *
 * With option `streams` work does not run when it is submitted, but when somebody waits for it, in
 * an order drawn from the seed among those that are allowed.
 */
#ifndef HIPSIM_HIP_ORDER_H
#define HIPSIM_HIP_ORDER_H

#include "hip.h"

/** A new stream's slot. */
unsigned hip_order_slot(bool is_null);
/** A destroyed stream's, for the next one: its operations come after those of its predecessor. */
void hip_order_free_slot(unsigned slot);

/** Submits an operation: runs it now and passes on its error, or keeps it for later. The work stays
 *  the caller's. */
hipError_t hip_order_submit(struct ihipStream_t *stream, const struct hip_work *work);

/** May the running work be put off, by returning hipErrorNotReady before it has changed anything?
 *  It runs again when the host asks whether it has ended, or waits for it. */
bool hip_order_may_postpone(void);

/** The host waits for all that the stream, the event, or every stream of every device has been
 * given
 *  so far; what is needed for that runs. */
void hip_order_wait_stream(struct ihipStream_t *stream);
void hip_order_wait_event(struct ihipEvent_t *event);
void hip_order_wait_all(void);

/** All that has been submitted runs, and the host does not know. */
void hip_order_drain(void);

/** Has all of it run? If not, something else may have in the meantime. If so, the host has seen
 * it. */
bool hip_order_stream_done(struct ihipStream_t *stream);
bool hip_order_event_done(struct ihipEvent_t *event);

/** The running operation touches `size` bytes in one piece. */
void hip_order_touch(const void *address, size_t size, bool writes);

/** Makes a launch of the running operation tell what it touches, if others might race with it. */
void hip_order_watch(struct launch *launch);

/** Forgets accesses to bytes that are about to be freed: later owners of them come after. */
void hip_order_forget(const void *address, size_t size);

#endif
