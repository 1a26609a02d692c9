/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/stored.h"

#include <math.h>

double stored_value(const struct precision *p, double scale, double x, double arithmetic,
                    double *bound)
{
    const double y = x / scale, limit = p->size == 2 ? INFINITY : p->limit;
    const double stored = copysign(fmin(fabs(y), limit), y);
    const double all = arithmetic / scale + (scale != 1 ? 4 * STORED_F * fabs(stored) : 0);
    *bound = p->size == 2 && all == 0 ? 0 : fmax(p->unit * fabs(stored), p->tiny);
    *bound += (1 + p->unit) * all;
    return stored;
}

double stored_scale(const struct precision *p, uint64_t *random)
{
    const double fraction = (double)(random_bits(random) >> 40) * 0x1p-24;
    return (float)((1 + fraction) / p->limit);
}
