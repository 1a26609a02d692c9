/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the machine, all that the tile IR knows about a target: matrix instructions as
 * layouts, copy atoms, capabilities, and the issue rules that the scheduler and the simulator
 * share. targets/ fills it; ir/ never asks which gfx it is.
 */
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/layout.h"

/**
 * One matrix instruction, D[m x n] = A[m x k] . B[k x n] + C. The layouts are of one wave, with
 * register and lane bits only. Element (row, col) of a is A[row][col], of b is B[row][col], of d is
 * D[row][col].
 * An operand of e2m1 has bytes as elements. A byte holds two neighbours along k, the even one in
 * its low half; b is then B[k / 2 x n].
 */
struct tir_mma {
    const char *name;      /* mnemonic without v_, then modifiers after a blank */
    const char *intrinsic; /* name of LLVM's intrinsic for the instruction */
    uint16_t m, n, k;      /* rows of A and D, columns of B and D, and the inner dimension */
    /* true: tir_find_mma() returns the row only if its caller names this k */
    bool by_k;
    bool scaled;                       /* for mma_scaled: has a scale for each 32 elements of k */
    uint8_t left_format, right_format; /* of a scaled product: enum tir_mx */
    uint8_t in_dtype, right_dtype, acc_dtype; /* enum tir_dtype, of A, B, and of C and D */
    /* clocks for which the instruction occupies the matrix pipe */
    uint8_t cycles;
    /* 4-clock slots in which other instructions can issue while this one runs */
    uint8_t shadow_slots;
    struct tir_layout a, b, d; /* layouts of A, B and D in a wave */
};

/** Formats of a scaled product's operands, numbered as in the instruction. */
enum tir_mx { TIR_MX_E4M3 = 0, TIR_MX_E2M1 = 4 };

enum { TIR_MX_BLOCK = 32 }; /* elements of k that share a scale */

/** The place that a copy atom reads or writes. */
enum tir_space { TIR_IN_MEMORY, TIR_IN_LDS, TIR_IN_REGISTERS };

/** A counter of memory ops in flight that a wait reads: one of the ISA's, or the compiler's own. */
enum tir_counter {
    TIR_COUNTER_VM,     /* vmcnt: loads of memory and, on machines without STOREcnt, stores */
    TIR_COUNTER_LGKM,   /* lgkmcnt: LDS and scalar loads */
    TIR_COUNTER_DS,     /* DScnt: LDS accesses */
    TIR_COUNTER_STORE,  /* STOREcnt: stores of registers */
    TIR_COUNTER_ASYNC,  /* ASYNCcnt: copies to LDS only */
    TIR_COUNTER_TENSOR, /* TENSORcnt: copies of the tensor data mover only */
    TIR_COUNTER_HELD,   /* copies whose data the compiler keeps in registers until a wait */
    TIR_N_COUNTERS
};

/** A copy atom: one instruction, or a load with its store, that copies between memory, LDS and
 * registers. Plain loads and stores of registers are alike on all targets and have no rows. */
struct tir_copy {
    const char *name; /* mnemonic */
    uint8_t from, to; /* enum tir_space */
    uint8_t bytes;    /* bytes per lane; 0: the copy's descriptor has the number */
    /* bits of an element that lanes exchange in a transposing copy; 0: no exchange */
    uint8_t element_bits;
    uint8_t block_lanes; /* lanes of a group that exchanges elements; 0: no exchange */
    uint8_t run_lanes;   /* lanes that read consecutive elements of a result; 0: see block_lanes */
    /* true: a descriptor of the wave has the addresses; false: each lane has one */
    bool descriptor;
    uint8_t counter; /* enum tir_counter */
};

/** A fitted knob: a number of a kernel's schedule that no rule finds. The first row that fits a
 * kernel and names the knob sets it. A row with `kernels` NULL ends a list. */
struct tir_fitted {
    /* the op, then words NAME=VALUE|VALUE; a kernel's tile or key must have one of the values of
     * each */
    const char *kernels;
    const char *knob; /* the member of the kernel's tile that the number sets */
    int value;        /* value that the member gets, 0 or more */
    /* change of the modelled launch time in % against the kernel without the row: `gain` at the
     * middle of the timing model's open parameters, `low` and `high` over the corners of their
     * ranges */
    float gain, low, high;
};

/* A target, as the tile IR knows it. */
struct tir_machine {
    const char *name;                /* name of the target, such as gfx942 */
    const struct tir_fitted *fitted; /* rows of targets/tuning/; NULL: none */
    /* rows of matrix instructions, those with larger k first; a search returns the first that
     * fits */
    const struct tir_mma *mma;
    unsigned n_mma; /* number of rows of mma */
    /* rows of copy atoms, those with more bytes first; a search returns the first that fits */
    const struct tir_copy *copies;
    unsigned n_copies; /* number of rows of copies */

    unsigned cus;      /* compute units, the size of a persistent grid */
    unsigned xcds;     /* XCDs, a power of two: the dispatcher rotates workgroups among them */
    uint8_t lane_bits; /* log2 of a wave's lanes */
    /* the highest count for which a wait can wait, by enum tir_counter; 0: the machine has no such
     * counter */
    uint8_t counters[TIR_N_COUNTERS];
    unsigned lds_bytes;      /* bytes of LDS that a workgroup can have at most */
    unsigned lds_granule;    /* bytes; LDS is allocated in multiples of this number */
    unsigned lds_bank_bytes; /* bytes of all banks together: 128 or 256 */
    /* bytes of an LDS segment: two pairs of SIMDs read at the same time from two segments only. LDS
     * that is one memory is one segment */
    unsigned lds_segment_bytes;
    unsigned vgprs_per_simd; /* VGPRs and AGPRs per lane of a SIMD */
    unsigned wave_vgprs;     /* most VGPRs and AGPRs per lane that a wave can address */
    bool has_lane_swap;      /* the machine has v_permlane{16,32}_swap_b32 */
    bool has_cvt_pk_bf16;    /* the machine has v_cvt_pk_bf16_f32 */
    bool has_dot_bf16;       /* the machine has v_dot2_f32_bf16 */
    bool has_pk_max3;        /* the machine has v_pk_maximum3_f16 */
    bool has_cvt_scale;      /* the machine has v_cvt_scalef32_pk_bf16_fp8 and its like */
    uint8_t exp_slots;       /* 4-clock issue slots of one transcendental */
    uint8_t swap_slots;      /* 4-clock issue slots of one v_permlane*_swap */
    bool fp8_is_fnuz;        /* fp8 is e4m3fnuz; false: OCP e4m3fn */
};

/** Returns the lanes of a wave. */
static inline unsigned tir_lanes(const struct tir_machine *m) { return 1u << m->lane_bits; }

/** Returns the VGPRs and AGPRs per lane of a wave that shares a SIMD evenly with others. */
static inline unsigned tir_wave_vgprs(const struct tir_machine *m, unsigned waves_per_simd)
{
    const unsigned share = m->vgprs_per_simd / waves_per_simd;
    return share < m->wave_vgprs ? share : m->wave_vgprs;
}

/** Returns the first row of the machine's table with this shape and input dtype, or -1. k = 0
 * accepts any k, except in rows that are found by their k only. Scaled products are excluded. */
int tir_find_mma(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned k,
                 unsigned in_dtype);

/** Returns the row of the scaled product of these formats (enum tir_mx), or -1. */
int tir_find_mma_scaled(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned left,
                        unsigned right);

/** Returns the index of the row with this name, or -1. */
int tir_find_mma_name(const struct tir_machine *m, const char *name);

/** Returns the first copy atom from `from` to `to`, or NULL. It transposes elements of
 * `element_bits`; 0: it does not transpose. With `descriptor` a descriptor has its addresses, else
 * each lane has one. It copies `bytes` per lane; 0: any number, the largest first. */
const struct tir_copy *tir_find_copy(const struct tir_machine *m, enum tir_space from,
                                     enum tir_space to, unsigned bytes, unsigned element_bits,
                                     bool descriptor);

/** Returns the copy from memory to LDS with an address of each lane, or NULL. bytes 0: the widest,
 * which every target has. */
static inline const struct tir_copy *tir_lane_copy(const struct tir_machine *m, unsigned bytes)
{
    return tir_find_copy(m, TIR_IN_MEMORY, TIR_IN_LDS, bytes, 0, false);
}

/** Returns the counter of LDS accesses. */
static inline enum tir_counter tir_lds_counter(const struct tir_machine *m)
{
    return m->counters[TIR_COUNTER_DS] ? TIR_COUNTER_DS : TIR_COUNTER_LGKM;
}

/** Returns the tensor data mover's copy from memory to LDS, or NULL. */
static inline const struct tir_copy *tir_tensor_copy(const struct tir_machine *m)
{
    return tir_find_copy(m, TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, true);
}

/** Returns the transposing read of LDS of `bytes` bytes a lane (0: any) for elements of
 * `element_bits`, or NULL. */
static inline const struct tir_copy *tir_transposing_read(const struct tir_machine *m,
                                                          unsigned bytes, unsigned element_bits)
{
    return tir_find_copy(m, TIR_IN_LDS, TIR_IN_REGISTERS, bytes, element_bits, false);
}

#endif
