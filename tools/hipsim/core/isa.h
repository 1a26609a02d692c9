/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set architectures that are simulated: what differs between them, as data. */
#ifndef HIPSIM_ISA_H
#define HIPSIM_ISA_H

#include "wave.h"

/* The dependences of WMMA and transcendentals that hardware does not detect (check_coexec.h). */
enum wmma_hazards {
    HAZARDS_COEXECUTION = 1, /* all, since other vector instructions run beside WMMA */
    HAZARDS_FACTORS,         /* only: A, B or index of a WMMA is the previous WMMA's result */
};

struct isa {
    enum gfx_target target;
    bool gfx12;                     /* GFX12's formats, counters and launch state; else GFX9's */
    unsigned inherits;              /* gfx12: targets whose op rows it has; its own replace them */
    const char *const *lacks;       /* mnemonics of inherited rows that the target lacks, up to a
                                       NULL; NULL: it has all */
    enum wmma_hazards wmma_hazards; /* 0: the rules of MFMA apply */
    const char *name;               /* processor name, such as "gfx942" */
    const char *brand;              /* words before the product in the device's name */
    const char *features;      /* what gcnArchName has after `name`: ":sramecc+:xnack-" or "" */
    uint8_t machine;           /* EF_AMDGPU_MACH of the ELF header */
    uint16_t version;          /* hipDeviceAttributeGcnArch */
    uint16_t capability;       /* major * 10 + minor */
    uint8_t lanes;             /* of a wave */
    uint8_t wave_slots;        /* per SIMD; a compute unit has 4 SIMDs */
    uint8_t groups;            /* the most workgroups of several waves on a compute unit */
    uint8_t user_sgprs;        /* the most user SGPRs of a kernel */
    uint16_t vgprs;            /* per lane of a SIMD, AGPRs included */
    uint8_t vgpr_granule;      /* VGPRs are allocated in multiples of this number */
    uint8_t vgpr_unit;         /* gfx12: VGPRs per unit of the kernel descriptor's count */
    uint32_t lds_bytes;        /* of a compute unit */
    uint32_t lds_group;        /* part of lds_bytes that one workgroup may use at most */
    uint32_t lds_granule;      /* unit of allocation, bytes */
    const uint8_t *lds_clocks; /* clocks in which LDS transfers a wave's data, by dwords per lane */
    uint16_t lds_phase_bytes;  /* gfx12: bytes of neighbouring lanes in a phase of LDS */
    uint32_t l2_bytes;
    uint32_t bus_bits;          /* of the memory, as HIP reports it */
    bool wide_buffers;          /* buffer resources have gfx1250's fields */
    bool upper_vgprs;           /* 1,024 VGPRs; private memory's flat addresses name the lane */
    bool clusters;              /* launches may have clusters of workgroups */
    uint32_t checks;            /* enum check_bits: checks that know its rules */
    const uint8_t *counter_max; /* largest value of each counter, by enum wait_counter */
    bool (*fields)(struct inst *in); /* reads the operands, see decode_fields.h */
    /* Sets unused bits of an instruction of INST_MAX_DWORDS dwords as LLVM's disassembler requires
     * them; NULL: it accepts what all assemblers emit. */
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

/** Returns the lanes of a whole wave. */
static inline uint64_t isa_lanes(const struct isa *isa)
{
    return isa->lanes == 64 ? UINT64_MAX : UINT32_MAX;
}

#endif
