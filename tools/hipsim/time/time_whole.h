/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpolates the figures and durations of a whole grid from a few sampled workgroups: the first
 * one, and the middle and last one of each dimension.
 */
#ifndef HIPSIM_TIME_WHOLE_H
#define HIPSIM_TIME_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

enum { TIME_DIMENSIONS = 3 };

/* Figures that are summed over a grid. */
struct time_figures {
    double clocks;                  /* clocks of the workgroup */
    double matrix_clocks;           /* clocks in which matrix units are busy */
    double far_bytes;               /* bytes transferred from and to MALL and HBM */
    double load_bytes, store_bytes; /* bytes that instructions access */
};

/* A sampled position in one dimension; its other coordinates are 0. */
struct time_position {
    bool sampled;
    struct time_figures figures; /* figures of one workgroup */
};

struct time_whole {
    struct time_figures first; /* figures of workgroup 0 */
    struct time_position middle[TIME_DIMENSIONS], last[TIME_DIMENSIONS];
};

/* Returns the clocks by which a workgroup's duration differs from workgroup 0's, for its position
 * `at` of `groups` in a dimension. 0 if the dimension has no samples. */
double time_whole_added(const struct time_whole *w, unsigned dimension, uint64_t at,
                        uint64_t groups);

/* Returns the sums over all workgroups of a grid. */
struct time_figures time_whole_sum(const struct time_whole *w,
                                   const uint64_t groups[TIME_DIMENSIONS]);

#endif
