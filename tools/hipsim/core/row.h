/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Op rows: a row is the only description of an instruction. The folders above the core have the
 * tables of rows (parts.h); decode.c finds a row by mnemonic.
 */
#ifndef HIPSIM_ROW_H
#define HIPSIM_ROW_H

#include "inst.h"
#include "wave.h"

/*
 * Operand types: the low byte is the number of dwords, the high byte says how an inline constant or
 * literal becomes a value (CDNA3 ISA, "Scalar/vector source operands"): integer constants are
 * sign-extended, 0.5 .. 4.0 and 1/(2 pi) take the format of a float type. A 32-bit literal is the
 * high half of an f64, and zero- or sign-extends into 64-bit integers.
 */
enum type_class {
    CLASS_BITS, /* no interpretation; float inline constants are f32 (one dword) or f64 (two) */
    CLASS_INT,  /* signed: literals sign-extend to 64 bits */
    CLASS_UINT,
    CLASS_INT16, /* one 16-bit integer in the low half */
    CLASS_F16,
    CLASS_BF16,
    CLASS_F32,
    CLASS_F64,
    CLASS_PK_F16,
    CLASS_PK_BF16,
    CLASS_PK_INT16, /* two 16-bit halves */
    CLASS_PK_F32,   /* two dwords, constants in the low one */
    CLASS_MASK,     /* an SGPR pair with a bit per lane */
};

#define OPERAND_TYPE(class, dwords) ((class) << 8 | (dwords))
#define TYPE_CLASS(t) ((enum type_class)((t) >> 8))
#define TYPE_DWORDS(t) ((t) & 0xff)

enum operand_type {
    T_NONE = 0,
    T_B16 = OPERAND_TYPE(CLASS_INT16, 1),
    T_B32 = OPERAND_TYPE(CLASS_BITS, 1),
    T_I32 = OPERAND_TYPE(CLASS_INT, 1),
    T_U32 = OPERAND_TYPE(CLASS_UINT, 1),
    T_B64 = OPERAND_TYPE(CLASS_BITS, 2),
    T_I64 = OPERAND_TYPE(CLASS_INT, 2),
    T_U64 = OPERAND_TYPE(CLASS_UINT, 2),
    T_B96 = OPERAND_TYPE(CLASS_BITS, 3),
    T_B128 = OPERAND_TYPE(CLASS_BITS, 4),
    T_B160 = OPERAND_TYPE(CLASS_BITS, 5),
    T_B192 = OPERAND_TYPE(CLASS_BITS, 6),
    T_B256 = OPERAND_TYPE(CLASS_BITS, 8),
    T_B512 = OPERAND_TYPE(CLASS_BITS, 16),
    T_B1024 = OPERAND_TYPE(CLASS_BITS, 32),
    T_F16 = OPERAND_TYPE(CLASS_F16, 1),
    T_BF16 = OPERAND_TYPE(CLASS_BF16, 1),
    T_F32 = OPERAND_TYPE(CLASS_F32, 1),
    T_F64 = OPERAND_TYPE(CLASS_F64, 2),
    T_PKF16 = OPERAND_TYPE(CLASS_PK_F16, 1),
    T_PKBF16 = OPERAND_TYPE(CLASS_PK_BF16, 1),
    T_PKB16 = OPERAND_TYPE(CLASS_PK_INT16, 1),
    T_PKF32 = OPERAND_TYPE(CLASS_PK_F32, 2),
    T_MASK = OPERAND_TYPE(CLASS_MASK, 2),
    T_F32X8 = OPERAND_TYPE(CLASS_F32, 8),
    T_I32X8 = OPERAND_TYPE(CLASS_INT, 8),
    T_PKF16X4 = OPERAND_TYPE(CLASS_PK_F16, 4),
    T_PKBF16X4 = OPERAND_TYPE(CLASS_PK_BF16, 4),
    T_F32X4 = OPERAND_TYPE(CLASS_F32, 4),
    T_F32X16 = OPERAND_TYPE(CLASS_F32, 16),
    T_F32X32 = OPERAND_TYPE(CLASS_F32, 32),
    T_I32X4 = OPERAND_TYPE(CLASS_INT, 4),
    T_I32X16 = OPERAND_TYPE(CLASS_INT, 16),
    T_I32X32 = OPERAND_TYPE(CLASS_INT, 32),
    T_F64X4 = OPERAND_TYPE(CLASS_F64, 8),
};

enum row_flags {
    ROW_SALU = 1 << 0,
    ROW_VALU = 1 << 1,
    ROW_MFMA = 1 << 2,
    ROW_VMEM = 1 << 3, /* FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF */
    ROW_SMEM = 1 << 4,
    ROW_LDS = 1 << 5, /* DS */
    ROW_BRANCH = 1 << 6,
    ROW_KINDS = (1 << 7) - 1, /* the kinds of instructions, which struct counters counts */
    ROW_SHARED = 1 << 7,      /* visible to other waves or ordered with their instructions: the wave
                          * scheduler stops there */
    ROW_TRANS = 1 << 8,
    ROW_ROUNDS = 1 << 9, /* MODE's rounding applies to the result */
    ROW_LOAD = 1 << 10,
    ROW_STORE = 1 << 11,      /* atomics have both */
    ROW_DST_IS_SRC = 1 << 12, /* reads its destination: v_fmac, d16_hi loads, s_bitset */
    ROW_ADDR64 = 1 << 13,
    ROW_LDS_DMA = 1 << 14,   /* loads into LDS directly: no destination register */
    ROW_PARTIAL = 1 << 15,   /* writes 16 bits of the destination and keeps the rest */
    ROW_NO_EXEC = 1 << 16,   /* ignores EXEC: v_readlane, v_writelane, v_readfirstlane, swaps */
    ROW_CMPX = 1 << 17,      /* writes EXEC as well */
    ROW_NO_FLUSH = 1 << 18,  /* float result or sources keep denormals regardless of MODE */
    ROW_SGPR_DST = 1 << 19,  /* VALU that writes a scalar register: v_readlane, v_readfirstlane */
    ROW_INT_CLAMP = 1 << 20, /* clamp saturates an integer, in the lane kernel */
    ROW_OP_SEL = 1 << 21,    /* the row's own handler interprets op_sel */
    ROW_LITERAL_K = 1 << 22, /* VOP2 with a constant dword as source `arg`: v_fmamk, v_fmaak */
    ROW_BITOP3 = 1 << 23,    /* abs, neg and omod bits are a truth table */
    ROW_ACC_MOV = 1 << 24,   /* VOP1 between AGPRs: v_accvgpr_mov */
    ROW_GFX950 = 1 << 25,    /* targets = GFX950, for rows made by macros */
    ROW_LOW_ALONE = 1 << 26, /* 64-bit result with a low dword that depends on low dwords only */
    /* A defined source may decide the result, whatever the other sources are: */
    ROW_SELECTS = 1 << 27,   /* the mask, source 2, chooses one of the others */
    ROW_ZERO_WINS = 1 << 28, /* a source of all zeros */
    ROW_ONES_WIN = 1 << 29,  /* a source of all ones */
    ROW_PACKS = 1 << 30,     /* combines pieces of sources 0 and 1: one defined source suffices */
    ROW_DECIDED = ROW_SELECTS | ROW_ZERO_WINS | ROW_ONES_WIN | ROW_PACKS,
};

struct op_row {
    const char *name; /* mnemonic without _e32, _e64, _dpp, _sdwa */
    void (*exec)(struct wave *w, const struct inst *in);
    uint16_t dst, dst2; /* enum operand_type */
    uint16_t src[INST_MAX_SRC];
    uint32_t flags;       /* enum row_flags */
    uint8_t targets;      /* enum gfx_target bits; 0: gfx942 and gfx950 */
    uint8_t wait;         /* 1 + enum wait_counter that counts the operation, 0: none */
    uint8_t wait_also;    /* the same for a second counter */
    uint32_t arg;         /* table-specific: a shape, a size, an index */
    void (*kernel)(void); /* table-specific: a function that `exec` calls */
    const void *lanes;    /* table-specific: a record, a shape */
};

/*
 * Returns the 64-lane rows of a source. A VGPR or AGPR yields the register rows themselves. A
 * scalar or constant is broadcast to `tmp`, which has room for dwords * 64 words. 64-bit operands:
 * low row, then high row. Modifiers are not applied. The rows may be the destination's.
 */
const uint32_t *src_rows(const struct wave *w, const struct opnd *o, uint32_t *tmp);

/* Returns the lanes in which all registers of a source are valid. */
uint64_t src_valid(const struct wave *w, const struct opnd *o);

/* Return the value of a scalar source of one or two dwords, and whether all of its bits are valid.
 * `o` is no VGPR or AGPR. */
uint64_t src_scalar(const struct wave *w, const struct opnd *o);
bool src_scalar_valid(const struct wave *w, const struct opnd *o);
/* Returns the valid bits of a scalar source of one or two dwords. A lane mask is valid lane by
 * lane. */
uint64_t src_scalar_bits(const struct wave *w, const struct opnd *o);

/* True if the `bits` of M0 that `in` reads as `what` are defined. Otherwise reports the error and
 * stops the wave. */
bool m0_defined(struct wave *w, const struct inst *in, uint32_t bits, const char *what);

/*
 * Writes o->dwords rows of 64 lanes from `rows` to the destination in the lanes of `mask`, and sets
 * their validity to `valid`. `rows` may be the destination itself.
 */
void dst_write_rows(struct wave *w, const struct opnd *o, const uint32_t *rows, uint64_t mask,
                    uint64_t valid);

/* Returns the rows of a vector register for direct writes; NULL for any other operand. */
static inline uint32_t *dst_rows(struct wave *w, const struct opnd *o)
{
    return o->kind == OPND_VGPR ? w->v[o->reg] : o->kind == OPND_AGPR ? w->a[o->reg] : NULL;
}

#endif
