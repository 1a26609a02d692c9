/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the race on simulated times with noise, outliers, a clock that drifts and launches that
 * fail. The fastest runner wins, and each runner keeps its figure.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/unit_test.h"
#include "tools/attnc/tune/race.h"

struct device {
    double us[RACE_RUNNERS];
    double noise, drift, outliers; /* as fractions of 1 */
    size_t faulty;                 /* index of the runner that fails; RACE_RUNNERS: none fails */
    unsigned from;                 /* that runner's launches fail from this one on */
    unsigned launches[RACE_RUNNERS], all;
    uint64_t random;
};

static double uniform(struct device *d)
{
    d->random = d->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(d->random >> 11) / 9007199254740992.0;
}

static bool sample(void *context, size_t which, double *us)
{
    struct device *d = context;
    double deviate = -6;
    for (int i = 0; i < 12; i++)
        deviate += uniform(d);
    d->all++;
    if (which == d->faulty && ++d->launches[which] >= d->from)
        return false;
    *us = d->us[which] * (1 + d->noise * deviate) * (1 + d->drift * d->all);
    if (uniform(d) < d->outliers)
        *us *= 4;
    return true;
}

static const struct race_options usual = {
    .warm_up = 2, .least = 12, .most = RACE_ROUNDS, .precision = 0.005};

static struct device make(double a, double b, double c, uint64_t seed)
{
    return (struct device){.us = {a, b, c}, .faulty = RACE_RUNNERS, .random = seed};
}

TEST(a_silent_clock_needs_few_rounds)
{
    struct device d = make(100, 99, 101, 1);
    struct race_result r;
    race_run(&usual, 3, sample, &d, &r);
    assert_int_equal(r.winner, 1);
    assert_true(r.decided);
    assert_int_equal(r.rounds, usual.least);
    assert_true(fabs(r.figures[1].us - 99) < 1e-9 && fabs(r.figures[1].ratio - 0.99) < 1e-9);
}

/* Times are 2 % apart, with 3 % of noise. One launch of twenty takes four times as long. */
TEST(the_right_one_wins_in_noise)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct device d = make(102, 100, 104, seed);
        struct race_result r;
        d.noise = 0.03;
        d.outliers = 0.05;
        race_run(&usual, 3, sample, &d, &r);
        assert_int_equal(r.winner, 1);
        assert_true(fabs(r.figures[1].us / 100 - 1) < 0.01);
        assert_true(r.figures[1].low < r.figures[1].us && r.figures[1].us < r.figures[1].high);
    }
}

/* The clock becomes half as fast during the race. Absolute times would favour candidates that ran
 * early. */
TEST(a_drifting_clock_favours_nobody)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct device d = make(100, 98.5, 99.5, seed);
        struct race_result r;
        d.noise = 0.004;
        d.drift = 0.002;
        race_run(&usual, 3, sample, &d, &r);
        assert_int_equal(r.winner, 1);
        assert_true(fabs(r.figures[1].ratio - 0.985) < 0.01);
        assert_true(r.drift > 1.01);
    }
}

TEST(a_fault_costs_one_runner)
{
    for (size_t faulty = 0; faulty < 3; faulty++) {
        struct device d = make(100, 90, 95, 7);
        struct race_result r;
        d.faulty = faulty;
        d.from = 5;
        race_run(&usual, 3, sample, &d, &r);
        assert_int_equal(r.winner, faulty == 1 ? 2 : 1);
        for (size_t i = 0; i < 3; i++)
            assert_true(r.figures[i].faulty == (i == faulty));
        assert_true(r.figures[(faulty + 1) % 3].runs >= usual.least);
    }
}

/* The first of equal candidates wins, and the race reports that it was not decided. */
TEST(equals_are_not_decided)
{
    struct device d = make(100, 100, 100, 3);
    struct race_result r;
    struct race_options few = usual;
    few.most = 40;
    d.noise = 0.02;
    race_run(&few, 3, sample, &d, &r);
    assert_false(r.decided);
    assert_int_equal(r.rounds, 40);
}

TEST(the_interval_holds_the_median)
{
    unsigned held = 0;
    struct device d = {.random = 11};
    for (int trial = 0; trial < 1000; trial++) {
        double values[31], median, low, high;
        for (int i = 0; i < 31; i++)
            values[i] = uniform(&d);
        race_median(values, 31, &median, &low, &high);
        held += low <= 0.5 && 0.5 <= high;
    }
    assert_in_range(held, 930, 990); /* 95 %, a little more because ranks are whole */
}

int main(void) { return run_unit_tests(); }
