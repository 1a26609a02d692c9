/* SPDX-License-Identifier: Apache-2.0 */
/* Writes registers and operands as text, for reports and for the debugger. */
#ifndef HIPSIM_REGISTERS_H
#define HIPSIM_REGISTERS_H

#include "wave.h"

/** Writes the operand's name as in assembly, such as "v[2:3]", "s5" or "vcc", to `text` of `size`
 * bytes. Returns `text`. */
const char *register_name(const struct opnd *o, char *text, size_t size);

/** Sets *o to the register with this name: v5, a[0:3], s[4:7], vcc, exec, m0, flat_scratch,
 * xnack_mask, scc. False if there is none. */
bool register_find(const char *name, struct opnd *o);

/** Writes the operand's value in `lane` to `text` of `size` bytes, the highest dword first. A dword
 * that is undefined there is "?". After four dwords follows "...". Returns `text`. */
const char *register_value(const struct wave *w, const struct opnd *o, unsigned lane, char *text,
                           size_t size);

/** Returns the last instruction before `in` that wrote a register of the operand. Searches the
 * wave's last WAVE_TRAIL instructions; NULL: none of them did. */
const struct inst *register_writer(const struct wave *w, const struct inst *in,
                                   const struct opnd *o);

/** Appends a line to `text`, of `size` bytes, for each register that `in` reads: its name, its
 * value in the first lane of the mask `lanes` (0: of EXEC), and the instruction that wrote it
 * last. */
void registers_describe(const struct wave *w, const struct inst *in, uint64_t lanes, char *text,
                        size_t size);

#endif
