/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix instructions: a row of the machine's table is one intrinsic.
 */
#include "targets/lower.h"

#include <string.h>

enum { MAX_OPERANDS = 9, PLAIN_OPERANDS = 6 };

/* Calls a row's intrinsic with a, b, c and up to 6 further numbers, `others`. */
static LLVMValueRef multiply(struct lower *l, const struct tir_op *op, const struct tir_mma *row,
                             LLVMValueRef const *others)
{
    unsigned id = LLVMLookupIntrinsicID(row->intrinsic, strlen(row->intrinsic));
    if (id == 0)
        return lower_fail(l, "LLVM has no intrinsic %s", row->intrinsic);

    /* Operand types differ between shapes: <8 x bfloat>, <4 x i16>, i64, ... The f8f6f4 intrinsics
     * are overloaded by the number of registers of a format. */
    const bool overloaded = LLVMIntrinsicIsOverloaded(id);
    LLVMTypeRef words[2];
    for (unsigned i = 0; i < 2 && overloaded; i++)
        words[i] = LLVMVectorType(l->i32, tir_typeof(l->f, op->operands[i]).count /
                                              (unsigned)sizeof(uint32_t));
    LLVMTypeRef *const overload = overloaded ? words : NULL;
    const unsigned n = overloaded ? MAX_OPERANDS : PLAIN_OPERANDS, n_overload = overloaded ? 2 : 0;
    LLVMTypeRef params[MAX_OPERANDS];
    LLVMGetParamTypes(LLVMIntrinsicGetType(l->ctx, id, overload, n_overload), params);
    LLVMValueRef args[MAX_OPERANDS];
    for (unsigned i = 0; i < n; i++)
        args[i] =
            i < 3 ? lower_bitcast(l, lower_value(l, op->operands[i]), params[i]) : others[i - 3];
    LLVMValueRef d = emit_intrinsic(l, row->intrinsic, overload, n_overload, args, n);
    l->has_mma = true;
    return d ? lower_bitcast(l, d, lower_type(l, lower_result_type(l, op))) : NULL;
}

static const struct tir_mma *row_of(struct lower *l, const struct tir_op *op)
{
    if (op->imm[0] >= 0 && op->imm[0] < l->t->machine.n_mma)
        return &l->t->machine.mma[op->imm[0]];
    lower_fail(l, "%s has no matrix instruction %lld", l->t->machine.name, (long long)op->imm[0]);
    return NULL;
}

/* Lowers an unscaled product, without broadcast or permutation. The f8f6f4 instructions get fp8
 * operands. */
LLVMValueRef lower_mfma(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef zeros[MAX_OPERANDS - 3];
    for (unsigned i = 0; i < MAX_OPERANDS - 3; i++)
        zeros[i] = lower_i32(l, 0);
    const struct tir_mma *const row = row_of(l, op);
    if (row && op->imm[1])
        return lower_mfma_in_agprs(l, op, row);
    return row ? multiply(l, op, row, zeros) : NULL;
}

/* Returns a register with the scales in its low bytes. The hardware ignores the upper bits, so a
 * truncated word suffices. */
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
    if (op->imm[3])
        return lower_mfma_scaled_in_agprs(l, op, row, left, right);
    /* LLVM treats two such constants as "no scales". */
    if (LLVMIsConstant(left) && LLVMIsNull(left) && LLVMIsConstant(right) && LLVMIsNull(right))
        return lower_fail(l, "%s with two scales that are 2^-127", row->name);
    LLVMValueRef others[] = {lower_i32(l, row->left_format), lower_i32(l, row->right_format),
                             lower_i32(l, op->imm[1]),       left,
                             lower_i32(l, op->imm[2]),       right};
    return multiply(l, op, row, others);
}
