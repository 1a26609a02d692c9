/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_EXEC_SALU_H
#define HIPSIM_EXEC_SALU_H

#include "decode.h"

/* Writes `value` to one or two scalar registers, with `valid` as the mask of its defined bits. */
void salu_write(struct wave *w, const struct opnd *o, uint64_t value, uint64_t valid);

/* Reports lanes that skipped a barrier, and remembers which lanes skip this one. */
void salu_check_divergence(struct wave *w, const struct inst *in);

#endif
