/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the bounds of an op's last step: rounding, after a division by a scale.
 */
#ifndef TOOLS_VERIFY_STORED_H
#define TOOLS_VERIFY_STORED_H

#include "tools/verify/numbers.h"

/** The unit of float32, in which kernels compute. */
#define STORED_F 0x1p-24

/**
 * Returns the number that is stored for x / scale in elements of type `p`, saturated; scale 1:
 * stored as it is. *bound becomes how far from that it may be where x is off by `arithmetic`: 4
 * units of float32 for the product with an inverse that is good to an ulp, and then half a step of
 * the type.
 */
double stored_value(const struct precision *p, double scale, double x, double arithmetic,
                    double *bound);

/** A scale of which some random_value() are beyond what it can stand for; float32. */
double stored_scale(const struct precision *p, uint64_t *random);

#endif
