/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the sparse indexer: its queries, its keys and its choice. */
#ifndef CHECK_INDEX_H
#define CHECK_INDEX_H

#include "check.h"

enum { MX_BLOCK = 32, MX_BLOCKS = INDEX / MX_BLOCK };

/* A head in fp8: numbers times `scale`, and the largest number of fp8. In mxfp4: each block's
 * numbers times its scale. */
struct scaled_head {
    double x[INDEX], scale, largest;
    double scales[MX_BLOCKS];
};

/* Check the rotated query of `given`, and the normalised and rotated key. */
void check_index_query(struct verdict *verdict, const struct shape *s, const uint16_t given[INDEX],
                       int position, const struct scaled_head *got);
void check_index_key(struct verdict *verdict, const struct model *m, const uint16_t given[INDEX],
                     int position, const struct scaled_head *got);

/* The keys that a token sees, and its queries and weights, as the GPU scored them. */
struct scored {
    int keys, heads, chosen;
    const struct scaled_head *k;
    const double *q; /* [heads, INDEX] */
    const float *weights;
};

/* Checks that these ascending positions have the largest scores. */
void check_chosen(struct verdict *verdict, const struct scored *scored, const int *positions,
                  int count);

#endif
