/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the load of each XCD over the time of a launch: the workgroups' slots that
 * were taken. */
#ifndef HIPSIM_TIME_BUSY_H
#define HIPSIM_TIME_BUSY_H

#include "hipsim_time.h"

/* Clocks that slots were taken, by XCD, in windows of equal length: a power of two, which doubles
 * when the time passes the last window. Zero-initialise. */
enum { TIME_BUSY_WINDOWS = 1024 };
struct time_busy {
    uint64_t window;
    double taken[HIPSIM_TIME_XCDS][TIME_BUSY_WINDOWS];
};

/** A slot of the XCD was taken from clock `start` to `end`. XCDs beyond HIPSIM_TIME_XCDS are not
 *  counted. */
void time_busy_add(struct time_busy *b, unsigned xcd, double start, double end);

/** Part of the XCD's `slots` that were taken in each of the HIPSIM_TIME_PARTS equal parts of [0,
 *  end), 0 to 1. */
void time_busy_parts(const struct time_busy *b, unsigned xcd, double slots, double end,
                     float parts[HIPSIM_TIME_PARTS]);

#endif
