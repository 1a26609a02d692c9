/* SPDX-License-Identifier: Apache-2.0 */
/* Model of the time of waves or workgroups that share compute units, for functions that choose
 * launches. The unit of time is the caller's. */
#ifndef ATTN_PACE_H
#define ATTN_PACE_H

#include <stdint.h>

/* The time of a step of a wave or workgroup. */
struct attn_pace {
    int alone;   /* time of a step for the first wave or workgroup on a compute unit */
    int another; /* time that each further one on that compute unit adds */
};

/* Returns a / b, rounded up. */
static inline int64_t attn_ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Returns the time of a step of `all` waves or workgroups on `units` compute units. A compute unit
 * runs `places` of them at once, and the others in further rounds. */
static inline int64_t attn_pace_time(const struct attn_pace *p, int64_t all, int64_t units,
                                     int64_t places)
{
    const int64_t each = attn_ceiling(all, units), rest = each % places;
    const int64_t rounds = each / places * (p->alone + (places - 1) * p->another);
    return rounds + (rest ? p->alone + (rest - 1) * p->another : 0);
}

#endif
