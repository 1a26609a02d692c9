/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Missing wait states. A wait state is an issued instruction of the same wave; s_nop N is N + 1.
 *
 * The rules are LLVM's GCNHazardRecognizer for gfx942 and gfx950 (checkMAIHazards90A,
 * checkMAIVALUHazards, checkVALUHazards, checkVMEMHazards, checkDPPHazards, checkDivFMasHazards,
 * checkRWLaneHazards, checkReadM0Hazards) with the figures for matrix instructions that Clang 22
 * inserts. Only what is in there is reported; f64 matrix instructions are left out.
 */
#include "tools/hipsim/check_hazard.h"

#include <string.h>

#include "tools/hipsim/decode.h"
#include "tools/hipsim/time_op.h"

#define LONGEST 20      /* wait states after a matrix instruction of 16 passes, */
#define LONGEST_OTHER 5 /* and after anything else */

/* What the rules ask of a mnemonic. */
enum hazard_trait {
    TRAIT_F64 = 1 << 0,      /* matrix */
    TRAIT_XDL = 1 << 1,      /* matrix, not f32: those write back one state earlier */
    TRAIT_DOT = 1 << 2,
    TRAIT_LANE = 1 << 3,     /* reads or writes the lane that a scalar operand names */
    TRAIT_TO_SGPR = 1 << 4,  /* v_readlane, v_readfirstlane */
    TRAIT_DIV_FMAS = 1 << 5,
    TRAIT_CALL = 1 << 6,
    TRAIT_NOP = 1 << 7,
};

static bool overlap(const struct opnd *a, const struct opnd *b)
{
    return a->kind == b->kind && a->kind != OPND_NONE && a->reg < b->reg + b->dwords
        && b->reg < a->reg + a->dwords;
}

static bool vector(const struct opnd *o)
{
    return o->kind == OPND_VGPR || o->kind == OPND_AGPR;
}

static bool reads(const struct inst *in, const struct opnd *o)
{
    for (unsigned i = 0; i < in->nsrc; i++)
        if (overlap(&in->src[i], o))
            return true;
    return false;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool named(const struct inst *in, const char *name)
{
    return strncmp(in->row->name, name, strlen(name)) == 0;
}

void hazard_classify(enum gfx_target target, struct inst *in)
{
    const char *name = in->row->name;
    const bool lane = named(in, "v_readlane") || named(in, "v_writelane");
    const bool to_sgpr = named(in, "v_readlane") || named(in, "v_readfirstlane");
    const bool call = named(in, "s_setpc") || named(in, "s_swappc") || named(in, "s_call");
    in->hazard_traits = (uint8_t)((strstr(name, "f64") ? TRAIT_F64 : 0)
        | (ends_in(name, "_f32") ? 0 : TRAIT_XDL) | (strstr(name, "dot") ? TRAIT_DOT : 0)
        | (lane ? TRAIT_LANE : 0) | (to_sgpr ? TRAIT_TO_SGPR : 0)
        | (named(in, "v_div_fmas") ? TRAIT_DIV_FMAS : 0) | (call ? TRAIT_CALL : 0)
        | (strcmp(name, "s_nop") == 0 ? TRAIT_NOP : 0));
    in->matrix_passes = (uint8_t)(time_matrix_cycles(target, name, in->cbsz, in->blgp) / 4);
}

static bool is(const struct inst *in, enum hazard_trait trait)
{
    return in->hazard_traits & trait;
}

/* Wait states between a matrix instruction and `in`, which uses its result. */
static unsigned after_matrix(enum gfx_target target, const struct inst *from,
                             const struct inst *in)
{
    if (is(from, TRAIT_F64) || !vector(&from->dst))
        return 0;
    const struct opnd *d = &from->dst;
    unsigned passes = from->matrix_passes;
    bool xdl = is(from, TRAIT_XDL), late = xdl && target == GFX950 && passes > 2;
    unsigned result = passes + (xdl ? 3 : 2) + late;
    if (!(in->row->flags & ROW_MFMA)) {
        if (!(in->row->flags & (ROW_VALU | ROW_VMEM | ROW_LDS)))
            return 0;
        return reads(in, d) || overlap(&in->dst, d) ? result : 0;
    }
    if (is(in, TRAIT_F64))
        return 0;
    bool sparse = in->row->flags & ROW_DST_IS_SRC;
    const struct opnd *c = sparse ? &in->dst : &in->src[2];
    if (overlap(&in->src[0], d) || overlap(&in->src[1], d)
        || (sparse && overlap(&in->src[2], d)))
        return result;
    if (!overlap(c, d))
        return 0;
    if (c->reg == d->reg && c->dwords == d->dwords)
        return passes == 2 ? 2 : 0;
    return !xdl && is(in, TRAIT_XDL) ? 0 : passes + xdl + late;
}

static bool writes_sgpr_of(const struct inst *from, const struct opnd *o)
{
    return o->kind == OPND_SGPR && (overlap(&from->dst, o) || overlap(&from->dst2, o));
}

static bool any_sgpr(const struct inst *from, const struct inst *in)
{
    for (unsigned i = 0; i < in->nsrc; i++)
        if (writes_sgpr_of(from, &in->src[i]))
            return true;
    return false;
}

/* Wait states between a vector instruction and `in`. */
static unsigned after_valu(const struct inst *from, const struct inst *in)
{
    uint32_t flags = in->row->flags;
    if (flags & ROW_VMEM)
        return any_sgpr(from, in) ? 5 : 0;
    if (flags & ROW_MFMA) {
        return !is(from, TRAIT_DOT) && vector(&from->dst) && reads(in, &from->dst) ? 2 : 0;
    }
    if (!(flags & ROW_VALU))
        return 0;
    if (is(in, TRAIT_LANE) && writes_sgpr_of(from, &in->src[1]))
        return 4;
    if (in->form & FORM_DPP && from->row->flags & ROW_CMPX)
        return 5;
    if (any_sgpr(from, in))
        return is(in, TRAIT_DIV_FMAS) ? 4 : 2;
    if (!vector(&from->dst) || !reads(in, &from->dst))
        return 0;
    if (in->form & FORM_DPP)
        return overlap(&in->src[0], &from->dst) ? 2 : 0;
    if (is(in, TRAIT_TO_SGPR))
        return 1;
    return from->row->flags & ROW_TRANS && !(flags & ROW_TRANS) ? 1 : 0;
}

static unsigned required(enum gfx_target target, const struct inst *from, const struct inst *in)
{
    if (from->row->flags & ROW_MFMA)
        return after_matrix(target, from, in);
    if (from->row->flags & ROW_VALU)
        return after_valu(from, in);
    static const struct opnd m0 = {.kind = OPND_SGPR, .reg = SGPR_M0, .dwords = 1};
    bool dma = in->lds || in->row->flags & ROW_LDS_DMA;
    return dma && from->row->flags & ROW_SALU && overlap(&from->dst, &m0) ? 1 : 0;
}

static bool check(struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    const struct hazard_history *h = &w->hazards;
    for (unsigned i = 1; i <= HAZARD_HISTORY && i <= h->count; i++) {
        unsigned slot = (h->count - i) % HAZARD_HISTORY;
        uint32_t states = h->states - h->at[slot] - 1;
        if (states >= LONGEST)
            break;
        const struct inst *from = h->in[slot];
        if (states >= LONGEST_OTHER && !(from->row->flags & ROW_MFMA))
            continue;
        unsigned need = required(code_target(l->code), from, in);
        if (need <= states)
            continue;
        char text[160];
        return wave_finding(w, in, FAULT_HAZARD, 0,
                            "%u wait states after entry%+lld (%s), %u are needed", states,
                            (long long)(from->offset + code_address(l->code) - l->entry_pc),
                            code_text(l->code, from->offset, text, sizeof(text)), need);
    }
    return true;
}

bool hazard_step(struct wave *w, const struct inst *in)
{
    struct hazard_history *h = &w->hazards;
    uint32_t flags = in->row->flags;
    if (flags & (ROW_VALU | ROW_MFMA | ROW_VMEM | ROW_LDS) && h->states < h->quiet_at
        && !check(w, in))
        return false;
    if (flags & (ROW_VALU | ROW_MFMA) || (flags & ROW_SALU && in->dst.kind == OPND_SGPR)) {
        unsigned slot = h->count++ % HAZARD_HISTORY;
        h->in[slot] = in;
        h->at[slot] = h->states;
        uint32_t until = h->states + 1 + (flags & ROW_MFMA ? LONGEST : LONGEST_OTHER);
        h->quiet_at = until > h->quiet_at ? until : h->quiet_at;
    }
    /* Compilers do not look across calls, which take longer than any of this. */
    if (is(in, TRAIT_CALL))
        h->count = 0;
    h->states += is(in, TRAIT_NOP) ? (in->simm16 & 0xfu) + 1 : 1;
    return true;
}
