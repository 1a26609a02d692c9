/* SPDX-License-Identifier: Apache-2.0
 *
 * Code generation: compiles register-level tile IR to an object with LLVM, links it to a code
 * object, and analyses the result. No type of LLVM appears in this header. Every function may be
 * called from several threads at once.
 */
#ifndef TARGETS_CODEGEN_H
#define TARGETS_CODEGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "targets/tgt.h"

struct tir_func;

/** Bytes on the heap, which the holder of the struct frees with tgt_blob_free(). */
struct tgt_blob {
    uint8_t *data;
    size_t size;
};
/** Frees the bytes of a blob. */
void tgt_blob_free(struct tgt_blob *b);

/* Bytes of a message that says why a function failed, with the NUL. */
enum { TGT_WHY = 256 };

/* The form of the result of tgt_emit(). */
enum tgt_emit_kind {
    TGT_EMIT_LLVM,   /* LLVM IR as text */
    TGT_EMIT_ASM,    /* assembly as text */
    TGT_EMIT_OBJECT, /* relocatable ELF for tgt_link() */
};

/* Options of tgt_emit(). */
struct tgt_codegen_options {
    enum tgt_emit_kind kind;
    /* LLVM bitcode, made by clang 22 for this target, with the functions that the IR's call_hook
     * ops name. NULL: the IR has no such ops. tgt_emit() does not keep the pointer. */
    const void *hooks;
    size_t hooks_size; /* bytes of `hooks` */
    /* The printed IR to whose lines ops refer (tir_number_lines()). It is stored in the object with
     * debug information that refers to its lines. Empty: neither is stored. tgt_emit() does not
     * keep the bytes. */
    struct tgt_blob ir;
    /* For each argument of `f`: true if the argument is an address in global memory, so that the
     * code object's metadata call it a global buffer. NULL: they call every argument a value. */
    const bool *pointers;
    const char *producer; /* text for the section .comment; NULL: none */
};

/** The name of a code object's section with the printed IR. No segment contains the section, so it
 * is not loaded. */
#define TGT_IR_SECTION ".attnc.ir"

/**
 * Compiles `f` for `t` to the form o->kind, in `out`. `f` is at register level: every op is at
 * level ANY, VEC or FLOW and works on scalars and vecs. On failure returns false with a sentence in
 * `why` and leaves `out` unchanged.
 */
bool tgt_emit(const struct tir_func *f, const struct tgt *t, const struct tgt_codegen_options *o,
              struct tgt_blob *out, char why[TGT_WHY]);

/** A variable of a hook that keeps its value between calls, which hooks must not have. */
struct tgt_hook_variable {
    char name[64];
    /* Line of the declaration in the hook's file; 0: the bitcode has no debug information. */
    unsigned line;
};

/** Sets *v to the first variable in a hook's bitcode that keeps its value between calls. Returns
 * false if there is none. */
bool tgt_find_hook_variable(const struct tgt_blob *bitcode, struct tgt_hook_variable *v);

/**
 * Links a relocatable object of tgt_emit() to a loadable code object, without another program.
 * Constants may contain addresses. Returns false with a sentence in `why` for variables, for
 * symbols that the object lacks, and for relocations that LLVM does not emit for kernels.
 */
bool tgt_link(const struct tgt_blob *object, struct tgt_blob *code_object, char why[TGT_WHY]);

/** Work of one wave in one iteration of a kernel's hot loop. Members without another unit are
 * numbers of instructions. */
struct tgt_loop_facts {
    unsigned instructions; /* all instructions of the loop's body */
    /* matrix instructions; clocks in which they occupy the matrix pipe */
    unsigned mfma, mfma_cycles;
    unsigned valu_slots;   /* 4-clock issue slots of vector instructions that can overlap an MFMA */
    unsigned shadow_slots; /* 4-clock issue slots that are open while the MFMAs run */
    /* transcendental, packed f32, v_permlane*; the first and the last also count in valu_slots */
    unsigned trans, packed, permlane;
    /* loads_to_lds: direct-to-LDS loads */
    unsigned lds_reads, lds_writes, loads, stores, loads_to_lds;
    /* waits_vm0: waits until no load is outstanding (vmcnt 0) */
    unsigned waits, waits_vm0, barriers;
    unsigned copies;     /* v_mov between registers, v_accvgpr_* */
    unsigned scratch;    /* scratch_* and buffer accesses to scratch memory */
    uint64_t start, end; /* byte offsets of the loop in the kernel's code */
};

/* Registers, memory and hot loop of a kernel's code object. */
struct tgt_kernel_facts {
    /* Registers: VGPRs (without AGPRs) and AGPRs of a lane, SGPRs of a wave. */
    unsigned vgprs, agprs, sgprs;
    /* Numbers of spilled VGPRs and SGPRs; bytes of scratch memory of a lane. */
    unsigned vgpr_spills, sgpr_spills, scratch_bytes;
    /* Bytes of static LDS; bytes of the kernarg segment; work-items of a workgroup. */
    unsigned lds_bytes, kernarg_bytes, workgroup_size;
    unsigned code_bytes;        /* bytes of machine code */
    unsigned occupancy;         /* waves that a SIMD holds at once */
    struct tgt_loop_facts loop; /* all 0 in a kernel without a loop */
    /* Cycles in which MFMAs run, in permille of the least cycles of the hot loop at this occupancy.
     * analyze.c has the formula of the bound. Hardware reaches 93-96 % of it. */
    unsigned mfma_duty;
};

/** Reads the metadata of kernel `name` from a code object of `size` bytes for `t`, and analyses its
 * hot loop. On failure returns false with a sentence in `why`. */
bool tgt_analyze(const void *code_object, size_t size, const char *name, const struct tgt *t,
                 struct tgt_kernel_facts *facts, char why[TGT_WHY]);

#endif
