/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/indexer.h"

#include <math.h>

struct ref_index_score ref_index_score(const double *q, const float *w, int heads, bool all_signs,
                                       const double *k, double scale)
{
    struct ref_index_score r = {0};
    for (int h = 0; h < heads; h++) {
        double dot = 0, magnitude = 0;
        for (int d = 0; d < REF_INDEX_DIM; d++) {
            dot += q[h * REF_INDEX_DIM + d] * k[d];
            magnitude += fabs(q[h * REF_INDEX_DIM + d] * k[d]);
        }
        const double positive = all_signs || isnan(dot) || dot > 0 ? dot : 0;
        r.score += w[h] * positive;
        r.products += fabs(w[h]) * magnitude;
        r.sums += fabs(w[h] * positive);
    }
    r.score *= scale;
    r.products *= fabs(scale);
    r.sums *= fabs(scale);
    return r;
}
