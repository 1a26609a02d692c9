/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers constants, elementwise arithmetic, comparison and selection.
 *
 * The only fast-math flag is nnan on min and max, which saves a canonicalising v_max before each.
 * With reassoc LLVM would move the chain of additions of a row sum to its end. With contract it
 * would fuse a multiplication and an addition that the interpreter rounds separately.
 */
#include "ir/arith.h"
#include "targets/lower.h"

#include <string.h>

/* True if `dtype` (enum tir_dtype) is a float type in LLVM. fp8 is not: LLVM has it as bytes. */
static bool is_float(unsigned dtype)
{
    return dtype == TIR_F16 || dtype == TIR_BF16 || dtype == TIR_F32;
}

/* Returns a constant vector of `count` elements `c`; for a count of 1 the scalar `c`. */
static LLVMValueRef splat_constant(LLVMValueRef c, unsigned count)
{
    if (count == 1)
        return c;
    LLVMValueRef all[TIR_MAX_VEC];
    for (unsigned i = 0; i < count; i++)
        all[i] = c;
    return LLVMConstVector(all, count);
}

/* Returns the f32 with the low 32 bits of `bits`. */
static float float_of_bits(int64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof(f));
    return f;
}

/* Returns one element of a constant op as LLVM constant of type `type`, for elements of `dtype`. */
static LLVMValueRef constant_of(struct lower *l, const struct tir_op *op, LLVMTypeRef type,
                                unsigned dtype)
{
    if (op->opcode != TIR_const_float)
        return LLVMConstInt(type, (uint64_t)op->imm[0], true);
    if (dtype == TIR_F32)
        return LLVMConstBitCast(LLVMConstInt(l->i32, (uint32_t)op->imm[0], false), type);
    if (dtype == TIR_FP8) {
        const bool fnuz = l->t->machine.fp8_is_fnuz;
        const int64_t bits = tir_from_float(dtype, float_of_bits(op->imm[0]), fnuz);
        return LLVMConstInt(type, (uint64_t)bits, false);
    }
    return LLVMConstReal(type, float_of_bits(op->imm[0]));
}

LLVMValueRef lower_constant(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_result_type(l, op);
    if (op->opcode == TIR_undef)
        return LLVMGetUndef(lower_type(l, t));
    if (op->opcode == TIR_const_float && !is_float(t.dtype) && t.dtype != TIR_FP8)
        return lower_fail(l, "%s has no floating-point constants", tir_dtype_name(t.dtype));
    return splat_constant(constant_of(l, op, lower_dtype(l, t.dtype), t.dtype), lower_count(t));
}

typedef LLVMValueRef build_fn(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

/* The LLVM instructions of ops that become one, on integers and on floats; NULL: there is none. */
static const struct {
    build_fn *on_int, *on_float;
} binaries[TIR_N_OPCODES] = {
    [TIR_add] = {LLVMBuildAdd, LLVMBuildFAdd},
    [TIR_sub] = {LLVMBuildSub, LLVMBuildFSub},
    [TIR_mul] = {LLVMBuildMul, LLVMBuildFMul},
    [TIR_div] = {LLVMBuildUDiv, LLVMBuildFDiv},
    [TIR_rem] = {LLVMBuildURem, NULL},
    [TIR_and] = {LLVMBuildAnd, NULL},
    [TIR_or] = {LLVMBuildOr, NULL},
    [TIR_xor] = {LLVMBuildXor, NULL},
    [TIR_shl] = {LLVMBuildShl, NULL},
    [TIR_shr] = {LLVMBuildLShr, NULL},
    [TIR_sar] = {LLVMBuildAShr, NULL},
};

/* The LLVM intrinsics of ops that become one, on integers and on floats; NULL: there is none. exp2,
 * log2, rcp and rsq become AMDGPU's raw instructions, without the scaling that denormal arguments
 * or results would need. */
static const struct {
    const char *on_int, *on_float;
} intrinsics[TIR_N_OPCODES] = {
    [TIR_fma] = {NULL, "llvm.fma"},           [TIR_min] = {"llvm.smin", "llvm.minnum"},
    [TIR_max] = {"llvm.smax", "llvm.maxnum"}, [TIR_max3] = {"llvm.smax", "llvm.maxnum"},
    [TIR_abs] = {NULL, "llvm.fabs"},          [TIR_exp2] = {NULL, "llvm.amdgcn.exp2"},
    [TIR_log2] = {NULL, "llvm.amdgcn.log"},   [TIR_rcp] = {NULL, "llvm.amdgcn.rcp"},
    [TIR_rsq] = {NULL, "llvm.amdgcn.rsq"},    [TIR_ceil] = {NULL, "llvm.ceil"},
};

/* Emits one call of the intrinsic `name` with `n` arguments and returns its result. Minima and
 * maxima of floats assume that there are no NaNs. */
static LLVMValueRef call_elementwise(struct lower *l, const struct tir_op *op, const char *name,
                                     LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    LLVMValueRef r = emit_intrinsic(l, name, &type, 1, args, n);
    bool min_max = op->opcode == TIR_min || op->opcode == TIR_max || op->opcode == TIR_max3;
    if (r && min_max && is_float(lower_result_type(l, op).dtype))
        LLVMSetFastMathFlags(r, LLVMFastMathNoNaNs);
    return r;
}

/* Emits the intrinsic `name` for an op. A maximum of three becomes two calls. */
static LLVMValueRef one_element(struct lower *l, const struct tir_op *op, const char *name,
                                LLVMValueRef *args)
{
    if (op->opcode == TIR_max3) { /* LLVM forms v_max3 from the pair */
        LLVMValueRef first = call_elementwise(l, op, name, args, 2);
        LLVMValueRef rest[2] = {first, args[2]};
        return first ? call_elementwise(l, op, name, rest, 2) : NULL;
    }
    return call_elementwise(l, op, name, args, op->n_operands);
}

/* True if the intrinsic accepts vectors: generic intrinsics do, AMDGPU's do not. */
static bool takes_vectors(const char *name) { return strncmp(name, "llvm.amdgcn.", 12) != 0; }

/* Lowers an elementwise op by the intrinsic `name`, element by element if the intrinsic accepts no
 * vectors. */
static LLVMValueRef lower_by_intrinsic(struct lower *l, const struct tir_op *op, const char *name)
{
    unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef args[3] = {NULL}, out[TIR_MAX_VEC];
    for (uint32_t i = 0; i < op->n_operands; i++)
        args[i] = lower_operand(l, op, i, count);
    if (takes_vectors(name))
        return one_element(l, op, name, args);

    for (unsigned e = 0; e < count; e++) {
        LLVMValueRef one[3] = {NULL};
        for (uint32_t i = 0; i < op->n_operands; i++)
            one[i] = lower_element(l, args[i], e);
        out[e] = one_element(l, op, name, one);
        if (!out[e])
            return NULL;
    }
    return lower_gather(l, out, count);
}

/* Returns the absolute value of integers. */
static LLVMValueRef lower_int_abs(struct lower *l, LLVMValueRef a)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[2] = {a, LLVMConstNull(l->i1)};
    return emit_intrinsic(l, "llvm.abs", &type, 1, args, 2);
}

LLVMValueRef lower_elementwise(struct lower *l, const struct tir_op *op)
{
    struct tir_type t = lower_result_type(l, op);
    unsigned count = lower_count(t);
    bool on_float = is_float(t.dtype);

    if (op->opcode == TIR_neg) {
        LLVMValueRef a = lower_operand(l, op, 0, count);
        return on_float ? LLVMBuildFNeg(l->b, a, "") : LLVMBuildNeg(l->b, a, "");
    }
    if (op->opcode == TIR_abs && !on_float)
        return lower_int_abs(l, lower_operand(l, op, 0, count));
    if (op->opcode == TIR_fma && !on_float) { /* LLVM selects v_mad_u32_u24 and the like */
        LLVMValueRef product =
            LLVMBuildMul(l->b, lower_operand(l, op, 0, count), lower_operand(l, op, 1, count), "");
        return LLVMBuildAdd(l->b, product, lower_operand(l, op, 2, count), "");
    }

    build_fn *build = on_float ? binaries[op->opcode].on_float : binaries[op->opcode].on_int;
    if (build) {
        LLVMValueRef a = lower_operand(l, op, 0, count);
        LLVMValueRef b = lower_operand(l, op, 1, count);
        return build(l->b, a, b, "");
    }
    const char *name = on_float ? intrinsics[op->opcode].on_float : intrinsics[op->opcode].on_int;
    if (!name)
        return lower_fail(l, "%s has no meaning on %s", tir_ops[op->opcode].name,
                          tir_dtype_name(t.dtype));
    return lower_by_intrinsic(l, op, name);
}

/* Lowers the conversion of two f32 to f16 within 0 to 1. Emits a maximum and a minimum, which LLVM
 * folds into the clamp of v_cvt_pk_f16_f32. The clamp turns NaN into 0. */
LLVMValueRef lower_unit_pair(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_result_type(l, op));
    LLVMTypeRef halves = LLVMVectorType(l->f16, 2);
    LLVMValueRef one = LLVMConstReal(l->f16, 1), out[TIR_MAX_VEC];
    for (unsigned e = 0; e < count; e++) {
        LLVMValueRef two[2];
        for (unsigned i = 0; i < 2; i++)
            two[i] = lower_element(l, lower_operand(l, op, i, count), e);
        LLVMValueRef pair = LLVMBuildFPTrunc(l->b, lower_gather(l, two, 2), halves, "");
        LLVMValueRef least[2] = {pair, LLVMConstNull(halves)};
        pair = emit_intrinsic(l, "llvm.maxnum", &halves, 1, least, 2);
        LLVMValueRef most[2] = {pair, LLVMConstVector((LLVMValueRef[]){one, one}, 2)};
        pair = emit_intrinsic(l, "llvm.minnum", &halves, 1, most, 2);
        out[e] = lower_bitcast(l, pair, l->i32);
    }
    return lower_gather(l, out, count);
}

/* Lowers the dot product of two f16 pairs with an f32 accumulator: LLVM selects v_dot2c_f32_f16. */
LLVMValueRef lower_dot2(struct lower *l, const struct tir_op *op)
{
    const unsigned count = lower_count(lower_result_type(l, op));
    LLVMTypeRef halves = LLVMVectorType(l->f16, 2);
    LLVMValueRef out[TIR_MAX_VEC];
    for (unsigned e = 0; e < count; e++) {
        LLVMValueRef args[4];
        for (unsigned i = 0; i < 3; i++)
            args[i] = lower_element(l, lower_operand(l, op, i, count), e);
        for (unsigned i = 0; i < 2; i++)
            args[i] = lower_bitcast(l, args[i], halves);
        args[3] = LLVMConstNull(l->i1);
        out[e] = emit_intrinsic(l, "llvm.amdgcn.fdot2", NULL, 0, args, 4);
        if (!out[e])
            return NULL;
    }
    return lower_gather(l, out, count);
}

/* LLVM's predicates of comparison ops, on integers and on floats. */
static const struct {
    LLVMIntPredicate on_int;
    LLVMRealPredicate on_float;
} predicates[TIR_N_OPCODES] = {
    [TIR_cmp_eq] = {LLVMIntEQ, LLVMRealOEQ},   [TIR_cmp_ne] = {LLVMIntNE, LLVMRealUNE},
    [TIR_cmp_lt] = {LLVMIntSLT, LLVMRealOLT},  [TIR_cmp_le] = {LLVMIntSLE, LLVMRealOLE},
    [TIR_cmp_gt] = {LLVMIntSGT, LLVMRealOGT},  [TIR_cmp_ge] = {LLVMIntSGE, LLVMRealOGE},
    [TIR_cmp_ult] = {LLVMIntULT, LLVMRealOLT},
};

LLVMValueRef lower_compare(struct lower *l, const struct tir_op *op)
{
    unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef a = lower_operand(l, op, 0, count);
    LLVMValueRef b = lower_operand(l, op, 1, count);
    if (is_float(lower_operand_type(l, op, 0).dtype))
        return LLVMBuildFCmp(l->b, predicates[op->opcode].on_float, a, b, "");
    return LLVMBuildICmp(l->b, predicates[op->opcode].on_int, a, b, "");
}

LLVMValueRef lower_select(struct lower *l, const struct tir_op *op)
{
    unsigned count = lower_count(lower_result_type(l, op));
    LLVMValueRef yes = lower_operand(l, op, 1, count);
    LLVMValueRef no = lower_operand(l, op, 2, count);
    return LLVMBuildSelect(l->b, lower_value(l, op->operands[0]), yes, no, "");
}
