/* SPDX-License-Identifier: Apache-2.0 attnc verify: bounds on sums over many errors. Each error
 * may be within its own bound. Roundings that are independent of each other do not add up; what
 * is rounded the same way everywhere does. */
#ifndef TOOLS_VERIFY_MEAN_H
#define TOOLS_VERIFY_MEAN_H

#include <stdbool.h>

/** A sum of errors, and what bounds it. */
struct mean {
    double sum;
    double drift; /* of what may have the same sign everywhere, the sum of the most */
    double
        squares;  /* of independent roundings, whose mean is in `drift`, the squares of the most */
    double scale; /* what messages divide the sum by */
};

/** Returns how far `sum` may be from 0. */
double mean_bound(const struct mean *m);

/** True if `sum` is beyond its bound. */
bool mean_is_off(const struct mean *m);

/** Sums of the errors of elements. */
enum mean_kind {
    MEAN_ALONG,    /* times the expected value: all are too large, or too small */
    MEAN_UP,       /* all are too high, or too low */
    MEAN_ABSOLUTE, /* without their sign */
    MEAN_KINDS
};

struct verify_row;

/** Adds an element whose error is at most rounding + drift: `rounding` is the part that is
 * independent of other elements'. */
void mean_add_element(struct mean means[MEAN_KINDS], double error, double expected, double rounding,
                      double drift);

/** Fails the row where a sum is beyond its bound. */
void mean_check(const struct mean means[MEAN_KINDS], struct verify_row *row);

/** Fails the row where `m` is beyond its bound: `what` says what is off on the average. */
void mean_check_one(const struct mean *m, const char *what, struct verify_row *row);

#endif
