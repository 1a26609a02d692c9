/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the product with a head's weights, in doubles. */
#ifndef REFERENCE_HEAD_PRODUCT_H
#define REFERENCE_HEAD_PRODUCT_H

/* Returns sum over k < count of scale[k / block] x[k] w[k], one element of a head's product.
 * *magnitude gets the sum of the terms' magnitudes. */
double ref_head_product(const double *x, const double *w, int count, const double *scale, int block,
                        double *magnitude);

#endif
