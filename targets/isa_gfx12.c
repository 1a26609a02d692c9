/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits instructions that CDNA5 and RDNA4 share: waits with a counter for each kind of memory
 * operation, and moves between lanes of waves of two rows of 16. lower_isa.h describes the
 * functions.
 */
#include "targets/isa_gfx12.h"

/* Sets no attribute: the target has no AGPRs, so there is nothing to divide. */
void gfx12_set_registers(struct lower *l, unsigned waves)
{
    (void)l;
    (void)waves;
}

void gfx12_wait_counter(struct lower *l, enum tir_counter counter, int64_t most)
{
    static const char *const names[TIR_N_COUNTERS] = {
        [TIR_COUNTER_DS] = "llvm.amdgcn.s.wait.dscnt",
        [TIR_COUNTER_STORE] = "llvm.amdgcn.s.wait.storecnt",
        [TIR_COUNTER_ASYNC] = "llvm.amdgcn.s.wait.asynccnt",
        [TIR_COUNTER_TENSOR] = "llvm.amdgcn.s.wait.tensorcnt",
    };
    LLVMValueRef imm = LLVMConstInt(l->i16, (uint64_t)most, false);
    if (most >= 0 && most < l->t->machine.counters[counter])
        emit_intrinsic(l, names[counter], NULL, 0, &imm, 1);
}

/* The functions from here on move data between lanes. */

/* Values of dpp_ctrl, which selects the lane that a lane reads (CDNA5 and RDNA4 ISA manuals,
 * "DPP_CTRL enumerations"). */
enum {
    DPP_ROW_SHR = 0x110,   /* plus n: lane - n in a row of 16 */
    DPP_ROW_XMASK = 0x160, /* plus mask: lane ^ mask in a row of 16 */
};

/* Returns for lane i of a row of 16 the dword of lane (i & `and`) ^ `flip` of the other row. */
static LLVMValueRef other_row(struct lower *l, LLVMValueRef dword, unsigned and, unsigned flip)
{
    uint64_t select = 0;
    for (unsigned i = 0; i < GFX12_ROW_LANES; i++)
        select |= (uint64_t)((i & and) ^ flip) << 4 * i;
    LLVMValueRef no = LLVMConstNull(l->i1);
    LLVMValueRef args[6] = {LLVMGetPoison(l->i32),
                            dword,
                            lower_i32(l, (int32_t)(uint32_t)select),
                            lower_i32(l, (int32_t)(uint32_t)(select >> 32)),
                            no,
                            no};
    return emit_intrinsic(l, "llvm.amdgcn.permlanex16", &l->i32, 1, args, 6);
}

LLVMValueRef gfx12_lane_xor(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    if (mask & GFX12_ROW_LANES)
        return other_row(l, dword, GFX12_ROW_LANES - 1, mask & (GFX12_ROW_LANES - 1));
    LLVMValueRef all = lower_i32(l, 15);
    LLVMValueRef args[6] = {
        LLVMGetPoison(l->i32),        dword, lower_i32(l, DPP_ROW_XMASK + mask), all, all,
        LLVMConstInt(l->i1, 1, false)};
    return emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
}

/* Adds lower lanes within rows of 16 by shifts, then the sum of row 0 to row 1. */
LLVMValueRef gfx12_lane_sum(struct lower *l, LLVMValueRef sum)
{
    LLVMValueRef zero = lower_i32(l, 0), all = lower_i32(l, 15);
    for (unsigned distance = 1; distance < GFX12_ROW_LANES; distance *= 2) {
        LLVMValueRef args[6] = {zero, sum, lower_i32(l, DPP_ROW_SHR + distance),
                                all,  all, LLVMConstNull(l->i1)};
        LLVMValueRef below = emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
        sum = LLVMBuildAdd(l->b, sum, below, "");
    }
    LLVMValueRef first = other_row(l, sum, 0, GFX12_ROW_LANES - 1);
    LLVMValueRef second =
        LLVMBuildICmp(l->b, LLVMIntUGE, l->lane, lower_i32(l, GFX12_ROW_LANES), "");
    return LLVMBuildAdd(l->b, sum, LLVMBuildSelect(l->b, second, first, zero, ""), "");
}

LLVMValueRef gfx12_lanes_below(struct lower *l, LLVMValueRef set)
{
    LLVMValueRef args[2] = {lower_ballot(l, set), lower_i32(l, 0)};
    return emit_intrinsic(l, "llvm.amdgcn.mbcnt.lo", NULL, 0, args, 2);
}
