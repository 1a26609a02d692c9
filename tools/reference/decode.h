/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention of a few queries over a paged cache, in doubles. */
#ifndef REFERENCE_DECODE_H
#define REFERENCE_DECODE_H

#include "tools/reference/attention.h"
#include "tools/reference/cache.h"

struct ref_decode {
    struct ref_attention attention;
    const double *q;           /* [token, head, dim] */
    const int32_t *qo_indptr;  /* [batch + 1] */
    const int32_t *kv_lens;    /* [batch] */
    const int32_t *pages;      /* page numbers, or slots: sequence s has first_page[s] on */
    const int32_t *first_page; /* [batch]: index in `pages` of each sequence's first */
    const uint8_t *there;      /* not NULL: `pages` are slots, page * page_size + token, and entries
                                  with 0 here are no keys. NULL: they are page numbers */
    struct ref_cache k, v;
    int heads, kv_heads;
    const double *sinks;        /* [head], NULL: none */
    int64_t left, right;        /* visible keys around the diagonal of the bottom right corner */
    int64_t chunk;              /* length of a chunk; a query sees its own chunk only; 0: no
                                   chunks */
    const uint8_t *mask;        /* row t of sequence s begins at mask_indptr[s] + t * kv_lens[s]; or
                                   NULL */
    const int64_t *mask_indptr; /* [batch + 1] */
};

/* Copies one head of a sequence as doubles, into room for kv_lens[s] tokens each. */
void ref_decode_gather(const struct ref_decode *p, int s, int kv_head, double *k, double *v);

/* The keys of a row: all keys of the sequence, or a part of them, whose partial result excludes
   sinks. */
struct ref_part {
    const double *k, *v; /* from ref_decode_gather() */
    int64_t first, end;
    bool partial;
};

/* Computes row `t` of sequence `s`. `scratch` has room for its keys. */
void ref_decode_row(const struct ref_decode *p, int s, int head, int64_t t,
                    const struct ref_part *part, double *scratch, struct ref_row *result);

#endif
