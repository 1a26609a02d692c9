/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the arrays that an engine makes of lengths and pages, by their formulas. */
#ifndef REFERENCE_METADATA_H
#define REFERENCE_METADATA_H

#include <stdbool.h>
#include <stdint.h>

struct ref_metadata {
    int batch, page_size, advance;
    const int32_t *kv_lens;
    const int32_t *table; /* [rows, stride]: page numbers, or the slots of tokens */
    int64_t stride;
    bool slots;
    const int64_t *rows;     /* or NULL */
    const int32_t *kv_start; /* or NULL */
};

/* Pages of the first n sequences. */
int32_t ref_metadata_indptr(const struct ref_metadata *m, int n);

/* Page number i of sequence s, counted from its first entry. */
int32_t ref_metadata_page(const struct ref_metadata *m, int s, int i);

int32_t ref_metadata_last_page_len(const struct ref_metadata *m, int s);

/* After a draft step: the length, and where the newest token goes; -1 for padding. */
int32_t ref_metadata_length(const struct ref_metadata *m, int s);
int64_t ref_metadata_slot(const struct ref_metadata *m, int s);

#endif
