/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/indexer.h"
#include "tools/reference/clones.h"

#include <math.h>

/* Returns q . k. *magnitude is sum |q k|. */
REF_CLONES static double product(const double *q, const double *k, double *magnitude)
{
    double dot = 0, absolute = 0;
#pragma omp simd reduction(+ : dot, absolute)
    for (int d = 0; d < REF_INDEX_DIM; d++) {
        dot += q[d] * k[d];
        absolute += fabs(q[d] * k[d]);
    }
    *magnitude = absolute;
    return dot;
}

struct ref_index_score ref_index_score(const double *q, const float *w, int heads, bool all_signs,
                                       const double *k, double scale)
{
    struct ref_index_score r = {0};
    for (int h = 0; h < heads; h++) {
        double magnitude;
        const double dot = product(q + h * REF_INDEX_DIM, k, &magnitude);
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
