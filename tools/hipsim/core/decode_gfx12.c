/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes GFX12's microcode formats, of gfx1201 and gfx1250: dwords to operands. The layouts are
 * those in the CDNA5 ISA manual, chapter 14 "Microcode Formats", and the RDNA4 manual's chapter 15.
 * Section 3.3.2.3 "Waves with up to 1024 VGPRs" and LLVM's AMDGPULowerVGPREncoding say which
 * operands have which of gfx1250's upper VGPR bits. A lane mask is one SGPR, since waves have 32
 * lanes.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "decode_fields.h"

/* Codes of operands that differ from GFX9's. */
enum {
    CODE_NULL = 124,
    CODE_M0 = 125,
    CODE_DPP8 = 233,
    CODE_DPP8_FI = 234,
    CODE_DPP16 = 250,
    CODE_LITERAL64 = 254,
    CODE_LITERAL32 = 255,
};

/* Index of an operand's two bits in wave->vgpr_msb; MSB_NONE: it has none. */
enum msb_of { MSB_SRC0, MSB_SRC1, MSB_SRC2, MSB_DST, MSB_NONE };

/* Returns the encoding of the instruction from its first dword. */
static enum encoding encoding_of(const struct inst *in)
{
    const uint32_t w = in->raw[0];
    if (w >> 31 == 0)
        return bits(w, 31, 25) == 0x3f ? ENC_VOP1 : bits(w, 31, 25) == 0x3e ? ENC_VOPC : ENC_VOP2;
    if (bits(w, 31, 30) == 2) {
        switch (bits(w, 31, 23)) {
        case 0x17d: return ENC_SOP1;
        case 0x17e: return ENC_SOPC;
        case 0x17f: return ENC_SOPP;
        default: return bits(w, 31, 28) == 0xb ? ENC_SOPK : ENC_SOP2;
        }
    }
    switch (bits(w, 31, 26)) {
    case 0x31: return ENC_MUBUF;
    case 0x32: return ENC_VOPD;
    case 0x33:
        return bits(w, 31, 24) == 0xcf ? ENC_VOPD : in->row->flags & ROW_MFMA ? ENC_MAI : ENC_VOP3P;
    case 0x34: return ENC_TENSOR;
    case 0x35: return ENC_VOP3;
    case 0x36: return ENC_DS;
    case 0x3b: return ENC_FLAT;
    case 0x3d: return ENC_SMEM;
    default: return ENC_UNKNOWN;
    }
}

/* Makes `o` a VGPR: `code` has the lower 8 bits of its number, in->vgpr_msb the bits above for
 * index `at`. */
static void set_vgpr(struct inst *in, struct opnd *o, unsigned code, uint16_t type, enum msb_of at)
{
    const unsigned upper = at == MSB_NONE ? 0 : in->vgpr_msb >> 2 * at & 3u;
    set_register(o, OPND_VGPR, upper << 8 | code, type);
    in->takes_msb |= at != MSB_NONE;
}

/* Makes `o` the scalar register with code `code`. NULL becomes the constant 0. */
static void set_sgpr(struct opnd *o, unsigned code, uint16_t type)
{
    set_register(o, OPND_SGPR, code == CODE_M0 ? (unsigned)SGPR_M0 : code, type);
    if (type == T_MASK)
        o->dwords = 1;
    if (code == CODE_NULL)
        o->kind = OPND_IMM;
}

/* Makes `o` the scalar destination with code `code`. Writes to NULL go to a register that is never
 * read. */
static void set_sgpr_dst(struct opnd *o, unsigned code, uint16_t type)
{
    set_sgpr(o, code, type);
    if (code == CODE_NULL) {
        o->kind = OPND_SGPR;
        o->reg = SGPR_NULL;
    }
}

/* Sets the operand to the literal at the end of the instruction. `wide`: it has 2 dwords. False if
 * it is missing. */
static bool set_literal(struct inst *in, struct opnd *o, bool wide)
{
    const unsigned dwords = wide ? 2 : 1;
    if (in->ndwords <= dwords)
        return false;
    const uint32_t *at = in->raw + in->ndwords - dwords;
    in->literal = at[0];
    in->form |= FORM_LITERAL;
    o->imm = wide ? at[0] | (uint64_t)at[1] << 32 : literal_value(o->type, at[0]);
    return true;
}

/* Returns the bits that an operand of `type` reads for inline constant `code`. gfx1201's dot
 * products of bf16, its only instructions with pairs of bf16, read it in both halves (RDNA4 ISA,
 * 7.2.2 and 7.7.2). */
static uint64_t constant_of(const struct inst *in, uint16_t type, unsigned code)
{
    const uint64_t value = inline_constant(type, code);
    return type == T_PKBF16 && in->gfx == GFX1201 ? (value & 0xffff) * 0x10001 : value;
}

/* Sets `o` to the operand of a 9-bit source field with value `code`: scalar, constant or VGPR. `at`
 * names a VGPR's upper bits. False if the code is invalid. */
static bool set_source(struct inst *in, struct opnd *o, unsigned code, uint16_t type,
                       enum msb_of at)
{
    if (code >= 256) {
        set_vgpr(in, o, code - 256, type, at);
        return true;
    }
    set_sgpr(o, code, type);
    if (code < SGPR_CODES)
        return true;
    o->kind = OPND_IMM;
    if (code <= 208 || (code >= 240 && code <= 248))
        o->imm = constant_of(in, type, code);
    else if (code == CODE_LITERAL32 || code == CODE_LITERAL64)
        return set_literal(in, o, code == CODE_LITERAL64);
    else
        o->kind = OPND_SPECIAL;
    return true;
}

/* True if the type has 16 bits. */
static bool is_half(uint16_t type)
{
    const enum type_class class = TYPE_CLASS(type);
    return class == CLASS_F16 || class == CLASS_BF16 || class == CLASS_INT16;
}

/* The functions from here on decode scalar instructions. */

/* Sets source k from its code. False if the code is invalid. */
static bool scalar_source(struct inst *in, unsigned k, unsigned code)
{
    const uint16_t type = in->row->src[k];
    return !type || set_source(in, &in->src[k], code, type, MSB_NONE);
}

/* Sets the operands of a scalar ALU instruction. False if one is invalid. */
static bool decode_salu(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0];
    in->simm16 = (uint16_t)w;
    in->target = in->offset + 4 + (uint64_t)(int64_t)(sign_extend(in->simm16, 16) * 4);
    if (row->dst && in->encoding != ENC_SOPC && in->encoding != ENC_SOPP)
        set_sgpr_dst(&in->dst, bits(w, 22, 16), row->dst);
    switch (in->encoding) {
    case ENC_SOP2:
        if (row->flags & ROW_LITERAL_K) { /* s_fmaak, s_fmamk: row->arg is the source number of K */
            if (in->ndwords < 2 || !scalar_source(in, 0, bits(w, 7, 0)) ||
                !scalar_source(in, row->arg == 1 ? 2 : 1, bits(w, 15, 8)))
                return false;
            set_register(&in->src[row->arg], OPND_IMM, 0, row->src[row->arg]);
            in->src[row->arg].imm = in->literal = in->raw[1];
            return true;
        }
        if (row->flags & ROW_DST_IS_SRC) /* s_fmac */
            in->src[2] = in->dst;
        return scalar_source(in, 0, bits(w, 7, 0)) && scalar_source(in, 1, bits(w, 15, 8));
    case ENC_SOPC:
        return scalar_source(in, 0, bits(w, 7, 0)) && scalar_source(in, 1, bits(w, 15, 8));
    case ENC_SOP1: return scalar_source(in, 0, bits(w, 7, 0));
    case ENC_SOPK:
        if (row->src[0])
            set_sgpr(&in->src[0], bits(w, 22, 16), row->src[0]);
        if (in->ndwords == 2)
            in->literal = in->raw[1];
        return true;
    default: return true;
    }
}

/* Sets the operands of a scalar memory instruction. False if one is invalid. */
static bool decode_smem(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1];
    in->imm_offset = sign_extend(bits(w1, 23, 0), 24);
    in->scale_offset = bits(w1, 24, 24);
    in->counter[1] = WAIT_KM;
    if (row->src[0])
        set_register(&in->src[0], OPND_SGPR, bits(w, 5, 0) * 2, row->src[0]);
    if (row->src[1] && bits(w1, 31, 25) != CODE_NULL)
        set_sgpr(&in->src[1], bits(w1, 31, 25), row->src[1]);
    if (row->dst)
        set_sgpr_dst(&in->dst, bits(w, 12, 6), row->dst);
    return true;
}

/* The functions from here on decode vector ALU instructions. */

/* Sets the lane selects of a DPP8 dword. */
static void set_dpp8(struct inst *in, uint32_t word, bool fetch_inactive)
{
    in->form |= FORM_DPP;
    in->dpp_ctrl = DPP_CTRL_8;
    in->dpp_lanes = word >> 8;
    in->bound_ctrl = true;
    in->fetch_inactive = fetch_inactive;
    in->bank_mask = in->row_mask = 0xf;
}

/* Reads the DPP dword if `code`, the field of source 0, says that there is one after `size` dwords.
 * Returns the code of source 0's VGPR, or `code` if there is none. */
static unsigned read_dpp(struct inst *in, unsigned code, unsigned size)
{
    if (code != CODE_DPP8 && code != CODE_DPP8_FI && code != CODE_DPP16)
        return code;
    const uint32_t word = in->raw[size];
    if (code == CODE_DPP16) {
        struct opnd kept[2] = {in->src[0], in->src[1]};
        set_dpp(in, word);
        in->fetch_inactive = bits(word, 18, 18);
        if (size == 2) { /* VOP3 has its own abs and neg */
            in->src[0] = kept[0];
            in->src[1] = kept[1];
        }
    } else {
        set_dpp8(in, word, code == CODE_DPP8_FI);
    }
    return 256 + (word & 0xff);
}

/* Makes a VGPR operand of 16 bits in a short encoding a half of v[number & 127]. Bit 7 of the
 * number selects the upper half, which sets op_sel bit `bit`. */
static void select_half(struct inst *in, struct opnd *o, unsigned bit)
{
    if (o->kind != OPND_VGPR || !is_half(o->type))
        return;
    if (o->reg & 0x80)
        in->op_sel |= (uint8_t)(1 << bit);
    o->reg &= (uint16_t)~0x80;
}

/* Sets source `k` as set_source() does, but keeps abs and neg, which DPP has set. */
static bool short_source(struct inst *in, unsigned k, unsigned code, enum msb_of at)
{
    const bool neg = in->src[k].neg, abs = in->src[k].abs;
    if (!set_source(in, &in->src[k], code, in->row->src[k], at))
        return false;
    in->src[k].neg = neg;
    in->src[k].abs = abs;
    return true;
}

/* Sets the literal constant of v_fmamk and v_fmaak; row->arg is its source number. */
static bool set_constant_k(struct inst *in)
{
    const struct op_row *row = in->row;
    struct opnd *k = &in->src[row->arg];
    if (row->arg == 1) {
        in->src[2] = in->src[1];
        if (in->takes_msb)
            in->src[2].reg =
                (uint16_t)((in->src[2].reg & 0xff) | (in->vgpr_msb >> 2 * MSB_SRC2 & 3u) << 8);
    }
    set_register(k, OPND_IMM, 0, row->src[row->arg]);
    return set_literal(in, k, TYPE_CLASS(row->src[0]) == CLASS_F64);
}

/* Sets the operands of a VOP1, VOP2 or VOPC instruction. False if one is invalid. */
static bool decode_vop_short(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0];
    const unsigned code = bits(w, 8, 0), vdst = bits(w, 24, 17);
    const bool compares = in->encoding == ENC_VOPC;
    const bool dpp = code == CODE_DPP8 || code == CODE_DPP8_FI || code == CODE_DPP16;

    if (dpp && in->ndwords < 2)
        return false;
    if (row->src[0] && !short_source(in, 0, read_dpp(in, code, 1), MSB_SRC0))
        return false;
    if (in->encoding != ENC_VOP1 && !short_source(in, 1, 256 + bits(w, 16, 9), MSB_SRC1))
        return false;
    if (compares)
        set_sgpr(&in->dst, row->flags & ROW_CMPX ? SGPR_EXEC : SGPR_VCC, row->dst);
    else if (row->dst && row->flags & ROW_SGPR_DST)
        set_sgpr_dst(&in->dst, vdst, row->dst);
    else if (row->dst)
        set_vgpr(in, &in->dst, vdst, row->dst, MSB_DST);
    if (row->flags & ROW_LITERAL_K && !set_constant_k(in))
        return false;
    for (unsigned k = 0; k < 3; k++)
        select_half(in, &in->src[k], k);
    select_half(in, &in->dst, 3);
    if (in->op_sel)
        in->encoding = ENC_VOP3; /* the encoding with op_sel */
    if (row->dst2)
        set_sgpr(&in->dst2, SGPR_VCC, row->dst2);
    if (row->src[2] == T_MASK)
        set_sgpr(&in->src[2], SGPR_VCC, T_MASK);
    return true;
}

/* Sets the operands of a VOP3 instruction. False if one is invalid. */
static bool decode_vop3(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1];
    unsigned code = bits(w1, 8, 0);

    if ((code == CODE_DPP8 || code == CODE_DPP8_FI || code == CODE_DPP16) && in->ndwords < 3)
        return false;
    code = read_dpp(in, code, 2);
    for (unsigned i = 0; i < 3; i++) {
        if (!row->src[i] || (i == 2 && row->flags & ROW_DST_IS_SRC && !row->src[3]))
            continue;
        struct opnd *o = &in->src[i];
        if (!set_source(in, o, i ? bits(w1, 9 * i + 8, 9 * i) : code, row->src[i], (enum msb_of)i))
            return false;
        o->neg = w1 >> (29 + i) & 1;
        o->abs = !row->dst2 && w >> (8 + i) & 1;
    }
    if (row->dst == T_MASK || row->flags & ROW_SGPR_DST)
        set_sgpr_dst(&in->dst, bits(w, 6, 0), row->dst);
    else if (row->dst)
        set_vgpr(in, &in->dst, bits(w, 7, 0), row->dst, MSB_DST);
    in->clamp = bits(w, 15, 15);
    in->omod = (uint8_t)bits(w1, 28, 27);
    if (row->dst2)
        set_sgpr_dst(&in->dst2, bits(w, 14, 8), row->dst2);
    else
        in->op_sel = (uint8_t)bits(w, 14, 11);
    if (row->src[3] == T_MASK) /* v_div_fmas reads VCC */
        set_sgpr(&in->src[3], SGPR_VCC, T_MASK);
    if (row->flags & ROW_BITOP3)
        set_bitop3(in, w, w1);
    return true;
}

/* Makes source `k` of a packed f32 operation one register if both results read the same dword.
 * Scalars and constants are one dword for both results (CDNA5 ISA, 7.7.1). */
static void narrow_pair(struct inst *in, unsigned k)
{
    struct opnd *o = &in->src[k];
    const uint8_t bit = (uint8_t)(1 << k);
    const bool high = in->op_sel & bit;
    if (o->type != T_PKF32)
        return;
    if (o->kind == OPND_IMM)
        o->imm |= o->imm << 32;
    else if (o->kind != OPND_VGPR)
        o->dwords = 1;
    else if (high != !!(in->op_sel_hi & bit))
        return;
    else {
        o->dwords = 1;
        o->reg = (uint16_t)(o->reg + high);
    }
    in->op_sel &= (uint8_t)~bit;
    in->op_sel_hi = o->kind == OPND_IMM ? in->op_sel_hi | bit : in->op_sel_hi & (uint8_t)~bit;
}

/* Sets the operands and modifiers of a VOP3P instruction. False if one is invalid. */
static bool decode_vop3p(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1];
    set_packed(in, w, w1);
    for (unsigned i = 0; i < 3; i++) {
        if (!row->src[i])
            continue;
        /* The mix instructions read a source as row->arg, f16 or bf16, if its op_sel_hi bit is
         * set. */
        const bool half = row->flags & ROW_OP_SEL && row->src[i] == T_B32 && in->op_sel_hi >> i & 1;
        unsigned code = bits(w1, 9 * i + 8, 9 * i);
        if (i == 0 && in->ndwords > 2)
            code = read_dpp(in, code, 2);
        if (!set_source(in, &in->src[i], code, half ? (enum operand_type)row->arg : row->src[i],
                        (enum msb_of)i))
            return false;
        in->src[i].neg = in->neg_lo >> i & 1;
        in->src[i].abs = in->neg_hi >> i & 1;
        narrow_pair(in, i);
    }
    set_vgpr(in, &in->dst, bits(w, 7, 0), row->dst, MSB_DST);
    return true;
}

/* Decodes WMMA. A scaled one is preceded by a VOP3P pair of dwords with the scales, whose registers
 * have no upper bits. */
static bool decode_wmma(struct inst *in)
{
    const struct op_row *row = in->row;
    const unsigned first = in->ndwords == 4 ? 2 : 0;
    const uint32_t w = in->raw[first], w1 = in->raw[first + 1];
    set_packed(in, w, w1);
    for (unsigned i = 0; i < 3; i++)
        if (row->src[i] &&
            !set_source(in, &in->src[i], bits(w1, 9 * i + 8, 9 * i), row->src[i], (enum msb_of)i))
            return false;
    set_vgpr(in, &in->dst, bits(w, 7, 0), row->dst, MSB_DST);
    if (row->src[1] == T_B512 && row->flags & ROW_OP_SEL) { /* f8f6f4: as many registers as the
                                                               format needs */
        static const uint8_t dwords[8] = {16, 16, 12, 12, 8, 16, 16, 16};
        in->src[0].dwords = dwords[in->op_sel];
        in->src[1].dwords = dwords[in->op_sel_hi];
    }
    return !first || (set_source(in, &in->src[3], bits(in->raw[1], 8, 0), row->src[3], MSB_NONE) &&
                      set_source(in, &in->src[4], bits(in->raw[1], 17, 9), row->src[4], MSB_NONE));
}

/* The functions from here on decode two instructions in one. */

/* Mnemonics of the opcodes of VOPD and VOPD3 (CDNA5 ISA, tables 100 to 104). */
static const char *const dual_rows[64] = {
    [0] = "v_fmac_f32",     [1] = "v_fmaak_f32",        [2] = "v_fmamk_f32",
    [3] = "v_mul_f32",      [4] = "v_add_f32",          [5] = "v_sub_f32",
    [6] = "v_subrev_f32",   [7] = "v_mul_dx9_zero_f32", [8] = "v_mov_b32",
    [9] = "v_cndmask_b32",  [10] = "v_max_num_f32",     [11] = "v_min_num_f32",
    [16] = "v_add_nc_u32",  [17] = "v_lshlrev_b32",     [18] = "v_bitop2_b32",
    [19] = "v_fma_f32",     [20] = "v_sub_nc_u32",      [21] = "v_lshrrev_b32",
    [22] = "v_ashrrev_i32", [23] = "v_max_i32",         [24] = "v_min_i32",
    [32] = "v_fma_f64",     [33] = "v_add_f64",         [34] = "v_mul_f64",
    [35] = "v_max_num_f64", [36] = "v_min_num_f64",
};

/* Returns the op row of a VOPD opcode; NULL if there is none. gfx1201 has V_DUAL_AND_B32 where
 * gfx1250 has V_DUAL_BITOP2_B32 (RDNA4 ISA, 7.8). */
static const struct op_row *dual_row(enum gfx_target target, unsigned op)
{
    enum { LOGIC = 18 };
    const bool and = op == LOGIC && !isa_of(target)->upper_vgprs;
    const char *const name = and ? "v_and_b32" : dual_rows[op];
    return name ? row_find(target, name) : NULL;
}

/* Encoded fields of one of the two instructions of a VOPD. */
struct half_fields {
    unsigned op, src0, vsrc1, vsrc2, vdst, neg;
};

/* Returns the fields of one half of a pair. `three`: the pair has 3 dwords. `second`: the second
 * half. */
static struct half_fields half_of(const struct inst *in, bool three, bool second)
{
    const uint32_t w = in->raw[0], w1 = in->raw[1];
    if (three) {
        const uint32_t w2 = in->raw[2];
        return second ? (struct half_fields){bits(w, 17, 12),  bits(w1, 8, 0),   bits(w2, 15, 8),
                                             bits(w2, 23, 16), bits(w2, 31, 24), bits(w1, 14, 12)}
                      : (struct half_fields){bits(w, 23, 18),  bits(w, 8, 0),  bits(w1, 23, 16),
                                             bits(w1, 31, 24), bits(w2, 7, 0), bits(w1, 11, 9)};
    }
    const unsigned x = bits(w1, 31, 24), y = bits(w1, 23, 17) << 1 | (~x & 1);
    return second ? (struct half_fields){bits(w, 21, 17), bits(w1, 8, 0), bits(w1, 16, 9), 0, y, 0}
                  : (struct half_fields){bits(w, 25, 22), bits(w, 8, 0), bits(w, 16, 9), 0, x, 0};
}

/* Sets the sources of one of the two instructions from its fields; `three`: VOPD3. False if a code
 * is invalid. */
static bool half_sources(struct inst *half, const struct half_fields *f, bool three)
{
    const struct op_row *row = half->row;
    if (!set_source(half, &half->src[0], f->src0, row->src[0], MSB_SRC0))
        return false;
    if (row->src[1])
        set_vgpr(half, &half->src[1], f->vsrc1, row->src[1], MSB_SRC1);
    if (row->flags & ROW_LITERAL_K)
        return set_constant_k(half);
    if (row->flags & ROW_DST_IS_SRC)
        set_vgpr(half, &half->src[2], f->vdst, row->src[2], MSB_DST);
    else if (row->src[2] == T_MASK)
        set_sgpr(&half->src[2], three ? f->vsrc2 & 0x7f : SGPR_VCC, T_MASK);
    else if (row->flags & ROW_BITOP3)
        half->bitop3 = (uint8_t)f->vsrc2;
    else if (row->src[2])
        set_vgpr(half, &half->src[2], f->vsrc2, row->src[2], MSB_SRC2);
    return true;
}

/* Returns one half of a pair as an instruction, allocated with malloc. NULL: invalid, or no
 * memory. */
static struct inst *decode_half(const struct inst *in, bool three, bool second)
{
    const struct half_fields f = half_of(in, three, second);
    const struct op_row *row = dual_row((enum gfx_target)in->gfx, f.op);
    struct inst *half = row ? malloc(sizeof(*half)) : NULL;
    if (!half)
        return NULL;
    *half = *in;
    half->row = row;
    half->exec = row->exec;
    half->encoding = ENC_VOP3;
    set_vgpr(half, &half->dst, f.vdst, row->dst, MSB_DST);
    if (!half_sources(half, &f, three)) {
        free(half);
        return NULL;
    }
    for (unsigned k = 0; k < 3; k++)
        half->src[k].neg = f.neg >> k & 1;
    if (!summarize(half, VGPR_FILE, SGPR_FILE)) {
        free(half);
        return NULL;
    }
    return half;
}

/* Decodes the two instructions of a VOPD. Lists the operands of both in `in` for the checks. */
static bool decode_dual(struct inst *in)
{
    const bool three = bits(in->raw[0], 31, 24) == 0xcf;
    unsigned n = 0;
    if (in->ndwords < (three ? 3 : 2))
        return false;
    struct inst *x = decode_half(in, three, false), *y = decode_half(in, three, true);
    if (!x || !y) {
        free(x);
        free(y);
        return false;
    }
    in->pair[0] = x;
    in->pair[1] = y;
    for (unsigned half = 0; half < 2; half++)
        for (unsigned k = 0; k < in->pair[half]->nsrc && k < 3; k++)
            in->src[n++] = in->pair[half]->src[k];
    for (unsigned k = 0; k < n; k++)
        in->src[k].neg = false;
    in->dst = x->dst;
    in->dst2 = y->dst;
    in->takes_msb = true;
    return true;
}

/* The functions from here on decode memory instructions. */

/* Sets the operands of an LDS instruction. False if one is invalid. */
static bool decode_ds(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1];
    set_ds_offsets(in, w);
    if (row->src[0])
        set_vgpr(in, &in->src[0], bits(w1, 7, 0), row->src[0], MSB_SRC0);
    if (row->src[1])
        set_vgpr(in, &in->src[1], bits(w1, 15, 8), row->src[1], MSB_SRC1);
    if (row->src[2])
        set_vgpr(in, &in->src[2], bits(w1, 23, 16), row->src[2], MSB_SRC2);
    if (row->dst)
        set_vgpr(in, &in->dst, bits(w1, 31, 24), row->dst, MSB_DST);
    return true;
}

/* Selects the counter: loads to LDS have ASYNCcnt, and stores and atomics without a result
 * STOREcnt. */
static void choose_counter(struct inst *in)
{
    const uint32_t flags = in->row->flags;
    if (flags & ROW_LDS_DMA)
        in->counter[0] = WAIT_ASYNC;
    else if (flags & ROW_STORE && (!(flags & ROW_LOAD) || !in->sc0))
        in->counter[0] = WAIT_STORE;
}

/* Sets sc1, GFX9's bit for device scope, if the scope is at least the device. Such accesses count
 * as atomic. */
static void choose_scope(struct inst *in)
{
    enum { SCOPE_DEV = 2 };
    in->sc1 = in->row->src[0] && bits(in->raw[1], 19, 18) >= SCOPE_DEV;
}

/* Decodes FLAT, SCRATCH and GLOBAL. */
static bool decode_flat(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1], w2 = in->raw[2];
    const bool scratch = bits(w, 31, 24) == 0xed,
               atomic = row->flags & ROW_LOAD && row->flags & ROW_STORE;
    const bool has_saddr = bits(w, 6, 0) != CODE_NULL;
    in->imm_offset = sign_extend(bits(w2, 31, 8), 24);
    in->scale_offset = bits(w1, 16, 16);
    in->sc0 = atomic && bits(w1, 20, 20); /* bit TH_ATOMIC_RETURN */
    choose_counter(in);
    choose_scope(in);
    if (!row->src[0]) /* cache control has no operands */
        return true;
    if (has_saddr)
        set_sgpr(&in->src[2], bits(w, 6, 0), scratch ? T_U32 : T_U64);
    if (!scratch || bits(w1, 17, 17))
        set_vgpr(in, &in->src[0], bits(w2, 7, 0), scratch || has_saddr ? T_I32 : T_U64, MSB_SRC0);
    if (row->src[1])
        set_vgpr(in, &in->src[1], bits(w1, 30, 23), row->src[1], MSB_SRC1);
    if (row->flags & ROW_LDS_DMA) /* vdst is the VGPR with the LDS address */
        set_vgpr(in, &in->src[3], row->flags & ROW_STORE ? bits(w1, 30, 23) : bits(w1, 7, 0), T_U32,
                 row->flags & ROW_STORE ? MSB_SRC1 : MSB_DST);
    if (row->dst && returns_data(in))
        set_vgpr(in, &in->dst, bits(w1, 7, 0), row->dst, MSB_DST);
    return true;
}

/* Sets the operands of a buffer instruction. False if one is invalid. */
static bool decode_buffer(struct inst *in)
{
    const struct op_row *row = in->row;
    const uint32_t w = in->raw[0], w1 = in->raw[1], w2 = in->raw[2];
    in->imm_offset = sign_extend(bits(w2, 31, 8), 24);
    in->offen = bits(w1, 30, 30);
    in->idxen = bits(w1, 31, 31);
    in->sc0 = row->flags & ROW_LOAD && row->flags & ROW_STORE && bits(w1, 20, 20);
    choose_counter(in);
    choose_scope(in);
    if (in->offen || in->idxen)
        set_vgpr(in, &in->src[0], bits(w2, 7, 0), in->offen && in->idxen ? T_U64 : T_U32, MSB_SRC0);
    set_register(&in->src[2], OPND_SGPR, bits(w1, 17, 9), T_B128);
    if (row->src[1])
        set_vgpr(in, &in->src[1], bits(w1, 7, 0), row->src[1], MSB_DST);
    if (row->dst && returns_data(in))
        set_vgpr(in, &in->dst, bits(w1, 7, 0), row->dst, MSB_DST);
    set_sgpr(&in->src[3], bits(w, 6, 0), T_U32);
    return true;
}

/* Decodes the tensor data mover's instructions, whose operands are groups of SGPRs. */
static bool decode_tensor(struct inst *in)
{
    static const uint16_t types[4] = {T_B128, T_B256, T_B128, T_B128};
    for (unsigned i = 0; i < 4; i++) {
        const unsigned code = in->raw[2] >> 8 * i & 0xff;
        if (code != CODE_NULL)
            set_register(&in->src[i], OPND_SGPR, code, types[i]);
    }
    return in->src[0].kind == OPND_SGPR && in->src[1].kind == OPND_SGPR;
}

/* ---------------------------------------------------------------------------------------------- */

/* Adds the operands that no field of the encoding names. */
static void set_implicit(struct inst *in)
{
    const struct op_row *row = in->row;
    if (row->flags & ROW_BRANCH && strncmp(row->name, "s_cbranch_vcc", 13) == 0)
        set_sgpr(&in->src[0], SGPR_VCC, T_MASK);
    const unsigned old = in->encoding == ENC_VOPD ? INST_MAX_SRC : set_old_value(in);
    if (old < INST_MAX_SRC && in->op_sel & 8 && in->encoding == ENC_VOP3 &&
        is_half(in->src[old].type))
        in->op_sel |=
            (uint8_t)(1 << old); /* v_fmac_f16: source and destination are the same half */
    if (is_half(in->dst.type) && in->dst.kind == OPND_VGPR && row->flags & ROW_VALU)
        in->form |= FORM_HALF;
}

/* Sets unused bits in the three encodings in which AMD's and LLVM's assemblers differ. These are
 * TENSOR_* (DIM, DMASK, VADDR4), the scale prefix of WMMA (its third source), and
 * V_WMMA_F32_32X16X128_F4 (bit 14, which other WMMAs have for B's format). */
void decode_complete_gfx1250(uint32_t *w)
{
    const bool scales =
        w[0] >> 20 == 0xcc3 && (bits(w[0], 19, 16) == 5 || bits(w[0], 19, 16) == 10);
    uint32_t *wmma = scales ? w + 2 : w;
    if (w[0] >> 26 == 0x34) {
        w[0] |= 1u << 22 | 1;
        if (bits(w[1], 31, 24) == 0)
            w[1] |= (uint32_t)CODE_NULL << 24;
    }
    if (scales) /* unused source: VGPR 0 in code of LLVM 22, the constant 0 in later versions */
        w[1] = (w[1] & ~(0x1ffu << 18)) | 1u << 26;
    if (bits(wmma[0], 31, 16) == 0xcc88)
        wmma[0] |= 1u << 14;
}

bool decode_fields_gfx12(struct inst *in)
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
    case ENC_VOP3: ok = in->ndwords >= 2 && decode_vop3(in); break;
    case ENC_VOP3P: ok = in->ndwords >= 2 && decode_vop3p(in); break;
    case ENC_MAI: ok = in->ndwords >= 2 && decode_wmma(in); break;
    case ENC_VOPD: ok = decode_dual(in); break;
    case ENC_DS: ok = in->ndwords == 2 && decode_ds(in); break;
    case ENC_FLAT: ok = in->ndwords == 3 && decode_flat(in); break;
    case ENC_MUBUF: ok = in->ndwords == 3 && decode_buffer(in); break;
    case ENC_TENSOR: ok = in->ndwords == 3 && decode_tensor(in); break;
    default: break;
    }
    if (!ok)
        return false;
    set_implicit(in);
    return summarize(in, VGPR_FILE, SGPR_FILE);
}
