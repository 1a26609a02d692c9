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
 */
struct tir_mma {
    const char *name;      /* mnemonic without v_ */
    const char *intrinsic; /* LLVM's name */
    uint16_t m, n, k;
    bool by_k;                   /* twice the rate, for those who can give it so much k at once */
    uint8_t in_dtype, acc_dtype; /* enum tir_dtype */
    uint8_t cycles;              /* the matrix pipe is taken for so many clocks */
    uint8_t shadow_slots;        /* 4-clock slots of other instructions that fit under it: DUTY */
    struct tir_layout a, b, d;
};

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
    bool has_cvt_scale;        /* v_cvt_scalef32_pk_bf16_fp8 and its like */
    uint8_t exp_slots;         /* 4-clock slots of one transcendental */
    uint8_t swap_slots;        /* 4-clock slots of one v_permlane*_swap */
    bool fp8_is_fnuz;
};

/** First row of the machine's table with this shape and input dtype (k = 0: any that is not found
 * by its k alone), or -1. */
int tir_find_mma(const struct tir_machine *m, unsigned rows, unsigned cols, unsigned k,
                 unsigned in_dtype);

/** Index of the row with this mnemonic, or -1. */
int tir_find_mma_name(const struct tir_machine *m, const char *name);

#endif
