/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks results against the formulas. The relative rounding errors of bf16 and float32 are
 * u = 2^-8 and f = 2^-24.
 *
 * A rotated element is a cos - b sin. Root and products have an error below
 * 8 f (|a cos| + |b sin|). A norm adds DIM f, including its sum of squares. The result is rounded
 * once.
 *
 * A score is a scaled sum of DIM products. Its error is (DIM + 4) f S, where S is the sum of their
 * absolute values. exp(score) has the same error, relatively, and so have the weights and the sum
 * of n of them. The weights are rounded to bf16 for the product with V, and so is the result. If a
 * sequence's parts are combined, the weight of each is the exponential of the logarithm of its sum.
 * Its error is the sum's, plus 8 f of the logarithm, plus f per part. A sink is one more term of
 * the sum and adds no error of its own.
 */
#include "formulas.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "numbers.h"

static const double u = 0x1p-8, f = 0x1p-24;

enum { MOST_DIM = 128, MOST_KEYS = 512 };

void note_error(double *worst, double got, double expected, double bound)
{
    const double error = fabs(got - expected);
    const double ratio = error == 0 ? 0 : error / bound;
    if (!isnan(*worst) && !(ratio <= *worst)) /* a NaN stays: no later ratio hides it */
        *worst = ratio;
}

/* Computes a head's elements after the norm, if it has one. */
static void normalise_head(const struct rotation *r, const uint16_t *given, double x[MOST_DIM])
{
    double squares = 0;
    assert(r->dim <= MOST_DIM);
    for (int d = 0; d < r->dim; d++) {
        x[d] = bf16_to_float(given[d]);
        squares += x[d] * x[d];
    }
    for (int d = 0; d < r->dim && r->weight; d++)
        x[d] *= bf16_to_float(r->weight[d]) / sqrt(squares / r->dim + r->eps);
}

void check_head(double *worst, const struct rotation *r, const uint16_t *given, int position,
                const uint16_t *got)
{
    const int half = r->dim / 2;
    double x[MOST_DIM];
    normalise_head(r, given, x);
    for (int i = 0; i < half; i++) {
        const double angle = position * pow(r->base, -2.0 * i / r->dim);
        const double c = cos(angle), s = sin(angle), a = x[i], b = x[i + half];
        const double terms[2] = {fabs(a * c) + fabs(b * s), fabs(b * c) + fabs(a * s)};
        const double expected[2] = {a * c - b * s, b * c + a * s};
        for (int j = 0; j < 2; j++)
            note_error(worst, bf16_to_float(got[i + j * half]), expected[j],
                       u * fabs(expected[j]) + (r->weight ? r->dim : 8) * f * terms[j]);
    }
}

static double score(const uint16_t *q, const uint16_t *k, int dim, double *magnitude)
{
    double sum = 0, absolute = 0;
    for (int d = 0; d < dim; d++) {
        const double product = (double)bf16_to_float(q[d]) * bf16_to_float(k[d]);
        sum += product;
        absolute += fabs(product);
    }
    *magnitude = fmax(*magnitude, absolute / sqrt(dim));
    return sum / sqrt(dim);
}

void check_row(double *worst, const struct seen_keys *s, const uint16_t *q, const uint16_t *got)
{
    double expected[MOST_DIM] = {0}, terms[MOST_DIM] = {0}, scores[MOST_KEYS];
    double top = s->sink, magnitude = 0;
    const int keys = s->end - s->first;
    assert(s->dim <= MOST_DIM && keys <= MOST_KEYS);
    for (int j = 0; j < keys; j++) {
        scores[j] = score(q, s->k + (size_t)(s->first + j) * (size_t)s->stride, s->dim, &magnitude);
        top = fmax(top, scores[j]);
    }
    double sum = exp(s->sink - top);
    for (int j = 0; j < keys; j++) {
        const double p = exp(scores[j] - top);
        sum += p;
        for (int d = 0; d < s->dim; d++) {
            const size_t at = (size_t)(s->first + j) * (size_t)s->stride + (size_t)d;
            const double value = bf16_to_float(s->v[at]);
            expected[d] += p * value;
            terms[d] += p * fabs(value);
        }
    }
    const double piece = (2 * (s->dim + 4) * magnitude + keys + 8) * f;
    const double arithmetic = 3 * piece + (16 * (2 * magnitude + log(keys + 1)) + keys + 8) * f;
    for (int d = 0; d < s->dim; d++) {
        const double out = keys ? expected[d] / sum : 0, m = keys ? terms[d] / sum : 0;
        note_error(worst, bf16_to_float(got[d]), out,
                   (1 + 4 * u) * (u + arithmetic) * (m + fabs(out)));
    }
}

bool report_call(const char *what, int number, const int *lengths, int batch, double rotated,
                 double attention)
{
    const bool ok = rotated <= 1 && attention <= 1;
    printf("%s %3d  contexts", what, number);
    for (int s = 0; s < batch; s++)
        printf(" %3d", lengths[s]);
    printf("  error / bound: rotated %.3f, attention %.3f  %s\n", rotated, attention,
           ok ? "ok" : "WRONG");
    return ok;
}
