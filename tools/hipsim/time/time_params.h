/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of the timing model: one table per target, in targets/facts/. A row has a value, a
 * unit, a source and, if sources leave it open, a range. tools/hipsim/docs/timing.md explains the
 * model.
 */
#ifndef HIPSIM_TIME_PARAMS_H
#define HIPSIM_TIME_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "wave.h"

#define P(field, value, unit, tag, low, high, source) double field;
struct time_params {
#include "gfx942.def"
};

/* Number of SIMDs of a compute unit, on every target. */
enum { SIMDS = 4 };

enum time_tag {
    TIME_D, /* a documented value */
    TIME_M, /* a value that its source has measured on hardware */
    TIME_F, /* a value that this project has fitted to published results */
    TIME_U, /* an unresolved value: it may be any in the range */
};

struct time_param_row {
    const char *name;
    const char *unit;
    const char *source;
    double value, low, high;
    enum time_tag tag;
    size_t offset; /* byte offset of the value in struct time_params */
};

/* Returns the rows of a target's table, in its order, and sets *count to their number. */
const struct time_param_row *time_param_rows(enum gfx_target target, size_t *count);

/* Clocks of the matrix instructions whose shape and operand types begin with `shape`. The first
 * such row is the right one. f8f6f4 has half the clocks if both operands are narrower than fp8. */
struct matrix_clocks {
    const char *shape;
    unsigned clocks;
};

/* Returns the clocks of a target's matrix instructions; the last row has no shape. */
const struct matrix_clocks *time_matrix_rows(enum gfx_target target);

/* Returns the values of a target's table. */
struct time_params time_params_default(enum gfx_target target);

/* Returns the number of L2 caches of the device. */
static inline unsigned time_l2s(const struct time_params *p)
{
    return (unsigned)(p->l2_xcds > 1 && p->l2_xcds < p->xcds ? p->xcds / p->l2_xcds
                      : p->l2_xcds > 1                       ? 1
                                                             : p->xcds);
}

struct gfx_part;
/* Returns the values of a part: its target's table with the part's differences applied. */
struct time_params time_params_of_part(const struct gfx_part *part);

/* Sets the parameter with this name. False if there is none, or `value` is not a number >= 0.
 * Values outside the row's range are allowed, for studies. */
bool time_params_set(struct time_params *params, const char *name, double value);

#endif
