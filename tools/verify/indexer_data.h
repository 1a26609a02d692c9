/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries and keys of the sparse indexer for attnc verify: rows, sequences, the cache's image, and
 * what each key scores.
 */
#ifndef TOOLS_VERIFY_INDEXER_DATA_H
#define TOOLS_VERIFY_INDEXER_DATA_H

#include "tools/reference/indexer.h"
#include "tools/verify/call.h"

/** How keys are made. */
enum index_keys {
    KEYS_RANDOM,
    KEYS_EQUAL,      /* all alike */
    KEYS_NEGATIVE,   /* no product above 0: every score is 0 */
    KEYS_TWO,        /* two different ones, in random order */
    KEYS_RISING,     /* alike, with rising scales */
    KEYS_FALLING,    /* and falling ones */
    KEYS_HUGE_RANGE, /* scales from 1e-20 to 1e10, of both signs */
    KEYS_NANS,       /* NaNs in keys and scales, infinite scales */
};

enum { INDEX_TOKEN_BYTES = REF_INDEX_DIM + 4 };

struct index_data {
    struct call *call; /* whose memory this is, or NULL: index_data_free() */
    const struct precision *fp8;
    int heads, rows, sequences;
    bool paged, shuffle;
    int page; /* tokens */
    enum index_keys kind;
    int32_t *starts, *ends, *row_sequences; /* [rows] */
    int *keys;                              /* of each sequence */
    double *q;                              /* [rows, heads, 128] */
    float *weights;
    double **k;       /* of each sequence: [keys, 128] */
    float **scales;   /* [keys] */
    int **classes;    /* [keys]: keys of one class are alike */
    int32_t *table;   /* [sequences, table_stride] */
    int table_stride; /* pages */
    int pages;
    uint8_t *q_bytes, *image; /* of the cache, or of the keys */
    size_t image_bytes;
    float *flat_scales; /* without pages */
};

/** Tokens of a page: one of those that a kernel for small pages, or for others, takes. */
int index_data_page(bool small_pages, unsigned choice);

/** Zeroed memory for it. */
void *index_data_allocate(struct index_data *d, size_t count, size_t size);

/** Everything from row_sequences and ends, which the caller has set, on. */
void index_data_make(struct index_data *d, uint64_t *random);
void index_data_free(struct index_data *d);

/** The score of key n of row's sequence, and how far a kernel may be off. */
struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound);

/** The slot of key n. */
int32_t index_data_slot(const struct index_data *d, int row, int n);

#endif
