/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the sum of partial attention outputs by its formula, in doubles. */
#ifndef REFERENCE_COMBINE_H
#define REFERENCE_COMBINE_H

/* Most elements of a row. */
enum { REF_COMBINE_DIM_MAX = 512 };

/* A split-KV partial of a row of the output. */
struct ref_combine_part {
    const double *out; /* [dim]; not read if lse is infinite */
    double lse;
};

/* A row of the output, and the quantities from which a kernel's error is bounded. Sums are over
 * the partials: p is a partial's weight, o its output, and d the distance of its LSE from the
 * largest. */
struct ref_combine_row {
    double out[REF_COMBINE_DIM_MAX];       /* sum of weight p * o; 0 if no part has a finite lse */
    double lse;                            /* log of the denominator; -infinity if that is 0 */
    double magnitude[REF_COMBINE_DIM_MAX]; /* sum of weight p * |o| */
    double distance[REF_COMBINE_DIM_MAX];  /* sum of weight p * distance d of the lse * |o| */
    double values[REF_COMBINE_DIM_MAX];    /* sum of |o| over the parts with a finite lse */
    double lse_distance;                   /* sum of weight p * distance d, including the sink */
    double largest;                        /* largest |lse|, including the sink */
};

/* Computes a row of `dim` elements from `count` partials. `sink` is a logit that joins the
 * denominator; -infinity: no sink. */
void ref_combine_row(const struct ref_combine_part *parts, int count, double sink, int dim,
                     struct ref_combine_row *result);

#endif
