/* SPDX-License-Identifier: Apache-2.0
 *
 * The core of the lowering from tile IR to LLVM IR: types, values, intrinsics, and the table of
 * functions that lower ops.
 */
#include "targets/lower_isa.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, lower, ...) \
    [TIR_##name] = lower_##lower,
static lower_fn *const families[TIR_N_OPCODES] = {
#include "ir/ops.def"
};
#undef OP

const struct lower_isa *lower_isa_of(const struct tgt *t)
{
    static const struct {
        const char *target;
        const struct lower_isa *isa;
    } rows[] = {
#define TARGET(name, isa) {#name, &lower_isa_##isa},
#include "targets/targets.def"
#undef TARGET
    };
    size_t i = 0;
    while (strcmp(rows[i].target, t->machine.name))
        i++;
    const struct lower_isa *const isa = rows[i].isa;
    /* Passes and templates read these capabilities from the machine, so both must agree. */
    assert(!isa->lane_swap == !t->machine.has_lane_swap);
    assert(!isa->tensor_to_lds == !tir_tensor_copy(&t->machine));
    assert(!isa->wait_tensor == !tir_tensor_copy(&t->machine));
    assert(!isa->read_transposed == !tir_transposing_read(&t->machine, 0, 16));
    assert(!isa->fp8_to_half == !t->machine.has_cvt_scale);
    return isa;
}

unsigned lower_lanes(const struct lower *l) { return 1u << l->t->machine.lane_bits; }

LLVMValueRef lower_none(struct lower *l, const struct tir_op *op)
{
    return lower_fail(l, "%s is not a register-level op", tir_ops[op->opcode].name);
}

LLVMValueRef lower_fail(struct lower *l, const char *format, ...)
{
    if (!l->failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(l->why, TGT_WHY, format, args);
        va_end(args);
    }
    l->failed = true;
    return NULL;
}

LLVMTypeRef lower_dtype(struct lower *l, unsigned dtype)
{
    switch (dtype) {
    case TIR_I1: return l->i1;
    case TIR_I8: return l->i8;
    case TIR_I16: return l->i16;
    case TIR_I32: return l->i32;
    case TIR_I64: return l->i64;
    case TIR_F16: return l->f16;
    case TIR_BF16: return l->bf16;
    case TIR_F32: return l->f32;
    case TIR_FP8: return l->i8;
    case TIR_RSRC: return l->rsrc;
    default: assert(!"no such type in LLVM"); return l->i32;
    }
}

unsigned lower_count(struct tir_type t) { return t.kind == TIR_VEC ? t.count : 1; }

LLVMTypeRef lower_type(struct lower *l, struct tir_type t)
{
    LLVMTypeRef e = lower_dtype(l, t.dtype);
    unsigned n = lower_count(t);
    return n == 1 ? e : LLVMVectorType(e, n);
}

struct tir_type lower_operand_type(const struct lower *l, const struct tir_op *op, unsigned i)
{
    return tir_typeof(l->f, op->operands[i]);
}

struct tir_type lower_result_type(const struct lower *l, const struct tir_op *op)
{
    return tir_typeof(l->f, op->result);
}

LLVMValueRef lower_value(struct lower *l, struct tir_value v)
{
    LLVMValueRef r = l->values[v.id];
    assert(r && "used before it is defined: the verifier lets no such function through");
    return l->in_agprs[v.id] ? lower_from_agprs(l, v) : r;
}

LLVMValueRef lower_i32(struct lower *l, int64_t v)
{
    return LLVMConstInt(l->i32, (uint64_t)v, true);
}

LLVMValueRef lower_bitcast(struct lower *l, LLVMValueRef v, LLVMTypeRef t)
{
    return LLVMTypeOf(v) == t ? v : LLVMBuildBitCast(l->b, v, t, "");
}

/* True if `v` is an LLVM vector. */
static bool is_vector(LLVMValueRef v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

LLVMValueRef lower_element(struct lower *l, LLVMValueRef v, unsigned i)
{
    return is_vector(v) ? LLVMBuildExtractElement(l->b, v, lower_i32(l, i), "") : v;
}

LLVMValueRef lower_gather(struct lower *l, LLVMValueRef *elements, unsigned n)
{
    if (n == 1)
        return elements[0];
    LLVMValueRef r = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(elements[0]), n));
    for (unsigned i = 0; i < n; i++)
        r = LLVMBuildInsertElement(l->b, r, elements[i], lower_i32(l, i), "");
    return r;
}

LLVMValueRef lower_slice(struct lower *l, LLVMValueRef v, unsigned first, unsigned count)
{
    if (count == 1)
        return lower_element(l, v, first);
    if (count == LLVMGetVectorSize(LLVMTypeOf(v)))
        return v;
    LLVMValueRef mask[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        mask[i] = lower_i32(l, first + i);
    return LLVMBuildShuffleVector(l->b, v, LLVMGetPoison(LLVMTypeOf(v)),
                                  LLVMConstVector(mask, count), "");
}

LLVMValueRef lower_operand(struct lower *l, const struct tir_op *op, unsigned i, unsigned count)
{
    LLVMValueRef v = lower_value(l, op->operands[i]);
    if (count == 1 || is_vector(v))
        return v;
    LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), count);
    LLVMValueRef one = LLVMBuildInsertElement(l->b, LLVMGetPoison(t), v, lower_i32(l, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(l->i32, count));
    return LLVMBuildShuffleVector(l->b, one, LLVMGetPoison(t), zeros, "");
}

LLVMValueRef emit_intrinsic(struct lower *l, const char *name, LLVMTypeRef *overload,
                            unsigned n_overload, LLVMValueRef *args, unsigned n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0)
        return lower_fail(l, "LLVM has no intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(l->module, id, overload, n_overload);
    LLVMTypeRef type = LLVMGlobalGetValueType(fn);
    assert(LLVMCountParamTypes(type) == n_args);
    return LLVMBuildCall2(l->b, type, fn, args, n_args, "");
}

/* Returns the bits of an LLVM type, a number or a vector of numbers. */
static unsigned bits_of(LLVMTypeRef t)
{
    switch (LLVMGetTypeKind(t)) {
    case LLVMVectorTypeKind: return LLVMGetVectorSize(t) * bits_of(LLVMGetElementType(t));
    case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t);
    case LLVMFloatTypeKind: return 32;
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind: return 16;
    default: assert(!"not a number"); return 0;
    }
}

LLVMValueRef lower_by_dword(struct lower *l, LLVMValueRef v,
                            LLVMValueRef (*piece)(struct lower *l, LLVMValueRef dword, void *data),
                            void *data)
{
    enum { MAX_DWORDS = 64 };
    LLVMTypeRef type = LLVMTypeOf(v);
    unsigned bits = bits_of(type);
    if (bits < 32) {
        LLVMTypeRef narrow = LLVMIntTypeInContext(l->ctx, bits);
        LLVMValueRef wide = LLVMBuildZExt(l->b, lower_bitcast(l, v, narrow), l->i32, "");
        LLVMValueRef r = piece(l, wide, data);
        return r ? lower_bitcast(l, LLVMBuildTrunc(l->b, r, narrow, ""), type) : NULL;
    }
    if (bits % 32 != 0 || bits > 32 * MAX_DWORDS)
        return lower_fail(l, "a value of %u bits cannot cross lanes", bits);

    unsigned n = bits / 32;
    LLVMValueRef dwords = lower_bitcast(l, v, n == 1 ? l->i32 : LLVMVectorType(l->i32, n));
    LLVMValueRef out[MAX_DWORDS];
    for (unsigned i = 0; i < n; i++) {
        out[i] = piece(l, lower_element(l, dwords, i), data);
        if (!out[i])
            return NULL;
    }
    return lower_bitcast(l, lower_gather(l, out, n), type);
}

const struct tir_op *lower_yield_of(const struct lower *l, const struct tir_block *block)
{
    if (!block || block->n_ops == 0)
        return NULL;
    const struct tir_op *last = tir_op(l->f, block->ops[block->n_ops - 1]);
    return last->opcode == TIR_yield ? last : NULL;
}

void lower_block(struct lower *l, const struct tir_block *block)
{
    for (uint32_t i = 0; i < block->n_ops && !l->failed; i++) {
        const struct tir_op *op = tir_op(l->f, block->ops[i]);
        if (op->opcode == TIR_yield)
            continue;
        l->next = i + 1 < block->n_ops ? tir_op(l->f, block->ops[i + 1]) : NULL;
        const bool leaves = op->blocks[0] || op->opcode == TIR_return;
        if (leaves && l->isa->end_copies)
            l->isa->end_copies(l);
        lower_line(l, op->line);
        LLVMValueRef v = families[op->opcode](l, op);
        if (v && op->n_results == 1)
            l->values[op->result.id] = v;
    }
    if (l->isa->end_copies)
        l->isa->end_copies(l);
}
