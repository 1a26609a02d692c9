/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the RMS norm of a row, in doubles. */
#ifndef REFERENCE_QK_RMSNORM_H
#define REFERENCE_QK_RMSNORM_H

/* Computes the RMS norm of a row of `count` elements: out = weight x / sqrt(mean(x^2) + eps). */
void ref_rms_norm(const double *x, const double *weight, int count, double eps, double *out);

#endif
