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
