/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over one block of keys after the other, as all families of kernels compute it: S^T = K
 * Q^T, changes of the scores, the online softmax, O^T += V^T P^T. A family says which queries are
 * the columns of S^T (struct att_position). The table of a pipeline has steps of this folder
 * (steps.h), and steps of the family, which load K and V.
 */
#ifndef TEMPLATES_ATTENTION_ATTENTION_H
#define TEMPLATES_ATTENTION_ATTENTION_H

#include "ir/builder.h"
#include "templates/attention/softmax.h"
#include "templates/variant.h"
#include "templates/attention/weight_sum.h"

/** A block of keys. S^T has a row for each key. */
struct att_block {
    struct tir_value index;   /* i32: number of the loop's iteration */
    struct tir_value mask;    /* keys x queries of i8, 0: hidden; for a custom mask only */
    struct tir_value seen;    /* alternative to `mask`: keys x queries of i8, 0: hidden by the mask,
                                 or after the last key. A lane's registers have neighbouring keys */
    struct tir_value hides;   /* i1, with `seen`; false: no key is hidden */
    struct tir_value entries; /* keys x 1 of i32: entries of the sparse list, negative: no key; for
                                 sparse lists only */
    struct tir_value gaps;    /* alternative to `entries`, i32: the number of missing keys;
                                 att_attention.entries() returns which */
};

/** The values that the rescale check compares. */
enum att_check {
    ATT_CHECK_SCORES,   /* scores, before they become weights */
    ATT_CHECK_PREVIOUS, /* scores, while weights are computed with the m of the previous block */
    ATT_CHECK_WEIGHTS   /* weights; S stays live until they are checked */
};

enum {
    ATT_POWER_PARTS = 6 /* each is half of the remaining keys; the last has the rest */
};

/** The exponentials of a block's scores, computed in parts that hold some of its keys each. */
struct att_powers {
    struct tir_value part[ATT_POWER_PARTS]; /* exponents, powers, or powers in 16 bits */
    bool made[ATT_POWER_PARTS], packed[ATT_POWER_PARTS]; /* part[i] has powers; 16-bit powers */
    uint8_t eighths[ATT_POWER_PARTS];                    /* eighths of all keys in each part */
    unsigned n;                                          /* number of parts */
};

/** The weights of a block: in 16 bits, their sum over a lane's keys, and l after the block. */
struct att_p16 {
    struct tir_value p16;
    struct tir_value sum; /* no value: O^T includes l, or the weights are added to l directly */
    struct tir_value l;
};

/** The keys that the queries of a wave see. Values are i32 scalars unless stated. */
struct att_position {
    struct tir_value q_len, kv_len;   /* number of queries and keys of the sequence */
    struct tir_value end;             /* keys from here on do not exist; at most kv_len */
    struct tir_value diagonal;        /* 1 x queries: the key at a query's own position */
    struct tir_value lowest, highest; /* bounds of `diagonal` over the wave's queries */
    struct tir_value reach;           /* for masks that hide early keys: the value of att_reach() */
    struct tir_value right;           /* of a window: keys up to diagonal + right are visible */
    struct tir_value head;            /* query head: a scalar, or 1 x queries */
    struct tir_value mask_row;        /* custom mask: 1 x queries of i64, see att_load_mask() */
    struct tir_value mask; /* i64: address from which mask_row counts; no value: the argument
                              custom_mask */
};

/** Values that the steps of one block (attention/steps.h) pass to each other. */
struct att_now {
    struct att_block block;
    struct tir_value *carried; /* values that the loop carries: [ATT_MOST_CARRY] */
    struct tir_value s, exponent, p, top;
    struct tir_value v, v_rest; /* V^T of the part that is multiplied next; the last rows of V^T */
    struct att_softmax_step step;
    struct att_powers powers;
    struct att_p16 weights;
};

/** The state of a wave in its key loop. */
struct att_attention {
    struct tir_builder *b;
    const struct att_variant *v;
    struct att_softmax softmax;
    struct tir_value score_scale; /* f32, factor from scores to logits; for a soft cap or a hook
                                     only */
    struct att_position at;
    int product;    /* number of the matrix instruction of O += V P */
    unsigned dtype; /* enum tir_dtype of P as its operand */
    void *family;   /* argument of the next two functions */
    /** Returns the first key (i32) of iteration `index`'s block. The builder's stage is set. */
    struct tir_value (*first_key)(void *family, struct tir_value index);
    /** With block.gaps: returns block.entries, which it loads if the block has gaps. */
    struct tir_value (*entries)(void *family, const struct att_block *block);
    struct att_now now;
    struct tir_value most;     /* with ATT_CHECK_WEIGHTS: 2^room in the type of the weights */
    struct att_weight_sum sum; /* sum of the weights by products with sum.ones; no value there: the
                                  loop carries l */
    bool wide_powers;          /* computes each power as exp2 of the negated m - log2 p, an
                             instruction of 8 bytes like its neighbours: for schedules with
                             even_code */
    uint8_t room;              /* value of softmax.room; 0: the default of the weights' type */
    uint8_t check;             /* enum att_check */
    uint8_t late_eighths; /* eighths of the keys whose powers the second part of att_exp2 computes;
                             0: none */
    uint8_t packed_eighths; /* eighths of the keys whose powers are rounded in the first step of
                               att_exp2; requires sum_row */
    bool in_agprs;          /* O^T stays in accumulation registers */
    uint8_t value_parts;    /* number of products O += V P into which a block's keys are divided, a
                               power of two; 0: one */
    bool ties_any;          /* weights are rounded to the nearest with ties in either direction */
    bool cut;               /* weights are truncated, and l is their sum, with sum_row set */
    bool sum_pairs;         /* l is the sum of the rounded weights, which are added two at a time */
    int rest_product;       /* number of the machine's matrix instruction that multiplies `rest` */
    struct tir_type rest;   /* type of the last 8 rows of O^T if a separate product computes them;
                               kind 0: they are rows like the others. Requires ATT_CHECK_PREVIOUS */
    unsigned sum_row; /* first of eight rows of O^T that hold l, so that the loop does not carry l;
                         0: it does */
};

/** Indices of the values that the loop carries: the running maximum m, the denominator l, O^T, and
 * the last rows of O^T if att_attention.rest is set. */
enum att_carry {
    ATT_CARRY_M,
    ATT_CARRY_L,
    ATT_CARRY_O,
    ATT_N_CARRY,
    ATT_CARRY_REST = ATT_N_CARRY,
    ATT_MOST_CARRY
};

/** Sets `carried` to the state before the first key. `output` is the type of O^T. */
void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[]);

/** Prepares `a` for weights of fp8. The caller has called att_attention_scale(), which does not
 * depend on the type of P. */
void att_attention_weights_fp8(struct att_attention *a);

/** Prepares `a` for l as a product of the rounded 16-bit weights with ones. The caller has called
 * att_attention_scale(). */
void att_attention_sum_by_product(struct att_attention *a);

/** Copies to `kept` the values that a loop carries: all of `carried`, without l if O^T includes l.
 * Returns their number. att_attention_unpack() copies them back to `carried`. */
unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY]);
void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY]);

/** Returns `rest`, the last rows of O^T, times `factor`, 1 x queries. */
struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor);

/** True if l is the sum of the rounded weights, which are added two at a time. */
bool att_attention_sums_pairs(const struct att_attention *a);

/** Returns the denominator l after the loop, in the form that att_softmax_finish() takes. */
struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[]);

/** True if a separate product computes the last 8 rows of O^T. */
bool att_attention_has_rest(const struct att_attention *a);

/** True if the loop carries the value with index `which` of enum att_carry. */
bool att_attention_is_carried(const struct att_attention *a, unsigned which);

/** Returns `value`, which is l, O^T or its last rows as `which` says, times `factor`, 1 x
 * queries. */
struct tir_value att_attention_scale_carried(const struct att_attention *a, enum att_carry which,
                                             struct tir_value value, struct tir_value factor);

/** Returns the scores `s` (S^T of a block) as logits, with soft cap, hook and mask applied. */
struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block);

/** True if scores are multiplied by the scale before the softmax. If not, the factor of the
 * exponent includes the scale. */
bool att_scales_scores(const struct att_variant *v);

/** Prepares a->softmax for scores of type `scores`, and sets a->score_scale, from the arguments
 * scale and scale_log2. `k_scale` (f32) is the scale of the whole of K, or has no value. */
void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale);

/** Loads the bytes of a custom mask for a block whose first key is `key` (i32). A query has a row
 * of kv_len bytes, at position.mask_row. Keys from position.end on repeat the last key's byte. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key);

/** True if the mask hides keys before visible keys: a window, or chunks. */
bool att_hides_early(const struct att_variant *v);

/** Returns the first key that the query at `diagonal` (i32 of any shape) sees, for a mask that
 * hides early keys. `reach` is the value of att_reach(). The result may be negative. */
struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal);

/** Returns the argument (i32) of a mask that hides early keys: a window's distance, or the bit mask
 * that rounds a key down to its chunk's first key. */
struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v);

/** True if a query sees no keys after its own position, or after a fixed distance from its
 * position. */
bool att_hides_late(const struct att_variant *v);

/** Returns an i1 for the wave: true if one of its `entries` of a sparse list is negative, which
 * means no key. */
struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries);

/** Returns position.mask_row of queries `query` (1 x queries, i32), which count from the first
 * query of sequence `sequence` (i32). */
struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query);

#endif
