/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes GFX9's microcode formats: dwords to operands. The layouts are those in the CDNA3 ISA
 * manual, chapter "Microcode Formats", and the CDNA4 manual for its additions.
 */
#include "decode_fields.h"

#include <string.h>

/* Returns the encoding of the instruction from its first dword. */
static enum encoding encoding_of(const struct inst *in)
{
    uint32_t w = in->raw[0];
    if (w >> 31 == 0) {
        if (bits(w, 31, 25) == 0x3f)
            return ENC_VOP1;
        return bits(w, 31, 25) == 0x3e ? ENC_VOPC : ENC_VOP2;
    }
    if (bits(w, 31, 30) == 2) {
        if (bits(w, 31, 23) == 0x17d)
            return ENC_SOP1;
        if (bits(w, 31, 23) == 0x17e)
            return ENC_SOPC;
        if (bits(w, 31, 23) == 0x17f)
            return ENC_SOPP;
        return bits(w, 31, 28) == 0xb ? ENC_SOPK : ENC_SOP2;
    }
    switch (bits(w, 31, 26)) {
    case 0x30: return ENC_SMEM;
    case 0x34:
        if (bits(w, 31, 23) != 0x1a7)
            return ENC_VOP3;
        return in->row->flags & ROW_MFMA || bits(w, 22, 17) == 0x2c ? ENC_MAI : ENC_VOP3P;
    case 0x36: return ENC_DS;
    case 0x37: return ENC_FLAT;
    case 0x38: return ENC_MUBUF;
    case 0x3a: return ENC_MTBUF;
    default: return ENC_UNKNOWN;
    }
}

/* Returns the bits of inline constant `code`, 240 .. 248, in a float format of `dwords` dwords. The
 * values are 0.5, -0.5, 1, -1, 2, -2, 4, -4 and 1/(2 pi). */
static uint64_t float_constant(enum type_class class, unsigned dwords, unsigned code)
{
    static const uint16_t f16[9] = {
        0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118,
    };
    static const uint16_t bf16[9] = {
        0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22,
    };
    static const uint32_t f32[9] = {
        0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
        0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983,
    };
    static const uint64_t f64[9] = {
        0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
        0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
        0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882,
    };
    code -= 240;
    switch (class) {
    case CLASS_F16:
    case CLASS_PK_F16: return f16[code];
    case CLASS_BF16:
    case CLASS_PK_BF16: return bf16[code];
    case CLASS_F64: return f64[code];
    case CLASS_F32:
    case CLASS_PK_F32:
    case CLASS_INT16: /* the low half of the f32, as in LLVM's getInlineEncodingV216() */
    case CLASS_PK_INT16: return f32[code];
    default: return dwords == 2 ? f64[code] : f32[code];
    }
}

uint64_t literal_value(uint16_t type, uint32_t literal)
{
    switch (TYPE_CLASS(type)) {
    case CLASS_F64: return (uint64_t)literal << 32;
    case CLASS_INT: return TYPE_DWORDS(type) == 2 ? (uint64_t)(int64_t)(int32_t)literal : literal;
    default: return literal;
    }
}

uint64_t inline_constant(uint16_t type, unsigned code)
{
    if (code >= 240)
        return float_constant(TYPE_CLASS(type), TYPE_DWORDS(type), code);
    return code <= 192 ? code - 128 : (uint64_t)(int64_t)(192 - (int)code);
}

/* Sets `o` to the operand of a 9-bit source field with value `code`: scalar, constant or VGPR.
 * False if the code is invalid. */
static bool set_source(struct inst *in, struct opnd *o, unsigned code, uint16_t type)
{
    set_register(o, OPND_SGPR, code, type);
    if (code >= 256) {
        set_register(o, OPND_VGPR, code - 256, type);
        return true;
    }
    if (code < SGPR_CODES)
        return true;
    o->kind = OPND_IMM;
    if (code <= 208 || (code >= 240 && code <= 248)) {
        o->imm = inline_constant(type, code);
    } else if (code == 255) {
        if (in->ndwords < 2)
            return false;
        in->literal = in->raw[in->ndwords - 1];
        in->form |= FORM_LITERAL;
        o->imm = literal_value(type, in->literal);
    } else {
        o->kind = OPND_SPECIAL;
    }
    return true;
}

/* Sets the operands of a scalar ALU instruction. False if one is invalid. */
static bool decode_salu(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0];
    in->simm16 = (uint16_t)w;
    if (row->dst && in->encoding != ENC_SOPC && in->encoding != ENC_SOPP)
        set_register(&in->dst, OPND_SGPR, bits(w, 22, 16), row->dst);
    switch (in->encoding) {
    case ENC_SOP2:
    case ENC_SOPC:
        return (!row->src[0] || set_source(in, &in->src[0], bits(w, 7, 0), row->src[0])) &&
               (!row->src[1] || set_source(in, &in->src[1], bits(w, 15, 8), row->src[1]));
    case ENC_SOP1: return !row->src[0] || set_source(in, &in->src[0], bits(w, 7, 0), row->src[0]);
    case ENC_SOPK:
        if (row->src[0])
            set_register(&in->src[0], OPND_SGPR, bits(w, 22, 16), row->src[0]);
        if (in->ndwords == 2)
            in->literal = in->raw[1];
        break;
    default: break;
    }
    in->target = in->offset + 4 + (uint64_t)(int64_t)(sign_extend(in->simm16, 16) * 4);
    return true;
}

/* Sets the operands of a scalar memory instruction. False if one is invalid. */
static bool decode_smem(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    if (row->src[0])
        set_register(&in->src[0], OPND_SGPR, bits(w, 5, 0) * 2, row->src[0]);
    bool soffset_en = bits(w, 14, 14), imm = bits(w, 17, 17);
    in->sc0 = bits(w, 16, 16);
    if (row->dst && returns_data(in))
        set_register(&in->dst, OPND_SGPR, bits(w, 12, 6), row->dst);
    if (row->src[2])
        set_register(&in->src[2], OPND_SGPR, bits(w, 12, 6), row->src[2]);
    in->nt = bits(w, 15, 15);
    if (imm)
        in->imm_offset = sign_extend(bits(w1, 20, 0), 21);
    if (row->src[1] && soffset_en)
        set_register(&in->src[1], OPND_SGPR, bits(w1, 31, 25), row->src[1]);
    else if (row->src[1] && !imm)
        set_register(&in->src[1], OPND_SGPR, bits(w1, 6, 0), row->src[1]);
    return true;
}

void set_dpp(struct inst *in, uint32_t w)
{
    in->form |= FORM_DPP;
    in->dpp_ctrl = (uint16_t)bits(w, 16, 8);
    in->bound_ctrl = bits(w, 19, 19);
    in->src[0].neg = bits(w, 20, 20);
    in->src[0].abs = bits(w, 21, 21);
    in->src[1].neg = bits(w, 22, 22);
    in->src[1].abs = bits(w, 23, 23);
    in->bank_mask = (uint8_t)bits(w, 27, 24);
    in->row_mask = (uint8_t)bits(w, 31, 28);
}

/* Sets the selects and modifiers of the SDWA dword. */
static void set_sdwa(struct inst *in, uint32_t w)
{
    in->form |= FORM_SDWA;
    in->dst_sel = SDWA_DWORD;
    if (in->encoding == ENC_VOPC) {
        if (bits(w, 15, 15))
            in->dst.reg = (uint16_t)bits(w, 14, 8);
    } else {
        in->dst_sel = (uint8_t)bits(w, 10, 8);
        in->dst_unused = (uint8_t)bits(w, 12, 11);
        in->clamp = bits(w, 13, 13);
        in->omod = (uint8_t)bits(w, 15, 14);
    }
    for (unsigned i = 0; i < 2; i++) {
        uint32_t f = w >> (16 + 8 * i);
        struct opnd *o = &in->src[i];
        o->sel = (uint8_t)bits(f, 2, 0);
        o->sext = bits(f, 3, 3);
        o->neg = bits(f, 4, 4);
        o->abs = bits(f, 5, 5);
        if (bits(f, 7, 7)) /* bit S: a scalar source */
            o->kind = o->kind == OPND_NONE ? OPND_NONE : OPND_SGPR;
    }
}

/* Decodes the 32-bit forms of VOP1, VOP2 and VOPC, with the literal, DPP or SDWA dword that may
 * follow. */
static bool decode_vop_short(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], src0 = bits(w, 8, 0);
    bool dpp = src0 == 250, sdwa = src0 == 249;
    if ((dpp || sdwa) && in->ndwords < 2)
        return false;
    if (dpp || sdwa)
        src0 = 256 + bits(in->raw[1], 7, 0);
    if (row->src[0] && !set_source(in, &in->src[0], src0, row->src[0]))
        return false;

    unsigned vdst = bits(w, 24, 17), vsrc1 = bits(w, 16, 9);
    if (in->encoding == ENC_VOP1) {
        if (row->dst)
            set_register(&in->dst, row->flags & ROW_SGPR_DST ? OPND_SGPR : OPND_VGPR, vdst,
                         row->dst);
    } else {
        set_register(&in->src[1], OPND_VGPR, vsrc1, row->src[1]);
        if (in->encoding == ENC_VOPC)
            set_register(&in->dst, OPND_SGPR, SGPR_VCC, row->dst);
        else
            set_register(&in->dst, OPND_VGPR, vdst, row->dst);
    }
    if (row->flags & ROW_LITERAL_K) {
        /* v_fmamk: D = S0 * K + S1; v_fmaak: D = S0 * S1 + K. row->arg is the source number of
         * K. */
        in->literal = in->raw[1];
        if (row->arg == 1)
            in->src[2] = in->src[1];
        struct opnd *k = &in->src[row->arg];
        set_register(k, OPND_IMM, 0, row->src[row->arg]);
        k->imm = in->literal;
    }
    if (sdwa) {
        set_sdwa(in, in->raw[1]);
        for (unsigned i = 0; i < 2; i++)
            if (in->src[i].kind == OPND_SGPR)
                if (!set_source(in, &in->src[i], i ? vsrc1 : bits(in->raw[1], 7, 0), row->src[i]))
                    return false;
        /* after set_source(), which resets the selects */
        set_sdwa(in, in->raw[1]);
    }
    if (dpp)
        set_dpp(in, in->raw[1]);
    return true;
}

void set_bitop3(struct inst *in, uint32_t w, uint32_t w1)
{
    const uint32_t omod = bits(w1, 28, 27);
    in->bitop3 = (uint8_t)(omod << 6 | bits(w, 10, 8) << 3 | bits(w1, 31, 29));
    in->omod = 0;
    for (unsigned i = 0; i < 3; i++)
        in->src[i].neg = in->src[i].abs = false;
}

/* Sets the operands of a VOP3 instruction. False if one is invalid. */
static bool decode_vop3(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    for (unsigned i = 0; i < 3; i++) {
        if (!row->src[i] || (i == 2 && row->flags & ROW_DST_IS_SRC && !row->src[3]))
            continue;
        struct opnd *o = &in->src[i];
        if (!set_source(in, o, bits(w1, 9 * i + 8, 9 * i), row->src[i]))
            return false;
        o->neg = w1 >> (29 + i) & 1;
    }
    bool scalar = row->dst == T_MASK || row->flags & ROW_SGPR_DST;
    if (row->dst)
        set_register(&in->dst, scalar ? OPND_SGPR : OPND_VGPR, bits(w, 7, 0), row->dst);
    in->clamp = bits(w, 15, 15);
    in->omod = (uint8_t)bits(w1, 28, 27);
    if (row->dst2) {
        set_register(&in->dst2, OPND_SGPR, bits(w, 14, 8), row->dst2);
    } else {
        in->op_sel = (uint8_t)bits(w, 14, 11);
        for (unsigned i = 0; i < 3; i++)
            in->src[i].abs = w >> (8 + i) & 1;
    }
    if (row->flags & ROW_BITOP3)
        set_bitop3(in, w, w1);
    return true;
}

/*
 * Makes source `k` of 64 bits one register if both results read the same dword: packed f32, and any
 * source of v_pk_mov_b32. Clang broadcasts a scalar this way and leaves the neighbouring register
 * undefined.
 */
static void narrow_pair(struct inst *in, unsigned k)
{
    struct opnd *o = &in->src[k];
    uint8_t bit = (uint8_t)(1 << k);
    bool high = in->op_sel & bit, moves = in->row->flags & ROW_OP_SEL;
    if (o->type != T_PKF32 || o->kind == OPND_IMM || o->kind == OPND_SPECIAL ||
        (!moves && high != !!(in->op_sel_hi & bit)))
        return;
    o->dwords = 1;
    o->reg += high;
    in->op_sel &= (uint8_t)~bit;
    in->op_sel_hi &= (uint8_t)~bit;
}

/* Sets the operands and modifiers of a VOP3P instruction. False if one is invalid. */
static bool decode_vop3p(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    set_packed(in, w, w1);
    for (unsigned i = 0; i < 3; i++) {
        if (!row->src[i])
            continue;
        /* The mix instructions read a source as f16, or as an f16 constant, if its op_sel_hi bit is
         * set. */
        bool half = row->flags & ROW_OP_SEL && row->src[i] == T_B32 && in->op_sel_hi >> i & 1;
        uint16_t type = half ? T_F16 : row->src[i];
        if (!set_source(in, &in->src[i], bits(w1, 9 * i + 8, 9 * i), type))
            return false;
        in->src[i].neg = in->neg_lo >> i & 1;
        in->src[i].abs = in->neg_hi >> i & 1;
        narrow_pair(in, i);
    }
    set_register(&in->dst, OPND_VGPR, bits(w, 7, 0), row->dst);
    return true;
}

/* Decodes matrix instructions. A scaled one is preceded by a VOP3P pair of dwords with the
 * scales. */
static bool decode_mai(struct inst *in)
{
    const struct op_row *row = in->row;
    unsigned first = in->ndwords == 4 ? 2 : 0;
    uint32_t w = in->raw[first], w1 = in->raw[first + 1];
    for (unsigned i = 0; i < 3; i++)
        if (row->src[i] && !set_source(in, &in->src[i], bits(w1, 9 * i + 8, 9 * i), row->src[i]))
            return false;
    set_register(&in->dst, OPND_VGPR, bits(w, 7, 0), row->dst);
    in->cbsz = (uint8_t)bits(w, 10, 8);
    in->abid = (uint8_t)bits(w, 14, 11);
    in->blgp = (uint8_t)bits(w1, 31, 29);
    if (row->src[0] == T_B256) { /* *_f8f6f4: 8, 6 or 4 registers, as the format needs */
        static const uint8_t dwords[] = {8, 8, 6, 6, 4, 8, 8, 8};
        in->src[0].dwords = dwords[in->cbsz];
        in->src[1].dwords = dwords[in->blgp];
    }
    bool accvgpr = bits(w, 22, 17) == 0x2c; /* v_accvgpr_read 0x58, v_accvgpr_write 0x59 */
    bool acc_cd = accvgpr ? bits(w, 16, 16) : bits(w, 15, 15);
    if (acc_cd)
        in->dst.kind = OPND_AGPR;
    if (acc_cd && in->src[2].kind == OPND_VGPR && !(row->flags & ROW_DST_IS_SRC))
        in->src[2].kind = OPND_AGPR;
    for (unsigned i = 0; i < 2; i++)
        if ((accvgpr ? !acc_cd : w1 >> (27 + i) & 1) && in->src[i].kind == OPND_VGPR)
            in->src[i].kind = OPND_AGPR;
    if (first) {
        uint32_t s = in->raw[0], s1 = in->raw[1];
        in->op_sel = (uint8_t)bits(s, 12, 11);
        in->op_sel_hi = (uint8_t)bits(s1, 28, 27);
        if (!set_source(in, &in->src[3], bits(s1, 8, 0), T_B32) ||
            !set_source(in, &in->src[4], bits(s1, 17, 9), T_B32))
            return false;
    }
    return true;
}

/* Sets the operands of an LDS instruction. False if one is invalid. */
static bool decode_ds(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    enum opnd_kind data = bits(w, 25, 25) ? OPND_AGPR : OPND_VGPR;
    set_ds_offsets(in, w);
    in->gds = bits(w, 16, 16);
    if (row->src[0])
        set_register(&in->src[0], OPND_VGPR, bits(w1, 7, 0), row->src[0]);
    if (row->src[1])
        set_register(&in->src[1], data, bits(w1, 15, 8), row->src[1]);
    if (row->src[2])
        set_register(&in->src[2], data, bits(w1, 23, 16), row->src[2]);
    if (row->dst)
        set_register(&in->dst, data, bits(w1, 31, 24), row->dst);
    return true;
}

/* Decodes FLAT, GLOBAL and SCRATCH; bits 15:14 say which. */
static bool decode_flat(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    enum opnd_kind data = bits(w1, 23, 23) ? OPND_AGPR : OPND_VGPR;
    unsigned segment = bits(w, 15, 14);
    in->imm_offset = segment ? sign_extend(bits(w, 12, 0), 13) : (int32_t)bits(w, 11, 0);
    in->sc0 = bits(w, 16, 16);
    in->nt = bits(w, 17, 17);
    in->sc1 = bits(w, 25, 25);
    unsigned saddr = bits(w1, 22, 16);
    bool has_saddr = segment && saddr != 0x7f;
    bool has_vaddr = segment != 1 || bits(w, 13, 13); /* scratch: bit SVE */
    if (has_saddr)
        set_register(&in->src[2], OPND_SGPR, saddr, segment == 1 ? T_U32 : T_U64);
    if (has_vaddr)
        set_register(&in->src[0], OPND_VGPR, bits(w1, 7, 0),
                     segment == 1 || has_saddr ? T_U32 : T_U64);
    if (row->src[1])
        set_register(&in->src[1], data, bits(w1, 15, 8), row->src[1]);
    if (row->dst && returns_data(in))
        set_register(&in->dst, data, bits(w1, 31, 24), row->dst);
    return true;
}

/* Sets the operands of a buffer instruction. False if one is invalid. */
static bool decode_mubuf(struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t w = in->raw[0], w1 = in->raw[1];
    enum opnd_kind data = bits(w1, 23, 23) ? OPND_AGPR : OPND_VGPR;
    in->imm_offset = (int32_t)bits(w, 11, 0);
    in->offen = bits(w, 12, 12);
    in->idxen = bits(w, 13, 13);
    in->sc0 = bits(w, 14, 14);
    if (in->encoding == ENC_MUBUF) {
        in->sc1 = bits(w, 15, 15);
        in->lds = bits(w, 16, 16);
        in->nt = bits(w, 17, 17);
    } else {
        in->sc1 = bits(w1, 21, 21);
        in->nt = bits(w1, 22, 22);
    }
    if (!row->src[2]) /* cache control has no operands */
        return true;
    if (in->offen || in->idxen)
        set_register(&in->src[0], OPND_VGPR, bits(w1, 7, 0),
                     in->offen && in->idxen ? T_U64 : T_U32);
    set_register(&in->src[2], OPND_SGPR, bits(w1, 20, 16) * 4, T_B128);
    if (row->src[1])
        set_register(&in->src[1], data, bits(w1, 15, 8), row->src[1]);
    if (row->dst && returns_data(in) && !in->lds)
        set_register(&in->dst, data, bits(w1, 15, 8), row->dst);
    return set_source(in, &in->src[3], bits(w1, 31, 24), T_U32);
}

/*
 * Replaces SDWA selects that the instruction does not have. V_CVT_F32_FP8 and _BF8 have the byte
 * selects, V_CVT_PK_F32_FP8 and _BF8 the upper word. Any other select means the lowest byte or word
 * (pseudo-code of CDNA3 ISA, VOP1).
 */
static void limit_selects(struct inst *in)
{
    const char *name = in->row->name;
    struct opnd *o = &in->src[0];
    if (!(in->form & FORM_SDWA) || (!strstr(name, "_f32_fp8") && !strstr(name, "_f32_bf8")))
        return;
    const bool known = strstr(name, "_pk_") ? o->sel == SDWA_WORD_1 : o->sel <= SDWA_BYTE_3;
    if (!known)
        o->sel = SDWA_DWORD;
}

unsigned set_old_value(struct inst *in)
{
    const struct op_row *row = in->row;
    const unsigned k = row->src[3] ? 3 : 2;
    if (!(row->flags & ROW_DST_IS_SRC) || !(row->flags & ROW_VALU))
        return INST_MAX_SRC;
    set_register(&in->src[k], (enum opnd_kind)in->dst.kind, in->dst.reg, row->src[k]);
    in->src[k].neg = in->src[k].abs = false;
    return k;
}

/* Adds the operands that no field of the encoding names. */
static void set_implicit(struct inst *in)
{
    const struct op_row *row = in->row;
    bool is_short = in->encoding == ENC_VOP1 || in->encoding == ENC_VOP2;
    if (is_short && row->dst2)
        set_register(&in->dst2, OPND_SGPR, SGPR_VCC, row->dst2);
    if (is_short && row->src[2] == T_MASK)
        set_register(&in->src[2], OPND_SGPR, SGPR_VCC, T_MASK);
    if (row->src[3] == T_MASK) /* v_div_fmas reads VCC */
        set_register(&in->src[3], OPND_SGPR, SGPR_VCC, T_MASK);
    if (row->flags & ROW_BRANCH && strncmp(row->name, "s_cbranch_vcc", 13) == 0)
        set_register(&in->src[0], OPND_SGPR, SGPR_VCC, T_MASK);
    set_old_value(in);
    if (row->flags & ROW_ACC_MOV)
        in->dst.kind = in->src[0].kind = OPND_AGPR;
}

/* Raises the instruction's highest register numbers to the operand's. False if a number is not
 * below `vgprs`, or for SGPRs `sgprs`. */
static bool track_operand(struct inst *in, const struct opnd *o, int vgprs, int sgprs)
{
    int last = o->reg + o->dwords - 1;
    int16_t *max = NULL;
    switch (o->kind) {
    case OPND_VGPR: max = &in->max_vgpr; break;
    case OPND_AGPR: max = &in->max_agpr; break;
    case OPND_SGPR: max = &in->max_sgpr; break;
    default: return true;
    }
    if (last >= (o->kind == OPND_SGPR ? sgprs : vgprs))
        return false;
    if (o->kind == OPND_SGPR && last >= SGPR_FLAT_SCRATCH) /* registers from there on are always
                                                              allocated */
        return true;
    if (last > *max)
        *max = (int16_t)last;
    return true;
}

bool summarize(struct inst *in, int vgprs, int sgprs)
{
    bool packed = in->encoding == ENC_VOP3P || in->encoding == ENC_MAI;
    for (unsigned i = 0; i < INST_MAX_SRC; i++) {
        const struct opnd *o = &in->src[i];
        if (o->kind != OPND_NONE)
            in->nsrc = (uint8_t)(i + 1);
        if (!packed && (o->neg || o->abs))
            in->form |= FORM_SRC_MODS;
        if (!track_operand(in, o, vgprs, sgprs))
            return false;
    }
    if (in->clamp || in->omod)
        in->form |= FORM_OUT_MODS;
    if (in->encoding == ENC_VOP3 && in->op_sel)
        in->form |= FORM_OP_SEL;
    return track_operand(in, &in->dst, vgprs, sgprs) && track_operand(in, &in->dst2, vgprs, sgprs);
}

bool decode_fields(struct inst *in)
{
    in->encoding = (uint8_t)encoding_of(in);
    bool ok = false;
    switch ((enum encoding)in->encoding) {
    case ENC_SOP1:
    case ENC_SOP2:
    case ENC_SOPK:
    case ENC_SOPC:
    case ENC_SOPP: ok = decode_salu(in); break;
    case ENC_SMEM: ok = in->ndwords == 2 && decode_smem(in); break;
    case ENC_VOP1:
    case ENC_VOP2:
    case ENC_VOPC: ok = decode_vop_short(in); break;
    case ENC_VOP3: ok = in->ndwords == 2 && decode_vop3(in); break;
    case ENC_VOP3P: ok = in->ndwords == 2 && decode_vop3p(in); break;
    case ENC_MAI: ok = in->ndwords >= 2 && decode_mai(in); break;
    case ENC_DS: ok = in->ndwords == 2 && decode_ds(in); break;
    case ENC_FLAT: ok = in->ndwords == 2 && decode_flat(in); break;
    case ENC_MUBUF:
    case ENC_MTBUF: ok = in->ndwords == 2 && decode_mubuf(in); break;
    default: break;
    }
    if (!ok)
        return false;
    limit_selects(in);
    set_implicit(in);
    return summarize(in, 256, SGPR_CODES);
}
