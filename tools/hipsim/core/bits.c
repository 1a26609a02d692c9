/* SPDX-License-Identifier: Apache-2.0 */
#include "bits.h"

#include <stdlib.h>

#include "row.h"

/* Returns the row of the operand's first register. Accumulation registers follow the VGPRs. */
static unsigned bits_row(const struct opnd *o)
{
    return o->kind == OPND_AGPR ? VGPR_FILE + o->reg : o->reg;
}

uint32_t bits_of_lane(const struct wave *w, const struct opnd *o, unsigned dword, unsigned l)
{
    const bool agpr = o->kind == OPND_AGPR;
    const unsigned reg = o->reg + dword;
    if ((agpr ? w->a_part : w->v_part)[reg] >> l & 1)
        return w->bits[bits_row(o) + dword][l];
    return (agpr ? w->a_valid : w->v_valid)[reg] >> l & 1 ? UINT32_MAX : 0;
}

void bits_set(struct wave *w, const struct opnd *o, unsigned dword, unsigned l, uint32_t bits)
{
    if (!w->bits) /* without memory, the whole lane counts as defined */
        w->bits = malloc((VGPR_FILE + AGPR_FILE) * sizeof(*w->bits));
    if (!w->bits)
        return;
    w->bits[bits_row(o) + dword][l] = bits;
    (o->kind == OPND_AGPR ? w->a_part : w->v_part)[o->reg + dword] |= UINT64_C(1) << l;
    w->copies = true;
}

void bits_forget(struct wave *w, const struct opnd *o)
{
    if (o->kind != OPND_VGPR && o->kind != OPND_AGPR)
        return;
    uint64_t *part = (o->kind == OPND_AGPR ? w->a_part : w->v_part) + o->reg;
    for (unsigned i = 0; i < o->dwords; i++)
        part[i] &= ~wave_exec(w);
}
