/* SPDX-License-Identifier: Apache-2.0 attnc verify: bounds on sums over many errors. Each error
 * may be within its own bound. Roundings that are independent of each other do not add up; what
 * is rounded the same way everywhere does. */
#ifndef TOOLS_VERIFY_MEAN_H
#define TOOLS_VERIFY_MEAN_H

#include <stdbool.h>

/** A sum of errors and the data of its bound. */
struct mean {
    double sum;
    double drift;   /* largest magnitude of the part of `sum` that may have one sign */
    double squares; /* sum of the squares of the largest independent roundings, whose mean is part
                     of `drift` */
    double scale;   /* messages print sum / scale */
};

/** Returns the largest magnitude that `sum` may have. */
double mean_bound(const struct mean *m);

/** True if `sum` exceeds its bound. */
bool mean_is_off(const struct mean *m);

/** Ways to sum the errors of elements. */
enum mean_kind {
    MEAN_ALONG,    /* times the expected value: finds results that are all too large or too small in
                      magnitude */
    MEAN_UP,       /* signed: finds results that are all too high or too low */
    MEAN_ABSOLUTE, /* magnitudes */
    MEAN_KINDS
};

struct verify_row;

/** Adds an element whose error is at most rounding + drift. `rounding` is the part that is
 * independent of other elements. */
void mean_add_element(struct mean means[MEAN_KINDS], double error, double expected, double rounding,
                      double drift);

/** Fails the row if a sum exceeds its bound. */
void mean_check(const struct mean means[MEAN_KINDS], struct verify_row *row);

/** Fails the row if `m` exceeds its bound. `what` names the quantity in the message. */
void mean_check_one(const struct mean *m, const char *what, struct verify_row *row);

#endif
