/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which bits of results are undefined.
 *
 * The defined bits of a result are found by executing the operation with the undefined source bits
 * as zeros and as ones, in all combinations. A result bit that never changes is defined. A defined
 * bit is data if it changes with the defined bits of a source, whatever the undefined ones are; the
 * zeros that a mask leaves are not data.
 *
 * This is right for operations whose result bits depend on at most one bit of each source. It does
 * not find carries.
 */
#include "check_uninit.h"

#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "check_origin.h"
#include "row.h"

/* Operations whose results are computed bit by bit: the mnemonic, and a mask of the sources that
 * select or count. If one of these sources is undefined, so is the whole result. */
static const struct bit_op {
    const char *name;
    uint8_t selectors;
    bool moves; /* true: the instruction copies whole dwords within each lane */
} bit_ops[] = {
    {"v_mov_b32", 0, true},          {"v_mov_b64", 0, true},
    {"v_movrels_b32", 0, true},      {"v_movreld_b32", 0, true},
    {"v_movrelsd_b32", 0, true},     {"v_movrelsd_2_b32", 0, true},
    {"v_accvgpr_read_b32", 0, true}, {"v_accvgpr_write_b32", 0, true},
    {"v_accvgpr_mov_b32", 0, true},  {"v_readfirstlane_b32", 0, true},
    {"v_readlane_b32", 0, true},     {"s_mov_b32", 0, true},
    {"s_mov_b64", 0, true},          {"v_not_b32", 0, false},
    {"v_and_b32", 0, false},         {"v_or_b32", 0, false},
    {"v_xor_b32", 0, false},         {"v_xnor_b32", 0, false},
    {"v_and_or_b32", 0, false},      {"v_or3_b32", 0, false},
    {"v_bfi_b32", 0, false},         {"v_bitop3_b32", 0, false},
    {"v_bitop3_b16", 0, false},      {"v_mov_b16", 0, false},
    {"v_not_b16", 0, false},         {"v_and_b16", 0, false},
    {"v_or_b16", 0, false},          {"v_xor_b16", 0, false},
    {"v_cndmask_b16", 4, false},     {"v_bfrev_b32", 0, false},
    {"v_pack_b32_f16", 0, false},    {"v_lshlrev_b32", 1, false},
    {"v_lshrrev_b32", 1, false},     {"v_ashrrev_i32", 1, false},
    {"v_lshlrev_b16", 1, false},     {"v_lshrrev_b16", 1, false},
    {"v_ashrrev_i16", 1, false},     {"v_lshlrev_b64", 1, false},
    {"v_lshrrev_b64", 1, false},     {"v_ashrrev_i64", 1, false},
    {"v_lshl_or_b32", 2, false},     {"v_alignbit_b32", 4, false},
    {"v_alignbyte_b32", 4, false},   {"v_perm_b32", 4, false},
    {"v_cndmask_b32", 4, false},     {"v_bfe_u32", 6, false},
    {"v_bfe_i32", 6, false},         {"v_cvt_f32_ubyte0", 0, false},
    {"v_cvt_f32_ubyte1", 0, false},  {"v_cvt_f32_ubyte2", 0, false},
    {"v_cvt_f32_ubyte3", 0, false},
};

/* Sets in->bit_op to 1 + the index in bit_ops; 0 for other operations. */
static void classify(enum gfx_target target, struct inst *in)
{
    (void)target;
    for (size_t i = 0; i < sizeof(bit_ops) / sizeof(bit_ops[0]); i++)
        if (strcmp(in->row->name, bit_ops[i].name) == 0)
            in->bit_op = (uint8_t)(i + 1);
}

const struct check check_uninit = {
    .kinds = CHECK_UNINIT,
    .decoded = classify,
    .group_create = origins_create,
    .group_destroy = origins_destroy,
    .group_begin = origins_begin,
    .origin = origins_find,
};

/* Masks of the result of an instruction that is about to execute. */
struct traced {
    uint64_t valid[2], part[2], copied[2]; /* masks of lanes, by dword */
    uint32_t bits[2][WAVE_LANES];
};

/* Returns the masks of a vector operand's registers in the arrays of VGPRs (`v`) or AGPRs (`a`).
 * NULL for other operands. */
static uint64_t *lanes_of(const struct opnd *o, uint64_t *v, uint64_t *a)
{
    return o->kind == OPND_VGPR ? v + o->reg : o->kind == OPND_AGPR ? a + o->reg : NULL;
}

/* Returns the masks of lanes with partly defined values, one per register of the operand; NULL for
 * scalars. */
static uint64_t *part_rows(struct wave *w, const struct opnd *o)
{
    return lanes_of(o, w->v_part, w->a_part);
}

/* Returns the masks of lanes with defined values, one per register of the operand; NULL for
 * scalars. */
static uint64_t *valid_rows(struct wave *w, const struct opnd *o)
{
    return lanes_of(o, w->v_valid, w->a_valid);
}

/* Returns the masks of copied undefined values, one per register of the operand: lanes of vector
 * registers, bits of scalars. */
static uint64_t *copied_rows(struct wave *w, const struct opnd *o)
{
    return o->kind == OPND_SGPR ? w->s_copied + o->reg : lanes_of(o, w->v_copied, w->a_copied);
}

/* The functions from here on make trial runs of an operation. */

/* A register that the operation reads. */
struct piece {
    /* The register itself, one dword per lane. */
    uint32_t *row;
    unsigned n;      /* number of lanes: 64, or 1 for a scalar */
    unsigned source; /* index of the source; SOURCE_DST: the destination that keeps bits */
    int slot; /* number of the bit of `combination` that replaces the undefined bits; -1: none */
    /* By lane: the value before the trials, and the mask of its defined bits. */
    uint32_t keep[WAVE_LANES], known[WAVE_LANES];
    uint64_t data; /* mask of the lanes with data, not only the zeros of a mask */
};

enum { SOURCE_DST = 3, PIECES_MAX = 8 };

/* An operation that is executed several times with other values of its undefined bits. */
struct trial {
    struct wave *w;
    const struct inst *in;
    struct piece pieces[PIECES_MAX];
    unsigned npieces, slots;
    unsigned dwords; /* number of dwords of the result */
    /* Registers of the result. */
    uint32_t *dst;
    /* The result's registers before the trials. */
    uint32_t old[2][WAVE_LANES];
};

/* Adds dword number `dword` of the operand to the registers that the trial changes. `source` is the
 * operand's index. */
static void add_piece(struct trial *t, const struct opnd *o, unsigned dword, unsigned source)
{
    struct wave *w = t->w;
    if (t->npieces == PIECES_MAX)
        return;
    struct piece *p = &t->pieces[t->npieces++];
    const bool scalar = o->kind == OPND_SGPR;
    p->row = scalar ? w->sgpr + o->reg + dword : dst_rows(w, o) + dword * WAVE_LANES;
    p->n = scalar ? 1 : WAVE_LANES;
    p->source = source;
    p->slot = -1;
    p->data = scalar ? UINT64_MAX : valid_rows(w, o)[dword];
    for (unsigned l = 0; l < p->n; l++) {
        p->keep[l] = p->row[l];
        p->known[l] = scalar ? w->s_valid[o->reg + dword] : bits_of_lane(w, o, dword, l);
        if (p->known[l] != UINT32_MAX)
            p->slot = 0;
    }
    if (p->slot < 0)
        return;
    p->slot = (int)t->slots;
    for (unsigned i = 0; i + 1 < t->npieces; i++) /* the dwords of a source have the same slot */
        if (t->pieces[i].source == source && t->pieces[i].slot >= 0)
            p->slot = t->pieces[i].slot;
    t->slots += p->slot == (int)t->slots;
}

/* True if the instruction keeps some bits of its destination. */
static bool keeps_some(const struct inst *in)
{
    return in->form & (FORM_DPP | FORM_SDWA | FORM_OP_SEL | FORM_HALF) ||
           in->row->flags & ROW_PARTIAL;
}

/* Collects the registers that the instruction reads. */
static void gather(struct trial *t)
{
    const struct inst *in = t->in;
    for (unsigned k = 0; k < in->nsrc && k < SOURCE_DST; k++) {
        const struct opnd *o = &in->src[k];
        const bool reg = o->kind == OPND_VGPR || o->kind == OPND_AGPR || o->kind == OPND_SGPR;
        for (unsigned i = 0; reg && o->type != T_MASK && i < o->dwords; i++)
            add_piece(t, o, i, k);
    }
    for (unsigned i = 0; keeps_some(in) && i < t->dwords; i++)
        add_piece(t, &in->dst, i, SOURCE_DST);
}

/* Restores the registers that the trial changed. */
static void put_back(const struct trial *t)
{
    memcpy(t->dst, t->old, t->dwords * sizeof(t->old[0]));
    for (unsigned i = 0; i < t->npieces; i++)
        memcpy(t->pieces[i].row, t->pieces[i].keep, t->pieces[i].n * sizeof(uint32_t));
}

/* Executes the operation and copies its result. Undefined bits of each piece are its bit of
 * `combination`. The defined bits of source `flipped` are inverted (-1: of none). */
static void run_with(const struct trial *t, unsigned combination, int flipped,
                     uint32_t result[2][WAVE_LANES])
{
    put_back(t);
    for (unsigned i = 0; i < t->npieces; i++) {
        const struct piece *p = &t->pieces[i];
        const bool ones = p->slot >= 0 && combination >> p->slot & 1;
        for (unsigned l = 0; l < p->n; l++) {
            const bool flip = (int)p->source == flipped && p->data >> l & 1;
            const uint32_t value = flip ? ~p->keep[l] : p->keep[l];
            p->row[l] = (value & p->known[l]) | (ones ? ~p->known[l] : 0);
        }
    }
    t->in->exec(t->w, t->in);
    memcpy(result, t->dst, t->dwords * sizeof(result[0]));
}

/* Masks of the result's defined bits and of its data bits, by dword and lane. */
struct outcome {
    uint32_t defined[2][WAVE_LANES], data[2][WAVE_LANES];
};

/* Executes the operation with several values of the undefined bits. Sets *out to the bits of the
 * result that stay the same. */
static void try_all(const struct trial *t, uint8_t selectors, struct outcome *out)
{
    uint32_t first[2][WAVE_LANES], base[2][WAVE_LANES], other[2][WAVE_LANES];
    uint32_t follows[SOURCE_DST + 1][2][WAVE_LANES];
    memset(out->defined, 0xff, sizeof(out->defined));
    memset(follows, 0xff, sizeof(follows));
    uint32_t present = 0;
    for (unsigned i = 0; i < t->npieces; i++)
        present |= 1u << t->pieces[i].source;
    present &= ~(uint32_t)selectors;
    for (unsigned c = 0; c < 1u << t->slots; c++) {
        run_with(t, c, -1, base);
        if (c == 0)
            memcpy(first, base, sizeof(first));
        for (unsigned r = 0; r < t->dwords; r++)
            for (unsigned l = 0; l < WAVE_LANES; l++)
                out->defined[r][l] &= ~(base[r][l] ^ first[r][l]);
        for (unsigned k = 0; k <= SOURCE_DST; k++) {
            if (!(present >> k & 1))
                continue;
            run_with(t, c, (int)k, other);
            for (unsigned r = 0; r < t->dwords; r++)
                for (unsigned l = 0; l < WAVE_LANES; l++)
                    follows[k][r][l] &= other[r][l] ^ base[r][l];
        }
    }
    memset(out->data, 0, sizeof(out->data));
    for (unsigned k = 0; k <= SOURCE_DST; k++)
        for (unsigned r = 0; present >> k & 1 && r < t->dwords; r++)
            for (unsigned l = 0; l < WAVE_LANES; l++)
                out->data[r][l] |= follows[k][r][l] & out->defined[r][l];
    put_back(t);
}

/* The functions from here on trace operations. */

/* Returns the mask of lanes in which all bits of an operand are defined. */
static uint64_t whole_lanes(struct wave *w, const struct opnd *o)
{
    const uint64_t *valid = valid_rows(w, o), *part = part_rows(w, o);
    uint64_t whole = UINT64_MAX;
    if (o->kind == OPND_SGPR && o->type == T_MASK)
        return sgpr_valid64(w, o->reg);
    for (unsigned i = 0; valid && i < o->dwords; i++)
        whole &= valid[i] & ~part[i];
    return valid || src_scalar_valid(w, o) ? whole : 0;
}

/* True if all sources of a plain instruction are defined, in all lanes and bits. May also be false
 * then. While w->copies is false, each lane is defined as a whole or not at all. */
static bool sources_whole(const struct wave *w, const struct inst *in)
{
    uint64_t whole = UINT64_MAX;
    if (!in->plain || w->copies || keeps_some(in))
        return false;
    for (unsigned k = 0; k < in->nsrc; k++) {
        const struct opnd *o = &in->src[k];
        if (o->kind == OPND_IMM)
            continue;
        if (o->kind == OPND_SGPR) {
            const uint32_t *bits = w->s_valid + o->reg;
            whole = (bits[0] & bits[o->dwords - 1]) == UINT32_MAX ? whole : 0;
            continue;
        }
        const uint64_t *lanes = (o->kind == OPND_AGPR ? w->a_valid : w->v_valid) + o->reg;
        whole &= lanes[0] & lanes[o->dwords - 1]; /* a plain source has one or two dwords */
    }
    return whole == UINT64_MAX;
}

/* Returns the mask of lanes in which an operand is defined or was copied from memory. */
static uint64_t whole_or_copied(struct wave *w, const struct inst *in, const struct opnd *o)
{
    const uint64_t *copied = o->type == T_MASK ? NULL : copied_rows(w, o);
    const uint64_t *valid = valid_rows(w, o), *part = part_rows(w, o);
    uint64_t both = UINT64_MAX;
    for (unsigned i = 0; copied && i < o->dwords; i++)
        both &= copied[i] | (valid ? valid[i] & ~part[i] : 0);
    both = (copied ? both : 0) | whole_lanes(w, o);
    return in->form & FORM_DPP && ~both ? 0 : both;
}

/* Returns the mask of lanes in which each operand is defined or a copied undefined value. */
static uint64_t copied_lanes(struct wave *w, const struct inst *in)
{
    uint64_t all = keeps_some(in) ? whole_or_copied(w, in, &in->dst) : UINT64_MAX;
    for (unsigned k = 0; k < in->nsrc; k++)
        all &= whole_or_copied(w, in, &in->src[k]);
    return all;
}

/* Computes the result's masks if an operand is not fully defined, and returns true. *traced is then
 * the input of store_trace(). */
static bool trace_operation(struct wave *w, const struct inst *in, struct traced *traced)
{
    const struct bit_op *op = &bit_ops[in->bit_op - 1];
    const uint64_t lanes = in->form & FORM_DPP ? UINT64_MAX : wave_exec(w);
    uint64_t whole = UINT64_MAX, selected = UINT64_MAX;

    if (!in->row->kernel || (in->dst.kind != OPND_VGPR && in->dst.kind != OPND_AGPR))
        return false;
    for (unsigned k = 0; k < in->nsrc; k++) {
        const uint64_t these = whole_lanes(w, &in->src[k]);
        if (!these && in->src[k].kind == OPND_SPECIAL) /* such sources have no bits to vary */
            return false;
        whole &= these;
        if (op->selectors >> k & 1)
            selected &= valid_rows(w, &in->src[k]) ? src_valid(w, &in->src[k]) : these;
    }
    if (keeps_some(in))
        whole &= whole_lanes(w, &in->dst);
    if (!(lanes & ~whole))
        return false;

    struct trial t = {.w = w, .in = in, .dwords = in->dst.dwords, .dst = dst_rows(w, &in->dst)};
    struct outcome out;
    uint64_t *valid = valid_rows(w, &in->dst), kept[2] = {valid[0], valid[t.dwords - 1]};
    const uint64_t copied = copied_lanes(w, in);
    memcpy(t.old, t.dst, t.dwords * sizeof(t.old[0]));
    gather(&t);
    try_all(&t, op->selectors, &out);
    *traced = (struct traced){0};
    for (unsigned r = 0; r < t.dwords; r++) {
        valid[r] = kept[r];
        for (unsigned l = 0; l < WAVE_LANES; l++) {
            const uint64_t bit = selected & UINT64_C(1) << l;
            const uint32_t bits = bit ? out.defined[r][l] : 0;
            traced->bits[r][l] = bits;
            traced->valid[r] |= bits == UINT32_MAX || out.data[r][l] ? bit : 0;
            traced->part[r] |= bits && bits != UINT32_MAX ? bit : 0;
        }
        traced->copied[r] = copied & (op->moves ? UINT64_MAX : traced->valid[r]);
    }
    return true;
}

/* Stores the traced state of the result in the destination's active lanes. */
static void store_trace(struct wave *w, const struct inst *in, const struct traced *t)
{
    const struct opnd *o = &in->dst;
    const uint64_t lanes = wave_exec(w);
    for (unsigned r = 0; r < o->dwords; r++) {
        uint64_t *valid = valid_rows(w, o) + r, *part = part_rows(w, o) + r;
        uint64_t *copied = copied_rows(w, o) + r;
        *valid = (*valid & ~lanes) | (t->valid[r] & lanes);
        *copied = (*copied & ~lanes) | (t->copied[r] & lanes);
        *part &= ~lanes;
        for (uint64_t left = t->part[r] & lanes; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctzll(left);
            bits_set(w, o, r, l, t->bits[r][l]);
        }
    }
}

/* Records which results of `in` are copies of undefined values. Called if store_trace() is not. */
static void track_copies(struct wave *w, const struct inst *in)
{
    uint64_t *to = copied_rows(w, &in->dst);
    if (!to || in->row->flags & ROW_LOAD)
        return;
    const bool moves = in->bit_op && bit_ops[in->bit_op - 1].moves && in->form == FORM_PLAIN;
    const uint64_t lanes = in->dst.kind == OPND_SGPR ? UINT64_MAX : wave_exec(w);
    const uint64_t *from = moves ? copied_rows(w, &in->src[0]) : NULL;
    for (unsigned i = 0; i < in->dst.dwords; i++) {
        uint64_t copied = from ? from[i] : 0;
        if (in->dst.kind == OPND_SGPR && copied)
            copied = UINT64_MAX;
        to[i] = (to[i] & ~lanes) | (copied & lanes);
    }
    bits_forget(w, &in->dst);
    bits_forget(w, &in->dst2);
}

void uninit_execute(struct wave *w, const struct inst *in)
{
    struct traced traced;
    if (in->bit_op && w->launch->checks & CHECK_UNINIT && !sources_whole(w, in) &&
        trace_operation(w, in, &traced)) {
        in->exec(w, in);
        store_trace(w, in, &traced);
        origins_follow(w, in);
        return;
    }
    /* Loads of a part of a register find out what they keep (mem_note_part). */
    if (w->copies && in->row && in->row->flags & ROW_LOAD && !(in->row->flags & ROW_PARTIAL))
        bits_forget(w, &in->dst);
    in->exec(w, in);
    if (w->copies && in->row && !in->pair[0]) { /* the instructions of a VOPD have been executed
                                                   separately */
        track_copies(w, in);
        origins_follow(w, in);
    }
}
