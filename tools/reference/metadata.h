/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares, by their formulas, the arrays that an engine computes from lengths and
   pages. */
#ifndef REFERENCE_METADATA_H
#define REFERENCE_METADATA_H

#include <stdbool.h>
#include <stdint.h>

/* The arguments of metadata, as the reference reads them. */
struct ref_metadata {
    /* Sequences, tokens of a page, and tokens by which a draft step advances each sequence. */
    int batch, page_size, advance;
    const int32_t *kv_lens; /* [batch]: keys of each sequence */
    const int32_t *table;   /* [rows, stride]: page numbers, or slots of tokens */
    /* Entries of the table from a row to the next. */
    int64_t stride;
    bool slots;              /* the table has slots of tokens; false: page numbers */
    const int64_t *rows;     /* table row of each sequence; NULL: row s */
    const int32_t *kv_start; /* [batch]: key at which each sequence's pages begin; NULL: 0 */
};

/* Returns the number of pages that the first n sequences occupy together. */
int32_t ref_metadata_indptr(const struct ref_metadata *m, int n);

/* Returns the page number of page i of sequence s, counted from the page of kv_start. */
int32_t ref_metadata_page(const struct ref_metadata *m, int s, int i);

/* Returns the number of tokens in the last page of sequence s. */
int32_t ref_metadata_last_page_len(const struct ref_metadata *m, int s);

/* Return what a draft step leaves for sequence s: its length in tokens, and the cache slot of
 * its newest token; -1 for a sequence of padding. */
int32_t ref_metadata_length(const struct ref_metadata *m, int s);
int64_t ref_metadata_slot(const struct ref_metadata *m, int s);

#endif
