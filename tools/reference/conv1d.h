/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a causal convolution of one channel, in doubles. */
#ifndef REFERENCE_CONV1D_H
#define REFERENCE_CONV1D_H

/* Returns output t of the channel, bias + sum_j weight[j] x[t - taps + 1 + j]. x[-1] is the
 * input before the first one; there are taps - 1 inputs before x[0]. *terms becomes the sum of
 * the terms' magnitudes. */
double ref_conv1d(const double *x, int t, const double *weight, int taps, double bias,
                  double *terms);

#endif
