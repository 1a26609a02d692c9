/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares bounds on sums of many errors. Each error may be within its bound, and all may
 * still have a common bias. Independent roundings cancel in a sum; roundings in the same direction
 * do not.
 */
#ifndef TOOLS_VERIFY_MEAN_H
#define TOOLS_VERIFY_MEAN_H

#include <stdbool.h>

/** A sum of errors and the numbers that bound it. */
struct mean {
    double sum;
    double drift; /* largest magnitude of the part of `sum` that may have one sign */
    /* sum of the squares of bounds of independent roundings; `drift` has their mean */
    double squares;
    double scale; /* number by which messages divide `sum` */
};

/** Returns the largest magnitude that `sum` may have. */
double mean_bound(const struct mean *m);

/** True if `sum` exceeds its bound. */
bool mean_is_off(const struct mean *m);

/** Ways to sum the errors of elements. Each sum finds another kind of bias. */
enum mean_kind {
    /* error times expected value: finds results that are all too large or too small in magnitude */
    MEAN_ALONG,
    MEAN_UP,       /* signed error: finds results that are all too high or too low */
    MEAN_ABSOLUTE, /* magnitude of the error: finds errors that are all larger than roundings */
    MEAN_KINDS
};

struct verify_row;

/** Adds an element's error to the three sums. The error is at most rounding + drift; `rounding` is
 * the part that is independent of other elements. */
void mean_add_element(struct mean means[MEAN_KINDS], double error, double expected, double rounding,
                      double drift);

/** Fails the row if one of the three sums exceeds its bound. */
void mean_check(const struct mean means[MEAN_KINDS], struct verify_row *row);

/** Fails the row if `m` exceeds its bound. `what` names the quantity in the message. */
void mean_check_one(const struct mean *m, const char *what, struct verify_row *row);

#endif
