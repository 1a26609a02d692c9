/* SPDX-License-Identifier: Apache-2.0 */
#include "gfx_part.h"

#include <string.h>

#include "code_object.h"

/* Facts of each target's first part, from targets/facts. */
enum {
#include "gfx_facts.inc"
};

const struct gfx_part gfx_parts[PARTS] = {
#define PART(name, target, product, cus, xcds, mhz, gib, hbm_mhz, peak, seen, law, low, high) \
    {#name, target, product, cus, xcds, mhz, gib, hbm_mhz, peak, seen, law, low, high},
#include "gfx_parts.def"
};

const struct gfx_part *gfx_part_of(enum gfx_target target)
{
    for (unsigned i = 0; i < PARTS; i++)
        if (gfx_parts[i].target == target)
            return &gfx_parts[i];
    return NULL;
}

const struct gfx_part *gfx_part_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < PARTS; i++) {
        const struct gfx_part *part = &gfx_parts[i];
        const char *gfx = gfx_name(part->target);
        if ((strlen(part->name) == length && memcmp(part->name, name, length) == 0) ||
            (strlen(gfx) == length && memcmp(gfx, name, length) == 0))
            return part;
    }
    return NULL;
}
