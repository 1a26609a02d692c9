/* SPDX-License-Identifier: Apache-2.0 */
/* Access to vector operands as rows of 64 lanes, for handlers that use no lane kernel. */
#include <string.h>

#include "row.h"

const uint32_t *src_rows(const struct wave *w, const struct opnd *o, uint32_t *tmp)
{
    if (o->kind == OPND_VGPR)
        return w->v[o->reg];
    if (o->kind == OPND_AGPR)
        return w->a[o->reg];
    uint64_t value = src_scalar(w, o);
    for (unsigned r = 0; r < o->dwords; r++) {
        uint32_t word = o->kind == OPND_SGPR ? w->sgpr[o->reg + r]
                        : r < 2              ? (uint32_t)(value >> 32 * r)
                                             : 0;
        for (unsigned i = 0; i < WAVE_LANES; i++)
            tmp[r * WAVE_LANES + i] = word;
    }
    return tmp;
}

uint64_t src_valid(const struct wave *w, const struct opnd *o)
{
    const uint64_t *valid = o->kind == OPND_VGPR   ? w->v_valid
                            : o->kind == OPND_AGPR ? w->a_valid
                                                   : NULL;
    if (!valid)
        return o->kind == OPND_NONE || src_scalar_valid(w, o) ? UINT64_MAX : 0;
    uint64_t lanes = UINT64_MAX;
    for (unsigned r = 0; r < o->dwords; r++)
        lanes &= valid[o->reg + r];
    return lanes;
}

void dst_write_rows(struct wave *w, const struct opnd *o, const uint32_t *rows, uint64_t mask,
                    uint64_t valid)
{
    uint32_t *to = dst_rows(w, o);
    uint64_t *valid_to = o->kind == OPND_VGPR ? &w->v_valid[o->reg] : &w->a_valid[o->reg];
    if (!to)
        return;
    for (unsigned r = 0; r < o->dwords; r++) {
        for (unsigned i = 0; i < WAVE_LANES; i++)
            if (mask >> i & 1)
                to[r * WAVE_LANES + i] = rows[r * WAVE_LANES + i];
        valid_to[r] = (valid_to[r] & ~mask) | (valid & mask);
    }
}
