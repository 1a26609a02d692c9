/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix instructions: a row of the machine's table is one intrinsic.
 */
#include "targets/lower.h"

#include <string.h>

LLVMValueRef lower_mfma(struct lower *l, const struct tir_op *op)
{
    if (op->imm[0] < 0 || op->imm[0] >= l->t->machine.n_mma)
        return lower_fail(l, "%s has no matrix instruction %lld", l->t->machine.name,
                          (long long)op->imm[0]);
    const struct tir_mma *row = &l->t->machine.mma[op->imm[0]];
    unsigned id = LLVMLookupIntrinsicID(row->intrinsic, strlen(row->intrinsic));
    if (id == 0)
        return lower_fail(l, "LLVM has no intrinsic %s", row->intrinsic);

    /* The operands' types differ between shapes: <8 x bfloat>, <4 x i16>, i64, ... The f8f6f4 ones
     * are overloaded; 32 bytes a lane are a format of 8 bits, and scales of 0 mean none. */
    LLVMTypeRef bytes32[2] = {LLVMVectorType(l->i32, 8), LLVMVectorType(l->i32, 8)};
    const bool scaled = LLVMIntrinsicIsOverloaded(id);
    LLVMTypeRef *const overload = scaled ? bytes32 : NULL;
    const unsigned n = scaled ? 9 : 6, n_overload = scaled ? 2 : 0;
    LLVMTypeRef params[9];
    LLVMGetParamTypes(LLVMIntrinsicGetType(l->ctx, id, overload, n_overload), params);
    LLVMValueRef args[9];
    for (unsigned i = 0; i < n; i++)
        args[i] = i < 3 ? lower_bitcast(l, lower_value(l, op->operands[i]), params[i])
                        : lower_i32(l, 0); /* no broadcast, no permutation */
    LLVMValueRef d = emit_intrinsic(l, row->intrinsic, overload, n_overload, args, n);
    l->has_mma = true;
    return d ? lower_bitcast(l, d, lower_type(l, lower_result_type(l, op))) : NULL;
}
