/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the parts of a stopped wave that a client of GDB's remote protocol reads: target
 * description, registers and memory, as the text of a reply.
 */
#ifndef HIPSIM_GDB_SHOW_H
#define HIPSIM_GDB_SHOW_H

#include <stdio.h>

#include "wave.h"

/** Writes the target description in XML. It has all registers of the target, also those that the
 * kernel has not allocated, so that it is the same for every launch. */
void gdb_show_description(FILE *out, const struct wave *w);

/** Writes the registers of the reply to request "g": pc, exec, vcc, m0, scc, mode and SGPRs. */
void gdb_show_scalars(FILE *out, const struct wave *w);

/** Writes register `number` of the description, the lowest byte first. Each digit is "x" if the
 * register is undefined in all lanes, or not allocated. False if there is no such register. */
bool gdb_show_register(FILE *out, const struct wave *w, uint64_t number);

/** Writes `bytes` bytes at a flat address: global memory, or LDS of the wave's workgroup above
 * SHARED_APERTURE. Ends before the first byte that is in neither. Returns the number of bytes
 * written. */
uint64_t gdb_show_memory(FILE *out, const struct wave *w, uint64_t address, uint64_t bytes);

#endif
