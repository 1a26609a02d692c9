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
 * One matrix instruction, D[m x n] = A[m x k] . B[k x n] + C. The layouts are of one wave: reg and
 * lane bits only; element (row, col) of a is A[row][col], of b is B[row][col], of d is D[row][col].
 * An operand of e2m1 has bytes for elements, of which each holds two neighbours of k, the even one
 * in its low half: b is then B[k / 2 x n].
 */
struct tir_mma {
    const char *name;      /* mnemonic without v_, and behind a blank the modifiers */
    const char *intrinsic; /* LLVM's name */
    uint16_t m, n, k;
    bool by_k;   /* twice the rate, for those who can give it so much k at once */
    bool scaled; /* for mma_scaled: with a scale for each 32 elements of k */
    uint8_t left_format, right_format;        /* of a scaled one: enum tir_mx */
    uint8_t in_dtype, right_dtype, acc_dtype; /* enum tir_dtype, of A, B, and of C and D */
    uint8_t cycles;                           /* the matrix pipe is taken for so many clocks */
    uint8_t shadow_slots; /* 4-clock slots of other instructions that fit under it: DUTY */
    struct tir_layout a, b, d;
};

/** Formats of a scaled product's operands, as the instruction numbers them. */
enum tir_mx { TIR_MX_E4M3 = 0, TIR_MX_E2M1 = 4 };

enum { TIR_MX_BLOCK = 32 }; /* elements of k that share a scale */

struct tir_machine {
    const char *name; /* gfx942 */
    const struct tir_mma *mma;
    unsigned n_mma; /* ordered: first match wins, larger k first */

    unsigned cus;              /* compute units, for workgroups that take turns */
    uint8_t lane_bits;         /* log2 of a wave's lanes */
    uint8_t vm_max, lgkm_max;  /* how many memory, and LDS and scalar, ops a wait can count */
    unsigned lds_bytes;        /* a workgroup's limit */
    unsigned lds_granule;      /* allocation unit */
    unsigned lds_bank_bytes;   /* all banks together: 128 or 256 */
    unsigned vgprs_per_simd;   /* VGPR + AGPR of one wave slot column: 512 */
    unsigned to_lds_max_bytes; /* widest direct-to-LDS load a lane: 4 or 16 */
    bool has_lane_swap;        /* v_permlane{16,32}_swap_b32 */
    bool has_lds_read_tr;      /* ds_read_b64_tr_b16 and _b8 */
    bool has_cvt_pk_bf16;      /* v_cvt_pk_bf16_f32 */
    bool has_dot_bf16;         /* v_dot2_f32_bf16 */
    bool has_pk_max3;          /* v_pk_maximum3_f16 */
    bool has_cvt_scale;        /* v_cvt_scalef32_pk_bf16_fp8 and its like */
    uint8_t exp_slots;         /* 4-clock slots of one transcendental */
    uint8_t swap_slots;        /* 4-clock slots of one v_permlane*_swap */
    bool fp8_is_fnuz;
};

/** First row of the machine's table with this shape and input dtype (k = 0: any that is not found
 * by its k alone), or -1. A scaled product is none of them. */
int tir_find_mma(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned k,
                 unsigned in_dtype);

/** The row of a scaled product of these formats (enum tir_mx), or -1. */
int tir_find_mma_scaled(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned left,
                        unsigned right);

/** Index of the row with this name, or -1. */
int tir_find_mma_name(const struct tir_machine *m, const char *name);

#endif
