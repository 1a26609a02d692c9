/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention of a few queries over a paged cache, in doubles. */
#ifndef REFERENCE_DECODE_H
#define REFERENCE_DECODE_H

#include "tools/reference/attention.h"
#include "tools/reference/cache.h"

/* A call of decode, as the reference reads it. Tensors are dense. */
struct ref_decode {
    struct ref_attention attention;
    const double *q;          /* [token, head, dim] */
    const int32_t *qo_indptr; /* [batch + 1]: first query token of each sequence */
    const int32_t *kv_lens;   /* [batch]: keys of each sequence */
    /* Page numbers, or with `there` slots: those from first_page[s] on belong to sequence s. */
    const int32_t *pages;
    const int32_t *first_page; /* [batch]: index in `pages` of each sequence's first page */
    /* NULL: `pages` has page numbers. Otherwise it has slots, page * page_size + token, and an
     * entry with 0 in `there` is no key. */
    const uint8_t *there;
    /* The cache's keys and values. */
    struct ref_cache k, v;
    /* Numbers of query heads and of KV heads. */
    int heads, kv_heads;
    const double *sinks; /* [head]: logits of attention sinks; NULL: none */
    /* Keys that a query sees before and after its own position. The last query has the position of
     * the last key. */
    int64_t left, right;
    /* Keys of a chunk, to which a query's attention is limited; 0: no chunks. */
    int64_t chunk;
    /* Bytes: not 0 shows a key to a query. Row t of sequence s begins at mask_indptr[s] + t *
     * kv_lens[s]. NULL: no custom mask. */
    const uint8_t *mask;
    const int64_t *mask_indptr; /* [batch + 1]: first byte of each sequence in `mask` */
};

/* Copies the keys and the values of one KV head of sequence `s` as doubles. `k` and `v` have
 * room for kv_lens[s] tokens each. */
void ref_decode_gather(const struct ref_decode *p, int s, int kv_head, double *k, double *v);

/* The keys that a row attends to: all keys of the sequence, or a part of them. A split-KV
 * partial excludes sinks. */
struct ref_part {
    const double *k, *v; /* from ref_decode_gather() */
    /* Keys of the part: the first, and one past the last. */
    int64_t first, end;
    /* True: the result is a split-KV partial. */
    bool partial;
};

/* Computes the output of query token `t` of sequence `s` for a query head. `scratch` has room
 * for kv_lens[s] doubles. */
void ref_decode_row(const struct ref_decode *p, int s, int head, int64_t t,
                    const struct ref_part *part, double *scratch, struct ref_row *result);

#endif
