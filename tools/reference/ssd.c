/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the formula only: a state decays, and adds an input. */
#include "tools/reference/ssd.h"

double ref_ssd_step(double *state, double decay, const double *b, const double *c, int n, double wx)
{
    double out = 0;
    for (int i = 0; i < n; i++) {
        state[i] = decay * state[i] + b[i] * wx;
        out += state[i] * c[i];
    }
    return out;
}
