/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the state of a stopped wave. */
#ifndef HIPSIM_DEBUG_SHOW_H
#define HIPSIM_DEBUG_SHOW_H

#include "debug.h"

/** Prints the wave's next instruction, its operands, and the source line. */
void debug_show_place(FILE *out, const struct wave *w, const struct debug_lines *lines);
/** Prints the last instructions that the wave has executed, at most `n`, the latest last. */
void debug_show_trail(FILE *out, const struct wave *w, unsigned n);
/** Prints the registers in `names`, which are separated by blanks. A vector register has all lanes,
 * and "v5[3]" is one lane. "f " before the names prints floats. */
void debug_show_registers(FILE *out, const struct wave *w, const char *names);
/** Prints `dwords` dwords of global memory at `address`. Refuses addresses outside of
 * allocations. */
void debug_show_memory(FILE *out, uint64_t address, unsigned dwords);
/** Prints `dwords` dwords of the workgroup's LDS from byte `offset` on. */
void debug_show_lds(FILE *out, const struct workgroup *wg, uint64_t offset, unsigned dwords);

#endif
