/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of CDNA3. Its only own instructions exchange values between lanes of different rows of
 * 16, through the LDS crossbar.
 */
#include "targets/isa_cdna.h"

/* Returns for each lane the dword of lane ^ `mask`, with a mask below 32, by ds_swizzle in bit
 * mode: and-mask 31, or-mask 0. */
static LLVMValueRef swizzle(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    LLVMValueRef args[2] = {dword, lower_i32(l, 0x1f | mask << 10)};
    return emit_intrinsic(l, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
}

/* Returns for each lane the dword of lane ^ `mask`. */
static LLVMValueRef lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    if (mask < 16)
        return cdna_xor_in_row(l, dword, mask);
    if (mask < 32)
        return swizzle(l, dword, mask);
    LLVMValueRef lane = LLVMBuildXor(l->b, l->lane, lower_i32(l, mask), "");
    return cdna_lane_gather(l, LLVMBuildShl(l->b, lane, lower_i32(l, 2), ""), dword);
}

const struct lower_isa lower_isa_cdna3 = {
    LOWER_ISA_CDNA,
    .lane_xor = lane_xor,
    .to_bf16 = cdna_round_to_bf16,
};
