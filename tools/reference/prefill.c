/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is the formula and nothing else:
 *
 *   s_j = scale q . k_j,  capped: c tanh(s_j / c),  then the user's function
 *   key j is seen by row i of n queries and m keys when -left <= j - (i + m - n) <= right
 *   out = sum_j exp(s_j) v_j / L,  lse = log L,  L = sum_j exp(s_j) + exp(sink)
 */
#include "tools/reference/prefill.h"

#include <math.h>

/* Scores and, in *magnitude, scale * sum |q k|. */
static double score(const struct ref_prefill *p, const double *q, const double *k,
                    double *magnitude)
{
    double sum = 0, absolute = 0;
    for (int d = 0; d < p->dim; d++) {
        sum += q[d] * k[d];
        absolute += fabs(q[d] * k[d]);
    }
    *magnitude = fabs(p->scale) * absolute;
    const double s = p->scale * sum;
    return p->soft_cap > 0 ? p->soft_cap * tanh(s / p->soft_cap) : s;
}

void ref_prefill_row(const struct ref_prefill *p, int s, int head, int64_t row, double *scratch,
                     struct ref_prefill_row *result)
{
    const int64_t n = p->cu_q[s + 1] - p->cu_q[s], m = p->cu_k[s + 1] - p->cu_k[s];
    const int kv_head = head / (p->heads / p->kv_heads);
    const double *q = p->q + ((p->cu_q[s] + row) * p->heads + head) * p->dim;
    const int64_t diagonal = row + m - n;
    const int64_t first = diagonal - p->left > 0 ? diagonal - p->left : 0;
    const int64_t end = diagonal + p->right + 1 < m ? diagonal + p->right + 1 : m;

    *result = (struct ref_prefill_row){ .keys = end > first ? end - first : 0 };
    double top = p->sinks ? p->sinks[head] : -INFINITY;
    for (int64_t j = first; j < end; j++) {
        const double *k = p->k + ((p->cu_k[s] + j) * p->kv_heads + kv_head) * p->dim;
        double magnitude, value = score(p, q, k, &magnitude);
        if (p->logits) {
            value = p->logits((float)value, (int)row, (int)j, head, (int)n, (int)m, p->logits_arg);
            magnitude = isfinite(value) ? fmax(magnitude, fabs(value)) : magnitude;
        }
        scratch[j] = value;
        top = fmax(top, value);
        result->score = fmax(result->score, magnitude);
    }
    result->lse = -INFINITY;
    if (top == -INFINITY)
        return;
    double denominator = p->sinks ? exp(p->sinks[head] - top) : 0;
    for (int64_t j = first; j < end; j++)
        denominator += exp(scratch[j] - top);
    for (int64_t j = first; j < end; j++) {
        const double weight = exp(scratch[j] - top) / denominator;
        const double *v = p->v + ((p->cu_k[s] + j) * p->kv_heads + kv_head) * p->dim_v;
        for (int d = 0; d < p->dim_v; d++) {
            result->out[d] += weight * v[d];
            result->magnitude[d] += weight * fabs(v[d]);
            result->squares[d] += weight * weight * v[d] * v[d];
            result->values[d] += fabs(v[d]) / denominator;
        }
    }
    result->lse = top + log(denominator);
}
