/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what a client of GDB's remote protocol reads of a stopped wave: the target description,
 * registers and memory, as the text of a reply.
 */
#ifndef HIPSIM_GDB_SHOW_H
#define HIPSIM_GDB_SHOW_H

#include <stdio.h>

#include "wave.h"

/** Writes the target description in XML. It has all registers of the target, also the ones that the
 *  kernel has not allocated, so that it is the same for every launch. */
void gdb_show_description(FILE *out, const struct wave *w);

/** Writes the registers of the reply to "g": pc, exec, vcc, m0, scc, mode and SGPRs. */
void gdb_show_scalars(FILE *out, const struct wave *w);

/** Writes a register of the description, lowest byte first: "x" for each digit if it is undefined
 *  in all lanes, or not allocated. False if there is no such register. */
bool gdb_show_register(FILE *out, const struct wave *w, uint64_t number);

/** Writes bytes at a flat address: global memory, or LDS of the wave's workgroup above
 *  SHARED_APERTURE. Ends early before the first byte that is in neither. Returns the number of
 *  bytes. */
uint64_t gdb_show_memory(FILE *out, const struct wave *w, uint64_t address, uint64_t bytes);

#endif
