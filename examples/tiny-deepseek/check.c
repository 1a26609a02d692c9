/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks results against the formulas. The relative rounding errors of bf16 and float32 are
 * u = 2^-8 and f = 2^-24.
 *
 * A sum of n products has an error of n f times the sum of their absolute values, in any order. The
 * result is rounded once, like an element after a norm or a rotation.
 *
 * An element of an fp8 cache has an error of half a step: 1/16 of it, since there are three bits
 * after the leading one. Near 0 it is half of the smallest step, 2^-10 of the scale.
 *
 * A score is a scaled sum of n products, and S is the largest sum of absolute values. Its error is
 * (n + 4) f S. exp(score) has the same error, relatively, and so have the weights and their sum
 * over all keys. The weights are rounded to bf16 for the product with V. A result of several parts
 * is the sum of rounded results, weighted by the exponentials of their log-sum-exp. These weights
 * have the error of the sums plus 8 f of the logarithm, and each merge rounds again.
 */
#include "check.h"

#include <assert.h>
#include <math.h>

#include "formulas.h"

static const double u = 0x1p-8, f = 0x1p-24;

enum { MOST_KEYS = 1024 };

void check_norm(struct verdict *verdict, const uint16_t *x, const uint16_t *weight, int count,
                const uint16_t *got)
{
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += pow(bf16_to_float(x[i]), 2);
    for (int i = 0; i < count; i++) {
        const double expected =
            bf16_to_float(x[i]) * bf16_to_float(weight[i]) / sqrt(squares / count + rms_eps);
        note_error(&verdict->norm, bf16_to_float(got[i]), expected,
                   (u + count * f) * fabs(expected));
    }
}

/* Rotates pair i of `x`, and sums the absolute values of the terms. */
static void rotate(const struct shape *s, const uint16_t *x, int position, int i,
                   double expected[2], double terms[2])
{
    const double angle = rope_angle(s, position, i), c = cos(angle), sine = sin(angle);
    const double a = bf16_to_float(x[2 * i]), b = bf16_to_float(x[2 * i + 1]);
    expected[0] = a * c - b * sine;
    expected[1] = b * c + a * sine;
    terms[0] = fabs(a * c) + fabs(b * sine);
    terms[1] = fabs(b * c) + fabs(a * sine);
}

void check_rotated(struct verdict *verdict, const struct shape *s, const uint16_t *x, int position,
                   const uint16_t *got)
{
    for (int i = 0; i < ROPE / 2; i++) {
        double expected[2], terms[2];
        rotate(s, x, position, i, expected, terms);
        for (int j = 0; j < 2; j++)
            note_error(&verdict->rotated, bf16_to_float(got[2 * i + j]), expected[j],
                       u * fabs(expected[j]) + 4 * f * terms[j]);
    }
}

void check_cached(struct verdict *verdict, const struct shape *s, const uint16_t given[ROW],
                  int position, double scale, const double got[ROW])
{
    const double step = s->fp8 ? 1.0 / 16 + 4 * f : 0, least = s->fp8 ? 0x1p-10 * scale : 0;
    for (int i = 0; i < LATENT; i++) {
        const double x = bf16_to_float(given[i]);
        note_error(&verdict->cached, got[i], x, fmax(step * fabs(x), least));
    }
    for (int i = 0; i < ROPE / 2; i++) {
        double expected[2], terms[2];
        rotate(s, given + LATENT, position, i, expected, terms);
        for (int j = 0; j < 2; j++) {
            const double rounded = u * fabs(expected[j]) + 4 * f * terms[j];
            note_error(&verdict->cached, got[LATENT + 2 * i + j], expected[j],
                       rounded + fmax(step * (fabs(expected[j]) + rounded), least));
        }
    }
}

void check_product(struct verdict *verdict, const uint16_t *x, const uint16_t *w, int rows,
                   int count, const uint16_t *got)
{
    double wide[LATENT];
    for (int k = 0; k < count; k++)
        wide[k] = bf16_to_float(x[k]);
    for (int i = 0; i < rows; i++) {
        double sum = 0, terms = 0;
        for (int k = 0; k < count; k++) {
            const double product = wide[k] * bf16_to_float(w[i * count + k]);
            sum += product;
            terms += fabs(product);
        }
        note_error(&verdict->product, bf16_to_float(got[i]), sum,
                   u * fabs(sum) + count * f * terms);
    }
}

/* Computes the keys' weights before their division by the sum; returns S. */
static double weigh(const uint16_t *q, double scale, const struct seen *seen, double *weights)
{
    double wide[ROW], magnitude = 0, top = -INFINITY;
    for (int d = 0; d < seen->head_dim; d++)
        wide[d] = bf16_to_float(q[d]) * scale;
    for (int j = 0; j < seen->keys; j++) {
        double sum = 0, absolute = 0;
        for (int d = 0; d < seen->head_dim; d++) {
            const double product = wide[d] * seen->k[j * seen->stride_k + d];
            sum += product;
            absolute += fabs(product);
        }
        weights[j] = sum;
        magnitude = fmax(magnitude, absolute);
        top = fmax(top, sum);
    }
    for (int j = 0; j < seen->keys; j++)
        weights[j] = exp(weights[j] - top);
    return magnitude;
}

void check_attention(struct verdict *verdict, const uint16_t *q, double scale,
                     const struct seen *seen, const uint16_t *got)
{
    double weights[MOST_KEYS], expected[LATENT] = {0}, terms[LATENT] = {0}, sum = 0;
    assert(seen->keys > 0 && seen->keys <= MOST_KEYS);
    const double magnitude = weigh(q, scale, seen, weights);
    for (int j = 0; j < seen->keys; j++) {
        sum += weights[j];
        for (int d = 0; d < seen->head_dim_v; d++) {
            const double value = seen->v[j * seen->stride_v + d];
            expected[d] += weights[j] * value;
            terms[d] += weights[j] * fabs(value);
        }
    }
    const double piece = (2 * (seen->head_dim + 4) * magnitude + seen->keys + 8) * f;
    const double log_sum = 2 * magnitude + log(seen->keys + 1);
    const double arithmetic = 3 * piece + (16 * log_sum + seen->keys + 8) * f;
    const double merged = (seen->parts - 1) * u;
    for (int d = 0; d < seen->head_dim_v; d++) {
        const double out = expected[d] / sum, m = terms[d] / sum;
        note_error(&verdict->attention, bf16_to_float(got[d]), out,
                   (1 + 4 * u) * ((u + arithmetic) * (m + fabs(out)) + merged * m));
    }
}
