/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a race: it finds the fastest of several launches by a clock that is noisy,
 * drifts and fails. Samples are taken in rounds, one of each runner a round in changing order. A
 * runner's figure is the median of its times as a multiple of the first runner's in the same round.
 * So a clock that drifts or throttles slows all alike. Nothing here knows a GPU: tests pass a false
 * one.
 */
#ifndef TOOLS_ATTNC_RACE_H
#define TOOLS_ATTNC_RACE_H

#include <stdbool.h>
#include <stddef.h>

enum { RACE_RUNNERS = 16, RACE_ROUNDS = 400 };

struct race_options {
    unsigned warm_up; /* untimed launches of each runner */
    unsigned least;   /* rounds before anything is decided */
    unsigned most;    /* rounds, up to RACE_ROUNDS */
    double precision; /* a figure is precise at this half width of its confidence interval, as a
                       * fraction of the median */
    double seconds;   /* limit of the whole race; 0: no limit */
};

/** Times of one runner in us; the interval holds the median with 95 %. */
struct race_figure {
    unsigned runs;
    double us, low, high;                /* of its own times */
    double ratio, ratio_low, ratio_high; /* of its times over the first runner's */
    bool faulty;                         /* its launch failed: no figure */
    bool dropped; /* it was certainly slower than another, and was not timed to the end */
};

struct race_result {
    struct race_figure figures[RACE_RUNNERS];
    unsigned rounds;
    size_t winner; /* runner with the least ratio and no fault; the first of equal ones */
    bool decided;  /* no other's interval reaches below the winner's upper end */
    double drift;  /* the first runner's last third over its first third: 1.05 is 5 % slower */
};

/** Launches runner `which` once and sets *us to its time. False: the launch failed. */
typedef bool race_sample(void *context, size_t which, double *us);

/** Runs a race of `count` runners. Stops early when the winner is clear and every figure
 * precise. */
void race_run(const struct race_options *o, size_t count, race_sample *sample, void *context,
              struct race_result *result);

/** Sorts `count` values, and computes their median and the ends of its 95 % interval by order
 * statistics. The interval is exact for any distribution (binomial). */
void race_median(double *values, size_t count, double *median, double *low, double *high);

#endif
