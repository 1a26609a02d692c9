/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the ops before the indexer's scores by their formulas. */
#ifndef REFERENCE_INDEXER_ROPE_H
#define REFERENCE_INDEXER_ROPE_H

#include <stdbool.h>

enum { REF_INDEX_ROPE_DIM = 128, REF_INDEX_ROTARY = 64 };

/** Rotates the `pairs` pairs of y and bounds its error in float32 arithmetic. `error` is of y
 * before, and becomes the error of the result. cos_sin: cosines, then sines. `gptj`: pairs are
 * neighbours. */
void ref_rotate(double *y, double *error, const double *cos_sin, int pairs, bool gptj);

/** Multiplies 128 elements by the Hadamard matrix / sqrt 128, and bounds the error likewise. */
void ref_hadamard(double *y, double *error);

struct ref_index_rope {
    const double *x;             /* [128] */
    const double *weight, *bias; /* of a norm; weight NULL: no norm; bias not NULL: LayerNorm */
    double eps;
    const double *cos_sin; /* [64]: cosines, then sines */
    bool gptj;
    bool hadamard; /* the result is multiplied by the 128 x 128 Hadamard matrix / sqrt 128 */
};

/** The normalised and rotated head: y[d], and the error bound of float32. */
struct ref_index_head {
    double y[REF_INDEX_ROPE_DIM], error[REF_INDEX_ROPE_DIM];
};

/** Computes one head of the indexer, with the bound for its error. */
void ref_index_rope(const struct ref_index_rope *p, struct ref_index_head *r);

/** Elements that share a scale in mxfp4 of the OCP Microscaling Formats. */
enum { REF_MX_BLOCK = 32 };

/** Returns X + 127, the scale byte of a block whose largest magnitude is `most`. */
int ref_mxfp4_scale(double most);

/** Returns the e2m1 value to which x / 2^X rounds, ties to even. */
double ref_e2m1(double x);

/** Returns the value of an e2m1's four bits. */
double ref_e2m1_value(unsigned bits);

/** Returns the value of an e8m0 scale: 255 is a NaN. */
double ref_e8m0_value(unsigned byte);

#endif
