/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the bounds of an op's last step: rounding, after a division by a scale.
 */
#ifndef TOOLS_VERIFY_STORED_H
#define TOOLS_VERIFY_STORED_H

#include "tools/verify/numbers.h"

/** The unit of float32 arithmetic in kernels. */
#define STORED_F 0x1p-24

/** Returns a bound of the error of a float32 sum of n products whose magnitudes add up to
 * `magnitude`. Each term is rounded n + 8 times at most, and the factor 2 covers second-order
 * terms. */
static inline double stored_product_error(int n, double magnitude)
{
    return 2 * (n + 8) * STORED_F * magnitude;
}

/**
 * Returns the number that is stored for x / scale in type `p`, saturated. Scale 1 means stored as
 * it is. *bound is the error of the stored value for an x that is off by `arithmetic`. It adds 4
 * units of float32 for the product with an inverse good to an ulp, and half a step of the type.
 */
double stored_value(const struct precision *p, double scale, double x, double arithmetic,
                    double *bound);

/** Returns a float32 scale under which some random_value() exceed the largest stored number. */
double stored_scale(const struct precision *p, uint64_t *random);

#endif
