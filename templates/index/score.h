/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of the sparse indexer: of one query row against keys,
 *
 *     score(n) = ks[n] * sum over heads h of w[h] * relu(q[h] . k[n])
 *
 * with q and k in fp8, or k in mxfp4 and ks 1. The row's q is the left operand of the matrix
 * product and stays in registers; each wave has keys of its own, which go from memory to the right
 * operand as they are. Two rows of one sequence can share the keys that a wave reads.
 *
 * With `pairs` products are scaled by a power of two, so that none is above 1, and rounded to f16:
 * one instruction does that and the relu for two of them, and another one multiplies two with their
 * weights, f16 too, and adds them up in f32.
 *
 * A wave walks its keys in groups; the next round's keys are on their way while one is scored, and
 * the page numbers of the round after that. What is on its way is carried through the caller's
 * loop.
 */
#ifndef TEMPLATES_INDEX_SCORE_H
#define TEMPLATES_INDEX_SCORE_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/cache/paging.h"

enum {
    ATT_INDEX_DIM = 128,                     /* elements of a head and of a key */
    ATT_INDEX_GROUP = 32,                    /* keys of a matrix product */
    ATT_INDEX_PARTS = 4,                     /* of a key, at most: loads of a lane */
    ATT_INDEX_CARRIED = ATT_INDEX_PARTS + 2, /* values of a group on its way */
    ATT_INDEX_BLOCKS_MAX = 4,
    ATT_INDEX_ROWS_MAX = 2,
    ATT_INDEX_AHEAD_MAX = 4,   /* groups on their way */
    ATT_INDEX_GROUPS_MAX = 16, /* of a round */
    ATT_INDEX_CARRIED_MAX = ATT_INDEX_AHEAD_MAX * ATT_INDEX_CARRIED,
};

/** A row: keys are multiplied with it. */
struct att_index_query {
    struct tir_value row;
    struct tir_value q[ATT_INDEX_BLOCKS_MAX][2 * ATT_INDEX_PARTS];
    struct tir_value weights[ATT_INDEX_BLOCKS_MAX]; /* f32; or, of `pairs`: */
    struct tir_value weight_pairs[ATT_INDEX_BLOCKS_MAX][2 * ATT_INDEX_PARTS];
    struct tir_value scale;   /* e8m0, of products, in an i32 */
    struct tir_value unscale; /* f32, what a sum is to be multiplied with */
};

struct att_index {
    struct tir_builder *b;
    bool paged, shuffle;
    bool listed;         /* keys are those of a list of blocks */
    unsigned block_size; /* of the list */
    bool by_lane;        /* a group need not lie in one page */
    bool mxfp4;          /* keys in the cache */
    bool pairs;
    unsigned parts;         /* of a key: loads of a lane */
    unsigned heads, blocks; /* of so many rows of the matrix product */
    int mma;
    unsigned slices;                    /* matrix instructions of a product */
    unsigned ahead;                     /* groups on their way */
    struct tir_type lane;               /* i32, 64 x 1: a row a lane */
    struct tir_layout halves;           /* 64 x 2: a row a lane */
    struct tir_type chunk;              /* what a lane loads at once: 64 x 16 bytes */
    struct tir_type products;           /* f32, 32 x 32 */
    struct tir_value lane_index, token; /* of each lane: its number, and that modulo 32 */
    unsigned rows;                      /* that keys are scored for at once */
    struct att_index_query query[ATT_INDEX_ROWS_MAX];
    struct tir_value key_offset, scale_offset; /* of each lane in a group, bytes */
    struct tir_value keys, scales;             /* addresses */
    struct att_paging paging;                  /* where there are pages */
    struct tir_value page_stride;              /* bytes, i64 */
    struct tir_value table;                    /* of the row's sequence */
    struct tir_value list, start;              /* of the row, if listed: address; first key */
    struct tir_value first; /* the first key that may be read, where it is no list's; i32 */
    struct tir_value last;  /* the last key that may be read, or the last place of the list; i32 */
};

/** Is there a matrix instruction for so many heads? */
bool att_index_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** Has the machine what scores in pairs take? */
bool att_index_has_pairs(const struct att_variant *v, const struct tir_machine *m);

struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v, bool pairs);

/** Scores are for n rows of one sequence from now on; keys `first` up to `end` - 1 of it may be
 * read, of which there is at least one. */
void att_index_rows(struct att_index *x, const struct tir_value *rows, unsigned n,
                    struct tir_value first, struct tir_value end);

/** The sequence of a row, with pages. */
struct tir_value att_index_sequence(struct tir_builder *b, struct tir_value row);

/** A wave's keys of one round: `groups` groups from key `own` on, a multiple of the group, and in
 * each following round as many, `stride` keys further. Keys beyond the last may be asked for. */
struct att_index_walk {
    struct tir_value own;
    int stride;
    unsigned groups; /* even, and a multiple of `ahead` */
};

/** Returns how many values the caller's loop carries for loads that are under way, of the rows that
 * scores are for. */
unsigned att_index_carried(const struct att_index *x);

/** Sends for the first groups of the round, and reads q and weights. */
void att_index_send(struct att_index *x, const struct att_index_walk *w, struct tir_value *carried);

/** take() gets 64 scores of a row, f32, 64 x 1: those of keys own + 64 j on, in ascending order of
 * j. prepare() is called some time before: it has the LDS for itself. */
struct att_index_user {
    void (*prepare)(void *context, unsigned row, unsigned j);
    void (*take)(void *context, unsigned row, unsigned j, struct tir_value scores);
    void *context;
};

/** The scores of a round; keys of the following round are sent for meanwhile. What `user` does with
 * some lies between the products of others, where it costs least. */
void att_index_score(const struct att_index *x, const struct att_index_walk *w,
                     struct tir_value *carried, const struct att_index_user *user);

#endif
