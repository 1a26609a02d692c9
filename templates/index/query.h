/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares loads of q and weights for the sparse indexer's scores, and splits of tiles of
 * q, keys and products. query.c has the code; score.c calls it.
 */
#ifndef TEMPLATES_INDEX_QUERY_H
#define TEMPLATES_INDEX_QUERY_H

#include "templates/index/score.h"

enum { ATT_INDEX_VECTOR = 16 /* bytes of a load */ };

/** Returns slice `s` (index) of an operand of the product, q or keys: the elements that one matrix
 * instruction multiplies, of `rows` rows. chunks[] are the loads of the operand; a lane has
 * ATT_INDEX_VECTOR bytes of each. */
struct tir_value att_index_slice_of(const struct att_index *x, const struct tir_value *chunks,
                                    unsigned s, unsigned rows);

/** Splits a tile `a` of products, or of weights in its layout, into four tiles, out[]. Each has a
 * quarter of the rows and registers of its own. */
void att_index_cut(const struct att_index *x, struct tir_value a,
                   struct tir_value out[ATT_INDEX_FOURTHS]);

/** Splits `fourth`, a quarter of a tile of products, into four rows of 1 x lanes, out[]. The two
 * halves of the lanes have different rows of the product. */
void att_index_cut_rows(const struct att_index *x, struct tir_value fourth,
                        struct tir_value out[ATT_INDEX_FOURTHS]);

/** Issues the loads of q and the weights of row own->row of scores into `own`. */
void att_index_load_query(struct att_index *x, struct att_index_query *own);

/** Computes own->scale, own->unscale and own->weight_pairs from q and the weights, for
 * att_index.pairs. */
void att_index_scale_pairs(const struct att_index *x, struct att_index_query *own);

#endif
