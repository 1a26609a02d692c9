/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the norm after linear attention layers, in doubles. */
#ifndef REFERENCE_GATED_RMSNORM_H
#define REFERENCE_GATED_RMSNORM_H

#include <stdbool.h>

/* 1 / (1 + exp(-x)), and x times that. */
double ref_sigmoid(double x);
double ref_silu(double x);

/* x[i] *= gate[i] of each of `count` elements where `first`; then out = x / sqrt(mean(x^2) + eps)
 * weight, times gate where not `first`. No gate: NULL. */
void ref_gated_rms_norm(double *x, const double *gate, bool first, const double *weight, int count,
                        double eps, double *out);

#endif
