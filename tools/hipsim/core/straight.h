/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Straight-line code: plain vector instructions, scalar arithmetic and s_nop that follow each other
 * and are executed together. Its registers are checked once, at its start: all are allocated, no
 * load in flight writes one, and registers that are read before they are written are defined. No
 * instruction of the code can therefore read an undefined register. Code that fails this check is
 * executed one instruction at a time, with the usual checks and findings (time_slice.c).
 */
#ifndef HIPSIM_STRAIGHT_H
#define HIPSIM_STRAIGHT_H

#include "worker.h"

#define STRAIGHT_MAX 32        /* most instructions */
#define STRAIGHT_READS 48      /* most registers of a kind that are read before they are written */
#define STRAIGHT_VGPRS 256     /* vector registers of a kind that straight-line code can name */
#define STRAIGHT_SGPRS SGPR_M0 /* scalar registers that straight-line code can name */

struct straight {
    const struct inst *in[STRAIGHT_MAX];
    uint8_t n;   /* number of instructions; below 2 they are executed one by one */
    bool scalar; /* true: there are scalar instructions, which may read SCC */
    uint8_t nread_v, nread_a, nread_s; /* number of entries in each of the lists that follow */
    /* Numbers of VGPRs, AGPRs and SGPRs that are read before they are written. */
    uint8_t read_v[STRAIGHT_READS], read_a[STRAIGHT_READS], read_s[STRAIGHT_READS];
    int16_t max_vgpr, max_agpr, max_sgpr; /* highest register used in each file; -1: none */
    /* A bit per register that is read or written. */
    uint64_t touched_v[STRAIGHT_VGPRS / 64], touched_a[STRAIGHT_VGPRS / 64];
    uint64_t touched_s[SGPR_FILE / 64];
};

/** Collects the straight-line code that begins with `in`, which owns it. Several threads may call
 * at the same time. Without memory the code is empty. */
const struct straight *straight_collect(struct code *code, const struct inst *in);
/** Frees code that straight_collect() has returned, or does nothing for NULL. */
void straight_free(struct straight *s);

/** Returns the straight-line code that begins with `in`. */
static inline const struct straight *straight_of(struct code *code, const struct inst *in)
{
    const struct straight *s = __atomic_load_n(&in->straight, __ATOMIC_ACQUIRE);
    return s ? s : straight_collect(code, in);
}

/** True if the wave's registers and modes allow all of `s` to be executed together. A check may
 * still end it earlier: check.fetched_straight(). */
bool straight_applies(const struct wave *w, const struct straight *s);

#endif
