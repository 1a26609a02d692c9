/* SPDX-License-Identifier: Apache-2.0 */
/* Mnemonic and length of an instruction, from LLVM's disassembler. All code ranges of a target
 * share one, since LLVM takes longer to create it than to disassemble a kernel. */
#ifndef HIPSIM_DISASSEMBLER_H
#define HIPSIM_DISASSEMBLER_H

#include <stddef.h>

#include "isa.h"

#define DISASSEMBLY_MAX 512 /* bytes that hold the text of every instruction */

struct op_row;

/* The row of an instruction's mnemonic and the length of the instruction. */
struct named {
    const struct op_row *row; /* NULL: the mnemonic has no row */
    size_t size;              /* bytes; 0: LLVM knows no such instruction */
};

/** Creates the target's disassembler at the first call. False without memory, or if LLVM lacks the
 * AMDGPU disassembler. */
bool disassembler_open(const struct isa *isa);

/** Disassembles the instruction in the `left` bytes from `bytes_at` on, which is at address `va`,
 * to `text`, of `bytes` bytes. Returns its length in bytes; 0 if LLVM refuses it. Several threads
 * may call at once, after disassembler_open(). */
size_t disassemble(const struct isa *isa, const uint8_t *bytes_at, uint64_t left, uint64_t va,
                   char *text, size_t bytes);

/** Returns the row and the length of the instruction that disassemble() would print for the same
 * arguments. Repeated instructions are mostly found in a table, without LLVM. */
struct named disassembler_find(const struct isa *isa, const uint8_t *bytes_at, uint64_t left,
                               uint64_t va);

#endif
