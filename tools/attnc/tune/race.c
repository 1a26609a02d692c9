/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/tune/race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/clock.h"

/* A race that is being run. */
struct track {
    const struct race_options *o;
    size_t count;
    race_sample *sample;
    void *context;
    struct race_result *result;
    /* Microseconds of each runner in each round; NAN if the runner was not in that round. */
    double times[RACE_RUNNERS][RACE_ROUNDS];
};

/* Compares two doubles, for qsort(). */
static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void race_median(double *values, size_t count, double *median, double *low, double *high)
{
    const double z = 1.96; /* standard deviations of the normal distribution for 95 % */
    qsort(values, count, sizeof(*values), ascending);
    const double n = (double)count, half = z * sqrt(n) / 2;
    const double first = floor(n / 2 - half), last = ceil(n / 2 + half);
    *median = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    *low = values[first > 0 ? (size_t)first : 0];
    *high = values[last < n ? (size_t)last : count - 1];
}

/* True if runner `i` is still in the race. */
static bool runs(const struct track *t, size_t i)
{
    return !t->result->figures[i].faulty && !t->result->figures[i].dropped;
}

/* Launches each runner once and stores the times of round `round`. Each round begins with another
 * runner. */
static void run_round(struct track *t, unsigned round)
{
    for (size_t k = 0; k < t->count; k++) {
        const size_t i = (k + round) % t->count;
        double us = 0;
        t->times[i][round] = NAN;
        if (!runs(t, i))
            continue;
        if (t->sample(t->context, i, &us))
            t->times[i][round] = us;
        else
            t->result->figures[i].faulty = true;
    }
}

/* Returns the first runner that has not failed; ratios are to its times. */
static size_t find_reference(const struct track *t)
{
    size_t i = 0;
    while (i + 1 < t->count && t->result->figures[i].faulty)
        i++;
    return i;
}

/* Computes the figure of runner `i`: the median of its times and of its ratios to runner
 * `reference`, with their intervals. */
static void sum_up(struct track *t, size_t i, size_t reference)
{
    double own[RACE_ROUNDS], ratios[RACE_ROUNDS];
    struct race_figure *f = &t->result->figures[i];
    size_t n = 0, pairs = 0;
    for (unsigned r = 0; r < t->result->rounds; r++) {
        const double us = t->times[i][r], base = t->times[reference][r];
        if (isnan(us))
            continue;
        own[n++] = us;
        if (!isnan(base) && base > 0)
            ratios[pairs++] = us / base;
    }
    f->runs = (unsigned)n;
    if (!n || !pairs)
        return;
    race_median(own, n, &f->us, &f->low, &f->high);
    race_median(ratios, pairs, &f->ratio, &f->ratio_low, &f->ratio_high);
}

/* True if the figure has a time and no fault. */
static bool counts(const struct race_figure *f) { return !f->faulty && f->runs && f->ratio > 0; }

/* Finds the runner with the least ratio, and whether any other runner might be as fast. */
static void find_winner(struct track *t)
{
    struct race_result *r = t->result;
    r->winner = find_reference(t);
    for (size_t i = 0; i < t->count; i++) {
        if (counts(&r->figures[i]) && r->figures[i].ratio < r->figures[r->winner].ratio)
            r->winner = i;
    }
    r->decided = counts(&r->figures[r->winner]);
    for (size_t i = 0; i < t->count; i++) {
        if (i != r->winner && counts(&r->figures[i]) && !r->figures[i].dropped &&
            r->figures[i].ratio_low < r->figures[r->winner].ratio_high)
            r->decided = false;
    }
}

/* Drops the runners that are certainly slower than the winner. Runner `reference` stays to the
 * end. */
static void drop_slow(struct track *t, size_t reference)
{
    struct race_result *r = t->result;
    for (size_t i = 0; i < t->count; i++) {
        struct race_figure *f = &r->figures[i];
        if (i != reference && i != r->winner && counts(f) &&
            f->ratio_low > r->figures[r->winner].ratio_high)
            f->dropped = true;
    }
}

/* True if the figures of all runners that are still in the race are as precise as the options
 * require. */
static bool is_precise(const struct track *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct race_figure *f = &t->result->figures[i];
        if (runs(t, i) && (!counts(f) || f->high - f->low > 2 * t->o->precision * f->us ||
                           f->ratio_high - f->ratio_low > 2 * t->o->precision * f->ratio))
            return false;
    }
    return true;
}

/* Returns the reference's median time in the last third of the rounds over its median in the first
 * third. */
static double find_drift(const struct track *t, size_t reference)
{
    double early[RACE_ROUNDS], late[RACE_ROUNDS], a, b, ignored;
    size_t n = 0, m = 0;
    const unsigned third = t->result->rounds / 3;
    for (unsigned r = 0; r < t->result->rounds; r++) {
        const double us = t->times[reference][r];
        if (!isnan(us) && r < third)
            early[n++] = us;
        if (!isnan(us) && r >= t->result->rounds - third)
            late[m++] = us;
    }
    if (!n || !m)
        return 1;
    race_median(early, n, &a, &ignored, &ignored);
    race_median(late, m, &b, &ignored, &ignored);
    return a > 0 ? b / a : 1;
}

/* Launches each runner o->warm_up times without storing times. */
static void warm_up(struct track *t)
{
    for (unsigned w = 0; w < t->o->warm_up; w++) {
        for (size_t i = 0; i < t->count; i++) {
            double ignored;
            if (runs(t, i) && !t->sample(t->context, i, &ignored))
                t->result->figures[i].faulty = true;
        }
    }
}

void race_run(const struct race_options *o, size_t count, race_sample *sample, void *context,
              struct race_result *result)
{
    struct track *t = calloc(1, sizeof(*t));
    const double start = steady_seconds();
    *result = (struct race_result){.drift = 1};
    if (!t || count > RACE_RUNNERS) {
        free(t);
        return;
    }
    *t = (struct track){
        .o = o, .count = count, .sample = sample, .context = context, .result = result};
    const unsigned most = o->most < RACE_ROUNDS ? o->most : RACE_ROUNDS;
    warm_up(t);
    for (unsigned round = 0; round < most; round++) {
        run_round(t, round);
        result->rounds = round + 1;
        const bool last =
            round + 1 == most || (o->seconds > 0 && steady_seconds() - start > o->seconds);
        if (!last && result->rounds < o->least)
            continue;
        const size_t reference = find_reference(t);
        for (size_t i = 0; i < count; i++)
            sum_up(t, i, reference);
        find_winner(t);
        if (last || (result->decided && is_precise(t)))
            break;
        drop_slow(t, reference);
    }
    result->drift = find_drift(t, find_reference(t));
    free(t);
}
