/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers memory accesses: buffers, global memory, LDS, and direct-to-LDS loads.
 *
 * LDS addresses are numbers from 0: LDS buffers have the offsets that the IR assigned, and the
 * attribute amdgpu-lds-size reserves the total.
 *
 * While direct-to-LDS loads are outstanding, LLVM 22.1 (SIInsertWaitcnts) inserts vmcnt(0) before
 * any LDS access that may alias their destination, which would undo every prefetch. Alias scopes
 * say that none does: all direct-to-LDS loads are in one scope, all other LDS accesses in another.
 * That is true between two waits or barriers of the IR. LLVM moves no access across these, because
 * single-thread fences enclose them. LLVM still inserts waits for loads to registers.
 */
#include "targets/lower_isa.h"

/* Says of a memory access that it is in the alias scope `in` and does not alias accesses of the
 * scope `not_in`. */
static void set_scopes(struct lower *l, LLVMValueRef access, LLVMValueRef in, LLVMValueRef not_in)
{
    LLVMSetMetadata(access, l->md_alias_scope, in);
    LLVMSetMetadata(access, l->md_noalias, not_in);
}

/* Returns the integer `v` plus the constant `offset`. */
static LLVMValueRef add_offset(struct lower *l, LLVMValueRef v, int64_t offset)
{
    return offset ? LLVMBuildAdd(l->b, v, LLVMConstInt(LLVMTypeOf(v), (uint64_t)offset, true), "")
                  : v;
}

/* Returns the pointer `offset` bytes after the pointer `base`. */
static LLVMValueRef byte_pointer(struct lower *l, LLVMValueRef base, LLVMValueRef offset)
{
    return LLVMBuildGEP2(l->b, l->i8, base, &offset, 1, "");
}

/* Returns the bytes of a lane's value of type `t`. */
static unsigned bytes_of(struct tir_type t)
{
    return (tir_dtype_bits(t.dtype) * lower_count(t) + 7) / 8;
}

/* Returns the LLVM type by which a lane's value of type `t` is loaded or stored in one instruction:
 * an integer or a vector of i32. Returns NULL after lower_fail() if there is none. */
static LLVMTypeRef memory_type(struct lower *l, const struct tir_op *op, struct tir_type t)
{
    switch (bytes_of(t)) {
    case 1: return l->i8;
    case 2: return l->i16;
    case 4: return l->i32;
    case 8: return LLVMVectorType(l->i32, 2);
    case 12: return LLVMVectorType(l->i32, 3);
    case 16: return LLVMVectorType(l->i32, 4);
    default:
        lower_fail(l, "%s of %u bytes a lane is not one instruction", tir_ops[op->opcode].name,
                   bytes_of(t));
        return NULL;
    }
}

/* Keeps LLVM from merging the next load, of type `t`, with an earlier one: after a merge, a wait
 * that counts loads would wait for too few. Emits empty assembly with side effects, past which
 * SILoadStoreOptimizer does not look. */
static void keep_apart(struct lower *l, struct tir_type t)
{
    if (!l->counts_loads || bytes_of(t) >= 16)
        return;
    LLVMTypeRef type = LLVMFunctionType(l->void_, NULL, 0, false);
    LLVMValueRef nothing =
        LLVMGetInlineAsm(type, "", 0, "", 0, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(l->b, type, nothing, NULL, 0, "");
}

/* Returns the alignment in bytes of an access of `bytes` bytes: 4 for 12 bytes, otherwise
 * `bytes`. */
static unsigned alignment_of(unsigned bytes) { return bytes == 12 ? 4 : bytes; }

LLVMValueRef lower_make_rsrc(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef base = LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[0]), l->global_ptr, "");
    LLVMValueRef bytes = LLVMBuildZExt(l->b, lower_value(l, op->operands[1]), l->i64, "");
    LLVMValueRef args[4] = {base, LLVMConstNull(l->i16), bytes, lower_i32(l, l->isa->rsrc_flags)};
    LLVMTypeRef types[2] = {l->rsrc, l->global_ptr};
    return emit_intrinsic(l, "llvm.amdgcn.make.buffer.rsrc", types, 2, args, 4);
}

LLVMValueRef lower_buffer_load(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_result_type(l, op);
    LLVMTypeRef type = memory_type(l, op, t);
    if (!type)
        return NULL;
    keep_apart(l, t);
    LLVMValueRef args[4] = {lower_value(l, op->operands[0]),
                            add_offset(l, lower_value(l, op->operands[1]), op->imm[0]),
                            lower_value(l, op->operands[2]), lower_i32(l, 0)};
    LLVMValueRef r = emit_intrinsic(l, "llvm.amdgcn.raw.ptr.buffer.load", &type, 1, args, 4);
    return r ? lower_bitcast(l, r, lower_type(l, t)) : NULL;
}

LLVMValueRef lower_buffer_store(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_operand_type(l, op, 3);
    LLVMTypeRef type = memory_type(l, op, t);
    if (!type)
        return NULL;
    LLVMValueRef args[5] = {lower_bitcast(l, lower_value(l, op->operands[3]), type),
                            lower_value(l, op->operands[0]),
                            add_offset(l, lower_value(l, op->operands[1]), op->imm[0]),
                            lower_value(l, op->operands[2]), lower_i32(l, 0)};
    emit_intrinsic(l, "llvm.amdgcn.raw.ptr.buffer.store", &type, 1, args, 5);
    return NULL;
}

LLVMValueRef lower_buffer_to_lds(struct lower *l, const struct tir_op *op)
{
    unsigned bytes = (unsigned)op->imm[1];
    if (!tir_lane_copy(&l->t->machine, bytes))
        return lower_fail(l, "%s copies no %u bytes a lane to LDS", l->t->machine.name, bytes);
    const struct lower_copy copy = {
        .rsrc = lower_value(l, op->operands[0]),
        .lds = LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[1]), l->lds_ptr, ""),
        .lane_offset = lower_value(l, op->operands[2]),
        .offset = add_offset(l, lower_value(l, op->operands[3]), op->imm[2]),
        .bytes = bytes,
        .both = (unsigned)op->imm[3],
    };
    LLVMValueRef r = l->isa->copy_to_lds(l, &copy);
    if (r)
        set_scopes(l, r, l->dma_scope, l->lds_scope);
    return NULL;
}

LLVMValueRef lower_tensor_to_lds(struct lower *l, const struct tir_op *op)
{
    if (!l->isa->tensor_to_lds)
        return lower_fail(l, "%s has no tensor data mover", l->t->machine.name);
    l->isa->tensor_to_lds(l, &(struct lower_tensor){.base = lower_value(l, op->operands[0]),
                                                    .stride = lower_value(l, op->operands[1]),
                                                    .there = lower_value(l, op->operands[2]),
                                                    .lds = lower_value(l, op->operands[3]),
                                                    .rows = (unsigned)op->imm[1],
                                                    .bytes = (unsigned)op->imm[2],
                                                    .span = (unsigned)op->imm[3],
                                                    .pad = (unsigned)op->imm[4]});
    return NULL;
}

/* Returns the global pointer of an access: operand `first`, plus the lane's byte offset in the next
 * operand, plus the constant in op->imm[0]. The lane's offset is an unsigned i32 or an i64. */
static LLVMValueRef global_address(struct lower *l, const struct tir_op *op, unsigned first)
{
    LLVMValueRef base =
        LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[first]), l->global_ptr, "");
    LLVMValueRef lane = lower_value(l, op->operands[first + 1]);
    if (lower_operand_type(l, op, first + 1).dtype == TIR_I32)
        lane = LLVMBuildZExt(l->b, lane, l->i64, "");
    LLVMValueRef p = byte_pointer(l, base, lane);
    return op->imm[0] ? byte_pointer(l, p, LLVMConstInt(l->i64, (uint64_t)op->imm[0], true)) : p;
}

LLVMValueRef lower_global_to_lds(struct lower *l, const struct tir_op *op)
{
    const unsigned bytes = (unsigned)op->imm[1];
    if (!tir_lane_copy(&l->t->machine, bytes))
        return lower_fail(l, "%s copies no %u bytes a lane to LDS", l->t->machine.name, bytes);
    l->isa->gather_to_lds(l, &(struct lower_gather){.base = lower_value(l, op->operands[0]),
                                                    .lane_offset = lower_value(l, op->operands[2]),
                                                    .lds = lower_value(l, op->operands[1]),
                                                    .lds_offset = (int)op->imm[2],
                                                    .bytes = bytes,
                                                    .both = (unsigned)op->imm[3]});
    return NULL;
}

/* Emits a load of the op's result from the pointer `address`. Returns the loaded value in
 * memory_type(), NULL after lower_fail(). */
static LLVMValueRef load(struct lower *l, const struct tir_op *op, LLVMValueRef address)
{
    struct tir_type t = lower_result_type(l, op);
    LLVMTypeRef type = memory_type(l, op, t);
    if (!type)
        return NULL;
    LLVMValueRef r = LLVMBuildLoad2(l->b, type, address, "");
    LLVMSetAlignment(r, alignment_of(bytes_of(t)));
    return r;
}

/* Emits a store of `value` to the pointer `address`. Returns the store instruction, NULL after
 * lower_fail(). */
static LLVMValueRef store(struct lower *l, const struct tir_op *op, struct tir_value value,
                          LLVMValueRef address)
{
    struct tir_type t = tir_typeof(l->f, value);
    LLVMTypeRef type = memory_type(l, op, t);
    if (!type)
        return NULL;
    LLVMValueRef r = LLVMBuildStore(l->b, lower_bitcast(l, lower_value(l, value), type), address);
    LLVMSetAlignment(r, alignment_of(bytes_of(t)));
    return r;
}

LLVMValueRef lower_global_load(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_result_type(l, op);
    keep_apart(l, t);
    LLVMValueRef r = load(l, op, global_address(l, op, 0));
    return r ? lower_bitcast(l, r, lower_type(l, t)) : NULL;
}

LLVMValueRef lower_global_store(struct lower *l, const struct tir_op *op)
{
    store(l, op, op->operands[2], global_address(l, op, 0));
    return NULL;
}

/* Emits a use of a loaded value, by empty assembly. Otherwise LLVM's sinking pass would move the
 * load into the only branch that uses its value, where nothing hides its latency. */
static void keep_before(struct lower *l, struct tir_value value)
{
    const struct tir_type t = tir_typeof(l->f, value);
    if (bytes_of(t) < 4)
        return;
    LLVMTypeRef dwords = bytes_of(t) == 4 ? l->i32 : LLVMVectorType(l->i32, bytes_of(t) / 4);
    LLVMValueRef v = lower_bitcast(l, lower_value(l, value), dwords);
    LLVMTypeRef type = LLVMFunctionType(l->void_, &dwords, 1, false);
    LLVMValueRef use =
        LLVMGetInlineAsm(type, "", 0, "v", 1, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(l->b, type, use, &v, 1, "");
}

LLVMValueRef lower_global_store_if(struct lower *l, const struct tir_op *op)
{
    keep_before(l, op->operands[3]);
    LLVMValueRef kernel = LLVMGetBasicBlockParent(LLVMGetInsertBlock(l->b));
    LLVMBasicBlockRef some = LLVMAppendBasicBlockInContext(l->ctx, kernel, "store");
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(l->ctx, kernel, "stored");
    LLVMBuildCondBr(l->b, lower_value(l, op->operands[0]), some, after);
    LLVMPositionBuilderAtEnd(l->b, some);
    store(l, op, op->operands[3], global_address(l, op, 1));
    LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return NULL;
}

LLVMValueRef lower_scalar_load(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef base =
        LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[0]), l->constant_ptr, "");
    LLVMValueRef offset = LLVMBuildZExt(l->b, lower_value(l, op->operands[1]), l->i64, "");
    LLVMValueRef p = byte_pointer(l, base, offset);
    if (op->imm[0])
        p = byte_pointer(l, p, LLVMConstInt(l->i64, (uint64_t)op->imm[0], true));
    LLVMValueRef r = load(l, op, p);
    if (!r)
        return NULL;
    /* LLVM's sinking pass moves an invariant load into the last branch before its use. So a load
     * that must stay here (attribute `here`) is not marked as invariant. */
    if (!op->imm[1])
        LLVMSetMetadata(r, l->md_invariant,
                        LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, NULL, 0)));
    return lower_bitcast(l, r, lower_type(l, lower_result_type(l, op)));
}

/* Returns the LDS pointer of an access: operand 0 plus the constant in op->imm[0]. */
static LLVMValueRef lds_address(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef p = LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[0]), l->lds_ptr, "");
    return op->imm[0] ? byte_pointer(l, p, lower_i32(l, op->imm[0])) : p;
}

LLVMValueRef lower_lds_read(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef r = load(l, op, lds_address(l, op));
    if (!r)
        return NULL;
    set_scopes(l, r, l->lds_scope, l->dma_scope);
    return lower_bitcast(l, r, lower_type(l, lower_result_type(l, op)));
}

LLVMValueRef lower_lds_read_tr(struct lower *l, const struct tir_op *op)
{
    if (!l->isa->read_transposed)
        return lower_fail(l, "%s has no transposing LDS read", l->t->machine.name);
    LLVMValueRef r = l->isa->read_transposed(l, lds_address(l, op),
                                             tir_dtype_bits(lower_result_type(l, op).dtype));
    if (!r)
        return NULL;
    set_scopes(l, r, l->lds_scope, l->dma_scope);
    return lower_bitcast(l, r, lower_type(l, lower_result_type(l, op)));
}

LLVMValueRef lower_lds_write(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef w = store(l, op, op->operands[1], lds_address(l, op));
    if (w)
        set_scopes(l, w, l->lds_scope, l->dma_scope);
    return NULL;
}

/* The functions from here on lower accesses in which each element has an LDS address of its own. */

/* Returns the LDS pointer of element `i`: that element of the addresses in operand `operand`, plus
 * the constant in op->imm[0]. */
static LLVMValueRef element_address(struct lower *l, const struct tir_op *op, unsigned operand,
                                    unsigned i)
{
    LLVMValueRef at = lower_element(l, lower_value(l, op->operands[operand]), i);
    return LLVMBuildIntToPtr(l->b, add_offset(l, at, op->imm[0]), l->lds_ptr, "");
}

LLVMValueRef lower_lds_gather(struct lower *l, const struct tir_op *op)
{
    const struct tir_type t = lower_result_type(l, op);
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < lower_count(t); i++) {
        LLVMValueRef r = LLVMBuildLoad2(l->b, l->i32, element_address(l, op, 0, i), "");
        LLVMSetAlignment(r, 4);
        set_scopes(l, r, l->lds_scope, l->dma_scope);
        out[i] = lower_bitcast(l, r, lower_dtype(l, t.dtype));
    }
    return lower_gather(l, out, lower_count(t));
}

/* A function that emits a store or an atomic addition of the dword `value` at the LDS pointer
 * `address`. Returns the instruction. */
typedef LLVMValueRef masked_access(struct lower *l, LLVMValueRef address, LLVMValueRef value);

/* Moves the builder into a basic block that only lanes with `mask` execute. Reuses the block of the
 * previous masked access if the mask is the same and no instruction was emitted since: LLVM may
 * then merge the writes. */
static void begin_masked(struct lower *l, LLVMValueRef mask)
{
    const LLVMBasicBlockRef now = LLVMGetInsertBlock(l->b);
    if (now == l->masked.after && mask == l->masked.mask && !LLVMGetFirstInstruction(now)) {
        LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->masked.lanes));
        return;
    }
    l->masked.mask = mask;
    l->masked.lanes = LLVMAppendBasicBlockInContext(l->ctx, l->kernel, "lanes");
    l->masked.after = LLVMAppendBasicBlockInContext(l->ctx, l->kernel, "all");
    LLVMBuildCondBr(l->b, mask, l->masked.lanes, l->masked.after);
    LLVMPositionBuilderAtEnd(l->b, l->masked.lanes);
    LLVMPositionBuilderBefore(l->b, LLVMBuildBr(l->b, l->masked.after));
}

/* Emits the access of each element. Only lanes whose element of operand 0, the mask, is true
 * execute it. */
static void access_if(struct lower *l, const struct tir_op *op, masked_access *access)
{
    const unsigned count = lower_count(lower_operand_type(l, op, 2));
    for (unsigned i = 0; i < count; i++) {
        begin_masked(l, lower_element(l, lower_value(l, op->operands[0]), i));
        LLVMValueRef address = element_address(l, op, 1, i);
        LLVMValueRef value = lower_element(l, lower_value(l, op->operands[2]), i);
        LLVMValueRef r = access(l, address, lower_bitcast(l, value, l->i32));
        set_scopes(l, r, l->lds_scope, l->dma_scope);
        LLVMPositionBuilderAtEnd(l->b, l->masked.after);
    }
}

/* Emits a store of a dword. A masked_access. */
static LLVMValueRef store_dword(struct lower *l, LLVMValueRef address, LLVMValueRef value)
{
    LLVMValueRef r = LLVMBuildStore(l->b, value, address);
    LLVMSetAlignment(r, 4);
    return r;
}

/* Emits an atomic addition of a dword without ordering: one instruction and no wait. A
 * masked_access. */
static LLVMValueRef add_dword(struct lower *l, LLVMValueRef address, LLVMValueRef value)
{
    return LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpAdd, address, value,
                              LLVMAtomicOrderingMonotonic, false);
}

LLVMValueRef lower_lds_scatter_if(struct lower *l, const struct tir_op *op)
{
    access_if(l, op, store_dword);
    return NULL;
}

LLVMValueRef lower_lds_add_if(struct lower *l, const struct tir_op *op)
{
    access_if(l, op, add_dword);
    return NULL;
}
