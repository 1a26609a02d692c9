/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits instructions that CDNA3 and CDNA4 share, and some that GFX12 shares: waits, direct-to-LDS
 * loads, MFMA, moves between lanes, conversions. lower_isa.h describes the functions.
 */
#include "targets/isa_cdna.h"

#include <stdio.h>
#include <string.h>

/*
 * Forbids AGPRs in kernels with two or more waves per SIMD. Their waves have at most 256 registers,
 * and all of them can be VGPRs. LLVM would divide the registers into VGPRs and AGPRs and copy
 * between the two. A wave that is the only one of its SIMD has both kinds.
 */
void cdna_set_registers(struct lower *l, unsigned waves)
{
    if (waves > 1)
        lower_attribute(l, "amdgpu-agpr-alloc", "0");
}

/* The largest expcnt in s_waitcnt's immediate. On gfx9 it has vmcnt in bits 3:0 and 15:14, expcnt
 * in 6:4, and lgkmcnt in 11:8 (LLVM AMDGPUBaseInfo, encodeWaitcnt). A counter at its maximum means
 * no wait. */
enum { MAX_EXP = 7 };

void cdna_wait(struct lower *l, int64_t vm, int64_t lgkm)
{
    const struct tir_machine *const m = &l->t->machine;
    const uint8_t most = m->counters[TIR_COUNTER_VM], lgkm_most = m->counters[TIR_COUNTER_LGKM];
    if (vm < 0 || vm > most)
        vm = most;
    if (lgkm < 0 || lgkm > lgkm_most)
        lgkm = lgkm_most;
    LLVMValueRef imm = lower_i32(l, (vm & 15) | MAX_EXP << 4 | lgkm << 8 | (vm >> 4) << 14);
    emit_intrinsic(l, "llvm.amdgcn.s.waitcnt", NULL, 0, &imm, 1);
}

void cdna_barrier(struct lower *l) { emit_intrinsic(l, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0); }

void cdna_set_priority(struct lower *l, unsigned level)
{
    LLVMValueRef imm = LLVMConstInt(l->i16, level, false);
    emit_intrinsic(l, "llvm.amdgcn.s.setprio", NULL, 0, &imm, 1);
}

/* Emits a buffer load with LDS as its destination. The instruction's offset is added to the memory
 * address and to the LDS address. */
LLVMValueRef cdna_copy_to_lds(struct lower *l, const struct lower_copy *c)
{
    LLVMValueRef zero = lower_i32(l, 0);
    LLVMValueRef args[7] = {
        c->rsrc, c->lds, lower_i32(l, c->bytes), c->lane_offset, c->offset, lower_i32(l, c->both),
        zero};
    return emit_intrinsic(l, "llvm.amdgcn.raw.ptr.buffer.load.lds", NULL, 0, args, 7);
}

/* Emits global_load_lds as inline assembly. LLVM counts its own global_load_lds as an LDS access,
 * which makes later waits for LDS reads too short (ERRATA.md). LLVM adds no wait states before
 * assembly. The text contains the wait state that m0 needs. At least five instructions must be
 * between a VALU instruction that writes the base and this one. */
void cdna_gather_to_lds(struct lower *l, const struct lower_gather *g)
{
    const bool wide = LLVMTypeOf(g->lane_offset) == l->i64;
    char text[128], both[32] = "";
    if (g->both)
        snprintf(both, sizeof(both), " offset:%u", g->both);
    snprintf(text, sizeof(text),
             "s_add_i32 m0, $1, %d\n\ts_nop 0\n\tglobal_load_lds_dword%s $0, %s%s", g->lds_offset,
             g->bytes == 16 ? "x4" : "", wide ? "off" : "$2", both);
    LLVMTypeRef types[3] = {wide ? l->i64 : l->i32, l->i32, l->i64};
    LLVMTypeRef type = LLVMFunctionType(l->void_, types, wide ? 2 : 3, false);
    const char *const constraints =
        wide ? "v,s,~{memory},~{m0},~{scc}" : "v,s,s,~{memory},~{m0},~{scc}";
    LLVMValueRef copy = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                         true, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef address = wide ? LLVMBuildAdd(l->b, g->base, g->lane_offset, "") : g->lane_offset;
    LLVMValueRef args[3] = {address, g->lds, g->base};
    LLVMBuildCall2(l->b, type, copy, args, wide ? 2 : 3, "");
}

/* The functions from here on emit matrix instructions. */

/* Emits an MFMA with the operand types of its intrinsic, which differ between shapes: <8 x bfloat>,
 * <4 x i16>, i64. The f8f6f4 intrinsics are overloaded by the number of registers of each
 * operand. */
LLVMValueRef cdna_multiply(struct lower *l, const struct lower_product *p)
{
    enum { MAX_OPERANDS = 9, PLAIN_OPERANDS = 6 };
    const char *const name = p->row->intrinsic;
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0)
        return lower_fail(l, "LLVM has no intrinsic %s", name);

    const bool overloaded = LLVMIntrinsicIsOverloaded(id);
    LLVMTypeRef words[2];
    for (unsigned i = 0; i < 2 && overloaded; i++)
        words[i] = LLVMVectorType(l->i32, p->counts[i] / (unsigned)sizeof(uint32_t));
    LLVMTypeRef *const overload = overloaded ? words : NULL;
    const unsigned n = overloaded ? MAX_OPERANDS : PLAIN_OPERANDS, n_overload = overloaded ? 2 : 0;
    LLVMTypeRef params[MAX_OPERANDS];
    LLVMGetParamTypes(LLVMIntrinsicGetType(l->ctx, id, overload, n_overload), params);
    LLVMValueRef args[MAX_OPERANDS];
    for (unsigned i = 0; i < n; i++)
        args[i] = i < 3       ? lower_bitcast(l, p->operands[i], params[i])
                  : p->scales ? p->scales[i - 3]
                              : lower_i32(l, 0);
    return emit_intrinsic(l, name, overload, n_overload, args, n);
}

/* The functions from here on move data between lanes. */

/* Values of dpp_ctrl, which selects the lane that a lane reads (CDNA3 ISA manual, "DPP_CTRL
 * enumerations"). */
enum {
    DPP_QUAD_XOR1 = 0xb1,        /* lane ^ 1: quad_perm:[1,0,3,2] */
    DPP_QUAD_XOR2 = 0x4e,        /* lane ^ 2: quad_perm:[2,3,0,1] */
    DPP_QUAD_XOR3 = 0x1b,        /* lane ^ 3: quad_perm:[3,2,1,0] */
    DPP_ROW_ROR8 = 0x128,        /* lane ^ 8 in a row of 16 */
    DPP_ROW_SHR1 = 0x111,        /* lane - 1 in a row of 16; 0x112: lane - 2, and so on to 0x11f */
    DPP_ROW_MIRROR = 0x140,      /* lane ^ 15 */
    DPP_ROW_HALF_MIRROR = 0x141, /* lane ^ 7 */
    DPP_ROW_BCAST15 = 0x142,     /* lane 15 of the previous row */
    DPP_ROW_BCAST31 = 0x143,     /* lane 31, in rows 2 and 3 */
};

/* Returns for each lane the dword of the lane that the dpp_ctrl `ctrl` selects. */
static LLVMValueRef dpp(struct lower *l, LLVMValueRef dword, unsigned ctrl)
{
    LLVMValueRef all = lower_i32(l, 15);
    LLVMValueRef args[6] = {LLVMGetPoison(l->i32),        dword, lower_i32(l, ctrl), all, all,
                            LLVMConstInt(l->i1, 1, false)};
    return emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
}

/* Emits one or two DPP moves, which LLVM may fold into the next instruction. */
LLVMValueRef cdna_xor_in_row(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    static const uint16_t quad[4] = {0, DPP_QUAD_XOR1, DPP_QUAD_XOR2, DPP_QUAD_XOR3};
    static const struct {
        uint16_t ctrl, mask;
    } far[4] = {{0, 0}, {DPP_ROW_HALF_MIRROR, 7}, {DPP_ROW_ROR8, 8}, {DPP_ROW_MIRROR, 15}};

    unsigned step = mask >> 2 & 3;
    if (step) {
        dword = dpp(l, dword, far[step].ctrl);
        mask ^= far[step].mask;
    }
    if (dword && mask)
        dword = dpp(l, dword, quad[mask & 3]);
    return dword;
}

LLVMValueRef cdna_lane_gather(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword)
{
    LLVMValueRef args[2] = {byte_address, dword};
    return emit_intrinsic(l, "llvm.amdgcn.ds.bpermute", NULL, 0, args, 2);
}

/* Returns for each lane `v` plus the `v` of the lane that the dpp_ctrl `ctrl` selects. Adds 0 if
 * there is no such lane, or if the lane's row of 16 is not in the mask `rows`. */
static LLVMValueRef add_dpp(struct lower *l, LLVMValueRef v, unsigned ctrl, unsigned rows)
{
    LLVMValueRef args[6] = {lower_i32(l, 0),    v,
                            lower_i32(l, ctrl), lower_i32(l, rows),
                            lower_i32(l, 0xf),  LLVMConstInt(l->i1, 0, false)};
    LLVMValueRef moved = emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
    return LLVMBuildAdd(l->b, v, moved, "");
}

/* Adds lower lanes within rows of 16 by shifts. Then adds the sum of row 0 to row 1 and of row 2 to
 * row 3. At last adds the sum of the lower half to the upper half. LLVM's AMDGPUAtomicOptimizer
 * scans a wave of gfx9 in the same way. */
LLVMValueRef cdna_lane_sum(struct lower *l, LLVMValueRef sum)
{
    for (unsigned distance = 1; distance < 16; distance *= 2)
        sum = add_dpp(l, sum, DPP_ROW_SHR1 - 1 + distance, 0xf);
    sum = add_dpp(l, sum, DPP_ROW_BCAST15, 0xa);
    return add_dpp(l, sum, DPP_ROW_BCAST31, 0xc);
}

LLVMValueRef cdna_lanes_below(struct lower *l, LLVMValueRef set)
{
    LLVMValueRef lanes = lower_ballot(l, set);
    LLVMValueRef up = LLVMBuildLShr(l->b, lanes, LLVMConstInt(l->i64, 32, false), "");
    LLVMValueRef low[2] = {LLVMBuildTrunc(l->b, lanes, l->i32, ""), lower_i32(l, 0)};
    LLVMValueRef high[2] = {LLVMBuildTrunc(l->b, up, l->i32, ""),
                            emit_intrinsic(l, "llvm.amdgcn.mbcnt.lo", NULL, 0, low, 2)};
    return emit_intrinsic(l, "llvm.amdgcn.mbcnt.hi", NULL, 0, high, 2);
}

/* The functions from here on convert between element types. */

LLVMValueRef cdna_truncate_to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                                   struct lower_rounding how)
{
    (void)how;
    return LLVMBuildFPTrunc(l->b, v, count == 1 ? l->bf16 : LLVMVectorType(l->bf16, count), "");
}

/*
 * Rounds the f32 `x` to bf16, nearest even, in the high half of the result. Adds 0x7fff plus the
 * lowest kept bit, by v_bfe and v_add3; LLVM's expansion of fptrunc takes five instructions.
 *
 * The addition could turn a NaN into zero, so v_cmp_u and v_cndmask keep NaNs unchanged. NaNs with
 * a zero low half (short_nan) cannot overflow. NaNs from arithmetic are quiet: their highest
 * fraction bit survives. If ties may round either way, all round up, which takes one v_add.
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

/* Converts an f32 to bf16 by integer instructions, with rounding `how`. */
static LLVMValueRef one_to_bf16(struct lower *l, LLVMValueRef x, struct lower_rounding how)
{
    LLVMValueRef high = LLVMBuildLShr(l->b, round_to_high_half(l, x, how), lower_i32(l, 16), "");
    return lower_bitcast(l, LLVMBuildTrunc(l->b, high, l->i16, ""), l->bf16);
}

/* Converts two f32 to bf16. Returns a dword with `a` in its low half and `b` in its high half. */
static LLVMValueRef pair_to_bf16(struct lower *l, LLVMValueRef a, LLVMValueRef b,
                                 struct lower_rounding how)
{
    LLVMValueRef args[3] = {round_to_high_half(l, b, how), round_to_high_half(l, a, how),
                            lower_i32(l, 0x07060302)};
    return emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

/* Converts a vector of `count` f32, an even number, to bf16, in pairs. */
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

LLVMValueRef cdna_round_to_bf16(struct lower *l, LLVMValueRef v, unsigned count,
                                struct lower_rounding how)
{
    if (count % 2 == 0)
        return pairs_to_bf16(l, v, count, how);
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        out[i] = one_to_bf16(l, lower_element(l, v, i), how);
    return lower_gather(l, out, count);
}

/* Emits v_cvt_pk_fp8_f32, which converts `x` and `y` to two bytes. */
LLVMValueRef cdna_to_fp8(struct lower *l, LLVMValueRef x, LLVMValueRef y, LLVMValueRef dword,
                         bool high)
{
    LLVMValueRef args[4] = {x, y, dword, LLVMConstInt(l->i1, high, false)};
    return emit_intrinsic(l, "llvm.amdgcn.cvt.pk.fp8.f32", NULL, 0, args, 4);
}

/* Emits v_cvt_f32_fp8 of the lowest byte. */
LLVMValueRef cdna_fp8_to_f32(struct lower *l, LLVMValueRef dword)
{
    LLVMValueRef args[2] = {dword, lower_i32(l, 0)};
    return emit_intrinsic(l, "llvm.amdgcn.cvt.f32.fp8", NULL, 0, args, 2);
}

/* Emits v_cvt_pk_f32_fp8 of the low or the high half. */
LLVMValueRef cdna_fp8_pair_to_f32(struct lower *l, LLVMValueRef dword, bool high)
{
    LLVMValueRef args[2] = {dword, LLVMConstInt(l->i1, high, false)};
    return emit_intrinsic(l, "llvm.amdgcn.cvt.pk.f32.fp8", NULL, 0, args, 2);
}
