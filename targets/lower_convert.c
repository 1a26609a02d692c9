/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers type conversions, and ops that build vecs from elements, extract elements or permute
 * bytes.
 */
#include "targets/lower_isa.h"

#include <assert.h>

/* True if `dtype` is an integer type. */
static bool is_int(unsigned dtype)
{
    return dtype == TIR_I1 || dtype == TIR_I8 || dtype == TIR_I16 || dtype == TIR_I32 ||
           dtype == TIR_I64;
}

/* True if `dtype` is a 16-bit float type. */
static bool is_half(unsigned dtype) { return dtype == TIR_F16 || dtype == TIR_BF16; }

/* Converts two f32 toward zero to the 16-bit float type `dtype`. Returns a dword with `a` in its
 * low half. It is v_cvt_pkrtz_f16_f32 for f16, and v_perm of the high halves for bf16. */
static LLVMValueRef cut_pair(struct lower *l, LLVMValueRef a, LLVMValueRef b, unsigned dtype)
{
    if (dtype == TIR_F16) {
        LLVMValueRef args[2] = {a, b};
        LLVMValueRef both = emit_intrinsic(l, "llvm.amdgcn.cvt.pkrtz", NULL, 0, args, 2);
        return both ? lower_bitcast(l, both, l->i32) : NULL;
    }
    LLVMValueRef args[3] = {lower_bitcast(l, b, l->i32), lower_bitcast(l, a, l->i32),
                            lower_i32(l, 0x07060302)};
    return emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

/* Converts f32 toward zero to the 16-bit float type `to`, in pairs. */
static LLVMValueRef cut_to_half(struct lower *l, LLVMValueRef v, struct tir_type to)
{
    const unsigned count = lower_count(to), pairs = (count + 1) / 2;
    struct tir_type element = to;
    element.count = 1;
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned i = 0; i < pairs; i++) {
        LLVMValueRef a = lower_element(l, v, 2 * i);
        out[i] = cut_pair(l, a, 2 * i + 1 < count ? lower_element(l, v, 2 * i + 1) : a, to.dtype);
        if (!out[i])
            return NULL;
    }
    LLVMTypeRef half = lower_type(l, element);
    LLVMValueRef all =
        lower_bitcast(l, lower_gather(l, out, pairs), LLVMVectorType(half, 2 * pairs));
    return count % 2 ? lower_slice(l, all, 0, count) : all;
}

/* Converts an f32 or a vector of f32 to the 16-bit float type `to`, with rounding `how`. */
static LLVMValueRef f32_to_half(struct lower *l, LLVMValueRef v, struct tir_type to,
                                struct lower_rounding how)
{
    if (how.rounding == TIR_TOWARD_ZERO)
        return cut_to_half(l, v, to);
    if (to.dtype == TIR_F16)
        return LLVMBuildFPTrunc(l->b, v, lower_type(l, to), "");
    return l->isa->to_bf16(l, v, lower_count(to), how);
}

LLVMValueRef lower_convert_pair(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef both[2] = {lower_value(l, op->operands[0]), lower_value(l, op->operands[1])};
    const struct lower_rounding how = {.short_nan = op->imm[0], .rounding = op->imm[1]};
    lower_note_issue(l, op->result);
    return f32_to_half(l, lower_gather(l, both, 2), lower_result_type(l, op), how);
}

/* Clamps the `n` f32 in `x`, at most 4, to fp8's range. Without it, numbers out of range would
 * become NaN, since MODE.fp16_ovfl is 0. v_med3_f32 turns NaN into the lower bound (CDNA3 ISA), so
 * a v_cndmask restores NaN. Each loop emits one step for all elements, because v_cmp and its
 * v_cndmask need two wait states between them. Returns false if the lowering failed. */
static bool clamp_to_fp8(struct lower *l, LLVMValueRef *x, unsigned n)
{
    const double top = l->t->machine.fp8_is_fnuz ? 240 : 448;
    LLVMValueRef clamped[4], nan[4];
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef args[3] = {x[i], LLVMConstReal(l->f32, -top), LLVMConstReal(l->f32, top)};
        clamped[i] = emit_intrinsic(l, "llvm.amdgcn.fmed3", &l->f32, 1, args, 3);
        if (!clamped[i])
            return false;
    }
    for (unsigned i = 0; i < n; i++)
        nan[i] = LLVMBuildFCmp(l->b, LLVMRealUNO, x[i], x[i], "");
    for (unsigned i = 0; i < n; i++)
        x[i] = LLVMBuildSelect(l->b, nan[i], x[i], clamped[i], "");
    return true;
}

/* Converts `n` f32, at most 4, to fp8 in the bytes of a dword. `in_range`: no number exceeds fp8's
 * range, so nothing is clamped. */
static LLVMValueRef fp8_dword(struct lower *l, LLVMValueRef *x, unsigned n, bool in_range)
{
    /* More than two elements write both halves, so the initial value does not matter. */
    LLVMValueRef dword = n > 2 ? LLVMGetUndef(l->i32) : lower_i32(l, 0);
    if (!in_range && !clamp_to_fp8(l, x, n))
        return NULL;
    for (unsigned i = 0; i < n; i += 2) {
        dword = l->isa->to_fp8(l, x[i], x[i + 1 < n ? i + 1 : i], dword, i / 2);
        if (!dword)
            return NULL;
    }
    return dword;
}

/* Converts a vector of `count` f32 to fp8. `in_range` as in fp8_dword(). */
static LLVMValueRef f32_to_fp8(struct lower *l, LLVMValueRef v, unsigned count, bool in_range)
{
    LLVMValueRef dwords[TIR_MAX_VEC / 4], x[4];
    const unsigned n = (count + 3) / 4;
    for (unsigned i = 0; i < n; i++) {
        const unsigned left = count - 4 * i < 4 ? count - 4 * i : 4;
        for (unsigned e = 0; e < left; e++)
            x[e] = lower_element(l, v, 4 * i + e);
        dwords[i] = fp8_dword(l, x, left, in_range);
        if (!dwords[i])
            return NULL;
    }
    if (count == 1)
        return LLVMBuildTrunc(l->b, dwords[0], l->i8, "");
    if (count == 2)
        return lower_bitcast(l, LLVMBuildTrunc(l->b, dwords[0], l->i16, ""),
                             LLVMVectorType(l->i8, 2));
    LLVMValueRef all = lower_bitcast(l, lower_gather(l, dwords, n), LLVMVectorType(l->i8, 4 * n));
    return lower_slice(l, all, 0, count);
}

/* Converts a vector of `count` fp8 to f32, in pairs if the count is a multiple of 4. */
static LLVMValueRef fp8_to_f32(struct lower *l, LLVMValueRef v, unsigned count)
{
    LLVMValueRef out[TIR_MAX_VEC];
    if (count % 4) {
        for (unsigned i = 0; i < count; i++) {
            LLVMValueRef byte = LLVMBuildZExt(l->b, lower_element(l, v, i), l->i32, "");
            out[i] = l->isa->fp8_to_f32(l, byte);
        }
        return lower_gather(l, out, count);
    }
    LLVMTypeRef packed = count == 4 ? l->i32 : LLVMVectorType(l->i32, count / 4);
    LLVMValueRef dwords = lower_bitcast(l, v, packed);
    for (unsigned i = 0; i < count; i += 2) {
        LLVMValueRef pair = l->isa->fp8_pair_to_f32(l, lower_element(l, dwords, i / 4), i / 2 % 2);
        if (!pair)
            return NULL;
        out[i] = lower_element(l, pair, 0);
        out[i + 1] = lower_element(l, pair, 1);
    }
    return lower_gather(l, out, count);
}

/* Clamps an i32 to the range of i8. */
static LLVMValueRef clamp_to_i8(struct lower *l, LLVMValueRef x)
{
    LLVMValueRef least[2] = {x, lower_i32(l, INT8_MIN)};
    LLVMValueRef most[2] = {emit_intrinsic(l, "llvm.smax", &l->i32, 1, least, 2),
                            lower_i32(l, INT8_MAX)};
    return emit_intrinsic(l, "llvm.smin", &l->i32, 1, most, 2);
}

/* Returns a dword whose bytes are the low bytes of four i32, by v_perm. */
static LLVMValueRef join_low_bytes(struct lower *l, const LLVMValueRef x[4])
{
    LLVMValueRef low[3] = {x[1], x[0], lower_i32(l, 0x0c0c0400)};
    LLVMValueRef high[3] = {x[3], x[2], lower_i32(l, 0x0c0c0400)};
    LLVMValueRef both[3] = {emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, high, 3),
                            emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, low, 3),
                            lower_i32(l, 0x05040100)};
    return emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, both, 3);
}

/* Converts f32 to the integer type `to` by v_rndne_f32 and v_cvt_i32_f32, which saturates and turns
 * NaN into 0. Bytes saturate by v_med3_i32, because LLVM 22.1 would emit comparisons and selects.
 * `in_range`: no byte saturates. */
static LLVMValueRef f32_to_int(struct lower *l, LLVMValueRef v, struct tir_type to, bool in_range)
{
    const unsigned count = lower_count(to);
    struct tir_type whole = to;
    if (to.dtype == TIR_I8)
        whole.dtype = TIR_I32;
    LLVMTypeRef types[2] = {lower_type(l, whole), LLVMTypeOf(v)};
    v = emit_intrinsic(l, "llvm.roundeven", &types[1], 1, &v, 1);
    v = v ? emit_intrinsic(l, "llvm.fptosi.sat", types, 2, &v, 1) : NULL;
    if (!v || to.dtype != TIR_I8)
        return v;
    LLVMValueRef x[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        x[i] = in_range ? lower_element(l, v, i) : clamp_to_i8(l, lower_element(l, v, i));
    if (count % 4)
        return LLVMBuildTrunc(l->b, lower_gather(l, x, count), lower_type(l, to), "");
    for (unsigned i = 0; i < count; i += 4)
        x[i / 4] = join_low_bytes(l, x + i);
    return lower_bitcast(l, lower_gather(l, x, count / 4), lower_type(l, to));
}

/* Converts f32 that the 16-bit float type `to` represents exactly, such as former fp8 or i8.
 * Nothing is rounded. */
static LLVMValueRef short_f32_to_half(struct lower *l, LLVMValueRef v, struct tir_type to)
{
    const unsigned count = lower_count(to);
    if (count % 2)
        return f32_to_half(l, v, to, (struct lower_rounding){.short_nan = true});
    LLVMValueRef pairs[TIR_MAX_VEC / 2];
    for (unsigned i = 0; i < count; i += 2) {
        LLVMValueRef low = lower_element(l, v, i), high = lower_element(l, v, i + 1);
        if (to.dtype == TIR_F16) {
            pairs[i / 2] =
                emit_intrinsic(l, "llvm.amdgcn.cvt.pkrtz", NULL, 0, (LLVMValueRef[]){low, high}, 2);
        } else {
            LLVMValueRef args[3] = {lower_bitcast(l, high, l->i32), lower_bitcast(l, low, l->i32),
                                    lower_i32(l, 0x07060302)};
            pairs[i / 2] = emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
        }
        if (!pairs[i / 2])
            return NULL;
        pairs[i / 2] = lower_bitcast(l, pairs[i / 2], l->i32);
    }
    return lower_bitcast(l, lower_gather(l, pairs, count / 2), lower_type(l, to));
}

/* Converts a value of type `from` to f32; an f32 stays as it is. */
static LLVMValueRef to_f32(struct lower *l, LLVMValueRef v, struct tir_type from)
{
    const unsigned dtype = from.dtype;
    from.dtype = TIR_F32;
    if (dtype == TIR_FP8)
        return fp8_to_f32(l, v, lower_count(from));
    if (is_int(dtype))
        return LLVMBuildSIToFP(l->b, v, lower_type(l, from), "");
    return is_half(dtype) ? LLVMBuildFPExt(l->b, v, lower_type(l, from), "") : v;
}

LLVMValueRef lower_convert(struct lower *l, const struct tir_op *op)
{
    struct tir_type from = lower_operand_type(l, op, 0), to = lower_result_type(l, op);
    const unsigned count = lower_count(to);
    LLVMValueRef v = lower_operand(l, op, 0, count);
    if (from.dtype == to.dtype)
        return v;
    if (is_int(from.dtype) && is_int(to.dtype))
        return LLVMBuildIntCast2(l->b, v, lower_type(l, to), true, "");
    from.kind = to.kind; /* a scalar operand was repeated for every element */
    from.count = to.count;
    if (is_half(to.dtype) && from.dtype == TIR_FP8 && count % 4 == 0 && l->isa->fp8_to_half)
        return l->isa->fp8_to_half(l, v, to);
    v = to_f32(l, v, from);
    if (!v)
        return NULL;
    if (is_int(to.dtype))
        return f32_to_int(l, v, to, op->imm[1]);
    if (to.dtype == TIR_FP8)
        return f32_to_fp8(l, v, count, op->imm[1]);
    if (is_half(to.dtype) && (from.dtype == TIR_FP8 || from.dtype == TIR_I8))
        return short_f32_to_half(l, v, to);
    const struct lower_rounding how = {.short_nan = op->imm[0], .rounding = op->imm[2]};
    return is_half(to.dtype) ? f32_to_half(l, v, to, how) : v;
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
    return lower_slice(l, lower_value(l, op->operands[0]), (unsigned)op->imm[0],
                       lower_count(lower_result_type(l, op)));
}

/* Returns the vec in AGPRs, with as many elements as the concat `op` has operands, from which
 * operand `i` extracts element `i`. Id 0: operand `i` has another form. */
static struct tir_value element_of_agprs(const struct lower *l, const struct tir_op *op, uint32_t i)
{
    const struct tir_value none = {0};
    const struct tir_ref def = l->f->values[op->operands[i].id].def;
    const struct tir_op *const of = def.id ? tir_op(l->f, def) : NULL;
    if (!of || of->opcode != TIR_extract || of->imm[0] != i ||
        lower_count(lower_operand_type(l, op, i)) != 1)
        return none;
    const struct tir_value v = of->operands[0];
    return l->in_agprs[v.id] && tir_typeof(l->f, v).count == op->n_operands ? v : none;
}

/* Lowers a concat that replaces some elements of a vec in AGPRs, as insertions. For a whole concat
 * LLVM would use 32 more VGPRs. Returns NULL if the concat has another form. */
static LLVMValueRef replace_elements(struct lower *l, const struct tir_op *op)
{
    struct tir_value from = {0};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tir_value v = element_of_agprs(l, op, i);
        if (from.id && v.id && v.id != from.id)
            return NULL;
        kept += v.id != 0;
        from = v.id ? v : from;
    }
    if (!kept || kept == op->n_operands)
        return NULL;
    LLVMValueRef v = lower_value(l, from);
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (!element_of_agprs(l, op, i).id)
            v = LLVMBuildInsertElement(
                l->b, v, lower_element(l, lower_value(l, op->operands[i]), 0), lower_i32(l, i), "");
    return v;
}

LLVMValueRef lower_concat(struct lower *l, const struct tir_op *op)
{
    LLVMValueRef elements[TIR_MAX_VEC];
    unsigned n = 0;
    LLVMValueRef replaced = replace_elements(l, op);
    if (replaced)
        return replaced;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        LLVMValueRef v = lower_value(l, op->operands[i]);
        unsigned count = lower_count(lower_operand_type(l, op, i));
        assert(n + count <= TIR_MAX_VEC);
        for (unsigned e = 0; e < count; e++)
            elements[n++] = lower_element(l, v, e);
    }
    return lower_gather(l, elements, n);
}

LLVMValueRef lower_dot_pair(struct lower *l, const struct tir_op *op)
{
    LLVMTypeRef pair = LLVMVectorType(LLVMBFloatTypeInContext(l->ctx), 2);
    LLVMValueRef args[4] = {lower_bitcast(l, lower_value(l, op->operands[0]), pair),
                            lower_bitcast(l, lower_value(l, op->operands[1]), pair),
                            lower_bitcast(l, lower_value(l, op->operands[2]), l->f32),
                            LLVMConstInt(l->i1, 0, false)};
    LLVMValueRef d = emit_intrinsic(l, "llvm.amdgcn.fdot2.f32.bf16", NULL, 0, args, 4);
    return d ? lower_bitcast(l, d, lower_type(l, lower_result_type(l, op))) : NULL;
}

/* Returns a vector of two with its elements exchanged. */
static LLVMValueRef exchange_halves(struct lower *l, LLVMValueRef pair)
{
    LLVMValueRef order[] = {lower_i32(l, 1), lower_i32(l, 0)};
    return LLVMBuildShuffleVector(l->b, pair, LLVMGetPoison(LLVMTypeOf(pair)),
                                  LLVMConstVector(order, 2), "");
}

/* True if the next op has the same opcode and this op's result as an operand. */
static bool next_takes_result(const struct lower *l, const struct tir_op *op)
{
    bool taken = false;
    for (uint32_t i = 0; l->next && l->next->opcode == op->opcode && i < l->next->n_operands; i++)
        taken |= l->next->operands[i].id == op->result.id;
    return taken;
}

/* Lowers the maximum of three f16 pairs to two maxima, which LLVM combines to v_pk_maximum3_f16.
 *
 * LLVM mistakes op_sel_hi of the first operand for the bit that moves a result to the high half. It
 * then inserts an s_nop if the next instruction reads the result (getDstSelForwardingOperand in
 * GCNHazardRecognizer.cpp of LLVM 22.1). If the first operand has exchanged halves, that bit is 0.
 * So a maximum that the next op reads is computed on exchanged halves, and its halves are exchanged
 * back. op_sel does both at no cost. */
LLVMValueRef lower_max3_pair(struct lower *l, const struct tir_op *op)
{
    LLVMTypeRef pair = LLVMVectorType(l->f16, 2);
    const bool exchanged = next_takes_result(l, op);
    LLVMValueRef d = NULL;
    for (unsigned i = 0; i < 3; i++) {
        LLVMValueRef v = lower_bitcast(l, lower_value(l, op->operands[i]), pair);
        LLVMValueRef args[2] = {d, exchanged ? exchange_halves(l, v) : v};
        d = i ? emit_intrinsic(l, "llvm.maximum", &pair, 1, args, 2) : args[1];
        if (!d)
            return NULL;
    }
    if (exchanged)
        d = exchange_halves(l, d);
    return lower_bitcast(l, d, lower_type(l, lower_result_type(l, op)));
}

LLVMValueRef lower_byte_perm(struct lower *l, const struct tir_op *op)
{
    LLVMTypeRef type = lower_type(l, lower_result_type(l, op));
    LLVMValueRef args[3] = {lower_bitcast(l, lower_value(l, op->operands[0]), l->i32),
                            lower_bitcast(l, lower_value(l, op->operands[1]), l->i32),
                            lower_i32(l, (int32_t)op->imm[0])};
    LLVMValueRef r = emit_intrinsic(l, "llvm.amdgcn.perm", NULL, 0, args, 3);
    lower_note_issue(l, op->result);
    return r ? lower_bitcast(l, r, type) : NULL;
}
