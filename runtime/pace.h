/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the time of waves or workgroups that share compute units. Functions that choose
 * launches use it. The unit of time is the caller's. */
#ifndef ATTN_PACE_H
#define ATTN_PACE_H

#include <stdint.h>

#include "runtime/fill.h"

/* The time of a step of a wave or workgroup, which depends on the number of waves or workgroups on
 * its compute unit. */
struct attn_pace {
    int alone;   /* time if it is the only wave or workgroup on the compute unit */
    int another; /* time that each further wave or workgroup on the compute unit adds */
};

/* Returns the time in which `all` waves or workgroups do a step each on `units` compute units. A
 * compute unit runs at most `places` of them at once, and the others in further rounds. */
static inline int64_t attn_pace_time(const struct attn_pace *p, int64_t all, int64_t units,
                                     int64_t places)
{
    const int64_t each = attn_parts(all, units), rest = each % places;
    const int64_t rounds = each / places * (p->alone + (places - 1) * p->another);
    return rounds + (rest ? p->alone + (rest - 1) * p->another : 0);
}

#endif
