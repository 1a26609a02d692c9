/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/compress.h"

#include <math.h>
#include <string.h>

#include "tools/reference/indexer_rope.h"

static const double f = 0x1p-24; /* largest relative rounding of single precision */

/*
 * Pools element d and bounds its error. A score s in powers of two is off by 3 f |s|: the sum with
 * its addend, log2(e) and the product. The difference from the maximum adds f of itself, and the
 * steps of a running maximum f of all of its rise: both are at most the span of the scores. exp2 is
 * good to an ulp, 2 f. Each of the window / 8 + 1 steps rescales with two roundings and such a
 * power. The sums of weights and of products have a rounding for each token, the quotient three.
 */
static void pool(const struct ref_compress *p, int d, double *z, double *error)
{
    double top = -INFINITY, low = INFINITY, size = 0, weights = 0, sum = 0, sizes = 0;
    for (int i = 0; i < p->window; i++) {
        const double s = p->scores[i * p->dim + d];
        if (!p->there[i])
            continue;
        top = fmax(top, s);
        low = fmin(low, s);
        size = fmax(size, fabs(s));
    }
    for (int i = 0; i < p->window; i++) {
        const double w = p->there[i] ? exp(p->scores[i * p->dim + d] - top) : 0;
        const double x = p->there[i] ? p->x[i * p->dim + d] : 0;
        weights += w;
        sum += w * x;
        sizes += w * fabs(x);
    }
    const double off = (3 * size + 2 * (top - low)) * f + 5 * f * (p->window / 8.0 + 1);
    *z = sum / weights;
    *error = sizes / weights * (2 * off + (2.0 * p->window + 4) * f);
}

/*
 * Normalises z and bounds its error. The sum of squares has at most 8 + 6 + 2 roundings on a path,
 * the mean one and the sum with eps another. 1 / sqrt is off by half of the mean's error and 4 f.
 * Two products are rounded, and 1 + weight.
 */
static void normalise(const struct ref_compress *p, double *z, double *error)
{
    double square = 0, off = 0;
    for (int d = 0; d < p->dim; d++) {
        square += z[d] * z[d] / p->dim;
        off += (2 * fabs(z[d]) + error[d]) * error[d] / p->dim;
    }
    const double inverse = 1 / sqrt(square + p->eps);
    const double share = 0.5 * (off + 18 * f * square) / (square + p->eps) + 5 * f;
    for (int d = 0; d < p->dim; d++) {
        const double scale = inverse * p->weight[d];
        error[d] = error[d] * fabs(scale) * (1 + share) + fabs(z[d] * scale) * (share + 3 * f);
        z[d] *= scale;
    }
}

void ref_compress(const struct ref_compress *p, struct ref_compressed *r)
{
    for (int d = 0; d < p->dim; d++)
        pool(p, d, &r->latent[d], &r->latent_error[d]);
    if (p->weight)
        normalise(p, r->latent, r->latent_error);
    memcpy(r->row, r->latent, sizeof(r->row));
    memcpy(r->row_error, r->latent_error, sizeof(r->row_error));
    if (p->cos_sin)
        ref_rotate(r->row + p->rotary_first, r->row_error + p->rotary_first, p->cos_sin,
                   p->rotary_dim / 2, p->gptj);
    if (p->hadamard)
        ref_hadamard(r->row, r->row_error);
}
