/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpolates the figures of a whole grid between a few workgroups: the first, the last and the
 * middle one of each dimension. Durations are interpolated in the same way.
 */
#ifndef HIPSIM_TIME_WHOLE_H
#define HIPSIM_TIME_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

enum { TIME_DIMENSIONS = 3 };

/* The figures that are summed over a grid. */
struct time_figures {
    double clocks;                  /* duration */
    double matrix_clocks;           /* of matrix units */
    double far_bytes;               /* to and from MALL and HBM */
    double load_bytes, store_bytes; /* by instructions */
};

/* A sampled position of a dimension; the other dimensions are at their first workgroup. */
struct time_position {
    bool sampled;
    struct time_figures figures; /* of a workgroup */
};

struct time_whole {
    struct time_figures first; /* of the workgroup at the grid's beginning */
    struct time_position middle[TIME_DIMENSIONS], last[TIME_DIMENSIONS];
};

/* Clocks that position `at` of `groups` in a dimension adds to the duration; 0 where the
 * dimension has no samples. */
double time_whole_added(const struct time_whole *w, unsigned dimension, uint64_t at,
                        uint64_t groups);

/* The sums over all workgroups of a grid. */
struct time_figures time_whole_sum(const struct time_whole *w,
                                   const uint64_t groups[TIME_DIMENSIONS]);

#endif
