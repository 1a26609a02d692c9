/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: a weighted sum of an input and the inputs before it. */
#include "tools/reference/conv1d.h"

#include <math.h>

double ref_conv1d(const double *x, int t, const double *weight, int taps, double bias,
                  double *terms)
{
    double sum = bias;
    *terms = fabs(bias);
    for (int j = 0; j < taps; j++) {
        sum += weight[j] * x[t - taps + 1 + j];
        *terms += fabs(weight[j] * x[t - taps + 1 + j]);
    }
    return sum;
}
