/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the check of results against the formulas, in double precision. */
#ifndef CHECK_H
#define CHECK_H

#include "shapes.h"

/* The errors of some results, each as a part of what rounding allows: beyond 1 it is wrong. */
struct verdict {
    double rotated, attention;
};

/* A token's heads behind the rotation: `given` is its row of QKV, q and k are what the GPU made. */
void check_rotated(struct verdict *verdict, const uint16_t *given, int position, const uint16_t *q,
                   const uint16_t *k, const uint16_t *v);

/* A token's attention: it is the last of `keys` tokens, whose keys and values are [token, KEY]. */
void check_attention(struct verdict *verdict, const uint16_t *q, int keys, int window,
                     const float sinks[HEADS], const uint16_t *k, const uint16_t *v,
                     const uint16_t *out);

#endif
