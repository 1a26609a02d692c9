/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of type, and how elements are put together and taken apart.
 */
#include "targets/lower.h"

#include <assert.h>

static bool is_int(unsigned dtype)
{
    return dtype == TIR_I1 || dtype == TIR_I8 || dtype == TIR_I16 || dtype == TIR_I32 ||
           dtype == TIR_I64;
}

static bool is_half(unsigned dtype)
{
    return dtype == TIR_F16 || dtype == TIR_BF16;
}

/*
 * The high half of the result is x rounded to bf16, nearest even: 0x7fff plus the lowest bit that
 * stays is added below it. v_bfe and v_add3, where LLVM's own expansion of fptrunc takes five. A
 * NaN could overflow into a zero that way; unless it is known to have a zero low half, it is kept
 * as it is by v_cmp_u and v_cndmask (what arithmetic makes is quiet: its highest fraction bit
 * remains).
 */
static LLVMValueRef round_to_high_half(struct lower *l, LLVMValueRef x, bool short_nan)
{
    LLVMValueRef bits = lower_bitcast(l, x, l->i32);
    LLVMValueRef above = LLVMBuildLShr(l->b, bits, lower_i32(l, 16), "");
    LLVMValueRef odd = LLVMBuildAnd(l->b, above, lower_i32(l, 1), "");
    LLVMValueRef sum = LLVMBuildAdd(l->b, bits, odd, "");
    sum = LLVMBuildAdd(l->b, sum, lower_i32(l, 0x7fff), "");
    if (short_nan)
        return sum;
    LLVMValueRef nan = LLVMBuildFCmp(l->b, LLVMRealUNO, x, x, "");
    return LLVMBuildSelect(l->b, nan, bits, sum, "");
}

static LLVMValueRef to_bf16_in_software(struct lower *l, LLVMValueRef x, bool short_nan)
{
    LLVMValueRef high =
        LLVMBuildLShr(l->b, round_to_high_half(l, x, short_nan), lower_i32(l, 16), "");
    return lower_bitcast(l, LLVMBuildTrunc(l->b, high, l->i16, ""), l->bf16);
}

/* Two f32 as the low and high half of a dword. */
static LLVMValueRef bf16_pair_in_software(struct lower *l, LLVMValueRef a, LLVMValueRef b,
                                          bool short_nan)
{
    LLVMValueRef args[3] = {round_to_high_half(l, b, short_nan),
                            round_to_high_half(l, a, short_nan), lower_i32(l, 0x07060302)};
    return emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

static LLVMValueRef bf16_vector_in_software(struct lower *l, LLVMValueRef v, unsigned count,
                                            bool short_nan)
{
    LLVMValueRef pairs[TIR_MAX_VEC / 2];
    for (unsigned i = 0; i < count; i += 2) {
        pairs[i / 2] = bf16_pair_in_software(l, lower_element(l, v, i),
                                             lower_element(l, v, i + 1), short_nan);
        if (!pairs[i / 2])
            return NULL;
    }
    LLVMValueRef all = lower_gather(l, pairs, count / 2);
    return lower_bitcast(l, all, LLVMVectorType(l->bf16, count));
}

/* `v` is one f32, or a vector of them. */
static LLVMValueRef f32_to_half(struct lower *l, LLVMValueRef v, struct tir_type to,
                                bool short_nan)
{
    unsigned count = lower_count(to);
    if (to.dtype == TIR_F16 || l->t->machine.has_cvt_pk_bf16)
        return LLVMBuildFPTrunc(l->b, v, lower_type(l, to), "");
    if (count % 2 == 0)
        return bf16_vector_in_software(l, v, count, short_nan);
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        out[i] = to_bf16_in_software(l, lower_element(l, v, i), short_nan);
    return lower_gather(l, out, count);
}

LLVMValueRef lower_convert_pair(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef both[2] = {lower_value(l, op->operands[0]), lower_value(l, op->operands[1])};
    return f32_to_half(l, lower_gather(l, both, 2), lower_result_type(l, op),
                       op->imm[0] != 0);
}

/* fp8 as the target has it; values beyond its range become NaN, as v_cvt_pk_fp8_f32 makes them
 * while MODE.fp16_ovfl is 0. */
static LLVMValueRef f32_to_fp8(struct lower *l, LLVMValueRef x)
{
    LLVMValueRef args[4] = {x, x, lower_i32(l, 0), LLVMConstNull(l->i1)};
    LLVMValueRef pair = emit_intrinsic(l, "llvm.amdgcn.cvt.pk.fp8.f32", NULL, 0, args, 4);
    return pair ? LLVMBuildTrunc(l->b, pair, l->i8, "") : NULL;
}

static LLVMValueRef fp8_to_f32(struct lower *l, LLVMValueRef x)
{
    LLVMValueRef args[2] = {LLVMBuildZExt(l->b, x, l->i32, ""), lower_i32(l, 0)};
    return emit_intrinsic(l, "llvm.amdgcn.cvt.f32.fp8", NULL, 0, args, 2);
}

/* Out of range saturates and NaN gives 0: v_cvt_i32_f32. */
static LLVMValueRef float_to_int(struct lower *l, LLVMValueRef x, LLVMTypeRef to)
{
    LLVMTypeRef types[2] = {to, LLVMTypeOf(x)};
    return emit_intrinsic(l, "llvm.fptosi.sat", types, 2, &x, 1);
}

static LLVMValueRef convert_ints(struct lower *l, LLVMValueRef x, LLVMTypeRef to)
{
    return LLVMBuildIntCast2(l->b, x, to, true, "");
}

/* Through f32 where there is no direct way. */
static LLVMValueRef convert_element(struct lower *l, LLVMValueRef x, unsigned from, unsigned to)
{
    LLVMTypeRef type = lower_dtype(l, to);
    if (from == to)
        return x;
    if (is_int(from) && is_int(to))
        return convert_ints(l, x, type);
    if (is_int(from)) {
        LLVMValueRef f = LLVMBuildSIToFP(l->b, x, l->f32, "");
        return convert_element(l, f, TIR_F32, to);
    }
    if (from == TIR_FP8) {
        LLVMValueRef f = fp8_to_f32(l, x);
        return f ? convert_element(l, f, TIR_F32, to) : NULL;
    }
    if (from != TIR_F32) {
        LLVMValueRef f = LLVMBuildFPExt(l->b, x, l->f32, "");
        return convert_element(l, f, TIR_F32, to);
    }
    if (is_int(to))
        return float_to_int(l, x, type);
    if (to == TIR_FP8)
        return f32_to_fp8(l, x);
    return f32_to_half(l, x, tir_scalar(to), false);
}

/* Two bytes of fp8 at a time: v_cvt_pk_fp8_f32 and v_cvt_pk_f32_fp8 work on half a dword. */
static LLVMValueRef f32_to_fp8_vector(struct lower *l, LLVMValueRef v, unsigned count)
{
    LLVMValueRef dwords[TIR_MAX_VEC / 4];
    for (unsigned i = 0; i < count; i += 4) {
        LLVMValueRef dword = lower_i32(l, 0);
        for (unsigned half = 0; half < 2; half++) {
            LLVMValueRef args[4] = {lower_element(l, v, i + 2 * half),
                                    lower_element(l, v, i + 2 * half + 1), dword,
                                    LLVMConstInt(l->i1, half, false)};
            dword = emit_intrinsic(l, "llvm.amdgcn.cvt.pk.fp8.f32", NULL, 0, args, 4);
            if (!dword)
                return NULL;
        }
        dwords[i / 4] = dword;
    }
    return lower_bitcast(l, lower_gather(l, dwords, count / 4), LLVMVectorType(l->i8, count));
}

static LLVMValueRef fp8_vector_to_f32(struct lower *l, LLVMValueRef v, unsigned count)
{
    LLVMTypeRef packed = count == 4 ? l->i32 : LLVMVectorType(l->i32, count / 4);
    LLVMValueRef dwords = lower_bitcast(l, v, packed), out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i += 2) {
        LLVMValueRef args[2] = {lower_element(l, dwords, i / 4),
                                LLVMConstInt(l->i1, i / 2 % 2, false)};
        LLVMValueRef pair = emit_intrinsic(l, "llvm.amdgcn.cvt.pk.f32.fp8", NULL, 0, args, 2);
        if (!pair)
            return NULL;
        out[i] = lower_element(l, pair, 0);
        out[i + 1] = lower_element(l, pair, 1);
    }
    return lower_gather(l, out, count);
}

LLVMValueRef lower_convert(struct lower *l, const struct tir_op *op)
{
    struct tir_type from = lower_operand_type(l, op, 0), to = lower_result_type(l, op);
    unsigned count = lower_count(to);
    LLVMValueRef v = lower_operand(l, op, 0, count);
    if (count % 4 == 0 && from.dtype == TIR_F32 && to.dtype == TIR_FP8)
        return f32_to_fp8_vector(l, v, count);
    if (count % 4 == 0 && from.dtype == TIR_FP8 && to.dtype == TIR_F32)
        return fp8_vector_to_f32(l, v, count);
    if (to.dtype == TIR_F32 && is_half(from.dtype))
        return LLVMBuildFPExt(l->b, v, lower_type(l, to), "");
    if (from.dtype == TIR_F32 && is_half(to.dtype))
        return f32_to_half(l, v, to, op->imm[0] != 0);

    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++) {
        out[i] = convert_element(l, lower_element(l, v, i), from.dtype, to.dtype);
        if (!out[i])
            return NULL;
    }
    return lower_gather(l, out, count);
}

LLVMValueRef lower_zext(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_result_type(l, op);
    return LLVMBuildZExt(l->b, lower_operand(l, op, 0, lower_count(t)), lower_type(l, t), "");
}

LLVMValueRef lower_bits(struct lower *l, const struct tir_op *op)
{
    return lower_bitcast(l, lower_value(l, op->operands[0]),
                         lower_type(l, lower_result_type(l, op)));
}

LLVMValueRef lower_splat(struct lower *l, const struct tir_op *op)
{
    return lower_operand(l, op, 0, lower_count(lower_result_type(l, op)));
}

LLVMValueRef lower_extract(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef v = lower_value(l, op->operands[0]);
    unsigned first = (unsigned)op->imm[0], count = lower_count(lower_result_type(l, op));
    if (count == 1)
        return lower_element(l, v, first);
    if (count == lower_count(lower_operand_type(l, op, 0)))
        return v;
    LLVMValueRef mask[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        mask[i] = lower_i32(l, first + i);
    return LLVMBuildShuffleVector(l->b, v, LLVMGetPoison(LLVMTypeOf(v)),
                                  LLVMConstVector(mask, count), "");
}

LLVMValueRef lower_concat(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef elements[TIR_MAX_VEC];
    unsigned n = 0;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        LLVMValueRef v = lower_value(l, op->operands[i]);
        unsigned count = lower_count(lower_operand_type(l, op, i));
        assert(n + count <= TIR_MAX_VEC);
        for (unsigned e = 0; e < count; e++)
            elements[n++] = lower_element(l, v, e);
    }
    return lower_gather(l, elements, n);
}

LLVMValueRef lower_byte_perm(struct lower *l, const struct tir_op *op)
{
    LLVMTypeRef type = lower_type(l, lower_result_type(l, op));
    LLVMValueRef args[3] = {lower_bitcast(l, lower_value(l, op->operands[0]), l->i32),
                            lower_bitcast(l, lower_value(l, op->operands[1]), l->i32),
                            lower_i32(l, (int32_t)op->imm[0])};
    LLVMValueRef r = emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
    return r ? lower_bitcast(l, r, type) : NULL;
}
