/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the occupancy of each XCD over the time of a launch: how many of its workgroup
 * slots are in use. */
#ifndef HIPSIM_TIME_BUSY_H
#define HIPSIM_TIME_BUSY_H

#include "hipsim_time.h"

/* Slot clocks in use, by XCD, in windows of equal length. The length is a power of two and doubles
 * when a time lies after the last window. Zero-initialise. */
enum { TIME_BUSY_WINDOWS = 1024 };
struct time_busy {
    uint64_t window;                                   /* clocks per window */
    double taken[HIPSIM_TIME_XCDS][TIME_BUSY_WINDOWS]; /* clocks, summed over slots */
};

/** Records that a slot of the XCD was in use from clock `start` to `end`. XCDs from
 *  HIPSIM_TIME_XCDS on are not counted. */
void time_busy_add(struct time_busy *b, unsigned xcd, double start, double end);

/** Fills `parts` with the fraction, 0 to 1, of the XCD's `slots` in use during each of the
 *  HIPSIM_TIME_PARTS equal parts of [0, end). */
void time_busy_parts(const struct time_busy *b, unsigned xcd, double slots, double end,
                     float parts[HIPSIM_TIME_PARTS]);

#endif
