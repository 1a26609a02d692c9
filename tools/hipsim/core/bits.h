/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers that are defined in some bits only.
 *
 * wave->v_valid says whether a lane counts as defined. A lane with only some defined bits is
 * *partial*: it is also set in wave->v_part, and wave->bits has the bits. A partial lane that holds
 * data counts as defined, for two reasons: compilers load dwords and use some of their bytes, and
 * they build vectors and bit-fields piece by piece. A partial lane counts as undefined if its
 * defined bits are only the zeros of a mask or a shift. check_uninit.c derives the bits of results.
 */
#ifndef HIPSIM_BITS_H
#define HIPSIM_BITS_H

#include "wave.h"

/** Makes no lane of the destination `o` partial, since it is about to be loaded. */
void bits_forget(struct wave *w, const struct opnd *o);

/** Makes lane `l` of register `dword` of `o` partial: only the bits in `bits` are defined, neither
 * none nor all. */
void bits_set(struct wave *w, const struct opnd *o, unsigned dword, unsigned l, uint32_t bits);

/** Returns the mask of defined bits in lane `l` of register `dword` of a vector operand. */
uint32_t bits_of_lane(const struct wave *w, const struct opnd *o, unsigned dword, unsigned l);

#endif
