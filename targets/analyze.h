/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the analysis of code objects; for targets/analyze*.c only.
 */
#ifndef TARGETS_ANALYZE_H
#define TARGETS_ANALYZE_H

#include "targets/codegen.h"

/** One machine instruction. */
struct tgt_inst {
    uint32_t offset, size; /* bytes from the function's start */
    int64_t target;        /* of a direct branch, in the same unit; -1 if it is none */
    bool ends_block;       /* control does not simply go on behind it */
    bool falls_through;    /* control may go on behind it */
    char text[116];        /* as LLVM prints it, blanks squeezed */
};

/** The instructions of a function, in order. */
struct tgt_code {
    struct tgt_inst *insts;
    size_t count;
};

/** The code of function `name` within a code object. False: a sentence in why. */
bool tgt_find_code(const void *code_object, size_t object_size, const char *name,
                   const uint8_t **code, size_t *size, char why[TGT_WHY]);

/** Disassembles. False: a sentence in why, nothing to free. */
bool tgt_disassemble(const uint8_t *code, size_t size, const struct tgt *t, struct tgt_code *out,
                     char why[TGT_WHY]);

/** A range of instructions [first, end). */
struct tgt_range {
    size_t first, end;
};

/**
 * The hot loop: of the loops that hold matrix instructions and no smaller such loop, the one with
 * most of them; without matrix instructions the longest innermost loop. Blocks behind its last
 * branch back are cold and left out. False: there is no loop (or no memory: the caller cannot
 * do better than to say there is none).
 */
bool tgt_find_hot_loop(const struct tgt_code *code, struct tgt_range *loop);

/** Counts the instructions of a range. False: a sentence in why. */
bool tgt_count(const struct tgt_code *code, struct tgt_range range, const struct tgt *t,
               struct tgt_loop_facts *facts, char why[TGT_WHY]);

/** Registers, LDS, spills and so on from the code object's metadata, by comgr. */
bool tgt_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY]);

#endif
