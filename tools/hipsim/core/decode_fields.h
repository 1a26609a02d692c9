/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_DECODE_FIELDS_H
#define HIPSIM_DECODE_FIELDS_H

#include "row.h"

/*
 * Sets encoding, form, operands and modifiers of an instruction of GFX9, whose row, size and dwords
 * are set. False if the dwords do not fit the row.
 */
bool decode_fields(struct inst *in);

/* Sets the members that decode_fields() sets, for an instruction of GFX12. The upper bits of VGPR
 * numbers come from in->vgpr_msb, which is 0 on targets without S_SET_VGPR_MSB. Sets
 * in->takes_msb. */
bool decode_fields_gfx12(struct inst *in);

/* Sets unused bits in the INST_MAX_DWORDS dwords of an instruction, which AMD's assembler leaves 0
 * and LLVM's disassembler requires to be 1; see isa->complete. */
void decode_complete_gfx1250(uint32_t *w);

/* Returns bits high:low of `word`. */
static inline uint32_t bits(uint32_t word, unsigned high, unsigned low)
{
    return word >> low & (uint32_t)((UINT64_C(1) << (high - low + 1)) - 1);
}

/* Returns the sign-extended value of the lower `width` bits. */
static inline int32_t sign_extend(uint32_t value, unsigned width)
{
    return (int32_t)(value << (32 - width)) >> (32 - width);
}

/* Makes `o` the registers of file `kind` that begin at number `reg`, as many as `type` has dwords.
 * Sets the SDWA select to the whole dword and keeps other modifiers. */
static inline void set_register(struct opnd *o, enum opnd_kind kind, unsigned reg, uint16_t type)
{
    o->kind = (uint8_t)kind;
    o->reg = (uint16_t)reg;
    o->type = type;
    o->dwords = (uint8_t)TYPE_DWORDS(type);
    o->sel = SDWA_DWORD;
}

/* Returns the bits that an operand of `type` (enum operand_type) reads for inline constant `code`,
 * 128 to 208 or 240 to 248. */
uint64_t inline_constant(uint16_t type, unsigned code);

/* Returns the bits that an operand of `type` (enum operand_type) reads for a 32-bit literal. */
uint64_t literal_value(uint16_t type, uint32_t literal);

/* Sets src[0] to a VGPR with abs and neg, and the DPP members, from the dword of a DPP16
 * operand. */
void set_dpp(struct inst *in, uint32_t word);

/* Sets in->bitop3, the truth table of V_BITOP3, from the VOP3 dwords `w` and `w1`. The table is in
 * the fields OMOD, ABS and NEG, which the instruction lacks; sets these members to 0. */
void set_bitop3(struct inst *in, uint32_t w, uint32_t w1);

/* Sets the modifiers of VOP3P from its dwords `w` and `w1`: op_sel, neg and clamp. */
static inline void set_packed(struct inst *in, uint32_t w, uint32_t w1)
{
    in->neg_hi = (uint8_t)bits(w, 10, 8);
    in->neg_lo = (uint8_t)bits(w1, 31, 29);
    in->op_sel = (uint8_t)bits(w, 13, 11);
    in->op_sel_hi = (uint8_t)(bits(w1, 28, 27) | bits(w, 14, 14) << 2);
    in->clamp = bits(w, 15, 15);
}

/* Sets the offsets of a DS instruction from its first dword. */
static inline void set_ds_offsets(struct inst *in, uint32_t w)
{
    in->imm_offset = (int32_t)bits(w, 15, 0);
    in->offset0 = (uint8_t)bits(w, 7, 0);
    in->offset1 = (uint8_t)bits(w, 15, 8);
}

/* True if the memory instruction writes registers. An atomic does so if in->sc0 is set. */
static inline bool returns_data(const struct inst *in)
{
    return !(in->row->flags & ROW_LOAD && in->row->flags & ROW_STORE) || in->sc0;
}

/* Sets the source that is the destination's old value, of a VALU instruction that has one. Returns
 * its index; INST_MAX_SRC if there is none. */
unsigned set_old_value(struct inst *in);

/* Sets in->nsrc, in->max_vgpr, max_agpr and max_sgpr, and the bits of in->form for modifiers.
 * `vgprs` and `sgprs` are the numbers of registers that the target has. False if an operand has a
 * register that does not exist. */
bool summarize(struct inst *in, int vgprs, int sgprs);

#endif
