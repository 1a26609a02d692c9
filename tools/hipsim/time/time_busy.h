/* SPDX-License-Identifier: Apache-2.0 */
/* The occupancy of each XCD over the time of a launch: how many of its workgroup slots are in
 * use. */
#ifndef HIPSIM_TIME_BUSY_H
#define HIPSIM_TIME_BUSY_H

#include "hipsim_time.h"

/* Clocks for which slots are in use, by XCD, in windows of equal length. The length is a power of
 * two, and doubles when a time is after the last window. Zero-initialise it. */
enum { TIME_BUSY_WINDOWS = 1024 };
struct time_busy {
    uint64_t window; /* clocks of a window; 0: nothing recorded */
    /* clocks in use in each window, summed over the XCD's slots */
    double taken[HIPSIM_TIME_XCDS][TIME_BUSY_WINDOWS];
};

/** Records that a slot of XCD `xcd` was in use from clock `start` to clock `end`. XCDs from
 * HIPSIM_TIME_XCDS on are ignored. */
void time_busy_add(struct time_busy *b, unsigned xcd, double start, double end);

/** Divides the clocks [0, end) into HIPSIM_TIME_PARTS equal parts. Sets parts[i] to the fraction, 0
 * to 1, of the XCD's `slots` slots that are in use in part i. */
void time_busy_parts(const struct time_busy *b, unsigned xcd, double slots, double end,
                     float parts[HIPSIM_TIME_PARTS]);

#endif
