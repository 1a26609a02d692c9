/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the scores of the sparse indexer. A row of scores belongs to one query, and
 * its columns to keys n:
 *
 *      score(n) = ks[n] * sum over heads h of w[h] * relu(q[h] . k[n])
 *
 * or the same without relu. q and k have one type, fp8, bf16 or fp16, or q is fp8 and k mxfp4; ks
 * is 1 unless k is fp8. The row's q is the left operand of the matrix product and stays in
 * registers. Each wave has keys of its own, which go from memory to the right operand as they are.
 * Two rows of one sequence can share the keys that a wave reads.
 *
 * With att_index.pairs products are scaled by a power of two, so that none exceeds 1, and rounded
 * to f16. One instruction rounds two products and computes their relu. Another one multiplies two
 * of them by their f16 weights, and adds both to an f32 sum.
 *
 * A wave goes over its keys in groups. A group has half as many keys as the wave has lanes, since
 * two lanes load a key. Some groups' keys are in flight while one is scored, and so are the page
 * numbers of the groups after them. The caller's loop carries the values in flight. A round is an
 * iteration of that loop: some groups of each wave.
 */
#ifndef TEMPLATES_INDEX_SCORE_H
#define TEMPLATES_INDEX_SCORE_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/cache/paging.h"

enum {
    ATT_INDEX_DIM = 128,       /* number of elements of a head and of a key */
    ATT_INDEX_PARTS_MAX = 8,   /* most loads of a lane for its part of a key */
    ATT_INDEX_SLICES_MAX = 16, /* most matrix instructions of a product */
    /* number of equal parts of a product's rows, which are added one after the other */
    ATT_INDEX_FOURTHS = 4,
    /* most values that a loop carries for a group in flight */
    ATT_INDEX_CARRIED = ATT_INDEX_PARTS_MAX + 2,
    ATT_INDEX_BLOCKS_MAX = 4,  /* most blocks of 32 heads */
    ATT_INDEX_ROWS_MAX = 2,    /* most rows of scores that a wave computes at once */
    ATT_INDEX_AHEAD_MAX = 4,   /* most groups of keys whose loads are in flight */
    ATT_INDEX_GROUPS_MAX = 16, /* most groups of a round */
    ATT_INDEX_CARRIED_MAX = ATT_INDEX_AHEAD_MAX * ATT_INDEX_CARRIED,
};

/** The q and the weights of a row of scores. */
struct att_index_query {
    struct tir_value row; /* i32: index of the row in q, in the weights and in the scores */
    /* Left operands of the matrix instructions with q, for each block of heads and slice of
     * columns. */
    struct tir_value q[ATT_INDEX_BLOCKS_MAX][ATT_INDEX_SLICES_MAX];
    /* f32, in the layout of products; with att_index.pairs, not used once weight_pairs are made */
    struct tir_value weights[ATT_INDEX_BLOCKS_MAX];
    /* with att_index.pairs: i32, two f16 weights in each element */
    struct tir_value weight_pairs[ATT_INDEX_BLOCKS_MAX][2 * ATT_INDEX_FOURTHS];
    struct tir_value scale; /* with att_index.pairs: i32, the e8m0 factor of all products */
    /* with att_index.pairs: f32, the factor that removes `scale` from a sum */
    struct tir_value unscale;
};

/** The scoring of keys by one wave under construction. A group is the keys of one matrix product.
 * Two lanes load each key, in chunks of 16 bytes. */
struct att_index {
    struct tir_builder *b;
    /* true: keys are in pages; true: pages have the order of ATT_KV_LAYOUT_SHUFFLE */
    bool paged, shuffle;
    bool listed;         /* true: keys come from a list of blocks of keys */
    unsigned block_size; /* number of keys of a block of the list */
    bool by_lane; /* true: each lane finds the page of its own key, since a group may cross pages */
    bool mxfp4;   /* true: keys are mxfp4 */
    bool scaled;  /* true: each key has an f32 scale */
    enum tir_dtype element; /* type of elements of q, and of keys that are not mxfp4 */
    unsigned vector;        /* number of elements of a chunk */
    bool pairs;             /* true: products are weighted two at a time, by packed operations */
    bool all_signs;         /* true: negative products count, without relu */
    unsigned lanes;         /* number of lanes of a wave */
    unsigned group;         /* number of keys of a matrix product: half the lanes of a wave */
    unsigned parts;         /* number of loads of a lane for its part of a key */
    /* numbers of query heads, and of blocks of 32 heads, the rows of a product */
    unsigned heads, blocks;
    int mma;              /* index in tir_machine.mma of the matrix instruction */
    unsigned slices;      /* number of matrix instructions of a product with a block */
    unsigned ahead;       /* number of groups of keys whose loads are in flight */
    struct tir_type lane; /* type i32, lanes x 1: a row for each lane */
    /* layout lanes x 2, in which each lane has the scales of its 2 mxfp4 blocks */
    struct tir_layout halves;
    struct tir_type chunk;    /* type of one load: lanes x 16 bytes */
    struct tir_type products; /* type of a product: f32, 32 x group */
    /* permutation of the bits of a product's row index that maps rows to heads, for
     * tir_layout_permute_rows() */
    uint8_t order[TIR_LAYOUT_MAX_BITS];
    struct tir_value lane_index,
        token; /* i32 of each lane: index of the lane, and index in the group of the lane's key */
    unsigned rows; /* number of rows of scores that the wave computes at once: entries of query[] */
    struct att_index_query query[ATT_INDEX_ROWS_MAX];
    /* i32 of each lane: byte offset of its part of a key from the group's first key, and of its
     * scale from the group's first scale */
    struct tir_value key_offset, scale_offset;
    /* i64: addresses of the first key, and of the first scale; with pages, of the first key and
     * scale of page 0 */
    struct tir_value keys, scales;
    struct att_paging paging;     /* size of pages; set if paged */
    struct tir_value page_stride; /* i64: distance of two pages in bytes */
    struct tir_value table;       /* i64: address of the sequence's row of the block table */
    /* if listed, i64: address of the row's list; i32: first key of the sequence */
    struct tir_value list, start;
    struct tir_value first; /* i32: index of the first key that may be read; not used with a list */
    struct tir_value last;  /* i32: last key that may be read, or last position of the list */
};

/** True if the machine has a matrix instruction for the variant's keys and number of heads; if not,
 * the reason is in `why`. */
bool att_index_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** True if the machine has the instructions for att_index.pairs, and the variant's scores can use
 * them. */
bool att_index_has_pairs(const struct att_variant *v, const struct tir_machine *m);

/** Returns the scoring of a variant's keys. `pairs` sets att_index.pairs. The caller then sets the
 * rows of scores by att_index_rows(). */
struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v, bool pairs);

/** Sets the rows of scores that are computed next: the n indices rows[] (i32), all of one sequence.
 * Keys `first` to `end` - 1 of the sequence (i32) may be read; there is at least one. */
void att_index_rows(struct att_index *x, const struct tir_value *rows, unsigned n,
                    struct tir_value first, struct tir_value end);

/** Returns the index (i32) of the sequence to which row `row` (i32) of scores belongs. */
struct tir_value att_index_sequence(struct tir_builder *b, struct tir_value row);

/** The keys that a wave scores in one round: `groups` groups from key `own` (i32: index) on, a
 * multiple of att_index.group. The next round begins `stride` keys later. Loads of keys after the
 * last one are allowed. */
struct att_index_walk {
    struct tir_value own;
    int stride;
    unsigned groups; /* number of groups: even, and a multiple of att_index.ahead */
};

/** Returns the number of values in flight for the current rows, which the caller's loop carries. */
unsigned att_index_carried(const struct att_index *x);

/** Issues the loads of the round's first groups into carried[], and loads q and weights of the
 * rows. */
void att_index_send(struct att_index *x, const struct att_index_walk *w, struct tir_value *carried);

/** The consumer of scores. A set is two groups of keys. take() gets set `j` of the scores of row
 * `row` (index), f32, lanes x 1: lane i has the score of key own + lanes j + i. Sets come in
 * ascending order. prepare() is called some time before take() of the same set, and may use all of
 * the consumer's LDS. `context`: first argument of take() and prepare(). */
struct att_index_user {
    void (*prepare)(void *context, unsigned row, unsigned j);
    void (*take)(void *context, unsigned row, unsigned j, struct tir_value scores);
    void *context;
};

/** Computes the scores of round `w`, and issues the loads of the next round into carried[]. Code of
 * the consumer for earlier scores is placed between products for later scores, so that it runs
 * beside matrix instructions. */
void att_index_score(const struct att_index *x, const struct att_index_walk *w,
                     struct tir_value *carried, const struct att_index_user *user);

#endif
