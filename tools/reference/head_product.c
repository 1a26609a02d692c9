/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: out = sum over k of x[k] w[k], with w times its scale. */
#include "tools/reference/head_product.h"

#include <math.h>

double ref_head_product(const double *x, const double *w, int count, const double *scale, int block,
                        double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (int k = 0; k < count; k++) {
        const double term = scale[k / block] * x[k] * w[k];
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}
