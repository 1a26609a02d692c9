/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the check of what the GPU did: the formulas in double precision, from the very
 * numbers that a kernel was given, and how far its result may be from them.
 */
#ifndef CHECK_H
#define CHECK_H

#include "model.h"

/* The worst error of each kind of result, as a fraction of what it may be: beyond 1 it is wrong. */
struct verdict {
    double norm, rotated, cached, product, attention;
    double index, chosen; /* of the sparse indexer */
};

void check_norm(struct verdict *verdict, const uint16_t *x, const uint16_t *weight, int count,
                const uint16_t *got);

/* ROPE elements, by the angles of a position. */
void check_rotated(struct verdict *verdict, const struct shape *s, const uint16_t *x, int position,
                   const uint16_t *got);

/* A row of the cache: the normalised latent and the rotated key of what was given, bf16 or fp8. */
void check_cached(struct verdict *verdict, const struct shape *s, const uint16_t given[ROW],
                  int position, double scale, const double got[ROW]);

/* got[i] = w[i] x for `rows` rows of w of `count` elements. */
void check_product(struct verdict *verdict, const uint16_t *x, const uint16_t *w, int rows,
                   int count, const uint16_t *got);

/* The keys that a query sees, as doubles, `stride` from one to the next. */
struct seen {
    int keys, head_dim, head_dim_v;
    const double *k, *v;
    size_t stride_k, stride_v;
    int parts; /* results that were rounded and merged, one after the other */
};

void check_attention(struct verdict *verdict, const uint16_t *q, double scale,
                     const struct seen *seen, const uint16_t *got);

#endif
