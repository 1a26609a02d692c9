/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Op rows: a row is the only description of an instruction. Folders above the core have the tables
 * of rows (parts.h); decode.c finds a row by mnemonic.
 */
#ifndef HIPSIM_ROW_H
#define HIPSIM_ROW_H

#include "inst.h"
#include "wave.h"

/*
 * Operand types: the low byte is the number of dwords; the high byte is the class. The class says
 * how an inline constant or literal becomes a value (CDNA3 ISA, "Scalar/vector source operands").
 * Integer constants are sign-extended; 0.5 .. 4.0 and 1/(2 pi) have the format of a float type. A
 * 32-bit literal is the high half of an f64, and is zero- or sign-extended for 64-bit integers.
 */
enum type_class {
    CLASS_BITS, /* plain bits; float inline constants are f32 (one dword) or f64 (two) */
    CLASS_INT,  /* signed: literals are sign-extended to 64 bits */
    CLASS_UINT,
    CLASS_INT16, /* a 16-bit integer in the low half */
    CLASS_F16,
    CLASS_BF16,
    CLASS_F32,
    CLASS_F64,
    CLASS_PK_F16,
    CLASS_PK_BF16,
    CLASS_PK_INT16, /* two 16-bit halves */
    CLASS_PK_F32,   /* two dwords; a constant is the low one */
    CLASS_MASK,     /* a lane mask: an SGPR pair with a bit per lane */
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
    ROW_LDS = 1 << 5, /* DS instructions */
    ROW_BRANCH = 1 << 6,
    ROW_KINDS = (1 << 7) - 1, /* mask of the kinds that struct counters counts */
    /* other waves see the instruction's effect, or the instruction is ordered with theirs: the wave
     * scheduler stops before it */
    ROW_SHARED = 1 << 7,
    ROW_TRANS = 1 << 8,
    ROW_ROUNDS = 1 << 9, /* MODE's rounding affects the result */
    ROW_LOAD = 1 << 10,
    ROW_STORE = 1 << 11,      /* atomics have ROW_LOAD and ROW_STORE */
    ROW_DST_IS_SRC = 1 << 12, /* reads its destination: v_fmac, d16_hi loads, s_bitset */
    ROW_ADDR64 = 1 << 13,
    ROW_LDS_DMA = 1 << 14, /* loads to LDS, without a destination register */
    /* writes 16 bits of the destination and keeps the other bits; loads keep or clear them, see
     * isa.whole_loads */
    ROW_PARTIAL = 1 << 15,
    ROW_NO_EXEC = 1 << 16,  /* ignores EXEC: v_readlane, v_writelane, v_readfirstlane, swaps */
    ROW_CMPX = 1 << 17,     /* writes EXEC too */
    ROW_NO_FLUSH = 1 << 18, /* a float result or source keeps denormals in any MODE */
    /* a vector instruction that writes a scalar register: v_readlane, v_readfirstlane */
    ROW_SGPR_DST = 1 << 19,
    /* the lane kernel saturates the integer result if the clamp bit is set */
    ROW_INT_CLAMP = 1 << 20,
    ROW_OP_SEL = 1 << 21,    /* the row's own function reads op_sel */
    ROW_LITERAL_K = 1 << 22, /* VOP2 with a literal as source `arg`: v_fmamk, v_fmaak */
    ROW_BITOP3 = 1 << 23,    /* the bits of abs, neg and omod are a truth table */
    ROW_ACC_MOV = 1 << 24,   /* VOP1 that copies between AGPRs: v_accvgpr_mov */
    ROW_GFX950 = 1 << 25,    /* the row is for gfx950 only; for rows made by macros */
    /* the low dword of the 64-bit result depends on the sources' low dwords only */
    ROW_LOW_ALONE = 1 << 26,
    /* One defined source may determine the result, whatever the others are: */
    ROW_SELECTS = 1 << 27,   /* the mask, source 2, selects one of the others */
    ROW_ZERO_WINS = 1 << 28, /* a source of zeros determines the result */
    ROW_ONES_WIN = 1 << 29,  /* a source of ones determines the result */
    /* The result combines pieces of sources 0 and 1, so one defined source suffices. With
     * ROW_OP_SEL: each dword of the result is made from some of the dwords of source 0. */
    ROW_PACKS = 1 << 30,
    /* M0 is added to VGPR numbers; op_row.arg has the bits of enum relative_operands */
    ROW_RELATIVE = INT32_MIN,
    ROW_DECIDED = ROW_SELECTS | ROW_ZERO_WINS | ROW_ONES_WIN | ROW_PACKS,
};

/* Operands to whose VGPR numbers ROW_RELATIVE adds M0. */
enum relative_operands {
    RELATIVE_SRC = 1 << 0,
    RELATIVE_DST = 1 << 1,
    RELATIVE_FIELDS = 1 << 2, /* M0[9:0] for the source, M0[25:16] for the destination */
};

struct op_row {
    const char *name; /* mnemonic without _e32, _e64, _dpp or _sdwa */
    void (*exec)(struct wave *w, const struct inst *in);
    uint16_t dst, dst2; /* enum operand_type */
    uint16_t src[INST_MAX_SRC];
    uint32_t flags; /* enum row_flags */
    /* enum gfx_target bits of targets that have the row; 0: gfx942 and gfx950 */
    uint8_t targets;
    uint8_t wait;         /* 1 + the enum wait_counter that counts the operation; 0: none */
    uint8_t wait_also;    /* 1 + a second counter; 0: none */
    uint32_t arg;         /* a shape, a size or an index: each table has its own meaning */
    void (*kernel)(void); /* function that `exec` calls, of a type of its own in each table */
    const void *lanes;    /* record of a type of its own in each table, such as a shape */
};

/*
 * Returns the rows of a source, 64 lanes each. A VGPR or AGPR yields the register rows themselves,
 * which may be the destination's. A scalar or constant is copied to every lane of `tmp`, which has
 * room for 64 words per dword. Operands of 64 bits are the low row, then the high row. No modifiers
 * are applied.
 */
const uint32_t *src_rows(const struct wave *w, const struct opnd *o, uint32_t *tmp);

/* Returns the mask of lanes in which all registers of a source are defined. */
uint64_t src_valid(const struct wave *w, const struct opnd *o);

/* Return the value of a scalar source of one or two dwords, and whether all of its bits are
 * defined. `o` must not be a VGPR or AGPR. */
uint64_t src_scalar(const struct wave *w, const struct opnd *o);
bool src_scalar_valid(const struct wave *w, const struct opnd *o);
/* Returns the mask of defined bits of a scalar source of one or two dwords. In a lane mask each bit
 * is a lane. */
uint64_t src_scalar_bits(const struct wave *w, const struct opnd *o);

/* True if the bits `bits` of M0 are defined, which `in` reads as `what` (words for the report).
 * Otherwise reports it and stops the wave. */
bool m0_defined(struct wave *w, const struct inst *in, uint32_t bits, const char *what);

/*
 * Writes o->dwords rows of 64 lanes from `rows` to the destination, in the lanes of `mask`. Records
 * them as defined in the lanes of `valid`. `rows` may be the destination itself.
 */
void dst_write_rows(struct wave *w, const struct opnd *o, const uint32_t *rows, uint64_t mask,
                    uint64_t valid);

/* Returns the rows of a vector register, for direct writes; NULL for other operands. */
static inline uint32_t *dst_rows(struct wave *w, const struct opnd *o)
{
    return o->kind == OPND_VGPR ? w->v[o->reg] : o->kind == OPND_AGPR ? w->a[o->reg] : NULL;
}

#endif
