/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is the formula and nothing else:
 *
 *   out = sum_k exp(lse_k) o_k / L,  lse = log L,  L = sum_k exp(lse_k) + exp(sink)
 *
 * over the parts whose lse is finite. An infinite sink has all the weight: out = 0, lse = infinity.
 */
#include "tools/reference/combine.h"

#include <math.h>

/* Returns exp(lse - top), the weight of a partial; 0 if its LSE is infinite. */
static double weight(double lse, double top) { return isinf(lse) ? 0 : exp(lse - top); }

void ref_combine_row(const struct ref_combine_part *parts, int count, double sink, int dim,
                     struct ref_combine_row *result)
{
    *result = (struct ref_combine_row){.lse = -INFINITY};
    double top = sink;
    for (int k = 0; k < count; k++)
        top = isinf(parts[k].lse) ? top : fmax(top, parts[k].lse);
    if (top == -INFINITY)
        return;
    if (sink == INFINITY) {
        result->lse = INFINITY;
        return;
    }
    double denominator = weight(sink, top);
    for (int k = 0; k < count; k++)
        denominator += weight(parts[k].lse, top);
    result->lse = top + log(denominator);
    if (!isinf(sink)) {
        result->lse_distance = weight(sink, top) / denominator * (top - sink);
        result->largest = fabs(sink);
    }
    for (int k = 0; k < count; k++) {
        const double p = weight(parts[k].lse, top) / denominator;
        if (isinf(parts[k].lse))
            continue;
        const double below = top - parts[k].lse;
        result->lse_distance += p * below;
        result->largest = fmax(result->largest, fabs(parts[k].lse));
        for (int d = 0; d < dim; d++) {
            const double o = parts[k].out[d];
            result->out[d] += p * o;
            result->magnitude[d] += p * fabs(o);
            result->distance[d] += p * below * fabs(o);
            result->values[d] += fabs(o);
        }
    }
}
