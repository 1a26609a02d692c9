/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the GPUs that attnc compiles for: one const struct per gfx, made from its file in
 * targets/facts/, which names the source of each number. Code tests capabilities and numbers and
 * never the name of a gfx.
 */
#ifndef TARGETS_TGT_H
#define TARGETS_TGT_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/machine.h"

/* The origin of a number: documented, measured on hardware by its source, fitted by us,
 * unresolved. */
enum tgt_tag { TGT_TAG_D, TGT_TAG_M, TGT_TAG_F, TGT_TAG_U };

/** A parameter of the timing model: a row P of targets/facts/. */
struct tgt_parameter {
    const char *name;
    double value, low, high; /* value in use; the sources leave the range low to high open */
    enum tgt_tag tag;
};

struct tgt {
    struct tir_machine machine; /* .name is the name in LLVM and in descriptions */
    const char *product;        /* marketing name, "MI300X" */

    /* One compute unit. */
    unsigned simds;        /* SIMDs per CU */
    unsigned wave_slots;   /* waves that a SIMD can hold */
    unsigned vgpr_granule; /* VGPRs and AGPRs together are allocated in multiples of this number */
    unsigned lds_bytes;    /* LDS; machine.lds_bytes is a workgroup's limit */
    unsigned max_waves;    /* waves per workgroup */
    unsigned most_spills;  /* most VGPRs that a kernel may spill */
    bool has_agprs;        /* true: a wave has accumulation registers beside its VGPRs */
    unsigned code_bytes;   /* bytes of the instruction cache that two CUs share */

    /* The whole GPU. */
    unsigned xcds;
    unsigned clock_mhz;    /* peak engine clock */
    unsigned l2_bytes;     /* per XCD */
    unsigned hbm_gb_per_s; /* peak, 10^9 bytes a second */

    /* Matrix pipe. */
    unsigned bf16_flop_per_clk; /* dense, per SIMD; a multiply-add counts 2 */
    bool pk_f32_stalls_mfma;    /* v_pk_*_f32 cannot issue under a running MFMA */
    unsigned gap_clocks; /* clocks of a WMMA for each vector instruction that code must have between
                            it and a use of its registers; 0: the hardware waits */
    unsigned factor_gap; /* vector instructions beyond these before a WMMA that multiplies the
                            result */

    const struct tgt_parameter *parameters; /* ends with a row without a name */
};

/** Every target, in the order of targets.def; NULL at the end. */
extern const struct tgt *const tgt_all[];

/** Returns the target of this name ("gfx942"), or NULL. */
const struct tgt *tgt_find(const char *name);

/**
 * Returns the waves that a SIMD holds at once, 0 if not even one workgroup fits.
 *
 * Every wave uses `vgprs` registers (VGPR + AGPR). A workgroup has `waves` waves and `lds_bytes` of
 * LDS.
 */
unsigned tgt_occupancy(const struct tgt *t, unsigned vgprs, unsigned lds_bytes, unsigned waves);

#endif
