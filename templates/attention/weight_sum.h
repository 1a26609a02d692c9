/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of a query's weights by the matrix unit, which adds the rounded weights that are
 * multiplied with V. The vector unit would need an instruction for each weight, and it limits
 * attention of fp8.
 *
 * The left operand is ones, and all rows of a product are the same sum. A product of 32 rows would
 * compute each sum 32 times. An instruction of 16 rows and columns reads the same registers of P^T
 * as twice as many keys of half the queries. Lanes 16 to 31 and 48 to 63, which hold queries 16 to
 * 31, are then the second half of the keys. The first eight rows have ones for the first half of
 * the keys only, and the other rows for the second half.
 */
#ifndef TEMPLATES_ATTENTION_WEIGHT_SUM_H
#define TEMPLATES_ATTENTION_WEIGHT_SUM_H

#include "ir/builder.h"

/** The sum of a query's weights P by a matrix instruction. */
struct att_weight_sum {
    int product; /* index in tir_machine.mma of the matrix instruction */
    /* Number of keys of a block, if the upper half of the queries counts as further keys of the
     * lower half; 0: all queries are columns. */
    unsigned keys;
    /* Left operand: 16 x (2 * keys) if half of the queries count as keys, else 16 x keys; no value:
     * weights are not summed by products. */
    struct tir_value ones;
    /* Type of the sums that the loop carries: f32, 16 x half of the queries if half count as keys,
     * else 16 x queries. */
    struct tir_type sums;
};

/** Returns the description of a sum of weights P of fp8, in the layout of `scores`: keys x queries
 * of a matrix instruction with 32 columns. Half of the queries of a wave count as further keys of
 * the other half. */
struct att_weight_sum att_weight_sum_folded(struct tir_builder *b, struct tir_type scores);

/** Returns the description of a sum of weights P of type `dtype` (fp8 or 16 bits), in the layout of
 * `scores`. All queries are columns. `product`: index in tir_machine.mma of an instruction with 16
 * rows and columns. */
struct att_weight_sum att_weight_sum_whole(struct tir_builder *b, struct tir_type scores,
                                           int product, unsigned dtype);

/** Returns `sums` plus the weights of a block, keys x queries of the type of s->ones. */
struct tir_value att_weight_sum_add(struct tir_builder *b, const struct att_weight_sum *s,
                                    struct tir_value weights, struct tir_value sums);

/** Returns `sums` times `factor`, 1 x queries. */
struct tir_value att_weight_sum_scale(struct tir_builder *b, const struct att_weight_sum *s,
                                      struct tir_value sums, struct tir_value factor);

/** Returns `sums` in the layout of type `vector`, 1 x queries. */
struct tir_value att_weight_sum_vector(struct tir_builder *b, const struct att_weight_sum *s,
                                       struct tir_value sums, struct tir_type vector);

#endif
