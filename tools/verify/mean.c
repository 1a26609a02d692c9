/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file bounds sums of errors, by the following facts. Independent numbers X_i with mean 0 and
 * |X_i| <= a_i have P(|sum X_i| >= t) <= 2 exp(-t^2 / (2 sum a_i^2)) (Hoeffding, Probability
 * Inequalities for Sums of Bounded Random Variables, 1963, theorem 2). A function of independent
 * numbers has the same bound around its mean, if number i changes it by at most 2 a_i. A sum of
 * magnitudes is one (McDiarmid, On the Method of Bounded Differences, 1989). With t = 6.55 sqrt(sum
 * a_i^2) the probability is 10^-9. So a larger sum is not due to chance. A rounding to nearest has
 * a mean of nearly 0. tools/reference/roundings.c derives d^2 / p, which is unit^2 |x| here, since
 * d is unit |x|. The magnitude of a rounding is evenly distributed, so its mean is half of its
 * maximum.
 */
#include "tools/verify/mean.h"

#include <math.h>

#include "tools/verify/verify.h"

/* A sum may exceed its drift by this factor of the root of its sum of squares. A larger sum has a
 * probability of 10^-9. */
static const double DEVIATIONS = 6.55;

double mean_bound(const struct mean *m) { return m->drift + DEVIATIONS * sqrt(m->squares); }

bool mean_is_off(const struct mean *m) { return !(fabs(m->sum) <= mean_bound(m)); }

/* Adds an error times `factor` to a sum, and `rounding` and `drift` times the factor to its
 * bound. */
static void add(struct mean *m, double error, double factor, double rounding, double drift)
{
    m->sum += error * factor;
    m->squares += rounding * factor * rounding * factor;
    m->drift += drift * fabs(factor);
}

void mean_add_element(struct mean means[MEAN_KINDS], double error, double expected, double rounding,
                      double drift)
{
    const double tilt =
        expected == 0 ? rounding : fmin(rounding * rounding / fabs(expected), rounding);
    add(&means[MEAN_ALONG], error, expected, rounding, drift + tilt);
    add(&means[MEAN_UP], error, 1, rounding, drift + tilt);
    add(&means[MEAN_ABSOLUTE], fabs(error), 1, rounding, drift + rounding / 2);
    means[MEAN_ALONG].scale += expected * expected;
    means[MEAN_UP].scale++;
    means[MEAN_ABSOLUTE].scale++;
}

void mean_check_one(const struct mean *m, const char *what, struct verify_row *row)
{
    if (mean_is_off(m))
        verify_fail(row, "%s by %.2e on the average, independent roundings by %.2e at most", what,
                    m->sum / m->scale, mean_bound(m) / m->scale);
}

void mean_check(const struct mean means[MEAN_KINDS], struct verify_row *row)
{
    static const char *const what[] = {
        [MEAN_ALONG] = "results are too large, as a part of themselves,",
        [MEAN_UP] = "results are too high",
        [MEAN_ABSOLUTE] = "results are off, without regard to sign,",
    };
    for (int i = 0; i < MEAN_KINDS; i++)
        mean_check_one(&means[i], what[i], row);
}
