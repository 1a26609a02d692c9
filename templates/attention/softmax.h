/* SPDX-License-Identifier: Apache-2.0
 *
 * The online softmax (Milakov and Gimelshein, arXiv 1805.02867) over transposed scores: S^T is
 * keys x queries, everything per query is a 1 x queries vector.
 */
#ifndef TEMPLATES_ATTENTION_SOFTMAX_H
#define TEMPLATES_ATTENTION_SOFTMAX_H

#include "ir/builder.h"

/** An online softmax: its types, its factor and its limits. */
struct att_softmax {
    /* Type of S^T (f32, keys x queries), and type of a number for each query (f32, 1 x queries). */
    struct tir_type scores, vector;
    /* Type of l in a loop, f32: each lane has one partial sum for each query in place of the scores
     * of its keys. */
    struct tir_type folded;
    /* f32 scalar: factor of a score s in its weight p = 2^(s * exponent - m). */
    struct tir_value exponent;
    /* `exponent` in vector registers, f32, 1 x queries; no value: the loop uses `exponent`. */
    struct tir_value exponents;
    /* f32 scalar: summand by which score * exponent + shift is log2(e) times the logit; no value:
     * 0. The loop leaves it out, and att_softmax_end_maximum() adds it to m. */
    struct tir_value shift;
    float room; /* log2 of the largest p for which m is not updated */
    /* f32 scalar: `room` in a register through the loop; no value: `room` is a constant in the
     * code. */
    struct tir_value threshold;
    /* Log2 of the largest p after an update of m, which is `rise` below the maximum; 0: the largest
     * p is 1. */
    float rise;
    /* True: l and O are 0 as long as m is the lowest number, so alpha is 1 at the first update;
     * false: alpha is 2^(m - m') at every update. */
    bool from_zero;
};

/** Returns the softmax of scores of type `scores`. `exponent` (f32 scalar, not negative) is
 * log2(e), times the scale of the scores if they are not yet scaled. att_softmax_set_cap() changes
 * it. */
struct att_softmax att_softmax(struct tir_builder *b, struct tir_type scores,
                               struct tir_value exponent);

/**
 * Sets room and rise for fp8 weights. An update sets m to `rise` below the maximum, so the largest
 * weight of a row is 28 (fnuz: 15), which fp8 represents exactly. Another number would be rounded
 * alike in all rows, and all outputs would shrink or grow.
 * The maximum may grow by 4 powers of two before the next update: 28 * 16 is 448, fp8's largest
 * number, and 15 * 16 is 240. Weights down to 2^-10.8 of the largest are normal numbers, which
 * begin at 2^-6 (fnuz: 2^-7).
 */
void att_softmax_range_fp8(const struct tir_builder *b, struct att_softmax *s);

/** Returns the running maximum m before the first score, 1 x queries: the lowest number of f32. m
 * is a log2. */
struct tir_value att_softmax_lowest(struct tir_builder *b, const struct att_softmax *s);

/** Returns the rescale check: true if a score of the wave exceeds its query's m by more than the
 * threshold. A scalar i1, or with softmax.threshold an i32, the number of lanes with such a score.
 * Each lane looks only at its own keys. */
struct tir_value att_softmax_grown(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value scores, struct tir_value m);

/** Returns the new maximum m' = max(m, max over j of s_j * exponent), 1 x queries, over the keys of
 * all lanes. `scores` are s_j. */
struct tir_value att_softmax_next(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** The result of a rescale check: `grown` (scalar i1) is true if m was updated for the wave.
 * `alpha` is 2^(m - m'), 1 x queries. */
struct att_softmax_step {
    struct tir_value grown, alpha;
};

/** Updates *m if a score exceeds it by more than the threshold. Any m gives correct results as long
 * as nothing overflows, so for most tiles m stays and O is not rescaled. Only the rarely taken
 * branch exchanges maxima between lanes. If m stays, step.alpha is `alpha`: 1, or tir_undef() if it
 * is read only after an update. */
struct att_softmax_step att_softmax_maximum(struct tir_builder *b, const struct att_softmax *s,
                                            struct tir_value scores, struct tir_value alpha,
                                            struct tir_value *m);

/** Returns the exponents log2 p_j = s_j * exponent - m of the weights of scores s_j, keys x
 * queries. m is 1 x queries. */
struct tir_value att_softmax_exponent(struct tir_builder *b, const struct att_softmax *s,
                                      struct tir_value scores, struct tir_value m);

/** Returns the negated exponents m - s_j * exponent of the weights of scores s_j, keys x queries. m
 * is 1 x queries. */
struct tir_value att_softmax_fall(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** Multiplies *x and *y, which are O and l, by step->alpha in a rarely taken branch. A query may be
 * in other lanes in *x and *y than in alpha. */
void att_softmax_rescale(struct tir_builder *b, const struct att_softmax_step *step,
                         struct tir_value *x, struct tir_value *y);

/** Multiplies *l and *o by step->alpha like att_softmax_rescale(), except in a wave in which every
 * l is 0, as before the first key. O is 0 there too, so nothing is multiplied. */
void att_softmax_rescale_some(struct tir_builder *b, const struct att_softmax_step *step,
                              struct tir_value *l, struct tir_value *o);

/** Returns the loop's running maximum `m`, 1 x queries, plus s->shift. The sum is in the unit of
 * log2(e) times a logit, as parameter m of att_softmax_finish(). */
struct tir_value att_softmax_end_maximum(struct tir_builder *b, const struct att_softmax *s,
                                         struct tir_value m);

/** The factor for O after the loop, and the state from which LSE is computed; all 1 x queries. */
struct att_softmax_end {
    struct tir_value inverse; /* 1 / l, the factor for O; 0 for a query without a visible key */
    /* Running maximum m (log2), and the denominator l as a multiple of 2^m. */
    struct tir_value m, l;
};

/** Adds up l over the lanes, and returns the factor for O. `sink` is the logit that joins the
 * denominator: a scalar, one per query, or no value. Minus infinity means no sink. A sink of
 * infinity has all the weight: inverse is 0 and m infinite. */
struct att_softmax_end att_softmax_finish(struct tir_builder *b, const struct att_softmax *s,
                                          struct tir_value m, struct tir_value l,
                                          struct tir_value sink);

/** Returns the type of a column with an f32 for each query: the transpose of m and l. */
struct tir_type att_softmax_column(struct tir_builder *b, const struct att_softmax *s);

/** Loads the sink (f32) of each query's head, 1 x queries, for att_softmax_finish(). Returns
 * -infinity for all if `final` (i1) is false, since a partial has no sink. `head` (i32, queries x
 * 1): index of each query's head, in the layout of att_softmax_column(). */
struct tir_value att_softmax_sinks(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value head, struct tir_value final);

/** Returns the natural logarithm of the denominator, 1 x queries; -infinity for a query without a
 * visible key. */
struct tir_value att_softmax_lse(struct tir_builder *b, const struct att_softmax_end *e);

/** Returns cap * tanh(s * rate) of scores `s`. `cap` and `rate` are f32 scalars. */
struct tir_value att_soft_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                              struct tir_value rate);

/** Replaces s->exponent and s->shift by those that fit results of att_softmax_cap(). `cap` is the
 * same f32 scalar as there, in units of a logit. Sets them to 2 * cap * log2(e) and cap * log2(e);
 * above a cap of 512, to log2(e) and 0. Call it before s->exponents or another copy is made. */
void att_softmax_set_cap(struct tir_builder *b, struct att_softmax *s, struct tir_value cap);

/** Returns the scores `s` after the soft cap, for a softmax that att_softmax_set_cap() changed.
 * `cap` and `rate` are f32 scalars. A result times the softmax's exponent, plus its shift, is
 * log2(e) * cap * tanh(s * rate). Up to a cap of 512 the result is -1 / (e^(2 s rate) + 1), from -1
 * to 0. So neither the factor 2 cap nor the summand cap takes an instruction for each score. */
struct tir_value att_softmax_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                                 struct tir_value rate);

#endif
