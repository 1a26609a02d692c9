/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reference/indexer_rope.h"

#include <math.h>
#include <string.h>

enum { DIM = REF_INDEX_ROPE_DIM, HALF = REF_INDEX_ROTARY / 2 };

static const double f = 0x1p-24; /* largest relative rounding of single precision */

/*
 * Normalises a head and bounds its error. A sum of 128 numbers is off by 128 f of the sum of
 * magnitudes, and their mean by one more. A difference from the mean is off by that, and by f of
 * itself. The sum of squares of numbers that are off by e is off by 2 |d| e, and by 130 f of
 * itself. 1 / sqrt is off by half of that and 4 f. Two products and the sum with the bias are
 * rounded too.
 */
static void normalise(const struct ref_index_rope *p, struct ref_index_head *r)
{
    double mean = 0, size = 0, square = 0, off = 0;
    for (int d = 0; d < DIM && p->bias; d++) {
        mean += p->x[d] / DIM;
        size += fabs(p->x[d]) / DIM;
    }
    for (int d = 0; d < DIM; d++) {
        r->y[d] = p->x[d] - mean;
        r->error[d] = 129 * f * size + f * fabs(r->y[d]);
        square += r->y[d] * r->y[d] / DIM;
        off += (2 * fabs(r->y[d]) + r->error[d]) * r->error[d] / DIM;
    }
    const double inverse = 1 / sqrt(square + p->eps);
    const double share = 0.5 * (off + 131 * f * square) / (square + p->eps) + 5 * f;
    for (int d = 0; d < DIM; d++) {
        const double scaled = r->y[d] * inverse * p->weight[d];
        const double bias = p->bias ? p->bias[d] : 0;
        r->error[d] = r->error[d] * inverse * fabs(p->weight[d]) * (1 + share) +
                      fabs(scaled) * (share + 3 * f) + f * fabs(scaled + bias);
        r->y[d] = scaled + bias;
    }
}

void ref_rotate(double *y, double *error, const double *cos_sin, int pairs, bool gptj)
{
    for (int i = 0; i < pairs; i++) {
        const int a = gptj ? 2 * i : i, b = gptj ? 2 * i + 1 : i + pairs;
        const double c = cos_sin[i], s = cos_sin[pairs + i];
        const double ya = y[a], yb = y[b], ea = error[a], eb = error[b];
        y[a] = ya * c - yb * s;
        y[b] = yb * c + ya * s;
        error[a] =
            (ea * fabs(c) + eb * fabs(s)) * (1 + 2 * f) + 2 * f * (fabs(ya * c) + fabs(yb * s));
        error[b] =
            (eb * fabs(c) + ea * fabs(s)) * (1 + 2 * f) + 2 * f * (fabs(yb * c) + fabs(ya * s));
    }
}

/* A kernel adds 128 numbers in a tree, with 7 roundings on each path. The constant 1 / sqrt(128)
 * and the product with it are rounded too. */
void ref_hadamard(double *y, double *error)
{
    double x[DIM], off[DIM];
    memcpy(x, y, sizeof(x));
    memcpy(off, error, sizeof(off));
    for (int i = 0; i < DIM; i++) {
        double sum = 0, size = 0, all = 0;
        for (int j = 0; j < DIM; j++) {
            sum += __builtin_popcount((unsigned)(i & j)) % 2 ? -x[j] : x[j];
            size += fabs(x[j]);
            all += off[j];
        }
        y[i] = sum / sqrt(DIM);
        error[i] = (all + 9 * f * (size + all)) * (1 + 9 * f) / sqrt(DIM);
    }
}

void ref_index_rope(const struct ref_index_rope *p, struct ref_index_head *r)
{
    *r = (struct ref_index_head){0};
    for (int d = 0; d < DIM; d++)
        r->y[d] = p->x[d];
    if (p->weight)
        normalise(p, r);
    ref_rotate(r->y, r->error, p->cos_sin, HALF, p->gptj);
    if (p->hadamard)
        ref_hadamard(r->y, r->error);
}

/* The functions from here on make keys in the format mxfp4. */

/* Values of e2m1 without a sign. */
static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

int ref_mxfp4_scale(double most)
{
    if (!isfinite(most))
        return 255;
    const double x = most > 0 ? floor(log2(most)) - 2 : -127;
    return (int)fmax(x, -127) + 127;
}

double ref_e2m1(double x)
{
    int best = 0;
    for (int i = 1; i < 8; i++) {
        const double away = fabs(fabs(x) - e2m1[i]), least = fabs(fabs(x) - e2m1[best]);
        if (away < least || (away == least && i % 2 == 0))
            best = i;
    }
    return copysign(e2m1[best], x);
}

double ref_e2m1_value(unsigned bits) { return bits & 8 ? -e2m1[bits & 7] : e2m1[bits & 7]; }

double ref_e8m0_value(unsigned byte) { return byte == 255 ? NAN : ldexp(1, (int)byte - 127); }
