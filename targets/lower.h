/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the lowering from register-level tile IR to LLVM IR; for targets/lower*.c only.
 *
 * One op becomes one machine instruction (or the few that the target needs for it), in the order of
 * the ops. Measured on LLVM 22.1: with both machine schedulers off, instruction selection keeps the
 * order of the IR within a block exactly, so nothing here asks for an order.
 */
#ifndef TARGETS_LOWER_H
#define TARGETS_LOWER_H

#include <llvm-c/Core.h>

#include "ir/ir.h"
#include "targets/codegen.h"

/* LLVM's address spaces on AMDGPU (AMDGPUUsage, "Address Spaces"). */
enum { AS_GLOBAL = 1, AS_LDS = 3, AS_CONSTANT = 4, AS_BUFFER_RESOURCE = 8 };

struct lower {
    const struct tir_func *f;
    const struct tgt *t;
    const struct lower_isa *isa; /* the generation's own instructions */
    LLVMContextRef ctx;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef kernel;
    LLVMDIBuilderRef di; /* NULL: the object carries no lines */
    LLVMMetadataRef scope;
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, bf16, f32;
    LLVMTypeRef lanes; /* integer with a bit for each lane */
    LLVMTypeRef global_ptr, lds_ptr, constant_ptr, rsrc;
    const struct tir_op *next; /* behind the one that is being lowered, or NULL */
    LLVMValueRef *values;      /* by id of the tir_value */
    LLVMValueRef lane, wave;   /* computed at the kernel's entry */
    /* Metadata that tells LDS accesses from direct-to-LDS loads; see lower_mem.c. */
    LLVMValueRef lds_scope, dma_scope;
    struct {
        LLVMValueRef mask;
        LLVMBasicBlockRef lanes, after;
    } masked; /* the last access by some of the lanes */
    unsigned md_alias_scope, md_noalias, md_invariant, md_prof;
    /* By id of the tir_value: does it live in accumulation registers, and what was it read into?
     * See lower_agprs.c. */
    bool *in_agprs;
    struct lower_read {
        LLVMValueRef v;
        LLVMBasicBlockRef block;
    } *read_from_agprs;
    struct {
        LLVMValueRef of, v;
    } held;                 /* a constant and the register that has it, see lower_agprs.c */
    uint32_t recent[2];     /* values of the last two instructions, see lower_agprs.c */
    unsigned matrix_states; /* until a result in accumulation registers can be read, at most */
    unsigned loops;         /* around the op that is being lowered */
    bool has_mma;           /* a matrix instruction has been lowered */
    bool counts_loads;      /* the function waits for a number of loads, so none may be merged */
    bool failed;
    char *why;
};

/** The first failure's sentence wins; returns NULL: a lowering reads `return lower_fail()`. */
LLVMValueRef lower_fail(struct lower *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** LLVM's type of an element, and of a value: a vector where it has several elements. */
LLVMTypeRef lower_dtype(struct lower *l, unsigned dtype);
LLVMTypeRef lower_type(struct lower *l, struct tir_type t);

/** Elements of a value: 1 unless it is a vec of more. */
unsigned lower_count(struct tir_type t);

/** Returns what a value has been lowered to. */
LLVMValueRef lower_value(struct lower *l, struct tir_value v);
/** Operand i, repeated if it is one value and `count` are wanted. */
LLVMValueRef lower_operand(struct lower *l, const struct tir_op *op, unsigned i, unsigned count);
struct tir_type lower_operand_type(const struct lower *l, const struct tir_op *op, unsigned i);
struct tir_type lower_result_type(const struct lower *l, const struct tir_op *op);

/** A constant, and a value's bits as a type of the same size. */
LLVMValueRef lower_i32(struct lower *l, int64_t v);
LLVMValueRef lower_bitcast(struct lower *l, LLVMValueRef v, LLVMTypeRef t);
/** Element i; v itself when it is a single value. */
LLVMValueRef lower_element(struct lower *l, LLVMValueRef v, unsigned i);
/** A vector of n values of one type; the value itself for n = 1. */
LLVMValueRef lower_gather(struct lower *l, LLVMValueRef *elements, unsigned n);
/** Elements first .. first + count. */
LLVMValueRef lower_slice(struct lower *l, LLVMValueRef v, unsigned first, unsigned count);

/** Finds the values that stay in accumulation registers. False when out of memory. */
bool lower_agprs_begin(struct lower *l);
void lower_agprs_end(struct lower *l);
/** Emits wait states until results in accumulation registers can be read: as many as are left, but
 * no more than `most`. */
enum { LOWER_MATRIX_STATES = 20 /* behind any matrix instruction of all targets */ };
void lower_matrix_states(struct lower *l, unsigned most);
/** Notes that an instruction has been emitted which makes v. */
void lower_note_issue(struct lower *l, struct tir_value v);
/** A matrix instruction whose accumulator stays in accumulation registers. */
LLVMValueRef lower_mfma_in_agprs(struct lower *l, const struct tir_op *op,
                                 const struct tir_mma *row);
/** A scaled one; `left` and `right` are the registers of its scales. */
LLVMValueRef lower_mfma_scaled_in_agprs(struct lower *l, const struct tir_op *op,
                                        const struct tir_mma *row, LLVMValueRef left,
                                        LLVMValueRef right);
/** `v` in the kind of register that `like`, a value of this block or the next, has: accumulation
 * registers or vector registers. */
LLVMValueRef lower_value_for(struct lower *l, struct tir_value v, struct tir_value like);
/** Returns `phi`, which v becomes; of a v in accumulation registers, a copy of it that LLVM has to
 * keep there. */
LLVMValueRef lower_keep(struct lower *l, LLVMValueRef phi, struct tir_value v);
/** Reads a value of accumulation registers into vector registers. */
LLVMValueRef lower_from_agprs(struct lower *l, struct tir_value v);

/** Lanes of a wave. */
unsigned lower_lanes(const struct lower *l);
/** The lanes in which an i1 is set, as bits. */
LLVMValueRef lower_ballot(struct lower *l, LLVMValueRef set);

/** Gives the kernel a string attribute. */
void lower_attribute(struct lower *l, const char *key, const char *value);

/**
 * The only way to an intrinsic: fails the lowering if LLVM has none of this name. `overload` are
 * the types that stand in its name.
 */
LLVMValueRef emit_intrinsic(struct lower *l, const char *name, LLVMTypeRef *overload,
                            unsigned n_overload, LLVMValueRef *args, unsigned n_args);

/** Applies `piece` to each dword of v and gives the results v's type again. Elements of 16 bits
 * that do not fill a dword are extended. */
LLVMValueRef lower_by_dword(struct lower *l, LLVMValueRef v,
                            LLVMValueRef (*piece)(struct lower *l, LLVMValueRef dword, void *data),
                            void *data);

/** Debug information: the function's text, and the line of what is built from now on (0: none). */
void lower_lines_begin(struct lower *l, const struct tgt_blob *ir);
void lower_line(struct lower *l, unsigned line);
void lower_lines_end(struct lower *l);

/** Lowers the ops of a block at the builder's position; a yield ends it without a trace. */
void lower_block(struct lower *l, const struct tir_block *block);
/** The operands that the block's yield gives its owner; NULL if there are none. */
const struct tir_op *lower_yield_of(const struct lower *l, const struct tir_block *block);

/* Op families: each returns the op's value, NULL if it has none (or failed). */
typedef LLVMValueRef lower_fn(struct lower *l, const struct tir_op *op);
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, lower, ...) \
    lower_fn lower_##lower;
#include "ir/ops.def"
#undef OP

#endif
