/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention over packed sequences by its formula, in doubles. */
#ifndef REFERENCE_PREFILL_H
#define REFERENCE_PREFILL_H

#include "tools/reference/attention.h"

/* A call of prefill. Tensors are dense: q [token, head, dim], k and v [token, kv head, dim]. */
struct ref_prefill {
    struct ref_attention attention;
    const double *q, *k, *v;
    const int32_t *cu_q, *cu_k; /* [batch + 1]: first token of each sequence in q, and in k and v */
    int batch, heads, kv_heads;
    const double *sinks; /* [head]: logits of attention sinks; NULL: none */
    /* Keys that a query sees before and after its own position. The last query has the position of
     * the last key. */
    int64_t left, right;
    /* Keys of a chunk, to which a query's attention is limited; 0: no chunks. */
    int64_t chunk;
    /* Bytes: not 0 shows a key to a query. Row i of sequence s begins at mask_indptr[s] + i * (keys
     * of s). NULL: no custom mask. */
    const uint8_t *mask;
    const int64_t *mask_indptr; /* [batch + 1]: first byte of each sequence in `mask` */
};

/* Computes the output of query `row` of sequence `s` for query head `head`. `scratch` has room for
 * a double for each key of the sequence. */
void ref_prefill_row(const struct ref_prefill *p, int s, int head, int64_t row, double *scratch,
                     struct ref_row *result);

/* Computes a split-KV partial of query `row` of sequence `s`, over keys keys[0] to keys[1] - 1 and
 * without the sink. `scratch` has room for a double for each key of the sequence. */
void ref_prefill_part(const struct ref_prefill *p, int s, int head, int64_t row,
                      const int64_t keys[2], double *scratch, struct ref_row *result);

#endif
