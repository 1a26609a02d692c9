/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the state of a stopped wave. */
#ifndef HIPSIM_DEBUG_SHOW_H
#define HIPSIM_DEBUG_SHOW_H

#include "debug.h"

/** Prints where the wave is: next instruction, its operands, and the source line. */
void debug_show_place(FILE *out, const struct wave *w, const struct debug_lines *lines);
/** Prints the instructions that the wave executed last, `n` at most, latest last. */
void debug_show_trail(FILE *out, const struct wave *w, unsigned n);
/** Prints registers by name, separated by blanks: all lanes of vector registers, "v5[3]" for one
 *  lane; with a leading "f " as floats. */
void debug_show_registers(FILE *out, const struct wave *w, const char *names);
/** Prints dwords of global memory; refuses addresses outside of allocations. */
void debug_show_memory(FILE *out, uint64_t address, unsigned dwords);
/** Prints dwords of the workgroup's LDS. */
void debug_show_lds(FILE *out, const struct workgroup *wg, uint64_t offset, unsigned dwords);

#endif
