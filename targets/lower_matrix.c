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

    /* The operands' types differ between shapes: <8 x bfloat>, <4 x i16>, i64, ... */
    LLVMTypeRef params[6];
    LLVMGetParamTypes(LLVMIntrinsicGetType(l->ctx, id, NULL, 0), params);
    LLVMValueRef zero = lower_i32(l, 0); /* cbsz, abid, blgp: no broadcast, no permutation */
    LLVMValueRef args[6] = {NULL, NULL, NULL, zero, zero, zero};
    for (unsigned i = 0; i < 3; i++)
        args[i] = lower_bitcast(l, lower_value(l, op->operands[i]), params[i]);
    LLVMValueRef d = emit_intrinsic(l, row->intrinsic, NULL, 0, args, 6);
    return d ? lower_bitcast(l, d, lower_type(l, lower_result_type(l, op))) : NULL;
}
