/* SPDX-License-Identifier: Apache-2.0 */
/* SDWA conversions of operands and results around a lane kernel. */
#ifndef HIPSIM_EXEC_CROSS_H
#define HIPSIM_EXEC_CROSS_H

#include "row.h"

/* Extracts from each lane of `from` the byte or word that o->sel selects, sign-extended if o->sext,
 * else zero-extended. Writes a row to `to` and returns `to`. */
const uint32_t *sdwa_select(const struct opnd *o, const uint32_t *from, uint32_t *to);

/* Moves the result in row `d` to the byte or word in->dst_sel, in place. in->dst_unused decides the
 * other bits: zeros, copies of the sign, or the bits of row `old`. */
void sdwa_merge(const struct inst *in, const uint32_t *old, uint32_t *d);

#endif
