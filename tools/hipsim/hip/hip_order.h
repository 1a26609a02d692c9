/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the order of the operations of streams, events and the host. Every stream has
 * a slot of a vector clock, in which its operations are numbered. An operation comes after earlier
 * ones of its stream. It also comes after operations that the host had waited for at submission, or
 * that its stream waited for by events. The rules of the legacy null stream add more. All host
 * threads count as one, since their order is not known here. Two operations race if they access the
 * same bytes, neither comes before the other, at least one changes the bytes, and not both are
 * atomic. With option `streams`, work does not run at submission but when somebody waits for it.
 * The order is drawn by the seed among the allowed ones.
 */
#ifndef HIPSIM_HIP_ORDER_H
#define HIPSIM_HIP_ORDER_H

#include "hip.h"

/** Returns the slot of a new stream. */
unsigned hip_order_slot(bool is_null);
/** Frees the slot of a destroyed stream. The operations of the next owner come after its
 * operations. */
void hip_order_free_slot(unsigned slot);

/** Submits an operation. It runs now and its error is returned, or it is kept for later. The caller
 * keeps the work. */
hipError_t hip_order_submit(struct ihipStream_t *stream, const struct hip_work *work);

/** True if the running work may be postponed: it returns hipErrorNotReady before it has changed
 * anything. It runs again when the host queries it or waits for it. */
bool hip_order_may_postpone(void);

/** Make the host wait for everything submitted so far to the stream, before the event, or to every
 * stream of every device. The operations that are needed for it run. */
void hip_order_wait_stream(struct ihipStream_t *stream);
void hip_order_wait_event(struct ihipEvent_t *event);
void hip_order_wait_all(void);

/** Runs everything submitted so far without the host waiting for it. */
void hip_order_drain(void);

/** True if everything submitted so far to the stream, or before the event, has run; the host then
 * counts as having waited for it. If it has not, may run one of these operations first. */
bool hip_order_stream_done(struct ihipStream_t *stream);
bool hip_order_event_done(struct ihipEvent_t *event);

/** Records that the running operation accesses `size` bytes. */
void hip_order_touch(const void *address, size_t size, bool writes);

/** Makes a launch of the running operation record its accesses, if others might race with it. */
void hip_order_watch(struct launch *launch);

/** Forgets accesses to bytes that are about to be freed. Later owners of the bytes come after. */
void hip_order_forget(const void *address, size_t size);

#endif
