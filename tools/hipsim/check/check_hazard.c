/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hazard check: reports missing wait states.
 *
 * A wait state is an issued instruction of the same wave; s_nop N counts as N + 1, a taken branch
 * as TAKEN_BRANCH. A matrix instruction waits while the matrix core executes the passes of the
 * previous one.
 *
 * The rules are LLVM's GCNHazardRecognizer for gfx942 and gfx950 (checkMAIHazards90A,
 * checkMAIVALUHazards, checkVALUHazards, checkVMEMHazards, checkDPPHazards, checkDivFMasHazards,
 * checkRWLaneHazards, checkReadM0Hazards, checkSetRegHazards, checkGetRegHazards,
 * checkPermlaneHazards, createsVALUHazard). The numbers are what its pass post-RA-hazard-rec of
 * LLVM 22 inserts. There are two additions. Buffer stores with an offset in a register were
 * measured later (github.com/llvm/llvm-project/pull/197267). VCCZ and EXECZ as sources are in the
 * manual (CDNA4 ISA, 4.5, table 11). GFX12 has rules of its own (check_coexec.h).
 */
#include "check_hazard.h"

#include <stdlib.h>
#include <string.h>

#include "check_coexec.h"
#include "decode.h"
#include "straight.h"

/* Most wait states that a rule requires after a matrix instruction (of 16 passes). */
#define LONGEST 20
#define LONGEST_OTHER 5 /* most wait states that a rule requires after any other instruction */
#define TAKEN_BRANCH 8  /* wait states of a taken branch (LLVM's SISchedModel, WriteBranch) */

/* Number of last instructions that the rules consider. */
#define HAZARD_HISTORY 32

/* A ring of the last instructions that a wave issued. */
struct hazard_history {
    const struct inst *in[HAZARD_HISTORY];
    uint32_t at[HAZARD_HISTORY]; /* value of `states` at issue */
    /* Number of instructions issued so far; wait states so far. */
    uint32_t count, states;
    /* value of `states` from which on no entry of the ring requires a wait */
    uint32_t quiet_at;
    uint32_t quiet_for_most_at; /* like quiet_at, if a TRAIT_ORDINARY instruction waits */
    uint32_t matrix_free_at;    /* value of `states` at which the matrix core is free */
    /* value of `states` from which on no matrix instruction in the ring requires a wait */
    uint32_t matrix_quiet_at;
    uint64_t next_offset; /* code offset of the next instruction unless a branch is taken */
    uint32_t straight_at; /* value of `states` at the last taken branch */
};

/* State of the check for a workgroup. */
struct hazard_state {
    struct coexec *coexec;                  /* states for GFX12's rules; NULL: GFX9's rules apply */
    struct hazard_history waves[WAVES_MAX]; /* for GFX9's rules */
};

/* Properties of an instruction that the rules test, as bits of in->hazard_traits. */
enum hazard_trait {
    TRAIT_F64 = 1 << 0,
    /* a matrix instruction other than f32 and f64, whose results are one state later */
    TRAIT_XDL = 1 << 1,
    TRAIT_DOT = 1 << 2,
    TRAIT_LANE = 1 << 3,    /* reads or writes a lane that a scalar operand selects */
    TRAIT_TO_SGPR = 1 << 4, /* v_readlane or v_readfirstlane */
    TRAIT_DIV_FMAS = 1 << 5,
    TRAIT_CALL = 1 << 6,
    TRAIT_NOP = 1 << 7,
    TRAIT_SWAP = 1 << 8, /* v_permlane*_swap, which reads and writes both registers */
    TRAIT_FMA64 = 1 << 9,
    TRAIT_SETREG = 1 << 10,
    TRAIT_GETREG = 1 << 11,
    TRAIT_M0 = 1 << 12,   /* reads M0 without an operand for it */
    TRAIT_PART = 1 << 13, /* writes the upper half, or a selected part, of its destination */
    TRAIT_WIDE = 1 << 14, /* stores more than 64 bits per lane */
    /* a plain vector instruction (is_plain_valu()): few rules require waits before it */
    TRAIT_ORDINARY = 1 << 15,
};

/* Rules that may apply to an instruction. */
enum hazard_part {
    PART_WAITS = 1 << 0,  /* rules may require wait states before the instruction */
    PART_STARTS = 1 << 1, /* rules may require wait states after the instruction */
    PART_MATRIX = 1 << 2, /* the instruction occupies the matrix core */
};

/* True if the operand is a vector register. */
static bool vector(const struct opnd *o) { return o->kind == OPND_VGPR || o->kind == OPND_AGPR; }

/* True if a source of the instruction overlaps the registers of `o`. */
static bool reads(const struct inst *in, const struct opnd *o)
{
    for (unsigned i = 0; i < in->nsrc; i++)
        if (opnd_overlap(&in->src[i], o))
            return true;
    return false;
}

/* True if `text` ends in `end`. */
static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* True if the instruction's name begins with `name`. */
static bool named(const struct inst *in, const char *name)
{
    return strncmp(in->row->name, name, strlen(name)) == 0;
}

/* True if the instruction writes part of a register. The next instruction reads such a result too
 * early. */
static bool writes_part(const struct inst *in)
{
    if (in->form & FORM_SDWA)
        return in->dst.kind == OPND_VGPR && in->dst_sel != SDWA_DWORD;
    if (in->encoding != ENC_VOP3 || in->dst.kind != OPND_VGPR)
        return false;
    return in->op_sel & (named(in, "v_cvt_sr_fp8") || named(in, "v_cvt_sr_bf8") ? 12 : 8);
}

/* True for a vector memory store of more than 2 dwords. */
static bool stores_wide(const struct inst *in)
{
    return in->row->flags & ROW_VMEM && in->row->flags & ROW_STORE && in->src[1].dwords > 2;
}

/* True if the instruction loads from memory to LDS. */
static bool loads_to_lds(const struct inst *in) { return in->lds || in->row->flags & ROW_LDS_DMA; }

/* True if the instruction reads M0 and needs wait states after a write of M0. */
static bool reads_m0(const struct inst *in)
{
    return loads_to_lds(in) || named(in, "s_sendmsg") || named(in, "s_movrel") ||
           strstr(in->row->name, "_addtid_");
}

/* True if the operand is VCCZ or EXECZ. */
static bool zero_flag(const struct opnd *o)
{
    return o->kind == OPND_SPECIAL && (o->reg == SPECIAL_VCCZ || o->reg == SPECIAL_EXECZ);
}

/* True for vector instructions that must wait only after a few kinds of instructions. Others read
 * lanes, EXEC or scalar registers in special ways. */
static bool is_plain_valu(const struct inst *in)
{
    for (unsigned i = 0; i < in->nsrc; i++)
        if (zero_flag(&in->src[i]))
            return false;
    const uint16_t special = TRAIT_LANE | TRAIT_TO_SGPR | TRAIT_SWAP | TRAIT_DIV_FMAS | TRAIT_M0;
    return in->row->flags & ROW_VALU && !(in->row->flags & ROW_MFMA) && !(in->form & FORM_DPP) &&
           !(in->hazard_traits & special);
}

/* Returns the most wait states that required() returns for a TRAIT_ORDINARY instruction after this
 * one. */
static uint8_t longest_wait(const struct inst *in)
{
    if (in->row->flags & ROW_MFMA)
        return LONGEST;
    if (in->hazard_traits & TRAIT_DOT)
        return 3;
    if (in->hazard_traits & TRAIT_WIDE)
        return 2;
    return in->hazard_traits & TRAIT_PART || in->row->flags & ROW_TRANS;
}

/* Returns the enum hazard_part bits of an instruction. */
static uint8_t part_of(const struct inst *in)
{
    const uint32_t flags = in->row->flags;
    const bool waits = flags & (ROW_VALU | ROW_MFMA | ROW_VMEM | ROW_LDS) ||
                       in->hazard_traits & (TRAIT_SETREG | TRAIT_GETREG | TRAIT_M0);
    const bool starts = flags & (ROW_VALU | ROW_MFMA) ||
                        (flags & ROW_SALU && in->dst.kind == OPND_SGPR) ||
                        in->hazard_traits & (TRAIT_SETREG | TRAIT_WIDE);
    return (waits ? PART_WAITS : 0) | (starts ? PART_STARTS : 0) |
           (flags & ROW_MFMA ? PART_MATRIX : 0);
}

/* Sets in->hazard_traits, the mask of the instruction's properties that the rules test. */
static void classify(enum gfx_target target, struct inst *in)
{
    (void)target;
    const char *name = in->row->name;
    const bool f64 = strstr(name, "f64"), matrix = in->row->flags & ROW_MFMA;
    const struct {
        bool has;
        uint16_t trait;
    } traits[] = {
        {f64, TRAIT_F64},
        {matrix && !f64 && !ends_in(name, "_f32"), TRAIT_XDL},
        {strstr(name, "dot"), TRAIT_DOT},
        {named(in, "v_readlane") || named(in, "v_writelane"), TRAIT_LANE},
        {named(in, "v_readlane") || named(in, "v_readfirstlane"), TRAIT_TO_SGPR},
        {named(in, "v_div_fmas"), TRAIT_DIV_FMAS},
        {named(in, "s_setpc") || named(in, "s_swappc") || named(in, "s_call"), TRAIT_CALL},
        {strcmp(name, "s_nop") == 0, TRAIT_NOP},
        {named(in, "v_permlane") && strstr(name, "swap"), TRAIT_SWAP},
        {strcmp(name, "v_fma_f64") == 0 || strcmp(name, "v_fmac_f64") == 0, TRAIT_FMA64},
        {named(in, "s_setreg"), TRAIT_SETREG},
        {named(in, "s_getreg"), TRAIT_GETREG},
        {reads_m0(in), TRAIT_M0},
        {writes_part(in), TRAIT_PART},
        {stores_wide(in), TRAIT_WIDE},
    };
    for (size_t i = 0; i < sizeof(traits) / sizeof(traits[0]); i++)
        in->hazard_traits |= traits[i].has ? traits[i].trait : 0;
    in->hazard_traits |= is_plain_valu(in) ? TRAIT_ORDINARY : 0;
    in->hazard_reach = longest_wait(in);
    in->hazard_part = part_of(in);
    in->hazard_states = in->hazard_traits & TRAIT_NOP ? (in->simm16 & 0xfu) + 1 : 1;
}

/* True if the instruction has the property `trait`. */
static bool is(const struct inst *in, enum hazard_trait trait) { return in->hazard_traits & trait; }

/* Returns the operand C of a matrix instruction. It is the destination if the instruction adds to
 * that. */
static const struct opnd *addend(const struct inst *in)
{
    return in->row->flags & ROW_DST_IS_SRC ? &in->dst : &in->src[2];
}

/* True if the instruction writes a register of `o`. */
static bool writes(const struct inst *in, const struct opnd *o)
{
    return opnd_overlap(&in->dst, o) || (is(in, TRAIT_SWAP) && opnd_overlap(&in->src[0], o));
}

/* True if two operands begin at the same register and have the same number of dwords. */
static bool same(const struct opnd *a, const struct opnd *b)
{
    return a->reg == b->reg && a->dwords == b->dwords;
}

/* True if the matrix instruction reads `d` as A, B or the index of a sparse A. */
static bool reads_as_factor(const struct inst *in, const struct opnd *d)
{
    return opnd_overlap(&in->src[0], d) || opnd_overlap(&in->src[1], d) ||
           (in->row->flags & ROW_DST_IS_SRC && opnd_overlap(&in->src[2], d));
}

/* Returns the wait states that `in` needs after an f64 matrix instruction, 4x4x4 or 16x16x4. */
static unsigned after_f64(enum gfx_target target, const struct inst *from, const struct inst *in)
{
    const struct opnd *d = &from->dst;
    const bool small = d->dwords == 2, late = !small && target == GFX950;
    const unsigned result = small ? 6 : late ? 19 : 11;
    const uint32_t flags = in->row->flags;
    if (flags & ROW_MFMA) {
        if (reads_as_factor(in, d))
            return result;
        if (!opnd_overlap(addend(in), d) || is(in, TRAIT_XDL))
            return 0;
        if (same(addend(in), d) && !(small && is(in, TRAIT_F64)))
            return 0;
        return small ? 4 : late ? 17 : 9;
    }
    if (flags & (ROW_VMEM | ROW_LDS) && reads(in, d))
        return small ? 9 : 18;
    if (flags & ROW_VALU && reads(in, d))
        return result;
    if (flags & (ROW_VALU | ROW_VMEM | ROW_LDS) && writes(in, d))
        return small ? 6 : 11;
    return is(in, TRAIT_FMA64) ? 2 : 0;
}

/* True if the result of a matrix instruction other than f64 is one state later, as on gfx950. */
static bool is_late(enum gfx_target target, const struct inst *from)
{
    return is(from, TRAIT_XDL) && target == GFX950 && from->matrix_passes > 2;
}

/* Returns the wait states after which other instructions may use the result of a matrix instruction
 * other than f64. */
static unsigned until_result(enum gfx_target target, const struct inst *from)
{
    return from->matrix_passes + (is(from, TRAIT_XDL) ? 3u : 2u) + is_late(target, from);
}

/* Returns the wait states that `in` needs after the matrix instruction `from` (not f64), if `in`
 * uses its result or overwrites its addend. required_strictly() has the vector instructions that
 * read the result. */
static unsigned after_matrix(enum gfx_target target, const struct inst *from, const struct inst *in)
{
    if (!vector(&from->dst))
        return 0;
    const struct opnd *d = &from->dst;
    const unsigned passes = from->matrix_passes, result = until_result(target, from);
    const bool xdl = is(from, TRAIT_XDL), late = is_late(target, from);
    if (!(in->row->flags & ROW_MFMA)) {
        if (!(in->row->flags & (ROW_VALU | ROW_VMEM | ROW_LDS)))
            return 0;
        if (writes(in, d) || (reads(in, d) && !(in->row->flags & ROW_VALU)))
            return result;
        return xdl && vector(addend(from)) && writes(in, addend(from))
                   ? (passes < 16 ? passes : 16) - 1
                   : 0;
    }
    if (reads_as_factor(in, d))
        return result;
    if (!opnd_overlap(addend(in), d))
        return 0;
    if (same(addend(in), d))
        return passes == 2 ? 2 : 0;
    return !xdl && is(in, TRAIT_XDL) ? 0 : passes + xdl + late;
}

/* True if `o` is an SGPR that a result of `from` overlaps. */
static bool writes_sgpr_of(const struct inst *from, const struct opnd *o)
{
    return o->kind == OPND_SGPR && (opnd_overlap(&from->dst, o) || opnd_overlap(&from->dst2, o));
}

/* True if a result of `from` is an SGPR that `in` reads. */
static bool any_sgpr(const struct inst *from, const struct inst *in)
{
    for (unsigned i = 0; i < in->nsrc; i++)
        if (writes_sgpr_of(from, &in->src[i]))
            return true;
    return false;
}

/* True if the instruction writes EXEC. */
static bool writes_exec(const struct inst *from)
{
    static const struct opnd exec = {.kind = OPND_SGPR, .reg = SGPR_EXEC, .dwords = 2};
    return from->row->flags & ROW_CMPX || opnd_overlap(&from->dst, &exec);
}

/* Returns the wait states that `in` needs after a dot product, which forwards its result only to
 * the addend of the same instruction. */
static unsigned after_dot(const struct inst *from, const struct inst *in)
{
    const struct opnd *d = &from->dst;
    if (in->row == from->row)
        return opnd_overlap(&in->src[0], d) || opnd_overlap(&in->src[1], d) ? 3 : 0;
    return reads(in, d) || writes(in, d) ? 3 : 0;
}

/* Returns the wait states that the vector instruction `in` needs after an instruction that wrote
 * EXEC. */
static unsigned after_exec(const struct inst *in)
{
    if (in->form & FORM_DPP)
        return 5;
    return in->row->flags & ROW_MFMA || is(in, TRAIT_LANE) || is(in, TRAIT_TO_SGPR) ||
                   is(in, TRAIT_SWAP)
               ? 4
               : 0;
}

/* Returns the larger number of wait states. */
static unsigned most(unsigned a, unsigned b) { return a > b ? a : b; }

/* Returns the wait states that the vector instruction `in` needs after the vector instruction
 * `from`, if `in` reads or overwrites `d`, a result of `from`. */
static unsigned after_result(const struct inst *from, const struct opnd *d, const struct inst *in)
{
    const bool read = reads(in, d), part = is(from, TRAIT_PART);
    if (!vector(d))
        return 0;
    if (in->row->flags & ROW_MFMA)
        return read ? 2 : 0;
    if (is(in, TRAIT_SWAP) && (read || writes(in, d)))
        return 2;
    if (!read)
        return part && writes(in, d);
    if (in->form & FORM_DPP && opnd_overlap(&in->src[0], d))
        return 2;
    return is(in, TRAIT_TO_SGPR) || part ||
           (from->row->flags & ROW_TRANS && !(in->row->flags & ROW_TRANS));
}

/* True if `in` reads VCCZ or EXECZ, and the vector instruction `from` wrote VCC or EXEC. */
static bool reads_zero_flag(const struct inst *from, const struct inst *in)
{
    static const struct opnd vcc = {.kind = OPND_SGPR, .reg = SGPR_VCC, .dwords = 2};
    for (unsigned i = 0; i < in->nsrc; i++) {
        const struct opnd *o = &in->src[i];
        if (zero_flag(o) &&
            (o->reg == SPECIAL_VCCZ ? writes_sgpr_of(from, &vcc) : writes_exec(from)))
            return true;
    }
    return false;
}

/* Returns the wait states that `in` needs after the vector instruction `from`. */
static unsigned after_valu(const struct inst *from, const struct inst *in)
{
    uint32_t flags = in->row->flags;
    if (flags & ROW_VMEM && any_sgpr(from, in))
        return 5;
    if (flags & ROW_VALU && reads_zero_flag(from, in))
        return 5;
    unsigned need = writes_exec(from) && flags & (ROW_VALU | ROW_MFMA) ? after_exec(in) : 0;
    if (is(from, TRAIT_DOT) && vector(&from->dst))
        return flags & ROW_MFMA ? need : most(need, after_dot(from, in));
    if (!(flags & (ROW_VALU | ROW_MFMA)))
        return 0;
    if (is(in, TRAIT_LANE) && writes_sgpr_of(from, &in->src[1]))
        return 4;
    if (is(in, TRAIT_DIV_FMAS) && any_sgpr(from, in))
        need = most(need, 4);
    if (is(from, TRAIT_SWAP))
        need = most(need, after_result(from, &from->src[0], in));
    return most(need, after_result(from, &from->dst, in));
}

/* True if `from` writes M0 and `in` reads M0. */
static bool hands_m0(const struct inst *from, const struct inst *in)
{
    static const struct opnd m0 = {.kind = OPND_SGPR, .reg = SGPR_M0, .dwords = 1};
    return is(in, TRAIT_M0) && opnd_overlap(&from->dst, &m0);
}

/* Returns the number of wait states that `in` needs after the scalar ALU instruction `from`; 0:
 * none. */
static unsigned after_salu(const struct inst *from, const struct inst *in)
{
    if (is(from, TRAIT_SETREG))
        return (is(in, TRAIT_SETREG) || is(in, TRAIT_GETREG)) && !((from->simm16 ^ in->simm16) & 63)
                   ? 2
                   : 0;
    return hands_m0(from, in) && !loads_to_lds(in) ? 1 : 0;
}

/* Returns the wait states that `in` needs after the wide store `from`. A buffer store with an
 * offset in a register reads its data one state earlier. */
static unsigned after_store(const struct inst *from, const struct inst *in)
{
    if (!(in->row->flags & (ROW_VALU | ROW_MFMA)) || !writes(in, &from->src[1]))
        return 0;
    return from->encoding == ENC_MUBUF && from->src[3].kind == OPND_SGPR ? 1 : 2;
}

/* Returns the number of wait states that `in` needs after `from`; 0: none. */
static unsigned required(enum gfx_target target, const struct inst *from, const struct inst *in)
{
    const uint32_t flags = from->row->flags;
    if (flags & ROW_MFMA)
        return is(from, TRAIT_F64) ? after_f64(target, from, in) : after_matrix(target, from, in);
    if (flags & ROW_VALU)
        return after_valu(from, in);
    if (flags & ROW_SALU)
        return after_salu(from, in);
    return after_store(from, in);
}

/* Returns the wait states that `in` needs after `from` for check `strict`. LLVM inserts these too,
 * but kernels that work on hardware lack them. Composable Kernel's conditional loads have none
 * between v_cmpx and a buffer instruction (amd_buffer_addressing.hpp); the manual's table requires
 * none there. AITER's products of fp8 blocks (fp8gemm_bf16_blockscale, 12 objects) read the result
 * of a matrix instruction of 4 passes after 2 states. The manual's table has 7, so the hardware
 * waits by itself there. */
static unsigned required_strictly(enum gfx_target target, const struct inst *from,
                                  const struct inst *in)
{
    const uint32_t flags = from->row->flags;
    if (flags & ROW_MFMA)
        return !is(from, TRAIT_F64) && in->row->flags & ROW_VALU && !(in->row->flags & ROW_MFMA) &&
                       vector(&from->dst) && reads(in, &from->dst)
                   ? until_result(target, from)
                   : 0;
    if (flags & ROW_VALU && !(flags & ROW_MFMA)) {
        if (in->row->flags & ROW_VMEM)
            return writes_exec(from) ? 5 : 0;
        static const struct opnd exec = {.kind = OPND_SGPR, .reg = SGPR_EXEC, .dwords = 2};
        const bool vector = in->row->flags & ROW_VALU && !(in->row->flags & ROW_MFMA);
        return vector && (any_sgpr(from, in) || (writes_exec(from) && reads(in, &exec))) ? 2 : 0;
    }
    return flags & ROW_SALU && hands_m0(from, in) && loads_to_lds(in) ? 1 : 0;
}

/* True if the instruction only waits after instructions with a hazard_reach. False with check
 * `strict`, where every reader of a scalar register that a vector instruction wrote waits. */
static bool waits_by_reach(const struct wave *w, const struct inst *in)
{
    return is(in, TRAIT_ORDINARY) && !(w->launch->checks & CHECK_STRICT);
}

/* Missing wait states before an instruction. */
struct hazard {
    const struct inst *from; /* the earlier instruction, which requires wait states */
    unsigned states, need;   /* wait states since `from`; wait states that it requires */
    enum fault_kind kind;
};

/* True if one of the wave's last instructions requires more wait states before `in`. Sets *found to
 * the hazard of the latest of them. */
static bool find_hazard(const struct hazard_history *h, const struct wave *w, const struct inst *in,
                        struct hazard *found)
{
    const struct launch *l = w->launch;
    const bool rarely = waits_by_reach(w, in);
    for (unsigned i = 1; i <= HAZARD_HISTORY && i <= h->count; i++) {
        unsigned slot = (h->count - i) % HAZARD_HISTORY;
        uint32_t states = h->states - h->at[slot] - 1;
        if (states >= LONGEST)
            return false;
        const struct inst *from = h->in[slot];
        if (states >= LONGEST_OTHER && !(from->row->flags & ROW_MFMA))
            continue;
        if (rarely && states >= from->hazard_reach)
            continue;
        enum fault_kind kind = FAULT_HAZARD;
        unsigned need = l->checks & CHECK_HAZARD ? required(code_target(l->code), from, in) : 0;
        if (need <= states && l->checks & CHECK_STRICT) {
            kind = FAULT_STRICT;
            need = required_strictly(code_target(l->code), from, in);
        }
        *found = (struct hazard){from, states, need, kind};
        if (need > states)
            return true;
    }
    return false;
}

/* Reports the hazard *found before `in`. False if the report stops the wave. */
static bool report(struct wave *w, const struct inst *in, const struct hazard *found)
{
    const struct launch *l = w->launch;
    char text[160];
    if (wave_found_before(w, in, found->kind))
        return true;
    return wave_finding(w, in, found->kind, 0,
                        "%u wait states after entry%+lld (%s), %u are needed", found->states,
                        (long long)(found->from->offset + code_address(l->code) - l->entry_pc),
                        code_text(l->code, found->from->offset, text, sizeof(text)), found->need);
}

/*
 * Searches as find_hazard() does, with a cache. The result for an instruction depends only on the
 * last LONGEST wait states, or LONGEST_OTHER without matrix instructions. That no hazard was found
 * is cached if the wave took no branch in these states.
 */
static bool find_once(const struct hazard_history *h, const struct wave *w, const struct inst *in,
                      struct hazard *found)
{
    const uint16_t checks = w->launch->checks & (CHECK_HAZARD | CHECK_STRICT);
    const uint32_t straight = h->states - h->straight_at;
    const bool all = straight > LONGEST;
    const bool others = straight > LONGEST_OTHER && (int32_t)(h->matrix_quiet_at - h->states) <= 0;
    uint16_t *free = &((struct inst *)in)->hazard_free;
    uint16_t *others_free = &((struct inst *)in)->hazard_others_free;
    if ((all || others) && !(checks & ~__atomic_load_n(free, __ATOMIC_RELAXED)))
        return false;
    if (others && !(checks & ~__atomic_load_n(others_free, __ATOMIC_RELAXED)))
        return false;
    if (find_hazard(h, w, in, found))
        return true;
    if (all)
        __atomic_fetch_or(free, checks, __ATOMIC_RELAXED);
    if (others)
        __atomic_fetch_or(others_free, checks, __ATOMIC_RELAXED);
    return false;
}

/* Adds to h->states the wait states of a taken branch before `in`, and of a busy matrix core if
 * `in` needs it. */
static inline void arrive(struct hazard_history *h, const struct inst *in)
{
    if (in->offset != h->next_offset) {
        h->states += TAKEN_BRANCH - 1;
        h->straight_at = h->states;
    }
    if (in->hazard_part & PART_MATRIX && (int32_t)(h->matrix_free_at - h->states) > 0)
        h->states = h->matrix_free_at;
}

/* True if an instruction in the ring may require wait states before `in`. */
static inline bool may_wait(const struct hazard_history *h, const struct wave *w,
                            const struct inst *in)
{
    const uint32_t quiet_at = waits_by_reach(w, in) ? h->quiet_for_most_at : h->quiet_at;
    return in->hazard_part & PART_WAITS && h->states < quiet_at;
}

/* Adds `in` to the ring. */
static inline void issue(struct hazard_history *h, const struct inst *in)
{
    const unsigned part = in->hazard_part;
    if (part & PART_STARTS) {
        unsigned slot = h->count++ % HAZARD_HISTORY;
        h->in[slot] = in;
        h->at[slot] = h->states;
        uint32_t until = h->states + 1 + (part & PART_MATRIX ? LONGEST : LONGEST_OTHER);
        h->quiet_at = until > h->quiet_at ? until : h->quiet_at;
        until = h->states + 1 + in->hazard_reach;
        h->quiet_for_most_at = until > h->quiet_for_most_at ? until : h->quiet_for_most_at;
    }
    if (part & PART_MATRIX) {
        h->matrix_free_at = h->states + in->matrix_passes;
        h->matrix_quiet_at = h->states + 1 + LONGEST;
    }
    /* Compilers insert no wait states across calls, which last longer than any hazard. */
    if (is(in, TRAIT_CALL))
        h->count = 0;
    h->states += in->hazard_states;
    h->next_offset = in->offset + in->size;
}

/* Checks `in` against the instructions that its wave issued last, and adds it to them. False if a
 * report has stopped the wave. */
static bool step(void *state, struct wave *w, const struct inst *in)
{
    struct hazard_state *s = state;
    struct hazard found;
    if (s->coexec)
        return coexec_step(s->coexec, w, in);
    struct hazard_history *h = &s->waves[w->id];
    arrive(h, in);
    if (may_wait(h, w, in) && find_once(h, w, in, &found) && !report(w, in, &found))
        return false;
    issue(h, in);
    return true;
}

/* Checks at most `n` instructions of `s`, and adds those before the first hazard to the ring.
 * Returns their number. */
static unsigned step_straight(void *state, struct wave *w, const struct straight *s, unsigned n)
{
    struct hazard_state *hazards = state;
    struct hazard found;
    if (hazards->coexec)
        return 0;
    struct hazard_history *h = &hazards->waves[w->id];
    for (unsigned i = 0; i < n; i++) {
        const uint32_t states = h->states;
        arrive(h, s->in[i]);
        if (may_wait(h, w, s->in[i]) && find_once(h, w, s->in[i], &found)) {
            h->states = states; /* step() will call arrive() for it again */
            return i;
        }
        issue(h, s->in[i]);
    }
    return n;
}

/* Allocates the state of the check for one worker. NULL: no memory. */
static void *create(const struct launch *l, void *launch_state)
{
    (void)launch_state;
    struct hazard_state *s = calloc(1, sizeof(*s));
    if (s && code_isa(l->code)->wmma_hazards && !(s->coexec = coexec_create())) {
        free(s);
        return NULL;
    }
    return s;
}

/* Frees the state of the check. */
static void destroy(void *state)
{
    struct hazard_state *s = state;
    free(s->coexec);
    free(s);
}

/* Forgets the earlier instructions when a workgroup begins. */
static void begin(void *state, const struct workgroup *wg)
{
    struct hazard_state *s = state;
    if (s->coexec)
        coexec_begin(s->coexec, wg);
    else
        memset(s->waves, 0, wg->nwaves * sizeof(s->waves[0]));
}

const struct check check_hazard = {
    .kinds = CHECK_HAZARD | CHECK_STRICT,
    .decoded = classify,
    .group_create = create,
    .group_destroy = destroy,
    .group_begin = begin,
    .fetched = step,
    .fetched_straight = step_straight,
};
