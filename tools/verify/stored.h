/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares bounds of the errors of an op's last step: a division by a scale, and rounding
 * to the stored type.
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
 * Returns x / scale, limited to the range of type `p`; scale 1: x is stored without a scale. *bound
 * receives the largest error of the stored number if x has an error of up to `arithmetic`. The
 * bound adds 4 units of float32 for a product with an inverse within an ulp, and half a step of the
 * type.
 */
double stored_value(const struct precision *p, double scale, double x, double arithmetic,
                    double *bound);

/** Returns a random float32 scale so small that some random_value() divided by it exceed the
 * largest number of type `p`. */
double stored_scale(const struct precision *p, uint64_t *random);

#endif
