/* SPDX-License-Identifier: Apache-2.0
 *
 * CDNA3's own instructions: bf16 is rounded by integer arithmetic, and lanes in different rows of
 * 16 exchange values through the LDS crossbar.
 */
#include "targets/isa_cdna.h"

/* Emits ds_swizzle in bit mode: and-mask 31, or-mask 0, xor-mask. It acts within halves of 32
 * lanes. */
static LLVMValueRef swizzle(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    LLVMValueRef args[2] = {dword, lower_i32(l, 0x1f | mask << 10)};
    return emit_intrinsic(l, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
}

static LLVMValueRef lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    if (mask < 16)
        return cdna_xor_in_row(l, dword, mask);
    if (mask < 32)
        return swizzle(l, dword, mask);
    LLVMValueRef lane = LLVMBuildXor(l->b, l->lane, lower_i32(l, mask), "");
    return cdna_lane_gather(l, LLVMBuildShl(l->b, lane, lower_i32(l, 2), ""), dword);
}

/*
 * Rounds x to bf16, nearest even, into the high half of the result. It adds 0x7fff plus the lowest
 * kept bit: v_bfe and v_add3, where LLVM's expansion of fptrunc takes five instructions.
 *
 * A NaN could overflow to zero by the addition, so v_cmp_u and v_cndmask keep a NaN unchanged. A
 * NaN with a zero low half needs no such care. NaNs from arithmetic are quiet: their highest
 * fraction bit survives. If ties may go either way, all go up, which takes one v_add.
 */
static LLVMValueRef round_to_high_half(struct lower *l, LLVMValueRef x, struct lower_rounding how)
{
    LLVMValueRef bits = lower_bitcast(l, x, l->i32);
    if (how.short_nan && how.rounding == TIR_TIES_ANY)
        return LLVMBuildAdd(l->b, bits, lower_i32(l, 0x8000), "");
    LLVMValueRef above = LLVMBuildLShr(l->b, bits, lower_i32(l, 16), "");
    LLVMValueRef odd = LLVMBuildAnd(l->b, above, lower_i32(l, 1), "");
    LLVMValueRef sum = LLVMBuildAdd(l->b, bits, odd, "");
    sum = LLVMBuildAdd(l->b, sum, lower_i32(l, 0x7fff), "");
    if (how.short_nan)
        return sum;
    LLVMValueRef nan = LLVMBuildFCmp(l->b, LLVMRealUNO, x, x, "");
    return LLVMBuildSelect(l->b, nan, bits, sum, "");
}

static LLVMValueRef one_to_bf16(struct lower *l, LLVMValueRef x, struct lower_rounding how)
{
    LLVMValueRef high = LLVMBuildLShr(l->b, round_to_high_half(l, x, how), lower_i32(l, 16), "");
    return lower_bitcast(l, LLVMBuildTrunc(l->b, high, l->i16, ""), l->bf16);
}

/* Rounds two f32 to bf16, as the low and high half of a dword. */
static LLVMValueRef pair_to_bf16(struct lower *l, LLVMValueRef a, LLVMValueRef b,
                                 struct lower_rounding how)
{
    LLVMValueRef args[3] = {round_to_high_half(l, b, how), round_to_high_half(l, a, how),
                            lower_i32(l, 0x07060302)};
    return emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

static LLVMValueRef pairs_to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                                  struct lower_rounding how)
{
    LLVMValueRef pairs[TIR_MAX_VEC / 2];
    for (unsigned i = 0; i < count; i += 2) {
        pairs[i / 2] = pair_to_bf16(l, lower_element(l, v, i), lower_element(l, v, i + 1), how);
        if (!pairs[i / 2])
            return NULL;
    }
    LLVMValueRef all = lower_gather(l, pairs, count / 2);
    return lower_bitcast(l, all, LLVMVectorType(l->bf16, count));
}

static LLVMValueRef to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                            struct lower_rounding how)
{
    if (count % 2 == 0)
        return pairs_to_bf16(l, v, count, how);
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        out[i] = one_to_bf16(l, lower_element(l, v, i), how);
    return lower_gather(l, out, count);
}

const struct lower_isa lower_isa_cdna3 = {
    LOWER_ISA_CDNA,
    .lane_xor = lane_xor,
    .to_bf16 = to_bf16,
};
