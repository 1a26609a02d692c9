/* SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"

#include "decode_fields.h"

enum {
#include "gfx_facts.inc"
};

/* Largest values of GFX9's counters, of 6, 4 and 3 bits (CDNA3 ISA, S_WAITCNT). */
static const uint8_t gfx9_counters[WAIT_COUNTERS] = {
    [WAIT_VM] = 63,
    [WAIT_LGKM] = 15,
    [WAIT_EXP] = 7,
};

/* Clocks in which LDS transfers the data of a wave, by dwords per lane: one per phase of the
 * access. gfx942 has 32 banks and serves 128 bytes per clock. gfx950 has 64 banks and serves 256,
 * except three dwords, which need 8 phases of 32 banks (SHARK, empirical-lds; GLUON,
 * lds_throughput). The phases of three dwords on gfx942 are unpublished; 128 bytes per clock are
 * assumed. */
static const uint8_t gfx942_phases[5] = {0, 2, 4, 6, 8}, gfx950_phases[5] = {0, 1, 2, 8, 4};

/* Largest values of gfx1250's counters (CDNA5 ISA, 5.7.1). */
static const uint8_t gfx1250_counters[WAIT_COUNTERS] = {
    [WAIT_VM] = 63, [WAIT_LGKM] = 63,  [WAIT_STORE] = 63,
    [WAIT_KM] = 31, [WAIT_ASYNC] = 63, [WAIT_TENSOR] = 63,
};

/* Largest values of gfx1201's counters (RDNA4 ISA, 5.7.1). SAMPLEcnt and BVHcnt are absent: hipsim
 * executes no image and ray instructions. */
static const uint8_t gfx1201_counters[WAIT_COUNTERS] = {
    [WAIT_VM] = 63, [WAIT_LGKM] = 63, [WAIT_EXP] = 7, [WAIT_STORE] = 63, [WAIT_KM] = 31,
};

/* Clocks in which LDS transfers the data of a wave of 32 lanes, by dwords per lane, at 128 bytes
 * per clock. */
static const uint8_t gfx1201_phases[5] = {0, 1, 2, 3, 4};

/* Instructions that LLVM assembles for gfx1201 although RDNA4 reserves their opcodes (RDNA4 ISA,
 * tables 79 and 83). */
static const char *const gfx1201_lacks[] = {
    "s_barrier_init", "s_barrier_join", "s_barrier_leave", "s_ttracedata", NULL,
};

/* Checks of GFX12: all but `stale` and `fence`, whose rules are for GFX9's caches, and `hint`. */
#define GFX12_CHECKS                                                                        \
    (CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT | CHECK_WAIT | CHECK_HAZARD | CHECK_STRICT | \
     CHECK_RACE | CHECK_BARRIER | CHECK_DIVERGE)

/* Members of a row that follow from the target's number and from targets/facts. */
#define FACTS(number)                                                               \
    .target = GFX##number, .name = "gfx" #number, .version = (number),              \
    .lanes = 1 << GFX##number##_lane_bits, .wave_slots = GFX##number##_wave_slots,  \
    .vgprs = GFX##number##_vgprs, .vgpr_granule = GFX##number##_vgpr_granule,       \
    .lds_bytes = GFX##number##_lds_bytes, .lds_granule = GFX##number##_lds_granule, \
    .lds_group = GFX##number##_group_lds_bytes, .l2_bytes = GFX##number##_l2_bytes

/* Members that gfx942 and gfx950 have in common. */
#define CDNA                                                                                 \
    .brand = "AMD Instinct", .features = ":sramecc+:xnack-", .groups = 16, .user_sgprs = 16, \
    .whole_loads = true, .bus_bits = 8192, .checks = CHECK_ALL | CHECK_HINT,                 \
    .counter_max = gfx9_counters, .fields = decode_fields

const struct isa isas[ISAS] = {
    {
        FACTS(942),
        CDNA,
        .capability = 94,
        .machine = 0x04c,
        .lds_clocks = gfx942_phases,
    },
    {
        FACTS(950),
        CDNA,
        .capability = 95,
        .machine = 0x04f,
        .lds_clocks = gfx950_phases,
    },
    {
        FACTS(1250),
        .brand = "AMD Instinct",
        .features = "",
        .gfx12 = true,
        .capability = 125,
        .groups = 32,
        .user_sgprs = 32,
        .machine = 0x049,
        .vgpr_unit = 16,
        .lds_clocks = gfx950_phases, /* assumed to be gfx950's */
        .lds_phase_bytes = 256,
        .whole_loads = true,
        .bus_bits = 24576,
        .wide_buffers = true,
        .upper_vgprs = true,
        .clusters = true,
        .checks = GFX12_CHECKS,
        .counter_max = gfx1250_counters,
        .wmma_hazards = HAZARDS_COEXECUTION,
        .fields = decode_fields_gfx12,
        .complete = decode_complete_gfx1250,
    },
    {
        FACTS(1201),
        .gfx12 = true,
        .inherits = GFX1250,
        .lacks = gfx1201_lacks,
        .wmma_hazards = HAZARDS_FACTORS,
        .brand = "AMD Radeon",
        .features = "",
        .machine = 0x04e,
        .capability = 120,
        .groups = 32,
        .user_sgprs = 16,
        .vgpr_unit = 8,
        .lds_clocks = gfx1201_phases,
        .lds_phase_bytes = 128,
        .bus_bits = 256,
        .checks = GFX12_CHECKS,
        .counter_max = gfx1201_counters,
        .fields = decode_fields_gfx12,
    },
};

const struct isa *isa_of(enum gfx_target target)
{
    unsigned i = 0;
    while (isas[i].target != target)
        i++;
    return &isas[i];
}
