/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over one block of keys after the other, as all families compute it: S^T = K Q^T, what
 * is done to the scores, the online softmax, O^T += V^T P^T. A family says which queries are the
 * columns of S^T (struct att_position), and a pipeline's table has its
 * steps: this folder's (steps.h), and its own, which bring K and V.
 */
#ifndef TEMPLATES_ATTENTION_ATTENTION_H
#define TEMPLATES_ATTENTION_ATTENTION_H

#include "ir/builder.h"
#include "templates/attention/softmax.h"
#include "templates/variant.h"
#include "templates/attention/weight_sum.h"

/** A block of keys. S^T has a row for each key. */
struct att_block {
    struct tir_value index; /* i32: number of the loop's iteration */
    struct tir_value
        mask; /* keys x queries of i8, 0: hidden. Set by `fetch_keys`, for a custom mask only */
    struct tir_value seen;    /* in place of `mask`: keys x queries of i8, 0: hidden by the mask, or
                               after the last key. A lane has neighbouring keys in its registers */
    struct tir_value hides;   /* i1, with `seen`; false: all bytes of the wave are 1, so no key is
                                 hidden */
    struct tir_value entries; /* keys x 1 of i32: entries of the sparse list, negative: no key.
                                 Set for sparse lists only */
    struct tir_value gaps;    /* in place of `entries`, i32: the number of missing keys;
                                 source.entries then says which */
};

/** The values that the rescale check compares. */
enum att_check {
    ATT_CHECK_SCORES,   /* scores, before they become weights */
    ATT_CHECK_PREVIOUS, /* scores, while weights are computed with the m of the previous block */
    ATT_CHECK_WEIGHTS   /* weights; S stays live until they are checked */
};

enum { ATT_POWER_PARTS = 6 /* each is half of the rest; the last one is the rest */ };

/** The exponentials of a block's scores, computed in parts that hold some of its keys each. */
struct att_powers {
    struct tir_value part[ATT_POWER_PARTS]; /* exponents, powers, or powers in 16 bits */
    bool made[ATT_POWER_PARTS], packed[ATT_POWER_PARTS]; /* part[i] has powers; has 16-bit ones */
    uint8_t eighths[ATT_POWER_PARTS];                    /* eighths of all keys in each part */
    unsigned n;                                          /* parts */
};

/** The 16-bit weights of a block, the sum of these in a lane, and l after the block. */
struct att_p16 {
    struct tir_value p16;
    struct tir_value sum; /* no value if O^T includes l, or if the block is added to l at once */
    struct tir_value l;
};

/** The range of keys that a query sees. All are i32, and scalars unless stated. */
struct att_position {
    struct tir_value q_len, kv_len;   /* of the sequence */
    struct tir_value end;             /* keys from here on do not exist; at most kv_len */
    struct tir_value diagonal;        /* 1 x queries: the key at a query's own position */
    struct tir_value lowest, highest; /* bounds of `diagonal` over the wave's queries */
    struct tir_value reach;           /* for masks that hide early keys: see att_first_seen() */
    struct tir_value right;           /* of a window: keys up to diagonal + right are visible */
    struct tir_value head;            /* query head: a scalar, or 1 x queries */
    struct tir_value mask_row;        /* custom mask: 1 x queries of i64, see att_load_mask() */
    struct tir_value mask; /* i64: address from which mask_row counts; no value: the argument
                              custom_mask */
};

/** Values that the steps of one block pass to each other: see attention/steps.h. */
struct att_now {
    struct att_block block;
    struct tir_value *carried; /* values that the loop carries: [ATT_MOST_CARRY] */
    struct tir_value s, exponent, p, top;
    struct tir_value v, v_rest; /* V^T of the part multiplied next; its last rows */
    struct att_softmax_step step;
    struct att_powers powers;
    struct att_p16 weights;
};

/** The state of a wave in its key loop. */
struct att_attention {
    struct tir_builder *b;
    const struct att_variant *v;
    struct att_softmax softmax;
    struct tir_value score_scale; /* f32, converts scores to logits: for a cap or a hook only */
    struct att_position at;
    int product;    /* matrix instruction of O += V P */
    unsigned dtype; /* of P as its operand */
    void *family;   /* argument of the next two functions */
    /** Returns the first key of a block, i32. Called wherever it is needed, with the stage set. */
    struct tir_value (*first_key)(void *family, struct tir_value index);
    /** For block.gaps: returns block.entries, loaded if there are gaps. */
    struct tir_value (*entries)(void *family, const struct att_block *block);
    struct att_now now;
    struct tir_value most;     /* with ATT_CHECK_WEIGHTS: 2^room in the type of the weights */
    struct att_weight_sum sum; /* sum of the weights by products with `ones`; where these have no
                                  value, the loop carries l */
    bool wide_powers;          /* computes each power as exp2 of the negated m - log2 p, an
                             instruction of 8 bytes like its neighbours: for schedules with
                             even_code */
    uint8_t room;              /* softmax.room; 0: the default of the weights' type */
    uint8_t check;             /* enum att_check */
    uint8_t late_eighths; /* eighths of the keys whose powers the second part of att_exp2 computes;
                             0: none */
    uint8_t packed_eighths; /* eighths of the keys whose powers are rounded in the first step, if
                               only O^T adds them */
    bool in_agprs;          /* O^T stays in accumulation registers */
    uint8_t value_parts;    /* number of products O += V P for a block's keys, a power of two; 0
                               and 1: one */
    bool ties_any;          /* weights are rounded to the nearest with ties in either direction */
    bool cut;               /* weights are truncated, and l is their sum, with sum_row set */
    bool sum_pairs;         /* l is the sum of the rounded weights, which are added two at a time */
    int rest_product;       /* number of the machine's matrix instruction that multiplies `rest` */
    struct tir_type rest;   /* type of the last 8 rows of O^T if they are a separate product; of no
                             kind: they are rows like the others. Requires ATT_CHECK_PREVIOUS */
    unsigned sum_row; /* first of eight rows of O^T that hold l, which is then not carried; 0: l
                             is carried */
};

/** Values that the loop carries: the running maximum, the denominator, O^T, and with `rest` its
 * last rows. */
enum att_carry {
    ATT_CARRY_M,
    ATT_CARRY_L,
    ATT_CARRY_O,
    ATT_N_CARRY,
    ATT_CARRY_REST = ATT_N_CARRY,
    ATT_MOST_CARRY
};

/** Initialises the state before the first key. `output` is the type of O^T. */
void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[]);

/** Sets up fp8 weights, after att_attention_scale(), which does not depend on P's type. */
void att_attention_weights_fp8(struct att_attention *a);

/** Sets up l as a product of the rounded 16-bit weights with ones, after att_attention_scale(). */
void att_attention_sum_by_product(struct att_attention *a);

/** Copies to `kept` the values of the state that a loop carries: all, or all but l if O^T includes
 * it. Returns their number. att_attention_unpack() is the inverse. */
unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY]);
void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY]);

/** Multiplies the rows `rest` of O^T by a factor, 1 x queries. */
struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor);

/** True if l is the sum of rounded weights, added two at a time. */
bool att_attention_sums_pairs(const struct att_attention *a);

/** Returns the denominator after the loop, for att_softmax_finish(). */
struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[]);

/** True if the last 8 rows of O^T are a separate product. */
bool att_attention_has_rest(const struct att_attention *a);

/** True if the loop carries member `which` of enum att_carry. */
bool att_attention_is_carried(const struct att_attention *a, unsigned which);

/** Multiplies l, O or its last rows by a factor, 1 x queries. */
struct tir_value att_attention_scale_carried(const struct att_attention *a, enum att_carry which,
                                             struct tir_value value, struct tir_value factor);

/** Returns S^T of a block as logits, with soft cap, hook and mask applied. */
struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block);

/** True if scores are scaled before the softmax. Otherwise the exponent includes the scale. */
bool att_scales_scores(const struct att_variant *v);

/**
 * Initialises the softmax for scores of this type. `k_scale` (f32) is the scale of the whole of K,
 * or no value. Sets `softmax` and `score_scale`, and reads the arguments scale and scale_log2.
 */
void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale);

/** Loads the bytes of a custom mask for a block that begins at `key`. Query t of a sequence has its
 * kv_len bytes at position.mask_row. Keys from position.end on repeat the last key's byte. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key);

/** True if the mask hides keys before visible ones: a window, or chunks. */
bool att_hides_early(const struct att_variant *v);

/** Returns the first key that the query at `diagonal` (i32 of any shape) sees, with a mask for
 * which att_hides_early() is true. The result may be negative. */
struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal);

/** Returns the argument `reach` of a mask that hides early keys, i32: a window's distance, or
 * the bit mask of a chunk's size. */
struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v);

/** True if a query sees no keys after its own position, or after a distance from it. */
bool att_hides_late(const struct att_variant *v);

/** Returns an i1 for the wave: true if one of its `entries` of a sparse list is negative, hence
 * no key. */
struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries);

/** Returns position.mask_row. `query` (1 x queries, i32) counts from the sequence's first. */
struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query);

#endif
