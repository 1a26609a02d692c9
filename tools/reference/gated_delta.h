/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a step of the gated delta rule and its gates, in doubles. */
#ifndef REFERENCE_GATED_DELTA_H
#define REFERENCE_GATED_DELTA_H

/* Returns log(1 + exp(x)). */
double ref_softplus(double x);

/* Advances the state S of one value element, a number for each of `key` key elements: S = decay S,
 * then S += k beta (v - S k). Returns S q. */
double ref_delta_step(double *state, const double *decay, const double *k, const double *q, int key,
                      double v, double beta);

#endif
