/* SPDX-License-Identifier: Apache-2.0 */
/* This file is the formula and nothing else: out = x / sqrt(mean(x^2) + eps) weight. */
#include "tools/reference/qk_rmsnorm.h"

#include <math.h>

void ref_rms_norm(const double *x, const double *weight, int count, double eps, double *out)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < count; i++)
        out[i] = x[i] / sqrt(sum / count + eps) * weight[i];
}
