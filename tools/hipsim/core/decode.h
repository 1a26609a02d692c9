/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of machine code and their decoded instructions. */
#ifndef HIPSIM_DECODE_H
#define HIPSIM_DECODE_H

#include <stddef.h>

#include "isa.h"
#include "row.h"

struct code;

/*
 * Creates a code range for the `bytes` bytes at `bytes_at`, which kernels see at address `va`. The
 * simulator maps code in place, so va usually equals the pointer. The caller owns the bytes and
 * must not free them before the range. NULL without memory or if LLVM lacks the AMDGPU
 * disassembler.
 */
struct code *code_create(enum gfx_target target, const void *bytes_at, size_t bytes, uint64_t va);
void code_destroy(struct code *code);

enum gfx_target code_target(const struct code *code);
const struct isa *code_isa(const struct code *code);
uint64_t code_address(const struct code *code);
size_t code_size(const struct code *code);

/*
 * Returns the instruction at byte `offset`. The first call decodes it; several threads may call at
 * once. NULL if `offset` is outside or misaligned. Words that are no instruction, such as data
 * between functions, yield one whose `exec` faults.
 */
const struct inst *code_inst(struct code *code, uint64_t offset);

/*
 * Returns the instruction `in` of `code` with its operands decoded for wave->vgpr_msb = `msb`. `in`
 * must have takes_msb set. Several threads may call at once. NULL without memory.
 */
const struct inst *code_variant(struct code *code, const struct inst *in, uint8_t msb);

/*
 * The decoded instructions of a range, one slot per dword; NULL: code_inst() has not decoded it.
 * The engine reads them directly, which is faster than code_inst().
 */
struct code_slots {
    struct inst *_Atomic *slots;
    uint64_t count;
    uint64_t address;
};

struct code_slots code_slots(struct code *code);

/* Records a finding of this kind at byte `offset` of the code, and whether it is suppressed. True
 * if none of this kind was recorded there before. */
bool code_note(struct code *code, uint64_t offset, enum fault_kind kind, bool suppressed);

/* The result of code_noted(): `any`, whether a finding of the kind was recorded at `offset`, and
 * whether it is suppressed. */
struct code_noted {
    bool any, suppressed;
};
struct code_noted code_noted(const struct code *code, uint64_t offset, enum fault_kind kind);

/* Writes the disassembly of the instruction at byte `offset` to `text`, of `bytes` bytes. Returns
 * `text`. */
const char *code_text(struct code *code, uint64_t offset, char *text, size_t bytes);

/* Returns the op row of a mnemonic, with or without suffix for the encoding, on `target`. NULL if
 * there is none. */
const struct op_row *row_find(enum gfx_target target, const char *mnemonic);

#endif
