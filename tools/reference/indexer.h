/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the scores of the sparse indexer by their formula. */
#ifndef REFERENCE_INDEXER_H
#define REFERENCE_INDEXER_H

#include <stdbool.h>

/* Elements of a query head and of a key. */
enum { REF_INDEX_DIM = 128 };

/* A key's score, and the sums to which a kernel's errors are relative. */
struct ref_index_score {
    double score;
    double products; /* scale * sum |w_h| sum_d |q_hd k_d|: errors of products are relative to it */
    /* scale * sum |w_h| relu(q_h . k): errors of the sum over heads are relative to it */
    double sums;
};

/** Returns scale * sum_h w[h] * relu(q[h] . k); q is [heads, 128]. With all_signs there is no relu.
 * relu of a NaN is a NaN. */
struct ref_index_score ref_index_score(const double *q, const float *w, int heads, bool all_signs,
                                       const double *k, double scale);

#endif
