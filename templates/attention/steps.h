/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of attention over one block of keys that all families share, as ops of a pipeline:
 * scores to weights, O and l. A family adds steps that bring K and V, and a table says where each
 * one runs. The context of every step is a struct att_attention; its member `now` has the values of
 * the block that is being built.
 */
#ifndef TEMPLATES_ATTENTION_STEPS_H
#define TEMPLATES_ATTENTION_STEPS_H

#include "templates/attention/attention.h"
#include "templates/pipeline/pipeline.h"

/** Values that steps pass to each other: numbers of bits of pipe_op.reads and pipe_op.writes. */
enum att_register {
    ATT_SLOT_M, /* carried by the loop: m, l, O, and the last rows of O */
    ATT_SLOT_L,
    ATT_SLOT_O,
    ATT_SLOT_REST,
    ATT_SLOT_K_PAGES, /* page numbers */
    ATT_SLOT_V_PAGES,
    ATT_SLOT_K_DATA, /* rows in flight from memory to registers */
    ATT_SLOT_V_DATA,
    ATT_SLOT_V_READY, /* V in registers, in the order of LDS */
    ATT_SLOT_MASK,    /* bytes of a custom mask */
    ATT_SLOT_K,       /* operands of products */
    ATT_SLOT_K_MORE,
    ATT_SLOT_V,
    ATT_SLOT_V_MORE,
    ATT_SLOT_V_REST,
    ATT_SLOT_S,
    ATT_SLOT_GROWN, /* the result of the rescale check, and the factor of O and l */
    ATT_SLOT_EXPONENT,
    ATT_SLOT_P,
    ATT_SLOT_P16,      /* weights as operand of the product with V */
    ATT_SLOT_TOP,      /* the largest weight, or the sum of weights */
    ATT_SLOT_E,        /* the reference of a block's exponents */
    ATT_SLOT_QUARTERS, /* quarters of V or P, one slot each */
    ATT_SLOT_LAST_QUARTER = ATT_SLOT_QUARTERS + 3,
    ATT_SLOT_O_QUARTERS, /* quarters of O that are rescaled beside a product, one slot each */
    ATT_SLOT_LAST_O_QUARTER = ATT_SLOT_O_QUARTERS + 3,
    ATT_N_SLOTS
};
extern const struct pipe_slot att_slots[ATT_N_SLOTS + 1];

#define ATT_SLOT(name) (1u << ATT_SLOT_##name)

/** Features of a variant: numbers of bits of pipe_row.needs. A family adds its own from
 * ATT_HAS_FAMILY on. */
enum att_feature {
    ATT_HAS_CHECK_SCORES, /* the rescale check of enum att_check */
    ATT_HAS_CHECK_PREVIOUS,
    ATT_HAS_CHECK_WEIGHTS,
    ATT_HAS_FP8_WEIGHTS,
    ATT_HAS_SUM_PRODUCT, /* l is a product of the weights with ones */
    ATT_HAS_SUM_ROWS,    /* rows of O^T hold l */
    ATT_HAS_REST,        /* the last rows of O^T are a separate product */
    ATT_HAS_MASK_BYTES,
    ATT_HAS_FAMILY
};

#define ATT_HAS(name) (1u << ATT_HAS_##name)

/** Steps that apply soft cap, hook and mask to the scores; att_mask_bytes reads mask bytes. */
extern const struct pipe_op att_mask, att_mask_bytes;
extern const struct pipe_op att_check_scores, att_check_previous, att_check_weights;
extern const struct pipe_op att_exponent;
extern const struct pipe_op att_exp2; /* part 0: the first keys; part 1: the last late_eighths */
extern const struct pipe_op att_rescale, att_rescale_previous, att_rescale_weights;
extern const struct pipe_op att_sum;   /* l += p, if p is summed before it is rounded */
extern const struct pipe_op att_round; /* rounds p for the product, and adds l if the rounded p are
                                          summed */
extern const struct pipe_op att_round_fp8; /* rounds p to fp8, and adds nothing to l */
extern const struct pipe_op att_product;   /* O += V p of part `part` of the keys */
extern const struct pipe_op att_product_rest, att_product_sum;

/** Sets a->now for the block of iteration `index`, without values of the previous block. `carried`
 * has the values that the loop carries. */
void att_begin_block(struct att_attention *a, struct tir_value index, struct tir_value *carried);

#endif
