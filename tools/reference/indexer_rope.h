/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how the indexer's queries and keys are normalised, rotated and quantised, by
 * formulas. */
#ifndef REFERENCE_INDEXER_ROPE_H
#define REFERENCE_INDEXER_ROPE_H

#include <stdbool.h>

/* Elements of a head, and how many of them, the first ones, rotate. */
enum { REF_INDEX_ROPE_DIM = 128, REF_INDEX_ROTARY = 64 };

/** Rotates `pairs` pairs of y. `error` has bounds of y's errors, and gets bounds of the result's in
 * float32 arithmetic. cos_sin: cosines, then sines. `gptj`: neighbouring elements are a pair;
 * false: element i of both halves is. */
void ref_rotate(double *y, double *error, const double *cos_sin, int pairs, bool gptj);

/** Multiplies 128 elements by the Hadamard matrix / sqrt 128. `error` has bounds of y's errors,
 * which become bounds of the result's in float32 arithmetic. */
void ref_hadamard(double *y, double *error);

/* A head of the indexer's queries or a key, before its norm and rotation. */
struct ref_index_rope {
    const double *x; /* [128]: elements of the head or key */
    /* [128]: weight and bias of a norm. weight NULL: no norm; bias NULL: RMS norm; both:
     * LayerNorm. */
    const double *weight, *bias;
    /* Number that the norm adds to the mean square or the variance before it takes the root. */
    double eps;
    const double *cos_sin; /* [64]: cosines, then sines */
    /* True: neighbouring elements rotate as a pair; false: element i of both halves does. */
    bool gptj;
    bool hadamard; /* true: the result is multiplied by the Hadamard matrix / sqrt(128) */
};

/** The normalised and rotated head, with the largest error of each element in float32
 * arithmetic. */
struct ref_index_head {
    double y[REF_INDEX_ROPE_DIM], error[REF_INDEX_ROPE_DIM];
};

/** Computes one head of the indexer, with the bound for its error. */
void ref_index_rope(const struct ref_index_rope *p, struct ref_index_head *r);

/** Elements that share a scale in mxfp4 of the OCP Microscaling Formats. */
enum { REF_MX_BLOCK = 32 };

/** Returns the scale byte of a block of mxfp4: the exponent X of its scale 2^X, plus 127.
 * `most` is the block's largest magnitude. */
int ref_mxfp4_scale(double most);

/** Returns the value of e2m1 that is nearest to x, ties to even. */
double ref_e2m1(double x);

/** Returns the value of an e2m1's four bits. */
double ref_e2m1_value(unsigned bits);

/** Returns the value of an e8m0 scale: 255 is a NaN. */
double ref_e8m0_value(unsigned byte);

#endif
