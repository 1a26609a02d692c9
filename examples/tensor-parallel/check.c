/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file checks results against the formulas. The bounds are those of ../tiny-llama/check.c: u
 * is the relative error of rounding to bf16, f that of float32. A sink is one more term of the sum
 * of exponentials, which adds no error of its own.
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

static void check_head(struct verdict *verdict, const uint16_t *given, int position,
                       const uint16_t *got)
{
    for (int i = 0; i < DIM / 2; i++) {
        const double angle = position * pow(rope_base, -2.0 * i / DIM);
        const double c = cos(angle), s = sin(angle);
        const double a = bf16_to_float(given[i]), b = bf16_to_float(given[i + DIM / 2]);
        const double expected[2] = {a * c - b * s, b * c + a * s};
        const double terms[2] = {fabs(a * c) + fabs(b * s), fabs(b * c) + fabs(a * s)};
        for (int j = 0; j < 2; j++)
            note(&verdict->rotated, bf16_to_float(got[i + j * DIM / 2]), expected[j],
                 u * fabs(expected[j]) + 8 * f * terms[j]);
    }
}

void check_rotated(struct verdict *verdict, const uint16_t *given, int position, const uint16_t *q,
                   const uint16_t *k, const uint16_t *v)
{
    for (int h = 0; h < HEADS; h++)
        check_head(verdict, given + h * DIM, position, q + h * DIM);
    for (int h = 0; h < KV_HEADS; h++)
        check_head(verdict, given + QUERY + h * DIM, position, k + h * DIM);
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

static void check_row(struct verdict *verdict, const uint16_t *q, int first, int end, double sink,
                      const uint16_t *k, const uint16_t *v, const uint16_t *got)
{
    double expected[DIM] = {0}, terms[DIM] = {0}, scores[LONGEST], top = sink, magnitude = 0;
    for (int j = first; j < end; j++) {
        scores[j] = score(q, k + (size_t)j * KEY, &magnitude);
        top = fmax(top, scores[j]);
    }
    double sum = exp(sink - top);
    for (int j = first; j < end; j++) {
        const double p = exp(scores[j] - top);
        sum += p;
        for (int d = 0; d < DIM; d++) {
            const double value = bf16_to_float(v[(size_t)j * KEY + d]);
            expected[d] += p * value;
            terms[d] += p * fabs(value);
        }
    }
    const int keys = end - first;
    const double piece = (2 * (DIM + 4) * magnitude + keys + 8) * f;
    const double arithmetic = 3 * piece + (16 * (2 * magnitude + log(keys + 1)) + keys + 8) * f;
    for (int d = 0; d < DIM; d++) {
        const double out = keys ? expected[d] / sum : 0, m = keys ? terms[d] / sum : 0;
        note(&verdict->attention, bf16_to_float(got[d]), out,
             (1 + 4 * u) * (u + arithmetic) * (m + fabs(out)));
    }
}

void check_attention(struct verdict *verdict, const uint16_t *q, int keys, int window,
                     const float sinks[HEADS], const uint16_t *k, const uint16_t *v,
                     const uint16_t *out)
{
    const int first = window && keys > window ? keys - window : 0;
    for (int h = 0; h < HEADS; h++) {
        const int kv = h / (HEADS / KV_HEADS) * DIM;
        check_row(verdict, q + h * DIM, first, keys, sinks[h], k + kv, v + kv, out + h * DIM);
    }
}
