/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file checks results against the formulas. With u = 2^-8, the relative error of rounding to
 * bf16, and f = 2^-24, that of float32:
 *
 * An element behind norm and rotation is a cos - b sin. Sum of squares, root and products are off
 * by less than DIM f of |a cos| + |b sin|, and the result is rounded once.
 *
 * A score is a scaled sum of DIM products: it is off by (DIM + 4) f S, S being the sum of their
 * absolute values. So is exp(score), relatively, of which weights and their sum consist; n of them
 * are added. The weights are rounded to bf16 for the product with V, and so is the result. Where
 * pieces of a sequence are combined, each has the exponential of the logarithm of its sum for a
 * weight: off by what the sum is, by 8 f of the logarithm, and by as many f as there are pieces.
 */
#include "check.h"

#include <math.h>

static const double u = 0x1p-8, f = 0x1p-24;

static void note(double *worst, double got, double expected, double bound)
{
    const double error = fabs(got - expected);
    const double ratio = error == 0 ? 0 : error / bound;
    if (!(ratio <= *worst)) /* a NaN stays */
        *worst = ratio;
}

static void check_head(struct verdict *verdict, const uint16_t *given, const uint16_t *weight,
                       int position, const uint16_t *got)
{
    double x[DIM], squares = 0;
    for (int d = 0; d < DIM; d++) {
        x[d] = bf16_to_float(given[d]);
        squares += x[d] * x[d];
    }
    for (int d = 0; d < DIM; d++)
        x[d] *= bf16_to_float(weight[d]) / sqrt(squares / DIM + rms_eps);
    for (int i = 0; i < DIM / 2; i++) {
        const double angle = position * pow(rope_base, -2.0 * i / DIM);
        const double c = cos(angle), s = sin(angle), a = x[i], b = x[i + DIM / 2];
        const double terms[2] = {fabs(a * c) + fabs(b * s), fabs(b * c) + fabs(a * s)};
        const double expected[2] = {a * c - b * s, b * c + a * s};
        for (int j = 0; j < 2; j++)
            note(&verdict->rotated, bf16_to_float(got[i + j * DIM / 2]), expected[j],
                 u * fabs(expected[j]) + DIM * f * terms[j]);
    }
}

void check_rotated(struct verdict *verdict, const struct model *m, const uint16_t *given,
                   int position, const uint16_t *q, const uint16_t *k, const uint16_t *v)
{
    for (int h = 0; h < HEADS; h++)
        check_head(verdict, given + h * DIM, m->q_norm, position, q + h * DIM);
    for (int h = 0; h < KV_HEADS; h++)
        check_head(verdict, given + QUERY + h * DIM, m->k_norm, position, k + h * DIM);
    for (int i = 0; i < KEY; i++)
        note(&verdict->rotated, v[i], given[QUERY + KEY + i], 0); /* a copy, bit by bit */
}

static double score(const uint16_t *q, const uint16_t *k, double *magnitude)
{
    double sum = 0, absolute = 0;
    for (int d = 0; d < DIM; d++) {
        const double product = (double)bf16_to_float(q[d]) * bf16_to_float(k[d]);
        sum += product;
        absolute += fabs(product);
    }
    *magnitude = fmax(*magnitude, absolute / sqrt(DIM));
    return sum / sqrt(DIM);
}

static void check_row(struct verdict *verdict, const uint16_t *q, int keys, const uint16_t *k,
                      const uint16_t *v, const uint16_t *got)
{
    double expected[DIM] = {0}, terms[DIM] = {0}, top = -INFINITY, magnitude = 0, sum = 0;
    for (int j = 0; j < keys; j++)
        top = fmax(top, score(q, k + (size_t)j * KEY, &magnitude));
    for (int j = 0; j < keys; j++) {
        const double p = exp(score(q, k + (size_t)j * KEY, &magnitude) - top);
        sum += p;
        for (int d = 0; d < DIM; d++) {
            const double value = bf16_to_float(v[(size_t)j * KEY + d]);
            expected[d] += p * value;
            terms[d] += p * fabs(value);
        }
    }
    const double piece = (2 * (DIM + 4) * magnitude + keys + 8) * f;
    const double arithmetic = 3 * piece + (16 * (2 * magnitude + log(keys + 1)) + keys + 8) * f;
    for (int d = 0; d < DIM; d++) {
        const double out = keys ? expected[d] / sum : 0, m = keys ? terms[d] / sum : 0;
        note(&verdict->attention, bf16_to_float(got[d]), out,
             (1 + 4 * u) * (u + arithmetic) * (m + fabs(out)));
    }
}

void check_attention(struct verdict *verdict, const uint16_t *q, int keys, const uint16_t *k,
                     const uint16_t *v, const uint16_t *out)
{
    for (int h = 0; h < HEADS; h++) {
        const int kv = h / (HEADS / KV_HEADS) * DIM;
        check_row(verdict, q + h * DIM, keys, k + kv, v + kv, out + h * DIM);
    }
}
