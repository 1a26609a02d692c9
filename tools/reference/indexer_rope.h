/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what precedes the indexer's scores, by its formulas. */
#ifndef REFERENCE_INDEXER_ROPE_H
#define REFERENCE_INDEXER_ROPE_H

#include <stdbool.h>

enum { REF_INDEX_ROPE_DIM = 128, REF_INDEX_ROTARY = 64 };

struct ref_index_rope {
    const double *x;             /* [128] */
    const double *weight, *bias; /* of a norm, or NULL: none; bias: LayerNorm */
    double eps;
    const double *cos_sin; /* [64]: cosines, then sines */
    bool gptj;
    bool hadamard; /* the result is multiplied with the matrix of 128, over sqrt 128 */
};

/** The head, normalised and rotated: y[d], and how far single precision may be off it. */
struct ref_index_head {
    double y[REF_INDEX_ROPE_DIM], error[REF_INDEX_ROPE_DIM];
};

void ref_index_rope(const struct ref_index_rope *p, struct ref_index_head *r);

/** Elements of the OCP Microscaling Formats' mxfp4 that share a scale. */
enum { REF_MX_BLOCK = 32 };

/** X + 127 of a block whose largest magnitude is `most`. */
int ref_mxfp4_scale(double most);

/** The value of e2m1, an even number's where two are as near, that x / 2^X becomes. */
double ref_e2m1(double x);

/** The value of its four bits. */
double ref_e2m1_value(unsigned bits);

/** The value of a scale, e8m0: 255 is a NaN. */
double ref_e8m0_value(unsigned byte);

#endif
