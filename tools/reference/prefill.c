/* SPDX-License-Identifier: Apache-2.0 */
/* This file defines which keys a query of a packed sequence sees. Row r of n queries over m keys
 * has the position i = r + m - n. It sees key j if -left <= j - i <= right, and if the mask has a
 * nonzero byte for it. With chunks, i and j must be in one chunk. */
#include "tools/reference/prefill.h"

#include <stddef.h>

/* Returns the greater of two numbers. */
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns the lesser of two numbers. */
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Computes the output of query `row`. `part` has the first of its keys and one past the last; NULL:
 * all keys, and the sink. */
static void attend(const struct ref_prefill *p, int s, int head, int64_t row, const int64_t *part,
                   double *scratch, struct ref_row *result)
{
    const int64_t n = p->cu_q[s + 1] - p->cu_q[s], m = p->cu_k[s + 1] - p->cu_k[s];
    const int dim = p->attention.dim, dim_v = p->attention.dim_v;
    const int64_t kv_head = p->cu_k[s] * p->kv_heads + head / (p->heads / p->kv_heads);
    const int64_t diagonal = row + m - n;
    const struct ref_query query = {
        .q = p->q + ((p->cu_q[s] + row) * p->heads + head) * dim,
        .row = row,
        .queries = n,
        .keys = m,
        .head = head,
        .sink = p->sinks && !part ? p->sinks + head : NULL,
    };
    struct ref_keys keys = {
        .k = p->k + kv_head * dim,
        .k_stride = (int64_t)p->kv_heads * dim,
        .v = p->v + kv_head * dim_v,
        .v_stride = (int64_t)p->kv_heads * dim_v,
        .first = ref_first_key(diagonal, p->left, p->chunk),
        .end = diagonal + p->right + 1 < m ? diagonal + p->right + 1 : m,
        .visible = p->mask ? p->mask + p->mask_indptr[s] + row * m : NULL,
    };
    if (part) {
        keys.first = larger(keys.first, part[0]);
        keys.end = smaller(keys.end, part[1]);
    }
    ref_attend(&p->attention, &query, &keys, scratch, result);
}

void ref_prefill_row(const struct ref_prefill *p, int s, int head, int64_t row, double *scratch,
                     struct ref_row *result)
{
    attend(p, s, head, row, NULL, scratch, result);
}

void ref_prefill_part(const struct ref_prefill *p, int s, int head, int64_t row,
                      const int64_t keys[2], double *scratch, struct ref_row *result)
{
    attend(p, s, head, row, keys, scratch, result);
}
