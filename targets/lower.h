/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of the lowering from register-level tile IR to LLVM IR. Only files of targets/
 * that emit LLVM IR include it.
 *
 * Each op becomes one machine instruction, or the few that the target needs for it, in the order of
 * the ops. With both machine schedulers off, instruction selection of LLVM 22.1 keeps the order of
 * the IR within a block exactly. The lowering therefore emits no ordering constraints.
 */
#ifndef TARGETS_LOWER_H
#define TARGETS_LOWER_H

#include <llvm-c/Core.h>

#include "ir/ir.h"
#include "targets/codegen.h"

/* LLVM's address spaces on AMDGPU (AMDGPUUsage, "Address Spaces"). */
enum { AS_GLOBAL = 1, AS_LDS = 3, AS_CONSTANT = 4, AS_BUFFER_RESOURCE = 8 };

/* The most copies to LDS whose data are in registers at once, on targets without direct-to-LDS
 * loads: 64 registers if a lane copies 16 bytes. */
enum { LOWER_HELD = 16 };

/* The state of the lowering of one function. LLVM values belong to the function that is being
 * built. */
struct lower {
    const struct tir_func *f; /* the function in tile IR */
    const struct tgt *t;
    /* for each argument of f: true if its LLVM parameter is a pointer to global memory; NULL: all
     * parameters are numbers */
    const bool *pointers;
    const struct lower_isa *isa; /* instructions of the target's generation */
    /* LLVM's context, module, builder and function. */
    LLVMContextRef ctx;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef kernel;
    LLVMDIBuilderRef di;   /* NULL: the object has no debug lines */
    LLVMMetadataRef scope; /* debug scope of the function's instructions */
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, bf16, f32; /* LLVM's types of elements */
    LLVMTypeRef lanes; /* type of an integer with one bit per lane */
    /* types of pointers; rsrc: of a buffer resource */
    LLVMTypeRef global_ptr, lds_ptr, constant_ptr, rsrc;
    const struct tir_op *next; /* the op after the current one in its block; NULL: there is none */
    LLVMValueRef *values;      /* LLVM's value of each tir_value, by id */
    /* The lane's index in its wave and the wave's index in its workgroup, i32. */
    LLVMValueRef lane, wave;
    /* Alias scopes of LDS accesses and of direct-to-LDS loads, so that LLVM adds no waits between
     * them; see lower_mem.c. */
    LLVMValueRef lds_scope, dma_scope;
    /* The last masked access: its mask, the block for lanes of the mask, and the block after it. A
     * next access with the same mask joins the block; see lower_mem.c. */
    struct {
        LLVMValueRef mask;
        LLVMBasicBlockRef lanes, after;
    } masked;
    /* Copies to LDS whose data are still in registers, the oldest first; see isa_rdna4.c. */
    struct lower_held {
        LLVMValueRef data, lds; /* the lane's data, and its LDS pointer for the data */
    } copies[LOWER_HELD];
    unsigned n_copies; /* number of `copies` */
    /* LLVM's numbers of kinds of metadata. */
    unsigned md_alias_scope, md_noalias, md_invariant, md_prof;
    /* in_agprs, by tir_value id: true if the value lives in AGPRs. read_from_agprs: the last copy
     * of such a value in VGPRs, and the block of that copy. See lower_agprs.c. */
    bool *in_agprs;
    struct lower_read {
        LLVMValueRef v;
        LLVMBasicBlockRef block;
    } *read_from_agprs;
    struct {
        LLVMValueRef of, v;
    } held; /* `of`: a constant scale; `v`: its value in a register. See lower_agprs.c */
    /* tir_value ids of the results of the last two instructions. See lower_agprs.c */
    uint32_t recent[2];
    unsigned matrix_states; /* most wait states until the last result in AGPRs can be read */
    unsigned loops;         /* number of loops around the current op */
    bool has_mma;           /* true: a matrix instruction has been lowered */
    bool counts_loads;      /* true: waits count loads, so LLVM must not merge loads */
    bool failed;            /* true: lower_fail() was called */
    char *why;              /* message of the first failure, TGT_WHY bytes */
};

/** Records why the lowering fails; only the first message is kept. Returns NULL, the result of a
 * failed lowering. */
LLVMValueRef lower_fail(struct lower *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Returns LLVM's type of an element of `dtype` (enum tir_dtype). */
LLVMTypeRef lower_dtype(struct lower *l, unsigned dtype);
/** Returns LLVM's type of a value: a vector if it has several elements. */
LLVMTypeRef lower_type(struct lower *l, struct tir_type t);

/** Returns the number of elements of a value: 1 for a scalar. */
unsigned lower_count(struct tir_type t);

/** Returns the LLVM value of `v`; a value in AGPRs is first copied to VGPRs. */
LLVMValueRef lower_value(struct lower *l, struct tir_value v);
/** Returns LLVM's value of operand `i` with `count` elements: a scalar is repeated. */
LLVMValueRef lower_operand(struct lower *l, const struct tir_op *op, unsigned i, unsigned count);
/** Returns the IR type of operand `i` of an op. */
struct tir_type lower_operand_type(const struct lower *l, const struct tir_op *op, unsigned i);
/** Returns the IR type of the op's result. */
struct tir_type lower_result_type(const struct lower *l, const struct tir_op *op);

/** Returns the i32 constant `v`. */
LLVMValueRef lower_i32(struct lower *l, int64_t v);
/** Returns the bits of `v` as type `t` of the same size. */
LLVMValueRef lower_bitcast(struct lower *l, LLVMValueRef v, LLVMTypeRef t);
/** Returns element `i` of the vector `v`, or `v` itself if it is no vector. */
LLVMValueRef lower_element(struct lower *l, LLVMValueRef v, unsigned i);
/** Returns a vector of the `n` values `elements` of one type. For n = 1 returns the value
 * itself. */
LLVMValueRef lower_gather(struct lower *l, LLVMValueRef *elements, unsigned n);
/** Returns the elements `first` to `first` + `count` - 1 of the vector `v`. */
LLVMValueRef lower_slice(struct lower *l, LLVMValueRef v, unsigned first, unsigned count);

/** Finds the values of the function that live in AGPRs, and allocates the tables for them. Returns
 * false if memory is exhausted. */
bool lower_agprs_begin(struct lower *l);
/** Frees what lower_agprs_begin() has allocated. */
void lower_agprs_end(struct lower *l);
/* Wait states after which every target can read a matrix instruction's result in AGPRs. */
enum { LOWER_MATRIX_STATES = 20 };
/** Emits the wait states, at most `most`, that remain until the last matrix instruction's result in
 * AGPRs can be read. */
void lower_matrix_states(struct lower *l, unsigned most);
/** Records that an instruction with result `v` has been emitted: lower_mfma_in_agprs() must keep a
 * distance from it. */
void lower_note_issue(struct lower *l, struct tir_value v);
/** Emits the matrix instruction `row` for an op whose accumulator lives in AGPRs, as inline
 * assembly, and returns its result. */
LLVMValueRef lower_mfma_in_agprs(struct lower *l, const struct tir_op *op,
                                 const struct tir_mma *row);
/** Like lower_mfma_in_agprs(), for a scaled matrix instruction. `left` and `right` are the values
 * of its scales. */
LLVMValueRef lower_mfma_scaled_in_agprs(struct lower *l, const struct tir_op *op,
                                        const struct tir_mma *row, LLVMValueRef left,
                                        LLVMValueRef right);
/** Returns `v` in AGPRs if the value `like`, of this block or the next, lives there, else in
 * VGPRs. */
LLVMValueRef lower_value_for(struct lower *l, struct tir_value v, struct tir_value like);
/** Returns `phi`, LLVM's value of `v`. If `v` lives in AGPRs, returns a copy that LLVM must keep
 * there. */
LLVMValueRef lower_keep(struct lower *l, LLVMValueRef phi, struct tir_value v);
/** Returns a value that lives in AGPRs as a copy in VGPRs. Within a block the copy is reused. */
LLVMValueRef lower_from_agprs(struct lower *l, struct tir_value v);

/** Returns the number of lanes of a wave. */
unsigned lower_lanes(const struct lower *l);
/** Returns an integer of type l->lanes whose bit i is lane i's value of the i1 `set`. */
LLVMValueRef lower_ballot(struct lower *l, LLVMValueRef set);

/** Sets the kernel's string attribute `key` to `value`. */
void lower_attribute(struct lower *l, const char *key, const char *value);

/**
 * Emits a call of LLVM's intrinsic `name` and returns its result. `overload` has the types in its
 * mangled name. If LLVM lacks the intrinsic, the lowering fails. All intrinsics of the lowering are
 * called through this function.
 */
LLVMValueRef emit_intrinsic(struct lower *l, const char *name, LLVMTypeRef *overload,
                            unsigned n_overload, LLVMValueRef *args, unsigned n_args);

/** Calls piece(l, dword, data) for each dword of `v` and returns the results joined to the type of
 * `v`. 16-bit elements that do not fill a dword are extended. */
LLVMValueRef lower_by_dword(struct lower *l, LLVMValueRef v,
                            LLVMValueRef (*piece)(struct lower *l, LLVMValueRef dword, void *data),
                            void *data);

/** Begins the debug information, and stores the function's printed IR in the module. */
void lower_lines_begin(struct lower *l, const struct tgt_blob *ir);
/** Sets the line of the printed IR to which the next instructions refer; 0: none. */
void lower_line(struct lower *l, unsigned line);
/** Ends the debug information, if it was begun. */
void lower_lines_end(struct lower *l);

/** Lowers the ops of a block, in their order, at the builder's position. A yield emits nothing. */
void lower_block(struct lower *l, const struct tir_block *block);
/** Returns the yield op of a block, whose operands become results of the op that has the block;
 * NULL if there is none. */
const struct tir_op *lower_yield_of(const struct lower *l, const struct tir_block *block);

/* The functions that lower ops, by the column `lower` of ops.def. Each returns the LLVM value of
 * the op's result, or NULL if the op has none or the lowering failed. */
typedef LLVMValueRef lower_fn(struct lower *l, const struct tir_op *op);
#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, lower, ...) \
    lower_fn lower_##lower;
#include "ir/ops.def"
#undef OP

#endif
