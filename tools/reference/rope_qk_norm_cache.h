/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares, by their formulas, the ops after the QKV projection, in doubles. */
#ifndef REFERENCE_ROPE_QK_NORM_CACHE_H
#define REFERENCE_ROPE_QK_NORM_CACHE_H

#include <stdbool.h>

/* Most elements of a head. */
enum { REF_ROPE_DIM_MAX = 1024 };

/* The elements that rotate as a pair: none; element i of both halves (NeoX); neighbours (GPT-J). */
enum ref_pairs { REF_PAIRS_NONE, REF_PAIRS_NEOX, REF_PAIRS_GPTJ };

/* One head of q or of the key. */
struct ref_rope {
    /* Elements of the head, and how many of them, the first ones, rotate. */
    int dim, rotary_dim;
    enum ref_pairs pairs;
    /* True: the head is normalised (RMS). */
    bool norm;
    bool gemma; /* the norm's weight is 1 + w */
    bool given; /* mean_square is an input; false: it is computed from the head */
    /* Mean square of the row, and the number that the norm adds to it. */
    double mean_square, eps;
    const double *x;      /* [dim]: elements of the head */
    const double *bias;   /* [dim]: added to x; NULL: no bias */
    const double *weight; /* [dim]: weight w of the norm; not read without norm */
    /* [rotary_dim / 2] each: cosines and sines of the angles at the token's position */
    const double *cos;
    const double *sin;
};

/* The result, and the quantities from which a kernel's error is bounded. */
struct ref_rope_head {
    /* Elements of `out`. */
    int dim;
    double out[REF_ROPE_DIM_MAX];
    double magnitude[REF_ROPE_DIM_MAX]; /* sum of the magnitudes of out's terms */
};

/* Computes one rotated head. */
void ref_rope_head(const struct ref_rope *p, struct ref_rope_head *result);

#endif
