/* SPDX-License-Identifier: Apache-2.0 */
/* SDWA conversions: of the operands before a lane kernel, and of its result. */
#ifndef HIPSIM_EXEC_CROSS_H
#define HIPSIM_EXEC_CROSS_H

#include "row.h"

/* Extracts from each lane of row `from` the byte or word that o->sel selects. Extends it to 32 bits
 * by its sign if o->sext, by zeros otherwise. Writes the row to `to` and returns `to`. */
const uint32_t *sdwa_select(const struct opnd *o, const uint32_t *from, uint32_t *to);

/* Moves the result in each lane of row `d` to the byte or word in->dst_sel, in place.
 * in->dst_unused decides the other bits: zeros, copies of the sign, or the bits of row `old`. */
void sdwa_merge(const struct inst *in, const uint32_t *old, uint32_t *d);

#endif
