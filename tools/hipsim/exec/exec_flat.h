/* SPDX-License-Identifier: Apache-2.0 */
/* Global addresses, for handlers of other files. */
#ifndef HIPSIM_EXEC_FLAT_H
#define HIPSIM_EXEC_FLAT_H

#include "row.h"

/** Computes the global address of each lane: vaddr64 + offset, or saddr64 + vaddr32 + offset. False
 * after a report that an operand is undefined in some of `lanes`, a mask. */
bool flat_addresses(struct wave *w, const struct inst *in, uint64_t lanes,
                    uint64_t addr[WAVE_LANES]);

#endif
