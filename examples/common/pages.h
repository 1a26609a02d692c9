/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the pages of a cache, and index arrays that an engine makes of lengths. */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>

/* A cache for `batch` sequences, each of up to `pages` pages of `page` tokens. */
struct paging {
    int batch, pages, page;
};

/* Page i of a sequence; any order will do, and this is one without order. */
int page_of(struct paging p, int sequence, int i);
int64_t slot_of(struct paging p, int sequence, int token);

/* The pages of all sequences, [batch, pages]. */
void fill_block_table(struct paging p, int32_t *table);

/* Uploads the pages of all sequences and the cosines and sines below to tables on the device. */
void upload_paging(struct paging p, int32_t *block_table, float *cos_sin, int positions, int dim,
                   double base);

/* Cosines and sines of the rotary embedding in NeoX order, [positions, dim]. */
void fill_cos_sin(float *table, int positions, int dim, double base);

/*
 * Packs tokens, one sequence behind the other: the last added[s] tokens of the lengths[s] that
 * sequence s has. Returns how many there are. `ends`, [batch + 1], has the first of each sequence.
 */
int pack_tokens(struct paging p, const int *lengths, const int *added, int32_t *ends,
                int64_t *positions, int64_t *slots);

/* The largest of the lengths. */
int longest_of(struct paging p, const int *lengths);

#endif
