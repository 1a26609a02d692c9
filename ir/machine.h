/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the machine, all that the tile IR knows about a target: matrix instructions as
 * layouts, capabilities, and the issue rules that the scheduler and the simulator share. targets/
 * fills it; ir/ never asks which gfx it is.
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
    const char *intrinsic; /* LLVM's name */
    uint16_t m, n, k;
    bool by_k;                         /* twice the rate, with a k twice as large */
    bool scaled;                       /* for mma_scaled: has a scale for each 32 elements of k */
    uint8_t left_format, right_format; /* of a scaled product: enum tir_mx */
    uint8_t in_dtype, right_dtype, acc_dtype; /* enum tir_dtype, of A, B, and of C and D */
    uint8_t cycles;                           /* clocks for which it occupies the matrix pipe */
    uint8_t shadow_slots; /* 4-clock slots of other instructions that fit under it: DUTY */
    struct tir_layout a, b, d;
};

/** Formats of a scaled product's operands, numbered as in the instruction. */
enum tir_mx { TIR_MX_E4M3 = 0, TIR_MX_E2M1 = 4 };

enum { TIR_MX_BLOCK = 32 }; /* elements of k that share a scale */

/** A fitted knob: a number of a kernel's schedule that no rule finds. Kernels NULL ends a list.
 * The first row that names a kernel's knob gives it its value. */
struct tir_fitted {
    const char *kernels;   /* the op, then words NAME=VALUE|VALUE that a kernel's tile or key has */
    const char *knob;      /* a member of its tile */
    int value;             /* 0 and more */
    float gain, low, high; /* % of the modelled launch time against the rule: at the middle of the
                              timing model's open parameters, and from corner to corner */
};

struct tir_machine {
    const char *name;                /* gfx942 */
    const struct tir_fitted *fitted; /* rows of targets/tuning/; NULL: none */
    const struct tir_mma *mma;
    unsigned n_mma; /* ordered: first match wins, larger k first */

    unsigned cus;             /* compute units, the size of a persistent grid */
    uint8_t lane_bits;        /* log2 of a wave's lanes */
    uint8_t vm_max, lgkm_max; /* the most vector memory ops, and LDS and scalar ops, that a wait
                                  can count */
    bool copies_apart;    /* copies to LDS have a counter of their own, and vm_max is its limit */
    unsigned lds_bytes;   /* limit of a workgroup */
    unsigned lds_granule; /* allocation unit */
    unsigned lds_bank_bytes;    /* bytes of all banks together: 128 or 256 */
    unsigned lds_segment_bytes; /* bytes of an LDS segment: two pairs of SIMDs read at the same time
                                   from two segments only. LDS that is one memory is one segment */
    unsigned vgprs_per_simd;    /* VGPRs and AGPRs per lane of a SIMD */
    unsigned wave_vgprs;        /* most VGPRs and AGPRs per lane that a wave can address */
    unsigned to_lds_max_bytes;  /* widest copy to LDS of a lane: 4 or 16 bytes */
    bool has_tensor_mover;      /* tensor_load_to_lds, whose counter has the limit vm_max */
    bool has_lane_swap;         /* v_permlane{16,32}_swap_b32 */
    bool has_lds_read_tr;       /* ds_read_b64_tr_b16 and _b8 */
    bool has_lds_read_tr16;     /* ds_load_tr16_b128 */
    bool has_cvt_pk_bf16;       /* v_cvt_pk_bf16_f32 */
    bool has_dot_bf16;          /* v_dot2_f32_bf16 */
    bool has_pk_max3;           /* v_pk_maximum3_f16 */
    bool has_cvt_scale;         /* v_cvt_scalef32_pk_bf16_fp8 and its like */
    uint8_t exp_slots;          /* 4-clock issue slots of one transcendental */
    uint8_t swap_slots;         /* 4-clock issue slots of one v_permlane*_swap */
    bool fp8_is_fnuz;
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

#endif
