/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: a norm times a gate, or the norm of a product with a
   gate. */
#include "tools/reference/gated_rmsnorm.h"

#include <math.h>

#include "tools/reference/qk_rmsnorm.h"

double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }

double ref_silu(double x) { return x / (1 + exp(-x)); }

void ref_gated_rms_norm(double *x, const double *gate, bool first, const double *weight, int count,
                        double eps, double *out)
{
    for (int i = 0; gate && first && i < count; i++)
        x[i] *= gate[i];
    ref_rms_norm(x, weight, count, eps, out);
    for (int i = 0; gate && !first && i < count; i++)
        out[i] *= gate[i];
}

double ref_gated_squares(const double *x, const double *gate, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += gate ? pow(x[i] * gate[i], 2) : x[i] * x[i];
    return sum;
}

void ref_gated_part_norm(const double *x, const double *gate, const double *weight, int count,
                         double mean_square, double eps, double *out)
{
    for (int i = 0; i < count; i++)
        out[i] = x[i] / sqrt(mean_square + eps) * weight[i] * (gate ? gate[i] : 1);
}
