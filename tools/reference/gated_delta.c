/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: a state decays, and is corrected by its prediction
   error. */
#include "tools/reference/gated_delta.h"

#include <math.h>

double ref_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

double ref_delta_step(double *state, const double *decay, const double *k, const double *q, int key,
                      double v, double beta)
{
    double known = 0, out = 0;
    for (int i = 0; i < key; i++) {
        state[i] *= decay[i];
        known += state[i] * k[i];
    }
    for (int i = 0; i < key; i++) {
        state[i] += k[i] * beta * (v - known);
        out += state[i] * q[i];
    }
    return out;
}
