/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a cache, and the index arrays that an engine derives from lengths. */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>

/* A cache for `batch` sequences, each with up to `pages` pages of `page` tokens. */
struct paging {
    int batch, pages, page;
};

/* Returns the number of a sequence's page i. Any order works; this one is scrambled. */
int page_of(struct paging p, int sequence, int i);
int64_t slot_of(struct paging p, int sequence, int token);

/* Fills the table of all sequences' pages, [batch, pages]. */
void fill_block_table(struct paging p, int32_t *table);

/* Uploads the page table, and the cosines and sines of fill_cos_sin(), to the device. */
void upload_paging(struct paging p, int32_t *block_table, float *cos_sin, int positions, int dim,
                   double base);

/* Fills a table of the rotary embedding's cosines and sines in NeoX order, [positions, dim]. */
void fill_cos_sin(float *table, int positions, int dim, double base);

/*
 * Packs tokens sequence after sequence: the last added[s] of the lengths[s] tokens of sequence s.
 * Returns the total. `ends`, [batch + 1], gets the first token of each sequence.
 */
int pack_tokens(struct paging p, const int *lengths, const int *added, int32_t *ends,
                int64_t *positions, int64_t *slots);

/* Returns the largest of the lengths. */
int longest_of(struct paging p, const int *lengths);

#endif
