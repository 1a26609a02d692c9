/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the GPU's results against the formulas in double precision, from the same bf16 numbers
 * that a kernel was given. Each check has a bound of the rounding error.
 */
#ifndef CHECK_H
#define CHECK_H

#include "model.h"

/* Largest errors relative to their rounding bounds; above 1 the result is wrong. */
struct verdict {
    double rotated, attention;
};

/*
 * Checks a token's heads after QK norm and rotation. `given` is its row of QKV; q, k and v are the
 * GPU's results.
 */
void check_rotated(struct verdict *verdict, const struct model *m, const uint16_t *given,
                   int position, const uint16_t *q, const uint16_t *k, const uint16_t *v);

/* Checks a token's attention over `keys` keys, [key, KV_HEADS, DIM] as the cache holds them. */
void check_attention(struct verdict *verdict, const uint16_t *q, int keys, const uint16_t *k,
                     const uint16_t *v, const uint16_t *out);

#endif
