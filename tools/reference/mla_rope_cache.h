/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares, by their formulas, the ops before absorbed latent attention, in doubles. */
#ifndef REFERENCE_MLA_ROPE_CACHE_H
#define REFERENCE_MLA_ROPE_CACHE_H

#include <stdbool.h>

#include "tools/reference/rope_qk_norm_cache.h"

/* A head of q_out, or a row of the cache. */
struct ref_mla_row {
    int latent, rotary; /* elements of the latent and of the rotated part; rotary may be 0 */
    enum ref_pairs pairs;
    bool norm; /* true: the latent part is normalised (RMS) */
    /* Number that the norm adds to the mean square before it takes the root. */
    double eps;
    const double *c;      /* [latent]: the part without rotation; NULL: it is not computed */
    const double *weight; /* [latent]: weight of the norm; not read without norm */
    const double *pe;     /* [rotary]: elements that rotate */
    /* [rotary / 2] each: cosines and sines of the angles at the token's position */
    const double *cos;
    const double *sin;
};

/* Computes the latent part of the row, followed by the rotated part, each as ref_rope_head()
 * does. */
void ref_mla_row(const struct ref_mla_row *p, struct ref_rope_head *result);

#endif
