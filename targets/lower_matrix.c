/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers matrix products. Each row of the machine's table of matrix instructions is one LLVM
 * intrinsic.
 */
#include "targets/lower_isa.h"

/* Lowers the product `op` by the matrix instruction `row`. `scales` as in struct lower_product. */
static LLVMValueRef multiply(struct lower *l, const struct tir_op *op, const struct tir_mma *row,
                             LLVMValueRef const *scales)
{
    struct lower_product p = {.row = row, .scales = scales};
    for (unsigned i = 0; i < 3; i++) {
        p.operands[i] = lower_value(l, op->operands[i]);
        p.counts[i] = tir_typeof(l->f, op->operands[i]).count;
    }
    LLVMValueRef d = l->isa->multiply(l, &p);
    l->has_mma = true;
    return d ? lower_bitcast(l, d, lower_type(l, lower_result_type(l, op))) : NULL;
}

/* Returns the machine's row of the matrix instruction that `op` names. Returns NULL after
 * lower_fail() if there is none. */
static const struct tir_mma *row_of(struct lower *l, const struct tir_op *op)
{
    if (op->imm[0] >= 0 && op->imm[0] < l->t->machine.n_mma)
        return &l->t->machine.mma[op->imm[0]];
    lower_fail(l, "%s has no matrix instruction %lld", l->t->machine.name, (long long)op->imm[0]);
    return NULL;
}

/* Lowers a product without scales. The instruction's fields for broadcast of blocks and permutation
 * of lanes stay 0; f8f6f4 instructions get fp8 operands. */
LLVMValueRef lower_mfma(struct lower *l, const struct tir_op *op)
{
    const struct tir_mma *const row = row_of(l, op);
    if (row && l->in_agprs[op->result.id])
        return lower_mfma_in_agprs(l, op, row);
    return row ? multiply(l, op, row, NULL) : NULL;
}

/* Returns an i32 with the scales in its low bytes. The hardware ignores the other bytes, so an i32
 * that was truncated to the scales is used whole. */
static LLVMValueRef scale_word(struct lower *l, struct tir_value scale)
{
    const struct tir_type t = tir_typeof(l->f, scale);
    LLVMValueRef v = lower_value(l, scale);
    if (t.kind == TIR_SCALAR)
        return v;
    if (t.count == 1 && LLVMIsATruncInst(v) && LLVMTypeOf(LLVMGetOperand(v, 0)) == l->i32)
        return LLVMGetOperand(v, 0);
    LLVMTypeRef bits = LLVMIntTypeInContext(l->ctx, t.count * tir_dtype_bits(t.dtype));
    return LLVMBuildZExt(l->b, lower_bitcast(l, v, bits), l->i32, "");
}

LLVMValueRef lower_mfma_scaled(struct lower *l, const struct tir_op *op)
{
    const struct tir_mma *const row = row_of(l, op);
    if (!row)
        return NULL;
    LLVMValueRef left = scale_word(l, op->operands[3]), right = scale_word(l, op->operands[4]);
    if (l->in_agprs[op->result.id])
        return lower_mfma_scaled_in_agprs(l, op, row, left, right);
    /* LLVM takes two constant scales of 0, which mean 2^-127, for "no scales". */
    if (LLVMIsConstant(left) && LLVMIsNull(left) && LLVMIsConstant(right) && LLVMIsNull(right))
        return lower_fail(l, "%s with two scales that are 2^-127", row->name);
    LLVMValueRef scales[] = {lower_i32(l, row->left_format), lower_i32(l, row->right_format),
                             lower_i32(l, op->imm[1]),       left,
                             lower_i32(l, op->imm[2]),       right};
    return multiply(l, op, row, scales);
}
