/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how a group of tokens becomes one row: pooled, normalised and rotated, in
 * doubles. */
#ifndef REFERENCE_COMPRESS_H
#define REFERENCE_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Most elements of a row. */
enum { REF_COMPRESS_DIM = 512 };

/* The tokens from which a row is made (its window), and the steps. Arrays are [window, dim] unless
 * a comment has another shape. */
struct ref_compress {
    /* Elements of a row, and tokens of the window. */
    int dim, window;
    /* Values; scores whose softmax over the window weighs the values. Positional terms are already
     * added. */
    const double *x, *scores;
    /* [window]: 0 for tokens that do not exist, as before a prompt's begin. */
    const uint8_t *there;
    const double *weight; /* [dim]: weight of the RMS norm; NULL: no norm */
    /* Number that the norm adds to the mean square before it takes the root. */
    double eps;
    const double *cos_sin; /* [rotary_dim]: cosines, then sines; NULL: nothing rotates */
    /* First element that rotates, and the number of elements that rotate. */
    int rotary_first, rotary_dim;
    /* True: neighbouring elements rotate as a pair; false: element i of both halves does. */
    bool gptj;
    /* True: the row is multiplied by a Hadamard matrix after the rotation. */
    bool hadamard;
};

/* A row after the norm (`latent`) and after all steps (`row`), with the largest error of each
 * element in float32 arithmetic. */
struct ref_compressed {
    double latent[REF_COMPRESS_DIM], latent_error[REF_COMPRESS_DIM];
    double row[REF_COMPRESS_DIM], row_error[REF_COMPRESS_DIM];
};

/* Computes one compressed row, and the bounds of its errors. */
void ref_compress(const struct ref_compress *p, struct ref_compressed *r);

#endif
