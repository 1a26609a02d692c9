/* SPDX-License-Identifier: Apache-2.0 */
/* SDWA: what happens to operands on their way to and from a lane kernel. */
#ifndef HIPSIM_EXEC_CROSS_H
#define HIPSIM_EXEC_CROSS_H

#include "row.h"

/* The selected byte or word of every lane, zero- or sign-extended. Returns `to`. */
const uint32_t *sdwa_select(const struct opnd *o, const uint32_t *from, uint32_t *to);

/* Places a result by dst_sel into what dst_unused leaves of the old destination. */
void sdwa_merge(const struct inst *in, const uint32_t *old, uint32_t *d);

#endif
