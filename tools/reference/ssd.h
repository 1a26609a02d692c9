/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a step of a state-space recurrence, in doubles. */
#ifndef REFERENCE_SSD_H
#define REFERENCE_SSD_H

/* Advances the state S of one value element, n numbers: S = decay S + b wx. Returns S c. wx is the
 * element's input times its time step. */
double ref_ssd_step(double *state, double decay, const double *b, const double *c, int n,
                    double wx);

#endif
