/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers ops that move data between the lanes of a wave, or that count or combine lanes.
 */
#include "targets/lower_isa.h"

/* Returns for each lane the dword of lane ^ mask; `mask` points to the mask, an unsigned. A
 * callback of lower_by_dword(). */
static LLVMValueRef xor_dword(struct lower *l, LLVMValueRef dword, void *mask)
{
    return l->isa->lane_xor(l, dword, *(const unsigned *)mask);
}

LLVMValueRef lower_lane_xor(struct lower *l, const struct tir_op *op)
{
    unsigned mask = (unsigned)op->imm[0] & (lower_lanes(l) - 1);
    return lower_by_dword(l, lower_value(l, op->operands[0]), xor_dword, &mask);
}

/* The parameters of swap_dword(). */
struct swap_request {
    /* lanes of a group; the result, 0 or 1; index of the next dword of `other` */
    unsigned half, which, next;
    LLVMValueRef other; /* the second operand as a vector of dwords */
};

/* Swaps groups of lanes between a dword and the next dword of the other operand, and returns one of
 * the two results. `data` is a struct swap_request. A callback of lower_by_dword(). */
static LLVMValueRef swap_dword(struct lower *l, LLVMValueRef dword, void *data)
{
    struct swap_request *r = data;
    LLVMValueRef both = l->isa->lane_swap(l, r->half, dword, lower_element(l, r->other, r->next++));
    return both ? LLVMBuildExtractValue(l->b, both, r->which, "") : NULL;
}

/* Lowers an op that returns one of the two results of a lane swap. The ops for both results emit
 * equal intrinsic calls, which LLVM merges. */
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

/* Returns for each lane the dword of another lane. `byte_address` is an LLVM value, four times that
 * lane's number. A callback of lower_by_dword(). */
static LLVMValueRef gather_dword(struct lower *l, LLVMValueRef dword, void *byte_address)
{
    return l->isa->lane_gather(l, byte_address, dword);
}

LLVMValueRef lower_lane_gather(struct lower *l, const struct tir_op *op)
{
    return lower_by_dword(l, lower_value(l, op->operands[1]), gather_dword,
                          lower_value(l, op->operands[0]));
}

/* Returns the dword of the first active lane. A callback of lower_by_dword(). */
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
