/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers memory accesses: buffers, global memory, LDS, and direct-to-LDS loads.
 *
 * LDS is addressed by number: buffers have the offsets that the IR assigned, the attribute
 * amdgpu-lds-size reserves the total, and address 0 is its start.
 *
 * While direct-to-LDS loads are in flight, LLVM 22.1 (SIInsertWaitcnts) puts vmcnt(0) before any
 * LDS access that may alias them, which would undo every prefetch. Alias scopes say that they do
 * not alias: all direct-to-LDS loads are in one scope, all other LDS accesses in another. That is
 * true between two of our own waits and barriers. LLVM moves no access across them, because
 * single-thread fences enclose them. LLVM still inserts the waits for loads to registers.
 */
#include "targets/lower_isa.h"

/* Sets the alias scopes of an access: the one that it is in, and the one that it does not touch. */
static void set_scopes(struct lower *l, LLVMValueRef access, LLVMValueRef in, LLVMValueRef not_in)
{
    LLVMSetMetadata(access, l->md_alias_scope, in);
    LLVMSetMetadata(access, l->md_noalias, not_in);
}

/* Returns `v` plus a constant. */
static LLVMValueRef add_offset(struct lower *l, LLVMValueRef v, int64_t offset)
{
    return offset ? LLVMBuildAdd(l->b, v, LLVMConstInt(LLVMTypeOf(v), (uint64_t)offset, true), "")
                  : v;
}

/* Returns a pointer `offset` bytes after `base`. */
static LLVMValueRef byte_pointer(struct lower *l, LLVMValueRef base, LLVMValueRef offset)
{
    return LLVMBuildGEP2(l->b, l->i8, base, &offset, 1, "");
}

/* Returns the bytes of a lane's value of type `t`. */
static unsigned bytes_of(struct tir_type t)
{
    return (tir_dtype_bits(t.dtype) * lower_count(t) + 7) / 8;
}

/* Returns the integer type for a load or store of this value's bytes. Integers make every dtype
 * one case. */
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

/* Keeps a load from being merged with its neighbour. A wait that counts loads would wait for too
 * few after a merge. SILoadStoreOptimizer does not look past empty assembly with side effects. */
static void keep_apart(struct lower *l, struct tir_type t)
{
    if (!l->counts_loads || bytes_of(t) >= 16)
        return;
    LLVMTypeRef type = LLVMFunctionType(l->void_, NULL, 0, false);
    LLVMValueRef nothing =
        LLVMGetInlineAsm(type, "", 0, "", 0, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(l->b, type, nothing, NULL, 0, "");
}

/* Returns the alignment in bytes of an access: 4 for 12 bytes, else its size. */
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

/* Returns base (operand `first`) + lane offset + constant. The lane offset is an unsigned i32 or
 * an i64. */
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

/* Emits a load of the op's result type. */
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

/* Emits a store of `value`. */
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

/* Uses a loaded value in empty assembly. LLVM's sinking pass would otherwise move a load into the
 * only branch that uses its value, where nothing hides its latency. */
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
    /* LLVM's sinking pass moves an invariant load into the last branch before its use. */
    if (!op->imm[1])
        LLVMSetMetadata(r, l->md_invariant,
                        LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, NULL, 0)));
    return lower_bitcast(l, r, lower_type(l, lower_result_type(l, op)));
}

/* Returns the pointer to LDS at operand 0 plus the immediate offset. */
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

/* Accesses of elements at their own LDS addresses. */

/* Returns the pointer to LDS for element `i` of the addresses in operand `operand`. */
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

/* Makes the access of one element, in the lanes whose mask is set. */
typedef LLVMValueRef masked_access(struct lower *l, LLVMValueRef address, LLVMValueRef value);

/* Enters a block for the lanes with `mask`. It reuses the previous access's block if no
 * instruction was emitted since; their writes may then become one instruction. */
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

/* Emits, for each element, an access that only lanes with a set mask execute. */
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

/* Stores the dword `value` at the LDS pointer `address`. */
static LLVMValueRef store_dword(struct lower *l, LLVMValueRef address, LLVMValueRef value)
{
    LLVMValueRef r = LLVMBuildStore(l->b, value, address);
    LLVMSetAlignment(r, 4);
    return r;
}

/* Adds the dword `value` atomically at `address`, in the scope of the device and without ordering:
 * one instruction and no wait. */
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
