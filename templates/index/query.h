/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares loads of a row's q and weights for the sparse indexer's scores, and splits of
 * tiles of q, keys and products. query.c has the code; score.c calls it.
 */
#ifndef TEMPLATES_INDEX_QUERY_H
#define TEMPLATES_INDEX_QUERY_H

#include "templates/index/score.h"

enum { ATT_INDEX_VECTOR = 16 /* bytes of a load */ };

/** Returns slice s of a product's contraction, rows x K of one instruction: of q, or of keys.
 * `chunks` are the operand as it was loaded. A lane has ATT_INDEX_VECTOR bytes of each. */
struct tir_value att_index_slice_of(const struct att_index *x, const struct tir_value *chunks,
                                    unsigned s, unsigned rows);

/** Splits a tile of products into four tiles of a quarter of its rows each. Each quarter has
 * registers of its own. */
void att_index_cut(const struct att_index *x, struct tir_value a,
                   struct tir_value out[ATT_INDEX_FOURTHS]);

/** Splits a quarter of a tile of products into single rows, 1 x lanes. Its rows in the second
 * half of the lanes differ from the first half's. */
void att_index_cut_rows(const struct att_index *x, struct tir_value fourth,
                        struct tir_value out[ATT_INDEX_FOURTHS]);

/** Loads q and the weights of row own->row into `own`. */
void att_index_load_query(struct att_index *x, struct att_index_query *own);

/** Computes own->scale, unscale and weight_pairs, for scores in pairs (att_index.pairs). */
void att_index_scale_pairs(const struct att_index *x, struct att_index_query *own);

#endif
