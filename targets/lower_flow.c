/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers launch state, waits and barriers, ops that fix the order of code, loops and branches, and
 * calls of hooks.
 */
#include "targets/lower_isa.h"

#include <llvm-c/DebugInfo.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Lowers an op that reads a kernel argument. LLVM loads function parameters at the kernel's entry
 * and keeps them in registers. Inside a loop the argument is loaded at its use instead: passes of
 * ir/ would have hoisted the op if registers sufficed. */
static LLVMValueRef lower_arg(struct lower *l, const struct tir_op *op)
{
    const struct tir_arg *a = &l->f->args[op->imm[0]];
    if (!l->loops) {
        LLVMValueRef param = LLVMGetParam(l->kernel, (unsigned)op->imm[0]);
        return l->pointers && l->pointers[op->imm[0]] ? LLVMBuildPtrToInt(l->b, param, l->i64, "")
                                                      : param;
    }
    LLVMValueRef segment = emit_intrinsic(l, "llvm.amdgcn.kernarg.segment.ptr", NULL, 0, NULL, 0);
    if (!segment)
        return NULL;
    LLVMValueRef offset = lower_i32(l, a->offset);
    LLVMValueRef r = LLVMBuildLoad2(l->b, lower_dtype(l, a->dtype),
                                    LLVMBuildGEP2(l->b, l->i8, segment, &offset, 1, ""), "");
    LLVMSetMetadata(r, l->md_invariant,
                    LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, NULL, 0)));
    return r;
}

LLVMValueRef lower_launch_state(struct lower *l, const struct tir_op *op)
{
    static const char *const block_ids[3] = {
        "llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workgroup.id.y", "llvm.amdgcn.workgroup.id.z"};

    switch (op->opcode) {
    case TIR_arg: return lower_arg(l, op);
    case TIR_lane_id: return l->lane;
    case TIR_wave_id: return l->wave;
    default: return emit_intrinsic(l, block_ids[op->imm[0]], NULL, 0, NULL, 0);
    }
}

/* The functions from here on lower waits, barriers and atomics. */

/* Emits an empty inline assembly with `n` operands and these LLVM constraints, so that the operands
 * are computed before it. */
static void inline_asm(struct lower *l, LLVMTypeRef *types, LLVMValueRef *args, unsigned n,
                       const char *constraints, size_t length)
{
    LLVMTypeRef type = LLVMFunctionType(l->void_, types, n, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, "", 0, constraints, length, true, false,
                                         LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(l->b, type, code, args, n, "");
}

/* Emits a fence across which LLVM moves no memory access. Each wait and barrier is placed between
 * two fences. The fence has single-thread scope and costs no instruction; one of wider scope would
 * wait for every load to LDS. */
static void fence_memory(struct lower *l)
{
    LLVMBuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, true, "");
}

/* Emits a wait until at most `vm` memory ops and `lgkm` LDS or scalar ops are outstanding. A
 * negative number means no wait for that kind. LLVM moves no access across the wait. */
static void emit_wait(struct lower *l, int64_t vm, int64_t lgkm)
{
    fence_memory(l);
    if (vm >= 0 || lgkm >= 0)
        l->isa->wait(l, vm, lgkm);
    fence_memory(l);
}

LLVMValueRef lower_waitcnt(struct lower *l, const struct tir_op *op)
{
    emit_wait(l, op->imm[0], op->imm[1]);
    return NULL;
}

LLVMValueRef lower_wait_tensor(struct lower *l, const struct tir_op *op)
{
    if (!l->isa->wait_tensor)
        return lower_fail(l, "%s has no tensor data mover", l->t->machine.name);
    fence_memory(l);
    l->isa->wait_tensor(l, op->imm[0]);
    fence_memory(l);
    return NULL;
}

/* Lowers a wait for all LDS writes. Waits for copy groups are replaced by waitcnt ops in an earlier
 * pass. */
LLVMValueRef lower_wait(struct lower *l, const struct tir_op *op)
{
    if (op->imm[0] >= 0)
        return lower_fail(l, "wait on copy group %lld has not been counted", (long long)op->imm[0]);
    emit_wait(l, -1, 0);
    return NULL;
}

LLVMValueRef lower_barrier(struct lower *l, const struct tir_op *op)
{
    (void)op;
    fence_memory(l);
    l->isa->barrier(l);
    fence_memory(l);
    lower_note_issue(l, (struct tir_value){0});
    return NULL;
}

/* Lowers half of a barrier: the signal, or the wait. */
static LLVMValueRef half_barrier(struct lower *l, bool wait)
{
    if (!l->isa->half_barrier)
        return lower_fail(l, "%s's barriers have no halves", l->t->machine.name);
    fence_memory(l);
    l->isa->half_barrier(l, wait);
    fence_memory(l);
    lower_note_issue(l, (struct tir_value){0});
    return NULL;
}

LLVMValueRef lower_barrier_signal(struct lower *l, const struct tir_op *op)
{
    (void)op;
    return half_barrier(l, false);
}

LLVMValueRef lower_barrier_wait(struct lower *l, const struct tir_op *op)
{
    (void)op;
    return half_barrier(l, true);
}

/* Returns LLVM's number of the synchronisation scope "agent", the GPU. */
static unsigned agent(struct lower *l)
{
    static const char scope[] = "agent";
    return LLVMGetSyncScopeID(l->ctx, scope, sizeof(scope) - 1);
}

/* Emits code that only lane 0 executes, by `build` with the address in operand 0. Broadcasts its
 * i32 result to all lanes. */
static LLVMValueRef in_one_lane(struct lower *l, const struct tir_op *op,
                                LLVMValueRef (*build)(struct lower *l, const struct tir_op *op,
                                                      LLVMValueRef address))
{
    LLVMValueRef address =
        LLVMBuildIntToPtr(l->b, lower_value(l, op->operands[0]), l->global_ptr, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef one = LLVMAppendBasicBlockInContext(l->ctx, l->kernel, "one");
    LLVMBasicBlockRef all = LLVMAppendBasicBlockInContext(l->ctx, l->kernel, "all");
    LLVMValueRef first = LLVMBuildICmp(l->b, LLVMIntEQ, l->lane, lower_i32(l, 0), "");
    LLVMBuildCondBr(l->b, first, one, all);
    LLVMPositionBuilderAtEnd(l->b, one);
    LLVMValueRef own = build(l, op, address);
    LLVMBasicBlockRef built = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, all);
    LLVMPositionBuilderAtEnd(l->b, all);
    LLVMValueRef phi = LLVMBuildPhi(l->b, l->i32, "");
    LLVMValueRef values[2] = {lower_i32(l, 0), own};
    LLVMBasicBlockRef blocks[2] = {before, built};
    LLVMAddIncoming(phi, values, blocks, 2);
    return emit_intrinsic(l, "llvm.amdgcn.readfirstlane", &l->i32, 1, &phi, 1);
}

/* Emits a release at agent scope: the wave's earlier writes are visible to all workgroups of the
 * GPU before its next atomic is. For gfx942 and gfx950 LLVM emits buffer_wbl2 sc1 and a wait
 * (AMDGPUUsage, "Memory Model gfx942"). LLVM 22 does not count buffer_wbl2 in vmcnt, and removes
 * the wait if the wave has waited for its stores already. So all targets get a wait of their own
 * after the fence. */
static void release_writes(struct lower *l)
{
    LLVMBuildFenceSyncScope(l->b, LLVMAtomicOrderingRelease, agent(l), "");
    l->isa->wait(l, 0, -1);
    fence_memory(l);
}

/* Emits the increment of a counter that returns to 0 after n arrivals, and releases the wave's
 * writes to the GPU. uinc_wrap computes d >= n - 1 ? 0 : d + 1. Readers need an acquire op of their
 * own: buffer_inv sc1 empties caches that other workgroups use. A callback of in_one_lane(). */
static LLVMValueRef arrive(struct lower *l, const struct tir_op *op, LLVMValueRef address)
{
    LLVMValueRef last = LLVMBuildSub(l->b, lower_value(l, op->operands[1]), lower_i32(l, 1), "");
    release_writes(l);
    return LLVMBuildAtomicRMWSyncScope(l->b, LLVMAtomicRMWBinOpUIncWrap, address, last,
                                       LLVMAtomicOrderingMonotonic, agent(l));
}

/* Emits an atomic addition with the scope of the GPU, and with release order if the op's attribute
 * `release` is set. A callback of in_one_lane(). */
static LLVMValueRef atomic_add(struct lower *l, const struct tir_op *op, LLVMValueRef address)
{
    if (op->imm[0])
        release_writes(l);
    return LLVMBuildAtomicRMWSyncScope(l->b, LLVMAtomicRMWBinOpAdd, address,
                                       lower_value(l, op->operands[1]), LLVMAtomicOrderingMonotonic,
                                       agent(l));
}

/* The functions from here on lower the op await, a wait for waves of the whole GPU. */

/* Emits an atomic read of an i32 counter, with the scope of the GPU and without ordering. */
static LLVMValueRef poll(struct lower *l, LLVMValueRef address)
{
    LLVMValueRef is = LLVMBuildLoad2(l->b, l->i32, address, "");
    LLVMSetAlignment(is, 4);
    LLVMSetOrdering(is, LLVMAtomicOrderingMonotonic);
    LLVMSetAtomicSyncScopeID(is, agent(l));
    return is;
}

/* Returns an i1 that is true if all waves have arrived, by the counter value `is`. A value of 0
 * also means that: a workgroup that has seen all arrivals may have reset the counter. */
static LLVMValueRef all_arrived(struct lower *l, const struct tir_op *op, LLVMValueRef is)
{
    LLVMValueRef arrived = LLVMBuildAnd(l->b, is, lower_i32(l, TIR_ARRIVED), "");
    LLVMValueRef n = lower_value(l, op->operands[1]);
    return LLVMBuildOr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, arrived, n, ""),
                       LLVMBuildICmp(l->b, LLVMIntEQ, is, lower_i32(l, 0), ""), "");
}

/* Emits a compare-and-swap that counts this wave as one that has given up, if the counter is still
 * `is`. If not, the last wave may have arrived. Returns an i1 that is true if the wave has been
 * counted. */
static LLVMValueRef leave(struct lower *l, LLVMValueRef address, LLVMValueRef is)
{
    LLVMValueRef left = LLVMBuildAdd(l->b, is, lower_i32(l, 1 << TIR_LEFT_BIT), "");
    LLVMValueRef was =
        LLVMBuildAtomicCmpXchgSyncScope(l->b, address, is, left, LLVMAtomicOrderingMonotonic,
                                        LLVMAtomicOrderingMonotonic, agent(l));
    return LLVMBuildExtractValue(l->b, was, 1, "");
}

/* Appends a basic block called `name` to the kernel. */
static LLVMBasicBlockRef block(struct lower *l, const char *name)
{
    return LLVMAppendBasicBlockInContext(l->ctx, l->kernel, name);
}

/* Emits a loop that reads a counter until all waves have arrived, or gives up after as many reads
 * as the op says. Returns the number of waves that had given up before, or -1 if this wave gave up.
 * A callback of in_one_lane(). */
static LLVMValueRef await(struct lower *l, const struct tir_op *op, LLVMValueRef address)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef polls = block(l, "poll"), more = block(l, "more"), sleeps = block(l, "sleep");
    LLVMBasicBlockRef leaves = block(l, "leave"), seen = block(l, "seen");
    LLVMValueRef zero = lower_i32(l, 0);
    LLVMBuildBr(l->b, polls);
    LLVMPositionBuilderAtEnd(l->b, polls);
    LLVMValueRef tries = LLVMBuildPhi(l->b, l->i32, "");
    LLVMValueRef is = poll(l, address);
    LLVMValueRef gone = LLVMBuildLShr(l->b, is, lower_i32(l, TIR_LEFT_BIT), "");
    LLVMBuildCondBr(l->b, all_arrived(l, op, is), seen, more);
    LLVMPositionBuilderAtEnd(l->b, more);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, tries, zero, ""), sleeps, leaves);
    LLVMPositionBuilderAtEnd(l->b, sleeps);
    LLVMValueRef time = lower_i32(l, op->imm[1]);
    if (op->imm[1])
        emit_intrinsic(l, "llvm.amdgcn.s.sleep", NULL, 0, &time, 1);
    LLVMValueRef fewer = LLVMBuildSub(l->b, tries, lower_i32(l, 1), "");
    LLVMBuildBr(l->b, polls);
    LLVMPositionBuilderAtEnd(l->b, leaves);
    LLVMBuildCondBr(l->b, leave(l, address, is), seen, polls);
    LLVMValueRef left[3] = {lower_i32(l, (int)op->imm[0] - 1), fewer, zero};
    LLVMBasicBlockRef from[3] = {before, sleeps, leaves};
    LLVMAddIncoming(tries, left, from, 3);
    LLVMPositionBuilderAtEnd(l->b, seen);
    LLVMValueRef r = LLVMBuildPhi(l->b, l->i32, "");
    LLVMValueRef values[2] = {gone, lower_i32(l, -1)};
    LLVMBasicBlockRef blocks[2] = {polls, leaves};
    LLVMAddIncoming(r, values, blocks, 2);
    return r;
}

LLVMValueRef lower_arrive(struct lower *l, const struct tir_op *op)
{
    return in_one_lane(l, op, arrive);
}

LLVMValueRef lower_atomic_add(struct lower *l, const struct tir_op *op)
{
    return in_one_lane(l, op, atomic_add);
}

LLVMValueRef lower_await(struct lower *l, const struct tir_op *op)
{
    return in_one_lane(l, op, await);
}

LLVMValueRef lower_acquire(struct lower *l, const struct tir_op *op)
{
    (void)op;
    LLVMBuildFenceSyncScope(l->b, LLVMAtomicOrderingAcquire, agent(l), "");
    return NULL;
}

LLVMValueRef lower_set_priority(struct lower *l, const struct tir_op *op)
{
    l->isa->set_priority(l, (unsigned)op->imm[0]);
    return NULL;
}

/* Lowers an op that places the next instruction a number of words after a multiple of 8 or 2 words.
 * Emits an alignment directive and that number of s_nop as inline assembly. LLVM's passes do not
 * look inside. The size that they assume is at most 32 bytes too large, which is harmless. */
LLVMValueRef lower_align_code(struct lower *l, const struct tir_op *op)
{
    static const char window[] =
        ".p2align 5\ns_nop 0\ns_nop 0\ns_nop 0\ns_nop 0\ns_nop 0\ns_nop 0\ns_nop 0";
    static const char pair[] = ".p2align 3\ns_nop 0";
    static const size_t first = sizeof(".p2align 5") - 1, each = sizeof("\ns_nop 0") - 1;
    static_assert(TIR_FETCH_WORDS == 8 && TIR_PAIR_WORDS == 2, "p2align and the s_nop say so");
    LLVMTypeRef type = LLVMFunctionType(l->void_, NULL, 0, false);
    const char *const text = op->imm[1] == TIR_FETCH_WORDS ? window : pair;
    LLVMValueRef code = LLVMGetInlineAsm(type, text, first + (size_t)op->imm[0] * each, "", 0, true,
                                         false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(l->b, type, code, NULL, 0, "");
    return NULL;
}

LLVMValueRef lower_phase(struct lower *l, const struct tir_op *op)
{
    (void)op;
    LLVMValueRef nothing_crosses = lower_i32(l, 0);
    emit_intrinsic(l, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing_crosses, 1);
    return NULL;
}

/* Returns `v`, of type `t`, as dwords if it is a vector of bytes, which inline assembly does not
 * accept. Returns other values as they are. */
static LLVMValueRef as_dwords(struct lower *l, LLVMValueRef v, struct tir_type t)
{
    const unsigned bits = tir_dtype_bits(t.dtype) * lower_count(t);
    if (tir_dtype_bits(t.dtype) != 8 || bits % 32)
        return v;
    const unsigned n = bits / 32;
    return lower_bitcast(l, v, n > 1 ? LLVMVectorType(l->i32, n) : l->i32);
}

/* True if the value can be an operand of assembly and needs to be one. Constants do not need it.
 * Conditions (i1) and buffer resources have no register class. */
static bool takes_assembly(LLVMValueRef v, struct tir_type t)
{
    return !LLVMIsConstant(v) && t.dtype != TIR_I1 && t.dtype != TIR_RSRC;
}

enum { MOST_TOGETHER = 8 }; /* most values that one call of pass_through() accepts */

/* Passes `n` scalars of this block through one empty assembly, whose results later code uses
 * instead. Otherwise LLVM would load each scalar directly before its first use, and wait for it
 * there. */
static void pass_through(struct lower *l, const struct tir_value *values, unsigned n)
{
    static const char outputs[] = "=s,=s,=s,=s,=s,=s,=s,=s", inputs[] = ",0,1,2,3,4,5,6,7";
    static_assert(sizeof(inputs) == 2 * MOST_TOGETHER + 1, "one for each");
    char constraints[sizeof(outputs) + sizeof(inputs)];
    LLVMTypeRef types[MOST_TOGETHER];
    LLVMValueRef args[MOST_TOGETHER];
    const int length = snprintf(constraints, sizeof(constraints), "%.*s%.*s", (int)n * 3 - 1,
                                outputs, (int)n * 2, inputs);
    for (unsigned i = 0; i < n; i++) {
        args[i] = lower_value(l, values[i]);
        types[i] = LLVMTypeOf(args[i]);
    }
    LLVMTypeRef all = LLVMStructTypeInContext(l->ctx, types, n, false);
    LLVMTypeRef type = LLVMFunctionType(all, types, n, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, "", 0, constraints, (size_t)length, true, false,
                                         LLVMInlineAsmDialectATT, false);
    LLVMValueRef results = LLVMBuildCall2(l->b, type, code, args, n, "");
    for (unsigned i = 0; i < n; i++)
        l->values[values[i].id] = LLVMBuildExtractValue(l->b, results, i, "");
}

/* True if `v` is an instruction of the current basic block. */
static bool is_of_this_block(struct lower *l, LLVMValueRef v)
{
    return LLVMIsAInstruction(v) && LLVMGetInstructionParent(v) == LLVMGetInsertBlock(l->b);
}

/* True if a wave can have more than 256 VGPRs and LLVM keeps the vector operands of assembly in the
 * first 256 (LLVM 22.1, gfx1250: VGPR_32_Lo256). */
static bool assembly_is_narrow(const struct lower *l)
{
    enum { ASSEMBLY_VGPRS = 256 };
    return !l->t->has_agprs && l->t->machine.wave_vgprs > ASSEMBLY_VGPRS;
}

/* Emits a use of a vector at this place: no instruction, and in any register. */
static void use_anywhere(struct lower *l, LLVMValueRef v)
{
    static const char name[] = "llvm.fake.use";
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(
        l->module, LLVMLookupIntrinsicID(name, sizeof(name) - 1), NULL, 0);
    LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, &v, 1, "");
}

/* Lowers an op that keeps the computation of its operands before this place: emits uses of them
 * that cost no instruction. */
LLVMValueRef lower_anchor(struct lower *l, const struct tir_op *op)
{
    struct tir_value together[MOST_TOGETHER];
    unsigned n = 0;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        LLVMValueRef v = l->values[op->operands[i].id];
        struct tir_type t = lower_operand_type(l, op, i);
        if (!takes_assembly(v, t))
            continue;
        if (t.kind == TIR_SCALAR && op->n_operands <= MOST_TOGETHER && op->n_operands > 1 &&
            is_of_this_block(l, v)) {
            together[n++] = op->operands[i];
            continue;
        }
        if (l->in_agprs[op->operands[i].id]) {
            v = l->values[op->operands[i].id];
            inline_asm(l, &(LLVMTypeRef){LLVMTypeOf(v)}, &v, 1, "a", 1);
            continue;
        }
        v = as_dwords(l, v, t);
        LLVMTypeRef type = LLVMTypeOf(v);
        if (t.kind != TIR_SCALAR && assembly_is_narrow(l))
            use_anywhere(l, v);
        else
            inline_asm(l, &type, &v, 1, t.kind == TIR_SCALAR ? "s" : "v", 1);
    }
    if (n > 1)
        pass_through(l, together, n);
    return NULL;
}

/* Lowers an op that fixes the place where its operand is computed: passes the operand through empty
 * assembly. Otherwise LLVM would materialise a constant directly before its first use. Vectors of
 * more than FEW elements stay as they are if assembly_is_narrow(). */
LLVMValueRef lower_materialize(struct lower *l, const struct tir_op *op)
{
    static const char in_vgprs[] = "=v,0", in_sgprs[] = "=s,0";
    enum { FEW = 4 /* elements */ };
    const struct tir_type t = lower_result_type(l, op);
    if (t.kind != TIR_SCALAR && lower_count(t) > FEW && assembly_is_narrow(l))
        return lower_value(l, op->operands[0]);
    LLVMValueRef v = as_dwords(l, lower_value(l, op->operands[0]), t);
    LLVMTypeRef of = LLVMTypeOf(v), type = LLVMFunctionType(of, &of, 1, false);
    LLVMValueRef code =
        LLVMGetInlineAsm(type, "", 0, t.kind == TIR_SCALAR ? in_sgprs : in_vgprs,
                         sizeof(in_vgprs) - 1, true, false, LLVMInlineAsmDialectATT, false);
    return lower_bitcast(l, LLVMBuildCall2(l->b, type, code, &v, 1, ""), lower_type(l, t));
}

/* The functions from here on lower loops and branches. */

LLVMValueRef lower_return(struct lower *l, const struct tir_op *op)
{
    (void)op;
    LLVMBuildRetVoid(l->b);
    return NULL;
}

/* Returns the type of a phi for values of `type`: dwords for a vector of bytes. In a phi of bytes
 * LLVM would keep each byte in a register of its own, and wait for loads to unpack their bytes. */
static LLVMTypeRef phi_type(struct lower *l, LLVMTypeRef type)
{
    enum { WORD = 4 /* bytes */ };
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind || LLVMGetElementType(type) != l->i8)
        return type;
    const unsigned bytes = LLVMGetVectorSize(type);
    if (bytes % WORD)
        return type;
    return bytes == WORD ? l->i32 : LLVMVectorType(l->i32, bytes / WORD);
}

/* Builds `n` phis at the builder's position. Phi i has the phi_type() of the value like[i]. */
static void build_phis(struct lower *l, LLVMValueRef *phis, const struct tir_value *like,
                       unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        phis[i] = LLVMBuildPhi(l->b, phi_type(l, lower_type(l, tir_typeof(l->f, like[i]))), "");
}

/* Makes `phi`, converted to the type of `v`, the LLVM value of `v`. */
static void define_by_phi(struct lower *l, LLVMValueRef phi, struct tir_value v)
{
    const LLVMTypeRef type = lower_type(l, tir_typeof(l->f, v));
    l->values[v.id] = lower_keep(l, lower_bitcast(l, phi, type), v);
}

/* Adds values[i], which come from block `from`, to phis[i], for each of `n` phis. */
static void add_incoming(LLVMValueRef *phis, const LLVMValueRef *values, unsigned n,
                         LLVMBasicBlockRef from)
{
    for (unsigned i = 0; i < n; i++)
        LLVMAddIncoming(phis[i], (LLVMValueRef *)&values[i], &from, 1);
}

/* Returns `value` as an operand of the phi for `like`: in the same kind of register and of the
 * phi's type. */
static LLVMValueRef value_for_phi(struct lower *l, struct tir_value value, struct tir_value like)
{
    const LLVMValueRef v = lower_value_for(l, value, like);
    return lower_bitcast(l, v, phi_type(l, LLVMTypeOf(v)));
}

/* Sets out[i] to values[i] as an operand of the phi for like[i], for each of `n`. */
static void pass_on(struct lower *l, LLVMValueRef *out, const struct tir_value *values,
                    const struct tir_value *like, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = value_for_phi(l, values[i], like[i]);
}

/* Makes the phis the LLVM values of an op's results. */
static void define_results(struct lower *l, const struct tir_op *op, LLVMValueRef *phis)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        define_by_phi(l, phis[i], tir_result(op, i));
}

/* Builds a phi for each result of an op at the builder's position. */
static void result_phis(struct lower *l, const struct tir_op *op, LLVMValueRef *phis)
{
    for (uint32_t i = 0; i < op->n_results; i++) {
        struct tir_value r = tir_result(op, i);
        build_phis(l, &phis[i], &r, 1);
    }
}

/* Disables LLVM's loop-invariant code motion for the loop with the branch `latch`. Passes of ir/
 * have hoisted invariants. The remaining ones are in cold branches and would occupy registers in
 * the whole loop. */
static void keep_invariants(struct lower *l, LLVMValueRef latch)
{
    LLVMMetadataRef name = LLVMMDStringInContext2(l->ctx, "llvm.licm.disable", 17);
    LLVMMetadataRef nodes[2] = {LLVMTemporaryMDNode(l->ctx, NULL, 0),
                                LLVMMDNodeInContext2(l->ctx, &name, 1)};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(l->ctx, nodes, 2);
    LLVMMetadataReplaceAllUsesWith(nodes[0], loop);
    const unsigned kind = LLVMGetMDKindIDInContext(l->ctx, "llvm.loop", 9);
    LLVMSetMetadata(latch, kind, LLVMMetadataAsValue(l->ctx, loop));
}

/* Lowers a loop to these basic blocks; a loop with no iterations leaves from `guard`:
 *
 *     guard:  br first < bound, loop, done
 *     loop:   index, carried = phi ...; body; br index + step < bound, loop, done
 *     done:   results = phi inits (guard), yields (loop)
 */
LLVMValueRef lower_for(struct lower *l, const struct tir_op *op)
{
    const struct tir_block *body = op->blocks[0];
    const struct tir_value *inits = op->operands + 3;
    unsigned n = op->n_operands - 3;
    LLVMValueRef *phis = calloc(4 * n + 1, sizeof(*phis));
    if (!phis)
        return lower_fail(l, "out of memory");
    LLVMValueRef *const results = phis + n, *const given = results + n, *const made = given + n;
    LLVMValueRef first = lower_value(l, op->operands[0]);
    LLVMValueRef bound = lower_value(l, op->operands[1]), step = lower_value(l, op->operands[2]);

    pass_on(l, given, inits, body->params + 1, n);
    LLVMBasicBlockRef guard = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef loop = block(l, "loop"), done = block(l, "done");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, first, bound, ""), loop, done);

    LLVMPositionBuilderAtEnd(l->b, loop);
    LLVMValueRef index = LLVMBuildPhi(l->b, LLVMTypeOf(first), "");
    LLVMAddIncoming(index, &first, &guard, 1);
    l->values[body->params[0].id] = index;
    build_phis(l, phis, body->params + 1, n);
    for (unsigned i = 0; i < n; i++)
        define_by_phi(l, phis[i], body->params[1 + i]);
    add_incoming(phis, given, n, guard);
    l->loops++;
    lower_block(l, body);
    l->loops--;
    if (l->failed)
        goto out;

    const struct tir_op *yield = lower_yield_of(l, body);
    if (n)
        pass_on(l, made, yield->operands, body->params + 1, n);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(l->b);
    LLVMValueRef next = LLVMBuildNSWAdd(l->b, index, step, "");
    keep_invariants(
        l, LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, next, bound, ""), loop, done));
    LLVMAddIncoming(index, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(l->b, done);
    result_phis(l, op, results);
    add_incoming(phis, made, n, latch);
    add_incoming(results, given, n, guard);
    add_incoming(results, made, n, latch);
    define_results(l, op, results);
out:
    free(phis);
    return NULL;
}

/* Tells LLVM that a conditional branch is taken once in 2^20 times, so that it places the
 * then-block out of line. */
static void expect_else(struct lower *l, LLVMValueRef branch)
{
    LLVMMetadataRef odds[3] = {
        LLVMMDStringInContext2(l->ctx, "branch_weights", 14),
        LLVMValueAsMetadata(lower_i32(l, 1)),
        LLVMValueAsMetadata(lower_i32(l, 1 << 20)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(l->ctx, odds, 3);
    LLVMSetMetadata(branch, l->md_prof, LLVMMetadataAsValue(l->ctx, node));
}

/* True if a side of an `if` op computes nothing, so that it needs no basic block. */
static bool only_yields(const struct lower *l, const struct tir_block *side)
{
    return !side || side->n_ops == 0 ||
           (side->n_ops == 1 && tir_op(l->f, side->ops[0])->opcode == TIR_yield);
}

void lower_matrix_states(struct lower *l, unsigned most)
{
    enum { OF_ONE = 16 };
    unsigned left = most < l->matrix_states ? most : l->matrix_states;
    l->matrix_states -= left;
    while (left) {
        const unsigned states = left < OF_ONE ? left : OF_ONE;
        LLVMValueRef n = LLVMConstInt(l->i16, states - 1, false);
        emit_intrinsic(l, "llvm.amdgcn.s.nop", NULL, 0, &n, 1);
        left -= states;
    }
}

/* Emits `n` v_nop. */
static void vector_nops(struct lower *l, unsigned n)
{
    static const char nop[] = "v_nop";
    LLVMTypeRef type = LLVMFunctionType(l->void_, NULL, 0, false);
    LLVMValueRef text = LLVMGetInlineAsm(type, nop, sizeof(nop) - 1, "", 0, true, false,
                                         LLVMInlineAsmDialectATT, false);
    for (unsigned i = 0; i < n; i++)
        LLVMBuildCall2(l->b, type, text, NULL, 0, "");
}

LLVMValueRef lower_settle(struct lower *l, const struct tir_op *op)
{
    if (l->t->gap_clocks) /* LLVM does not look for the products of an earlier iteration */
        vector_nops(l, (unsigned)op->imm[0]);
    else
        lower_matrix_states(l, (unsigned)op->imm[0]);
    return NULL;
}

/* Emits LOWER_MATRIX_STATES wait states at the head of a cold block. From a read of a matrix result
 * LLVM searches backwards for the instruction and visits each block once. A long cold block makes
 * it search the path around the block. Kernels with several waves per SIMD have long blocks anyway,
 * and wait states would delay the other waves. */
static void lengthen(struct lower *l)
{
    if (l->has_mma && l->f->waves_per_simd <= 1) {
        l->matrix_states = LOWER_MATRIX_STATES;
        lower_matrix_states(l, l->matrix_states);
    }
}

/* Sets out[i] to the value that a side of an `if` op yields for result i, as an operand of the
 * result's phi. */
static void pass_on_side(struct lower *l, const struct tir_op *op, const struct tir_block *side,
                         LLVMValueRef *out)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        out[i] = value_for_phi(l, lower_yield_of(l, side)->operands[i], tir_result(op, i));
}

/* Lowers a side of an `if` op, NULL for an empty one, into basic block `into`, which branches to
 * `merge`. Adds its values to `phis`; `values` is memory for them. */
static void lower_side(struct lower *l, const struct tir_op *op, const struct tir_block *side,
                       LLVMBasicBlockRef into, LLVMBasicBlockRef merge, LLVMValueRef *phis,
                       LLVMValueRef *values)
{
    const unsigned pending = l->matrix_states;
    LLVMPositionBuilderAtEnd(l->b, into);
    const bool cold = op->imm[0] && side == op->blocks[0];
    if (cold && op->imm[1])
        l->matrix_states = 0;
    else if (cold)
        lengthen(l);
    if (side)
        lower_block(l, side);
    if (l->failed)
        return;
    pass_on_side(l, op, side, values);
    add_incoming(phis, values, op->n_results, LLVMGetInsertBlock(l->b));
    LLVMBuildBr(l->b, merge);
    if (l->matrix_states < pending)
        l->matrix_states = pending;
}

LLVMValueRef lower_if(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef *phis = calloc(2 * op->n_results + 1, sizeof(*phis));
    if (!phis)
        return lower_fail(l, "out of memory");
    LLVMValueRef *const values = phis + op->n_results, condition = lower_value(l, op->operands[0]);
    const bool plain = only_yields(l, op->blocks[1]);
    LLVMBasicBlockRef yes = block(l, "then"), merge = block(l, "merge");
    if (plain)
        pass_on_side(l, op, op->blocks[1], values);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef no = plain ? merge : block(l, "else");
    LLVMValueRef branch = LLVMBuildCondBr(l->b, condition, yes, no);
    lower_note_issue(l, (struct tir_value){0});
    if (op->imm[0])
        expect_else(l, branch);

    LLVMPositionBuilderAtEnd(l->b, merge);
    result_phis(l, op, phis);
    if (plain)
        add_incoming(phis, values, op->n_results, before);
    lower_side(l, op, op->blocks[0], yes, merge, phis, values);
    if (!l->failed && !plain)
        lower_side(l, op, op->blocks[1], no, merge, phis, values);
    LLVMPositionBuilderAtEnd(l->b, merge);
    define_results(l, op, phis);
    free(phis);
    return NULL;
}

/* The functions from here on lower calls of hooks. */

/* Emits a call of the hook for element number `element` of the operands; scalar operands are the
 * same for every element. Addresses, which are i64 in the IR, become pointers. */
static LLVMValueRef call_once(struct lower *l, const struct tir_op *op, LLVMValueRef hook,
                              unsigned element)
{
    LLVMValueRef args[16];
    for (uint32_t i = 0; i < op->n_operands; i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(hook, i));
        args[i] = lower_element(l, lower_value(l, op->operands[i]), element);
        if (LLVMGetTypeKind(type) == LLVMPointerTypeKind)
            args[i] = LLVMBuildIntToPtr(l->b, args[i], type, "");
    }
    return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(hook), hook, args, op->n_operands, "");
}

/* True if a hook's LLVM function has the types of the op's operands and result. */
static bool signature_fits(struct lower *l, const struct tir_op *op, LLVMValueRef hook)
{
    LLVMTypeRef type = LLVMGlobalGetValueType(hook), params[16];
    if (op->n_operands > 16 || LLVMCountParamTypes(type) != op->n_operands ||
        LLVMIsFunctionVarArg(type) ||
        LLVMGetReturnType(type) != lower_dtype(l, lower_result_type(l, op).dtype))
        return false;
    LLVMGetParamTypes(type, params);
    for (uint32_t i = 0; i < op->n_operands; i++) {
        unsigned dtype = lower_operand_type(l, op, i).dtype;
        bool address = dtype == TIR_I64 && LLVMGetTypeKind(params[i]) == LLVMPointerTypeKind;
        if (params[i] != lower_dtype(l, dtype) && !address)
            return false;
    }
    return true;
}

LLVMValueRef lower_call_hook(struct lower *l, const struct tir_op *op)
{
    const char *name = l->f->hooks[op->imm[0]];
    LLVMValueRef hook = LLVMGetNamedFunction(l->module, name), out[TIR_MAX_VEC];
    if (!hook || LLVMIsDeclaration(hook))
        return lower_fail(l, "the hook's file defines no function %s", name);
    if (!signature_fits(l, op, hook))
        return lower_fail(l, "function %s does not have the parameters of a hook", name);

    unsigned count = lower_count(lower_result_type(l, op));
    for (unsigned i = 0; i < count; i++)
        out[i] = call_once(l, op, hook, i);
    return lower_gather(l, out, count);
}
