/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the `decode` template share.
 */
#ifndef TEMPLATES_DECODE_H
#define TEMPLATES_DECODE_H

#include "ir/builder.h"
#include "ir/matrix.h"
#include "templates/softmax.h"
#include "templates/variant.h"

/* Tokens that one buffer resource covers: pages are multiples of it, or powers of two below. */
enum { DECODE_BLOCK = 16, DECODE_MAX_BLOCKS = 4 };

/* One of K and V: where its pages are and how a wave holds a tile of it. */
struct decode_cache {
    const char *name;
    unsigned width; /* head_dim or head_dim_v */
    struct tir_layout block; /* of DECODE_BLOCK tokens x width, as loaded */
    struct tir_value base;   /* i64: the tensor at this kv head */
    struct tir_value page_stride, token_stride; /* bytes: i64, i32 */
};

/* What a workgroup works on: some queries of a sequence, over a range of its keys, for the query
 * heads of one kv head. Scalars, uniform over the workgroup. */
struct decode_item {
    struct tir_value sequence, kv_head;
    struct tir_value kv_len, first_key, end_key;
    struct tir_value first_token, end_token; /* queries, as rows of q */
    struct tir_value diagonal; /* the last key that the query at row 0 of q would see */
    struct tir_value partial;  /* row of partial_out, or -1: write the result */
    struct tir_value table;    /* i64: the sequence's page numbers */
};

struct decode {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype, kv_dtype, kv_bytes; /* of an element of the cache */
    unsigned waves;
    unsigned keys;     /* of a tile, a multiple of DECODE_BLOCK */
    unsigned columns;  /* queries x heads that are worked on at once */
    int qk, pv;        /* matrix instructions */
    struct tir_contraction depth; /* of K Q: head_dim */

    struct decode_cache k, value;
    struct tir_layout v_operand; /* V as the left operand of O^T = V^T P^T: keys x dv */
    struct tir_type scores, output;
    struct att_softmax softmax;
    struct tir_value lds;

    struct tir_value wave, gqa;
    struct decode_item item;
    struct tir_value first_row; /* of the item's queries x heads: column 0 */
    struct tir_value n_rows;
    struct tir_value q;
};

/* decode_load.c */

/** Layouts of K and V as they are loaded and used; before anything is built. */
void decode_choose_layouts(struct decode *d);
/** The cache at the item's kv head. */
void decode_find_cache(struct decode *d);
/** log2 of the tokens in a page. */
struct tir_value decode_page_shift(struct decode *d);
/** Page numbers of a tile's blocks of keys; those beyond the last key's repeat it. */
void decode_find_pages(struct decode *d, struct tir_value key,
                       struct tir_value pages[DECODE_MAX_BLOCKS]);
/** Starts K of a tile on its way: keys x head_dim. Keys beyond the end read as 0. */
struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct tir_value pages[DECODE_MAX_BLOCKS]);
struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct tir_value pages[DECODE_MAX_BLOCKS]);
/** A tile of V as the left operand of O^T += V^T P^T. */
struct tir_value decode_turn_v(struct decode *d, struct tir_value loaded);

/* decode_merge.c */

/** A wave's state over its keys. l is 1 x columns. */
struct decode_state {
    struct tir_value m, l, o;
};

/** LDS that decode_merge() needs. */
unsigned decode_merge_bytes(const struct decode *d);
/** The states of all waves become one, in wave 0. Every wave takes part. */
void decode_merge(struct decode *d, struct decode_state *s);
/** Wave 0 writes the item's result or partial result. */
void decode_write(struct decode *d, struct decode_state *s);

/* decode.c */

/** Which query and head a column is: sequence-major over tokens, then heads of the kv head. */
struct decode_rows {
    struct tir_value row;   /* clamped to the last */
    struct tir_value token; /* row of q */
    struct tir_value head;  /* query head */
    struct tir_value valid; /* i1: not beyond the last */
};

/** For a vector of column numbers, i32 of any shape. */
struct decode_rows decode_rows(struct decode *d, struct tir_value column);

#endif
