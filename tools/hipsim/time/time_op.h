/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of an instruction for the timing model that are known before it executes. */
#ifndef HIPSIM_TIME_OP_H
#define HIPSIM_TIME_OP_H

#include "time_params.h"

/* Issue ports. A SIMD issues at most one instruction per port in each slot of 4 clocks. */
enum time_unit {
    UNIT_NONE, /* no port: s_nop, s_waitcnt, s_barrier, s_sleep, s_endpgm */
    UNIT_VALU,
    UNIT_MATRIX, /* issues through the VALU port */
    UNIT_SCALAR,
    UNIT_BRANCH,
    UNIT_SMEM, /* issues through the scalar port */
    UNIT_LDS,  /* LDS and VMEM instructions share the memory port */
    UNIT_VMEM,
    UNIT_COUNT,
};

enum time_kind {
    KIND_PLAIN,
    KIND_TRANS,
    KIND_PACKED_F32, /* packed f32, which cannot overlap a matrix instruction */
    KIND_NOP,
    KIND_WAITCNT,
    KIND_MSB,     /* an s_set_vgpr_msb */
    KIND_BARRIER, /* GFX12: an s_barrier_wait */
    KIND_SLEEP,
    KIND_END,
    KIND_WRITE_BACK, /* a buffer_wbl2 of device or system scope */
    KIND_INVALIDATE, /* a buffer_inv */
    KIND_TENSOR,     /* a copy of the tensor data mover */
};

/* First numbers of the register files in struct time_regs. From 256 on GFX9 has AGPRs, gfx1250 more
 * VGPRs. */
enum {
    TIME_AGPR = 256,
    TIME_SGPR = VGPR_FILE,
    TIME_SCC = TIME_SGPR + SGPR_FILE,
    TIME_REGS,
};

struct time_regs {
    uint16_t first; /* number of the first register, 0 to TIME_REGS - 1 */
    uint16_t count;
};

/* Bits of a matrix instruction's operands, on which its power depends. */
enum time_matrix { MATRIX_16, MATRIX_8, MATRIX_4, MATRIX_32, MATRIX_CLASSES };

struct time_op {
    uint8_t unit; /* enum time_unit */
    uint8_t kind; /* enum time_kind */
    uint8_t nreads;
    uint16_t issue;       /* clocks for which the port is busy */
    uint16_t matrix;      /* clocks for which the matrix unit is busy */
    uint8_t matrix_class; /* enum time_matrix */
    uint16_t closed;      /* part of `matrix` in which VALU instructions cannot issue */
    /* clocks from issue until an instruction of the same unit may read the result; 0: at the wave's
     * next issue */
    uint16_t result;
    uint16_t late_scalar; /* extra clocks before this instruction can read a scalar result */
    uint16_t late_vector; /* extra clocks before this instruction can read a vector result */
    /* LDS: true: the wave waits until the store's data have left its registers */
    bool wide_store;
    bool cluster;   /* KIND_BARRIER: true: waits at the cluster's barrier */
    bool two;       /* LDS: true: the instruction has two accesses */
    int32_t second; /* LDS: byte offset of the second access */
    /* KIND_WAITCNT: count to wait for, by counter; UINT16_MAX: none */
    uint16_t wait[WAIT_COUNTERS];
    /* registers that are read; A and B of a matrix instruction */
    struct time_regs reads[INST_MAX_SRC + 1];
    struct time_regs acc; /* registers of SrcC of a matrix instruction */
    /* registers that are written; writes_too: by a VOPD's second instruction */
    struct time_regs writes, writes_too;
};

/*
 * Returns the clocks for which a matrix instruction occupies its SIMD's matrix unit: 4 * passes.
 * `mnemonic` is the op row's name; cbsz and blgp are the operand formats of the f8f6f4 forms. 0 if
 * it is no matrix instruction. The values come from the rows M of targets/facts/, which name their
 * sources.
 */
unsigned time_matrix_cycles(enum gfx_target target, const char *mnemonic, unsigned cbsz,
                            unsigned blgp);

/** Sets in->matrix_passes, and in->clocks to the clocks by which `in` advances its wave. */
void time_classify(enum gfx_target target, struct inst *in);

struct time_op time_op_make(const struct time_params *p, enum gfx_target target,
                            const struct inst *in);

/* True if the instruction is a branch to an encoded target, and not a call. */
bool time_is_jump(const struct inst *in);

const char *time_unit_name(enum time_unit unit);

/*
 * The instructions of one wave in an iteration of a loop. time_loop_bound() returns the least
 * clocks of an iteration with `waves` waves on a SIMD, on average. This is the matrix time, plus
 * vector slots that do not fit into its open clocks, plus packed instructions: all of them on
 * targets where they stall, otherwise those that do not fit. Good kernels of GFX9 reach 93 to 96 %
 * of it.
 */
struct time_mix {
    unsigned matrix; /* clocks of the matrix unit */
    unsigned closed; /* part of `matrix` in which VALU instructions cannot issue */
    /* clocks of vector instructions that can overlap; transcendentals at their own rate */
    unsigned valu;
    unsigned packed_f32; /* number of packed f32 instructions */
};
double time_loop_bound(const struct time_params *p, const struct time_mix *mix, double waves);

/* Adds the clocks of one instruction to *mix. */
void time_mix_add(struct time_mix *mix, const struct time_op *op);

#endif
