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

/** Kinds of keys. */
enum index_keys {
    KEYS_RANDOM,
    KEYS_EQUAL,      /* all equal */
    KEYS_NEGATIVE,   /* no product is positive, so every score is 0 */
    KEYS_TWO,        /* two different keys, in random order */
    KEYS_RISING,     /* equal but for scales, which increase */
    KEYS_FALLING,    /* the same with decreasing scales */
    KEYS_HUGE_RANGE, /* fp8 of both signs with scales from 1e-20 to 1e10 */
    KEYS_NANS,       /* fp8: NaNs in keys and scales, infinite scales; mxfp4: NaNs in scales; 16
                        bits: NaNs and infinities in keys */
};

enum { INDEX_SCALE_BYTES = 4 }; /* bytes of a key's float32 scale, or of its four e8m0 scales */

/* Queries, keys and cache of an indexer's call, on the host. */
struct index_data {
    struct call *call; /* owner of the memory */
    /* Elements of q and keys: the GPU's fp8; with `wide` the 16-bit type. */
    const struct precision *fp8, *wide_elements;
    int heads, rows, sequences;      /* numbers of query heads, rows of scores, and sequences */
    bool paged, shuffle, has_starts; /* keys are in pages; in SHUFFLE; the call passes `starts` */
    bool mxfp4;                      /* keys are mxfp4 */
    bool wide;                       /* q and keys are bf16 or fp16 */
    bool pairs;                      /* the kernel rounds products and weights to f16 */
    bool all_signs;                  /* scores have no relu */
    int key_bytes;                   /* bytes of a key without its scale */
    int scale_bytes;                 /* bytes of a key's scales; 0: keys of 16 bits have none */
    int page;                        /* tokens of a page */
    int page_bytes;                  /* bytes of a page, a multiple of 16 */
    enum index_keys kind;
    int32_t *starts, *ends, *row_sequences; /* [rows]: first key, end of keys, sequence */
    int *keys;                              /* number of keys of each sequence */
    double *q;                              /* queries: [rows, heads, 128] */
    float *weights;                         /* of heads: [rows, heads] */
    double **k;       /* keys of each sequence: [keys, 128]; mxfp4: scales included */
    float **scales;   /* scales of each sequence's keys: [keys]; 1 if keys are not fp8 */
    int **classes;    /* classes of each sequence's keys: [keys]; keys of a class are equal */
    int32_t *table;   /* page numbers: [sequences, table_stride] */
    int table_stride; /* entries of the table from a sequence to the next */
    uint8_t *q_bytes; /* q as fp8, [rows, heads, 128]; unused if `wide` */
    uint8_t *image;   /* bytes of the cache, or of keys without pages; NULL in a trace */
    size_t image_bytes;
};

/** Returns a page size in tokens. With small_pages it suits kernels of small pages, else the
 * others. `choice` is any number: it selects among the sizes. */
int index_data_page(bool small_pages, unsigned choice);

/** The cache that an indexer reads. */
struct index_cache {
    int page; /* tokens of a page; 0: no pages */
    enum attn_kv_layout layout;
    enum attn_index_keys keys;
};

/** Returns data for call `c` of an indexer with `heads` query heads and `rows` rows of scores.
 * `kind` says how keys are made. Allocates starts, ends and row_sequences, which belong to the
 * call. The caller then sets members, see index_data_make(). */
struct index_data index_data_of(struct call *c, int heads, int rows,
                                const struct index_cache *cache, enum index_keys kind);

/** Makes the rest of the data. The caller has set sequences, row_sequences and ends. */
void index_data_make(struct index_data *d);

/** Places and fills the tensors from `q` (INDEXER_LOGITS_Q or INDEXER_TOPK_Q) to row_sequences, in
 * place() and in fill(). */
void index_data_place(const struct index_data *d, struct operand *q);
void index_data_fill(const struct index_data *d, struct operand *q);

/** Returns the bytes that are read: keys with their scales once, and q with its weights. */
double index_data_bytes(const struct index_data *d);

/** Returns the score of key n for a row. *bound receives the largest error that a kernel's score
 * may have. It is infinite if the key has an infinite scale and the error of the sum before the
 * scale reaches 0: the kernel's score is then an infinity of either sign or a NaN. */
struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound);

/** Returns the cache slot of key n for a row. */
int32_t index_data_slot(const struct index_data *d, int row, int n);

#endif
