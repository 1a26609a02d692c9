/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_DECODE_FIELDS_H
#define HIPSIM_DECODE_FIELDS_H

#include "row.h"

/*
 * Fills in encoding, form, operands and modifiers of an instruction with known row, size and raw
 * dwords. False if the dwords do not fit the row.
 */
bool decode_fields(struct inst *in);

/* Fills in an instruction of GFX12 like decode_fields(). The upper bits of VGPR numbers come from
 * in->vgpr_msb, which is 0 on targets without S_SET_VGPR_MSB; sets in->takes_msb. */
bool decode_fields_gfx12(struct inst *in);

/* Sets unused bits of an instruction of INST_MAX_DWORDS dwords, which AMD's assembler leaves 0 and
 * LLVM's disassembler requires; see isa->complete. */
void decode_complete_gfx1250(uint32_t *w);

/* Returns bits `high` to `low` of a word. */
static inline uint32_t bits(uint32_t word, unsigned high, unsigned low)
{
    return word >> low & (uint32_t)((UINT64_C(1) << (high - low + 1)) - 1);
}

static inline int32_t sign_extend(uint32_t value, unsigned width)
{
    return (int32_t)(value << (32 - width)) >> (32 - width);
}

/* Makes `o` the registers of file `kind` from `reg` on, as many as `type` has dwords. Does not
 * change modifiers other than SDWA's select, which becomes the whole dword. */
static inline void set_register(struct opnd *o, enum opnd_kind kind, unsigned reg, uint16_t type)
{
    o->kind = (uint8_t)kind;
    o->reg = (uint16_t)reg;
    o->type = type;
    o->dwords = (uint8_t)TYPE_DWORDS(type);
    o->sel = SDWA_DWORD;
}

/* Returns the bits of an inline constant, code 128 to 208 or 240 to 248, as an operand of `type`
 * (enum operand_type) reads it. */
uint64_t inline_constant(uint16_t type, unsigned code);

/* Returns the bits of a 32-bit literal as an operand of `type` (enum operand_type) reads it. */
uint64_t literal_value(uint16_t type, uint32_t literal);

/* Sets src[0] as an 8-bit VGPR, abs, neg and the DPP fields from the dword of a DPP16 operand. */
void set_dpp(struct inst *in, uint32_t word);

/* Sets in->bitop3, the truth table of V_BITOP3, from the VOP3 dwords `w` and `w1`. The table is in
 * the fields of OMOD, ABS and NEG, which the instruction does not have; sets all three to 0. */
void set_bitop3(struct inst *in, uint32_t w, uint32_t w1);

/* Sets in->nsrc, the highest registers (max_vgpr and others) and the modifiers' bits of in->form.
 * `vgprs` and `sgprs` are the numbers of registers that the target has. False if an operand has a
 * register that does not exist. */
bool summarize(struct inst *in, int vgprs, int sgprs);

#endif
