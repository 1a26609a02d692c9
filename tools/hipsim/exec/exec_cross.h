/* SPDX-License-Identifier: Apache-2.0 */
/* SDWA conversions of operands and results around a lane kernel. */
#ifndef HIPSIM_EXEC_CROSS_H
#define HIPSIM_EXEC_CROSS_H

#include "row.h"

/* Extracts the selected byte or word of every lane, zero- or sign-extended. Returns `to`. */
const uint32_t *sdwa_select(const struct opnd *o, const uint32_t *from, uint32_t *to);

/* Inserts a result at dst_sel; dst_unused decides the other bits of the old destination. */
void sdwa_merge(const struct inst *in, const uint32_t *old, uint32_t *d);

#endif
