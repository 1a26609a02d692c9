/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of GLOBAL instructions, for handlers elsewhere. */
#ifndef HIPSIM_EXEC_FLAT_H
#define HIPSIM_EXEC_FLAT_H

#include "row.h"

/** Computes the global address of each lane: vaddr + offset, or saddr + vaddr + offset. False after
 * a report that an operand is undefined in some of `lanes`. */
bool flat_addresses(struct wave *w, const struct inst *in, uint64_t lanes,
                    uint64_t addr[WAVE_LANES]);

#endif
