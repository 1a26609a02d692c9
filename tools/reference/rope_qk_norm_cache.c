/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is the formulas and nothing else:
 *
 *   y = x + bias
 *   z = y / sqrt(mean(y^2) + eps) * w,  or * (1 + w)
 *   (a, b) -> (a cos - b sin, b cos + a sin) for the pairs of the first rotary_dim elements:
 *     NeoX (i, i + rotary_dim / 2), GPT-J (2 i, 2 i + 1), i < rotary_dim / 2
 */
#include "tools/reference/rope_qk_norm_cache.h"

#include <math.h>

/* Divides y by its root mean square and multiplies it by the weight. */
static void normalise(const struct ref_rope *p, double *y)
{
    double sum = 0;
    for (int d = 0; d < p->dim; d++)
        sum += y[d] * y[d];
    const double mean = p->given ? p->mean_square : sum / p->dim;
    const double inverse = 1 / sqrt(mean + p->eps);
    for (int d = 0; d < p->dim; d++)
        y[d] *= inverse * (p->gemma ? 1 + p->weight[d] : p->weight[d]);
}

void ref_rope_head(const struct ref_rope *p, struct ref_rope_head *r)
{
    r->dim = p->dim;
    for (int d = 0; d < p->dim; d++)
        r->out[d] = p->x[d] + (p->bias ? p->bias[d] : 0);
    if (p->norm)
        normalise(p, r->out);
    for (int d = 0; d < p->dim; d++)
        r->magnitude[d] = fabs(r->out[d]);
    if (p->pairs == REF_PAIRS_NONE)
        return;
    const int half = p->rotary_dim / 2;
    for (int i = 0; i < half; i++) {
        const int first = p->pairs == REF_PAIRS_NEOX ? i : 2 * i;
        const int second = p->pairs == REF_PAIRS_NEOX ? i + half : 2 * i + 1;
        const double a = r->out[first], b = r->out[second];
        r->out[first] = a * p->cos[i] - b * p->sin[i];
        r->out[second] = b * p->cos[i] + a * p->sin[i];
        r->magnitude[first] = fabs(a * p->cos[i]) + fabs(b * p->sin[i]);
        r->magnitude[second] = fabs(b * p->cos[i]) + fabs(a * p->sin[i]);
    }
}
