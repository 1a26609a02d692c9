/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps accumulators of matrix instructions in AGPRs.
 *
 * A wave that is the only one of its SIMD has 256 AGPRs besides its 256 VGPRs, but the VALU reads
 * only VGPRs. LLVM chooses one kind of register for the results of all matrix instructions of a
 * kernel. Then either the scores or O would be copied in every iteration. So an attribute of the op
 * selects products that accumulate in AGPRs. These are emitted as inline assembly, for which LLVM
 * allocates registers. Other users of such a value copy it to VGPRs, in a cold block or after the
 * loop.
 *
 * The trap: LLVM handles no hazards of assembly. Two can occur on gfx942 and gfx950
 * (GCNHazardRecognizer, checkMAIHazards90A and checkMAIVALUHazards). The VALU may read a result too
 * early: it needs at most 19 wait states. Or it may write an operand less than 2 wait states
 * before. Products that accumulate in place need no wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/lower_isa.h"

static void mark(struct lower *l, struct tir_value v);

/* Marks value `i` that block `side` yields as a value in AGPRs. */
static void mark_yielded(struct lower *l, const struct tir_block *side, unsigned i)
{
    const struct tir_op *const yield = lower_yield_of(l, side);
    if (yield)
        mark(l, yield->operands[i]);
}

/* Marks the values that are carried value `i` of a loop as values in AGPRs: parameter, result,
 * initial and yielded value. */
static void mark_carried(struct lower *l, const struct tir_op *loop, unsigned i)
{
    struct tir_block *const body = loop->blocks[0];
    l->in_agprs[body->params[1 + i].id] = true;
    l->in_agprs[tir_result(loop, i).id] = true;
    mark(l, loop->operands[3 + i]);
    mark_yielded(l, body, i);
}

/* Marks as values in AGPRs `v`, if a loop or an `if` op passes it on, and the values from which it
 * comes. Stops at values that ops compute. */
static void mark(struct lower *l, struct tir_value v)
{
    const struct tir_value_info *const info = &l->f->values[v.id];
    if (l->in_agprs[v.id])
        return;
    if (!info->def.id) {
        const struct tir_block *const body = info->block;
        for (unsigned i = 1; i < body->n_params; i++)
            if (body->params[i].id == v.id)
                mark_carried(l, tir_op(l->f, body->owner), i - 1);
        return;
    }
    const struct tir_op *const op = tir_op(l->f, info->def);
    const unsigned i = v.id - op->result.id;
    if (op->opcode == TIR_for) {
        mark_carried(l, op, i);
        return;
    }
    if (op->opcode != TIR_if)
        return;
    l->in_agprs[v.id] = true;
    for (int k = 0; k < 2; k++)
        mark_yielded(l, op->blocks[k], i);
}

/* Marks result and accumulator of op `r` as values in AGPRs if it is a product that accumulates
 * there. A callback of tir_walk(); changes nothing in the IR. */
static bool visit(void *context, struct tir_block *b, struct tir_ref r)
{
    struct lower *const l = context;
    const struct tir_op *const op = tir_op(l->f, r);
    (void)b;
    const bool scaled = op->opcode == TIR_mfma_scaled;
    if (!l->t->has_agprs || (!scaled && op->opcode != TIR_mfma) || !op->imm[scaled ? 3 : 1])
        return false;
    l->in_agprs[op->result.id] = true;
    mark(l, op->operands[2]);
    return false;
}

/* True if value `i` that block `side` yields is a value in AGPRs. */
static bool yields_agprs(const struct lower *l, const struct tir_block *side, unsigned i)
{
    const struct tir_op *const yield = lower_yield_of(l, side);
    return yield && l->in_agprs[yield->operands[i].id];
}

/* Marks each result of an `if` op that one side yields from a value in AGPRs: there may not be
 * enough VGPRs for it. A callback of tir_walk(); changes nothing in the IR. */
static bool mark_if_results(void *context, struct tir_block *b, struct tir_ref r)
{
    struct lower *const l = context;
    const struct tir_op *const op = tir_op(l->f, r);
    (void)b;
    for (unsigned i = 0; op->opcode == TIR_if && i < op->n_results; i++) {
        const struct tir_value v = tir_result(op, i);
        if (!l->in_agprs[v.id] &&
            (yields_agprs(l, op->blocks[0], i) || yields_agprs(l, op->blocks[1], i)))
            mark(l, v);
    }
    return false;
}

bool lower_agprs_begin(struct lower *l)
{
    l->in_agprs = calloc(l->f->n_values, sizeof(*l->in_agprs));
    l->read_from_agprs = calloc(l->f->n_values, sizeof(*l->read_from_agprs));
    if (!l->in_agprs || !l->read_from_agprs)
        return false;
    tir_walk(l->f, l->f->body, visit, l);
    tir_walk(l->f, l->f->body, mark_if_results, l);
    return true;
}

void lower_agprs_end(struct lower *l)
{
    free(l->in_agprs);
    free(l->read_from_agprs);
}

/* Emits the inline assembly `text` with `n` arguments, at most 5, LLVM's `constraints` and a result
 * of type `result`. Returns the result. */
static LLVMValueRef assemble(struct lower *l, const char *text, const char *constraints,
                             LLVMTypeRef result, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[5];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, n, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                         true, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(l->b, type, code, args, n, "");
}

/* Returns `v` in AGPRs, into which an empty inline assembly makes LLVM move it. */
static LLVMValueRef pass_through(struct lower *l, LLVMValueRef v)
{
    return assemble(l, "", "=a,0", LLVMTypeOf(v), &v, 1);
}

/* Copies the phi so that its register class is fixed. Otherwise it would get the class of its
 * users, which include other phis. */
LLVMValueRef lower_keep(struct lower *l, LLVMValueRef phi, struct tir_value v)
{
    return l->in_agprs[v.id] ? pass_through(l, phi) : phi;
}

LLVMValueRef lower_value_for(struct lower *l, struct tir_value v, struct tir_value like)
{
    if (!l->in_agprs[like.id])
        return lower_value(l, v);
    return l->in_agprs[v.id] ? l->values[v.id] : pass_through(l, lower_value(l, v));
}

/* Emits the wait states before the assembly that makes the copy, since LLVM may also copy the
 * operand of the assembly. */
LLVMValueRef lower_from_agprs(struct lower *l, struct tir_value v)
{
    struct lower_read *const read = &l->read_from_agprs[v.id];
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    if (read->block == here)
        return read->v;
    lower_matrix_states(l, l->matrix_states);
    *read = (struct lower_read){pass_through(l, l->values[v.id]), here};
    return read->v;
}

/* Returns the LLVM value of `v` as a vector of i32. */
static LLVMValueRef dwords(struct lower *l, struct tir_value v)
{
    const struct tir_type t = tir_typeof(l->f, v);
    const unsigned n = t.count * tir_dtype_bits(t.dtype) / 32;
    return lower_bitcast(l, lower_value(l, v), LLVMVectorType(l->i32, n));
}

/* True if one of the last two instructions has computed `v` or a part of it. A matrix instruction
 * that reads `v` then needs wait states. */
static bool is_fresh(const struct lower *l, struct tir_value v)
{
    const struct tir_ref def = l->f->values[v.id].def;
    const struct tir_op *const op = def.id ? tir_op(l->f, def) : NULL;
    bool fresh = v.id == l->recent[0] || v.id == l->recent[1];
    if (op && (op->opcode == TIR_concat || op->opcode == TIR_bitcast || op->opcode == TIR_extract))
        for (unsigned i = 0; i < op->n_operands; i++)
            fresh = fresh || is_fresh(l, op->operands[i]);
    return fresh;
}

void lower_note_issue(struct lower *l, struct tir_value v)
{
    l->recent[0] = l->recent[1];
    l->recent[1] = v.id;
}

LLVMValueRef lower_mfma_in_agprs(struct lower *l, const struct tir_op *op,
                                 const struct tir_mma *row)
{
    char text[64];
    const bool fresh = is_fresh(l, op->operands[0]) || is_fresh(l, op->operands[1]);
    snprintf(text, sizeof(text), "%sv_%s $0, $1, $2, $0", fresh ? "s_nop 1\n" : "", row->name);
    LLVMTypeRef type = lower_type(l, lower_result_type(l, op));
    LLVMValueRef args[3] = {dwords(l, op->operands[0]), dwords(l, op->operands[1]),
                            lower_value_for(l, op->operands[2], op->result)};
    l->has_mma = true;
    l->matrix_states = LOWER_MATRIX_STATES;
    lower_note_issue(l, op->result);
    return assemble(l, text, "=a,^VA,^VA,0", type, args, 3);
}

/* Returns `scale`; if it is a constant, a register that has it from the kernel's entry on.
 * Otherwise LLVM would write the constant directly before each matrix instruction, without wait
 * states. */
static LLVMValueRef held(struct lower *l, LLVMValueRef scale)
{
    if (!LLVMIsConstant(scale))
        return scale;
    if (l->held.of != scale) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
        LLVMPositionBuilderBefore(l->b,
                                  LLVMGetBasicBlockTerminator(LLVMGetEntryBasicBlock(l->kernel)));
        l->held.v = assemble(l, "", "=v,0", l->i32, &scale, 1);
        l->held.of = scale;
        LLVMPositionBuilderAtEnd(l->b, here);
    }
    return l->held.v;
}

LLVMValueRef lower_mfma_scaled_in_agprs(struct lower *l, const struct tir_op *op,
                                        const struct tir_mma *row, LLVMValueRef left,
                                        LLVMValueRef right)
{
    char text[160];
    const int name = (int)strcspn(row->name, " "); /* length of the mnemonic without modifiers */
    const int byte[] = {(int)op->imm[1], (int)op->imm[2]};
    snprintf(text, sizeof(text),
             "v_%.*s $0, $1, $2, $0, $4, $5 op_sel:[%d,%d,0] op_sel_hi:[%d,%d,0]%s", name,
             row->name, byte[0] & 1, byte[1] & 1, byte[0] >> 1, byte[1] >> 1, row->name + name);
    LLVMTypeRef type = lower_type(l, lower_result_type(l, op));
    LLVMValueRef args[5] = {dwords(l, op->operands[0]), dwords(l, op->operands[1]),
                            lower_value_for(l, op->operands[2], op->result), held(l, left),
                            held(l, right)};
    l->has_mma = true;
    l->matrix_states = LOWER_MATRIX_STATES;
    return assemble(l, text, "=a,^VA,^VA,0,v,v", type, args, 5);
}
