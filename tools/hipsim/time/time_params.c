/* SPDX-License-Identifier: Apache-2.0 */
/* Makes C arrays of the parameter tables. */
#include "time_params.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "gfx_part.h"
#include "isa.h"

#define ROW(field, value, unit, tag, low, high, source) \
    {#field, unit, source, value, low, high, TIME_##tag, offsetof(struct time_params, field)},

#define CLOCKS(shape, clocks, tag, source) {#shape, clocks},

enum {
#include "gfx_facts.inc"
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define CHECK_ROWS(gfx, GFX)                                                          \
    static_assert(GFX##_simds == (int)SIMDS, "the model has SIMDS per compute unit"); \
    static_assert(COUNT(gfx##_rows) * sizeof(double) == sizeof(struct time_params),   \
                  "a row for every parameter");
#include "time_rows.inc"

/* The tables of each target, in the order of `isas`. */
static const struct {
    const struct time_param_row *rows;
    const struct matrix_clocks *matrix;
} tables[ISAS] = {
#include "time_tables.inc"
};

/* Returns the index of the target's column in the table. */
static size_t index_of(enum gfx_target target) { return (size_t)(isa_of(target) - isas); }

const struct time_param_row *time_param_rows(enum gfx_target target, size_t *count)
{
    *count = COUNT(gfx942_rows);
    return tables[index_of(target)].rows;
}

const struct matrix_clocks *time_matrix_rows(enum gfx_target target)
{
    return tables[index_of(target)].matrix;
}

/* Returns the address of the row's parameter in *params. */
static double *field(struct time_params *params, const struct time_param_row *row)
{
    return (double *)(void *)((char *)params + row->offset);
}

struct time_params time_params_default(enum gfx_target target)
{
    struct time_params params;
    size_t n;
    const struct time_param_row *rows = time_param_rows(target, &n);
    for (size_t i = 0; i < n; i++)
        *field(&params, &rows[i]) = rows[i].value;
    return params;
}

struct time_params time_params_of_part(const struct gfx_part *part)
{
    struct time_params params = time_params_default(part->target);
    params.cus = part->compute_units;
    params.xcds = part->xcds;
    params.max_mhz = part->mhz;
    params.hbm_peak_gb_per_s = part->hbm_peak_gb_per_s;
    params.hbm_gb_per_s = part->hbm_gb_per_s;
    params.law_mhz *= part->law;
    params.law_slope *= part->law;
    return params;
}

bool time_params_set(struct time_params *params, const char *name, double value)
{
    if (!(value >= 0) || isinf(value))
        return false;
    for (size_t i = 0; i < COUNT(gfx942_rows); i++) {
        if (strcmp(gfx942_rows[i].name, name) != 0)
            continue;
        *field(params, &gfx942_rows[i]) = value;
        return true;
    }
    return false;
}
