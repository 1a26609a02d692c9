/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Straight-line code whose instructions are executed together: plain vector instructions, scalar
 * arithmetic and s_nop. The registers that the code reads first are checked once, at its start: if
 * they are defined, not about to be overwritten by a load, and allocated, so are all registers that
 * it uses later. time_slice.c executes code for which that does not hold one instruction at a time,
 * and only then are there findings.
 */
#ifndef HIPSIM_STRAIGHT_H
#define HIPSIM_STRAIGHT_H

#include "worker.h"

#define STRAIGHT_MAX 32        /* instructions */
#define STRAIGHT_READS 48      /* registers that are read before they are written, of each kind */
#define STRAIGHT_VGPRS 256     /* vector registers that its instructions can name, of each kind */
#define STRAIGHT_SGPRS SGPR_M0 /* scalar registers that they can name */

struct straight {
    const struct inst *in[STRAIGHT_MAX];
    uint8_t n;   /* number of instructions; below 2: not worth it */
    bool scalar; /* some instructions are scalar: they may read SCC */
    uint8_t nread_v, nread_a, nread_s;
    /* VGPRs, AGPRs and SGPRs that are read before they are written. */
    uint8_t read_v[STRAIGHT_READS], read_a[STRAIGHT_READS], read_s[STRAIGHT_READS];
    int16_t max_vgpr, max_agpr, max_sgpr; /* highest register used in each file, -1 for none */
    /* A bit per register that is read or written. */
    uint64_t touched_v[STRAIGHT_VGPRS / 64], touched_a[STRAIGHT_VGPRS / 64];
    uint64_t touched_s[SGPR_FILE / 64];
};

/** Collects the straight-line code that begins with `in`, which owns it. Safe from several
 *  threads. */
const struct straight *straight_collect(struct code *code, const struct inst *in);
void straight_free(struct straight *s);

/** Returns the straight-line code that begins with `in`. */
static inline const struct straight *straight_of(struct code *code, const struct inst *in)
{
    const struct straight *s = __atomic_load_n(&in->straight, __ATOMIC_ACQUIRE);
    return s ? s : straight_collect(code, in);
}

/** True if all of `s` may be executed at once in the wave's state, as far as the core can tell. */
bool straight_applies(const struct wave *w, const struct straight *s);

#endif
