/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers that are defined in some bits only.
 *
 * wave->v_valid says whether a lane is to be taken as defined. A lane of which only some bits are
 * stands in wave->v_part as well (it is *partial*), with the bits in wave->bits. It counts as
 * defined where it holds data, since compilers load dwords of which they use some bytes, and build
 * vectors and bit-fields piece by piece; it does not where all that is defined of it are the zeros
 * of a mask or a shift. check_uninit.c follows the bits through operations.
 */
#ifndef HIPSIM_BITS_H
#define HIPSIM_BITS_H

#include "wave.h"

/** The destination's lanes are about to be loaded: forgets which bits of them are defined. */
void bits_forget(struct wave *w, const struct opnd *o);

/** Lane `l` of a register is defined in `bits` only, which are neither none nor all. */
void bits_set(struct wave *w, const struct opnd *o, unsigned dword, unsigned l, uint32_t bits);

/** The defined bits of lane `l` of register `dword` of a vector operand. */
uint32_t bits_of_lane(const struct wave *w, const struct opnd *o, unsigned dword, unsigned l);

#endif
