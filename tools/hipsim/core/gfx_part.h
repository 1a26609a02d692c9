/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU models ("parts") that can be simulated, by name. gfx_parts.def has the table and the
 * sources. */
#ifndef HIPSIM_GFX_PART_H
#define HIPSIM_GFX_PART_H

#include "wave.h"

struct gfx_part {
    const char *name; /* name of the part, a value of option `target` */
    enum gfx_target target;
    const char *product;
    unsigned compute_units, xcds;
    unsigned mhz, hbm_gib, hbm_mhz;
    double hbm_peak_gb_per_s, hbm_gb_per_s; /* GB/s of the data sheet; GB/s that kernels attain */
    /* clock under the power law as a multiple of the target's first part's, and the range of that
     * multiple; see gfx_parts.def */
    double law, law_low, law_high;
};

enum {
#define PART(name, ...) PART_##name,
#include "gfx_parts.def"
    PARTS
};

extern const struct gfx_part gfx_parts[PARTS];

/** Returns the part named `name`, of `length` bytes. A target's name means its first part: gfx942
 * is MI300X, gfx950 is MI355X. NULL if there is none. */
const struct gfx_part *gfx_part_find(const char *name, size_t length);

/** Returns the first part of a target. */
const struct gfx_part *gfx_part_of(enum gfx_target target);

#endif
