/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the sum of partial attention outputs as the formula says it, in doubles. */
#ifndef REFERENCE_COMBINE_H
#define REFERENCE_COMBINE_H

enum { REF_COMBINE_DIM_MAX = 512 };

/* One part of a row of the output. */
struct ref_combine_part {
    const double *out; /* [dim]; not read where lse is infinite */
    double lse;
};

/* One row of the output, and what a bound on a kernel's error has to know of it. p_k is the weight
 * of part k, d_k how far its lse is below the largest. */
struct ref_combine_row {
    double out[REF_COMBINE_DIM_MAX];       /* sum of p o; 0 where no part counts */
    double lse;                            /* log of the denominator; -infinity where it is 0 */
    double magnitude[REF_COMBINE_DIM_MAX]; /* sum of p |o| */
    double distance[REF_COMBINE_DIM_MAX];  /* sum of p d |o| */
    double values[REF_COMBINE_DIM_MAX];    /* sum of |o| over the parts that count */
    double lse_distance;                   /* sum of p d, the sink's included */
    double largest;                        /* largest |lse|, the sink's included */
};

/* `sink` joins the denominator; -infinity: there is none. */
void ref_combine_row(const struct ref_combine_part *parts, int count, double sink, int dim,
                     struct ref_combine_row *result);

#endif
