/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of CDNA5, and its own instructions: asynchronous copies to LDS with an address per
 * lane, tensor loads, transposing LDS reads, WMMA. lower_isa.h describes the functions. Source:
 * CDNA5 ISA manual (July 2026).
 */
#include "targets/isa_gfx12.h"

#include <string.h>

/* Emits waits for asynchronous copies and for LDS. LLVM adds the waits for loads to registers. A
 * wait for all copies also waits for all stores, which have a counter of their own.
 * tir_wait_memory() needs that before a barrier after which another wave releases the stores: LLVM
 * adds no wait there. */
static void wait(struct lower *l, int64_t vm, int64_t lgkm)
{
    gfx12_wait_counter(l, TIR_COUNTER_ASYNC, vm);
    if (vm == 0)
        gfx12_wait_counter(l, TIR_COUNTER_STORE, 0);
    gfx12_wait_counter(l, TIR_COUNTER_DS, lgkm);
}

/* Emits a barrier across which LLVM moves no instruction. LLVM 22.1 may move an s_set_vgpr_msb that
 * follows a barrier to before the barrier's predecessor, which would then address other
 * registers. */
static void barrier(struct lower *l)
{
    LLVMValueRef nothing_crosses = lower_i32(l, 0);
    emit_intrinsic(l, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing_crosses, 1);
    cdna_barrier(l);
}

/* Emits half of a barrier, as barrier() emits a whole one. */
static void half_barrier(struct lower *l, bool wait)
{
    LLVMValueRef nothing_crosses = lower_i32(l, 0);
    LLVMValueRef workgroup =
        LLVMConstInt(LLVMIntTypeInContext(l->ctx, wait ? 16 : 32), UINT64_MAX, true);
    emit_intrinsic(l, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing_crosses, 1);
    emit_intrinsic(l, wait ? "llvm.amdgcn.s.barrier.wait" : "llvm.amdgcn.s.barrier.signal", NULL, 0,
                   &workgroup, 1);
}

/* The functions from here on copy to LDS. */

/* Sets *base and *bytes to the address and the size in bytes of a buffer resource, both i64 (CDNA5
 * ISA, table 57). */
static void split_rsrc(struct lower *l, LLVMValueRef rsrc, LLVMValueRef *base, LLVMValueRef *bytes)
{
    enum { BASE_BITS = 57, BYTES_BITS = 45 };
    LLVMTypeRef wide = LLVMIntTypeInContext(l->ctx, 128);
    LLVMValueRef all = LLVMBuildPtrToInt(l->b, rsrc, wide, "");
    LLVMValueRef high = LLVMBuildLShr(l->b, all, LLVMConstInt(wide, BASE_BITS, false), "");
    *base = LLVMBuildAnd(l->b, LLVMBuildTrunc(l->b, all, l->i64, ""),
                         LLVMConstInt(l->i64, (UINT64_C(1) << BASE_BITS) - 1, false), "");
    *bytes = LLVMBuildAnd(l->b, LLVMBuildTrunc(l->b, high, l->i64, ""),
                          LLVMConstInt(l->i64, (UINT64_C(1) << BYTES_BITS) - 1, false), "");
}

/* Returns the address of a constant of 16 zero bytes in the code object, as i64. The first call
 * defines the constant. */
static LLVMValueRef zeros(struct lower *l)
{
    static const char name[] = "zeros";
    enum { BYTES = 16 };
    LLVMTypeRef type = LLVMArrayType2(l->i8, BYTES);
    LLVMValueRef v = LLVMGetNamedGlobal(l->module, name);
    if (!v) {
        v = LLVMAddGlobalInAddressSpace(l->module, type, name, AS_GLOBAL);
        LLVMSetInitializer(v, LLVMConstNull(type));
        LLVMSetGlobalConstant(v, true);
        LLVMSetLinkage(v, LLVMInternalLinkage);
        LLVMSetAlignment(v, BYTES);
    }
    return LLVMBuildPtrToInt(l->b, v, l->i64, "");
}

/* Emits an asynchronous load of `bytes` bytes, 4 or 16, from the lane's `address` to lds + lane *
 * bytes. The instruction adds `both` bytes to both addresses. Returns the load. */
static LLVMValueRef load_to_lds(struct lower *l, LLVMValueRef address, LLVMValueRef lds,
                                unsigned bytes, unsigned both)
{
    const char *const name = bytes == 16 ? "llvm.amdgcn.global.load.async.to.lds.b128"
                                         : "llvm.amdgcn.global.load.async.to.lds.b32";
    LLVMValueRef each = LLVMBuildMul(l->b, l->lane, lower_i32(l, bytes), "");
    LLVMValueRef args[4] = {LLVMBuildIntToPtr(l->b, address, l->global_ptr, ""),
                            LLVMBuildGEP2(l->b, l->i8, lds, &each, 1, ""), lower_i32(l, both),
                            lower_i32(l, 0)};
    return emit_intrinsic(l, name, NULL, 0, args, 4);
}

/* Emits an asynchronous load for a copy from a buffer. The instruction has no buffer resource, so
 * lanes past the buffer's end load zeros from the code object. */
static LLVMValueRef copy_to_lds(struct lower *l, const struct lower_copy *c)
{
    LLVMValueRef base, bytes;
    split_rsrc(l, c->rsrc, &base, &bytes);
    LLVMValueRef both = LLVMConstInt(l->i64, c->both, false);
    LLVMValueRef at = LLVMBuildAdd(l->b, LLVMBuildZExt(l->b, c->lane_offset, l->i64, ""),
                                   LLVMBuildZExt(l->b, c->offset, l->i64, ""), "");
    LLVMValueRef end = LLVMBuildAdd(l->b, at, LLVMConstInt(l->i64, c->both + c->bytes, false), "");
    LLVMValueRef inside = LLVMBuildICmp(l->b, LLVMIntULE, end, bytes, "");
    LLVMValueRef other = LLVMBuildSub(l->b, zeros(l), both, "");
    LLVMValueRef address =
        LLVMBuildSelect(l->b, inside, LLVMBuildAdd(l->b, base, at, ""), other, "");
    return load_to_lds(l, address, c->lds, c->bytes, c->both);
}

/* Emits an asynchronous load for a copy from memory. */
static void gather_to_lds(struct lower *l, const struct lower_gather *g)
{
    LLVMValueRef offset = LLVMTypeOf(g->lane_offset) == l->i64
                              ? g->lane_offset
                              : LLVMBuildZExt(l->b, g->lane_offset, l->i64, "");
    LLVMValueRef to = LLVMBuildAdd(l->b, g->lds, lower_i32(l, g->lds_offset), "");
    load_to_lds(l, LLVMBuildAdd(l->b, g->base, offset, ""),
                LLVMBuildIntToPtr(l->b, to, l->lds_ptr, ""), g->bytes, g->both);
}

/* Returns group 0 of a tensor descriptor, four dwords: one tile, and its addresses in LDS and in
 * memory (CDNA5 ISA, table 62). */
static LLVMValueRef tensor_places(struct lower *l, const struct lower_tensor *t)
{
    enum { ONE_TILE = 1, HIGH_BITS = 25, IMAGE = 2, IMAGE_AT = 30 };
    LLVMValueRef low = LLVMBuildTrunc(l->b, t->base, l->i32, "");
    LLVMValueRef high = LLVMBuildTrunc(
        l->b, LLVMBuildLShr(l->b, t->base, LLVMConstInt(l->i64, 32, false), ""), l->i32, "");
    high = LLVMBuildAnd(l->b, high, lower_i32(l, (1 << HIGH_BITS) - 1), "");
    LLVMValueRef type = LLVMConstInt(l->i32, (uint64_t)IMAGE << IMAGE_AT, false);
    LLVMValueRef group[4] = {lower_i32(l, ONE_TILE), t->lds, low,
                             LLVMBuildOr(l->b, high, type, "")};
    return lower_gather(l, group, 4);
}

/* Returns log2 of `n`, a power of two. */
static unsigned log2_of(unsigned n)
{
    unsigned bits = 0;
    while (n >> (bits + 1))
        bits++;
    return bits;
}

/* Returns group 1 of a tensor descriptor, eight dwords: sizes, stride and padding (CDNA5 ISA, table
 * 63). The tensor of dwords has t->there rows, the tile t->rows: rows beyond the tensor become
 * zeros. */
static LLVMValueRef tensor_sizes(struct lower *l, const struct lower_tensor *t)
{
    enum { DWORDS = 2 << 16, PADS = 1 << 20, SPAN_AT = 22, PAD_AT = 25, HIGH = 16 };
    uint32_t flags = DWORDS;
    if (t->pad)
        flags |= PADS | (log2_of(t->span / 4) - 1) << SPAN_AT | (t->pad / 4 - 1) << PAD_AT;
    LLVMValueRef stride = LLVMBuildLShr(l->b, t->stride, LLVMConstInt(l->i64, 2, false), "");
    LLVMValueRef upper = LLVMBuildTrunc(
        l->b, LLVMBuildLShr(l->b, stride, LLVMConstInt(l->i64, 32, false), ""), l->i32, "");
    LLVMValueRef half = lower_i32(l, HIGH);
    const int32_t columns = (int32_t)(t->bytes / 4 << HIGH);
    LLVMValueRef group[8] = {
        lower_i32(l, (int32_t)flags),
        lower_i32(l, columns),
        LLVMBuildShl(l->b, t->there, half, ""),
        LLVMBuildOr(l->b, LLVMBuildLShr(l->b, t->there, half, ""), lower_i32(l, columns), ""),
        lower_i32(l, (int32_t)t->rows),
        LLVMBuildTrunc(l->b, stride, l->i32, ""),
        LLVMBuildAnd(l->b, upper, lower_i32(l, (1 << HIGH) - 1), ""),
        lower_i32(l, 0)};
    return lower_gather(l, group, 8);
}

/* Emits a copy of rows to LDS by the tensor data mover. */
static void tensor_to_lds(struct lower *l, const struct lower_tensor *t)
{
    LLVMValueRef args[3] = {tensor_places(l, t), tensor_sizes(l, t), lower_i32(l, 0)};
    emit_intrinsic(l, "llvm.amdgcn.tensor.load.to.lds.d2", NULL, 0, args, 3);
}

/* Emits a wait until at most `most` copies of the tensor data mover are outstanding. */
static void wait_tensor(struct lower *l, int64_t most)
{
    gfx12_wait_counter(l, TIR_COUNTER_TENSOR, most);
}

/* Emits ds_load_tr8_b64 or ds_load_tr16_b128: a transposing LDS read of elements of `bits` bits, 8
 * or 16. */
static LLVMValueRef read_transposed(struct lower *l, LLVMValueRef address, unsigned bits)
{
    LLVMTypeRef type = bits == 8 ? LLVMVectorType(l->i32, 2) : LLVMVectorType(l->i16, 8);
    const char *const name =
        bits == 8 ? "llvm.amdgcn.ds.load.tr8.b64" : "llvm.amdgcn.ds.load.tr16.b128";
    return emit_intrinsic(l, name, &type, 1, &address, 1);
}

/* The functions from here on emit matrix instructions. */

/* Emits a WMMA of operands a, b and c. Its intrinsic has a modifier before each of a, b and c, here
 * 0; for fp8 only before c. For integers it has a flag before a and b, here 1 for signed, and none
 * before c. Two flags after c, here 0, permit reuse of a and b. For integers a clamp flag follows
 * them. */
static LLVMValueRef multiply(struct lower *l, const struct lower_product *p)
{
    const unsigned in = p->row->in_dtype;
    LLVMTypeRef number = in == TIR_BF16  ? l->bf16
                         : in == TIR_F16 ? l->f16
                         : in == TIR_F32 ? l->f32
                                         : l->i32; /* four elements of a byte */
    const unsigned each = number == l->i32 ? 4 : 1;
    LLVMTypeRef types[2] = {LLVMTypeOf(p->operands[2]),
                            LLVMVectorType(number, p->counts[0] / each)};
    LLVMValueRef a = lower_bitcast(l, p->operands[0], types[1]);
    LLVMValueRef b = lower_bitcast(l, p->operands[1], types[1]), c = p->operands[2];
    LLVMValueRef no = LLVMConstNull(l->i1), yes = LLVMConstInt(l->i1, 1, false);
    LLVMValueRef plain = LLVMConstNull(l->i16);
    if (in == TIR_FP8)
        return emit_intrinsic(l, p->row->intrinsic, types, 2,
                              (LLVMValueRef[]){a, b, plain, c, no, no}, 6);
    if (in == TIR_I8)
        return emit_intrinsic(l, p->row->intrinsic, types, 2,
                              (LLVMValueRef[]){yes, a, yes, b, c, no, no, no}, 8);
    return emit_intrinsic(l, p->row->intrinsic, types, 2,
                          (LLVMValueRef[]){no, a, no, b, plain, c, no, no}, 8);
}

/* The functions from here on move data between lanes. */

/* Emits v_permlane16_swap: exchanges odd rows of 16 lanes of `a` with even rows of `b`. `half` must
 * be 16. */
static LLVMValueRef lane_swap(struct lower *l, unsigned half, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef no = LLVMConstNull(l->i1);
    LLVMValueRef args[4] = {a, b, no, no};
    if (half != GFX12_ROW_LANES)
        return lower_fail(l, "%s exchanges rows of 16 lanes, not of %u", l->t->machine.name, half);
    return emit_intrinsic(l, "llvm.amdgcn.permlane16.swap", NULL, 0, args, 4);
}

/* The functions from here on convert fp8. */

/* Converts the two elements one by one. LLVM 22.1 allows results of v_cvt_pk_f32_fp8 only in the
 * first 256 VGPRs, and would spill others. */
static LLVMValueRef fp8_pair_to_f32(struct lower *l, LLVMValueRef dword, bool high)
{
    LLVMValueRef pair[2];
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef args[2] = {dword, lower_i32(l, 2 * high + i)};
        pair[i] = emit_intrinsic(l, "llvm.amdgcn.cvt.f32.fp8", NULL, 0, args, 2);
    }
    return lower_gather(l, pair, 2);
}

const struct lower_isa lower_isa_cdna5 = {
    .set_registers = gfx12_set_registers,
    .wait = wait,
    .barrier = barrier,
    .half_barrier = half_barrier,
    .set_priority = cdna_set_priority,
    /* word 3 of a buffer resource: no stride, not swizzled (CDNA5 ISA, table 57) */
    .rsrc_flags = 0,
    .copy_to_lds = copy_to_lds,
    .gather_to_lds = gather_to_lds,
    .tensor_to_lds = tensor_to_lds,
    .wait_tensor = wait_tensor,
    .read_transposed = read_transposed,
    .multiply = multiply,
    .lane_xor = gfx12_lane_xor,
    .lane_gather = cdna_lane_gather,
    .lane_swap = lane_swap,
    .lane_sum = gfx12_lane_sum,
    .lanes_below = gfx12_lanes_below,
    .to_bf16 = cdna_truncate_to_bf16,
    .to_fp8 = cdna_to_fp8,
    .fp8_to_f32 = cdna_fp8_to_f32,
    .fp8_pair_to_f32 = fp8_pair_to_f32,
};
