/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the GPUs that attnc compiles for. Each target has one const struct, made from its
 * file in targets/facts/, which names the source of each number. Code tests these capabilities and
 * numbers, never the name of a target.
 */
#ifndef TARGETS_TGT_H
#define TARGETS_TGT_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/machine.h"

/* The origin of a number: D, documented by AMD; M, measured on hardware by the named source; F,
 * fitted by this project; U, unresolved. */
enum tgt_tag { TGT_TAG_D, TGT_TAG_M, TGT_TAG_F, TGT_TAG_U };

/** A parameter of hipsim's timing model: a row P of a file in targets/facts/. */
struct tgt_parameter {
    const char *name;
    double value, low, high; /* the value in use; bounds of the values that the sources allow */
    enum tgt_tag tag;
};

/** A GPU that attnc compiles for. */
struct tgt {
    /* facts that ir/ and templates/ use; .name is the name in LLVM and in descriptions */
    struct tir_machine machine;
    const char *product; /* name of the first GPU of this target, such as "MI300X" */

    /* Members up to code_bytes describe one compute unit. */
    unsigned simds;      /* number of SIMDs */
    unsigned wave_slots; /* most waves that a SIMD holds at once */
    /* unit of allocation: a lane's VGPRs and AGPRs together are a multiple of this number of
     * registers */
    unsigned vgpr_granule;
    unsigned lds_bytes;   /* bytes of LDS of a CU; machine.lds_bytes is the limit of a workgroup */
    unsigned max_waves;   /* most waves of a workgroup */
    unsigned most_spills; /* most VGPRs that a kernel may spill */
    bool has_agprs;       /* true: a wave has accumulation registers beside its VGPRs */
    unsigned code_bytes;  /* bytes of the instruction cache that two CUs share */

    /* Members up to hbm_gb_per_s describe the whole GPU. */
    unsigned clock_mhz;    /* peak engine clock */
    unsigned l2_bytes;     /* bytes of the L2 cache of an XCD */
    unsigned hbm_gb_per_s; /* peak bandwidth of memory, 10^9 bytes a second */

    /* Members up to factor_gap describe the matrix pipe of a SIMD. */
    /* operations of a SIMD in a clock, dense; a multiply-add counts 2 */
    unsigned bf16_flop_per_clk;
    bool pk_f32_stalls_mfma; /* true: v_pk_*_f32 cannot issue while an MFMA runs */

    /* Code must have a vector instruction for every `gap_clocks` clocks of a WMMA between it and a
     * use of its registers. Before a WMMA that multiplies the result it must have `factor_gap`
     * more. gap_clocks 0: the hardware waits. */
    unsigned gap_clocks;
    unsigned factor_gap;

    const struct tgt_parameter *parameters; /* rows; the last one has no name */
};

/** All targets in the order of targets.def, NULL at the end. */
extern const struct tgt *const tgt_all[];

/** Returns the target of this name ("gfx942"), or NULL. */
const struct tgt *tgt_find(const char *name);

/**
 * Returns the number of waves that a SIMD holds at once; 0 if not even one workgroup fits. A lane
 * has `vgprs` registers (VGPRs and AGPRs). A workgroup has `waves` waves and `lds_bytes` bytes of
 * LDS.
 */
unsigned tgt_occupancy(const struct tgt *t, unsigned vgprs, unsigned lds_bytes, unsigned waves);

#endif
