/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file defines which keys a decoding query sees. The new tokens are at the end of the
 * sequence. Query t of n over m keys has the position i = t + m - n. It sees key j if -left <= j -
 * i <= right, and if the mask has a nonzero byte for it. With chunks, i and j must be in one chunk.
 */
#include "tools/reference/decode.h"

#include <stddef.h>

/* Copies the keys of a list of slots; an entry that is no key becomes 0. */
static void gather_slots(const struct ref_cache *c, const int32_t *slots, int64_t keys, double *to)
{
    for (int64_t i = 0; i < keys; i++) {
        for (int d = 0; d < c->dim; d++)
            *to++ = slots[i] < 0 ? 0
                                 : ref_cache_value(c, slots[i] / c->page_size,
                                                   slots[i] % c->page_size, 0, d);
    }
}

void ref_decode_gather(const struct ref_decode *p, int s, int kv_head, double *k, double *v)
{
    const int32_t *pages = p->pages + p->first_page[s];
    if (p->there) {
        gather_slots(&p->k, pages, p->kv_lens[s], k);
        gather_slots(&p->v, pages, p->kv_lens[s], v);
        return;
    }
    struct ref_cache k_cache = p->k, v_cache = p->v;
    k_cache.sequence = v_cache.sequence = s;
    ref_cache_gather(&k_cache, pages, p->kv_lens[s], kv_head, k);
    ref_cache_gather(&v_cache, pages, p->kv_lens[s], kv_head, v);
}

/* Returns the lesser of two numbers. */
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the greater of two numbers. */
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void ref_decode_row(const struct ref_decode *p, int s, int head, int64_t t,
                    const struct ref_part *part, double *scratch, struct ref_row *result)
{
    const int64_t n = p->qo_indptr[s + 1] - p->qo_indptr[s], m = p->kv_lens[s];
    const int64_t diagonal = t + m - n;
    const struct ref_query query = {
        .q = p->q + ((p->qo_indptr[s] + t) * p->heads + head) * p->attention.dim,
        .row = t,
        .queries = n,
        .keys = m,
        .head = head,
        .sink = p->sinks && !part->partial ? p->sinks + head : NULL,
    };
    const struct ref_keys keys = {
        .k = part->k,
        .k_stride = p->attention.dim,
        .v = part->v,
        .v_stride = p->attention.dim_v,
        .first = larger(part->first, ref_first_key(diagonal, p->left, p->chunk)),
        .end = smaller(part->end, diagonal + p->right + 1),
        .visible = p->there  ? p->there + p->first_page[s]
                   : p->mask ? p->mask + p->mask_indptr[s] + t * m
                             : NULL,
    };
    ref_attend(&p->attention, &query, &keys, scratch, result);
}
