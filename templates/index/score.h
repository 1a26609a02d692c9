/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of the sparse indexer, of one row of queries and a key n:
 *
 *     score(n) = ks[n] * sum over heads h of w[h] * relu(q[h] . k[n])
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
 * A wave walks its keys in groups. A group has half as many keys as the wave has lanes, since two
 * lanes load a key. Some groups' keys are in flight while one is scored, and so are the page
 * numbers of the groups after them. The caller's loop carries the values in flight.
 */
#ifndef TEMPLATES_INDEX_SCORE_H
#define TEMPLATES_INDEX_SCORE_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/cache/paging.h"

enum {
    ATT_INDEX_DIM = 128,       /* elements of a head and of a key */
    ATT_INDEX_PARTS_MAX = 8,   /* parts of a key: loads of a lane */
    ATT_INDEX_SLICES_MAX = 16, /* matrix instructions of a product */
    ATT_INDEX_FOURTHS = 4,     /* fourths of a product's rows, which are added one by one */
    ATT_INDEX_CARRIED = ATT_INDEX_PARTS_MAX + 2, /* values of a group in flight */
    ATT_INDEX_BLOCKS_MAX = 4,                    /* blocks of 32 heads */
    ATT_INDEX_ROWS_MAX = 2,                      /* rows of scores that a wave computes at once */
    ATT_INDEX_AHEAD_MAX = 4,                     /* groups of keys whose loads are in flight */
    ATT_INDEX_GROUPS_MAX = 16,                   /* groups of a round */
    ATT_INDEX_CARRIED_MAX = ATT_INDEX_AHEAD_MAX * ATT_INDEX_CARRIED,
};

/** The query and the weights of a row of scores. */
struct att_index_query {
    struct tir_value row; /* i32: number of the row */
    struct tir_value q[ATT_INDEX_BLOCKS_MAX][ATT_INDEX_SLICES_MAX];
    struct tir_value weights[ATT_INDEX_BLOCKS_MAX]; /* f32; att_index.pairs: weight_pairs instead */
    struct tir_value weight_pairs[ATT_INDEX_BLOCKS_MAX][2 * ATT_INDEX_FOURTHS]; /* pairs of f16 */
    struct tir_value scale;   /* with pairs: e8m0 in an i32, factor of all products */
    struct tir_value unscale; /* with pairs: f32, the factor that removes `scale` from a sum */
};

/** The scoring of keys by one wave. A group is the keys of one matrix product. Two lanes load each
 * key, in chunks of 16 bytes. */
struct att_index {
    struct tir_builder *b;
    bool paged, shuffle;      /* keys are in pages; in the order of ATT_KV_LAYOUT_SHUFFLE */
    bool listed;              /* keys come from a list of blocks */
    unsigned block_size;      /* keys of a block of the list */
    bool by_lane;             /* each lane finds its own page: a group may cross pages */
    bool mxfp4;               /* keys are mxfp4 */
    bool scaled;              /* each key has a float32 scale */
    enum tir_dtype element;   /* of q, and of keys that are not mxfp4 */
    unsigned vector;          /* elements of a chunk */
    bool pairs;               /* products are weighted two at a time, by packed operations */
    bool all_signs;           /* negative products count: no relu */
    unsigned lanes;           /* lanes of a wave */
    unsigned group;           /* keys of a matrix product: half the lanes of a wave */
    unsigned parts;           /* loads of a lane for its part of a key */
    unsigned heads, blocks;   /* query heads; blocks of 32 heads, the rows of a product */
    int mma;                  /* number of the matrix instruction */
    unsigned slices;          /* matrix instructions of a product of a block */
    unsigned ahead;           /* groups of keys whose loads are in flight */
    struct tir_type lane;     /* i32, lanes x 1: a row for each lane */
    struct tir_layout halves; /* lanes x 2: each lane has the scales of its 2 mxfp4 blocks */
    struct tir_type chunk;    /* data of one load of a lane: lanes x 16 bytes */
    struct tir_type products; /* f32, 32 x group */
    uint8_t order[TIR_LAYOUT_MAX_BITS]; /* of a product's row bits: tir_layout_permute_rows() */
    struct tir_value lane_index,
        token;     /* of each lane: its number, and the number modulo `group` */
    unsigned rows; /* rows of scores that the wave computes at once: entries of query[] */
    struct att_index_query query[ATT_INDEX_ROWS_MAX];
    struct tir_value key_offset, scale_offset; /* bytes from a group's first key, and from its first
                                                  scale, to each lane's */
    struct tir_value keys, scales;             /* i64: addresses of the first key and scale */
    struct att_paging paging;                  /* with pages only */
    struct tir_value page_stride;              /* bytes, i64 */
    struct tir_value table;                    /* i64: block table of the row's sequence */
    struct tir_value list, start;              /* if listed: i64 address of the row's list; i32
                                                  first key of the sequence */
    struct tir_value first;                    /* first key that may be read, without a list; i32 */
    struct tir_value last; /* last key that may be read, or last position of the list; i32 */
};

/** True if the machine has a matrix instruction for the variant's keys and number of heads; if not,
 * the reason is in `why`. */
bool att_index_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** True if the machine has the instructions for att_index.pairs, and the variant's scores can use
 * them. */
bool att_index_has_pairs(const struct att_variant *v, const struct tir_machine *m);

/** Returns how a variant's keys are scored. `pairs` sets att_index.pairs. */
struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v, bool pairs);

/** Selects the `n` rows that are scored next, all of one sequence. Keys `first` to `end` - 1 of the
 * sequence (i32) may be read; there is at least one. */
void att_index_rows(struct att_index *x, const struct tir_value *rows, unsigned n,
                    struct tir_value first, struct tir_value end);

/** Returns the sequence (i32 index) whose pages row `row` reads. */
struct tir_value att_index_sequence(struct tir_builder *b, struct tir_value row);

/** A wave's keys in one round: `groups` groups from key `own` (i32) on, which is a multiple of the
 * group. The next round begins `stride` keys later. Loads of keys after the last one are
 * allowed. */
struct att_index_walk {
    struct tir_value own;
    int stride;
    unsigned groups; /* even, and a multiple of `ahead` */
};

/** Returns the number of values that the caller's loop carries for the current rows' loads in
 * flight. */
unsigned att_index_carried(const struct att_index *x);

/** Issues the loads of the round's first groups into `carried`, and loads q and weights of the
 * rows. */
void att_index_send(struct att_index *x, const struct att_index_walk *w, struct tir_value *carried);

/** The consumer of scores. take() gets set `j` of the scores of row `row`, f32, lanes x 1: lane i
 * has the score of key own + lanes j + i. Sets come in ascending order. prepare() is called some
 * time before take() of the same set, and may use all of the consumer's LDS. */
struct att_index_user {
    void (*prepare)(void *context, unsigned row, unsigned j);
    void (*take)(void *context, unsigned row, unsigned j, struct tir_value scores);
    void *context;
};

/** Computes the scores of a round, and issues the loads of the next round into `carried`. The
 * consumer's work on some scores is placed between the products of others, where it costs least. */
void att_index_score(const struct att_index *x, const struct att_index_walk *w,
                     struct tir_value *carried, const struct att_index_user *user);

#endif
