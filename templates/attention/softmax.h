/* SPDX-License-Identifier: Apache-2.0
 *
 * The online softmax (Milakov and Gimelshein, arXiv 1805.02867) over transposed scores: S^T is
 * keys x queries, everything per query is a 1 x queries vector.
 */
#ifndef TEMPLATES_ATTENTION_SOFTMAX_H
#define TEMPLATES_ATTENTION_SOFTMAX_H

#include "ir/builder.h"

struct att_softmax {
    struct tir_type scores, vector; /* f32: keys x queries; 1 x queries */
    struct tir_type folded;         /* type of l in a loop: scores with the rows in a lane's
                                       registers folded to one */
    struct tir_value exponent;      /* p = 2^(s * exponent - m) */
    struct tir_value exponents;     /* `exponent` as 1 x queries, if a loop keeps it in lanes */
    float room;                     /* log2 of the largest p allowed; a larger one updates m */
    struct tir_value threshold;     /* f32: `room` in a register of the loop; none: a constant */
    float rise;     /* log2 of the largest p after an update: m is this far below the maximum */
    bool from_zero; /* l and O are 0 while m is the lowest, so alpha is 1 at the first update */
};

/** Initialises a softmax for scores of this type. `exponent` is a scalar f32 >= 0: log2(e), times
 * the scale if the scores are raw. */
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

/** Returns m before the first score: 1 x queries. m is in powers of two. */
struct tir_value att_softmax_lowest(struct tir_builder *b, const struct att_softmax *s);

/** Makes the rescale check: returns whether the maximum of some query of the wave exceeds the
 * threshold. The result is a scalar i1, or with softmax.threshold an i32 that counts lanes. Each
 * lane looks only at its own keys. */
struct tir_value att_softmax_grown(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value scores, struct tir_value m);

/** Returns m' = max(m, max_j s_j exponent), exchanged between lanes. */
struct tir_value att_softmax_next(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** The result of a rescale check: whether m was updated for the wave (scalar i1), and 2^(m - m'), 1
 * x queries. */
struct att_softmax_step {
    struct tir_value grown, alpha;
};

/**
 * Updates m, but only if the rescale check demands it. Any m is correct as long as nothing
 * overflows, and for most tiles O then needs no rescaling. The exchange between lanes is in the
 * rarely taken branch. `alpha` is step.alpha if m stays: 1, or tir_undef() if alpha is read only
 * after an update.
 */
struct att_softmax_step att_softmax_maximum(struct tir_builder *b, const struct att_softmax *s,
                                            struct tir_value scores, struct tir_value alpha,
                                            struct tir_value *m);

/** Returns log2 p_j = s_j exponent - m. */
struct tir_value att_softmax_exponent(struct tir_builder *b, const struct att_softmax *s,
                                      struct tir_value scores, struct tir_value m);

/** Returns m - s_j exponent, the negated exponent. */
struct tir_value att_softmax_fall(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** Multiplies O and l by alpha in a rarely taken branch. The columns of either may be in other
 * lanes than alpha's. */
void att_softmax_rescale(struct tir_builder *b, const struct att_softmax_step *step,
                         struct tir_value *x, struct tir_value *y);

/** Multiplies l and O by alpha like att_softmax_rescale(), except in a wave in which every l is 0,
 * as before the first key: its O is 0 too. */
void att_softmax_rescale_some(struct tir_builder *b, const struct att_softmax_step *step,
                              struct tir_value *l, struct tir_value *o);

/** The factor for O, and the state from which LSE is computed. */
struct att_softmax_end {
    struct tir_value inverse; /* 1 / l; 0 for a query without a visible key */
    struct tir_value m, l;    /* m in powers of two; l relative to 2^m */
};

/** Sums l over the lanes. `sink` is the logit that joins the denominator: a scalar, one per query,
 * or no value. Minus infinity is no sink. Infinity takes all weight: inverse is 0, m infinite. */
struct att_softmax_end att_softmax_finish(struct tir_builder *b, const struct att_softmax *s,
                                          struct tir_value m, struct tir_value l,
                                          struct tir_value sink);

/** Returns the natural log of the denominator, 1 x queries; -inf for a query without a visible
 * key. */
struct tir_value att_softmax_lse(struct tir_builder *b, const struct att_softmax_end *e);

/** Returns cap * tanh(s * rate). cap and rate are scalars. */
struct tir_value att_soft_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                              struct tir_value rate);

#endif
