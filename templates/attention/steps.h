/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of attention over one block of keys that all families share, as ops of a pipeline: from
 * scores to weights, O and l. A family (such as prefill) adds steps that load K and V, and a table
 * says where each step runs. The context of every step is a struct att_attention; its member `now`
 * has the values of the block that is being built.
 */
#ifndef TEMPLATES_ATTENTION_STEPS_H
#define TEMPLATES_ATTENTION_STEPS_H

#include "templates/attention/attention.h"
#include "templates/pipeline/pipeline.h"

/** Values in registers that steps pass to each other: bit numbers of pipe_op.reads and
 * pipe_op.writes. A family uses some of them. */
enum att_register {
    ATT_SLOT_M, /* running maximum m of each query; the loop carries M to REST */
    /* The denominator l. */
    ATT_SLOT_L,
    /* The output O^T. */
    ATT_SLOT_O,
    /* The last 8 rows of O^T: att_attention.rest. */
    ATT_SLOT_REST,
    /* Page numbers (i32) of the keys of the block that is loaded. */
    ATT_SLOT_K_PAGES,
    /* Page numbers (i32) of the rows of V of the block that is loaded. */
    ATT_SLOT_V_PAGES,
    /* Rows of K in flight from memory to registers or LDS, or their addresses. */
    ATT_SLOT_K_DATA,
    /* Rows of V in flight from memory to registers or LDS, or their addresses. */
    ATT_SLOT_V_DATA,
    ATT_SLOT_V_READY, /* rows of V in registers, in the order in which they are stored to LDS */
    ATT_SLOT_MASK,    /* bytes of a custom mask, or words of a mask of blocks, for the block */
    ATT_SLOT_K,       /* K as operand of S^T = K Q^T, or its first part */
    ATT_SLOT_K_MORE,  /* second part of K as operand */
    /* V^T as operand of O^T += V^T P^T, or its first part. */
    ATT_SLOT_V,
    ATT_SLOT_V_MORE, /* second part of V^T as operand */
    ATT_SLOT_V_REST, /* the last 8 rows of V^T */
    /* Scores S^T. */
    ATT_SLOT_S,
    ATT_SLOT_GROWN, /* the result of the rescale check, and alpha, the factor of O and l */
    /* Exponents (log2) of the weights: att_now.exponent. */
    ATT_SLOT_EXPONENT,
    /* Weights P before rounding, or exponents of the keys whose powers are computed later. */
    ATT_SLOT_P,
    ATT_SLOT_P16, /* weights P in the type of the product with V */
    /* The value that the rescale check of weights compares: the largest weight, or the sum of
     * weights. In some families: the largest score. */
    ATT_SLOT_TOP,
    /* In families that have it besides m: the exponent (log2) that a block's weights are relative
     * to. In kernels whose waves rescale only O: alpha. */
    ATT_SLOT_E,
    /* First of four slots for quarters of V or of P: a pipeline divides one of the two operands. */
    ATT_SLOT_QUARTERS,
    ATT_SLOT_LAST_QUARTER = ATT_SLOT_QUARTERS + 3,
    /* First of four slots for quarters of O. Each quarter is rescaled while a product runs. */
    ATT_SLOT_O_QUARTERS,
    ATT_SLOT_LAST_O_QUARTER = ATT_SLOT_O_QUARTERS + 3,
    ATT_N_SLOTS
};
/** Names of the slots, and whether the loop carries them, indexed by enum att_register. */
extern const struct pipe_slot att_slots[ATT_N_SLOTS + 1];

#define ATT_SLOT(name) (1u << ATT_SLOT_##name)

/** Features of a variant: bit numbers of pipe_row.needs. A family's own features begin at
 * ATT_HAS_FAMILY. */
enum att_feature {
    /* One of these three bits is set: the rescale check, as enum att_check names it. */
    ATT_HAS_CHECK_SCORES,
    ATT_HAS_CHECK_PREVIOUS,
    ATT_HAS_CHECK_WEIGHTS,
    /* Weights P are rounded to fp8. */
    ATT_HAS_FP8_WEIGHTS,
    ATT_HAS_SUM_PRODUCT, /* l is a product of the weights P with ones */
    ATT_HAS_SUM_ROWS,    /* eight rows of O^T hold l: att_attention.sum_row */
    /* A separate product computes the last 8 rows of O^T: att_attention.rest. */
    ATT_HAS_REST,
    /* A custom mask or a mask of blocks, whose bytes or words are loaded. */
    ATT_HAS_MASK_BYTES,
    ATT_HAS_FAMILY
};

#define ATT_HAS(name) (1u << ATT_HAS_##name)

/** Step that applies soft cap, hook and mask to the scores S. att_mask_bytes also depends on the
 * loaded bytes or words of a mask. */
extern const struct pipe_op att_mask, att_mask_bytes;
/** Rescale checks, one for each enum att_check. The check of scores updates m; the others find
 * whether m must be updated. */
extern const struct pipe_op att_check_scores, att_check_previous, att_check_weights;
/** Step that computes the exponents of the weights from scores and m. */
extern const struct pipe_op att_exponent;
/* Computes 2^exponent: part 0 for the first keys of the block, part 1 for the last late_eighths. */
extern const struct pipe_op att_exp2;
/** Steps that rescale O and l if m is updated, after the check of the same name; att_rescale after
 * att_check_scores. */
extern const struct pipe_op att_rescale, att_rescale_previous, att_rescale_weights;
/* Adds P to l, if l is the sum of the weights before rounding. */
extern const struct pipe_op att_sum;
/* Rounds P to 16 bits for the product with V, and adds P to l if l is the sum of the rounded
 * weights. */
extern const struct pipe_op att_round;
extern const struct pipe_op att_round_fp8; /* rounds P to fp8; a product adds P to l */
/* O^T += V^T P^T, for part `part` of the block's keys (att_attention.value_parts). */
extern const struct pipe_op att_product;
/** Steps for the last 8 rows of O^T, and for l as a product of P with ones. */
extern const struct pipe_op att_product_rest, att_product_sum;

/** Clears a->now for the block of iteration `index` (i32). carried[] has the values that the loop
 * carries. */
void att_begin_block(struct att_attention *a, struct tir_value index, struct tir_value *carried);

#endif
