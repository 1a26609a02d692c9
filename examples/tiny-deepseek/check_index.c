/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the indexer. With f = 2^-24, a sum of 128 numbers has an error of 128 f times the sum of
 * their absolute values. A mean has one rounding more, and a difference from the mean f of itself
 * more. The sum of the squares of numbers d with error e has an error of 2 |d| e and 130 f of
 * itself. Its inverse root has half of that relative error and 5 f. Products, sums and rotations
 * add a few f.
 *
 * An fp8 element has an error of 1/16 of itself or, near 0, 2^-10 of the scale. The scale is the
 * largest element, or 1e-4, divided by the largest fp8 number.
 *
 * Products of fp8 numbers are exact. A score is a sum of 128 of them and of one term per head. Its
 * error is (heads + 132) f times the sum of all absolute values. A chosen key is right if its score
 * could be among the largest within these bounds.
 */
#include "check_index.h"

#include <math.h>

#include "formulas.h"

static const double f = 0x1p-24;

struct expected {
    double y[INDEX], error[INDEX];
};

/* Rotates in NeoX order: elements i and i + 32 are a pair. */
static void rotate(const struct shape *s, int position, struct expected *r)
{
    for (int i = 0; i < ROPE / 2; i++) {
        const int j = i + ROPE / 2;
        const double angle = rope_angle(s, position, i), c = cos(angle), sine = sin(angle);
        const double x = r->y[i], y = r->y[j], ex = r->error[i], ey = r->error[j];
        const double more = 4 * f * (fabs(x) + fabs(y)); /* cosine and sine are also rounded */
        r->y[i] = x * c - y * sine;
        r->y[j] = y * c + x * sine;
        r->error[i] = ex * fabs(c) + ey * fabs(sine) + more;
        r->error[j] = ey * fabs(c) + ex * fabs(sine) + more;
    }
}

static void normalise_key(const struct model *m, struct expected *r)
{
    double mean = 0, size = 0, square = 0, off = 0;
    for (int d = 0; d < INDEX; d++) {
        mean += r->y[d] / INDEX;
        size += fabs(r->y[d]) / INDEX;
    }
    for (int d = 0; d < INDEX; d++) {
        r->y[d] -= mean;
        r->error[d] = 129 * f * size + f * fabs(r->y[d]);
        square += r->y[d] * r->y[d] / INDEX;
        off += (2 * fabs(r->y[d]) + r->error[d]) * r->error[d] / INDEX;
    }
    const double inverse = 1 / sqrt(square + rms_eps);
    const double share = 0.5 * (off + 131 * f * square) / (square + rms_eps) + 5 * f;
    for (int d = 0; d < INDEX; d++) {
        const double scaled = r->y[d] * inverse * m->index_norm[d];
        r->error[d] = r->error[d] * inverse * fabs(m->index_norm[d]) * (1 + share) +
                      fabs(scaled) * (share + 3 * f) + f * fabs(scaled + m->index_bias[d]);
        r->y[d] = scaled + m->index_bias[d];
    }
}

static void check_scaled(struct verdict *verdict, const struct expected *r,
                         const struct scaled_head *got)
{
    double most = 1e-4, error = 0;
    for (int d = 0; d < INDEX; d++) {
        most = fmax(most, fabs(r->y[d]));
        error = fmax(error, r->error[d]);
    }
    note_error(&verdict->index, got->scale, most / got->largest,
               (error + 16 * f * most) / got->largest);
    for (int d = 0; d < INDEX; d++) {
        const double before = r->error[d] + 8 * f * fabs(r->y[d]);
        note_error(&verdict->index, got->x[d], r->y[d],
                   fmax((fabs(r->y[d]) + before) / 16, 0x1p-10 * got->scale) + before);
    }
}

/* Checks a head in mxfp4. The largest element of a block is at least 4 and below 8 scales. e2m1
 * numbers have steps of 2 from 4 to 6, of 1 from 2 on, and so on; the error is half a step. Values
 * above 6 become 6. */
static void check_mxfp4(struct verdict *verdict, const struct expected *r,
                        const struct scaled_head *got)
{
    for (int block = 0; block < MX_BLOCKS; block++) {
        const double scale = got->scales[block];
        double most = 0, error = 0;
        for (int d = block * MX_BLOCK; d < (block + 1) * MX_BLOCK; d++) {
            const double y = fabs(r->y[d]), before = r->error[d] + 8 * f * y;
            most = fmax(most, y);
            error = fmax(error, before);
            note_error(&verdict->index, got->x[d], r->y[d], fmax(y + before, scale) / 4 + before);
        }
        note_error(&verdict->index, 6 * scale, most, 2 * scale + error);
    }
}

void check_index_query(struct verdict *verdict, const struct shape *s, const uint16_t given[INDEX],
                       int position, const struct scaled_head *got)
{
    struct expected r = {{0}, {0}};
    for (int d = 0; d < INDEX; d++)
        r.y[d] = bf16_to_float(given[d]);
    rotate(s, position, &r);
    check_scaled(verdict, &r, got);
}

void check_index_key(struct verdict *verdict, const struct model *m, const uint16_t given[INDEX],
                     int position, const struct scaled_head *got)
{
    struct expected r = {{0}, {0}};
    for (int d = 0; d < INDEX; d++)
        r.y[d] = bf16_to_float(given[d]);
    normalise_key(m, &r);
    rotate(m->shape, position, &r);
    if (m->shape->mxfp4)
        check_mxfp4(verdict, &r, got);
    else
        check_scaled(verdict, &r, got);
}

/* Returns the score of a key, and the sum of the absolute values of its terms. */
static double score(const struct scored *scored, const struct scaled_head *k, double *terms)
{
    double sum = 0;
    *terms = 0;
    for (int h = 0; h < scored->heads; h++) {
        double dot = 0, magnitude = 0;
        for (int d = 0; d < INDEX; d++) {
            dot += scored->q[h * INDEX + d] * k->x[d];
            magnitude += fabs(scored->q[h * INDEX + d] * k->x[d]);
        }
        sum += scored->weights[h] * fmax(dot, 0);
        *terms += fabs(scored->weights[h]) * magnitude;
    }
    return sum;
}

void check_chosen(struct verdict *verdict, const struct scored *scored, const int *positions,
                  int count)
{
    double least = INFINITY, least_bound = 0, most = -INFINITY, most_bound = 0;
    const int expected = scored->keys < scored->chosen ? scored->keys : scored->chosen;
    if (count != expected)
        verdict->chosen = INFINITY;
    for (int n = 0, i = 0; n < scored->keys; n++) {
        double terms;
        const bool is_chosen = i < count && positions[i] == n;
        const double x = score(scored, &scored->k[n], &terms);
        const double bound = (scored->heads + 132) * f * terms;
        i += is_chosen;
        if (is_chosen && x + bound < least + least_bound) {
            least = x;
            least_bound = bound;
        }
        if (!is_chosen && x - bound > most - most_bound) {
            most = x;
            most_bound = bound;
        }
        if (n + 1 == scored->keys && i != count) /* positions that do not ascend, or are invalid */
            verdict->chosen = INFINITY;
    }
    if (most > least)
        note_error(&verdict->chosen, least, most, least_bound + most_bound);
}
