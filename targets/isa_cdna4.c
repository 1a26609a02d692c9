/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of CDNA4, and its own instructions: lane swaps, transposing LDS reads, conversions of
 * fp8. lower_isa.h describes the functions.
 */
#include "targets/isa_cdna.h"

/* Emits ds_read_b64_tr: a transposing LDS read of elements of `bits` bits, 8 or 16. */
static LLVMValueRef read_transposed(struct lower *l, LLVMValueRef address, unsigned bits)
{
    LLVMTypeRef type = bits == 8 ? LLVMVectorType(l->i32, 2) : LLVMVectorType(l->i16, 4);
    const char *const name =
        bits == 8 ? "llvm.amdgcn.ds.read.tr8.b64" : "llvm.amdgcn.ds.read.tr16.b64";
    return emit_intrinsic(l, name, &type, 1, &address, 1);
}

/* Emits v_permlane32_swap or v_permlane16_swap: exchanges odd groups of `half` lanes of `a` with
 * even groups of `b`. */
static LLVMValueRef lane_swap(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef no = LLVMConstNull(l->i1);
    LLVMValueRef args[4] = {a, b, no, no};
    const char *name = half == 32 ? "llvm.amdgcn.permlane32.swap" : "llvm.amdgcn.permlane16.swap";
    return emit_intrinsic(l, name, NULL, 0, args, 4);
}

/* Returns for each lane the dword of lane ^ `half`. After a swap of a value with itself the first
 * result has the data of even groups, the second of odd groups. Lanes of even groups select the
 * second result, lanes of odd groups the first. */
static LLVMValueRef xor_by_swap(struct lower *l, LLVMValueRef dword, unsigned half)
{
    LLVMValueRef both = lane_swap(l, half, dword, dword);
    if (!both)
        return NULL;
    LLVMValueRef bit = LLVMBuildAnd(l->b, l->lane, lower_i32(l, half), "");
    LLVMValueRef odd = LLVMBuildICmp(l->b, LLVMIntNE, bit, lower_i32(l, 0), "");
    return LLVMBuildSelect(l->b, odd, LLVMBuildExtractValue(l->b, both, 0, ""),
                           LLVMBuildExtractValue(l->b, both, 1, ""), "");
}

/* Returns for each lane the dword of lane ^ `mask`. */
static LLVMValueRef lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    if (mask & 32)
        dword = xor_by_swap(l, dword, 32);
    if (dword && mask & 16)
        dword = xor_by_swap(l, dword, 16);
    return dword ? cdna_xor_in_row(l, dword, mask & 15) : NULL;
}

/* Converts a vector of fp8, a multiple of 4 elements, to the 16-bit float type `to`, two elements
 * per instruction. v_cvt_scalef32_pk_bf16_fp8 and v_cvt_scalef32_pk_f16_fp8 multiply by a power of
 * two, here 1. The result is exact. */
static LLVMValueRef fp8_to_half(struct lower *l, LLVMValueRef v, struct tir_type to)
{
    const unsigned count = lower_count(to);
    const char *const name = to.dtype == TIR_BF16 ? "llvm.amdgcn.cvt.scalef32.pk.bf16.fp8"
                                                  : "llvm.amdgcn.cvt.scalef32.pk.f16.fp8";
    LLVMTypeRef packed = count == 4 ? l->i32 : LLVMVectorType(l->i32, count / 4);
    LLVMValueRef dwords = lower_bitcast(l, v, packed), pairs[TIR_MAX_VEC / 2];
    for (unsigned i = 0; i < count; i += 2) {
        LLVMValueRef args[3] = {lower_element(l, dwords, i / 4), LLVMConstReal(l->f32, 1),
                                LLVMConstInt(l->i1, i / 2 % 2, false)};
        pairs[i / 2] = emit_intrinsic(l, name, NULL, 0, args, 3);
        if (!pairs[i / 2])
            return NULL;
        pairs[i / 2] = lower_bitcast(l, pairs[i / 2], l->i32);
    }
    return lower_bitcast(l, lower_gather(l, pairs, count / 2), lower_type(l, to));
}

const struct lower_isa lower_isa_cdna4 = {
    LOWER_ISA_CDNA,         .read_transposed = read_transposed, .lane_xor = lane_xor,
    .lane_swap = lane_swap, .to_bf16 = cdna_truncate_to_bf16,   .fp8_to_half = fp8_to_half,
};
