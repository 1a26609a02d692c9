/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a race, which finds the fastest of several launches although the clock is
 * noisy, drifts and fails. Times are taken in rounds: each runner once in a round, in an order that
 * changes.
 * A runner's figure is the median of its times as a multiple of the first runner's time in the same
 * round. So a clock that drifts or throttles slows all runners alike. Nothing here depends on a
 * GPU, so that tests can pass a simulated clock.
 */
#ifndef TOOLS_ATTNC_RACE_H
#define TOOLS_ATTNC_RACE_H

#include <stdbool.h>
#include <stddef.h>

/** The most runners of a race, and the most rounds. */
enum { RACE_RUNNERS = 16, RACE_ROUNDS = 400 };

/** The rules of a race. */
struct race_options {
    unsigned warm_up; /* untimed launches of each runner */
    unsigned least;   /* rounds before a runner is dropped or the race ends */
    unsigned most;    /* most rounds, at most RACE_ROUNDS */
    /* Half width of a confidence interval at which a figure counts as precise, as a fraction of the
     * median. */
    double precision;
    double seconds; /* seconds after which the race ends; 0: no limit */
};

/** The times of one runner in us. `low` and `high` are the ends of the median's 95 % interval. */
struct race_figure {
    /* Launches that were timed; 0: no figure. */
    unsigned runs;
    double us, low, high; /* median of the runner's times, and the ends of its 95 % interval */
    /* Median of its times over the first runner's in the same rounds. */
    double ratio, ratio_low, ratio_high;
    bool faulty; /* true: a launch failed, and there is no figure */
    /* True: the runner was certainly slower than another one, and was not timed to the end. */
    bool dropped;
};

/** The result of a race. */
struct race_result {
    struct race_figure figures[RACE_RUNNERS];
    /* Rounds that were run. */
    unsigned rounds;
    size_t winner; /* runner with the least ratio; the first of equal ones */
    /* True: no other runner's interval reaches below the upper end of the winner's. */
    bool decided;
    /* Time of the first runner's last third of rounds over its first third: 1.05 is 5 % slower. */
    double drift;
};

/** Launches runner `which` once and sets *us to its time in us. Returns false if the launch
 * failed. */
typedef bool race_sample(void *context, size_t which, double *us);

/** Runs a race of `count` runners with `sample` as their launch, and fills *result. Stops early
 * once the winner is decided and every figure is precise. */
void race_run(const struct race_options *o, size_t count, race_sample *sample, void *context,
              struct race_result *result);

/** Sorts `count` values, and sets the median and the ends of its 95 % confidence interval. The
 * interval comes from order statistics, and so holds for any distribution. */
void race_median(double *values, size_t count, double *median, double *low, double *high);

#endif
