/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of the code object analysis, for targets/analyze*.c only.
 */
#ifndef TARGETS_ANALYZE_H
#define TARGETS_ANALYZE_H

#include "targets/codegen.h"

/** One machine instruction. */
struct tgt_inst {
    uint32_t offset, size; /* bytes from the function's start */
    int64_t target;        /* branch target in bytes from the start; -1: no direct branch */
    bool ends_block;       /* last of its basic block: a branch or s_endpgm */
    bool falls_through;    /* the next instruction can execute after it */
    char text[160];        /* LLVM's assembly text with runs of blanks reduced to one */
};

/** The instructions of a function, in order. */
struct tgt_code {
    struct tgt_inst *insts;
    size_t count;
};

/** Finds the machine code of function `name` in a code object and sets `code` to point to its
 * `size` bytes there. Returns false with a sentence in `why` on failure. */
bool tgt_find_code(const void *code_object, size_t object_size, const char *name,
                   const uint8_t **code, size_t *size, char why[TGT_WHY]);

/** Disassembles the code of a function. Returns false with a sentence in `why` on failure, with
 * nothing to free. */
bool tgt_disassemble(const uint8_t *code, size_t size, const struct tgt *t, struct tgt_code *out,
                     char why[TGT_WHY]);

/** A range of instructions, as indices: `first` to end - 1. */
struct tgt_range {
    size_t first, end;
};

/** Finds the hot loop: the innermost loop with matrix instructions that has most of them. Without
 * matrix instructions it is the longest innermost loop. Cold blocks after the last backward branch
 * are left out. Returns false if the function has no loop or memory is exhausted; callers report
 * both as "no loop". */
bool tgt_find_hot_loop(const struct tgt_code *code, struct tgt_range *loop);

/** Returns the index of the instruction at a byte offset from the function's start; -1: there is
 * none. */
ptrdiff_t tgt_inst_at(const struct tgt_code *code, int64_t offset);

/** Returns the machine's row of the matrix instruction in an assembly text. Returns NULL with a
 * sentence in `why` if there is none. */
const struct tir_mma *tgt_find_product(const char *text, const struct tgt *t, char why[TGT_WHY]);

/** True if the assembly text is of a matrix instruction, such as v_wmma_f32_16x16x32_bf16. */
bool tgt_is_product(const char *text);

/** True if the assembly text is of a transcendental, such as v_exp_f32. */
bool tgt_is_transcendental(const char *text);

/** Checks that a vector instruction which uses registers of a WMMA follows it after as many vector
 * instructions as the target needs. Returns false with a sentence in `why` on failure. */
bool tgt_check_gaps(const struct tgt_code *code, const struct tgt *t, char why[TGT_WHY]);

/** Counts the instructions of a range by kind. Returns false with a sentence in `why` on
 * failure. */
bool tgt_count(const struct tgt_code *code, struct tgt_range range, const struct tgt *t,
               struct tgt_loop_facts *facts, char why[TGT_WHY]);

/** Reads registers, LDS, spills and the like from the code object's metadata. Returns false with a
 * sentence in `why` on failure. */
bool tgt_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY]);

#endif
