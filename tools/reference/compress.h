/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the pooled, normalised and rotated row of a group of tokens, in doubles. */
#ifndef REFERENCE_COMPRESS_H
#define REFERENCE_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { REF_COMPRESS_DIM = 512 };

/* The tokens of a row's window, [window, dim] each. */
struct ref_compress {
    int dim, window;
    const double *x, *scores; /* values; scores, with their positional terms */
    const uint8_t *there;     /* [window]: 0: the token has no weight */
    const double *weight;     /* [dim], of the norm; NULL: none */
    double eps;
    const double *cos_sin; /* [rotary_dim]: cosines, then sines; NULL: nothing rotates */
    int rotary_first, rotary_dim;
    bool gptj;
    bool hadamard;
};

/* A row before it rotates and after all steps, and the error bounds of float32. */
struct ref_compressed {
    double latent[REF_COMPRESS_DIM], latent_error[REF_COMPRESS_DIM];
    double row[REF_COMPRESS_DIM], row_error[REF_COMPRESS_DIM];
};

/* Computes one compressed row. */
void ref_compress(const struct ref_compress *p, struct ref_compressed *r);

#endif
