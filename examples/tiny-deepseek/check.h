/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the GPU's results against the formulas in double precision, from the same numbers that a
 * kernel was given. Each check has a bound of the rounding error.
 */
#ifndef CHECK_H
#define CHECK_H

#include "model.h"

/* Largest error of each kind of result relative to its bound; above 1 it is wrong. */
struct verdict {
    double norm, rotated, cached, product, attention;
    double index, chosen; /* of the sparse indexer */
};

void check_norm(struct verdict *verdict, const uint16_t *x, const uint16_t *weight, int count,
                const uint16_t *got);

/* Checks ROPE elements rotated by the angles of a position. */
void check_rotated(struct verdict *verdict, const struct shape *s, const uint16_t *x, int position,
                   const uint16_t *got);

/* Checks a row of the cache, bf16 or fp8: the normalised latent and the rotated key of `given`. */
void check_cached(struct verdict *verdict, const struct shape *s, const uint16_t given[ROW],
                  int position, double scale, const double got[ROW]);

/* Checks got[i] = w[i] x for `rows` rows of w with `count` elements. */
void check_product(struct verdict *verdict, const uint16_t *x, const uint16_t *w, int rows,
                   int count, const uint16_t *got);

/* The keys that a query sees, as doubles, at the given strides. */
struct seen {
    int keys, head_dim, head_dim_v;
    const double *k, *v;
    size_t stride_k, stride_v;
    int parts; /* number of rounded results that were merged successively */
};

void check_attention(struct verdict *verdict, const uint16_t *q, double scale,
                     const struct seen *seen, const uint16_t *got);

#endif
