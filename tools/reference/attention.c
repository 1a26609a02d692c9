/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is the formula and nothing else:
 *
 *   s_j = scale q . k_j,  capped: c tanh(s_j / c),  then the user's function
 *   out = sum_j exp(s_j) v_j / L,  lse = log L,  L = sum_j exp(s_j) + exp(sink)
 *
 * An infinite sink has all the weight: out = 0, lse = infinity.
 */
#include "tools/reference/attention.h"
#include "tools/reference/clones.h"
#include "tools/reference/roundings.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Returns the capped score of a key. *magnitude is scale * sum |q k|, *root is scale * sqrt(sum (q
 * k)^2). */
REF_CLONES static double score(const struct ref_attention *a, const double *q, const double *k,
                               double *magnitude, double *root)
{
    double sum = 0, absolute = 0, squares = 0;
#pragma omp simd reduction(+ : sum, absolute, squares)
    for (int d = 0; d < a->dim; d++) {
        const double product = q[d] * k[d];
        sum += product;
        absolute += fabs(product);
        squares += product * product;
    }
    *magnitude = fabs(a->scale) * absolute;
    *root = fabs(a->scale) * sqrt(squares);
    const double s = a->scale * sum;
    return a->soft_cap > 0 ? a->soft_cap * tanh(s / a->soft_cap) : s;
}

/* True if the mask hides key `j`. */
static bool is_hidden(const struct ref_keys *keys, int64_t j)
{
    return keys->visible && !keys->visible[j];
}

/* Fills `scratch` with the scores of the keys; -infinity for a hidden key. Sets the row's bounds of
 * scores. Returns the largest score, with the sink. */
static double score_keys(const struct ref_attention *a, const struct ref_query *query,
                         const struct ref_keys *keys, double *scratch, struct ref_row *row)
{
    double top = query->sink ? *query->sink : -INFINITY;
    for (int64_t j = keys->first; j < keys->end; j++) {
        scratch[j] = -INFINITY;
        if (is_hidden(keys, j))
            continue;
        double magnitude, root;
        double value = score(a, query->q, keys->k + j * keys->k_stride, &magnitude, &root);
        if (a->logits) {
            value = a->logits((float)value, (int)query->row, (int)j, query->head,
                              (int)query->queries, (int)query->keys, a->logits_arg);
            magnitude = isfinite(value) ? fmax(magnitude, fabs(value)) : magnitude;
        }
        scratch[j] = value;
        top = fmax(top, value);
        row->score = fmax(row->score, magnitude);
        row->score_root = fmax(row->score_root, root);
        row->keys++;
    }
    return top;
}

/* Adds a key's value, times its weight, to the row's output and to the sums for error bounds. */
REF_CLONES static void add_value(const struct ref_attention *a, double weight, const double *v,
                                 struct ref_row *row)
{
#pragma omp simd
    for (int d = 0; d < a->dim_v; d++) {
        const double product = weight * v[d];
        row->out[d] += product;
        row->magnitude[d] += fabs(product);
        row->squares[d] += product * product;
        row->values[d] += fabs(v[d]);
    }
}

/* Clears a row. Its arrays have room for more elements than rows of v, and clearing all of them
 * takes longer than a few keys. */
static void clear_row(int dim_v, struct ref_row *row)
{
    double *const arrays[] = {row->out,   row->magnitude,     row->squares,      row->values,
                              row->moved, row->moved_squares, row->mean_squares, row->to_largest};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        memset(arrays[i], 0, (size_t)dim_v * sizeof(*arrays[i]));
    memset(row->drift, 0, sizeof(row->drift));
    row->absolute = row->sum = (struct ref_drift){0};
    row->roundings = row->largest = row->score = row->score_root = 0;
    row->keys = 0;
    row->lse = -INFINITY;
}

void ref_attend(const struct ref_attention *a, const struct ref_query *query,
                const struct ref_keys *keys, double *scratch, struct ref_row *row)
{
    clear_row(a->dim_v, row);
    const double top = score_keys(a, query, keys, scratch, row);
    if (top == -INFINITY)
        return;
    if (query->sink && *query->sink == INFINITY) {
        row->lse = INFINITY;
        return;
    }
    double denominator = query->sink ? exp(*query->sink - top) : 0;
    for (int64_t j = keys->first; j < keys->end; j++) {
        scratch[j] = exp(scratch[j] - top);
        denominator += scratch[j];
    }
    for (int64_t j = keys->first; j < keys->end; j++) {
        scratch[j] /= denominator;
        if (!is_hidden(keys, j))
            add_value(a, scratch[j], keys->v + j * keys->v_stride, row);
    }
    for (int d = 0; d < a->dim_v; d++)
        row->values[d] /= denominator;
    row->lse = top + log(denominator);
    ref_add_roundings(a, keys, scratch, row);
}

int64_t ref_first_key(int64_t position, int64_t left, int64_t chunk)
{
    int64_t first = position > left ? position - left : 0;
    while (chunk && position >= 0 && first / chunk < position / chunk)
        first += chunk - first % chunk;
    return first;
}
