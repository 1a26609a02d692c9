/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of the analysis of code objects, for targets/analyze*.c only.
 */
#ifndef TARGETS_ANALYZE_H
#define TARGETS_ANALYZE_H

#include "targets/codegen.h"

/** One machine instruction. */
struct tgt_inst {
    uint32_t offset, size; /* byte offset from the function's start; bytes of the instruction */
    int64_t target;        /* byte offset of the branch target; -1: no direct branch */
    bool ends_block;       /* true: a branch or s_endpgm, the last instruction of a basic block */
    bool falls_through;    /* true: the next instruction can execute after it */
    char text[160];        /* LLVM's assembly text without leading blanks, with spaces for tabs */
};

/** The `count` instructions of a function, by address. The holder frees `insts`. */
struct tgt_code {
    struct tgt_inst *insts;
    size_t count;
};

/** Finds the machine code of function `name` in a code object. Sets *code to its first byte there
 * and *size to its bytes. On failure returns false with a sentence in `why`. */
bool tgt_find_code(const void *code_object, size_t object_size, const char *name,
                   const uint8_t **code, size_t *size, char why[TGT_WHY]);

/** Disassembles the `size` bytes of a function's code for `t` to *out. On failure returns false
 * with a sentence in `why`, and there is nothing to free. */
bool tgt_disassemble(const uint8_t *code, size_t size, const struct tgt *t, struct tgt_code *out,
                     char why[TGT_WHY]);

/** A range of instructions by their indices in tgt_code.insts: `first` to `end` - 1. */
struct tgt_range {
    size_t first, end;
};

/** Finds the hot loop of a function: the innermost loop with the most matrix instructions, or
 * without such instructions the longest innermost loop. Cold blocks after the last backward branch
 * are left out. Returns false if the function has no loop, or if memory is exhausted. */
bool tgt_find_hot_loop(const struct tgt_code *code, struct tgt_range *loop);

/** Returns the index of the instruction at byte `offset` of the function; -1 if there is none. */
ptrdiff_t tgt_inst_at(const struct tgt_code *code, int64_t offset);

/** Returns the row of the machine's table for the matrix instruction whose assembly text is `text`.
 * Returns NULL with a sentence in `why` if there is none. */
const struct tir_mma *tgt_find_product(const char *text, const struct tgt *t, char why[TGT_WHY]);

/** True if the assembly text is of a matrix instruction, such as v_wmma_f32_16x16x32_bf16. */
bool tgt_is_product(const char *text);

/** True if the assembly text is of a transcendental, such as v_exp_f32. */
bool tgt_is_transcendental(const char *text);

/** True if enough vector instructions are between each WMMA and the next use of its registers, on
 * targets that need them. If not, a sentence is in `why`. */
bool tgt_check_gaps(const struct tgt_code *code, const struct tgt *t, char why[TGT_WHY]);

/** Counts the instructions of a range by kind in *facts. On failure returns false with a sentence
 * in `why`. */
bool tgt_count(const struct tgt_code *code, struct tgt_range range, const struct tgt *t,
               struct tgt_loop_facts *facts, char why[TGT_WHY]);

/** Reads registers, spills, LDS, scratch, kernarg bytes and workgroup size of kernel `name` from
 * the code object's metadata. On failure returns false with a sentence in `why`. */
bool tgt_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY]);

#endif
