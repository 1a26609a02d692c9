/* SPDX-License-Identifier: Apache-2.0 */
/* Checks results against the formulas in double precision. */
#ifndef CHECK_H
#define CHECK_H

#include "shapes.h"

/* Largest errors relative to their rounding bounds; above 1 the result is wrong. */
struct verdict {
    double rotated, attention;
};

/* Checks a token's rotated heads. `given` is its row of QKV; q, k and v are the GPU's results. */
void check_rotated(struct verdict *verdict, const uint16_t *given, int position, const uint16_t *q,
                   const uint16_t *k, const uint16_t *v);

/* Checks the attention of the last of `keys` tokens, whose keys and values are [token, KEY]. */
void check_attention(struct verdict *verdict, const uint16_t *q, int keys, int window,
                     const float sinks[HEADS], const uint16_t *k, const uint16_t *v,
                     const uint16_t *out);

#endif
