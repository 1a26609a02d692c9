/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the check of what the GPU did: the formulas in double precision, from the very
 * bf16 numbers that a kernel was given, and how far its result may be from them.
 */
#ifndef CHECK_H
#define CHECK_H

#include "model.h"

/* The errors of some results, each as a fraction of what it may be: beyond 1 it is wrong. */
struct verdict {
    double rotated, attention;
};

/*
 * A token's heads behind QK norm and rotation. `given` is its row of QKV; q, k and v are what the
 * GPU made of it.
 */
void check_rotated(struct verdict *verdict, const struct model *m, const uint16_t *given,
                   int position, const uint16_t *q, const uint16_t *k, const uint16_t *v);

/* A token's attention over `keys` keys, [key, KV_HEADS, DIM] as the cache holds them. */
void check_attention(struct verdict *verdict, const uint16_t *q, int keys, const uint16_t *k,
                     const uint16_t *v, const uint16_t *out);

#endif
