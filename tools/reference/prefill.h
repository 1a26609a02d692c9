/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention over packed sequences by its formula, in doubles. */
#ifndef REFERENCE_PREFILL_H
#define REFERENCE_PREFILL_H

#include "tools/reference/attention.h"

/* Dense tensors: q [token, head, dim], k and v [token, kv head, dim]. */
struct ref_prefill {
    struct ref_attention attention;
    const double *q, *k, *v;
    const int32_t *cu_q, *cu_k; /* [batch + 1] */
    int batch, heads, kv_heads;
    const double *sinks;        /* [head], NULL: none */
    int64_t left, right;        /* visible keys around the diagonal of the bottom right corner */
    int64_t chunk;              /* length of a chunk; a query sees its own chunk only; 0: no
                                   chunks */
    const uint8_t *mask;        /* row i of sequence s begins at mask_indptr[s] + i * its keys;
                                   NULL: all visible */
    const int64_t *mask_indptr; /* [batch + 1] */
};

/* Computes a row of the output. `scratch` has room for the keys of sequence `s`. */
void ref_prefill_row(const struct ref_prefill *p, int s, int head, int64_t row, double *scratch,
                     struct ref_row *result);

/* Computes a split-KV partial of the row, over keys keys[0] .. keys[1] - 1, without the sink. */
void ref_prefill_part(const struct ref_prefill *p, int s, int head, int64_t row,
                      const int64_t keys[2], double *scratch, struct ref_row *result);

#endif
