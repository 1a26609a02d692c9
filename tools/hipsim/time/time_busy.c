/* SPDX-License-Identifier: Apache-2.0 */
#include "time_busy.h"

#include <math.h>
#include <string.h>

/* Doubles the length of the windows, adding each pair of neighbours. */
static void widen(struct time_busy *b)
{
    for (unsigned x = 0; x < HIPSIM_TIME_XCDS; x++) {
        double *taken = b->taken[x];
        for (unsigned i = 0; i < TIME_BUSY_WINDOWS / 2; i++)
            taken[i] = taken[2 * i] + taken[2 * i + 1];
        memset(taken + TIME_BUSY_WINDOWS / 2, 0, TIME_BUSY_WINDOWS / 2 * sizeof(*taken));
    }
    b->window *= 2;
}

/* Returns the clocks of [start, end) in interval number `i`; intervals are `length` clocks long. */
static double covered(unsigned i, double length, double start, double end)
{
    return fmax(fmin(end, (i + 1) * length) - fmax(start, i * length), 0);
}

void time_busy_add(struct time_busy *b, unsigned xcd, double start, double end)
{
    if (xcd >= HIPSIM_TIME_XCDS || !(end > start) || !isfinite(end))
        return;
    if (!b->window)
        b->window = 1;
    while (end > (double)(b->window * TIME_BUSY_WINDOWS))
        widen(b);
    const double length = (double)b->window;
    for (unsigned i = (unsigned)(start / length); i < TIME_BUSY_WINDOWS && i * length < end; i++)
        b->taken[xcd][i] += covered(i, length, start, end);
}

void time_busy_parts(const struct time_busy *b, unsigned xcd, double slots, double end,
                     float parts[HIPSIM_TIME_PARTS])
{
    const double part = end / HIPSIM_TIME_PARTS, length = (double)b->window;
    for (unsigned p = 0; p < HIPSIM_TIME_PARTS; p++) {
        double taken = 0;
        for (unsigned i = 0; i < TIME_BUSY_WINDOWS && part > 0 && length > 0; i++)
            taken += b->taken[xcd][i] * covered(i, length, p * part, (p + 1) * part) / length;
        parts[p] = part > 0 ? (float)fmin(taken / (slots * part), 1) : 0;
    }
}
