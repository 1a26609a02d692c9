/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of targets, and the occupancy that follows from a target's facts.
 */
#include "targets/tgt.h"

#include <stddef.h>
#include <string.h>

#define TARGET(name, isa) extern const struct tgt tgt_##name;
#include "targets/targets.def"
#undef TARGET

const struct tgt *const tgt_all[] = {
#define TARGET(name, isa) &tgt_##name,
#include "targets/targets.def"
#undef TARGET
    NULL,
};

const struct tgt *tgt_find(const char *name)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        if (strcmp((*t)->machine.name, name) == 0)
            return *t;
    }
    return NULL;
}

/* Rounds `n` up to a multiple of `granule`. */
static unsigned round_up(unsigned n, unsigned granule)
{
    return (n + granule - 1) / granule * granule;
}

unsigned tgt_occupancy(const struct tgt *t, unsigned vgprs, unsigned lds_bytes, unsigned waves)
{
    if (waves == 0 || waves > t->max_waves || vgprs > t->machine.wave_vgprs)
        return 0;
    if (lds_bytes > t->machine.lds_bytes)
        return 0;

    unsigned per_wave = round_up(vgprs ? vgprs : 1, t->vgpr_granule);
    unsigned per_simd = t->machine.vgprs_per_simd / per_wave;
    if (per_simd > t->wave_slots)
        per_simd = t->wave_slots;

    /* The waves of a workgroup are distributed over the SIMDs. It starts only when all of its waves
     * fit. */
    unsigned waves_a_simd = (waves + t->simds - 1) / t->simds;
    unsigned groups = waves < t->simds ? per_simd * t->simds / waves : per_simd / waves_a_simd;
    if (lds_bytes) {
        unsigned by_lds = t->lds_bytes / round_up(lds_bytes, t->machine.lds_granule);
        if (by_lds < groups)
            groups = by_lds;
    }
    return (groups * waves + t->simds - 1) / t->simds;
}
