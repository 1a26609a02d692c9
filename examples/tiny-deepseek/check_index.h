/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the check of the sparse indexer: its queries and keys, and what it chooses. */
#ifndef CHECK_INDEX_H
#define CHECK_INDEX_H

#include "check.h"

enum { MX_BLOCK = 32, MX_BLOCKS = INDEX / MX_BLOCK };

/* A head as fp8 has it: the numbers times their scale, and the largest number of fp8. Or as mxfp4
 * has it: each block's numbers times its scale. */
struct scaled_head {
    double x[INDEX], scale, largest;
    double scales[MX_BLOCKS];
};

/* The rotated query of what was given, and the normalised and rotated key. */
void check_index_query(struct verdict *verdict, const struct shape *s, const uint16_t given[INDEX],
                       int position, const struct scaled_head *got);
void check_index_key(struct verdict *verdict, const struct model *m, const uint16_t given[INDEX],
                     int position, const struct scaled_head *got);

/* The keys that a token sees, and its queries and weights, as the GPU has scored them. */
struct scored {
    int keys, heads, chosen;
    const struct scaled_head *k;
    const double *q; /* [heads, INDEX] */
    const float *weights;
};

/* Are these positions, which ascend, those of the largest scores? */
void check_chosen(struct verdict *verdict, const struct scored *scored, const int *positions,
                  int count);

#endif
