/* SPDX-License-Identifier: Apache-2.0 */
/* Writes registers and operands as text, for reports and the debugger. */
#ifndef HIPSIM_REGISTERS_H
#define HIPSIM_REGISTERS_H

#include "wave.h"

/** Writes the operand's name as in assembly, such as "v[2:3]", "s5", "vcc". Returns `text`. */
const char *register_name(const struct opnd *o, char *text, size_t size);

/** Reads a register's name into `o`: v5, a[0:3], s[4:7], vcc, exec, m0, flat_scratch, xnack_mask,
 *  scc. False if there is no such register. */
bool register_find(const char *name, struct opnd *o);

/** Writes the operand's value in `lane`, highest dword first; a dword that is undefined there is
 *  "?". Operands of more than 4 dwords end in "...", after the first 4. Returns `text`. */
const char *register_value(const struct wave *w, const struct opnd *o, unsigned lane, char *text,
                           size_t size);

/** Returns the last instruction before `in` that wrote a register of the operand, among the wave's
 *  last WAVE_TRAIL ones. NULL: none of them did. */
const struct inst *register_writer(const struct wave *w, const struct inst *in,
                                   const struct opnd *o);

/** Appends a line for each register that `in` reads: name, value in the first of `lanes` (0: of
 *  EXEC), and the instruction that wrote it last. */
void registers_describe(const struct wave *w, const struct inst *in, uint64_t lanes, char *text,
                        size_t size);

#endif
