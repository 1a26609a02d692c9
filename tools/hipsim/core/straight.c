/* SPDX-License-Identifier: Apache-2.0 */
#include "straight.h"

#include <stdlib.h>
#include <string.h>

/* Straight-line code under construction, and the registers that it has written so far, a bit
 * each. */
struct collected {
    struct straight *s;
    uint64_t written_v[STRAIGHT_VGPRS / 64], written_a[STRAIGHT_VGPRS / 64];
    uint64_t written_s[SGPR_FILE / 64];
};

/* True for s_nop. */
static bool is_nop(const struct inst *in)
{
    return in->encoding == ENC_SOPP && strcmp(in->row->name, "s_nop") == 0;
}

/* True for scalar arithmetic: it writes an SGPR or VCC, and SCC, from SGPRs and constants. False
 * for conditional moves, which may leave an undefined destination unchanged. */
static bool is_scalar(const struct inst *in)
{
    const bool result = in->dst.kind == OPND_SGPR && in->dst.reg + in->dst.dwords <= SGPR_TTMP0;
    return in->row->flags == ROW_SALU && in->row->kernel && (result || in->dst.kind == OPND_NONE) &&
           in->dst2.kind == OPND_NONE && strncmp(in->row->name, "s_cmov", 6) != 0;
}

/* True if the operand is a constant, or registers that touched_* of struct straight have bits
 * for. */
static bool fits(const struct opnd *o)
{
    switch (o->kind) {
    case OPND_NONE:
    case OPND_IMM: return true;
    case OPND_VGPR:
    case OPND_AGPR: return o->reg + o->dwords <= STRAIGHT_VGPRS;
    case OPND_SGPR: return o->reg + o->dwords <= STRAIGHT_SGPRS;
    default: return false;
    }
}

/* True if straight-line code may contain the instruction. */
static bool may_join(const struct inst *in)
{
    if (!in->row || in->takes_msb || in->pair[0])
        return false;
    const bool vector = in->plain && !(in->row->flags & (ROW_CMPX | (uint32_t)ROW_RELATIVE)) &&
                        (in->row->flags & ROW_KINDS) == ROW_VALU &&
                        (in->dst.kind != OPND_SGPR || in->dst.reg + 2 <= SGPR_TTMP0);
    bool join = vector || is_scalar(in) || is_nop(in);
    for (unsigned k = 0; k < in->nsrc; k++)
        join &= fits(&in->src[k]);
    return join && fits(&in->dst);
}

/* Sets the bits of an operand's registers. */
static void set_bits(uint64_t *bits, const struct opnd *o)
{
    for (unsigned r = o->reg; r < (unsigned)o->reg + o->dwords; r++)
        bits[r / 64] |= UINT64_C(1) << r % 64;
}

/* Adds the registers of a source to `touched`, and to the list `reads`, of *n entries, unless the
 * code has written them. False if the list is full. */
static bool add_reads(const struct opnd *o, const uint64_t *written, uint64_t *touched,
                      uint8_t *reads, uint8_t *n)
{
    for (unsigned r = o->reg; r < (unsigned)o->reg + o->dwords; r++) {
        if (written[r / 64] >> r % 64 & 1)
            continue;
        if (memchr(reads, (int)r, *n))
            continue;
        if (*n == STRAIGHT_READS)
            return false;
        reads[(*n)++] = (uint8_t)r;
    }
    set_bits(touched, o);
    return true;
}

/* Adds the registers of source `k` to the code's. False if the code would read too many. */
static bool add_source(struct collected *c, const struct inst *in, unsigned k)
{
    struct straight *s = c->s;
    const struct opnd *o = &in->src[k];
    switch (o->kind) {
    case OPND_VGPR: return add_reads(o, c->written_v, s->touched_v, s->read_v, &s->nread_v);
    case OPND_AGPR: return add_reads(o, c->written_a, s->touched_a, s->read_a, &s->nread_a);
    case OPND_SGPR: return add_reads(o, c->written_s, s->touched_s, s->read_s, &s->nread_s);
    default: return true;
    }
}

/* Adds the operand to the registers that the code writes. */
static void add_result(struct collected *c, const struct opnd *o)
{
    struct straight *s = c->s;
    if (o->kind == OPND_NONE)
        return;
    const bool v = o->kind == OPND_VGPR, a = o->kind == OPND_AGPR;
    set_bits(v ? c->written_v : a ? c->written_a : c->written_s, o);
    set_bits(v ? s->touched_v : a ? s->touched_a : s->touched_s, o);
}

/* Returns the higher register number. */
static int16_t higher(int16_t a, int16_t b) { return a > b ? a : b; }

/* Appends the instruction. False if the code cannot contain it and therefore ends before it. */
static bool append(struct collected *c, const struct inst *in)
{
    struct straight *s = c->s;
    if (s->n == STRAIGHT_MAX || !may_join(in))
        return false;
    for (unsigned k = 0; k < in->nsrc; k++)
        if (!add_source(c, in, k))
            return false;
    add_result(c, &in->dst);
    s->scalar |= is_scalar(in);
    s->max_vgpr = higher(s->max_vgpr, in->max_vgpr);
    s->max_agpr = higher(s->max_agpr, in->max_agpr);
    s->max_sgpr = higher(s->max_sgpr, in->max_sgpr);
    s->in[s->n++] = in;
    return true;
}

/* Empty code, for instructions that straight-line code cannot contain. */
static const struct straight nothing;

const struct straight *straight_collect(struct code *code, const struct inst *in)
{
    struct straight **slot = &((struct inst *)(uintptr_t)in)->straight, *none = NULL;
    struct straight *s = may_join(in) ? calloc(1, sizeof(*s)) : NULL;
    if (s) {
        struct collected c = {.s = s};
        s->max_vgpr = s->max_agpr = s->max_sgpr = -1;
        for (const struct inst *next = in; next && append(&c, next);)
            next = code_inst(code, next->offset + next->size);
    } else {
        s = (struct straight *)(uintptr_t)&nothing;
    }
    if (__atomic_compare_exchange_n(slot, &none, s, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return s;
    straight_free(s);
    return none; /* another thread has collected it */
}

void straight_free(struct straight *s)
{
    if (s != &nothing)
        free(s);
}

/* True if all lanes of the `n` registers in `reads` are defined; `valid` has the masks of a
 * file. */
static bool all_defined(const uint64_t *valid, const uint8_t *reads, unsigned n)
{
    uint64_t all = UINT64_MAX;
    for (unsigned i = 0; i < n; i++)
        all &= valid[reads[i]];
    return all == UINT64_MAX;
}

/* True if the scalar registers that the code reads are defined, and also SCC if it has scalar
 * instructions. */
static bool scalars_defined(const struct wave *w, const struct straight *s)
{
    uint32_t all = UINT32_MAX;
    for (unsigned i = 0; i < s->nread_s; i++)
        all &= w->s_valid[s->read_s[i]];
    return all == UINT32_MAX && (!s->scalar || w->scc_valid);
}

/* True if a load in flight writes a register that the code reads or writes. In w->busy, AGPRs are
 * after the VGPRs: a[i] is bit nvgpr + i. */
static bool is_busy(const struct wave *w, const struct straight *s)
{
    uint64_t busy = w->scc_busy;
    for (unsigned i = 0; i < STRAIGHT_VGPRS / 64; i++)
        busy |= w->busy[i] & s->touched_v[i];
    for (unsigned i = 0; i < SGPR_FILE / 64; i++)
        busy |= w->busy_s[i] & s->touched_s[i];
    for (unsigned i = 0; s->max_agpr >= 0 && i < STRAIGHT_VGPRS / 64; i++) {
        for (uint64_t left = s->touched_a[i]; left; left &= left - 1) {
            const unsigned r = w->launch->nvgpr + 64 * i + (unsigned)__builtin_ctzll(left);
            busy |= w->busy[r / 64] >> r % 64 & 1;
        }
    }
    return busy;
}

bool straight_applies(const struct wave *w, const struct straight *s)
{
    const struct launch *l = w->launch;
    const uint32_t special = MODE_VSKIP | MODE_GPR_IDX_EN | MODE_ROUND_F32 | MODE_ROUND_F16_F64;
    if ((wave_exec(w) & sgpr_valid64(w, SGPR_EXEC)) != UINT64_MAX || w->copies || w->spin ||
        w->held || w->mode & special)
        return false;
    if (s->max_vgpr >= (int)(l->nvgpr + l->nagpr) || s->max_agpr >= (int)l->nagpr ||
        (l->nsgpr && s->max_sgpr >= (int)l->nsgpr))
        return false;
    if (w->outstanding && is_busy(w, s))
        return false;
    return scalars_defined(w, s) && all_defined(w->v_valid, s->read_v, s->nread_v) &&
           all_defined(w->a_valid, s->read_a, s->nread_a);
}
