/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: out = sum over k of x[k] w[k], with w times its scale. */
#include "tools/reference/head_product.h"
#include "tools/reference/clones.h"

#include <math.h>

REF_CLONES double ref_head_product(const double *x, const double *w, int count, const double *scale,
                                   int block, double *magnitude)
{
    double sum = 0, absolute = 0;
    for (int first = 0; first < count; first += block) {
        const int end = count - first < block ? count : first + block;
        const double of_block = scale[first / block];
#pragma omp simd reduction(+ : sum, absolute)
        for (int k = first; k < end; k++) {
            const double term = of_block * x[k] * w[k];
            sum += term;
            absolute += fabs(term);
        }
    }
    *magnitude = absolute;
    return sum;
}
