/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares inputs of the sparse indexer's calls: queries, keys, rows, sequences and the
 * cache, and the expected score of each key.
 */
#ifndef TOOLS_VERIFY_INDEXER_DATA_H
#define TOOLS_VERIFY_INDEXER_DATA_H

#include "tools/reference/indexer.h"
#include "tools/reference/indexer_rope.h"
#include "tools/verify/call.h"

/** Kinds of an indexer's keys in a shape. */
enum index_keys {
    /* Random keys. */
    KEYS_RANDOM,
    KEYS_EQUAL,      /* all keys are equal */
    KEYS_NEGATIVE,   /* no product is positive, so every score is 0 */
    KEYS_TWO,        /* two different keys, in random order */
    KEYS_RISING,     /* equal elements with increasing scales */
    KEYS_FALLING,    /* equal elements with decreasing scales */
    KEYS_HUGE_RANGE, /* fp8 of both signs with scales from 1e-20 to 1e10 */
    /* fp8: NaNs in keys and scales, infinite scales; mxfp4: NaNs in scales; 16 bits: NaNs and
     * infinities in keys */
    KEYS_NANS,
};

enum { INDEX_SCALE_BYTES = 4 }; /* bytes of a key's float32 scale, or of its four e8m0 scales */

/* Sums and maxima of a row of queries and weights, which bound the errors of its scores. */
struct index_row {
    double most;    /* largest of the heads' sums of |q| */
    double weights; /* sum of the magnitudes of the weights */
    double largest; /* largest magnitude of a weight */
};

/* Queries, keys and cache of an indexer's call, on the host. */
struct index_data {
    struct call *call; /* the call, which owns the memory */
    /* Element types of q and keys: fp8 of the GPU; with `wide` the 16-bit type wide_elements. */
    const struct precision *fp8, *wide_elements;
    int heads, rows, sequences; /* numbers of query heads, rows of scores, and sequences */
    /* paged: keys are in pages. shuffle: the pages are SHUFFLE. has_starts: the call passes
     * `starts` */
    bool paged, shuffle, has_starts;
    bool mxfp4; /* keys are mxfp4 */
    bool wide;  /* q and keys are bf16 or fp16 */
    bool pairs; /* true: the kernel rounds products and weights to f16 */
    /* true: negative products count too; false: scores have a relu */
    bool all_signs;
    int key_bytes;   /* bytes of a key without its scale */
    int scale_bytes; /* bytes of a key's scales; 0: keys of 16 bits have none */
    int page;        /* tokens of a page */
    int page_bytes;  /* bytes of a page, a multiple of 16 */
    enum index_keys kind;
    /* [rows]: index of the first key, index after the last key, sequence */
    int32_t *starts, *ends, *row_sequences;
    int *keys;                /* number of keys of each sequence */
    double *q;                /* queries: [rows, heads, 128] */
    float *weights;           /* weights of heads: [rows, heads] */
    struct index_row *bounds; /* sums and maxima of each row: [rows] */
    double **k;       /* elements of each sequence's keys: [keys, 128]; mxfp4: times their scales */
    float **scales;   /* scales of each sequence's keys: [keys]; 1 if keys are not fp8 */
    int **classes;    /* classes of each sequence's keys: [keys]; keys of a class are equal */
    int32_t *table;   /* page numbers: [sequences, table_stride] */
    int table_stride; /* entries of `table` for each sequence */
    uint8_t *q_bytes; /* q as fp8, [rows, heads, 128]; unused if `wide` */
    uint8_t *image;   /* contents of the cache, or of keys without pages; NULL in a trace */
    size_t image_bytes;
};

/** Returns a page size in tokens that a kernel takes: of the small ones with small_pages, else of
 * the large ones. `choice`, any number, selects among the sizes. */
int index_data_page(bool small_pages, unsigned choice);

/** The cache that an indexer reads. */
struct index_cache {
    int page; /* tokens of a page; 0: no pages */
    enum attn_kv_layout layout;
    enum attn_index_keys keys;
};

/** Returns data for call `c` of an indexer with `heads` query heads and `rows` rows of scores.
 * `kind` says how keys are made. Allocates starts, ends and row_sequences, which are freed with the
 * call. The caller then sets sequences, row_sequences and ends, and calls index_data_make(). */
struct index_data index_data_of(struct call *c, int heads, int rows,
                                const struct index_cache *cache, enum index_keys kind);

/** Makes queries, keys, pages and the cache. The caller has set sequences, row_sequences and
 * ends. */
void index_data_make(struct index_data *d);

/** Places the operands from `q` (INDEXER_LOGITS_Q or INDEXER_TOPK_Q) to row_sequences, in struct
 * verify_op.place. */
void index_data_place(const struct index_data *d, struct operand *q);
/** Fills the operands from `q` (INDEXER_LOGITS_Q or INDEXER_TOPK_Q) to row_sequences, in struct
 * verify_op.fill. */
void index_data_fill(const struct index_data *d, struct operand *q);

/** Returns the bytes that a kernel reads: keys with their scales, each once, and q with its
 * weights. */
double index_data_bytes(const struct index_data *d);

/** Returns the score of key n for a row. *bound receives the largest error that a kernel's score
 * may have. The bound is infinite if the key's scale is infinite and the sum before the scale may
 * be 0 within its error. The kernel's score is then an infinity of either sign or a NaN. */
struct ref_index_score index_data_score(const struct index_data *d, int row, int n, double *bound);

/** Returns the cache slot of key n for a row. */
int32_t index_data_slot(const struct index_data *d, int row, int n);

#endif
