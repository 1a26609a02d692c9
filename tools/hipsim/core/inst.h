/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoded instruction.
 *
 * An instruction is decoded once per code object (decode.h) and then executed by all waves that
 * reach it. LLVM's disassembler provides the mnemonic and the length. The fields are read from the
 * raw dwords according to the CDNA3 and CDNA4 ISA manuals, chapter "Microcode Formats". A decoded
 * instruction never changes, so every host thread may read it.
 */
#ifndef HIPSIM_INST_H
#define HIPSIM_INST_H

#include <stdbool.h>
#include <stdint.h>

struct wave;
struct op_row;
struct straight;

/* Register numbers of the scalar file, as gfx9 encodes them. gfx1250 encodes NULL, M0 as 124, 125;
 * its decoder renumbers them. */
enum sgpr_number {
    SGPR_FLAT_SCRATCH = 102, /* 102, 103 */
    SGPR_XNACK_MASK = 104,   /* 104, 105 */
    SGPR_VCC = 106,          /* 106, 107 */
    SGPR_TTMP0 = 108,        /* 108 .. 123 */
    SGPR_M0 = 124,
    SGPR_EXEC = 126,  /* 126, 127 */
    SGPR_CODES = 128, /* end of the encoded numbers */
    SGPR_NULL = 128,  /* 128 .. 143: takes what is written to gfx1250's NULL; never read */
    SGPR_FILE = 192,
};

/* Encoded sources after the scalar file (OPND_SPECIAL). */
enum special_source {
    SPECIAL_FLAT_SCRATCH_LO = 230, /* gfx1250 */
    SPECIAL_FLAT_SCRATCH_HI = 231,
    SPECIAL_SHARED_BASE = 235,
    SPECIAL_SHARED_LIMIT = 236,
    SPECIAL_PRIVATE_BASE = 237,
    SPECIAL_PRIVATE_LIMIT = 238,
    SPECIAL_POPS_WAVE_ID = 239,
    SPECIAL_VCCZ = 251,
    SPECIAL_EXECZ = 252,
    SPECIAL_SCC = 253,
    SPECIAL_LDS_DIRECT = 254,
};

enum encoding {
    ENC_SOP1,
    ENC_SOP2,
    ENC_SOPK,
    ENC_SOPC,
    ENC_SOPP,
    ENC_SMEM,
    ENC_VOP1,
    ENC_VOP2,
    ENC_VOPC,
    ENC_VOP3,
    ENC_VOP3P,
    ENC_MAI,
    ENC_DS,
    ENC_FLAT,
    ENC_MUBUF,
    ENC_MTBUF,
    ENC_VOPD, /* gfx1250: two vector instructions */
    ENC_TENSOR,
    ENC_UNKNOWN,
};

enum opnd_kind {
    OPND_NONE,
    OPND_VGPR,    /* reg: 0 .. 255, on gfx1250 0 .. 1023 */
    OPND_AGPR,    /* reg: 0 .. 255 */
    OPND_SGPR,    /* reg: enum sgpr_number */
    OPND_IMM,     /* imm: inline constant or literal, already expanded to the operand's type */
    OPND_SPECIAL, /* reg: enum special_source */
};

enum sdwa_sel {
    SDWA_BYTE_0,
    SDWA_BYTE_1,
    SDWA_BYTE_2,
    SDWA_BYTE_3,
    SDWA_WORD_0,
    SDWA_WORD_1,
    SDWA_DWORD,
};

enum sdwa_unused { SDWA_UNUSED_PAD, SDWA_UNUSED_SEXT, SDWA_UNUSED_PRESERVE };

struct opnd {
    uint8_t kind;   /* enum opnd_kind */
    uint8_t dwords; /* number of registers, from `reg` on */
    uint16_t reg;
    uint16_t type; /* T_* of row.h */
    bool neg;      /* float source modifiers; in VOP3P `neg` is neg_lo and `abs` is neg_hi */
    bool abs;
    bool sext;   /* SDWA */
    uint8_t sel; /* SDWA: enum sdwa_sel; SDWA_DWORD elsewhere */
    uint64_t imm;
};

/* True if both operands are registers of the same kind and have one in common. */
static inline bool opnd_overlap(const struct opnd *a, const struct opnd *b)
{
    return a->kind == b->kind && a->kind != OPND_NONE && a->reg < b->reg + b->dwords &&
           b->reg < a->reg + a->dwords;
}

/* Reasons why an instruction cannot use the plain lane path; see exec_valu.c. */
enum inst_form {
    FORM_PLAIN = 0,
    FORM_DPP = 1 << 0,
    FORM_SDWA = 1 << 1,
    FORM_SRC_MODS = 1 << 2, /* some source has neg, abs or sext (not VOP3P) */
    FORM_OUT_MODS = 1 << 3, /* clamp or omod */
    FORM_OP_SEL = 1 << 4,   /* VOP3 op_sel other than zero */
    FORM_LITERAL = 1 << 5,  /* a 32-bit literal follows */
    FORM_HALF = 1 << 6, /* gfx1250: a 16-bit result, which keeps the other half of its register */
};

/* inst->dpp_ctrl of DPP8, which has no DPP_CTRL; beyond the values that DPP16 encodes. */
#define DPP_CTRL_8 0x200

#define INST_MAX_SRC 6
#define INST_MAX_DWORDS 4

struct inst {
    /* Members that every execution reads come first and share a cache line of the host. */
    void (*exec)(struct wave *w, const struct inst *in);
    const struct op_row *row; /* NULL: does not decode; `exec` faults when a wave reaches it */
    uint64_t offset;          /* of the instruction in its code range, in bytes */
    uint8_t size;             /* bytes */
    uint8_t nsrc;
    uint8_t encoding;      /* enum encoding */
    uint8_t form;          /* enum inst_form bits */
    uint16_t clocks;       /* until the wave may issue its next instruction */
    uint8_t matrix_passes; /* passes of a matrix instruction, 4 clocks each */

    /* A vector operation without modifiers other than abs, neg and op_sel. Each source, and the
     * result, is one or two dwords or a lane mask. Plain instructions may be part of straight-line
     * code, and execute_plain() runs them unless `plain_packs` is set. */
    bool plain;
    bool plain_aside;   /* plain: the result needs a buffer, since it overlaps a float source */
    bool plain_packs;   /* plain: it is of VOP3P, and has op_sel or neg */
    uint8_t plain_mode; /* plain: bits of MODE that have to be set; else denormals are flushed */

    /* Private to the checks, which set these when the instruction is decoded. */
    uint8_t bit_op;         /* check_uninit.c: operation for bit tracking, 0: none */
    uint8_t hazard_reach;   /* the most wait states that a plain vector instruction needs after this
                             * one */
    uint8_t hazard_states;  /* wait states that this instruction provides */
    uint8_t hazard_part;    /* check_hazard.c: enum hazard_part */
    uint16_t hazard_traits; /* check_hazard.c: properties of the mnemonic */
    uint16_t hazard_free;   /* atomic; enum check_bits: straight-line code up to here was found free
                             * of hazards */
    uint16_t hazard_others_free; /* the same, if no matrix instruction is among the last ones */

    /* Highest register used in each file, -1 for none; compared with the kernel's allocation. */
    int16_t max_vgpr, max_agpr, max_sgpr;

    struct opnd dst;  /* vdst, sdst; the data register of loads */
    struct opnd dst2; /* second result: VOP3B sdst, carry-out, vcc of VOPC */
    /*
     * VALU, SALU: as written; VOP2 with carry-in has the carry mask as src[2].
     * SMEM:  0 sbase, 1 soffset register (or none), 2 data (stores, atomics).
     * DS:    0 address, 1 data0, 2 data1.
     * FLAT:  0 vaddr (or none: off), 1 data, 2 saddr (or none).
     * MUBUF: 0 vaddr (1 or 2 registers by offen+idxen, or none), 1 data, 2 srsrc, 3 soffset.
     * MAI:   0 A, 1 B, 2 C (SMFMAC: index), 3 and 4 the scales of the scaled forms.
     * VOPD:  sources of both instructions, for the checks.
     * TENSOR: 0 to 3, the groups of the descriptor (2 and 3: or none).
     * FLAT and MUBUF stores and atomics take their data from src[1]; loads have it NONE.
     */
    struct opnd src[INST_MAX_SRC];
    uint8_t counter[2]; /* enum wait_counter for what gfx9 counts as WAIT_VM and as WAIT_LGKM */
    uint8_t vgpr_msb;   /* wave->vgpr_msb for which the operands are decoded */
    bool takes_msb;     /* gfx1250: some register number depends on wave->vgpr_msb */
    uint8_t gfx;        /* enum gfx_target */
    uint8_t ndwords;
    uint32_t raw[INST_MAX_DWORDS];

    /* VALU */
    bool clamp;
    uint8_t omod;              /* 0 none, 1 *2, 2 *4, 3 /2 */
    uint8_t op_sel, op_sel_hi; /* bit per source; VOP3 op_sel bit 3 is the destination */
    uint8_t neg_lo, neg_hi;    /* VOP3P */
    uint16_t dpp_ctrl;
    uint32_t dpp_lanes; /* DPP_CTRL_8: the lane of a group of 8 that each lane reads, 3 bits each */
    uint8_t row_mask, bank_mask;
    bool bound_ctrl;             /* set: a lane without a source reads zero */
    bool fetch_inactive;         /* set: DPP reads lanes that EXEC excludes */
    uint8_t dst_sel, dst_unused; /* SDWA */
    uint8_t cbsz, abid, blgp;    /* MAI; byte selects of the f8f6f4 scales are op_sel, op_sel_hi */
    uint8_t bitop3;              /* V_BITOP3_*: truth table */
    uint32_t literal;            /* the 32-bit constant, including K of v_fmamk and v_fmaak */

    /* SALU */
    uint16_t simm16;
    uint64_t target; /* direct branches: offset of the target in the code range */

    /* Memory */
    int32_t imm_offset;       /* SMEM, FLAT, MUBUF: sign-extended as the format says */
    uint8_t offset0, offset1; /* DS; imm_offset is the combined 16-bit value */
    bool offen, idxen, lds, gds, sc0, sc1, nt;
    bool scale_offset; /* gfx1250: the address offset counts elements */

    struct inst *variant; /* atomic: the same instruction decoded for another wave->vgpr_msb; NULL:
                           * none so far */
    struct inst *pair[2]; /* ENC_VOPD: the two instructions; else NULL */
    struct straight *straight; /* atomic: the straight-line code from here on; NULL: not collected
                                * yet */
};

#endif
