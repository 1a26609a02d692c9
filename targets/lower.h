/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of the lowering from register-level tile IR to LLVM IR, for targets/lower*.c
 * only.
 *
 * Each op becomes one machine instruction, or the few that the target needs for it, in the order of
 * the ops. Measured on LLVM 22.1: with both machine schedulers off, instruction selection keeps the
 * order of the IR within a block exactly. The lowering therefore emits no ordering constraints.
 */
#ifndef TARGETS_LOWER_H
#define TARGETS_LOWER_H

#include <llvm-c/Core.h>

#include "ir/ir.h"
#include "targets/codegen.h"

/* LLVM's address spaces on AMDGPU (AMDGPUUsage, "Address Spaces"). */
enum { AS_GLOBAL = 1, AS_LDS = 3, AS_CONSTANT = 4, AS_BUFFER_RESOURCE = 8 };

/* The most copies to LDS whose data registers hold at once: 64 registers at 16 bytes a lane. */
enum { LOWER_HELD = 16 };

/* The state of one lowering. LLVM values are of the function being built. */
struct lower {
    const struct tir_func *f;
    const struct tgt *t;
    const struct lower_isa *isa; /* instructions of the target's generation */
    /* LLVM's context, module, builder and function. */
    LLVMContextRef ctx;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef kernel;
    LLVMDIBuilderRef di;   /* NULL: the object has no debug lines */
    LLVMMetadataRef scope; /* debug scope of the function's instructions */
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, bf16, f32; /* LLVM's types of elements */
    LLVMTypeRef lanes;                                        /* integer with one bit per lane */
    /* Pointers by address space; a buffer resource. */
    LLVMTypeRef global_ptr, lds_ptr, constant_ptr, rsrc;
    const struct tir_op *next; /* the op after the current one; NULL: the current one is the last */
    LLVMValueRef *values;      /* LLVM's value of each tir_value, by id */
    /* The lane's index in its wave, and the wave's in the workgroup; computed at the kernel's
     * entry. */
    LLVMValueRef lane, wave;
    /* Alias scopes that separate LDS accesses from direct-to-LDS loads; see lower_mem.c. */
    LLVMValueRef lds_scope, dma_scope;
    struct {
        LLVMValueRef mask;
        LLVMBasicBlockRef lanes, after;
    } masked; /* block of the last masked access, see lower_mem.c */
    /* Copies to LDS whose data are still in registers, oldest first; see isa_rdna4.c. */
    struct lower_held {
        LLVMValueRef data, lds; /* the lane's data, and the LDS pointer for them */
    } copies[LOWER_HELD];
    unsigned n_copies;
    /* Numbers of LLVM's metadata kinds. */
    unsigned md_alias_scope, md_noalias, md_invariant, md_prof;
    /* By tir_value id: true if the value lives in accumulation registers, and its last copy in
     * vector registers with the block of that copy. See lower_agprs.c. */
    bool *in_agprs;
    struct lower_read {
        LLVMValueRef v;
        LLVMBasicBlockRef block;
    } *read_from_agprs;
    struct {
        LLVMValueRef of, v;
    } held;                 /* `of`: a constant scale; `v`: the register that holds it, see
                             * lower_agprs.c */
    uint32_t recent[2];     /* tir_value ids of the last two instructions, see lower_agprs.c */
    unsigned matrix_states; /* upper bound of the wait states until a result in AGPRs can be read */
    unsigned loops;         /* depth of loops around the current op */
    bool has_mma;           /* a matrix instruction has been lowered */
    bool counts_loads;      /* waits count loads, so loads must not be merged */
    bool failed;
    char *why; /* text of TGT_WHY bytes for the first failure */
};

/** Records why the lowering fails; only the first failure is kept. Returns NULL, so that a lowering
 * can `return lower_fail()`. */
LLVMValueRef lower_fail(struct lower *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Return LLVM's type of an element and of a value. A value with several elements is a vector. */
LLVMTypeRef lower_dtype(struct lower *l, unsigned dtype);
LLVMTypeRef lower_type(struct lower *l, struct tir_type t);

/** Returns the number of elements of a value: 1 unless it is a vec of more. */
unsigned lower_count(struct tir_type t);

/** Returns the LLVM value of a tir_value. */
LLVMValueRef lower_value(struct lower *l, struct tir_value v);
/** Returns operand i. A single value is repeated if `count` elements are wanted. */
LLVMValueRef lower_operand(struct lower *l, const struct tir_op *op, unsigned i, unsigned count);
/** Returns the type of operand i. */
struct tir_type lower_operand_type(const struct lower *l, const struct tir_op *op, unsigned i);
/** Returns the type of the op's result. */
struct tir_type lower_result_type(const struct lower *l, const struct tir_op *op);

/** Return an i32 constant, and a value's bits as another type of the same size. */
LLVMValueRef lower_i32(struct lower *l, int64_t v);
LLVMValueRef lower_bitcast(struct lower *l, LLVMValueRef v, LLVMTypeRef t);
/** Returns element i, or v itself if it is a single value. */
LLVMValueRef lower_element(struct lower *l, LLVMValueRef v, unsigned i);
/** Builds a vector from n values of one type. For n = 1 returns the value itself. */
LLVMValueRef lower_gather(struct lower *l, LLVMValueRef *elements, unsigned n);
/** Returns elements first .. first + count - 1. */
LLVMValueRef lower_slice(struct lower *l, LLVMValueRef v, unsigned first, unsigned count);

/** Finds the values that stay in accumulation registers. Returns false if memory is exhausted. */
bool lower_agprs_begin(struct lower *l);
/** Frees what lower_agprs_begin() has allocated. */
void lower_agprs_end(struct lower *l);
/** Emits the wait states that are left before results in accumulation registers can be read, but no
 * more than `most`. */
enum { LOWER_MATRIX_STATES = 20 /* enough after any matrix instruction of every target */ };
void lower_matrix_states(struct lower *l, unsigned most);
/** Records that an instruction with result v has been emitted. */
void lower_note_issue(struct lower *l, struct tir_value v);
/** Emits a matrix instruction whose accumulator stays in accumulation registers. */
LLVMValueRef lower_mfma_in_agprs(struct lower *l, const struct tir_op *op,
                                 const struct tir_mma *row);
/** Emits a scaled matrix instruction whose accumulator stays in accumulation registers. `left` and
 * `right` are the registers of its scales. */
LLVMValueRef lower_mfma_scaled_in_agprs(struct lower *l, const struct tir_op *op,
                                        const struct tir_mma *row, LLVMValueRef left,
                                        LLVMValueRef right);
/** Returns `v` in the kind of register that `like` has: accumulation or vector registers. `like` is
 * a value of this block or the next. */
LLVMValueRef lower_value_for(struct lower *l, struct tir_value v, struct tir_value like);
/** Returns `phi`, which has v's value. If v is in accumulation registers, returns a copy that LLVM
 * has to keep there. */
LLVMValueRef lower_keep(struct lower *l, LLVMValueRef phi, struct tir_value v);
/** Copies a value from accumulation registers to vector registers. */
LLVMValueRef lower_from_agprs(struct lower *l, struct tir_value v);

/** Returns the lanes of a wave. */
unsigned lower_lanes(const struct lower *l);
/** Returns a mask with one bit per lane: the lane's value of the i1 `set`. */
LLVMValueRef lower_ballot(struct lower *l, LLVMValueRef set);

/** Gives the kernel a string attribute. */
void lower_attribute(struct lower *l, const char *key, const char *value);

/**
 * Calls an intrinsic; fails the lowering if LLVM has none of this name. `overload` are the types in
 * its mangled name. All intrinsics of the lowering are called through this function.
 */
LLVMValueRef emit_intrinsic(struct lower *l, const char *name, LLVMTypeRef *overload,
                            unsigned n_overload, LLVMValueRef *args, unsigned n_args);

/** Calls piece(l, dword, data) for each dword of v and returns the results as v's type. 16-bit
 * elements that do not fill a dword are extended. */
LLVMValueRef lower_by_dword(struct lower *l, LLVMValueRef v,
                            LLVMValueRef (*piece)(struct lower *l, LLVMValueRef dword, void *data),
                            void *data);

/** Begins debug information with the function's printed text; sets the line of the next
 * instructions (0: none); ends it. */
void lower_lines_begin(struct lower *l, const struct tgt_blob *ir);
void lower_line(struct lower *l, unsigned line);
void lower_lines_end(struct lower *l);

/** Lowers the ops of a block at the builder's position. A yield emits nothing. */
void lower_block(struct lower *l, const struct tir_block *block);
/** Returns the block's yield, whose operands become results of the owner; NULL if the block has
 * none. */
const struct tir_op *lower_yield_of(const struct lower *l, const struct tir_block *block);

/* Op families: each returns the op's value, or NULL if it has none or the lowering failed. */
typedef LLVMValueRef lower_fn(struct lower *l, const struct tir_op *op);
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, lower, ...) \
    lower_fn lower_##lower;
#include "ir/ops.def"
#undef OP

#endif
