/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares, by their formulas, the arrays that an engine computes from lengths and
   pages. */
#ifndef REFERENCE_METADATA_H
#define REFERENCE_METADATA_H

#include <stdbool.h>
#include <stdint.h>

struct ref_metadata {
    int batch, page_size, advance;
    const int32_t *kv_lens;
    const int32_t *table; /* [rows, stride]: page numbers, or slots of tokens */
    int64_t stride;
    bool slots;
    const int64_t *rows;     /* table row of each sequence; NULL: row s */
    const int32_t *kv_start; /* first key of each sequence; NULL: 0 */
};

/* Returns the number of pages of the first n sequences. */
int32_t ref_metadata_indptr(const struct ref_metadata *m, int n);

/* Returns page number i of sequence s, counted from its first entry. */
int32_t ref_metadata_page(const struct ref_metadata *m, int s, int i);

/* Returns the number of tokens in the last page of sequence s. */
int32_t ref_metadata_last_page_len(const struct ref_metadata *m, int s);

/* Return the state after a draft step: the length, and the slot of the newest token; -1 for
   padding. */
int32_t ref_metadata_length(const struct ref_metadata *m, int s);
int64_t ref_metadata_slot(const struct ref_metadata *m, int s);

#endif
