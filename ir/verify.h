/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the parts of the verifier share: structure (verify.c) and the rules of
 * single ops (verify_ops.c, verify_products.c).
 */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/ir.h"

struct tir_finding {
    struct tir_ref op; /* the op; id 0: the function */
    char text[140];    /* the rule that the op breaks */
};

struct tir_verifier {
    const struct tir_func *f;
    struct tir_ref op; /* the op being checked */
    struct tir_finding *findings;
    uint32_t n_findings, cap_findings;
    uint32_t n_pipelined;  /* number of loops with stages found so far */
    bool inside_pipelined; /* the op being checked is in a pipelined loop */
    /* by copy group: 1 if copies by lanes belong to it, 2 if copies of the tensor data mover do, 3
     * for both */
    uint8_t copied_by[TIR_COPY_GROUPS];
};

/** Records a finding on v->op. Returns false. */
bool tir_add_finding(struct tir_verifier *v, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/** Records a finding on v->op unless `ok`. Returns ok. The arguments of the message are evaluated
 * only for a finding. */
#define tir_check(v, ok, ...) ((ok) ? true : tir_add_finding(v, __VA_ARGS__))

/** Checks that a value of this function may have the type. Records what is wrong with it. */
bool tir_check_type(struct tir_verifier *v, struct tir_type t);

/** Checks arity, attrs, operand types and result types of v->op, whose operands are values of the
 * function. */
void tir_check_op(struct tir_verifier *v);

/** The types of operands 0 to 2 and of the result; all zero if absent. */
struct tir_op_types {
    struct tir_type a, b, c, d;
};

/* Returns the image of wave bit `i` of layout `l`, 0 if it has fewer wave bits. */
static inline uint32_t tir_wave_image(const struct tir_layout *l, int i)
{
    return i < l->wave_bits ? l->basis[l->reg_bits + l->lane_bits + i] : 0;
}

/** Check the rules of products of tiles, and of single matrix instructions. */
void tir_check_mma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);
void tir_check_mma_halves(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);
void tir_check_mfma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);

/** Check the operands and the result of col_fold_dot, and of col_fold_top. */
void tir_check_fold_dot(struct tir_verifier *v, struct tir_op_types t);
void tir_check_fold_top(struct tir_verifier *v, struct tir_op_types t);

/** True if the loop has stages for lower_pipeline to rotate. */
bool tir_is_pipelined(const struct tir_func *f, const struct tir_op *loop);

/** Checks that lower_pipeline can handle the loop v->op, whose body has been checked. */
void tir_check_pipeline(struct tir_verifier *v, const struct tir_op *loop);

#endif
