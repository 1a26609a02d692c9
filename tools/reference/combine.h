/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the LSE-weighted sum of partial attention outputs by its formula, in
 * doubles. */
#ifndef REFERENCE_COMBINE_H
#define REFERENCE_COMBINE_H

/* Most elements of a row. */
enum { REF_COMBINE_DIM_MAX = 512 };

/* A split-KV partial of a row of the output. */
struct ref_combine_part {
    const double *out; /* [dim]; not read if lse is infinite */
    double lse;
};

/* A row of the output, and the quantities from which a kernel's error is bounded. Sums run over the
 * partials with a finite LSE. p is a partial's weight over the denominator, o its output, d the
 * largest LSE minus its LSE. */
struct ref_combine_row {
    double out[REF_COMBINE_DIM_MAX]; /* sum of p o; 0 if no partial has a finite LSE */
    double lse; /* natural logarithm of the denominator; -infinity if that is 0 */
    double magnitude[REF_COMBINE_DIM_MAX]; /* sum of p |o| */
    double distance[REF_COMBINE_DIM_MAX];  /* sum of p d |o| */
    double values[REF_COMBINE_DIM_MAX];    /* sum of |o| */
    double lse_distance;                   /* sum of p d, including the sink */
    double largest;                        /* largest |LSE|, including the sink */
};

/* Computes a row of `dim` elements from `count` partials. `sink` is a logit that joins the
 * denominator; -infinity: no sink. */
void ref_combine_row(const struct ref_combine_part *parts, int count, double sink, int dim,
                     struct ref_combine_row *result);

#endif
