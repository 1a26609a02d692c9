/* SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"

#include "decode_fields.h"

enum {
#define P(field, value, ...) GFX942_##field = (int)(value),
#define F(field, value, ...) GFX942_##field = (int)(value),
#include "gfx942.def"
#define P(field, value, ...) GFX950_##field = (int)(value),
#define F(field, value, ...) GFX950_##field = (int)(value),
#include "gfx950.def"
#define P(field, value, ...) GFX1250_##field = (int)(value),
#define F(field, value, ...) GFX1250_##field = (int)(value),
#include "gfx1250.def"
};

/* 6, 4 and 3 bits (CDNA3 ISA, S_WAITCNT). */
static const uint8_t gfx9_counters[WAIT_COUNTERS] = {
    [WAIT_VM] = 63,
    [WAIT_LGKM] = 15,
    [WAIT_EXP] = 7,
};

/* CDNA5 ISA, 5.7.1. */
static const uint8_t gfx1250_counters[WAIT_COUNTERS] = {
    [WAIT_VM] = 63, [WAIT_LGKM] = 63,  [WAIT_STORE] = 63,
    [WAIT_KM] = 31, [WAIT_ASYNC] = 63, [WAIT_TENSOR] = 63,
};

static const struct isa isas[] = {
    {
        .target = GFX942,
        .name = "gfx942",
        .features = ":sramecc+:xnack-",
        .version = 942,
        .capability = 94,
        .lanes = 1 << GFX942_lane_bits,
        .wave_slots = GFX942_wave_slots,
        .groups = 16,
        .user_sgprs = 16,
        .vgprs = GFX942_vgprs,
        .vgpr_granule = GFX942_vgpr_granule,
        .lds_bytes = GFX942_lds_bytes,
        .lds_granule = GFX942_lds_granule,
        .l2_bytes = GFX942_l2_bytes,
        .bus_bits = 8192,
        .checks = CHECK_ALL | CHECK_HINT,
        .counter_max = gfx9_counters,
        .fields = decode_fields,
    },
    {
        .target = GFX950,
        .name = "gfx950",
        .features = ":sramecc+:xnack-",
        .version = 950,
        .capability = 95,
        .lanes = 1 << GFX950_lane_bits,
        .wave_slots = GFX950_wave_slots,
        .groups = 16,
        .user_sgprs = 16,
        .vgprs = GFX950_vgprs,
        .vgpr_granule = GFX950_vgpr_granule,
        .lds_bytes = GFX950_lds_bytes,
        .lds_granule = GFX950_lds_granule,
        .l2_bytes = GFX950_l2_bytes,
        .bus_bits = 8192,
        .checks = CHECK_ALL | CHECK_HINT,
        .counter_max = gfx9_counters,
        .fields = decode_fields,
    },
    {
        .target = GFX1250,
        .name = "gfx1250",
        .features = "",
        .version = 1250,
        .capability = 125,
        .lanes = 1 << GFX1250_lane_bits,
        .wave_slots = GFX1250_wave_slots,
        .groups = 32,
        .user_sgprs = 32,
        .vgprs = GFX1250_vgprs,
        .vgpr_granule = GFX1250_vgpr_granule,
        .lds_bytes = GFX1250_lds_bytes,
        .lds_granule = GFX1250_lds_granule,
        .l2_bytes = GFX1250_l2_bytes,
        .bus_bits = 24576,
        .clusters = true,
        /* Left out: `stale` and `fence`, which have the rules of gfx9's caches, and `hint`. */
        .checks = CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT | CHECK_WAIT | CHECK_HAZARD |
                  CHECK_STRICT | CHECK_RACE | CHECK_BARRIER | CHECK_DIVERGE,
        .counter_max = gfx1250_counters,
        .fields = decode_fields_gfx1250,
        .complete = decode_complete_gfx1250,
    },
};

const struct isa *isa_of(enum gfx_target target)
{
    return &isas[target == GFX1250 ? 2 : target == GFX950];
}
