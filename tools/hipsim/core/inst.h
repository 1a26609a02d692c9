/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoded instruction.
 *
 * An instruction is decoded once per code object (decode.h) and executed by all waves that reach
 * it. LLVM's disassembler provides the mnemonic and the length. The members are read from the
 * dwords according to the ISA manuals, chapter "Microcode Formats". Apart from members called
 * atomic, a decoded instruction never changes, so every host thread may read it.
 */
#ifndef HIPSIM_INST_H
#define HIPSIM_INST_H

#include <stdbool.h>
#include <stdint.h>

struct wave;
struct op_row;
struct straight;

/* Register numbers of the scalar file, as GFX9 encodes them. GFX12 encodes NULL as 124 and M0 as
 * 125; its decoder changes them to these numbers. */
enum sgpr_number {
    SGPR_FLAT_SCRATCH = 102, /* registers 102 and 103 */
    SGPR_XNACK_MASK = 104,   /* registers 104 and 105 */
    SGPR_VCC = 106,          /* registers 106 and 107 */
    SGPR_TTMP0 = 108,        /* registers 108 to 123 */
    SGPR_M0 = 124,
    SGPR_EXEC = 126,  /* registers 126 and 127 */
    SGPR_CODES = 128, /* end of the numbers that are encoded */
    SGPR_NULL = 128,  /* registers 128 to 143: destination of writes to GFX12's NULL; never read */
    SGPR_FILE = 192,
};

/* Codes of sources after the scalar file, for operands of kind OPND_SPECIAL. */
enum special_source {
    SPECIAL_FLAT_SCRATCH_LO = 230, /* gfx1250 only */
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
    ENC_VOPD, /* GFX12: two vector instructions in one */
    ENC_TENSOR,
    ENC_UNKNOWN,
};

enum opnd_kind {
    OPND_NONE,
    OPND_VGPR,    /* reg is 0 to 255, on gfx1250 0 to 1023 */
    OPND_AGPR,    /* reg is 0 to 255 */
    OPND_SGPR,    /* reg is an enum sgpr_number */
    OPND_IMM,     /* imm is an inline constant or literal, expanded to the operand's type */
    OPND_SPECIAL, /* reg is an enum special_source */
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
    uint8_t dwords; /* number of registers that begin at `reg` */
    uint16_t reg;
    uint16_t type; /* T_* of row.h */
    bool neg;      /* float modifiers of a source; in VOP3P `neg` is neg_lo and `abs` is neg_hi */
    bool abs;
    bool sext;   /* SDWA: the selected byte or word is sign-extended */
    uint8_t sel; /* SDWA: enum sdwa_sel; SDWA_DWORD elsewhere */
    uint64_t imm;
};

/* True if both operands are registers of the same kind and have one in common. */
static inline bool opnd_overlap(const struct opnd *a, const struct opnd *b)
{
    return a->kind == b->kind && a->kind != OPND_NONE && a->reg < b->reg + b->dwords &&
           b->reg < a->reg + a->dwords;
}

/* Properties with which an instruction cannot use the fast path for plain ones; see exec_valu.c. */
enum inst_form {
    FORM_PLAIN = 0,
    FORM_DPP = 1 << 0,
    FORM_SDWA = 1 << 1,
    FORM_SRC_MODS = 1 << 2, /* a source has neg, abs or sext; not set in VOP3P */
    FORM_OUT_MODS = 1 << 3, /* the instruction has clamp or omod */
    FORM_OP_SEL = 1 << 4,   /* VOP3's op_sel is not 0 */
    FORM_LITERAL = 1 << 5,  /* a 32-bit literal is part of the instruction */
    FORM_HALF = 1 << 6,     /* GFX12: a 16-bit result; the register's other half keeps its value */
};

/* Value of inst->dpp_ctrl for DPP8, which has no field DPP_CTRL; DPP16 cannot encode it. */
#define DPP_CTRL_8 0x200

#define INST_MAX_SRC 6
#define INST_MAX_DWORDS 4

struct inst {
    /* Members that every execution reads are first and share a cache line of the host. */
    void (*exec)(struct wave *w, const struct inst *in);
    const struct op_row *row; /* op row; NULL: the words are no instruction, and `exec` faults */
    uint64_t offset;          /* byte offset of the instruction in its code range */
    uint8_t size;             /* bytes of the instruction */
    uint8_t nsrc;
    uint8_t encoding; /* enum encoding */
    uint8_t form;     /* enum inst_form bits */
    uint16_t clocks;  /* clocks until the wave may issue its next instruction */
    /* passes of a matrix instruction, 4 clocks each; 0: another instruction */
    uint8_t matrix_passes;

    /* True: a vector operation without modifiers other than abs, neg and op_sel. Each source and
     * the result are one or two dwords or a lane mask. Plain instructions may be part of
     * straight-line code, and execute_plain() executes them unless `plain_packs` is set. */
    bool plain;
    /* true: a plain instruction whose result needs a buffer, since it overlaps a float source */
    bool plain_aside;
    bool plain_packs; /* true: a plain VOP3P instruction with op_sel or neg */
    /* bits of MODE that must be set for a plain instruction; denormals are flushed if one is not */
    uint8_t plain_mode;

    /* Members that the checks set when the instruction is decoded. */
    uint8_t bit_op; /* check_uninit.c: operation that derives defined bits; 0: none */
    /* check_hazard.c: most wait states that a plain vector instruction needs after this one */
    uint8_t hazard_reach;
    uint8_t hazard_states;  /* check_hazard.c: wait states that this instruction provides */
    uint8_t hazard_part;    /* check_hazard.c: enum hazard_part */
    uint16_t hazard_traits; /* check_hazard.c: properties of the mnemonic */
    /* atomic; enum check_bits: straight-line code up to here is free of hazards under these
     * checks */
    uint16_t hazard_free;
    /* atomic; the same if no matrix instruction is among the last instructions before the code */
    uint16_t hazard_others_free;

    /* Highest register used in each file; -1: none. Compared with the kernel's allocation. */
    int16_t max_vgpr, max_agpr, max_sgpr;

    struct opnd dst;  /* vdst or sdst; for loads the data register */
    struct opnd dst2; /* second result: sdst of VOP3B, carry out, VCC of VOPC */
    /*
     * Sources, by index:
     * VALU, SALU: as in assembly; VOP2 with carry-in has the carry mask as src[2].
     * SMEM:  0 sbase, 1 soffset register (or none), 2 data (stores, atomics).
     * DS:    0 address, 1 data0, 2 data1.
     * FLAT:  0 vaddr (or none: off), 1 data, 2 saddr (or none).
     * MUBUF: 0 vaddr (1 or 2 registers by offen+idxen, or none), 1 data, 2 srsrc, 3 soffset.
     * MAI:   0 A, 1 B, 2 C (SMFMAC: index), 3 and 4 the scales of the scaled forms.
     * VOPD:  sources of both instructions, for the checks.
     * TENSOR: 0 to 3, the groups of the descriptor (2 and 3: or none).
     * FLAT and MUBUF stores and atomics have their data in src[1]; loads have kind OPND_NONE there.
     */
    struct opnd src[INST_MAX_SRC];
    /* counters (enum wait_counter) on this target of operations that GFX9 counts as WAIT_VM and as
     * WAIT_LGKM */
    uint8_t counter[2];
    uint8_t vgpr_msb; /* value of wave->vgpr_msb for which the operands are decoded */
    bool takes_msb;   /* gfx1250: a register number depends on wave->vgpr_msb */
    uint8_t gfx;      /* enum gfx_target */
    uint8_t ndwords;
    uint32_t raw[INST_MAX_DWORDS];

    /* Members of vector instructions. */
    bool clamp;
    uint8_t omod;              /* 0: none, 1: * 2, 2: * 4, 3: / 2 */
    uint8_t op_sel, op_sel_hi; /* a bit per source; bit 3 of VOP3's op_sel is the destination */
    uint8_t neg_lo, neg_hi;    /* a bit per source; VOP3P only */
    uint16_t dpp_ctrl;
    uint32_t dpp_lanes; /* DPP8: 3 bits per lane of a group of 8, the lane that it reads */
    uint8_t row_mask, bank_mask;
    bool bound_ctrl;     /* true: a lane without a source reads zero */
    bool fetch_inactive; /* true: DPP reads lanes that EXEC excludes */
    /* SDWA: the part of the destination that is written (enum sdwa_sel), and the treatment of its
     * other bits */
    uint8_t dst_sel, dst_unused;
    /* matrix instructions; op_sel and op_sel_hi select the bytes of f8f6f4 scales */
    uint8_t cbsz, abid, blgp;
    uint8_t bitop3;   /* truth table of V_BITOP3_* */
    uint32_t literal; /* 32-bit constant, also the K of v_fmamk and v_fmaak */

    /* Members of scalar instructions. */
    uint16_t simm16;
    uint64_t target; /* byte offset of a direct branch's target in the code range */

    /* Members of memory instructions. */
    /* SMEM, FLAT, MUBUF: byte offset, sign-extended if the format says so */
    int32_t imm_offset;
    uint8_t offset0, offset1; /* DS: the two offsets; imm_offset is the 16-bit value of both */
    bool offen, idxen, lds, gds, sc0, sc1, nt;
    bool scale_offset; /* GFX12: the address register counts elements */

    /* atomic; the instruction decoded for another wave->vgpr_msb; NULL: none yet */
    struct inst *variant;
    struct inst *pair[2]; /* the two instructions of ENC_VOPD; otherwise NULL */
    /* atomic; straight-line code that begins here; NULL: not collected yet */
    struct straight *straight;
};

#endif
