/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code ranges and their decoded instructions. */
#ifndef HIPSIM_DECODE_H
#define HIPSIM_DECODE_H

#include <stddef.h>

#include "row.h"

struct code;

/*
 * A range of machine code of `bytes` bytes at `bytes_at`, which kernels see at address `va` (the
 * simulator maps code where it lies, so va usually equals the pointer). The bytes are borrowed and
 * must outlive the range. NULL when there is no memory or LLVM lacks the AMDGPU disassembler.
 */
struct code *code_create(enum gfx_target target, const void *bytes_at, size_t bytes, uint64_t va);
void code_destroy(struct code *code);

enum gfx_target code_target(const struct code *code);
uint64_t code_address(const struct code *code);
size_t code_size(const struct code *code);

/*
 * The instruction at byte `offset`, decoded at the first call; safe from several threads. Always
 * returns an instruction unless `offset` is outside or misaligned (NULL): what does not decode
 * gets an `exec` that faults, because data may lie between functions.
 */
const struct inst *code_inst(struct code *code, uint64_t offset);

/*
 * The decoded instructions of a range, one slot per dword, NULL where code_inst() has not been yet:
 * the way past the call for who steps through code.
 */
struct code_slots {
    struct inst *_Atomic *slots;
    uint64_t count;
    uint64_t address;
};

struct code_slots code_slots(struct code *code);

/* Notes a finding of this kind at `offset`, and whether it is suppressed. True the first time. */
bool code_note(struct code *code, uint64_t offset, enum fault_kind kind, bool suppressed);

/* Has a finding of this kind been noted at `offset`, and is it suppressed? */
struct code_noted {
    bool any, suppressed;
};
struct code_noted code_noted(const struct code *code, uint64_t offset, enum fault_kind kind);

/* The disassembly of the instruction at `offset`, for reports. Returns `text`. */
const char *code_text(struct code *code, uint64_t offset, char *text, size_t bytes);

/* The row of a mnemonic (encoding suffix allowed) on `target`, NULL when there is none. */
const struct op_row *row_find(enum gfx_target target, const char *mnemonic);

#endif
