/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of registers, for checks that analyse code. */
#ifndef HIPSIM_CHECK_REGISTERS_H
#define HIPSIM_CHECK_REGISTERS_H

#include <string.h>

#include "row.h"
#include "wave.h"

/* A bit per register: SGPRs, then VGPRs, then AGPRs. */
struct registers {
    uint64_t bits[(SGPR_FILE + VGPR_FILE + AGPR_FILE) / 64];
};

/* Operations of registers_of() on a set: only test it, add registers, remove registers. */
enum registers_change { REGISTERS_ASK, REGISTERS_ADD, REGISTERS_REMOVE };

/** Adds the operand's registers to the set, removes them, or only tests them. True if the set had
 * any of them before. */
static inline bool registers_of(struct registers *r, const struct opnd *o,
                                enum registers_change change)
{
    const unsigned first = o->kind == OPND_SGPR   ? 0
                           : o->kind == OPND_VGPR ? SGPR_FILE
                                                  : SGPR_FILE + VGPR_FILE;
    bool found = false;

    if (o->kind != OPND_SGPR && o->kind != OPND_VGPR && o->kind != OPND_AGPR)
        return false;
    for (unsigned i = first + o->reg; i < first + o->reg + o->dwords; i++) {
        const uint64_t bit = UINT64_C(1) << i % 64;
        found |= (r->bits[i / 64] & bit) != 0;
        if (change == REGISTERS_ADD)
            r->bits[i / 64] |= bit;
        else if (change == REGISTERS_REMOVE)
            r->bits[i / 64] &= ~bit;
    }
    return found;
}

/** Adds the registers of `from` to `to`. True if that adds any. */
static inline bool registers_join(struct registers *to, const struct registers *from)
{
    bool grown = false;

    for (unsigned i = 0; i < sizeof(to->bits) / sizeof(*to->bits); i++) {
        grown |= (from->bits[i] & ~to->bits[i]) != 0;
        to->bits[i] |= from->bits[i];
    }
    return grown;
}

/* True if M0 selects registers of this instruction, or of the next ones: registers_of() is then
 * wrong. */
static inline bool registers_relative(const struct inst *in)
{
    return in->row->flags & (uint32_t)ROW_RELATIVE ||
           strncmp(in->row->name, "s_set_gpr_idx", 13) == 0;
}

/* True if the set is empty. */
static inline bool registers_none(const struct registers *r)
{
    for (unsigned i = 0; i < sizeof(r->bits) / sizeof(*r->bits); i++)
        if (r->bits[i])
            return false;
    return true;
}

#endif
