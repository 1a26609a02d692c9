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
    struct tir_type folded;         /* what l is kept as: one row per row bit that lanes hold */
    struct tir_value exponent;      /* p = 2^(s * exponent - m) */
    struct tir_value exponents;     /* the same as 1 x queries, where a loop keeps it in lanes */
    float room;                     /* log2 of the largest p: where one is above, m follows */
    struct tir_value threshold;     /* f32: room, where the loop keeps it in a register */
    float rise;     /* log2 of the largest p after that: m is this far below the maximum */
    bool from_zero; /* l and O are 0 while m is the lowest: alpha is 1 where it first follows */
};

/** For scores of this type; `exponent` is a scalar f32 >= 0: log2(e), times the scale where the
 * scores are raw. */
struct att_softmax att_softmax(struct tir_builder *b, struct tir_type scores,
                               struct tir_value exponent);

/**
 * Sets room and rise for weights in fp8. m follows to rise below the maximum: the largest weight of
 * a row is then 28, or 15 of fnuz, which fp8 has exactly. Any other number would be rounded the
 * same way in all rows, and all outputs would shrink or grow with it.
 *
 * The maximum may grow by 4 powers of two before m follows again: 28 * 16 is fp8's largest number,
 * 448, and 15 * 16 is 240. Where exp2 is a little high, these are the nearest numbers still: the
 * next ones would be 480 and 256. Weights down to 2^-10.8 of the largest have all of fp8's bits:
 * its normal numbers begin at 2^-6, and 2^-7 of fnuz.
 */
void att_softmax_range_fp8(const struct tir_builder *b, struct att_softmax *s);

/** m before the first score: 1 x queries. m is in powers of two. */
struct tir_value att_softmax_lowest(struct tir_builder *b, const struct att_softmax *s);

/** Has the maximum of some query of the wave grown past the threshold? A scalar i1, or i32 with
 * softmax.threshold: how many lanes say so. Each lane asks for the keys that it holds itself. */
struct tir_value att_softmax_grown(struct tir_builder *b, const struct att_softmax *s,
                                   struct tir_value scores, struct tir_value m);

/** m' = max(m, max_j s_j exponent), which lanes exchange. */
struct tir_value att_softmax_next(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** Did the maximum of some query of the wave follow (scalar i1), and 2^(m - m'): 1 x queries. */
struct att_softmax_step {
    struct tir_value grown, alpha;
};

/**
 * m follows, but only where the maximum of some query has grown past the threshold: any m will do
 * as long as nothing overflows, and O then needs no rescaling for most tiles. The exchange between
 * lanes is in a branch that is not expected to be taken. `alpha` is step.alpha where m stays: 1, or
 * tir_undef() for those who look at it only where it has grown.
 */
struct att_softmax_step att_softmax_maximum(struct tir_builder *b, const struct att_softmax *s,
                                            struct tir_value scores, struct tir_value alpha,
                                            struct tir_value *m);

/** log2 p_j = s_j exponent - m. */
struct tir_value att_softmax_exponent(struct tir_builder *b, const struct att_softmax *s,
                                      struct tir_value scores, struct tir_value m);

/** m - s_j exponent. */
struct tir_value att_softmax_fall(struct tir_builder *b, const struct att_softmax *s,
                                  struct tir_value scores, struct tir_value m);

/** O and l, or l and O, follow the maximum, in a branch that is not expected to be taken. The
 * columns of either may lie in other lanes than alpha's. */
void att_softmax_rescale(struct tir_builder *b, const struct att_softmax_step *step,
                         struct tir_value *x, struct tir_value *y);

/** The factor for O, and the state that LSE is made of. */
struct att_softmax_end {
    struct tir_value inverse; /* 1 / l, 0 for a query that saw no key */
    struct tir_value m, l;    /* m in powers of two; l relative to 2^m */
};

/** Sums l over the lanes; `sink` is the logit that joins the denominator, a scalar or one per
 * query, or no value. Minus infinity is no sink; infinity takes all weight: inverse is 0, m
 * infinite. */
struct att_softmax_end att_softmax_finish(struct tir_builder *b, const struct att_softmax *s,
                                          struct tir_value m, struct tir_value l,
                                          struct tir_value sink);

/** Natural log of the denominator, -inf for a query that saw no key. 1 x queries. */
struct tir_value att_softmax_lse(struct tir_builder *b, const struct att_softmax_end *e);

/** cap * tanh(s * rate), scores in and out; cap and rate are scalars. */
struct tir_value att_soft_cap(struct tir_builder *b, struct tir_value s, struct tir_value cap,
                              struct tir_value rate);

#endif
