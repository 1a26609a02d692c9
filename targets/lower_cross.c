/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves between the lanes of a wave.
 */
#include "targets/lower_isa.h"

/* Moves one dword between lanes by XOR; `mask` points to the mask. */
static LLVMValueRef xor_dword(struct lower *l, LLVMValueRef dword, void *mask)
{
    return l->isa->lane_xor(l, dword, *(const unsigned *)mask);
}

LLVMValueRef lower_lane_xor(struct lower *l, const struct tir_op *op)
{
    unsigned mask = (unsigned)op->imm[0] & (lower_lanes(l) - 1);
    return lower_by_dword(l, lower_value(l, op->operands[0]), xor_dword, &mask);
}

struct swap_request {
    unsigned half, which, next;
    LLVMValueRef other; /* dwords of the second operand */
};

/* Exchanges one dword with the next one of the other operand; `data` is a struct swap_request. */
static LLVMValueRef swap_dword(struct lower *l, LLVMValueRef dword, void *data)
{
    struct swap_request *r = data;
    LLVMValueRef both = l->isa->lane_swap(l, r->half, dword, lower_element(l, r->other, r->next++));
    return both ? LLVMBuildExtractValue(l->b, both, r->which, "") : NULL;
}

/* Lowers one result of a swap. The ops for both results make identical intrinsic calls, which LLVM
 * merges. */
LLVMValueRef lower_lane_swap(struct lower *l, const struct tir_op *op)
{
    if (!l->isa->lane_swap)
        return lower_fail(l, "%s has no v_permlane*_swap", l->t->machine.name);
    struct tir_type t = lower_result_type(l, op);
    unsigned bits = tir_dtype_bits(t.dtype) * lower_count(t);
    if (bits % 32)
        return lower_fail(l, "lane_swap of %u bits", bits);
    LLVMTypeRef dwords = bits == 32 ? l->i32 : LLVMVectorType(l->i32, bits / 32);
    struct swap_request r = {
        .half = (unsigned)op->imm[0],
        .which = (unsigned)op->imm[1],
        .other = lower_bitcast(l, lower_value(l, op->operands[1]), dwords),
    };
    return lower_by_dword(l, lower_value(l, op->operands[0]), swap_dword, &r);
}

/* Reads one dword from the lane at `byte_address`, four times the lane's number. */
static LLVMValueRef gather_dword(struct lower *l, LLVMValueRef dword, void *byte_address)
{
    return l->isa->lane_gather(l, byte_address, dword);
}

LLVMValueRef lower_lane_gather(struct lower *l, const struct tir_op *op)
{
    return lower_by_dword(l, lower_value(l, op->operands[1]), gather_dword,
                          lower_value(l, op->operands[0]));
}

/* Returns one dword of the first active lane. */
static LLVMValueRef first_lane_dword(struct lower *l, LLVMValueRef dword, void *data)
{
    (void)data;
    return emit_intrinsic(l, "llvm.amdgcn.readfirstlane", &l->i32, 1, &dword, 1);
}

LLVMValueRef lower_first_lane(struct lower *l, const struct tir_op *op)
{
    return lower_by_dword(l, lower_value(l, op->operands[0]), first_lane_dword, NULL);
}

LLVMValueRef lower_any(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_operand_type(l, op, 0);
    LLVMValueRef v = lower_value(l, op->operands[0]);
    LLVMValueRef some = lower_element(l, v, 0);
    for (unsigned i = 1; i < lower_count(t); i++)
        some = LLVMBuildOr(l->b, some, lower_element(l, v, i), "");
    LLVMValueRef lanes = lower_ballot(l, some);
    return lanes ? LLVMBuildICmp(l->b, LLVMIntNE, lanes, LLVMConstNull(l->lanes), "") : NULL;
}

LLVMValueRef lower_ballot(struct lower *l, LLVMValueRef set)
{
    return emit_intrinsic(l, "llvm.amdgcn.ballot", &l->lanes, 1, &set, 1);
}

LLVMValueRef lower_lane_count(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_operand_type(l, op, 0));
    LLVMValueRef sum = NULL;
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef set = lower_ballot(l, lower_element(l, lower_value(l, op->operands[0]), i));
        LLVMValueRef n = emit_intrinsic(l, "llvm.ctpop", &l->lanes, 1, &set, 1);
        n = LLVMBuildTrunc(l->b, n, l->i32, "");
        sum = sum ? LLVMBuildAdd(l->b, sum, n, "") : n;
    }
    return sum;
}

LLVMValueRef lower_lane_mask(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef set = lower_ballot(l, lower_element(l, lower_value(l, op->operands[0]), 0));
    return set ? LLVMBuildZExt(l->b, set, l->i64, "") : NULL;
}

LLVMValueRef lower_lane_read(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef v = lower_element(l, lower_value(l, op->operands[0]), 0);
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef args[2] = {lower_bitcast(l, v, l->i32), lower_value(l, op->operands[1])};
    LLVMValueRef r = emit_intrinsic(l, "llvm.amdgcn.readlane", &l->i32, 1, args, 2);
    return r ? lower_bitcast(l, r, type) : NULL;
}

LLVMValueRef lower_lanes_below(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        out[i] = l->isa->lanes_below(l, lower_element(l, lower_value(l, op->operands[0]), i));
    return lower_gather(l, out, count);
}

LLVMValueRef lower_lane_sum_below(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef own = lower_element(l, lower_value(l, op->operands[0]), i);
        out[i] = LLVMBuildSub(l->b, l->isa->lane_sum(l, own), own, "");
    }
    return lower_gather(l, out, count);
}
