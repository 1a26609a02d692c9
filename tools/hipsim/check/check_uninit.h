/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undefined values below the size of a register: what `uninit` knows of single bits, and of which
 * values have only been moved since they were loaded.
 *
 * wave->v_valid says whether a lane is to be taken as defined. A lane of which only some bits are
 * stands in wave->v_part as well (it is *partial*), with the bits in wave->bits. It counts as
 * defined where it holds data, since compilers load dwords of which they use some bytes, and build
 * vectors and bit-fields piece by piece; it does not where all that is defined of it are the zeros
 * of a mask or a shift. Operations that put bits together or take them apart follow them one by
 * one; others ask v_valid.
 */
#ifndef HIPSIM_CHECK_UNINIT_H
#define HIPSIM_CHECK_UNINIT_H

#include "wave.h"

/* What an instruction that follows bits is about to leave in its destination. */
struct traced {
    uint64_t valid[2], part[2], copied[2]; /* lanes, by dword */
    uint32_t bits[2][WAVE_LANES];
};

/** Sets in->bit_op from the mnemonic: 0 for operations that do not follow bits. */
void bits_classify(struct inst *in);

/** Before `in`, which has a bit_op, runs: true if an operand is not quite defined, and then *t is
 *  what bits_after() wants. */
bool bits_before(struct wave *w, const struct inst *in, struct traced *t);
void bits_after(struct wave *w, const struct inst *in, const struct traced *t);

/** Follows copies of undefined values through `in`, which has run without bits_after(). While
 *  w->copies. */
void wave_track_copies(struct wave *w, const struct inst *in);

/** The destination's lanes are about to be loaded: forgets which bits of them are defined. */
void bits_forget(struct wave *w, const struct opnd *o);

/** Lane `l` of a loaded register is defined in `bits` only, which are neither none nor all. */
void bits_set(struct wave *w, const struct opnd *o, unsigned dword, unsigned l, uint32_t bits);

/** The defined bits of lane `l` of register `dword` of a vector operand. */
uint32_t bits_of_lane(const struct wave *w, const struct opnd *o, unsigned dword, unsigned l);

/* For every register the load that its undefined lanes come from: its offset in the code and 1, or
 * 0 where no load is known. Rows as of wave->bits, then SGPRs, then SCC. */
#define ORIGIN_ROWS (2 * VGPR_FILE + SGPR_FILE + 1)
struct origins {
    uint32_t load[ORIGIN_ROWS];
};

/** Follows undefined values through `in`, which has run: from the memory that it has loaded, or from
 *  its sources, into its results. While w->copies. */
void origins_follow(struct wave *w, const struct inst *in);

void origins_forget(struct wave *w);

/** The offset of the load that undefined values among the sources of `in` come from. False if none
 *  is known. */
bool origins_find(const struct wave *w, const struct inst *in, uint64_t *offset);

#endif
