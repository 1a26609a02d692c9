/* SPDX-License-Identifier: Apache-2.0 */
/* The origin of undefined values, so that reports of `uninit` can name the load from which a value
 * comes. */
#include "check_origin.h"

#include <stdlib.h>
#include <string.h>

#include "check_slots.h"
#include "row.h"

/* Number of registers with an origin: the rows of wave->bits, then SGPRs, then SCC. The origin is
 * the load from which the register's undefined lanes come: 1 + its code offset; 0: unknown. */
#define ORIGIN_ROWS (VGPR_FILE + AGPR_FILE + SGPR_FILE + 1)
struct origins {
    uint32_t load[ORIGIN_ROWS];
};

/* Returns the index of an operand's first register; ORIGIN_ROWS if it is no register. */
static unsigned origin_row(const struct opnd *o)
{
    switch (o->kind) {
    case OPND_VGPR: return o->reg;
    case OPND_AGPR: return VGPR_FILE + o->reg;
    case OPND_SGPR: return VGPR_FILE + AGPR_FILE + o->reg;
    case OPND_SPECIAL: return o->reg == SPECIAL_SCC ? ORIGIN_ROWS - 1 : ORIGIN_ROWS;
    default: return ORIGIN_ROWS;
    }
}

/* True if dword number `dword` of the operand is undefined, for vector registers in at least one
 * active lane. */
static bool is_undefined(const struct wave *w, const struct opnd *o, unsigned dword)
{
    const unsigned reg = o->reg + dword;
    switch (o->kind) {
    case OPND_VGPR: return (~w->v_valid[reg] | w->v_part[reg]) & wave_exec(w);
    case OPND_AGPR: return (~w->a_valid[reg] | w->a_part[reg]) & wave_exec(w);
    case OPND_SGPR: return w->s_valid[reg] != UINT32_MAX;
    case OPND_SPECIAL: return o->reg == SPECIAL_SCC && !w->scc_valid;
    default: return false;
    }
}

/* Returns the load that the first undefined dword of the operand comes from: 1 + its code offset;
 * 0: not from a load. */
static uint32_t load_of(const struct origins *from, const struct wave *w, const struct opnd *o)
{
    const unsigned row = origin_row(o);
    for (unsigned i = 0; i < o->dwords && row + i < ORIGIN_ROWS; i++)
        if (from->load[row + i] && is_undefined(w, o, i))
            return from->load[row + i];
    return 0;
}

static const struct opnd vcc = {.kind = OPND_SGPR, .reg = SGPR_VCC, .dwords = 2};
static const struct opnd scc = {.kind = OPND_SPECIAL, .reg = SPECIAL_SCC, .dwords = 1};

/* Returns the load that an undefined source of the instruction comes from: 1 + its code offset; 0:
 * none. The sources of a branch are VCC and SCC. */
static uint32_t load_of_sources(const struct origins *from, const struct wave *w,
                                const struct inst *in)
{
    uint32_t load = 0;
    for (unsigned i = 0; !load && i < sizeof(in->src) / sizeof(in->src[0]); i++)
        load = load_of(from, w, &in->src[i]);
    if (load || !(in->row->flags & ROW_BRANCH))
        return load;
    return load_of(from, w, strstr(in->row->name, "vcc") ? &vcc : &scc);
}

/* Records `load` as the origin of the operand's undefined dwords. Defined dwords have no origin. */
static void set_origin(struct origins *from, const struct wave *w, const struct opnd *o,
                       uint32_t load)
{
    const unsigned row = origin_row(o);
    for (unsigned i = 0; i < o->dwords && row + i < ORIGIN_ROWS; i++)
        from->load[row + i] = is_undefined(w, o, i) ? load : 0;
}

void origins_follow(const struct wave *w, const struct inst *in)
{
    struct origins **of = w->wg->check[SLOT_UNINIT];
    if (!of || (!of[w->id] && !(of[w->id] = calloc(1, sizeof(**of)))))
        return;
    struct origins *from = of[w->id];
    /* The sources' entries are read before the destination's are written, since a register may be
     * both. */
    const uint32_t load =
        in->row->flags & ROW_LOAD ? (uint32_t)in->offset + 1 : load_of_sources(from, w, in);
    set_origin(from, w, &in->dst, load);
    set_origin(from, w, &in->dst2, load);
    if (in->row->flags & ROW_SALU)
        set_origin(from, w, &scc, load);
}

bool origins_find(void *state, const struct wave *w, const struct inst *in, uint64_t *offset)
{
    const struct origins *from = ((struct origins **)state)[w->id];
    const uint32_t load = from && in->row ? load_of_sources(from, w, in) : 0;
    *offset = load - 1;
    return load != 0;
}

void *origins_create(const struct launch *l, void *launch_state)
{
    (void)l, (void)launch_state;
    return calloc(WAVES_MAX, sizeof(struct origins *));
}

void origins_destroy(void *state)
{
    for (unsigned i = 0; i < WAVES_MAX; i++)
        free(((struct origins **)state)[i]);
    free(state);
}

void origins_begin(void *state, const struct workgroup *wg)
{
    struct origins **of = state;
    for (uint32_t i = 0; i < wg->nwaves; i++)
        if (of[i])
            memset(of[i], 0, sizeof(*of[i]));
}
