/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries and keys of the sparse indexer for attnc verify: rows, sequences, the cache's image, and
 * what each key scores.
 */
#ifndef TOOLS_VERIFY_INDEXER_DATA_H
#define TOOLS_VERIFY_INDEXER_DATA_H

#include "tools/reference/indexer.h"
#include "tools/reference/indexer_rope.h"
#include "tools/verify/call.h"

/** The ways to make keys. */
enum index_keys {
    KEYS_RANDOM,
    KEYS_EQUAL,      /* all alike */
    KEYS_NEGATIVE,   /* no product above 0: every score is 0 */
    KEYS_TWO,        /* two different ones, in random order */
    KEYS_RISING,     /* alike, with rising scales */
    KEYS_FALLING,    /* and falling ones */
    KEYS_HUGE_RANGE, /* scales from 1e-20 to 1e10, of fp8 of both signs */
    KEYS_NANS,       /* of fp8 NaNs in keys and scales, infinite scales; of mxfp4 NaNs in scales */
};

enum { INDEX_SCALE_BYTES = 4 }; /* of a key */

struct index_data {
    struct call *call; /* whose memory this is */
    const struct precision *fp8;
    int heads, rows, sequences;
    bool paged, shuffle, has_starts;
    bool mxfp4;     /* keys */
    bool pairs;     /* products and weights become f16 */
    int key_bytes;  /* without its scale */
    int page;       /* tokens */
    int page_bytes; /* a multiple of 16 */
    enum index_keys kind;
    int32_t *starts, *ends, *row_sequences; /* [rows] */
    int *keys;                              /* of each sequence */
    double *q;                              /* [rows, heads, 128] */
    float *weights;
    double **k;       /* of each sequence: [keys, 128]; of mxfp4 with their scales in them */
    float **scales;   /* [keys]; of mxfp4 1 */
    int **classes;    /* [keys]: keys of one class are alike */
    int32_t *table;   /* [sequences, table_stride] */
    int table_stride; /* pages */
    int pages;
    uint8_t *q_bytes, *image; /* of the cache, or of the keys; a trace has none */
    size_t image_bytes;
};

/** Tokens of a page: one of those that a kernel for small pages, or for others, takes. */
int index_data_page(bool small_pages, unsigned choice);

/** The cache that an indexer reads. */
struct index_cache {
    int page; /* tokens; 0 without pages */
    enum attn_kv_layout layout;
    enum attn_index_keys keys;
};

/** Data for a call of an indexer, with room for starts, ends and row_sequences. */
struct index_data index_data_of(struct call *c, int heads, int rows,
                                const struct index_cache *cache, enum index_keys kind);

/** Everything from sequences, row_sequences and ends, which the caller has set, on. */
void index_data_make(struct index_data *d);

/** In place() and fill(): the tensors from `q` on, INDEXER_LOGITS_Q or INDEXER_TOPK_Q, up to
 * row_sequences. */
void index_data_place(const struct index_data *d, struct operand *q);
void index_data_fill(const struct index_data *d, struct operand *q);

/** Bytes of what is read: keys with their scales once, q with its weights. */
double index_data_bytes(const struct index_data *d);

/** The score of key n of row's sequence, and how far a kernel may be off. */
struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound);

/** The slot of key n. */
int32_t index_data_slot(const struct index_data *d, int row, int n);

#endif
