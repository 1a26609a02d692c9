/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of a row's weights by the matrix unit, of the weights as the product with V takes them.
 * The vector unit would take an instruction for each weight, and is what limits attention of fp8.
 *
 * A product with 32 columns would have ones in 32 rows, for one row of sums. The instruction with
 * 16 columns takes the same registers of P^T as twice as many keys of half the queries: lanes 16 to
 * 31 and 48 to 63, which hold queries 16 to 31, count as the second half of the keys. Its first
 * eight rows have ones for the first half only, the others for the second.
 */
#ifndef TEMPLATES_ATTENTION_WEIGHT_SUM_H
#define TEMPLATES_ATTENTION_WEIGHT_SUM_H

#include "ir/builder.h"

struct att_weight_sum {
    int product;           /* the matrix instruction */
    unsigned keys;         /* of a block, where half of the queries count as keys; 0: all queries
                              are columns */
    struct tir_value ones; /* 16 x twice the keys where half of the queries count as keys, else 16 x
                              the keys; no value: weights are not summed by products */
    struct tir_type sums;  /* f32, 16 x half of the queries where these count as keys, else 16 x the
                              queries; carried by the loop */
};

/** Initialises the sum for P^T of fp8 in the layout of `scores`, keys x queries of a matrix
 * instruction with 32 columns. Queries are split among waves. */
struct att_weight_sum att_weight_sum_folded(struct tir_builder *b, struct tir_type scores);

/** Initialises the sum for P^T of type `dtype`, fp8 or a type of 16 bits, in the layout of
 * `scores`. `product` is the number of a matrix instruction with 16 rows and columns. */
struct att_weight_sum att_weight_sum_whole(struct tir_builder *b, struct tir_type scores,
                                           int product, unsigned dtype);

/** Adds the weights of a block, keys x queries of the type of s->ones, to `sums`. */
struct tir_value att_weight_sum_add(struct tir_builder *b, const struct att_weight_sum *s,
                                    struct tir_value weights, struct tir_value sums);

/** Multiplies the sums by `factor`, 1 x queries. */
struct tir_value att_weight_sum_scale(struct tir_builder *b, const struct att_weight_sum *s,
                                      struct tir_value sums, struct tir_value factor);

/** Converts the sums to the layout of `vector`, 1 x queries. */
struct tir_value att_weight_sum_vector(struct tir_builder *b, const struct att_weight_sum *s,
                                       struct tir_value sums, struct tir_type vector);

#endif
