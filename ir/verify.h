/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the verifier's two halves: structure (verify.c) and the rules of single ops
 * (verify_ops.c, verify_products.c).
 */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/ir.h"

struct tir_finding {
    struct tir_ref op; /* 0: the function */
    char text[140];
};

struct tir_verifier {
    const struct tir_func *f;
    struct tir_ref op; /* being checked */
    struct tir_finding *findings;
    uint32_t n_findings, cap_findings;
    uint32_t n_pipelined; /* loops with stages so far */
    bool inside_pipelined;
};

/** Records a finding on v->op unless ok; returns ok. */
bool tir_check(struct tir_verifier *v, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** A type that a value may have in this function; records what is wrong with it. */
bool tir_check_type(struct tir_verifier *v, struct tir_type t);

/** Arity, attrs, operand and result types of v->op, whose operands are values of the function. */
void tir_check_op(struct tir_verifier *v);

/** Operands 0..2 and the result as types; absent ones are zero. */
struct tir_op_types {
    struct tir_type a, b, c, d;
};

static inline uint32_t tir_wave_image(const struct tir_layout *l, int i)
{
    return i < l->wave_bits ? l->basis[l->reg_bits + l->lane_bits + i] : 0;
}

/** The rules of products of tiles, and of single instructions. */
void tir_check_mma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);
void tir_check_mma_halves(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);
void tir_check_mfma(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t);

/** Has the op stages for lower_pipeline to rotate? */
bool tir_is_pipelined(const struct tir_func *f, const struct tir_op *loop);

/** Checks that lower_pipeline can take the loop v->op, whose body has been checked. */
void tir_check_pipeline(struct tir_verifier *v, const struct tir_op *loop);

#endif
