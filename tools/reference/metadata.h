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
    bool slots;              /* true: the table has the slot of each token; false: page numbers */
    const int64_t *rows;     /* table row of each sequence; NULL: row s */
    const int32_t *kv_start; /* [batch]: key at which each sequence's pages begin; NULL: 0 */
};

/* Returns the number of pages that sequences 0 to n - 1 occupy. */
int32_t ref_metadata_indptr(const struct ref_metadata *m, int n);

/* Returns the page number of page i of sequence s, counted from the page of kv_start. */
int32_t ref_metadata_page(const struct ref_metadata *m, int s, int i);

/* Returns the number of tokens in the last page of sequence s; 0 if it has no keys. */
int32_t ref_metadata_last_page_len(const struct ref_metadata *m, int s);

/* Returns the tokens of sequence s after a draft step; a sequence of padding keeps its length. */
int32_t ref_metadata_length(const struct ref_metadata *m, int s);

/* Returns the cache slot of the newest token of sequence s after a draft step; -1 for a sequence
 * of padding. */
int64_t ref_metadata_slot(const struct ref_metadata *m, int s);

#endif
