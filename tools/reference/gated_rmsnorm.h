/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the gated norm after linear attention layers, in doubles. */
#ifndef REFERENCE_GATED_RMSNORM_H
#define REFERENCE_GATED_RMSNORM_H

#include <stdbool.h>

/* Returns 1 / (1 + exp(-x)). */
double ref_sigmoid(double x);

/* Returns x / (1 + exp(-x)). */
double ref_silu(double x);

/* Normalises `count` elements: out = weight x / sqrt(mean(x^2) + eps). `first`: x is replaced
 * by x gate before the norm. Otherwise out is multiplied by gate after it. gate NULL: no gate. */
void ref_gated_rms_norm(double *x, const double *gate, bool first, const double *weight, int count,
                        double eps, double *out);

/* Returns the sum of (x[i] gate[i])^2 over `count` elements; of x[i]^2 if gate is NULL. */
double ref_gated_squares(const double *x, const double *gate, int count);

/* Normalises `count` elements of a group with a given mean square: out = x weight gate /
 * sqrt(mean_square + eps). The order of gate and norm does not matter here. gate NULL: no gate. */
void ref_gated_part_norm(const double *x, const double *gate, const double *weight, int count,
                         double mean_square, double eps, double *out);

#endif
