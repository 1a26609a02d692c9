/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the pooled, normalised and rotated row of a group of tokens, in doubles. */
#ifndef REFERENCE_COMPRESS_H
#define REFERENCE_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Most elements of a row. */
enum { REF_COMPRESS_DIM = 512 };

/* The tokens of a row's window, and the steps that make one row of them. Arrays are [window,
 * dim] if no other shape is given. */
struct ref_compress {
    /* Elements of a row, and tokens of the window. */
    int dim, window;
    const double *x, *scores; /* values; scores, to which positional terms are already added */
    /* [window]: 0 if the window has no such token, as before a prompt's beginning */
    const uint8_t *there;
    const double *weight; /* [dim], of the RMS norm; NULL: no norm */
    /* Added to the mean square before its root. */
    double eps;
    const double *cos_sin; /* [rotary_dim]: cosines, then sines; NULL: nothing rotates */
    /* First element that rotates, and the number of elements that do. */
    int rotary_first, rotary_dim;
    /* Pairs that rotate are neighbours; false: halves of the rotated elements. */
    bool gptj;
    /* The row is multiplied by a Hadamard matrix after the rotation. */
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
