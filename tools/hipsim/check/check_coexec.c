/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of the hazard check for GFX12: which instructions must follow WMMA and transcendentals.
 *
 * On gfx1250 WMMA and transcendentals execute for several clocks beside the wave's next vector
 * instructions, and the hardware does not detect dependences between them (CDNA5 ISA, 5.7.2).
 * Independent vector instructions, such as V_NOP, must be in between: one after a transcendental,
 * and after WMMA as many as 7.12.1 says. The published table is incomplete. The numbers here are
 * what LLVM 22 inserts for gfx1250 (GCNHazardRecognizer, checkWMMACoexecutionHazards).
 *
 * gfx1201's hardware detects all dependences but one: a WMMA whose A, B or index is the result of
 * the WMMA before it needs one vector instruction in between (RDNA4 ISA, 7.12.1).
 */
#include "check_coexec.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"

enum {
    /* Number of instructions in the ring. */
    REMEMBERED = 16,
    LONGEST = 9 /* most vector instructions that required() and required_strictly() return */
};

/* A ring of the last WMMAs and transcendentals that a wave issued. */
struct coexec {
    const struct inst *in[REMEMBERED];
    uint32_t at[REMEMBERED]; /* value of `valus` at issue */
    /* number of entries written so far; the newest is entry count - 1, modulo REMEMBERED */
    uint32_t count;
    /* number of vector instructions so far, with each pause counted as pause() says */
    uint32_t valus;
    uint32_t quiet_at; /* value of `valus` from which on no entry of the ring requires a wait */
};

/* True if both operands are VGPRs and have one in common. */
static bool share_vgpr(const struct opnd *a, const struct opnd *b)
{
    return a->kind == OPND_VGPR && opnd_overlap(a, b);
}

/* True if one of the instruction's first `sources` sources has a register of `o`. */
static bool reads(const struct inst *in, const struct opnd *o, unsigned sources)
{
    for (unsigned i = 0; i < in->nsrc && i < sources; i++)
        if (share_vgpr(&in->src[i], o))
            return true;
    return false;
}

/* True if the instruction writes a register of `o`. A VOPD has two destinations, and a swap writes
 * its source too. */
static bool writes(const struct inst *in, const struct opnd *o)
{
    return share_vgpr(&in->dst, o) || share_vgpr(&in->dst2, o) ||
           (share_vgpr(&in->src[0], o) && strstr(in->row->name, "swap"));
}

/* True if the instruction is a matrix instruction (WMMA). */
static bool is_wmma(const struct inst *in) { return in->row->flags & ROW_MFMA; }

/* True for a WMMA with sources narrower than f32. Products of f32 do not overlap other
 * instructions. */
static bool is_narrow(const struct inst *in) { return !strstr(in->row->name, "16x16x4_f32"); }

/* Returns the number of vector instructions that LLVM inserts between a WMMA and a vector
 * instruction that uses its registers. Before another WMMA, LLVM inserts one more. Products of
 * 8-bit integers have twice the clocks of the others. */
static unsigned llvm_distance(const struct inst *wmma)
{
    return strstr(wmma->row->name, "_iu8") ? 8 : 4;
}

/* Returns the number of vector instructions that the hardware needs between a WMMA and one that
 * uses its registers. It is LLVM's number except for fp8. AITER's kernels of latent attention read
 * results of products of fp8 earlier: 16x16x64 after 2 (qh16_1tg_16mx4), 16x16x128 after 3
 * (qh128_1tg_16mx4). */
static unsigned distance(const struct inst *wmma)
{
    const char *name = wmma->row->name;
    if (!strstr(name, "fp8_") && !strstr(name, "bf8_"))
        return llvm_distance(wmma);
    return strstr(name, "16x16x64_") ? 2 : 3;
}

/* True for vector instructions that the hardware executes beside a WMMA of the same wave. */
static bool runs_beside(const struct inst *in)
{
    return !is_wmma(in) && !(in->row->flags & ROW_TRANS);
}

/* True if both are WMMAs and `in` reads the result of `from` as A, B or the index of a sparse A. */
static bool takes(const struct inst *in, const struct inst *from)
{
    const bool sparse = in->row->flags & ROW_DST_IS_SRC;
    return is_wmma(in) && is_wmma(from) && reads(in, &from->dst, sparse ? 3 : 2);
}

/* True if `in` overlaps other instructions, and takes() is true (CDNA5 ISA, 7.12.1). */
static bool multiplies(const struct inst *in, const struct inst *from)
{
    return takes(in, from) && is_narrow(in);
}

/* Returns the number of vector instructions that check `hazard` requires between `from` and
 * `in`. */
static unsigned required(const struct inst *from, const struct inst *in)
{
    if (isa_of((enum gfx_target)in->gfx)->wmma_hazards == HAZARDS_FACTORS)
        return takes(in, from);
    if (!is_wmma(from))
        return 0;
    if (multiplies(in, from))
        return distance(from) + 1;
    const bool used = reads(in, &from->dst, INST_MAX_SRC) || writes(in, &from->dst);
    return runs_beside(in) && used ? distance(from) : 0;
}

/* Returns the number of vector instructions that LLVM inserts between `from` and `in`, for check
 * `strict`. The manual also requires the one after a transcendental. AITER's kernels lack them.
 * Forward attention with sinks (fmha_bf16_pertokenBf16_hd64) reads an exponential in the next
 * instruction. Sparse latent attention swaps registers that a WMMA two instructions before it
 * reads. LLVM inserts none before a VOPD that writes registers that a WMMA reads. */
static unsigned required_strictly(const struct inst *from, const struct inst *in)
{
    if (isa_of((enum gfx_target)in->gfx)->wmma_hazards == HAZARDS_FACTORS)
        return required(from, in);
    if (!is_wmma(from))
        return !(in->row->flags & ROW_TRANS) &&
               (reads(in, &from->dst, INST_MAX_SRC) || writes(in, &from->dst) ||
                writes(in, &from->src[0]));
    if (multiplies(in, from))
        return llvm_distance(from) + 1;
    const bool pair = in->dst2.kind == OPND_VGPR;
    const bool used = reads(in, &from->dst, INST_MAX_SRC) || writes(in, &from->dst) ||
                      (!pair && (writes(in, &from->src[0]) || writes(in, &from->src[1])));
    return runs_beside(in) && used ? llvm_distance(from) : 0;
}

/* Checks `in` against the entries of the ring, the newest first. False if a finding has stopped the
 * wave. */
static bool check(const struct coexec *h, struct wave *w, const struct inst *in)
{
    const struct launch *l = w->launch;
    for (unsigned i = 1; i <= REMEMBERED && i <= h->count; i++) {
        const unsigned slot = (h->count - i) % REMEMBERED;
        const uint32_t between = h->valus - h->at[slot] - 1;
        const struct inst *from = h->in[slot];
        if (between >= LONGEST)
            break;
        enum fault_kind kind = FAULT_HAZARD;
        unsigned need = l->checks & CHECK_HAZARD ? required(from, in) : 0;
        if (need <= between && l->checks & CHECK_STRICT) {
            kind = FAULT_STRICT;
            need = required_strictly(from, in);
        }
        if (need <= between)
            continue;
        char text[160];
        if (wave_found_before(w, in, kind))
            return true;
        return wave_finding(w, in, kind, 0,
                            "%u vector instructions after entry%+lld (%s), %u are needed", between,
                            (long long)(from->offset + code_address(l->code) - l->entry_pc),
                            code_text(l->code, from->offset, text, sizeof(text)), need);
    }
    return true;
}

/* Returns the number of vector instructions that the pause `in` replaces; 0 if it is no pause.
 * S_NOP delays the wave by SIMM16 + 1 clocks. S_WAIT_ALU with va_vdst 0, and S_WAIT_IDLE, wait for
 * all vector instructions. On gfx1201 the result is 0, since it requires a vector instruction
 * (RDNA4 ISA, 7.12.1). */
static unsigned pause(const struct inst *in)
{
    const char *name = in->row->name;
    if (in->encoding != ENC_SOPP ||
        isa_of((enum gfx_target)in->gfx)->wmma_hazards == HAZARDS_FACTORS)
        return 0;
    if (strcmp(name, "s_nop") == 0)
        return (in->simm16 & 0xfu) + 1;
    const bool all = strcmp(name, "s_wait_idle") == 0 ||
                     (strcmp(name, "s_wait_alu") == 0 && in->simm16 >> 12 == 0);
    return all ? LONGEST : 0;
}

bool coexec_step(struct coexec *state, struct wave *w, const struct inst *in)
{
    struct coexec *h = state + w->id;
    const uint32_t flags = in->row->flags;
    h->valus += pause(in);
    if (!(flags & (ROW_VALU | ROW_MFMA)))
        return true;
    if ((int32_t)(h->quiet_at - h->valus) > 0 && !check(h, w, in))
        return false;
    if (flags & ROW_TRANS || (is_wmma(in) && is_narrow(in))) {
        const unsigned slot = h->count++ % REMEMBERED;
        h->in[slot] = in;
        h->at[slot] = h->valus;
        const uint32_t until = h->valus + 1 + (is_wmma(in) ? LONGEST : 1);
        h->quiet_at = (int32_t)(until - h->quiet_at) > 0 ? until : h->quiet_at;
    }
    h->valus++;
    return true;
}

struct coexec *coexec_create(void) { return calloc(WAVES_MAX, sizeof(struct coexec)); }

void coexec_begin(struct coexec *state, const struct workgroup *wg)
{
    memset(state, 0, wg->nwaves * sizeof(*state));
}
