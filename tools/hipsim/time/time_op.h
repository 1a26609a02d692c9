/* SPDX-License-Identifier: Apache-2.0 */
/* Timing facts of an instruction that are known before it runs. */
#ifndef HIPSIM_TIME_OP_H
#define HIPSIM_TIME_OP_H

#include "time_params.h"

/* Issue ports. A SIMD takes one instruction per port and turn. */
enum time_unit {
    UNIT_NONE, /* s_nop, s_waitcnt, s_barrier, s_sleep, s_endpgm: the wave's own */
    UNIT_VALU,
    UNIT_MATRIX, /* through the VALU port */
    UNIT_SCALAR,
    UNIT_BRANCH,
    UNIT_SMEM, /* through the scalar port */
    UNIT_LDS,  /* LDS and VMEM share the memory port */
    UNIT_VMEM,
    UNIT_COUNT,
};

enum time_kind {
    KIND_PLAIN,
    KIND_TRANS,
    KIND_PACKED_F32, /* cannot overlap a matrix instruction */
    KIND_NOP,
    KIND_WAITCNT,
    KIND_BARRIER,
    KIND_SLEEP,
    KIND_END,
    KIND_WRITE_BACK, /* buffer_wbl2 of the device's or the system's scope */
    KIND_INVALIDATE, /* buffer_inv */
};

struct time_regs {
    uint16_t first; /* 0 .. 255 VGPR, 256 .. 511 AGPR */
    uint16_t count;
};

/* Bits of a matrix instruction's operands, on which its power depends. */
enum time_matrix { MATRIX_16, MATRIX_8, MATRIX_4, MATRIX_32, MATRIX_CLASSES };

struct time_op {
    uint8_t unit; /* enum time_unit */
    uint8_t kind; /* enum time_kind */
    uint8_t nreads;
    uint16_t issue;       /* clocks of its port */
    uint16_t matrix;      /* clocks of the matrix unit */
    uint8_t matrix_class; /* enum time_matrix */
    uint16_t closed;      /* of them, those that admit no VALU instruction */
    uint16_t result;      /* clocks from issue until another instruction may read the result */
    bool wide_store;      /* LDS: the wave is held while its data leave */
    bool two;             /* LDS: two accesses, */
    int32_t second;       /* so many bytes apart */
    uint16_t wait_vm, wait_lgkm, wait_exp; /* KIND_WAITCNT: counts to wait for, UINT16_MAX: none */
    struct time_regs reads[INST_MAX_SRC];  /* vector registers; of a matrix instruction A and B */
    struct time_regs acc;                  /* SrcC of a matrix instruction */
    struct time_regs writes;
};

/*
 * Clocks for which a matrix instruction occupies its SIMD's matrix unit: 4 * passes. `mnemonic` is
 * the row's name; cbsz and blgp give the operand formats of the f8f6f4 forms. 0 if it is none.
 * The rows M of targets/facts/ have them, with their sources.
 */
unsigned time_matrix_cycles(enum gfx_target target, const char *mnemonic, unsigned cbsz,
                            unsigned blgp);

/** Sets in->matrix_passes and in->clocks, what `in` takes of its wave's clock. */
void time_classify(enum gfx_target target, struct inst *in);

struct time_op time_op_make(const struct time_params *p, enum gfx_target target,
                            const struct inst *in);

/* Returns whether it is a branch whose target stands in it: not a call, nor one through a
 * register. */
bool time_is_jump(const struct inst *in);

const char *time_unit_name(enum time_unit unit);

/*
 * The lower bound of a loop that `waves` waves of a SIMD run, in clocks: matrix time, the vector
 * slots that do not fit into its open clocks, and the packed instructions that never overlap.
 * Good kernels reach 93 to 96 % of it. The counts are of one wave's iteration.
 */
struct time_mix {
    unsigned matrix;     /* clocks of its matrix instructions */
    unsigned closed;     /* of them, closed to VALU */
    unsigned valu;       /* clocks of its overlapping vector instructions, trans by their rate */
    unsigned packed_f32; /* instructions */
};
double time_loop_bound(const struct time_params *p, const struct time_mix *mix, unsigned waves);

/* Adds one instruction to a mix. */
void time_mix_add(struct time_mix *mix, const struct time_op *op);

#endif
