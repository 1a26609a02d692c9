/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the GPUs that attnc compiles for. One const struct per gfx, made of its file in
 * targets/facts/, which has the source of each number beside it. Everybody asks for a capability or
 * a number; nobody asks which gfx it is.
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
    double value, low, high; /* the range that sources leave */
    enum tgt_tag tag;
};

struct tgt {
    struct tir_machine machine; /* .name is LLVM's name of the CPU and that of a description */
    const char *product;        /* for people: "MI300X" */

    /* One compute unit. */
    unsigned simds;        /* SIMDs of a CU */
    unsigned wave_slots;   /* waves a SIMD can hold */
    unsigned vgpr_granule; /* VGPR + AGPR are allocated in this many */
    unsigned max_vgprs;    /* VGPR + AGPR that one wave can address */
    unsigned max_waves;    /* waves of a workgroup */
    unsigned code_bytes;   /* instruction cache, shared by two CUs */

    /* The whole part. */
    unsigned xcds;
    unsigned clock_mhz;    /* peak engine clock */
    unsigned l2_bytes;     /* one XCD's */
    unsigned hbm_gb_per_s; /* peak, 10^9 bytes a second */

    /* Matrix pipe. */
    unsigned bf16_flop_per_clk; /* dense, one SIMD, a multiply-add counts 2 */
    bool pk_f32_stalls_mfma;    /* v_pk_*_f32 cannot issue under a running MFMA */

    const struct tgt_parameter *parameters; /* a row without a name ends them */
};

/** Every target, in the order of targets.def; NULL at the end. */
extern const struct tgt *const tgt_all[];

/** The target of this name ("gfx942"), or NULL. */
const struct tgt *tgt_find(const char *name);

/**
 * Waves that a SIMD holds at once when every wave takes `vgprs` registers (VGPR + AGPR) and a
 * workgroup has `waves` waves and `lds_bytes` of LDS. 0 when not even one workgroup fits.
 */
unsigned tgt_occupancy(const struct tgt *t, unsigned vgprs, unsigned lds_bytes, unsigned waves);

#endif
