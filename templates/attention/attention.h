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

/** A block of keys: S^T has a row for each. */
struct att_block {
    struct tir_value index; /* i32: number of the loop's iteration */
    struct tir_value
        mask; /* keys x queries of i8, 0: hidden. Set by `fetch_keys`, custom mask only */
    struct tir_value entries; /* keys x 1 of i32, below 0: no key. Set for sparse lists only */
    struct tir_value gaps;    /* or i32: how many these are, and source.entries says which */
};

/** The value that says whether the running maximum has to follow. */
enum att_check {
    ATT_CHECK_SCORES,   /* scores are compared before they become weights */
    ATT_CHECK_PREVIOUS, /* weights are made with the m of the block before, which is checked
                           meanwhile */
    ATT_CHECK_WEIGHTS   /* the weights say so; S stays live until then */
};

enum { ATT_POWER_PARTS = 6 /* each time a half, and what is left */ };

/** The powers of a block in parts of its keys. */
struct att_powers {
    struct tir_value part[ATT_POWER_PARTS]; /* exponents, powers, or powers in 16 bits */
    bool made[ATT_POWER_PARTS], packed[ATT_POWER_PARTS];
    uint8_t eighths[ATT_POWER_PARTS]; /* of all keys */
    unsigned n;
};

/** Weights of a block in 16 bits, their sum in a lane, and l with it. */
struct att_p16 {
    struct tir_value p16;
    struct tir_value sum; /* none where O^T has l, or the block is added to l at once */
    struct tir_value l;
};

/** The range of keys that a query sees. All are i32; scalars unless stated. */
struct att_position {
    struct tir_value q_len, kv_len;   /* of the sequence */
    struct tir_value end;             /* keys from here on are not there; at most kv_len */
    struct tir_value diagonal;        /* 1 x queries: the key at a query's own position */
    struct tir_value lowest, highest; /* bounds of `diagonal` over the wave's queries */
    struct tir_value reach;           /* of masks that hide early keys: see att_first_seen() */
    struct tir_value right;           /* of a window: keys up to diagonal + right are seen */
    struct tir_value head;            /* query head: a scalar, or 1 x queries */
    struct tir_value mask_row;        /* custom mask: 1 x queries of i64, see att_load_mask() */
    struct tir_value mask; /* i64: what it counts from, or none: the argument custom_mask */
};

/** Values that the steps of one block hand to each other: see attention/steps.h. */
struct att_now {
    struct att_block block;
    struct tir_value *carried; /* [ATT_MOST_CARRY] */
    struct tir_value s, exponent, p, top;
    struct tir_value v, v_rest; /* V^T of the part that is multiplied next; its last rows */
    struct att_softmax_step step;
    struct att_powers powers;
    struct att_p16 weights;
};

/** State of a wave in its key loop. */
struct att_attention {
    struct tir_builder *b;
    const struct att_variant *v;
    struct att_softmax softmax;
    struct tir_value score_scale; /* f32, what turns scores into logits: cap and hook only */
    struct att_position at;
    int product;    /* matrix instruction of O += V P */
    unsigned dtype; /* of P as its operand */
    void *family;   /* handed to the next two */
    /** Returns the first key of a block, i32; called wherever it is needed, with the stage set. */
    struct tir_value (*first_key)(void *family, struct tir_value index);
    /** With block.gaps: returns block.entries, loaded where there are some. */
    struct tir_value (*entries)(void *family, const struct att_block *block);
    struct att_now now;
    struct tir_value most;     /* with ATT_CHECK_WEIGHTS: 2^room, as the weights are compared */
    struct att_weight_sum sum; /* of weights in fp8: what l is then; else without `ones` */
    bool wide_powers; /* exp2(-x) of m - log2 p, which has 8 bytes as the instructions around it:
                         for schedules with even_code */
    uint8_t room;     /* softmax.room; 0: what it is for any type */
    uint8_t check;    /* enum att_check */
    uint8_t late_eighths; /* of the keys whose powers are made by att_exp2's second part; 0: none */
    uint8_t packed_eighths; /* of the keys whose powers are rounded in the first step, where nothing
                               but O^T adds them */
    bool in_agprs;          /* O^T stays in accumulation registers */
    uint8_t value_parts;    /* products that a block's keys are shared out among, a power of two; 0
                             and 1: one */
    bool ties_any;          /* weights are rounded to the nearest, ties as is cheaper */
    bool cut;               /* they are rounded toward zero, where sum_row is set: l is their sum */
    bool sum_pairs;       /* l is the sum of weights as the product has them, where two are added at
                             a time */
    int rest_product;     /* instruction of mma_halves that makes the last 8 rows of O^T, */
    struct tir_type rest; /* which have this type; of no kind: they are rows as the others. It wants
                             ATT_CHECK_PREVIOUS */
    unsigned sum_row;     /* eight rows of O^T from here on are l, and none is carried; 0: one is */
};

/** Values that the loop carries: the running maximum, the denominator and O^T, and with `rest` its
 * last rows. */
enum att_carry {
    ATT_CARRY_M,
    ATT_CARRY_L,
    ATT_CARRY_O,
    ATT_N_CARRY,
    ATT_CARRY_REST = ATT_N_CARRY,
    ATT_MOST_CARRY
};

/** The state before the first key; `output` is the type of O^T. */
void att_attention_begin(struct att_attention *a, struct tir_type output,
                         struct tir_value carried[]);

/** Weights in fp8: behind att_attention_scale(), which says nothing of P's type. */
void att_attention_weights_fp8(struct att_attention *a);

/** Leaves in `kept` what a loop carries of the state: all of it, or all but l where O^T has that.
 * Returns how many values that are. att_attention_unpack() is the way back. */
unsigned att_attention_kept(const struct att_attention *a,
                            const struct tir_value carried[ATT_MOST_CARRY],
                            struct tir_value kept[ATT_MOST_CARRY]);
void att_attention_unpack(const struct att_attention *a,
                          const struct tir_value kept[ATT_MOST_CARRY],
                          struct tir_value carried[ATT_MOST_CARRY]);

/** Rows `rest` of O^T times a factor, 1 x queries. */
struct tir_value att_attention_scale_rest(const struct att_attention *a, struct tir_value rest,
                                          struct tir_value factor);

/** Is l the sum of rounded weights, two at a time? */
bool att_attention_sums_pairs(const struct att_attention *a);

/** Returns the denominator that the loop has left, for att_softmax_finish(). */
struct tir_value att_attention_denominator(struct att_attention *a,
                                           const struct tir_value carried[]);

/** True if the last 8 rows of O^T are a product of their own. */
bool att_attention_has_rest(const struct att_attention *a);

/** True if the loop carries member `which` of enum att_carry. */
bool att_attention_is_carried(const struct att_attention *a, unsigned which);

/** Multiplies l, O or its last rows with a factor, 1 x queries. */
struct tir_value att_attention_scale_carried(const struct att_attention *a, enum att_carry which,
                                             struct tir_value value, struct tir_value factor);

/** Returns S^T of a block as logits: soft cap, hook and mask are applied. */
struct tir_value att_attention_modify(struct att_attention *a, struct tir_value s,
                                      const struct att_block *block);

/** Are scores scaled before the softmax, which else folds the scale into its exponent? */
bool att_scales_scores(const struct att_variant *v);

/**
 * The softmax of scores of this type. `k_scale` (f32) is the scale of the whole of K, or no value.
 * Sets `softmax` and `score_scale`; reads the arguments scale, scale_log2.
 */
void att_attention_scale(struct att_attention *a, struct tir_type scores, struct tir_value k_scale);

/** The bytes of a custom mask for a block that begins at `key`: query t of a sequence has its
 * kv_len bytes at position.mask_row. Keys at and beyond position.end repeat the last one's. */
struct tir_value att_load_mask(struct att_attention *a, struct tir_value key);

/** Does the mask hide keys in front of others that are seen: a window, or chunks? */
bool att_hides_early(const struct att_variant *v);

/** With such a mask: the first key that the query at `diagonal` (i32 of any shape) sees; it may be
 * below 0. */
struct tir_value att_first_seen(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value reach, struct tir_value diagonal);

/** Its argument `reach`, i32: a window's distance, or the mask of a chunk's size. */
struct tir_value att_reach(struct tir_builder *b, const struct att_variant *v);

/** Does a query see no keys behind its own position, or behind a distance from it? */
bool att_hides_late(const struct att_variant *v);

/** i1: is an entry of a sparse list, as this wave holds them, no key? */
struct tir_value att_has_gaps(struct tir_builder *b, struct tir_value entries);

/** position.mask_row: `query` (1 x queries, i32) counts from the sequence's first. */
struct tir_value att_mask_row(struct att_attention *a, struct tir_value sequence,
                              struct tir_value query);

#endif
