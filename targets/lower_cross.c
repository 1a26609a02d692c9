/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves between the lanes of a wave.
 */
#include "targets/lower.h"

/* dpp_ctrl (CDNA3 ISA manual, "DPP_CTRL enumerations"). */
enum {
    DPP_QUAD_XOR1 = 0xb1,        /* quad_perm:[1,0,3,2] */
    DPP_QUAD_XOR2 = 0x4e,        /* quad_perm:[2,3,0,1] */
    DPP_QUAD_XOR3 = 0x1b,        /* quad_perm:[3,2,1,0] */
    DPP_ROW_ROR8 = 0x128,        /* lane xor 8 of a row of 16 */
    DPP_ROW_SHR1 = 0x111,        /* from the lane 1 below, of a row of 16; 0x112 from 2 ... */
    DPP_ROW_MIRROR = 0x140,      /* lane xor 15 */
    DPP_ROW_HALF_MIRROR = 0x141, /* lane xor 7 */
    DPP_ROW_BCAST15 = 0x142,     /* lane 15 of each row to the next row */
    DPP_ROW_BCAST31 = 0x143,     /* lane 31 to rows 2 and 3 */
};

static LLVMValueRef dpp(struct lower *l, LLVMValueRef dword, unsigned ctrl)
{
    LLVMValueRef all = lower_i32(l, 15);
    LLVMValueRef args[6] = {LLVMGetPoison(l->i32),        dword, lower_i32(l, ctrl), all, all,
                            LLVMConstInt(l->i1, 1, false)};
    return emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
}

/* Within a row of 16 every mask is one or two DPP moves, which may fold into what follows. */
static LLVMValueRef xor_in_row(struct lower *l, LLVMValueRef dword, unsigned mask)
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

static LLVMValueRef swap(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef no = LLVMConstNull(l->i1);
    LLVMValueRef args[4] = {a, b, no, no};
    const char *name = half == 32 ? "llvm.amdgcn.permlane32.swap" : "llvm.amdgcn.permlane16.swap";
    return emit_intrinsic(l, name, NULL, 0, args, 4);
}

/* Swapping a value with itself leaves the even halves' data in the first result and the odd ones'
 * in the second: even lanes take the second, odd ones the first. */
static LLVMValueRef xor_by_swap(struct lower *l, LLVMValueRef dword, unsigned half)
{
    LLVMValueRef both = swap(l, half, dword, dword);
    if (!both)
        return NULL;
    LLVMValueRef bit = LLVMBuildAnd(l->b, l->lane, lower_i32(l, half), "");
    LLVMValueRef odd = LLVMBuildICmp(l->b, LLVMIntNE, bit, lower_i32(l, 0), "");
    return LLVMBuildSelect(l->b, odd, LLVMBuildExtractValue(l->b, both, 0, ""),
                           LLVMBuildExtractValue(l->b, both, 1, ""), "");
}

static LLVMValueRef bpermute(struct lower *l, LLVMValueRef byte_address, LLVMValueRef dword)
{
    LLVMValueRef args[2] = {byte_address, dword};
    return emit_intrinsic(l, "llvm.amdgcn.ds.bpermute", NULL, 0, args, 2);
}

/* ds_swizzle's bit mode: and-mask 31, or-mask 0, xor-mask; within halves of 32 lanes. */
static LLVMValueRef swizzle(struct lower *l, LLVMValueRef dword, unsigned mask)
{
    LLVMValueRef args[2] = {dword, lower_i32(l, 0x1f | mask << 10)};
    return emit_intrinsic(l, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
}

static LLVMValueRef xor_dword(struct lower *l, LLVMValueRef dword, void *data)
{
    unsigned mask = *(const unsigned *)data;
    if (mask < 16)
        return xor_in_row(l, dword, mask);
    if (!l->t->machine.has_lane_swap && mask < 32)
        return swizzle(l, dword, mask);
    if (!l->t->machine.has_lane_swap) {
        LLVMValueRef lane = LLVMBuildXor(l->b, l->lane, lower_i32(l, mask), "");
        return bpermute(l, LLVMBuildShl(l->b, lane, lower_i32(l, 2), ""), dword);
    }
    if (mask & 32)
        dword = xor_by_swap(l, dword, 32);
    if (dword && mask & 16)
        dword = xor_by_swap(l, dword, 16);
    return dword ? xor_in_row(l, dword, mask & 15) : NULL;
}

LLVMValueRef lower_lane_xor(struct lower *l, const struct tir_op *op)
{
    unsigned mask = (unsigned)op->imm[0] & 63;
    return lower_by_dword(l, lower_value(l, op->operands[0]), xor_dword, &mask);
}

struct swap_request {
    unsigned half, which, next;
    LLVMValueRef other; /* dwords of the second operand */
};

static LLVMValueRef swap_dword(struct lower *l, LLVMValueRef dword, void *data)
{
    struct swap_request *r = data;
    LLVMValueRef both = swap(l, r->half, dword, lower_element(l, r->other, r->next++));
    return both ? LLVMBuildExtractValue(l->b, both, r->which, "") : NULL;
}

/* The ops for both results of a swap name the same intrinsic call; LLVM merges the two. */
LLVMValueRef lower_lane_swap(struct lower *l, const struct tir_op *op)
{
    if (!l->t->machine.has_lane_swap)
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

static LLVMValueRef gather_dword(struct lower *l, LLVMValueRef dword, void *byte_address)
{
    return bpermute(l, byte_address, dword);
}

LLVMValueRef lower_lane_gather(struct lower *l, const struct tir_op *op)
{
    return lower_by_dword(l, lower_value(l, op->operands[1]), gather_dword,
                          lower_value(l, op->operands[0]));
}

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
    LLVMValueRef lanes = emit_intrinsic(l, "llvm.amdgcn.ballot", &l->i64, 1, &some, 1);
    return lanes ? LLVMBuildICmp(l->b, LLVMIntNE, lanes, LLVMConstNull(l->i64), "") : NULL;
}

static LLVMValueRef ballot(struct lower *l, LLVMValueRef mask)
{
    return emit_intrinsic(l, "llvm.amdgcn.ballot", &l->i64, 1, &mask, 1);
}

LLVMValueRef lower_lane_count(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_operand_type(l, op, 0));
    LLVMValueRef sum = NULL;
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef set = ballot(l, lower_element(l, lower_value(l, op->operands[0]), i));
        LLVMValueRef n = emit_intrinsic(l, "llvm.ctpop", &l->i64, 1, &set, 1);
        n = LLVMBuildTrunc(l->b, n, l->i32, "");
        sum = sum ? LLVMBuildAdd(l->b, sum, n, "") : n;
    }
    return sum;
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
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef set = ballot(l, lower_element(l, lower_value(l, op->operands[0]), i));
        LLVMValueRef up = LLVMBuildLShr(l->b, set, LLVMConstInt(l->i64, 32, false), "");
        LLVMValueRef low[2] = {LLVMBuildTrunc(l->b, set, l->i32, ""), lower_i32(l, 0)};
        LLVMValueRef high[2] = {LLVMBuildTrunc(l->b, up, l->i32, ""),
                                emit_intrinsic(l, "llvm.amdgcn.mbcnt.lo", NULL, 0, low, 2)};
        out[i] = emit_intrinsic(l, "llvm.amdgcn.mbcnt.hi", NULL, 0, high, 2);
    }
    return lower_gather(l, out, count);
}

/* Adds what other lanes have, 0 where `ctrl` names no lane or the row is not in `rows`. */
static LLVMValueRef add_dpp(struct lower *l, LLVMValueRef v, unsigned ctrl, unsigned rows)
{
    LLVMValueRef args[6] = {lower_i32(l, 0),    v,
                            lower_i32(l, ctrl), lower_i32(l, rows),
                            lower_i32(l, 0xf),  LLVMConstInt(l->i1, 0, false)};
    LLVMValueRef moved = emit_intrinsic(l, "llvm.amdgcn.update.dpp", &l->i32, 1, args, 6);
    return LLVMBuildAdd(l->b, v, moved, "");
}

/* Within rows of 16 by shifts, then the sum of row 0 to row 1 and of row 2 to row 3, and that of
 * the lower half to the upper: LLVM's AMDGPUAtomicOptimizer scans a wave of gfx9 so. */
LLVMValueRef lower_lane_sum_below(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef own = lower_element(l, lower_value(l, op->operands[0]), i), sum = own;
        for (unsigned distance = 1; distance < 16; distance *= 2)
            sum = add_dpp(l, sum, DPP_ROW_SHR1 - 1 + distance, 0xf);
        sum = add_dpp(l, sum, DPP_ROW_BCAST15, 0xa);
        sum = add_dpp(l, sum, DPP_ROW_BCAST31, 0xc);
        out[i] = LLVMBuildSub(l->b, sum, own, "");
    }
    return lower_gather(l, out, count);
}
