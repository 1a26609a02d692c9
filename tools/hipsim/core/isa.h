/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated instruction set architectures: what differs between them, as data. */
#ifndef HIPSIM_ISA_H
#define HIPSIM_ISA_H

#include "wave.h"

/* Dependences of WMMA and transcendentals that the hardware does not detect (check_coexec.h). */
enum wmma_hazards {
    HAZARDS_COEXECUTION = 1, /* all of them, since other vector instructions execute beside WMMA */
    HAZARDS_FACTORS,         /* only a WMMA's A, B or index that is the previous WMMA's result */
};

struct isa {
    enum gfx_target target;
    /* true: GFX12's formats, counters and launch state; false: GFX9's */
    bool gfx12;
    /* bits of targets; their op rows are used for names that have no row of this target; gfx12
     * only */
    unsigned inherits;
    /* mnemonics of inherited rows that the target lacks, up to a NULL; NULL: none */
    const char *const *lacks;
    enum wmma_hazards wmma_hazards; /* 0: the rules of MFMA apply */
    const char *name;               /* processor name, such as "gfx942" */
    const char *brand;              /* words before the product in the device's name */
    const char *features;           /* part of gcnArchName after `name`: ":sramecc+:xnack-" or "" */
    uint8_t machine;                /* value of EF_AMDGPU_MACH in the ELF header */
    uint16_t version;               /* value of hipDeviceAttributeGcnArch */
    uint16_t capability;            /* compute capability: 10 * major + minor */
    uint8_t lanes;                  /* lanes of a wave */
    uint8_t wave_slots;             /* waves that a SIMD can hold; a compute unit has 4 SIMDs */
    uint8_t groups;       /* most workgroups of several waves that a compute unit can hold */
    uint8_t user_sgprs;   /* most user SGPRs of a kernel */
    uint16_t vgprs;       /* VGPRs per lane of a SIMD, AGPRs included */
    uint8_t vgpr_granule; /* VGPRs are allocated in multiples of this number */
    /* VGPRs per unit of the count in the kernel descriptor; gfx12 only */
    uint8_t vgpr_unit;
    uint32_t lds_bytes;        /* bytes of LDS in a compute unit */
    uint32_t lds_group;        /* most bytes of LDS that one workgroup may use */
    uint32_t lds_granule;      /* unit of allocations of LDS, in bytes */
    const uint8_t *lds_clocks; /* clocks in which LDS transfers a wave's data, by dwords per lane */
    /* bytes of neighbouring lanes that LDS serves in a phase; gfx12 only */
    uint16_t lds_phase_bytes;
    uint32_t l2_bytes;
    /* true: loads of 16 bits write zeros to the register's other half, as on chips with ECC; false:
     * they keep it */
    bool whole_loads;
    uint32_t bus_bits; /* bits of the memory bus, as HIP reports them */
    bool wide_buffers; /* true: buffer resources have gfx1250's fields */
    /* true: 1,024 VGPRs, and flat addresses of private memory contain the lane */
    bool upper_vgprs;
    bool clusters;              /* true: launches may have clusters of workgroups */
    uint32_t checks;            /* checks that have rules for this target (enum check_bits) */
    const uint8_t *counter_max; /* largest value of each counter, by enum wait_counter */
    /* sets the operands of a decoded instruction, see decode_fields.h */
    bool (*fields)(struct inst *in);
    /* Sets unused bits in the INST_MAX_DWORDS dwords of an instruction as LLVM's disassembler
     * requires them. NULL: it accepts what every assembler emits. */
    void (*complete)(uint32_t *w);
};

/* Indices of `isas`, in the order of targets/targets.def. */
enum {
#include "gfx_isas.inc"
    ISAS
};
extern const struct isa isas[ISAS];

/** Returns the description of a target. */
const struct isa *isa_of(enum gfx_target target);

/** Returns the mask of a whole wave's lanes. */
static inline uint64_t isa_lanes(const struct isa *isa)
{
    return isa->lanes == 64 ? UINT64_MAX : UINT32_MAX;
}

#endif
