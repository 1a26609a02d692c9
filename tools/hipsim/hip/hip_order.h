/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the operations of streams, events and the host. Every stream has a slot of a vector
 * clock, in which its operations are numbered. An operation is after earlier ones of its stream. It
 * is also after operations that the host had waited for at its submission, or that its stream
 * waited for by events. The rules of the legacy null stream add more.
 *
 * All host threads count as one, since their order is not known here. Two operations race if they
 * access the same bytes, neither is before the other, at least one changes the bytes, and not both
 * are atomic. With option `streams`, work does not run at submission but when the host waits for
 * it. The seed selects one of the allowed orders.
 */
#ifndef HIPSIM_HIP_ORDER_H
#define HIPSIM_HIP_ORDER_H

#include "hip.h"

/** Returns the slot of a new stream; `is_null`: of a null stream. */
unsigned hip_order_slot(bool is_null);
/** Frees the slot of a destroyed stream. The operations of the slot's next owner are after its
 * operations. */
void hip_order_free_slot(unsigned slot);

/** Submits an operation. It runs now and its error is returned, or a copy is kept for later. The
 * caller still owns what the work owns. */
hipError_t hip_order_submit(struct ihipStream_t *stream, const struct hip_work *work);

/** True if the running work may be postponed. It must then return hipErrorNotReady before it has
 * changed anything, and runs again when the host queries it or waits for it. */
bool hip_order_may_postpone(void);

/** Make the host wait for everything submitted so far: to the stream, before the event, or to all
 * streams of all devices. The operations that this needs run. */
void hip_order_wait_stream(struct ihipStream_t *stream);
void hip_order_wait_event(struct ihipEvent_t *event);
void hip_order_wait_all(void);

/** Runs everything submitted so far. The host does not count as having waited for it. */
void hip_order_drain(void);

/** True if everything submitted so far to the stream, or before the event, has run; the host then
 * counts as having waited for it. Otherwise may run one of these operations. */
bool hip_order_stream_done(struct ihipStream_t *stream);
bool hip_order_event_done(struct ihipEvent_t *event);

/** Records that the running operation accesses `size` bytes at `address`; `writes`: changes
 * them. */
void hip_order_touch(const void *address, size_t size, bool writes);

/** Makes a launch of the running operation record its accesses, if other operations might race with
 * it. */
void hip_order_watch(struct launch *launch);

/** Removes recorded accesses to `size` bytes at `address`, which are about to be freed. */
void hip_order_forget(const void *address, size_t size);

#endif
