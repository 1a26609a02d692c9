/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_EXEC_SALU_H
#define HIPSIM_EXEC_SALU_H

#include "decode.h"

/* Writes `value` to the one or two scalar registers of `o`. `valid` is the mask of its defined
 * bits. */
void salu_write(struct wave *w, const struct opnd *o, uint64_t value, uint64_t valid);

/* Reports lanes that are active now and were inactive at the wave's previous barrier. Records the
 * inactive lanes for the next call. */
void salu_check_divergence(struct wave *w, const struct inst *in);

#endif
