/* SPDX-License-Identifier: Apache-2.0
 *
 * Code generation: compiles register-level tile IR to a code object, links it, and analyses the
 * result. No type of LLVM appears here. Every function may be called from several threads at once.
 */
#ifndef TARGETS_CODEGEN_H
#define TARGETS_CODEGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "targets/tgt.h"

struct tir_func;

/** Bytes on the heap, owned by the holder of the struct. */
struct tgt_blob {
    uint8_t *data;
    size_t size;
};
/** Frees the bytes of a blob. */
void tgt_blob_free(struct tgt_blob *b);

/* Bytes of a text that says why a function failed. */
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
    /* LLVM bitcode (made by clang 22 for this target) that defines the functions that the IR's
     * call_hook ops name. NULL: the kernel calls none. Not kept. */
    const void *hooks;
    size_t hooks_size;
    /* The printed IR whose lines the ops carry (tir_number_lines()). It is stored in the object
     * along with debug information that refers to its lines. Empty: neither is stored. Not kept. */
    struct tgt_blob ir;
};

/** The section of a code object that holds this text. No segment contains it, so it is not
 * loaded. */
#define TGT_IR_SECTION ".attnc.ir"

/**
 * Lowers `f` (register level: every op is at level ANY, VEC or FLOW on scalars and vecs) for `t`.
 * On success `out` holds the result. On failure false, a sentence in `why`, and `out` untouched.
 */
bool tgt_emit(const struct tir_func *f, const struct tgt *t, const struct tgt_codegen_options *o,
              struct tgt_blob *out, char why[TGT_WHY]);

/** A variable that keeps its value between calls of a hook. */
struct tgt_hook_variable {
    char name[64];
    /* Line of the declaration in the hook's file; 0: the bitcode has no debug information. */
    unsigned line;
};

/** Finds the first variable that keeps its value between calls in a hook's bitcode. Returns false
 * if the hook has none. Any thread. */
bool tgt_find_hook_variable(const struct tgt_blob *bitcode, struct tgt_hook_variable *v);

/**
 * Links one relocatable object of tgt_emit() to a loadable code object, in this process. Constants
 * may hold addresses; variables, symbols that the object does not have and relocations that LLVM
 * does not give such an object are refused with a sentence in why. Any thread.
 */
bool tgt_link(const struct tgt_blob *object, struct tgt_blob *code_object, char why[TGT_WHY]);

/** Work of one wave in one iteration of a kernel's hot loop. */
struct tgt_loop_facts {
    /* Instructions of the loop's body. */
    unsigned instructions;
    /* Matrix instructions, and clocks for which they occupy the matrix pipe. */
    unsigned mfma, mfma_cycles;
    unsigned valu_slots;   /* 4-clock issue slots of vector instructions that can overlap an MFMA */
    unsigned shadow_slots; /* 4-clock issue slots that are open while the MFMAs run */
    unsigned trans, packed, permlane; /* instructions: transcendental, packed f32, v_permlane*; the
                                       * first and the last also count in valu_slots */
    /* Memory instructions by kind; loads_to_lds go from memory to LDS directly. */
    unsigned lds_reads, lds_writes, loads, stores, loads_to_lds;
    /* Waits, waits until no load is outstanding (vmcnt 0), and barriers. */
    unsigned waits, waits_vm0, barriers;
    unsigned copies;     /* v_mov between registers, v_accvgpr_* */
    unsigned scratch;    /* scratch_* and buffer accesses to the stack */
    uint64_t start, end; /* byte offsets of the loop in the kernel's code */
};

/* Registers, memory and hot loop of a kernel's code object. */
struct tgt_kernel_facts {
    /* registers: vgprs (without AGPRs) and agprs per lane, sgprs per wave */
    unsigned vgprs, agprs, sgprs;
    /* Registers spilled to scratch memory, and bytes of scratch of a lane. */
    unsigned vgpr_spills, sgpr_spills, scratch_bytes;
    /* Bytes of static LDS, bytes of arguments, and threads of a workgroup. */
    unsigned lds_bytes, kernarg_bytes, workgroup_size;
    unsigned code_bytes;        /* bytes of machine code */
    unsigned occupancy;         /* waves that a SIMD holds at once */
    struct tgt_loop_facts loop; /* all 0 in a kernel without a loop */
    /* MFMA cycles divided by the first-order bound of the loop's cycles at this occupancy, in
     * permille. analyze.c has the formula. Hardware reaches 93-96 % of the bound. */
    unsigned mfma_duty;
};

/** Reads the metadata of kernel `name` from a code object and analyses its hot loop. Returns false
 * with a sentence in `why` on failure. */
bool tgt_analyze(const void *code_object, size_t size, const char *name, const struct tgt *t,
                 struct tgt_kernel_facts *facts, char why[TGT_WHY]);

#endif
