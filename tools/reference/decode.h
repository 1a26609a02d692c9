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
    const int32_t *pages;      /* of all sequences, or their slots */
    const int32_t *first_page; /* [batch]: of each, in `pages` */
    const uint8_t *there;      /* `pages` are slots, page * page_size + token, of which those with
                                  0 here are no keys; NULL: they are page numbers */
    struct ref_cache k, v;
    int heads, kv_heads;
    const double *sinks;        /* [head], NULL: none */
    int64_t left, right;        /* visible keys around the diagonal of the bottom right corner */
    int64_t chunk;              /* of these only keys of the query's own chunk; 0: all */
    const uint8_t *mask;        /* row t of s from mask_indptr[s] + t * kv_lens[s] on, or NULL */
    const int64_t *mask_indptr; /* [batch + 1] */
};

/* One head of a sequence, dequantised: room for kv_lens[s] tokens each. */
void ref_decode_gather(const struct ref_decode *p, int s, int kv_head, double *k, double *v);

/* A row's keys: those of the sequence, or a part of them, whose state leaves sinks out. */
struct ref_part {
    const double *k, *v; /* of ref_decode_gather() */
    int64_t first, end;
    bool partial;
};

/* Row `t` of sequence `s`; `scratch` has room for its keys. */
void ref_decode_row(const struct ref_decode *p, int s, int head, int64_t t,
                    const struct ref_part *part, double *scratch, struct ref_row *result);

#endif
