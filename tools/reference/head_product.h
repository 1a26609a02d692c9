/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a product with the weights of a head, in doubles. */
#ifndef REFERENCE_HEAD_PRODUCT_H
#define REFERENCE_HEAD_PRODUCT_H

/* sum over k of scale[k / block] x[k] w[k], of `count` terms; *magnitude: of their absolute
 * values. */
double ref_head_product(const double *x, const double *w, int count, const double *scale, int block,
                        double *magnitude);

#endif
