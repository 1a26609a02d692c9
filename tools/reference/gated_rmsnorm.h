/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the norm after linear attention layers, in doubles. */
#ifndef REFERENCE_GATED_RMSNORM_H
#define REFERENCE_GATED_RMSNORM_H

#include <stdbool.h>

/* Return 1 / (1 + exp(-x)), and x times that. */
double ref_sigmoid(double x);
double ref_silu(double x);

/* Normalises `count` elements: out = x / sqrt(mean(x^2) + eps) weight. With `first`, x[i] *=
 * gate[i] before it; otherwise out is multiplied by gate. NULL: no gate. */
void ref_gated_rms_norm(double *x, const double *gate, bool first, const double *weight, int count,
                        double eps, double *out);

/* Returns the sum of the squares of `count` elements, of x[i] gate[i] if gate is not NULL. */
double ref_gated_squares(const double *x, const double *gate, int count);

/* Normalises `count` elements of a group whose mean square is given: out = x / sqrt(mean_square +
 * eps) weight gate, with the gate before or after the norm. NULL: no gate. */
void ref_gated_part_norm(const double *x, const double *gate, const double *weight, int count,
                         double mean_square, double eps, double *out);

#endif
